"""A FastAPI application with an assistant for two tenants: `python examples/fastapi_app.py agents.db`."""

import hashlib
import sys
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from fastapi import FastAPI, Request

from autonomy_ctx import Agent, Model, Node
from autonomy_ctx.errors import AccessDenied
from autonomy_ctx.server import asgi

USAGE = """\
python examples/fastapi_app.py agents.db        # 8000 is the port; another can follow, 0 for any free one
URL=http://127.0.0.1:8000/assistant/agents/assistant
ACME="x-api-key: key-of-acme" ZEN="x-api-key: key-of-zen"
curl $URL -H "$ACME" --json '{"message": "Our code word is heron.", "conversation": "ops"}'
curl $URL -H "$ACME" --json '{"message": "What is our code word?", "conversation": "ops"}'
curl "$URL/search?query=heron" -H "$ACME"
curl "$URL/search?query=heron" -H "$ZEN"        # another tenant: nothing
curl http://127.0.0.1:8000/assistant/openapi.json"""

REQUESTS_PER_MINUTE = 60


def hash_key(key: str) -> str:
    """What is kept of a key: whoever reads it cannot send it."""
    return hashlib.sha256(key.encode()).hexdigest()


# An application has these in its database.
TENANTS = {hash_key("key-of-acme"): "acme", hash_key("key-of-zen"): "zen", hash_key("key-of-old"): "old"}
CLOSED_TENANTS = {"old"}


def authenticate(request: Request) -> str | None:
    """The tenant that a request is from; its scope, in all routes."""
    tenant = TENANTS.get(hash_key(request.headers.get("x-api-key", "")))
    if tenant in CLOSED_TENANTS:
        raise AccessDenied("this account is closed")
    return tenant


class RequestLimit:
    """So many requests of a tenant in any minute, in this process."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)

    async def __call__(self, request: Request, scope: str) -> float | None:
        """Count a request, or say how long to wait."""
        now, times = time.monotonic(), self._times[scope]
        while times and times[0] <= now - 60:
            times.popleft()
        if len(times) >= self._requests:
            return times[0] + 60 - now
        times.append(now)
        return None


def make_app(memory: str) -> FastAPI:
    """The application; it opens the node when it starts and closes it when it ends."""
    node = Node(memory=memory)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with node:
            await Agent.start(
                node=node,
                name="assistant",
                instructions="You remember what you are told.",
                description="Answers from what it was told before.",
                model=Model("offline"),
            )
            yield

    app = FastAPI(lifespan=lifespan)

    @app.get("/")
    def index() -> dict[str, str]:
        return {"assistant": "/assistant", "openapi": "/assistant/openapi.json"}

    limit = RequestLimit(REQUESTS_PER_MINUTE)
    app.mount("/assistant", asgi(node, authenticate=authenticate, rate_limit=limit))
    return app


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(USAGE)
    else:
        port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
        uvicorn.run(make_app(f"sqlite:///{sys.argv[1]}"), host="127.0.0.1", port=port)
