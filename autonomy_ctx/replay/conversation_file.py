"""Conversations in files: JSON Lines of ours, messages of OpenAI, dumps of LangChain, exports of ChatGPT.

The format is recognized by the contents. A file may have several conversations; one is chosen by name or by
number.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import IO, Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.message_files import (
    MAX_STREAM_BYTES,
    ConversationLine,
    InvalidLine,
    MessageLine,
    read_lines,
    unique_name,
)
from autonomy_ctx.replay.conversation import RecordedConversation

MAX_LISTED = 8
# How a conversation is called that came through a pipe.
STREAM_NAME = "stdin"


def read_conversation_file(
    path: str | PathLike[str] | IO[bytes], name: str | None = None
) -> RecordedConversation:
    """The conversation in a file, or the one of this name or number (from 1) where there are several."""
    if isinstance(path, str | PathLike):
        file = Path(path)
        with file.open("rb") as source:
            found = _find_conversations(source, file)
    else:
        file = Path(STREAM_NAME)
        found = _find_conversations(path, file)
    if not found:
        raise ValueError(
            f"{file} has no messages; give JSON Lines of messages, OpenAI messages, a LangChain dump "
            "or a ChatGPT export"
        )
    label, forms = _choose(found, name, file)
    for number, form in enumerate(forms, 1):
        try:
            RecordedConversation([form])
        except (InvalidMessage, ValueError, TypeError) as error:
            problem = f"`{error.field}` {error.problem}" if isinstance(error, InvalidMessage) else str(error)
            raise ValueError(f"{file}: message {number:,} of {label!r} cannot be read: {problem}") from None
    return RecordedConversation(forms, name=label)


def _find_conversations(source: IO[bytes], file: Path) -> dict[str, list[dict[str, Any]]]:
    """The messages of each conversation in a file, by its name."""
    found: dict[ConversationLine, list[dict[str, Any]]] = {}
    current = ConversationLine(number=0)
    for line in read_lines(source, max_bytes=MAX_STREAM_BYTES):
        match line:
            case InvalidLine():
                raise ValueError(f"{file}: {line}")
            case ConversationLine():
                # What has a name may go on later; a line without one is a whole conversation.
                current = line if line.conversation is None else replace(line, number=0)
            case MessageLine():
                found.setdefault(current, []).append(_read_form(line.form))
    is_series = sum(line.conversation is None for line in found) > 1
    taken: set[str] = set()
    return {
        unique_name(_label(line, file, is_series=is_series), taken): forms for line, forms in found.items()
    }


def _label(line: ConversationLine, file: Path, *, is_series: bool) -> str:
    if line.conversation is not None:
        return line.conversation
    return f"{file.stem} {line.number}" if is_series and line.number else file.stem


def _choose(found: dict[str, list[Any]], name: str | None, file: Path) -> tuple[str, list[Any]]:
    labels = list(found)
    if name is None and len(labels) == 1:
        return labels[0], found[labels[0]]
    if name in found:
        return name, found[name]
    if name is not None and name.isdecimal() and 0 < int(name) <= len(labels):
        return labels[int(name) - 1], found[labels[int(name) - 1]]
    listed = ", ".join(repr(label) for label in labels[:MAX_LISTED])
    more = f" and {len(labels) - MAX_LISTED:,} more" if len(labels) > MAX_LISTED else ""
    problem = "has several conversations" if name is None else f"has no conversation {name!r}"
    raise ValueError(f"{file} {problem}; name one of {listed}{more}")


def _read_form(form: dict[str, Any]) -> dict[str, Any]:
    """A message as a replay reads it."""
    if form.get("role") == "developer":
        form["role"] = "system"
    if form.get("content") is None and not form.get("tool_calls"):
        # An answer that was only a sound.
        form["content"] = ""
    return form
