"""Writes a reply as the API of a provider has it: whole, or as the events of a stream.

A reply that one provider streams goes to a client of another API this way, piece by piece. Only what comes
before the arguments of an earlier call are complete has to wait, as the pieces of Messages and of Responses
stand one after the other.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from autonomy_ctx.formats.base import (
    CallDelta,
    CallStarted,
    ModelReply,
    ReaderEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireFormat,
)
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_text
from autonomy_ctx.formats.outgoing import RAW_ARGUMENTS_KEY, decode_arguments
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import TextContent, ThinkingContent, ToolCall

JsonObject = dict[str, Any]
PieceKind = Literal["text", "thinking", "call"]
# Under this name a tool that takes a text, and no JSON, has it as its only argument.
CUSTOM_INPUT = "input"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyHead:
    """The id of a reply, its model, the time in seconds, and the body that it answers."""

    id: str
    model: str
    created: int = 0
    request: Mapping[str, Any] = field(default=EMPTY)


@dataclass(slots=True)
class ReplyPiece:
    """A text, a thought, or a call with its arguments, as far as it has come."""

    kind: PieceKind
    at: int
    call_id: str = ""
    name: str = ""
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All that has come."""
        return "".join(self.texts)

    @property
    def is_complete(self) -> bool:
        """False for a call whose arguments are no whole JSON object yet."""
        text = self.text
        return self.kind != "call" or (text != "" and _parse_object(text) is not None)


class ReplyWriter(ABC):
    """Writes one reply: `feed` and `finish` give the bytes of a stream, `whole` gives JSON."""

    def __init__(self, head: ReplyHead) -> None:
        self.head = head
        self._pieces: list[ReplyPiece] = []
        self._open: ReplyPiece | None = None
        self._queue: list[ReaderEvent] = []
        self._out: list[tuple[str, JsonObject]] = []
        self._is_started = False

    def feed(self, *events: ReaderEvent) -> bytes:
        """The bytes for the next events of a reader; the first bytes begin the stream."""
        self._start()
        self._queue += events
        self._write_queue(None)
        return self._take()

    def finish(self, reply: ModelReply) -> bytes:
        """The rest of the stream, with whatever of the reply no event has brought."""
        self._start()
        self._complete(reply)
        self._end_reply(reply)
        return self._take()

    def whole(self, reply: ModelReply) -> JsonObject:
        """A reply that is not streamed."""
        self._complete(reply)
        return self._whole(reply)

    @abstractmethod
    def _begin_reply(self) -> None: ...

    @abstractmethod
    def _begin(self, piece: ReplyPiece) -> None: ...

    @abstractmethod
    def _add(self, piece: ReplyPiece, more: str) -> None: ...

    @abstractmethod
    def _end(self, piece: ReplyPiece) -> None: ...

    @abstractmethod
    def _end_reply(self, reply: ModelReply) -> None: ...

    @abstractmethod
    def _whole(self, reply: ModelReply) -> JsonObject: ...

    def _emit(self, kind: str, **data: Any) -> None:
        self._out.append((kind, data))

    def _encode(self, kind: str, data: JsonObject) -> bytes:
        return b"event: %b\ndata: %b\n\n" % (kind.encode(), _json({"type": kind, **data}))

    def _start(self) -> None:
        if not self._is_started:
            self._is_started = True
            self._begin_reply()

    def _take(self) -> bytes:
        out, self._out = self._out, []
        return b"".join(self._encode(kind, data) for kind, data in out)

    def _complete(self, reply: ModelReply) -> None:
        """Write what no event has brought, with the arguments of calls as they are in the reply."""
        begun = [one.call_id for one in self._pieces if one.kind == "call"]
        begun += [one.id or "" for one in self._queue if isinstance(one, CallStarted)]
        if not self._pieces and not self._queue:
            self._queue = [*reply_events(reply)]
        else:
            if reply.text and not any(one.kind == "text" for one in self._pieces):
                self._queue.append(TextDelta(reply.text))
            self._queue += [CallStarted(one.id, one.name) for one in _without(reply.tool_calls, begun)]
        closed = [one.call_id for one in self._pieces if one.kind == "call" and one is not self._open]
        calls = _without(reply.tool_calls, closed)
        self._queue = [one for one in self._queue if not isinstance(one, CallDelta)]
        self._write_queue(calls)
        self._close(calls)

    def _write_queue(self, calls: list[ToolCall] | None) -> None:
        """Write what can be written; everything, if the calls of the whole reply are known."""
        while self._queue:
            # The arguments of the open call go before all that waits for its end.
            more = (at for at, one in enumerate(self._queue) if isinstance(one, CallDelta))
            event = self._queue.pop(next((at for at in more if self._continues(self._queue[at])), 0))
            if not self._continues(event) and not isinstance(event, CallDelta):
                if not self._close(calls):
                    self._queue.insert(0, event)
                    return
                at = len(self._pieces)
                if isinstance(event, CallStarted):
                    self._open = ReplyPiece("call", at, event.id or "", event.name)
                else:
                    self._open = ReplyPiece("text" if isinstance(event, TextDelta) else "thinking", at)
                self._pieces.append(self._open)
                self._begin(self._open)
            if isinstance(event, TextDelta | ThinkingDelta):
                self._grow(event.text)
            elif isinstance(event, CallDelta) and self._continues(event):
                self._grow(event.arguments)

    def _continues(self, event: ReaderEvent) -> bool:
        """Tell whether an event is a part of the open piece."""
        piece = self._open
        if piece is None or isinstance(event, CallStarted):
            return False
        if isinstance(event, CallDelta):
            return piece.kind == "call" and piece.call_id == (event.id or "")
        return piece.kind == ("text" if isinstance(event, TextDelta) else "thinking")

    def _grow(self, more: str) -> None:
        if more and self._open is not None:
            self._open.texts.append(more)
            self._add(self._open, more)

    def _close(self, calls: list[ToolCall] | None) -> bool:
        """End the open piece; False if it has to wait for more."""
        if (piece := self._open) is None:
            return True
        if calls is None and not piece.is_complete:
            return False
        if piece.kind == "call" and calls:
            call = next((one for one in calls if (one.id or "") == piece.call_id), None)
            if call is not None:
                calls.remove(call)
                if call.arguments.startswith(piece.text):
                    self._grow(call.arguments[len(piece.text) :])
        self._end(piece)
        self._open = None
        return True


def reply_events(reply: ModelReply) -> Iterator[ReaderEvent]:
    """A whole reply as the events of a stream."""
    last = len(reply.parts)
    places = [*reply.calls_at, *[last] * len(reply.tool_calls)]
    calls = list(zip(places, reply.tool_calls, strict=False))
    for at in range(last + 1):
        for call in [one for place, one in calls if min(place, last) == at]:
            yield CallStarted(call.id, call.name)
            yield CallDelta(call.id, call.arguments)
        part = reply.parts[at] if at < last else None
        if isinstance(part, TextContent) and part.text:
            yield TextDelta(part.text)
        elif isinstance(part, ThinkingContent) and part.text:
            yield ThinkingDelta(part.text)


def _without(calls: tuple[ToolCall, ...], ids: list[str]) -> list[ToolCall]:
    """The calls without those of some ids; of several calls with one id, each id takes one away."""
    left = list(ids)
    kept = []
    for call in calls:
        if (call.id or "") in left:
            left.remove(call.id or "")
        else:
            kept.append(call)
    return kept


def _json(data: JsonObject) -> bytes:
    # Half a character is no text that a client could read.
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _parse_object(text: str) -> JsonObject | None:
    return decode_arguments(ToolCall(None, "", text))


_CHAT_STOPS = {"tools": "tool_calls", "length": "length", "overflow": "length", "refused": "content_filter"}


class ChatReplyWriter(ReplyWriter):
    """Chat completions."""

    def _encode(self, kind: str, data: JsonObject) -> bytes:
        return b"data: %b\n\n" % (kind.encode() or _json(data))

    def _begin_reply(self) -> None:
        self._chunk({"role": "assistant", "content": ""})

    def _begin(self, piece: ReplyPiece) -> None:
        if piece.kind == "call":
            self._chunk({"tool_calls": [{"index": self._number(piece), **_chat_call(piece)}]})

    def _add(self, piece: ReplyPiece, more: str) -> None:
        match piece.kind:
            case "text":
                self._chunk({"content": more})
            case "thinking":
                self._chunk({"reasoning_content": more})
            case "call":
                self._chunk({"tool_calls": [{"index": self._number(piece), "function": {"arguments": more}}]})

    def _end(self, piece: ReplyPiece) -> None:
        """A piece has no end here."""

    def _end_reply(self, reply: ModelReply) -> None:
        self._chunk({}, finish_reason=_CHAT_STOPS.get(reply.stop or "", "stop"))
        if as_mapping(self.head.request.get("stream_options")).get("include_usage"):
            usage = _openai_usage(reply.usage, "prompt", "completion")
            self._emit("", **self._body("chat.completion.chunk"), choices=[], usage=usage)
        self._emit("[DONE]")

    def _whole(self, reply: ModelReply) -> JsonObject:
        calls = [_chat_call(one) for one in self._pieces if one.kind == "call"]
        thought = "".join(one.text for one in self._pieces if one.kind == "thinking")
        message: JsonObject = {
            "role": "assistant",
            "content": reply.text or (None if calls else ""),
            "refusal": None,
        }
        message |= ({"reasoning_content": thought} if thought else {}) | (
            {"tool_calls": calls} if calls else {}
        )
        stop = _CHAT_STOPS.get(reply.stop or "", "stop")
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": stop}
        usage = _openai_usage(reply.usage, "prompt", "completion")
        return {**self._body("chat.completion"), "choices": [choice], "usage": usage}

    def _chunk(self, delta: JsonObject, finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        self._emit("", **self._body("chat.completion.chunk"), choices=[choice])

    def _body(self, kind: str) -> JsonObject:
        head = self.head
        return {"id": head.id, "object": kind, "created": head.created, "model": head.model}

    def _number(self, piece: ReplyPiece) -> int:
        return sum(one.kind == "call" for one in self._pieces[: piece.at])


def _chat_call(piece: ReplyPiece) -> JsonObject:
    function = {"name": piece.name, "arguments": piece.text}
    return {"id": piece.call_id, "type": "function", "function": function}


def _openai_usage(usage: Usage, prompt: str, answer: str) -> JsonObject:
    return {
        f"{prompt}_tokens": usage.input_tokens,
        f"{prompt}_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        f"{answer}_tokens": usage.output_tokens,
        f"{answer}_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


_MESSAGE_STOPS = {
    "tools": "tool_use",
    "length": "max_tokens",
    "overflow": "model_context_window_exceeded",
    "refused": "refusal",
}
# Of each kind: the block that it begins with, and the field of it, and of a delta, that grows.
_BLOCKS: dict[PieceKind, tuple[JsonObject, str, str]] = {
    "text": ({"type": "text", "text": ""}, "text", "text"),
    # Another provider's thinking has no signature that this one could check.
    "thinking": ({"type": "thinking", "thinking": "", "signature": ""}, "thinking", "thinking"),
    "call": ({"type": "tool_use", "id": "", "name": "", "input": {}}, "input_json", "partial_json"),
}


class MessagesReplyWriter(ReplyWriter):
    """Anthropic's Messages."""

    def _begin_reply(self) -> None:
        self._emit("message_start", message=self._message([], None, Usage()))

    def _begin(self, piece: ReplyPiece) -> None:
        block = {**_BLOCKS[piece.kind][0]}
        if piece.kind == "call":
            block |= {"id": piece.call_id, "name": piece.name}
        self._emit("content_block_start", index=piece.at, content_block=block)

    def _add(self, piece: ReplyPiece, more: str) -> None:
        _, kind, name = _BLOCKS[piece.kind]
        self._emit("content_block_delta", index=piece.at, delta={"type": f"{kind}_delta", name: more})

    def _end(self, piece: ReplyPiece) -> None:
        self._emit("content_block_stop", index=piece.at)

    def _end_reply(self, reply: ModelReply) -> None:
        delta = {"stop_reason": _MESSAGE_STOPS.get(reply.stop or "", "end_turn"), "stop_sequence": None}
        self._emit("message_delta", delta=delta, usage=_message_usage(reply.usage))
        self._emit("message_stop")

    def _whole(self, reply: ModelReply) -> JsonObject:
        stop = _MESSAGE_STOPS.get(reply.stop or "", "end_turn")
        return self._message([_block(one) for one in self._pieces], stop, reply.usage)

    def _message(self, content: list[JsonObject], stop: str | None, usage: Usage) -> JsonObject:
        message: JsonObject = {
            "id": self.head.id,
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
        }
        message |= {"content": content, "stop_reason": stop, "stop_sequence": None}
        return message | {"usage": _message_usage(usage)}


def _block(piece: ReplyPiece) -> JsonObject:
    begun = _BLOCKS[piece.kind][0]
    if piece.kind != "call":
        return {**begun, piece.kind: piece.text}
    found = _parse_object(piece.text)
    given = {RAW_ARGUMENTS_KEY: piece.text} if found is None else found
    return {**begun, "id": piece.call_id, "name": piece.name, "input": given}


def _message_usage(usage: Usage) -> JsonObject:
    details = {"thinking_tokens": usage.reasoning_tokens}
    return {
        "input_tokens": max(usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens, 0),
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.output_tokens,
    } | ({"output_tokens_details": details} if usage.reasoning_tokens else {})


_INCOMPLETE = {"length": "max_output_tokens", "overflow": "max_output_tokens", "refused": "content_filter"}
# Of a body: what a response repeats, with what it means to leave it out.
_REQUEST_FIELDS: JsonObject = {
    "instructions": None,
    "metadata": None,
    "parallel_tool_calls": True,
    "temperature": None,
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
}  # fmt: skip
# Of each kind: what its part, its text and its id are called, and the index of the part.
_PARTS: dict[PieceKind, tuple[str, str, str, str]] = {
    "text": ("content_part", "output_text", "msg", "content_index"),
    "thinking": ("reasoning_summary_part", "reasoning_summary_text", "rs", "summary_index"),
    "call": ("", "function_call_arguments", "fc", ""),
}


class ResponsesReplyWriter(ReplyWriter):
    """Responses; a call of a tool that takes a text comes with its whole input."""

    def __init__(self, head: ReplyHead) -> None:
        super().__init__(head)
        self._count = 0
        tools = as_mappings(head.request.get("tools"))
        self._custom = {as_text(one.get("name")) for one in tools if one.get("type") == "custom"}

    def _emit(self, kind: str, **data: Any) -> None:
        super()._emit(f"response.{kind}", sequence_number=self._count, **data)
        self._count += 1

    def _begin_reply(self) -> None:
        begun = self._response([], "in_progress")
        self._emit("created", response=begun)
        self._emit("in_progress", response=begun)

    def _begin(self, piece: ReplyPiece) -> None:
        self._emit("output_item.added", output_index=piece.at, item=self._item(piece, is_done=False))
        if piece.kind != "call":
            self._emit(f"{_PARTS[piece.kind][0]}.added", **self._place(piece), part=_part(piece.kind, ""))

    def _add(self, piece: ReplyPiece, more: str) -> None:
        if not self._is_custom(piece):
            logprobs: JsonObject = {"logprobs": []} if piece.kind == "text" else {}
            self._emit(f"{_PARTS[piece.kind][1]}.delta", **self._place(piece), delta=more, **logprobs)

    def _end(self, piece: ReplyPiece) -> None:
        part, text, _, _ = _PARTS[piece.kind]
        if self._is_custom(piece):
            given = _custom_input(piece)
            self._emit("custom_tool_call_input.delta", **self._place(piece), delta=given)
            self._emit("custom_tool_call_input.done", **self._place(piece), input=given)
        elif piece.kind == "call":
            self._emit(f"{text}.done", **self._place(piece), name=piece.name, arguments=piece.text)
        else:
            logprobs: JsonObject = {"logprobs": []} if piece.kind == "text" else {}
            self._emit(f"{text}.done", **self._place(piece), text=piece.text, **logprobs)
            self._emit(f"{part}.done", **self._place(piece), part=_part(piece.kind, piece.text))
        self._emit("output_item.done", output_index=piece.at, item=self._item(piece, is_done=True))

    def _end_reply(self, reply: ModelReply) -> None:
        whole = self._whole(reply)
        self._emit(whole["status"], response=whole)

    def _whole(self, reply: ModelReply) -> JsonObject:
        reason = _INCOMPLETE.get(reply.stop or "")
        usage = _openai_usage(reply.usage, "input", "output")
        output = [self._item(one, is_done=True) for one in self._pieces]
        made = self._response(output, "incomplete" if reason else "completed") | {"usage": usage}
        return made | ({"incomplete_details": {"reason": reason}} if reason else {})

    def _response(self, output: list[JsonObject], status: str) -> JsonObject:
        head, given = self.head, self.head.request
        made = {"id": head.id, "object": "response", "created_at": head.created, "model": head.model}
        made |= {"status": status, "output": output, "error": None, "incomplete_details": None, "usage": None}
        return made | {name: given.get(name, usual) for name, usual in _REQUEST_FIELDS.items()}

    def _item(self, piece: ReplyPiece, *, is_done: bool) -> JsonObject:
        name, status = self._name(piece), "completed" if is_done else "in_progress"
        match piece.kind:
            case "text":
                content = [_part("text", piece.text)] if is_done else []
                item: JsonObject = {"type": "message", "id": name, "role": "assistant", "content": content}
            case "thinking":
                summary = [_part("thinking", piece.text)] if is_done else []
                return {"type": "reasoning", "id": name, "summary": summary}
            case "call":
                item = {"type": "function_call", "id": name, "call_id": piece.call_id, "name": piece.name}
                if self._is_custom(piece):
                    return {
                        **item,
                        "type": "custom_tool_call",
                        "input": _custom_input(piece) if is_done else "",
                    }
                item["arguments"] = piece.text if is_done else ""
        return {**item, "status": status}

    def _name(self, piece: ReplyPiece) -> str:
        return f"{_PARTS[piece.kind][2]}_{self.head.id.partition('_')[2]}_{piece.at}"

    def _place(self, piece: ReplyPiece) -> JsonObject:
        index = _PARTS[piece.kind][3]
        place = {"item_id": self._name(piece), "output_index": piece.at}
        return place | ({index: 0} if index else {})

    def _is_custom(self, piece: ReplyPiece) -> bool:
        return piece.kind == "call" and piece.name in self._custom


def _part(kind: PieceKind, text: str) -> JsonObject:
    if kind == "text":
        return {"type": "output_text", "text": text, "annotations": []}
    return {"type": "summary_text", "text": text}


def _custom_input(piece: ReplyPiece) -> str:
    return as_text(as_mapping(_parse_object(piece.text)).get(CUSTOM_INPUT)) or piece.text


_WRITERS: Mapping[WireFormat, type[ReplyWriter]] = {
    "openai": ChatReplyWriter,
    "responses": ResponsesReplyWriter,
    "anthropic": MessagesReplyWriter,
}


def reply_writer(wire_format: WireFormat, head: ReplyHead) -> ReplyWriter:
    """A writer for one reply in the words of chat completions, Responses or Messages."""
    return _WRITERS[wire_format](head)
