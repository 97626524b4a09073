"""Queue and pool against plain models, with tasks that change them at once and hooks that fail.

Each step starts several changes at the same time. Their turns come in the order they were started,
so a list and a dict can tell what every hook must see, who must fail, and what is left. Meanwhile
an onlooker reads: it may only ever see what one of the changes left.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from anyio.lowlevel import checkpoint
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.pool import ContextPool, ContextPoolHook
from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
from autonomy_ctx.errors import HookError
from autonomy_ctx.hooks import hook

BEFORE, AFTER = "before", "after"
# Which of its hooks makes the running change fail, and where they write what they saw.
failing: ContextVar[str | None] = ContextVar("failing", default=None)
seen: ContextVar[list[Any]] = ContextVar("seen")


async def _told(when: str, shown: Any) -> None:
    seen.get().append((when, shown))
    await checkpoint()
    if failing.get() == when:
        raise ValueError(when)


def _contents(items: Any) -> list[Any]:
    return [(item.id, item.content) for item in items]


@hook(list(ContextPoolHook))
async def _pool_first(pool: ContextPool, item: Any = None) -> None:
    """Called before the others: yields, so that all changes of a step are under way."""
    await checkpoint()


@hook([ContextPoolHook.BEFORE_ADD, ContextPoolHook.BEFORE_REMOVE, ContextPoolHook.BEFORE_CLEAR])
async def _pool_before(pool: ContextPool, item: Any = None) -> None:
    await _told(BEFORE, _contents(pool))


@hook([ContextPoolHook.AFTER_ADD, ContextPoolHook.AFTER_REMOVE, ContextPoolHook.AFTER_CLEAR])
async def _pool_after(pool: ContextPool, item: Any = None) -> None:
    await _told(AFTER, _contents(pool))


@hook(ContextQueueHook.BEFORE_APPEND)
async def _queue_before(items: list[Any]) -> None:
    await checkpoint()
    await _told(BEFORE, _contents(items))


@hook(ContextQueueHook.AFTER_APPEND)
async def _queue_after(items: list[Any]) -> None:
    await _told(AFTER, _contents(items))


POOL_HOOKS = [_pool_first, _pool_before, _pool_after]
QUEUE_HOOKS = [_queue_before, _queue_after]


@dataclass(frozen=True)
class Do:
    """One change: what, with which id and content, and which of its hooks fails."""

    what: str
    name: str
    content: int
    fails: str | None


@dataclass
class Pool:
    """A pool beside the dict it should be."""

    real: ContextPool
    limit: int | None
    kept: dict[str, int] = field(default_factory=dict)

    def expect(self, do: Do, known: set[str], told: list[Any]) -> str | None:
        """Change the dict; what the change ends with."""
        if do.what == "remove" and (do.name not in known or do.name not in self.kept):
            return "unknown"
        full = do.what == "add" and do.name not in self.kept and len(self.kept) == self.limit
        told.append((BEFORE, list(self.kept.items())[full:]))
        if do.fails == BEFORE:
            return BEFORE
        if do.what == "clear":
            self.kept.clear()
        else:
            self.kept.pop(do.name, None)
            if full:
                del self.kept[next(iter(self.kept))]
            if do.what == "add":
                self.kept[do.name] = do.content
        told.append((AFTER, list(self.kept.items())))
        return do.fails

    async def make(self, do: Do) -> None:
        if do.what == "add":
            await self.real.add(ContextItem(id=do.name, description="d", content=do.content))
        elif do.what == "remove":
            await self.real.remove(do.name)
        else:
            await self.real.clear()

    @property
    def state(self) -> list[Any]:
        return list(self.kept.items())


@dataclass
class Queue:
    """A queue beside the bounded deque it should be."""

    real: ContextQueue
    kept: deque[tuple[None, int]]

    def expect(self, do: Do, known: set[str], told: list[Any]) -> str | None:
        told.append((BEFORE, list(self.kept)))
        if do.fails == BEFORE:
            return BEFORE
        self.kept.extend((None, number) for number in numbers(do))
        told.append((AFTER, list(self.kept)))
        return do.fails

    async def make(self, do: Do) -> None:
        await self.real.append(*(ContextItem(content=number) for number in numbers(do)))

    @property
    def state(self) -> list[Any]:
        return list(self.kept)


def numbers(do: Do) -> range:
    """What a change of a queue appends: one or two items."""
    return range(do.content, do.content + 1 + do.content % 2)


fails = st.sampled_from([None, None, None, BEFORE, AFTER])
changes = st.builds(
    Do,
    st.sampled_from(["add", "add", "add", "remove", "clear"]),
    st.sampled_from("abcde"),
    st.integers(0, 99),
    fails,
)
steps = st.lists(changes, min_size=1, max_size=6)
limits = st.integers(1, 4)
picks = st.integers(0, 100)


class ContainerMachine(RuleBasedStateMachine):
    """Does to some pools and queues, and to their branches, all that their users may do."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.pools: list[Pool] = []
        self.queues: list[Queue] = []

    @initialize(pool_limit=st.none() | limits, queue_limit=limits)
    def start(self, pool_limit: int | None, queue_limit: int) -> None:
        self.pools.append(Pool(ContextPool(pool_limit, POOL_HOOKS), pool_limit))
        self.queues.append(Queue(ContextQueue(queue_limit, QUEUE_HOOKS), deque(maxlen=queue_limit)))

    def teardown(self) -> None:
        self.loop.close()

    @rule(pick=picks, step=steps)
    def change_a_pool(self, pick: int, step: list[Do]) -> None:
        pool = self.pools[pick % len(self.pools)]
        self.change(pool, step)

    @rule(pick=picks, step=steps)
    def change_a_queue(self, pick: int, step: list[Do]) -> None:
        self.change(self.queues[pick % len(self.queues)], step)

    def change(self, model: Pool | Queue, step: list[Do]) -> None:
        states, told = [model.state], list[Any]()
        # What a remove finds when it is called: all are called before the first is done.
        known = {name for name, _ in model.state}
        ends = []
        for do in step:
            ends.append(model.expect(do, known, told))
            states.append(model.state)
        found = self.loop.run(self.together(model, step, states))
        assert found == (ends, told)

    async def together(
        self, model: Pool | Queue, step: list[Do], states: list[list[Any]]
    ) -> tuple[list[str | None], list[Any]]:
        told: list[Any] = []
        seen.set(told)

        async def one(do: Do) -> str | None:
            failing.set(do.fails)
            try:
                await model.make(do)
            except HookError as error:
                said_so = isinstance(error, ValueError) and error.done is (do.fails == AFTER)
                return str(error.__cause__) if said_so else "something else"
            except KeyError:
                return "unknown"
            return None

        tasks = [asyncio.create_task(one(do)) for do in step]
        at = 0
        while not all(task.done() for task in tasks):
            await checkpoint()
            # An onlooker sees what a change left, never goes back, and never sees anything between.
            shown = _contents(model.real)
            assert len(model.real) == len(shown)
            assert shown in states[at:]
            at = states.index(shown, at)
        return [task.result() for task in tasks], told

    @rule(pick=picks)
    def clear_a_queue(self, pick: int) -> None:
        queue = self.queues[pick % len(self.queues)]
        queue.real.clear()
        queue.kept.clear()

    @rule(pick=picks, limit=st.none() | limits, inherit=st.booleans())
    def branch_a_pool(self, pick: int, limit: int | None, inherit: bool) -> None:
        pool = self.pools[pick % len(self.pools)]
        limit = pool.limit if inherit else limit
        real = pool.real.branch() if inherit else pool.real.branch(limit=limit)
        kept = list(pool.kept.items())[-(limit or len(pool.kept) or 1) :]
        self.pools.append(Pool(real, limit, dict(kept)))

    @rule(pick=picks, limit=st.none() | limits)
    def branch_a_queue(self, pick: int, limit: int | None) -> None:
        queue = self.queues[pick % len(self.queues)]
        kept = deque(queue.kept, maxlen=limit or queue.kept.maxlen)
        self.queues.append(Queue(queue.real.branch(limit=limit), kept))

    @rule(pick=picks)
    def save_and_read_back(self, pick: int) -> None:
        pool = self.pools[pick % len(self.pools)]
        pool.real = ContextPool.from_dict(json.loads(json.dumps(pool.real.to_dict())))
        queue = self.queues[pick % len(self.queues)]
        queue.real = ContextQueue.from_dict(json.loads(json.dumps(queue.real.to_dict())))

    @invariant()
    def every_container_is_what_its_model_says(self) -> None:
        for pool in self.pools:
            assert _contents(pool.real) == pool.state
            assert pool.real.hooks == POOL_HOOKS
            assert pool.real.limit == pool.limit
        for queue in self.queues:
            assert _contents(queue.real) == queue.state
            assert queue.real.limit == queue.kept.maxlen


ContainerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestContainers = ContainerMachine.TestCase
