"""The two APIs that the endpoint speaks: what a request says, what is sent in its place, and the answer.

A body goes on as the client wrote it. Only its messages are ours, and of these the client's own dicts
wherever they are shown as it had them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol
from urllib.parse import unquote

from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import ModelReply, StreamEvent, StreamReader
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_mappings, as_nonempty_text
from autonomy_ctx.formats.openai import EXTRA_CONTENT, OpenAIFormat, openai_message
from autonomy_ctx.formats.openai_responses import (
    ResponsesFormat,
    ResponsesReader,
    is_plain_item,
    read_input,
    responses_items,
)
from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES
from autonomy_ctx.messages.json_values import EMPTY, thaw
from autonomy_ctx.messages.message import Message, Part, TextContent, parse_list_part
from autonomy_ctx.server.openai.errors import invalid_request
from autonomy_ctx.server.openai.history import fingerprint
from autonomy_ctx.server.openai.upstream import StreamPiece

CONVERSATION_HEADER = "x-conversation-id"
RETRY_HEADER = "x-stainless-retry-count"
# Names of a conversation in `metadata`, as clients have them.
_METADATA_NAMES = ("conversation_id", "conversation", "session_id", "thread_id")
# Where a stored message has the client's own form, when ours could not be made into the same again.
SOURCE = "openai_source"
# Where servers that speak for a Claude model put its thinking in a chat message.
THINKING_FIELDS = frozenset(
    {"thinking_blocks", "reasoning", "reasoning_content", "reasoning_details", "provider_specific_fields"}
)
_MESSAGE_FIELDS = frozenset(("role", "content", "tool_calls", "tool_call_id", "name"))
_PART_FIELDS = {"text": frozenset(("type", "text")), "image_url": frozenset(("type", "image_url"))}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRequest:
    """What a client asks for: its rules, and the messages or items after them, as it wrote them."""

    api: OpenAIApi
    body: Mapping[str, Any]
    instructions: Sequence[SourcedMessage]
    sources: Sequence[Any]
    # As the client names it; None when it must be recognised.
    conversation: str | None = None
    previous_response: str | None = None
    is_retry: bool = False
    # Of the body, in bytes.
    size: int = 0

    @property
    def model(self) -> str | None:
        """The name of the model that is asked."""
        return as_nonempty_text(self.body.get("model"))

    @property
    def is_streamed(self) -> bool:
        """Whether the answer is to come in pieces."""
        return self.body.get("stream") is True

    @property
    def output_tokens(self) -> int:
        """How many tokens the answer may have; 0 when it is not said."""
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        return next(filter(None, (as_count(self.body.get(name)) for name in names)), 0)


class UpstreamAnswer(NamedTuple):
    """An answer, and its messages as they are read when the client sends them back."""

    reply: ModelReply
    messages: Sequence[Message] = ()


class AnswerReader(Protocol):
    """Puts an answer in pieces together again."""

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """Take in one event."""

    def finish(self) -> UpstreamAnswer:
        """The answer, once the stream has ended."""


class OpenAIApi(Protocol):
    """One of the two APIs."""

    path: ClassVar[str]
    # Of a body: where its messages are.
    field: ClassVar[str]
    # Whether a later request may name an answer by its id.
    has_responses: ClassVar[bool]

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        """What a body asks for; raises when it is none."""

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        """Messages or items of a request as messages; `first` is the number of the first of them."""

    def is_boundary(self, source: Any) -> bool:
        """Whether a message ends with this message or item, whatever follows."""

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The client's tools, for counting."""

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The body with a context in place of its messages; `sources` has the client's own by their ids."""

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        """What a whole answer says."""

    def reader(self) -> AnswerReader:
        """For an answer in pieces."""

    def is_preface(self, piece: StreamPiece) -> bool:
        """Whether an event comes before the model has done anything."""

    def is_last(self, piece: StreamPiece) -> bool:
        """Whether nothing comes after an event."""

    def error_of(self, piece: StreamPiece) -> Any:
        """The error that an event stands for; None for any other event."""

    def error_event(self, error: Mapping[str, Any]) -> bytes:
        """An error as an event."""


class ChatCompletions:
    """`/v1/chat/completions`."""

    path: ClassVar[str] = "/chat/completions"
    field: ClassVar[str] = "messages"
    has_responses: ClassVar[bool] = False

    def __init__(self, *, by_user: bool = False) -> None:
        self._format, self._by_user = OpenAIFormat(), by_user

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        """What a body asks for; raises when it is none."""
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise invalid_request("`messages` must be a list with at least one message", param="messages")
        if (number := _first_other_than_object(messages)) is not None:
            raise invalid_request("a message must be an object", param=f"messages[{number}]")
        rules = next((at for at, one in enumerate(messages) if not _is_rule(one)), len(messages))
        if rules == len(messages):
            raise invalid_request(
                "`messages` has instructions only; add a message of the user", param="messages"
            )
        return ClientRequest(
            api=self,
            body=body,
            instructions=self.read_messages(messages[:rules], 0),
            sources=messages[rules:],
            conversation=_find_name(body, headers, by_user=self._by_user),
            is_retry=_is_retry(headers),
            size=size,
        )

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        """Messages of a request; `first` is the number of the first of them."""
        return [_read_message(one, f"messages[{first + at}]") for at, one in enumerate(sources)]

    def is_boundary(self, source: Any) -> bool:
        """Every message is one."""
        return True

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The client's tools, for counting."""
        found = [as_mapping(one.get("function")) for one in as_mappings(body.get("tools"))]
        return [one for one in found if as_nonempty_text(one.get("name"))]

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The body with a context in place of its messages; `sources` has the client's own by their ids."""

        def read(source: Any) -> str:
            return fingerprint(_read_message(source, "messages").message)

        messages = []
        for one in (*context.instructions, *context.messages):
            written = _own_source(one, sources, read) or _write_message(one.message)
            if one.message.id in context.without_thinking:
                written = {name: value for name, value in written.items() if name not in THINKING_FIELDS}
            messages.append(written)
        return {**request.body, "messages": messages}

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        """What a whole answer says."""
        return _chat_answer(self._format.reply(body))

    def reader(self) -> AnswerReader:
        """For an answer in pieces: of several answers, the first."""
        return _FirstChoiceReader(self._format.reader())

    def is_preface(self, piece: StreamPiece) -> bool:
        """Comments come before."""
        return piece.data is None and not piece.is_done

    def is_last(self, piece: StreamPiece) -> bool:
        """Whether nothing comes after an event."""
        return piece.is_done

    def error_of(self, piece: StreamPiece) -> Any:
        """The error that an event stands for; None for any other event."""
        return None if piece.data is None else piece.data.get("error") or None

    def error_event(self, error: Mapping[str, Any]) -> bytes:
        """An error as an event."""
        return b"data: %b\n\n" % json.dumps({"error": error}).encode()


class Responses:
    """`/v1/responses`."""

    path: ClassVar[str] = "/responses"
    field: ClassVar[str] = "input"
    has_responses: ClassVar[bool] = True

    def __init__(self, *, by_user: bool = False) -> None:
        self._format, self._by_user = ResponsesFormat(), by_user

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        """What a body asks for; raises when it is none."""
        given = body.get("input")
        items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(items, list) or not items or given == "":
            raise invalid_request("`input` must be a text, or a list with at least one item", param="input")
        if (number := _first_other_than_object(items)) is not None:
            raise invalid_request("an item must be an object", param=f"input[{number}]")
        kinds = [item.get("type") for item in items]
        if wrong := [at for at, kind in enumerate(kinds) if not isinstance(kind, str | None)]:
            raise invalid_request("the `type` of an item must be a text", param=f"input[{wrong[0]}].type")
        text = body.get("instructions")
        if not isinstance(text, str | None):
            raise invalid_request("`instructions` must be a text", param="instructions")
        previous = body.get("previous_response_id")
        if not isinstance(previous, str | None):
            raise invalid_request("`previous_response_id` must be a string", param="previous_response_id")
        rules = next((at for at, one in enumerate(items) if not _is_rule(one)), len(items))
        if rules == len(items):
            raise invalid_request("`input` has instructions only; add a message of the user", param="input")
        leading = [SourcedMessage(Message("system", text), text)] if text else []
        conversation = body.get("conversation")
        named = as_nonempty_text(as_mapping(conversation).get("id")) or as_nonempty_text(conversation)
        return ClientRequest(
            api=self,
            body=body,
            instructions=[*leading, *self.read_messages(items[:rules], 0)],
            sources=items[rules:],
            conversation=_find_name(body, headers, by_user=self._by_user) or (None if previous else named),
            previous_response=previous,
            is_retry=_is_retry(headers),
            size=size,
        )

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        """Items of a request as messages; `first` is the number of the first of them."""
        try:
            found = read_input(sources)
        except InvalidMessage as problem:
            raise invalid_request(str(problem), param=f"input[{first}]") from None
        said = []
        for one in found:
            items = list(one.items)
            extra = EMPTY if all(map(is_plain_item, items)) else {SOURCE: items}
            said.append(SourcedMessage(_with_extra(one.message, extra), items))
        return said

    def is_boundary(self, source: Any) -> bool:
        """What an assistant does up to the next item of another is one message."""
        kind = source.get("type") or "message"
        return kind.endswith("_output") or (kind == "message" and source.get("role") != "assistant")

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """The client's tools, for counting."""
        return [one for one in as_mappings(body.get("tools")) if as_nonempty_text(one.get("name"))]

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The body with a context in place of its input; `sources` has the client's own by their ids."""

        def read(source: Any) -> str:
            found = read_input(source)
            return fingerprint(found[0].message) if len(found) == 1 else ""

        is_stored = request.body.get("store") is not False
        texts: list[str] = []
        items: list[Any] = []
        for one in (*context.instructions, *context.messages):
            if isinstance(one.source, str):
                texts.append(one.source)
                continue
            own = _own_source(one, sources, read)
            if own is not None and one.message.id in context.without_thinking:
                own = [item for item in own if item.get("type") != "reasoning"]
            items += responses_items(one.message) if own is None else own if is_stored else _without_ids(own)
        body = {**request.body, "input": items}
        for name in ("previous_response_id", "conversation"):
            body.pop(name, None)
        if texts or "instructions" in body:
            body["instructions"] = "\n\n".join(texts) or None
        return body

    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        """What a whole answer says."""
        return _response_answer(self._format.reply(body), as_mappings(body.get("output")))

    def reader(self) -> AnswerReader:
        """For an answer in pieces."""
        return _ResponseReader(self._format.reader())

    def is_preface(self, piece: StreamPiece) -> bool:
        """Whether an event comes before the model has done anything."""
        kinds = ("response.created", "response.in_progress", "response.queued")
        return piece.data is None or piece.data.get("type") in kinds

    def is_last(self, piece: StreamPiece) -> bool:
        """Whether nothing comes after an event."""
        kind = None if piece.data is None else piece.data.get("type")
        return piece.is_done or kind in ("response.completed", "response.incomplete")

    def error_of(self, piece: StreamPiece) -> Any:
        """The error that an event stands for; None for any other event."""
        data = piece.data or {}
        if data.get("type") == "response.failed":
            return as_mapping(data.get("response")).get("error") or data
        return (data.get("error") or data) if data.get("type") == "error" or data.get("error") else None

    def error_event(self, error: Mapping[str, Any]) -> bytes:
        """An error as an event."""
        event = {"type": "error", "code": error["code"], "message": error["message"], "param": None}
        return b"event: error\ndata: %b\n\n" % json.dumps(event).encode()


class _FirstChoiceReader:
    """Reads the first of several answers that come at the same time."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        choices = as_mappings(data.get("choices"))
        if any(one.get("index") for one in choices):
            data = {**data, "choices": [one for one in choices if not one.get("index")]}
        return self._reader.feed(data, event)

    def finish(self) -> UpstreamAnswer:
        return _chat_answer(self._reader.finish())


class _ResponseReader:
    """Reads the items of a response."""

    def __init__(self, reader: ResponsesReader) -> None:
        self._reader = reader

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        return self._reader.feed(data, event)

    def finish(self) -> UpstreamAnswer:
        return _response_answer(self._reader.finish(), self._reader.output)


def _chat_answer(reply: ModelReply) -> UpstreamAnswer:
    return UpstreamAnswer(reply, [reply.message] if reply.parts or reply.tool_calls else [])


def _response_answer(reply: ModelReply, output: Sequence[Mapping[str, Any]]) -> UpstreamAnswer:
    """An answer with items of any kind, which are kept where ours would not be the same."""
    if all(map(is_plain_item, output)):
        return _chat_answer(reply)
    messages = [_with_extra(one.message, {SOURCE: list(one.items)}) for one in read_input(output)]
    return UpstreamAnswer(reply, messages)


def _own_source(one: SourcedMessage, sources: Mapping[str, Any], read: Callable[[Any], str]) -> Any:
    """The client's own form of a message, unless it is shown otherwise than the client had it."""
    if one.source is not None:
        return one.source
    own = sources.get(one.message.id)
    if own is None:
        own = thaw(one.message.extra.get(SOURCE))
    return own if own is not None and read(own) == fingerprint(one.message) else None


def _read_message(source: Mapping[str, Any], path: str) -> SourcedMessage:
    """A message of a chat completion."""
    content, role = source.get("content"), source.get("role")
    if role == "function":
        raise invalid_request("messages of functions are not known here; use tools", param=f"{path}.role")
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
        raise invalid_request(f"`{where}` {problem.problem}", param=where) from None
    except TypeError:
        raise invalid_request("`tool_calls` must be a list", param=f"{path}.tool_calls") from None
    if role == "tool" and not made.tool_call_id:
        raise invalid_request(
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
    """Whether a message has fields for all that the client's has: text, images, calls and results."""
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


def _with_extra(message: Message, extra: Mapping[str, Any]) -> Message:
    if not extra:
        return message
    return Message(
        message.role,
        message.content,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        name=message.name,
        extra=extra,
    )


def _without_ids(items: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Items for a server that has stored none of them: without ids, and without what says nothing itself."""
    said = [one for one in items if one.get("type") != "reasoning" or one.get("encrypted_content")]
    return [
        dict(one) if one.get("type") == "reasoning" else {key: one[key] for key in one if key != "id"}
        for one in said
    ]


def _first_other_than_object(sources: Sequence[Any]) -> int | None:
    """The number of the first that is no JSON object, if there is one."""
    # Of thousands, all are looked at with each request.
    if set(map(type, sources)) == {dict}:
        return None
    return next(at for at, one in enumerate(sources) if not isinstance(one, dict))


def _is_rule(source: Mapping[str, Any]) -> bool:
    return source.get("role") in INSTRUCTION_ROLES and (source.get("type") or "message") == "message"


def _find_name(body: Mapping[str, Any], headers: Mapping[str, str], *, by_user: bool) -> str | None:
    """The conversation that a client names; `user` is a person, who may have several."""
    metadata = as_mapping(body.get("metadata"))
    names = [unquote(headers.get(CONVERSATION_HEADER, "")), *(metadata.get(name) for name in _METADATA_NAMES)]
    names += [body.get("user")] if by_user else []
    return next((one for one in names if isinstance(one, str) and one), None)


def _is_retry(headers: Mapping[str, str]) -> bool:
    count = headers.get(RETRY_HEADER, "0")
    return count.isascii() and count.isdigit() and int(count[:9]) > 0


def parse_body(raw: bytes) -> dict[str, Any]:
    """A body as JSON; raises when it is none."""
    try:
        data = json.loads(raw, parse_constant=_refuse_constant, parse_float=_parse_float)
    except (ValueError, RecursionError):
        raise invalid_request("the body is not JSON that can be read") from None
    if not isinstance(data, dict):
        raise invalid_request("the body must be a JSON object")
    return data


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _parse_float(text: str) -> float:
    """Parse a number; one that is too large, such as 1e999, would be written as `Infinity`."""
    number = float(text)
    return number if isfinite(number) else _refuse_constant(text)
