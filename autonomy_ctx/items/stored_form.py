"""The form in which stores keep a message: a JSON array that is read without validating it again.

`[2, shape, *values]`: the form's number, one letter for each field of the message's dict form, in its
order, and the values of the fields whose letter is lower case. `[2, "Uc", "hello"]` is
`{"role": "user", "content": "hello"}`. A dict form with other fields stands whole: `[2, "", {...}]`.
Older rows hold the dict form itself.

Only this library writes it, from messages that were validated. So a reader checks no more than the types
of the values: a row that something else has changed is refused or is read as a valid message.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from sys import intern
from typing import Any, NamedTuple

from autonomy_ctx.errors import StoredFormTooNew
from autonomy_ctx.items.json_values import EMPTY, freeze
from autonomy_ctx.items.message import (
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
_OTHER_FIELDS = {
    "tool_call_id": "tool_call_id",
    "name": "name",
    "phase": "phase",
    "agent_id": "agent",
    "agent": "agent",
    "extra": "extra",
}
# Content that is one text part, whose text follows; by the order of its fields.
_TEXT_PARTS = {"t": ("text", "type"), "y": ("type", "text")}
_TEXT_LETTERS = {names: letter for letter, names in _TEXT_PARTS.items()}
# The fields of a message that have the values of these letters.
_VALUE_FIELDS = {
    **dict.fromkeys(_TEXT_PARTS, "text"),
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
    if len(stored) != _plan(shape).size:
        raise ValueError("not a stored form")
    form: dict[str, Any] = {}
    values = iter(stored[2:])
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
    fields = [_VALUE_FIELDS[letter] for letter in shape if letter in _VALUE_FIELDS]
    return [FORM, shape, *(getattr(message, name) for name in fields)]


def read_stored(
    stored: list[Any],
    id: str,  # noqa: A002  # the field's name
    created: int,
    tokens: int,
    counter: str,
) -> Message | None:
    """The message of a stored form; None when its dict form stands whole, which is read as any dict is.

    `created` is its time in microseconds since 1970.
    """
    try:
        if stored[0] != FORM:
            raise _wrong_form(stored)
        shape = stored[1]
        if shape == "":
            return None
        plan = _plan(shape)
    except (IndexError, TypeError):
        raise ValueError("not a stored form") from None
    message = UnsealedMessage()
    size, message.role, message.is_error, content_at, is_text_part, calls_at, fields = plan
    if len(stored) != size:
        raise ValueError("not a stored form")
    message.tool_calls = _read_calls(stored[calls_at]) if calls_at else ()
    content = stored[content_at] if content_at else None
    text = ""
    if type(content) is not str:
        message.content = _read_content(content, is_text_part)
        if content is None:
            check_content(message.role, message.tool_calls)
    elif is_text_part:
        text = content
    else:
        message.content = content
    message._row_values = (counter, tokens, created, text)
    if not 0 <= created < EXACT_FLOAT_LIMIT:
        message.created_at = from_microseconds(created)
    message.tool_call_id = message.name = message.phase = message.agent = None
    message.extra = EMPTY
    if fields:
        _set_fields(message, stored, fields)
    message.id = id
    # A tuple of texts is nothing that the garbage collector has to look at.
    message._source_form = tuple(stored)
    return message.seal()


def _set_fields(message: UnsealedMessage, stored: list[Any], fields: tuple[tuple[str, int], ...]) -> None:
    """Set the fields that few messages have."""
    for name, at in fields:
        value = stored[at]
        if type(value) is str and name != "extra":
            setattr(message, name, value)
        elif type(value) is dict and name == "extra":
            message.extra = freeze(value) if value else EMPTY
        elif value is not None:
            raise ValueError("not a stored form")


class _Plan(NamedTuple):
    """Where the values of a shape are; 0 for what it does not have."""

    size: int
    role: ChatRole
    is_error: bool
    content: int
    is_text_part: bool
    tool_calls: int
    # Those that few messages have, and where.
    fields: tuple[tuple[str, int], ...]


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
    return _Plan(
        size=size,
        role=ROLES[constants["role"]],
        is_error=bool(constants.get("is_error")),
        content=places.get("content", 0),
        is_text_part=not _TEXT_PARTS.keys().isdisjoint(shape),
        tool_calls=places.get("tool_calls", 0),
        fields=tuple((_OTHER_FIELDS[name], places[name]) for name in _OTHER_FIELDS if name in places),
    )


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
