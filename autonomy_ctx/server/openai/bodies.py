"""Bodies of requests as JSON. One that goes on where another ended is decoded from there.

Most clients send all of a history with each request. To decode two thousand messages takes some milliseconds,
and makes two thousand new objects that are then compared with those of the request before. What a body shares
with an earlier one, byte for byte, is taken from that one: the same objects.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from json.decoder import WHITESPACE, scanstring  # type: ignore[attr-defined]  # not in the stubs
from math import isfinite
from typing import Any, NamedTuple, NoReturn

from autonomy_ctx.messages.text_cache import forget_with_texts

# Where bodies have their messages.
LIST_FIELDS = ("messages", "input")
# Shorter bodies are decoded in less time than it takes to look for what they share.
MIN_BODY_BYTES = 32 * 1024
# All bodies together, and how many there are.
MAX_CACHE_BYTES = 32 * 2**20
MAX_BODIES = 64
# A body that goes on often is in so many pieces at most.
MAX_PIECES = 32


class _KnownBody(NamedTuple):
    """The beginning of a body, up to the end of the last element of its list, and what it says.

    It is kept in the pieces in which it came: a copy of all with each request would take longer than the
    rest.
    """

    pieces: tuple[bytes, ...]
    length: int
    before: dict[str, Any]
    field: str
    elements: list[Any]

    def begins(self, raw: bytes) -> bool:
        """Tell whether a body begins so."""
        at = 0
        for piece in self.pieces:
            if not raw.startswith(piece, at):
                return False
            at += len(piece)
        return True


class _Body(NamedTuple):
    """Text of a body to be read: all of it, or the rest after a known beginning."""

    text: str
    raw: bytes
    known: _KnownBody | None

    def beginning(self, end: int) -> tuple[tuple[bytes, ...], int]:
        """The pieces of the body up to a place of the text, and their length."""
        pieces, start = ((), 0) if self.known is None else (self.known.pieces, self.known.length)
        read = self.text[:end]
        length = start + (end if read.isascii() else len(read.encode("utf-8", "surrogatepass")))
        pieces = (*pieces, self.raw[start:length])
        return ((b"".join(pieces),) if len(pieces) > MAX_PIECES else pieces), length


class _Irregular(Exception):
    """It is no JSON object, or not one that is read here."""


class BodyDecoder:
    """Decodes bodies; the same as `json.loads`, whatever it has decoded before, but finite numbers only."""

    def __init__(self, *, max_bodies: int = MAX_BODIES, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bodies, self._max_bytes = max_bodies, max_bytes
        decoder: Any = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_float)
        # A value from a place on, and the place after it.
        self._scan: Callable[[str, int], tuple[Any, int]] = decoder.scan_once
        # The newest last.
        self._known: list[_KnownBody] = []
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._known)

    def decode(self, raw: bytes, min_bytes: int = MIN_BODY_BYTES) -> Any:
        """Decode a body; `ValueError` or `RecursionError` when it is no JSON."""
        # Anything else may be in another encoding.
        if len(raw) >= max(min_bytes, 2) and raw[0] == ord("{") and raw[1]:
            try:
                return self._decode(raw)
            except (_Irregular, StopIteration, IndexError, ValueError, RecursionError):
                pass
        return json.loads(raw, parse_constant=_refuse_constant, parse_float=_parse_float)

    def clear(self) -> None:
        """Forget all bodies."""
        with self._lock:
            self._known = []
            self._bytes = 0

    def _decode(self, raw: bytes) -> dict[str, Any]:
        known = self._find(raw)
        start = 0 if known is None else known.length
        read = _Body(raw[start:].decode("utf-8", "surrogatepass"), raw, known)
        text = read.text
        if known is None:
            body: dict[str, Any] = {}
            at = self._read_field(read, _skip(text, 1), body)
        else:
            body = dict(known.before)
            at = self._read_list(read, 0, body, known.field, list(known.elements))
        while text[at] == ",":
            at = self._read_field(read, _skip(text, at + 1), body)
        if text[at] != "}" or _skip(text, at + 1) != len(text):
            raise _Irregular
        return body

    def _read_field(self, read: _Body, at: int, body: dict[str, Any]) -> int:
        """Read a name and its value; the place after them."""
        text = read.text
        if text[at] != '"':
            raise _Irregular
        name, at = scanstring(text, at + 1, True)
        at = _skip(text, at)
        if text[at] != ":":
            raise _Irregular
        at = _skip(text, at + 1)
        if name in LIST_FIELDS and text[at] == "[":
            return self._read_list(read, at + 1, body, name, [])
        body[name], at = self._scan(text, at)
        return _skip(text, at)

    def _read_list(self, read: _Body, at: int, body: dict[str, Any], field: str, elements: list[Any]) -> int:
        """Read on in a list, after its bracket or an element; the place after the list."""
        text = read.text
        before, end = dict(body), at
        at = _skip(text, at)
        while text[at] != "]":
            if elements:
                if text[at] != ",":
                    raise _Irregular
                at = _skip(text, at + 1)
            element, end = self._scan(text, at)
            elements.append(element)
            at = _skip(text, end)
        body[field] = elements
        if elements:
            self._keep(_KnownBody(*read.beginning(end), before, field, list(elements)))
        return _skip(text, at + 1)

    def _find(self, raw: bytes) -> _KnownBody | None:
        """The longest beginning that a body shares; the new body takes its place."""
        with self._lock:
            found = max(
                (one for one in self._known if one.begins(raw)),
                key=lambda one: one.length,
                default=None,
            )
            if found is not None:
                self._drop(found)
            return found

    def _keep(self, body: _KnownBody) -> None:
        with self._lock:
            self._known.append(body)
            self._bytes += body.length
            while len(self._known) > self._max_bodies or self._bytes > self._max_bytes:
                self._drop(self._known[0])

    def _drop(self, body: _KnownBody) -> None:
        self._known = [one for one in self._known if one is not body]
        self._bytes -= body.length


def _skip(text: str, at: int) -> int:
    """The place of the next character that is no white space."""
    return int(WHITESPACE.match(text, at).end())


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(text)


def _parse_float(text: str) -> float:
    """A number; one that is too large for it, such as 1e999, would be written as `Infinity`."""
    number = float(text)
    return number if isfinite(number) else _refuse_constant(text)


# One for the process: what is deleted must not stay in any.
BODIES = BodyDecoder()
forget_with_texts(BODIES.clear)
