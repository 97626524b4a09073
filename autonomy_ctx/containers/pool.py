"""A pool of items by id: `ContextPool`, and the read-only `ContextPoolView`.

Tools read a view; the agent decides which items are in the pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, Self

from autonomy_ctx.containers._shared import INHERIT, Inherit, ItemContainer
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.errors import InvalidItem, UnknownItem
from autonomy_ctx.hooks import Hook, fire
from autonomy_ctx.validation import check_int


class ContextPoolView:
    """A read-only view of a pool that always shows the current items."""

    __slots__ = ("_pool",)

    def __init__(self, pool: ContextPool) -> None:
        self._pool = pool

    @property
    def limit(self) -> int | None:
        """The largest number of items; None means no limit."""
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
        return render_catalogue(self.items)

    def __len__(self) -> int:
        return len(self._pool)

    def __iter__(self) -> Iterator[ContextItem[Any]]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._pool

    def __repr__(self) -> str:
        return f"{type(self).__name__}(limit={self.limit}, len={len(self)})"


def render_catalogue(items: Iterable[ContextItem[Any]]) -> str:
    """One line for each item: a line break in a text must not look like another item."""
    return "\n".join(
        f"- [{_escape_line_breaks(item.id or '')}] {_join_lines(item.description or '')}" for item in items
    )


def _join_lines(text: str) -> str:
    lines = text.splitlines()
    return text if lines == [text] else " ".join(line.strip() for line in lines if line.strip())


def _escape_line_breaks(text: str) -> str:
    """Line breaks in an id are shown, not dropped: two ids must not look the same."""
    return text if text.splitlines() in ([], [text]) else repr(text)[1:-1]


class ContextPoolHook(Enum):
    """The events of a `ContextPool`. A hook gets the pool, and the item if the event is about one."""

    BEFORE_ADD = "before_add"
    AFTER_ADD = "after_add"
    BEFORE_REMOVE = "before_remove"
    AFTER_REMOVE = "after_remove"
    BEFORE_CLEAR = "before_clear"
    AFTER_CLEAR = "after_clear"


class ContextPool(ItemContainer):
    """At most `limit` items with ids, oldest first. Changes and their hooks run one at a time."""

    events = ContextPoolHook
    _items: dict[str, ContextItem[Any]]

    def __init__(self, limit: int | None = None, hooks: Iterable[Hook] | None = None) -> None:
        super().__init__(check_int("limit", limit, optional=True), hooks)

    @property
    def limit(self) -> int | None:
        """The largest number of items; None means no limit."""
        return self._limit

    @property
    def items(self) -> list[ContextItem[Any]]:
        """The items, oldest first, in a new list."""
        leaving = self._item_leaving()
        return [item for item in self._items.values() if item.id != leaving]

    def get(self, id: str) -> ContextItem[Any]:  # noqa: A002  # the field's name
        """The item with an id, or `UnknownItem`, which is a `KeyError`."""
        if id not in self._items or id == self._item_leaving():
            raise UnknownItem(id)
        return self._items[id]

    def catalogue(self) -> str:
        """One line `- [id] description` for each item, whatever their texts hold."""
        return render_catalogue(self.items)

    def view(self) -> ContextPoolView:
        """A read-only view that always shows the current items."""
        return ContextPoolView(self)

    async def add(self, item: ContextItem[Any]) -> None:
        """Add an item as the newest.

        An item with the same id is replaced; otherwise a full pool drops the oldest.

        BEFORE_ADD hooks see the pool without the item that is to be removed; others see that item until the
        new one is added. If a BEFORE_ADD hook fails, the pool is unchanged. If an AFTER_ADD hook fails, the
        new item stays in the pool, and the error says so.
        """
        key = self._check_item(item)
        if not self.hooks:
            self._put(key, item)
            return
        async with self._lock.change() as change:
            change.incoming = key
            await fire(self.hooks, ContextPoolHook.BEFORE_ADD, self, item, done=False)
            self._put(key, item)
            change.incoming = None
            await fire(self.hooks, ContextPoolHook.AFTER_ADD, self, item, done=True)

    def restore(self, items: Iterable[ContextItem[Any]]) -> None:
        """Add items that were in the pool before, such as saved ones, without calling hooks."""
        for item in items:
            self._put(self._check_item(item), item)

    async def remove(self, id: str) -> None:  # noqa: A002  # the field's name
        """Remove an item. Raises `UnknownItem`, a `KeyError`, if there is none."""
        self.get(id)
        async with self._lock.change():
            # An earlier change may have removed it.
            item = self.get(id)
            await fire(self.hooks, ContextPoolHook.BEFORE_REMOVE, self, item, done=False)
            # A hook may have removed it; then all hooks were already called for that.
            if self._items.pop(id, None) is not None:
                await fire(self.hooks, ContextPoolHook.AFTER_REMOVE, self, item, done=True)

    async def clear(self) -> None:
        """Remove all items."""
        async with self._lock.change():
            await fire(self.hooks, ContextPoolHook.BEFORE_CLEAR, self, done=False)
            self._items.clear()
            await fire(self.hooks, ContextPoolHook.AFTER_CLEAR, self, done=True)

    def branch(
        self, limit: int | Inherit | None = INHERIT, *, hooks: Iterable[Hook] | Inherit | None = INHERIT
    ) -> Self:
        """An independent pool with the same items; no hook is called.

        Arguments that are not given are inherited. `limit=None` means no limit, `hooks=None` or `[]` means no
        hooks. A smaller limit keeps the newest items.
        """
        if isinstance(limit, Inherit):
            return self._branch(self._limit, hooks)
        return self._branch(check_int("limit", limit, optional=True), hooks)

    __copy__ = branch

    def _no_items(self) -> dict[str, ContextItem[Any]]:
        return {}

    def __len__(self) -> int:
        return len(self._items) - (self._item_leaving() is not None)

    def __contains__(self, item: object) -> bool:
        """Tell whether an id, or exactly this item, is in it."""
        if isinstance(item, ContextItem):
            return item.id is not None and item.id in self and self._items[item.id] == item
        return isinstance(item, str) and item in self._items and item != self._item_leaving()

    def _check_item(self, item: ContextItem[Any]) -> str:
        if not isinstance(item, ContextItem):
            raise TypeError(
                f"{type(self).__name__}.add takes a ContextItem, not {type(item).__name__}; "
                f"wrap it: ContextItem(content=..., description=..., id=...)"
            )
        if item.id is None or item.description is None:
            missing = "id" if item.id is None else "description"
            raise InvalidItem(missing, "is None; items in a pool need 'id' and 'description'")
        return item.id

    def _item_leaving(self) -> str | None:
        """The item that BEFORE_ADD hooks no longer see; None for all others."""
        if self._limit is None or len(self._items) < self._limit:
            return None
        asked = any(incoming not in self._items for incoming in self._lock.incoming())
        return next(iter(self._items)) if asked else None

    def _put(self, key: str, item: ContextItem[Any]) -> None:
        items = self._items
        if items.pop(key, None) is None and len(items) == self._limit:
            del items[next(iter(items))]
        items[key] = item
