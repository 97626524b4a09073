"""The form in which stores keep a message: a JSON array that is read without validating it again.

`[2, shape, *values]`: the form's number, one letter for each field of the message's dict form, in its
order, and the values of the fields whose letter is lower case. `[2, "Uc", "hello"]` is
`{"role": "user", "content": "hello"}`. A dict form with other fields stands whole: `[2, "", {...}]`.
Older rows hold the dict form itself.

Only this library writes it, from messages that were validated. So a reader checks no more than the types
of the values: a row that something else has changed is refused or is read as a valid message.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from sys import intern
from typing import Any, TypeAlias

from autonomy_ctx.errors import StoredFormTooNew
from autonomy_ctx.messages.json_values import EMPTY, freeze, thaw
from autonomy_ctx.messages.message import (
    EXACT_FLOAT_LIMIT,
    ROLES,
    ChatRole,
    Content,
    Message,
    Part,
    ToolCall,
    UnsealedMessage,
    check_content,
    from_microseconds,
    make_call,
    make_text,
    parse_call,
    parse_content,
    parse_list_part,
)

FORM = 2

# Position, id, time in microseconds since 1970, tokens, counter, size and body.
StoredRow: TypeAlias = tuple[int, str, int, int, str, int, str]
# What `loads` calls: a value from a text and an index, and where it ends; StopIteration if there is none.
_scan: Callable[[str, int], tuple[Any, int]] = vars(json.JSONDecoder())["scan_once"]

# Capital letters: a field and its value.
_ROLE_LETTERS = {"system": "S", "developer": "D", "user": "U", "assistant": "A", "tool": "T"}
_CONSTANTS: dict[str, tuple[str, Any]] = {
    **{letter: ("role", role) for role, letter in _ROLE_LETTERS.items()},
    "C": ("content", None),
    "L": ("tool_calls", ()),
    "O": ("tool_calls", None),
    "E": ("is_error", True),
    "F": ("is_error", False),
    "N": ("is_error", None),
    "M": ("type", "message"),
}
_FLAG_LETTERS = {True: "E", False: "F", None: "N"}
# Small letters: a field whose value follows.
_FIELDS = {
    "c": "content",
    "k": "tool_calls",
    "i": "tool_call_id",
    "n": "name",
    "a": "agent",
    "g": "agent_id",
    "p": "phase",
    "x": "extra",
    "m": "message_id",
    "d": "created_at",
    "s": "timestamp",
}
_LETTERS = {name: letter for letter, name in _FIELDS.items()}
# What each of these sets; of two names of the agent the later one counts.
_TEXT_FIELDS = {
    "tool_call_id": "tool_call_id",
    "name": "name",
    "phase": "phase",
    "agent_id": "agent",
    "agent": "agent",
}
# Content that is one text part, whose text follows; by the order of its fields.
_TEXT_PARTS = {"t": ("text", "type"), "y": ("type", "text")}
_TEXT_LETTERS = {names: letter for letter, names in _TEXT_PARTS.items()}
# The fields of a message that have the values of these letters.
_VALUE_FIELDS = {
    **dict.fromkeys(_TEXT_PARTS, "_part_text"),
    "c": "content",
    "i": "tool_call_id",
    "n": "name",
    "a": "agent",
    "g": "agent",
    "p": "phase",
}
_KNOWN_LETTERS = frozenset(_VALUE_FIELDS) | frozenset(_CONSTANTS)


def pack_form(form: dict[str, Any]) -> list[Any]:
    """The stored form of a message's dict form, which must be valid; it shares the values."""
    shape, values = "", []
    for name, value in form.items():
        letter = _LETTERS.get(name)
        match name:
            case "role":
                shape += _ROLE_LETTERS[value]
                continue
            case "content" if type(value) is dict:
                text = _TEXT_LETTERS.get(tuple(value))
                if text is not None and value["type"] == "text":
                    letter, value = text, value["text"]
            case "content" if value is None:
                shape += "C"
                continue
            case "tool_calls" if not value:
                shape += "O" if value is None else "L"
                continue
            case "is_error":
                shape += _FLAG_LETTERS[value]
                continue
            case "agent_id" if type(value) is not str and value is not None:
                # Let in beside an `agent`, which counts.
                letter = None
            case "type" if value == "message":
                shape += "M"
                continue
        if letter is None:
            return [FORM, "", form]
        shape += letter
        values.append(value)
    # There are few shapes, and messages in memory have them, too.
    return [FORM, intern(shape), *values]


def unpack_form(stored: Any) -> dict[str, Any]:
    """The dict form of a stored form, new or old; it shares the values."""
    if type(stored) is dict:
        return stored
    shape = _check_form(stored)
    if shape == "":
        return whole_form(stored)
    if len(stored) != _plan(shape)[0]:
        raise ValueError("not a stored form")
    return _unpack(shape, iter(stored[2:]))


def _unpack(shape: str, values: Iterator[Any]) -> dict[str, Any]:
    form: dict[str, Any] = {}
    for letter in shape:
        if letter in _CONSTANTS:
            name, value = _CONSTANTS[letter]
            form[name] = [] if value == () else value
        elif letter in _TEXT_PARTS:
            text = next(values)
            form["content"] = {name: text if name == "text" else "text" for name in _TEXT_PARTS[letter]}
        else:
            form[_FIELDS[letter]] = next(values)
    return form


def source_form(message: Message) -> dict[str, Any] | Sequence[Any] | None:
    """The dict form or the stored form that a message was made from; None if it was made in code."""
    form = message._source_form
    return _form_of_fields(message, form) if isinstance(form, str) else form


def source_dict(message: Message) -> dict[str, Any] | None:
    """A copy of the dict form that a message was made from; None if it was made in code."""
    form = message._source_form
    if isinstance(form, str):
        # Texts alone, in a dict of its own.
        return _unpack(form, map(getattr, repeat(message), _value_fields(form)))
    copy: dict[str, Any] | None = None if form is None else thaw(unpack_form(form))
    return copy


def pack_source_form(message: Message) -> None:
    """Let a message that memory has keep its stored form instead of the dict that it was made from."""
    form = message._source_form
    if isinstance(form, dict):
        object.__setattr__(message, "_source_form", tuple(pack_form(form)))


def shrink_source_form(message: Message) -> None:
    """Let a message keep the shape of its stored form alone, if its fields have the values."""
    form = message._source_form
    if isinstance(form, tuple) and form[1] and _KNOWN_LETTERS.issuperset(form[1]):
        found = _form_of_fields(message, form[1])
        if all(one is other for one, other in zip(found, form, strict=True)):
            object.__setattr__(message, "_source_form", form[1])


def _form_of_fields(message: Message, shape: str) -> list[Any]:
    """A stored form whose values are the fields of the message."""
    return [FORM, shape, *[getattr(message, name) for name in _value_fields(shape)]]


@lru_cache(maxsize=512)
def _value_fields(shape: str) -> tuple[str, ...]:
    """The fields of a message that have the values of a shape, in its order."""
    return tuple(_VALUE_FIELDS[letter] for letter in shape if letter in _VALUE_FIELDS)


def messages_from_rows(rows: Iterable[StoredRow], read_form: Callable[..., Message]) -> list[Message]:
    """The messages of rows; a body that has the dict form whole goes to `read_form`, with id, time and count.

    One loop, without a call of Python for what most messages have: rows are many.
    """
    messages: list[Message] = []
    known_counter = ""
    for _, message_id, created, tokens, counter, _, body in rows:
        try:
            stored, end = _scan(body, 0)
        except StopIteration:
            end = -1
        if end != len(body) or type(created) is not int:
            raise ValueError("not the row of a message")
        plan = None
        if type(stored) is list:
            try:
                if stored[0] != FORM:
                    raise _wrong_form(stored)
                if stored[1] != "":
                    plan = _plan(stored[1])
            except (IndexError, TypeError):
                raise ValueError("not a stored form") from None
        if plan is None:
            messages.append(read_form(unpack_form(stored), message_id, created, tokens, counter))
            continue
        size, role, is_error, content_at, is_text_part, calls_at, extra_at, texts, form = plan
        if len(stored) != size:
            raise ValueError("not a stored form")
        message = UnsealedMessage()
        message.role = role
        message.is_error = is_error
        message.tool_calls = _read_calls(stored[calls_at]) if calls_at else ()
        message.extra = _read_extra(stored[extra_at]) if extra_at else EMPTY
        content = stored[content_at] if content_at else None
        text = ""
        if type(content) is not str:
            message.content = _read_content(content, is_text_part)
            if content is None:
                check_content(role, message.tool_calls)
            form = None
        elif is_text_part:
            text = content
        else:
            message.content = content
        # Mostly the same as before: then one text for all, not one for each row.
        if counter != known_counter:
            known_counter = counter
        message._row_values = (known_counter, tokens, created, text, end)
        if not 0 <= created < EXACT_FLOAT_LIMIT:
            message.created_at = from_microseconds(created)
        message.tool_call_id = message.name = message.phase = message.agent = None
        for name, at in texts:
            value = stored[at]
            if type(value) is str:
                setattr(message, name, value)
            elif value is not None:
                raise ValueError("not a stored form")
        message.id = message_id
        # A tuple of texts is nothing that the garbage collector has to look at.
        message._source_form = form or tuple(stored)
        messages.append(message.seal())
    return messages


# Of a shape: its number of values and two more, the role, `is_error`, where the content is (0: nowhere) and
# whether it is that of one text part, where the calls and the extra are, the fields that are texts and where,
# and the shape itself if a message whose content is a text has all values in its fields. A bare tuple: Python
# takes one apart much faster than one with names.
_Plan: TypeAlias = tuple[int, ChatRole, bool, int, bool, int, int, tuple[tuple[str, int], ...], str | None]


@lru_cache(maxsize=512)
def _plan(shape: str) -> _Plan:
    constants: dict[str, Any] = {}
    places: dict[str, int] = {}
    size = 2
    for letter in shape:
        if letter in _CONSTANTS:
            name, value = _CONSTANTS[letter]
        else:
            name, value = "content" if letter in _TEXT_PARTS else _FIELDS.get(letter, ""), None
            places[name], size = size, size + 1
        if not name or name in constants:
            raise ValueError("not a stored form")
        constants[name] = value
    if "role" not in constants:
        raise ValueError("not a stored form")
    return (
        size,
        ROLES[constants["role"]],
        bool(constants.get("is_error")),
        places.get("content", 0),
        not _TEXT_PARTS.keys().isdisjoint(shape),
        places.get("tool_calls", 0),
        places.get("extra", 0),
        tuple((_TEXT_FIELDS[name], places[name]) for name in _TEXT_FIELDS if name in places),
        shape if _has_all_in_fields(shape) else None,
    )


def _has_all_in_fields(shape: str) -> bool:
    """Whether the values of a shape are fields of the message, if its content is a text."""
    return _KNOWN_LETTERS.issuperset(shape) and not {"a", "g"}.issubset(shape)


def _check_form(stored: Any) -> str:
    """The shape of a stored form of this version."""
    if (
        not isinstance(stored, list | tuple)
        or len(stored) < 2
        or stored[0] != FORM
        or type(stored[1]) is not str
    ):
        raise _wrong_form(stored)
    return stored[1]


def _wrong_form(stored: Any) -> Exception:
    """Why it cannot be read. Not what it holds: that is what users said."""
    if isinstance(stored, list | tuple) and stored and type(stored[0]) is int and stored[0] > FORM:
        return StoredFormTooNew(found=stored[0], known=FORM)
    return ValueError("not a stored form")


def whole_form(stored: Sequence[Any]) -> dict[str, Any]:
    """The dict form that stands whole in a stored form."""
    if len(stored) != 3 or type(stored[2]) is not dict:
        raise ValueError("not a stored form")
    form: dict[str, Any] = stored[2]
    return form


def _read_content(value: Any, is_text_part: bool) -> Content:
    """Content that is no text: parts, or none."""
    if is_text_part:
        raise ValueError("not a stored form")
    if type(value) is list:
        return tuple([_read_part(part) for part in value])
    return parse_content(value)


def _read_part(value: Any) -> Part:
    if type(value) is dict and value.get("type") == "text" and type(value.get("text")) is str:
        return make_text(value["text"])
    return parse_list_part(value, "content")


def _read_extra(value: Any) -> Mapping[str, Any]:
    if type(value) is not dict and value is not None:
        raise ValueError("not a stored form")
    return freeze(value) if value else EMPTY


def _read_calls(value: Any) -> tuple[ToolCall, ...]:
    if type(value) is not list:
        raise ValueError("not a stored form")
    return tuple([_read_call(call) for call in value])


def _read_call(value: Any) -> ToolCall:
    # These three and nothing else: then there is nothing for the call's `extra`.
    if type(value) is dict and len(value) == 3 and "type" in value:
        function, call_id = value.get("function"), value.get("id")
        if type(function) is dict and type(call_id) is str:
            name, arguments = function.get("name"), function.get("arguments")
            if type(name) is str and type(arguments) is str:
                return make_call(call_id, name, arguments)
    return parse_call(value, "tool_calls")
