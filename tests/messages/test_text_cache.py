"""Texts that are cached for a whole process go when somebody's data goes.

Until then the garbage collector follows few objects for them: a full collection makes a turn wait.
"""

from __future__ import annotations

import gc
from typing import Any

import pytest

from autonomy_ctx import ContextTemplate, Memory, Message, SummarizedHistorySection
from autonomy_ctx.language import digest
from autonomy_ctx.messages.text_cache import forget_texts
from autonomy_ctx.tokens import TokenCounter

SENTENCES = [
    f"Please always send the invoices of customer {number} to office-{number}@example.com by Friday."
    for number in range(500)
]


def count_cached_texts() -> int:
    cached: Any = digest._weigh_once
    return int(cached.cache_info().currsize)


async def hold_conversation(memory: Memory) -> None:
    history = SummarizedHistorySection(summary_model=None, floor=2, ceiling=4)
    async with ContextTemplate([history]) as template:
        for number in range(12):
            await memory.append(
                "ana", "trip", Message("user", f"My budget is {900 + number} EUR.", id=f"m{number}")
            )
            await template.compose(memory, "ana", "trip")
            await history.settled()


@pytest.mark.parametrize("what", ["a message", "a conversation", "a scope", "a fact"])
async def test_a_deletion_leaves_no_text_in_a_cache(what: str) -> None:
    async with Memory() as memory:
        await hold_conversation(memory)
        assert count_cached_texts() > 0
        if what == "a message":
            await memory.delete_message("ana", "trip", "m1")
        elif what == "a conversation":
            await memory.delete_conversation("ana", "trip")
        elif what == "a scope":
            await memory.delete_scope("ana")
        else:
            [fact, *_] = await memory.facts("ana", "trip")
            await memory.facts("ana", "trip").remove(fact.id)
        assert count_cached_texts() == 0


def read(text: str) -> None:
    digest.digest([Message("assistant", text)], tokens=20, counter=TokenCounter())


def count_followed_objects() -> int:
    """How many objects the garbage collector follows."""
    # A collection takes out tuples in which nothing has to be followed, the next one tuples of these.
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects())


def test_the_garbage_collector_follows_few_objects_for_a_sentence_of_a_digest() -> None:
    read("Makes the patterns of order-1.")
    forget_texts()
    before = count_followed_objects()
    for at in range(0, len(SENTENCES), 20):
        read(" ".join(SENTENCES[at : at + 20]))
    assert count_cached_texts() == len(SENTENCES) / 20
    assert count_followed_objects() - before < 1.5 * len(SENTENCES)
