"""Servers and ASGI applications for a node or a memory; needs `pip install 'autonomy-ctx[server]'`."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported at once: the module `http` would otherwise stand where the function is looked for.
from autonomy_ctx.server.node.http import http

_MODULES = {
    "InspectorAddress": "autonomy_ctx.server.inspector.app",
    "OpenAITenant": "autonomy_ctx.server.openai.endpoint",
    "asgi": "autonomy_ctx.server.tenants.api",
    "inspector_app": "autonomy_ctx.server.inspector.app",
    "inspector_server": "autonomy_ctx.server.inspector.app",
    "openai_app": "autonomy_ctx.server.openai.endpoint",
}

if TYPE_CHECKING:
    from autonomy_ctx.server.inspector.app import InspectorAddress, inspector_app, inspector_server
    from autonomy_ctx.server.openai.endpoint import OpenAITenant, openai_app
    from autonomy_ctx.server.tenants.api import asgi
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES)

__all__ = [
    "InspectorAddress",
    "OpenAITenant",
    "asgi",
    "http",
    "inspector_app",
    "inspector_server",
    "openai_app",
]
