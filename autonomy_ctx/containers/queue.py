"""A queue of the latest items: new items push out the oldest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Self

from autonomy_ctx.containers._shared import INHERIT, Inherit, ItemContainer
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.errors import InvalidContainer
from autonomy_ctx.hooks import Hook, fire
from autonomy_ctx.validation import check_int


class ContextQueueHook(Enum):
    """The events of a `ContextQueue`. A hook gets a list of the items at that time."""

    BEFORE_APPEND = "before_append"
    AFTER_APPEND = "after_append"


class ContextQueue(ItemContainer):
    """At most `limit` items in the order of arrival. Appends and their hooks run one at a time."""

    events = ContextQueueHook
    _items: deque[ContextItem[Any]]
    _limit: int

    def __init__(self, limit: int, hooks: Iterable[Hook] | None = None) -> None:
        super().__init__(check_int("limit", limit), hooks)

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
        return self._branch(self._limit if limit is None else check_int("limit", limit), hooks)

    __copy__ = branch

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """A queue from the result of `to_dict`; no hook is called, and the newest items that fit are kept."""
        if isinstance(data, Mapping) and data.get("limit") is None:
            raise InvalidContainer(cls.__name__, "limit", "is missing")
        return super().from_dict(data)

    def _no_items(self) -> deque[ContextItem[Any]]:
        return deque(maxlen=self._limit)

    def __contains__(self, item: object) -> bool:
        return item in self._items
