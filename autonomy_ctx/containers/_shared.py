"""What the arguments of containers may be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum
from typing import Any

import anyio

from autonomy_ctx.background import current_loop
from autonomy_ctx.containers.item import ContextItem, item_from_json, item_to_json
from autonomy_ctx.errors import InvalidContainer
from autonomy_ctx.hooks import Hook, by_name, from_names


class Inherit(Enum):
    """Says that an argument was left out, where None means something else."""

    INHERIT = "inherit"


INHERIT = Inherit.INHERIT


class Change:
    """A change under way."""

    __slots__ = ("incoming", "open", "turns", "waits_for")

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.open = True
        # The id of an item that is about to come in, while its hooks are asked.
        self.incoming: str | None = None
        # The containers for which something that its hooks do is waiting.
        self.waits_for: list[Turns] = []


# Tasks that a hook starts inherit it: what they do is still inside the change, until that has ended.
_changes: ContextVar[tuple[Change, ...]] = ContextVar("autonomy_ctx_changes", default=())


class Turns:
    """Whose turn it is to change a container."""

    def __init__(self) -> None:
        self._loop: Any = None
        self._lock: anyio.Lock | None = None
        self._holder: Change | None = None

    def __reduce__(self) -> tuple[type[Turns], tuple[()]]:
        # A copy of a container is another container.
        return Turns, ()

    def incoming(self) -> list[str]:
        """The ids of the items about which the running code, or a hook that called it, is being asked."""
        changes = (change for change in _changes.get() if change.turns is self)
        return [change.incoming for change in changes if change.incoming is not None]

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """A change with its hooks, when its turn has come."""
        # Without those that have ended: tasks that hooks start may start others without end.
        around = tuple(change for change in _changes.get() if change.open)
        here = self._lock_here()
        lock = None if self._leads_to(around) else here
        if lock is not None:
            await self._wait(lock, around)
        change = Change(self)
        if lock is not None:
            self._holder = change
        token = _changes.set((*around, change))
        try:
            yield change
        finally:
            change.open, change.incoming = False, None
            if lock is not None:
                self._holder = None if self._holder is change else self._holder
                lock.release()
            _changes.reset(token)

    def _leads_to(self, around: tuple[Change, ...]) -> bool:
        """Whether whoever has the turn waits, in the end, for one of the changes around us."""
        holder = self._holder
        return holder is not None and (
            holder in around or any(turns._leads_to(around) for turns in holder.waits_for)
        )

    async def _wait(self, lock: anyio.Lock, around: tuple[Change, ...]) -> None:
        for change in around:
            change.waits_for.append(self)
        try:
            await lock.acquire()
        finally:
            for change in around:
                change.waits_for.remove(self)

    def _lock_here(self) -> anyio.Lock:
        """A loop that has ended may have left its lock taken, and locks of two loops do not mix."""
        loop = current_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock, self._holder = loop, anyio.Lock(fast_acquire=True), None
        return self._lock


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What was read; the container decides whether it can be that."""

    limit: Any
    items: list[ContextItem[Any]]
    hooks: list[Hook]


def to_json(limit: int | None, items: Iterable[ContextItem[Any]], hooks: Iterable[Hook]) -> dict[str, Any]:
    """A container as JSON; an error says which item it is about."""
    written = [item_to_json(item, f"items[{index}].") for index, item in enumerate(items)]
    return {"limit": limit, "items": written, "hooks": by_name(hooks)}


def from_json(kind: str, data: Any) -> Saved:
    """The parts of a container, of which all may be missing."""
    if not isinstance(data, Mapping):
        raise InvalidContainer(kind, "data", f"must be a dict, not {type(data).__name__}")
    items, hooks = data.get("items"), data.get("hooks")
    if not isinstance(items, list | tuple | None):
        raise InvalidContainer(kind, "items", f"must be a list, not {type(items).__name__}")
    if not isinstance(hooks, Mapping | None) or not all(map(_are_names, (hooks or {}).values())):
        raise InvalidContainer(kind, "hooks", "must be a dict of lists of function names")
    return Saved(
        limit=data.get("limit"),
        items=[
            item_from_json(ContextItem, item, f"items[{index}]") for index, item in enumerate(items or ())
        ],
        hooks=from_names(hooks or {}),
    )


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
