"""Requests grow by appending on PostgreSQL too, also when two processes take turns."""

from __future__ import annotations

from typing import Any

import anyio
import psycopg
from agents.epoch_talk import ACTIONS, KINDS, check_requests, run_actions
from hypothesis import given, settings
from postgres_server import Databases

from autonomy_ctx import Agent, ContextTemplate, ConversationHistorySection, Memory, ProfileSection
from autonomy_ctx.agents.explain import RECORD_KIND
from autonomy_ctx.memory.store import Key
from autonomy_ctx.template.epoch_store import EPOCH_KIND, PART_KIND
from autonomy_ctx.testing import ScriptedModel


@settings(max_examples=15)
@given(actions=ACTIONS, kind=KINDS)
def test_each_request_begins_with_the_one_before_or_an_epoch_has_ended(
    databases: Databases, actions: list[str], kind: str
) -> None:
    name = databases.create()
    try:
        sent = anyio.run(run_actions, databases.url_of(name), actions, kind)
    finally:
        databases.drop(name)
    assert sent
    check_requests(sent)


def test_entries_of_a_profile_are_removed_while_turns_show_them(databases: Databases) -> None:
    name = databases.create()
    try:
        stored = anyio.run(_remove_beside_turns, databases.url_of(name))
        assert count_deadlocks(databases.url_of(name)) == 0
    finally:
        databases.drop(name)
    assert stored["after", EPOCH_KIND], "nothing of any turn was stored"
    assert [place for place, text in stored.items() if "secret" in text] == []


def test_a_record_quotes_a_profile_while_somebody_changes_it(databases: Databases) -> None:
    name = databases.create()
    try:
        assert anyio.run(_quote_beside_a_change, databases.url_of(name)) == ["quoted"]
    finally:
        databases.drop(name)


async def _quote_beside_a_change(url: str) -> list[str]:
    """The records of a conversation that quotes a profile, of which another transaction holds the row."""
    talk = Key("shop", "ana", "talk")
    async with Memory(url) as memory, await psycopg.AsyncConnection.connect(url) as other:
        profile = memory.for_agent("shop").profile("ana")
        await profile.add("preference", "a window seat")
        ref = await profile.version()
        assert ref.generation == 0
        changed = await other.execute(
            "SELECT 1 FROM autonomy_ctx.conversation WHERE conversation = %s FOR NO KEY UPDATE",
            [ref.conversation],
        )
        assert changed.rowcount == 1
        with anyio.fail_after(20):
            await memory.store.put_records(talk, "quote", [("one", "quoted")], refs=[ref])
        return [record.body for record in await memory.store.read_records(talk, "quote")]


def count_deadlocks(url: str) -> int:
    """How many transactions of a database were ended because they waited for each other."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
        ).fetchone()
    assert found is not None
    return int(found[0])


async def _remove_beside_turns(url: str) -> dict[tuple[str, str], str]:
    """The stored texts of each conversation by kind, after entries were removed that requests had."""
    talks = [f"talk {number}" for number in range(4)]
    seen, is_done = anyio.Event(), False
    wanted = ""

    def answer(asked: Any) -> str:
        if wanted in str(asked.messages):
            seen.set()
        return "Yes."

    async with Memory(url) as memory, Memory(url) as other:
        template = ContextTemplate([ProfileSection(), ConversationHistorySection()])
        agent = Agent("shop", model=ScriptedModel([answer]), memory=memory, context_template=template)
        profile = other.for_agent("shop").profile("ana")

        async def talk(conversation: str) -> None:
            while not is_done:
                await agent.send("And now?", scope="ana", conversation=conversation)

        async def change() -> None:
            nonlocal seen, wanted, is_done
            for number in range(20):
                seen, wanted = anyio.Event(), f"secret {number}."
                secret = await profile.add("preference", wanted)
                # It is in a request, whose reply is being stored.
                await seen.wait()
                await profile.remove(secret.id)
            is_done = True

        async with agent, anyio.create_task_group() as group:
            for one in talks:
                group.start_soon(talk, one)
            group.start_soon(change)
        async with Agent(
            "shop", model=ScriptedModel("Yes."), memory=memory, context_template=template
        ) as later:
            await later.send("And now?", scope="ana", conversation="after")
        return {
            (one, kind): "\n".join(
                record.body for record in await memory.store.read_records(Key("shop", "ana", one), kind)
            )
            for one in (*talks, "after")
            for kind in (EPOCH_KIND, PART_KIND, RECORD_KIND)
        }
