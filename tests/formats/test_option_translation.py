"""Options of a request in another API: carried, left out by name, or refused."""

from __future__ import annotations

from typing import Any

import pytest
from formats.sdk import openai_takes, responses_takes

from autonomy_ctx import Message
from autonomy_ctx.formats.base import WireFormat, load_format
from autonomy_ctx.formats.option_translation import OptionNotTranslatable, translate_options

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}
CHAT = {
    "model": "m",
    "messages": [],
    "tools": [{"type": "function", "function": {"name": "read", "parameters": PARAMETERS}}],
    "tool_choice": {"type": "function", "function": {"name": "read"}},
    "parallel_tool_calls": False,
    "max_tokens": 3000,
    "temperature": 0.5,
    "top_p": 0.9,
    "stop": "END",
    "reasoning_effort": "high",
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True},
    },
    "user": "ana",
    "stream": True,
    "n": 1,
}
RESPONSES = {
    "model": "m",
    "input": [],
    "tools": [{"type": "function", "name": "read", "parameters": PARAMETERS}],
    "tool_choice": {"type": "function", "name": "read"},
    "parallel_tool_calls": False,
    "max_output_tokens": 3000,
    "temperature": 0.5,
    "top_p": 0.9,
    "reasoning": {"effort": "high"},
    "text": {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}},
    "user": "ana",
    "stream": True,
}
MESSAGES = {
    "model": "m",
    "messages": [],
    "tools": [{"name": "read", "input_schema": PARAMETERS}],
    "tool_choice": {"type": "tool", "name": "read", "disable_parallel_tool_use": True},
    "max_tokens": 3000,
    "temperature": 0.5,
    "top_p": 0.9,
    "stop_sequences": ["END"],
    "thinking": {"type": "adaptive"},
    "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": SCHEMA}},
    "metadata": {"user_id": "ana"},
    "stream": True,
}
BODIES: dict[WireFormat, dict[str, Any]] = {"openai": CHAT, "responses": RESPONSES, "anthropic": MESSAGES}
MODELS: dict[WireFormat, str] = {"openai": "llama", "responses": "gpt-5.6", "anthropic": "claude-opus-5"}


def sent(source: WireFormat, target: WireFormat, **changes: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The body that goes to another API, without messages, and what is left out."""
    body = {name: value for name, value in (BODIES[source] | changes).items() if value is not None}
    made = translate_options(source, target, body, MODELS[target])
    request = load_format(target).request(MODELS[target], [Message("user", "hi")], made.request)
    return request.body, made.omitted


@pytest.mark.parametrize("source", ["responses", "anthropic"])
def test_chat_completions_get_the_options_of_others(source: WireFormat) -> None:
    body, omitted = sent(source, "openai")
    openai_takes(body)
    assert body["tools"][0]["function"]["parameters"] == PARAMETERS
    for name in (
        "tool_choice",
        "parallel_tool_calls",
        "max_tokens",
        "temperature",
        "top_p",
        "user",
        "stream",
    ):
        assert body[name] == CHAT[name]
    assert body["response_format"] == CHAT["response_format"]
    assert body.get("stop") == (["END"] if source == "anthropic" else None)
    # The model is not known to think.
    assert omitted == (("output_config.effort",) if source == "anthropic" else ("reasoning.effort",))


@pytest.mark.parametrize("source", ["openai", "anthropic"])
def test_responses_get_the_options_of_others(source: WireFormat) -> None:
    body, omitted = sent(source, "responses")
    responses_takes(body)
    assert body["tools"][0]["parameters"] == PARAMETERS
    for name in ("tool_choice", "parallel_tool_calls", "max_output_tokens", "reasoning", "text", "user"):
        assert body[name] == RESPONSES[name]
    # A model that thinks takes no sampling, and Responses has no stop sequences.
    stop = "stop" if source == "openai" else "stop_sequences"
    assert set(omitted) == {"temperature", "top_p", stop}


@pytest.mark.parametrize("source", ["openai", "responses"])
def test_messages_get_the_options_of_others(source: WireFormat) -> None:
    body, omitted = sent(source, "anthropic")
    for name in (
        "tool_choice",
        "max_tokens",
        "temperature",
        "top_p",
        "output_config",
        "metadata",
        "thinking",
    ):
        assert body[name] == MESSAGES[name]
    assert body.get("stop_sequences") == (["END"] if source == "openai" else None)
    assert body["tools"] == [{"name": "read", "input_schema": PARAMETERS}]
    assert omitted == ()


def test_tokens_for_thinking_are_an_effort_and_back() -> None:
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 2048}, "output_config": None}
    body, _ = sent("anthropic", "responses", **thinking)
    assert body["reasoning"] == {"effort": "medium"}
    _, omitted = sent("anthropic", "openai", **thinking)
    assert omitted == ("thinking",)
    asked = CHAT | {"reasoning_effort": "medium"}
    made = translate_options("openai", "anthropic", asked | {"response_format": None}, "claude-opus-4-1")
    assert made.request.options["thinking"] == {"type": "enabled", "budget_tokens": 2048}


def test_what_the_other_api_does_not_have_is_named() -> None:
    _, omitted = sent(
        "openai", "anthropic", seed=3, metadata={"team": "a"}, logit_bias={"1": 2}, logprobs=False
    )
    assert set(omitted) == {"seed", "metadata", "logit_bias"}
    _, omitted = sent("anthropic", "openai", top_k=4, context_management={"edits": []}, output_config=None)
    assert set(omitted) == {"top_k", "context_management"}
    _, omitted = sent("openai", "anthropic", response_format={"type": "json_object"})
    assert omitted == ("response_format",)


@pytest.mark.parametrize(
    ("source", "target", "changes", "option"),
    [
        (
            "anthropic",
            "openai",
            {"tools": [{"type": "web_search_20260318", "name": "web_search"}]},
            "tools.0",
        ),
        ("responses", "openai", {"tools": [{"type": "file_search"}]}, "tools.0"),
        ("openai", "anthropic", {"n": 2}, "n"),
        ("openai", "anthropic", {"modalities": ["text", "audio"]}, "modalities"),
        ("responses", "anthropic", {"background": True}, "background"),
        ("responses", "openai", {"tool_choice": {"type": "file_search"}}, "tool_choice"),
        ("anthropic", "openai", {"mcp_servers": [{"url": "https://x.test"}]}, "mcp_servers"),
    ],
)
def test_what_cannot_be_left_out_is_refused(
    source: WireFormat, target: WireFormat, changes: dict[str, Any], option: str
) -> None:
    with pytest.raises(OptionNotTranslatable, match="leave it out") as refused:
        sent(source, target, **changes)
    assert refused.value.option == option


def test_a_tool_that_takes_a_text_is_one_with_an_argument() -> None:
    patch = {"type": "custom", "name": "patch", "description": "d", "format": {"type": "text"}}
    body, _ = sent("responses", "openai", tools=[patch], tool_choice="auto")
    assert body["tools"][0]["function"]["parameters"]["required"] == ["input"]
