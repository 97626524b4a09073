"""Servers and ASGI applications for a node or a memory; needs `pip install 'autonomy-ctx[server]'`."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported at once: the module `http` would otherwise stand where the function is looked for.
from autonomy_ctx.server.http import http

_MODULES = {
    "InspectorAddress": "autonomy_ctx.server.inspector",
    "OpenAITenant": "autonomy_ctx.server.openai_endpoint",
    "asgi": "autonomy_ctx.server.tenant_api",
    "inspector_app": "autonomy_ctx.server.inspector",
    "inspector_server": "autonomy_ctx.server.inspector",
    "openai_app": "autonomy_ctx.server.openai_endpoint",
}

if TYPE_CHECKING:
    from autonomy_ctx.server.inspector import InspectorAddress, inspector_app, inspector_server
    from autonomy_ctx.server.openai_endpoint import OpenAITenant, openai_app
    from autonomy_ctx.server.tenant_api import asgi
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
