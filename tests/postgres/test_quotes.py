"""Records that quote messages of other conversations, while these are deleted."""

from __future__ import annotations

from typing import Any

import anyio
import psycopg
import pytest

from autonomy_ctx.memory.postgres.migrate import migration_steps
from autonomy_ctx.memory.postgres.session import PostgresSession
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.records import put_records
from autonomy_ctx.memory.store import Key, MessageRef
from autonomy_ctx.testing import MAIN, make_drafts, make_message

OTHER = MAIN._replace(conversation="other")


def count_rows(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        found: Any = connection.execute(f"SELECT count(*) FROM autonomy_ctx.{table}").fetchone()
        return int(found[0])


async def is_settled(connection: psycopg.AsyncConnection[Any], done: anyio.Event) -> bool:
    """Whether the deletion is over, or waits for somebody."""
    cursor = await connection.execute(
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return done.is_set() or await cursor.fetchone() == (1,)


@pytest.mark.parametrize("ids", [["m1"], None], ids=["a message", "a conversation"])
@pytest.mark.parametrize("ref", [MessageRef("trip", 1), MessageRef("trip")], ids=["one message", "any"])
async def test_a_record_put_during_a_deletion_never_keeps_what_was_deleted(
    database_url: str, ref: MessageRef, ids: list[str] | None
) -> None:
    store = PostgresStore(database_url)
    await store.append(MAIN, make_drafts(make_message("text", id="m1"), make_message("more", id="m2")))
    done = anyio.Event()

    async def delete() -> None:
        await store.delete("ana", "", "trip", ids)
        done.set()

    async with (
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as writer,
        await psycopg.AsyncConnection.connect(database_url, autocommit=True) as observer,
        anyio.create_task_group() as group,
    ):
        await writer.execute("BEGIN")
        assert await put_records(
            PostgresSession(writer), OTHER, "context", [("t1", "text")], None, False, None, [ref]
        )
        group.start_soon(delete)
        while not await is_settled(observer, done):
            pass
        await writer.execute("COMMIT")
    assert await store.read_records(OTHER, "context") == []
    await store.close()


async def test_records_put_beside_many_deletions_are_all_deleted(database_url: str) -> None:
    store = PostgresStore(database_url)
    ids = [f"m{number}" for number in range(1, 31)]
    await store.append(MAIN, make_drafts(*(make_message("text", id=name) for name in ids)))

    async def put() -> None:
        for at in range(1, 31):
            refs = [MessageRef("trip", at), *([MessageRef("trip")] if at % 2 else [])]
            await store.put_records(OTHER, "context", [(f"t{at}", "text")], refs=refs)

    async def delete() -> None:
        for name in ids:
            await store.delete("ana", "", "trip", [name])

    async with anyio.create_task_group() as group:
        for work in (put, delete, put):
            group.start_soon(work)
    assert await store.read_records(OTHER, "context") == []
    await store.close()
    assert count_rows(database_url, "record_ref") == 0


async def test_conversations_that_quote_each_other_while_all_is_deleted_do_not_block(
    database_url: str,
) -> None:
    store = PostgresStore(database_url)
    keys = [Key("", "ana", name) for name in ("a", "b", "c")]

    async def talk(key: Key) -> None:
        others = [MessageRef(other.conversation) for other in keys if other != key]
        for number in range(20):
            await store.append(key, make_drafts(make_message("text", id=f"m{number}")))
            await store.put_records(key, "context", [(f"t{number}", "text")], keep=5, refs=others)

    async def delete() -> None:
        for _ in range(5):
            await store.delete("ana")

    for key in keys:
        await store.append(key, make_drafts(make_message("text", id="first")))
    async with anyio.create_task_group() as group:
        for key in keys:
            group.start_soon(talk, key)
        group.start_soon(delete)
    await store.delete("ana")
    assert [await store.read_records(key, "context") for key in keys] == [[], [], []]
    await store.close()
    assert count_rows(database_url, "record_ref") == 0


async def test_a_context_of_before_is_deleted_with_any_message_of_its_scope(database_url: str) -> None:
    store = PostgresStore(database_url)
    for key in (MAIN, OTHER, MAIN._replace(scope="bob")):
        await store.append(key, make_drafts(make_message("text", id="m1")))
        await store.put_records(key, "context", [("t1", "text")], derived=True)
    await store.close()
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP TABLE autonomy_ctx.record_ref")
        connection.execute("DROP FUNCTION autonomy_ctx.delete_record_refs CASCADE")
        # Later versions have it.
        connection.execute("DROP TABLE autonomy_ctx.writer")
        connection.execute("DROP INDEX autonomy_ctx.fact_target")
        connection.execute("UPDATE autonomy_ctx.schema_version SET version = 7")
    assert [number for number, _ in migration_steps()][-1] >= 8
    store = PostgresStore(database_url)
    await store.delete("ana", "", "trip", ["unknown"])
    assert len(await store.read_records(OTHER, "context")) == 1
    await store.delete("ana", "", "trip", ["m1"])
    assert await store.read_records(OTHER, "context") == []
    assert len(await store.read_records(MAIN._replace(scope="bob"), "context")) == 1
    await store.close()
