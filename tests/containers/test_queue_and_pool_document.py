"""The examples of the document that describes queues and pools, with only their imports changed.

What an example takes for granted is set up before it; what it says in words is asserted after it.
"""
# ruff: noqa: I001

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from autonomy_ctx.errors import UnregisteredHookError
from autonomy_ctx.hooks import HookRegistry


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Nothing a test registers is known to the next."""
    before = dict(HookRegistry._hooks)
    yield
    HookRegistry._hooks.clear()
    HookRegistry._hooks.update(before)


async def test_an_item() -> None:
    from autonomy_ctx.containers.item import ContextItem

    item = ContextItem(
        content={"text": "..."},
        description="Q3 earnings report — revenue, margins, guidance",
        id="doc-1",
    )
    assert item.content == {"text": "..."}


async def test_making_appending_clearing_and_reading_a_queue() -> None:
    from autonomy_ctx.containers.queue import ContextQueue
    from autonomy_ctx.containers.item import ContextItem

    cq = ContextQueue(limit=10)
    await cq.append(ContextItem(content="user: hello"))
    await cq.append(ContextItem(content="assistant: hi there"))
    assert [item.content for item in cq] == ["user: hello", "assistant: hi there"]

    await cq.append(ContextItem(content="msg1"), ContextItem(content="msg2"))

    assert cq.items == list(cq)
    assert len(cq) == 4
    assert bool(cq)

    cq.clear()
    assert not bool(cq)


async def test_branching_a_queue() -> None:
    from autonomy_ctx.containers.queue import ContextQueue
    from autonomy_ctx.containers.item import ContextItem

    agent_cq = ContextQueue(limit=20)
    await agent_cq.append(ContextItem(content="system context"), ContextItem(content="user message"))

    turn_cq = agent_cq.branch()
    await turn_cq.append(ContextItem(content="tool call result"))

    tool_cq = turn_cq.branch(limit=5)
    await tool_cq.append(ContextItem(content="sub-step output"))

    # Parent is unaffected
    assert ContextItem(content="tool call result") not in agent_cq.items
    assert ContextItem(content="sub-step output") not in turn_cq.items


async def test_branching_a_queue_with_other_hooks() -> None:
    from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
    from autonomy_ctx.hooks import hook

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def my_before_append_hook(items: Any) -> None: ...

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def other_hook(items: Any) -> None: ...

    cq = ContextQueue(limit=10, hooks=[my_before_append_hook])
    child = cq.branch(hooks=[])  # no hooks
    other = cq.branch(hooks=[other_hook])  # different hooks
    assert (cq.branch().hooks, child.hooks, other.hooks) == ([my_before_append_hook], [], [other_hook])


async def test_hooks_of_a_queue(capsys: pytest.CaptureFixture[str]) -> None:
    from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
    from autonomy_ctx.containers.item import ContextItem
    from autonomy_ctx.hooks import hook

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def log_before(items):  # type: ignore[no-untyped-def]
        print(f"Current count: {len(items)}")

    @hook(ContextQueueHook.AFTER_APPEND)
    async def log_after(items):  # type: ignore[no-untyped-def]
        print(f"New count: {len(items)}")

    cq = ContextQueue(limit=20, hooks=[log_before, log_after])
    await cq.append(ContextItem(content="a"), ContextItem(content="b"), ContextItem(content="c"))
    assert capsys.readouterr().out == "Current count: 0\nNew count: 3\n"

    data = cq.to_dict()  # {"limit": 10, "items": [...], "hooks": {...}}
    restored = ContextQueue.from_dict(data)
    assert (restored.items, restored.hooks) == (cq.items, [log_before, log_after])
    assert data["hooks"] == {"before_append": ["log_before"], "after_append": ["log_after"]}

    HookRegistry.clear()
    with pytest.raises(UnregisteredHookError):
        ContextQueue.from_dict(data)


async def test_making_and_reading_a_pool() -> None:
    from autonomy_ctx.containers.item import ContextItem
    from autonomy_ctx.containers.pool import ContextPool

    pool = ContextPool(limit=50)
    await pool.add(ContextItem(id="a", description="First", content=1))
    await pool.add(ContextItem(id="b", description="Second", content=2))
    assert len(pool.items) == len(pool) == len(list(pool)) == 2
    assert bool(pool)
    assert pool.limit == 50
    assert pool.catalogue() == "- [a] First\n- [b] Second"

    item = pool.get("a")  # lookup by id
    await pool.remove("a")  # remove by id
    await pool.clear()  # remove all
    assert item.content == 1
    assert not bool(pool)


async def test_branching_a_pool() -> None:
    from autonomy_ctx.containers.item import ContextItem
    from autonomy_ctx.containers.pool import ContextPool

    parent = ContextPool(limit=20)
    await parent.add(ContextItem(id="x", description="Base", content=0))

    child = parent.branch()  # inherits limit, items snapshot, and hooks
    child2 = parent.branch(limit=5)  # override limit (oldest evicted if needed)
    assert (child.limit, child2.limit, child.items, child2.items) == (20, 5, parent.items, parent.items)


async def test_hooks_of_a_pool(capsys: pytest.CaptureFixture[str]) -> None:
    from autonomy_ctx.containers.item import ContextItem
    from autonomy_ctx.containers.pool import ContextPool, ContextPoolHook
    from autonomy_ctx.hooks import hook

    @hook(ContextPoolHook.BEFORE_ADD)
    async def log_before(pool, item):  # type: ignore[no-untyped-def]
        print(f"About to add {item.id!r}, pool size: {len(pool)}")

    @hook(ContextPoolHook.AFTER_ADD)
    async def log_after(pool, item):  # type: ignore[no-untyped-def]
        print(f"Added {item.id!r}, pool size: {len(pool)}")

    pool = ContextPool(limit=10, hooks=[log_before, log_after])
    await pool.add(ContextItem(id="a", description="First", content=1))
    assert capsys.readouterr().out == "About to add 'a', pool size: 0\nAdded 'a', pool size: 1\n"

    data = pool.to_dict()  # {"limit": ..., "items": [...], "hooks": {...}}
    restored = ContextPool.from_dict(data)
    assert (restored.items, restored.hooks) == (pool.items, [log_before, log_after])
    assert capsys.readouterr().out == ""
