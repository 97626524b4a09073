"""The disk space of conversations on PostgreSQL, and the space that changed rows leave behind."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from autonomy_ctx import Memory, Message
from autonomy_ctx.memory.store import Key
from benchmarks.corpus import spoken
from benchmarks.postgres import BARE_TABLES, Filler, server_url, stored_draft
from benchmarks.table import Figure, Side, microseconds, side_by_side

MESSAGES = 40
FEW, MANY = 1_000, 100_000
WRITERS, TURNS = 32, 20

_SIZES = """
    SELECT c.relname, pg_table_size(c.oid) FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid
    WHERE n.nspname = 'autonomy_ctx' AND c.relkind IN ('r', 'i')
    AND coalesce(t.relname, c.relname) IN ('message', 'conversation') ORDER BY c.relkind DESC, c.relname
"""
_PART = """
    DO $$ BEGIN
        ALTER TABLE autonomy_ctx.message RENAME TO message_before;
        CREATE TABLE autonomy_ctx.message (LIKE autonomy_ctx.message_before INCLUDING ALL EXCLUDING INDEXES)
            PARTITION BY HASH (conversation_id);
        FOR part IN 0..{last} LOOP
            EXECUTE format('CREATE TABLE autonomy_ctx.message_%s PARTITION OF autonomy_ctx.message'
                ' FOR VALUES WITH (MODULUS {partitions}, REMAINDER %s)', part, part);
        END LOOP;
        DROP TABLE autonomy_ctx.message_before;
        ALTER TABLE autonomy_ctx.message ADD PRIMARY KEY (conversation_id, position);
        ALTER TABLE autonomy_ctx.message ADD CONSTRAINT message_id UNIQUE (conversation_id, id);
    END $$
"""
_DOCS = Path(__file__).parent.parent / "docs"
_DEAD_ROWS = """
    SELECT n_tup_upd, n_tup_hot_upd, n_dead_tup FROM pg_stat_user_tables
    WHERE schemaname = 'autonomy_ctx' AND relname = 'conversation'
"""


async def measure(folder: Path) -> list[Figure]:
    with server_url() as url:
        async with Memory(url):
            pass
        with psycopg.connect(url, autocommit=True) as connection:
            few = bytes_per_message(connection, FEW)
            bare = bare_bytes_per_message(connection)
            many = bytes_per_message(connection, MANY)
            figures = await update_figures(url, connection)
            await show_erasure(url, connection)
            figures += [await search_figure(url, connection), await partition_figure(url, connection)]
    return [
        Figure(
            name="bytes per message, with all indexes / bare tables",
            ours=f"{few:,.0f} bytes",
            floor=f"{bare:,.0f} bytes, of which {stored_draft(0).size} are the body",
            value=few / bare,
            bound=1.25,
        ),
        Figure(
            name="bytes per message, 100,000 conversations / 1,000",
            ours=f"{many:,.0f} bytes, {many * MANY * MESSAGES / 1e6:,.0f} MB in all",
            floor=f"{few:,.0f} bytes",
            value=many / few,
            bound=1.1,
        ),
        *figures,
    ]


def bytes_per_message(connection: psycopg.Connection[Any], conversations: int) -> float:
    """How large the tables and their indexes are with so many conversations, each of 40 messages."""
    connection.execute("TRUNCATE autonomy_ctx.message, autonomy_ctx.conversation")
    filler = Filler(connection)
    tenant = conversations // 10
    started = time.perf_counter()
    filler.fill("many", [f"n{number}" for number in range(conversations - tenant)], MESSAGES)
    filler.fill("tenant", [f"n{number}" for number in range(tenant)], MESSAGES)
    filled = time.perf_counter()
    connection.execute("VACUUM (ANALYZE) autonomy_ctx.message, autonomy_ctx.conversation")
    vacuumed = time.perf_counter()
    sizes = dict(connection.execute(_SIZES).fetchall())
    messages = conversations * MESSAGES
    print(
        f"\n  {conversations:,} conversations of {MESSAGES} messages, bodies of {stored_draft(0).size} bytes:"
    )
    for name, size in sizes.items():
        of_each = size / (messages if name.startswith("message") else conversations)
        print(f"    {name:<24} {size / 1e6:>10,.1f} MB {of_each:>8,.0f} bytes each")
    print(f"    filled in {filled - started:.1f} s, vacuumed in {vacuumed - filled:.1f} s")
    return float(sum(sizes.values()) / messages)


def bare_bytes_per_message(connection: psycopg.Connection[Any]) -> float:
    """The same of the bare tables with the same messages, in the same order."""
    connection.execute(BARE_TABLES)
    connection.execute(
        "INSERT INTO bare.conversation (scope, name, head) SELECT scope, conversation, head"
        " FROM autonomy_ctx.conversation ORDER BY id"
    )
    messages = connection.execute(
        "INSERT INTO bare.message (conversation_id, position, id, body)"
        " SELECT conversation_id, position, id, body FROM autonomy_ctx.message ORDER BY ctid"
    ).rowcount
    [(size,)] = connection.execute(
        "SELECT pg_total_relation_size('bare.conversation') + pg_total_relation_size('bare.message')"
    ).fetchall()
    return float(size / messages)


async def show_erasure(url: str, connection: psycopg.Connection[Any]) -> None:
    """How long it takes to erase a tenth of all."""
    async with Memory(url, timeout=600) as memory:
        started = time.perf_counter()
        deleted = await memory.delete_scope("tenant")
        print(f"    {deleted:,} messages deleted in {time.perf_counter() - started:.1f} s")
    for table in ("message", "conversation"):
        started = time.perf_counter()
        connection.execute(sql.SQL("VACUUM autonomy_ctx.{}").format(sql.Identifier(table)))
        print(f"    then a vacuum of {table} takes {time.perf_counter() - started:.1f} s")


async def update_figures(url: str, connection: psycopg.Connection[Any]) -> list[Figure]:
    """Every append changes the row of its conversation: whether it changes the indexes, too."""
    [before] = connection.execute(_DEAD_ROWS).fetchall()
    async with Memory(url) as memory:

        async def speak(writer: int) -> None:
            for turn in range(TURNS):
                for number in range(writer, 1000, WRITERS):
                    await memory.add_message("many", f"n{number}", spoken(turn))

        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(speak(writer))
        took = time.perf_counter() - started
    after = before
    while after[0] - before[0] < TURNS * 1000:
        # A session tells the statistics only now and then.
        await asyncio.sleep(1)
        connection.execute("SELECT pg_stat_clear_snapshot()")
        [after] = connection.execute(_DEAD_ROWS).fetchall()
    started = time.perf_counter()
    connection.execute("VACUUM autonomy_ctx.conversation")
    vacuum = time.perf_counter() - started
    changed, hot = after[0] - before[0], after[1] - before[1]
    return [
        Figure(
            name="share of appends that change no index of `conversation`",
            ours=f"{hot:,} of {changed:,}; {after[2]:,} dead rows left, vacuum {vacuum:.2f} s",
            floor=f"{changed / took:,.0f} appends/s to 1,000 conversations",
            value=hot / changed,
            bound=0.9,
            at_most=False,
        )
    ]


async def search_figure(url: str, connection: psycopg.Connection[Any]) -> Figure:
    """What the search index adds to each message of a scope that is searched, in the words of the docs."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(_DOCS.rglob("*.md"))]
    words = re.findall(r"[A-Za-z]{2,}", " ".join(pages))
    chance = random.Random(1)
    async with Memory(url, timeout=600) as memory:
        for number in range(100):
            starts = [chance.randrange(len(words) - 33) for _ in range(MESSAGES)]
            texts = [" ".join(words[start : start + 33]) for start in starts]
            await memory.append("search", f"n{number}", *[Message("user", text) for text in texts])
        await memory.search("search", "conversation")
    connection.execute("VACUUM autonomy_ctx.search_entry")
    [(size, count)] = connection.execute(
        "SELECT pg_total_relation_size('autonomy_ctx.search_entry'), count(*) FROM autonomy_ctx.search_entry"
    ).fetchall()
    return Figure(
        name="bytes of the search index for each message that can be found",
        ours=f"{size / count:,.0f} bytes",
        floor="English of about 200 bytes",
        value=size / count,
        bound=750,
    )


async def partition_figure(url: str, connection: psycopg.Connection[Any]) -> Figure:
    """Reading a window where `message` has partitions: each statement plans for all of them."""
    times = []
    async with Memory(url) as memory:
        for partitions in (0, 8):
            connection.execute("TRUNCATE autonomy_ctx.message, autonomy_ctx.conversation")
            if partitions:
                connection.execute(_PART.format(last=partitions - 1, partitions=partitions).encode())
            Filler(connection).fill("parts", [f"n{number}" for number in range(FEW)], MESSAGES)
            connection.execute("VACUUM (ANALYZE) autonomy_ctx.message, autonomy_ctx.conversation")
            keys = itertools.cycle([Key("", "parts", f"n{number}") for number in range(FEW)])
            side = Side("read", lambda keys=keys: memory.store.read(next(keys), limit=20))  # type: ignore[misc]
            times.append((await side_by_side(side, rounds=1000))["read"])
    return Figure(
        name="reading a window, `message` in 8 partitions / in one table",
        ours=microseconds(times[1]),
        floor=microseconds(times[0]),
        value=times[1] / times[0],
        bound=2,
    )
