"""An inspector behind real HTTP on a loopback port, and a client that has its token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from autonomy_ctx import Memory, Node
from autonomy_ctx.server import inspector_server
from autonomy_ctx.server.common.app import ActiveRequests
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.server.common.listener import run_server

TRIP = {"agent": "helper", "scope": "ana", "conversation": "trip"}
TOKEN = "a-token-for-tests"


def client_of(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=30)


@asynccontextmanager
async def inspected(shown: Memory | Node, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A running inspector."""
    async with inspector_server(shown, token=TOKEN, **options) as address, client_of(address.url) as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client


@asynccontextmanager
async def serving(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An inspector, or an application that has one."""
    requests = getattr(app, "requests", None) or ActiveRequests()
    running = run_server(app, requests, ServerLimits(grace_seconds=0.5), host="127.0.0.1", port=0)
    async with running as port, client_of(f"http://127.0.0.1:{port}") as client:
        client.headers["authorization"] = f"Bearer {TOKEN}"
        yield client
