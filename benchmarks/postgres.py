"""The cost of a message on PostgreSQL, beside bare psycopg with the same pool in the same run.

The server is one of its own on the disk, with fsync, or that of `AUTONOMY_CTX_PG_DSN`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg_pool import AsyncConnectionPool

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory, SystemInstructionsSection
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.postgres.session import key_digest
from autonomy_ctx.memory.store import Draft, Key
from autonomy_ctx.messages.tokens import TokenCounter
from benchmarks.corpus import spoken
from benchmarks.table import Figure, Side, microseconds, side_by_side

if TYPE_CHECKING:
    from postgres_server import PostgresServer

WRITERS, EACH, ROUNDS = 32, 20, 25
WINDOW = 20
SHORT, LONG = 100, 1_000_000
PER_CONVERSATION = 40
PROCESSES, EACH_PROCESS = 8, 300
POOL_SIZE = 10

# As of a server that nobody has tuned, but for a cache that holds more than the tables' newest pages.
_SETTINGS = """
fsync = on
full_page_writes = on
synchronous_commit = on
autovacuum = on
shared_buffers = 128MB
max_wal_size = 1GB
"""
BARE_TABLES = """
    CREATE SCHEMA bare;
    CREATE TABLE bare.conversation (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        scope text NOT NULL, name text NOT NULL, head bigint NOT NULL,
        UNIQUE (scope, name)
    );
    CREATE TABLE bare.message (
        conversation_id bigint NOT NULL, position bigint NOT NULL, id text NOT NULL,
        created timestamptz NOT NULL DEFAULT now(), body text NOT NULL,
        PRIMARY KEY (conversation_id, position), UNIQUE (conversation_id, id)
    );
"""
_BARE_APPEND = """
    WITH head AS (
        INSERT INTO bare.conversation AS c (scope, name, head) VALUES (%s, %s, 1)
        ON CONFLICT (scope, name) DO UPDATE SET head = c.head + 1 RETURNING c.id, c.head
    ) INSERT INTO bare.message (conversation_id, position, id, body)
    SELECT id, head, %s, %s FROM head ON CONFLICT (conversation_id, id) DO NOTHING RETURNING position
"""
# By the name of the conversation, which is all that an application has.
_BARE_SELECT = """
    SELECT position, id, created, body FROM autonomy_ctx.message
    WHERE conversation_id = (SELECT id FROM autonomy_ctx.conversation WHERE key = %s)
    ORDER BY position DESC LIMIT %s
"""
_COPY_MESSAGES = """
    COPY autonomy_ctx.message (conversation_id, position, id, created, is_user, tokens, counter, size, body)
    FROM STDIN
"""
_COPY_CONVERSATIONS = """
    COPY autonomy_ctx.conversation (key, agent, scope, conversation, head, count, last_user, has_messages)
    FROM STDIN
"""
_CREATED = 1_900_000_000_000_000


@contextmanager
def running_server(settings: str) -> Iterator[PostgresServer]:
    """A server of its own, whose commits reach the disk."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from postgres_server import PostgresServer, find_programs, initialise, make_folder

    programs = find_programs()
    server = PostgresServer(make_folder(on_disk=True), programs)
    try:
        initialise(server.folder / "data", programs)
        with (server.folder / "data" / "postgresql.conf").open("a") as file:
            file.write(settings)
        server.start()
        yield server
    finally:
        server.close()


@contextmanager
def server_url() -> Iterator[str]:
    """The URL of an empty database: of the server that the environment names, else of one of its own."""
    with ExitStack() as stack:
        url = os.environ.get("AUTONOMY_CTX_PG_DSN")
        url = url or stack.enter_context(running_server(_SETTINGS)).url()
        from postgres_server import Databases

        databases = Databases(url)
        stack.callback(databases.close)
        name = databases.create()
        stack.callback(databases.drop, name)
        yield databases.url_of(name)


@asynccontextmanager
async def bare_pool(url: str, size: int = POOL_SIZE) -> AsyncIterator[AsyncConnectionPool[Any]]:
    """A pool as the store has it: as large, in autocommit mode, and nothing is prepared."""
    options = {"autocommit": True, "prepare_threshold": None}
    async with AsyncConnectionPool(url, min_size=0, max_size=size, kwargs=options, open=False) as pool:
        yield pool


def stored_draft(number: int) -> Draft:
    """The n-th message as the store gets it."""
    clock = encoding.from_microseconds(_CREATED)
    message = encoding.coerce_message(spoken(number), new_id=lambda: f"m{number}", now=lambda: clock)
    return encoding.make_draft(message, TokenCounter())


class Filler:
    """Stores conversations at once by COPY, as the rows that the store itself would have written."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self._lines = [_line(number) for number in range(2)]

    def fill(self, scope: str, names: Sequence[str], messages: int) -> None:
        """Conversations of so many messages each, in the order of life: all of them grow at once."""
        with self._connection.cursor() as cursor:
            with cursor.copy(_COPY_CONVERSATIONS) as copy:
                for name in names:
                    digest = key_digest(Key("", scope, name))
                    copy.write_row((digest, "", scope, name, messages, messages, messages - 1, True))
            cursor.execute("SELECT id FROM autonomy_ctx.conversation WHERE scope = %s", (scope,))
            numbers = [number for (number,) in cursor.fetchall()]
            with cursor.copy(_COPY_MESSAGES) as copy:
                for position in range(1, messages + 1):
                    for start in range(0, len(numbers), 1000):
                        some = numbers[start : start + 1000]
                        copy.write("".join(self._row(number, position) for number in some))

    def _row(self, conversation_id: int, position: int) -> str:
        # An id is as long as one that the library makes.
        message_id = f"{conversation_id:016x}{position:016x}"
        return f"{conversation_id}\t{position}\t{message_id}\t{self._lines[(position + 1) % 2]}"


def _line(number: int) -> str:
    draft = stored_draft(number)
    assert "\\" not in draft.body
    is_user = "t" if draft.message.role == "user" else "f"
    return f"{_CREATED}\t{is_user}\t{draft.tokens}\t{draft.counter}\t{draft.size}\t{draft.body}\n"


async def measure(folder: Path) -> list[Figure]:
    with server_url() as url:
        async with Memory(url, pool_size=POOL_SIZE) as memory, bare_pool(url) as pool:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(BARE_TABLES)
            figures = [
                await append_figure(memory, pool, "32 conversations", lambda writer: f"c{writer}"),
                await append_figure(memory, pool, "one conversation", lambda writer: "one"),
            ]
        # One connection each: which of ten a call gets would be a part of what is compared.
        async with Memory(url, pool_size=1) as memory, bare_pool(url, 1) as pool:
            figures += await compose_figures(url, memory, pool)
        figures += await process_figures(url)
    return figures


async def append_figure(
    memory: Memory, pool: AsyncConnectionPool[Any], title: str, name_of: Callable[[int], str]
) -> Figure:
    """How many messages 32 writers store in a second, ours and bare in turn."""
    numbers = count()
    body = stored_draft(0).body
    message = {**spoken(0)}

    async def ours(writer: int) -> None:
        name = name_of(writer)
        for _ in range(EACH):
            await memory.add_message("ana", name, {"id": f"o{next(numbers)}", **message})

    async def bare(writer: int) -> None:
        name = name_of(writer)
        for _ in range(EACH):
            async with pool.connection() as connection:
                cursor = await connection.execute(_BARE_APPEND, ("ana", name, f"b{next(numbers)}", body))
                await cursor.fetchone()

    async def rate(write: Callable[[int], Coroutine[Any, Any, None]]) -> float:
        started = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for writer in range(WRITERS):
                group.create_task(write(writer))
        return WRITERS * EACH / (time.perf_counter() - started)

    pairs = [(await rate(ours), await rate(bare)) for _ in range(ROUNDS)][2:]
    return Figure(
        name=f"append, 32 writers, {title} / bare psycopg",
        ours=f"{median(pair[0] for pair in pairs):,.0f}/s",
        floor=f"{median(pair[1] for pair in pairs):,.0f}/s",
        value=median(ours / bare for ours, bare in pairs),
        bound=0.8,
        at_most=False,
    )


async def compose_figures(url: str, memory: Memory, pool: AsyncConnectionPool[Any]) -> list[Figure]:
    """Composing the last 20, from a short and a long conversation, and from one of many."""
    names = [f"n{number}" for number in range(LONG // PER_CONVERSATION)]
    with psycopg.connect(url, autocommit=True) as connection:
        filler = Filler(connection)
        filler.fill("short", ["trip"], SHORT)
        filler.fill("long", ["trip"], LONG)
        filler.fill("turns", ["trip"], SHORT)
        filler.fill("many", names, PER_CONVERSATION)
        connection.execute("VACUUM ANALYZE autonomy_ctx.message, autonomy_ctx.conversation")
        connection.execute("CHECKPOINT")
    template = ContextTemplate(
        [
            SystemInstructionsSection("You are a travel agent."),
            ConversationHistorySection(max_messages=WINDOW),
        ]
    )
    chance = random.Random(1)

    async def forget() -> None:
        await memory.clear_short_term_memory("short")
        await memory.clear_short_term_memory("long")

    async def speak() -> None:
        await memory.add_message("turns", "trip", spoken(0))

    async def compose(scope: str, name: str) -> None:
        assert len((await template.compose(memory, scope, name)).messages) == WINDOW + 1

    async def select(scope: str, name: str) -> None:
        key = key_digest(Key("", scope, name))
        async with pool.connection() as connection:
            cursor = await connection.execute(_BARE_SELECT, (key, WINDOW))
            rows = await cursor.fetchall()
        assert len([json.loads(body) for *_, body in rows]) == WINDOW

    times = await side_by_side(
        Side("short", lambda: compose("short", "trip"), before=forget),
        Side("short, bare", lambda: select("short", "trip")),
        Side("long", lambda: compose("long", "trip"), before=forget),
        Side("long, bare", lambda: select("long", "trip")),
        # Another one each time: it is in no cache of ours.
        Side("many", lambda: compose("many", chance.choice(names))),
        Side("many, bare", lambda: select("many", chance.choice(names))),
        Side("again", lambda: compose("long", "trip")),
        Side("turn", lambda: compose("turns", "trip"), before=speak),
        rounds=1000,
        warm=50,
    )

    def ratio(name: str, ours: str, floor: str, bound: float) -> Figure:
        value = times[ours] / times[floor]
        return Figure(
            name=name,
            ours=microseconds(times[ours]),
            floor=microseconds(times[floor]),
            value=value,
            bound=bound,
        )

    return [
        ratio("compose, nothing new, of 1,000,000 stored / bare query", "again", "long, bare", 1.5),
        ratio("compose, one new message / bare query", "turn", "short, bare", 1.5),
        ratio("compose, cold, of 100 stored / bare query", "short", "short, bare", 1.5),
        ratio("compose, cold, of 1,000,000 stored / bare query", "long", "long, bare", 1.5),
        ratio("compose, cold, one of 25,000 conversations / bare query", "many", "many, bare", 1.5),
        ratio("compose, cold, of 1,000,000 stored / of 100", "long", "short", 1.2),
    ]


_WORKER = """
import asyncio, json, sys, time
from autonomy_ctx import Memory

async def main():
    url, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    async with Memory(url, pool_size=2) as memory:
        print("ready", flush=True)
        sys.stdin.readline()
        waits, positions = [], []
        for number in range(count):
            message = {"id": f"{name}.{number}", "role": "user", "content": "hello " * 30}
            started = time.perf_counter()
            positions.append(await memory.add_message("ana", "shared", message))
            waits.append(time.perf_counter() - started)
    print(json.dumps({"waits": waits, "positions": positions}), flush=True)

asyncio.run(main())
"""


async def process_figures(url: str) -> list[Figure]:
    """Eight processes that append to one conversation."""
    workers = [
        subprocess.Popen(  # noqa: ASYNC220  # nothing else runs in this loop
            [sys.executable, "-c", _WORKER, url, f"p{number}", str(EACH_PROCESS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    started = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = []
    for worker in workers:
        assert worker.stdout is not None
        results.append(json.loads(worker.stdout.readline()))
    rate = PROCESSES * EACH_PROCESS / (time.perf_counter() - started)
    for worker in workers:
        worker.communicate()
    async with Memory(url) as memory:
        entries = (await memory.read("ana", "shared")).entries
    told = sorted(position for result in results for position in result["positions"])
    waits = sorted(wait for result in results for wait in result["waits"])
    wanted = list(range(1, PROCESSES * EACH_PROCESS + 1))
    wrong = int(told != wanted) + int([entry.position for entry in entries] != wanted)
    wrong += len(wanted) - len({entry.message.id for entry in entries})
    p99 = waits[int(len(waits) * 0.99)]
    return [
        Figure(
            name="8 processes, one conversation: lost, twice, gaps",
            ours=f"{rate:,.0f}/s",
            floor="0",
            value=wrong,
            bound=0,
        ),
        Figure(
            name="8 processes, one conversation: p99 in ms",
            ours=f"median {median(waits) * 1000:.1f} ms, worst {waits[-1] * 1000:.1f} ms",
            floor="100 ms",
            value=p99 * 1000,
            bound=100,
        ),
    ]
