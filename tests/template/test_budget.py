"""Budgets: never exceeded, what matters stays, and what went is named."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_sections import Does, Says, note
from strategies import NOON, histories, many, pairs, some

from autonomy_ctx import (
    BudgetExceeded,
    ChatRole,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    KnowledgeSection,
    Memory,
    Message,
    RecallSection,
    SummarizedHistorySection,
    SystemInstructionsSection,
)
from autonomy_ctx.knowledge import TextKnowledge
from autonomy_ctx.messages import Segment, Summary
from autonomy_ctx.sections import Omission
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params
from autonomy_ctx.template import BudgetReport, Cut
from autonomy_ctx.tokens import Calibration, TokenCounter

# What is generated is the messages; that both event loops work is shown by the other tests.
once = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Talk(ContributingSection):
    """A conversation as given, at positions from one on; a summary has none."""

    def __init__(self, *messages: Message, name: str = "conversation_history", **options: Any) -> None:
        super().__init__(name)
        self.given = messages
        for option, value in options.items():
            setattr(self, option, value)

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        first = next((m.covers_to + 1 for m in self.given if isinstance(m, Summary)), 1)
        stored = [message for message in self.given if not isinstance(message, Summary)]
        at = {id(message): first + index for index, message in enumerate(stored)}
        positions = [at.get(id(message)) for message in self.given]
        return Contribution(self.given, positions, floor=getattr(self, "floor", 0))


def said(role: str, words: int, name: str = "m") -> Message:
    """A message of about so many tokens."""
    return Message(role, " ".join([name] + ["word"] * (words - 1)), id=name, created_at=NOON)


def talk(turns: int, words: int = 20) -> list[Message]:
    return [
        said(role, words, f"{role[0]}{turn}")
        for turn in range(1, turns + 1)
        for role in ("user", "assistant")
    ]


async def composed(*sections: Any, max_tokens: int | None = None, **options: Any) -> ComposedContext:
    template = ContextTemplate(sections, max_tokens=max_tokens)
    return await template.compose(Memory(), "ana", "trip", **options)


def names(context: ComposedContext) -> list[str]:
    return [message.text.split(" ", 1)[0] for message in context.messages]


def tokens(*messages: Message) -> int:
    counter = TokenCounter()
    return sum(counter.count_messages([message]) for message in messages)


# -- what goes first ----------------------------------------------------------------------------------


async def test_without_a_budget_nothing_is_cut_or_counted() -> None:
    context = await composed(Talk(*talk(50)), tools=[{"name": "a"}])
    assert (len(context), context.cut, context.budget) == (100, [], None)


async def test_within_the_budget_nothing_is_cut() -> None:
    messages = talk(3)
    context = await composed(Talk(*messages), max_tokens=tokens(*messages))
    assert (context.messages, context.cut) == (messages, [])
    total = tokens(*messages)
    assert context.budget == BudgetReport(
        max_tokens=total, reserve_output=0, tools=0, limit=total, used=total
    )


async def test_a_small_budget_keeps_the_newest_messages_in_their_order() -> None:
    messages = talk(20)
    context = await composed(Talk(*messages), max_tokens=150)
    kept = len(context)
    assert 3 <= kept <= 8
    assert context.messages == messages[-kept:]
    assert context.messages[0].role is ChatRole.USER
    reason = "max_tokens=150"
    assert context.omitted == [Omission(first=1, last=40 - kept, count=40 - kept, reason=reason)]
    gone = tokens(*messages[:-kept])
    assert context.cut == [
        Cut(
            section="conversation_history",
            what="left out",
            messages=40 - kept,
            tokens=gone,
            reason=reason,
        )
    ]
    assert [origin.position for origin in context.origins()] == list(range(41 - kept, 41))


async def test_the_lowest_priority_gives_first_and_the_order_of_sections_stays() -> None:
    sections = [
        Says("a", said("system", 100, "a"), priority=2),
        Says("b", said("system", 100, "b"), priority=1),
        Says("c", said("system", 100, "c"), priority=3),
    ]
    assert names(await composed(*sections, max_tokens=330)) == ["a", "b", "c"]
    assert names(await composed(*sections, max_tokens=230)) == ["a", "c"]
    assert names(await composed(*sections, max_tokens=120)) == ["c"]


async def test_among_equals_the_last_section_gives_first() -> None:
    sections = [Says(name, said("system", 100, name)) for name in "abc"]
    assert names(await composed(*sections, max_tokens=230)) == ["a", "b"]


async def test_a_conversation_gives_after_everything_optional() -> None:
    sections = [Says("extra", said("system", 100, "extra")), Talk(*talk(4))]
    assert names(await composed(*sections, max_tokens=tokens(*talk(4)))) == names(
        await composed(Talk(*talk(4)))
    )


async def test_a_section_keeps_its_least_while_others_can_give() -> None:
    extra = [said("system", 20, f"x{number}") for number in range(10)]
    sections = [Says("extra", *extra, min_tokens=100), Talk(*talk(10))]
    context = await composed(*sections, max_tokens=200)
    assert context.sections[0].tokens >= 100
    assert context.messages[: context.sections[0].messages] == extra[-context.sections[0].messages :]
    assert context.sections[1].messages < 20
    # Before there is no context at all, it gives that too.
    assert names(await composed(*sections, max_tokens=60)) == ["u10", "a10"]
    assert names(await composed(*sections, max_tokens=30)) == ["u10"]


async def test_a_call_and_its_results_go_together() -> None:
    call = {"id": "c1", "name": "look", "arguments": "{}"}
    messages = [
        said("user", 20, "u1"),
        Message("assistant", None, tool_calls=[call], id="call"),
        Message("tool", "found " * 60, tool_call_id="c1", id="result"),
        said("assistant", 20, "a1"),
        said("user", 20, "u2"),
    ]
    for budget in range(40, 140):
        shown = {message.id for message in (await composed(Talk(*messages), max_tokens=budget)).messages}
        assert ("call" in shown) == ("result" in shown)
        assert "u2" in shown


async def test_what_is_shown_starts_with_a_users_message_where_one_is_near() -> None:
    for turns in range(60, 90):
        context = await composed(Talk(*talk(turns)), max_tokens=1100)
        assert context.messages[0].role is ChatRole.USER


async def test_a_message_that_cannot_be_shortened_goes_with_its_group() -> None:
    calls = [{"id": f"c{n}", "name": "look_at_" * 20, "arguments": "{}"} for n in range(9)]
    group = [
        Message("assistant", None, tool_calls=calls, id="calls"),
        *(Message("tool", "found", tool_call_id=f"c{n}", id=f"r{n}") for n in range(9)),
    ]
    messages = [said("user", 20, "task"), *group, said("assistant", 20, "done")]
    for budget in (100, 200, 300):
        context = await composed(Talk(*messages), max_tokens=budget)
        assert names(context) == ["task", "done"]
        assert context.tokens <= budget
    assert names(await composed(Talk(*messages[:-1]), max_tokens=300)) == ["task"]


# -- what stays ---------------------------------------------------------------------------------------


async def test_what_is_required_and_no_conversation_is_never_cut() -> None:
    system = said("system", 100, "rules")
    context = await composed(
        SystemInstructionsSection(system),
        Says("law", said("system", 50, "law"), required=True),
        Talk(*talk(9)),
        max_tokens=250,
    )
    assert names(context)[:2] == ["rules", "law"]
    assert names(context)[-1] == "a9"


async def test_the_newest_user_message_stays_when_all_after_it_is_too_much() -> None:
    messages = [*talk(5), said("user", 30, "task"), *(said("assistant", 60, f"step{n}") for n in range(9))]
    context = await composed(Talk(*messages), max_tokens=120)
    assert names(context) == ["task", "step8"]
    assert [(one.first, one.last, one.count) for one in context.omitted] == [(1, 10, 10), (12, 19, 8)]


async def test_an_oversized_task_is_cut_in_the_middle_and_says_how_to_read_it() -> None:
    task = Message("user", "BEGIN " + "word " * 5000 + "END", id="task", created_at=NOON)
    context = await composed(SystemInstructionsSection("Be brief."), Talk(*talk(3), task), max_tokens=200)
    shown = context.messages[-1]
    assert context.tokens <= 200
    assert shown.text.startswith("BEGIN")
    assert shown.text.endswith("END")
    assert re.search(
        r"\[\.\.\. [\d,]+ of 25,009 characters are not shown here; memory has all of message 'task'",
        shown.text,
    )
    assert [(cut.what, cut.messages) for cut in context.cut] == [("left out", 6), ("shortened", 1)]
    assert context.origins()[-1].position == 7


async def test_the_task_is_whole_as_long_as_it_alone_fits() -> None:
    task = said("user", 150, "task")
    context = await composed(
        Says("extra", said("system", 90, "x"), priority=99, min_tokens=90),
        Talk(*talk(3), task),
        max_tokens=170,
    )
    assert context.messages == [task]


async def test_the_newest_user_message_is_that_of_the_conversation_not_of_what_is_recalled() -> None:
    recalled = Talk(*talk(4), name="recalled", required=False)
    assert names(await composed(Talk(*talk(9)), recalled, max_tokens=40)) == ["u9"]


async def test_what_the_user_just_said_is_shortened_after_all_else() -> None:
    side = Talk(said("user", 200, "side"), name="side", required=True, priority=99)
    context = await composed(side, Talk(said("user", 100, "task")), max_tokens=200)
    assert [message.text.count("word") for message in context.messages][1] == 99
    assert [(cut.section, cut.what) for cut in context.cut] == [("side", "shortened")]


async def test_a_summary_that_is_a_stored_message_is_cut_like_any_other(memory: Memory) -> None:
    stored = Summary([Segment(text="fact " * 20, first=1, last=5)], id="s", created_at=NOON)
    await memory.append("ana", "trip", *talk(30), stored, *[replace(m, id=f"{m.id}.2") for m in talk(2)])
    template = ContextTemplate([ConversationHistorySection()], max_tokens=110)
    context = await template.compose(memory, "ana", "trip")
    assert [origin.position for origin in context.origins()] == [62, 63, 64, 65]
    assert [(one.first, one.last) for one in context.omitted] == [(1, 61)]


async def test_a_pin_is_shown_verbatim_or_not_at_all() -> None:
    summary = Summary([Segment(text="fact " * 60, first=1, last=30)], id="s", created_at=NOON)
    messages = [said("user", 100, "pin"), summary, *talk(9)]
    assert names(await composed(Talk(*messages), max_tokens=170)) == ["fact", "u9"]


async def test_a_pin_without_room_in_the_budget_is_named() -> None:
    class Pinned(Talk):
        async def contribute(
            self, memory: Any, scope: str, conversation: str, params: Params
        ) -> Contribution:
            found = await super().contribute(memory, scope, conversation, params)
            assert found.positions is not None
            return replace(found, positions=[3, 7, *found.positions[2:]])

    summary = Summary([Segment(text="fact " * 60, first=1, last=30)], id="s", created_at=NOON)
    pins = [said("user", 100, "old"), said("user", 100, "new")]
    context = await composed(Pinned(*pins, summary, *talk(9)), max_tokens=170)
    assert names(context) == ["fact", "u9"]
    named = [(one.first, one.last, one.count, one.reason) for one in context.omitted if one.what == "pins"]
    assert named == [(3, 7, 2, "max_tokens=170: no room for what is pinned at 3, 7")]


async def test_one_oversized_result_does_not_push_out_the_rest() -> None:
    call = {"id": "c1", "name": "read", "arguments": "{}"}
    messages = [
        *talk(3),
        said("user", 10, "task"),
        Message("assistant", None, tool_calls=[call], id="call"),
        Message("tool", "line " * 9000, tool_call_id="c1", id="result"),
        said("assistant", 10, "done"),
        said("user", 10, "thanks"),
    ]
    context = await composed(Talk(*messages), max_tokens=500)
    assert context.tokens <= 500
    shown = {message.id: message for message in context.messages}
    assert {"task", "call", "result", "done", "thanks"} <= shown.keys()
    assert "memory has all of message 'result'" in shown["result"].text


async def test_a_summary_is_worth_more_than_the_messages_after_it() -> None:
    summary = Summary([Segment(text="fact " * 60, first=1, last=30)], id="s", created_at=NOON)
    pin = said("user", 20, "pin")
    context = await composed(Talk(pin, summary, *talk(9)), max_tokens=200)
    assert context.messages[:2] == [pin, summary]
    assert context.messages[-1].text.startswith("a9")
    [omission] = context.omitted
    assert omission.last == 31 + 18 - (len(context) - 2)
    tight = await composed(Talk(pin, summary, *talk(9)), max_tokens=90)
    assert [type(message) for message in tight.messages] == [Summary, Message]
    assert tight.messages[1].text.startswith("u9")
    less = await composed(Talk(pin, summary, *talk(9)), max_tokens=76)
    assert [type(message) for message in less.messages] == [Summary, Message]
    assert "[..." in less.messages[0].text
    assert [(cut.what, cut.messages) for cut in less.cut] == [("left out", 18), ("shortened", 1)]
    tiny = await composed(Talk(pin, summary, *talk(9)), max_tokens=40)
    assert names(tiny) == ["u9"]
    assert (1, 30, 30) in [(one.first, one.last, one.count) for one in tiny.omitted]


async def test_a_summary_gives_way_before_the_messages_of_the_floor() -> None:
    summary = Summary([Segment(text="fact " * 60, first=1, last=30)], id="s", created_at=NOON)
    history = talk(9)
    last = history[-6:]
    for room in (tokens(*last) + 60, tokens(*last)):
        context = await composed(Talk(summary, *history, floor=6), max_tokens=room)
        assert context.messages[-6:] == last
        assert context.tokens <= room
        assert accounted(context) == set(range(1, 49))
    assert len(context) == 6
    less = await composed(Talk(summary, *history, floor=6), max_tokens=tokens(*history[-4:]))
    assert less.messages == history[-4:]


# -- limits of sections, tools and output -------------------------------------------------------------


async def test_a_section_has_a_limit_of_its_own_without_any_budget() -> None:
    extra = [said("system", 20, f"x{number}") for number in range(9)]
    context = await composed(Says("extra", *extra, max_tokens=80), Talk(*talk(9)))
    assert context.sections[0].tokens <= 80
    assert [name[0] for name in (names(context)[0], names(context)[-1])] == ["x", "a"]
    assert context.sections[1].messages == 18
    assert context.cut[0].reason == "max_tokens=80 of section `extra`"
    assert context.budget is None


async def test_a_text_that_is_not_stored_is_not_said_to_be_in_memory_and_is_cut_the_same_each_time() -> None:
    section = Says("knowledge", note("fact " * 500), max_tokens=100)
    template = ContextTemplate([section])
    first, second = [await template.compose(Memory(), "ana", "trip") for _ in range(2)]
    assert first.digest() == second.digest()
    assert "section `knowledge` has more than there is room for" in first.messages[0].text
    assert "memory" not in first.messages[0].text


async def test_a_required_section_may_be_given_a_limit() -> None:
    system = SystemInstructionsSection("rule " * 500)
    system.max_tokens = 60  # type: ignore[attr-defined]
    context = await composed(system, Talk(*talk(2)), max_tokens=200)
    assert context.sections[0].tokens <= 60
    assert len(context) == 5


async def test_tools_and_the_output_take_their_part() -> None:
    spec = {"name": "look", "description": "word " * 50, "parameters": {"type": "object"}}
    cost = TokenCounter().count_tools([spec])
    template = ContextTemplate([Talk(*talk(30))], max_tokens=500, reserve_output=100)
    context = await template.compose(Memory(), "ana", "trip", tools=[spec, SimpleNamespace(spec=spec)])
    assert context.tokens <= 400 - 2 * cost
    assert context.budget == BudgetReport(
        max_tokens=500,
        reserve_output=100,
        tools=2 * cost,
        limit=400 - 2 * cost,
        used=2 * cost + context.tokens,
    )


async def test_a_call_may_have_another_budget_than_the_template() -> None:
    template = ContextTemplate([Talk(*talk(30))], max_tokens=10_000)
    assert (await template.compose(Memory(), "ana", "trip", max_tokens=100)).tokens <= 100
    assert len(await template.compose(Memory(), "ana", "trip")) == 60


async def test_a_budget_may_be_a_part_of_the_models_window() -> None:
    model = SimpleNamespace(context_window=400)
    template = ContextTemplate([Talk(*talk(30))], max_tokens=0.5, model=model)
    assert (await template.compose(Memory(), "ana", "trip")).budget.max_tokens == 200  # type: ignore[union-attr]
    model.context_window = 300
    assert (await template.compose(Memory(), "ana", "trip")).tokens <= 150
    model.context_window = None
    with pytest.raises(
        ValueError, match=r"max_tokens is a fraction \(0.5\), but the model's context window is not"
    ):
        await template.compose(Memory(), "ana", "trip")


# -- when nothing helps -------------------------------------------------------------------------------


async def test_when_what_is_required_does_not_fit_the_error_has_the_numbers() -> None:
    system = SystemInstructionsSection(said("system", 200, "rules"))
    with pytest.raises(BudgetExceeded) as caught:
        await composed(system, Says("extra"), Talk(*talk(3)), max_tokens=100)
    error = caught.value
    assert error.sections == {"system_instructions": 180, "conversation_history": 23}
    assert (error.needed, error.budget, error.max_tokens) == (203, 100, 100)
    assert str(error) == (
        "the messages that may not be left out need 203 tokens (`system_instructions` 180, "
        "`conversation_history` 23), but messages may have 100 tokens of `max_tokens` 100; "
        "no context was composed: "
        "raise `max_tokens`, or limit a required section with a `max_tokens` of its own"
    )
    assert not isinstance(error, ValueError)


async def test_when_tools_take_the_room_the_error_says_so() -> None:
    template = ContextTemplate([Talk(*talk(3))], max_tokens=300, reserve_output=90)
    tools = [{"name": "look", "description": "word " * 200, "parameters": {}}]
    with pytest.raises(
        BudgetExceeded, match=r"\(\d+ are for tools, 90 for the output\).*or offer fewer tools"
    ) as caught:
        await template.compose(Memory(), "ana", "trip", tools=tools)
    assert caught.value.tools == TokenCounter().count_tools(tools)
    assert "lower `reserve_output`" in str(caught.value)
    with pytest.raises(BudgetExceeded, match="nothing of `max_tokens` 20 is left for messages") as caught:
        await ContextTemplate([Talk(*talk(3))]).compose(Memory(), "ana", "trip", tools=tools, max_tokens=20)
    assert "offer fewer tools" in str(caught.value)
    assert "lower `reserve_output`" not in str(caught.value)


async def test_a_limit_that_a_required_section_cannot_keep_is_an_error() -> None:
    with pytest.raises(
        BudgetExceeded, match=r"`conversation_history` \d+\), but its own `max_tokens` is 10;"
    ):
        await composed(Talk(*talk(3), max_tokens=10))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 0}, "section `x`: max_tokens must be >= 1 or None, not 0"),
        ({"max_tokens": 0.5}, "section `x`: max_tokens must be a whole number >= 1 or None, not 0.5"),
        ({"max_tokens": True}, "section `x`: max_tokens must be a whole number >= 1 or None, not True"),
        ({"min_tokens": -1}, "section `x`: min_tokens must be >= 0, not -1"),
        ({"min_tokens": 9, "max_tokens": 8}, "section `x`: min_tokens (9) is more than max_tokens (8)"),
        ({"priority": "high"}, "section `x`: priority must be a finite number, not str"),
        ({"priority": float("nan")}, "section `x`: priority must be a finite number, not nan"),
    ],
)
def test_bad_limits_of_a_section_are_refused_when_it_joins(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        ContextTemplate([Says("x", **options)])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_tokens": 0}, "max_tokens must be >= 1 or None, not 0"),
        ({"max_tokens": "9"}, "max_tokens must be a whole number >= 1 or None, not str"),
        (
            {"max_tokens": 1.5},
            "max_tokens is 1.5; as a fraction of the context window it is above 0, up to 1",
        ),
        ({"max_tokens": 0.5}, "max_tokens is a fraction (0.5) of a context window; say of which `model`"),
        ({"reserve_output": -1}, "reserve_output must be >= 0, not -1"),
        (
            {"max_tokens": 9, "reserve_output": 9},
            "reserve_output (9) leaves nothing of max_tokens (9) for messages",
        ),
    ],
)
def test_a_bad_budget_is_refused_when_the_template_is_made(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        ContextTemplate([], **options)


async def test_a_bad_budget_of_a_call_is_refused_before_any_section_runs() -> None:
    with pytest.raises(ValueError, match="max_tokens must be >= 1 or None, not 0"):
        await ContextTemplate([]).compose(None, "ana", "trip", max_tokens=0)


async def test_something_among_the_tools_that_is_none_is_named() -> None:
    with pytest.raises(TypeError, match="a str among `tools`: give specs as dicts, or tools with a `spec`"):
        await ContextTemplate([], max_tokens=99).compose(None, "ana", "trip", tools=["look"])


# -- turn after turn ----------------------------------------------------------------------------------


async def test_most_contexts_of_a_growing_conversation_begin_with_the_one_before(memory: Memory) -> None:
    sections = [SystemInstructionsSection("Be brief."), ConversationHistorySection()]
    template = ContextTemplate(sections, max_tokens=3000)
    before: ComposedContext | None = None
    turns = same = over = 0
    for turn in range(200):
        await memory.append("ana", "trip", said("user", 25, f"u{turn}"))
        context = await template.compose(memory, "ana", "trip", previous=before)
        if before is not None and context.cut:
            turns += 1
            same += context.shared is not None and context.shared.messages == len(before)
        assert context.tokens <= 3000
        over += bool(context.cut)
        # A context that is cut leaves room for those that go on from it.
        assert not context.cut or context.tokens > 3000 / 2
        before = context
        await memory.append("ana", "trip", said("assistant", 25, f"a{turn}"))
    assert over >= 100
    assert same / turns >= 0.95


async def test_a_budget_beside_summaries_keeps_the_summary_and_the_last_exchanges(memory: Memory) -> None:
    section = SummarizedHistorySection(None, floor=20, ceiling=40, size=400)
    template = ContextTemplate([section], max_tokens=700)
    for turn in range(60):
        await memory.append("ana", "trip", said("user", 25, f"u{turn}"), said("assistant", 25, f"a{turn}"))
        context = await template.compose(memory, "ana", "trip")
        await section.settled()
        assert context.tokens <= 700
        assert accounted(context) == set(range(1, 2 * turn + 3))
    assert isinstance(context.messages[0], Summary)
    # Summaries follow the budget, so that it need not cut anything, and the last exchanges are there.
    assert context.cut == []
    assert set(range(115, 121)) <= {origin.position for origin in context.origins()}
    await template.close()


async def test_a_large_conversation_is_cut_the_same_on_every_store(memory: Memory) -> None:
    await memory.append("ana", "trip", *talk(600))
    template = ContextTemplate([ConversationHistorySection()], max_tokens=1000)
    context = await template.compose(memory, "ana", "trip")
    assert names(context) == names(await composed(Talk(*talk(600)), max_tokens=1000))


# -- anything -----------------------------------------------------------------------------------------


def accounted(context: ComposedContext) -> set[int]:
    """Every position that is shown, summarized or named as left out."""
    found = {origin.position for origin in context.origins() if origin.position is not None}
    for message in context.messages:
        if isinstance(message, Summary):
            found.update(range(message.covers_from, message.covers_to + 1))
    for omission in context.omitted:
        found.update(range(omission.first, omission.last + 1))
    return found


def swollen(history: Sequence[Message], sizes: Sequence[int]) -> list[Message]:
    """The same with texts of many lengths; numbers stay in front."""
    return [
        replace(message, content=f"{message.text} " + "word " * size)
        if isinstance(message.content, str)
        else message
        for message, size in zip(history, [*sizes, *[3] * len(history)], strict=False)
    ]


sizes = st.lists(st.sampled_from([0, 1, 5, 20, 80, 400, 2000]), max_size=14)
extras = st.lists(st.integers(1, 120), max_size=4)


@once
@many
@given(
    histories, sizes, extras, st.integers(64, 3000), st.integers(50, 200), st.booleans(), st.integers(-1, 20)
)
async def test_any_budget_is_kept_or_refused_and_everything_is_accounted_for(
    history: list[Message],
    lengths: list[int],
    facts: list[int],
    budget: int,
    percent: int,
    summarized: bool,
    priority: int,
) -> None:
    calibration = Calibration()
    calibration.observe(100, percent)
    counter = TokenCounter(calibration=calibration)
    log = swollen(history, lengths)
    summary = [Summary([Segment(text="fact " * 40, first=1, last=5)], id="s", created_at=NOON)]
    given_messages = [*(summary if summarized else []), *log]
    rules = said("system", 20, "rules")
    told_facts = [said("system", words, f"f{number}") for number, words in enumerate(facts)]
    sections = [
        SystemInstructionsSection(rules),
        Does("facts", lambda params: told_facts, priority=priority, min_tokens=30),
        Talk(*given_messages),
    ]
    template = ContextTemplate(sections, max_tokens=budget, token_counter=counter)
    users = [message for message in log if message.role is ChatRole.USER]
    if counter.count_messages([rules]) + 24 > budget:
        return
    context = await template.compose(Memory(), "ana", "trip")
    assert context.tokens == sum(origin.tokens for origin in context.origins()) <= budget
    assert context.tokens == sum(counter.count_messages([message]) for message in context.messages)
    assert context.messages[0] == rules
    # The order is that of the sections and of the log.
    order = [message.id for message in [rules, *told_facts, *given_messages]]
    places = [order.index(message.id) for message in context.messages]
    assert places == sorted(set(places))
    # The newest user message.
    shown = {message.id: message for message in context.messages}
    if users:
        newest = users[-1]
        assert newest.id in shown
        if counter.count_messages([rules]) + counter.count_messages([newest]) <= budget:
            assert shown[newest.id] == newest
    # Calls and their results.
    for call, result in pairs(log):
        if result is not None:
            assert (log[call].id in shown) == (log[result].id in shown)
    start = 6 if summarized else 1
    assert accounted(context) == set(range(1, start + len(log)))
    lost = sum(cut.messages for cut in context.cut if cut.what == "left out")
    assert lost == len(facts) + len(given_messages) + 1 - len(context)
    # The same again.
    again = await template.compose(Memory(), "ana", "trip")
    assert (again.digest(), again.cut) == (context.digest(), context.cut)


@once
@some
@given(st.lists(st.integers(1, 200), min_size=1, max_size=12), st.integers(24, 400), st.booleans())
async def test_any_limit_of_a_section_is_kept_or_refused(words: list[int], limit: int, stored: bool) -> None:
    messages = [said("user", size, f"m{number}") for number, size in enumerate(words)]
    section: Any = Talk(*messages, max_tokens=limit) if stored else Says("notes", *messages, max_tokens=limit)
    try:
        context = await composed(section)
    except BudgetExceeded:
        assert limit < 30
        return
    assert context.tokens <= limit
    assert context.messages[-1].id == messages[-1].id
    assert context.section(section.name).tokens == context.tokens  # type: ignore[union-attr]


# -- messages that may not be cut anywhere -------------------------------------------------------------


@pytest.mark.parametrize("budget", range(60, 1000, 60))
async def test_of_recall_and_knowledge_whole_passages_are_left_between_their_marks(budget: int) -> None:
    memory = Memory()
    for number in range(40):
        await memory.append("ana", "trip", Message("user", f"Vault {number}: " + "word " * 20))
    await memory.append("ana", "trip", Message("user", "What about the vault?"))
    async with TextKnowledge() as base:
        for number in range(5):
            await base.add(f"The vault, rule {number}. " + "word " * 60, source=f"rules {number}")
        for section, mark in ((RecallSection(), "recalled"), (KnowledgeSection(base), "passage")):
            template = ContextTemplate(
                [ConversationHistorySection(max_messages=1), section], max_tokens=budget
            )
            context = await template.compose(memory, "ana", "trip")
            assert context.tokens <= budget
            shown = [message.text for message in context.messages[1:]]
            assert len(shown) == 1 or [cut.what for cut in context.cut] == ["left out"]
            for text in shown:
                assert text.count(f"<{mark} ") == text.count(f"</{mark} ") > 0
                assert text.index("nstructions in") < text.index(f"<{mark} ")
                assert "there is room for" not in text
    await memory.close()


@pytest.mark.parametrize(("made", "left"), [(None, []), ("short", ["short"])])
async def test_a_section_that_makes_its_message_shorter_itself_is_asked(
    made: str | None, left: list[str]
) -> None:
    class Makes(ContributingSection):
        async def contribute(self, *_: Any) -> Contribution:
            def shorter(tokens: int) -> Message | None:
                asked.append(tokens)
                return None if made is None else Message("system", made)

            return Contribution([Message("system", "word " * 500)], shorter=shorter)

    asked: list[int] = []
    context = await composed(Makes("makes"), Talk(*talk(3)), max_tokens=200)
    assert [one.text for one in context.messages if one.role == "system"] == left
    assert asked
    assert max(asked) <= 100
