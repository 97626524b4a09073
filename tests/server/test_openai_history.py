"""What a client's messages are beside a log, by example and for any behaviour of a client."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import examples

from autonomy_ctx import Memory, Message
from autonomy_ctx.engine import ContextEngine
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.openai import OpenAIFormat
from autonomy_ctx.messages.message import ChatRole, TextContent, ToolCall
from autonomy_ctx.server.endpoint.client_api import Exchange, UpstreamAnswer
from autonomy_ctx.server.endpoint.conversations import Conversations
from autonomy_ctx.server.endpoint.history import (
    HistoryMessage,
    Placement,
    chain_ids,
    fingerprint,
    place_history,
)
from autonomy_ctx.server.openai.chat_completions import ChatCompletions

ROLES = {"u": ChatRole.USER, "a": ChatRole.ASSISTANT, "t": ChatRole.TOOL}


def said(words: str) -> list[HistoryMessage]:
    """Messages as words: their first letter says who speaks."""
    return [HistoryMessage(word, ROLES[word[0]]) for word in words.split()]


def log(words: str) -> list[HistoryMessage]:
    """The same as a log has them."""
    found = said(words)
    ids = chain_ids(one.fingerprint for one in found)
    return [one._replace(id=name) for one, name in zip(found, ids, strict=True)]


def placed(words: str, before: str, **options: bool) -> list[str]:
    """A history as the log would have it: what comes before the first message, and then all of them."""
    whole, known = log(before), said(words)
    found = place_history(known, whole, **options)
    names = {one.id: one.fingerprint for one in whole}
    if found.ids[0] in names:
        start = [one.id for one in whole].index(found.ids[0])
    elif found.after:
        start = [one.id for one in whole].index(found.after) + 1
    else:
        start = 0
    texts = [*[one.fingerprint for one in whole[:start]], *[one.fingerprint for one in known]]
    # The ids are those that all of it has.
    assert found.ids == chain_ids(texts)[start:]
    return texts


@pytest.mark.parametrize(
    ("request_words", "log_words", "expected"),
    [
        ("u1", "", "u1"),
        ("u1 a1 u2", "", "u1 a1 u2"),
        ("u1 a1 u2", "u1 a1", "u1 a1 u2"),
        ("u1 a1 u2", "u1 a1 u2", "u1 a1 u2"),
        # Only what is new.
        ("u2", "u1 a1", "u1 a1 u2"),
        ("u2 u3", "u1 a1", "u1 a1 u2 u3"),
        ("t1 t2", "u1 a1", "u1 a1 t1 t2"),
        ("u1", "u1 a1", "u1 a1 u1"),
        # What waits for an answer is not new.
        ("u2", "u1 a1 u2", "u1 a1 u2"),
        ("u2 u3", "u1 a1 u2", "u1 a1 u2 u3"),
        ("u3", "u1 a1 u2", "u1 a1 u2 u3"),
        # An edit, a step back.
        ("u1 a1 u3", "u1 a1 u2 a2", "u1 a1 u3"),
        ("u1 a1 u2", "u1 a1 u2 a2 u3 a3", "u1 a1 u2"),
        ("u9 a1 u2", "u1 a1", "u9 a1 u2"),
        # A window that lost its beginning.
        ("a1 u2", "u1 a1", "u1 a1 u2"),
        ("u2 a2 u3", "u1 a1 u2 a2", "u1 a1 u2 a2 u3"),
        ("u2 a2 u9", "u1 a1 u2 a2 u3 a3", "u1 a1 u2 a2 u9"),
        ("u1 a1 u1 a1 u2", "u0 a0 u1 a1 u1 a1", "u0 a0 u1 a1 u1 a1 u2"),
        # Another history.
        ("u7 a7 u8", "u1 a1", "u7 a7 u8"),
        ("u1 a7 u8", "u0 a0 u1 a1", "u1 a7 u8"),
    ],
)
def test_where_messages_belong(request_words: str, log_words: str, expected: str) -> None:
    assert placed(request_words, log_words) == expected.split()


def test_a_retry_of_what_was_answered_is_not_new() -> None:
    assert placed("u2", "u1 a1 u2 a2", is_retry=True) == ["u1", "a1", "u2"]
    assert placed("u3", "u1 a1 u2 a2", is_retry=True) == ["u1", "a1", "u2", "a2", "u3"]


def test_a_client_that_sends_whole_histories_steps_back_to_the_beginning() -> None:
    assert placed("u1", "u1 a1", resends_history=True) == ["u1"]
    assert placed("u9", "u1 a1", resends_history=True) == ["u9"]


def test_a_log_of_one_word_is_searched_in_linear_time() -> None:
    many = [HistoryMessage("x", ChatRole.ASSISTANT, str(at)) for at in range(4000)]
    asked = [*[HistoryMessage("x", ChatRole.ASSISTANT)] * 3000, HistoryMessage("u", ChatRole.USER)]
    assert place_history(asked, many).ids[:1] == ["1000"]


def test_a_message_says_the_same_however_a_client_writes_it() -> None:
    call = ToolCall("c1", "look", '{"a": 1, "b": 2}')
    thought = {"type": "thinking", "thinking": "Hm."}
    same = [
        [
            Message("assistant", "Yes."),
            Message("assistant", [{"type": "text", "text": "Yes."}]),
            Message("assistant", [thought, {"type": "text", "text": "Yes.\n"}]),
        ],
        [
            Message("assistant", None, tool_calls=[call]),
            Message("assistant", "", tool_calls=[ToolCall("c1", "look", '{"b":2,"a":1}', {"index": 0})]),
        ],
        [Message("system", "Be kind."), Message("developer", "Be kind.")],
        [Message("user", "Hi", name="ana"), Message("user", "Hi")],
    ]
    found = [{fingerprint(one) for one in group} for group in same]
    assert [len(one) for one in found] == [1, 1, 1, 1]
    assert len(set.union(*found)) == 4
    assert fingerprint(Message("user", "Yes.")) not in found[0]
    other = Message("assistant", None, tool_calls=[ToolCall("c2", "look", call.arguments)])
    assert fingerprint(other) not in found[1]


# -- any client -----------------------------------------------------------------------------------


@dataclass
class Client:
    """A client with a history of its own, and what the log must be after each of its requests."""

    named: bool
    resends_history: bool
    memory: Memory = field(default_factory=Memory)
    # All that it means to have said and heard, and whether the newest answer waits.
    truth: list[dict[str, Any]] = field(default_factory=list)
    numbers: int = 0
    sent: set[str] = field(default_factory=set)
    last: list[dict[str, Any]] = field(default_factory=list)
    has_answer: bool = True

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, number: int = 0) -> None:
        """Another process goes on with the same memory."""
        self.engine = ContextEngine(scope="ana", memory=self.memory, context_summary=False)
        self.conversations = Conversations(self.engine)

    def word(self, kind: str) -> str:
        self.numbers += 1
        return f"{kind} {self.numbers}"

    def question(self) -> dict[str, Any]:
        return {"role": "user", "content": self.word("question")}

    async def send(self, messages: Sequence[dict[str, Any]], *, is_retry: bool = False) -> Exchange:
        """A request as the endpoint gets it; the log must then be what the client means."""
        # As they come from a body: nobody else has these objects.
        body = json.loads(json.dumps({"model": "m", "messages": list(messages)}))
        headers = {"x-conversation-id": "trip"} if self.named else {}
        headers |= {"x-stainless-retry-count": "1"} if is_retry else {}
        request = ChatCompletions().read_request(body, headers, 100)
        exchange = await self.conversations.begin("ana", request)
        self.last = list(messages)
        self.sent |= {str(one["content"]) for one in messages}
        await self.check(exchange)
        newest = exchange.context.messages[-1].message
        assert newest.text == (messages[-1]["content"] or "")
        return exchange

    async def answer(self, exchange: Exchange, *, with_calls: bool = False) -> None:
        """The model answers, and the client hears it."""
        text = self.word("answer")
        calls = (ToolCall(self.word("call"), "look", "{}"),) if with_calls else ()
        reply = ModelReply(parts=(TextContent(text),), tool_calls=calls, stop="end")
        await self.conversations.finish(exchange, UpstreamAnswer(reply, [reply.message]))
        await self.conversations.leave(exchange, answered=True)
        made: dict[str, Any] = {"role": "assistant", "content": text}
        if calls:
            function = {"name": "look", "arguments": "{}"}
            made["tool_calls"] = [{"id": calls[0].id, "type": "function", "function": function}]
        self.truth.append(made)
        self.sent.add(text)
        self.has_answer = True
        await self.check(exchange)

    async def check(self, exchange: Exchange) -> None:
        """The log is what the client means: nothing twice, nothing lost."""
        branch = await self.engine.current_conversation(exchange.key.conversation, scope="ana")
        entries = (await self.memory.read("ana", branch)).entries
        assert [entry.message.text for entry in entries] == [one["content"] or "" for one in self.truth]
        everywhere = set()
        for one in await self.memory.conversations("ana", limit=1000):
            window = await self.memory.read("ana", one.conversation)
            texts = [entry.message.text for entry in window.entries]
            assert len(set(texts)) == len(texts)
            everywhere |= set(texts)
        assert everywhere == self.sent | {one["content"] or "" for one in self.truth}

    # What a client does; a number says where.

    async def ask(self, number: int) -> None:
        new = [self.question() for _ in range(1 + number % 2)]
        if self.truth and self.truth[-1].get("tool_calls"):
            call = self.truth[-1]["tool_calls"][0]["id"]
            new = [{"role": "tool", "tool_call_id": call, "content": self.word("result")}]
        self.truth += new
        exchange = await self.send(self.truth if self.resends_history or not self.named else new)
        await self.answer(exchange, with_calls=number % 3 == 0)

    async def fail(self, number: int) -> None:
        """There is no answer; the client asks again, or goes on."""
        new = self.question()
        if self.truth and self.truth[-1].get("tool_calls"):
            return
        self.truth.append(new)
        messages = self.truth if self.resends_history or not self.named else [new]
        exchange = await self.send(list(messages))
        await self.conversations.leave(exchange, answered=False)
        if number % 3 == 0:
            return
        again = await self.send(list(messages), is_retry=number % 3 == 1)
        await self.answer(again)

    async def lose(self, number: int) -> None:
        """The answer was stored, but the client never got it, and sends its request again."""
        if not self.truth or self.truth[-1]["role"] != "assistant" or not self.last:
            return
        if not self.resends_history and self.named and self.last[-1]["role"] != "user":
            return
        self.truth.pop()
        if self.resends_history or not self.named:
            self.last = list(self.truth)
        if not any(one["role"] == "assistant" for one in self.last) and not self.named:
            # An answer to a first question cannot be told from that to another client's.
            self.truth, self.last = [self.question()], []
            exchange = await self.send(self.truth)
        else:
            exchange = await self.send(self.last, is_retry=True)
        await self.answer(exchange)

    async def edit(self, number: int) -> None:
        """Another question in the place of one."""
        await self.cut(number, self.question())

    async def step_back(self, number: int) -> None:
        """The same question again, for another answer."""
        await self.cut(number, None)

    async def cut(self, number: int, question: dict[str, Any] | None) -> None:
        places = [at for at, one in enumerate(self.truth) if one["role"] == "user"]
        if not places or (self.named and not self.resends_history):
            return
        at = places[number % len(places)]
        if not any(one["role"] == "assistant" for one in self.truth[:at]):
            # Without an answer it is a new conversation, unless the client is known.
            return
        self.truth = [*self.truth[:at], question or self.truth[at]]
        exchange = await self.send(self.truth)
        await self.answer(exchange)

    async def window(self, number: int) -> None:
        """Only the end of its history, with a new question."""
        if (self.named and not self.resends_history) or not self.truth or self.truth[-1].get("tool_calls"):
            return
        start = number % len(self.truth)
        kept = self.truth[start:]
        roles = [one["role"] for one in kept]
        if "assistant" not in roles or "user" not in roles[: roles.index("assistant")] or "tool" in roles:
            return
        self.truth = [*self.truth, self.question()]
        exchange = await self.send([*kept, self.truth[-1]])
        await self.answer(exchange)

    async def begin_again(self, number: int) -> None:
        self.restart()


ACTIONS: list[Callable[[Client, int], Any]] = [
    Client.ask,
    Client.ask,
    Client.fail,
    Client.lose,
    Client.edit,
    Client.step_back,
    Client.window,
    Client.begin_again,
]


@examples(150)
@given(
    named=st.booleans(),
    resends_history=st.booleans(),
    steps=st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 11)), max_size=12),
)
def test_whatever_a_client_does_nothing_is_stored_twice_or_lost(
    named: bool, resends_history: bool, steps: list[tuple[Callable[[Client, int], Any], int]]
) -> None:
    async def run() -> None:
        client = Client(named, resends_history)
        await client.ask(1)
        await client.ask(1)
        for action, number in steps:
            await action(client, number)
        await client.engine.close()
        await client.memory.close()

    anyio.run(run)


def test_the_first_message_of_a_log_that_is_empty_is_placed_at_its_beginning() -> None:
    assert place_history(said("u1"), []) == Placement(chain_ids(["u1"]))


# -- long requests --------------------------------------------------------------------------------


class CountedText(str):
    """A text that counts how often it is compared or looked up."""

    __slots__ = ()
    looks = 0

    def __eq__(self, other: object) -> bool:
        CountedText.looks += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        CountedText.looks += 1
        return str.__ne__(self, other)

    def __hash__(self) -> int:
        CountedText.looks += 1
        return str.__hash__(self)


def counted_calls(count: int) -> list[dict[str, Any]]:
    function = {"name": "look", "arguments": "{}"}
    ids = [CountedText(f"call_{number}") for number in range(count)]
    return [{"id": one, "type": "function", "function": function} for one in ids]


def one_by_one(count: int) -> list[dict[str, Any]]:
    """A call, its result, the next call."""
    made = []
    for call in counted_calls(count):
        made += [{"role": "assistant", "content": None, "tool_calls": [call]}, result_of(call)]
    return made


def all_at_once(count: int) -> list[dict[str, Any]]:
    """All calls in one message, and then their results."""
    calls = counted_calls(count)
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *map(result_of, calls)]


def result_of(call: dict[str, Any]) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call["id"], "content": "9"}


class CountedChat(ChatCompletions):
    """The API, with counted texts as ids of calls: reading a request makes them plain strings."""

    def read_messages(self, sources: Sequence[Any], first: int) -> list[SourcedMessage]:
        found = super().read_messages(sources, first)
        for message in (one.message for one in found):
            for call in message.tool_calls:
                object.__setattr__(call, "id", CountedText(call.id))
            if message.tool_call_id is not None:
                object.__setattr__(message, "tool_call_id", CountedText(message.tool_call_id))
        return found


async def looks_in_request(messages: Sequence[dict[str, Any]], headers: dict[str, str]) -> int:
    """How often ids are looked at until the messages of a request are stored."""
    async with Memory() as memory:
        engine = ContextEngine(scope="ana", memory=memory, context_summary=False)
        body = {"model": "m", "messages": [{"role": "user", "content": "Go."}, *messages]}
        request = CountedChat().read_request(body, headers, 100)
        before = CountedText.looks
        await Conversations(engine).begin("ana", request)
        await engine.close()
        return CountedText.looks - before


@pytest.mark.parametrize("make", [one_by_one, all_at_once])
@pytest.mark.parametrize("headers", [{}, {"x-conversation-id": "trip"}])
async def test_twice_as_many_results_take_twice_the_work(
    make: Callable[[int], list[dict[str, Any]]], headers: dict[str, str]
) -> None:
    assert await looks_in_request(make(100), headers) < 2.5 * await looks_in_request(make(50), headers)


def test_an_answer_with_twice_as_many_calls_takes_twice_the_work() -> None:
    def looks(count: int) -> int:
        function = {"name": "look", "arguments": "{}"}
        calls = [{"index": CountedText(at), "function": function} for at in range(count)]
        before = CountedText.looks
        reply = OpenAIFormat().reply({"choices": [{"message": {"tool_calls": calls}}]})
        assert len(reply.tool_calls) == count
        return CountedText.looks - before

    assert 0 < looks(100) < 2.5 * looks(50)


def test_a_log_of_one_word_is_compared_in_linear_time() -> None:
    def looks(count: int) -> int:
        words = [HistoryMessage(CountedText("a"), ChatRole.USER) for _ in range(2 * count)]
        words[count] = HistoryMessage(CountedText("b"), ChatRole.USER)
        known = [HistoryMessage(CountedText("a"), ChatRole.USER, f"m{at}") for at in range(2 * count)]
        before = CountedText.looks
        place_history(words, known)
        return CountedText.looks - before

    assert looks(200) < 2.5 * looks(100)
