"""`SearchIndex`: the full-text index of the in-process store, in an SQLite database without a file.

It is a separate module, because only the first search imports it: until then the in-process store needs no
SQLite.
"""

from __future__ import annotations

import sqlite3
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autonomy_ctx.language.search_terms import index_terms
from autonomy_ctx.memory.search_text import QueryTerms, searchable_text
from autonomy_ctx.memory.sqlite import fulltext
from autonomy_ctx.memory.sqlite.connection import translate_error
from autonomy_ctx.memory.sqlite.migrate import migrate
from autonomy_ctx.memory.store import Entry, Key

# How many messages go into the index together.
_INDEX_BATCH_SIZE = 1000


class IndexHit(NamedTuple):
    """A message that was found, and how well it fits."""

    key: Key
    position: int
    score: float


class KeyRange(NamedTuple):
    """The positions `first` to `last` of a conversation."""

    key: Key
    first: int
    last: int


class SearchIndex:
    """An index for as long as nothing is deleted; after that a new one is made by the next search."""

    def __init__(self) -> None:
        # Searches run in threads; the connection is for one at a time.
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._keys: list[Key] = []
        self._numbers: dict[Key, int] = {}
        self._indexed: dict[Key, int] = {}
        self.retired = False

    def indexed(self, key: Key) -> int:
        """The last position that was taken into the index."""
        return self._indexed.get(key, 0)

    def search(
        self,
        logs: Mapping[Key, Sequence[Entry]],
        terms: QueryTerms,
        limit: int,
        ranges: Sequence[KeyRange] = (),
    ) -> list[IndexHit]:
        """Index what is new in these logs of one scope, then find, in the scope or in ranges of the logs.

        It blocks: call it in a thread.
        """
        try:
            with self._lock:
                connection = self._connection or self._open()
                connection.execute("BEGIN")
                for key, entries in logs.items():
                    self._index_entries(connection, key, entries)
                connection.execute("COMMIT")
                first = next(iter(logs))
                scope_number = fulltext.ensure_scope_number(connection, first.agent, first.scope)
                numbered = [(self._numbers[one.key], one.first, one.last) for one in ranges]
                number = numbered[0][0] if numbered else None
                hits = fulltext.find_hits(connection, scope_number, number, terms, limit, numbered)
                return [
                    IndexHit(self._keys[hit.conversation_id - 1], hit.position, hit.score) for hit in hits
                ]
        except sqlite3.Error as error:
            self.retire()
            raise translate_error(error, "memory in this process", 0) from None
        finally:
            self._close_if_retired()

    def retire(self) -> None:
        """Close the index, now or after the last running search."""
        self.retired = True
        self._close_if_retired()

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection = connection
        # Nobody closes an index in memory; from Python 3.13 on a connection that is not closed is a warning.
        weakref.finalize(self, connection.close)
        migrate(connection, "memory in this process")
        fulltext.create_index(connection)
        return connection

    def _index_entries(self, connection: sqlite3.Connection, key: Key, entries: Sequence[Entry]) -> None:
        if key not in self._numbers:
            self._keys.append(key)
            self._numbers[key], self._indexed[key] = len(self._keys), 0
        number = self._numbers[key]
        scope_number = fulltext.ensure_scope_number(connection, key.agent, key.scope)
        # Another search may have been here.
        new = [entry for entry in entries if entry.position > self._indexed[key]]
        for first in range(0, len(new), _INDEX_BATCH_SIZE):
            terms = {
                entry.position: index_terms(searchable_text(entry.message))
                for entry in new[first : first + _INDEX_BATCH_SIZE]
            }
            fulltext.add_messages(connection, scope_number, number, terms)
            self._indexed[key] = max(terms)

    def _close_if_retired(self) -> None:
        if self.retired and self._lock.acquire(blocking=False):
            try:
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.close()
            finally:
                self._lock.release()
