"""Whole turns in each provider's own protocol, streamed and not, when it behaves and when it does not."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from models.provider_server import RETRY_AFTER, Fault, ProviderServer, providing
from models.provider_words import INPUT_TOKENS, OUTPUT_TOKENS, SIGNATURE, Call, Say

from autonomy_ctx import (
    Agent,
    AgentReply,
    CallStarted,
    ContextOverflow,
    Memory,
    Model,
    ModelError,
    ModelTimeout,
    TextDelta,
    ThinkingDelta,
    ToolAnswered,
    TurnEnded,
    tool,
)
from autonomy_ctx.errors import InvalidModelReply, ModelUnavailable

KEY = "k-secret"
MODELS = {
    "openai": ("gpt-5", None),
    "responses": ("gpt-5", "openai-responses"),
    "anthropic": ("claude-sonnet-4-v1", None),
    "google": ("gemini-3-pro", None),
    "bedrock": ("nova-micro-v1", None),
}
# Those whose models get their own thinking back, signed.
SIGNING = ("responses", "anthropic", "google", "bedrock")
# Those that cache only what they are told to.
MARKING = ("anthropic", "bedrock")
TWO_CALLS = Say(
    "Let me look.",
    [Call("call_1", "weather", {"city": "Rome"}), Call("call_2", "weather", {"city": "Oslo"})],
    thinking="Two cities, two calls.",
)
ANSWER = Say("It is sunny in both.")


@dataclass
class Taken:
    """What came of a turn and what was heard of it."""

    reply: AgentReply
    heard: list[Any] = field(default_factory=list)


@dataclass
class Bench:
    """An agent of one provider, and what its model waited for."""

    agent: Agent
    server: ProviderServer
    streamed: bool
    waits: list[float]

    async def turn(self, text: str) -> Taken:
        if not self.streamed:
            return Taken(await self.agent.send(text))
        heard = [event async for event in self.agent.stream(text)]
        assert isinstance(heard[-1], TurnEnded)
        return Taken(heard[-1].reply, heard[:-1])

    async def fails(self, text: str, kind: type[ModelError]) -> list[Any]:
        """A turn that ends with this error and nothing else; what was heard of it before."""
        heard: list[Any] = []

        async def listen() -> None:
            async for event in self.agent.stream(text):
                heard.append(event)

        with pytest.raises(kind) as caught:
            await (listen() if self.streamed else self.agent.send(text))
        assert type(caught.value) is kind
        shown = "".join(traceback.format_exception(caught.value)) + repr(vars(caught.value))
        assert KEY not in shown
        return heard

    async def goes_on(self, failed: str) -> None:
        """After a turn that failed: what the user said is kept, and the next turn is answered."""
        assert [one["role"] for one in await self.agent.history()][-1] == "user"
        before = len(self.server.seen)
        assert (await self.turn("Are you there?")).reply.text == ANSWER.text
        assert len(self.server.seen) == before + 1
        users = [text for role, text in self.server.asked().said if role == "user"]
        assert failed in "\n".join(users)
        assert "Are you there?" in users[-1]


@pytest.fixture(params=list(MODELS))
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streamed(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(autouse=True)
def _no_key_in_any_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    caplog.set_level(logging.DEBUG)
    yield
    logged = "".join(f"{record.getMessage()} {vars(record)}" for record in caplog.get_records("call"))
    assert "POST" in logged
    assert KEY not in logged


def made(provider: str, server: ProviderServer, waits: list[float], *, timeout: Any = None) -> Model:
    """A model that notes how long it was to wait, and does not."""

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    name, known = MODELS[provider]
    return Model(
        name,
        provider=known,
        base_url=server.url,
        api_key=KEY,
        sleep=sleep,
        jitter=lambda: 0.0,
        timeout=timeout,
    )


@asynccontextmanager
async def bench(provider: str, streamed: bool, *script: Say | Fault, **options: Any) -> AsyncIterator[Bench]:
    waits: list[float] = []
    async with providing(*script) as server:
        model = made(provider, server, waits)
        options = {"instructions": "You know the weather.", "tools": [weather], **options}
        async with Agent("forecaster", model=model, **options) as agent:
            yield Bench(agent, server, streamed, waits)
        assert server.refused == []


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


async def test_a_turn_with_two_calls_at_once_is_taken_from_the_question_to_the_answer(
    provider: str, streamed: bool
) -> None:
    started = {"Rome": anyio.Event(), "Oslo": anyio.Event()}

    @tool(name="weather")
    async def together(city: str) -> str:
        """The weather in a city, once the other one is asked for, too."""
        started[city].set()
        for event in started.values():
            await event.wait()
        return f"sunny in {city}"

    async with bench(provider, streamed, TWO_CALLS, ANSWER, tools=[together]) as at:
        taken = await at.turn("Rome and Oslo?")
        assert taken.reply.text == ANSWER.text
        assert (taken.reply.stop, taken.reply.steps) == ("end", 2)
        assert taken.reply.usage.input_tokens == 2 * INPUT_TOKENS
        assert taken.reply.usage.cached_tokens == 2 * 512
        assert taken.reply.usage.output_tokens == 2 * OUTPUT_TOKENS
        assert [message["role"] for message in await at.agent.history()] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
        ]
        first, second = at.server.asked(0), at.server.asked(1)
        assert first.system[0].startswith("You know the weather.")
        assert "get_current_time_utc" in "".join(first.system)
        assert first.said == [("user", "Rome and Oslo?")]
        assert first.tools[0] == "weather"
        assert second.said == [
            ("user", "Rome and Oslo?"),
            ("assistant", "Let me look."),
            ("tool", "sunny in Rome"),
            ("tool", "sunny in Oslo"),
        ]
        assert (second.system, second.tools) == (first.system, first.tools)
        assert (SIGNATURE in json.dumps(at.server.seen[1].body)) is (provider in SIGNING)
        if streamed:
            kinds = [type(event) for event in taken.heard]
            calls = [event.name for event in taken.heard if isinstance(event, CallStarted)]
            answered = {event.message.text for event in taken.heard if isinstance(event, ToolAnswered)}
            assert calls == ["weather", "weather"]
            assert answered == {"sunny in Rome", "sunny in Oslo"}
            assert _text(taken.heard) == "Let me look." + ANSWER.text
            assert kinds.index(ThinkingDelta) < kinds.index(TextDelta) < kinds.index(CallStarted)
        assert (await at.turn("Thanks.")).reply.text == ANSWER.text
        assert at.server.asked().said[-2:] == [("assistant", ANSWER.text), ("user", "Thanks.")]
        sent = json.dumps(at.server.seen[-1].body)
        assert bool(sent.count("cache_control") + sent.count("cachePoint")) is (provider in MARKING)


async def test_a_provider_that_limits_is_asked_again_after_the_time_it_names(
    provider: str, streamed: bool
) -> None:
    async with bench(provider, streamed, Fault.LIMITED, ANSWER) as at:
        taken = await at.turn("Rome?")
        assert taken.reply.text == ANSWER.text
        assert at.waits == [RETRY_AFTER]
        assert at.server.seen[0].body == at.server.seen[1].body
        assert len(at.server.seen) == 2


@pytest.mark.parametrize("fault", [Fault.OVERLOADED, Fault.CUT_BEFORE])
async def test_a_provider_that_fails_before_its_answer_is_asked_again_after_growing_waits(
    provider: str, streamed: bool, fault: Fault
) -> None:
    async with bench(provider, streamed, fault, fault, TWO_CALLS, fault, ANSWER) as at:
        taken = await at.turn("Rome and Oslo?")
        assert taken.reply.text == ANSWER.text
        assert at.waits == [0.5, 1.0, 0.5]
        assert [message["role"] for message in await at.agent.history()].count("tool") == 2


async def test_a_provider_that_stays_away_is_given_up_and_the_conversation_goes_on(
    provider: str, streamed: bool
) -> None:
    away = [Fault.OVERLOADED] * 3
    async with bench(provider, streamed, *away, ANSWER) as at:
        assert await at.fails("Rome?", ModelUnavailable) == []
        assert len(at.server.seen) == 3
        await at.goes_on("Rome?")


async def test_an_answer_that_breaks_off_after_its_first_token_is_not_asked_for_again(provider: str) -> None:
    async with bench(provider, True, Fault.CUT_AFTER_FIRST_TOKEN, ANSWER) as at:
        heard = await at.fails("Rome?", ModelUnavailable)
        assert _text(heard) == "Half of a"
        assert (len(at.server.seen), at.waits) == (1, [])
        await at.goes_on("Rome?")


async def test_an_error_after_the_first_token_is_not_asked_away(provider: str) -> None:
    async with bench(provider, True, Fault.ERROR_AFTER_FIRST_TOKEN, ANSWER) as at:
        assert _text(await at.fails("Rome?", ModelUnavailable))
        assert (len(at.server.seen), at.waits) == (1, [])
        await at.goes_on("Rome?")


async def test_a_whole_answer_that_breaks_off_is_asked_for_again(provider: str) -> None:
    async with bench(provider, False, Fault.CUT_AFTER_FIRST_TOKEN, ANSWER) as at:
        assert (await at.turn("Rome?")).reply.text == ANSWER.text
        assert at.waits == [0.5]


# On a busy machine the time may be up while the client still sends, and it leaves its generator behind.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_provider_that_says_nothing_is_waited_for_only_so_long(provider: str, streamed: bool) -> None:
    timeout = {"first_token" if streamed else "total": 0.3}
    async with bench(provider, streamed, Fault.SILENT) as at:
        patient = at.agent.model
        async with made(provider, at.server, at.waits, timeout=timeout) as at.agent.model:
            assert await at.fails("Rome?", ModelTimeout) == []
        # A busy machine may not even have sent it in that time.
        assert len(at.server.seen) <= 1
        assert at.waits == []
        at.agent.model, at.server.script = patient, [ANSWER]
        await at.goes_on("Rome?")


async def test_a_provider_that_takes_its_time_is_not_asked_twice(provider: str, streamed: bool) -> None:
    async with bench(provider, streamed, ANSWER) as at, anyio.create_task_group() as group:
        at.server.before = anyio.Event()

        async def answer_late() -> None:
            await at.server.arrived.wait()
            await anyio.wait_all_tasks_blocked()
            assert at.server.before is not None
            at.server.before.set()

        group.start_soon(answer_late)
        assert (await at.turn("Rome?")).reply.text == ANSWER.text
        assert (len(at.server.seen), at.waits) == (1, [])


async def test_an_answer_that_is_no_json_is_an_error_of_its_own(provider: str, streamed: bool) -> None:
    async with bench(provider, streamed, Fault.GARBAGE, ANSWER) as at:
        assert await at.fails("Rome?", InvalidModelReply) == []
        assert (len(at.server.seen), at.waits) == (1, [])
        await at.goes_on("Rome?")


async def test_an_error_inside_a_success_is_never_taken_for_an_answer(provider: str) -> None:
    async with bench(provider, False, Fault.ERROR_WITH_STATUS_200, ANSWER) as at:
        assert await at.fails("Rome?", InvalidModelReply) == []
        assert (len(at.server.seen), at.waits) == (1, [])
        await at.goes_on("Rome?")


async def test_an_error_as_the_first_event_of_a_stream_is_asked_away(provider: str) -> None:
    async with bench(provider, True, Fault.ERROR_WITH_STATUS_200, ANSWER) as at:
        assert (await at.turn("Rome?")).reply.text == ANSWER.text
        assert at.waits == [0.5]


async def test_too_long_a_context_is_sent_once_more_with_less_and_with_the_newest_question(
    provider: str, streamed: bool
) -> None:
    async with bench(provider, streamed, Fault.TOO_LONG, ANSWER, memory=await long_talk()) as at:
        taken = await at.turn("And what about Rome?")
        assert taken.reply.text == ANSWER.text
        first, second = at.server.asked(0), at.server.asked(1)
        assert len(at.server.seen) == 2
        assert at.waits == []
        assert sum(map(_size, second.said)) < 0.75 * sum(map(_size, first.said))
        assert second.said[-1] == first.said[-1] == ("user", "And what about Rome?")
        assert second.system[0].startswith("You know the weather.")
        assert at.agent.get_metrics()["overflow_retries"] == 1
        assert len(await at.agent.history()) == 82


async def test_a_context_that_is_too_long_twice_is_not_tried_a_third_time(
    provider: str, streamed: bool
) -> None:
    script: list[Say | Fault] = [Fault.TOO_LONG, Fault.TOO_LONG, ANSWER]
    async with bench(provider, streamed, *script, memory=await long_talk()) as at:
        assert await at.fails("And what about Rome?", ContextOverflow) == []
        assert len(at.server.seen) == 2
        # Nothing of the log is lost, and what is too long now may not be so later.
        assert len(await at.agent.history()) == 81


async def test_too_long_a_context_after_a_call_is_sent_again_although_text_was_heard_before_the_call(
    provider: str, streamed: bool
) -> None:
    script: list[Say | Fault] = [TWO_CALLS, Fault.TOO_LONG, ANSWER]
    async with bench(provider, streamed, *script, memory=await long_talk()) as at:
        taken = await at.turn("Rome and Oslo?")
        assert taken.reply.text == ANSWER.text
        assert len(at.server.seen) == 3
        roles = [role for role, _ in at.server.asked().said]
        assert roles[-4:] == ["user", "assistant", "tool", "tool"]
        assert _text(taken.heard) == ("Let me look." + ANSWER.text if streamed else "")


async def long_talk() -> Memory:
    """A memory in which much has been said already."""
    memory = Memory()
    for number in range(40):
        said = [
            {"role": "user", "content": f"Question {number}: " + "how was the weather there? " * 20},
            {"role": "assistant", "content": f"Answer {number}: " + "it rained and rained again. " * 20},
        ]
        await memory.for_agent("forecaster").add_messages("default", "default", said)
    return memory


def _text(heard: list[Any]) -> str:
    return "".join(event.text for event in heard if isinstance(event, TextDelta))


def _size(said: tuple[str, str]) -> int:
    return len(said[1])


@pytest.mark.parametrize(
    ("message", "window"),
    [
        # A sentence that the error only repeats from the request says nothing about the model.
        ("Invalid value: 'maximum context length is 7'.", None),
        ("This model's maximum context length is 7 tokens.", None),
        ("This model's maximum context length is 8192 tokens.", 8192),
    ],
)
async def test_only_a_sentence_of_the_provider_changes_the_window(message: str, window: int | None) -> None:
    body = {"error": {"type": "invalid_request_error", "message": message}}
    transport = httpx.MockTransport(lambda request: httpx.Response(400, json=body))
    async with httpx.AsyncClient(transport=transport) as client:
        model = Model("served", base_url="http://127.0.0.1:9/v1", client=client)
        async with Agent("helper", model=model) as agent:
            with pytest.raises(ContextOverflow):
                await agent.send("Is it there?")
    assert model.context_window == window
