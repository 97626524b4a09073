"""Fields for prompt caches: which requests have them, and what the provider then reads from its cache."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import (
    AdditionalContextSection,
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SystemInstructionsSection,
)
from autonomy_ctx.models.model import Model
from autonomy_ctx.testing import StoppedClock
from autonomy_ctx.testing.providers import ProviderRequest, ProviderServer
from autonomy_ctx.tools import tool

RULES = "Answer in one sentence. " * 400
GPT, CLAUDE = "gpt-5.6-sol", "claude-opus-5-5"
MARK = "prompt_cache_breakpoint"


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


def marked_texts(body: Mapping[str, Any]) -> list[str]:
    """The beginnings of the parts that have a mark."""
    parts = [
        part
        for item in body.get("input") or body["messages"]
        for part in (item["content"] if isinstance(item.get("content"), list) else ())
    ]
    return [part["text"][:20] for part in parts if MARK in part]


async def send(server: ProviderServer, model: Model, *texts: str, **options: Any) -> list[ProviderRequest]:
    async with Memory() as memory, Agent("guide", RULES, model=model, memory=memory, **options) as agent:
        for text in texts:
            await agent.send(text, scope="ana", conversation="trip")
            await agent.settled()
    return server.requests


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
async def test_gpt_reads_the_prefix_that_the_request_before_has_written(provider: str) -> None:
    server = ProviderServer()
    model = Model(GPT, provider=provider, client=server.client(), api_key="k")
    first, second, third = await send(server, model, "One?", "Two?", "Three?")
    assert first.use.cached == 0
    for before, after in ((first, second), (second, third)):
        assert after.use.cached >= before.use.total
    keys = {request.body["prompt_cache_key"] for request in server.requests}
    assert len(keys) == 1
    assert marked_texts(first.body) == ["## Framework Capabil"]
    assert "prompt_cache_options" not in first.body


async def test_without_a_key_gpt_reads_nothing() -> None:
    """The fields are what makes the test above pass."""
    server = ProviderServer()
    model = Model(GPT, client=server.client(), api_key="k", cache=False)
    requests = await send(server, model, "One?", "Two?")
    assert [request.use.cached for request in requests] == [0, 0]
    assert "prompt_cache_key" not in requests[0].body
    assert MARK not in str(requests[0].body)


async def test_the_name_of_a_conversation_stays_in_another_process_and_tells_nothing(tmp_path: Path) -> None:
    keys = []
    for conversation in ("trip", "trip", "other"):
        server = ProviderServer()
        model = Model(GPT, client=server.client(), api_key="k")
        async with (
            Memory(f"sqlite:///{tmp_path}/a.db") as memory,
            Agent("guide", RULES, model=model, memory=memory) as agent,
        ):
            await agent.send("On?", scope="ana", conversation=conversation)
        keys.append(server.requests[0].body["prompt_cache_key"])
    assert keys[0] == keys[1] != keys[2]
    for key in keys:
        assert len(key) == 32
        assert int(key, 16)


async def test_a_new_epoch_keeps_the_name_and_reads_the_instructions() -> None:
    server = ProviderServer()
    model = Model(GPT, client=server.client(), api_key="k")
    async with Memory() as memory, Agent("guide", RULES, model=model, memory=memory) as agent:
        await agent.send("One?", scope="ana", conversation="trip")
        await agent.end_epoch(scope="ana", conversation="trip")
        await agent.send("Two?", scope="ana", conversation="trip")
    first, second = server.requests
    assert first.body["prompt_cache_key"] == second.body["prompt_cache_key"]
    assert second.use.cached >= 1024


async def test_a_gateway_gets_no_fields_unless_they_are_asked_for() -> None:
    for cache in (None, True):
        server = ProviderServer()
        model = Model(GPT, base_url="http://gateway/v1", client=server.client(), api_key="k", cache=cache)
        [request] = await send(server, model, "One?")
        assert ("prompt_cache_key" in request.body) == bool(cache)
        assert (MARK in str(request.body)) == bool(cache)


@pytest.mark.parametrize("name", ["xai/grok-5", "deepseek/deepseek-v4", "mistral/mistral-large"])
async def test_other_servers_of_the_same_format_get_no_fields(name: str) -> None:
    server = ProviderServer()
    [request] = await send(server, Model(name, client=server.client(), api_key="k"), "One?")
    assert "prompt_cache_key" not in request.body
    assert MARK not in str(request.body)


async def test_an_older_gpt_gets_the_name_and_no_marks() -> None:
    server = ProviderServer()
    model = Model("gpt-5.1", client=server.client(), api_key="k")
    [request] = await send(server, model, "One?")
    assert request.body["prompt_cache_key"]
    assert MARK not in str(request.body)


async def test_the_options_of_the_user_win() -> None:
    server = ProviderServer()
    model = Model(GPT, client=server.client(), api_key="k", prompt_cache_key="mine")
    [request] = await send(server, model, "One?")
    assert request.body["prompt_cache_key"] == "mine"


@pytest.mark.parametrize(
    ("name", "provider", "life"),
    [
        (CLAUDE, "anthropic", "1h"),
        (GPT, "openai-responses", "12h"),
        (f"us.anthropic.{CLAUDE}-v1:0", "bedrock", "1h"),
    ],
)
async def test_entries_may_live_longer(name: str, provider: str, life: str) -> None:
    server = ProviderServer()
    model = Model(name, provider=provider, client=server.client(), api_key="k", long_cache=True)
    [request] = await send(server, model, "One?")
    assert set(re.findall(r"'ttl': '(\w+)'", str(request.body))) == {life}
    assert request.use.written_long == request.use.written > 0


async def test_a_long_loop_is_read_from_the_cache_whole() -> None:
    """Claude looks back 20 positions from a mark; a step with 30 results has a mark at its beginning, too."""

    @tool
    def look(number: int) -> str:
        """Look something up."""
        return f"found {number}"

    def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        steps = sum(message["role"] == "assistant" for message in body["messages"])
        if steps == 3:
            return [{"type": "text", "text": "Done."}]
        ids = [f"c{steps}_{number}" for number in range(30)]
        return [{"type": "tool_use", "id": one, "name": "look", "input": {"number": 1}} for one in ids]

    server = ProviderServer(answer)
    await send(server, Model(CLAUDE, client=server.client(), api_key="k"), "Look.", tools=[look])
    first, *others = server.requests
    assert len(others) == 3
    for before, after in zip((first, *others), others, strict=False):
        assert after.use.cached == before.use.total


async def test_a_new_summary_reads_the_instructions_from_the_cache() -> None:
    server = ProviderServer(lambda body: [{"type": "text", "text": "We talked about trains in May."}])
    model = Model(GPT, client=server.client(), api_key="k")
    texts = [f"Question {number}?" for number in range(5)]
    await send(server, model, *texts, context_summary={"floor": 2, "ceiling": 6})
    [first, *_] = server.requests
    [swapped] = [one for one in server.requests if one.body["messages"][-1]["content"] == "Question 4?"]
    rules, summary = marked_texts(swapped.body)
    assert rules == "## Framework Capabil"
    assert summary.startswith("<summary ")
    assert swapped.body["prompt_cache_key"] == first.body["prompt_cache_key"]
    assert swapped.use.cached > 1024


async def test_a_summary_that_follows_a_cached_request_reads_it() -> None:
    server = ProviderServer(lambda body: [{"type": "text", "text": "We talked about trains in May."}])
    model = Model(GPT, client=server.client(), api_key="k")
    texts = [f"Question {number}? " + "And more. " * 600 for number in range(4)]
    await send(server, model, *texts, context_summary={"floor": 2, "ceiling": 6})
    *_, asked, written = server.requests
    assert "Question 3?" in str(asked.body["messages"][-1])
    assert written.body["messages"][: len(asked.body["messages"])] == asked.body["messages"]
    assert written.body["prompt_cache_key"] == asked.body["prompt_cache_key"]
    assert written.use.cached >= asked.use.total


@pytest.mark.parametrize(("minutes", "is_long"), [(20, True), (1, False)])
async def test_the_longer_life_is_asked_for_where_pauses_make_it_cheaper(
    clock: StoppedClock, minutes: int, is_long: bool
) -> None:
    server = ProviderServer(clock=lambda: clock().timestamp())
    model = Model("claude-fable-5-2", client=server.client(), api_key="k")
    async with (
        Memory(clock=clock) as memory,
        Agent("guide", RULES, model=model, memory=memory, context_summary="auto", clock=clock) as agent,
    ):
        for number in range(8):
            await agent.send(f"Question {number}? " + "And more. " * 50, scope="ana", conversation="trip")
            await agent.settled()
            clock.advance(60 * minutes)
    asked = [one for one in server.requests if "Question 7?" in str(one.body["messages"][-1])]
    assert ("'ttl': '1h'" in str(asked[-1].body)) == is_long
    assert asked[-1].use.cached > 0


async def test_what_the_user_decides_of_the_life_wins(clock: StoppedClock) -> None:
    server = ProviderServer(clock=lambda: clock().timestamp())
    model = Model("claude-fable-5-2", client=server.client(), api_key="k", long_cache=False)
    async with (
        Memory(clock=clock) as memory,
        Agent("guide", RULES, model=model, memory=memory, context_summary="auto", clock=clock) as agent,
    ):
        for number in range(8):
            await agent.send(f"Question {number}? " + "And more. " * 50, scope="ana", conversation="trip")
            await agent.settled()
            clock.advance(1200)
    assert "'ttl'" not in str([one.body for one in server.requests])


@pytest.mark.parametrize("change", ["delete", "undo"])
async def test_a_deletion_keeps_the_name_and_reads_the_instructions(change: str) -> None:
    server = ProviderServer()
    model = Model(GPT, client=server.client(), api_key="k")
    where: dict[str, Any] = {"scope": "ana", "conversation": "trip"}
    async with Memory() as memory, Agent("guide", RULES, model=model, memory=memory) as agent:
        await agent.send("One?", **where)
        if change == "undo":
            await agent.drop_last_turn(**where)
        else:
            [asked, _] = (await memory.for_agent("guide").read(**where)).entries
            await agent.delete_message(asked.message.id, **where)
        await agent.send("Two?", **where)
    first, second = server.requests
    assert first.body["prompt_cache_key"] == second.body["prompt_cache_key"]
    assert second.use.cached >= 1024


@pytest.mark.parametrize("provider", ["openai", "openai-responses"])
async def test_gpt_reads_what_a_section_has_said_behind_the_user_message(provider: str) -> None:
    """OpenAI sets no mark at an instruction."""
    server, spoken = ProviderServer(), ["It is 9:00."]
    model = Model(GPT, provider=provider, client=server.client(), api_key="k")
    now = AdditionalContextSection("now", provider_fn=lambda *_: [Message("system", spoken[-1])])
    template = ContextTemplate(
        [SystemInstructionsSection(RULES), now, ConversationHistorySection()], arrange="cache"
    )
    async with (
        Memory() as memory,
        Agent("guide", model=model, memory=memory, context_template=template) as agent,
    ):
        for hour in range(10, 13):
            await agent.send("Now?", scope="ana", conversation="trip")
            spoken.append(f"It is {hour}:00. " + "Really. " * 200)
    for before, after in pairwise(server.requests):
        assert after.use.cached == before.use.total


@pytest.mark.parametrize(
    ("name", "options", "mark"),
    [
        ("meta.llama4-scout-17b-instruct-v1:0", {}, None),
        ("meta.llama4-scout-17b-instruct-v1:0", {"cache": True}, {"type": "default"}),
        ("nova-lite", {"long_cache": True}, {"type": "default"}),
    ],
)
async def test_bedrock_gets_no_marks_that_a_model_refuses(
    name: str, options: dict[str, Any], mark: dict[str, str] | None
) -> None:
    server = ProviderServer()
    [request] = await send(server, Model(name, client=server.client(), api_key="k", **options), "One?")
    assert (f"'cachePoint': {mark}" in str(request.body)) == (mark is not None)
    assert "ttl" not in str(request.body)
