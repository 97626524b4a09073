"""The one encoding of messages as rows that every store shares.

The body of a row is the JSON of the message's dict form without `id` and `timestamp`, which are columns.
Bodies that older versions wrote in letters are read, too. Also here: coercing what a caller passes in, making
drafts, truncating large tool results, comparing the content of two bodies, and the rows of segments.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields, replace
from datetime import UTC, datetime
from sys import intern
from typing import Any, NamedTuple

from autonomy_ctx.errors import InvalidMessage, MessageTooLarge, StoredFormTooNew
from autonomy_ctx.formats.any_reply import read_message
from autonomy_ctx.memory.store import (
    ConversationInfo,
    Draft,
    Entry,
    Head,
    Pin,
    PinSource,
    Record,
    StoredSegment,
)
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.json_values import json_length, remaining_budget
from autonomy_ctx.messages.message import ROLES, ChatRole, ImageContent, Message, MessageOrigin, Part
from autonomy_ctx.messages.message import from_microseconds as from_microseconds
from autonomy_ctx.messages.tokens import TokenCounter

MESSAGE_LIMIT = 8 * 1024 * 1024
RESULT_LIMIT = 1024 * 1024
# In the marker of every tool result that is not all there: the whole text may be beside the row.
CUT_WORDS = "not shown here"
INLINE_CHARACTERS = 64 * 1024

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_encode_ascii = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().raw_decode

# The columns of a segment's row have the names of the fields.
SEGMENT_COLUMNS = tuple(field.name for field in fields(StoredSegment))


# Instead of the number of the segment that replaced one: it was taken back.
REPLACED_BY_UNDO = -1


class MessageRow(NamedTuple):
    """A message as it is stored. Microseconds since 1970; `whole` is the uncut body, if the log has less."""

    position: int
    id: str
    created: int
    is_user: bool
    tokens: int
    counter: str
    size: int
    body: str
    whole: str | None


class UnreadableRow(Exception):
    """A row cannot be decoded: the store is damaged, or another program wrote to it."""


def coerce_message(value: Any, *, new_id: Callable[[], str], now: Callable[[], datetime]) -> Message:
    """The caller's value as a message: checked and copied."""
    return value if isinstance(value, Message) else read_message(value, new_id=new_id, now=now)


def make_draft(message: Message, counter: TokenCounter, *, full_text: str | None = None) -> Draft:
    """A message with everything its row needs; large tool results are shortened for the log.

    `full_text` is all of a tool result that was shortened before; it is kept beside the row.
    """
    check_id(message.id)
    body = encode_row(message)
    size = _check_size(body)
    whole = None
    if full_text is not None:
        whole = encode_row(replace(message, content=full_text))
        _check_size(whole)
    if size > RESULT_LIMIT and message.role is ChatRole.TOOL and len(message.text) > RESULT_LIMIT // 2:
        whole, message = whole or body, truncate_tool_result(message)
        body = encode_row(message)
        size = len(body.encode())
    tokens = counter.count_uncalibrated(message)
    form = None if message._origin.form is None else wire.shorten_form(_row_form(message))
    stored = replace(message, _made_from=MessageOrigin(form, counter.name, tokens, is_stored=True))
    return Draft(stored, body, size, tokens, counter.name, whole)


def _check_size(body: str) -> int:
    size = len(body) if body.isascii() else len(body.encode())
    if size > MESSAGE_LIMIT:
        raise MessageTooLarge(size=size, limit=MESSAGE_LIMIT)
    return size


def check_id(message_id: str) -> None:
    """Raise an error for an id that some store could not store exactly."""
    if not isinstance(message_id, str):
        raise InvalidMessage("id", f"must be a string, not {type(message_id).__name__}")
    if "\0" in message_id:
        raise InvalidMessage("id", "must not contain a NUL character")
    try:
        message_id.encode()
    except UnicodeEncodeError:
        raise InvalidMessage("id", "contains a lone surrogate, which is not valid Unicode text") from None


def encode_row(message: Message) -> str:
    """The body of a message's row: the JSON of its dict form without what the row has columns for."""
    form = _row_form(message)
    body = _encode(form)
    if not body.isascii():
        try:
            body.encode()
        except UnicodeEncodeError:
            # A lone surrogate: no file can hold it, its escape can.
            return _encode_ascii(form)
    return body


def decode_row(message_id: str, created: int, tokens: int, counter: str, body: str) -> Message:
    """The message of a row."""
    form = read_body(body)
    if type(created) is not int:
        raise ValueError("not the row of a message")
    at = from_microseconds(created)
    return wire.from_form(form, id=message_id, created_at=at, counter=intern(counter), tokens=tokens)


def decode_entry(position: int, message_id: str, created: int, tokens: int, counter: str, body: str) -> Entry:
    """The entry of a row."""
    try:
        return Entry(position, decode_row(message_id, created, tokens, counter, body))
    except ValueError:
        pass
    # Raised here without its cause, which might quote a user's text.
    raise UnreadableRow(f"the message at position {position} cannot be read")


def read_body(body: str) -> dict[str, Any]:
    """The dict form in the body of a row, whichever version wrote it."""
    form, end = _decode(body)
    if isinstance(form, list):
        form = _read_letters(form)
    if end != len(body) or type(form) is not dict:
        raise ValueError("not the row of a message")
    return form


# Older versions wrote `[2, letters, *values]`, with a letter for each field of the dict form, in its order: a
# capital one for a field and its value, a small one for a field whose value follows. After no letters the
# dict form itself follows.
LETTER_FORM = 2
# fmt: off
_CONSTANTS: dict[str, tuple[str, Any]] = {role[0].upper(): ("role", role) for role in ROLES} | {
    "C": ("content", None), "L": ("tool_calls", []), "O": ("tool_calls", None), "M": ("type", "message"),
    "E": ("is_error", True), "F": ("is_error", False), "N": ("is_error", None),
}
_FIELDS = {
    "c": "content", "t": "content", "y": "content", "k": "tool_calls", "i": "tool_call_id", "n": "name",
    "a": "agent", "g": "agent_id", "p": "phase", "x": "extra", "m": "message_id", "d": "created_at",
    "s": "timestamp",
}
# fmt: on


def _read_letters(stored: list[Any]) -> Any:
    """The dict form of a body in letters."""
    match stored:
        case [int(number), *_] if number > LETTER_FORM:
            raise StoredFormTooNew(found=number, known=LETTER_FORM)
        case [2, "", form]:
            return form
        case [2, str(letters), *values] if len(values) == sum(map(_FIELDS.__contains__, letters)):
            form, rest = {}, iter(values)
            for letter in letters:
                name, value = _CONSTANTS.get(letter) or (_FIELDS.get(letter), None)
                if name is None or name in form:
                    break
                if letter in _FIELDS:
                    value = next(rest)
                # Content of one text part, in the two orders of its fields.
                if letter == "t":
                    value = {"text": value, "type": "text"}
                elif letter == "y":
                    value = {"type": "text", "text": value}
                form[name] = copy(value)
            else:
                return form
    raise ValueError("not the row of a message")


def check_complete(head: Head, after: int, limit: int | None, found: int) -> None:
    """Raise an error if messages are missing from a log."""
    if found != expected_count(head, after, limit, found):
        raise UnreadableRow("messages are missing from the log")


def expected_count(head: Head, after: int, limit: int | None, found: int) -> int:
    """Number of messages that a read to the end must find; with holes after a deletion, not always known."""
    if after == 0:
        return head.count if limit is None else min(head.count, limit)
    there = found if head.generation else max(head.position - after, 0)
    return there if limit is None else min(there, limit)


def encode_text(text: str) -> str:
    """A text as JSON; with escapes only when no file could hold it otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(text)
    return json.dumps(text, ensure_ascii=False)


def decode_record(number: int, name: str, at: float, body: str) -> Record:
    """The record of a row of a database, whose body is a JSON string."""
    try:
        return Record(number, name, at, json.loads(body))
    except (ValueError, TypeError):
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the record with number {number} cannot be read") from None


def make_pin(entry: Entry, pinned_at: float | None, source: PinSource) -> Pin:
    """A pinned message, as it is read from a store."""
    at = None if pinned_at is None else datetime.fromtimestamp(pinned_at, UTC)
    return Pin(entry.position, entry.message, at, source)


def decode_segment(row: Sequence[Any]) -> StoredSegment:
    """The segment of a row with `SEGMENT_COLUMNS`."""
    values = dict(zip(SEGMENT_COLUMNS, row, strict=True))
    try:
        values.update(text=json.loads(values["text"]), provisional=bool(values["provisional"]))
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the segment with number {values['number']} cannot be read") from None
    return StoredSegment(**values)


def decode_conversation_info(
    agent: str, scope: str, conversation: str, messages: int, first: int | None, last: int | None
) -> ConversationInfo:
    """A line of a listing; times in microseconds since 1970."""
    if first is None or last is None:
        raise UnreadableRow("messages are missing from the log")
    return ConversationInfo(
        agent=agent,
        scope=scope,
        conversation=conversation,
        messages=messages,
        first_at=from_microseconds(first),
        last_at=from_microseconds(last),
    )


def fits_inline(value: Any) -> bool:
    """True for a message that is small enough to encode at once; others are encoded in a thread."""
    if isinstance(value, Message):
        return approximate_length(value) <= INLINE_CHARACTERS
    # How large a client's reply is cannot be seen from outside.
    return isinstance(value, Mapping) and remaining_budget(INLINE_CHARACTERS, value) >= 0


def approximate_length(message: Message) -> int:
    """About how many characters a message has, without looking at them."""
    content = message.content
    total = len(content) if isinstance(content, str) else sum(map(_part_length, message.parts))
    for call in message.tool_calls:
        total += len(call.name) + len(call.arguments)
    return total + json_length(message.extra) if message.extra else total


def decode_whole_body(body: str, message_id: str) -> dict[str, Any]:
    """The dict form of an uncut body."""
    form = read_body(body)
    form.setdefault("id", message_id)
    return form


def same_content(body: str, other: str) -> bool:
    """True for two bodies with the same content, regardless of their times."""
    return body == other or _content_without_times(body) == _content_without_times(other)


def truncate_tool_result(message: Message) -> Message:
    """A tool result cut in the middle, with a note that says how much and where the rest is."""
    text = message.text
    keep = RESULT_LIMIT // 8
    note = (
        f"\n[... {len(text) - 2 * keep:,} of {len(text):,} characters are {CUT_WORDS}; "
        f"memory.get_full_message(scope, conversation, {message.id!r}) gives all of it ...]\n"
    )
    return replace(message, content=text[:keep] + note + text[-keep:])


def to_microseconds(time: datetime) -> int:
    """Microseconds since 1970, exact where a float would not be."""
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _row_form(message: Message) -> dict[str, Any]:
    """The dict form without `id`, and without a `timestamp` that says no more than the row does."""
    form = wire.to_dict(message)
    form.pop("id", None)
    if "timestamp" in form and form["timestamp"] in (None, wire.time_to_json(message.created_at)):
        del form["timestamp"]
    return form


def _part_length(part: Part) -> int:
    return len(part.image) if isinstance(part, ImageContent) else len(part.text)


def _content_without_times(body: str) -> Any:
    form = read_body(body)
    form.pop("timestamp", None)
    form.pop("created_at", None)
    return form
