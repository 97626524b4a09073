"""Limits of cost per turn, per conversation and per scope: a request that would pass one is not sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from agents.kit import add_up, assert_valid, call, calls, stored

from autonomy_ctx import Agent, CostLimit, CostLimitExceeded, Memory, hook
from autonomy_ctx.agents.cost_limit import COST_CONVERSATION, COST_KIND, ModelRequest, fold_rows
from autonomy_ctx.agents.options import AgentHook
from autonomy_ctx.errors import HookError, StoreFull, UnknownPrice
from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, make_key
from autonomy_ctx.messages.message import TextContent, ToolCall
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tokens import MODELS, ModelInfo, Price

# Each reply costs a cent.
USAGE = Usage(input_tokens=1_000, cached_tokens=500, output_tokens=500)
CENT = 0.01
PRICE = Price(input=5, cached_input=5, output=10)


class PricedModel(ScriptedModel):
    """A model whose replies cost a cent each; with `loops` it calls a tool each time."""

    def __init__(self, name: str = "test-cost", *, loops: bool = False) -> None:
        made = (ToolCall("c", "add_up", '{"a": 1, "b": 1}'),) if loops else ()
        parts = () if loops else (TextContent("They said hello."),)
        super().__init__([lambda _: ModelReply(parts=parts, tool_calls=made, usage=USAGE)])
        self.name = name


@pytest.fixture(autouse=True)
def _price(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "test-cost", ModelInfo(name="test-cost", price=PRICE))


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/memory.db"


async def test_a_turn_ends_before_the_request_that_would_pass_its_limit(memory: Memory) -> None:
    model = PricedModel(loops=True)
    agent = Agent("helper", "Helps.", [add_up], model=model, memory=memory, limits={"cost": 0.0205})
    with pytest.raises(CostLimitExceeded, match=r"\$0.0200 of the limit of \$0.0205 per") as caught:
        await agent.send("count")
    assert caught.value.spent == pytest.approx(2 * CENT)
    assert caught.value.cost > 0
    assert len(model.calls) == 2
    history = await stored(agent.memory)
    assert [message.role.value for message in history] == ["user", *(["assistant", "tool"] * 2)]
    assert_valid(history)
    # Each turn has the whole amount.
    with pytest.raises(CostLimitExceeded):
        await agent.send("again")
    assert len(model.calls) == 4


async def test_a_first_request_that_is_too_dear_is_not_sent(memory: Memory) -> None:
    model = PricedModel()
    agent = Agent("helper", "Helps.", model=model, memory=memory, limits={"cost": 0.001})
    assert (await agent.send("hello")).text
    with pytest.raises(CostLimitExceeded):
        await agent.send("long words " * 500)
    assert len(model.calls) == 1


async def test_without_reported_usage_our_own_counts_are_priced(memory: Memory) -> None:
    def again(_: object) -> Any:
        return calls(call("add_up", a=1, b=1), text="many words " * 400)

    model = ScriptedModel([again])
    model.name = "test-cost"
    agent = Agent("helper", "Helps.", [add_up], model=model, memory=memory, limits={"cost": CENT})
    with pytest.raises(CostLimitExceeded):
        await agent.send("count")
    assert len(model.calls) == 1


def test_a_limit_of_cost_needs_a_price() -> None:
    with pytest.raises(UnknownPrice, match=r"PRICES\['nobody'\] = Price\(input=..., output=...\)"):
        Agent("helper", "Helps.", model=PricedModel("nobody"), limits={"cost": 1})
    Agent("helper", "Helps.", model=PricedModel(), limits={"cost": 1})
    with pytest.raises(ValueError, match="cost must be"):
        Agent("helper", "Helps.", model=PricedModel(), limits={"cost": -1})


async def test_hooks_hear_of_requests_and_replies(memory: Memory) -> None:
    heard: list[Any] = []

    @hook(AgentHook.BEFORE_REQUEST)
    def before(scope: str, conversation: str, request: ModelRequest) -> None:
        heard.append((request.step, request.model, request.spent, len(request.context.messages)))

    @hook(AgentHook.AFTER_REPLY)
    def after(scope: str, conversation: str, request: ModelRequest, reply: ModelReply) -> None:
        heard.append((reply.text, request.cost_of(reply)))

    agent = Agent("helper", "Helps.", model=PricedModel(), memory=memory, hooks=[before, after])
    await agent.send("hello")
    assert heard == [(1, "test-cost", 0, 3), ("They said hello.", pytest.approx(CENT))]


@pytest.mark.parametrize(
    "limits", [{}, {"per_scope": -1}, {"per_conversation": float("nan")}, {"per_scope": "1"}]
)
def test_a_limit_that_means_nothing_is_refused(limits: Mapping[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match="CostLimit"):
        CostLimit(**limits)


async def test_a_conversation_is_limited_over_turns_and_restarts(path: str) -> None:
    async with Memory(path) as memory:
        agent = Agent(
            "helper",
            "Helps.",
            model=PricedModel(),
            memory=memory,
            hooks=[CostLimit(per_conversation=2.5 * CENT)],
        )
        await agent.send("one", conversation="a")
        await agent.send("two", conversation="a")
    async with Memory(path) as memory:
        limit = CostLimit(per_conversation=2.5 * CENT)
        agent = Agent("helper", "Helps.", model=PricedModel(), memory=memory, hooks=[limit])
        # A cent was spent in another turn, and a long message would cost more than the rest.
        with pytest.raises(CostLimitExceeded, match=r"CostLimit\.reset") as caught:
            await agent.send("three " * 2000, conversation="a")
        assert isinstance(caught.value, HookError)
        assert caught.value.of == "conversation"
        assert caught.value.spent == pytest.approx(2 * CENT)
        assert (await agent.send("one", conversation="b")).text
        assert await limit.spent(agent.memory, "default", "b") == pytest.approx(CENT)
        assert await limit.spent(agent.memory, "default") == pytest.approx(3 * CENT)
        await limit.reset(agent.memory, "default", "a")
        assert await limit.spent(agent.memory, "default", "a") == 0
        assert (await agent.send("four", conversation="a")).text


async def test_scopes_are_apart_and_all_agents_add_to_one(path: str) -> None:
    limit = CostLimit(per_scope=3.5 * CENT)
    async with Memory(path) as memory:
        one, two = (
            Agent(name, "Helps.", model=PricedModel(), memory=memory, hooks=[limit])
            for name in ("one", "two")
        )
        for agent in (one, two, one, two):
            await agent.send("hello", scope="ana", conversation=agent.name)
        with pytest.raises(CostLimitExceeded, match="per scope"):
            await one.send("hello", scope="ana", conversation="another")
        assert (await one.send("hello", scope="ben")).text
        assert await limit.spent(memory, "ana") == pytest.approx(4 * CENT)
        assert await limit.spent(memory, "ben") == pytest.approx(CENT)
        listed = await memory.for_agent("").conversations("ana")
        assert COST_CONVERSATION not in [info.conversation for info in listed]


async def test_two_agents_at_once_lose_nothing_and_rows_are_folded(path: str) -> None:
    async def talk(number: int) -> None:
        async with Memory(path) as memory:
            agent = Agent(
                "helper", "Helps.", model=PricedModel(), memory=memory, hooks=[CostLimit(per_scope=9)]
            )
            for turn in range(50):
                await agent.send("hello", scope="ana", conversation=f"{number}-{turn % 5}")

    async with anyio.create_task_group() as tasks:
        for number in range(2):
            tasks.start_soon(talk, number)
    async with Memory(path) as memory:
        assert await CostLimit(per_scope=9).spent(memory, "ana") == pytest.approx(100 * CENT)
        rows = await memory.store.read_records(make_key("", "ana", COST_CONVERSATION), COST_KIND)
        assert len(rows) <= 66


async def test_rows_that_were_folded_and_not_dropped_do_not_count_twice(memory: Memory) -> None:
    """A process may die between the two steps."""
    key, limit = make_key("", "ana", COST_CONVERSATION), CostLimit(per_scope=9)
    total = json.dumps({"cost": 7.0, "names": ["a", "b"]})
    rows = [("total", total), ("a", "3.0"), ("b", "4.0"), ("c", "1.5")]
    await memory.store.put_records(key, COST_KIND, rows)
    assert await limit.spent(memory, "ana") == 8.5
    many = [(f"r{number}", "0.5") for number in range(80)]
    await memory.store.put_records(key, COST_KIND, many)
    assert await limit.spent(memory, "ana") == 48.5
    left = await memory.store.read_records(key, COST_KIND)
    assert [row.name for row in left] == ["total"]
    assert await limit.spent(memory, "ana") == 48.5


async def test_a_process_that_folds_late_replaces_no_newer_total(memory: Memory) -> None:
    key, store = make_key("", "ana", COST_CONVERSATION), memory.store
    await store.put_records(key, COST_KIND, [("a", "1.0"), ("b", "2.0")])
    await fold_rows(store, key, None, 3.0, ["a", "b"])
    await store.put_records(key, COST_KIND, [("c", "4.0")])
    (total,) = await store.read_records(key, COST_KIND, name="total")
    await fold_rows(store, key, total, 7.0, ["c"])
    # Both had read the rows before the others folded them.
    await fold_rows(store, key, None, 3.0, ["a", "b"])
    await fold_rows(store, key, total, 3.0, [])
    assert await CostLimit(per_scope=9).spent(memory, "ana") == 7


async def test_summaries_count_once_and_not_in_a_fork(memory: Memory) -> None:
    limit = CostLimit(per_conversation=9)
    writer = PricedModel()
    agent = Agent(
        "helper",
        "Helps.",
        model=PricedModel(),
        memory=memory,
        hooks=[limit],
        context_summary={"model": writer, "floor": 2, "ceiling": 4},
    )
    for _ in range(4):
        await agent.send("hello there")
        await agent.settled()
    written = len(writer.calls)
    assert written
    await agent.send("and again")
    spent = await limit.spent(agent.memory, "default", "default")
    assert spent == pytest.approx((5 + written) * CENT)
    assert await limit.spent(agent.memory, "default") == pytest.approx(spent)
    await agent.settled()
    name = await agent.fork(name="fork")
    await agent.send("hello", conversation=name)
    assert await limit.spent(agent.memory, "default", name) == pytest.approx(CENT)


class FullForCosts:
    """A store that has no more room for costs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_records(self, key: Key, kind: str, *rows: Any, **options: Any) -> list[int]:
        if kind == COST_KIND:
            raise StoreFull(path="own", problem="it is full")
        return await self._store.put_records(key, kind, *rows, **options)


async def test_a_reply_whose_cost_cannot_be_stored_is_still_given(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    full = Memory(store=cast(Store, FullForCosts(memory.store)))
    agent = Agent("helper", model=PricedModel(), memory=full, hooks=[CostLimit(per_scope=1)])
    assert (await agent.send("hello")).text
    assert len(await stored(agent.memory)) == 2
    assert "the cost of a reply could not be stored: StoreFull" in caplog.text


async def test_a_saved_agent_finds_its_limit(memory: Memory) -> None:
    limit = CostLimit(per_scope=1)
    agent = Agent("helper", "Helps.", model=PricedModel(), memory=memory, hooks=[limit])
    again = Agent.from_dict(agent.to_dict(), model=PricedModel(), memory=memory)
    assert limit in again.hooks
