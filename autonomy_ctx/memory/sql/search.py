"""The scripts of search: how the index follows the log, and finding messages.

The index is updated by the next search, one block per transaction, so that appends are not slowed down. A
block is read and split into terms before the transaction that writes it. Messages that were indexed with an
older folding of words stay searchable until they are indexed again, in the same blocks.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from autonomy_ctx.memory.encoding import decode_entry
from autonomy_ctx.memory.search_terms import FOLDING_VERSION, index_terms
from autonomy_ctx.memory.search_text import IndexBlock, QueryTerms, RowHit, SearchScope, row_text
from autonomy_ctx.memory.sql.forks import SharedRange, read_ranges
from autonomy_ctx.memory.sql.log import MESSAGE_ID, PLACES, SCOPE_BYTES, find_conversation
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import Key, SearchHit

# How much of the log one transaction takes into the index, so that appends of others get their turn: about
# 10 milliseconds.
BLOCK_ROWS, BLOCK_BYTES = 256, 128 * 1024
_QUERIES = load_queries(
    "search",
    message_id=MESSAGE_ID,
    json_rows="{sqlite: json_group_array(json_array}{postgres: json_agg(json_build_array}",
    # How far a conversation is in the index; what was taken in with another folding does not count.
    index_position="CASE {sqlite: c}{postgres: p}.folding "
    f"WHEN {FOLDING_VERSION} THEN {{sqlite: c}}{{postgres: p}}.indexed ELSE 0 END",
    index_progress="{postgres: LEFT JOIN autonomy_ctx.search_progress p ON p.conversation_id = c.id}",
    scope_key=f"sha256({SCOPE_BYTES})",
    **PLACES,
)


class SearchState(NamedTuple):
    """The state of the index for a scope or a conversation, before a search."""

    # The number of the scope in the index, if it has one.
    scope_number: int | None
    # Conversations, and the positions up to which they are to be indexed.
    unindexed: list[tuple[int, int]]
    # Whether something of deleted messages may still stand in the index.
    needs_purge: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FullText:
    """The full-text index of a database."""

    # Find the rows of a scope, or of ranges in it, that match any of the terms, best first; of equals the
    # newest.
    find: Callable[[Any, int, SearchScope, Sequence[SharedRange], QueryTerms, int], Awaitable[list[RowHit]]]
    # Make the index if there is none; false if this transaction is to write no more to it.
    begin: Callable[[Any], bool]
    # Write a block in place of what the index has of its messages.
    write: Callable[[Any, int, IndexBlock], Awaitable[None]]


class UnindexedBlock(NamedTuple):
    """Messages of one conversation that are to be indexed, as rows."""

    conversation_id: int
    generation: int
    start: int
    end: int
    rows: list[tuple[Any, ...]]

    def split(self) -> IndexBlock:
        """The terms of the messages. It takes a while: call it in a thread."""
        terms = {row[0]: index_terms(row_text(*row[:-1])) for row in self.rows}
        return IndexBlock(self.conversation_id, self.generation, self.start, self.end, terms)


async def find_messages(
    session: Session,
    fulltext: FullText,
    search_scope: SearchScope,
    terms: QueryTerms,
    limit: int,
    *,
    even_if_stale: bool,
) -> list[SearchHit] | SearchState:
    """Search in one snapshot, or return the state that tells what has to be done first."""
    state = await read_state(session, search_scope)
    if not even_if_stale and (state.unindexed or state.needs_purge):
        return state
    if state.scope_number is None:
        return []
    ranges: list[SharedRange] = []
    agent, scope, conversation = search_scope
    if conversation is not None:
        found = await find_conversation(session, Key(agent, scope, conversation))
        if found is None:
            return []
        ranges = await read_ranges(session, found[0])
    hits = await fulltext.find(session, state.scope_number, search_scope, ranges, terms, limit)
    return await read_hits(session, search_scope, hits)


async def read_state(session: Session, search_scope: SearchScope) -> SearchState:
    """Read what the index has of a scope or a conversation, and what it lacks."""
    values = session.key_values(Key(*search_scope[:2], search_scope.conversation or ""))
    [(number, needs_purge)] = await session.fetch(_QUERIES["select_scope"], **values)
    query = _QUERIES["select_unindexed" if search_scope.conversation is None else "select_unindexed_of"]
    return SearchState(number, await session.fetch(query, **values), bool(needs_purge))


async def read_hits(session: Session, search_scope: SearchScope, found: Sequence[RowHit]) -> list[SearchHit]:
    """The messages of rows that were found, without deleted ones.

    What one conversation shares with others has its name.
    """
    places = json.dumps([(one.conversation_id, one.position) for one in found])
    rows = await session.fetch(_QUERIES["select_messages"], **search_scope._asdict(), places=places)
    names = {(row[0], row[2]): search_scope.conversation or row[1] for row in rows}
    messages = {(row[0], row[2]): decode_entry(*row[2:]).message for row in rows}
    return [
        SearchHit(
            conversation=names[one[:2]], position=one.position, message=messages[one[:2]], score=one.score
        )
        for one in found
        if one[:2] in messages
    ]


async def read_blocks(session: Session, unindexed: Sequence[tuple[int, int]]) -> list[UnindexedBlock]:
    """The next messages that the index lacks; none when it has all that was asked for."""
    blocks: list[UnindexedBlock] = []
    rows, size = BLOCK_ROWS, BLOCK_BYTES
    states = await session.fetch_each(_QUERIES["select_state"], [{"id": number} for number, _ in unindexed])
    for (_, target), [(conversation_id, start, generation, head)] in zip(unindexed, states, strict=True):
        # Another process may have been here.
        if start >= target:
            continue
        values = {"id": conversation_id, "start": start, "rows": rows, "size": size}
        [(text,)] = await session.fetch(_QUERIES["select_block"], **values)
        read = sorted(map(tuple, json.loads(text))) if text else []
        rows, size = rows - len(read), size - sum(row[-1] for row in read)
        is_full = rows <= 0 or size <= 0
        last = read[-1][0] if read else 0
        # What was appended since the head was read is for the next time, unless it is in the block.
        end = last if is_full else max(head, last)
        blocks.append(UnindexedBlock(conversation_id, generation, start, end, read))
        if is_full:
            break
    return blocks


async def write_blocks(
    session: Session, fulltext: FullText, search_scope: SearchScope, blocks: Sequence[IndexBlock]
) -> None:
    """Take messages into the index, but none of a conversation that was indexed or cut meanwhile."""
    if not fulltext.begin(session):
        return
    values = session.key_values(Key(*search_scope[:2], ""))
    await session.execute(_QUERIES["insert_scope"], **values)
    [(number, _)] = await session.fetch(_QUERIES["select_scope"], **values)
    for block in sorted(blocks, key=lambda one: one.conversation_id):
        found = await session.fetch(_QUERIES["lock_conversation"], id=block.conversation_id)
        if found != [(block.generation,)]:
            continue
        place = {"id": block.conversation_id, "start": block.start, "end": block.end}
        if await session.execute(_QUERIES["move_progress"], **place, version=FOLDING_VERSION):
            await fulltext.write(session, number, block)
