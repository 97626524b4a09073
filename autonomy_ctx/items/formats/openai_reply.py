"""Replies of chat completions, whole or in pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from autonomy_ctx.items.formats.reading import (
    CallDraft,
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
    ModelReply,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
)

_STOPS = {
    "stop": "end",
    "eos": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


def chat_reply(body: Mapping[str, Any], new_id: Callable[[], str]) -> ModelReply:
    """What a whole response says."""
    reader = ChatReader(new_id)
    for choice in entries(body.get("choices"))[:1]:
        reader.take(choice, "message")
    reader.told(body)
    return reader.finish()


class ChatReader:
    """Puts a stream's pieces together: texts in order, calls by their index."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._pieces = Pieces()
        # Under its index where there is one; servers that leave it out are told apart by ids.
        self._drafts: list[CallDraft] = []
        self._stop: str | None = None
        self._refused = False
        self._about: dict[str, Any] = {}
        self._usage = Usage()
        self._failure: str | None = None

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """What one chunk says; an error in the middle of a stream is raised."""
        if data.get("error"):
            raise broken_off(data["error"])
        self.told(data)
        events: list[StreamEvent] = []
        for choice in entries(data.get("choices"))[:1]:
            events += self.take(choice, "delta")
        return events

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        for draft in self._drafts:
            draft.id = draft.id or self._new_id()
        calls = tuple(draft.call() for draft in self._drafts if draft.name)
        stop = _STOPS.get(self._stop or "", self._stop)
        if stop == "end":
            stop = "tools" if calls else "refused" if self._refused else "end"
        return ModelReply(
            parts=self._pieces.parts,
            tool_calls=calls,
            stop=self._failure or stop,
            usage=self._usage,
            model=self._about.get("model"),
            id=self._about.get("id"),
        )

    def told(self, body: Mapping[str, Any]) -> None:
        """Note what is not part of the answer: id, model, usage."""
        for name in ("id", "model"):
            if word(body.get(name)):
                self._about[name] = body[name]
        if fields(body.get("usage")):
            self._usage = _usage(fields(body["usage"]))
        self._failure = failure(body)

    def take(self, choice: Mapping[str, Any], key: str) -> list[StreamEvent]:
        """Note one choice's message, or the next piece of it."""
        said = fields(choice.get(key))
        self._stop = word(choice.get("finish_reason")) or self._stop
        events: list[StreamEvent] = []
        # DeepSeek, vLLM and llama.cpp use the first name, OpenRouter and newer ones the second.
        thought = text(said.get("reasoning_content")) or text(said.get("reasoning"))
        if thought:
            self._pieces.add_thought(thought)
            events.append(ThinkingDelta(thought))
        for piece in _texts(said):
            self._pieces.add_text(piece)
            events.append(TextDelta(piece))
        if text(said.get("refusal")):
            self._refused = True
        for call in entries(said.get("tool_calls")):
            draft = self._draft(call)
            function = fields(call.get("function"))
            draft.id = draft.id or word(call.get("id"))
            draft.name = draft.name or text(function.get("name"))
            draft.arguments.append(text(function.get("arguments")))
            if call.get("extra_content"):
                draft.extra["extra_content"] = call["extra_content"]
            if draft.name and not draft.id:
                draft.id = self._new_id()
            events += draft.started()
        return events

    def _draft(self, call: Mapping[str, Any]) -> CallDraft:
        index, call_id = call.get("index"), word(call.get("id"))
        for draft in reversed(self._drafts):
            # Some servers number all calls 0; another id is another call.
            other = call_id and draft.id and call_id != draft.id
            if not other and draft.index == index and (index is not None or not _begins(call)):
                return draft
        self._drafts.append(CallDraft(index=index))
        return self._drafts[-1]


def _begins(call: Mapping[str, Any]) -> bool:
    """Whether a piece without an index is the first of its call: only that one has a name."""
    return bool(text(fields(call.get("function")).get("name")))


def _texts(said: Mapping[str, Any]) -> list[str]:
    content = said.get("content")
    texts = [text(part.get("text")) for part in entries(content)] or [text(content)]
    return [piece for piece in (*texts, text(said.get("refusal"))) if piece]


def _usage(usage: Mapping[str, Any]) -> Usage:
    read = fields(usage.get("prompt_tokens_details"))
    return Usage(
        input_tokens=count(usage.get("prompt_tokens")),
        cached_tokens=count(read.get("cached_tokens")),
        cache_write_tokens=count(read.get("cache_write_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
    )
