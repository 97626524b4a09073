"""Files of messages: JSON Lines of ours, and messages as OpenAI has them.

In JSON Lines of ours each line is a message. A line `{"type": "conversation", ...}` names the conversation
of the messages after it, and a line `{"type": "full_text", ...}` holds all of a tool result that the log has
in a shorter form. Files are read a line at a time; only a JSON document that spans lines is read whole.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

from autonomy_ctx.cli.output import count

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


def read_lines(file: IO[bytes]) -> Iterator[FileLine | InvalidLine]:
    """What a file of either kind holds, in order. It goes on after a bad line, so that all can be named."""
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
    full_text: dict[str, str] = {}
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
            yield from _read_value(value, number, full_text)


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
        yield from _read_value(value, 1, {})


def _read_value(value: Any, number: int, full_text: dict[str, str]) -> Iterator[FileLine | InvalidLine]:
    """What one JSON value stands for: a message, a list of them, a conversation, or what belongs to one."""
    if isinstance(value, dict) and isinstance(value.get("messages"), list) and "role" not in value:
        value = value["messages"]
    if isinstance(value, list):
        yield ConversationLine(number=number)
        for index, form in enumerate(value, 1):
            if isinstance(form, dict):
                yield MessageLine(number=number, form=form)
            else:
                yield InvalidLine(number, f"has no message at place {index}, but {_kind(form)}")
        return
    if not isinstance(value, dict):
        yield InvalidLine(number, f"is {_kind(value)}, not a message")
        return
    match value.get("type"):
        case "conversation":
            yield _read_conversation(value, number)
        case "full_text":
            if isinstance(value.get("id"), str) and isinstance(value.get("text"), str):
                full_text[value["id"]] = value["text"]
            else:
                yield InvalidLine(number, "must have an `id` and a `text`")
        case _:
            message_id = value.get("id")
            full = full_text.pop(message_id, None) if isinstance(message_id, str) else None
            yield MessageLine(number=number, form=value, full_text=full)


def _read_conversation(value: dict[str, Any], number: int) -> FileLine | InvalidLine:
    names = {part: value.get(part) for part in ("agent", "scope", "conversation")}
    wrong = [part for part, name in names.items() if not isinstance(name, str | None)]
    if wrong:
        return InvalidLine(number, f"has a `{wrong[0]}` that is not a name")
    return ConversationLine(number=number, **names)


def _kind(value: Any) -> str:
    names = {str: "a text", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return "null" if value is None else names.get(type(value), type(value).__name__)
