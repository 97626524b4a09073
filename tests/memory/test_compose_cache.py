"""What composing keeps: bounded in bytes, apart by conversation, and gone with every deletion."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from autonomy_ctx import (
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SummarizedHistorySection,
)
from autonomy_ctx.memory.compose_cache import (
    COMPOSED_ONCE,
    COMPOSED_ONCE_RESIDENT,
    MESSAGE_BYTES,
    REFERENCE_BYTES,
    STATE_BYTES,
    STORED_CONVERSATIONS,
    ComposeCache,
    ComposeStates,
    measure_texts,
)
from autonomy_ctx.memory.store import Key
from autonomy_ctx.sections.section import known_counts


def key(name: str, scope: str = "ana") -> Key:
    return Key("", scope, name)


def put(states: ComposeStates[str], cache: ComposeCache, place: Key, state: str, messages: int = 0) -> None:
    if states.admits(cache, place):
        states.put(cache, place, state, epoch=cache.epoch, references=messages)


def put_again(
    states: ComposeStates[str], cache: ComposeCache, place: Key, state: str, messages: int = 0
) -> None:
    for _ in range(2):
        put(states, cache, place, state, messages)


def test_the_oldest_conversations_go_when_the_bytes_are_used_up() -> None:
    cache, states = ComposeCache(resident=True, max_bytes=4 * STATE_BYTES), ComposeStates[str]()
    for name in "abcd":
        put_again(states, cache, key(name), name)
    assert states.get(cache, key("a")) == "a"
    put_again(states, cache, key("e"), "e")
    assert [states.get(cache, key(name)) for name in "abcde"] == ["a", None, "c", "d", "e"]
    assert cache.size == 4 * STATE_BYTES


def test_a_state_weighs_its_references_and_the_texts_that_nothing_else_has() -> None:
    cache, states = ComposeCache(resident=True), ComposeStates[str]()
    put_again(states, cache, key("a"), "short")
    put(states, cache, key("a"), "long", messages=10)
    assert cache.size == STATE_BYTES + 10 * REFERENCE_BYTES
    alone = Message("user", "x" * 500)
    states.put(cache, key("b"), "texts", epoch=cache.epoch, references=1, text_bytes=measure_texts([alone]))
    assert cache.size == 2 * STATE_BYTES + 11 * REFERENCE_BYTES + MESSAGE_BYTES + 500


def test_what_is_larger_than_all_may_be_is_not_kept() -> None:
    cache, states = ComposeCache(resident=True, max_bytes=5 * STATE_BYTES), ComposeStates[str]()
    put_again(states, cache, key("a"), "small")
    put_again(states, cache, key("b"), "large", messages=10 * STATE_BYTES)
    assert (states.get(cache, key("a")), states.get(cache, key("b"))) == ("small", None)
    put(states, cache, key("a"), "grown", messages=10 * STATE_BYTES)
    assert (len(cache), cache.size) == (0, 0)


@pytest.mark.parametrize("resident", [True, False])
def test_what_is_used_again_is_kept_on_disk_for_as_many_conversations_as_windows(resident: bool) -> None:
    cache, states = ComposeCache(resident=resident), ComposeStates[str]()
    for number in range(STORED_CONVERSATIONS + 10):
        put(states, cache, key(f"c{number}"), "first")
        assert states.get(cache, key(f"c{number}")) is None
        put(states, cache, key(f"c{number}"), "second")
        assert states.get(cache, key(f"c{number}")) == "second"
    assert len(cache) == (STORED_CONVERSATIONS + 10 if resident else STORED_CONVERSATIONS)


@pytest.mark.parametrize(("resident", "most"), [(True, COMPOSED_ONCE_RESIDENT), (False, COMPOSED_ONCE)])
def test_many_conversations_that_are_used_once_leave_a_bounded_number_of_names(
    resident: bool, most: int
) -> None:
    cache, states = ComposeCache(resident=resident), ComposeStates[str]()
    names = [key(f"c{number}") for number in range(3 * most)]
    for name in names:
        put(states, cache, name, "first")
    assert (len(cache), cache.size) == (0, 0)
    assert len(cache._composed_once) <= most
    # The last one is known, and a deletion takes its name away.
    put(states, cache, names[-1], "second")
    assert states.get(cache, names[-1]) == "second"
    cache.forget(conversation=names[-1].conversation)
    assert not cache._composed_once


async def test_a_context_that_is_composed_once_leaves_no_state(memory: Memory) -> None:
    template = ContextTemplate([ConversationHistorySection(max_messages=2)])
    await memory.append("ana", "trip", Message("user", "hello"))
    await template.compose(memory, "ana", "trip")
    assert len(memory.compose_cache) == 0
    await template.compose(memory, "ana", "trip")
    assert len(memory.compose_cache) == 1


def test_owners_and_scopes_do_not_meet() -> None:
    cache, one, other = ComposeCache(resident=True), ComposeStates[str](), ComposeStates[str]()
    put_again(one, cache, key("a", "ana"), "one")
    assert other.get(cache, key("a", "ana")) is None
    assert one.get(cache, key("a", "ben")) is None
    put_again(other, cache, key("a", "ana"), "other")
    put_again(one, cache, key("a", "ben"), "ben")
    cache.forget(scope="ana")
    assert [states.get(cache, key("a", "ana")) for states in (one, other)] == [None, None]
    assert one.get(cache, key("a", "ben")) == "ben"
    assert cache.size == STATE_BYTES


def test_what_was_read_before_a_deletion_is_not_kept_after_it() -> None:
    cache, states = ComposeCache(resident=True), ComposeStates[str]()
    before = cache.epoch
    cache.forget(scope="ben")
    states.put(cache, key("a"), "state", epoch=before, references=0)
    assert states.get(cache, key("a")) is None


@pytest.mark.parametrize("what", ["a message", "a conversation", "a scope", "a fact", "a source's message"])
async def test_a_deletion_leaves_nothing_of_a_context(memory: Memory, what: str) -> None:
    summarized = SummarizedHistorySection(None, 2, 4)
    for number in range(12):
        await memory.append(
            "ana", "trip", Message("user", f"My budget is {900 + number} EUR.", id=f"m{number}")
        )
    place = await memory.fork("ana", "trip") if what == "a source's message" else "trip"
    for section in (ConversationHistorySection(max_messages=4), summarized):
        template = ContextTemplate([section])
        for _ in range(2):
            await template.compose(memory, "ana", place)
    await summarized.settled()
    await template.compose(memory, "ana", place)
    assert len(memory.compose_cache) == 1
    if what == "a conversation":
        await memory.delete_conversation("ana", "trip")
    elif what == "a scope":
        await memory.delete_scope("ana")
    elif what == "a fact":
        [fact, *_] = await memory.facts("ana", "trip")
        await memory.facts("ana", "trip").remove(fact.id)
    else:
        await memory.delete_message("ana", "trip", "m1")
    assert (len(memory.compose_cache), memory.compose_cache.size) == (0, 0)
    await template.close()


async def test_clearing_the_hot_windows_clears_what_was_composed(memory: Memory) -> None:
    template = ContextTemplate([ConversationHistorySection()])
    await memory.append("ana", "trip", Message("user", "hello"))
    for _ in range(2):
        await template.compose(memory, "ana", "trip")
    assert len(memory.compose_cache) == 1
    await memory.clear_short_term_memory("ana")
    assert len(memory.compose_cache) == 0


async def test_a_memory_that_is_gone_leaves_no_cache() -> None:
    memory = Memory()
    cache = weakref.ref(memory.compose_cache)
    await memory.close()
    del memory
    gc.collect()
    assert cache() is None


async def test_a_window_that_did_not_change_is_not_put_together_again(memory: Memory) -> None:
    history = ConversationHistorySection(max_messages=2)
    await memory.append("ana", "trip", Message("user", "hello"), Message("assistant", "hi"))
    await history.contribute(memory, "ana", "trip", {})
    first = await history.contribute(memory, "ana", "trip", {})
    assert await history.contribute(memory, "ana", "trip", {}) is first
    await memory.append("ana", "trip", Message("user", "and now?"))
    assert await history.contribute(memory, "ana", "trip", {}) is not first


async def test_a_window_is_read_anew_when_another_process_has_deleted(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    history = ConversationHistorySection(max_messages=2)
    async with Memory(url) as memory, Memory(url) as other:
        await memory.append("ana", "trip", *[Message("user", "hello", id=f"m{n}") for n in range(3)])
        for _ in range(3):
            await history.contribute(memory, "ana", "trip", {})
        # Not by the memory, which would empty the caches of this process.
        await other.store.delete("ana", "", "trip", ["m2"])
        found = await history.contribute(memory, "ana", "trip", {})
    assert [message.id for message in found.messages] == ["m0", "m1"]


async def test_all_of_a_history_goes_on_from_what_was_read(memory: Memory) -> None:
    history = ConversationHistorySection()
    template = ContextTemplate([history])
    await memory.append("ana", "trip", *[Message("user", f"{number}") for number in range(700)])
    for _ in range(2):
        before = await template.compose(memory, "ana", "trip")
    await memory.append("ana", "trip", Message("user", "and now?"))
    found = await history.contribute(memory, "ana", "trip", {})
    # Only what is new is counted.
    assert len(known_counts(found, memory.token_counter.name)) == 700
    after = await template.compose(memory, "ana", "trip")
    assert after.messages[:700] == before.messages
    assert after.counts == [memory.token_counter.count_messages([one]) for one in after.messages]


async def test_a_history_that_grew_weighs_as_much_as_one_that_was_read_at_once(tmp_path: Path) -> None:
    template = ContextTemplate([ConversationHistorySection()])
    long = "x" * 200_000
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        for number in range(6):
            await memory.append("ana", "trip", Message("user", f"{number} {long}"))
            await template.compose(memory, "ana", "trip")
        grown = memory.compose_cache.size
        assert grown > 6 * len(long)
        await memory.clear_short_term_memory("ana")
        for _ in range(2):
            await template.compose(memory, "ana", "trip")
        assert memory.compose_cache.size == grown
