"""Running a script of a store on a connection to an SQLite file."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from autonomy_ctx.memory.sql.session import NO_LIMIT, ReadLimit, run_script
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.session import SqliteSession, Transaction

T = TypeVar("T")


def run_on(
    connection: sqlite3.Connection,
    script: Callable[..., Coroutine[Any, Any, T]],
    *given: Any,
    read_limit: ReadLimit = NO_LIMIT,
    **options: Any,
) -> T:
    """The result of a script, in a transaction of its own."""
    clocks = {"now": time.time, "lease_now": time.time}
    session = SqliteSession(Transaction(connection), clocks, None, read_limit)
    with snapshot(connection):
        return run_script(script(session, *given, **options))
