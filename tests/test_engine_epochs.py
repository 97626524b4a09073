"""The engine sends contexts that grow by appending, also after a restart; inserts are never instructions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Message
from autonomy_ctx.engine import ContextEngine, FrameworkContext, SourcedMessage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.messages.summary import visible_fields
from autonomy_ctx.template.epoch import EndReason

pytestmark = pytest.mark.anyio
TRIP = Key("assistant", "ana", "trip")


class Clock:
    """A section that says another time in each turn."""

    name, enabled, kind = "clock", True, "volatile"
    hour = 10

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
        return [{"role": "system", "content": f"It is {self.hour}:00."}]


def said(count: int) -> list[SourcedMessage]:
    roles = ("user", "assistant")
    return [SourcedMessage(Message(roles[at % 2], f"message {at}")) for at in range(count)]


def rules(text: str) -> list[SourcedMessage]:
    return [SourcedMessage(Message("system", text))]


def sent(context: FrameworkContext) -> list[Any]:
    return [visible_fields(one.message) for one in (*context.instructions, *context.messages)]


def engine_on(path: Path, clock: Clock) -> ContextEngine:
    template = ContextTemplate([ConversationHistorySection(), clock])
    return ContextEngine(
        scope="ana", memory=f"sqlite:///{path}/memory.db", agent="assistant", context_template=template
    )


async def test_each_call_goes_on_from_the_call_before_also_after_a_restart(tmp_path: Path) -> None:
    clock, before = Clock(), list[Any]()
    for turn in range(5):
        # Each call in a process of its own.
        async with engine_on(tmp_path, clock) as engine:
            clock.hour = 10 + turn
            context = await engine.compose(TRIP, said(2 * turn + 1), instructions=rules("Be kind."))
        assert context.composed.end_reason is None
        assert sent(context)[: len(before)] == before
        before = sent(context)
    inserts = [one for one in context.messages if "It is" in one.message.text]
    assert [one.message.role for one in inserts] == [ChatRole.USER] * 4
    assert [one.message.text for one in context.instructions] == ["Be kind.", "It is 10:00."]


async def test_a_client_that_changes_its_instructions_ends_the_epoch_each_time(tmp_path: Path) -> None:
    clock = Clock()
    async with engine_on(tmp_path, clock) as engine:
        for turn in range(3):
            rule = rules(f"It is day {turn}.")
            context = await engine.compose(TRIP, said(2 * turn + 1), instructions=rule)
            explained = await engine.explain("trip")
            assert explained.end_reason is (EndReason.INSTRUCTIONS if turn else None)
            assert context.instructions[0].message.text == f"It is day {turn}."


async def test_a_context_that_may_not_be_sent_is_not_gone_on_from(tmp_path: Path) -> None:
    clock = Clock()
    async with engine_on(tmp_path, clock) as engine:
        first = await engine.compose(TRIP, said(1))
        clock.hour = 11
        await engine.compose(TRIP, said(3), record=False)
        clock.hour = 12
        third = await engine.compose(TRIP, said(3))
    assert sent(third)[: len(sent(first))] == sent(first)
    assert "It is 11" not in str(sent(third))


@pytest.mark.parametrize("edits", [False, True])
async def test_a_client_that_asks_again_goes_on_from_the_turns_before(tmp_path: Path, edits: bool) -> None:
    clock, contexts = Clock(), list[FrameworkContext]()
    for turn in range(4):
        async with engine_on(tmp_path, clock) as engine:
            clock.hour = 10 + turn
            contexts.append(await engine.compose(TRIP, said(2 * turn + 1), instructions=rules("Be kind.")))
    # The answer before was not good: the same question again, or another one in its place.
    history = said(5)
    if edits:
        history[-1] = SourcedMessage(Message("user", "another question"))
    async with engine_on(tmp_path, clock) as engine:
        again = await engine.compose(TRIP, history, instructions=rules("Be kind."))
    before = sent(contexts[1])
    assert again.composed.end_reason is None
    assert sent(again)[: len(before)] == before
    assert again.composed.epoch == 1
