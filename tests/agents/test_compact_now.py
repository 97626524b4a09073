"""A conversation is summarized when somebody says so, and the next turn shows it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import call, calls, made, stored

from autonomy_ctx import AgentHook, Memory, Message, hook
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.compaction import ContextCompacted
from autonomy_ctx.errors import HookError, InvalidAgent, InvalidPin
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import HeldModel, ScriptedModel

pytestmark = pytest.mark.anyio

RECORD = "Done\n- Ana looked for a hotel in Porto and in Faro."
LIMITS: dict[str, Any] = {"floor": 4, "ceiling": 40}
STORES = ["in_process", "sqlite"]


@pytest.fixture(params=STORES)
async def memory(request: pytest.FixtureRequest, sqlite_path: Path) -> AsyncIterator[Memory]:
    async with Memory(None if request.param == "in_process" else f"sqlite:///{sqlite_path}") as opened:
        yield opened


@asynccontextmanager
async def talked(
    memory: Memory, writer: Any = None, *, turns: int = 6, tools: Sequence[Any] = (), **options: Any
) -> AsyncIterator[Agent]:
    """An agent after some turns, far below its ceiling."""
    writer = ScriptedModel([RECORD] * 9) if writer is None else writer
    summary = {**LIMITS, "model": writer, **options.pop("summary", {})}
    model = options.pop("model", None) or ScriptedModel(["It costs 84 EUR."] * 40)
    async with made(memory, model, *tools, context_summary=summary, **options) as agent:
        for number in range(turns):
            await agent.send(f"How much is a hotel in {('Porto', 'Faro')[number % 2]} for {number} nights?")
        yield agent


async def test_the_next_turn_shows_a_summary_of_all_but_the_newest_messages(memory: Memory) -> None:
    async with talked(memory) as agent:
        done = await agent.compact()
        assert (done.first, done.last, done.problem) == (1, 8, "")
        assert [(one.first, one.last) for one in done.segments] == [(1, 8)]
        assert done.tokens_after < done.tokens_before
        assert len(await stored(memory.for_agent("helper"))) == 12
        await agent.send("And in Braga?")
        sent = await agent.explain()
    assert sent.end_reason is EndReason.SWAP
    assert [one for one in sent.positions() if one] == [9, 10, 11, 12, 13]
    assert "Ana looked for a hotel" in sent.messages[2].text


async def test_a_policy_that_would_wait_is_overruled_also_in_another_process(
    sqlite_path: Path,
) -> None:
    def never(choice: Any) -> bool:
        return False

    async with (
        Memory(f"sqlite:///{sqlite_path}") as memory,
        talked(memory, summary={"swap": never}) as agent,
        Memory(f"sqlite:///{sqlite_path}") as elsewhere,
        talked(elsewhere, summary={"swap": never}, turns=1) as other,
    ):
        await agent.send("And in Braga?")
        done = await agent.compact()
        assert done.last == 12
        await other.send("And in Tomar?")
        sent = await other.explain()
        assert sent.end_reason is EndReason.BY_HAND
        assert next(one for one in sent.positions() if one) == done.last + 1
        # After that, the policy decides again.
        await other.send("And in Aveiro?")
        assert (await other.explain()).end_reason is None


async def test_a_focus_is_an_instruction_for_this_summary_only(memory: Memory) -> None:
    writer = ScriptedModel([RECORD] * 3)
    async with talked(memory, writer, summary={"instructions": "Keep all prices."}) as agent:
        await agent.compact("The plan for Faro {conversation}")
        for _ in range(3):
            await agent.send("And in Braga?")
        await agent.compact()
    first, second = (str(one.messages[0]) for one in writer.calls[:2])
    assert "Above all: Keep all prices.\\nThe plan for Faro the conversation" in first
    assert "Above all: Keep all prices." in second
    assert "Faro the" not in second


async def test_what_is_to_be_kept_stays_word_for_word(memory: Memory) -> None:
    async with talked(memory) as agent:
        rule = (await stored(memory.for_agent("helper")))[2]
        done = await agent.compact(keep=[rule.id, "Never more than 90 EUR a night"])
        assert done.kept == (3,)
        await agent.send("And in Braga?")
        text = "\n".join(one.text for one in (await agent.explain()).messages)
    assert rule.text in text
    assert "Never more than 90 EUR a night" in text


async def test_an_unknown_message_to_keep_changes_nothing(memory: Memory) -> None:
    writer = ScriptedModel([RECORD])
    async with talked(memory, writer) as agent:
        rule = (await stored(memory.for_agent("helper")))[2]
        with pytest.raises(InvalidPin, match="no message with the id 'm-404'"):
            await agent.compact(keep=[rule.id, "m-404", "a fact of mine"])
        assert (await agent.summary()).pins == ()
        assert await agent.facts() == []
        assert not writer.calls


async def test_nothing_to_do_is_said(memory: Memory) -> None:
    async with talked(memory, turns=2) as agent:
        done = await agent.compact()
        assert (done.first, done.last, done.segments) == (0, 0, ())
        assert "newest 4" in done.problem
        assert done.tokens_after == done.tokens_before
        empty = await agent.compact(conversation="new")
        assert empty.problem == "there are no messages"


async def test_a_refused_or_failed_summary_leaves_everything_as_it_was(memory: Memory) -> None:
    async with talked(memory, ScriptedModel(["I'm sorry, I can't help with that."] * 2)) as agent:
        done = await agent.compact()
        assert done.problem.startswith("the summary was rejected: ")
        assert done.tokens_after == done.tokens_before
        await agent.send("And in Braga?")
        assert (await agent.explain()).end_reason is None

    async with talked(memory, ScriptedModel([ConnectionError("no route")]), turns=0) as agent:
        done = await agent.compact()
        assert done.problem == "the summary model failed: ConnectionError"
        # A failure of a summary that was asked for is not repeated by itself.
        history: Any = agent.context_template.get_section("conversation_history")
        assert await history.catch_up(memory) is None


async def test_a_long_conversation_is_compacted_in_batches(memory: Memory) -> None:
    writer = ScriptedModel([RECORD] * 40)
    async with talked(memory, writer, turns=0) as agent:
        hotels = [f"Hotel {number} in Porto costs {number} EUR. " * 200 for number in range(30)]
        await agent.memory.append("default", "default", *(Message("user", one) for one in hotels))
        done = await agent.compact()
        assert len(done.segments) > 1
        assert (done.segments[0].first, done.last, done.problem) == (1, 26, "")


async def test_an_agent_without_summaries_says_what_to_do(memory: Memory) -> None:
    async with made(memory, ScriptedModel()) as agent:
        with pytest.raises(InvalidAgent, match="context_summary=True"):
            await agent.compact()
    async with talked(memory, turns=0) as agent:
        with pytest.raises(ValueError, match="focus is ' '"):
            await agent.compact(" ")
        with pytest.raises(TypeError, match="keep is a string"):
            await agent.compact(keep="a fact of mine")


async def test_turns_go_on_while_a_summary_is_written(memory: Memory) -> None:
    writer = HeldModel()
    async with talked(memory, writer) as agent, anyio.create_task_group() as group:
        group.start_soon(agent.compact)
        asked = await writer.wait_for_call()
        await agent.send("And in Braga?")
        assert (await agent.explain()).end_reason is None
        asked.answer(RECORD)


async def test_a_model_may_ask_for_it_and_gets_it_after_the_turn(memory: Memory) -> None:
    asked = calls(call("compact_context", reason="the trip is booked", preserve="the price in Faro"))
    model, writer = ScriptedModel(["Fine."] * 6 + [asked, "Booked.", "Yes?"]), ScriptedModel([RECORD])
    async with talked(memory, writer, model=model, enable_compaction=True) as agent:
        await agent.send("Book it.")
        assert len((await agent.explain()).messages) > 12
        await agent.settled()
        assert "Above all: the price in Faro" in str(writer.calls[0].messages[0])
        await agent.send("And now?")
        assert (await agent.explain()).end_reason is EndReason.SWAP
    async with talked(memory, turns=0) as plain:
        assert "compact_context" not in [one.name for one in plain.tools]


async def test_hooks_and_the_stream_are_told_before_a_summary_is_shown(memory: Memory) -> None:
    told: list[ContextCompacted] = []

    @hook(AgentHook.BEFORE_COMPACTION)
    def tell(scope: str, conversation: str, event: ContextCompacted) -> None:
        told.append(event)

    async with talked(memory, hooks=[tell]) as agent:
        done = await agent.compact()
        events = [event async for event in agent.stream("And in Braga?")]
        await agent.send("And in Tomar?")
    [event] = [one for one in events if isinstance(one, ContextCompacted)]
    assert told == [event]
    assert (event.first, event.last, event.reason) == (done.first, done.last, "swap")
    assert event.tokens_after <= done.tokens_after + 60
    assert isinstance(events[0], ContextCompacted)


async def test_a_hook_that_fails_sends_nothing(memory: Memory) -> None:
    @hook(AgentHook.BEFORE_COMPACTION)
    def refuse(scope: str, conversation: str, event: ContextCompacted) -> None:
        raise RuntimeError("not now")

    async with talked(memory, hooks=[refuse]) as agent:
        await agent.compact()
        before = len(agent.model.calls)
        with pytest.raises(HookError):
            await agent.send("And in Braga?")
        assert len(agent.model.calls) == before
