"""Servers and ASGI applications for a node or a memory; needs `pip install 'autonomy-ctx[server]'`."""

from typing import TYPE_CHECKING

from autonomy_ctx._lazy import lazy_names

# Imported at once: the module `http` would otherwise stand where the function is looked for.
from autonomy_ctx.server.node.http import http as http

_NAMES = {
    "autonomy_ctx.server.endpoint.app": "EndpointTenant endpoint_app",
    "autonomy_ctx.server.inspector.app": "InspectorAddress inspector_app inspector_server",
    "autonomy_ctx.server.tenants.api": "asgi",
}
_FORMER_NAMES = {
    "OpenAITenant": "autonomy_ctx.server:EndpointTenant",
    "openai_app": "autonomy_ctx.server:endpoint_app",
}

if TYPE_CHECKING:
    from autonomy_ctx.server.endpoint.app import EndpointTenant as EndpointTenant
    from autonomy_ctx.server.endpoint.app import endpoint_app as endpoint_app
    from autonomy_ctx.server.inspector.app import InspectorAddress as InspectorAddress
    from autonomy_ctx.server.inspector.app import inspector_app as inspector_app
    from autonomy_ctx.server.inspector.app import inspector_server as inspector_server
    from autonomy_ctx.server.tenants.api import asgi as asgi
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, _NAMES, _FORMER_NAMES, at_once=["http"])
