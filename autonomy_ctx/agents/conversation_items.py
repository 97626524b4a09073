"""The queue and the pool of each conversation: what tools found, kept for later steps and turns.

What one user's tools found must not be seen by another, so every conversation has shelves of its own.
They begin with what the agent's queue and pool held when they were given. The agent's own are those of
the default scope and conversation. What goes on a shelf is written to the store, so that it is there
again after a restart.
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
from autonomy_ctx.items.message import new_id
from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.store import Key, Records

logger = logging.getLogger("autonomy_ctx.agents")

QUEUE, POOL = "queue", "pool"
# Others are read from the store again when they are needed.
CONVERSATIONS = 256
SETTLE_SECONDS = 0.5


class Shelf:
    """The queue and pool of one conversation."""

    def __init__(self, queue: ContextQueue, pool: ContextPool) -> None:
        self.queue, self.pool = queue, pool
        self.restored = False
        # The ids of the items of the pool that the store has, and the items of the queue by record.
        self.recorded: set[str] = set()
        self.queued: dict[str, ContextItem[Any]] = {}


class Shelves:
    """Shelves by conversation: made, restored and written down when they are needed."""

    def __init__(
        self,
        records: Records,
        own: Key,
        queue: ContextQueue,
        pool: ContextPool,
        *,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        _check(queue, pool)
        self._records, self._own_key, self._new_id = records, own, new_id
        self._own = Shelf(queue, pool)
        self._queue, self._pool = queue.branch(), pool.branch()
        self._others: ConversationCache[Key, Shelf] = ConversationCache(CONVERSATIONS)

    @property
    def own(self) -> Shelf:
        """The agent's own, as they are now."""
        return self._own

    def give(self, *, queue: ContextQueue | None = None, pool: ContextPool | None = None) -> None:
        """Put another queue or pool in the place of the agent's own; other conversations begin with it."""
        if queue is not None:
            self._own.queue, self._queue = queue, queue.branch()
        if pool is not None:
            self._own.pool, self._pool = pool, pool.branch()
        self._others.clear()

    async def of(self, key: Key) -> Shelf:
        """The shelf of a conversation, with what earlier turns put on it."""
        shelf = self._own if key == self._own_key else self._others.get(key)
        if shelf is None:
            shelf = self._others[key] = Shelf(self._queue.branch(), self._pool.branch())
        if not shelf.restored:
            await self._restore(key, shelf)
        return shelf

    async def forget(self, key: Key) -> None:
        """Empty the shelf of a conversation that is deleted; its records go with the conversation."""
        self._others.pop(key, None)
        if key == self._own_key:
            self._own.queue.clear()
            await self._own.pool.clear()
            self._own.recorded.clear()
            self._own.queued.clear()

    async def settle(self, key: Key | None = None) -> None:
        """Let the store forget what was taken out of a shelf, by default the agent's own."""
        shelf = self._own if key in (None, self._own_key) else self._others.get(key)
        if shelf is not None:
            await self._forget_removed(key or self._own_key, shelf)

    async def last_settle(self) -> None:
        """The same for the agent's own, before it ends; a store that is away does not keep it waiting."""
        with anyio.move_on_after(SETTLE_SECONDS), suppress(StoreError):
            await self.settle()

    async def put(self, key: Key, shelf: Shelf, items: Iterable[ContextItem[Any]]) -> None:
        """Put items on a shelf: those with an id into the pool, the others into the queue."""
        queued: list[tuple[str, str]] = []
        pooled: list[tuple[str, str]] = []
        for item in items:
            if item.id is None:
                await shelf.queue.append(item)
                name = self._new_id()
                queued += _written(name, item)
                shelf.queued[name] = item
            else:
                await shelf.pool.add(item)
                pooled += _written(_name(item.id), item)
        if queued:
            await self._records.put_records(key, QUEUE, queued, keep=shelf.queue.limit)
        if pooled:
            await self._records.put_records(key, POOL, pooled, keep=shelf.pool.limit)
            shelf.recorded.update(name for name, _ in pooled)
        await self._forget_removed(key, shelf)

    async def _restore(self, key: Key, shelf: Shelf) -> None:
        queued = await self._records.read_records(key, QUEUE, limit=shelf.queue.limit)
        pooled = await self._records.read_records(key, POOL, limit=shelf.pool.limit)
        if shelf.restored:
            # Somebody else has done it meanwhile.
            return
        shelf.restored = True
        queue, pool = shelf.queue, shelf.pool
        listening = queue.hooks, pool.hooks
        # Nobody is told of what was told before; without hooks nothing is awaited in between.
        queue.hooks, pool.hooks = [], []
        try:
            # A queue that was saved with the agent, or branched from its own, has them already.
            there = [(body, item) for item in queue for _, body in _written("", item)]
            for record in queued:
                same = next((pair for pair in there if pair[0] == record.body), None)
                if same is None:
                    item = _read(record.body)
                    await queue.append(item)
                else:
                    there.remove(same)
                    item = same[1]
                shelf.queued[record.name] = item
            for record in pooled:
                await pool.add(_read(record.body))
        finally:
            queue.hooks, pool.hooks = listening
        shelf.recorded = {record.name for record in pooled}

    async def _forget_removed(self, key: Key, shelf: Shelf) -> None:
        """What was taken out must not come back after a restart."""
        waiting = {id(item) for item in shelf.queue}
        left = [name for name, item in shelf.queued.items() if id(item) not in waiting]
        if left:
            await self._records.drop_records(key, QUEUE, left)
            for name in left:
                del shelf.queued[name]
        there = {_name(item.id or "") for item in shelf.pool}
        gone = shelf.recorded - there
        if gone:
            await self._records.drop_records(key, POOL, sorted(gone))
            shelf.recorded -= gone


def _written(name: str, item: ContextItem[Any]) -> list[tuple[str, str]]:
    try:
        return [(name, json.dumps(item.to_dict()))]
    except InvalidItem as error:
        logger.warning("a context item is kept in this process only: %s", error)
        return []


def _read(body: str) -> ContextItem[Any]:
    return ContextItem.from_dict(json.loads(body))


def _name(item_id: str) -> str:
    """An id as every store can hold it: JSON escapes what is no text."""
    return json.dumps(item_id)


class Shelved:
    """What has a queue and a pool of its own, which may be replaced."""

    _shelves: Shelves

    @property
    def context_queue(self) -> ContextQueue:
        """What tools returned without an id, of the default scope and conversation."""
        return self._shelves.own.queue

    @context_queue.setter
    def context_queue(self, queue: ContextQueue) -> None:
        _check(queue, self._shelves.own.pool)
        self._shelves.give(queue=queue)

    @property
    def context_pool(self) -> ContextPool:
        """What tools returned with an id, of the default scope and conversation."""
        return self._shelves.own.pool

    @context_pool.setter
    def context_pool(self, pool: ContextPool) -> None:
        _check(self._shelves.own.queue, pool)
        self._shelves.give(pool=pool)


def _check(queue: object, pool: object) -> None:
    if not isinstance(queue, ContextQueue):
        raise TypeError(f"context_queue must be a ContextQueue, not {type(queue).__name__}")
    if not isinstance(pool, ContextPool):
        raise TypeError(f"context_pool must be a ContextPool, not {type(pool).__name__}")
