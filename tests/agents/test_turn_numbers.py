"""Every turn has a number, and figures that stay when its full context is not kept any more."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import anyio
import pytest
from agents.kit import call, calls
from agents.test_explain import assert_same, look

from autonomy_ctx import Agent, Memory, Message
from autonomy_ctx.engine import ContextEngine, SourcedMessage
from autonomy_ctx.errors import UnknownTurn
from autonomy_ctx.inspection import TurnInfo, inspect_turn, list_turns
from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.turn_figures import MAX_BYTES, TURN_KIND, TurnFigures, draft_figures
from autonomy_ctx.testing import HeldModel, ScriptedModel

PLACE = ("default", "default")
FILE_OF_0_2 = Path(__file__).with_name("talk_of_0_2.sqlite.gz")


def numbers(turns: tuple[TurnInfo, ...]) -> list[int | None]:
    return [turn.number for turn in turns]


async def test_a_turn_is_explained_by_its_number_while_its_context_is_kept(memory: Memory) -> None:
    model = ScriptedModel("ok")
    agent = Agent("helper", model=model, memory=memory, explain_turns=3)
    replies = [await agent.send(f"message {number}") for number in range(1, 8)]
    assert [reply.number for reply in replies] == [1, 2, 3, 4, 5, 6, 7]
    view = memory.for_agent("helper")
    assert (await inspect_turn(view, *PLACE, 6)).id == replies[5].turn
    assert (await inspect_turn(view, *PLACE, "6")).number == 6
    assert_same(await agent.explain(6), model.calls[5].messages)
    assert_same(await agent.explain(turn=5), model.calls[4].messages)
    with pytest.raises(UnknownTurn, match=r"turn 4 .* context is not kept.*explain_turns.*newest 3 turns"):
        await agent.explain(4)
    with pytest.raises(UnknownTurn, match=r"turn 3 .* context is not kept.*figures of every turn"):
        await inspect_turn(view, *PLACE, 3)
    with pytest.raises(UnknownTurn, match="no record of this number; the newest turn is 7"):
        await agent.explain(8)
    with pytest.raises(ValueError, match="turn must be >= 1"):
        await agent.explain(0)


async def test_the_figures_of_every_turn_say_what_its_report_said(memory: Memory) -> None:
    script: list[Any] = [calls(call("look", place="Rome")), "Nothing there.", "ok"]
    agent = Agent("helper", tools=[look], model=ScriptedModel(script), memory=memory, explain_turns=1)
    view, reports = memory.for_agent("helper"), []
    for text in ("Look at Rome.", "And now?"):
        await agent.send(text)
        reports.append(await inspect_turn(view, *PLACE))
    for turn, report in zip(await list_turns(view, *PLACE), reports, strict=True):
        assert (turn.number, turn.id, turn.steps, turn.model) == (
            report.number,
            report.id,
            report.steps,
            report.model,
        )
        assert (turn.tokens, turn.request_tokens) == (report.tokens, report.request_tokens)
        assert turn.shared_tokens == report.cached_tokens
        assert (turn.position, turn.epoch, turn.usage) == (report.position, report.epoch, report.turn_usage)
        shown = {section.name: section.tokens for section in report.sections if section.tokens}
        assert {section.name: section.tokens for section in turn.sections} == shown
    first, second = await list_turns(view, *PLACE)
    assert (first.has_context, second.has_context) == (False, True)
    assert (first.text, second.text) == ("Look at Rome.", "And now?")


async def test_figures_are_kept_when_no_context_is(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, explain_turns=0)
    for _ in range(3):
        await agent.send("hi")
    turns = await list_turns(memory.for_agent("helper"), *PLACE)
    assert numbers(turns) == [1, 2, 3]
    assert not any(turn.has_context for turn in turns)


async def test_turns_are_listed_by_pages(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, explain_turns=2)
    for number in range(1, 8):
        await agent.send(f"message {number}")
    view = memory.for_agent("helper")
    assert numbers(await list_turns(view, *PLACE, limit=3)) == [5, 6, 7]
    page = await list_turns(view, *PLACE, limit=3, before=5)
    assert [(turn.number, turn.text) for turn in page] == [
        (2, "message 2"),
        (3, "message 3"),
        (4, "message 4"),
    ]
    assert numbers(await list_turns(view, *PLACE, limit=3, before=2)) == [1]
    assert await list_turns(view, *PLACE, limit=3, before=1) == ()


async def test_agents_in_turn_and_a_new_process_continue_the_numbers(memory: Memory) -> None:
    found = []
    agents = [Agent("helper", model=ScriptedModel("ok"), memory=memory) for _ in range(2)]
    for index in (0, 0, 1, 0, 1, 1, 0):
        found.append((await agents[index].send("hi")).number)
    found.append((await Agent("helper", model=ScriptedModel("ok"), memory=memory).send("hi")).number)
    assert found == [1, 2, 3, 4, 5, 6, 7, 8]


async def test_a_turn_without_a_lease_has_a_number_too(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory, turn_lease_seconds=None)
    assert [(await agent.send("hi")).number for _ in range(3)] == [1, 2, 3]


async def test_a_failed_turn_has_a_number_and_figures(memory: Memory) -> None:
    script: list[Any] = ["ok", calls(call("look", place="Rome")), RuntimeError("away"), "ok"]
    agent = Agent("helper", tools=[look], model=ScriptedModel(script), memory=memory)
    await agent.send("one")
    with pytest.raises(RuntimeError):
        await agent.send("two")
    assert (await agent.send("three")).number == 3
    turns = await list_turns(memory.for_agent("helper"), *PLACE)
    assert [(turn.number, turn.text, turn.steps) for turn in turns] == [
        (1, "one", 1),
        (2, "two", 2),
        (3, "three", 1),
    ]


async def test_a_message_that_is_sent_again_is_a_turn_only_if_the_model_is_asked(memory: Memory) -> None:
    model = ScriptedModel([RuntimeError("away"), "ok", "ok"])
    agent = Agent("helper", model=model, memory=memory)
    with pytest.raises(RuntimeError):
        await agent.send("one", message_id="m1")
    assert (await agent.send("one", message_id="m1")).number == 2
    assert (await agent.send("one", message_id="m1")).number is None
    assert (await agent.send("two")).number == 3
    turns = await list_turns(memory.for_agent("helper"), *PLACE)
    assert [(turn.number, turn.position) for turn in turns] == [(1, 1), (2, 1), (3, 3)]


async def test_a_turn_that_was_killed_before_its_reply_has_no_number(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    await agent.send("one")
    # What a kill leaves: the user's message.
    await agent.memory.append(*PLACE, Message("user", "two"))
    assert (await agent.send("three")).number == 2
    turns = await list_turns(memory.for_agent("helper"), *PLACE)
    assert [(turn.number, turn.text) for turn in turns] == [(1, "one"), (2, "three")]


async def test_a_cancelled_turn_has_a_number_and_figures(memory: Memory) -> None:
    held = HeldModel()
    agent = Agent("helper", model=held, memory=memory)
    async with anyio.create_task_group() as group:
        group.start_soon(agent.send, "one")
        await held.wait_for_call()
        group.cancel_scope.cancel()
    assert numbers(await list_turns(memory.for_agent("helper"), *PLACE)) == [1]
    assert (await Agent("helper", model=ScriptedModel("ok"), memory=memory).send("two")).number == 2


async def test_an_undone_turn_keeps_its_number_and_figures(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    for text in ("one", "two"):
        await agent.send(text)
    await agent.drop_last_turn()
    assert (await agent.send("three")).number == 3
    turns = await list_turns(memory.for_agent("helper"), *PLACE)
    assert [(turn.number, turn.text) for turn in turns] == [(1, "one"), (2, ""), (3, "three")]
    with pytest.raises(UnknownTurn, match=r"turn 2 .* context is not kept"):
        await agent.explain(2)


async def test_deleting_a_message_leaves_figures_without_text(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    await agent.send("my secret", message_id="secret-id")
    await agent.send("two")
    view = memory.for_agent("helper")
    before = await list_turns(view, *PLACE)
    assert await agent.memory.delete_message(*PLACE, "secret-id")
    after = await list_turns(view, *PLACE)
    assert [(turn.tokens, turn.sections) for turn in after] == [
        (turn.tokens, turn.sections) for turn in before
    ]
    assert [(turn.text, turn.has_context) for turn in after] == [("", False), ("two", False)]
    records = await memory.store.read_records(Key("helper", *PLACE), TURN_KIND)
    assert not any("secret" in record.body for record in records)
    assert (await agent.send("three")).number == 3


@pytest.mark.parametrize("what", ["conversation", "scope"])
async def test_figures_go_with_the_conversation_or_the_scope(memory: Memory, what: str) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    for _ in range(2):
        await agent.send("hi")
    if what == "scope":
        await memory.delete_scope("default")
    else:
        await agent.memory.delete_conversation(*PLACE)
    assert await memory.store.read_records(Key("helper", *PLACE), TURN_KIND) == []
    assert (await agent.send("hi")).number == 1


async def test_a_fork_continues_with_the_numbers_of_its_source(memory: Memory) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    for number in range(1, 8):
        await agent.send(f"message {number}")
    forked = await agent.fork(at=6)
    at_end = await agent.memory.fork(*PLACE)
    assert (await agent.send("other", conversation=forked)).number == 4
    assert (await agent.send("other", conversation=at_end)).number == 8
    assert (await agent.send("message 8")).number == 8
    view = memory.for_agent("helper")
    assert numbers(await list_turns(view, "default", forked)) == [4]
    with pytest.raises(UnknownTurn, match="no record of this number; the newest turn is 4"):
        await agent.explain(2, conversation=forked)


@pytest.mark.parametrize("at", range(1, 15))
async def test_a_fork_finds_its_number_also_between_turns_without_figures(memory: Memory, at: int) -> None:
    agent = Agent("helper", model=ScriptedModel("ok"), memory=memory)
    for number in range(1, 8):
        await agent.send(f"message {number}")
    await memory.store.drop_records(Key("helper", *PLACE), TURN_KIND, ["3", "4"])
    forked = await agent.memory.fork(*PLACE, at=at)
    found = (await agent.send("other", conversation=forked)).number
    # Of turns without figures, it is not known where they began.
    begun = (at + 1) // 2
    assert found == begun + 1 if begun in (1, 5, 6, 7) else found in (3, 4, 5)


async def test_an_agent_in_a_turn_of_the_same_conversation_has_the_next_number(memory: Memory) -> None:
    view = memory.for_agent("shared")
    inner = Agent("inner", "Helps inside.", model=ScriptedModel("inside"), memory=view)
    script: list[Any] = ["ok", calls(call("inner", message="help")), "done", "ok"]
    outer = Agent("outer", tools=[inner.as_tool(name="inner")], model=ScriptedModel(script), memory=view)
    await outer.send("one")
    assert (await outer.send("two")).number == 2
    assert (await outer.send("three")).number == 4
    assert sorted(numbers(await list_turns(view, *PLACE)), key=int) == [1, 2, 3, 4]  # type: ignore[arg-type]


async def test_the_engine_numbers_the_turns_of_a_framework(memory: Memory) -> None:
    async with ContextEngine(scope="ana", memory=memory, explain_turns=1) as engine:
        key, history = engine.key(None, "trip", remedy=""), list[SourcedMessage]()
        for number in range(1, 4):
            history.append(SourcedMessage(Message("user", f"question {number}")))
            context = await engine.compose(key, history)
            # A second call of the same turn.
            await engine.compose(key, history)
            history.append(SourcedMessage(Message("assistant", f"answer {number}")))
            await engine.store_reply(key, context, history[-1])
        turns = await list_turns(memory, "ana", "trip")
        assert [(turn.number, turn.text, turn.steps) for turn in turns] == [
            (number, f"question {number}", 2) for number in (1, 2, 3)
        ]
        assert [turn.has_context for turn in turns] == [False, False, True]
        assert (await engine.explain("trip", 3)).digest() == (await engine.explain("trip")).digest()
    # Ids of an engine are made from messages, and go with them.
    records = await memory.store.read_records(Key("", "ana", "trip"), TURN_KIND)
    assert not any(turns[0].id in record.body for record in records)
    async with ContextEngine(scope="ana", memory=memory) as engine:
        await engine.compose(engine.key(None, "trip", remedy=""), history[:-1])
        assert numbers(await list_turns(memory, "ana", "trip")) == [1, 2, 3]


async def test_turns_of_0_2_are_listed_without_numbers(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(gzip.decompress(FILE_OF_0_2.read_bytes()))
    async with Memory(f"sqlite:///{path}") as memory:
        view = memory.for_agent("shop")
        before = await list_turns(view, "ana", "trip")
        assert numbers(before) == [None] * 4
        assert all(turn.has_context and turn.id and turn.tokens for turn in before)
        agent = Agent("shop", model=ScriptedModel("ok"), memory=memory)
        assert (await agent.send("And now?", scope="ana", conversation="trip")).number == 1
        after = await list_turns(view, "ana", "trip")
        assert numbers(after) == [None] * 4 + [1]
        assert (await inspect_turn(view, "ana", "trip", before[2].id)).number is None


def test_a_record_has_at_most_400_bytes() -> None:
    sections = {
        f"a rather long name of a section, number {number}": (10_000 + number, 0) for number in range(40)
    }
    figures = TurnFigures(
        100_000,
        "x" * 100,
        10**6,
        10**6,
        200,
        10**7,
        "m\u00f6del/" * 30,
        sections,
        (123_456, 1_234),
        10**6,
        (10**7,) * 6,
        123.456789,
        1_000,
        ("hard limit", "swap", "history section"),
    )
    draft = draft_figures(figures, 0)
    assert len(encode_text(draft.body).encode()) <= MAX_BYTES
    assert "other" in draft.body
    total = sum(tokens for tokens, _ in sections.values())
    from autonomy_ctx.memory.turn_figures import _decode

    assert _decode(draft.body).tokens == total


@pytest.mark.parametrize("what", ["plain", "summary"])
async def test_a_record_of_an_ordinary_turn_is_small(memory: Memory, what: str) -> None:
    options: dict[str, Any] = {} if what == "plain" else {"context_summary": {"floor": 2, "ceiling": 4}}
    agent = Agent("helper", "Helps.", tools=[look], model=ScriptedModel("ok"), memory=memory, **options)
    for number in range(12):
        await agent.send(f"message {number}")
    records = await memory.store.read_records(Key("helper", *PLACE), TURN_KIND)
    assert len(records) == 12
    assert max(len(encode_text(record.body).encode()) for record in records) < 300
