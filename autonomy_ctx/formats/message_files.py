"""Files of messages: JSON Lines of ours, messages of OpenAI, dumps of LangChain, exports of ChatGPT.

In JSON Lines of ours each line is a message. A line `{"type": "conversation", ...}` names the conversation
of the messages after it, and a line `{"type": "full_text", ...}` holds all of a tool result that the log has
in a shorter form. Files are read once, a line at a time; only a JSON document that spans lines is read whole.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, count
from typing import IO, Any, NamedTuple, TypeAlias, cast

from autonomy_ctx.formats.dumps import convert_message, find_messages, find_trees, read_tree

CONVERSATION, FULL_TEXT = "conversation", "full_text"
# Of a line, and of a document that spans lines: each is held in memory whole.
MAX_VALUE_BYTES = 512_000_000
# Of all that is read from a pipe, which may not end.
MAX_STREAM_BYTES = 1_000_000_000


class InvalidLine(ValueError):
    """A line that cannot be read."""

    def __init__(self, number: int, problem: str) -> None:
        super().__init__(f"line {number:,} {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationLine:
    """The messages after it are of another conversation. What a file does not say is None."""

    number: int
    agent: str | None = None
    scope: str | None = None
    conversation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLine:
    """A message as the file has it, and all of its text if it is a shorter form."""

    number: int
    form: dict[str, Any]
    full_text: str | None = None


FileLine: TypeAlias = ConversationLine | MessageLine


@dataclass(slots=True)
class _ReadState:
    """Things that earlier values of a file say about later ones."""

    full_text: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class _TextLine(NamedTuple):
    number: int
    text: bytes


def read_lines(
    file: IO[bytes], *, max_bytes: float = math.inf, max_value_bytes: int = MAX_VALUE_BYTES
) -> Iterator[FileLine | InvalidLine]:
    """Read a file of any of these kinds, in order. After a bad line it goes on, to name all of them.

    A line or document of more than `max_value_bytes` ends it, and so does more than `max_bytes` in all.
    """
    lines = _split_lines(file, max_bytes, max_value_bytes)
    try:
        first = next((line for line in lines if line.text.strip()), None)
        if first is None:
            return
        if _is_json(first.text.decode("utf-8-sig", "replace")):
            yield from _read_json_lines(chain([first], lines))
        else:
            yield from _read_document(chain([first], lines), max_value_bytes)
    except InvalidLine as error:
        yield error


def unique_name(name: str, taken: set[str]) -> str:
    """The name, with a number if it is taken; it is taken then."""
    numbers = (f"{name} ({number})" for number in count(2))
    found = next(one for one in chain([name], numbers) if one not in taken)
    taken.add(found)
    return found


def add_id(form: dict[str, Any], index: int) -> dict[str, Any]:
    """The form with an id; one that has none gets the same each time, by its place and what it says."""
    if form.get("id") or form.get("message_id"):
        return form
    said = json.dumps([index, form], sort_keys=True).encode("utf-8", "surrogatepass")
    return form | {"id": f"import-{hashlib.sha256(said).hexdigest()[:24]}"}


def _split_lines(file: IO[bytes], max_bytes: float, max_value_bytes: int) -> Iterator[_TextLine]:
    total = 0
    for number in count(1):
        text = file.readline(max_value_bytes + 1)
        if not text:
            return
        total += len(text)
        if len(text) > max_value_bytes:
            raise InvalidLine(number, f"has {_too_much(max_value_bytes)}; give a line for each conversation")
        if total > max_bytes:
            raise InvalidLine(number, f"ends {_too_much(max_bytes)} and is not the end; give a smaller file")
        yield _TextLine(number, text)


def _too_much(most: float) -> str:
    return f"more than {most // 1_000_000:,.0f} MB"


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        # A line of our kind that is damaged begins as one; a document spans lines.
        return len(text.strip()) > 2 and text.lstrip().startswith("{") and text.strip()[1:2] == '"'
    return True


def _read_json_lines(lines: Iterable[_TextLine]) -> Iterator[FileLine | InvalidLine]:
    state = _ReadState()
    for number, text in lines:
        if text.strip():
            value = _parse_json(text.rstrip(), number, "utf-8-sig" if number == 1 else "utf-8")
            yield from [value] if isinstance(value, InvalidLine) else _read_value(value, number, state)


def _read_document(lines: Iterable[_TextLine], max_value_bytes: int) -> Iterator[FileLine | InvalidLine]:
    texts: list[bytes] = []
    first = size = 0
    for number, text in lines:
        first = first or number
        size += len(text)
        if size > max_value_bytes:
            raise InvalidLine(
                first, f"begins a document of {_too_much(max_value_bytes)}; give JSON Lines instead"
            )
        texts.append(text)
    value = _parse_json(b"".join(texts), first, "utf-8-sig", begins="begins a document that ")
    yield from [value] if isinstance(value, InvalidLine) else _read_value(value, first, _ReadState())


def _parse_json(text: bytes, first: int, encoding: str, *, begins: str = "") -> Any:
    """The value in a text that begins in line `first`; an `InvalidLine` if there is none."""
    try:
        return json.loads(text.decode(encoding))
    except UnicodeDecodeError as error:
        return InvalidLine(first, f"{begins}is not UTF-8 text (byte {error.start + 1})")
    except json.JSONDecodeError as error:
        return InvalidLine(first + error.lineno - 1, f"is not JSON (column {error.colno})")
    except ValueError:
        # A number of too many digits.
        return InvalidLine(first, f"{begins}is not JSON")
    except RecursionError:
        return InvalidLine(first, f"{begins}is nested too deeply")


def _read_value(value: Any, number: int, state: _ReadState) -> Iterator[FileLine | InvalidLine]:
    """Read one JSON value: a message, a list of them, conversations, or something that belongs to one."""
    if isinstance(value, dict) and value.get("type") == CONVERSATION and "role" not in value:
        yield _read_conversation(value, number)
    elif isinstance(value, dict) and value.get("type") == FULL_TEXT and "role" not in value:
        if isinstance(value.get("id"), str) and isinstance(value.get("text"), str):
            state.full_text[value["id"]] = value["text"]
        else:
            yield InvalidLine(number, "must have an `id` and a `text`")
    elif trees := find_trees(value):
        for tree in trees:
            name = unique_name(str(tree.get("title") or "untitled"), state.names)
            yield ConversationLine(number=number, conversation=name)
            for form in read_tree(tree):
                yield MessageLine(number=number, form=form)
    elif (messages := _list_of(value)) is not None:
        yield ConversationLine(number=number)
        for index, form in enumerate(messages, 1):
            if isinstance(form, dict):
                yield from _read_message(form, number, state)
            else:
                yield InvalidLine(number, f"has no message at place {index}, but {_kind(form)}")
    elif isinstance(value, dict):
        yield from _read_message(value, number, state)
    else:
        yield InvalidLine(number, f"is {_kind(value)}, not a message")


def _list_of(value: Any) -> list[Any] | None:
    """The messages of a list or of an object with a list; None for anything else."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list) and "role" not in value:
        return cast("list[Any]", value["messages"])
    return find_messages(value)


def _read_message(form: dict[str, Any], number: int, state: _ReadState) -> Iterator[FileLine | InvalidLine]:
    message_id = form.get("id")
    full = state.full_text.pop(message_id, None) if isinstance(message_id, str) else None
    try:
        for converted in convert_message(form):
            yield MessageLine(number=number, form=converted, full_text=full)
    except TypeError as error:
        yield InvalidLine(number, f"is not a message: {error}")


def _read_conversation(value: dict[str, Any], number: int) -> FileLine | InvalidLine:
    names = {part: value.get(part) for part in ("agent", "scope", "conversation")}
    wrong = [part for part, name in names.items() if not isinstance(name, str | None)]
    if wrong:
        return InvalidLine(number, f"has a `{wrong[0]}` that is not a name")
    return ConversationLine(number=number, **names)


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
