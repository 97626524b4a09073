"""The queue and the pool of each conversation: items that tools returned, for later steps and turns.

Every conversation has its own queue and pool, so that no user sees what the tools of another user returned.
They begin with the items that the agent's queue and pool had when they were given. The agent's own queue and
pool belong to the default scope and conversation. Items are stored, so that they survive a restart.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import anyio

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.containers.queue import ContextQueue
from autonomy_ctx.errors import InvalidItem, StoreError
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import new_id

logger = logging.getLogger("autonomy_ctx.agents")

# The kinds of records that hold the items.
QUEUE, POOL = "queue", "pool"
# Those of other conversations are read from the store again when they are needed.
MAX_CONVERSATIONS = 256
CLOSE_SECONDS = 0.5


class ConversationItems:
    """The queue and pool of one conversation, and the records of their items in the store."""

    def __init__(self, queue: ContextQueue, pool: ContextPool) -> None:
        self.queue, self.pool = queue, pool
        self.restored = False
        # The record names of the pool's items, and the queue's items by record name.
        self.pool_records: set[str] = set()
        self.queue_records: dict[str, ContextItem[Any]] = {}


class ItemsByConversation:
    """The items of all conversations of an agent: made, restored and saved when they are needed."""

    def __init__(
        self,
        records: Store,
        own: Key,
        queue: ContextQueue,
        pool: ContextPool,
        *,
        given: bool,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        _check_containers(queue, pool)
        # Whether the application gave the agent a queue or a pool, and so expects its model to read items.
        self.given = given
        self._records, self._own_key, self._new_id = records, own, new_id
        # The agent's own, as they are now.
        self.own = ConversationItems(queue, pool)
        # What the other conversations begin with.
        self._queue, self._pool = queue.branch(), pool.branch()
        self._others: ConversationCache[Key, ConversationItems] = ConversationCache(MAX_CONVERSATIONS)

    def replace_queue(self, queue: ContextQueue) -> None:
        """Replace the agent's own queue; other conversations then begin with its items."""
        _check_containers(queue, self.own.pool)
        self.own.queue, self._queue, self.given = queue, queue.branch(), True
        self._others.clear()

    def replace_pool(self, pool: ContextPool) -> None:
        """Replace the agent's own pool; other conversations then begin with its items."""
        _check_containers(self.own.queue, pool)
        self.own.pool, self._pool, self.given = pool, pool.branch(), True
        self._others.clear()

    async def load(self, key: Key) -> ConversationItems:
        """The items of a conversation, with those of earlier turns."""
        items = self.own if key == self._own_key else self._others.get(key)
        if items is None:
            items = self._others[key] = ConversationItems(self._queue.branch(), self._pool.branch())
        if not items.restored:
            await self._restore(key, items)
        return items

    async def add(self, key: Key, items: ConversationItems, new_items: Iterable[ContextItem[Any]]) -> None:
        """Add items that tools returned: those with an id to the pool, the others to the queue."""
        queued: list[tuple[str, str]] = []
        pooled: list[tuple[str, str]] = []
        for item in new_items:
            if item.id is None:
                await items.queue.append(item)
                name = self._new_id()
                queued += _encode_item(name, item)
                items.queue_records[name] = item
            else:
                await items.pool.add(item)
                pooled += _encode_item(_record_name(item.id), item)
        if queued:
            await self._records.put_records(key, QUEUE, queued, keep=items.queue.limit)
        if pooled:
            await self._records.put_records(key, POOL, pooled, keep=items.pool.limit)
            items.pool_records.update(name for name, _ in pooled)
        await self.drop_removed(key)

    async def drop_removed(self, key: Key) -> None:
        """Delete the records of items that were taken out of a conversation: they must not come back."""
        items = self.own if key == self._own_key else self._others.get(key)
        if items is None or not (items.queue_records or items.pool_records):
            return
        queued = {id(item) for item in items.queue}
        left = [name for name, item in items.queue_records.items() if id(item) not in queued]
        if left:
            await self._records.drop_records(key, QUEUE, left)
            for name in left:
                del items.queue_records[name]
        gone = items.pool_records - {_record_name(item.id or "") for item in items.pool}
        if gone:
            await self._records.drop_records(key, POOL, sorted(gone))
            items.pool_records -= gone

    async def close(self) -> None:
        """Delete the records of the agent's own removed items, unless the store does not answer in time."""
        with anyio.move_on_after(CLOSE_SECONDS), suppress(StoreError):
            await self.drop_removed(self._own_key)

    async def clear(self, key: Key) -> None:
        """Empty a conversation that is deleted; its records are deleted with the conversation."""
        self._others.pop(key, None)
        if key == self._own_key:
            self.own.queue.clear()
            await self.own.pool.clear()
            self.own.pool_records.clear()
            self.own.queue_records.clear()

    async def _restore(self, key: Key, items: ConversationItems) -> None:
        queued = await self._records.read_records(key, QUEUE, limit=items.queue.limit)
        pooled = await self._records.read_records(key, POOL, limit=items.pool.limit)
        if items.restored:
            # Another task has done it meanwhile.
            return
        items.restored = True
        # A queue that was saved with the agent, or branched from its own, has some of them already.
        known = [(body, item) for item in items.queue for _, body in _encode_item("", item)]
        for record in queued:
            same = next((pair for pair in known if pair[0] == record.body), None)
            if same is None:
                item = _decode_item(record.body)
                items.queue.restore([item])
            else:
                known.remove(same)
                item = same[1]
            items.queue_records[record.name] = item
        items.pool.restore(_decode_item(record.body) for record in pooled)
        items.pool_records = {record.name for record in pooled}


def _check_containers(queue: object, pool: object) -> None:
    if not isinstance(queue, ContextQueue):
        raise TypeError(f"context_queue must be a ContextQueue, not {type(queue).__name__}")
    if not isinstance(pool, ContextPool):
        raise TypeError(f"context_pool must be a ContextPool, not {type(pool).__name__}")


def _encode_item(name: str, item: ContextItem[Any]) -> list[tuple[str, str]]:
    """The record of an item; none for an item that JSON cannot hold."""
    try:
        return [(name, json.dumps(item.to_dict()))]
    except InvalidItem as error:
        logger.warning("a context item cannot be stored and is kept in this process only: %s", error)
        return []


def _decode_item(body: str) -> ContextItem[Any]:
    return ContextItem.from_dict(json.loads(body))


def _record_name(item_id: str) -> str:
    """An id that every store can hold: JSON escapes invalid characters."""
    return json.dumps(item_id)
