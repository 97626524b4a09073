"""An answer of Bedrock's that comes in pieces, put together to the response it would have been."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.items.formats.reading import count, fields, text, word
from autonomy_ctx.items.formats.reply import CallStarted, ModelReply, StreamEvent, TextDelta, ThinkingDelta
from autonomy_ctx.items.formats.stream_error import StreamError
from autonomy_ctx.items.formats.values import is_base64


@dataclass(slots=True)
class _Block:
    """The pieces of one block; which of them there are says what it is."""

    use: Mapping[str, Any] | None = None
    arguments: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)
    thought: list[str] = field(default_factory=list)
    signature: list[str] = field(default_factory=list)
    redacted: list[str] = field(default_factory=list)
    closed: bool = False


class BedrockReader:
    """Collects the events of one stream; the client ends it with `finish()`."""

    def __init__(self, read_response: Callable[[Mapping[str, Any]], ModelReply]) -> None:
        self._read_response = read_response
        self._blocks: dict[int, _Block] = {}
        self._stop: Any = None
        self._usage: Mapping[str, Any] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
        """What one event says; a `StreamError` if it is an exception, nothing if it is unknown.

        Without its name an event is expected in the shape `{"contentBlockDelta": {...}}`.
        """
        if event is None:
            event = next(iter(data), "")
            data = fields(data.get(event))
        if event.endswith("Exception") or event == "error":
            raise StreamError(word(data.get("code")) or event, text(data.get("message")))
        index = count(data.get("contentBlockIndex"))
        match event:
            case "contentBlockStart":
                if use := fields(fields(data.get("start")).get("toolUse")):
                    self._block(index).use = use
                    return (CallStarted(word(use.get("toolUseId")), text(use.get("name"))),)
            case "contentBlockDelta":
                return self._added(self._block(index), fields(data.get("delta")))
            case "contentBlockStop":
                self._block(index).closed = True
            case "messageStop":
                self._stop = data.get("stopReason")
            case "metadata":
                self._usage = fields(data.get("usage"))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        content = [made for _, block in sorted(self._blocks.items()) for made in self._whole(block)]
        output = {"message": {"role": "assistant", "content": content}}
        return self._read_response({"output": output, "stopReason": self._stop, "usage": self._usage})

    def _block(self, index: int) -> _Block:
        return self._blocks.setdefault(index, _Block())

    def _added(self, block: _Block, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        reasoning = fields(delta.get("reasoningContent"))
        block.arguments.append(text(fields(delta.get("toolUse")).get("input")))
        block.signature.append(text(reasoning.get("signature")))
        block.redacted.append(text(reasoning.get("redactedContent")))
        if thought := text(reasoning.get("text")):
            block.thought.append(thought)
            return (ThinkingDelta(thought),)
        if said := text(delta.get("text")):
            block.text.append(said)
            return (TextDelta(said),)
        return ()

    def _whole(self, block: _Block) -> Sequence[Mapping[str, Any]]:
        """A block as it would stand in a whole response; none of a call that was not complete."""
        if block.use is not None:
            # Half of a call must not be run; half of a text is still worth reading.
            done = block.closed or self._stop is not None
            return [{"toolUse": {**block.use, "input": "".join(block.arguments)}}] if done else []
        if redacted := _bytes(block.redacted):
            return [{"reasoningContent": {"redactedContent": redacted}}]
        if block.thought or any(block.signature):
            thought = {"text": "".join(block.thought), "signature": "".join(block.signature)}
            return [{"reasoningContent": {"reasoningText": thought}}]
        return [{"text": "".join(block.text)}]


def _bytes(pieces: Sequence[str]) -> str:
    """Pieces of base64 as one: each may carry its own padding."""
    return base64.b64encode(
        b"".join(base64.b64decode(piece) for piece in pieces if is_base64(piece))
    ).decode()
