"""How the search index of the PostgreSQL store is filled, shared and emptied, and how it ranks."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest_asyncio
from anyio.lowlevel import checkpoint

from autonomy_ctx.memory.postgres import search
from autonomy_ctx.memory.postgres.session import PostgresSession
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.search_terms import IndexTerms
from autonomy_ctx.memory.search_text import IndexBlock, QueryTerms, SearchScope
from autonomy_ctx.memory.sql.search import find_messages, read_blocks, read_state, write_blocks
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.store import Key, SearchHit
from autonomy_ctx.testing import MAIN, make_drafts, make_message

ANA = SearchScope("", "ana", None)
WORDS = ("museum", "ticket", "train", "station", "running", "hotel", "booking", "night", "price", "café")
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[PostgresStore]:
    store = PostgresStore(database_url, timeout=10.0)
    await store.check()
    yield store
    await store.close()


@pytest_asyncio.fixture
async def connection(store: PostgresStore, database_url: str) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """A connection of the test's own, to a database with the tables."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        yield connection


async def append_texts(store: Store, *texts: str, key: Key = MAIN) -> None:
    start = (await store.head(key)).position + 1
    messages = (make_message(text, id=f"t{number}") for number, text in enumerate(texts, start))
    await store.append(key, make_drafts(*messages))


async def entries(connection: psycopg.AsyncConnection[Any]) -> list[int]:
    """The positions of the messages that the index has."""
    cursor = await connection.execute("SELECT position FROM autonomy_ctx.search_entry ORDER BY 1")
    return [position for (position,) in await cursor.fetchall()]


async def read_entries(connection: psycopg.AsyncConnection[Any]) -> list[IndexBlock]:
    """What a search would take into the index now."""
    session = PostgresSession(connection)
    state = await read_state(session, ANA)
    return [block.split() for block in await read_blocks(session, state.unindexed)]


async def test_the_same_messages_are_found_as_in_sqlite_and_in_its_order(
    store: PostgresStore, tmp_path: Path
) -> None:
    chance = random.Random(13)
    texts = [" ".join(chance.choices(WORDS, k=chance.randint(1, 30))) for _ in range(80)]
    texts += [f"{text} only{number}" for number, text in enumerate(texts[:20])]
    other = SqliteStore(str(tmp_path / "memory.db"))
    for one in (store, other):
        await append_texts(one, *texts)
    for query in (*WORDS, "runs", "CAFE", "only7", "museum night only3", "train tickets for a hotel"):
        for conversation in (None, "trip"):
            found, expected = [
                await one.search("", "ana", query, conversation=conversation, limit=1000)
                for one in (store, other)
            ]
            assert found
            assert {hit.position for hit in found} == {hit.position for hit in expected}
            assert swapped(found, expected) <= len(found) * len(found) // 50, query
    await other.close()


def swapped(found: list[SearchHit], expected: list[SearchHit]) -> int:
    """How many pairs stand in another order, of those that differ clearly."""
    ranks = {hit.position: rank for rank, hit in enumerate(found)}
    return sum(
        ranks[worse.position] < ranks[better.position]
        for place, better in enumerate(expected)
        for worse in expected[place + 1 :]
        if better.score > 1.05 * worse.score
    )


async def test_an_index_of_an_old_folding_is_made_anew_in_blocks(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any]
) -> None:
    texts = [f"word{number} museum" for number in range(700)]
    await append_texts(store, "die Häuser", *texts, "Frau Müller", "Herr Muller")
    assert len(await store.search("", "ana", "museum", limit=1000)) == 700
    # As an older version left it: without accents, without forms, with no folding noted.
    await connection.execute(
        "UPDATE autonomy_ctx.search_entry SET terms = replace(strip(terms)::text, 'ü', 'u')::tsvector"
    )
    await connection.execute("UPDATE autonomy_ctx.search_progress SET folding = 0")
    first = await read_entries(connection)
    assert [(block.start, block.end < 703) for block in first] == [(0, True)]
    async with connection.transaction():
        await write_blocks(PostgresSession(connection), search.TSVECTOR, ANA, first)
    assert await entries(connection) == list(range(1, 704)), "the old rest is found as it is"
    assert [hit.position for hit in await store.search("", "ana", "Müller")] == [702, 703]
    assert [hit.position for hit in await store.search("", "ana", "Haus")] == [1]
    assert await entries(connection) == list(range(1, 704))


async def test_processes_that_index_at_once_take_each_message_in_once(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any], database_url: str
) -> None:
    await append_texts(store, *(f"word{number} museum" for number in range(700)))
    other = PostgresStore(database_url)
    found = await asyncio.gather(
        *(one.search("", "ana", "museum", limit=1000) for one in (store, other) for _ in range(3))
    )
    assert [len(hits) for hits in found] == [700] * 6
    assert await entries(connection) == list(range(1, 701))
    await other.close()


async def test_what_is_deleted_while_it_is_indexed_does_not_get_into_the_index(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any]
) -> None:
    await append_texts(store, "museum red", "museum blue")
    read = await read_entries(connection)
    await store.delete("ana", "", "trip", ["t1"])
    async with connection.transaction():
        await write_blocks(PostgresSession(connection), search.TSVECTOR, ANA, read)
    assert await entries(connection) == []
    assert [hit.position for hit in await store.search("", "ana", "museum")] == [2]
    assert await entries(connection) == [2]


async def test_appends_go_on_while_the_index_is_written_and_deletions_wait(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any], database_url: str
) -> None:
    await append_texts(store, "museum red", "museum blue")
    read = await read_entries(connection)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as observer:
        async with connection.transaction():
            await write_blocks(PostgresSession(connection), search.TSVECTOR, ANA, read)
            await append_texts(store, "museum green")
            deletion = asyncio.create_task(store.delete("ana", "", "trip", ["t1"]))
            while not deletion.done() and await (await observer.execute(WAITING)).fetchone() != (1,):
                await checkpoint()
            assert not deletion.done()
        assert await deletion == 1
    assert await entries(connection) == [2]
    assert [hit.position for hit in await store.search("", "ana", "museum")] == [3, 2]


async def test_deletion_takes_the_terms_out_at_once(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any]
) -> None:
    for key in (MAIN, Key("", "ana", "other")):
        await append_texts(store, "museum red", "museum blue", key=key)
    await store.search("", "ana", "museum")
    await store.delete("ana", "", "trip", ["t2"])
    assert await entries(connection) == [1, 1, 2]
    await store.delete("ana", "", "trip")
    assert await entries(connection) == [1, 2]
    await store.delete("ana")
    assert await entries(connection) == []


async def test_a_search_passes_over_no_entry_of_another_scope(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any]
) -> None:
    for scope, count in (("ana", 3), ("bob", 600)):
        await append_texts(
            store, *(f"museum {number}" for number in range(count)), key=Key("", scope, "trip")
        )
        await store.search("", scope, "museum")
    await connection.execute("VACUUM ANALYZE autonomy_ctx.search_entry")
    state = await read_state(PostgresSession(connection), ANA)
    queries = [f"'{state.scope_number}xmuseum'"]
    values = {
        "terms": queries,
        "are_exact": [True],
        "is_single": True,
        "exact_terms": 1,
    }
    values |= {"agent": "", "scope": "ana", "limit": 10}
    # So small a table would be read whole.
    await connection.execute("SET enable_seqscan = off")
    cursor = await connection.execute(
        "EXPLAIN (ANALYZE, FORMAT JSON) " + search.SELECT_SCOPE_HITS,
        values,
    )
    [(plan,)] = await cursor.fetchall()
    assert "search_entry_terms" in json.dumps(plan)
    assert max(rows(plan[0]["Plan"])) == 3


def rows(plan: dict[str, Any]) -> list[float]:
    """How many rows each step gave or passed over."""
    own = [plan["Actual Rows"], plan.get("Rows Removed by Filter", 0)]
    return own + [count for step in plan.get("Plans", ()) for count in rows(step)]


async def test_a_term_may_have_any_character(connection: psycopg.AsyncConnection[Any], store: Store) -> None:
    await append_texts(store, "x")
    hostile = ["it's", "back\\slash", "a:1,2A", "' | 'b", "100%", "%s", "{}", "space d", "😀", "'", "\\"]
    [block] = await read_entries(connection)
    async with connection.transaction():
        terms = {1: IndexTerms(hostile, hostile)}
        await write_blocks(PostgresSession(connection), search.TSVECTOR, ANA, [block._replace(terms=terms)])
    assert [await found_positions(connection, term) for term in hostile] == [[1]] * len(hostile)
    assert await found_positions(connection, "b", "a", "it") == []


async def found_positions(connection: psycopg.AsyncConnection[Any], *terms: str) -> list[int]:
    found = await find_messages(
        PostgresSession(connection), search.TSVECTOR, ANA, QueryTerms(terms), 10, even_if_stale=True
    )
    assert isinstance(found, list)
    return [hit.position for hit in found]


async def test_the_largest_message_of_different_characters_fits_into_the_index(store: PostgresStore) -> None:
    chance = random.Random(7)
    text = "".join(chr(chance.randint(0x20000, 0x2A6DF)) for _ in range(60_000))
    await append_texts(store, text)
    for part in (text[:2], text[-2:]):
        assert [hit.position for hit in await store.search("", "ana", part)] == [1]


async def test_a_term_counts_as_often_as_a_message_has_it(
    store: PostgresStore, connection: psycopg.AsyncConnection[Any]
) -> None:
    filler = [f"word{number}" for number in range(1, 400)]
    counts = (1, 2, 3, 10, 100, 254, 255)
    texts = [" ".join(["museum"] * count + filler[: 400 - count]) for count in counts]
    await append_texts(store, *texts, *(" ".join(filler) for _ in range(20)))
    hits = await store.search("", "ana", "museum", limit=100)
    assert [counts[hit.position - 1] for hit in hits] == sorted(counts, reverse=True)


async def test_a_rare_word_counts_more_than_a_frequent_one(store: PostgresStore) -> None:
    await append_texts(store, "atlas red", *(f"museum {number}" for number in range(30)), "museum museum")
    for conversation in (None, "trip"):
        found = await store.search("", "ana", "museum atlas", conversation=conversation, limit=2)
        assert [hit.message.text for hit in found] == ["atlas red", "museum museum"]
