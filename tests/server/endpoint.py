"""The endpoint behind real HTTP, with a provider of the tests as upstream, and clients of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import openai
from models.model_server import ModelServer
from models.provider_server import ProviderServer, Step, providing
from server.tenants import uvicorn_client

from autonomy_ctx.server import endpoint_app
from autonomy_ctx.server.endpoint.app import EndpointApp

KEY = "sk-of-the-client"
CHAT = "/v1/chat/completions"
RESPONSES = "/v1/responses"


@dataclass(frozen=True)
class Endpoint:
    """A running endpoint, and the server behind it."""

    app: EndpointApp
    http: httpx.AsyncClient
    upstream: ProviderServer

    def sdk(self, **options: Any) -> openai.AsyncOpenAI:
        """A client of the real SDK, which does not retry unless it is told to."""
        base = str(self.http.base_url).rstrip("/")
        given: dict[str, Any] = {"base_url": f"{base}/v1", "api_key": KEY, "max_retries": 0}
        return openai.AsyncOpenAI(**given | options)

    async def ask(self, *messages: Any, conversation: str | None = None, **fields: Any) -> httpx.Response:
        """A chat completion; texts are messages of the user."""
        said = [user(one) if isinstance(one, str) else one for one in messages]
        headers = {} if conversation is None else {"x-conversation-id": conversation}
        body = {"model": "served", "messages": said} | fields
        return await self.http.post(CHAT, json=body, headers=headers)

    def sent(self, number: int = -1) -> list[Any]:
        """The messages, or the input, that upstream was sent."""
        body = self.upstream.seen[number].body
        sent: list[Any] = body["messages"] if "messages" in body else body["input"]
        return sent

    async def stored(self, scope: str = "ana") -> dict[str, list[str]]:
        """The texts of all conversations of a scope."""
        memory = self.app.memory
        found = {}
        for one in await memory.conversations(scope):
            window = await memory.read(scope, one.conversation)
            found[one.conversation] = [entry.message.text for entry in window.entries]
        return found


@asynccontextmanager
async def endpoint(*script: Step, **options: Any) -> AsyncIterator[Endpoint]:
    """An endpoint in front of a provider that follows a script."""
    async with providing(*script) as upstream, endpoint_before(upstream, **options) as made:
        yield made
        assert upstream.refused == []


@asynccontextmanager
async def endpoint_before(upstream: ModelServer, **options: Any) -> AsyncIterator[Endpoint]:
    """An endpoint in front of a server that runs."""
    given = {} if "authenticate" in options else {"scope": "ana"}
    app = endpoint_app(f"{upstream.url}/v1", **given | options)
    async with uvicorn_client(app) as client:
        client.headers["authorization"] = f"Bearer {KEY}"
        yield Endpoint(app, client, upstream)  # type: ignore[arg-type]


def user(text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    """An answer as a client has it."""
    return {"role": "assistant", "content": text}


def answer_of(response: httpx.Response) -> str:
    """The text of a whole answer."""
    assert response.status_code == 200, response.text
    text: str = response.json()["choices"][0]["message"]["content"]
    return text


def error_of(response: httpx.Response) -> tuple[int, str | None]:
    """The status and code of an error in the API's own shape."""
    body = response.json()
    assert list(body) == ["error"]
    assert set(body["error"]) == {"message", "type", "param", "code"}
    return response.status_code, body["error"]["code"]
