"""`VectorCache`: the vectors of an SQLite file in memory, so that a search reads only what is new.

A matrix for each scope and each conversation that was searched, up to a limit in bytes. It is used by the
reader's thread. What it finds is read from the file: a message that was deleted is not found, by whichever
process that was.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from heapq import nlargest
from typing import NamedTuple, TypeAlias

from autonomy_ctx.memory.sqlite.forks import read_ranges
from autonomy_ctx.memory.sqlite.search import SearchScope, read_indexed
from autonomy_ctx.memory.sqlite.vectors import is_in_force
from autonomy_ctx.memory.store import SearchHit
from autonomy_ctx.memory.vector_matrix import NearVector, VectorMatrix
from autonomy_ctx.memory.vectors import BYTES_PER_NUMBER

# All matrices together. One that is larger is read by each search.
MAX_CACHE_BYTES = 256 * 1024 * 1024
_READ_ROWS = 4096

_SELECT_SCOPE = "SELECT id, removals FROM vector_scope WHERE agent = ? AND scope = ?"
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


class _CachedMatrix(NamedTuple):
    """A matrix, and how much of the file is in it."""

    identity: object
    embedder: int
    scope_id: int
    removals: int
    last_id: int
    matrix: VectorMatrix


class VectorCache:
    """The vectors that were searched last."""

    def __init__(self, max_bytes: int = MAX_CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._matrices: OrderedDict[_CacheKey, _CachedMatrix] = OrderedDict()

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
        connection.execute("BEGIN")
        try:
            if not is_in_force(connection, embedder):
                return []
            found = self._find(connection, identity, search_scope, vector, embedder, limit)
            return _read_hits(connection, search_scope, found)
        finally:
            connection.execute("COMMIT")

    def forget(self, scope: str) -> None:
        """Let go of a scope from which something was deleted."""
        for key in list(self._matrices):
            if key[1] == scope:
                self._matrices.pop(key, None)

    @property
    def size_bytes(self) -> int:
        """What all matrices take in memory."""
        return sum(one.matrix.size_bytes for one in list(self._matrices.values()))

    def _find(
        self,
        connection: sqlite3.Connection,
        identity: object,
        search_scope: SearchScope,
        vector: bytes,
        embedder: int,
        limit: int,
    ) -> list[NearVector]:
        agent, scope, conversation = search_scope
        state = connection.execute(_SELECT_SCOPE, (agent, scope)).fetchone()
        if state is None:
            return []
        scope_id, removals = state
        matrix = VectorMatrix(len(vector) // BYTES_PER_NUMBER)
        empty = _CachedMatrix(identity, embedder, scope_id, removals, 0, matrix)
        if conversation is None:
            return self._refresh(connection, (agent, scope, None), empty).nearest(vector, limit)
        found = connection.execute(_SELECT_CONVERSATION_ID, search_scope).fetchone()
        if found is None:
            return []
        near: list[NearVector] = []
        for shared in read_ranges(connection, found[0]):
            matrix = self._refresh(connection, (agent, scope, shared.conversation_id), empty)
            near += matrix.nearest(vector, limit, [shared])
        return nlargest(limit, near, key=lambda one: (one.score, one.position))

    def _refresh(self, connection: sqlite3.Connection, key: _CacheKey, empty: _CachedMatrix) -> VectorMatrix:
        """A matrix with all that the file has now."""
        cached = self._matrices.pop(key, None)
        if cached is None or cached[:4] != empty[:4]:
            cached = empty._replace(matrix=VectorMatrix(empty.matrix.dimensions))
        conversation_id = key[2]
        if conversation_id is None:
            statement, number = _SELECT_SCOPE_VECTORS, cached.scope_id
        else:
            statement, number = _SELECT_CONVERSATION_VECTORS, conversation_id
        cursor = connection.execute(statement, (number, cached.last_id, cached.embedder))
        last_id = cached.last_id
        while rows := cursor.fetchmany(_READ_ROWS):
            cached.matrix.add([row[1:] for row in rows])
            last_id = max(last_id, max(row[0] for row in rows))
        self._matrices[key] = cached._replace(last_id=last_id)
        self._shrink()
        return cached.matrix

    def _shrink(self) -> None:
        """Let go of what was not searched for longest."""
        while self._matrices and self.size_bytes > self._max_bytes:
            self._matrices.popitem(last=False)


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
