"""Servers and ASGI applications for a node or a memory; needs `pip install 'autonomy-ctx[server]'`."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported at once: the module `http` would otherwise stand where the function is looked for.
from autonomy_ctx.server.node.http import http

_MODULES = {
    "InspectorAddress": "autonomy_ctx.server.inspector.app",
    "EndpointTenant": "autonomy_ctx.server.endpoint.app",
    "asgi": "autonomy_ctx.server.tenants.api",
    "inspector_app": "autonomy_ctx.server.inspector.app",
    "inspector_server": "autonomy_ctx.server.inspector.app",
    "endpoint_app": "autonomy_ctx.server.endpoint.app",
}
_FORMER_NAMES = {
    "OpenAITenant": "autonomy_ctx.server:EndpointTenant",
    "openai_app": "autonomy_ctx.server:endpoint_app",
}

if TYPE_CHECKING:
    from autonomy_ctx.server.endpoint.app import EndpointTenant, endpoint_app
    from autonomy_ctx.server.inspector.app import InspectorAddress, inspector_app, inspector_server
    from autonomy_ctx.server.tenants.api import asgi
else:
    __getattr__, __dir__ = lazy_names(__name__, _MODULES, _FORMER_NAMES)

__all__ = [
    "EndpointTenant",
    "InspectorAddress",
    "asgi",
    "endpoint_app",
    "http",
    "inspector_app",
    "inspector_server",
]
