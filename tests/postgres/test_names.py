"""Names as long as they may be, which do not fit into an index of PostgreSQL, stay whole and apart."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest_asyncio

from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.store import MAX_NAME_BYTES, Key
from autonomy_ctx.testing import MAIN, make_drafts, make_message

LONG = "n" * (MAX_NAME_BYTES - 1)
WIDE = "名" * (MAX_NAME_BYTES // 3 - 1)
NAMES = sorted(
    [f"{LONG}{end}" for end in "abc"] + [f"{WIDE}{end}" for end in "abc"] + ["n", "n" * 100, "n" * 101]
)


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url, timeout=10.0)
    yield store
    await store.close()


async def test_conversations_with_long_names_are_listed_in_order(store: PostgresStore) -> None:
    keys = [Key(agent, LONG, name) for agent in ("", WIDE) for name in NAMES]
    for key in keys:
        await store.append(key, make_drafts(make_message("hello", id="m1")))
    for agent in (None, WIDE):
        found: list[Key] = []
        while page := await store.list_conversations(
            LONG, agent=agent, after=found[-1] if found else None, limit=2
        ):
            found += [info.key for info in page]
        assert found == [key for key in keys if agent in (None, key.agent)]
    assert await store.list_agents(scope=LONG, after=None, limit=9) == ["", WIDE]
    assert await store.list_scopes(agent=WIDE, after=None, limit=9) == [LONG]


async def test_records_with_long_names_stay_apart(store: PostgresStore) -> None:
    # The name of a record may be the id of a message, which has no limit.
    names = [*NAMES, *(f"{'i' * 10_000}{end}" for end in "abc")]
    await store.put_records(MAIN, LONG, [(name, name) for name in names])
    assert [(one.name, one.body) for one in await store.read_records(MAIN, LONG)] == [
        (name, name) for name in names
    ]
    assert [one.body for one in await store.read_records(MAIN, LONG, name=names[-1])] == [names[-1]]
    await store.put_records(MAIN, LONG, [(names[-2], "new")])
    assert [one.body for one in await store.read_records(MAIN, LONG, name=names[-2])] == ["new"]
    assert await store.drop_records(MAIN, LONG, [names[-3], names[0]]) == [names[0], names[-3]]


async def test_a_scope_with_a_long_name_is_searched(store: PostgresStore) -> None:
    for end in "ab":
        key = Key(LONG + end, WIDE + end, WIDE + end)
        await store.append(key, make_drafts(make_message(f"museum {end}", id="m1")))
    [found] = await store.search(LONG + "a", WIDE + "a", "museum")
    assert (found.conversation, found.message.text) == (WIDE + "a", "museum a")


async def test_every_text_that_is_compared_is_in_the_order_of_its_characters(
    store: PostgresStore, database_url: str
) -> None:
    """Whatever the language of the server: its own order would lose names between two pages."""
    await store.check()
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        cursor = await connection.execute(
            """
            SELECT a.attrelid::regclass::text, a.attname FROM pg_index i
            JOIN pg_attribute a ON a.attrelid = i.indexrelid JOIN pg_collation c ON c.oid = a.attcollation
            WHERE i.indrelid::regclass::text LIKE 'autonomy_ctx.%' AND c.collname <> 'C'
            """
        )
        assert await cursor.fetchall() == []
