"""The limits that hold whatever becomes of the summary, and what each bad setting is told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import few
from summary_models import HeldModel, ScriptedModel, Shown, asks, calls, results, shown, summarized, users

from autonomy_ctx import (
    ContextSummaryConfig,
    Memory,
    Message,
    SummarizedHistorySection,
    create_default_template,
)
from autonomy_ctx.compaction.snapshot import ConversationSnapshot, PendingDigest
from autonomy_ctx.memory.cache import make_store_key
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.store import make_key
from autonomy_ctx.messages import validate_tool_pairing
from autonomy_ctx.stores import Entry, Head, StoredSegment, SummaryState
from autonomy_ctx.testing import StoppedClock

# -- settings -----------------------------------------------------------------------------------------

PARTIAL: dict[str, tuple[dict[str, Any], tuple[int, int, int]]] = {
    "nothing": ({}, (10, 20, 40)),
    "a small ceiling": ({"ceiling": 8}, (4, 8, 16)),
    "the smallest ceiling": ({"ceiling": 2}, (1, 2, 4)),
    "a large floor": ({"floor": 30}, (30, 60, 120)),
    "a small floor": ({"floor": 2}, (2, 20, 40)),
    "a large ceiling": ({"ceiling": 100}, (10, 100, 200)),
    "a hard limit": ({"hard_limit": 21}, (10, 20, 21)),
}


@pytest.mark.parametrize(("given_part", "meant"), PARTIAL.values(), ids=PARTIAL)
def test_what_is_left_out_is_chosen_to_go_with_the_rest(
    given_part: dict[str, Any], meant: tuple[int, int, int]
) -> None:
    template = create_default_template("be kind", context_summary=given_part, model=ScriptedModel())
    section = template.get_section("conversation_history")
    assert isinstance(section, SummarizedHistorySection)
    assert (section.floor, section.ceiling, section.config.hard_limit) == meant


BAD: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"floor": 8, "ceiling": 8}, ValueError, r"floor \(8\) must be less than ceiling \(8\)"),
    ({"floor": 0}, ValueError, "floor must be at least 1, not 0"),
    ({"floor": -1, "ceiling": 4}, ValueError, "floor must be at least 1, not -1"),
    ({"ceiling": 1}, ValueError, "ceiling must be >= 2, not 1"),
    ({"floor": 2.5}, TypeError, "floor must be a whole number >= 1, not 2.5"),
    ({"ceiling": True}, TypeError, "ceiling must be a whole number >= 2, not True"),
    ({"floor": "3"}, TypeError, "floor must be a whole number >= 1, not str"),
    ({"hard_limit": 20}, ValueError, r"hard_limit \(20\) must be more than ceiling \(20\); 40 is usual"),
    ({"size": 0}, ValueError, "size must be >= 128, not 0"),
    ({"parallel": 0}, ValueError, "parallel must be >= 1, not 0"),
    ({"pin_tokens": -1}, ValueError, "pin_tokens must be >= 0, not -1"),
    ({"timeout": 0}, ValueError, "timeout must be a number of seconds > 0, not 0"),
    ({"timeout": "soon"}, ValueError, "timeout must be a number of seconds > 0, not str"),
    ({"instructions": 7}, TypeError, "instructions must be a string, not int"),
    ({"hard_limit_tokens": 1.5}, ValueError, "hard_limit_tokens is 1.5; as a fraction"),
    ({"hard_limit_tokens": 0}, ValueError, "hard_limit_tokens must be >= 1 or None, not 0"),
    (
        {"hard_limit_tokens": 300, "size": 256},
        ValueError,
        "leaves too little room beside a summary of size 256; give at least 512",
    ),
    (
        {"floor_tokens": 900, "ceiling_tokens": 900},
        ValueError,
        r"floor_tokens \(900\) must be less than ceiling_tokens \(900\)",
    ),
    (
        {"ceiling_tokens": 9000, "hard_limit_tokens": 9000},
        ValueError,
        r"hard_limit_tokens \(9000\) must be more than ceiling_tokens \(9000\)",
    ),
    ({"ceiling_tokens": 0.5}, ValueError, "the model's context window is not known"),
]


@pytest.mark.parametrize(("options", "kind", "sentence"), BAD)
def test_a_bad_setting_is_refused_with_a_sentence(
    options: dict[str, Any], kind: type[Exception], sentence: str
) -> None:
    with pytest.raises(kind, match=sentence):
        create_default_template("be kind", context_summary=options, model=ScriptedModel())
    with pytest.raises(kind, match=sentence):
        SummarizedHistorySection(ScriptedModel(), **options)


def test_unknown_options_of_a_section_are_refused_as_python_does() -> None:
    said = r"SummarizedHistorySection.__init__\(\) got an unexpected keyword argument 'cieling'"
    with pytest.raises(TypeError, match=said):
        SummarizedHistorySection(None, cieling=8)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'model'"):
        SummarizedHistorySection(None, model=None)  # type: ignore[call-arg]


def test_a_section_takes_a_config_or_single_options() -> None:
    config, model = ContextSummaryConfig(floor=3, ceiling=6), ScriptedModel()
    assert SummarizedHistorySection(None, config=config).config is config
    assert SummarizedHistorySection(model, config=config).config == replace(config, model=model)
    assert SummarizedHistorySection.of(config).floor == 3
    with pytest.raises(TypeError, match="give a config or pin_tokens, floor, not both"):
        SummarizedHistorySection(None, floor=3, config=config, pin_tokens=100)


def test_unknown_settings_and_other_things_are_refused() -> None:
    said = r"does not know cieling \(did you mean 'ceiling'\?\); it takes floor, ceiling"
    with pytest.raises(ValueError, match=said):
        create_default_template("be kind", context_summary={"cieling": 8})
    with pytest.raises(TypeError, match="context_summary is list; give True, a dict"):
        create_default_template("be kind", context_summary=[1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no `complete_chat`"):
        SummarizedHistorySection("gpt")


@pytest.mark.parametrize("timeout", [float("nan"), float("inf")])
def test_a_timeout_is_a_finite_number(timeout: float) -> None:
    with pytest.raises(ValueError, match="timeout"):
        ContextSummaryConfig(timeout=timeout)


async def test_a_reader_whose_window_gets_too_small_does_not_fail_the_turn(memory: Memory) -> None:
    model = HeldModel(context_window=100_000)
    async with summarized(model, hard_limit_tokens=0.5) as section:
        await asks(memory, 3)
        model.context_window = 4096
        assert (await shown(section, memory)).messages == users(3)


# -- the hard limit in messages -------------------------------------------------------------------------


async def test_without_a_model_no_message_is_digested_twice() -> None:
    memory = Memory()
    async with summarized(None, 4, 8) as section:
        await asks(memory, 300)
        await shown(section, memory)
        await section.settled()
        found, metrics = await shown(section, memory), section.get_metrics()
        assert len(found.window) <= 16
        assert found.segments[0].first == 1
        assert found.segments[-1].last == found.window[0] - 1
        assert metrics["summaries_committed"] > 0
        assert metrics["digests_committed"] == 0


class HeldStore(InProcessStore):
    """Commits a segment only when told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.may_commit = anyio.Event(), anyio.Event()

    async def commit_segment(self, *arguments: Any, **options: Any) -> bool:
        self.asked.set()
        await self.may_commit.wait()
        return await super().commit_segment(*arguments, **options)


async def test_a_digest_is_shown_while_it_is_being_stored() -> None:
    store = HeldStore()
    memory = Memory(store=store)
    async with summarized(ScriptedModel([RuntimeError("down")]), 4, 8) as section:
        await asks(memory, 17)
        first = await shown(section, memory)
        await store.asked.wait()
        pending = section._summarizer.pending_digest(make_store_key(store, make_key("", "ana", "trip")))
        assert pending is not None
        await asks(memory, 8)
        found = await shown(section, memory)
        # It stays as it is, and another one follows it.
        [stored, made] = [(one.first, one.last) for one in found.segments]
        assert stored == (1, pending.segment.last)
        assert made[0] == stored[1] + 1
        assert found.summary_text.startswith(first.summary_text.rstrip())
        store.may_commit.set()
        await section.settled()
        state = await memory.summary("ana", "trip")
        assert [(one.first, one.last) for one in state.segments] == [stored, made]
        assert (await shown(section, memory)).summary_text == found.summary_text


@pytest.mark.parametrize("sentences", [12, 30])
async def test_no_context_passes_the_hard_limit_in_tokens_while_a_digest_is_being_stored(
    sentences: int,
) -> None:
    store = HeldStore()
    memory = Memory(store=store)
    most = 4_096
    async with summarized(
        ScriptedModel([RuntimeError("down")]), hard_limit_tokens=most, size=2_048, facts=False
    ) as section:
        digests = 0
        for at in range(1, 34):
            # Every fifth is larger than the limit alone, and is shown shortened.
            parts = range(sentences if at % 5 else 300)
            text = " ".join(f"Order ORD-{at}{part} waits in depot {part} for {at} days." for part in parts)
            await memory.append("ana", "trip", Message("user", text, id=f"m{at}"))
            found = await shown(section, memory)
            assert memory.token_counter.count_messages(found.messages) <= most
            digests = max(digests, len(found.segments))
            if found.segments:
                await store.asked.wait()
        # One that is being stored, and one that was made for a context.
        assert digests == 2


def test_a_digest_that_does_not_follow_the_summary_is_not_shown() -> None:
    entries = [Entry(at, message) for at, message in enumerate(users(9, start=5), 5)]
    head = Head(position=13, count=13, generation=2)
    state = SummaryState(head, (StoredSegment(first=1, last=4, text="before", tokens=1),))
    snapshot = ConversationSnapshot(state, head, entries, complete=True)

    def pending(first: int, last: int, generation: int = 2) -> PendingDigest:
        return PendingDigest(StoredSegment(first=first, last=last, text="next", tokens=1), generation)

    for other in (None, pending(5, 8, generation=1), pending(1, 8), pending(6, 8), pending(5, 13)):
        assert snapshot.with_pending(other) is snapshot
    shown_next = snapshot.with_pending(pending(5, 8))
    assert [one.text for one in shown_next.state.segments] == ["before", "next"]
    assert [one.position for one in shown_next.entries] == [9, 10, 11, 12, 13]
    # Also where not all before the window was read, as long as the digest reaches it.
    tail = ConversationSnapshot(state, head, entries[3:], complete=False)
    assert tail.with_pending(pending(5, 7)).complete
    assert tail.with_pending(pending(5, 6)) is tail


async def test_with_a_dead_model_no_context_passes_the_hard_limit() -> None:
    clock = StoppedClock()
    memory = Memory(clock=clock)
    model = ScriptedModel([RuntimeError("down")])
    async with summarized(model, 4, 8, clock=lambda: clock().timestamp()) as section:
        for turn in range(1, 201):
            await asks(memory, 1)
            found = await shown(section, memory)
            await section.settled()
            assert len(found.window) <= 16
            assert found.window[-1] == turn
            if turn > 16:
                assert "provisional digest" in found.summary_text
                assert found.segments[0].first == 1
                assert found.segments[-1].last == found.window[0] - 1
            clock.advance(1)
        state = await memory.summary("ana", "trip")
        assert state.covered > 180
        assert state.written == 0
        assert all(one.provisional and one.model == "digest" for one in state.segments)
        assert section.get_metrics()["digests_committed"] > 0

        section._summarizer.writer.breaker.reset()
        model._answers = ["the model is back"]
        clock.advance(400)
        await shown(section, memory)
        await section.settled()
        found = await shown(section, memory)
        assert len(found.window) <= 8
        assert "provisional digest" not in found.summary_text
        assert (await memory.summary("ana", "trip")).written == found.window[0] - 1


async def test_a_digest_moves_in_batches_so_that_the_beginning_stays_the_same(memory: Memory) -> None:
    async with summarized(HeldModel(), 4, 8) as section:
        changes = 0
        before = ""
        for _ in range(40):
            await asks(memory, 1)
            found = await shown(section, memory)
            changes += found.summary_text != before
            before = found.summary_text
        assert 1 <= changes <= 40 / 4 + 1


async def test_a_group_that_cannot_be_divided_is_shown_whole(memory: Memory) -> None:
    ids = [f"c{number}" for number in range(18)]
    async with summarized(HeldModel(), 4, 8) as section:
        await memory.append("ana", "trip", *users(3), calls(*ids, name="many"), *results(*ids))
        found = await shown(section, memory)
        assert found.window[-19:] == list(range(4, 23))
        assert validate_tool_pairing(found.messages) == (True, None)
        assert 3 in found.window


def unnamed(found: Shown, head: int) -> set[int]:
    """Positions that are neither shown, nor in a segment, nor named as left out."""
    known = {position for position in found.positions if position is not None}
    ranges = [(one.first, one.last) for one in found.segments]
    ranges += [(one.first, one.last) for one in found.omitted]
    for first, last in ranges:
        known |= set(range(first, last + 1))
    return set(range(1, head + 1)) - known


GROUPS: dict[str, list[Message]] = {
    "forty parallel calls": [
        *users(3),
        calls(*[f"c{at}" for at in range(40)], name="many"),
        *results(*[f"c{at}" for at in range(40)]),
    ],
    "an unanswered call and a long monologue": [
        *users(3),
        calls("lost", name="one"),
        *[Message("assistant", f"thought {at}", id=f"t{at}") for at in range(40)],
    ],
    "a slow call in a cold conversation": [
        *users(32),
        calls("slow", name="one"),
        *[Message("assistant", f"meanwhile {at}", id=f"t{at}") for at in range(8)],
        *results("slow"),
        *[Message("assistant", f"after that {at}", id=f"u{at}") for at in range(14)],
    ],
}


@pytest.mark.parametrize("talk", GROUPS.values(), ids=GROUPS)
async def test_a_group_larger_than_what_is_read_hides_nothing(memory: Memory, talk: list[Message]) -> None:
    async with summarized(HeldModel(), 4, 8) as section:
        await memory.append("ana", "trip", *talk)
        found = await shown(section, memory)
        assert unnamed(found, len(talk)) == set()
        made = {call.id for message in found.messages for call in message.tool_calls}
        assert {one.tool_call_id for one in found.messages if one.tool_call_id} <= made


async def test_a_history_that_comes_at_once_has_a_digest_in_its_first_context(memory: Memory) -> None:
    told = [
        Message("user", "Never deploy build 7731 on a Friday."),
        *(
            Message("assistant" if at % 2 else "user", f"We looked at ticket T-{at} and closed it.")
            for at in range(299)
        ),
    ]
    await memory.append("ana", "trip", *told)
    async with summarized(HeldModel(), 4, 8) as section:
        found = await shown(section, memory)
        assert found.omitted == ()
        assert len(found.window) <= 16
        assert found.window[-1] == 300
        assert f"[Messages 1 to {found.window[0] - 1}, " in found.summary_text
        # What its user said first and last is read, not all of it.
        assert "Never deploy build 7731 on a Friday" in found.summary_text
        again = await shown(section, memory)
        assert again.messages == found.messages


async def test_a_huge_cold_conversation_is_shown_at_once_and_caught_up(memory: Memory) -> None:
    await memory.append("ana", "trip", *users(3000))
    model = ScriptedModel()
    async with summarized(model, 4, 8) as section:
        found = await shown(section, memory)
        assert found.window[-1] == 3000
        assert len(found.window) <= 16
        [omission] = found.omitted
        assert (omission.first, omission.last) == (1, found.window[0] - 1)
        assert omission.count == omission.last
        assert f"Messages 1 to {omission.last} are not shown yet" in found.summary_text
        await section.settled()
        found = await shown(section, memory)
        assert (found.omitted, len(found.window) <= 8) == ((), True)
        assert (await memory.summary("ana", "trip")).written == found.window[0] - 1


# -- the hard limit in tokens ---------------------------------------------------------------------------

sizes = st.lists(st.sampled_from([1, 5, 20, 60, 200, 900]), min_size=1, max_size=60)
# Many digests of a few words each, with a line above each of them.
SHORT_DIGESTS = [*[1] * 10, 60, 60, 60, 5, 200, 200, 200, 1]


class Sized:
    """One conversation with messages of any size, and a model that answers or does not."""

    def __init__(self, limit: int, size: int, alive: bool) -> None:
        self.memory = Memory()
        words = " ".join(f"word{number}" for number in range(size))
        self.model = ScriptedModel([words if alive else RuntimeError("down")])
        self.limit = limit
        self.options = {"hard_limit_tokens": limit, "size": size}

    async def run(self, sizes: list[int], *, tools: bool = False, pin: bool = False) -> None:
        async with summarized(self.model, 4, 8, **self.options) as section:
            for number, size in enumerate(sizes, start=1):
                text = f"said {number} " + "word " * size
                await self.say(number, text, tools)
                if pin and number % 3 == 0:
                    await self.memory.pin("ana", "trip", f"m{number}")
                for _ in range(2):
                    found = await shown(section, self.memory)
                    assert found.tokens(self.memory.token_counter) <= self.limit
                    if not pin:
                        await self.check(found)
                    await section.settled()

    async def say(self, number: int, text: str, tools: bool) -> None:
        if tools and number % 4:
            made = [calls(f"c{number}", name=f"a{number}"), *results(f"c{number}", text=text)]
            await self.memory.append("ana", "trip", *made)
        else:
            await self.memory.append("ana", "trip", Message("user", text, id=f"m{number}"))

    async def check(self, found: Shown) -> None:
        window = await self.memory.read("ana", "trip")
        assert unnamed(found, window.head.position) == set()
        newest = window.head.last_user
        if newest:
            assert newest in found.window
            [stored] = [entry.message for entry in window.entries if entry.position == newest]
            shown_text = found.messages[found.positions.index(newest)].text
            if (
                self.memory.token_counter.count_messages([stored])
                < (self.limit - 2 * self.options["size"]) // 2
            ):
                assert shown_text == stored.text


@pytest.mark.parametrize("alive", [True, False], ids=["a model", "no model"])
def test_no_mix_of_sizes_passes_the_hard_limit_in_tokens(alive: bool) -> None:
    @few
    @given(sizes=sizes)
    def check(sizes: list[int]) -> None:
        anyio.run(Sized(2000, 256, alive).run, sizes)

    check()


@pytest.mark.parametrize("alive", [True, False], ids=["a model", "no model"])
async def test_a_small_hard_limit_in_tokens_holds_too(alive: bool) -> None:
    await Sized(300, 128, alive).run([1, 1, 1, 1, 1, 200, 1, 1, 200, 60, 60])


@pytest.mark.parametrize("alive", [True, False], ids=["a model", "no model"])
def test_a_hard_limit_in_tokens_hides_nothing_among_tools(alive: bool) -> None:
    @few
    @given(sizes=sizes)
    @example(sizes=SHORT_DIGESTS)
    def check(sizes: list[int]) -> None:
        async def run() -> None:
            await Sized(800, 128, alive).run(sizes, tools=True)

        anyio.run(run)

    check()


async def test_pins_are_part_of_the_hard_limit_in_tokens() -> None:
    await Sized(800, 128, True).run([1, 1, 900, 1], pin=True)


async def test_one_message_that_is_too_large_is_cut_in_the_middle_and_marked(memory: Memory) -> None:
    async with summarized(HeldModel(), hard_limit_tokens=2000, size=256) as section:
        text = "the beginning " + "middle " * 9000 + "the end"
        await memory.append("ana", "trip", *users(2), Message("user", text, id="big"))
        found = await shown(section, memory)
        [shortened] = [one for one in found.messages if one.id == "big"]
        assert shortened.text.startswith("the beginning")
        assert shortened.text.endswith("the end")
        assert "characters are not shown here" in shortened.text
        assert found.tokens(memory.token_counter) <= 2000


async def test_a_large_result_is_cut_and_the_newest_user_message_is_verbatim(memory: Memory) -> None:
    async with summarized(HeldModel(), hard_limit_tokens=2000, size=256) as section:
        question = Message("user", "my question " * 100, id="question")
        await memory.append("ana", "trip", question, calls("a", name="c"), *results("a", text="word " * 9000))
        found = await shown(section, memory)
        assert question in found.messages
        assert validate_tool_pairing(found.messages) == (True, None)
        assert "not shown here" in found.texts[-1]
        assert found.tokens(memory.token_counter) <= 2000


async def test_a_large_result_leaves_what_was_said_around_it_in_view(memory: Memory) -> None:
    async with summarized(HeldModel(), hard_limit_tokens=2000, size=256) as section:
        before, after = users(6), users(2, start=7)
        await memory.append("ana", "trip", *before, calls("a", name="c"), *results("a", text="word " * 9000))
        for said in after:
            await memory.append("ana", "trip", said)
            found = await shown(section, memory)
            assert [one for one in found.messages if one in before] == before
            assert sum("not shown here" in text for text in found.texts) == 1
            assert found.tokens(memory.token_counter) <= 2000


async def test_what_the_limit_in_tokens_leaves_out_is_named(memory: Memory) -> None:
    async with summarized(HeldModel(), 4, 8, hard_limit_tokens=300, size=128) as section:
        ids = [f"c{number}" for number in range(12)]
        talk = [*users(2), calls(*ids, name="c"), *results(*ids, text="word " * 50)]
        await memory.append("ana", "trip", *talk)
        found = await shown(section, memory)
        assert unnamed(found, len(talk)) == set()
        assert found.tokens(memory.token_counter) <= 300
