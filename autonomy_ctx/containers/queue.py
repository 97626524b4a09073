"""A queue of the latest items: new items push out the oldest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
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
    """The events of a `ContextQueue`. A hook gets a list of the items at that time."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"


class ContextQueue:
    """At most `limit` items in the order of arrival. Appends and their hooks run one at a time."""

    def __init__(self, limit: int, hooks: Iterable[Hook] | None = None) -> None:
        self._limit = check_int("limit", limit)
        self.hooks: list[Hook] = validate_hooks(hooks, ContextQueueHook)
        self._items: deque[ContextItem[Any]] = deque(maxlen=self._limit)
        self._lock = ChangeLock()

    @property
    def limit(self) -> int:
        """The largest number of items."""
        return self._limit

    @property
    def items(self) -> list[ContextItem[Any]]:
        """The items, oldest first, in a new list."""
        return list(self._items)

    async def append(self, *items: ContextItem[Any]) -> None:
        """Add items in order; a full queue drops the oldest.

        If a BEFORE_APPEND hook fails, no item is added. If an AFTER_APPEND hook fails, the items stay in the
        queue, and the error says so.
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
            self._items.extend(items)
            return
        async with self._lock.change():
            await fire(self.hooks, ContextQueueHook.BEFORE_APPEND, self.items, done=False)
            self._items.extend(items)
            await fire(self.hooks, ContextQueueHook.AFTER_APPEND, self.items, done=True)

    def restore(self, items: Iterable[ContextItem[Any]]) -> None:
        """Add items that were in the queue before, such as saved ones, without calling hooks."""
        self._items.extend(items)

    def clear(self) -> None:
        """Remove all items, at once and without hooks."""
        self._items.clear()

    def branch(self, limit: int | None = None, *, hooks: Iterable[Hook] | Inherit | None = INHERIT) -> Self:
        """An independent queue with the same items.

        Arguments that are not given are inherited; `hooks=None` or `[]` means no hooks. A smaller limit keeps
        the newest items.
        """
        child = object.__new__(type(self))
        vars(child).update(vars(self))
        child._lock = ChangeLock()
        child.hooks = (
            list(self.hooks) if isinstance(hooks, Inherit) else validate_hooks(hooks, ContextQueueHook)
        )
        child._limit = self._limit if limit is None else check_int("limit", limit)
        child._items = deque(self._items, maxlen=child._limit)
        return child

    __copy__ = branch

    def to_dict(self) -> dict[str, Any]:
        """Limit, items and the names of the hooks, as JSON."""
        return container_to_json(self._limit, self.items, self.hooks)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A queue from the result of `to_dict`; no hook is called, and the newest items that fit are kept."""
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
