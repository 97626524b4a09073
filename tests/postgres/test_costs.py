"""The sums of costs in PostgreSQL: what several processes add at once is all there."""

from __future__ import annotations

import asyncio

import pytest
from postgres_server import Databases

from autonomy_ctx import Agent, CostLimit, CostLimitExceeded, Memory, ModelReply, Usage
from autonomy_ctx.messages.message import TextContent
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tokens import MODELS, ModelInfo, Price

REPLY = ModelReply(parts=(TextContent("ok"),), usage=Usage(input_tokens=10_000))
CENT = 0.01


async def test_what_agents_spend_at_once_is_all_kept(
    databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(MODELS, "scripted", ModelInfo(name="scripted", price=Price(input=1, output=1)))
    name = databases.create()
    limit = CostLimit(per_scope=100 * CENT)

    async def talk(number: int) -> None:
        async with Memory(databases.url_of(name)) as memory:
            agent = Agent("helper", model=ScriptedModel([lambda _: REPLY]), memory=memory, hooks=[limit])
            for turn in range(40):
                await agent.send("hello", scope="ana", conversation=f"{number}-{turn % 2}")

    await asyncio.gather(talk(1), talk(2))
    async with Memory(databases.url_of(name)) as memory:
        assert await limit.spent(memory, "ana") == pytest.approx(80 * CENT)
        agent = Agent(
            "helper",
            model=ScriptedModel([lambda _: REPLY]),
            memory=memory,
            hooks=[CostLimit(per_scope=80 * CENT)],
        )
        with pytest.raises(CostLimitExceeded):
            await agent.send("hello", scope="ana")
        assert (await agent.send("hello", scope="ben")).text == "ok"
    databases.drop(name)
