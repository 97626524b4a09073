"""A pool for those who may only read: tools look things up, the agent decides what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from autonomy_ctx.containers.item import ContextItem


class Readable(Protocol):
    """What a view needs of a pool."""

    @property
    def limit(self) -> int | None: ...
    @property
    def items(self) -> list[ContextItem[Any]]: ...
    def get(self, id: str) -> ContextItem[Any]: ...  # noqa: A002  # the field's name
    def __len__(self) -> int: ...
    def __contains__(self, item: object) -> bool: ...


class ContextPoolView:
    """Reads a pool as it is at any time, and cannot change it."""

    __slots__ = ("_pool",)

    def __init__(self, pool: Readable) -> None:
        self._pool = pool

    @property
    def limit(self) -> int | None:
        """How many items the pool may hold; None means any number."""
        return self._pool.limit

    @property
    def items(self) -> list[ContextItem[Any]]:
        """The items, oldest first."""
        return self._pool.items

    def get(self, id: str) -> ContextItem[Any]:  # noqa: A002  # the field's name
        """The item with an id, or `UnknownItem`, which is a `KeyError`."""
        return self._pool.get(id)

    def catalogue(self) -> str:
        """One line `- [id] description` for each item."""
        return catalogue_of(self.items)

    def __len__(self) -> int:
        return len(self._pool)

    def __iter__(self) -> Iterator[ContextItem[Any]]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._pool

    def __repr__(self) -> str:
        return f"{type(self).__name__}(limit={self.limit}, len={len(self)})"


def catalogue_of(items: Iterable[ContextItem[Any]]) -> str:
    """One line for each item: a line break in a text must not look like another item."""
    return "\n".join(f"- [{_escaped(item.id or '')}] {_one_line(item.description or '')}" for item in items)


def _one_line(text: str) -> str:
    lines = text.splitlines()
    return text if lines == [text] else " ".join(line.strip() for line in lines if line.strip())


def _escaped(text: str) -> str:
    """Line breaks in an id are shown, not dropped: two ids must not look the same."""
    return text if text.splitlines() in ([], [text]) else repr(text)[1:-1]
