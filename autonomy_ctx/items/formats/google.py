"""Google's generateContent: contents of user and model in turn, system text apart.

Joining neighbours makes the turns alternate. A call carries the thought signature it came with: newer
models refuse a call of their own without it.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import quote

from autonomy_ctx.items.formats.format import ONLY_MESSAGES, Asking, Request
from autonomy_ctx.items.formats.google_parts import Part, model_parts, response, user_parts
from autonomy_ctx.items.formats.google_reply import THOUGHT_SIGNATURE, GoogleReader
from autonomy_ctx.items.formats.names import ToolNames, led
from autonomy_ctx.items.formats.overflow import too_long
from autonomy_ctx.items.formats.prepared import prepared
from autonomy_ctx.items.formats.reply import ModelReply
from autonomy_ctx.items.formats.sendable import (
    INSTRUCTING,
    closing,
    left_out,
    nothing_said,
    opening,
    text_of,
    tool_names,
    tool_specs,
    written,
)
from autonomy_ctx.items.message import ChatRole, Message, new_id

_WANTS_SIGNATURES = re.compile(r"gemini-(?:[3-9]|\d\d)")


class GoogleContents(NamedTuple):
    """The contents, and the text of the system instruction if there is one."""

    contents: list[dict[str, Any]]
    system: str | None


class GoogleFormat:
    """generateContent, of the Gemini API and of Vertex."""

    name = "google"

    def __init__(self, *, new_id: Callable[[], str] = new_id) -> None:
        self._new_id = new_id

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that the provider takes; it caches prefixes by itself."""
        repairs: list[str] = []
        names = tool_names(asked.tools)
        made = google_contents(
            messages, repairs, names=names, unsigned_refused=wants_signatures(model), answered=asked.answered
        )
        body: dict[str, Any] = {"contents": made.contents}
        if made.system:
            body["systemInstruction"] = {"parts": [{"text": made.system}]}
        if asked.tools:
            body["tools"] = [{"functionDeclarations": _declarations(asked.tools, names, repairs)}]
        body |= asked.options
        if asked.max_tokens is not None:
            configured = asked.options.get("generationConfig") or {}
            body["generationConfig"] = {"maxOutputTokens": asked.max_tokens, **configured}
        place = quote(model if "/" in model else f"models/{model}", safe="/-._~@")
        verb = "streamGenerateContent?alt=sse" if asked.stream else "generateContent"
        return written(f"/{place}:{verb}", body, repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""
        reader = self.reader()
        reader.take(body)
        return reader.finish()

    def reader(self) -> GoogleReader:
        """For a streamed response."""
        return GoogleReader(self._new_id)

    def overflow(self, status: int, body: Any) -> tuple[bool, int | None]:
        """Whether an error says that the request was too long, and the window if it names one."""
        return too_long(status, body)


def wants_signatures(model: str) -> bool:
    """Whether the name is that of a model that refuses calls without a thought signature."""
    return bool(_WANTS_SIGNATURES.search(model.lower()))


def google_contents(
    messages: Sequence[Message],
    repairs: list[str],
    *,
    names: ToolNames | None = None,
    thought_signatures: Mapping[str, str | bytes] | None = None,
    unsigned_refused: bool = False,
    answered: Collection[str] = (),
) -> GoogleContents:
    """Messages as contents; `repairs` gets what was mended.

    `thought_signatures`, by call id, are used for calls that carry none themselves.
    """
    ready = prepared([_signed(message, thought_signatures or {}) for message in messages], answered=answered)
    repairs += ready.repairs
    names = names or ToolNames(())
    system: list[str] = []
    turns: list[tuple[str, list[Part]]] = []
    # Images of results come after all results of the same calls.
    pending: list[Part] = []
    called: dict[str | None, str] = {}
    for message in ready.messages:
        if message.role is ChatRole.TOOL:
            turns.append(("user", [response(message, called[message.tool_call_id], pending, repairs)]))
            continue
        if pending:
            turns.append(("user", pending))
            pending = []
        if message.role is ChatRole.USER:
            said = user_parts(message, repairs)
            turns.append(("user", said or [{"text": nothing_said(message, repairs)}]))
        elif message.role in INSTRUCTING:
            text = text_of(message, repairs)
            system += [text] if text else []
        else:
            called = {call.id: led(names.of(call.name)) for call in message.tool_calls}
            told = model_parts(message, names, repairs, unsigned_refused=unsigned_refused)
            turns.append(("model", told))
            if not told:
                left_out(message, repairs)
    contents = _alternating([*turns, ("user", pending)], repairs)
    if not contents or contents[0]["role"] == "model":
        contents.insert(0, {"role": "user", "parts": [{"text": opening(repairs)}]})
    if contents[-1]["role"] == "model":
        contents.append({"role": "user", "parts": [{"text": closing(repairs)}]})
    return GoogleContents(contents, "\n\n".join(system) or None)


def _alternating(turns: Sequence[tuple[str, list[Part]]], repairs: list[str]) -> list[dict[str, Any]]:
    contents = _joined(turns)
    kept = [turn for turn in contents if not all(part.get("thought") for part in turn["parts"])]
    if len(kept) < len(contents):
        repairs.append("thinking that no answer follows: left out")
    return _joined([(turn["role"], turn["parts"]) for turn in kept])


def _joined(turns: Sequence[tuple[str, list[Part]]]) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    for role, parts in turns:
        if contents and contents[-1]["role"] == role:
            contents[-1]["parts"] += parts
        elif parts:
            contents.append({"role": role, "parts": list(parts)})
    return contents


def _declarations(
    tools: Sequence[Mapping[str, Any]], names: ToolNames, repairs: list[str]
) -> list[dict[str, Any]]:
    """Tools with their schemas as JSON Schema: the older field knows only a part of it."""
    return [
        {
            "name": led(spec.name),
            "description": spec.description,
            "parametersJsonSchema": spec.parameters,
        }
        for spec in tool_specs(tools, names, repairs)
    ]


def _signed(message: Message, signatures: Mapping[str, str | bytes]) -> Message:
    """The message with the signatures that are known for its calls."""
    if not signatures or not any(call.id in signatures for call in message.tool_calls):
        return message
    calls = []
    for call in message.tool_calls:
        found = signatures.get(call.id or "")
        if found is not None and THOUGHT_SIGNATURE not in call.extra:
            text = b64encode(found).decode() if isinstance(found, bytes) else found
            call = replace(call, extra={**call.extra, THOUGHT_SIGNATURE: text})
        calls.append(call)
    return replace(message, tool_calls=tuple(calls))
