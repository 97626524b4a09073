"""The endpoint behind real HTTP, in front of a provider with the rules of today's Claude, and its clients."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anthropic
import httpx
from server.tenants import uvicorn_client

from autonomy_ctx.server import endpoint_app
from autonomy_ctx.server.endpoint.app import EndpointApp
from autonomy_ctx.testing import ProviderServer

MODEL = "claude-opus-5-5"
MESSAGES = "/v1/messages"
KEY = "sk-ant-of-the-client"
Body = dict[str, Any]


@dataclass(frozen=True)
class ClaudeEndpoint:
    """A running endpoint, and the provider behind it."""

    app: EndpointApp
    http: httpx.AsyncClient
    upstream: ProviderServer

    def sdk(self) -> anthropic.AsyncAnthropic:
        """A client of the real SDK, which does not retry."""
        return anthropic.AsyncAnthropic(
            base_url=str(self.http.base_url).rstrip("/"), api_key=KEY, max_retries=0
        )

    async def ask(self, messages: Sequence[Body], *, path: str = MESSAGES, **fields: Any) -> httpx.Response:
        """Post a request; `headers` are those beside the usual ones."""
        headers = fields.pop("headers", {})
        body = {"model": MODEL, "max_tokens": 100, "messages": messages} | fields
        return await self.http.post(path, json=body, headers=headers)

    def sent(self, number: int = -1) -> list[Body]:
        """The messages that upstream was sent."""
        found: list[Body] = self.upstream.requests[number].body["messages"]
        return found

    async def stored(self) -> dict[str, list[str]]:
        """The texts of all conversations."""
        memory, found = self.app.memory, {}
        for one in await memory.conversations("ana"):
            window = await memory.read("ana", one.conversation)
            found[one.conversation] = [entry.message.text for entry in window.entries]
        return found


@asynccontextmanager
async def claude_endpoint(
    upstream: ProviderServer | None = None, **options: Any
) -> AsyncIterator[ClaudeEndpoint]:
    """An endpoint in front of a provider."""
    upstream = upstream or ProviderServer()
    given = {} if "authenticate" in options else {"scope": "ana"}
    app = endpoint_app("http://provider/v1", http_client=upstream.client(), **given | options)
    async with uvicorn_client(app) as client:
        client.headers.update({"x-api-key": KEY, "anthropic-version": "2023-06-01"})
        yield ClaudeEndpoint(app, client, upstream)


def user(*content: Any) -> Body:
    """A message of the user; texts are blocks, one alone is a string."""
    if len(content) == 1 and isinstance(content[0], str):
        return {"role": "user", "content": content[0]}
    return {"role": "user", "content": [text(one) if isinstance(one, str) else one for one in content]}


def text(words: str, **fields: Any) -> Body:
    """A block of text."""
    return {"type": "text", "text": words, **fields}


def result(call_id: str, content: Any = "done", **fields: Any) -> Body:
    """The result of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def call(call_id: str, name: str = "run") -> Body:
    """A call of a tool."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": {"of": call_id}}


def replied(response: httpx.Response) -> Body:
    """An answer as a client sends it back."""
    assert response.status_code == 200, response.text
    return {"role": "assistant", "content": response.json()["content"]}
