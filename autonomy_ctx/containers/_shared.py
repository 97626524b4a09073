"""The parts that queue and pool share: their items, copies and JSON, and the lock around changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from enum import Enum
from typing import Any, ClassVar, Self

import anyio

from autonomy_ctx.background import current_loop
from autonomy_ctx.containers.item import ContextItem, item_from_json, item_to_json
from autonomy_ctx.errors import InvalidContainer
from autonomy_ctx.hooks import Hook, hooks_from_names, hooks_to_names, validate_hooks

# Tasks that a hook starts inherit it: what they do is still inside the change, until that has ended.
_changes: ContextVar[tuple[Change, ...]] = ContextVar("autonomy_ctx_changes", default=())


class Inherit(Enum):
    """Says that an argument was left out, where None means something else."""

    INHERIT = "inherit"


INHERIT = Inherit.INHERIT


class Change:
    """A change under way."""

    __slots__ = ("incoming", "lock", "open", "waits_for")

    def __init__(self, lock: ChangeLock) -> None:
        self.lock = lock
        self.open = True
        # The id of an item that is about to come in, while its hooks are asked.
        self.incoming: str | None = None
        # The locks that something its hooks do is waiting for.
        self.waits_for: list[ChangeLock] = []


class ChangeLock:
    """Lets one change of a container, with its hooks, happen at a time.

    A hook may change the container it is called for: that change is inside the other one and does not wait.
    """

    def __init__(self) -> None:
        self._loop: Any = None
        self._lock: anyio.Lock | None = None
        self._holder: Change | None = None

    def __reduce__(self) -> tuple[type[ChangeLock], tuple[()]]:
        # A copy of a container is another container.
        return ChangeLock, ()

    def incoming(self) -> list[str]:
        """The ids of the items about which the running code, or a hook that called it, is being asked."""
        changes = (change for change in _changes.get() if change.lock is self)
        return [change.incoming for change in changes if change.incoming is not None]

    @asynccontextmanager
    async def change(self) -> AsyncIterator[Change]:
        """Make a change with its hooks, after those that were begun before."""
        # Without ended changes, because tasks started by hooks may start other tasks endlessly.
        around = tuple(change for change in _changes.get() if change.open)
        loop_lock = self._loop_lock()
        lock = None if self._waits_for_any(around) else loop_lock
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

    def _waits_for_any(self, around: tuple[Change, ...]) -> bool:
        """Tell whether the change that holds the lock waits, in the end, for one of those around us."""
        holder = self._holder
        return holder is not None and (
            holder in around or any(other._waits_for_any(around) for other in holder.waits_for)
        )

    async def _wait(self, lock: anyio.Lock, around: tuple[Change, ...]) -> None:
        for change in around:
            change.waits_for.append(self)
        try:
            await lock.acquire()
        finally:
            for change in around:
                change.waits_for.remove(self)

    def _loop_lock(self) -> anyio.Lock:
        """The lock of the running loop; one that has ended may have left its lock taken."""
        loop = current_loop()
        if self._lock is None or self._loop is not loop:
            self._loop, self._lock, self._holder = loop, anyio.Lock(fast_acquire=True), None
        return self._lock


class ItemContainer(ABC):
    """Items, oldest first, at most `limit` of them. Changes and their hooks run one at a time."""

    # The events that its hooks may listen to.
    events: ClassVar[type[Enum]]
    _items: Any

    def __init__(self, limit: int | None, hooks: Iterable[Hook] | None) -> None:
        self._limit = limit
        self.hooks: list[Hook] = validate_hooks(hooks, self.events)
        self._items, self._lock = self._no_items(), ChangeLock()

    @property
    @abstractmethod
    def items(self) -> list[ContextItem[Any]]:
        """The items, oldest first, in a new list."""

    def __iter__(self) -> Iterator[ContextItem[Any]]:
        return iter(self.items)

    @abstractmethod
    def restore(self, items: Iterable[ContextItem[Any]]) -> None:
        """Add items that were here before, such as saved ones, without calling hooks."""

    @abstractmethod
    def _no_items(self) -> Any:
        """An empty collection with room for the limit."""

    def _branch(self, limit: int | None, hooks: Iterable[Hook] | Inherit | None) -> Self:
        """An independent copy with the newest items that fit; no hook is called."""
        child = object.__new__(type(self))
        vars(child).update(vars(self))
        child._limit, child._lock = limit, ChangeLock()
        child.hooks = list(self.hooks) if isinstance(hooks, Inherit) else validate_hooks(hooks, self.events)
        child._items = child._no_items()
        child.restore(self.items)
        return child

    def to_dict(self) -> dict[str, Any]:
        """Limit, items and the names of the hooks, as JSON."""
        forms = [item_to_json(item, f"items[{index}].") for index, item in enumerate(self.items)]
        return {"limit": self._limit, "items": forms, "hooks": hooks_to_names(self.hooks)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The container in the result of `to_dict`; no hook is called, and the newest items that fit stay."""
        if not isinstance(data, Mapping):
            raise InvalidContainer(cls.__name__, "data", f"must be a dict, not {type(data).__name__}")
        items, hooks = data.get("items"), data.get("hooks")
        if not isinstance(items, list | tuple | None):
            raise InvalidContainer(cls.__name__, "items", f"must be a list, not {type(items).__name__}")
        if not isinstance(hooks, Mapping | None) or not all(map(_are_names, (hooks or {}).values())):
            raise InvalidContainer(cls.__name__, "hooks", "must be a dict of lists of function names")
        saved = [
            item_from_json(ContextItem, item, f"items[{index}]") for index, item in enumerate(items or ())
        ]
        made = cls(limit=data.get("limit"), hooks=hooks_from_names(hooks or {}))
        made.restore(saved)
        return made

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(limit={self._limit}, len={len(self)})"


def _are_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
