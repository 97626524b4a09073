"""`Session`: the transaction of one database in which the scripts of this package run.

A script is a coroutine that is given a session. On PostgreSQL it waits for each statement. On SQLite nothing
waits, so the thread of the database runs it from beginning to end (`run_script`).
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from autonomy_ctx.memory.sql.query import Query
from autonomy_ctx.memory.store import MAX_POSITION, Key
from autonomy_ctx.memory.vectors import VectorBlock

T = TypeVar("T")


class ReadLimit(NamedTuple):
    """The most that a script may read."""

    max_bytes: int = MAX_POSITION
    max_rows: int = MAX_POSITION


NO_LIMIT = ReadLimit()


class LargeRead(Exception):
    """A script would read more than it may; it is run again where it may take its time."""


class Session(Protocol):
    """A transaction, or for a script that only reads one snapshot."""

    @property
    def read_limit(self) -> ReadLimit:
        """The most that a script may read which heeds it; it raises `LargeRead` before."""

    async def fetch(self, query: Query, **values: Any) -> list[Any]:
        """Run a query, and return all rows."""

    async def fetch_each(self, query: Query, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Run a query for each row of values, without waiting in between, and return all rows of each."""

    async def execute(self, query: Query, **values: Any) -> int:
        """Run a query, and return how many rows it has changed."""

    async def execute_many(self, query: Query, rows: Sequence[dict[str, Any]]) -> None:
        """Run a query for each row of values."""

    def key_values(self, key: Key) -> dict[str, Any]:
        """The values of a key, for `@key(...)` and for a new row."""

    def array(self, values: Sequence[Any]) -> Any:
        """A list as one value, for `@in(...)`."""

    def index_text(self, text: str) -> str:
        """An id or a name as the indexes of this database have it."""

    def has_ended(self, owner: str) -> bool:
        """True if it is known that the process of an owner of a lease has ended."""

    async def notify(self, topic: str) -> None:
        """Wake the processes that wait for a topic, when this is committed."""

    async def unindex(self, places: Sequence[tuple[int, int | None]]) -> None:
        """Take messages out of the indexes of words and meanings, by conversation and position.

        No position means all of a conversation.
        """

    async def put_vectors(self, conversation_id: int, embedder: int, block: VectorBlock) -> None:
        """Store the vectors of messages that are there, with these ids, in place of older ones."""

    def note_appended(self, messages: int) -> None:
        """Count stored messages."""

    def note_deletion(self) -> None:
        """Note that something was deleted, so that the database leaves no trace of it."""


def run_script(script: Coroutine[Any, Any, T]) -> T:
    """Run a script that never waits."""
    try:
        script.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    script.close()
    raise RuntimeError("a script has waited where it must not")
