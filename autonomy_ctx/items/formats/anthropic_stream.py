"""An answer of Anthropic's that comes in pieces, put together to the message it would have been."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autonomy_ctx.items.formats.reading import count, fields, text, word
from autonomy_ctx.items.formats.reply import CallStarted, ModelReply, StreamEvent, TextDelta, ThinkingDelta
from autonomy_ctx.items.formats.stream_error import StreamError

# Which field of which block each kind of delta adds to.
_GROWS = {
    "text_delta": ("text", "text", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("thinking", "signature", "signature"),
    "input_json_delta": ("tool_use", "partial_json", "input"),
}


class AnthropicReader:
    """Collects the events of one stream; the client ends it with `finish()`."""

    def __init__(self, read_message: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._read_message = read_message
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, Mapping[str, Any]] = {}
        self._grown: dict[int, dict[str, list[str]]] = {}
        self._closed: set[int] = set()

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """What one event says; a `StreamError` if it is an error, nothing if it is unknown."""
        index = count(data.get("index"))
        match data.get("type") or event:
            case "message_start":
                message = fields(data.get("message"))
                self._message.update({name: message.get(name) for name in ("id", "model", "stop_reason")})
                self._usage.update(fields(message.get("usage")))
            case "content_block_start":
                return self._started(index, fields(data.get("content_block")))
            case "content_block_delta":
                return self._added(index, fields(data.get("delta")))
            case "content_block_stop":
                self._closed.add(index)
            case "message_delta":
                self._message["stop_reason"] = fields(data.get("delta")).get("stop_reason")
                told = fields(data.get("usage")).items()
                # The counts so far: they replace those from the start, where they are given.
                self._usage.update({name: value for name, value in told if value is not None})
            case "error":
                error = fields(data.get("error"))
                raise StreamError(word(error.get("type")) or "error", text(error.get("message")))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        blocks = [
            self._whole(index)
            for index in sorted(self._blocks)
            # Half of a call must not be run; half of a text is still worth reading.
            if self._blocks[index].get("type") != "tool_use"
            or index in self._closed
            or self._message.get("stop_reason")
        ]
        return self._read_message({**self._message, "usage": self._usage, "content": blocks})

    def _started(self, index: int, block: Mapping[str, Any]) -> Sequence[StreamEvent]:
        self._blocks[index] = block
        self._grown[index] = {}
        match block.get("type"):
            case "tool_use":
                return (CallStarted(word(block.get("id")), text(block.get("name"))),)
            case "text" if shown := text(block.get("text")):
                return (TextDelta(shown),)
            case "thinking" if thought := text(block.get("thinking")):
                return (ThinkingDelta(thought),)
        return ()

    def _added(self, index: int, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        kind, source, target = _GROWS.get(text(delta.get("type")), ("", "", ""))
        more = text(delta.get(source))
        if not more:
            return ()
        if index not in self._blocks:
            if kind == "tool_use":
                return ()
            self._started(index, {"type": kind})
        if self._blocks[index].get("type") != kind:
            return ()
        self._grown[index].setdefault(target, []).append(more)
        if target == "text":
            return (TextDelta(more),)
        return (ThinkingDelta(more),) if target == "thinking" else ()

    def _whole(self, index: int) -> dict[str, Any]:
        """A block as it would stand in a whole message."""
        block = dict(self._blocks[index])
        for name, pieces in self._grown[index].items():
            begun = "" if name == "input" else text(block.get(name))
            block[name] = begun + "".join(pieces)
        return block
