"""A provider that is asked why its cache was missed, and what `explain` says of it beside our own reason."""

from __future__ import annotations

from typing import Any

import pytest

from autonomy_ctx import Agent, Memory, Model, TurnEnded
from autonomy_ctx.formats.base import CacheMiss
from autonomy_ctx.formats.cache_diagnosis import DIAGNOSIS_BETA, read_cache_miss
from autonomy_ctx.inspection import inspect_turn
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import ProviderServer

CLAUDE, GPT = "claude-opus-5-5", "gpt-6.1-sol"


def model_of(server: ProviderServer, name: str, **options: Any) -> Model:
    provider = "openai-responses" if name == GPT else None
    return Model(name, provider=provider, api_key="k", client=server.client(), **options)


def agent_of(memory: Memory, model: Model, instructions: str = "You plan trips.") -> Agent:
    return Agent("guide", instructions=instructions, model=model, memory=memory)


async def take_turn(agent: Agent, text: str, *, streamed: bool) -> None:
    if not streamed:
        await agent.send(text)
        return
    events = [event async for event in agent.stream(text)]
    assert isinstance(events[-1], TurnEnded)


@pytest.mark.parametrize(("name", "streamed"), [(CLAUDE, False), (CLAUDE, True), (GPT, False)])
async def test_the_reason_of_the_provider_stands_beside_our_own(
    memory: Memory, name: str, streamed: bool
) -> None:
    server = ProviderServer()
    model = model_of(server, name, cache_diagnosis=True)
    agent = agent_of(memory, model)
    await take_turn(agent, "hello", streamed=streamed)
    await take_turn(agent, "and then?", streamed=streamed)
    unchanged = (await agent.explain()).cache_miss
    # GPT says nothing of a prompt that is too short for its cache.
    assert unchanged == (None if name == CLAUDE else CacheMiss(reason="unavailable"))
    another = agent_of(memory, model, "You plan other trips.")
    await take_turn(another, "and now?", streamed=streamed)
    report = await inspect_turn(another.memory, "default", "default")
    assert report.end_reason is EndReason.INSTRUCTIONS
    assert report.cache_miss is not None
    assert report.cache_miss.reason == ("system_changed" if name == CLAUDE else "input_changed")
    assert report.cache_miss.tokens > 0
    assert (await another.explain()).cache_miss == report.cache_miss
    assert report.to_dict()["cache_miss"]["reason"] == report.cache_miss.reason
    assert server.refused == []
    bodies = [request.body for request in server.requests]
    if name == CLAUDE:
        compared = [body["diagnostics"]["previous_message_id"] for body in bodies]
        assert compared == [None, "msg_0001", "msg_0002"]
    else:
        found = [body.get("prompt_cache_options", {}).get("comparison_response_id") for body in bodies]
        assert found == [None, "resp_0001", "resp_0002"]


async def test_nothing_is_asked_without_the_option(memory: Memory) -> None:
    server = ProviderServer()
    for name in (CLAUDE, GPT):
        agent = Agent(name.replace(".", "-"), model=model_of(server, name), memory=memory)
        await agent.send("hello")
        await agent.send("and then?")
        assert (await agent.explain()).cache_miss is None
    for request in server.requests:
        assert "diagnostics" not in request.body
        assert "comparison_response_id" not in str(request.body)
        assert DIAGNOSIS_BETA not in str(request.headers)


async def test_a_reply_of_another_provider_is_not_named(memory: Memory) -> None:
    server = ProviderServer()
    for name in (GPT, CLAUDE):
        await agent_of(memory, model_of(server, name, cache_diagnosis=True)).send("hello")
    assert server.requests[-1].body["diagnostics"] == {"previous_message_id": None}
    assert server.refused == []


async def test_a_request_again_without_thinking_still_asks(memory: Memory) -> None:
    server = ProviderServer()
    agent = agent_of(memory, model_of(server, CLAUDE, cache_diagnosis=True))
    await agent.send("hello")
    # Thinking that seems to fit is refused.
    server.hidden_prefix = "another"
    await agent.send("and then?")
    assert [request.status for request in server.requests] == [200, 400, 200]
    betas = server.requests[-1].headers["anthropic-beta"].split(",")
    assert DIAGNOSIS_BETA in betas
    assert len(betas) == 2


async def test_options_of_the_cache_are_kept(memory: Memory) -> None:
    server = ProviderServer()
    model = model_of(server, GPT, cache_diagnosis=True, prompt_cache_options={"ttl": "12h"})
    agent = agent_of(memory, model)
    await agent.send("hello")
    await agent.send("and then?")
    sent = [request.body["prompt_cache_options"] for request in server.requests]
    assert sent == [{"ttl": "12h"}, {"ttl": "12h", "comparison_response_id": "resp_0001"}]


@pytest.mark.parametrize("name", ["gpt-6.1-sol", "gemini-4-argon", "nova-lite", "ollama/llama3"])
def test_other_providers_cannot_be_asked(name: str) -> None:
    with pytest.raises(ValueError, match="cache_diagnosis is for Claude's Messages API"):
        Model(name, cache_diagnosis=True)


@pytest.mark.parametrize(
    ("body", "miss"),
    [
        ({"diagnostics": None}, None),
        ({"diagnostics": {"cache_miss_reason": None}}, None),
        ({"diagnostics": {"cache_miss_reason": {"type": "unavailable"}}}, CacheMiss(reason="unavailable")),
        ({"diagnostics": "odd", "prompt_cache_diagnostics": ["odd"]}, None),
        ({"prompt_cache_diagnostics": {"type": "cache_hit"}}, None),
        (
            {"prompt_cache_diagnostics": {"type": "cache_miss", "reason": "x", "cache_missed_tokens": 9}},
            CacheMiss(reason="x", tokens=9),
        ),
        (
            {"prompt_cache_diagnostics": {"type": "comparison_response_not_found"}},
            CacheMiss(reason="comparison_response_not_found"),
        ),
    ],
)
def test_what_providers_say_is_read(body: Any, miss: CacheMiss | None) -> None:
    assert read_cache_miss(body) == miss
