"""Keyword arguments for the calls of the providers' own clients: messages, system prompt and tools.

The clients take what their providers take as JSON, with two exceptions. Google's has other names for the
fields, and it and Amazon's want bytes where the JSON has base64. Nothing else goes in, such as the name
of the model or a limit: who calls the client says these.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.formats.base import RequestOptions
from autonomy_ctx.formats.compaction import without_block
from autonomy_ctx.formats.outgoing import replace_json_surrogates
from autonomy_ctx.messages.message import Message

# What is in these is the user's own, whatever its fields are called.
_GOOGLE_VALUES = ("args", "response", "parametersJsonSchema")
_GOOGLE_BYTES = ("data", "thoughtSignature")
_BEDROCK_VALUES = ("input", "json")
_BEDROCK_BYTES = ("bytes", "redactedContent")
_CAPITAL = re.compile(r"[A-Z]")


def openai_arguments(
    messages: Sequence[Message], asked: RequestOptions, *, model: str = ""
) -> dict[str, Any]:
    """For `client.chat.completions.create`: `messages`, and `tools` if there are some."""
    from autonomy_ctx.formats.openai import OpenAIFormat

    return _pick(OpenAIFormat().request(model, messages, asked).body, "messages", "tools")


def responses_arguments(
    messages: Sequence[Message], asked: RequestOptions, *, model: str = ""
) -> dict[str, Any]:
    """For `client.responses.create`: `input`, and `tools` if there are some."""
    from autonomy_ctx.formats.openai_responses import ResponsesFormat

    shown = [without_block(one) for one in messages]
    return _pick(ResponsesFormat().request(model, shown, asked).body, "input", "tools")


def anthropic_arguments(
    messages: Sequence[Message], asked: RequestOptions, *, model: str = ""
) -> dict[str, Any]:
    """For `client.messages.create`: `messages`, and `system`, `tools` and `tool_choice` where needed."""
    from autonomy_ctx.formats.anthropic import AnthropicFormat

    # A block needs a header, which the caller of the client would have to send.
    shown = [without_block(one) for one in messages]
    body = AnthropicFormat().request(model, shown, asked).body
    return _pick(body, "messages", "system", "tools", "tool_choice")


def google_arguments(
    messages: Sequence[Message], asked: RequestOptions, *, model: str = ""
) -> dict[str, Any]:
    """For `client.models.generate_content`: `contents`, and a `config` with system instruction and tools."""
    from autonomy_ctx.formats.google import GoogleFormat

    body = GoogleFormat().request(model, messages, asked).body
    made = _google_value(_pick(body, "contents", "systemInstruction", "tools"))
    return {"contents": made.pop("contents"), "config": made}


def bedrock_arguments(
    messages: Sequence[Message], asked: RequestOptions, *, model: str = ""
) -> dict[str, Any]:
    """For `client.converse`: `messages`, and `system` and `toolConfig` where needed."""
    from autonomy_ctx.formats.bedrock import BedrockFormat

    body = BedrockFormat().request(model, messages, asked).body
    return {name: _bedrock_value(value) for name, value in body.items()}


def _pick(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Some fields of a body, as a copy that belongs to the caller."""
    return {name: replace_json_surrogates(body[name]) for name in names if name in body}


def _google_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_google_value(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    made: dict[str, Any] = {}
    for name, inner in value.items():
        own = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name)
        if name in _GOOGLE_BYTES:
            data = _decode(inner)
            made |= {} if data is None else {own: data}
        else:
            made[own] = inner if name in _GOOGLE_VALUES else _google_value(inner)
    return made


def _bedrock_value(value: Any) -> Any:
    if isinstance(value, list):
        return [_bedrock_value(inner) for inner in value]
    if not isinstance(value, Mapping):
        return value
    return {
        name: (_decode(inner) or b"")
        if name in _BEDROCK_BYTES
        else inner
        if name in _BEDROCK_VALUES
        else _bedrock_value(inner)
        for name, inner in value.items()
    }


def _decode(text: str) -> bytes | None:
    """The bytes that a text in base64 of either alphabet stands for; None when it is none."""
    plain = text.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return urlsafe_b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return None
