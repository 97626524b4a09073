"""Composing with what is known from the time before gives what composing from nothing gives, byte for byte.

Two memories are told the same, step by step. One template keeps what it worked out; the other forgets all
of it before every context. After each step both compose, and everything that a reader can see is compared.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from autonomy_ctx import (
    AdditionalContextSection,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    Memory,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.messages import Summary, wire
from autonomy_ctx.sections import Composition
from autonomy_ctx.sections.section import ComposeParams
from autonomy_ctx.template.context_record import to_record
from autonomy_ctx.testing import StoppedClock

SCOPE = "ana"
SECTIONS: dict[str, Callable[[], Any]] = {
    "window": lambda: ConversationHistorySection(max_messages=6),
    "all": ConversationHistorySection,
    "summarized": lambda: SummarizedHistorySection(None, 3, 6, 256),
    "bounded": lambda: SummarizedHistorySection(None, 3, 6, 256, hard_limit=9, hard_limit_tokens=600),
    "swapping": lambda: SummarizedHistorySection(None, 3, 6, 256, swap="cost"),
}
# One step: what happens, and two numbers that say to what.
STEPS = st.tuples(
    st.sampled_from(
        [
            *["user", "answer", "call", "result", "nothing"] * 3,
            *["delete", "drop turn", "fork", "switch", "undo", "drop summaries", "pin", "fact", "calibrate"],
            *["budget", "toggle", "instruct", "note", "rename", "section", "turn", "limit", "forget"],
        ]
    ),
    st.integers(0, 40),
)


class World:
    """A memory with a template, and all that happened to them."""

    def __init__(self, url: str | None, kind: str, arrange: Any, *, keeps: bool) -> None:
        self.clock = StoppedClock()
        self.memory = Memory(url, clock=self.clock)
        self.keeps = keeps
        self.history = SECTIONS[kind]()
        self.notes = AdditionalContextSection("notes")
        self.extra = FrameworkInstructionsSection()
        self.system = SystemInstructionsSection("You book trips.")
        self.template = ContextTemplate([self.system, self.notes, self.history], arrange=arrange)
        self.names, self.at = ["c0"], 0
        self.said = 0
        self.budget: int | None = None
        self.turn: int | None = None

    @property
    def place(self) -> tuple[str, str]:
        return SCOPE, self.names[self.at]

    async def say(self, form: dict[str, Any]) -> None:
        self.said += 1
        await self.memory.append(*self.place, {**form, "id": f"m{self.said}"})

    async def step(self, what: str, number: int) -> None:
        head = await self.memory.head(*self.place)
        words = "word " * (number * 4)
        match what:
            case "user":
                await self.say({"role": "user", "content": f"question {self.said} {words}"})
            case "answer":
                await self.say({"role": "assistant", "content": f"answer {self.said} {words}"})
            case "call":
                calls = [{"id": f"k{number % 5 + more}", "name": "look"} for more in range(number % 3 + 1)]
                await self.say({"role": "assistant", "content": None, "tool_calls": calls})
            case "result":
                form = {"role": "tool", "tool_call_id": f"k{number % 7}", "name": "look"}
                await self.say({**form, "content": f"found {self.said} {words}"})
            case "delete":
                await self.memory.delete_message(*self.place, f"m{number % max(self.said, 1) + 1}")
            case "drop turn":
                await self.memory.drop_last_turn(*self.place)
            case "fork" if head.position:
                at = number % head.position + 1
                name = await self.memory.fork(*self.place, at=at, name=f"c{len(self.names)}")
                self.names.append(name)
            case "switch":
                self.at = number % len(self.names)
            case "undo":
                await self.memory.undo_summary(*self.place)
            case "drop summaries":
                await self.memory.drop_summaries(*self.place)
            case "pin":
                await self.memory.pin(*self.place, f"m{number % max(self.said, 1) + 1}")
            case "fact":
                await self.memory.facts(*self.place).add("rule", f"rule {number}")
            case "calibrate":
                self.memory.token_counter.calibration.observe(100, 60 + 10 * (number % 9))
            case "budget":
                self.budget = None if number % 3 == 0 else 60 + 20 * number
            case "toggle":
                one = [self.notes, self.history, self.extra][number % 3]
                one.set_enabled(not one.enabled)
            case "instruct":
                self.system.instructions = f"You book trip {number}."
            case "note":
                self.notes.add_message({"role": "system", "content": f"note {number}"})
            case "rename":
                self.notes.name = f"notes {number % 2}"
            case "section" if not self.template.remove_section(self.extra.name):
                self.template.add_section(self.extra, number % 3)
            case "turn":
                self.turn = number % (head.position + 1) or None
            case "limit" if isinstance(self.history, ConversationHistorySection):
                self.history.max_messages = number % 8 or None
            case "forget":
                await self.memory.clear_short_term_memory(SCOPE)

    async def compose(self) -> str:
        """Everything that can be seen of the next context, or of the error in its place."""
        if not self.keeps:
            if isinstance(self.history, SummarizedHistorySection) and self.history.config.swap == "eager":
                self.history.clear_cache()
            await self.memory.clear_short_term_memory(SCOPE)
        params = ComposeParams({"given": 1}, Composition(turn_position=self.turn))
        try:
            made = await self.template.compose(self.memory, *self.place, params, max_tokens=self.budget)
        except AutonomyCtxError as error:
            return f"{type(error).__name__}: {error}"
        if isinstance(self.history, SummarizedHistorySection):
            await self.history.settled()
        return json.dumps(await seen(made, self.memory), default=str)

    async def close(self) -> None:
        await self.template.close()
        await self.memory.close()


async def seen(made: ComposedContext, memory: Memory) -> dict[str, Any]:
    """A context as text and numbers, without the time that it took."""
    return {
        "dicts": [wire.to_dict(message) for message in made.messages],
        # Those of other sections have ids of their own in each memory.
        "stored": [one for one, at in zip(made.messages, made.positions(), strict=True) if at],
        "summaries": [one for one in made.messages if isinstance(one, Summary)],
        "sent": made.to_dicts(),
        "counts": made.counts,
        "tokens": made.tokens,
        "sections": [{**asdict(one), "milliseconds": 0} for one in made.sections],
        "origins": made.origins(),
        "breakpoints": made.breakpoints,
        "omitted": made.omitted,
        "cut": made.cut,
        "facts": made.facts,
        "budget": made.budget,
        "calibration": made.calibration,
        "shared": made.shared,
        "params": dict(made.params),
        "digest": made.digest(),
        "record": [
            {**one, "milliseconds": 0} if isinstance(one, dict) else one
            for one in (await to_record(made, memory))["sections"]
        ],
    }


async def compare(kind: str, arrange: str, steps: list[tuple[str, int]], urls: list[str | None]) -> None:
    worlds = [World(url, kind, arrange, keeps=keeps) for url, keeps in zip(urls, (True, False), strict=True)]
    try:
        for what, number in steps:
            shown = []
            for world in worlds:
                # A turn that a fork has too is not dropped, for example.
                with suppress(AutonomyCtxError):
                    await world.step(what, number)
                shown.append(await world.compose())
            assert shown[0] == shown[1], f"after {what} {number}"
    finally:
        for world in worlds:
            await world.close()


TALK = [("user", 1), ("answer", 1)] * 8


@pytest.mark.parametrize("kind", SECTIONS)
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
# The same messages for an older turn, and for another one.
@example(arrange="given", steps=[*TALK, ("turn", 3), ("nothing", 0), ("turn", 9), ("turn", 0)])
@given(arrange=st.sampled_from(["given", "cache"]), steps=st.lists(STEPS, min_size=4, max_size=50))
def test_a_context_is_the_same_as_one_from_nothing(
    kind: str, arrange: str, steps: list[tuple[str, int]]
) -> None:
    asyncio.run(compare(kind, arrange, steps, [None, None]))


@pytest.mark.parametrize("kind", SECTIONS)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(arrange=st.sampled_from(["given", "cache"]), steps=st.lists(STEPS, min_size=10, max_size=40))
def test_a_context_from_a_file_is_the_same_as_one_from_nothing(
    kind: str, arrange: str, steps: list[tuple[str, int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        urls: list[str | None] = [f"sqlite:///{Path(folder) / name}.db" for name in ("kept", "anew")]
        asyncio.run(compare(kind, arrange, steps, urls))


# A program that deletes a message.
DELETE = """
import asyncio, sys
from autonomy_ctx import Memory

async def delete(url, *place):
    async with Memory(url) as memory:
        assert await memory.delete_message(*place)

asyncio.run(delete(*sys.argv[1:]))
"""


@pytest.mark.parametrize("kind", SECTIONS)
def test_what_another_process_deletes_is_shown_no_more(kind: str, tmp_path: Path) -> None:
    """A deletion in this process drops what was kept; one in another process is seen by the log's head."""

    async def run() -> None:
        url = f"sqlite:///{tmp_path / 'shared.db'}"
        world = World(url, kind, "given", keeps=True)
        for what, number in [("user", 1), ("answer", 1), ("user", 2)]:
            await world.step(what, number)
            assert f"m{world.said}" in await world.compose()
        await anyio.run_process([sys.executable, "-c", DELETE, url, *world.place, "m2"])
        found = await world.compose()
        assert ("m1" in found, "m2" in found, "m3" in found) == (True, False, True)
        await world.close()

    asyncio.run(run())
