"""Texts that are cached for a whole process go when somebody's data goes."""

from __future__ import annotations

import pytest

from autonomy_ctx import ContextTemplate, Memory, Message, SummarizedHistorySection
from autonomy_ctx.messages.text_cache import count_cached_texts


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
