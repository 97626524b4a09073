"""A summarized history against a model: plain lists, and words that say where they came from.

Two processes on one file append, delete, compose and summarize in any order; their summarizers answer
when the machine says so, with every word they were shown. After each context: nothing is hidden,
nothing is there twice, and no word of a deleted message is left.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeVar

import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from summary_models import HeldModel, ModelCall, Shown, shown

from autonomy_ctx import (
    ChatRole,
    Memory,
    Message,
    SchemaSection,
    SummarizedHistorySection,
    SummarySchema,
    ToolCall,
)
from autonomy_ctx.compaction import Background
from autonomy_ctx.messages import safe_cuts
from autonomy_ctx.testing import StoppedClock

T = TypeVar("T")

# Names that would be one conversation if they were joined.
PLACES = [("a", "b:c"), ("a:b", "c")]
WORD = re.compile(r"mk\d+z")


class Process:
    """A memory on the file and a section with a model of its own."""

    def __init__(self, url: str, clock: StoppedClock, options: dict[str, Any]) -> None:
        self.memory = Memory(url, clock=clock, synchronous="NORMAL")
        self.model = HeldModel()
        self.background = Background(grace_seconds=0)
        self.section = SummarizedHistorySection(
            self.model, background=self.background, clock=lambda: clock().timestamp(), **options
        )
        self.answered = 0

    @property
    def unanswered(self) -> list[ModelCall]:
        return self.model.calls[self.answered :]

    async def pump(self) -> None:
        """Let the background go on until it has nothing to do but wait for the model."""
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        while self.background.running > len(self.unanswered):
            await anyio.lowlevel.checkpoint()

    async def close(self) -> None:
        await self.background.aclose()
        await self.memory.close()


@dataclass
class Expected:
    """What one conversation should be."""

    kept: dict[int, Message] = field(default_factory=dict)
    last: int = 0
    pins: set[int] = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)
    # Calls that may still be answered: until a user speaks.
    open_calls: list[str] = field(default_factory=list)
    # The coverage seen last, by generation.
    generation: int = 0
    covered: int = 0

    @property
    def newest_user(self) -> int:
        return max((at for at, message in self.kept.items() if message.role == "user"), default=0)


places = st.sampled_from(PLACES[:1] * 3 + PLACES[1:])
processes = st.sampled_from([0, 1])
picks = st.integers(0, 1000)


class SummaryMachine(RuleBasedStateMachine):
    """With limits in messages."""

    options: dict[str, Any] = {"floor": 3, "ceiling": 6, "hard_limit": 10, "size": 256}  # noqa: RUF012
    # Turns of the assistant between two of the user's.
    longest_run = 5

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = StoppedClock()
        self.expected = {place: Expected() for place in PLACES}
        self.number = 0
        self.run_length = 0

    @initialize()
    def start(self) -> None:
        self.processes = [self.opened(), self.opened()]

    def opened(self) -> Process:
        return Process(f"sqlite:///{self.folder.name}/memory.db", self.clock, self.options)

    def teardown(self) -> None:
        for process in getattr(self, "processes", []):
            self.run(process.close())
        self.loop.close()
        self.folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    # -- saying something -----------------------------------------------------------------------

    def message(self, role: str, size: int = 1, **fields: Any) -> Message:
        self.number += 1
        text = f"mk{self.number}z" + " filler" * size
        return Message(role, text, id=f"m{self.number}", created_at=self.clock(), **fields)

    def store(self, place: tuple[str, str], which: int, *messages: Message) -> None:
        expected = self.expected[place]
        positions = self.run(self.processes[which].memory.append(*place, *messages))
        for position, message in zip(positions, messages, strict=True):
            expected.last += 1
            assert position == expected.last
            expected.kept[position] = message
            if message.role == "user":
                expected.open_calls.clear()
            expected.open_calls += [call.id for call in message.tool_calls if call.id]
            if message.tool_call_id in expected.open_calls:
                expected.open_calls.remove(message.tool_call_id)

    @rule(place=places, which=processes, number=st.integers(1, 8), size=st.integers(1, 60))
    def ask(self, place: tuple[str, str], which: int, number: int, size: int) -> None:
        self.run_length = 0
        self.store(place, which, *[self.message("user", size) for _ in range(number)])

    @rule(place=places, which=processes, size=st.integers(1, 60))
    def reply(self, place: tuple[str, str], which: int, size: int) -> None:
        self.run_length += 1
        if self.run_length > self.longest_run:
            self.ask(place, which, 1, size)
            return
        self.store(place, which, self.message("assistant", size))

    @rule(place=places, which=processes, number=st.integers(1, 3), answered=st.integers(0, 3))
    def use_tools(self, place: tuple[str, str], which: int, number: int, answered: int) -> None:
        self.run_length += 1
        if self.run_length > self.longest_run:
            self.ask(place, which, 1, 1)
        ids = [f"call-{self.number}-{at}" for at in range(number)]
        calls = [ToolCall(one, "look", "{}") for one in ids]
        made = [self.message("assistant", tool_calls=calls)]
        made += [self.message("tool", tool_call_id=one) for one in ids[:answered]]
        self.store(place, which, *made)

    @rule(place=places, which=processes)
    def answer_a_call(self, place: tuple[str, str], which: int) -> None:
        calls = self.expected[place].open_calls
        if calls:
            self.store(place, which, self.message("tool", tool_call_id=calls[0]))

    # -- taking it back ---------------------------------------------------------------------------

    @rule(place=places, which=processes, pick=picks)
    def delete_message(self, place: tuple[str, str], which: int, pick: int) -> None:
        expected = self.expected[place]
        if not expected.kept:
            return
        position = list(expected.kept)[-1 - pick % len(expected.kept)]
        message = expected.kept.pop(position)
        assert self.run(self.processes[which].memory.delete_message(*place, message.id))
        expected.deleted.update(WORD.findall(message.text))
        expected.pins.discard(position)
        gone = {call.id for call in message.tool_calls}
        expected.open_calls = [call for call in expected.open_calls if call not in gone]

    def delete_conversation(self, place: tuple[str, str], which: int) -> None:
        expected = self.expected[place]
        self.run(self.processes[which].memory.delete_conversation(*place))
        for message in expected.kept.values():
            expected.deleted.update(WORD.findall(message.text))
        expected.kept.clear()
        expected.pins.clear()
        expected.open_calls.clear()

    def undo(self, place: tuple[str, str], which: int) -> None:
        self.run(self.processes[which].memory.undo_summary(*place))

    def drop(self, place: tuple[str, str], which: int) -> None:
        process = self.processes[which]
        self.run(process.section.drop_summaries(process.memory, *place))

    @rule(place=places, which=processes, pick=picks, pinned=st.booleans())
    def pin(self, place: tuple[str, str], which: int, pick: int, pinned: bool) -> None:
        expected, memory = self.expected[place], self.processes[which].memory
        if not expected.kept:
            return
        position = list(expected.kept)[pick % len(expected.kept)]
        change = memory.pin if pinned else memory.unpin
        assert self.run(change(*place, expected.kept[position].id))
        (expected.pins.add if pinned else expected.pins.discard)(position)

    # -- the background ---------------------------------------------------------------------------

    @rule(
        which=processes, outcome=st.sampled_from(["good", "good", "good", "fail", "empty", "garbage", "repr"])
    )
    def answer(self, which: int, outcome: str) -> None:
        """Let the oldest call that waits have its answer; one that is never chosen hangs."""
        process = self.processes[which]
        if not process.unanswered:
            return
        call = process.unanswered[0]
        process.answered += 1
        match outcome:
            case "good":
                call.answer(self.record(call))
            case "fail":
                call.answer(RuntimeError("boom"))
            case "empty":
                call.answer("")
            case "garbage":
                call.answer('{"name": "look", "arguments": {}}')
            case "repr":
                call.answer(object())
        self.run(process.pump())

    def record(self, call: ModelCall) -> str:
        return "Record: " + " ".join(dict.fromkeys(WORD.findall(call.prompt)))

    @rule(which=processes)
    def answer_all(self, which: int) -> None:
        process = self.processes[which]
        for _ in range(20):
            if not process.unanswered:
                return
            self.answer(which, "good")

    def clear_cache(self, place: tuple[str, str], which: int) -> None:
        self.processes[which].section.clear_cache(place[0])

    def restart(self, place: tuple[str, str], which: int) -> None:
        self.run(self.processes[which].close())
        self.processes[which] = self.opened()

    @rule(
        place=places,
        which=processes,
        what=st.sampled_from(["undo", "drop", "clear_cache", "restart", "restart", "delete_conversation"]),
    )
    def disturb(self, place: tuple[str, str], which: int, what: str) -> None:
        """What happens now and then; one rule, so that most steps are talk."""
        getattr(self, what)(place, which)

    @rule(seconds=st.sampled_from([-3600.0, 0.5, 2.0, 31.0, 301.0, 86400.0]))
    def set_clock(self, seconds: float) -> None:
        self.clock.advance(seconds)

    # -- composing --------------------------------------------------------------------------------

    @rule(place=places, which=processes)
    def compose(self, place: tuple[str, str], which: int) -> None:
        process = self.processes[which]
        found = self.run(shown(process.section, process.memory, *place))
        state = self.run(process.memory.summary(*place))
        self.check(place, found)
        self.check_coverage(place, state.head.generation, state.covered)
        self.run(process.pump())

    @rule(place=places, which=processes)
    def compose_and_answer(self, place: tuple[str, str], which: int) -> None:
        """A turn with a summarizer that is prompt: what most turns are."""
        self.compose(place, which)
        self.answer_all(which)
        self.compose(place, which)

    @rule(
        place=places,
        which=processes,
        kinds=st.lists(st.sampled_from("uuarttw"), min_size=2, max_size=12),
        prompt=st.booleans(),
    )
    def talk(self, place: tuple[str, str], which: int, kinds: list[str], prompt: bool) -> None:
        """Several turns, with a summarizer that is prompt or one that is late."""
        for kind in kinds:
            match kind:
                case "u":
                    self.ask(place, which, 1, 3)
                case "a":
                    self.reply(place, which, 3)
                case "r":
                    self.answer_a_call(place, which)
                case "t":
                    self.use_tools(place, which, 2, 2)
                case "w":
                    self.use_tools(place, which, 2, 1)
            (self.compose_and_answer if prompt else self.compose)(place, which)

    def check_coverage(self, place: tuple[str, str], generation: int, covered: int) -> None:
        expected = self.expected[place]
        assert generation >= expected.generation
        if generation == expected.generation:
            assert covered >= expected.covered, "coverage went back within a generation"
        expected.generation, expected.covered = generation, covered

    def check(self, place: tuple[str, str], found: Shown) -> None:
        expected = self.expected[place]
        kept, newest, window = expected.kept, expected.newest_user, found.window
        assert found.params["conversation_message_count"] == len(kept)
        covered = self.check_segments(found)
        omitted = {
            at for one in found.omitted if one.what == "messages" for at in range(one.first, one.last + 1)
        }
        fresh = [position for position in window if position > covered]
        assert {at for at in kept if at > covered} <= set(fresh) | omitted, "something is hidden"
        assert window == sorted(set(window))
        assert set(window) - set(fresh) <= {newest}, "something is there twice"
        assert set(window) <= kept.keys()
        assert not newest or newest in window
        self.check_verbatim(place, found)
        self.check_pins(expected, covered, found)
        for message in found.messages:
            words = set(WORD.findall(message.text))
            assert not words & expected.deleted, "a deleted message is still there"
            for other, theirs in self.expected.items():
                said = {word for one in theirs.kept.values() for word in WORD.findall(one.text)}
                assert other == place or not words & said, "another conversation shows through"
        made = {call.id for message in found.messages for call in message.tool_calls}
        stored = {call.id for message in kept.values() for call in message.tool_calls}
        answered = {message.tool_call_id for message in found.messages if message.tool_call_id}
        assert answered & stored <= made, "a result is shown without its call"
        self.check_pairs(expected, set(fresh))
        self.check_hard_limit(expected, fresh)

    def check_segments(self, found: Shown) -> int:
        """Without a gap from the first position on; the last position they stand for."""
        segments = found.segments
        if not segments:
            return 0
        assert segments[0].first == 1
        assert all(after.first == before.last + 1 for before, after in pairwise(segments))
        return segments[-1].last

    def check_verbatim(self, place: tuple[str, str], found: Shown) -> None:
        kept = self.expected[place].kept
        for position, message in zip(found.positions, found.messages, strict=True):
            if position is not None and position in found.window:
                text = message.text.partition("\n")[2] if _is_late(message) else message.text
                assert text == kept[position].text
                assert message.tool_calls == kept[position].tool_calls

    def check_pins(self, expected: Expected, covered: int, found: Shown) -> None:
        wanted = [at for at in sorted(expected.pins) if at <= covered and at != expected.newest_user]
        if found.summary is not None:
            assert found.pins == wanted

    def check_pairs(self, expected: Expected, fresh: set[int]) -> None:
        """A call and its results are shown together or not at all."""
        made = {call.id: at for at, one in expected.kept.items() for call in one.tool_calls}
        users = [at for at, one in expected.kept.items() if one.role is ChatRole.USER]
        for at, message in expected.kept.items():
            caller = made.get(message.tool_call_id or "")
            # A user spoke before the result came: by then the call may have been summarized.
            if caller is not None and not any(caller < user < at for user in users):
                assert (at in fresh) == (caller in fresh), (
                    f"a call at {caller} and its result at {at} are parted"
                )

    def check_hard_limit(self, expected: Expected, fresh: list[int]) -> None:
        """At most so many messages, or one group that cannot be divided."""
        if len(fresh) > self.options["hard_limit"]:
            cuts = safe_cuts([expected.kept[at] for at in fresh])
            assert [cut for cut in cuts if 0 < cut < len(fresh)] == []


def _is_late(message: Message) -> bool:
    return message.text.startswith("[Late result of ")


class TokenMachine(SummaryMachine):
    """With a limit in tokens too: messages may be shortened, never hidden."""

    options: dict[str, Any] = {  # noqa: RUF012
        **SummaryMachine.options,
        "size": 128,
        "hard_limit_tokens": 500,
        "pin_tokens": 60,
    }

    def check(self, place: tuple[str, str], found: Shown) -> None:
        super().check(place, found)
        assert found.tokens(self.processes[0].memory.token_counter) <= 500

    def check_verbatim(self, place: tuple[str, str], found: Shown) -> None:
        kept = self.expected[place].kept
        for position, message in zip(found.positions, found.messages, strict=True):
            if position is not None and position in found.window and message.text != kept[position].text:
                assert "[..." in message.text or _is_late(message), "something was cut without a mark"

    def check_hard_limit(self, expected: Expected, fresh: list[int]) -> None:
        """Of a group with too many tokens a part is shown: whether that could be divided says nothing."""

    def check_pins(self, expected: Expected, covered: int, found: Shown) -> None:
        wanted = {at for at in expected.pins if at <= covered and at != expected.newest_user}
        if found.summary is not None:
            assert set(found.pins) <= wanted
            lost = sorted(wanted - set(found.pins))
            named = [(one.first, one.last, one.count) for one in found.omitted if one.what == "pins"]
            assert named == ([(lost[0], lost[-1], len(lost))] if lost else []), "a pin is hidden silently"


class SchemaMachine(SummaryMachine):
    """With schemas, another one after every start: they may be changed at any time."""

    schemas = (
        SummarySchema(
            "one",
            [
                SchemaSection("Goal", "what is wanted", 0.2, "replace", ["goal"]),
                SchemaSection("Items", "what was said", 0.3, "append"),
                SchemaSection("Course", "what happened", 0.4),
            ],
        ),
        None,
        SummarySchema(
            "two", [SchemaSection("Log", "what was said", 0.6, "append"), SchemaSection("Goal", "x", 0.3)]
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        self.starts = 0

    def opened(self) -> Process:
        schema = self.schemas[self.starts % len(self.schemas)]
        self.starts += 1
        options = {**self.options, "schema": schema}
        return Process(f"sqlite:///{self.folder.name}/memory.db", self.clock, options)

    def record(self, call: ModelCall) -> str:
        """Its words under all headings in turn, and sometimes under none."""
        asked = re.findall(r"(?m)^(\w+) \(.*; about \d+ tokens\)$", call.prompt)
        words = list(dict.fromkeys(WORD.findall(call.prompt)))
        if not asked or len(words) % 5 == 0:
            return super().record(call)
        return "\n".join(
            f"## {name}\nRecord: {' '.join(words[at :: len(asked)])}" for at, name in enumerate(asked)
        )

    def check_segments(self, found: Shown) -> int:
        names = {section.name for schema in self.schemas if schema for section in schema.sections}
        for segment in found.segments:
            headings = re.findall(r"(?m)^## (.*)$", segment.text)
            assert set(headings) <= names
            assert len(headings) == len(set(headings)), "a section is there twice"
        for process in self.processes:
            for place in PLACES:
                state = self.run(process.memory.summary(*place))
                final_segments = [one for one in state.segments if not one.provisional]
                # A quarter more while a merge is tried again.
                assert sum(one.tokens for one in final_segments) <= 256 + 64
        return super().check_segments(found)


class LongSchemaMachine(SchemaMachine):
    """The same for a night."""


class LongTokenMachine(TokenMachine):
    """The same for a night."""


class LongSummaryMachine(SummaryMachine):
    """The same for a night."""


# The same talks every time; those of the night look further.
CI = settings(
    max_examples=50,
    stateful_step_count=40,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
SummaryMachine.TestCase.settings = CI
SchemaMachine.TestCase.settings = settings(CI, max_examples=20)
LONG = settings(CI, max_examples=2000, stateful_step_count=80, derandomize=False)
for machine in (LongSummaryMachine, LongTokenMachine, LongSchemaMachine):
    machine.TestCase.settings = LONG

TestSummaries = SummaryMachine.TestCase
TestSummariesBySchema = SchemaMachine.TestCase
TestSummariesBySchemaForLong = pytest.mark.nightly(LongSchemaMachine.TestCase)
TestSummariesForLong = pytest.mark.nightly(LongSummaryMachine.TestCase)
TestSummariesWithinTokensForLong = pytest.mark.nightly(LongTokenMachine.TestCase)
