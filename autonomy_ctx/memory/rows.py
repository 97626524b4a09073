"""Messages as rows and back: the one encoding that every store shares.

The body is the message's dict form without `id` and `timestamp`, which are columns; they are put
back when the row is read. So a dict comes back as it was given, stamped with both.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from autonomy_ctx.errors import InvalidMessage, MessageTooLarge
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import ImageContent, Part
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.memory.store import Draft

MESSAGE_LIMIT = 8 * 1024 * 1024
RESULT_LIMIT = 1024 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
# Below this a float of seconds still tells microseconds apart.
_EXACT = 2**33 * 1_000_000
_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode


def accept(value: Any, *, new_id: Callable[[], str], now: Callable[[], datetime]) -> Message:
    """What a caller handed in, as the message that will be kept: checked, copied and stamped."""
    if isinstance(value, Message):
        return value
    message = wire.from_dict(value, new_id=new_id, now=now)
    form = message._form
    if form is not None:
        # The form belongs to this message alone and nobody has seen it yet.
        time = wire.time_to_json(message.created_at)
        form.pop("id", None)
        if form.get("timestamp") in (None, time):
            form.pop("timestamp", None)
        _stamp(form, message.id, time)
    return message


def draft(message: Message, counter: TokenCounter) -> Draft:
    """A message with everything its row needs; large tool results are shortened for the log."""
    check_id(message.id)
    body = encoded(message)
    size = len(body) if body.isascii() else len(body.encode())
    if size > MESSAGE_LIMIT:
        raise MessageTooLarge(size=size, limit=MESSAGE_LIMIT)
    whole = None
    if size > RESULT_LIMIT and message.role is ChatRole.TOOL and len(message.text) > RESULT_LIMIT // 2:
        whole, message = body, shortened(message)
        body = encoded(message)
        size = len(body.encode())
    return Draft(message, body, size, counter.uncalibrated(message), counter.name, whole)


def check_id(message_id: str) -> None:
    """Refuse an id that some store could not hold exactly as it is."""
    if "\0" in message_id:
        raise InvalidMessage("id", "must not contain a NUL character")
    try:
        message_id.encode()
    except UnicodeEncodeError:
        raise InvalidMessage("id", "contains a lone surrogate, which is not valid Unicode text") from None


def encoded(message: Message) -> str:
    """The body of a message's row: its dict form without what the row has columns for."""
    form = message._form or wire.to_dict(message)
    time = wire.time_to_json(message.created_at)
    body_form = {
        name: value
        for name, value in form.items()
        if name != "id" and (name != "timestamp" or value not in (None, time))
    }
    body = _encode(body_form)
    if not body.isascii():
        try:
            body.encode()
        except UnicodeEncodeError:
            # A lone surrogate: no file can hold it, its escape can.
            return _encode_ascii(body_form)
    return body


def restored(message_id: str, created: int, tokens: int, counter: str, body: str) -> Message:
    """The message of a row."""
    form, _ = _decode(body)
    created_at = from_microseconds(created)
    _stamp(form, message_id, wire.time_to_json(created_at))
    message = wire.from_form(form, id=message_id, created_at=created_at)
    object.__setattr__(message, "_tokens", (counter, tokens))
    return message


def weight(message: Message) -> int:
    """About how many characters a message has, without looking at them."""
    content = message.content
    total = len(content) if type(content) is str else sum(_length(part) for part in message.parts)
    for call in message.tool_calls:
        total += len(call.arguments)
    if message.extra:
        total += len(str(message.extra))
    return total


def whole_form(body: str, message_id: str) -> dict[str, Any]:
    """The dict form of an uncut body."""
    form: dict[str, Any] = json.loads(body)
    form.setdefault("id", message_id)
    return form


def same_content(body: str, other: str) -> bool:
    """Whether two bodies say the same, whenever they were said."""
    return body == other or _timeless(body) == _timeless(other)


def shortened(message: Message) -> Message:
    """A tool result cut in the middle, with a note that says how much and where the rest is."""
    text = message.text
    keep = RESULT_LIMIT // 8
    note = (
        f"\n[... {len(text) - 2 * keep:,} of {len(text):,} characters are not shown here; "
        f"memory.get_whole_message(scope, conversation, {message.id!r}) gives all of it ...]\n"
    )
    return replace(message, content=text[:keep] + note + text[-keep:])


def to_microseconds(time: datetime) -> int:
    """Microseconds since 1970, exact where a float would not be."""
    return (time - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    """The time that `to_microseconds` was given."""
    if 0 <= value < _EXACT:
        return datetime.fromtimestamp(value / 1_000_000, UTC)
    return _EPOCH + timedelta(microseconds=value)


def _stamp(form: dict[str, Any], message_id: str, time: float | str) -> None:
    if "message_id" not in form:
        form["id"] = message_id
    if "timestamp" not in form and form.get("created_at") is None:
        form["timestamp"] = time


def _length(part: Part) -> int:
    return len(part.image) if isinstance(part, ImageContent) else len(part.text)


def _timeless(body: str) -> Any:
    form = json.loads(body)
    form.pop("timestamp", None)
    form.pop("created_at", None)
    return form
