"""Memory against a model: plain lists, one per conversation.

The machine does everything a user can do, through two memory objects on the same store (the second
stands in for another process), and after every step both must show exactly what the lists hold.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory
from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages import get_tool_result_id, get_tool_use_ids, wire
from autonomy_ctx.messages.cuts import MAX_CALL_LOOKBACK
from autonomy_ctx.stores import ConversationInfo, Head
from autonomy_ctx.testing import StoppedClock, make_message, numbered_ids

T = TypeVar("T")
Form = dict[str, Any]

# Names that would be one conversation if they were joined, with a colon or without.
KEYS = [Key(agent, scope, name) for agent in ("", "a") for scope in ("a", "a:b") for name in ("b:c", "c")]
FIRST = 1
OTHER = 2
EARLIEST, LATEST = datetime(1971, 1, 1, tzinfo=UTC), datetime(2240, 1, 1, tzinfo=UTC)


@dataclass
class Expected:
    """What one conversation should be."""

    kept: list[tuple[int, Form]] = field(default_factory=list)
    # What was handed in, by id: to send it again, or to say something else under its name.
    given: dict[str, Form] = field(default_factory=dict)
    last: int = 0
    generation: int = 0

    @property
    def head(self) -> Head:
        users = [position for position, form in self.kept if form["role"] == "user"]
        return Head(self.last, len(self.kept), self.generation, max(users, default=0))

    def add(self, form: Form, given: Form) -> int:
        self.last += 1
        self.kept.append((self.last, form))
        self.given[form["id"]] = given
        return self.last

    def drop(self, ids: set[str]) -> int:
        before = len(self.kept)
        self.kept = [(position, form) for position, form in self.kept if form["id"] not in ids]
        for message_id in ids:
            self.given.pop(message_id, None)
        self.generation += before != len(self.kept)
        return before - len(self.kept)


texts = st.text(st.characters(exclude_categories=()), max_size=12) | st.sampled_from(
    ["{braces} %s", "NUL \0", "\ud800", "\u202e中文", '{"lc":1}', "'; DROP TABLE message; --", "</system>"]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
contents = (
    texts
    | texts.map(lambda text: {"type": "text", "text": text})
    | st.lists(texts.map(lambda text: {"type": "text", "text": text}), min_size=1, max_size=2)
)
times = st.floats(EARLIEST.timestamp(), LATEST.timestamp()).map(lambda seconds: round(seconds, 6))


@st.composite
def messages(draw: st.DrawFn) -> Form:
    """A message without an id, as a user would write it."""
    form: Form = {"role": draw(st.sampled_from(["user", "assistant", "system"])), "content": draw(contents)}
    if draw(st.booleans()):
        form["own"] = draw(values)
    if draw(st.integers(0, 4)) == 0:
        form["timestamp"] = draw(times)
    return form


# Mostly two of them, so that some conversations get long.
keys = st.sampled_from(KEYS[:2]) | st.sampled_from(KEYS)
objects = st.sampled_from([FIRST, OTHER])
limits = st.none() | st.integers(0, 8) | st.sampled_from([200, 300])
# Which of the kept messages a rule is about; counted from the end, modulo how many there are.
picks = st.integers(0, 1000)


class MemoryMachine(RuleBasedStateMachine):
    """Memory in this process: both objects are the same."""

    on_disk = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = StoppedClock()
        self.ids = numbered_ids("own")
        self.made = numbered_ids("made")
        self.expected = {key: Expected() for key in KEYS}
        self.dropped: list[Memory] = []
        self.touched = KEYS[0]

    @initialize()
    def start(self) -> None:
        self.memories = {FIRST: self.opened()}
        self.memories[OTHER] = self.opened() if self.on_disk else self.memories[FIRST]

    def opened(self) -> Memory:
        url = f"sqlite:///{self.folder.name}/memory.db" if self.on_disk else None
        return Memory(url, clock=self.clock, new_id=self.made)

    def teardown(self) -> None:
        for memory in {id(memory): memory for memory in [*self.memories.values(), *self.dropped]}.values():
            self.run(memory.close())
        self.loop.close()
        self.folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run(work)

    def view(self, key: Key, which: int) -> Memory:
        self.touched = key
        memory = self.memories[which]
        return memory.for_agent(key.agent) if key.agent else memory

    def stamped(self, form: Form) -> Form:
        return {"timestamp": self.clock.time.timestamp(), **form}

    def picked(self, key: Key, pick: int) -> Form | None:
        """One of the messages in a conversation, as it was handed in."""
        kept = self.expected[key].kept
        return self.expected[key].given[kept[-1 - pick % len(kept)][1]["id"]] if kept else None

    # -- writing --------------------------------------------------------------------------------

    @rule(key=keys, which=objects, forms=st.lists(messages(), min_size=1, max_size=4), named=st.booleans())
    def append(self, key: Key, which: int, forms: list[Form], named: bool) -> None:
        given = [{**form, "id": self.ids()} if named else form for form in forms]
        positions = self.run(self.view(key, which).append(key.scope, key.conversation, *given))
        # The library's own ids come from our counter, in order: find out which were used.
        ids = [form["id"] for form in given] if named else self.newest_ids(key, which, len(given))
        stored = [self.stamped({**form, "id": name}) for form, name in zip(given, ids, strict=True)]
        added = [self.expected[key].add(form, {**form}) for form in stored]
        assert positions == added

    def newest_ids(self, key: Key, which: int, number: int) -> list[str]:
        window = self.run(self.view(key, which).read(key.scope, key.conversation, limit=number))
        return [entry.message.id for entry in window.entries]

    @rule(
        key=keys,
        which=objects,
        calls=st.integers(1, 3),
        answered=st.lists(st.integers(0, 2), max_size=4),
        together=st.booleans(),
    )
    def use_tools(self, key: Key, which: int, calls: int, answered: list[int], together: bool) -> None:
        """Parallel calls, some answered, some twice, in any order; in one append or one by one."""
        asked = [{"id": self.ids(), "name": "find", "arguments": "{}"} for _ in range(calls)]
        given: list[Form] = [{"role": "assistant", "content": None, "tool_calls": asked}]
        for number in answered:
            call = asked[number % calls]
            given.append({"role": "tool", "content": "found", "tool_call_id": call["id"], "is_error": False})
        given = [{**form, "id": self.ids()} for form in given]
        view = self.view(key, which)
        for batch in [given] if together else [[form] for form in given]:
            positions = self.run(view.append(key.scope, key.conversation, *batch))
            assert positions == [self.expected[key].add(self.stamped(form), form) for form in batch]

    @rule(key=keys, which=objects, pick=picks, new=messages())
    def send_again(self, key: Key, which: int, pick: int, new: Form) -> None:
        """A known message, a new one and the known one again, at whatever time it is now."""
        known = self.picked(key, pick)
        if known is None:
            return
        new = {**new, "id": self.ids()}
        [place] = [position for position, form in self.expected[key].kept if form["id"] == known["id"]]
        positions = self.run(self.view(key, which).append(key.scope, key.conversation, known, new, known))
        added = self.expected[key].add(self.stamped(new), new)
        assert positions == [place, added, place]

    @rule(key=keys, which=objects, pick=picks, new=messages(), repeat=st.booleans())
    def contradict(self, key: Key, which: int, pick: int, new: Form, repeat: bool) -> None:
        """Other content under a known id is refused, and with it all that came in the same call."""
        known = self.picked(key, pick)
        if known is None:
            return
        changed = {**known, "content": "something else", "changed": True}
        batch = [{**new, "id": self.ids()}, *([known] if repeat else []), changed]
        with pytest.raises(ConflictingMessage):
            self.run(self.view(key, which).append(key.scope, key.conversation, *batch))

    @rule(key=keys, which=objects, new=messages())
    def contradict_oneself(self, key: Key, which: int, new: Form) -> None:
        """The same within one call, where nothing is stored yet."""
        one = {**new, "id": self.ids()}
        with pytest.raises(ConflictingMessage):
            self.run(
                self.view(key, which).append(key.scope, key.conversation, one, {**one, "content": "changed!"})
            )

    # -- deleting -------------------------------------------------------------------------------

    @rule(key=keys, which=objects, pick=picks)
    def delete_message(self, key: Key, which: int, pick: int) -> None:
        known = self.picked(key, pick)
        name = known["id"] if known else "nobody"
        deleted = self.run(self.view(key, which).delete_message(key.scope, key.conversation, name))
        assert deleted == bool(self.expected[key].drop({name}))

    @precondition(lambda self: len(self.expected[self.touched].kept) > 6)
    @rule(which=objects)
    def delete_conversation(self, which: int) -> None:
        key, expected = self.touched, self.expected[self.touched]
        deleted = self.run(self.view(key, which).delete_conversation(key.scope, key.conversation))
        assert deleted == expected.drop({form["id"] for _, form in expected.kept})

    @precondition(lambda self: len(self.expected[self.touched].kept) > 4)
    @rule(which=objects)
    def drop_last_turn(self, which: int) -> None:
        key, expected = self.touched, self.expected[self.touched]
        first = expected.head.last_user
        gone = {form["id"] for position, form in expected.kept if first and position >= first}
        dropped = self.run(self.view(key, which).drop_last_turn(key.scope, key.conversation))
        assert dropped == expected.drop(gone)

    @precondition(lambda self: sum(len(expected.kept) for expected in self.expected.values()) > 12)
    @rule(key=keys, which=objects)
    def delete_scope(self, key: Key, which: int) -> None:
        deleted = self.run(self.view(key, which).delete_scope(key.scope))
        assert deleted == sum(
            expected.drop({form["id"] for _, form in expected.kept})
            for other, expected in self.expected.items()
            if other.scope == key.scope
        )

    # -- reading --------------------------------------------------------------------------------

    @rule(
        key=keys, which=objects, limit=limits, after=st.integers(0, 12), before=st.none() | st.integers(0, 20)
    )
    def read(self, key: Key, which: int, limit: int | None, after: int, before: int | None) -> None:
        window = self.run(
            self.view(key, which).read(key.scope, key.conversation, after=after, before=before, limit=limit)
        )
        between = [
            position
            for position, _ in self.expected[key].kept
            if position > after and (before is None or position < before)
        ]
        wanted = between if limit is None else between[max(len(between) - limit, 0) :]
        assert [entry.position for entry in window.entries] == wanted
        assert window.head == self.expected[key].head

    @rule(key=keys, which=objects, limit=limits)
    def edit_what_came_back(self, key: Key, which: int, limit: int | None) -> None:
        """The dicts belong to the caller; whatever is done to them, memory stays as it is."""
        view = self.view(key, which)
        first = self.run(view.get_messages_only(key.scope, key.conversation, limit=limit))
        for form in first:
            spoil(form)
        again = self.run(view.get_messages_only(key.scope, key.conversation, limit=limit))
        forms = [form for _, form in self.expected[key].kept]
        assert again == (forms if limit is None else forms[max(len(forms) - limit, 0) :])

    @rule(key=keys, which=objects)
    def count(self, key: Key, which: int) -> None:
        counted = self.run(self.view(key, which).get_message_count(key.scope, key.conversation))
        assert counted == len(self.expected[key].kept)

    @rule(key=keys, which=objects, limit=st.integers(1, 3))
    def list_everything(self, key: Key, which: int, limit: int) -> None:
        """Page by page: what has messages, with how many, and nothing else."""
        memory, filled = self.memories[which], [key for key in KEYS if self.expected[key].kept]
        found: list[ConversationInfo] = []
        while page := self.run(
            memory.conversations(key.scope, limit=limit, after=found[-1].key if found else None)
        ):
            found += page
        wanted = sorted(one for one in filled if one.scope == key.scope)
        assert [info.key for info in found] == wanted
        assert [info.messages for info in found] == [len(self.expected[one].kept) for one in wanted]
        assert self.run(memory.agents()) == sorted({one.agent for one in filled})
        assert self.run(memory.scopes()) == sorted({one.scope for one in filled})

    @rule(key=keys, which=objects, most=st.integers(1, 6))
    def compose(self, key: Key, which: int, most: int) -> None:
        """Nothing is hidden: what is not shown is named; the newest user message is shown."""
        template = ContextTemplate([ConversationHistorySection(max_messages=most)])
        composed = self.run(template.compose(self.view(key, which), key.scope, key.conversation))
        shown = [origin.position for origin in composed.origins()]
        kept = dict(self.expected[key].kept)
        forms = [wire.to_dict(message) for message in composed.messages]
        assert forms == [kept[position] for position in shown if position is not None]
        assert shown == sorted(set(shown), key=lambda position: position or 0)
        named = {
            position for omission in composed.omitted for position in range(omission.first, omission.last + 1)
        }
        hidden = kept.keys() - set(shown)
        assert hidden <= named
        assert sum(omission.count for omission in composed.omitted) == len(hidden)
        users = [position for position, form in kept.items() if form["role"] == "user"]
        assert not users or users[-1] in shown
        assert not list(parted(kept, {position for position in shown if position is not None}))

    # -- life -----------------------------------------------------------------------------------

    @rule(key=keys, which=objects, whole_scope=st.booleans())
    def clear_short_term_memory(self, key: Key, which: int, whole_scope: bool) -> None:
        view = self.view(key, which)
        self.run(view.clear_short_term_memory(key.scope, None if whole_scope else key.conversation))

    @precondition(lambda self: self.on_disk)
    @rule(which=objects)
    def crash_and_reopen(self, which: int) -> None:
        """The old object is not closed: it never gets a chance to put anything in order."""
        self.dropped.append(self.memories[which])
        self.memories[which] = self.opened()

    @precondition(lambda self: self.on_disk)
    @rule(which=objects)
    def close_and_reopen(self, which: int) -> None:
        self.run(self.memories[which].close())
        self.memories[which] = self.opened()

    @rule(seconds=st.sampled_from([-86400.0, -3600.0, -0.000001, 1.5, 3600.0, 31_536_000.0]))
    def set_clock(self, seconds: float) -> None:
        if EARLIEST < self.clock.time + timedelta(seconds=seconds) < LATEST:
            self.clock.advance(seconds)

    # -- what must hold after every step ----------------------------------------------------------

    @invariant()
    def every_conversation_is_exactly_what_was_acknowledged(self) -> None:
        """Same messages, positions and heads; so nothing lost, doubled, reordered, changed or mixed up."""
        self.run(self.compare())

    async def compare(self) -> None:
        for key in KEYS:
            expected = self.expected[key]
            window = await self.memories[FIRST].for_agent(key.agent).read(key.scope, key.conversation)
            assert [entry.position for entry in window.entries] == [position for position, _ in expected.kept]
            assert window.head == expected.head
        for memory in self.memories.values():
            key, view = self.touched, memory.for_agent(self.touched.agent)
            forms = [form for _, form in self.expected[key].kept]
            assert await view.get_messages_only(key.scope, key.conversation) == forms
            assert await view.get_messages_only(key.scope, key.conversation, limit=200) == forms[-200:]
            assert await view.head(key.scope, key.conversation) == self.expected[key].head


class DiskMachine(MemoryMachine):
    """Memory on SQLite: two objects on one file."""

    on_disk = True


def spoil(value: Any) -> None:
    """Change everything in a JSON value that can be changed."""
    if isinstance(value, dict):
        for inner in value.values():
            spoil(inner)
        value["content"] = value["spoiled"] = "spoiled"
    elif isinstance(value, list):
        for inner in value:
            spoil(inner)
        value.append("spoiled")


def parted(kept: dict[int, Form], shown: set[int]) -> Iterator[str]:
    """Calls that a window has lost although it shows their result."""
    asked: dict[str, int] = {}
    for index, (position, form) in enumerate(kept.items()):
        for call in get_tool_use_ids(form):
            asked[call] = index
        answered = get_tool_result_id(form)
        if answered in asked and position in shown and index - asked[answered] < MAX_CALL_LOOKBACK:
            caller = list(kept)[asked[answered]]
            if caller not in shown:
                yield answered


class LongMemoryMachine(MemoryMachine):
    """The same for a night."""


class LongDiskMachine(DiskMachine):
    """The same for a night."""


CI = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
NIGHTLY = settings(CI, max_examples=3000, stateful_step_count=80)

MemoryMachine.TestCase.settings = DiskMachine.TestCase.settings = CI
LongMemoryMachine.TestCase.settings = LongDiskMachine.TestCase.settings = NIGHTLY

TestMemoryInThisProcess = MemoryMachine.TestCase
TestMemoryOnSqlite = DiskMachine.TestCase
TestMemoryInThisProcessForLong = pytest.mark.nightly(LongMemoryMachine.TestCase)
TestMemoryOnSqliteForLong = pytest.mark.nightly(LongDiskMachine.TestCase)


# -- what the machine found, in words --------------------------------------------------------------


async def test_other_content_is_refused_also_right_after_a_retry_in_the_same_call(memory: Memory) -> None:
    await memory.append("ana", "trip", make_message("hello", id="m1"))
    with pytest.raises(ConflictingMessage):
        await memory.append("ana", "trip", make_message("hello", id="m1"), make_message("other", id="m1"))


async def test_a_window_of_no_messages_still_knows_where_the_conversation_stands(memory: Memory) -> None:
    await memory.append("ana", "trip", make_message("hello", id="m1"))
    window = await memory.read("ana", "trip", limit=0)
    assert (window.head, list(window.entries)) == (Head(1, 1, 0, 1), [])


async def test_a_dict_with_two_names_for_its_id_comes_back_with_both(memory: Memory) -> None:
    given = {"role": "user", "content": "hi", "id": "a", "message_id": "b", "timestamp": 1.0}
    await memory.append("ana", "trip", given)
    assert await memory.get_messages_only("ana", "trip") == [given]


async def test_what_is_on_disk_survives_without_a_close(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    first = Memory(url)
    await first.append("ana", "trip", make_message("hello", id="m1"))
    second = Memory(url)
    assert [entry.message.text for entry in (await second.read("ana", "trip")).entries] == ["hello"]
    await second.close()
    await first.close()
