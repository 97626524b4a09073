"""Search: which messages of a scope say something about a question, word for word.

A store finds nothing outside the scope and the agent it is asked for, nothing that was deleted, and
everything that was acknowledged before the search began.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import TextContent
from autonomy_ctx.items.terms import asked_terms

# Of a large message the beginning and the end can be found, this many characters of each.
END_CHARACTERS = 20_000
MOST_TERMS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message that a search found, where it stands, and how well it fits: higher is better."""

    conversation: str
    position: int
    message: Message
    score: float


class Search(Protocol):
    """Finds messages by their words."""

    async def search(
        self, agent: str, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[Found]:
        """The messages of a scope with an agent, or of one conversation, that share a word; best first."""


def wanted_terms(query: str, limit: int) -> list[str]:
    """What to look for; empty when nothing in the question tells messages apart."""
    if not isinstance(query, str):
        raise TypeError(f"query must be a string, not {type(query).__name__}")
    if limit < 1:
        raise ValueError(f"limit is {limit}; it must be at least 1")
    return asked_terms(_ends(query))[:MOST_TERMS]


def searchable(message: Message) -> str:
    """The text by which a message can be found: what was said, and the arguments of calls."""
    said = [part.text for part in message.parts if isinstance(part, TextContent)]
    return _ends("\n".join([*said, *(_arguments(call.arguments) for call in message.tool_calls)]))


def _ends(text: str) -> str:
    if len(text) <= 2 * END_CHARACTERS:
        return text
    return f"{text[:END_CHARACTERS]}\n{text[-END_CHARACTERS:]}"


def _arguments(text: str) -> str:
    """Arguments without the escapes of JSON, as far as they are JSON and not large."""
    if "\\" not in text or len(text) > 2 * END_CHARACTERS:
        return text
    try:
        return "\n".join(_values(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _values(inner)
    else:
        yield str(value)
