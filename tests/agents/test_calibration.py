"""Counts of tokens begin with the factor of the model and follow what a provider reports."""

from __future__ import annotations

import pytest

from autonomy_ctx import Agent, Memory, Model
from autonomy_ctx.testing.providers import ProviderServer
from autonomy_ctx.tokens import TokenCounter

FACTOR = 1.3
# The server counts words; so long that what stands around a message hardly counts.
QUESTION = (
    "Where does the ferry to the old harbour leave on a Sunday in winter, and how long does it take? " * 40
)


class TooFew:
    """Counts 10 tokens where the server counts 13."""

    name = "too-few"

    def count(self, text: str) -> int:
        return round(len(text.split()) / FACTOR)


async def test_after_three_replies_of_a_server_that_counts_more_the_count_is_within_5_percent() -> None:
    server = ProviderServer()
    memory = Memory(token_counter=TokenCounter(TooFew()))
    model = Model("claude-opus-5-5", client=server.client(), api_key="k")
    async with memory, Agent("guide", memory=memory, model=model, tools=[]) as agent:
        for _ in range(3):
            await agent.send(QUESTION, scope="ana", conversation="trip")
        assert memory.token_counter.calibration.reports == 3
        # Within an epoch the factor of its beginning is used: another conversation begins one.
        await memory.for_agent("guide").append("ana", "other", {"role": "user", "content": QUESTION})
        expected = (await agent.preview(scope="ana", conversation="other")).tokens
        expected += memory.token_counter.count_text("Go on.")
        await agent.send("Go on.", scope="ana", conversation="other")
    sent = server.requests[-1]
    expected += memory.token_counter.count_tools(sent.body.get("tools", []))
    assert expected == pytest.approx(sent.use.total, rel=0.05)


@pytest.mark.parametrize(("model", "factor"), [("claude-opus-5-5", 1.3), ("gpt-5.2", 1.0), ("unknown", 1.0)])
async def test_the_estimate_begins_with_the_factor_of_the_model(model: str, factor: float) -> None:
    async with Agent("guide", model=Model(model, provider="anthropic", api_key="k")) as agent:
        await agent.preview()
        counter = agent.memory.token_counter
        assert counter.count_text(QUESTION) == pytest.approx(
            TokenCounter().count_text(QUESTION) * factor, abs=1
        )
        counter.calibration.observe(100, 110)
        assert counter.calibration.factor == 1.1


async def test_another_counter_needs_no_factor() -> None:
    memory = Memory(token_counter=TokenCounter(TooFew()))
    async with memory, Agent("guide", memory=memory, model=Model("claude-opus-5-5", api_key="k")) as agent:
        await agent.preview()
        assert memory.token_counter.calibration.factor == 1.0
