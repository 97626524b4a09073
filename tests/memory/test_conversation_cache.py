"""What is kept of conversations is bounded, and goes with the conversation, the scope or all."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import Memory
from autonomy_ctx.memory.cache import ConversationCache, StoreKey, forget_deleted, make_store_key
from autonomy_ctx.memory.store import Key

# Names that a careless comparison takes for one another.
NAMES = ["", "a", "A", "a ", "a:b", "a/b", "ab", "b", "None"]


def cache_of(keys: list[Any]) -> ConversationCache[Any, str]:
    cache: ConversationCache[Any, str] = ConversationCache(len(keys))
    for key in keys:
        cache[key] = "kept"
    return cache


def test_it_holds_so_many_and_drops_what_was_not_used_for_longest() -> None:
    cache: ConversationCache[Key, int] = ConversationCache(2)
    first, second, third = (Key("", "ana", name) for name in ("one", "two", "three"))
    cache[first], cache[second] = 1, 2
    assert cache.get(first) == 1
    cache[third] = 3
    assert list(cache.items()) == [(first, 1), (third, 3)]


def test_it_holds_so_much_when_entries_are_weighed() -> None:
    cache: ConversationCache[Key, str] = ConversationCache(10, getsizeof=len)
    first, second, third = (Key("", "ana", name) for name in ("one", "two", "three"))
    cache[first], cache[second] = "x" * 4, "x" * 6
    assert cache.currsize == 10
    cache[third] = "x" * 5
    assert list(cache) == [third]
    cache.forget(scope="ana")
    assert (len(cache), cache.currsize) == (0, 0)


@pytest.mark.parametrize(
    ("forgotten", "left"),
    [
        ({}, []),
        ({"scope": "ana"}, ["/bob/trip", "h/bob/work"]),
        ({"scope": "ana", "conversation": "trip"}, ["/ana/work", "/bob/trip", "h/ana/work", "h/bob/work"]),
        ({"agent": "h", "scope": "ana"}, ["/ana/trip", "/ana/work", "/bob/trip", "h/bob/work"]),
        ({"agent": "h"}, ["/ana/trip", "/ana/work", "/bob/trip"]),
        ({"agent": ""}, ["h/ana/trip", "h/ana/work", "h/bob/work"]),
        (
            {"agent": "h", "scope": "ana", "conversation": "trip"},
            ["/ana/trip", "/ana/work", "/bob/trip", "h/ana/work", "h/bob/work"],
        ),
        (
            {"scope": "nobody"},
            ["/ana/trip", "/ana/work", "/bob/trip", "h/ana/trip", "h/ana/work", "h/bob/work"],
        ),
    ],
)
def test_it_forgets_a_conversation_a_scope_or_all(forgotten: dict[str, str], left: list[str]) -> None:
    names = ["/ana/trip", "/ana/work", "/bob/trip", "h/ana/trip", "h/ana/work", "h/bob/work"]
    cache = cache_of([Key(*name.split("/")) for name in names])
    cache.forget(**forgotten)
    assert ["/".join(key) for key in cache] == left


def test_a_deletion_drops_the_texts_of_its_scope() -> None:
    texts: ConversationCache[StoreKey, str] = ConversationCache(9, holds_texts=True)
    other: ConversationCache[StoreKey, str] = ConversationCache(9)
    store, elsewhere = Memory().store, Memory().store
    ana, bob = make_store_key(store, Key("", "ana", "trip")), make_store_key(store, Key("", "bob", "trip"))
    foreign = make_store_key(elsewhere, ana.key)
    for cache in (texts, other):
        cache[ana] = cache[bob] = cache[foreign] = "kept"
    forget_deleted(store, "ana")
    assert (list(texts), list(other)) == ([bob, foreign], [ana, bob, foreign])


@given(
    st.lists(st.tuples(*[st.sampled_from(NAMES)] * 3), unique=True),
    st.tuples(*[st.none() | st.sampled_from(NAMES)] * 3),
)
def test_look_alike_tenants_keep_what_is_theirs(
    names: list[tuple[str, str, str]], forgotten: tuple[str | None, str | None, str | None]
) -> None:
    cache = cache_of([Key(*name) for name in names])
    agent, scope, conversation = forgotten
    cache.forget(agent=agent, scope=scope, conversation=conversation)
    kept = [
        name
        for name in names
        if any(want is not None and want != part for want, part in zip(forgotten, name, strict=True))
    ]
    assert list(cache) == kept


def test_two_memories_on_one_store_have_the_same_key_and_two_stores_do_not() -> None:
    key, one, other = Key("", "ana", "trip"), Memory(), Memory()
    assert make_store_key(one.store, key) == make_store_key(one.for_agent("helper").store, key)
    assert make_store_key(one.store, key) != make_store_key(other.store, key)
    assert make_store_key(one.store, key) != make_store_key(one.store, Key("", "ana", "work"))


def test_the_number_of_a_store_that_is_gone_is_not_used_again() -> None:
    key = Key("", "ana", "trip")
    seen = set()
    for _ in range(20):
        memory = Memory()
        seen.add(make_store_key(memory.store, key))
        del memory
        gc.collect()
    assert len(seen) == 20
