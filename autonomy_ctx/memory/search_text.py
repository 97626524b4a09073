"""The text by which a message is found, and the terms of a question. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autonomy_ctx.language.words import text_ends
from autonomy_ctx.memory.encoding import decode_entry
from autonomy_ctx.memory.search_terms import FoldedTerms, IndexTerms, folded_terms, search_terms
from autonomy_ctx.messages.message import Message, TextContent
from autonomy_ctx.validation import check_int

# Of a large message the beginning and the end can be found, this many characters of each.
INDEXED_END_CHARACTERS = 20_000
MAX_QUERY_TERMS, MAX_FOLDED_TERMS = 64, 128
# What a match in another form counts for beside an exact one.
FOLDED_WEIGHT = 0.4
# What a message with all words of a question gains, times the best exact score: more than any other can have.
FULL_MATCH_GAIN = 2.0
_NOTHING_FOLDED = FoldedTerms([], [], [], [])


class SearchScope(NamedTuple):
    """Where to search: all conversations of a scope with an agent, or one of them."""

    agent: str
    scope: str
    conversation: str | None


class RowHit(NamedTuple):
    """A row that was found: the number of its conversation, its position, and how well it fits."""

    conversation_id: int
    position: int
    score: float


class IndexBlock(NamedTuple):
    """Messages of one conversation on their way into the index: their terms by position, and their place."""

    conversation_id: int
    # As of when they were read.
    generation: int
    start: int
    end: int
    terms: dict[int, IndexTerms]


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """Terms to look for, as they are written, and other forms of them, which count for less."""

    exact: Sequence[str]
    folded: FoldedTerms = _NOTHING_FOLDED

    def __bool__(self) -> bool:
        return bool(self.exact)


def query_terms(query: str, limit: int) -> QueryTerms:
    """The terms of a question; false when nothing in it tells messages apart."""
    if not isinstance(query, str):
        raise TypeError(f"query must be a string, not {type(query).__name__}")
    check_int("limit", limit)
    asked = text_ends(query, INDEXED_END_CHARACTERS)
    exact = search_terms(asked)[:MAX_QUERY_TERMS]
    return QueryTerms(exact, folded_terms(asked, MAX_FOLDED_TERMS))


def searchable_text(message: Message) -> str:
    """The text by which a message can be found: what was said, and the arguments of calls."""
    said = [part.text for part in message.parts if isinstance(part, TextContent)]
    written = "\n".join([*said, *(_argument_text(call.arguments) for call in message.tool_calls)])
    return text_ends(written, INDEXED_END_CHARACTERS)


def row_text(position: int, message_id: str, created: int, tokens: int, counter: str, body: str) -> str:
    """The text by which the message of a row is found."""
    return searchable_text(decode_entry(position, message_id, created, tokens, counter, body).message)


def _argument_text(text: str) -> str:
    """Arguments without the escapes of JSON, as far as they are JSON and not large."""
    if "\\" not in text or len(text) > 2 * INDEXED_END_CHARACTERS:
        return text
    try:
        return "\n".join(_string_values(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _string_values(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from _string_values(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _string_values(inner)
    else:
        yield str(value)
