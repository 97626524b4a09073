"""Where a document is divided: at paragraphs where that is possible, with a little of what came before.

A passage should be small enough that several fit into a context and large enough to be understood alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from autonomy_ctx.items.tokens import estimate_tokens

SIZE, OVERLAP = 240, 40
# No token is usually longer, so nothing further back can be part of an overlap.
_REACH = 8 * OVERLAP
_PARAGRAPH = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s+|(?<=[\u3002\uff01\uff1f])|\n")


class Piece(NamedTuple):
    """A part of a text that is not divided further."""

    start: int
    end: int
    tokens: int


def chunks(text: str, *, size: int = SIZE, overlap: int = OVERLAP) -> list[str]:
    """The text in pieces of at most `size` tokens, each after the last sentences of the one before it."""
    made: list[str] = []
    start = end = begun = spent = 0
    for piece in _pieces(text, size):
        if spent and spent + piece.tokens > size:
            made.append(text[begun:end].strip())
            begun, start, spent = _overlap(text, start, end, overlap), piece.start, 0
        end, spent = piece.end, spent + piece.tokens
    made.append(text[begun:end].strip())
    return [chunk for chunk in made if chunk]


def _overlap(text: str, start: int, end: int, tokens: int) -> int:
    """Where the last sentences of text[start:end] begin that cost at most so many tokens."""
    first = max(start, end - _REACH)
    starts = [found.end() for found in _SENTENCE.finditer(text, first, end)]
    return next((at for at in starts if at > start and estimate_tokens(text[at:end]) <= tokens), end)


def _pieces(text: str, size: int) -> Iterator[Piece]:
    for paragraph in _spans(text, 0, len(text), _PARAGRAPH):
        whole = _piece(text, *paragraph)
        if whole.tokens <= size:
            yield whole
            continue
        for sentence in _spans(text, *paragraph, _SENTENCE):
            yield from _halved(text, _piece(text, *sentence), size)


def _spans(text: str, start: int, end: int, border: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """What lies between borders; a border belongs to what is before it, so nothing is lost."""
    at = start
    for found in border.finditer(text, start, end):
        if found.end() > at:
            yield at, found.end()
        at = found.end()
    if at < end:
        yield at, end


def _halved(text: str, piece: Piece, size: int) -> Iterator[Piece]:
    if piece.tokens <= size or piece.end - piece.start < 2:
        yield piece
        return
    middle = (piece.start + piece.end) // 2
    space = text.rfind(" ", piece.start + 1, middle)
    cut = space + 1 if space > 0 and middle - space < 100 else middle
    yield from _halved(text, _piece(text, piece.start, cut), size)
    yield from _halved(text, _piece(text, cut, piece.end), size)


def _piece(text: str, start: int, end: int) -> Piece:
    return Piece(start, end, estimate_tokens(text[start:end]))
