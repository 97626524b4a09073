"""The model without a network: it repeats what the context says, and says so when that is nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import Agent, ChatContext, Memory, SummarizedHistorySection, tool
from autonomy_ctx.compaction.prompt import batch_prompt, merge_prompt, repair_prompt
from autonomy_ctx.formats.base import CallStarted, ModelReply, ReplyFinished, TextDelta
from autonomy_ctx.formats.output_schema import find_problem, sample_value
from autonomy_ctx.messages import Segment, Summary
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.transcript import transcript
from autonomy_ctx.messages.wire import to_dict
from autonomy_ctx.models.model import Model
from autonomy_ctx.models.offline import NO_ANSWER, NO_QUESTION, NOTED_REPLY, OfflineModel
from autonomy_ctx.tokens import TokenCounter
from autonomy_ctx.tools.builtin.time import get_current_time, get_current_time_utc

COUNTER = TokenCounter()
HISTORY = [
    Message("system", "You are a travel assistant. Answer politely."),
    Message("user", "My name is Ana and my dog is called Bello. I live in Porto."),
    Message("assistant", "Nice to meet you and Bello!"),
    Message("user", "Please never book flights before 9 am, ticket TR-4411 is the reference."),
    Message("assistant", None, tool_calls=[{"id": "c1", "name": "prices", "arguments": '{"to": "Rome"}'}]),
    Message("tool", "Rome: 129 EUR with TAP, 88 EUR with Ryanair", tool_call_id="c1"),
    Message("assistant", "The cheapest to Rome is 88 EUR."),
]


async def ask(
    question: str, history: Sequence[Message | dict[str, Any]] | None = None, **options: Any
) -> str:
    messages = [*(HISTORY if history is None else history), Message("user", question)]
    return str(await Model("offline").complete_chat(messages, **options))


# -- answers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("What is my dog's name?", "User: My name is Ana and my dog is called Bello."),
        ("What was the reference of the ticket?", "TR-4411"),
        ("How much does Ryanair cost?", "Tool prices: Rome: 129 EUR with TAP, 88 EUR with Ryanair"),
        ("Where do I live?", "I live in Porto."),
    ],
)
async def test_it_answers_with_what_the_context_says(question: str, said: str) -> None:
    first = (await ask(question)).splitlines()[1]
    assert said in first


@pytest.mark.parametrize("question", ["What is my sister's passport number?", "Who are you?", "?", "Und?"])
async def test_it_says_so_when_the_context_says_nothing(question: str) -> None:
    assert await ask(question) == NO_ANSWER


async def test_a_fact_that_left_the_context_is_not_known() -> None:
    assert await ask("What is my dog called?", HISTORY[3:]) == NO_ANSWER


async def test_a_summary_in_the_context_is_read_like_anything_else() -> None:
    summary = Summary([Segment(text="- User: my dog is called Bello", first=1, last=9)])
    for shown in (summary, to_dict(summary)):
        assert "- Summary: - User: my dog is called Bello" in await ask("What is my dog called?", [shown])


async def test_a_question_before_a_statement_is_answered() -> None:
    assert "Bello" in await ask("What is my dog called? My cat is called Minka.")


@pytest.mark.parametrize(
    "statement",
    [
        "My cat is called Minka.",
        "I live in Porto!",
        "Please never book flights before 9 am.",
        "我的狗叫小白。",
    ],
)
async def test_a_statement_is_noted(statement: str) -> None:
    assert await ask(statement) == NOTED_REPLY


async def test_a_statement_without_a_full_stop_is_noted_if_the_context_says_nothing_of_it() -> None:
    assert await ask("Minka sleeps outside", HISTORY[3:]) == NOTED_REPLY
    assert "Bello" in await ask("the name of my dog")
    assert "Bello" in await ask("Tell me the name of my dog.")


# -- tools ----------------------------------------------------------------------------------------------


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


@tool
def ferry_times(line: str) -> str:
    """When ferries leave."""
    return line


@tool
def count_free_bikes(kind: Literal["city bike", "e-bike"]) -> int:
    """How many bikes of a kind are free on Saturday."""
    return len(kind)


@tool
def book_bikes(kind: Literal["city bike", "e-bike"], count: int) -> str:
    """Book bikes for Saturday."""
    return kind * count


@tool
def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


@tool
def send_mail(to: str, text: str) -> str:
    """Send a mail."""
    return to + text


@tool
def switch_light(on: bool) -> str:
    """Switch the light."""
    return str(on)


TOOLS = [
    one.spec
    for one in (
        get_weather,
        ferry_times,
        count_free_bikes,
        book_bikes,
        add,
        send_mail,
        switch_light,
        get_current_time_utc,
        get_current_time,
    )
]


@pytest.mark.parametrize(
    ("request_text", "name", "arguments"),
    [
        ("What is the weather in Oslo?", "get_weather", {"city": "Oslo"}),
        ("Tell me the weather in New York City, please.", "get_weather", {"city": "New York City"}),
        ("When do the ferries to Cacilhas leave?", "ferry_times", {"line": "Cacilhas"}),
        ("Are e-bikes free on Saturday?", "count_free_bikes", {"kind": "e-bike"}),
        ("Please book three e-bikes.", "book_bikes", {"kind": "e-bike", "count": 3}),
        ("Add 2 and 3.5", "add", {"a": 2, "b": 3.5}),
        ("What time is it?", "get_current_time", {}),
    ],
)
async def test_a_tool_that_fits_is_called_with_what_the_message_says(
    request_text: str, name: str, arguments: dict[str, Any]
) -> None:
    reply = await Model("offline").complete_chat([*HISTORY, Message("user", request_text)], TOOLS)
    [call] = reply.tool_calls
    assert (call.name, json.loads(call.arguments)) == (name, arguments)
    assert (reply.text, reply.stop) == ("", "tools")


@pytest.mark.parametrize(
    "text",
    [
        # Statements.
        "The weather in Oslo was lovely.",
        "I like the weather in Oslo",
        # About something else.
        "What time does the shop open?",
        "What is my dog called?",
        "What is the deposit for a bike?",
        # Of what was said.
        "What did I say about the weather in Oslo?",
        # An argument is missing, or there are two texts, or a choice.
        "How is the weather?",
        "Book e-bikes.",
        "Send a mail to Bob.",
        "Switch the light.",
        # A record.
        "Summarize the weather in Oslo.",
    ],
)
async def test_no_tool_is_called_that_is_not_needed(text: str) -> None:
    reply = await Model("offline").complete_chat([*HISTORY, Message("user", text)], TOOLS)
    assert reply.tool_calls == ()
    assert reply.text


async def test_an_agent_without_a_network_uses_its_tool_once_in_a_turn() -> None:
    async with Agent(model="offline", tools=[get_weather]) as agent:
        reply = await agent.send("What is the weather in Oslo?")
        assert (str(reply), reply.steps) == ("The context says:\n- Tool get_weather: rain in Oslo", 2)
        again = await agent.send("What is the weather in Porto?")
        assert again.text.splitlines()[1:] == ["- Tool get_weather: rain in Porto"]
        calls = [
            call.id for message in (*reply.messages, *again.messages) for call in message.tool_calls or ()
        ]
        assert len(set(calls)) == 2


@dataclass
class Leg:
    city: str
    kind: Literal["bus", "train"]


@dataclass
class Trip:
    days: int
    start: date
    legs: list[Leg]
    note: str | None = None


async def test_a_structured_answer_fits_its_schema() -> None:
    async with Agent(model="offline", tools=[get_weather]) as agent:
        reply = await agent.send("Plan a trip.", output=Trip)
        assert reply.output == Trip(days=0, start=date(2000, 1, 1), legs=[])
        assert reply.steps == 1
        after_a_call = await agent.send("What is the weather in Oslo?", output=Trip)
        assert (after_a_call.output, after_a_call.steps) == (reply.output, 2)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 3, "maxLength": 5},
        {"type": "array", "items": {"type": "integer", "minimum": 3}, "minItems": 2},
        {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}], "minItems": 3},
        {"type": "number", "exclusiveMinimum": 5},
        {"type": ["integer", "null"]},
        {"anyOf": [{"enum": ["a", "b"]}, {"type": "integer"}]},
        {"allOf": [{"type": "object", "required": ["x"], "properties": {"x": {"const": 7}}}]},
        {},
    ],
)
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    assert find_problem(schema, sample_value(schema)) is None


async def test_a_call_is_streamed() -> None:
    stream = await Model("offline").complete_chat(
        [Message("user", "What is the weather in Oslo?")], TOOLS, stream=True
    )
    started, finished = [event async for event in stream]
    assert isinstance(started, CallStarted)
    assert started.name == "get_weather"
    assert isinstance(finished, ReplyFinished)


async def test_an_earlier_question_is_no_answer() -> None:
    before = [Message("user", "Where is Minka?"), Message("assistant", "I cannot say.")]
    assert await ask("Where is Minka?", before) == NO_ANSWER


async def test_what_it_quoted_before_is_quoted_once() -> None:
    said = Message("user", "Minka sleeps on the sofa.")
    quoted = await ask("Where does Minka sleep?", [said])
    history = [said, Message("user", "Where does Minka sleep?"), Message("assistant", quoted)]
    assert await ask("Does Minka sleep on the sofa?", history[::2]) == quoted
    # Without the message itself the quotation is all there is.
    assert "Minka sleeps on the sofa." in await ask("Does Minka sleep on the sofa?", history[1:])


async def test_a_document_before_the_question_in_one_message_is_context() -> None:
    text = (
        "Minka sleeps on the sofa.\n\n"
        + "Nothing else happened that day. " * 20
        + "\n\nWhere does Minka sleep?"
    )
    assert "Minka sleeps on the sofa." in await ask(text, [])


async def test_questions_in_chinese_are_answered() -> None:
    history = [Message("user", "我的狗叫小白。我住在上海。")]
    assert "我的狗叫小白" in (await ask("狗叫什么？", history)).splitlines()[1]  # noqa: RUF001
    assert await ask("价格多少？", history) == NO_ANSWER  # noqa: RUF001


async def test_without_a_user_there_is_no_question() -> None:
    assert str(await Model("offline").complete_chat([{"role": "system", "content": "x"}])) == NO_QUESTION
    assert str(await OfflineModel().complete_chat([])) == NO_QUESTION


async def test_it_is_always_the_same_and_usage_is_counted() -> None:
    messages = [*HISTORY, Message("user", "Where do I live?")]
    tools = [{"name": "t", "description": "d", "parameters": {"type": "object", "properties": {}}}]
    one, two = [await Model("offline").complete_chat(messages, tools) for _ in range(2)]
    assert one == two
    assert (one.stop, one.model, one.tool_calls) == ("end", "offline", ())
    assert one.usage.input_tokens == COUNTER.count_messages(messages) + COUNTER.count_tools(tools)
    assert one.usage.output_tokens == COUNTER.count_text(one.text)


async def test_a_limit_of_tokens_is_kept_and_said() -> None:
    reply = await Model("offline").complete_chat([*HISTORY, Message("user", "Rome EUR?")], max_tokens=20)
    assert reply.stop == "length"
    assert COUNTER.count_text(reply.text) <= 20


async def test_it_streams() -> None:
    messages = [*HISTORY, Message("user", "Where do I live?")]
    async with await Model("offline").complete_chat(messages, stream=True) as stream:
        *pieces, last = [event async for event in stream]
    assert isinstance(last, ReplyFinished)
    assert "".join(piece.text for piece in pieces if isinstance(piece, TextDelta)) == str(last.reply)
    assert last.reply == await Model("offline").complete_chat(messages)


async def test_a_huge_context_is_read_too() -> None:
    noise = [Message("tool", "lorem ipsum dolor. " * 20_000, tool_call_id="c9")]
    assert "Bello" in await ask("What is my dog called?", [*HISTORY, *noise])


@given(st.lists(st.text(max_size=60), max_size=5), st.text(max_size=60))
def test_no_text_makes_it_fail_or_say_what_nobody_said(said: list[str], question: str) -> None:
    messages = [*(Message("user", text) for text in said), Message("user", question)]
    reply = OfflineModel()._reply(messages, (), None)
    assert isinstance(reply, ModelReply)
    known = " ".join(" ".join(text.split()) for text in [*said, question])
    for line in str(reply).splitlines()[1:]:
        body = line.removeprefix("- User: ").partition(" ... ")[0]
        assert body in known or body.startswith("[no text]")


# -- records ------------------------------------------------------------------------------------------


async def test_a_record_is_a_digest_of_the_conversation() -> None:
    source = transcript(HISTORY[1:], counter=COUNTER)
    prompt = batch_prompt(source, ["- User: older things"], cap=96, instructions=None)
    reply = await Model("offline").complete_chat(prompt.messages, max_tokens=2048)
    assert "- User: Please never book flights before 9 am, ticket TR-4411 is the reference." in reply.text
    assert "older things" not in reply.text
    assert prompt.secret not in reply.text
    assert COUNTER.count_text(reply.text) <= 96
    again = repair_prompt(prompt, reply.text, "It is too long; write at most 40 tokens.")
    shorter = await Model("offline").complete_chat(again.messages)
    assert 0 < COUNTER.count_text(shorter.text) <= 40


@pytest.mark.parametrize("instructions", ["Keep prices.", "Shorten this: {conversation} Thank you."])
async def test_own_instructions_are_understood(instructions: str) -> None:
    prompt = batch_prompt(transcript(HISTORY[1:], counter=COUNTER), [], cap=96, instructions=instructions)
    assert "TR-4411" in str(await Model("offline").complete_chat(prompt.messages))


async def test_records_are_merged_line_by_line() -> None:
    texts = ["- User: ticket TR-4411\n- Assistant: fine", "- User: hotel HB-7, room 12"]
    prompt = merge_prompt(texts, cap=60, instructions=None)
    merged = str(await Model("offline").complete_chat(prompt.messages))
    assert "- User: ticket TR-4411" in merged
    assert "- User: hotel HB-7, room 12" in merged


async def test_a_plain_wish_for_a_summary_is_understood() -> None:
    text = await ask("Please summarize our conversation so far.")
    assert "TR-4411" in text
    assert "travel assistant" not in text


async def test_a_question_about_a_summary_is_a_question() -> None:
    assert await ask("Is the summary of my taxes ready?") == NO_ANSWER


async def test_a_summarized_history_works_without_a_network(memory: Memory) -> None:
    async with SummarizedHistorySection(Model("offline"), floor=2, ceiling=6) as section:
        for number in range(10):
            await memory.append("ana", "trip", Message("user", f"Stop {number} is town-{number}, keep it."))
            await section.get_messages(memory, "ana", "trip", {})
            await section.settled()
        shown = await section.get_messages(memory, "ana", "trip", {})
        assert section.get_metrics()["background_tasks_failed"] == 0
    summary = str(shown[0]["content"])
    assert "CONVERSATION SUMMARY" in summary
    assert "town-0" in summary
    assert "town-1" in summary


async def test_a_chat_is_summarized_without_a_network() -> None:
    chat = ChatContext(HISTORY)
    for number in range(30):
        chat.add_message("user", f"Note {number}: the code of box {number} is BX-{number}00, remember it.")
    await chat.summarize(Model("offline"), keep_recent_turns=1)
    assert "BX-" in str(chat.messages())
