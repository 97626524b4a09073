"""Messages as the JSON objects that files of contexts hold, and back.

An object has the fields of `Message` under their own names, empty ones left out, so that a program
may read it with `Message(**fields)`. Reading takes every form of a message there is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

from autonomy_ctx.errors import InvalidContextFile, InvalidMessage
from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message, now
from autonomy_ctx.items.summary import Summary

_ALWAYS = ("role", "content", "id", "created_at")


def fields(message: Message) -> dict[str, Any]:
    """A message's fields that are not empty, as JSON values."""
    if isinstance(message, Summary):
        return wire.to_dict(message)
    # An empty text is something that somebody set; None, False and empty lists are what is left unsaid.
    return {
        name: value for name, value in message.model_dump().items() if value or value == "" or name in _ALWAYS
    }


def record(message: Message) -> str:
    """A message as one line of JSON."""
    # ASCII only: any program reads it, whatever encoding it takes the file for.
    return json.dumps(fields(message))


def parse_messages(values: Sequence[Any], path: Path) -> list[Message]:
    """Messages from JSON values read from a file; raises `InvalidContextFile` naming the first bad one.

    One without an id gets the same one at every reading, and so does the second of two different
    messages under one id. One that is there twice is taken once.
    """
    read_at = now()
    messages: dict[str, Message] = {}
    for index, value in enumerate(values):
        try:
            message = wire.from_dict(value, new_id=partial(_stable_id, index, value), now=lambda: read_at)
            known = messages.get(message.id)
            if known is not None and known != message:
                value = {**fields(message), "id": _stable_id(index, value)}
                message = wire.from_dict(value)
        except InvalidMessage as error:
            raise InvalidContextFile(
                path=str(path),
                problem=f"holds something at index {index} that is no message ({error})",
                advice="Mend it by hand, or use another path",
            ) from None
        messages[message.id] = message
    return list(messages.values())


def _stable_id(index: int, value: dict[str, Any]) -> str:
    return sha256(f"{index}:{json.dumps(value, sort_keys=True)}".encode()).hexdigest()[:32]
