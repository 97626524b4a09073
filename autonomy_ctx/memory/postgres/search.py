"""Message search in the PostgreSQL store.

The index is updated by the next search, one block per transaction, so that appends are not slowed down. A
block is read and split into terms before the transaction that writes it. That transaction blocks a deletion
of the same conversation, but no append. Terms are split, folded and stemmed in Python, with the same result
as in the other stores. PostgreSQL stores them as a `tsvector`, finds them, and ranks the results by BM25.
Messages that were indexed with an older folding of words stay searchable until they are indexed again, in the
same blocks.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from hashlib import sha256
from typing import Any, NamedTuple

from autonomy_ctx.memory.encoding import decode_entry
from autonomy_ctx.memory.postgres.connection import Connection, Database, fetch_all, fetch_one
from autonomy_ctx.memory.postgres.session import key_digest
from autonomy_ctx.memory.ranking import BM25_B, BM25_K1
from autonomy_ctx.memory.search_terms import FOLDING_VERSION, FoldedTerms, IndexTerms, index_terms
from autonomy_ctx.memory.search_text import (
    FOLDED_WEIGHT,
    FULL_MATCH_GAIN,
    IndexBlock,
    QueryTerms,
    SearchScope,
    row_text,
)
from autonomy_ctx.memory.store import Key, SearchHit

# How much of the log one transaction takes into the index.
_BLOCK_ROWS, _BLOCK_BYTES = 512, 256 * 1024
# PostgreSQL keeps no more positions of a term.
_MAX_FREQUENCY = 255
_RANK_LIMIT = math.pi**2 / 6

# How far a conversation is in the index; what was taken in with another folding does not count.
_INDEX_POSITION = f"CASE p.folding WHEN {FOLDING_VERSION} THEN p.indexed ELSE 0 END"
# The number of the scope, how many messages can be found, and the conversations that the index lacks.
_SELECT_STATE = f"""
    SELECT (SELECT number FROM autonomy_ctx.search_scope WHERE key = %(scope_key)s),
           coalesce(sum(c.count) FILTER (WHERE {{is_meant}}), 0)::int8,
           coalesce(array_agg(c.id ORDER BY c.id) FILTER (WHERE c.head > {_INDEX_POSITION}), '{{{{}}}}'),
           coalesce(array_agg(c.head ORDER BY c.id) FILTER (WHERE c.head > {_INDEX_POSITION}), '{{{{}}}}'),
           coalesce(bool_or(c.is_fork) FILTER (WHERE {{is_meant}}), false)
    FROM autonomy_ctx.conversation c
    LEFT JOIN autonomy_ctx.search_progress p ON p.conversation_id = c.id
    WHERE c.has_messages AND {{condition}}
"""  # noqa: S608  # our number
_SELECT_SCOPE_STATE = _SELECT_STATE.format(
    condition="c.scope = %(scope)s AND c.agent = %(agent)s", is_meant="true"
)
# The messages that a fork shares are in the index as those of its sources.
_SELECT_CONVERSATION_STATE = _SELECT_STATE.format(
    condition="""c.id IN (
        SELECT id FROM autonomy_ctx.conversation WHERE key = %(key)s
        UNION ALL
        SELECT r.source_id FROM autonomy_ctx.conversation f
        JOIN autonomy_ctx.shared_range r ON r.conversation_id = f.id WHERE f.key = %(key)s
    )""",
    is_meant="c.key = %(key)s",
)
_SELECT_INDEX_STATE = f"""
    SELECT c.id, {_INDEX_POSITION}, c.generation, c.head FROM autonomy_ctx.conversation c
    LEFT JOIN autonomy_ctx.search_progress p ON p.conversation_id = c.id
    WHERE c.id = ANY (%s) ORDER BY c.id
"""  # noqa: S608  # our number
# Rows up to the one that fills the block.
_SELECT_BLOCK = """
    SELECT position, id, created, tokens, counter, body, size FROM (
        SELECT position, coalesce(long_id, id) AS id, created, tokens, counter, body, size,
               sum(size) OVER (ORDER BY position) - size AS size_before
        FROM (
            SELECT * FROM autonomy_ctx.message WHERE conversation_id = %s AND position > %s
            ORDER BY position LIMIT %s
        ) next_rows
    ) measured WHERE size_before < %s ORDER BY position
"""
_INSERT_SCOPE = "INSERT INTO autonomy_ctx.search_scope (key) VALUES (%s) ON CONFLICT (key) DO NOTHING"
_SELECT_SCOPE = "SELECT number FROM autonomy_ctx.search_scope WHERE key = %s"
# This lock lets appends go on; a deletion has to wait, or has raised the generation before.
_LOCK_GENERATIONS = """
    SELECT id, generation FROM autonomy_ctx.conversation WHERE id = ANY (%s) ORDER BY id FOR KEY SHARE
"""
# Of several that index the same messages one moves the mark; the others wait, and find it moved.
_MOVE_PROGRESS = f"""
    INSERT INTO autonomy_ctx.search_progress AS p (conversation_id, indexed, folding)
    VALUES (%(id)s, %(end)s, {FOLDING_VERSION})
    ON CONFLICT (conversation_id) DO UPDATE SET indexed = excluded.indexed, folding = excluded.folding
        WHERE {_INDEX_POSITION} = %(start)s
    RETURNING conversation_id
"""  # noqa: S608  # our number
_DELETE_ENTRIES = """
    DELETE FROM autonomy_ctx.search_entry
    WHERE conversation_id = %(id)s AND position > %(start)s AND position <= %(end)s
"""
_INSERT_ENTRIES = """
    INSERT INTO autonomy_ctx.search_entry (conversation_id, position, length, terms)
    SELECT %s, position, length, terms::tsvector
    FROM unnest(%s::int8[], %s::int4[], %s::text[]) AS new (position, length, terms) ORDER BY position
"""
# `ts_rank` of one term with weights of 1 is the sum of 1, 1/4, 1/9 and so on, one for each time that the
# message has it, by the limit of that sum. This gives back how often that is, and is four times as fast as
# to unfold the terms of each message; of several terms at once it says nothing, they count as one. Rounded,
# because equals must not differ by the order of a sum. What matches in another form weighs as in the other
# stores: for a single word every exact match comes before all others, for more it takes part in the sum, but
# the best of the others stays below the best exact one. A message with all words comes before every other.
_SELECT_HITS = f"""
    WITH match AS MATERIALIZED (
        SELECT e.conversation_id, e.position, e.number, e.length::float8 AS length, w.place, w.is_exact,
               greatest(1, round(1 / nullif(
                   {_RANK_LIMIT}::float8 * (1 - ts_rank('{{{{1,1,1,1}}}}', e.terms, w.term)), 0
               ) - 0.5)) AS frequency
        FROM autonomy_ctx.search_entry e
        JOIN unnest(%(terms)s::tsquery[], %(are_exact)s::bool[]) WITH ORDINALITY
            AS w (term, is_exact, place) ON e.terms @@ w.term
        WHERE e.terms @@ %(any_term)s::tsquery AND {{condition}}
    ), weight AS (
        SELECT place, ln(1 + greatest(%(messages)s::float8 - count(*) + 0.5, 0) / (count(*) + 0.5)) AS weight
        FROM match GROUP BY place
    ), usual AS (SELECT avg(length) AS length FROM match),
    part AS (
        SELECT m.conversation_id, m.position, m.number, m.is_exact,
            w.weight * m.frequency * ({BM25_K1} + 1)
            / (m.frequency + {BM25_K1} * (1 - {BM25_B} + {BM25_B} * m.length / usual.length)) AS score
        FROM match m JOIN weight w ON w.place = m.place CROSS JOIN usual
    ), found AS MATERIALIZED (
        SELECT conversation_id, position, number,
               sum(score) FILTER (WHERE is_exact) AS exact, sum(score) FILTER (WHERE NOT is_exact) AS folded,
               count(*) FILTER (WHERE is_exact) = %(exact_terms)s AND NOT %(is_single)s AS is_full
        FROM part GROUP BY conversation_id, position, number
    ), folding AS (
        SELECT CASE
            WHEN max(exact) IS NULL THEN 1
            WHEN %(is_single)s THEN {FOLDED_WEIGHT} * min(exact) / nullif(max(folded), 0)
            ELSE {FOLDED_WEIGHT} * least(1, max(exact) / nullif(max(folded), 0))
        END AS weight, {FULL_MATCH_GAIN} * max(exact) AS gain FROM found
    ), hit AS (
        SELECT conversation_id, position, number,
               round((
                   coalesce(exact, 0) + coalesce(folded * folding.weight, 0)
                   + CASE WHEN is_full THEN folding.gain ELSE 0 END
               )::numeric, 9) AS score
        FROM found CROSS JOIN folding ORDER BY score DESC, number DESC LIMIT %(limit)s
    )
    SELECT c.conversation, hit.score::float8, hit.position,
           coalesce(m.long_id, m.id), m.created, m.tokens, m.counter, m.body
    FROM hit JOIN autonomy_ctx.conversation c ON c.id = hit.conversation_id
    JOIN autonomy_ctx.message m ON m.conversation_id = hit.conversation_id AND m.position = hit.position
    ORDER BY hit.score DESC, hit.number DESC
"""  # noqa: S608  # our numbers
_SELECT_SCOPE_HITS = _SELECT_HITS.format(condition="true")
_SELECT_CONVERSATION_HITS = _SELECT_HITS.format(
    condition="e.conversation_id = (SELECT id FROM autonomy_ctx.conversation WHERE key = %(key)s)"
)
_SELECT_FORK_HITS = _SELECT_HITS.format(
    condition="""EXISTS (
        SELECT 1 FROM autonomy_ctx.conversation f JOIN autonomy_ctx.shared_range r ON r.conversation_id = f.id
        WHERE f.key = %(key)s AND r.source_id = e.conversation_id AND e.position BETWEEN r.first AND r.last
    )"""
)


class SearchState(NamedTuple):
    """The number of a scope in the index, the messages that can be found, and what the index lacks."""

    scope_number: int | None
    messages: int
    # Conversations, and the positions up to which they are to be indexed.
    unindexed: list[tuple[int, int]]
    # Whether it is one conversation that shares messages of others.
    is_fork: bool


async def search(
    database: Database, search_scope: SearchScope, terms: QueryTerms, limit: int
) -> list[SearchHit]:
    """Have the index follow the log, then find."""
    state = await database.read(lambda connection: read_state(connection, search_scope))
    if state.unindexed:
        await _update_index(database, search_scope, state.unindexed)
        state = await database.read(lambda connection: read_state(connection, search_scope))
    return await database.read(
        lambda connection: find_messages(connection, search_scope, state, terms, limit)
    )


async def _update_index(
    database: Database, search_scope: SearchScope, unindexed: Sequence[tuple[int, int]]
) -> None:
    """Index the missing messages, one process at a time."""

    async def read(connection: Connection) -> list[IndexBlock]:
        return await read_index_blocks(connection, unindexed)

    async def write(connection: Connection) -> None:
        await write_index_blocks(connection, search_scope, blocks)

    while blocks := await database.read(read):
        await database.write(write)


async def read_state(connection: Connection, search_scope: SearchScope) -> SearchState:
    """Read what can be found, and what the index lacks."""
    agent, scope, conversation = search_scope
    values: dict[str, Any] = {"scope_key": _scope_digest(search_scope), "agent": agent, "scope": scope}
    statement = _SELECT_SCOPE_STATE
    if conversation is not None:
        statement, values["key"] = _SELECT_CONVERSATION_STATE, key_digest(Key(agent, scope, conversation))
    [found] = await fetch_all(connection, statement, values)
    number, messages, ids, heads, is_fork = found
    is_one_fork = conversation is not None and is_fork
    return SearchState(number, messages, list(zip(ids, heads, strict=True)), is_one_fork)


async def read_index_blocks(connection: Connection, unindexed: Sequence[tuple[int, int]]) -> list[IndexBlock]:
    """The next messages that the index lacks; none when it has all that was asked for."""
    if not unindexed:
        return []
    targets = dict(unindexed)
    blocks: list[IndexBlock] = []
    rows, size = _BLOCK_ROWS, _BLOCK_BYTES
    states = await fetch_all(connection, _SELECT_INDEX_STATE, (list(targets),))
    for conversation_id, start, generation, head in states:
        # Another process may have been here.
        if start >= targets[conversation_id]:
            continue
        read = await fetch_all(connection, _SELECT_BLOCK, (conversation_id, start, rows, size))
        rows, size = rows - len(read), size - sum(row[-1] for row in read)
        is_full = rows <= 0 or size <= 0
        # What was appended since the head was read is for the next time, unless it is in the block.
        end = read[-1][0] if is_full else max(head, read[-1][0] if read else 0)
        terms = await asyncio.to_thread(_split_terms, read)
        blocks.append(IndexBlock(conversation_id, generation, start, end, terms))
        if is_full:
            break
    return blocks


def _split_terms(rows: Sequence[tuple[Any, ...]]) -> dict[int, IndexTerms]:
    return {row[0]: index_terms(row_text(*row[:-1])) for row in rows}


async def write_index_blocks(
    connection: Connection, search_scope: SearchScope, blocks: Sequence[IndexBlock]
) -> None:
    """Take messages into the index, but none of a conversation that was indexed or cut meanwhile."""
    number = await _ensure_scope_number(connection, search_scope)
    ids = [block.conversation_id for block in blocks]
    generations = dict(await fetch_all(connection, _LOCK_GENERATIONS, (ids,)))
    for block in blocks:
        if generations[block.conversation_id] != block.generation:
            continue
        place = {"id": block.conversation_id, "start": block.start, "end": block.end}
        if await fetch_one(connection, _MOVE_PROGRESS, place) is None:
            continue
        await connection.execute(_DELETE_ENTRIES, place)
        if block.terms:
            vectors = [_vector(number, found) for found in block.terms.values()]
            # Other forms of words do not make a message longer.
            lengths = [len(found.words) for found in block.terms.values()]
            values = (block.conversation_id, list(block.terms), lengths, vectors)
            await connection.execute(_INSERT_ENTRIES, values)


async def find_messages(
    connection: Connection, search_scope: SearchScope, state: SearchState, terms: QueryTerms, limit: int
) -> list[SearchHit]:
    """Find what matches any of the terms, best first; of equals the newest."""
    if state.scope_number is None:
        return []
    number = state.scope_number
    exact = [_quote(number, term) for term in terms.exact]
    folded = _folded_queries(number, terms.folded)
    values: dict[str, Any] = {
        "terms": exact + folded,
        "are_exact": [True] * len(exact) + [False] * len(folded),
        "any_term": " | ".join((*exact, *folded)),
        "is_single": len(terms.exact) == 1,
        "exact_terms": len(exact),
        "messages": state.messages,
        "limit": limit,
    }
    statement = _SELECT_SCOPE_HITS
    if search_scope.conversation is not None:
        statement = _SELECT_FORK_HITS if state.is_fork else _SELECT_CONVERSATION_HITS
        values["key"] = key_digest(Key(*search_scope))  # type: ignore[arg-type]
    rows = await fetch_all(connection, statement, values)
    return [
        SearchHit(
            # What one conversation shares with others has its name.
            conversation=owner if search_scope.conversation is None else search_scope.conversation,
            position=row[0],
            message=decode_entry(*row).message,
            score=score,
        )
        for owner, score, *row in rows
    ]


async def _ensure_scope_number(connection: Connection, search_scope: SearchScope) -> int:
    """The number of a scope of an agent."""
    meant = (_scope_digest(search_scope),)
    found = await fetch_one(connection, _SELECT_SCOPE, meant)
    while found is None:
        await connection.execute(_INSERT_SCOPE, meant)
        found = await fetch_one(connection, _SELECT_SCOPE, meant)
    return int(found[0])


def _scope_digest(search_scope: SearchScope) -> bytes:
    """A key to find a scope by. Names have no NUL, so no two scopes join to the same text."""
    return sha256(f"{search_scope.agent}\0{search_scope.scope}".encode()).digest()


def _vector(scope_number: int, found: IndexTerms) -> str:
    """A `tsvector` as PostgreSQL reads it."""
    terms = Counter(found.words)
    terms.update(found.forms)
    return " ".join(
        f"{_quote(scope_number, term)}:{_positions(min(count, _MAX_FREQUENCY))}"
        for term, count in terms.items()
    )


def _positions(count: int) -> str:
    return ",".join(map(str, range(1, count + 1)))


def _folded_queries(scope_number: int, folded: FoldedTerms) -> list[str]:
    """Other forms of terms as PostgreSQL looks for them."""
    quote = partial(_quote, scope_number)
    found = [
        *map(quote, folded.words),
        *(f"({quote(one)} & {quote(other)})" for one, other in folded.pairs),
        *map(quote, folded.forms),
        *(f"{quote(prefix)}:*" for prefix in folded.prefixes),
    ]
    return list(dict.fromkeys(found))


def _quote(scope_number: int, term: str) -> str:
    """A term of a scope, in quotes, so that nothing is syntax."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{scope_number}x{doubled}'"
