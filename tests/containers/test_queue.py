"""The queue: its window, its branches, its hooks, and many tasks at once."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.containers.queue import ContextQueue, ContextQueueHook
from autonomy_ctx.errors import HookError, InvalidContainer, InvalidItem, UnregisteredHookError
from autonomy_ctx.hooks import Hook, HookRegistry, hook


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Nothing a test registers is known to the next."""
    before = dict(HookRegistry._hooks)
    yield
    HookRegistry._hooks.clear()
    HookRegistry._hooks.update(before)


def items(*contents: Any) -> list[ContextItem[Any]]:
    return [ContextItem(content=content) for content in contents]


def contents(queue: ContextQueue) -> list[Any]:
    return [item.content for item in queue]


async def filled(limit: int, *given_: Any, hooks: list[Hook] | None = None) -> ContextQueue:
    queue = ContextQueue(limit)
    await queue.append(*items(*given_))
    queue.hooks = hooks or []
    return queue


async def test_the_newest_push_the_oldest_out() -> None:
    queue = await filled(3, 1, 2)
    await queue.append(*items(3, 4))
    assert contents(queue) == [2, 3, 4]
    await queue.append(*items(5, 6, 7, 8, 9))
    assert contents(queue) == [7, 8, 9]
    assert (len(queue), queue.limit, bool(queue)) == (3, 3, True)
    assert repr(queue) == "ContextQueue(limit=3, len=3)"
    assert ContextItem(content=9) in queue
    queue.clear()
    assert (len(queue), bool(queue), queue.items) == (0, False, [])


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_under_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit must be >= 1, not {limit}"):
        ContextQueue(limit)
    with pytest.raises(ValueError, match="limit must be >= 1"):
        ContextQueue(3).branch(limit=limit)


@pytest.mark.parametrize(("limit", "shown"), [(None, "None"), ("3", "str"), (2.0, "2.0"), (True, "True")])
def test_a_limit_is_a_whole_number(limit: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"limit must be a whole number >= 1, not {shown}"):
        ContextQueue(limit)


async def test_every_argument_is_checked_before_anything_happens() -> None:
    called: list[Any] = []

    @hook([ContextQueueHook.BEFORE_APPEND, ContextQueueHook.AFTER_APPEND])
    def note(seen: list[Any]) -> None:
        called.append(seen)

    queue = await filled(3, "old", hooks=[note])
    wrong: Any = "bare text"
    with pytest.raises(TypeError, match=r"append takes ContextItem objects, not str; wrap it"):
        await queue.append(ContextItem(content="fine"), wrong)
    assert (contents(queue), called) == (["old"], [])


def test_what_is_not_a_hook_is_refused() -> None:
    with pytest.raises(TypeError, match="print is not a hook"):
        ContextQueue(3, hooks=[print])
    with pytest.raises(TypeError, match="print is not a hook"):
        ContextQueue(3).branch(hooks=[print])


async def test_editing_what_is_read_edits_nothing_in_the_queue() -> None:
    queue = await filled(3, {"a": [1]})
    child = queue.branch()
    queue.items.clear()
    child.items[0].content["a"].append(2)
    assert contents(queue) == contents(child) == [{"a": [1]}]


async def test_branches_go_their_own_way() -> None:
    parent = await filled(3, 1, 2)
    child, other = parent.branch(), parent.branch()
    await child.append(*items(3, 4))
    await parent.append(*items(5))
    other.clear()
    grandchild = child.branch()
    await grandchild.append(*items(6))
    assert [contents(queue) for queue in (parent, child, other, grandchild)] == [
        [1, 2, 5],
        [2, 3, 4],
        [],
        [3, 4, 6],
    ]


async def test_a_branch_with_another_limit_keeps_the_newest_that_fit() -> None:
    parent = await filled(4, 1, 2, 3, 4)
    smaller, larger, same = parent.branch(limit=2), parent.branch(limit=6), parent.branch(limit=None)
    for queue in (smaller, larger, same):
        await queue.append(*items(5))
    assert contents(smaller) == [4, 5]
    assert contents(larger) == [1, 2, 3, 4, 5]
    assert contents(same) == [2, 3, 4, 5]
    assert (smaller.limit, larger.limit, same.limit, contents(parent)) == (2, 6, 4, [1, 2, 3, 4])


async def test_a_branch_inherits_hooks_unless_told_otherwise() -> None:
    called: list[str] = []

    @hook(ContextQueueHook.AFTER_APPEND)
    async def one(seen: list[Any]) -> None:
        called.append("one")

    @hook(ContextQueueHook.AFTER_APPEND)
    async def two(seen: list[Any]) -> None:
        called.append("two")

    parent = ContextQueue(3, hooks=[one])
    children = [
        parent.branch(),
        parent.branch(hooks=[]),
        parent.branch(hooks=None),
        parent.branch(hooks=[two]),
    ]
    assert [child.hooks for child in children] == [[one], [], [], [two]]
    assert called == []
    for child in children:
        await child.append(*items(1))
    assert called == ["one", "two"]
    children[0].hooks.append(two)
    assert parent.hooks == [one]


async def test_a_subclass_branches_and_copies_to_its_own_kind() -> None:
    class Named(ContextQueue):
        def __init__(self, name: str) -> None:
            super().__init__(3)
            self.name = name

    queue = Named("mine")
    await queue.append(*items(1))
    copies = [queue.branch(), copy.copy(queue), copy.deepcopy(queue)]
    await queue.append(*items(2))
    for other in copies:
        assert isinstance(other, Named)
        assert (other.name, contents(other)) == ("mine", [1])
    assert repr(queue) == "Named(limit=3, len=2)"


async def test_hooks_get_copies_of_the_items_before_and_after_in_order() -> None:
    called: list[tuple[str, list[Any]]] = []

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def before(seen: list[ContextItem[Any]]) -> None:
        await checkpoint()
        called.append(("before", [item.content for item in seen]))
        seen.clear()

    @hook(ContextQueueHook.AFTER_APPEND)
    def after(seen: list[ContextItem[Any]]) -> None:
        called.append(("after", [item.content for item in seen]))
        seen.clear()

    queue = await filled(2, 1, 2, hooks=[after, before])
    await queue.append(*items(3))
    assert called == [("before", [1, 2]), ("after", [2, 3])]
    assert contents(queue) == [2, 3]
    await queue.append()
    assert len(called) == 2


async def test_all_hooks_of_a_type_are_called_in_the_order_given() -> None:
    called: list[int] = []

    def numbered(number: int) -> Hook:
        @hook(ContextQueueHook.AFTER_APPEND)
        def note(seen: list[Any]) -> None:
            called.append(number)

        return note

    await ContextQueue(2, hooks=[numbered(n) for n in range(5)]).append(*items(1))
    assert called == [0, 1, 2, 3, 4]


async def test_a_failing_hook_before_keeps_everything_out_and_one_after_does_not() -> None:
    @hook(ContextQueueHook.BEFORE_APPEND)
    def veto(seen: list[Any]) -> None:
        raise ValueError("no")

    @hook(ContextQueueHook.AFTER_APPEND)
    async def late(seen: list[Any]) -> None:
        raise ValueError("no")

    queue = await filled(2, 1, 2, hooks=[veto])
    with pytest.raises(ValueError, match=r"hook `veto` \(before_append\) failed: .*; nothing was changed$"):
        await queue.append(*items(3))
    assert contents(queue) == [1, 2]
    queue.hooks = [late]
    with pytest.raises(
        HookError, match=r"hook `late` \(after_append\) failed: .*; the change was made before, and stays"
    ):
        await queue.append(*items(3))
    assert contents(queue) == [2, 3]
    # The turn of the next has come.
    queue.hooks = []
    await queue.append(*items(4))
    assert contents(queue) == [3, 4]


async def test_concurrent_appends_keep_the_limit_and_do_not_mix_their_hooks() -> None:
    called: list[tuple[str, list[Any]]] = []

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def before(seen: list[ContextItem[Any]]) -> None:
        called.append(("before", [item.content for item in seen]))
        await checkpoint()

    @hook(ContextQueueHook.AFTER_APPEND)
    async def after(seen: list[ContextItem[Any]]) -> None:
        await checkpoint()
        called.append(("after", [item.content for item in seen]))

    queue = ContextQueue(3, hooks=[before, after])
    async with anyio.create_task_group() as group:
        for number in range(10):
            group.start_soon(queue.append, *items(number, number + 100))
    assert [event for event, _ in called] == ["before", "after"] * 10
    # What one change left is what the next one finds.
    assert [seen for _, seen in called[1:-1:2]] == [seen for _, seen in called[2::2]]
    assert all(len(seen) <= 3 for _, seen in called)
    assert len(queue) == 3


async def test_a_hook_may_append_to_the_queue_it_is_called_for() -> None:
    @hook(ContextQueueHook.AFTER_APPEND)
    async def marks(seen: list[ContextItem[Any]]) -> None:
        if seen[-1].content != "mark":
            async with anyio.create_task_group() as group:
                group.start_soon(queue.append, *items("mark"))

    queue = ContextQueue(5, hooks=[marks])
    with anyio.fail_after(5):
        await queue.append(*items(1))
        await queue.append(*items(2))
    assert contents(queue) == [1, "mark", 2, "mark"]


async def test_a_queue_cleared_while_a_hook_waits_holds_only_what_came_after() -> None:
    waiting, go = anyio.Event(), anyio.Event()

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def wait(seen: list[Any]) -> None:
        waiting.set()
        await go.wait()

    queue = await filled(3, 1, 2, hooks=[wait])
    async with anyio.create_task_group() as group:
        group.start_soon(queue.append, *items(3))
        await waiting.wait()
        queue.clear()
        go.set()
    assert contents(queue) == [3]


async def test_a_cancelled_append_leaves_nothing_behind() -> None:
    waiting = anyio.Event()

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def wait(seen: list[Any]) -> None:
        waiting.set()
        await anyio.Event().wait()

    queue = await filled(3, 1, hooks=[wait])
    async with anyio.create_task_group() as group:
        group.start_soon(queue.append, *items(2))
        await waiting.wait()
        group.start_soon(queue.append, *items(3))
        await checkpoint()
        group.cancel_scope.cancel()
    queue.hooks = []
    await queue.append(*items(4))
    assert contents(queue) == [1, 4]


def test_a_queue_goes_on_in_another_loop_when_the_first_died_in_a_hook() -> None:
    @hook(ContextQueueHook.BEFORE_APPEND)
    async def wait(seen: list[Any]) -> None:
        if not seen:
            await asyncio.get_running_loop().create_future()

    queue = ContextQueue(3, hooks=[wait])
    loop = asyncio.new_event_loop()
    abandoned = loop.create_task(queue.append(*items(1)))
    loop.run_until_complete(asyncio.wait([abandoned], timeout=0))
    queue.restore(items(0))

    async def go_on() -> None:
        with anyio.fail_after(5):
            await queue.append(*items(2))

    anyio.run(go_on, backend="trio")
    anyio.run(go_on, backend="asyncio")
    assert contents(queue) == [0, 2, 2]
    abandoned.cancel()
    loop.run_until_complete(asyncio.gather(abandoned, return_exceptions=True))
    loop.close()


async def test_a_queue_read_back_is_the_same_with_its_hooks() -> None:
    called: list[str] = []

    @hook(ContextQueueHook.BEFORE_APPEND)
    async def noted(seen: list[Any]) -> None:
        called.append("noted")

    queue = await filled(2, {"a": [1]}, "b", hooks=[noted])
    data = json.loads(json.dumps(queue.to_dict()))
    assert data == {
        "limit": 2,
        "items": [
            {"content": {"a": [1]}, "description": None, "id": None},
            {"content": "b", "description": None, "id": None},
        ],
        "hooks": {"before_append": ["noted"]},
    }
    back = ContextQueue.from_dict(data)
    assert (back.limit, back.items, back.hooks) == (2, queue.items, [noted])
    assert called == []
    HookRegistry.clear()
    with pytest.raises(UnregisteredHookError, match="no before_append hook named 'noted'"):
        ContextQueue.from_dict(data)


def test_a_queue_is_read_from_less_and_from_too_much() -> None:
    assert len(ContextQueue.from_dict({"limit": 2})) == 0
    many = {"limit": 2, "items": [{"content": n} for n in range(5)]}
    assert contents(ContextQueue.from_dict(many)) == [3, 4]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "this is not a saved ContextQueue: `data` must be a dict, not list"),
        ({}, "this is not a saved ContextQueue: `limit` is missing"),
        ({"limit": 0}, "limit must be >= 1, not 0"),
        ({"limit": 1, "items": "a"}, "this is not a saved ContextQueue: `items` must be a list, not str"),
        ({"limit": 1, "hooks": {"a": "b"}}, "`hooks` must be a dict of lists of function names"),
        ({"limit": 1, "items": [{"content": 1}, 3]}, r"`items\[1\]` must be a dict, not int"),
        ({"limit": 1, "items": [{"id": "a"}]}, r"`items\[0\].content` is missing"),
    ],
)
def test_data_that_is_no_queue_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContextQueue.from_dict(data)
    assert issubclass(InvalidContainer, ValueError)


async def test_content_that_json_cannot_hold_is_named_by_its_place_in_the_queue() -> None:
    queue = await filled(3, 1, {"when": {1, 2}})
    with pytest.raises(InvalidItem, match=r"`items\[1\]\.content\.when` is of type set"):
        queue.to_dict()


@given(st.integers(1, 5), st.lists(st.lists(st.integers(), max_size=7), max_size=6))
def test_a_queue_is_always_the_end_of_all_that_came(limit: int, batches: list[list[int]]) -> None:
    async def run() -> None:
        queue, told = ContextQueue(limit), list[int]()
        for batch in batches:
            child = queue.branch()
            await queue.append(*items(*batch))
            assert contents(child) == told[-limit:]
            told += batch
            assert contents(queue) == told[-limit:]
            assert ContextQueue.from_dict(queue.to_dict()).items == queue.items

    anyio.run(run)
