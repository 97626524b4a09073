"""The model of `model_server` as an agent uses it: over HTTP, with connections kept alive."""

from __future__ import annotations

from typing import Any

import httpx


class HttpModel:
    """One model behind an OpenAI chat completions API."""

    def __init__(self, url: str, name: str, context_window: int | None = None) -> None:
        self.name, self.context_window = name, context_window
        self._client = httpx.AsyncClient(base_url=url, timeout=60.0)

    async def complete_chat(
        self,
        messages: list[dict[str, Any]],
        stream: bool = False,
        max_tokens: int | None = None,
        **options: Any,
    ) -> dict[str, Any]:
        """The reply as it came over the wire; raises `httpx.HTTPError` for any other than 200."""
        asked = {"model": self.name, "messages": messages, "stream": stream, **options}
        if max_tokens is not None:
            asked["max_tokens"] = max_tokens
        response = await self._client.post("/v1/chat/completions", json=asked)
        response.raise_for_status()
        reply: dict[str, Any] = response.json()
        return reply

    async def set_mode(self, mode: str) -> None:
        """Have the server behave badly, or well again: one of `model_server.MODES`."""
        (await self._client.post("/mode", json={"mode": mode})).raise_for_status()

    async def stats(self) -> dict[str, int]:
        """What the server has counted."""
        counted: dict[str, int] = (await self._client.get("/stats")).json()
        return counted

    async def close(self) -> None:
        await self._client.aclose()
