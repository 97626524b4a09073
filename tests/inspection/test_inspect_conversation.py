"""Where a conversation stands, and its messages a page at a time."""

from __future__ import annotations

import json

import pytest

from autonomy_ctx import Agent, ContextTemplate, Memory, Message, SummarizedHistorySection
from autonomy_ctx.errors import UnknownConversation, UnknownPosition
from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.inspection import inspect_conversation, read_facts, read_message, read_messages
from autonomy_ctx.memory.encoding import RESULT_LIMIT
from autonomy_ctx.memory.store import MAX_POSITION
from autonomy_ctx.messages.message import TextContent
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tokens import MODELS, ModelInfo, Price

ANA = ("ana", "trip")


async def fill(memory: Memory, count: int) -> list[Message]:
    messages = [
        Message("user" if number % 2 == 0 else "assistant", f"m{number + 1}") for number in range(count)
    ]
    await memory.append(*ANA, *messages)
    return messages


async def test_a_conversation_is_told_with_its_summary_and_its_turns(memory: Memory) -> None:
    history = SummarizedHistorySection(ScriptedModel("They spoke of numbers."), floor=2, ceiling=4)
    agent = Agent(
        "helper", model=ScriptedModel("ok"), memory=memory, context_template=ContextTemplate([history])
    )
    for number in range(5):
        await agent.send(f"number {number} " + "word " * 40, scope="ana", conversation="trip")
        await history.settled()
    report = await inspect_conversation(memory.for_agent("helper"), *ANA)
    assert (report.agent, report.messages, report.head) == ("helper", 10, 10)
    assert report.first_at < report.last_at
    assert (report.floor, report.ceiling) == (2, 4)
    assert report.segments[0].first == 1
    assert report.segments[-1].last == report.covered == report.summarized
    assert report.window == report.head - report.covered
    assert {segment.model for segment in report.segments} == {"scripted"}
    assert report.segments[0].created_at is not None
    assert len(report.turns) == 5
    assert json.loads(json.dumps(report.to_dict())) == report.to_dict()


async def test_the_cost_of_turns_and_that_of_summaries_are_told_apart(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "asked", ModelInfo(name="asked", price=Price(input=1, output=10)))
    monkeypatch.setitem(MODELS, "writer", ModelInfo(name="writer", price=Price(input=2, output=20)))
    usage = Usage(input_tokens=1_000, cached_tokens=600, output_tokens=100)
    asked, writer = (
        ScriptedModel([lambda _: ModelReply(parts=(TextContent("Numbers."),), usage=usage)]) for _ in "ab"
    )
    asked.name, writer.name = "asked", "writer"
    agent = Agent(
        "helper",
        model=asked,
        memory=memory,
        context_summary={"model": writer, "floor": 2, "ceiling": 4},
    )
    for number in range(5):
        await agent.send(f"number {number} " + "word " * 40, scope="ana", conversation="trip")
        await agent.settled()
    report = await inspect_conversation(agent.memory, *ANA)
    assert report.turns_cost == pytest.approx(5 * 0.002)
    assert report.summaries_cost == pytest.approx(sum(one.cost or 0 for one in report.segments))
    read, made = (
        sum(getattr(one, name) for one in report.segments) for name in ("input_tokens", "output_tokens")
    )
    assert report.summaries_cost == pytest.approx((2 * read + 20 * made) / 1e6)
    assert read >= 1_000


async def test_a_summary_that_was_kept_though_it_is_poor_is_told(memory: Memory) -> None:
    names = "ORDER-1234, src/app.py, user_id and v2.3.1"
    for record, is_doubtful in (("They spoke of it.", True), (f"They spoke of {names}.", False)):
        conversation = f"doubtful {is_doubtful}"
        await memory.append("ana", conversation, *(Message("user", f"Use {names}.") for _ in range(5)))
        history = SummarizedHistorySection(ScriptedModel(record), floor=2, ceiling=4)
        await ContextTemplate([history]).compose(memory, "ana", conversation)
        await history.settled()
        [segment] = (await inspect_conversation(memory, "ana", conversation)).segments
        assert segment.is_doubtful is is_doubtful
        assert history.get_metrics()["summaries_doubtful"] == is_doubtful
        await history.close()


async def test_facts_are_told_with_what_replaced_them(memory: Memory) -> None:
    await fill(memory, 2)
    facts = memory.facts(*ANA)
    first = await facts.add("value", "The ferry leaves at 9:40.")
    second = await facts.replace(first.id, "The ferry leaves at 10:20.")
    task = await facts.add("open", "Book the ferry.")
    await facts.done(task.id)
    found = {fact.id: fact for fact in await read_facts(memory, *ANA)}
    assert found[first.id].state == "replaced"
    assert found[first.id].replaced_by == second.id
    assert found[first.id].ended_at == second.created_at
    assert found[second.id].replaced_text == first.text
    assert (found[second.id].state, found[second.id].ended_at) == ("holds", None)
    assert found[task.id].state == "done"
    assert found[task.id].ended_position == 2
    assert found[task.id].ended_at is not None
    assert found[task.id].replaced_by is None
    report = await inspect_conversation(memory, *ANA)
    assert [fact.id for fact in report.facts] == list(found)


async def test_pins_and_forks_are_told(memory: Memory) -> None:
    messages = await fill(memory, 6)
    await memory.pin(*ANA, messages[2].id)
    await memory.fork(*ANA, at=4, name="other")
    report = await inspect_conversation(memory, *ANA)
    assert [(pin.message.position, pin.source) for pin in report.pins] == [(3, "user")]
    assert report.pins[0].pinned_at is not None
    assert report.shared_until == 4
    assert (await inspect_conversation(memory, "ana", "other")).messages == 4


async def test_the_first_message_is_found_where_others_were_deleted(memory: Memory) -> None:
    messages = await fill(memory, 150)
    for message in messages[:140]:
        await memory.delete_message(*ANA, message.id)
    report = await inspect_conversation(memory, *ANA)
    assert (report.messages, report.first_at) == (10, messages[140].created_at)


async def test_a_conversation_without_messages_is_unknown(memory: Memory) -> None:
    for read in (inspect_conversation, read_messages):
        with pytest.raises(UnknownConversation):
            await read(memory, *ANA)
    with pytest.raises(UnknownConversation):
        await read_message(memory, *ANA, 1)


async def test_messages_are_paged_both_ways(memory: Memory) -> None:
    await fill(memory, 25)
    newest = await read_messages(memory, *ANA, limit=10)
    assert [message.position for message in newest.messages] == list(range(16, 26))
    assert (newest.count, newest.head, newest.older, newest.newer) == (25, 25, 16, None)
    before = await read_messages(memory, *ANA, before=newest.older, limit=10)
    assert [message.position for message in before.messages] == list(range(6, 16))
    assert (before.older, before.newer) == (6, 15)
    start = await read_messages(memory, *ANA, after=0, limit=10)
    assert [message.position for message in start.messages] == list(range(1, 11))
    assert (start.older, start.newer) == (None, 10)
    middle = await read_messages(memory, *ANA, after=3, before=8)
    assert [message.position for message in middle.messages] == [4, 5, 6, 7]
    end = await read_messages(memory, *ANA, after=25)
    assert (end.messages, end.newer) == ((), None)


async def test_pages_go_on_over_deleted_messages(memory: Memory) -> None:
    messages = await fill(memory, 40)
    for message in messages[5:35]:
        await memory.delete_message(*ANA, message.id)
    seen, after = [], 0
    while True:
        page = await read_messages(memory, *ANA, after=after, limit=4)
        seen += [message.position for message in page.messages]
        if page.newer is None:
            break
        after = page.newer
    assert seen == [1, 2, 3, 4, 5, 36, 37, 38, 39, 40]


async def test_a_long_text_is_cut_on_a_page_and_whole_by_itself(memory: Memory) -> None:
    await memory.append(*ANA, Message("user", "a" * 50_000))
    page = await read_messages(memory, *ANA)
    [message] = page.messages
    assert (len(message.text), message.characters, message.is_whole) == (20_000, 50_000, False)
    whole = await read_message(memory, *ANA, 1)
    assert (len(whole.text), whole.is_whole) == (50_000, True)


async def test_a_tool_result_that_the_log_cut_is_given_whole(memory: Memory) -> None:
    asked = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    text = "line of a file\n" * (RESULT_LIMIT // 10)
    await memory.append(
        *ANA,
        {"role": "assistant", "content": None, "tool_calls": [asked]},
        {"role": "tool", "tool_call_id": "c1", "content": text},
    )
    page = await read_messages(memory, *ANA, max_characters=None)
    assert not page.messages[1].is_whole
    assert len(page.messages[1].text) < len(text)
    whole = await read_message(memory, *ANA, 2)
    assert (whole.text, whole.is_whole, whole.position) == (text, True, 2)


async def test_a_position_without_a_message_is_named(memory: Memory) -> None:
    await fill(memory, 3)
    with pytest.raises(
        UnknownPosition, match="no message at position 9; the last position of the conversation is 3"
    ):
        await read_message(memory, *ANA, 9)


@pytest.mark.parametrize("limit", [0, 1001, "ten"])
async def test_a_page_has_its_bounds(memory: Memory, limit: int) -> None:
    await fill(memory, 3)
    with pytest.raises((ValueError, TypeError), match="limit"):
        await read_messages(memory, *ANA, limit=limit)


async def test_a_page_after_the_end_of_all_positions_is_empty(memory: Memory) -> None:
    await fill(memory, 3)
    page = await read_messages(memory, *ANA, after=MAX_POSITION - 2_000)
    assert page.messages == ()
