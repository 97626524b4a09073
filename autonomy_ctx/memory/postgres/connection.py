"""Calls to the server: the pool, deadlines, retries, and transactions that are made exactly once.

A call has one deadline for everything: a free connection, the statements, and all further attempts. After a
lost connection all idle ones are dropped, and a new one is tried every 250 milliseconds. A transaction
writes a row that proves its commit, so that one without an answer is neither repeated nor forgotten. Its
number would prove nothing: after a crash or a failover, the server gives it to another transaction.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar
from uuid import uuid4

import psycopg
from psycopg import sql
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout

from autonomy_ctx.errors import StoreBusy, StoreClosed, StoreError, StoreUnavailable
from autonomy_ctx.memory.encoding import UnreadableRow
from autonomy_ctx.memory.postgres.errors import (
    Failure,
    classify,
    damage_error,
    describe,
    is_full,
    is_refusal,
    is_unanswered,
    outage_error,
    parse_url,
    server_name,
    translate,
)
from autonomy_ctx.memory.postgres.migrate import prepare_schema
from autonomy_ctx.memory.sql.query import load_statements

T = TypeVar("T")
Connection: TypeAlias = "psycopg.AsyncConnection[Any]"
Work: TypeAlias = Callable[[Connection], Awaitable[T]]

logger = logging.getLogger("autonomy_ctx.memory")

RECONNECT_SECONDS = 0.25
# One attempt to connect, for each host of the URL; the URL can name another limit.
CONNECT_SECONDS = 3
MAX_CONFLICTS = 5
# How long a statement has to end after it was cancelled at its deadline; then its socket is shut.
CANCEL_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_CANCEL_AGAIN_SECONDS = 0.01
# How long a transaction may stand still before the server ends it, so that a process that was stopped does
# not keep its locks. At most a share of the timeout: others that wait for a lock get it before they give up.
IDLE_SECONDS, IDLE_SHARE = 5.0, 0.25
_SQL = load_statements("postgres", "writers")


async def fetch_all(connection: Connection, statement: Any, values: Any = None) -> list[Any]:
    """Run a statement, and return all rows."""
    return await (await connection.execute(statement, values)).fetchall()


async def fetch_one(connection: Connection, statement: Any, values: Any = None) -> tuple[Any, ...] | None:
    """Run a statement, and return its first row; None when there is none."""
    row: tuple[Any, ...] | None = await (await connection.execute(statement, values)).fetchone()
    return row


class _Deadline:
    """The deadline of a call, and its failures so far."""

    __slots__ = ("at", "conflicts", "is_append", "losses", "may_be_stored", "problem")

    def __init__(self, at: float) -> None:
        self.at, self.is_append = at, False
        self.conflicts = self.losses = 0
        self.problem = "the server did not answer"
        # Whether messages were sent without an answer.
        self.may_be_stored = False


class _Pool:
    """A pool of one event loop, until a connection of it is lost."""

    def __init__(self, database: Database, loop: asyncio.AbstractEventLoop) -> None:
        self.loop, self.is_lost = loop, False
        self.connections: weakref.WeakSet[Connection] = weakref.WeakSet()
        self.connect_error: psycopg.Error | None = None
        pool = self

        class PooledConnection(psycopg.AsyncConnection[Any]):
            """A connection that reports connection failures to its pool."""

            @classmethod
            async def connect(cls, *given: Any, **options: Any) -> Any:
                try:
                    made = await super().connect(*given, **options)
                except psycopg.Error as error:
                    pool.note_failure(error)
                    raise
                except asyncio.CancelledError:
                    _cancel_until_done(asyncio.current_task())
                    raise
                pool.connections.add(made)
                return made

        self.inner: AsyncConnectionPool[Any] = AsyncConnectionPool(
            database.url,
            connection_class=PooledConnection,
            kwargs=database.options,
            min_size=0,
            max_size=database.pool_size,
            open=False,
            timeout=database.timeout,
            reconnect_timeout=RECONNECT_SECONDS,
        )

    def note_failure(self, error: psycopg.Error) -> None:
        """Note a failure to connect. A full server may still serve the existing connections."""
        self.connect_error = error
        if not (is_full(error) and any(not connection.closed for connection in self.connections)):
            self.lose()

    def lose(self) -> None:
        """Close all idle connections, and let waiting calls try again."""
        if not self.is_lost:
            self.is_lost = True
            _run_in_background(self.loop, self.close())

    async def close(self) -> None:
        await self.inner.close(timeout=_CLOSE_SECONDS)

    def abandon(self) -> None:
        """Close the sockets of a loop that has ended."""
        for connection in self.connections:
            connection.pgconn.finish()


class _Guard:
    """Cancels the statement of a connection at a deadline; if that has no effect, shuts its socket."""

    __slots__ = ("_connection", "_loop", "_request", "_timer", "has_expired")

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, at: float) -> None:
        self._connection, self._loop = connection, loop
        self._request: asyncio.Task[None] | None = None
        self.has_expired = False
        self._timer = loop.call_at(at, self._cancel)

    def _cancel(self) -> None:
        self.has_expired = True
        self._request = self._loop.create_task(_cancel_statement(self._connection))
        self._timer = self._loop.call_later(CANCEL_SECONDS, self._shut)

    def _shut(self) -> None:
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(self._connection.fileno())) as one:
            one.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        """Stop watching."""
        self._timer.cancel()

    async def end(self) -> None:
        """Stop watching. A connection that was cancelled is closed: the request may still be on its way."""
        self._timer.cancel()
        if self._request is not None:
            self._request.cancel()
            await self._connection.close()


async def _cancel_statement(connection: Connection) -> None:
    with suppress(psycopg.Error):
        await connection.cancel_safe(timeout=CANCEL_SECONDS)


class _Writer:
    """A proof of commits, one transaction after another: its row has the number of the last one."""

    __slots__ = ("id", "number")

    def __init__(self) -> None:
        self.id, self.number = uuid4().hex, 0


class _Transaction(Generic[T]):
    """A transaction on its way: whether its commit got no answer so far, and its result by then."""

    __slots__ = ("is_lost", "result", "writer")

    def __init__(self, writer: _Writer) -> None:
        self.writer, self.is_lost = writer, False
        self.result: T


def connect_options(url: str) -> dict[str, Any]:
    """Options of a connection that its URL does not set."""
    parts = parse_url(url)
    # Nothing is prepared and nothing is set: behind a pooler, each transaction may have another session.
    options: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "client_encoding": "utf8"}
    if "connect_timeout" not in parts:
        options["connect_timeout"] = CONNECT_SECONDS
    if "," in str(parts.get("host") or "") and "target_session_attrs" not in parts:
        options["target_session_attrs"] = "read-write"
    return options


class Database:
    """A PostgreSQL database. It can be used in several event loops, one after another or at once."""

    def __init__(self, url: str, *, timeout: float, pool_size: int) -> None:
        self.options = connect_options(url)
        self.url, self.timeout, self.pool_size = url, timeout, pool_size
        self.name = server_name(url)
        # Which database was found there, and how often: after a failover it may have lost the last commits.
        self.identity: tuple[str, int] | None = None
        self._opens = 0
        self._is_closed = False
        self._is_prepared = False
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}
        self._opening: dict[asyncio.AbstractEventLoop, asyncio.Lock] = {}
        self._process = os.getpid()
        # Those that no transaction uses now.
        self._writers: list[_Writer] = []

    async def read(self, work: Work[T]) -> T:
        """Run a read, which may be repeated."""
        return await self._repeat(work, self._begin())

    async def append(self, work: Work[T | None], otherwise: Work[T]) -> T:
        """Append messages in one statement, repeated after a lost connection: ids tell what is stored.

        If the statement gives None, it did nothing: then `otherwise` is done, in a transaction.
        """
        deadline = self._begin()
        deadline.is_append = True
        done = await self._repeat(work, deadline)
        if done is not None:
            return done
        deadline.is_append = False
        return await self._write(otherwise, deadline)

    async def write(self, work: Work[T]) -> T:
        """Do something in one transaction, exactly once."""
        return await self._write(work, self._begin())

    async def _write(self, work: Work[T], deadline: _Deadline) -> T:
        try:
            writer = self._writers.pop()
        except IndexError:
            writer = _Writer()
        transaction: _Transaction[T] = _Transaction(writer)
        try:
            result = await self._repeat(partial(self._commit, work, transaction), deadline)
        except StoreError:
            if not transaction.is_lost:
                raise
            raise StoreUnavailable(
                path=self.name,
                problem="the connection was lost during a commit, and the outcome is not known",
                advice="read the stored data before you try again",
            ) from None
        # Only now: a transaction that got no answer may still be under way.
        self._writers.append(writer)
        return result

    async def _commit(self, work: Work[T], transaction: _Transaction[T], connection: Connection) -> T:
        """Run a transaction, unless an earlier attempt of it was committed."""
        writer = transaction.writer
        if transaction.is_lost:
            cursor = await connection.execute(_SQL["find_outcome"].format(writer=writer))
            if await cursor.fetchone() == (writer.number,):
                return transaction.result
            transaction.is_lost = False
            writer.number += 1
        writer.number += 1
        await connection.execute(self.begin_statement)
        transaction.result = await work(connection)
        end = _SQL["mark_commit"].format(writer=writer)
        transaction.is_lost = True
        try:
            await connection.execute(_SQL["delete_old"] + end if writer.number == 1 else end)
        except psycopg.Error as error:
            transaction.is_lost = classify(error) is Failure.LOST
            raise
        transaction.is_lost = False
        return transaction.result

    @property
    def begin_statement(self) -> str:
        """The statement that begins a transaction, with the limit of how long it may stand still."""
        milliseconds = max(int(min(IDLE_SECONDS, self.timeout * IDLE_SHARE) * 1000), 1)
        return (
            "BEGIN ISOLATION LEVEL READ COMMITTED; "
            f"SET LOCAL idle_in_transaction_session_timeout = {milliseconds}"
        )

    async def _repeat(self, work: Work[T], deadline: _Deadline) -> T:
        try:
            while True:
                try:
                    return await self._attempt(work, deadline)
                except psycopg.Error as error:
                    failure = error
                await self._recover(failure, deadline)
        except StoreError:
            if not deadline.may_be_stored:
                raise
            raise self._outage_error(deadline) from None

    async def survives(self, statement: sql.Composed) -> bool:
        """Try whether the server can run a statement without crashing.

        It is run once, on a separate connection.
        """
        self.check_usable()
        try:
            async with await psycopg.AsyncConnection.connect(self.url, **self.options) as connection:
                await connection.execute(statement)
        except psycopg.Error as error:
            logger.warning("%s: a test of pgvector failed on the server: %s", self.name, describe(error))
            return False
        return True

    async def close(self) -> None:
        """Close all connections."""
        if self._is_closed:
            return
        self._is_closed = True
        if os.getpid() != self._process or not self._pools:
            return
        loop = asyncio.get_running_loop()
        for pool in self._pools.values():
            if pool.loop is loop:
                await asyncio.shield(loop.create_task(pool.close()))
            elif pool.loop.is_closed():
                pool.abandon()
            else:
                pool.loop.call_soon_threadsafe(pool.lose)
        self._pools.clear()

    def check_usable(self) -> asyncio.AbstractEventLoop:
        """The event loop; raises where the store was closed, or has no loop that it can work in."""
        if self._is_closed:
            raise StoreClosed(self.name)
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            raise StoreUnavailable(
                path=self.name,
                problem="PostgreSQL memory needs asyncio, and this is another event loop",
                advice="run it with asyncio.run(...), or use sqlite:///, which also works on trio",
            ) from None

    def _begin(self) -> _Deadline:
        self._leave_parent_process()
        return _Deadline(self.check_usable().time() + self.timeout)

    async def _attempt(self, work: Work[T], deadline: _Deadline) -> T:
        """Make one attempt on a connection of the pool."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None or pool.is_lost:
            pool = await self._open(loop, deadline)
        try:
            connection = await pool.inner.getconn(timeout=max(deadline.at - loop.time(), 0.001))
        except PoolTimeout:
            raise self._busy_error(pool, deadline) from None
        except PoolClosed:
            raise StoreClosed(self.name) if self._is_closed else psycopg.OperationalError() from None
        guard = _Guard(connection, loop, deadline.at)
        try:
            result = await work(connection)
        except BaseException as error:
            if isinstance(error, psycopg.Error) and classify(error) in (Failure.LOST, Failure.READ_ONLY):
                pool.lose()
                deadline.may_be_stored |= deadline.is_append and is_unanswered(error)
            # Also when the caller is cancelled: a connection that is not given back is lost for the pool.
            await asyncio.shield(loop.create_task(_give_back(pool, connection, guard)))
            if isinstance(error, UnreadableRow):
                raise damage_error(self.name, str(error)) from None
            raise
        guard.stop()
        if guard.has_expired:
            await guard.end()
        await pool.inner.putconn(connection)
        return result

    def _busy_error(self, pool: _Pool, deadline: _Deadline) -> StoreError:
        """The error for a call that got no connection in time: it failed, or all were in use."""
        if deadline.losses:
            return self._outage_error(deadline)
        if sum(not connection.closed for connection in pool.connections) < self.pool_size:
            if pool.connect_error is not None:
                deadline.problem = describe(pool.connect_error)
            return self._outage_error(deadline)
        return StoreBusy(
            path=self.name,
            seconds=self.timeout,
            problem=f"had no free connection (all {self.pool_size} were in use) for",
            advice="Try again, or raise `pool_size`",
        )

    async def _recover(self, error: psycopg.Error, deadline: _Deadline) -> None:
        """Wait before the next attempt, or raise the error that the user should see."""
        loop = asyncio.get_running_loop()
        failure = classify(error)
        if failure is Failure.FINAL:
            has_expired = loop.time() >= deadline.at
            raise translate(error, self.name, self.timeout, has_expired=has_expired) from None
        deadline.problem = describe(error)
        wait = 0.0
        if failure is Failure.CONFLICT:
            deadline.conflicts += 1
            wait = random.uniform(0, 0.01 * 2**deadline.conflicts)
            if deadline.conflicts > MAX_CONFLICTS:
                raise StoreBusy(
                    path=self.name,
                    seconds=self.timeout,
                    problem=f"rolled back {deadline.conflicts} attempts because of other transactions within",
                    advice="Try again, or use fewer writers at once",
                ) from None
        else:
            deadline.losses += 1
            # A statement that breaks every connection must not do so without a pause.
            if failure is Failure.READ_ONLY or deadline.losses > 1:
                wait = RECONNECT_SECONDS
        if loop.time() + wait >= deadline.at:
            raise self._outage_error(deadline) from None
        await asyncio.sleep(wait)

    async def _open(self, loop: asyncio.AbstractEventLoop, deadline: _Deadline) -> _Pool:
        """A pool for this loop, once the server has answered and has our tables."""
        lock = self._opening.get(loop)
        if lock is None:
            self._forget_ended_loops()
            lock = self._opening[loop] = asyncio.Lock()
        try:
            async with asyncio.timeout_at(deadline.at), lock:
                pool = self._pools.get(loop)
                if pool is None or pool.is_lost:
                    await self._connect_directly(deadline)
                    pool = _Pool(self, loop)
                    await pool.inner.open()
                    self._pools[loop] = pool
                return pool
        except TimeoutError:
            raise self._outage_error(deadline) from None

    def _outage_error(self, deadline: _Deadline) -> StoreUnavailable:
        return outage_error(self.name, deadline.problem, self.timeout, may_be_stored=deadline.may_be_stored)

    async def _connect_directly(self, deadline: _Deadline) -> None:
        """Connect until it works, once every 250 milliseconds; make the tables if there are none."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                async with await psycopg.AsyncConnection.connect(self.url, **self.options) as connection:
                    identity = await prepare_schema(
                        connection, self.name, create=not self._is_prepared, begin=self.begin_statement
                    )
                self._is_prepared = True
                self._opens += 1
                self.identity = (identity, self._opens)
                return
            except psycopg.Error as error:
                if is_refusal(error) or classify(error) is Failure.FINAL:
                    raise translate(error, self.name, self.timeout) from None
                deadline.problem = describe(error)
            await asyncio.sleep(max(began + RECONNECT_SECONDS - loop.time(), 0))
            if self._is_closed:
                raise StoreClosed(self.name)

    def _leave_parent_process(self) -> None:
        """After an os.fork, the connections belong to the parent and must not even be closed."""
        if self._process != os.getpid():
            _inherited_pools.extend(self._pools.values())
            self._pools, self._opening, self._process = {}, {}, os.getpid()
            self._writers = []

    def _forget_ended_loops(self) -> None:
        for loop, pool in list(self._pools.items()):
            if loop.is_closed():
                del self._pools[loop]
                pool.abandon()
        self._opening = {loop: lock for loop, lock in self._opening.items() if not loop.is_closed()}


async def _give_back(pool: _Pool, connection: Connection, guard: _Guard) -> None:
    """Return a connection after a failure: roll back an open transaction, or drop a broken connection."""
    is_idle = connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE
    if not is_idle and not guard.has_expired:
        # Still before the deadline: a server that has fallen silent must not keep it for ever.
        with suppress(psycopg.Error):
            await connection.rollback()
    await guard.end()
    await pool.inner.putconn(connection)


def _cancel_until_done(task: asyncio.Task[Any] | None) -> None:
    """Cancel a worker of the pool, which treats a cancelled attempt to connect as a failed one.

    Otherwise an event loop that ends while a connection is being made would wait for the worker forever.
    """
    if task is not None and not task.done():
        loop = task.get_loop()
        loop.call_soon(task.cancel)
        loop.call_later(_CANCEL_AGAIN_SECONDS, _cancel_until_done, task)


_inherited_pools: list[_Pool] = []
_background: set[asyncio.Task[None]] = set()


def _run_in_background(loop: asyncio.AbstractEventLoop, work: Any) -> None:
    task = loop.create_task(work)
    _background.add(task)
    task.add_done_callback(_background.discard)
