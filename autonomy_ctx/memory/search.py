"""Search: which messages of a scope say something about a question, word for word.

A store finds nothing outside the scope and the agent it is asked for, nothing that was deleted, and
everything that was acknowledged before the search began.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from autonomy_ctx.items.message import Message, TextContent
from autonomy_ctx.items.terms import asked_terms, ends

# Of a large message the beginning and the end can be found, this many characters of each.
END_CHARACTERS = 20_000
MOST_TERMS = 64
# What a row may have besides its content that says nothing about how to read it.
_PLAIN = frozenset(
    ("role", "content", "tool_calls", "tool_call_id", "name", "is_error", "agent", "agent_id", "phase")
)
_TEXT = frozenset(("type", "text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A message that a search found, where it stands, and how well it fits: higher is better."""

    conversation: str
    position: int
    message: Message
    score: float


class Placed(NamedTuple):
    """A message, and where it stands."""

    conversation: str
    position: int
    message: Message


@runtime_checkable
class ReadsPlaces(Protocol):
    """A store that reads messages from many places in one step; recall takes more steps without it."""

    async def read_places(
        self, agent: str, scope: str, places: Sequence[tuple[str, int]]
    ) -> Sequence[Placed]:
        """The messages at these positions of these conversations, in any order; of others, nothing."""


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
    return asked_terms(ends(query, END_CHARACTERS))[:MOST_TERMS]


def searchable(message: Message) -> str:
    """The text by which a message can be found: what was said, and the arguments of calls."""
    said = [part.text for part in message.parts if isinstance(part, TextContent)]
    written = "\n".join([*said, *(_arguments(call.arguments) for call in message.tool_calls)])
    return ends(written, END_CHARACTERS)


def plain_text(body: str) -> str | None:
    """The same of the body of a row that holds nothing but text; None for any other."""
    try:
        form = json.loads(body)
    except ValueError:
        return None
    if not isinstance(form, dict) or not _PLAIN.issuperset(form) or form.get("tool_calls"):
        return None
    content = form.get("content")
    if type(content) is dict and content.keys() == _TEXT and content["type"] == "text":
        content = content["text"]
    return ends(content, END_CHARACTERS) if type(content) is str else None


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
