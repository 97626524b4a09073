"""Replies of Responses, whole or in pieces: a list of items either way."""

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
from autonomy_ctx.items.formats.signatures import RESPONSES, signed
from autonomy_ctx.items.frozen import EMPTY

# Under this name a call keeps the reasoning that came between it and the call before.
REASONING = "reasoning_items"
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "refused"}
_OVER = ("response.completed", "response.incomplete", "response.failed")


def responses_reply(body: Mapping[str, Any], new_id: Callable[[], str]) -> ModelReply:
    """What a whole response says."""
    pieces = Pieces()
    calls: list[ToolCall] = []
    between: list[Mapping[str, Any]] = []
    refused = False
    for item in entries(body.get("output")):
        match item.get("type"):
            case "message":
                for part in entries(item.get("content")):
                    refused = refused or part.get("type") == "refusal"
                    pieces.add_text(text(part.get("text")) or text(part.get("refusal")))
            case "reasoning" if not calls:
                pieces.add_thought(_thought(item), _signature(item))
            case "reasoning":
                between += [_bare(item)] if _signature(item) else []
            case "function_call":
                call_id = word(item.get("call_id")) or word(item.get("id")) or new_id()
                extra = {REASONING: [dict(kept) for kept in between]} if between else EMPTY
                calls.append(ToolCall(call_id, text(item.get("name")), text(item.get("arguments")), extra))
                between = []
    return ModelReply(
        parts=pieces.parts,
        tool_calls=tuple(calls),
        stop=_stop(body, called=bool(calls), refused=refused),
        usage=_usage(fields(body.get("usage"))),
        model=word(body.get("model")),
        id=word(body.get("id")),
    )


class ResponsesReader:
    """Builds the list of items as it comes; the last event has all of it, if it ever arrives."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """What one event says; an error in the middle of a stream is raised."""
        kind = text(data.get("type")) or event or ""
        if kind == "error" or (not data.get("type") and data.get("error")):
            raise broken_off(data.get("error") or data)
        if kind in ("response.created", "response.in_progress", *_OVER):
            self._response = dict(fields(data.get("response")))
        if kind == "response.failed":
            raise broken_off(self._response.get("error"))
        at = count(data.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = dict(fields(data.get("item")))
            fresh = at not in self._items
            self._items[at] = item
            if fresh and item.get("type") == "function_call":
                return [CallStarted(word(item.get("call_id")), text(item.get("name")))]
            return []
        return self._delta(kind, at, data)

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        # Some servers leave the output of the last event empty.
        output = self._response.get("output") or [self._items[at] for at in sorted(self._items)]
        return responses_reply({**self._response, "output": output}, self._new_id)

    def _delta(self, kind: str, at: int, data: Mapping[str, Any]) -> list[StreamEvent]:
        piece = text(data.get("delta"))
        match kind:
            case "response.output_text.delta":
                self._grow(at, "message", "content", data.get("content_index"), "output_text", piece)
                return [TextDelta(piece)] if piece else []
            case "response.refusal.delta":
                self._grow(at, "message", "content", data.get("content_index"), "refusal", piece)
                return [TextDelta(piece)] if piece else []
            case "response.reasoning_summary_text.delta":
                self._grow(at, "reasoning", "summary", data.get("summary_index"), "summary_text", piece)
                return [ThinkingDelta(piece)] if piece else []
            case "response.reasoning_text.delta":
                self._grow(at, "reasoning", "content", data.get("content_index"), "reasoning_text", piece)
                return [ThinkingDelta(piece)] if piece else []
            case "response.function_call_arguments.delta":
                item = self._items.setdefault(at, {"type": "function_call"})
                item["arguments"] = text(item.get("arguments")) + piece
            case "response.function_call_arguments.done":
                self._items.setdefault(at, {"type": "function_call"})["arguments"] = text(
                    data.get("arguments")
                )
        return []

    def _grow(self, at: int, kind: str, key: str, index: Any, part: str, piece: str) -> None:
        """Add a piece to the part of an item that it belongs to."""
        item = self._items.setdefault(at, {"type": kind})
        parts = item[key] = entries(item.get(key))
        number = min(count(index), len(parts))
        if number == len(parts):
            parts.append({})
        field = "refusal" if part == "refusal" else "text"
        grown = text(parts[number].get(field)) + piece
        parts[number] = {**parts[number], "type": part, field: grown}


def _thought(item: Mapping[str, Any]) -> str:
    told = entries(item.get("summary")) or entries(item.get("content"))
    return "\n\n".join(text(part.get("text")) for part in told)


def _signature(item: Mapping[str, Any]) -> str | None:
    """What is needed to send a reasoning item back; without encrypted content nothing can."""
    encrypted, name = word(item.get("encrypted_content")), word(item.get("id"))
    if not encrypted or not name:
        return None
    return signed(RESPONSES, json.dumps({"id": name, "encrypted_content": encrypted}))


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    summary = [
        {"type": "summary_text", "text": text(part.get("text"))} for part in entries(item.get("summary"))
    ]
    return {
        "type": "reasoning",
        "id": item["id"],
        "encrypted_content": item["encrypted_content"],
        "summary": summary,
    }


def _stop(body: Mapping[str, Any], *, called: bool, refused: bool) -> str | None:
    match body.get("status"):
        case "completed":
            return "tools" if called else "refused" if refused else "end"
        case "incomplete":
            reason = text(fields(body.get("incomplete_details")).get("reason"))
            return _INCOMPLETE.get(reason, reason or "incomplete")
        case "failed" | "cancelled" as status:
            return failure(body) or str(status)
    return failure(body)


def _usage(usage: Mapping[str, Any]) -> Usage:
    read = fields(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        cached_tokens=count(read.get("cached_tokens")),
        cache_write_tokens=count(read.get("cache_write_tokens")),
        output_tokens=count(usage.get("output_tokens")),
    )
