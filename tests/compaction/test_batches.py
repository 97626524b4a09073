"""Summaries by the batches of a provider: half the price, also after a restart, and dropped by a deletion."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import Memory, Message, Model, SummarizedHistorySection
from autonomy_ctx.memory.store import Key
from autonomy_ctx.testing import ProviderServer, ScriptedModel, StoppedClock

pytestmark = pytest.mark.anyio

RECORD = "Done\n- Ana looked for hotels in Porto, 84 EUR."
KEY = Key("", "ana", "trip")
MODELS = [("claude-opus-5-5", None), ("gpt-6.1-sol", "openai"), ("gpt-6.1-sol", "openai-responses")]


def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": RECORD}]


@pytest.fixture
def server() -> ProviderServer:
    return ProviderServer(answer)


@pytest.fixture
def clock() -> StoppedClock:
    return StoppedClock()


@pytest.fixture(params=MODELS, ids=[f"{name}-{provider}" for name, provider in MODELS])
def chosen(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    found: tuple[str, str | None] = request.param
    return found


@asynccontextmanager
async def writing(
    server: ProviderServer, chosen: tuple[str, str | None] = MODELS[0], **options: Any
) -> AsyncIterator[SummarizedHistorySection]:
    """A section whose summaries are left to batches."""
    name, provider = chosen
    async with server.client() as client:
        model = Model(name, provider=provider, client=client, api_key="key", retries=0)
        async with SummarizedHistorySection(model, floor=2, ceiling=4, batch=True, **options) as section:
            yield section


async def fill(memory: Memory, count: int = 8) -> list[Message]:
    said = [Message("user", f"A hotel in Porto for 84 EUR, night {number}?") for number in range(count)]
    await memory.append("ana", "trip", *said)
    return said


async def look(section: SummarizedHistorySection, memory: Memory, clock: StoppedClock) -> None:
    """One look at what is due, after a pause."""
    clock.advance(120)
    await memory.store.enqueue_task(KEY, task=section._summarizer.task)
    await section.catch_up(memory)


async def covered(memory: Memory) -> int:
    return (await memory.summary("ana", "trip")).covered


async def test_a_summary_is_sent_as_a_batch_and_read_when_it_has_ended(
    server: ProviderServer, clock: StoppedClock, chosen: tuple[str, str | None]
) -> None:
    async with Memory(clock=clock) as memory, writing(server, chosen) as section:
        await fill(memory)
        server.holds_batches = True
        await look(section, memory, clock)
        await look(section, memory, clock)
        assert await covered(memory) == 0
        assert len(server.batches) == 1
        server.holds_batches = False
        # What is said meanwhile is for the next summary.
        await memory.append("ana", "trip", Message("user", "And in Faro?"))
        await look(section, memory, clock)
        assert await covered(memory) == 6
        metrics = section.get_metrics()
        assert (metrics["batches_sent"], metrics["batches_read"], metrics["batches_dropped"]) == (1, 1, 0)
        # The texts are gone at the provider.
        assert (server.batches if chosen[0].startswith("claude") else server.files) == {}
    [asked] = [one for one in server.requests if one.is_batch]
    assert "And in Faro?" not in json.dumps(asked.body)
    assert not server.refused
    half, asked.is_batch = asked.cost, False
    assert asked.cost is not None
    assert half == asked.cost / 2


async def test_a_batch_survives_a_restart(
    server: ProviderServer, clock: StoppedClock, sqlite_path: Path
) -> None:
    server.holds_batches = True
    async with Memory(f"sqlite:///{sqlite_path}", clock=clock) as memory, writing(server) as section:
        await fill(memory)
        await look(section, memory, clock)
    server.holds_batches = False
    async with Memory(f"sqlite:///{sqlite_path}", clock=clock) as memory, writing(server) as section:
        await look(section, memory, clock)
        assert await covered(memory) == 6
        assert section.get_metrics()["batches_sent"] == 0
    assert len([one for one in server.requests if one.is_batch]) == 1


async def test_a_deleted_message_cancels_the_batch_and_nothing_of_it_is_stored(
    server: ProviderServer, clock: StoppedClock
) -> None:
    async with Memory(clock=clock) as memory, writing(server) as section:
        said = await fill(memory)
        server.holds_batches = True
        await look(section, memory, clock)
        await memory.delete_message("ana", "trip", said[0].id)
        await look(section, memory, clock)
        [batch] = server.batches.values()
        assert batch.status == "cancelled"
        server.holds_batches = False
        await look(section, memory, clock)
        await look(section, memory, clock)
        assert await covered(memory) == 6
    [asked] = [one for one in server.requests if one.is_batch]
    assert "night 0" not in json.dumps(asked.body)
    assert section.get_metrics()["batches_dropped"] == 1


@pytest.mark.parametrize("what", ["conversation", "scope"])
async def test_deleting_a_conversation_cancels_its_batch_also_after_a_restart(
    server: ProviderServer, clock: StoppedClock, sqlite_path: Path, what: str
) -> None:
    server.holds_batches = True
    async with Memory(f"sqlite:///{sqlite_path}", clock=clock) as memory, writing(server) as section:
        await fill(memory)
        await look(section, memory, clock)
        if what == "scope":
            await memory.delete_scope("ana")
        else:
            await memory.delete_conversation("ana", "trip")
    async with Memory(f"sqlite:///{sqlite_path}", clock=clock) as memory, writing(server) as section:
        # Due at once, without any message of it.
        assert await section.catch_up(memory) is not None
        [batch] = server.batches.values()
        assert batch.status == "cancelled"
    assert not [one for one in server.requests if one.is_batch]


async def test_a_batch_that_failed_is_asked_for_at_once(server: ProviderServer, clock: StoppedClock) -> None:
    async with Memory(clock=clock) as memory, writing(server) as section:
        await fill(memory)
        await look(section, memory, clock)
        server.max_tokens = 10
        await look(section, memory, clock)
        assert section.get_metrics()["background_tasks_failed"] == 1
        server.max_tokens = 10_000
        await look(section, memory, clock)
    [batched, direct] = [one for one in server.requests if one.path == "/v1/messages"]
    assert (batched.is_batch, direct.is_batch) == (True, False)


async def test_a_summary_by_hand_does_not_wait_for_a_batch(
    server: ProviderServer, clock: StoppedClock
) -> None:
    async with Memory(clock=clock) as memory, writing(server) as section:
        await fill(memory)
        server.holds_batches = True
        await look(section, memory, clock)
        done = await section.summarize_now(memory, "ana", "trip")
        assert (done.problem, await covered(memory)) == ("", 6)
        [batch] = server.batches.values()
        assert batch.status == "cancelled"


async def test_only_models_with_batches_take_the_option() -> None:
    with pytest.raises(ValueError, match="has no batches"):
        SummarizedHistorySection(ScriptedModel(), batch=True)
    with pytest.raises(TypeError, match="batch is 1"):
        SummarizedHistorySection(None, batch=1)  # type: ignore[arg-type]
    assert not Model("gemini-3.8-flash", api_key="key").can_batch
