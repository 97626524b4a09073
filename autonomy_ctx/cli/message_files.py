"""Files of messages: JSON Lines of ours, messages of OpenAI, dumps of LangChain, exports of ChatGPT.

In JSON Lines of ours each line is a message. A line `{"type": "conversation", ...}` names the conversation
of the messages after it, and a line `{"type": "full_text", ...}` holds all of a tool result that the log has
in a shorter form. Files are read a line at a time; only a JSON document that spans lines is read whole.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Any, TypeAlias, cast

from autonomy_ctx.cli.output import count
from autonomy_ctx.items.formats.dumps import convert_message, find_messages, find_trees, read_tree

CONVERSATION, FULL_TEXT = "conversation", "full_text"
# An error lists so many bad lines.
MAX_PROBLEMS = 8


class InvalidLine(ValueError):
    """A line that cannot be imported."""

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
class _FileState:
    """What earlier values of a file mean for the next ones."""

    full_text: dict[str, str] = field(default_factory=dict)
    titles: Counter[str] = field(default_factory=Counter)

    def name_of(self, title: str) -> str:
        """The name of a conversation with this title; a second one gets a number."""
        self.titles[title] += 1
        return title if self.titles[title] == 1 else f"{title} ({self.titles[title]})"


def read_lines(file: IO[bytes]) -> Iterator[FileLine | InvalidLine]:
    """What a file of any of these kinds holds, in order. After a bad line it goes on, to name all of them."""
    first = _first_line(file)
    if first is None or _is_json(first):
        yield from _read_json_lines(file)
    else:
        yield from _read_document(file)


def add_id(form: dict[str, Any], index: int) -> dict[str, Any]:
    """The form with an id; one that has none gets the same each time, by its place and what it says."""
    if form.get("id") or form.get("message_id"):
        return form
    said = json.dumps([index, form], sort_keys=True).encode("utf-8", "surrogatepass")
    return form | {"id": f"import-{hashlib.sha256(said).hexdigest()[:24]}"}


def describe_problems(file: str, problems: list[InvalidLine], total: int) -> str:
    """The sentence about the bad lines of a file."""
    if total == 1:
        return f"{file}: {problems[0]}; nothing was stored"
    listed = "\n".join(f"  {problem}" for problem in problems[:MAX_PROBLEMS])
    more = f"\n  ... and {total - MAX_PROBLEMS:,} more" if total > MAX_PROBLEMS else ""
    return f"{file}: {count(total, 'line')} cannot be imported; nothing was stored\n{listed}{more}"


def _first_line(file: IO[bytes]) -> str | None:
    """The first line that is not empty; the file is then at its beginning again."""
    found = next((line for line in file if line.strip()), None)
    file.seek(0)
    return None if found is None else found.decode("utf-8-sig", "replace")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        # A line of our kind that is damaged begins as one; a document spans lines.
        return len(text.strip()) > 2 and text.lstrip().startswith("{") and text.strip()[1:2] == '"'
    return True


def _read_json_lines(file: IO[bytes]) -> Iterator[FileLine | InvalidLine]:
    state = _FileState()
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.rstrip().decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            yield InvalidLine(number, f"is not UTF-8 text (byte {error.start + 1})")
        except ValueError as error:
            place = f" (column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            yield InvalidLine(number, f"is not JSON{place}")
        except RecursionError:
            yield InvalidLine(number, "is nested too deeply")
        else:
            yield from _read_value(value, number, state)


def _read_document(file: IO[bytes]) -> Iterator[FileLine | InvalidLine]:
    try:
        value = json.loads(file.read().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        yield InvalidLine(1, f"begins a document that is not UTF-8 text (byte {error.start + 1})")
    except json.JSONDecodeError as error:
        yield InvalidLine(error.lineno, f"is not JSON (column {error.colno})")
    except (ValueError, RecursionError):
        yield InvalidLine(1, "begins a document that is nested too deeply")
    else:
        yield from _read_value(value, 1, _FileState())


def _read_value(value: Any, number: int, state: _FileState) -> Iterator[FileLine | InvalidLine]:
    """What one JSON value stands for: a message, a list of them, conversations, or what belongs to one."""
    if isinstance(value, dict) and value.get("type") == CONVERSATION and "role" not in value:
        yield _read_conversation(value, number)
    elif isinstance(value, dict) and value.get("type") == FULL_TEXT and "role" not in value:
        if isinstance(value.get("id"), str) and isinstance(value.get("text"), str):
            state.full_text[value["id"]] = value["text"]
        else:
            yield InvalidLine(number, "must have an `id` and a `text`")
    elif trees := find_trees(value):
        for tree in trees:
            name = state.name_of(str(tree.get("title") or "untitled"))
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


def _read_message(form: dict[str, Any], number: int, state: _FileState) -> Iterator[FileLine | InvalidLine]:
    message_id = form.get("id")
    full = state.full_text.pop(message_id, None) if isinstance(message_id, str) else None
    try:
        for converted in convert_message(form):
            yield MessageLine(number=number, form=converted, full_text=full)
    except TypeError as error:
        yield InvalidLine(number, f"is no message: {error}")


def _read_conversation(value: dict[str, Any], number: int) -> FileLine | InvalidLine:
    names = {part: value.get(part) for part in ("agent", "scope", "conversation")}
    wrong = [part for part, name in names.items() if not isinstance(name, str | None)]
    if wrong:
        return InvalidLine(number, f"has a `{wrong[0]}` that is not a name")
    return ConversationLine(number=number, **names)


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
