"""The cost of random conversations with six models: those of `cost` were looked at when "auto" was written.

Each conversation draws its own sizes: turns, tokens of questions, answers and tool results, calls for each
turn, and pauses. The seeds are fixed, and no number of the library was chosen by them. The texts are plain
sentences: random words state rules such as "never refund", which the next random words turn around.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from autonomy_ctx.replay import RecordedConversation
from benchmarks.cost import MODELS, list_costs
from benchmarks.kinds import ANSWERS, choose_words
from benchmarks.table import Figure

SEEDS = range(8)
BEGIN = datetime(2026, 6, 1, 9, tzinfo=UTC)
WORDS_OF_TOKEN = 0.7


def write_text(number: int, tokens: int) -> str:
    """The n-th text: plain sentences of about so many tokens, no two texts alike."""
    chance, most, words = Random(number), max(int(tokens * WORDS_OF_TOKEN), 1), list[str]()
    while len(words) < most:
        words += chance.choice(ANSWERS).format(**choose_words(chance)).split()
    return " ".join(words[:most])


def make_talk(seed: int) -> RecordedConversation:
    """A conversation whose sizes are drawn at random."""
    draw = Random(seed)
    asked, answered, found = draw.randint(10, 200), draw.randint(20, 400), draw.randint(50, 1_500)
    most_calls, pause = draw.choice((0, 1, 2, 4)), draw.choice((5, 60, 600, 3_000))
    at, messages = BEGIN, list[dict[str, Any]]()

    def say(role: str, tokens: int, **more: Any) -> None:
        nonlocal at
        at += timedelta(seconds=draw.randint(1, 5))
        text = write_text(len(messages), int(tokens * draw.uniform(0.5, 1.5)))
        messages.append({"role": role, "content": text, "created_at": at.isoformat(), **more})

    for _ in range(draw.randint(10, 120)):
        at += timedelta(seconds=draw.expovariate(1 / pause))
        say("user", asked)
        for _ in range(draw.randint(0, most_calls)):
            name = f"call_{len(messages)}"
            function = {"name": "look_up", "arguments": "{}"}
            say("assistant", 5, tool_calls=[{"id": name, "type": "function", "function": function}])
            say("tool", found, tool_call_id=name)
        say("assistant", answered)
    instructions = write_text(0, draw.randint(50, 3_000))
    return RecordedConversation(messages, name=f"seed {seed}", instructions=instructions)


async def measure(folder: Path) -> list[Figure]:
    talks = {f"seed {seed}": make_talk(seed) for seed in SEEDS}
    found = await list_costs(talks, MODELS)
    beside = sorted(((one.auto.bill.cost / one.oracle, one.name) for one in found), reverse=True)
    whole = sorted(((one.auto.bill.cost / one.whole, one.name) for one in found), reverse=True)
    old = sorted(one.auto.bill.cost / one.old for one in found)
    close = sum(ratio <= 1.08 for ratio, _ in beside)
    worst = ", ".join(f"{name} {ratio:.2f}" for ratio, name in beside[:4])
    return [
        Figure(
            name="random conversations: share within 1.08 of the oracle",
            ours=f"{close} of {len(found)}; {worst}",
            floor="1",
            value=close / len(found),
            bound=0.9,
            at_most=False,
        ),
        Figure(
            name="random conversations: the most beside the whole history",
            ours=", ".join(f"{name} {ratio:.3f}" for ratio, name in whole[:4]),
            floor="1",
            value=round(whole[0][0], 4),
            bound=1,
        ),
        Figure(
            name='random conversations: "auto" / 0.2.0, median',
            ours=f"{old[0]:.2f} to {old[-1]:.2f}",
            floor="1",
            value=old[len(old) // 2],
            bound=1,
        ),
    ]
