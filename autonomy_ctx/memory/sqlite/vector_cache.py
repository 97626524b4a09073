"""`VectorCache`: the vectors of an SQLite file in memory, so that a search reads only what is new.

It has a matrix for each scope and each conversation that was searched, up to a limit in bytes. Found messages
are read from the file, so a message that any process has deleted is not returned.
"""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import closing
from heapq import nlargest
from typing import NamedTuple, TypeAlias

from autonomy_ctx.memory.sqlite.forks import read_ranges
from autonomy_ctx.memory.sqlite.search import SearchScope, read_indexed
from autonomy_ctx.memory.store import SearchHit
from autonomy_ctx.memory.vector_matrix import NearVector, VectorMatrix
from autonomy_ctx.memory.vectors import BYTES_PER_NUMBER

# All matrices together. One that is larger is read by each search.
MAX_CACHE_BYTES = 256 * 1024 * 1024
_READ_ROWS = 4096
# What is compared in a tenth of a millisecond.
SMALL_SEARCH_NUMBERS = 500_000

# Nothing when another embedder is in force.
_SELECT_STATE = """
    SELECT s.id, s.removals FROM embedder e CROSS JOIN vector_scope s
    WHERE e.number = ? AND s.agent = ? AND s.scope = ?
"""
_SELECT_SCOPE_VECTORS = """
    SELECT id, conversation_id, position, vector FROM vector
    WHERE scope_id = ?1 AND id > ?2 AND embedder = ?3 ORDER BY id
"""
# In the order of the index: by position, not by id.
_SELECT_CONVERSATION_VECTORS = """
    SELECT id, conversation_id, position, vector FROM vector
    WHERE conversation_id = ?1 AND id > ?2 AND embedder = ?3
"""
_SELECT_CONVERSATION_ID = "SELECT id FROM conversation WHERE agent = ? AND scope = ? AND conversation = ?"
_SELECT_NAME = "SELECT conversation FROM conversation WHERE id = ? AND agent = ? AND scope = ?"

# An agent, a scope, and the number of a conversation, or None for all of the scope.
_CacheKey: TypeAlias = tuple[str, str, int | None]


class _FileState(NamedTuple):
    """What a matrix was read from. When it changes, all of it is read again."""

    identity: object
    embedder: int
    scope_id: int
    removals: int


class _CachedMatrix(NamedTuple):
    """A matrix, and the last row of the file that is in it."""

    state: _FileState
    last_id: int
    matrix: VectorMatrix


class TooLarge(Exception):
    """A search would take too long in the thread of the caller."""


class VectorCache:
    """The vectors that were searched last."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._matrices: OrderedDict[_CacheKey, _CachedMatrix] = OrderedDict()
        # Taken before a snapshot: what is read later is never older than what is in a matrix.
        self._lock = threading.Lock()

    def search(
        self,
        connection: sqlite3.Connection,
        identity: object,
        search_scope: SearchScope,
        vector: bytes,
        embedder: int,
        limit: int,
    ) -> list[SearchHit]:
        """The nearest messages, in one snapshot. `identity` says which file it is."""
        with self._lock:
            return self._search(connection, identity, search_scope, vector, embedder, limit, 2**62)

    def search_small(
        self,
        connection: sqlite3.Connection,
        identity: object,
        search_scope: SearchScope,
        vector: bytes,
        embedder: int,
        limit: int,
    ) -> list[SearchHit] | None:
        """The same, if it can be done at once; else None."""
        if not self._lock.acquire(blocking=False):
            return None
        try:
            return self._search(
                connection, identity, search_scope, vector, embedder, limit, SMALL_SEARCH_NUMBERS
            )
        except TooLarge:
            return None
        finally:
            self._lock.release()

    def forget(self, scope: str) -> None:
        """Drop a scope from which something was deleted."""
        for key in list(self._matrices):
            if key[1] == scope:
                self._matrices.pop(key, None)

    @property
    def size_bytes(self) -> int:
        """What all matrices take in memory."""
        return sum(one.matrix.size_bytes for one in list(self._matrices.values()))

    def _search(
        self,
        connection: sqlite3.Connection,
        identity: object,
        search_scope: SearchScope,
        vector: bytes,
        embedder: int,
        limit: int,
        max_numbers: int,
    ) -> list[SearchHit]:
        agent, scope, _ = search_scope
        connection.execute("BEGIN")
        try:
            found = connection.execute(_SELECT_STATE, (embedder, agent, scope)).fetchone()
            if found is None:
                return []
            state = _FileState(identity, embedder, *found)
            near = self._find(connection, state, search_scope, vector, limit, max_numbers)
            return _read_hits(connection, search_scope, near)
        finally:
            connection.execute("COMMIT")

    def _find(
        self,
        connection: sqlite3.Connection,
        state: _FileState,
        search_scope: SearchScope,
        vector: bytes,
        limit: int,
        max_numbers: int,
    ) -> list[NearVector]:
        agent, scope, conversation = search_scope
        if conversation is None:
            matrix = self._refresh(connection, (agent, scope, None), state, vector, max_numbers)
            return matrix.nearest(vector, limit)
        found = connection.execute(_SELECT_CONVERSATION_ID, search_scope).fetchone()
        if found is None:
            return []
        near: list[NearVector] = []
        for shared in read_ranges(connection, found[0]):
            key = (agent, scope, shared.conversation_id)
            matrix = self._refresh(connection, key, state, vector, max_numbers)
            near += matrix.nearest(vector, limit, [shared])
        return nlargest(limit, near, key=lambda one: (one.score, one.position))

    def _refresh(
        self,
        connection: sqlite3.Connection,
        key: _CacheKey,
        state: _FileState,
        vector: bytes,
        max_numbers: int,
    ) -> VectorMatrix:
        """A matrix with all that the file has now; `TooLarge` when it has more numbers than it may."""
        dimensions, cached = len(vector) // BYTES_PER_NUMBER, self._matrices.get(key)
        if cached is None or cached.state != state:
            if max_numbers <= SMALL_SEARCH_NUMBERS:
                # How much there is to read is not known.
                raise TooLarge
            cached = _CachedMatrix(state, 0, VectorMatrix(dimensions))
        if len(cached.matrix) * dimensions > max_numbers:
            raise TooLarge
        statement, number = _SELECT_SCOPE_VECTORS, state.scope_id
        if key[2] is not None:
            statement, number = _SELECT_CONVERSATION_VECTORS, key[2]
        # Out of the cache while it changes: what an error cuts short is not used again.
        self._matrices.pop(key, None)
        last_id = cached.last_id
        with closing(connection.execute(statement, (number, last_id, state.embedder))) as cursor:
            while rows := cursor.fetchmany(_READ_ROWS):
                cached.matrix.add([row[1:] for row in rows])
                last_id = max(last_id, max(row[0] for row in rows))
        self._matrices[key] = cached._replace(last_id=last_id)
        self._shrink()
        return cached.matrix

    def _shrink(self) -> None:
        """Drop the least recently searched matrices."""
        size = self.size_bytes
        for key in list(self._matrices):
            if size <= self._max_bytes:
                break
            # A deletion may have let go of it just now.
            gone = self._matrices.pop(key, None)
            size -= 0 if gone is None else gone.matrix.size_bytes


def _read_hits(
    connection: sqlite3.Connection, search_scope: SearchScope, found: Sequence[NearVector]
) -> list[SearchHit]:
    """The messages that were found; what one conversation shares with others has its name."""
    agent, scope, conversation = search_scope
    names = {
        number: (conversation,)
        if conversation is not None
        else connection.execute(_SELECT_NAME, (number, agent, scope)).fetchone()
        for number in {one.conversation_id for one in found}
    }
    places = [(name[0], one.position) for one in found if (name := names[one.conversation_id])]
    read = read_indexed(connection, agent, scope, places) or ()
    messages = {(name, position): message for name, position, message in read}
    return [
        SearchHit(conversation=place[0], position=place[1], message=message, score=one.score)
        for one in found
        if (name := names[one.conversation_id])
        and (message := messages.get(place := (name[0], one.position))) is not None
    ]
