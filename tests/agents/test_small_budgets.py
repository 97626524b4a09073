"""A small budget: the model sees the last exchanges, and the message that its turn answers."""

from __future__ import annotations

from typing import Any

import pytest

from autonomy_ctx import Agent, Memory, Model, SummarizedHistorySection, TemplateHook, hook
from autonomy_ctx.testing import ScriptedModel

TURNS = 24


def words(number: int, size: int) -> str:
    return f"Order {number} " + " ".join(f"part{number}_{index}" for index in range(size))


@pytest.mark.parametrize(("budget", "size"), [(500, 5), (1_000, 5), (2_000, 5), (2_000, 60)])
async def test_the_last_two_exchanges_are_shown_while_they_fit(budget: int, size: int) -> None:
    memory = Memory()
    model = ScriptedModel([lambda call: words(len(call.messages), size)])
    summary: dict[str, Any] = {"model": Model("offline")}
    limits = {"context_tokens": budget}
    async with Agent(
        "support", "You help.", model=model, memory=memory, context_summary=summary, limits=limits
    ) as agent:
        history = agent.context_template.get_section("conversation_history")
        assert isinstance(history, SummarizedHistorySection)
        for number in range(TURNS):
            reply = await agent.send(words(number, size))
            context = await agent.explain(reply.turn)
            assert context.budget is not None
            assert context.tokens <= context.budget.limit
            log = (await agent.memory.read("default", "default")).entries[:-1]
            last = log[-5:]
            around = sum(one.tokens for one in context.sections if one.name != "conversation_history")
            needed = around + memory.token_counter.count_messages(entry.message for entry in last)
            if needed <= context.budget.limit:
                shown = {origin.position for origin in context.origins()}
                assert {entry.position for entry in last} <= shown
            await history.settled()


async def test_this_turns_message_is_kept_when_another_process_says_something_newer() -> None:
    memory = Memory()

    @hook(TemplateHook.BEFORE_COMPOSE)
    async def other_process(scope: str, conversation: str, params: Any) -> None:
        newer = {"role": "user", "content": words(7, 60)}
        await memory.for_agent("support").append(scope, conversation, newer)

    model = ScriptedModel("It is on its way.")
    async with Agent(
        "support", "You help.", model=model, memory=memory, limits={"context_tokens": 420}
    ) as agent:
        agent.context_template.hooks = [*agent.context_template.hooks, other_process]
        for number in range(4):
            question = words(100 + number, 8)
            reply = await agent.send(question)
            assert question in [message.text for message in (await agent.explain(reply.turn)).messages]
