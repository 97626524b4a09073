"""A provider that is overloaded: retries send the same bytes, and a fallback leaves the prefix as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import httpx
import pytest
from agents.kit import add_up

from autonomy_ctx import Agent, Memory, Model, ModelReply, TurnEnded
from autonomy_ctx.errors import ModelUnavailable, RateLimited, UnknownPrice
from autonomy_ctx.inspection import inspect_turn
from autonomy_ctx.testing import ProviderServer

FIRST, SECOND = "claude-fable-5-2", "claude-opus-5-5"


async def no_wait(seconds: float) -> None:
    """Do not wait."""


def model_of(server: ProviderServer, name: str = FIRST, **options: Any) -> Model:
    return Model(name, api_key="k", client=server.client(), **{"sleep": no_wait, **options})


def without_marks(value: Any) -> Any:
    if isinstance(value, list):
        return [without_marks(one) for one in value]
    if isinstance(value, dict):
        return {name: without_marks(one) for name, one in value.items() if name != "cache_control"}
    return value


def begins_with(body: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    old, new = without_marks(before["messages"]), without_marks(body["messages"])
    fixed = ("system", "tools")
    return bool(new[: len(old)] == old and all(body.get(name) == before.get(name) for name in fixed))


async def test_retries_send_the_same_bytes_and_wait_as_told(memory: Memory) -> None:
    server = ProviderServer()
    sent: list[bytes] = []
    waits: list[float] = []

    async def note(request: httpx.Request) -> None:
        sent.append(request.content)

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    client = httpx.AsyncClient(transport=server.transport(), event_hooks={"request": [note]})
    model = Model(FIRST, api_key="k", client=client, retries=3, sleep=wait, jitter=lambda: 0.0)
    agent = Agent("guide", model=model, memory=memory)
    await agent.send("hello")
    server.failures = [429, 529, 503]
    await agent.send("and then?")
    assert [request.status for request in server.requests] == [200, 429, 529, 503, 200]
    assert len(set(sent[1:])) == 1
    assert waits == [7.0, 1.0, 2.0]
    assert begins_with(json.loads(sent[-1]), json.loads(sent[0]))


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("status", [429, 503, 529])
async def test_a_fallback_answers_and_the_next_request_has_its_prefix(
    memory: Memory, status: int, streamed: bool
) -> None:
    server = ProviderServer()
    model = model_of(server, fallback=model_of(server, SECOND))
    agent = Agent("guide", instructions="You plan trips.", model=model, memory=memory)

    async def turn(text: str) -> None:
        if streamed:
            assert isinstance([event async for event in agent.stream(text)][-1], TurnEnded)
        else:
            await agent.send(text)

    await turn("hello")
    server.failures = [status] * 3
    await turn("and then?")
    assert (await inspect_turn(agent.memory, "default", "default")).model == SECOND
    await turn("and now?")
    report = await inspect_turn(agent.memory, "default", "default")
    assert (report.model, report.end_reason) == (FIRST, None)
    asked = [(request.model, request.status) for request in server.requests]
    assert asked == [(FIRST, 200), *[(FIRST, status)] * 3, (SECOND, 200), (FIRST, 200)]
    first, *_, fallback, last = (request.body for request in server.requests)
    assert begins_with(fallback, first)
    assert begins_with(last, first)
    assert begins_with(last, fallback)
    # The thinking of the first model is sent again, to both: it is theirs to read.
    assert server.requests[-1].thinking >= 1


async def test_a_fallback_inside_a_tool_loop_changes_nothing_else(memory: Memory) -> None:
    def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        calls = sum(str(message).count("'tool_use'") for message in body["messages"])
        if calls >= 2:
            return [{"type": "thinking", "thinking": "x"}, {"type": "text", "text": "Done."}]
        made = {"type": "tool_use", "id": f"c{calls}", "name": "add_up", "input": {"a": 1, "b": 2}}
        if calls == 0:
            server.failures = [529] * 3
        return [{"type": "thinking", "thinking": "hm"}, made]

    server = ProviderServer(answer)
    model = model_of(server, fallback=model_of(server, SECOND))
    agent = Agent("guide", "Helps.", [add_up], model=model, memory=memory)
    reply = await agent.send("count")
    assert (reply.text, reply.steps) == ("Done.", 3)
    assert [request.status for request in server.requests] == [200, 529, 529, 529, 200, 200]
    answered = [request for request in server.requests if request.status == 200]
    assert [request.model for request in answered] == [FIRST, SECOND, FIRST]
    for before, after in pairwise(answered):
        assert begins_with(after.body, before.body)
    await agent.send("and again")
    assert {request.status for request in server.requests} == {200, 529}


async def test_a_fallback_of_another_provider_answers_in_its_own_words(memory: Memory) -> None:
    server = ProviderServer()
    model = model_of(server, fallback=model_of(server, "gpt-6.1-sol", provider="openai-responses"))
    agent = Agent("guide", "Helps.", model=model, memory=memory)
    for failures in (0, 3, 0):
        server.failures = [503] * failures
        await agent.send("hello")
    asked = [request.model for request in server.requests if request.status == 200]
    assert asked == [FIRST, "gpt-6.1-sol", FIRST]
    assert {request.status for request in server.requests} == {200, 503}
    assert begins_with(server.requests[-1].body, server.requests[0].body)


async def test_a_context_that_does_not_fit_the_fallback_is_not_made_shorter(memory: Memory) -> None:
    server, small = ProviderServer(), ProviderServer(max_tokens=50)
    model = model_of(server, fallback=model_of(small, SECOND))
    agent = Agent("guide", "Helps.", model=model, memory=memory)
    await agent.send("many words " * 100)
    server.failures = [529] * 3
    with pytest.raises(ModelUnavailable) as caught:
        await agent.send("and then?")
    assert caught.value.model == FIRST
    assert [request.status for request in small.requests] == [400]
    await agent.send("and now?")
    assert begins_with(server.requests[-1].body, server.requests[0].body)


async def test_without_a_fallback_the_error_is_raised(memory: Memory) -> None:
    server = ProviderServer()
    server.failures = [429] * 3
    agent = Agent("guide", "Helps.", model=model_of(server), memory=memory)
    with pytest.raises(RateLimited):
        await agent.send("hello")


async def test_a_refused_request_does_not_go_to_the_fallback(memory: Memory) -> None:
    server = ProviderServer()
    model = model_of(server, fallback=model_of(server, SECOND), temperature="hot", thinking={"type": "odd"})
    server.failures = [400]
    with pytest.raises(Exception, match="refused the request"):
        await Agent("guide", "Helps.", model=model, memory=memory).send("hello")
    assert len(server.requests) == 1


async def test_a_reply_names_the_fallback_and_a_name_is_enough() -> None:
    server = ProviderServer()
    model = model_of(server, fallback=model_of(server, SECOND))
    server.failures = [529] * 3
    reply = await model.complete_chat([{"role": "user", "content": "hello"}])
    assert isinstance(reply, ModelReply)
    assert reply.fallback == SECOND
    again = await model.complete_chat([{"role": "user", "content": "hello"}])
    assert again.fallback is None
    offline = model_of(server, fallback="offline")
    server.failures = [529] * 3
    assert (await offline.complete_chat([{"role": "user", "content": "hello"}])).text
    with pytest.raises(TypeError, match="fallback must be a Model or its name"):
        model_of(server, fallback=3)
    await offline.close()


def test_a_limit_of_cost_needs_the_price_of_the_fallback() -> None:
    server = ProviderServer()
    unknown = Model("nobody", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(UnknownPrice, match="nobody"):
        Agent("guide", model=model_of(server, SECOND, fallback=unknown), limits={"cost": 1})
