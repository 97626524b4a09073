"""Conversations in files: JSON Lines of ours, messages of OpenAI, dumps of LangChain, exports of ChatGPT.

The format is recognized by the contents. A file may have several conversations; one is chosen by name or by
number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.formats.dumps import convert_message, find_messages, find_trees, read_tree
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
        data = file.read_bytes()
    else:
        file, data = Path(STREAM_NAME), path.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{file} is not UTF-8 text (byte {error.start + 1}); give a file of JSON") from None
    found = _find_conversations(text, file)
    if not found:
        raise ValueError(
            f"{file} has no messages; give JSON Lines of messages, OpenAI messages, a LangChain dump "
            "or a ChatGPT export"
        )
    label, forms = _choose(found, name, file)
    messages: list[dict[str, Any]] = []
    for number, form in enumerate(forms, 1):
        try:
            read = _read_forms(form)
            RecordedConversation(read)
        except (InvalidMessage, ValueError, TypeError) as error:
            problem = f"`{error.field}` {error.problem}" if isinstance(error, InvalidMessage) else str(error)
            raise ValueError(f"{file}: message {number:,} of {label!r} cannot be read: {problem}") from None
        messages += read
    return RecordedConversation(messages, name=label)


def _find_conversations(text: str, file: Path) -> dict[str, list[Any]]:
    """The messages of each conversation in a file, by its name."""
    found: dict[str, list[Any]] = {}
    current = file.stem
    for number, value in _read_values(text, file):
        if isinstance(value, Mapping) and value.get("type") == "conversation":
            current = str(value.get("conversation") or current)
            found.setdefault(current, [])
        elif isinstance(value, Mapping) and value.get("type") == "full_text":
            # The log has a shorter form of it, and that is what models were shown.
            continue
        elif trees := find_trees(value):
            for tree in trees:
                title = str(tree.get("title") or file.stem)
                label = title if title not in found else f"{title} ({len(found) + 1})"
                found[label] = read_tree(tree)
        elif (messages := find_messages(value)) is not None:
            # A line that is a whole conversation, as in files for training.
            label = file.stem if number is None else f"{file.stem} {number}"
            found.setdefault(label, []).extend(messages)
        elif isinstance(value, Mapping):
            found.setdefault(current, []).append(value)
        else:
            where = "" if number is None else f" line {number:,}"
            raise ValueError(f"{file}{where}: a message must be a JSON object, not {type(value).__name__}")
    return {label: messages for label, messages in found.items() if messages}


def _read_values(text: str, file: Path) -> Iterator[tuple[int | None, Any]]:
    """The JSON values of a file with their lines; the one of a document has no line."""
    try:
        yield None, json.loads(text)
        return
    except RecursionError:
        raise ValueError(f"{file} is nested too deeply to be a conversation") from None
    except json.JSONDecodeError as error:
        whole = error
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    for number, line in lines:
        try:
            value = json.loads(line)
        except (json.JSONDecodeError, RecursionError):
            if number == lines[0][0]:
                # No JSON Lines either: what is wrong with the document says more.
                raise ValueError(
                    f"{file} is not JSON: line {whole.lineno:,}, column {whole.colno:,}"
                ) from None
            raise ValueError(f"{file}: line {number:,} is not JSON") from None
        yield number, value


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


def _read_forms(form: Any) -> list[dict[str, Any]]:
    """A message of any of these systems in the form that ours have; nothing for what says nothing."""
    read = convert_message(form)
    for made in read:
        if made.get("role") == "developer":
            made["role"] = "system"
        if made.get("content") is None and not made.get("tool_calls"):
            # An answer that was only a sound.
            made["content"] = ""
    return read
