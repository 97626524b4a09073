"""Scopes stay apart in every index of the PostgreSQL store, and a deletion reaches all of them."""

from __future__ import annotations

import random

from memory.test_scopes import SCOPES, TALKS, LetterEmbedder, Step, check_scopes

from autonomy_ctx import Memory

ROUNDS, STEPS = 5, 15
DEEDS = ("say", "say", "say", "delete talk", "delete scope", "recall")


async def test_no_index_shows_what_another_scope_has_or_what_was_deleted(database_url: str) -> None:
    async with Memory(database_url, embedder=LetterEmbedder(), embedder_timeout=600.0) as memory:
        for number in range(ROUNDS):
            chance = random.Random(number)
            steps: list[Step] = [
                (chance.choice(DEEDS), chance.choice(SCOPES), chance.choice(TALKS)) for _ in range(STEPS)
            ]
            await check_scopes(memory.for_agent(f"agent {number}"), steps)
