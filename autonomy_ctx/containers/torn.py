"""What is left of a JSON list, or of a line of JSON, after its writer was killed.

Writers only add at the end, so whatever a kill leaves is the beginning of what should have been
there. All that is whole in it is kept. A file that is not such a beginning was not torn but broken,
by hand or by another program, and is nobody's to mend.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

_decoder = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_WORDS = ("true", "false", "null", "NaN", "Infinity", "-Infinity")
_HALF_NUMBER = re.compile(r"\.|[eE][+-]?")
_HALF_ESCAPE = re.compile(r"\\u[0-9a-fA-F]{0,4}\Z")


@dataclass(frozen=True, slots=True)
class Whole:
    """The values that are whole, and whether a piece of another one had to be cut off."""

    values: list[Any]
    cut: bool


def whole_values(text: str) -> Whole:
    """What is whole of a JSON list that may end anywhere; raises ValueError when it is none."""
    # A power cut can leave zeros where the end should be.
    kept = text.rstrip("\0")
    cut = kept != text
    at = _skip(kept, 0)
    if at == len(kept):
        return Whole([], cut)
    if kept[at] != "[":
        raise ValueError("does not begin with a JSON list")
    values: list[Any] = []
    at, separated = _skip(kept, at + 1), True
    while at < len(kept):
        # The bracket may stand right after a comma: the next value was about to overwrite it.
        if kept[at] == "]":
            if kept[at + 1 :].strip():
                raise ValueError("goes on after the end of its list")
            break
        if not separated:
            raise ValueError(f"has no comma between two values, at character {at}")
        try:
            value, at = _decoder.raw_decode(kept, at)
        except json.JSONDecodeError as error:
            if not _unfinished(kept, error):
                raise
            return Whole(values, cut=True)
        values.append(value)
        at = _skip(kept, at)
        separated = kept[at : at + 1] == ","
        if separated:
            at = _skip(kept, at + 1)
    return Whole(values, cut)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def is_unfinished(text: str) -> bool:
    """Whether a text is the beginning of a JSON value but not all of it."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _unfinished(text, error)
    return False


def _unfinished(text: str, error: json.JSONDecodeError) -> bool:
    """Whether parsing failed only because the text ends too early."""
    rest = text[error.pos :]
    if not rest.strip() or error.msg.startswith("Unterminated string"):
        return True
    if error.msg.startswith("Invalid \\u"):
        return bool(_HALF_ESCAPE.search(text))
    return any(word.startswith(rest) for word in _WORDS) or bool(_HALF_NUMBER.fullmatch(rest))
