"""A window of the latest items: the newest push the oldest out.

Branches share their items until one side changes, so handing a window to a tool or a sub-agent
costs the same whatever is in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from itertools import islice
from typing import Any, Self

from autonomy_ctx.containers._shared import (
    INHERIT,
    ChangeLock,
    Inherit,
    container_from_json,
    container_to_json,
)
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.errors import InvalidContainer
from autonomy_ctx.hooks import Hook, fire, validate_hooks
from autonomy_ctx.validation import check_int


class ContextQueueHook(Enum):
    """What a `ContextQueue` tells its hooks; each gets a list of the items it holds at that time."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"


class ContextQueue:
    """At most `limit` items in the order they came. Appends are made one at a time, with their hooks."""

    def __init__(self, limit: int, hooks: Iterable[Hook] | None = None) -> None:
        self._limit = check_int("limit", limit)
        self.hooks: list[Hook] = validate_hooks(hooks, ContextQueueHook)
        self._items: deque[ContextItem[Any]] = deque(maxlen=self._limit)
        # Whether a branch, or what this is a branch of, reads the same deque: then it is not to be changed.
        self._shared = False
        self._lock = ChangeLock()

    @property
    def limit(self) -> int:
        """How many items it may hold."""
        return self._limit

    @property
    def items(self) -> list[ContextItem[Any]]:
        """The items, oldest first, in a list of the caller's own."""
        return list(self._items)

    async def append(self, *items: ContextItem[Any]) -> None:
        """Add items in their order; the oldest make room.

        A failing BEFORE_APPEND hook keeps all of them out. When an AFTER_APPEND hook fails they are
        in, and the error says so.
        """
        for item in items:
            if not isinstance(item, ContextItem):
                raise TypeError(
                    f"{type(self).__name__}.append takes ContextItem objects, not {type(item).__name__}; "
                    f"wrap it: ContextItem(content=...)"
                )
        if not items:
            return
        if not self.hooks:
            self._extend(items)
            return
        async with self._lock.change():
            await fire(self.hooks, ContextQueueHook.BEFORE_APPEND, self.items, done=False)
            self._extend(items)
            await fire(self.hooks, ContextQueueHook.AFTER_APPEND, self.items, done=True)

    def restore(self, items: Iterable[ContextItem[Any]]) -> None:
        """Add items that were in the queue before, such as saved ones, without hooks."""
        self._extend(items)

    def clear(self) -> None:
        """Remove all items, at once and without hooks."""
        self._items, self._shared = deque(maxlen=self._limit), False

    def branch(self, limit: int | None = None, *, hooks: Iterable[Hook] | Inherit | None = INHERIT) -> Self:
        """A queue with the same items that goes its own way from here.

        What is left out is inherited; `hooks=None` or `[]` means none. A smaller limit keeps the newest.
        """
        child = object.__new__(type(self))
        vars(child).update(vars(self))
        child._lock = ChangeLock()
        child.hooks = (
            list(self.hooks) if isinstance(hooks, Inherit) else validate_hooks(hooks, ContextQueueHook)
        )
        child._limit = self._limit if limit is None else check_int("limit", limit)
        if child._limit < len(self._items):
            newest = list(islice(reversed(self._items), child._limit))
            child._items, child._shared = deque(reversed(newest), maxlen=child._limit), False
        else:
            self._shared = child._shared = True
        return child

    __copy__ = branch

    def to_dict(self) -> dict[str, Any]:
        """Limit, items and the names of the hooks, as JSON."""
        return container_to_json(self._limit, self.items, self.hooks)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A queue from what `to_dict` wrote; no hook is called, the newest that fit are kept."""
        saved = container_from_json(cls.__name__, data)
        if saved.limit is None:
            raise InvalidContainer(cls.__name__, "limit", "is missing")
        made = cls(limit=saved.limit, hooks=saved.hooks)
        made.restore(saved.items)
        return made

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[ContextItem[Any]]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __repr__(self) -> str:
        return f"{type(self).__name__}(limit={self._limit}, len={len(self)})"

    def _extend(self, items: Iterable[ContextItem[Any]]) -> None:
        if self._shared:
            self._items, self._shared = deque(self._items, maxlen=self._limit), False
        self._items.extend(items)
