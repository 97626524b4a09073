"""Whatever programs give to agents and tools and get back, as text for a record.

A record must never be the reason why a call fails, so nothing here raises: what JSON cannot hold is
replaced by a few words that say what it was.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import anyio.to_thread

from autonomy_ctx.items.json_values import Binary, Plain
from autonomy_ctx.items.message import Message

# Longer values are written out in a worker thread.
_LIGHT, _FEW = 50_000, 50
_ERROR_LIMIT = 4_000


async def written(write: Callable[[Any], str], value: Any) -> str:
    """What `write` makes of a value, without holding the event loop for a large one."""
    if _is_light(value) or (
        type(value) is dict and len(value) <= _FEW and all(map(_is_light, value.values()))
    ):
        return write(value)
    return await anyio.to_thread.run_sync(write, value, abandon_on_cancel=True)


def json_text(value: Any) -> str:
    """A value as one line of JSON."""
    return _PLAIN.text(value)


def said_text(value: Any) -> str:
    """Text and replies as they are, everything else as JSON."""
    found = _said(value)
    return json_text(value) if found is None else found


def result_text(value: Any) -> str:
    """A result as a JSON object: its own, if it is one, else `{"result": ...}`."""
    text = _said(value)
    if text is None:
        made = _PLAIN.of(value)
        return json.dumps(made if isinstance(made, dict) else {"result": made}, ensure_ascii=False)
    return text if _is_object(text) else json.dumps({"result": text}, ensure_ascii=False)


def prompt_text(values: Mapping[str, Any]) -> str:
    """What a model is asked: the only text among its arguments, or all arguments as JSON."""
    texts = [value for value in values.values() if isinstance(value, str)]
    return str.__str__(texts[0]) if len(texts) == 1 else json_text(values)


def error_text(error: BaseException) -> str:
    """An error's kind and what it says, without where it came from."""
    try:
        said = str(error)
    except Exception:
        said = ""
    text = f"{type(error).__name__}: {said}".removesuffix(": ")
    over = len(text) - _ERROR_LIMIT
    return text if over <= 0 else f"{text[:_ERROR_LIMIT]} [... {over:,} characters are not shown here]"


def _said(value: Any) -> str | None:
    """The text of what is nothing but a text: a string, a message, or a reply whose `str()` it is."""
    try:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Message):
            return value.text
        text = getattr(value, "text", None)
        return str.__str__(text) if isinstance(text, str) and str(value) == text else None
    except Exception:
        return None


def _instead(value: Any) -> str:
    # Not its `repr`: an address in memory says nothing, and some objects print their secrets.
    kind = type(value)
    return f"<{value.__name__ if issubclass(kind, type) else kind.__name__}>"


def _size(value: Binary) -> str:
    return f"<{memoryview(value).nbytes:,} bytes>"


def _is_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_light(value: Any) -> bool:
    return value is None or type(value) in (bool, int, float) or (type(value) is str and len(value) <= _LIGHT)


_PLAIN = Plain(binary=_size, said=_said, instead=_instead)
