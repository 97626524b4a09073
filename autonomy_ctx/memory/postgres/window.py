"""Reading windows of messages and summaries from PostgreSQL, in one statement each.

It is one wait for the server, and one snapshot.
"""

from __future__ import annotations

import json
from typing import Any

import anyio.lowlevel

from autonomy_ctx.memory.encoding import (
    SEGMENT_COLUMNS,
    UnreadableRow,
    check_complete,
    decode_entry,
    decode_segment,
    make_pin,
)
from autonomy_ctx.memory.facts import make_active_facts, make_ended_texts
from autonomy_ctx.memory.postgres.connection import fetch_one
from autonomy_ctx.memory.postgres.session import PostgresSession, key_digest
from autonomy_ctx.memory.sql.facts import ENDED_TEXTS, NEWEST_FACTS
from autonomy_ctx.memory.sql.log import read_head
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.store import MAX_POSITION, Entry, Head, Key, SummaryState, Window

_SQL = load_statements(
    "postgres",
    "window",
    segment_columns=", ".join(SEGMENT_COLUMNS),
    newest_facts=NEWEST_FACTS.postgres.replace("%(id)s", "c.id"),
    ended_texts=ENDED_TEXTS.postgres.replace("%(id)s", "c.id"),
)

# So many rows are decoded at a time: others get their turn in between.
CHUNK_ROWS = 256


async def read_window(
    session: PostgresSession, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
) -> Window:
    """The newest `limit` entries between two positions, both excluded, in one snapshot."""
    if limit == 0:
        return Window(await read_head(session, key), [])
    cursor = session.connection.cursor()
    before_or_end = MAX_POSITION if before is None else before
    values = {"after": after, "before": before_or_end, "limit": limit, "key": key_digest(key)}

    async def begin(statement: str) -> list[Any]:
        return await (await cursor.execute(statement, values)).fetchmany(CHUNK_ROWS)

    rows = await begin(_SQL["select_window"])
    while rows and rows[0][-1]:
        rows = await begin(_SQL["select_fork_window"])
        if rows:
            break
        # All of it was deleted meanwhile: it is no fork any more.
        rows = await begin(_SQL["select_window"])
    if not rows:
        return Window(Head(), [])
    head = Head(*rows[0][:5])
    entries: list[Entry] = []
    while rows and rows[0][5] is not None:
        entries += [decode_entry(*row[5:-1]) for row in rows]
        if len(rows) < CHUNK_ROWS:
            break
        await anyio.lowlevel.checkpoint()
        rows = await cursor.fetchmany(CHUNK_ROWS)
    entries.reverse()
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


async def read_summary(session: PostgresSession, key: Key) -> SummaryState:
    """The current segments, the pins and the facts, in one snapshot."""
    found = await fetch_one(session.connection, _SQL["select_summary"], (key_digest(key),))
    if found is None:
        return SummaryState(Head())
    segments, pins, facts, ended = map(_load_rows, found[5:])
    return SummaryState(
        Head(*found[:5]),
        tuple(decode_segment(row) for row in segments),
        tuple(make_pin(decode_entry(*row), pinned_at, source) for pinned_at, source, *row in pins),
        make_active_facts(facts),
        make_ended_texts(ended),
    )


def _load_rows(text: str | None) -> list[Any]:
    try:
        rows: list[Any] = [] if text is None else json.loads(text)
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow("the rows of a summary cannot be read") from None
    return rows


async def probe(session: PostgresSession) -> None:
    """Write a row, so that a server that takes no writes refuses it."""
    await session.connection.execute(_SQL["probe"])
