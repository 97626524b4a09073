"""The test server says why a cache was missed, and fails when it is told to."""

from __future__ import annotations

from typing import Any

from testing.provider_calls import CLAUDE, ask_claude, post, replied, user

from autonomy_ctx.testing import ProviderServer
from autonomy_ctx.testing.providers.diagnosis import DIAGNOSIS_BETA


async def test_claude_says_why_its_cache_was_missed() -> None:
    server = ProviderServer()
    beta = [DIAGNOSIS_BETA]
    refused = await ask_claude(server, [user("hello")], diagnostics={"previous_message_id": None})
    assert "Extra inputs are not permitted" in refused["error"]["message"]

    async def ask(before: str | None, *messages: Any, **fields: Any) -> Any:
        asked = {"previous_message_id": before}
        return await ask_claude(server, messages, betas=beta, diagnostics=asked, **fields)

    first = await ask(None, user("hello"))
    assert first["diagnostics"] is None
    grown = await ask(first["id"], user("hello"), replied(first), user("and then?"))
    assert grown["diagnostics"] is None
    for fields, reason in (
        ({"system": "other"}, "system_changed"),
        ({"model": "claude-opus-5"}, "model_changed"),
        ({"tools": [{"name": "find", "input_schema": {"type": "object"}}]}, "tools_changed"),
    ):
        changed = await ask(first["id"], user("hello"), **fields)
        missed = changed["diagnostics"]["cache_miss_reason"]
        assert missed["type"] == reason
        assert missed["cache_missed_input_tokens"] > 0
    edited = await ask(first["id"], user("good day"))
    assert edited["diagnostics"]["cache_miss_reason"]["type"] == "messages_changed"
    unknown = await ask("msg_9999", user("hello"))
    assert unknown["diagnostics"]["cache_miss_reason"] == {"type": "previous_message_not_found"}


async def test_the_next_replies_are_failures() -> None:
    server = ProviderServer()
    server.failures = [429, 529]
    body = {"model": CLAUDE, "max_tokens": 9, "messages": [user("hello")]}
    answers = [await post(server, "/v1/messages", body) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [429, 529, 200]
    assert [answer.headers.get("retry-after") for answer in answers] == ["7", None, None]
    assert answers[1].json()["error"]["type"] == "overloaded_error"
