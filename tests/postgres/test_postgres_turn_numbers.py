"""Turns have the same numbers on PostgreSQL, also of two processes and of a fork."""

from __future__ import annotations

from autonomy_ctx import Agent, Memory
from autonomy_ctx.inspection import list_turns
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.turn_figures import TURN_KIND
from autonomy_ctx.testing import ScriptedModel


async def test_turns_of_two_processes_and_a_fork_are_numbered(database_url: str) -> None:
    async with Memory(database_url) as memory, Memory(database_url) as other:
        agents = [
            Agent("helper", model=ScriptedModel("ok"), memory=one, explain_turns=2) for one in (memory, other)
        ]
        found = [(await agents[index].send(f"turn of {index}")).number for index in (0, 0, 1, 0, 1, 1)]
        assert found == [1, 2, 3, 4, 5, 6]
        forked = await agents[0].fork(at=6)
        assert (await agents[1].send("other", conversation=forked)).number == 4
        view = memory.for_agent("helper")
        turns = await list_turns(view, "default", "default", before=6, limit=3)
        assert [(turn.number, turn.text, turn.has_context) for turn in turns] == [
            (3, "turn of 1", False),
            (4, "turn of 0", False),
            (5, "turn of 1", True),
        ]
        await memory.delete_scope("default")
        assert await memory.store.read_records(Key("helper", "default", "default"), TURN_KIND) == []
