"""`/v1/chat/completions`: requests, answers and streams."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import StreamReader
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_nonempty_text
from autonomy_ctx.formats.openai import EXTRA_CONTENT, OpenAIFormat, openai_message
from autonomy_ctx.messages.json_values import EMPTY, thaw
from autonomy_ctx.messages.message import Message, Part, TextContent, parse_list_part
from autonomy_ctx.server.endpoint.client_api import ClientRequest, UpstreamAnswer, UpstreamBody
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.history import fingerprint
from autonomy_ctx.server.endpoint.upstream import StreamPiece
from autonomy_ctx.server.openai.api import SOURCE, OpenAIApi, error_fields, one_message_answer, own_source

# Where servers that speak for a Claude model put its thinking in a chat message.
THINKING_FIELDS = frozenset(
    {"thinking_blocks", "reasoning", "reasoning_content", "reasoning_details", "provider_specific_fields"}
)
_MESSAGE_FIELDS = frozenset(("role", "content", "tool_calls", "tool_call_id", "name"))
_PART_FIELDS = {"text": frozenset(("type", "text")), "image_url": frozenset(("type", "image_url"))}


class ChatCompletions(OpenAIApi):
    """`/v1/chat/completions`."""

    path = "/chat/completions"
    field, element = "messages", "a message"
    format = OpenAIFormat()

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise EndpointError("`messages` must be a list with at least one message", param="messages")
        self._check_objects(messages)
        return self._make_request(body, headers, size, messages)

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        return [_read_message(one, f"messages[{first + at}]") for at, one in enumerate(sources)]

    def is_boundary(self, source: Any) -> bool:
        return True

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = [as_mapping(one.get("function")) for one in as_mappings(body.get("tools"))]
        return [one for one in found if as_nonempty_text(one.get("name"))]

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> UpstreamBody:
        def read(source: Any) -> str:
            return fingerprint(_read_message(source, "messages").message)

        messages, omitted = [], Counter[str]()
        for one in (*context.instructions, *context.messages):
            written = own_source(one, sources, dict, read) or _write_message(one.message)
            if one.message.id in context.without_thinking:
                omitted["thinking"] += not THINKING_FIELDS.isdisjoint(written)
                written = {name: value for name, value in written.items() if name not in THINKING_FIELDS}
            messages.append(written)
        return UpstreamBody({**request.body, "messages": messages}, +omitted)

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        return one_message_answer(self.format.reply(body))

    def finish_answer(self, reader: StreamReader) -> UpstreamAnswer:
        return one_message_answer(reader.finish())

    def stream_data(self, data: dict[str, Any]) -> Mapping[str, Any]:
        """Leave out all but the first of several answers that come at the same time."""
        choices = as_mappings(data.get("choices"))
        if any(one.get("index") for one in choices):
            return {**data, "choices": [one for one in choices if not one.get("index")]}
        return data

    def is_preface(self, piece: StreamPiece) -> bool:
        return piece.is_heartbeat

    def is_last(self, piece: StreamPiece) -> bool:
        return piece.is_done

    def error_of(self, piece: StreamPiece) -> Any:
        return None if piece.data is None else piece.data.get("error") or None

    def error_event(self, error: EndpointError) -> bytes:
        return b"data: %b\n\n" % json.dumps({"error": error_fields(error)}).encode()


def _read_message(source: Mapping[str, Any], path: str) -> SourcedMessage:
    """A message of a chat completion."""
    content, role = source.get("content"), source.get("role")
    if role == "function":
        raise EndpointError("messages of functions are not known here; use tools", param=f"{path}.role")
    try:
        parts = content
        if isinstance(content, list):
            parts = [_read_part(part, f"{path}.content[{at}]") for at, part in enumerate(content)]
        made = Message(
            role,  # type: ignore[arg-type]  # refused if it is none
            "" if parts is None and role != "assistant" and role != "user" else parts,
            tool_calls=[_read_call(call) for call in source.get("tool_calls") or ()],
            tool_call_id=source.get("tool_call_id"),
            name=source.get("name"),
            extra=EMPTY if _is_plain(source) else {SOURCE: dict(source)},
        )
    except InvalidMessage as problem:
        where = problem.field if problem.field.startswith(path) else f"{path}.{problem.field}"
        raise EndpointError(f"`{where}` {problem.problem}", param=where) from None
    except TypeError:
        raise EndpointError("`tool_calls` must be a list", param=f"{path}.tool_calls") from None
    if role == "tool" and not made.tool_call_id:
        raise EndpointError(
            "a message of a tool must have the id of the call that it answers", param=f"{path}.tool_call_id"
        )
    return SourcedMessage(made, source)


def _read_part(part: Any, path: str) -> Part:
    try:
        return parse_list_part(part, path)
    except InvalidMessage:
        if not isinstance(part, Mapping) or not as_nonempty_text(part.get("type")):
            raise
        if part["type"] in _PART_FIELDS:
            raise
        # A sound, a file: the message itself is sent as long as it is shown as it was.
        mark = sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:8]
        return TextContent(f"[{part['type']} {mark}]")


def _read_call(call: Any) -> Any:
    """A call as messages have it; one of a custom tool has a text instead of arguments."""
    custom = as_mapping(call.get("custom")) if isinstance(call, Mapping) else None
    if custom:
        return {"id": call.get("id"), "name": custom.get("name"), "arguments": custom.get("input")}
    if isinstance(call, Mapping):
        extra = {EXTRA_CONTENT: call[EXTRA_CONTENT]} if call.get(EXTRA_CONTENT) else {}
        return {"id": call.get("id"), "function": call.get("function")} | extra
    return call


def _is_plain(source: Mapping[str, Any]) -> bool:
    """Tell whether our messages have fields for all that the client's has."""
    if any(name not in _MESSAGE_FIELDS and value for name, value in source.items()):
        return False
    content = source.get("content")
    return not isinstance(content, list) or all(map(_is_plain_part, content))


def _is_plain_part(part: Any) -> bool:
    known = _PART_FIELDS.get(part.get("type") or "") if isinstance(part, Mapping) else None
    return known is not None and known == part.keys()


def _write_message(message: Message) -> dict[str, Any]:
    """A message of ours, with what some servers want back with a call."""
    made = openai_message(message)
    for call, own in zip(made.get("tool_calls", ()), message.tool_calls, strict=False):
        if own.extra.get(EXTRA_CONTENT):
            call[EXTRA_CONTENT] = thaw(own.extra[EXTRA_CONTENT])
    return made
