"""Old messages in a context: those that fit the question, and none that the history shows."""

from __future__ import annotations

from typing import Any

import pytest

from autonomy_ctx import (
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    Memory,
    RecallSection,
    SummarizedHistorySection,
    create_default_template,
)
from autonomy_ctx.template import SectionReport
from autonomy_ctx.testing import HeldModel, make_message


async def talk(memory: Memory, *texts: str, scope: str = "ana", conversation: str = "trip") -> None:
    start = await memory.get_message_count(scope, conversation) + 1
    roles = ["user", "assistant"]
    messages = [
        make_message(text, id=f"{conversation}{number}", role=roles[(number + 1) % 2])
        for number, text in enumerate(texts, start)
    ]
    await memory.append(scope, conversation, *messages)


def filler(count: int) -> list[str]:
    return [f"We talked about the weather of day {number}." for number in range(count)]


async def composed(memory: Any, section: RecallSection, history: Any = None) -> ComposedContext:
    template = ContextTemplate([history or ConversationHistorySection(max_messages=4), section])
    return await template.compose(memory, "ana", "trip")


def report(context: ComposedContext, name: str = "recall") -> SectionReport:
    return next(one for one in context.sections if one.name == name)


async def test_the_passages_for_the_newest_question_stand_after_the_history(memory: Memory) -> None:
    await talk(memory, "Which hotel did you pick in Riga?", "The Lighthouse Inn.", *filler(20))
    await talk(memory, "What is our hotel in Riga called?")
    context = await composed(memory, RecallSection())
    *history, recalled = context.messages
    assert history[-1].text == "What is our hotel in Riga called?"
    assert recalled.role.value == "user"
    assert "[2] Assistant: The Lighthouse Inn." in recalled.text
    assert recalled.text.count("What is our hotel") == 0, "the question itself is there already"
    assert report(context).tokens <= 1024


async def test_nothing_is_shown_twice(memory: Memory) -> None:
    await talk(memory, *["The hotel in Riga is full."] * 9)
    for history in (ConversationHistorySection(), ConversationHistorySection(max_messages=4)):
        context = await composed(memory, RecallSection(), history)
        shown = set(report(context, "conversation_history").positions)
        recalled = [message.text for message in context.messages if "<recalled " in message.text]
        positions = {number for number in range(1, 10) if recalled and f"[{number}] " in recalled[0]}
        assert not shown & positions
        assert shown | positions == set(range(1, 10))


async def test_what_a_summary_covers_comes_back_verbatim(memory: Memory) -> None:
    model = HeldModel()
    history = SummarizedHistorySection(model, floor=2, ceiling=6)
    await talk(memory, "Which hotel did you pick in Riga?", "The Lighthouse Inn.", *filler(6))
    await talk(memory, "What is our hotel in Riga called?")
    before = await composed(memory, RecallSection(), history)
    assert not [one for one in before.messages if "<recalled " in one.text], "everything is still verbatim"
    (await model.wait_for_call()).answer("They spoke about a hotel and the weather.")
    await history.settled()
    after = await composed(memory, RecallSection(), history)
    assert "[2] Assistant: The Lighthouse Inn." in after.messages[-1].text
    await history.close()


async def test_without_a_history_before_it_only_the_question_is_left_out(memory: Memory) -> None:
    await talk(memory, "Riga hotel", "Inn.", "Riga hotel?")
    context = await ContextTemplate([RecallSection()]).compose(memory, "ana", "trip")
    [recalled] = context.messages
    assert "[1] User: Riga hotel\n[2] Assistant: Inn.\n</recalled" in recalled.text


async def test_other_conversations_are_recalled_only_when_asked_for_and_never_other_scopes(
    memory: Memory,
) -> None:
    await talk(memory, "Riga hotel is Linde", "Yes.", conversation="work")
    await talk(memory, "Riga hotel is secret", "Yes.", scope="bob")
    await talk(memory, *filler(6), "Which hotel in Riga?")
    assert not [one for one in (await composed(memory, RecallSection())).messages if "Linde" in one.text]
    context = await composed(memory, RecallSection(across=True))
    assert "conversation work" in context.messages[-1].text
    assert "Linde" in context.messages[-1].text
    assert "secret" not in str(context.messages)


async def test_the_note_names_conversations_where_there_are_several(memory: Memory) -> None:
    await talk(memory, "Riga hotel is Linde", "Yes.", *filler(6), "Which hotel in Riga?")
    assert (report(await composed(memory, RecallSection())).note or "").startswith("chosen for: [1] words")
    await talk(memory, "Riga hotel is Osta", "Yes.", conversation="work")
    note = report(await composed(memory, RecallSection(across=True))).note or ""
    assert "[trip 1] words" in note
    assert "[work 1] words" in note


def recalled_lines(context: ComposedContext) -> list[str]:
    """The lines of the recalled messages, each from its position on."""
    return [
        line
        for message in context.messages
        if "<recalled " in message.text
        for line in message.text.splitlines()
        if line.startswith("[")
    ]


@pytest.mark.parametrize("reader", ["trip", "fork", "second", "other"])
async def test_what_a_fork_shares_is_recalled_once_and_not_if_it_is_shown(
    memory: Memory, reader: str
) -> None:
    """Also from a third conversation, and from the source: both names have it as a neighbour."""
    hotels = [f"Hotel {number} in Riga is full." for number in range(1, 9)]
    await talk(memory, *hotels)
    await memory.fork("ana", "trip", name="fork")
    await talk(memory, "Riga has the hotel Linde too.", "Noted.", conversation="fork")
    await memory.fork("ana", "fork", at=6, name="second")
    for name in ("trip", "second", "other"):
        await talk(memory, f"In {name}, the hotel in Riga is booked.", f"Good, {name}.", conversation=name)
    await talk(memory, "Which hotel in Riga?", conversation=reader)
    own = [entry.message.text for entry in (await memory.read("ana", reader)).entries]
    for shown in (1, 4, 20):
        template = ContextTemplate(
            [ConversationHistorySection(max_messages=shown), RecallSection(across=True)]
        )
        context = await template.compose(memory, "ana", reader)
        said = [line.split(": ", 1)[1] for line in recalled_lines(context)]
        assert len(said) == len(set(said))
        in_window = own[-shown:]
        assert not set(said) & set(in_window)
        assert {*hotels, "Riga has the hotel Linde too."} <= {*said, *in_window}


async def test_a_window_full_of_shared_messages_leaves_room_to_find_others(memory: Memory) -> None:
    """Messages that are shown do not count among those that a search looks for."""
    await talk(memory, *["The hotel in Riga, Riga, Riga."] * 80)
    await memory.fork("ana", "trip", name="fork")
    await talk(memory, "A long talk about trains and boats, and in passing of a hotel.", conversation="other")
    await talk(memory, "Which hotel in Riga?", conversation="fork")
    template = ContextTemplate([ConversationHistorySection(), RecallSection(across=True, max_tokens=128)])
    context = await template.compose(memory, "ana", "fork")
    assert ["trains and boats" in line for line in recalled_lines(context)] == [True]


async def test_nothing_relevant_gives_no_message(memory: Memory) -> None:
    assert (await composed(memory, RecallSection())).messages == []
    await talk(memory, *filler(10), "And what is it that you are?")
    context = await composed(memory, RecallSection())
    assert (report(context).messages, report(context).reason) == (0, None)
    await talk(memory, "zebra", "no", "giraffe")
    assert report(await composed(memory, RecallSection())).messages == 0


async def test_the_same_turn_gives_the_same_bytes(memory: Memory) -> None:
    await talk(memory, "The hotel in Riga", *filler(9), "Which hotel?")
    first, second = [await composed(memory, RecallSection()) for _ in range(2)]
    assert [one.text for one in first.messages] == [one.text for one in second.messages]
    assert "<recalled " in first.messages[-1].text


@pytest.mark.parametrize("tokens", [128, 200, 500])
async def test_a_budget_of_tokens_is_kept(memory: Memory, tokens: int) -> None:
    await talk(memory, *["The hotel in Riga is full, they say, until the end of the week."] * 40, "Riga?")
    context = await composed(memory, RecallSection(max_tokens=tokens))
    assert 0 < report(context).tokens <= tokens


async def test_a_memory_that_cannot_be_searched_is_reported_and_the_rest_is_there() -> None:
    class Own:
        async def get_messages_only(self, scope: str, conversation: str) -> list[dict[str, Any]]:
            return [{"role": "user", "content": "hello"}]

    context = await composed(Own(), RecallSection())
    assert [one.text for one in context.messages] == ["hello"]
    assert "Own" in (report(context).reason or "")


def test_limits_that_make_no_sense_are_refused() -> None:
    for tokens in (0, -1, 127, 500.0, True):
        with pytest.raises(ValueError, match="max_tokens"):
            RecallSection(max_tokens=tokens)  # type: ignore[arg-type]


async def test_the_framework_describes_exactly_the_recall_tools_when_they_are_on(memory: Memory) -> None:
    names = ("search_history", "read_messages", "expand_summary", "list_facts")
    for on in (False, True):
        [message] = await FrameworkInstructionsSection(enable_recall=on).get_messages(memory, "a", "b", {})
        assert [name in str(message) for name in names] == [on] * 4
        template = create_default_template("Be brief.", enable_recall=on)
        assert ("search_history" in str((await template.compose(memory, "ana", "trip")).messages)) is on
