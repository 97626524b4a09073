"""The ways into a node from outside; needs the extra: `pip install 'autonomy-ctx[server]'`."""

from autonomy_ctx.server.http import http

__all__ = ["http"]
