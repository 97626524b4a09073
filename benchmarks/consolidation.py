"""Numbered facts of which the newer wins, in the form of FactConsolidation of MemoryAgentBench, made here.

A user states `The manager of Atlas is Ines.` and later another manager. A question asks for the newest value
(single hop), or for the value of a value (multi hop: the home town of the manager of Atlas). Counted is
whether the newest statement stands before every older one of the same thing in a recall of 2,000 tokens; of a
multi hop question both statements must be there. No model answers.
"""

from __future__ import annotations

import random
from pathlib import Path

from autonomy_ctx import Memory
from autonomy_ctx.memory.recall import recall
from benchmarks.table import Figure

SCOPE, TALK, SEED = "ana", "facts", 7
PROJECTS, PEOPLE, CHANGES, TOKENS = 60, 60, 3, 2_000
MIN_SINGLE = 0.90
SYLLABLES = ("ka", "lo", "mi", "ren", "tu", "sor", "vel", "dan", "pri", "gol")


def _names(chance: random.Random, count: int) -> list[str]:
    found: dict[str, None] = {}
    while len(found) < count:
        found["".join(chance.choices(SYLLABLES, k=3)).capitalize()] = None
    return list(found)


async def measure(folder: Path) -> list[Figure]:
    chance = random.Random(SEED)
    names = _names(chance, PROJECTS + PEOPLE + 40)
    projects, people, towns = names[:PROJECTS], names[PROJECTS:-40], names[-40:]
    stated = [(project, "manager", chance.choice(people)) for project in projects for _ in range(CHANGES)]
    stated += [(person, "home town", chance.choice(towns)) for person in people for _ in range(CHANGES)]
    chance.shuffle(stated)
    newest = {(subject, what): (value, at) for at, (subject, what, value) in enumerate(stated, 1)}
    single = multi = 0
    async with Memory(f"sqlite:///{folder / 'memory.db'}") as memory:
        texts = [f"{at}. The {what} of {one} is {value}." for at, (one, what, value) in enumerate(stated, 1)]
        await memory.add_messages(SCOPE, TALK, [{"role": "user", "content": text} for text in texts])
        for project in projects:
            manager, at = newest[project, "manager"]
            found = await _positions(memory, f"Who is the manager of {project}?")
            same = [place for place in found if stated[place - 1][:2] == (project, "manager")]
            single += same[:1] == [at]
            _, town_at = newest[manager, "home town"]
            both = await _positions(memory, f"What is the home town of the manager of {project}?")
            multi += {at, town_at} <= set(both)
    print(f"\n  {len(stated)} statements, {PROJECTS} questions of each kind")
    return [
        Figure(
            name=kind,
            ours=f"{right} of {PROJECTS}",
            floor="none",
            value=right / PROJECTS,
            bound=bound,
            at_most=False,
        )
        for kind, right, bound in (
            ("single hop, the newest statement first", single, MIN_SINGLE),
            ("multi hop, both shown", multi, 0.0),
        )
    ]


async def _positions(memory: Memory, question: str) -> list[int]:
    found = await recall(memory, SCOPE, question, conversation=TALK, max_tokens=TOKENS)
    return [one.position for one in found.passages]
