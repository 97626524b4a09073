"""Structured answers: types and schemas, providers over HTTP, repairs, errors, streams, and the log."""

from __future__ import annotations

import enum
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import pairwise
from typing import Any, NotRequired, TypedDict, assert_type

import pydantic
import pytest
from agents.kit import add_up, assert_valid, call, calls, spoken, stored
from models.provider_server import ProviderServer, providing
from models.provider_words import Call, Say

from autonomy_ctx import (
    Agent,
    AgentReply,
    Memory,
    Message,
    Model,
    PartialOutput,
    TextDelta,
    TurnEnded,
    hook,
)
from autonomy_ctx.agents.options import AgentHook
from autonomy_ctx.agents.output import PartialJson
from autonomy_ctx.agents.reply import StructuredReply
from autonomy_ctx.errors import CostLimitExceeded, OutputError
from autonomy_ctx.testing import ProviderServer as RulesServer
from autonomy_ctx.testing import ScriptedModel


class Pace(enum.Enum):
    SLOW = "slow"
    FAST = "fast"


@dataclass
class Stop:
    city: str
    on: date


@dataclass
class Trip:
    """A trip.

    Args:
        days: How long it is.
    """

    days: int
    stops: list[Stop]
    pace: Pace = Pace.SLOW
    notes: list[str] = field(default_factory=list)


class Booking(TypedDict):
    seats: int
    name: NotRequired[str]


class Person(pydantic.BaseModel):
    name: str
    age: int = pydantic.Field(ge=0)


SCHEMA: dict[str, Any] = {
    "title": "Price",
    "type": "object",
    "properties": {"euros": {"type": "number", "minimum": 1}, "of": {"$ref": "#/$defs/thing"}},
    "required": ["euros"],
    "additionalProperties": False,
    "$defs": {"thing": {"type": "string"}},
}
TRIP = '{"days": 3, "stops": [{"city": "Rome", "on": "2026-11-18"}], "pace": "fast"}'
MADE = Trip(3, [Stop("Rome", date(2026, 11, 18))], Pace.FAST)
# The model of each provider, and where its request has the schema.
NATIVE: dict[str, tuple[str, str | None, Callable[[Any], Any]]] = {
    "openai": ("gpt-5", None, lambda body: body["response_format"]["json_schema"]["schema"]),
    "responses": ("gpt-5", "openai-responses", lambda body: body["text"]["format"]["schema"]),
    "anthropic": ("claude-sonnet-5", None, lambda body: body["output_config"]["format"]["schema"]),
    "google": ("gemini-3-pro", None, lambda body: body["generationConfig"]["responseJsonSchema"]),
}


def model_of(server: ProviderServer, name: str, provider: str | None = None, **options: Any) -> Model:
    return Model(name, provider=provider, base_url=server.url, api_key="k", **options)


MakeAgent = Callable[..., Agent]


@pytest.fixture
async def agent_of() -> AsyncIterator[MakeAgent]:
    """Makes agents, and closes them."""
    made: list[Agent] = []

    def make(memory: Memory, model: Any, *tools: Any, **options: Any) -> Agent:
        made.append(Agent("guide", "You plan trips.", tools, model=model, memory=memory, **options))
        return made[-1]

    yield make
    for agent in made:
        await agent.close()


async def value_of(agent_of: MakeAgent, memory: Memory, answer: str, *, output: Any) -> Any:
    return (await agent_of(memory, ScriptedModel([answer])).send("Plan it.", output=output)).output


# -- types ----------------------------------------------------------------------------------------------


async def test_the_value_has_the_type_that_was_asked_for(agent_of: MakeAgent, memory: Memory) -> None:
    agent = agent_of(
        memory, ScriptedModel([TRIP, '{"seats": 2}', '{"name": "Ana", "age": 7}', '{"euros": 5}'])
    )
    trip = await agent.send("Plan it.", output=Trip)
    assert trip.output == MADE
    assert_type(trip.output, Trip)
    booking = await agent.send("Book it.", output=Booking)
    assert booking.output == {"seats": 2}
    assert_type(booking.output, Booking)
    person = await agent.send("For whom?", output=Person)
    assert person.output == Person(name="Ana", age=7)
    assert_type(person, StructuredReply[Person])
    price = await agent.send("What is it?", output=SCHEMA)
    assert price.output == {"euros": 5}
    plain = await agent.send("Thanks.")
    assert_type(plain, AgentReply)
    assert plain.output is None


@pytest.mark.parametrize("text", [TRIP, f"```json\n{TRIP}\n```", f"Here it is: {TRIP} Enjoy!", f"\n{TRIP}\n"])
async def test_json_is_found_in_a_fence_and_between_words(
    agent_of: MakeAgent, memory: Memory, text: str
) -> None:
    assert await value_of(agent_of, memory, text, output=Trip) == MADE


async def test_null_for_a_key_that_may_be_left_out_is_left_out(agent_of: MakeAgent, memory: Memory) -> None:
    assert await value_of(agent_of, memory, TRIP[:-1] + ', "notes": null}', output=Trip) == MADE
    assert await value_of(agent_of, memory, '{"seats": 1, "name": null}', output=Booking) == {"seats": 1}


@pytest.mark.parametrize(
    "output", [str, list[int], 5, {"type": "array"}, {}, dict, {"type": "object", "x": date}]
)
async def test_what_is_not_an_object_is_refused_before_anything_is_stored(
    agent_of: MakeAgent, memory: Memory, output: Any
) -> None:
    agent = agent_of(memory, ScriptedModel("{}"))
    with pytest.raises(TypeError, match=r"(?i)nothing was stored"):
        await agent.send("Hello", output=output)
    with pytest.raises(TypeError, match=r"(?i)nothing was stored"):
        agent.stream("Hello", output=output)
    assert await stored(agent.memory) == []


# -- providers over HTTP --------------------------------------------------------------------------------


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", NATIVE)
async def test_each_provider_is_asked_in_its_own_field(
    agent_of: MakeAgent, provider: str, streamed: bool
) -> None:
    name, given, schema_in = NATIVE[provider]
    look = Say("Let me see.", [Call("call_1", "add_up", {"a": 1, "b": 2})])
    async with (
        providing(Say("Hi."), look, Say(TRIP), Say("Bye.")) as server,
        agent_of(Memory(), model_of(server, name, given), add_up) as agent,
    ):
        await agent.send("Hello")
        if streamed:
            heard = [event async for event in agent.stream("Plan it.", output=Trip)]
            assert isinstance(heard[-1], TurnEnded)
            reply = heard[-1].reply
            partial = [event.value for event in heard if isinstance(event, PartialOutput)]
            assert len(partial) >= 2
            assert partial[0] != partial[-1] == json.loads(TRIP)
        else:
            reply = await agent.send("Plan it.", output=Trip)
        await agent.send("Thanks.")
        assert server.refused == []
        assert reply.output == MADE
        assert reply.steps == 2
        before, first, second, after = (seen.body for seen in server.seen)
        # The schema goes with each request of the turn, and with no other.
        for body in (first, second):
            assert schema_in(body)["properties"].keys() == {"days", "stops", "pace", "notes"}
        for body in (before, after):
            with pytest.raises(KeyError):
                schema_in(body)
        # Nothing else is changed: system and tools are the same, and messages only grow.
        asked = [server.asked(number) for number in range(4)]
        for older, newer in pairwise(asked):
            assert newer.system == older.system
            assert newer.tools == older.tools
            assert newer.said[: len(older.said)] == older.said
        log = spoken(await stored(agent.memory))
        assert log[2:] == [
            ("user", "Plan it."),
            ("assistant", "Let me see."),
            ("tool", "3"),
            ("assistant", TRIP),
            ("user", "Thanks."),
            ("assistant", "Bye."),
        ]


async def test_a_provider_without_such_a_field_is_asked_in_words_that_stay(agent_of: MakeAgent) -> None:
    async with (
        providing(Say(TRIP), Say("Bye.")) as server,
        agent_of(Memory(), model_of(server, "nova-micro-v1")) as agent,
    ):
        assert (await agent.send("Plan it.", output=Trip)).output == MADE
        await agent.send("Thanks.")
        assert server.refused == []
        first, second = server.asked(0), server.asked(1)
        assert '"days"' in first.said[-1][1]
        assert second.said[: len(first.said)] == first.said
        messages = await stored(agent.memory)
        assert [message.role.value for message in messages] == [
            "user",
            "system",
            "assistant",
            "user",
            "assistant",
        ]
        assert_valid(messages)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_claude_on_bedrock_is_asked_in_the_field_of_converse(
    agent_of: MakeAgent, streamed: bool
) -> None:
    rules = RulesServer(lambda body: [{"type": "text", "text": TRIP}])
    options: dict[str, Any] = {"outputConfig": {"other": 1}}
    model = Model("us.anthropic.claude-sonnet-5-5", client=rules.client(), api_key="k", **options)
    agent = agent_of(Memory(), model)
    if streamed:
        *_, ended = [event async for event in agent.stream("Plan it.", output=Trip)]
        assert isinstance(ended, TurnEnded)
        assert ended.reply.output == MADE
    else:
        assert (await agent.send("Plan it.", output=Trip)).output == MADE
    (request,) = rules.requests
    config = request.body["outputConfig"]
    assert config["other"] == 1
    assert json.loads(config["textFormat"]["structure"]["jsonSchema"]["schema"])["required"] == [
        "days",
        "stops",
    ]
    assert spoken(await stored(agent.memory)) == [("user", "Plan it."), ("assistant", TRIP)]


async def test_a_schema_that_claude_does_not_take_is_asked_for_in_words(agent_of: MakeAgent) -> None:
    @dataclass
    class Prices:
        euros: dict[str, int]

    async with (
        providing(Say('{"euros": {"bread": 3}}')) as server,
        agent_of(Memory(), model_of(server, "claude-sonnet-5")) as agent,
    ):
        assert (await agent.send("What does it cost?", output=Prices)).output == Prices({"bread": 3})
        assert "output_config" not in server.seen[0].body
        assert "additionalProperties" in server.asked(0).said[-1][1]


async def test_options_of_the_model_in_the_same_field_are_kept(agent_of: MakeAgent) -> None:
    async with providing(Say(TRIP)) as server:
        for name, given, options in (
            ("claude-sonnet-5", None, {"output_config": {"effort": "low"}}),
            ("gpt-5", "openai-responses", {"text": {"verbosity": "low"}}),
            ("gemini-3-pro", None, {"generationConfig": {"seed": 7}}),
        ):
            async with agent_of(
                Memory(), model_of(server, name, given, **options), limits={"output_tokens": 100}
            ) as agent:
                await agent.send("Plan it.", output=Trip)
            (place, own), *_ = options.items()
            assert own.items() <= server.seen[-1].body[place].items()
        assert server.seen[-1].body["generationConfig"]["maxOutputTokens"] == 100


async def test_a_fallback_is_asked_in_its_own_way(agent_of: MakeAgent) -> None:
    """The second model has no field for a schema: it reads it at the end, and the log has no trace of it."""
    rules = RulesServer(lambda body: [{"type": "text", "text": TRIP}])
    rules.failures = [503]

    async def no_wait(seconds: float) -> None:
        """Do not wait."""

    async with providing(Say(TRIP)) as server:
        second = model_of(server, "nova-micro-v1")
        first = Model(
            "claude-opus-5-5", client=rules.client(), api_key="k", retries=0, sleep=no_wait, fallback=second
        )
        async with agent_of(Memory(), first) as agent:
            reply = await agent.send("Plan it.", output=Trip)
            assert reply.output == MADE
            assert '"days"' in server.asked(0).said[-1][1]
            assert spoken(await stored(agent.memory)) == [("user", "Plan it."), ("assistant", TRIP)]
            assert (await agent.send("Again.", output=Trip)).output == MADE
        assert [request.status for request in rules.requests] == [503, 200]


# -- repairs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", NATIVE)
async def test_an_answer_that_does_not_fit_is_repaired_once(agent_of: MakeAgent, provider: str) -> None:
    name, given, _ = NATIVE[provider]
    async with (
        providing(Say('{"days": "many", "stops": []}'), Say(TRIP), Say("Bye.")) as server,
        agent_of(Memory(), model_of(server, name, given)) as agent,
    ):
        reply = await agent.send("Plan it.", output=Trip)
        assert (reply.output, reply.steps) == (MADE, 2)
        await agent.send("Thanks.")
        assert server.refused == []
        asked = [server.asked(number) for number in range(3)]
        assert "answer.days must be an integer" in asked[1].said[-1][1] + asked[1].system[-1]
        for older, newer in pairwise(asked):
            assert newer.said[: len(older.said)] == older.said
        messages = await stored(agent.memory)
        assert [one.role.value for one in messages[:4]] == ["user", "assistant", "system", "assistant"]
        assert_valid(messages)
        assert [message.text for message in reply.messages] == [one.text for one in messages[1:4]]


async def test_a_second_answer_that_does_not_fit_is_an_error_with_its_text(
    agent_of: MakeAgent, memory: Memory
) -> None:
    agent = agent_of(memory, ScriptedModel(["What trip?", '{"days": 3, "secret": 1}', "Fine."]))
    with pytest.raises(OutputError) as caught:
        await agent.send("Plan it.", output=Trip)
    error = caught.value
    assert error.text == '{"days": 3, "secret": 1}'
    assert (error.agent, error.output) == ("guide", "Trip")
    assert error.problem
    assert "secret" not in str(error)
    messages = await stored(agent.memory)
    assert [one.role.value for one in messages] == ["user", "system", "assistant", "system", "assistant"]
    assert_valid(messages)
    # The conversation goes on.
    assert (await agent.send("Never mind.")).text == "Fine."
    assert agent.get_metrics()["turns_failed"] == 1


@pytest.mark.parametrize(
    ("options", "problem"),
    [({"limits": {"steps": 1}}, "answer is not JSON"), ({"limits": {"tokens": 1}}, "answer is not JSON")],
)
async def test_no_repair_is_asked_for_beyond_a_limit(
    agent_of: MakeAgent, memory: Memory, options: dict[str, Any], problem: str
) -> None:
    model = ScriptedModel(["No.", TRIP])
    with pytest.raises(OutputError) as caught:
        await agent_of(memory, model, **options).send("Plan it.", output=Trip)
    assert (caught.value.problem, len(model.calls)) == (problem, 1)


async def test_a_turn_that_ends_at_its_steps_without_an_answer_says_so(
    agent_of: MakeAgent, memory: Memory
) -> None:
    model = ScriptedModel([calls(call("add_up", a=1, b=2))])
    with pytest.raises(OutputError) as caught:
        await agent_of(memory, model, add_up, limits={"steps": 2}).send("Plan it.", output=Trip)
    assert caught.value.problem == "the turn reached its limit of steps"


async def test_a_refusal_is_not_repaired(agent_of: MakeAgent) -> None:
    refusal = {"choices": [{"message": {"content": "I cannot."}, "finish_reason": "content_filter"}]}
    model = ScriptedModel([refusal, TRIP])
    with pytest.raises(OutputError) as caught:
        await agent_of(Memory(), model).send("Plan it.", output=Trip)
    assert caught.value.problem == "the model refused to answer"
    assert len(model.calls) == 1


async def test_hooks_and_limits_of_cost_see_the_repair(agent_of: MakeAgent) -> None:
    heard: list[Any] = []

    @hook(AgentHook.BEFORE_REQUEST)
    def note_request(scope: str, conversation: str, request: Any) -> None:
        heard.append(request)

    rules = RulesServer(lambda body: [{"type": "text", "text": "No."}])
    model = Model("claude-opus-5-5", client=rules.client(), api_key="k")
    with pytest.raises(OutputError):
        await agent_of(Memory(), model, hooks=[note_request]).send("Plan it.", output=Trip)
    assert [request.step for request in heard] == [1, 2]
    before = len(rules.requests)
    cheap = agent_of(Memory(), model, limits={"cost": heard[0].cost * 1.1})
    with pytest.raises(CostLimitExceeded):
        await cheap.send("Plan it.", output=Trip)
    assert len(rules.requests) == before + 1


# -- the log and the context ----------------------------------------------------------------------------


async def test_a_message_that_is_sent_again_gives_the_stored_value(
    agent_of: MakeAgent, memory: Memory
) -> None:
    model = ScriptedModel([TRIP])
    agent = agent_of(memory, model)
    first = await agent.send("Plan it.", output=Trip, message_id="m-1")
    again = await agent.send("Plan it.", output=Trip, message_id="m-1")
    assert first.output == again.output == MADE
    assert (again.steps, len(model.calls)) == (0, 1)
    with pytest.raises(OutputError):
        await agent.send("Plan it.", output=Booking, message_id="m-1")
    assert len(model.calls) == 1


async def test_a_message_whose_turn_failed_is_asked_for_once(agent_of: MakeAgent, memory: Memory) -> None:
    agent = agent_of(memory, ScriptedModel([RuntimeError("down"), TRIP]))
    with pytest.raises(RuntimeError):
        await agent.send("Plan it.", output=Trip, message_id="m-1")
    assert (await agent.send("Plan it.", output=Trip, message_id="m-1")).output == MADE
    roles = [message.role.value for message in await stored(agent.memory)]
    assert roles == ["user", "system", "assistant"]


async def test_a_message_whose_turn_failed_may_be_sent_again_for_another_output(
    agent_of: MakeAgent, memory: Memory
) -> None:
    agent = agent_of(memory, ScriptedModel([RuntimeError("down"), '{"seats": 2}']))
    with pytest.raises(RuntimeError):
        await agent.send("Plan it.", output=Trip, message_id="m" * 120)
    reply = await agent.send("Plan it.", output=Booking, message_id="m" * 120)
    assert reply.output == {"seats": 2}


async def test_the_value_of_a_question_comes_with_its_answer(agent_of: MakeAgent, memory: Memory) -> None:
    asking = calls(call("ask_user_for_input", question="For how many days?"))
    agent = agent_of(memory, ScriptedModel([asking, TRIP]), enable_ask_for_user_input=True)
    reply = await agent.send("Plan it.", output=Trip)
    assert reply.question == "For how many days?"
    assert getattr(reply, "output", MADE) is None
    assert (await agent.send("Three.", output=Trip)).output == MADE
    assert_valid(await stored(agent.memory))


async def test_instructions_of_past_turns_are_cut_like_other_messages(
    agent_of: MakeAgent, memory: Memory
) -> None:
    agent = agent_of(memory, ScriptedModel([TRIP]), limits={"context_tokens": 1_200})
    for number in range(12):
        await agent.send(f"Plan trip {number}. {'word ' * 40}", output=Trip)
    shown = (await agent.explain()).messages
    requests = [message for message in shown if "output_request" in message.extra]
    assert 1 <= len(requests) < 12
    assert any("trip 11" in message.text for message in shown)
    # That of the newest turn stands right behind its message.
    assert shown[shown.index(requests[-1]) - 1].text.startswith("Plan trip 11.")


@pytest.mark.parametrize("restarts", [False, True])
async def test_thinking_stays_valid_over_a_repair_and_turns_with_and_without_an_output(
    agent_of: MakeAgent, memory: Memory, restarts: bool
) -> None:
    texts = ["Hi.", "No.", TRIP, "Bye.", TRIP]

    def answer(body: Any) -> list[dict[str, Any]]:
        text = texts[min(len(rules.requests), len(texts)) - 1]
        return [{"type": "thinking", "thinking": "Let me see."}, {"type": "text", "text": text}]

    rules = RulesServer(answer)
    model = Model("claude-fable-5-2", client=rules.client(), api_key="k")
    agent = agent_of(memory, model)
    for text, output in (("Hello", None), ("Plan it.", Trip), ("Thanks.", None), ("And back?", Trip)):
        agent = agent_of(memory, model) if restarts else agent
        reply = await agent.send(text, output=output)
        assert reply.output == (MADE if output else None)
    assert rules.refused == []
    assert [request.thinking for request in rules.requests] == [0, 1, 2, 3, 4]
    assert (await agent.explain()).epoch == 1


async def test_on_claude_and_gpt_the_schema_is_part_of_what_is_cached(agent_of: MakeAgent) -> None:
    """With the same output in every turn the cache is read, and a change of it is not."""
    for name in ("claude-opus-5-5", "gpt-5.6-sol"):
        rules = RulesServer(lambda body: [{"type": "text", "text": TRIP}])
        model = Model(name, client=rules.client(), api_key="k", cache=True)
        agent = agent_of(Memory(), model, context_summary=None)
        await agent.send("word " * 2_000, output=Trip)
        await agent.send("Again.", output=Trip)
        await agent.send("And now?")
        assert [request.status for request in rules.requests] == [200] * 3
        assert [request.cached > 1_000 for request in rules.requests] == [False, True, False]


# -- streams --------------------------------------------------------------------------------------------


def partial_values(pieces: Sequence[str]) -> list[Any]:
    reader = PartialJson()
    return [value for piece in pieces if (value := reader.feed(piece)) is not None]


def test_a_partial_object_grows_letter_by_letter() -> None:
    text = 'So: {"a": [1, 23], "b\\"": {"c": "x\\u00e9\\n"}, "d": true}'
    values = partial_values(list(text))
    assert values[:4] == [{}, {"a": []}, {"a": [1]}, {"a": [1, 23]}]
    assert {"a": [1, 23], 'b"': {"c": "x"}} in values
    assert values[-1] == json.loads(text[4:])
    assert values[-1] == partial_values([text])[-1]
    # Nothing is taken back: a later value has all that an earlier one had.
    for earlier, later in pairwise(values):
        assert list(later)[: len(earlier)] == list(earlier)


def test_half_a_character_is_never_given() -> None:
    values = partial_values(list('{"a": "x\\ud83d\\ude00y"}'))
    assert values == [{}, {"a": "x"}, {"a": "x\U0001f600"}, {"a": "x\U0001f600y"}]


@pytest.mark.parametrize("text", ["no object", "[1, 2]", '{"a" 1}', "{]", '{"a": }', "{,}"])
def test_text_that_is_no_object_gives_nothing_wrong(text: str) -> None:
    assert partial_values(list(text)) in ([], [{}])


async def test_a_stream_begins_anew_after_a_repair(agent_of: MakeAgent, memory: Memory) -> None:
    async with agent_of(memory, ScriptedModel(['{"days": "many"}', TRIP])) as agent:
        heard = [event async for event in agent.stream("Plan it.", output=Trip)]
    assert [event.value for event in heard if isinstance(event, PartialOutput)] == [
        {"days": "many"},
        json.loads(TRIP),
    ]
    assert [type(event) for event in heard] == [TextDelta, PartialOutput, TextDelta, PartialOutput, TurnEnded]
    assert isinstance(heard[-1], TurnEnded)
    assert heard[-1].reply.output == MADE


async def test_the_error_ends_the_stream(agent_of: MakeAgent, memory: Memory) -> None:
    agent = agent_of(memory, ScriptedModel(["No."]))
    heard: list[Any] = []

    async def listen() -> None:
        async for event in agent.stream("Plan it.", output=Trip):
            heard.append(event)

    async with agent:
        with pytest.raises(OutputError):
            await listen()
    assert not any(isinstance(event, TurnEnded) for event in heard)


def test_a_request_for_an_output_is_not_an_instruction_that_stays() -> None:
    from autonomy_ctx.messages.cuts import removable_groups

    asks = Message("system", "as JSON", extra={"output_request": True})
    rule = Message("system", "Be brief.")
    talk = [rule, Message("user", "1"), asks, Message("assistant", "{}"), Message("user", "2"), asks]
    assert removable_groups(talk) == [[1], [2], [3]]
