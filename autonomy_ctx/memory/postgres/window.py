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
from autonomy_ctx.memory.facts import MAX_ENDED_TEXTS, decode_fact_row, make_ended_texts, make_fact
from autonomy_ctx.memory.postgres.connection import Connection, fetch_one
from autonomy_ctx.memory.postgres.session import PostgresSession, key_digest
from autonomy_ctx.memory.sql.facts import COLUMNS_OF_FACT
from autonomy_ctx.memory.sql.log import read_head
from autonomy_ctx.memory.store import MAX_POSITION, Entry, Head, Key, SummaryState, Window

# So many rows are decoded at a time: others get their turn in between.
CHUNK_ROWS = 256
# One statement is one snapshot: the head and the rows it was read with, newest first.
_SELECT_WINDOW = """
    SELECT c.head, c.count, c.generation, c.last_user, c.revision,
           m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body, c.is_fork
    FROM autonomy_ctx.conversation c
    LEFT JOIN LATERAL (
        SELECT * FROM autonomy_ctx.message m
        WHERE NOT c.is_fork AND m.conversation_id = c.id
          AND m.position > %(after)s AND m.position < %(before)s
        ORDER BY m.position DESC LIMIT %(limit)s
    ) m ON true
    WHERE c.key = %(key)s
"""
# A window of a fork: from each of its ranges no more rows than are wanted of all.
_SELECT_FORK_WINDOW = f"""
    {_SELECT_WINDOW.partition("LEFT JOIN")[0]}
    LEFT JOIN LATERAL (
        SELECT m.* FROM autonomy_ctx.shared_range r CROSS JOIN LATERAL (
            SELECT * FROM autonomy_ctx.message m
            WHERE m.conversation_id = r.source_id
              AND m.position BETWEEN greatest(r.first, %(after)s + 1) AND least(r.last, %(before)s - 1)
            ORDER BY m.position DESC LIMIT %(limit)s
        ) m
        WHERE r.conversation_id = c.id ORDER BY r.first DESC, m.position DESC LIMIT %(limit)s
    ) m ON true
    WHERE c.key = %(key)s AND c.is_fork
"""  # noqa: S608  # our names
# Everything in one statement: one round trip, and one snapshot.
_SELECT_SUMMARY = f"""
    SELECT c.head, c.count, c.generation, c.last_user, c.revision,
        (SELECT json_agg(json_build_array({", ".join(SEGMENT_COLUMNS)}) ORDER BY first)::text
         FROM autonomy_ctx.segment WHERE conversation_id = c.id AND replaced_by IS NULL),
        (SELECT json_agg(json_build_array(
             p.pinned_at, p.source,
             m.position, coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body
         ) ORDER BY m.position)::text
         FROM autonomy_ctx.pin p
         LEFT JOIN autonomy_ctx.shared_range r
             ON r.conversation_id = p.conversation_id AND p.position BETWEEN r.first AND r.last
         JOIN autonomy_ctx.message m
             ON m.conversation_id = coalesce(r.source_id, p.conversation_id) AND m.position = p.position
         WHERE p.conversation_id = c.id),
        (SELECT json_agg(json_build_array({COLUMNS_OF_FACT}) ORDER BY h.number)::text
         FROM autonomy_ctx.fact h
         JOIN autonomy_ctx.fact f ON f.conversation_id = h.conversation_id AND f.number = h.target
         WHERE h.conversation_id = c.id AND h.ended_by IS NULL AND NOT h.is_done),
        (SELECT json_agg(json_build_array({COLUMNS_OF_FACT}) ORDER BY f.number)::text
         FROM autonomy_ctx.fact f
         WHERE f.conversation_id = c.id AND f.ended_by IS NULL AND NOT f.is_done),
        (SELECT json_agg(json_build_array(
             e.old, e.old_text, e.number, e.text, e.position, e.is_done, e.source))::text
         FROM (SELECT f.number AS old, f.text AS old_text, e.*
               FROM autonomy_ctx.fact e
               JOIN autonomy_ctx.fact f ON f.conversation_id = e.conversation_id AND f.number = e.target
               WHERE e.conversation_id = c.id AND e.target IS NOT NULL
               ORDER BY e.number DESC LIMIT {MAX_ENDED_TEXTS}) e)
    FROM autonomy_ctx.conversation c WHERE c.key = %s
"""  # noqa: S608  # our names


async def read_window(
    connection: Connection, key: Key, after: int, before: int | None, limit: int | None
) -> Window:
    """A window of any length, in one statement, which is one snapshot."""
    if limit == 0:
        return Window(await read_head(PostgresSession(connection), key), [])
    cursor = connection.cursor()
    before_or_end = MAX_POSITION if before is None else before
    values = {"after": after, "before": before_or_end, "limit": limit, "key": key_digest(key)}

    async def begin(statement: str) -> list[Any]:
        return await (await cursor.execute(statement, values)).fetchmany(CHUNK_ROWS)

    rows = await begin(_SELECT_WINDOW)
    while rows and rows[0][-1]:
        rows = await begin(_SELECT_FORK_WINDOW)
        if rows:
            break
        # All of it was deleted meanwhile: it is no fork any more.
        rows = await begin(_SELECT_WINDOW)
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


async def read_summary(connection: Connection, key: Key) -> SummaryState:
    """The current segments, the pins and the facts, in one snapshot."""
    found = await fetch_one(connection, _SELECT_SUMMARY, (key_digest(key),))
    if found is None:
        return SummaryState(Head())
    segments, pins, replaced, holding, ended = map(_load_rows, found[5:])
    facts = [make_fact(decode_fact_row(row), "replaced") for row in replaced]
    facts += [make_fact(decode_fact_row(row), "holds") for row in holding]
    return SummaryState(
        Head(*found[:5]),
        tuple(decode_segment(row) for row in segments),
        tuple(make_pin(decode_entry(*row), pinned_at, source) for pinned_at, source, *row in pins),
        tuple(facts),
        make_ended_texts(ended),
    )


def _load_rows(text: str | None) -> list[Any]:
    try:
        rows: list[Any] = [] if text is None else json.loads(text)
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow("the rows of a summary cannot be read") from None
    return rows


async def probe(connection: Connection) -> None:
    """Write a row, so that a server that takes no writes refuses it."""
    await connection.execute(
        "INSERT INTO autonomy_ctx.health VALUES (1, autonomy_ctx.now_seconds()) "
        "ON CONFLICT (id) DO UPDATE SET at = excluded.at"
    )
