"""The two APIs that the endpoint speaks: what a request says, what is sent in its place, and the answer.

A body goes on as the client wrote it. Only its messages are ours, and of these the client's own dicts
wherever they are shown as it had them.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import ModelReply, StreamReader
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
from autonomy_ctx.server.openai.bodies import BODIES
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
    """A request of a client: its instructions, and the messages or items after them, as it wrote them."""

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
    def output_tokens(self) -> int:
        """The number of tokens that the answer may have; 0 when it is not said."""
        names = ("max_completion_tokens", "max_tokens", "max_output_tokens")
        return next(filter(None, (as_count(self.body.get(name)) for name in names)), 0)


class UpstreamAnswer(NamedTuple):
    """An answer, and its messages as they are read when the client sends them back."""

    reply: ModelReply
    messages: Sequence[Message] = ()


class OpenAIApi(ABC):
    """One of the two APIs: how its requests, answers, streams and errors are read and written."""

    path: ClassVar[str]
    # Of a body: where its messages are, and how an error calls one of them.
    field: ClassVar[str]
    element: ClassVar[str]
    # Whether a later request may name an answer by its id.
    has_responses: ClassVar[bool]
    format: Any

    def __init__(self, *, by_user: bool = False) -> None:
        self._by_user = by_user

    @abstractmethod
    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        """Read what a body asks for; raise when it is none."""

    @abstractmethod
    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        """Read messages or items of a request; `first` is the number of the first of them."""

    @abstractmethod
    def is_boundary(self, source: Any) -> bool:
        """Tell whether a message ends with this message or item, whatever follows."""

    @abstractmethod
    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        """List the client's tools, for counting."""

    @abstractmethod
    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Put a context in place of a body's messages; `sources` has the client's own by their ids."""

    @abstractmethod
    def read_answer(self, body: Mapping[str, Any]) -> UpstreamAnswer:
        """Read a whole answer."""

    @abstractmethod
    def finish_answer(self, reader: Any) -> UpstreamAnswer:
        """Take the answer out of the format's reader, once the stream has ended."""

    @abstractmethod
    def is_preface(self, piece: StreamPiece) -> bool:
        """Tell whether an event comes before the model has done anything."""

    @abstractmethod
    def is_last(self, piece: StreamPiece) -> bool:
        """Tell whether nothing comes after an event."""

    @abstractmethod
    def error_of(self, piece: StreamPiece) -> Any:
        """Find the error that an event stands for; None for any other event."""

    @abstractmethod
    def error_event(self, error: Mapping[str, Any]) -> bytes:
        """Write an error as an event."""

    def stream_data(self, data: dict[str, Any]) -> Mapping[str, Any]:
        """Give the part of an event that is read."""
        return data

    def _make_request(
        self,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        size: int,
        items: list[Any],
        leading: Sequence[SourcedMessage] = (),
        *,
        named: str | None = None,
        previous: str | None = None,
    ) -> ClientRequest:
        """Divide the messages of a body into instructions and what is said after them."""
        rules = next((at for at, one in enumerate(items) if not _is_rule(one)), len(items))
        if rules == len(items):
            raise invalid_request(
                f"`{self.field}` has instructions only; add a message of the user", param=self.field
            )
        return ClientRequest(
            api=self,
            body=body,
            instructions=[*leading, *self.read_messages(items[:rules], 0)],
            sources=items[rules:],
            conversation=_find_name(body, headers, by_user=self._by_user) or named,
            previous_response=previous,
            is_retry=_is_retry(headers),
            size=size,
        )

    def _check_objects(self, items: Sequence[Any]) -> None:
        if wrong := [at for at, one in enumerate(items) if not isinstance(one, dict)]:
            raise invalid_request(f"{self.element} must be an object", param=f"{self.field}[{wrong[0]}]")


class ChatCompletions(OpenAIApi):
    """`/v1/chat/completions`."""

    path = "/chat/completions"
    field, element = "messages", "a message"
    has_responses = False
    format = OpenAIFormat()

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise invalid_request("`messages` must be a list with at least one message", param="messages")
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
    ) -> dict[str, Any]:
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
        return _chat_answer(self.format.reply(body))

    def finish_answer(self, reader: StreamReader) -> UpstreamAnswer:
        return _chat_answer(reader.finish())

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

    def error_event(self, error: Mapping[str, Any]) -> bytes:
        return b"data: %b\n\n" % json.dumps({"error": error}).encode()


class Responses(OpenAIApi):
    """`/v1/responses`."""

    path = "/responses"
    field, element = "input", "an item"
    has_responses = True
    format = ResponsesFormat()

    def read_request(self, body: Mapping[str, Any], headers: Mapping[str, str], size: int) -> ClientRequest:
        given = body.get("input")
        items = [{"type": "message", "role": "user", "content": given}] if isinstance(given, str) else given
        if not isinstance(items, list) or not items or given == "":
            raise invalid_request("`input` must be a text, or a list with at least one item", param="input")
        self._check_objects(items)
        kinds = [item.get("type") for item in items]
        if wrong := [at for at, kind in enumerate(kinds) if not isinstance(kind, str | None)]:
            raise invalid_request("the `type` of an item must be a text", param=f"input[{wrong[0]}].type")
        text = body.get("instructions")
        if not isinstance(text, str | None):
            raise invalid_request("`instructions` must be a text", param="instructions")
        previous = body.get("previous_response_id")
        if not isinstance(previous, str | None):
            raise invalid_request("`previous_response_id` must be a string", param="previous_response_id")
        leading = [SourcedMessage(Message("system", text), text)] if text else []
        conversation = body.get("conversation")
        named = as_nonempty_text(as_mapping(conversation).get("id")) or as_nonempty_text(conversation)
        named = None if previous else named
        return self._make_request(body, headers, size, items, leading, named=named, previous=previous)

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
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
        # What an assistant does up to the next item of another is one message.
        kind = source.get("type") or "message"
        return kind.endswith("_output") or (kind == "message" and source.get("role") != "assistant")

    def tools(self, body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        return [one for one in as_mappings(body.get("tools")) if as_nonempty_text(one.get("name"))]

    def write_body(
        self, request: ClientRequest, context: FrameworkContext, sources: Mapping[str, Any]
    ) -> dict[str, Any]:
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
        return _response_answer(self.format.reply(body), as_mappings(body.get("output")))

    def finish_answer(self, reader: ResponsesReader) -> UpstreamAnswer:
        return _response_answer(reader.finish(), reader.output)

    def is_preface(self, piece: StreamPiece) -> bool:
        kinds = ("response.created", "response.in_progress", "response.queued")
        return piece.data is None or piece.data.get("type") in kinds

    def is_last(self, piece: StreamPiece) -> bool:
        kind = None if piece.data is None else piece.data.get("type")
        return piece.is_done or kind in ("response.completed", "response.incomplete")

    def error_of(self, piece: StreamPiece) -> Any:
        data = piece.data or {}
        if data.get("type") == "response.failed":
            return as_mapping(data.get("response")).get("error") or data
        return (data.get("error") or data) if data.get("type") == "error" or data.get("error") else None

    def error_event(self, error: Mapping[str, Any]) -> bytes:
        event = {"type": "error", "code": error["code"], "message": error["message"], "param": None}
        return b"event: error\ndata: %b\n\n" % json.dumps(event).encode()


class AnswerReader:
    """Puts a streamed answer together for memory; what it does not understand is the client's matter."""

    def __init__(self, api: OpenAIApi) -> None:
        self._api, self._reader, self._is_damaged = api, api.format.reader(), False

    def feed(self, piece: StreamPiece) -> None:
        """Take in one event."""
        if piece.data is None or self._is_damaged:
            return
        try:
            self._reader.feed(self._api.stream_data(piece.data), piece.event)
        except Exception:  # a format may stumble in any way over what is none of its own
            self._is_damaged = True

    def finish(self) -> UpstreamAnswer:
        """Give the answer, once the stream has ended."""
        damaged = UpstreamAnswer(ModelReply(stop="error"))
        try:
            return damaged if self._is_damaged else self._api.finish_answer(self._reader)
        except Exception:  # as above
            return damaged


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
        data = BODIES.decode(raw)
    except (ValueError, RecursionError):
        raise invalid_request("the body is not JSON that can be read") from None
    if not isinstance(data, dict):
        raise invalid_request("the body must be a JSON object")
    return data
