"""The pool: items by id, its limit, branches and hooks, many tasks at once, and the view of it."""

from __future__ import annotations

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
from autonomy_ctx.containers.pool import ContextPool, ContextPoolHook, ContextPoolView
from autonomy_ctx.errors import HookError, InvalidItem, UnknownItem, UnregisteredHookError
from autonomy_ctx.hooks import Hook, HookRegistry, hook


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Nothing a test registers is known to the next."""
    before = dict(HookRegistry._hooks)
    yield
    HookRegistry._hooks.clear()
    HookRegistry._hooks.update(before)


def item(name: str, content: Any = None) -> ContextItem[Any]:
    return ContextItem(id=name, description=f"about {name}", content=content)


def ids(pool: ContextPool | ContextPoolView) -> str:
    return "".join(str(one.id) for one in pool.items)


async def filled(names: str, limit: int | None = None, *, hooks: list[Hook] | None = None) -> ContextPool:
    pool = ContextPool(limit)
    for name in names:
        await pool.add(item(name))
    pool.hooks = hooks or []
    return pool


async def test_items_are_found_by_id() -> None:
    pool = await filled("ab")
    assert pool.get("a") == item("a")
    assert ("a" in pool, "z" in pool, item("a") in pool, item("a", 5) in pool, 3 in pool) == (
        True,
        False,
        True,
        False,
        False,
    )
    assert [one.id for one in pool] == ["a", "b"]
    await pool.remove("a")
    assert (len(pool), bool(pool), ids(pool)) == (1, True, "b")
    await pool.clear()
    assert (len(pool), bool(pool), pool.items) == (0, False, [])
    assert repr(pool) == "ContextPool(limit=None, len=0)"


async def test_an_id_that_is_not_there_is_a_key_error_that_reads_well() -> None:
    pool = await filled("a")
    with pytest.raises(KeyError) as caught:
        pool.get("z")
    assert isinstance(caught.value, UnknownItem)
    assert str(caught.value) == "no item with the id 'z'; `catalogue()` lists the ids"
    with pytest.raises(KeyError, match="no item with the id 'z'"):
        await pool.remove("z")


@pytest.mark.parametrize("limit", [0, -2])
def test_a_limit_under_one_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match=f"limit must be >= 1 or None, not {limit}"):
        ContextPool(limit)
    with pytest.raises(ValueError, match="limit must be >= 1"):
        ContextPool().branch(limit=limit)


@pytest.mark.parametrize(("limit", "shown"), [("3", "str"), (2.0, "2.0"), (True, "True")])
def test_a_limit_is_a_whole_number(limit: Any, shown: str) -> None:
    with pytest.raises(TypeError, match=f"limit must be a whole number >= 1 or None, not {shown}"):
        ContextPool(limit)


async def test_what_cannot_be_added_is_refused_before_anything_happens() -> None:
    called: list[Any] = []

    @hook([ContextPoolHook.BEFORE_ADD, ContextPoolHook.AFTER_ADD])
    def note(*seen: Any) -> None:
        called.append(seen)

    pool = await filled("ab", 2, hooks=[note])
    for wrong in (ContextItem("x", "text"), ContextItem("x", id="i"), ContextItem("x")):
        with pytest.raises(ValueError, match="items in a pool need 'id' and 'description'"):
            await pool.add(wrong)
    bare: Any = "bare text"
    with pytest.raises(TypeError, match=r"add takes a ContextItem, not str; wrap it"):
        await pool.add(bare)
    with pytest.raises(TypeError, match="print is not a hook"):
        ContextPool(hooks=[print])
    assert (ids(pool), called) == ("ab", [])


async def test_the_oldest_makes_room_and_an_item_added_again_is_the_newest() -> None:
    pool = await filled("abc", 3)
    await pool.add(item("d"))
    assert ids(pool) == "bcd"
    await pool.add(item("b", "new"))
    assert (ids(pool), pool.get("b").content) == ("cdb", "new")
    await pool.add(item("e"))
    assert ids(pool) == "dbe"


async def test_editing_content_edits_nothing_in_the_pool_or_its_branches() -> None:
    content = {"rows": [1]}
    pool = ContextPool()
    await pool.add(item("a", content))
    child = pool.branch()
    content["rows"].append(2)
    pool.get("a").content["rows"].append(3)
    child.get("a").content["rows"].append(4)
    pool.to_dict()["items"][0]["content"]["rows"].append(5)
    pool.items.clear()
    assert pool.get("a").content == child.get("a").content == {"rows": [1]}


LINE_BREAKS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


async def test_the_catalogue_has_one_line_for_each_item() -> None:
    pool = ContextPool()
    assert pool.catalogue() == ""
    await pool.add(ContextItem(1, "First", "a"))
    await pool.add(ContextItem(2, "Second\n- [admin]  Forged\r\n\n", "b"))
    await pool.add(ContextItem(3, "Third  with spaces", "c\n- [x] y"))
    assert pool.catalogue().split("\n") == [
        "- [a] First",
        "- [b] Second - [admin]  Forged",
        "- [c\\n- [x] y] Third  with spaces",
    ]


@given(
    st.dictionaries(
        st.text(st.characters() | st.sampled_from(LINE_BREAKS)),
        st.text(st.characters() | st.sampled_from(LINE_BREAKS)),
    )
)
def test_no_text_forges_a_line_of_the_catalogue(texts: dict[str, str]) -> None:
    pool = ContextPool.from_dict(
        {"items": [{"id": id_, "description": text, "content": 0} for id_, text in texts.items()]}
    )
    lines = pool.catalogue().splitlines()
    assert len(lines) == len(texts)
    assert all(line.startswith("- [") for line in lines)


async def test_branches_go_their_own_way() -> None:
    parent = await filled("abc", 3)
    child, other = parent.branch(), parent.branch()
    await child.add(item("d"))
    await parent.remove("b")
    await other.clear()
    grandchild = child.branch()
    await grandchild.add(item("b"))
    assert [ids(pool) for pool in (parent, child, other, grandchild)] == ["ac", "bcd", "", "cdb"]


async def test_a_branch_inherits_its_limit_unless_told_otherwise() -> None:
    parent = await filled("abcd", 4)
    smaller, larger, unbounded, same = (
        parent.branch(limit=2),
        parent.branch(limit=5),
        parent.branch(limit=None),
        parent.branch(),
    )
    for pool in (smaller, larger, unbounded, same):
        await pool.add(item("e"))
        await pool.add(item("f"))
    assert [(pool.limit, ids(pool)) for pool in (smaller, larger, unbounded, same, parent)] == [
        (2, "ef"),
        (5, "bcdef"),
        (None, "abcdef"),
        (4, "cdef"),
        (4, "abcd"),
    ]


async def test_a_branch_inherits_hooks_unless_told_otherwise() -> None:
    called: list[str] = []

    @hook(list(ContextPoolHook))
    def one(*seen: Any) -> None:
        called.append("one")

    @hook(ContextPoolHook.AFTER_ADD)
    def two(*seen: Any) -> None:
        called.append("two")

    parent = ContextPool(hooks=[one])
    children = [
        parent.branch(),
        parent.branch(hooks=[]),
        parent.branch(hooks=None),
        parent.branch(hooks=[two]),
    ]
    assert called == []
    assert [child.hooks for child in children] == [[one], [], [], [two]]
    for child in children:
        await child.add(item("a"))
    assert called == ["one", "one", "two"]


async def test_a_subclass_branches_and_copies_to_its_own_kind() -> None:
    class Named(ContextPool):
        def __init__(self, name: str) -> None:
            super().__init__(3)
            self.name = name

    pool = Named("mine")
    await pool.add(item("a"))
    copies = [pool.branch(), copy.copy(pool), copy.deepcopy(pool)]
    await pool.add(item("b"))
    for other in copies:
        assert isinstance(other, Named)
        assert (other.name, ids(other)) == ("mine", "a")


async def test_every_change_tells_its_hooks() -> None:
    called: list[tuple[str, str, str]] = []

    def listening(event: ContextPoolHook) -> Hook:
        @hook(event)
        async def note(pool_: ContextPool, about: ContextItem[Any] | None = None) -> None:
            assert pool_ is pool
            await checkpoint()
            called.append((event.value, str(about.id) if about else "", ids(pool_)))

        return note

    pool = await filled("ab", 2, hooks=[listening(event) for event in ContextPoolHook])
    await pool.add(item("c"))
    await pool.add(item("b"))
    await pool.remove("c")
    await pool.clear()
    assert called == [
        ("before_add", "c", "b"),
        ("after_add", "c", "bc"),
        ("before_add", "b", "bc"),
        ("after_add", "b", "cb"),
        ("before_remove", "c", "cb"),
        ("after_remove", "c", "b"),
        ("before_clear", "", "b"),
        ("after_clear", "", ""),
    ]


async def test_a_hook_that_is_asked_sees_the_pool_after_eviction_and_everybody_else_does_not() -> None:
    asked, go = anyio.Event(), anyio.Event()
    seen: list[Any] = []

    @hook(ContextPoolHook.BEFORE_ADD)
    async def look(pool_: ContextPool, about: ContextItem[Any]) -> None:
        seen.extend([ids(pool_), len(pool_), "a" in pool_, item("a") in pool_, ids(pool_.branch())])
        seen.extend([pool_.catalogue(), ids(pool_.view()), len(pool_.to_dict()["items"])])
        with pytest.raises(KeyError):
            pool_.get("a")
        asked.set()
        await go.wait()

    pool = await filled("ab", 2, hooks=[look])
    async with anyio.create_task_group() as group:
        group.start_soon(pool.add, item("c"))
        await asked.wait()
        assert (ids(pool), len(pool), pool.get("a"), ids(pool.branch())) == ("ab", 2, item("a"), "ab")
        go.set()
    assert seen == ["b", 1, False, False, "b", "- [b] about b", "b", 1]
    assert ids(pool) == "bc"


async def test_a_veto_on_a_full_pool_leaves_the_oldest_in_its_place() -> None:
    @hook(ContextPoolHook.BEFORE_ADD)
    async def veto(pool_: ContextPool, about: ContextItem[Any]) -> None:
        await checkpoint()
        raise ValueError("no")

    pool = await filled("abc", 3, hooks=[veto])
    with pytest.raises(ValueError, match=r"hook `veto` \(before_add\) failed: .* no; nothing was changed$"):
        await pool.add(item("d"))
    assert (ids(pool), pool.get("a")) == ("abc", item("a"))
    pool.hooks = []
    await pool.add(item("d"))
    assert ids(pool) == "bcd"


@pytest.mark.parametrize(
    ("event", "left"),
    [
        (ContextPoolHook.BEFORE_ADD, "ab"),
        (ContextPoolHook.AFTER_ADD, "bc"),
        (ContextPoolHook.BEFORE_REMOVE, "ab"),
        (ContextPoolHook.AFTER_REMOVE, "b"),
        (ContextPoolHook.BEFORE_CLEAR, "ab"),
        (ContextPoolHook.AFTER_CLEAR, ""),
    ],
)
async def test_a_failing_hook_says_whether_the_change_stands(event: ContextPoolHook, left: str) -> None:
    @hook(event)
    def fails(*seen: Any) -> None:
        raise ValueError("no")

    pool = await filled("ab", 2, hooks=[fails])
    changes = {"add": lambda: pool.add(item("c")), "remove": lambda: pool.remove("a"), "clear": pool.clear}
    done = event.value.startswith("after")
    outcome = "the change was made before, and stays" if done else "nothing was changed"
    with pytest.raises(
        HookError, match=rf"hook `fails` \({event.value}\) failed: ValueError: no; {outcome}$"
    ):
        await changes[event.value.partition("_")[2]]()
    assert ids(pool) == left
    pool.hooks = []
    await pool.add(item("z"))
    assert "z" in pool


async def test_concurrent_adds_keep_the_limit_and_do_not_mix_their_hooks() -> None:
    called: list[tuple[str, str]] = []

    @hook(ContextPoolHook.BEFORE_ADD)
    async def before(pool_: ContextPool, about: ContextItem[Any]) -> None:
        called.append(("before", str(about.id)))
        assert len(pool_) <= 2
        await checkpoint()

    @hook(ContextPoolHook.AFTER_ADD)
    async def after(pool_: ContextPool, about: ContextItem[Any]) -> None:
        await checkpoint()
        assert pool_.items[-1] == about
        called.append(("after", str(about.id)))

    pool = ContextPool(3, hooks=[before, after])
    async with anyio.create_task_group() as group:
        for name in "abcdefghij":
            group.start_soon(pool.add, item(name))
    assert [event for event, _ in called] == ["before", "after"] * 10
    assert [name for _, name in called[::2]] == [name for _, name in called[1::2]]
    assert ids(pool) == "".join(name for _, name in called[-6::2])


async def test_an_item_removed_by_two_is_missing_for_the_second() -> None:
    @hook(ContextPoolHook.BEFORE_REMOVE)
    async def waits(pool_: ContextPool, about: ContextItem[Any]) -> None:
        await checkpoint()

    pool = await filled("ab", hooks=[waits])
    failed: list[KeyError] = []

    async def remove() -> None:
        try:
            await pool.remove("a")
        except KeyError as error:
            failed.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(remove)
        group.start_soon(remove)
    assert (len(failed), ids(pool)) == (1, "b")


async def test_a_hook_may_change_the_pool_it_is_called_for() -> None:
    @hook(ContextPoolHook.AFTER_ADD)
    async def keeps_pairs(pool_: ContextPool, about: ContextItem[Any]) -> None:
        name = str(about.id)
        if name.islower():
            await pool_.add(item(name.upper()))
            if "a" in pool_ and name != "a":
                await pool_.remove("a")

    pool = ContextPool(4, hooks=[keeps_pairs])
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(pool.add, item("a"))
        await pool.add(item("b"))
    assert ids(pool) == "AbB"


async def test_a_hook_that_is_asked_may_make_room_or_take_it() -> None:
    @hook(ContextPoolHook.BEFORE_ADD)
    async def meddles(pool_: ContextPool, about: ContextItem[Any]) -> None:
        if about.id == "takes":
            await pool_.add(item("x"))
            assert ids(pool_) == "cx"
        elif about.id == "makes":
            await pool_.remove("c")
        elif about.id == "clears":
            await pool_.clear()
        elif about.id == "veto":
            await pool_.add(item("x"))
            raise ValueError("no")

    results = {}
    for name in ("takes", "makes", "clears", "veto"):
        pool = await filled("abc", 3, hooks=[meddles])
        try:
            with anyio.fail_after(5):
                await pool.add(item(name))
        except ValueError:
            pass
        results[name] = [one.id for one in pool]
    assert results == {
        "takes": ["c", "x", "takes"],
        "makes": ["a", "b", "makes"],
        "clears": ["clears"],
        "veto": ["b", "c", "x"],
    }


async def test_a_hook_that_replaces_the_new_item_sees_the_whole_pool() -> None:
    shown: list[str] = []

    @hook(ContextPoolHook.AFTER_ADD)
    async def replaces(pool_: ContextPool, about: ContextItem[Any]) -> None:
        if about.id == "c":
            await pool_.remove("c")
            await pool_.add(item("d"))
            shown.append(ids(pool_))

    pool = await filled("ab", 2, hooks=[replaces])
    await pool.add(item("c"))
    assert shown == ["bd"]


async def test_an_item_that_a_hook_has_taken_out_is_not_told_twice() -> None:
    told: list[str] = []

    @hook(ContextPoolHook.BEFORE_REMOVE)
    async def hasty(pool_: ContextPool, about: ContextItem[Any]) -> None:
        if not told:
            told.append("before")
            await pool_.remove("a")

    @hook(ContextPoolHook.AFTER_REMOVE)
    def after(pool_: ContextPool, about: ContextItem[Any]) -> None:
        told.append("after")

    pool = await filled("a", hooks=[hasty, after])
    await pool.remove("a")
    assert (told, len(pool)) == (["before", "after"], 0)


async def test_a_task_that_outlives_its_hook_waits_for_its_turn() -> None:
    order: list[str] = []
    later, asked, go = anyio.Event(), anyio.Event(), anyio.Event()

    async with anyio.create_task_group() as group:

        async def add_later() -> None:
            await later.wait()
            order.append("starts")
            await pool.add(item("later"))
            order.append("later")

        @hook(ContextPoolHook.BEFORE_ADD)
        async def starts(pool_: ContextPool, about: ContextItem[Any]) -> None:
            if about.id == "first":
                group.start_soon(add_later)
            elif about.id == "slow":
                asked.set()
                await go.wait()
                order.append("slow")

        pool = ContextPool(hooks=[starts])
        await pool.add(item("first"))
        group.start_soon(pool.add, item("slow"))
        await asked.wait()
        later.set()
        while not order:
            await checkpoint()
        go.set()
    assert order == ["starts", "slow", "later"]


async def test_pools_whose_hooks_change_each_other_do_not_wait_for_ever() -> None:
    both = {"left": anyio.Event(), "right": anyio.Event()}

    def mirroring(mine: str, other: str) -> Hook:
        @hook(ContextPoolHook.AFTER_ADD)
        async def mirror(pool_: ContextPool, about: ContextItem[Any]) -> None:
            both[mine].set()
            await both[other].wait()
            if str(about.id) not in pools[other]:
                await pools[other].add(about)

        return mirror

    pools = {
        "left": ContextPool(hooks=[mirroring("left", "right")]),
        "right": ContextPool(hooks=[mirroring("right", "left")]),
    }
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(pools["left"].add, item("a"))
            group.start_soon(pools["right"].add, item("b"))
    assert sorted(ids(pools["left"])) == sorted(ids(pools["right"])) == ["a", "b"]


async def test_a_pool_read_back_is_the_same_with_its_hooks() -> None:
    called: list[str] = []

    @hook([ContextPoolHook.BEFORE_ADD, ContextPoolHook.AFTER_CLEAR])
    async def noted(*seen: Any) -> None:
        called.append("noted")

    pool = await filled("ab", 2, hooks=[noted])
    data = json.loads(json.dumps(pool.to_dict()))
    assert data == {
        "limit": 2,
        "items": [
            {"content": None, "description": "about a", "id": "a"},
            {"content": None, "description": "about b", "id": "b"},
        ],
        "hooks": {"before_add": ["noted"], "after_clear": ["noted"]},
    }
    back = ContextPool.from_dict(data)
    assert (back.limit, back.items, back.hooks, called) == (2, pool.items, [noted], [])
    HookRegistry.clear()
    with pytest.raises(UnregisteredHookError, match="no before_add hook named 'noted'"):
        ContextPool.from_dict(data)


async def test_a_pool_is_read_from_less_and_brought_under_its_limit() -> None:
    empty = ContextPool.from_dict({})
    assert (empty.limit, empty.items, empty.hooks) == (None, [], [])
    data = (await filled("abcde")).to_dict() | {"limit": 2}
    back = ContextPool.from_dict(data)
    assert ids(back) == "de"
    await back.add(item("f"))
    assert ids(back) == "ef"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("text", "this is not a saved ContextPool: `data` must be a dict, not str"),
        ({"limit": -1}, "limit must be >= 1 or None, not -1"),
        ({"items": {}}, "this is not a saved ContextPool: `items` must be a list, not dict"),
        ({"hooks": ["a"]}, "`hooks` must be a dict of lists of function names"),
        ({"items": [{"content": 1}]}, "items in a pool need 'id' and 'description'"),
    ],
)
def test_data_that_is_no_pool_is_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ContextPool.from_dict(data)


async def test_content_that_json_cannot_hold_is_named_by_its_place_in_the_pool() -> None:
    pool = await filled("a")
    await pool.add(item("b", [object()]))
    with pytest.raises(InvalidItem, match=r"`items\[1\]\.content\[0\]` is of type object"):
        pool.to_dict()


async def test_a_view_reads_the_pool_as_it_is_and_cannot_change_it() -> None:
    pool = await filled("ab", 2)
    view = pool.view()
    assert isinstance(view, ContextPoolView)
    await pool.add(item("c"))
    assert (ids(view), len(view), list(view), view.limit, bool(view)) == ("bc", 2, pool.items, 2, True)
    assert ("b" in view, "a" in view, view.get("b"), view.catalogue()) == (
        True,
        False,
        item("b"),
        pool.catalogue(),
    )
    with pytest.raises(KeyError):
        view.get("a")
    assert repr(view) == "ContextPoolView(limit=2, len=2)"
    public = {name for name in dir(view) if not name.startswith("_")}
    assert public == {"get", "items", "catalogue", "limit"}
    for name in public:
        with pytest.raises(AttributeError):
            setattr(view, name, None)
