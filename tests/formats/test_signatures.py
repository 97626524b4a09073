"""What one provider signed goes back to that provider and to nobody else, also after it was stored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from formats.asked import requested
from hypothesis import given
from hypothesis import strategies as st
from strategies import some

from autonomy_ctx import Message, ThinkingContent, ToolCall
from autonomy_ctx.formats.anthropic import AnthropicFormat
from autonomy_ctx.formats.base import OWNERS, Format, signature_of, tag_signature
from autonomy_ctx.formats.bedrock import BedrockFormat
from autonomy_ctx.formats.google import GoogleFormat
from autonomy_ctx.formats.openai import OpenAIFormat
from autonomy_ctx.formats.openai_responses import ResponsesFormat
from autonomy_ctx.messages.wire import from_dict, to_dict

FORMATS: dict[str, Format] = {
    "anthropic": AnthropicFormat(),
    "bedrock": BedrockFormat(),
    "google": GoogleFormat(),
    "openai": OpenAIFormat(),
    "responses": ResponsesFormat(),
}
MODELS = {
    "anthropic": "claude-sonnet-4-6",
    "bedrock": "us.anthropic.claude-sonnet-4-6",
    "google": "gemini-3-pro",
}
ASKED, ASKED_ON = Message("user", "hi"), Message("user", "and?")

# Long enough to be in a request by nothing but intent, and base64 as all real ones are.
signatures = st.from_regex(r"[A-Za-z0-9+/]{40}", fullmatch=True)


def answer(owner: str, mark: str) -> dict[str, Any]:
    """A reply of a provider whose every secret is `mark`."""
    match owner:
        case "anthropic":
            thoughts: list[dict[str, Any]] = [
                {"type": "thinking", "thinking": "hm", "signature": mark},
                {"type": "redacted_thinking", "data": mark},
            ]
            return {"content": [*thoughts, {"type": "text", "text": "yes"}], "stop_reason": "end_turn"}
        case "bedrock":
            told = [
                {"reasoningContent": {"reasoningText": {"text": "hm", "signature": mark}}},
                {"reasoningContent": {"redactedContent": mark}},
                {"text": "yes"},
            ]
            return {"output": {"message": {"content": told}}, "stopReason": "end_turn"}
        case "google":
            parts = [
                {"text": "hm", "thought": True, "thoughtSignature": mark},
                {"text": "yes", "thoughtSignature": mark},
                {"functionCall": {"id": "g1", "name": "look", "args": {}}, "thoughtSignature": mark},
            ]
            return {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
        case "responses":
            call = {"type": "function_call", "name": "look", "arguments": "{}"}
            output = [
                {"type": "reasoning", "id": "rs_1", "encrypted_content": mark, "summary": []},
                {**call, "call_id": "r1"},
                {"type": "reasoning", "id": "rs_2", "encrypted_content": mark, "summary": []},
                {**call, "call_id": "r2"},
            ]
            return {"output": output, "status": "completed"}
    said = {"content": "yes", "reasoning_content": "hm"}
    return {"choices": [{"message": said, "finish_reason": "stop"}]}


def sent(reader: str, *messages: Message) -> str:
    made = requested(FORMATS[reader], MODELS.get(reader, "gpt-5"), messages)
    return json.dumps(made.body)


@some
@given(st.sampled_from(OWNERS), st.sampled_from(sorted(FORMATS)), signatures)
def test_a_signature_goes_back_to_its_owner_alone_after_it_was_stored(
    owner: str, reader: str, mark: str
) -> None:
    reply = FORMATS[owner].reply(answer(owner, mark)).message
    stored = from_dict(json.loads(json.dumps(to_dict(reply))))
    assert stored == reply
    count = sent(reader, ASKED, stored, ASKED_ON).count(json.dumps(mark)[1:-1])
    assert count == (answers_secrets(owner) if reader == owner else 0)


def answers_secrets(owner: str) -> int:
    """How many secrets an answer of this provider has."""
    return json.dumps(answer(owner, "MARK")).count("MARK")


@some
@given(signatures)
def test_a_signature_that_nobody_marked_goes_where_it_always_went(mark: str) -> None:
    thoughts = [ThinkingContent("hm", signature=mark), ThinkingContent("", redacted=mark)]
    message = Message("assistant", [*thoughts, "yes"])
    for reader in FORMATS:
        found = sent(reader, ASKED, message, ASKED_ON).count(mark)
        assert found == (2 if reader in ("anthropic", "bedrock") else 0)


def test_a_thought_signature_of_a_call_goes_to_google_alone() -> None:
    call = ToolCall("a", "look", "{}", {"thought_signature": "c2lnbmF0dXJl"})
    for reader in FORMATS:
        body = sent(reader, ASKED, Message("assistant", None, tool_calls=[call]))
        assert ("c2lnbmF0dXJl" in body) == (reader == "google")


@pytest.mark.parametrize("owner", OWNERS)
def test_a_mark_is_taken_off_by_its_owner_only(owner: str) -> None:
    for other in OWNERS:
        for unmarked in (False, True):
            found = signature_of(other, tag_signature(owner, "s:s"), accept_untagged=unmarked)
            assert found == ("s:s" if other == owner else None)
    assert signature_of(owner, "s") is None
    assert signature_of(owner, "s", accept_untagged=True) == "s"
    assert signature_of(owner, "other:s", accept_untagged=True) == "other:s"
    for nothing in (None, "", tag_signature(owner, "")):
        assert signature_of(owner, nothing, accept_untagged=True) is None
