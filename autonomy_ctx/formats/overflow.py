"""Errors that say that the request was too long for the model.

Every server words it in its own way, and the way matters: this one error is answered with a smaller
request, all other refusals are not.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_TOO_LARGE = 413
# Too many tokens in a minute is another matter: waiting helps there, a smaller request may not.
_OTHER_STATUSES = (401, 403, 429)
_LONGEST_TEXT = 4000
_DEPTH = 4
# No model has it. A JSON number may have thousands of digits, more than any calculation takes.
_MAX_WINDOW = 10**12
# Smaller windows are not learned, whoever names them.
MIN_WINDOW = 512
# How far a count of ours may be below the server's.
_COUNT_MARGIN = 1.25

# The wordings of servers are data, with who says them.
_DATA = tomllib.loads(Path(__file__).with_name("overflow.toml").read_text("utf-8"))
_PREFIX, _CODES = (re.compile(_DATA[name], re.IGNORECASE) for name in ("prefix", "codes"))
_SENTENCES = [re.compile(one, re.IGNORECASE) for some in _DATA["sentences"].values() for one in some]
_WORDINGS = [re.compile(one, re.IGNORECASE) for one in _DATA["wordings"]]
_FIELDS = ("message", "Message", "type", "__type", "code", "Code", "error", "detail")
_NUMBER = re.compile(r"[0-9]{1,12}")
_CLASS_NAME = re.compile(r"overflow|context\w{0,80}exceeded", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A request was too long; `window` in tokens if the error names it.

    It is `certain` if a code or a sentence of the server says so. Words that an error has somewhere may be
    words of the request.
    """

    window: int | None = None
    certain: bool = field(default=False, compare=False)

    def learned_window(self, sent: int) -> int | None:
        """The window to keep to from now on, after a request of so many tokens; None if nothing is sure.

        A window that the request would have fitted into, or that no model has, is not believed.
        """
        window = self.window or sent
        is_possible = MIN_WINDOW <= window <= sent * _COUNT_MARGIN
        return window if self.certain and is_possible else None


def find_overflow(status: int | None, body: Any) -> Overflow | None:
    """Overflow that an error of this status reports; None for any other error.

    `body` is JSON, its text or a sentence; the status is None where it is not known.
    """
    if status is not None and (status < 400 or status in _OTHER_STATUSES):
        return None
    body = _parse_body(body)
    texts = list(_texts(body, _DEPTH))
    for text in texts:
        start = _PREFIX.match(text)
        for sentence in _SENTENCES:
            if (match := sentence.match(text, start.end() if start else 0)) and (window := _whole(match[1])):
                return Overflow(window, certain=True)
    if any(map(_CODES.fullmatch, texts)):
        return Overflow(_context_size(body), certain=True)
    is_worded = any(wording.search(text) for text in texts for wording in _WORDINGS)
    return Overflow(_context_size(body)) if is_worded or status == _TOO_LARGE else None


def exception_overflow(error: BaseException) -> Overflow | None:
    """Overflow that an exception of any client reports, by its class, its status, and its body or text."""
    status, response = status_of(error), _attribute(error, "response")
    bodies = [_attribute(error, "body"), response if isinstance(response, Mapping) else None]
    bodies = [body.get("Error", body) if isinstance(body, Mapping) else body for body in bodies]
    found = next(filter(None, (find_overflow(status, body) for body in (*bodies, _text_of(error)))), None)
    # Arithmetic overflows, too, but that has nothing to do with a model.
    if found is None and _CLASS_NAME.search(type(error).__name__) and not isinstance(error, ArithmeticError):
        found = Overflow()
    if found is None or found.window is not None:
        return found
    named = (_whole(_attribute(error, name)) for name in ("window", "limit", "context_window"))
    return Overflow(next(filter(None, named), None))


def status_of(error: BaseException) -> int | None:
    """The HTTP status that an exception of any client carries."""
    response = _attribute(error, "response")
    if isinstance(response, Mapping):
        # botocore
        response = response.get("ResponseMetadata")
        found = response.get("HTTPStatusCode") if isinstance(response, Mapping) else None
        return found if isinstance(found, int) else None
    for holder in (error, response):
        for name in ("status_code", "status", "code"):
            found = _attribute(holder, name)
            if isinstance(found, int) and 100 <= found < 600:
                return found
    return None


def _attribute(holder: Any, name: str) -> Any:
    try:
        return getattr(holder, name, None)
    except Exception:  # an exception of a foreign class may fail when it is looked at
        return None


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _parse_body(body: Any) -> Any:
    """A body as JSON, if its text is that; the first entry of a list."""
    if isinstance(body, bytes | bytearray):
        body = body.decode("utf-8", "replace")
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return body
    return body[0] if isinstance(body, list) and body else body


def _texts(body: Any, depth: int) -> Iterator[str]:
    """The words and sentences of an error, from the fields that servers put them into."""
    if isinstance(body, str):
        yield body[:_LONGEST_TEXT]
    elif isinstance(body, Mapping) and depth:
        for field in _FIELDS:
            yield from _texts(body.get(field), depth - 1)


def _context_size(body: Any) -> int | None:
    """The window as llama.cpp gives it: in a field of its own."""
    if not isinstance(body, Mapping):
        return None
    inner = body.get("error")
    return _whole((inner if isinstance(inner, Mapping) else body).get("n_ctx"))


def _whole(value: Any) -> int | None:
    if isinstance(value, str):
        digits = value.replace(",", "")
        value = int(digits) if _NUMBER.fullmatch(digits) else None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 < value < _MAX_WINDOW else None
