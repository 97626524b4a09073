"""Requests to a `ProviderServer` as they go over the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from autonomy_ctx.testing import ProviderServer

CLAUDE = "claude-opus-5-5"
Body = dict[str, Any]


async def post(
    server: ProviderServer, path: str, body: Mapping[str, Any], *, betas: Sequence[str] = ()
) -> httpx.Response:
    async with server.client() as client:
        headers = {"anthropic-beta": ",".join(betas)}
        return await client.post(f"http://provider{path}", json=body, headers=headers)


async def ask_claude(
    server: ProviderServer,
    messages: Sequence[Mapping[str, Any]],
    *,
    model: str = CLAUDE,
    betas: Sequence[str] = (),
    **fields: Any,
) -> Body:
    """The body of an answer of the Messages API, also of an error."""
    body = {"model": model, "max_tokens": 100, "messages": messages, **fields}
    return dict((await post(server, "/v1/messages", body, betas=betas)).json())


def user(*content: Any) -> Body:
    return {"role": "user", "content": [text(one) if isinstance(one, str) else one for one in content]}


def text(words: str, **fields: Any) -> Body:
    return {"type": "text", "text": words, **fields}


def replied(answer: Mapping[str, Any]) -> Body:
    return {"role": "assistant", "content": answer["content"]}


def words(count: int, word: str = "word") -> str:
    """A text of so many tokens."""
    return " ".join([word] * count)
