"""`Session`: the transaction of one database in which the scripts of this package run.

A script is a coroutine that is given a session. On PostgreSQL it waits for each statement. On SQLite nothing
waits, so the thread of the database runs it from beginning to end (`run_script`).
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from autonomy_ctx.memory.facts import FactsInForce
from autonomy_ctx.memory.sql.query import Query
from autonomy_ctx.memory.store import Head, Key

T = TypeVar("T")


# In `Session.insert`: the time of the database.
NOW = object()


class Session(Protocol):
    """A transaction, or for a script that only reads one snapshot."""

    async def fetch(self, query: Query, **values: Any) -> list[Any]:
        """Run a query, and return all rows."""

    async def fetch_each(self, query: Query, rows: Sequence[dict[str, Any]]) -> list[list[Any]]:
        """Run a query for each row of values, without waiting in between, and return all rows of each."""

    async def execute(self, query: Query, **values: Any) -> int:
        """Run a query, and return how many rows it has changed."""

    async def execute_many(self, query: Query, rows: Sequence[dict[str, Any]]) -> None:
        """Run a query for each row of values."""

    async def insert(self, table: str, columns: Mapping[str, Any], *, returning: str = "") -> list[Any]:
        """Insert rows; a column that is no list has the same value in each. Returns a column, in order.

        A column that this database does not have is left out.
        """

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

    def note_appended(self, messages: int) -> None:
        """Count stored messages."""

    def note_deletion(self) -> None:
        """Note that something was deleted, so that the database leaves no trace of it."""

    def known_facts(self, key: Key, conversation_id: int, head: Head) -> FactsInForce | None:
        """The facts that hold, if this process knows them."""

    def keep_facts(self, key: Key, facts: FactsInForce) -> None:
        """Know the facts that hold from the commit on."""


def run_script(script: Coroutine[Any, Any, T]) -> T:
    """Run a script that never waits."""
    try:
        script.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    script.close()
    raise RuntimeError("a script has waited where it must not")


def insert_rows(columns: Mapping[str, Any], max_values: int) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of columns for `Session.insert`, as many at a time as one statement can take."""
    size = 1
    for column in columns.values():
        if isinstance(column, list):
            size = len(column)
    given = []
    for column in columns.values():
        given.append(column if isinstance(column, list) else [column] * size)
    rows = list(zip(*given, strict=True))
    step = max_values // len(columns)
    for first in range(0, size, step):
        yield rows[first : first + step]
