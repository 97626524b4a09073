"""Replies of generateContent; each event of a stream is a small whole one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.reading import (
    Pieces,
    broken_off,
    count,
    entries,
    failure,
    fields,
    text,
    word,
)
from autonomy_ctx.items.formats.reply import (
    CallStarted,
    ModelReply,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from autonomy_ctx.items.formats.signatures import GOOGLE, signed
from autonomy_ctx.items.frozen import EMPTY
from autonomy_ctx.items.parts import ImageContent

# Under this name a call keeps the signature that must go back with it.
THOUGHT_SIGNATURE = "thought_signature"
_REFUSED = (
    "SAFETY",
    "RECITATION",
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
)
_STOPS = {"STOP": "end", "MAX_TOKENS": "length"} | dict.fromkeys(_REFUSED, "refused")


class GoogleReader:
    """Puts a stream's pieces together."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._pieces = Pieces()
        self._calls: list[ToolCall] = []
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = EMPTY
        self._about: dict[str, str] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """What one event says; an error in the middle of a stream is raised."""
        if data.get("error"):
            raise broken_off(data["error"])
        return self.take(data)

    def take(self, body: Mapping[str, Any]) -> list[StreamEvent]:
        """Note what one response, whole or a piece, says."""
        for name in ("responseId", "modelVersion"):
            if word(body.get(name)):
                self._about[name] = body[name]
        self._usage = fields(body.get("usageMetadata")) or self._usage
        self._stop = failure(body) or self._stop
        if word(fields(body.get("promptFeedback")).get("blockReason")):
            self._stop = "refused"
        events: list[StreamEvent] = []
        for candidate in entries(body.get("candidates"))[:1]:
            reason = word(candidate.get("finishReason"))
            self._stop = _STOPS.get(reason, reason) if reason else self._stop
            for part in entries(fields(candidate.get("content")).get("parts")):
                events += self._part(part)
        return events

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        stop = "tools" if self._stop == "end" and self._calls else self._stop
        return ModelReply(
            parts=self._pieces.parts,
            tool_calls=tuple(self._calls),
            stop=stop,
            usage=_usage(self._usage),
            model=self._about.get("modelVersion"),
            id=self._about.get("responseId"),
        )

    def _part(self, part: Mapping[str, Any]) -> list[StreamEvent]:
        piece, signature = text(part.get("text")), word(part.get("thoughtSignature"))
        mark = signed(GOOGLE, signature) if signature else None
        called, image = fields(part.get("functionCall")), fields(part.get("inlineData"))
        if called:
            call = self._call(called, signature)
            return [CallStarted(call.id, call.name)]
        if part.get("thought"):
            self._pieces.add_thought(piece, mark)
            return [ThinkingDelta(piece)] if piece else []
        if piece:
            self._pieces.add_text(piece)
        elif image and word(image.get("data")):
            kind = text(image.get("mimeType")) or "image/png"
            self._pieces.add_image(ImageContent(f"data:{kind};base64,{image['data']}"))
        if mark:
            # A text has no place for it, so it follows as a thought without words.
            self._pieces.add_thought("", mark)
        return [TextDelta(piece)] if piece else []

    def _call(self, called: Mapping[str, Any], signature: str | None) -> ToolCall:
        arguments = json.dumps(called.get("args") or {}, ensure_ascii=False)
        extra = {THOUGHT_SIGNATURE: signature} if signature else EMPTY
        # Older models give no id, and results are paired by it.
        call_id = word(called.get("id")) or self._new_id()
        self._calls.append(ToolCall(call_id, text(called.get("name")), arguments, extra))
        return self._calls[-1]


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=count(usage.get("promptTokenCount")) + count(usage.get("toolUsePromptTokenCount")),
        cached_tokens=count(usage.get("cachedContentTokenCount")),
        output_tokens=count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount")),
    )
