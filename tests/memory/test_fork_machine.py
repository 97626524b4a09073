"""Forks against a model: plain lists of messages, which conversations share.

The machine does everything to a memory in this process and to two objects on one SQLite file. After every
step each conversation of each memory must be exactly what the lists hold, and summaries, facts and heads
must be the same in all of them. A segment names the messages it was made from, so that one which tells of
a message that its conversation does not have is noticed.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from autonomy_ctx import Memory
from autonomy_ctx.errors import ConflictingMessage, InvalidFork, SharedTurn
from autonomy_ctx.memory.store import Key, StoredSegment, last_final_position
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.testing import StoppedClock, make_message

T = TypeVar("T")
SCOPE = "ana"
WORDS = ("museum", "harbour", "garden")
MOST_CONVERSATIONS = 7
AT = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(eq=False)
class Row:
    """A message; conversations that share it have the same object."""

    id: str
    word: str
    role: str
    owner: str


@dataclass
class Expected:
    """What one conversation should be."""

    rows: dict[int, Row] = field(default_factory=dict)
    last: int = 0
    pins: set[int] = field(default_factory=set)

    @property
    def last_user(self) -> int:
        return max((at for at, row in self.rows.items() if row.role == "user"), default=0)

    def named(self, first: int, last: int) -> str:
        """A text that names the messages of a range."""
        return " ".join(row.id for at, row in sorted(self.rows.items()) if first <= at <= last)


picks = st.integers(0, 1000)


class ForkMachine(RuleBasedStateMachine):
    """One conversation at the start; all others are forks of it, or of its forks."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = StoppedClock()
        self.memories = [Memory(clock=self.clock), self.on_disk(), self.on_disk()]
        self.expected: dict[str, Expected] = {"c0": Expected()}
        self.numbers = iter(range(1, 1_000_000))
        self.searched = False

    def on_disk(self) -> Memory:
        return Memory(f"sqlite:///{self.folder.name}/memory.db", clock=self.clock, synchronous="NORMAL")

    def teardown(self) -> None:
        for memory in self.memories:
            self.loop.run(memory.close())
        self.loop.close()
        self.folder.cleanup()

    def both(self, work: Callable[[Memory], Coroutine[Any, Any, T]]) -> T:
        """Do the same in this process and on disk, through either of its objects; the results are equal."""
        number = next(self.numbers)
        first = self.loop.run(work(self.memories[0]))
        assert self.loop.run(work(self.memories[1 + number % 2])) == first
        return first

    def refused(self, error: type[Exception], work: Callable[[Memory], Coroutine[Any, Any, Any]]) -> None:
        for memory in self.memories:
            with pytest.raises(error):
                self.loop.run(work(memory))

    def conversation(self, pick: int) -> str:
        return list(self.expected)[pick % len(self.expected)]

    def row(self, name: str, pick: int) -> tuple[int, Row] | None:
        rows = sorted(self.expected[name].rows.items())
        return rows[-1 - pick % len(rows)] if rows else None

    # -- messages -------------------------------------------------------------------------------

    @rule(which=picks, words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=4), answered=st.booleans())
    def append(self, which: int, words: list[str], answered: bool) -> None:
        name = self.conversation(which)
        expected = self.expected[name]
        rows = [Row(f"m{next(self.numbers)}", word, "user", name) for word in words]
        if answered:
            rows[-1].role = "assistant"
        messages = [make_message(f"{row.word} {row.id}", id=row.id, role=row.role) for row in rows]
        positions = self.both(lambda memory: memory.append(SCOPE, name, *messages))
        assert positions == list(range(expected.last + 1, expected.last + 1 + len(rows)))
        expected.rows |= dict(zip(positions, rows, strict=True))
        expected.last = positions[-1]

    @rule(which=picks, pick=picks, changed=st.booleans())
    def send_again(self, which: int, pick: int, changed: bool) -> None:
        """A known id, perhaps one that another conversation wrote."""
        name = self.conversation(which)
        if (known := self.row(name, pick)) is None:
            return
        position, row = known
        text = "other" if changed else f"{row.word} {row.id}"
        message = make_message(text, id=row.id, role=row.role)
        if changed:
            self.refused(ConflictingMessage, lambda memory: memory.append(SCOPE, name, message))
        else:
            assert self.both(lambda memory: memory.append(SCOPE, name, message)) == [position]

    @precondition(lambda self: len(self.expected) < MOST_CONVERSATIONS)
    @rule(which=picks, back=st.integers(0, 6), at_head=st.booleans())
    def fork(self, which: int, back: int, at_head: bool) -> None:
        source = self.conversation(which)
        expected = self.expected[source]
        if not expected.rows:
            return
        at = expected.last if at_head else max(expected.last - back, 1)
        name = f"f{next(self.numbers)}"
        self.both(lambda memory: memory.fork(SCOPE, source, at=None if at_head else at, name=name))
        self.expected[name] = Expected(
            {position: row for position, row in expected.rows.items() if position <= at},
            at,
            {position for position in expected.pins if position <= at},
        )
        self.refused(InvalidFork, lambda memory: memory.fork(SCOPE, source, name=name))
        self.refused(InvalidFork, lambda memory: memory.fork(SCOPE, source, at=expected.last + 1))

    # -- deletion -------------------------------------------------------------------------------

    def lose(
        self, gone: set[Row], work: Callable[[Memory], Coroutine[Any, Any, Any]], alone: str = ""
    ) -> None:
        """Delete rows from every conversation; those that lose one have a new generation, the others not."""
        before = {name: self.loop.run(self.memories[0].head(SCOPE, name)) for name in self.expected}
        result = self.both(work)
        assert int(result) == len(gone)
        for name, expected in self.expected.items():
            lost = {at for at, row in expected.rows.items() if row in gone or name == alone}
            expected.rows = {at: row for at, row in expected.rows.items() if at not in lost}
            expected.pins -= lost
            after = self.loop.run(self.memories[0].head(SCOPE, name))
            if name != alone:
                assert after.generation == before[name].generation + bool(lost)

    @rule(which=picks, pick=picks)
    def delete_message(self, which: int, pick: int) -> None:
        name = self.conversation(which)
        if (known := self.row(name, pick)) is not None:
            row = known[1]
            self.lose({row}, lambda memory: memory.delete_message(SCOPE, name, row.id))

    @precondition(lambda self: len(self.expected) > 3)
    @rule(which=picks)
    def delete_conversation(self, which: int) -> None:
        name = self.conversation(which)
        own = {row for row in self.expected[name].rows.values() if row.owner == name}
        self.lose(own, lambda memory: memory.delete_conversation(SCOPE, name), alone=name)

    @rule(which=picks)
    def drop_last_turn(self, which: int) -> None:
        name = self.conversation(which)
        expected = self.expected[name]
        first = expected.last_user
        turn = {row for at, row in expected.rows.items() if first and at >= first}
        others = {row for one in self.expected.values() if one is not expected for row in one.rows.values()}
        if turn & others:
            self.refused(SharedTurn, lambda memory: memory.drop_last_turn(SCOPE, name))
        else:
            self.lose(turn, lambda memory: memory.drop_last_turn(SCOPE, name))

    # -- what is made from messages -------------------------------------------------------------

    @rule(which=picks, pick=picks, pinned=st.booleans())
    def pin(self, which: int, pick: int, pinned: bool) -> None:
        name = self.conversation(which)
        if (known := self.row(name, pick)) is None:
            return
        position, row = known
        pins = self.expected[name].pins
        if pinned:
            pins.add(position)
            assert self.both(lambda memory: memory.pin(SCOPE, name, row.id))
        else:
            pins.discard(position)
            assert self.both(lambda memory: memory.unpin(SCOPE, name, row.id))

    @rule(which=picks, length=st.integers(1, 4), kind=st.sampled_from(["real", "digest", "merge"]))
    def commit(self, which: int, length: int, kind: str) -> None:
        """A segment with a fact for each message, each in the place of one that holds."""
        name = self.conversation(which)
        expected = self.expected[name]
        state = self.loop.run(self.memories[0].summary(SCOPE, name))
        first = state.covered + 1 if kind == "digest" else last_final_position(state.segments) + 1
        last = min(first + length - 1, expected.last)
        merged = [one for one in state.segments if not one.provisional][: length + 1]
        if kind == "merge":
            if len(merged) < 2:
                return
            first, last = merged[0].first, merged[-1].last
        if first > last:
            return
        segment = StoredSegment(
            first=first,
            last=last,
            text=expected.named(first, last),
            tokens=1,
            provisional=kind == "digest",
            level=int(kind == "merge"),
        )
        holding = [fact.id for fact in state.facts if fact.state == "holds"]
        facts = None
        if kind != "merge":
            facts = [
                FactChange(
                    action="replace",
                    position=at,
                    created_at=AT,
                    kind="value",
                    text=row.id,
                    target=holding[at % len(holding)] if holding else None,
                    source="model",
                )
                for at, row in sorted(expected.rows.items())
                if first <= at <= last
            ]
        assert self.both(
            lambda memory: memory.store.commit_segment(
                Key("", SCOPE, name),
                segment,
                generation=state.head.generation,
                fence=None,
                facts=facts,
            )
        )

    @rule(which=picks)
    def undo(self, which: int) -> None:
        name = self.conversation(which)
        self.apart(name, lambda memory: memory.undo_summary(SCOPE, name))

    @rule(which=picks, pick=picks)
    def drop(self, which: int, pick: int) -> None:
        name = self.conversation(which)
        if pick % 4 == 0:
            self.apart(name, lambda memory: memory.drop_summaries(SCOPE, name))

    @rule(which=picks)
    def write_fact(self, which: int) -> None:
        name, text = self.conversation(which), f"users {next(self.numbers)}"
        self.apart(name, lambda memory: memory.facts(SCOPE, name).add("rule", text))

    @rule(which=picks, pick=picks)
    def remove_fact(self, which: int, pick: int) -> None:
        name = self.conversation(which)
        state = self.loop.run(self.memories[0].summary(SCOPE, name))
        if holding := [fact.id for fact in state.facts if fact.state == "holds"]:
            gone = holding[pick % len(holding)]
            self.apart(name, lambda memory: memory.facts(SCOPE, name).remove(gone))

    def apart(self, name: str, work: Callable[[Memory], Coroutine[Any, Any, Any]]) -> None:
        """Do something to one conversation; the others must not change."""
        others = [other for other in self.expected if other != name]
        before = [self.loop.run(self.memories[0].summary(SCOPE, other)) for other in others]
        self.both(work)
        assert [self.loop.run(self.memories[0].summary(SCOPE, other)) for other in others] == before

    # -- reading --------------------------------------------------------------------------------

    @rule(
        which=picks, after=st.integers(0, 12), before=st.none() | st.integers(0, 14), limit=st.integers(0, 9)
    )
    def read(self, which: int, after: int, before: int | None, limit: int) -> None:
        name = self.conversation(which)
        there = [
            at for at in sorted(self.expected[name].rows) if at > after and (before is None or at < before)
        ]
        for memory in self.memories:
            window = self.loop.run(memory.read(SCOPE, name, after=after, before=before, limit=limit))
            assert [entry.position for entry in window.entries] == there[max(len(there) - limit, 0) :]

    @rule(which=picks, word=st.sampled_from(WORDS), whole_scope=st.booleans())
    def search(self, which: int, word: str, whole_scope: bool) -> None:
        """What is shared is found in each conversation; in the whole scope once, where it was said."""
        name = self.conversation(which)
        for memory in self.memories:
            hits = self.loop.run(
                memory.search(SCOPE, word, conversation=None if whole_scope else name, limit=1000)
            )
            found = sorted((hit.conversation, hit.position) for hit in hits)
            rows = [
                (one if not whole_scope else row.owner, at)
                for one, expected in self.expected.items()
                for at, row in expected.rows.items()
                if row.word == word and (whole_scope or one == name)
            ]
            assert found == sorted(set(rows))

    @rule(which=st.integers(1, 2))
    def reopen(self, which: int) -> None:
        self.loop.run(self.memories[which].close())
        self.memories[which] = self.on_disk()

    # -- what must hold after every step ----------------------------------------------------------

    @invariant()
    def every_conversation_is_exactly_what_was_said_in_it(self) -> None:
        self.loop.run(self.compare())

    async def compare(self) -> None:
        listed = sorted(name for name, expected in self.expected.items() if expected.rows)
        for memory in self.memories:
            infos = await memory.conversations(SCOPE)
            assert [info.conversation for info in infos] == listed
            assert [info.messages for info in infos] == [len(self.expected[name].rows) for name in listed]
        for name, expected in self.expected.items():
            states = []
            for memory in self.memories:
                window = await memory.read(SCOPE, name)
                ids = {entry.position: entry.message.id for entry in window.entries}
                assert ids == {at: row.id for at, row in sorted(expected.rows.items())}
                head = window.head
                wanted = (expected.last, len(expected.rows), expected.last_user)
                assert (head.position, head.count, head.last_user) == wanted
                state = await memory.summary(SCOPE, name)
                assert state.head == head == await memory.head(SCOPE, name)
                assert [entry.position for entry in state.pins] == sorted(expected.pins)
                facts = await memory.facts(SCOPE, name).history()
                segments = [replace(one, number=0) for one in state.segments]
                states.append((head, segments, state.facts, facts))
            assert states[1] == states[0] == states[2]
            check_segments(expected, states[0][1])
            here = {row.id for row in expected.rows.values()}
            assert all(fact.source == "user" or fact.text in here for fact in states[0][3])


def check_segments(expected: Expected, segments: list[StoredSegment]) -> None:
    """They cover a prefix without a gap, and tell of nothing but messages that are there."""
    covered = 0
    for segment in segments:
        assert segment.first == covered + 1
        covered = segment.last
        named = expected.named(segment.first, segment.last)
        # The rest of a stand-in also names what is covered by a written one.
        assert named in segment.text if segment.provisional else named == segment.text
        assert set(segment.text.split()) <= {row.id for row in expected.rows.values()}
    assert covered <= expected.last


class LongForkMachine(ForkMachine):
    """The same for a night."""


CI = settings(
    max_examples=40,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ForkMachine.TestCase.settings = CI
LongForkMachine.TestCase.settings = settings(CI, max_examples=2000, stateful_step_count=60)

TestForks = ForkMachine.TestCase
TestForksForLong = pytest.mark.nightly(LongForkMachine.TestCase)
