"""The cache plan: what changes often stands late, messages keep their origin, and a bad order is named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NOON, histories

from autonomy_ctx import (
    AdditionalContextSection,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SystemInstructionsSection,
    ToolCall,
)
from autonomy_ctx.formats.anthropic import AnthropicFormat
from autonomy_ctx.formats.base import RequestOptions
from autonomy_ctx.formats.bedrock import BedrockFormat
from autonomy_ctx.messages import Segment, Summary
from autonomy_ctx.sections.section import SectionKind
from autonomy_ctx.template import SectionReport
from autonomy_ctx.template.cache_order import (
    PlannedSection,
    arrange_for_cache,
    choose_breakpoints,
    lint_order,
)
from autonomy_ctx.template.context_record import from_record, to_record
from autonomy_ctx.tokens import Price

# What is generated is the messages; that both event loops work is shown by the other tests.
once = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Given:
    """A section of given messages and kind."""

    enabled = True

    def __init__(self, name: str, kind: str, *texts: str, role: str = "system") -> None:
        self.name, self.kind = name, kind
        self.texts, self.role = texts, role
        self.priority = 0
        self.keep = "all"

    def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
        return [{"role": self.role, "content": text} for text in self.texts]


def said(role: str, text: str, **fields: Any) -> Message:
    return Message(role, text, created_at=NOON, **fields)


async def talk_with_a_call() -> Memory:
    memory = await talk()
    call = said("assistant", "", tool_calls=[ToolCall("c", "look", "{}")])
    await memory.append("ana", "trip", call, said("tool", "found", tool_call_id="c"))
    return memory


async def talk() -> Memory:
    memory = Memory()
    asked = [said("user", "one"), said("assistant", "two"), said("user", "three")]
    await memory.append("ana", "trip", *asked)
    return memory


def arranged(*sections: Any) -> ContextTemplate:
    return ContextTemplate(sections, arrange="cache")


def texts(composed: ComposedContext) -> list[str]:
    return [message.text for message in composed.messages]


# -- the order ----------------------------------------------------------------------------------------


async def test_stable_sections_come_first_and_volatile_ones_after_the_newest_user_message() -> None:
    template = arranged(
        Given("now", "volatile", "noon"),
        Given("notes", "slow", "note"),
        ConversationHistorySection(),
        Given("rules", "stable", "rule"),
        Given("news", "volatile", "news"),
        SystemInstructionsSection("system"),
    )
    composed = await template.compose(await talk(), "ana", "trip")
    assert texts(composed) == ["system", "rule", "note", "one", "two", "three", "noon", "news"]


async def test_calls_and_results_of_a_turn_are_appended_to_what_was_sent() -> None:
    memory = await talk()
    template = arranged(Given("now", "volatile", "noon"), ConversationHistorySection())
    first = await template.compose(memory, "ana", "trip")
    call = said("assistant", "", tool_calls=[ToolCall("c", "look", "{}")])
    await memory.append("ana", "trip", call, said("tool", "found", tool_call_id="c"))
    second = await template.compose(memory, "ana", "trip", previous=first)
    assert texts(second)[: len(first)] == texts(first) == ["one", "two", "three", "noon"]
    assert second.shared is not None
    assert second.shared.messages == 4


async def test_the_next_turn_goes_on_and_a_section_that_changed_says_so_at_the_end() -> None:
    memory = await talk()
    changing = Given("now", "volatile", "noon")
    template = arranged(SystemInstructionsSection("system"), changing, ConversationHistorySection())
    first = await template.compose(memory, "ana", "trip")
    await memory.append("ana", "trip", said("assistant", "four"), said("user", "five"))
    changing.texts = ("one o'clock",)
    second = await template.compose(memory, "ana", "trip", previous=first)
    assert second.shared is not None
    assert second.shared.messages == len(first)
    change = "[now, now; replaces what it said before]\none o'clock"
    assert texts(second) == [*texts(first), "four", "five", change]
    assert texts(await template.compose(memory, "ana", "trip"))[-3:] == ["four", "five", "one o'clock"]


async def test_without_a_user_message_volatile_sections_stand_last() -> None:
    memory = Memory()
    await memory.append("ana", "trip", said("assistant", "hello"))
    template = arranged(Given("now", "volatile", "noon"), ConversationHistorySection())
    assert texts(await template.compose(memory, "ana", "trip")) == ["hello", "noon"]
    assert texts(await template.compose(memory, "ana", "empty")) == ["noon"]


async def test_the_order_as_given_stays_what_it_was() -> None:
    sections = [Given("now", "volatile", "noon"), ConversationHistorySection()]
    composed = await ContextTemplate(sections).compose(await talk(), "ana", "trip")
    assert texts(composed) == ["noon", "one", "two", "three"]
    assert [report.runs for report in composed.sections] == [(), ()]


async def test_sections_run_in_their_order_wherever_their_messages_stand() -> None:
    ran: list[str] = []

    def noted(name: str, kind: Any) -> AdditionalContextSection:
        return AdditionalContextSection(name, provider_fn=lambda *_: ran.append(name), kind=kind)

    await arranged(noted("now", "volatile"), noted("rules", "stable")).compose(Memory(), "ana", "trip")
    assert ran == ["now", "rules"]


def test_another_arrangement_is_refused() -> None:
    with pytest.raises(ValueError, match="given or cache"):
        ContextTemplate([], arrange="best")  # type: ignore[arg-type]


async def test_what_is_no_context_or_price_is_refused_by_name() -> None:
    template, composed = arranged(), await arranged().compose(Memory(), "ana", "trip")
    wrong: Any = "yesterday"
    with pytest.raises(TypeError, match="previous is str; it must be a context"):
        await template.compose(Memory(), "ana", "trip", previous=wrong)
    with pytest.raises(TypeError, match="composed is str; it must be a context"):
        template.lint(wrong)
    for no_price in (None, "gpt-5", 3):
        with pytest.raises(TypeError, match="give a Price"):
            composed.estimated_cost(no_price)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="output_tokens must be >= 0, not -1"):
        composed.estimated_cost(PRICE, output_tokens=-1)


# -- where each message comes from ----------------------------------------------------------------------


async def test_a_history_in_two_pieces_is_one_section_with_exact_origins() -> None:
    template = arranged(Given("now", "volatile", "noon", "dry"), ConversationHistorySection())
    composed = await template.compose(await talk_with_a_call(), "ana", "trip")
    report = composed.section("conversation_history")
    assert report is not None
    assert (report.start, report.messages, report.runs) == (0, 5, ((0, 3), (5, 2)))
    assert report.indexes == [0, 1, 2, 5, 6]
    assert [(origin.section, origin.position) for origin in composed.origins()] == [
        ("conversation_history", 1),
        ("conversation_history", 2),
        ("conversation_history", 3),
        ("now", None),
        ("now", None),
        ("conversation_history", 4),
        ("conversation_history", 5),
    ]
    assert sum(section.tokens for section in composed.sections) == composed.tokens


async def test_a_recorded_context_in_two_pieces_comes_back() -> None:
    memory = await talk_with_a_call()
    composed = await arranged(Given("now", "volatile", "noon"), ConversationHistorySection()).compose(
        memory, "ana", "trip"
    )
    form = json.loads(json.dumps(await to_record(composed, memory)))
    again = await from_record(form, "ana", "trip", memory)
    assert again is not None
    assert (again.sections, again.origins()) == (composed.sections, composed.origins())
    assert again.breakpoints == composed.breakpoints


kinds: st.SearchStrategy[SectionKind] = st.sampled_from(["stable", "slow", "volatile"])
names = st.sampled_from(["system_instructions", "conversation_history", "notes", "now", "rules"])


@given(st.lists(st.tuples(names, kinds, histories), max_size=6))
def test_an_arrangement_never_loses_doubles_or_reorders_within_a_section(
    parts: list[tuple[str, Any, list[Message]]],
) -> None:
    sections = [PlannedSection(name=name, kind=kind) for name, kind, _ in parts]
    told = [history for _, _, history in parts]
    pieces = arrange_for_cache(sections, told)
    assert pieces == arrange_for_cache(sections, told)
    for index, history in enumerate(told):
        own = [piece for piece in pieces if piece.section == index]
        assert [one for piece in own for one in history[piece.first : piece.last]] == history
    order = [sections[piece.section] for piece in pieces if piece.last > piece.first]
    firm = [one for one in order if one.name not in ("system_instructions", "conversation_history")]
    assert [one.kind for one in firm] == sorted(
        (one.kind for one in firm), key=["stable", "slow", "volatile"].index
    )
    assert [one.name for one in order if one.name == "system_instructions"] == [
        one.name for one in order[: sum(one.name == "system_instructions" for one in order)]
    ]


@once
@given(history=histories, noise=st.lists(st.text(min_size=1, max_size=5), max_size=3))
async def test_every_message_has_one_origin_whatever_the_history(
    history: list[Message], noise: list[str]
) -> None:
    memory = Memory()
    await memory.append("ana", "trip", *history)
    template = arranged(
        Given("now", "volatile", *noise), Given("rules", "stable", "r"), ConversationHistorySection()
    )
    composed = await template.compose(memory, "ana", "trip")
    stored = {entry.position: entry.message for entry in (await memory.read("ana", "trip")).entries}
    origins = composed.origins()
    assert len(origins) == len(composed)
    shown = [origin.position for origin in origins if origin.section == "conversation_history"]
    assert shown == list(stored)
    for message, origin in zip(composed.messages, origins, strict=True):
        if origin.position is not None:
            assert message.id == stored[origin.position].id


async def test_a_budget_shrinks_a_history_before_volatile_sections() -> None:
    memory = Memory()
    await memory.append("ana", "trip", *[said("user", f"{number} " + "word " * 40) for number in range(9)])
    needed = Given("now", "volatile", "noon")
    needed.priority = 20
    template = ContextTemplate([needed, ConversationHistorySection()], max_tokens=200, arrange="cache")
    composed = await template.compose(memory, "ana", "trip")
    assert composed.tokens <= 200
    assert composed.omitted
    assert [origin.section for origin in composed.origins()][-2:] == ["conversation_history", "now"]
    assert composed.origins()[-2].position == 9


# -- warnings -------------------------------------------------------------------------------------------


def latest(name: str = "now") -> Given:
    """A section that shows only its newest text."""
    section = Given(name, "volatile", "noon")
    section.keep = "latest"
    return section


def test_a_section_that_keeps_the_latest_is_named_with_what_it_costs() -> None:
    sections = [SystemInstructionsSection("s"), latest(), ConversationHistorySection()]
    [warning] = ContextTemplate(sections).lint()
    assert (warning.section, warning.before) == ("now", ("conversation_history",))
    assert 1.8 < warning.cost_factor < 2.5
    assert 'section `now` shows only its newest text (keep="latest")' in warning.problem
    assert "about 3500 tokens" in warning.problem


def test_a_history_of_the_newest_messages_is_named_with_what_it_costs() -> None:
    sections = [SystemInstructionsSection("s"), ConversationHistorySection(max_messages=20)]
    [warning] = ContextTemplate(sections).lint()
    assert (warning.section, warning.before) == ("conversation_history", ())
    assert "shows only the newest 20 messages (max_messages)" in warning.problem
    assert warning.cost_factor > 1.8


def test_sections_whose_changes_are_appended_get_no_warning_wherever_they_stand() -> None:
    sections = [Given("now", "volatile"), SystemInstructionsSection("s"), ConversationHistorySection()]
    assert ContextTemplate(sections).lint() == []
    assert arranged(*reversed(sections)).lint() == []
    off = latest()
    off.enabled = False
    assert ContextTemplate([off, ConversationHistorySection()]).lint() == []


async def test_the_sizes_of_a_composed_context_make_the_estimate() -> None:
    template = ContextTemplate([latest(), ConversationHistorySection()])
    [typical] = template.lint()
    [measured] = template.lint(await template.compose(await talk(), "ana", "trip"))
    assert 1 < measured.cost_factor < 1.1 < typical.cost_factor


def test_the_more_stands_behind_it_the_more_a_section_costs_that_keeps_the_latest() -> None:
    def factor(tokens: int) -> float:
        [warning] = lint_order(
            [
                PlannedSection(name="now", kind="volatile", tokens=500, is_latest=True),
                PlannedSection(name="conversation_history", kind="slow", tokens=tokens),
            ]
        )
        return warning.cost_factor

    assert factor(1000) < factor(4000) < factor(16_000)


# -- breakpoints ----------------------------------------------------------------------------------------


async def test_breakpoints_are_the_end_of_what_is_stable_what_was_sent_and_the_newest() -> None:
    memory = await talk()
    template = ContextTemplate([SystemInstructionsSection("system"), ConversationHistorySection()])
    first = await template.compose(memory, "ana", "trip")
    assert first.breakpoints == (0, 3)
    await memory.append("ana", "trip", said("assistant", "four"), said("user", "five"))
    second = await template.compose(memory, "ana", "trip", previous=first)
    assert second.breakpoints == (0, 3, 5)
    assert (await ContextTemplate([]).compose(memory, "ana", "trip")).breakpoints == ()


async def test_a_cache_is_cut_before_what_is_volatile_and_not_after_it_at_the_end() -> None:
    memory = await talk()
    placed = [Given("now", "volatile", "noon"), SystemInstructionsSection("s"), ConversationHistorySection()]
    composed = await arranged(*placed).compose(memory, "ana", "trip")
    assert texts(composed) == ["s", "one", "two", "three", "noon"]
    assert composed.breakpoints == (0, 3)
    last = ContextTemplate([ConversationHistorySection(), Given("now", "volatile", "noon")])
    assert (await last.compose(memory, "ana", "trip")).breakpoints == (2,)


SUMMARY = Summary([Segment(text="before", first=1, last=4)], created_at=NOON)


def test_a_summary_ends_a_part_that_stays() -> None:
    history = [said("system", "s"), SUMMARY, said("user", "a"), said("assistant", "b"), said("user", "c")]
    slow: list[SectionKind] = ["slow"] * 4
    assert choose_breakpoints(history, ["stable", *slow], 0) == (0, 1, 4)


@given(histories, st.data())
def test_at_most_four_breakpoints_in_order_and_all_within(
    history: list[Message], data: st.DataObject
) -> None:
    history = [SUMMARY, *history]
    own = data.draw(st.lists(kinds, min_size=len(history), max_size=len(history)))
    found = choose_breakpoints(history, own, data.draw(st.integers(0, len(history))))
    assert len(found) <= 4
    assert list(found) == sorted(set(found))
    assert all(0 <= index < len(history) for index in found)


def _marked(turns: Sequence[dict[str, Any]]) -> list[str]:
    return [
        block.get("text", block.get("type"))
        for turn in turns
        for block in turn["content"]
        if "cache_control" in block
    ]


async def test_breakpoints_land_on_the_right_blocks_of_providers() -> None:
    memory = await talk()
    placed = [Given("now", "volatile", "noon"), SystemInstructionsSection("s"), ConversationHistorySection()]
    composed = await arranged(*placed).compose(memory, "ana", "trip")
    asked = RequestOptions(breakpoints=composed.breakpoints)
    body = AnthropicFormat().request("claude-x", composed.messages, asked).body
    assert [block["text"] for block in body["system"] if "cache_control" in block] == ["s"]
    assert _marked(body["messages"]) == ["three"]
    body = BedrockFormat().request("nova-x", composed.messages, asked).body
    point = {"cachePoint": {"type": "default"}}
    assert body["system"] == [{"text": "s"}, point]
    blocks = [block for turn in body["messages"] for block in turn["content"]]
    assert blocks[2:4] == [{"text": "three"}, point]
    assert blocks.count(point) == 1


# -- what a turn costs ----------------------------------------------------------------------------------

PRICE = Price(input=10, cached_input=1, cache_write=12.5, output=50)


async def test_a_turn_costs_less_when_it_begins_as_the_one_before() -> None:
    memory = Memory()
    await memory.append("ana", "trip", said("user", "word " * 2000))
    template = ContextTemplate([ConversationHistorySection()])
    first = await template.compose(memory, "ana", "trip")
    assert first.estimated_cost(PRICE) == pytest.approx(first.tokens * 12.5e-6)
    again = await template.compose(memory, "ana", "trip", previous=first)
    assert again.estimated_cost(PRICE, output_tokens=100) == pytest.approx(again.tokens * 1e-6 + 100 * 50e-6)


async def test_what_is_too_short_for_a_cache_costs_the_same_again() -> None:
    memory, template = await talk(), ContextTemplate([ConversationHistorySection()])
    first = await template.compose(memory, "ana", "trip")
    again = await template.compose(memory, "ana", "trip", previous=first)
    assert again.estimated_cost(PRICE) == first.estimated_cost(PRICE)


def _context(*messages: Message) -> ComposedContext:
    report = SectionReport(
        name="conversation_history",
        kind="slow",
        status="included",
        reason=None,
        start=0,
        messages=len(messages),
        tokens=100 * len(messages),
        milliseconds=0.0,
        positions=(None,) * len(messages),
        omitted=(),
    )
    return ComposedContext(
        scope="ana",
        conversation="trip",
        messages=messages,
        counts=[100] * len(messages),
        sections=[report],
        calibration=1.0,
    )


def test_a_new_segment_leaves_those_before_it_in_the_shared_prefix() -> None:
    one, two = Segment(text="a" * 60, first=1, last=2), Segment(text="b" * 40, first=3, last=4)
    older, newer = _context(Summary([one])), _context(Summary([one, two]), said("user", "hi"))
    found = newer.shared_prefix(older)
    assert (found.messages, found.tokens) == (0, 60)
    assert newer.shared_prefix(_context(said("user", "hi"))).tokens == 0
