"""`VectorCache`: the vectors of an SQLite file in memory, so that a search reads only what is new.

It has a matrix for each scope and each conversation that was searched, up to a limit in bytes. Found messages
are read from the file, so a message that any process has deleted is not returned.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing, suppress
from heapq import nlargest
from typing import NamedTuple, TypeAlias

from cachetools import LRUCache

from autonomy_ctx.memory.search_text import SearchScope
from autonomy_ctx.memory.sql.forks import read_ranges
from autonomy_ctx.memory.sql.log import find_conversation
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.sql.search import read_hits
from autonomy_ctx.memory.sqlite.session import SqliteSession
from autonomy_ctx.memory.store import Key, SearchHit
from autonomy_ctx.memory.vector_matrix import VectorMatrix
from autonomy_ctx.memory.vectors import BYTES_PER_NUMBER

_SQL = load_statements("sqlite", "vectors")

# All matrices together.
MAX_CACHE_BYTES = 256 * 1024 * 1024
_READ_ROWS = 4096


# An agent, a scope, and the number of a conversation, or None for all of the scope.
_CacheKey: TypeAlias = tuple[str, str, int | None]


class _FileState(NamedTuple):
    """The state of the file that a matrix was read from. When it changes, all of it is read again."""

    identity: object
    embedder: int
    scope_id: int
    removals: int


class _CachedMatrix(NamedTuple):
    """A matrix, and the last row of the file that is in it."""

    state: _FileState
    last_id: int
    matrix: VectorMatrix


class VectorCache:
    """The vectors that were searched last. Only the reader's thread uses it."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._matrices: LRUCache[_CacheKey, _CachedMatrix] = LRUCache(
            max_bytes, getsizeof=lambda one: one.matrix.size_bytes
        )

    async def nearest(
        self,
        session: SqliteSession,
        agent: str,
        scope: str,
        vector: bytes,
        *,
        embedder: int,
        conversation: str | None = None,
        limit: int,
    ) -> list[SearchHit]:
        """The nearest messages, in one snapshot."""
        search_scope, connection = SearchScope(agent, scope, conversation), session.connection
        found = connection.execute(_SQL["select_state"], (embedder, agent, scope)).fetchone()
        if found is None:
            return []
        state = _FileState(session.identity, embedder, *found)
        if conversation is None:
            near = self._refresh(connection, (agent, scope, None), state, vector).nearest(vector, limit)
            return await read_hits(session, search_scope, near)
        one = await find_conversation(session, Key(agent, scope, conversation))
        near = []
        for shared in [] if one is None else await read_ranges(session, one[0]):
            matrix = self._refresh(connection, (agent, scope, shared.conversation_id), state, vector)
            near += matrix.nearest(vector, limit, [shared])
        best = nlargest(limit, near, key=lambda one: (one.score, one.position))
        return await read_hits(session, search_scope, best)

    @property
    def size_bytes(self) -> int:
        """The size of all matrices in memory."""
        return int(self._matrices.currsize)

    def _refresh(
        self, connection: sqlite3.Connection, key: _CacheKey, state: _FileState, vector: bytes
    ) -> VectorMatrix:
        """A matrix with all that the file has now."""
        # Out of the cache while it changes: what an error cuts short is not used again.
        cached = self._matrices.pop(key, None)
        if cached is None or cached.state != state:
            cached = _CachedMatrix(state, 0, VectorMatrix(len(vector) // BYTES_PER_NUMBER))
        statement, number = _SQL["select_scope_vectors"], state.scope_id
        if key[2] is not None:
            statement, number = _SQL["select_conversation_vectors"], key[2]
        last_id = cached.last_id
        with closing(connection.execute(statement, (number, last_id, state.embedder))) as cursor:
            while rows := cursor.fetchmany(_READ_ROWS):
                cached.matrix.add([row[1:] for row in rows])
                last_id = max(last_id, max(row[0] for row in rows))
        # One that is larger than the cache is read by each search.
        with suppress(ValueError):
            self._matrices[key] = cached._replace(last_id=last_id)
        return cached.matrix
