"""Hooks of an agent hear of turns and calls, and may keep them from happening."""

from __future__ import annotations

from typing import Any

import pytest
from agents.kit import add_up, assert_valid, call, calls, made, stored

from autonomy_ctx import Memory, Message, hook, tool
from autonomy_ctx.agents.options import AgentHook
from autonomy_ctx.errors import HookError
from autonomy_ctx.testing import ScriptedModel


async def test_hooks_hear_of_turns_and_calls_in_order(memory: Memory) -> None:
    heard: list[Any] = []

    @hook(list(AgentHook))
    async def listen(scope: str, conversation: str, *what: Any) -> None:
        heard.append((scope, conversation, *(type(one).__name__ for one in what)))

    model = ScriptedModel([calls(call("add_up", a=1, b=2)), "3"])
    agent = made(memory, model, add_up, hooks=[listen])
    await agent.send("go", scope="ana", conversation="trip")
    assert heard == [
        ("ana", "trip", "Message"),
        ("ana", "trip", "ModelRequest"),
        ("ana", "trip", "ModelRequest", "ModelReply"),
        ("ana", "trip", "ToolCall"),
        ("ana", "trip", "ToolCall", "Message"),
        ("ana", "trip", "ModelRequest"),
        ("ana", "trip", "ModelRequest", "ModelReply"),
        ("ana", "trip", "AgentReply"),
    ]


async def test_a_hook_may_keep_a_turn_from_beginning(memory: Memory) -> None:
    @hook(AgentHook.BEFORE_TURN)
    def no_shouting(scope: str, conversation: str, message: Message) -> None:
        if message.text.isupper():
            raise PermissionError("do not shout")

    model = ScriptedModel("ok")
    agent = made(memory, model, hooks=[no_shouting])
    with pytest.raises(HookError, match="do not shout") as caught:
        await agent.send("HEY")
    assert isinstance(caught.value, PermissionError)
    assert await stored(agent.memory) == []
    assert model.calls == []
    assert (await agent.send("hey")).text == "ok"


async def test_a_hook_may_keep_a_call_from_being_run(memory: Memory) -> None:
    ran: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        ran.append(amount)
        return "paid"

    @hook(AgentHook.BEFORE_CALL)
    def not_too_much(scope: str, conversation: str, made: Any) -> None:
        if made.parse_arguments()["amount"] > 100:
            raise PermissionError("too much")

    model = ScriptedModel([calls(call("pay", amount=500), call("pay", amount=5)), "done"])
    agent = made(memory, model, pay, hooks=[not_too_much])
    await agent.send("pay both")
    assert ran == [5]
    _, _, refused, paid, _ = await stored(agent.memory)
    assert refused.is_error
    assert "too much" in refused.text
    assert paid.text == "paid"
    assert_valid(await stored(agent.memory))


@pytest.mark.parametrize("event", [AgentHook.AFTER_CALL, AgentHook.AFTER_TURN])
async def test_a_hook_that_fails_afterwards_undoes_nothing(memory: Memory, event: AgentHook) -> None:
    @hook(event)
    def fail(*what: Any) -> None:
        raise ValueError("too late")

    model = ScriptedModel([calls(call("add_up", a=1, b=2)), "3"])
    agent = made(memory, model, add_up, hooks=[fail])
    with pytest.raises(HookError, match="too late") as caught:
        await agent.send("go")
    assert caught.value.done
    assert len(await stored(agent.memory)) == (3 if event is AgentHook.AFTER_CALL else 4)
    assert_valid(await stored(agent.memory))
    assert len(agent._turn_queue) == 0
