"""What a past turn was shown, byte for byte, for as long as it is kept and no longer."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import call, calls, stored

from autonomy_ctx import (
    AdditionalContextSection,
    ComposedContext,
    ContextOverflow,
    ContextTemplate,
    ConversationHistorySection,
    ImageContent,
    Memory,
    Message,
    SummarizedHistorySection,
    SystemInstructionsSection,
    TextContent,
    tool,
)
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.errors import TurnLost, UnknownTurn
from autonomy_ctx.formats.outgoing import model_dict
from autonomy_ctx.inspection import list_turns
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.template.context_record import from_record, to_record
from autonomy_ctx.testing import HeldModel, ScriptedModel, StoppedClock


@tool
def look(place: str) -> str:
    """Look somewhere."""
    return f"nothing in {place}"


def looking() -> ScriptedModel:
    """Every turn looks twice, one after the other, and answers."""

    def answer(asked: Any) -> Any:
        roles = [message["role"] for message in asked.messages]
        made = roles[::-1].index("user") // 2
        return calls(call("look", place=f"place {made}")) if made < 2 else "nothing"

    return ScriptedModel([answer])


def assert_same(explained: ComposedContext, shown: Any) -> None:
    assert [model_dict(message) for message in explained.messages] == list(shown)


async def test_every_step_is_explained_as_the_model_saw_it(memory: Memory) -> None:
    model = looking()
    agent = Agent("helper", "Helps \ud800 you.", tools=[look], model=model, memory=memory)
    replies = [await agent.send(f"turn {number} {{brace}} \x07", scope="ana") for number in range(4)]
    assert len(model.calls) == 12
    for number, reply in enumerate(replies):
        assert reply.steps == 3
        for step in (1, 2, 3):
            explained = await agent.explain(reply.turn, step=step, scope="ana")
            assert_same(explained, model.calls[number * 3 + step - 1].messages)
        assert_same(await agent.explain(reply.turn, scope="ana"), model.calls[number * 3 + 2].messages)
    last = await agent.explain(scope="ana")
    assert_same(last, model.calls[-1].messages)
    assert (last.scope, last.conversation) == ("ana", "default")


async def test_all_of_the_report_comes_back(memory: Memory) -> None:
    model = ScriptedModel("ok")
    agent = Agent("helper", "Helps.", tools=[look], model=model, memory=memory)
    await agent.send("one")
    await agent.send([TextContent("two"), ImageContent("https://x.test/cat.png")])
    composed = agent._contexts[agent._key("default", "default")]
    explained = await agent.explain()
    assert explained.digest() == composed.digest()
    assert explained.sections == composed.sections
    assert explained.origins() == composed.origins()
    assert (explained.tokens, explained.calibration) == (composed.tokens, composed.calibration)
    assert explained.shared == composed.shared
    assert explained.shared is not None
    assert explained.budget == composed.budget
    assert explained.to_dicts() == composed.to_dicts()


async def test_budgets_cuts_and_a_clamped_message_come_back(memory: Memory) -> None:
    model = ScriptedModel("ok")
    extra = AdditionalContextSection(
        "extra", provider_fn=lambda *place: [{"role": "system", "content": "extra " * 200}]
    )
    template = ContextTemplate(
        [
            SystemInstructionsSection("Be brief."),
            extra,
            ConversationHistorySection(),
        ],
        max_tokens=700,
    )
    agent = Agent("helper", model=model, memory=memory, context_template=template)
    for number in range(6):
        await agent.send(f"{number} " + "word " * 150)
    await agent.send("much " * 3000)
    explained = await agent.explain()
    assert_same(explained, model.calls[-1].messages)
    assert explained.budget is not None
    assert explained.budget.used <= 700
    assert explained.cut
    assert explained.omitted == agent._contexts[agent._key("default", "default")].omitted


async def test_a_retry_after_an_overflow_is_a_step_of_its_own(memory: Memory) -> None:
    model = ScriptedModel(["ok", ContextOverflow("scripted", window=None), "fits"])
    agent = Agent("helper", model=model, memory=memory)
    await agent.send("long " * 1000)
    reply = await agent.send("short")
    for step in (1, 2):
        assert_same(await agent.explain(reply.turn, step=step), model.calls[step].messages)


async def test_a_summary_is_explained_also_after_it_was_replaced(memory: Memory) -> None:
    turns: list[str] = []
    writer = ScriptedModel([lambda asked: f"They talk about the trip to Rome, {len(turns)} times."])
    model, history = ScriptedModel("ok"), SummarizedHistorySection(writer, floor=2, ceiling=4)
    template = ContextTemplate([SystemInstructionsSection("Be."), history])
    agent = Agent("helper", model=model, memory=memory, context_template=template)
    for number in range(9):
        turns.append((await agent.send(f"message {number} about the trip to Rome")).turn)
        await history.settled()
    assert len(writer.calls) > 1
    assert "They talk about" in model.calls[-1].prompt
    for turn, asked in zip(turns, model.calls, strict=True):
        assert_same(await agent.explain(turn), asked.messages)
    await history.close()


async def test_a_failed_turn_is_explained_too(memory: Memory) -> None:
    model = ScriptedModel([calls(call("look", place="Rome")), RuntimeError("away")])
    agent = Agent("helper", tools=[look], model=model, memory=memory)
    with pytest.raises(RuntimeError):
        await agent.send("hi")
    assert_same(await agent.explain(), model.calls[1].messages)
    assert_same(await agent.explain(step=1), model.calls[0].messages)
    [turn] = await list_turns(memory.for_agent("helper"), "default", "default")
    assert turn.has_failed


async def test_only_so_many_turns_are_kept(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, explain_turns=3)
    turns = [(await agent.send(f"{number}")).turn for number in range(8)]
    for turn in turns[:-3]:
        with pytest.raises(UnknownTurn, match="newest 3 turns"):
            await agent.explain(turn)
    for number, turn in enumerate(turns[-3:], start=5):
        assert (await agent.explain(turn)).messages[-1].text == str(number)
    none = Agent("other", model=ScriptedModel("ok"), memory=memory, explain_turns=0)
    await none.send("hi")
    with pytest.raises(UnknownTurn):
        await none.explain()


async def test_only_turns_up_to_an_age_are_kept(tmp_path: Path) -> None:
    clock, path = StoppedClock(), tmp_path / "memory.db"
    async with Memory(f"sqlite:///{path}", clock=clock) as memory:
        agent = Agent(
            "helper", model=ScriptedModel("ok"), memory=memory, explain_seconds=86400.0, clock=clock
        )
        old = (await agent.send("old")).turn
        clock.advance(86_000)
        new = (await agent.send("new")).turn
        clock.advance(1_000)
        with pytest.raises(UnknownTurn, match="1 days"):
            await agent.explain(old)
        assert (await agent.explain(new)).messages[-1].text == "new"
        clock.advance(10_000)
        await agent.send("newest")
        kept = await memory.store.read_records(agent._key("default", "default"), "context")
        names = [record.name for record in kept]
        assert old not in names, "it is not only hidden"
        assert new in names


@pytest.mark.parametrize(("turns", "seconds"), [(-1, 10.0), (3, 0.0)])
def test_bounds_that_mean_nothing_are_refused(turns: int, seconds: float) -> None:
    with pytest.raises(ValueError, match=r"explain_\w+ must be .*>=? 0, not (-1|0.0)"):
        Agent("helper", explain_turns=turns, explain_seconds=seconds)


async def test_a_turn_or_step_that_is_not_there_is_said_to_be_unknown(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    with pytest.raises(UnknownTurn, match="newest turn"):
        await agent.explain()
    turn = (await agent.send("hi")).turn
    for step in (0, 2, -1):
        with pytest.raises(UnknownTurn, match="steps 1 to 1"):
            await agent.explain(turn, step=step)
    with pytest.raises(UnknownTurn):
        await agent.explain(turn, scope="somebody else")


def records_of(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return "\n".join(str(row) for row in connection.execute("SELECT * FROM record").fetchall())


async def test_nothing_of_a_deleted_message_is_left_in_the_records(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory(f"sqlite:///{path}") as memory:
        # A long message is shown cut: only then a record holds text of it.
        model = ScriptedModel("ok", context_window=3000)
        agent = Agent("helper", "Helps.", model=model, memory=memory)
        reply = await agent.send("SECRET " * 4000, message_id="m1")
        assert "SECRET" in records_of(path)
        await agent.send("and now?")
        assert await agent.memory.delete_message("default", "default", "m1")
        for turn in (reply.turn, None):
            with pytest.raises(UnknownTurn):
                await agent.explain(turn)
        assert "SECRET" not in records_of(path)
        await agent.send("next")
        assert "SECRET" not in str((await agent.explain()).to_dicts())
        assert "SECRET" not in records_of(path)


async def test_a_message_deleted_while_the_turn_goes_on_is_not_recorded(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory(f"sqlite:///{path}") as memory:
        model = HeldModel(context_window=3000)
        agent = Agent("helper", "Helps.", model=model, memory=memory)
        async with anyio.create_task_group() as group:
            group.start_soon(agent.send, "SECRET " * 4000)
            asked = await model.wait_for_call()
            [message] = await stored(agent.memory)
            await agent.memory.delete_message("default", "default", message.id)
            asked.answer("ok")
        assert "SECRET" not in records_of(path)
        with pytest.raises(UnknownTurn):
            await agent.explain()


async def test_a_record_names_stored_messages_instead_of_repeating_them(memory: Memory) -> None:
    agent = Agent("helper", "Helps.", model=ScriptedModel("ok"), memory=memory)
    for number in range(30):
        await agent.send(f"{number} " + "x" * 2000)
    [record] = await memory.store.read_records(agent._key("default", "default"), "context", limit=1)
    assert len(record.body) < 8_000
    composed = agent._contexts[agent._key("default", "default")]
    form = await to_record(composed, agent.memory)
    assert (await from_record(form, "default", "default", agent.memory)) is not None
    # Another log under the same positions is not what was shown.
    await memory.for_agent("other").append(
        "default", "default", *(Message("user", str(number)) for number in range(60))
    )
    assert await from_record(form, "default", "default", memory.for_agent("other")) is None
    assert await from_record(form, "default", "empty", agent.memory) is None


def commits(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [(count,)] = connection.execute("SELECT commits FROM progress").fetchall()
    return int(count)


async def test_the_record_of_a_turn_is_committed_with_its_answer(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    model = ScriptedModel("well")
    async with Memory(f"sqlite:///{path}") as memory, Agent("a", model=model, memory=memory) as agent:
        await agent.send("one", scope="ana")
        before = commits(path)
        reply = await agent.send("two", scope="ana")
        # The user's message, and the answer with the record.
        assert commits(path) - before == 2
        assert (await agent.explain(turn=reply.turn, scope="ana")).messages[-1].text == "two"


async def test_where_there_is_no_room_for_a_record_the_answer_is_kept(tmp_path: Path) -> None:
    store = SqliteStore(str(tmp_path / "memory.db"))

    def fill(asked: Any) -> str:
        assert store._writer.connection is not None
        # Of this connection: the one that is opened after the error has room for the answer.
        store._writer.connection.execute("PRAGMA max_page_count = 12")
        return "here"

    model = ScriptedModel([fill])
    async with Agent("a", "Look. " * 50_000, model=model, memory=Memory(store=store)) as agent:
        assert (await agent.send("where?", scope="ana")).text == "here"
        assert [message["content"] for message in await agent.history(scope="ana")] == ["where?", "here"]
    await store.close()


async def test_a_turn_that_was_lost_leaves_no_record(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    async with Memory(f"sqlite:///{path}") as memory:

        def lose(asked: Any) -> str:
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("UPDATE conversation SET turn_ticket = turn_ticket + 1")
            return "too late"

        async with Agent("a", model=ScriptedModel([lose]), memory=memory) as agent:
            with pytest.raises(TurnLost):
                await agent.send("where?", scope="ana")
            with pytest.raises(UnknownTurn):
                await agent.explain(scope="ana")
            assert len(await agent.history(scope="ana")) == 1


async def test_before_the_first_message_explain_says_what_to_do(memory: Memory) -> None:
    agent = Agent("helper", instructions="Help.", model=ScriptedModel("Yes."), memory=memory)
    with pytest.raises(UnknownTurn, match="there are no messages yet; send the agent a message first"):
        await agent.explain(scope="ana", conversation="trip")
