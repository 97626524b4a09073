"""What a knowledge base is: something that can be asked for passages.

Any object with `search(query, limit)` is one, so a database's own search fits as it is. What such an
object gives is read here, once, and nothing else in the library needs to know its form.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import islice
from typing import Any, Protocol

from autonomy_ctx.errors import InvalidPassage


@dataclass(frozen=True, slots=True)
class Passage:
    """A piece of a document; a higher `score` fits better, and only compares within one answer."""

    text: str
    _: KW_ONLY
    score: float = 0.0
    source: str | None = None
    title: str | None = None
    id: str | None = None


class Knowledge(Protocol):
    """Can be asked for passages."""

    async def search(self, query: str, limit: int) -> Sequence[Passage]:
        """The passages that say most about the query, best first, at most `limit`."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The passages that could be read, and what was wrong with the others."""

    passages: tuple[Passage, ...]
    problem: str | None = None


def checked_knowledge(value: Any) -> Any:
    """The value, if it can be searched."""
    if isinstance(value, type) or not callable(getattr(value, "search", None)):
        name = value.__name__ if isinstance(value, type) else type(value).__name__
        raise TypeError(f"{name} is no knowledge: it needs a method `search(query, limit)`")
    return value


def checked_limit(name: str, value: Any) -> int:
    """A number of passages or tokens."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from 1")
    return value


async def ask(knowledge: Any, query: str, limit: int) -> Answer:
    """Search any knowledge base, ours or not, plain or async, and read what it gives."""
    found = knowledge.search(query, limit)
    if inspect.isawaitable(found):
        found = await found
    return read_passages(found, limit)


def read_passages(found: Any, limit: int) -> Answer:
    """The first `limit` passages of an answer; raises `InvalidPassage` when it is no list at all."""
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Iterable):
        raise InvalidPassage(f"the search returned {type(found).__name__}")
    passages: list[Passage] = []
    problem: str | None = None
    for number, one in enumerate(islice(found, limit), start=1):
        passage = _passage(one)
        if passage is None:
            problem = problem or f"result {number} of the search is {_kind(one)}"
        elif passage.text.strip():
            passages.append(passage)
    return Answer(tuple(passages), problem)


def clean(text: str) -> str:
    """The text as every store and provider can hold it: a lone surrogate is replaced."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _passage(value: Any) -> Passage | None:
    if isinstance(value, str):
        return Passage(clean(str.__str__(value)))
    if isinstance(value, Passage):
        names = ("text", "score", "source", "title", "id")
        fields: Mapping[str, Any] = {name: getattr(value, name) for name in names}
    elif isinstance(value, Mapping):
        # Many databases keep the source in the metadata beside the text.
        metadata = value.get("metadata")
        fields = {**metadata, **value} if isinstance(metadata, Mapping) else value
    else:
        return None
    text = fields.get("text")
    text = fields.get("content") if text is None else text
    if not isinstance(text, str):
        return None
    return Passage(
        clean(text),
        score=_number(fields.get("score")),
        source=_word(fields.get("source")),
        title=_word(fields.get("title")),
        id=_word(fields.get("id")),
    )


def _kind(value: Any) -> str:
    return "a dict without text" if isinstance(value, Mapping) else type(value).__name__


def _word(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return clean(str(value)) or None


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0
