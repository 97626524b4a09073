"""Requests as a provider got them: which of them go on from the one before, and what its cache could read.

An end of an epoch is seen here in what was sent, and not in what the library says about it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.testing.providers import ClaudeModel, ProviderRequest
from autonomy_ctx.testing.providers.cache import GPT_LEAST_CACHED
from autonomy_ctx.testing.providers.state import find_words, to_canonical, without_marks


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest:
    """A request that was answered, beside the context it was made of and the request before it."""

    request: ProviderRequest
    end_reason: str | None
    # The first request after a restart, or of another process than the one before.
    begins_process: bool
    # Whether it begins otherwise than the request before it, and whether it is the first with its summary.
    is_end: bool
    shows_new_summary: bool
    # The tokens that the cache could give it, and the blocks of thinking that it could carry.
    possible_reads: int
    possible_thinking: int

    @property
    def reads(self) -> int:
        """The tokens that the cache gave it, of those that were possible."""
        return min(self.request.cached, self.possible_reads)

    @property
    def continues(self) -> bool:
        """True if it goes on, or if it had to begin anew because there is a new summary."""
        return not self.is_end or (self.end_reason in ("swap", None) and self.shows_new_summary)


class RequestLog:
    """The requests of one conversation in their order."""

    def __init__(self) -> None:
        self.sent: list[SentRequest] = []
        self._pieces: list[Piece] = []
        self._segments: tuple[str, ...] = ()
        # The replies with thinking that can be sent back, by the id of their call or by their text.
        self._thought: set[str] = set()
        # The numbers of tokens at the beginning of the last request that a live mark covers.
        self._marks: list[int] = []

    def add(self, request: ProviderRequest, context: ComposedContext, *, begins_process: bool) -> None:
        """Compare a request with the one before it."""
        pieces, before = list(split_request(request.body)), self._pieces
        shared = _count_shared(before, pieces)
        is_end = shared < len(before)
        binds = "claude" in request.model
        if is_end:
            # Where it is bound to the beginning, thinking cannot outlive it.
            self._thought = set() if binds else self._thought
            tokens = sum(piece.tokens for piece in pieces[:shared])
            self._marks = [mark for mark in self._marks if mark <= tokens]
        # Without the facts: they are no summary of their own.
        segments = tuple(
            segment.text for one in context.messages if isinstance(one, Summary) for segment in one.segments
        )
        self.sent.append(
            SentRequest(
                request=request,
                end_reason=getattr(context, "end_reason", None),
                begins_process=begins_process and bool(before),
                is_end=is_end,
                shows_new_summary=bool(segments) and segments != self._segments,
                possible_reads=max(self._marks, default=0),
                possible_thinking=sum(_find_reply(piece.value) in self._thought for piece in pieces),
            )
        )
        self._pieces, self._segments = pieces, segments
        self._marks = _find_marks(request, pieces, self._marks)
        if any(block["type"] == "thinking" for block in request.reply):
            self._thought |= {_find_reply(block) for block in request.reply} - {""}


class Piece(NamedTuple):
    """A tool, a text of the instructions, a block of a message, or an item; its text has no cache marks."""

    text: str
    tokens: int
    is_marked: bool
    value: Mapping[str, Any]


def split_request(body: Mapping[str, Any]) -> Iterator[Piece]:
    """All that a model reads of a request, in its order. It does not matter which blocks share a message."""
    for one in body.get("tools") or ():
        yield _make_piece("tool", one)
    for one in _list_blocks(body.get("system") or []):
        yield _make_piece("system", one)
    for message in body.get("messages") or ():
        for one in _list_blocks(message.get("content") or []):
            yield _make_piece(str(message["role"]), one)
    for item in body.get("input") or ():
        yield _make_piece("item", item)


def _make_piece(role: str, value: Mapping[str, Any]) -> Piece:
    bare = without_marks(value)
    return Piece(f"{role}{to_canonical(bare)}", len(find_words(bare)), "cache_control" in str(value), bare)


def _list_blocks(content: Any) -> list[Any]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _find_reply(value: Mapping[str, Any]) -> str:
    """The id of a call, or the text of an answer; an empty text for anything else."""
    match value:
        case {"type": "tool_use", "id": str(name)} | {"type": "function_call", "call_id": str(name)}:
            return name
        case {"role": "assistant", "content": [{"text": str(text)}, *_]}:
            return text
        case {"role": "assistant", "content": str(text)} | {"type": "text", "text": str(text)}:
            return text
    return ""


def _count_shared(before: Sequence[Piece], now: Sequence[Piece]) -> int:
    pairs = enumerate(zip(before, now, strict=False))
    same = (at for at, (one, other) in pairs if one.text != other.text)
    return next(same, min(len(before), len(now)))


def _find_marks(request: ProviderRequest, pieces: Sequence[Piece], earlier: Sequence[int]) -> list[int]:
    """The marks of a request, and for GPT those before: it sets them itself, and they live long enough."""
    if "claude" not in request.model:
        marks, least = [*earlier, request.cached + request.written], GPT_LEAST_CACHED
    else:
        ends = accumulate(piece.tokens for piece in pieces)
        marks = [end for end, piece in zip(ends, pieces, strict=True) if piece.is_marked]
        least = ClaudeModel.parse(request.model).min_cached_tokens
    return [mark for mark in marks if mark >= least]
