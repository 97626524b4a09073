"""A server of this machine that answers the README's snippet with a key as OpenAI would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from anyio.from_thread import start_blocking_portal
from models.provider_server import ProviderServer, providing
from models.provider_words import Asked, Say


@contextmanager
def serve_openai(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """While the block runs, `Model("gpt-5")` asks this server, also in processes that are started."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(providing(_answer)) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        yield server


def _answer(asked: Asked) -> Say:
    """The code, if the model was asked for it and was told it before."""
    *before, (_, question) = asked.said
    told = any("PT-4711" in text for _, text in before)
    return Say("Your booking code is PT-4711." if told and "What is" in question else "Noted.")
