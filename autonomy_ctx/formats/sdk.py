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

from autonomy_ctx.formats.base import RequestOptions, WireFormat, load_format
from autonomy_ctx.formats.compaction import without_block
from autonomy_ctx.formats.outgoing import replace_json_surrogates
from autonomy_ctx.messages.message import Message

# The fields of a body that a client takes.
_FIELDS: dict[WireFormat, tuple[str, ...]] = {
    "openai": ("messages", "tools"),
    "responses": ("input", "tools"),
    "anthropic": ("messages", "system", "tools", "tool_choice"),
    "google": ("contents", "systemInstruction", "tools"),
    "bedrock": ("system", "messages", "toolConfig"),
}
# What is in these is the user's own, whatever its fields are called.
_OWN_VALUES = {"google": ("args", "response", "parametersJsonSchema"), "bedrock": ("input", "json")}
_BYTES = {"google": ("data", "thoughtSignature"), "bedrock": ("bytes", "redactedContent")}
_CAPITAL = re.compile(r"[A-Z]")


def client_arguments(
    wire_format: WireFormat, messages: Sequence[Message], asked: RequestOptions, *, model: str = ""
) -> dict[str, Any]:
    """The arguments for the client of a provider, which belong to the caller."""
    # A block of Claude's needs a header, which the caller of the client would have to send.
    shown = [without_block(one) for one in messages]
    body = load_format(wire_format).request(model, shown, asked).body
    made = {name: replace_json_surrogates(body[name]) for name in _FIELDS[wire_format] if name in body}
    if wire_format in _BYTES:
        made = _client_value(made, wire_format)
    return {"contents": made.pop("contents"), "config": made} if wire_format == "google" else made


def _client_value(value: Any, wire_format: str) -> Any:
    """A value of Google's or Amazon's JSON as the client has it."""
    if isinstance(value, list):
        return [_client_value(inner, wire_format) for inner in value]
    if not isinstance(value, Mapping):
        return value
    made: dict[str, Any] = {}
    for name, inner in value.items():
        own = _CAPITAL.sub(lambda found: f"_{found[0].lower()}", name) if wire_format == "google" else name
        if name in _OWN_VALUES[wire_format]:
            made[own] = inner
        elif name not in _BYTES[wire_format]:
            made[own] = _client_value(inner, wire_format)
        elif (data := _decode(inner)) is not None:
            made[own] = data
    return made


def _decode(text: str) -> bytes | None:
    """The bytes that a text in base64 of either alphabet stands for; None when it is none."""
    plain = text.rstrip("=").replace("+", "-").replace("/", "_")
    try:
        return urlsafe_b64decode(plain + "=" * (-len(plain) % 4))
    except (binascii.Error, ValueError):
        return None
