"""Four processes on one PostgreSQL server; one process is killed every second, and the server twice.

The driver hands turns to the processes and notes which were acknowledged. A turn whose process died, or that
failed, is sent again under the same message id to another process. A fifth of the model's calls fail. At
the end the model is well, and the tables have to agree with what the driver noted.

Then the lease of a turn is measured as in `turn_lease`, on the same server.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import random
import re
import socket
import time
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from autonomy_ctx import Memory, Node, SummarizedHistorySection
from autonomy_ctx.messages import Summary
from benchmarks import model_server, turn_lease
from benchmarks.http_model import HttpModel
from benchmarks.machines_worker import CEILING, HARD, PRELOAD, SCOPE, run, start_agent
from benchmarks.postgres import running_server
from benchmarks.table import Figure
from benchmarks.talk import said

if TYPE_CHECKING:
    from postgres_server import PostgresServer

PROCESSES, CONVERSATIONS, SECONDS = 4, 200, 60.0
KILL_SECONDS, RESTARTS = 1.0, (20.0, 40.0)
# Turns on their way at once, and the part of them in a conversation that has one on its way already.
IN_FLIGHT, CONTENDED = 12, 0.3
RETRY_SECONDS, SETTLE_SECONDS, FINISH_SECONDS = 0.1, 25.0, 30.0
WORDS, LEASED_TURNS = 40, 200

# As of a server that nobody has tuned; the tests' own settings trust that nobody pulls the plug.
_SETTINGS = "\nfsync = on\nfull_page_writes = on\nsynchronous_commit = on\nautovacuum = on\n"
_FORKS = multiprocessing.get_context("forkserver")
# The turn, which attempt at it wrote a message, and which answer of the model it was.
_MARK = re.compile(r"\[(t\d+)(?:\.(\d+))?(?: #(\d+))?\]")


class Died(Exception):
    """The process that had a turn has ended."""


@dataclass
class Turn:
    """One turn as the driver knows it."""

    name: str
    conversation: str
    text: str
    attempts: int = 0
    # The ids of the messages that answer it, once it was acknowledged.
    answer: list[str] | None = None


@dataclass
class Ledger:
    """What the driver has done and was told."""

    turns: dict[str, Turn] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    over: int = 0
    unexpected: list[str] = field(default_factory=list)


class Worker:
    """One process, and the turns that it was handed."""

    def __init__(
        self, process: BaseProcess, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.is_ready = False
        self._process, self._reader, self._writer = process, reader, writer
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, *arguments: str) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            # Forked from one that has imported all: a process that starts takes nothing from the others.
            process = _FORKS.Process(target=run, args=(theirs, *arguments))
            process.start()
        return cls(process, *await asyncio.open_connection(sock=ours))

    async def ask(self, attempt: str, turn: Turn) -> dict[str, Any]:
        """Hand over a turn, and wait for what becomes of it; `Died` if nobody will ever tell."""
        if self._reading.done():
            raise Died
        told: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[attempt] = told
        asked = {"attempt": attempt, "turn": turn.name, "conversation": turn.conversation, "text": turn.text}
        self._writer.write(json.dumps(asked).encode() + b"\n")
        return await told

    def kill(self) -> None:
        self.is_ready = False
        self._process.kill()

    async def end(self) -> int | None:
        """Let it end by itself; its exit code."""
        self._writer.write_eof()
        await self._reading
        await asyncio.to_thread(self._process.join)
        return self._process.exitcode

    async def _read(self) -> None:
        # To the end, also of a killed process: what it has told is told.
        with suppress(ConnectionError):
            while (line := await self._reader.readline()).endswith(b"\n"):
                told = json.loads(line)
                if told:
                    self._waiting.pop(told["attempt"]).set_result(told)
                else:
                    self.is_ready = True
        self.is_ready = False
        self._writer.close()
        for waiting in self._waiting.values():
            waiting.set_exception(Died())


class Driver:
    """Hands out turns, kills, and writes down what was acknowledged."""

    def __init__(self, server: PostgresServer, model_url: str, folder: Path) -> None:
        self._server, self._model_url, self._folder = server, model_url, folder
        self.ledger = Ledger()
        self._random = random.Random(13)
        self._workers: list[Worker] = []
        # Conversations in turn, and those that have a turn on its way.
        self._places = cycle(f"c{number}" for number in range(CONVERSATIONS))
        self._busy: Counter[str] = Counter()

    async def run(self) -> None:
        model = HttpModel(self._model_url, "turn")
        _FORKS.set_forkserver_preload([run.__module__, *PRELOAD])
        self._workers = [await self._start_worker(number) for number in range(PROCESSES)]
        await model.set_mode("unreliable")
        ends = time.monotonic() + SECONDS
        async with asyncio.TaskGroup() as group:
            senders = [group.create_task(self._send_turns(ends)) for _ in range(IN_FLIGHT)]
            restarts = group.create_task(self._restart_server())
            await self._kill_workers(ends)
            await restarts
            await model.set_mode("ok")
            _, unfinished = await asyncio.wait(senders, timeout=FINISH_SECONDS)
            for sender in unfinished:
                sender.cancel()
        for worker in self._workers:
            if await worker.end() != 0:
                self.ledger.unexpected.append("a process did not end well")
        await model.close()

    async def _start_worker(self, number: int) -> Worker:
        log = self._folder / f"worker-{number}.log"
        return await Worker.start(str(log), self._server.url(), self._model_url)

    async def _kill_workers(self, ends: float) -> None:
        at = time.monotonic()
        while (at := at + KILL_SECONDS) < ends:
            await asyncio.sleep(at - time.monotonic())
            number = self._random.randrange(PROCESSES)
            self.ledger.counts["kills"] += 1
            self._workers[number].kill()
            self._workers[number] = await self._start_worker(number)

    async def _restart_server(self) -> None:
        passed = 0.0
        for at in RESTARTS:
            await asyncio.sleep(at - passed)
            passed = at
            await asyncio.to_thread(self._server.restart, "immediate")
            self.ledger.counts["restarts"] += 1

    async def _send_turns(self, ends: float) -> None:
        while time.monotonic() < ends:
            number = len(self.ledger.turns)
            busy = list(self._busy)
            is_contended = bool(busy) and self._random.random() < CONTENDED
            place = self._random.choice(busy) if is_contended else next(self._places)
            turn = Turn(f"t{number}", place, f"[t{number}] {said(number, WORDS)}")
            self.ledger.turns[turn.name] = turn
            self._busy[place] += 1
            await self._take_turn(turn)
            self._busy[place] -= 1
            self._busy += Counter()

    async def _take_turn(self, turn: Turn) -> None:
        ledger = self.ledger
        while turn.answer is None:
            ready = [worker for worker in self._workers if worker.is_ready]
            if not ready:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            turn.attempts += 1
            try:
                told = await self._random.choice(ready).ask(f"{turn.name}.{turn.attempts}", turn)
            except Died:
                ledger.counts["died"] += 1
                continue
            ledger.over += told["window"] > HARD
            if "ids" in told:
                turn.answer = told["ids"]
                continue
            if "unexpected" in told:
                ledger.unexpected.append(told["unexpected"])
            ledger.errors[told.get("error", "unexpected")] += 1
            await asyncio.sleep(RETRY_SECONDS)


async def settle(url: str, model_url: str) -> dict[str, str]:
    """Let summaries catch up; conversations over their ceiling, or with stand-ins, even then, and why."""
    late = {f"c{number}": "" for number in range(CONVERSATIONS)}
    deadline = time.monotonic() + SETTLE_SECONDS
    async with Memory(url) as memory, Node("end", memory=memory) as node:
        agent = await start_agent(node, model_url)
        template = agent.context_template
        [section] = [one for one in template.sections if isinstance(one, SummarizedHistorySection)]
        while late and time.monotonic() < deadline:
            await section.catch_up(agent.memory)
            found = {}
            for conversation in late:
                context = await template.compose(agent.memory, SCOPE, conversation)
                origins = (origin.position for origin in context.origins())
                shown = [position for position in origins if position is not None]
                last_user = (await agent.memory.head(SCOPE, conversation)).last_user
                summaries = [one for one in context.messages if isinstance(one, Summary)]
                stand_ins = sum(part.provisional for one in summaries for part in one.segments)
                # The newest turn is shown whole, however long it is.
                if stand_ins or (len(shown) > CEILING and shown[0] < last_user):
                    roles = " ".join(message.role.value for message in context.messages)
                    found[conversation] = f"{len(shown)} shown ({roles}), {stand_ins} stand-ins"
            late = found
            await section.settled()
    return late


class StoredMessage(NamedTuple):
    """A row of the log, and which turn and attempt wrote it."""

    position: int
    id: str
    is_user: bool
    turn: str
    attempt: int
    # Of an answer of the model, which one it was.
    answer: str


def check_tables(url: str, ledger: Ledger) -> tuple[Counter[str], Counter[str]]:
    """What is wrong in the tables, and what there is to see besides."""
    wrong: Counter[str] = Counter()
    found: Counter[str] = Counter()
    stored: set[tuple[str, str]] = set()
    seen: Counter[str] = Counter()
    with psycopg.connect(url) as connection:
        conversations = connection.execute(
            "SELECT id, conversation, head, count FROM autonomy_ctx.conversation WHERE scope = %s", (SCOPE,)
        ).fetchall()
        for number, name, *ends in conversations:
            rows = connection.execute(
                "SELECT position, id, is_user, body FROM autonomy_ctx.message "
                "WHERE conversation_id = %s ORDER BY position",
                (number,),
            ).fetchall()
            segments = connection.execute(
                "SELECT first, last FROM autonomy_ctx.segment "
                "WHERE conversation_id = %s AND level = 0 AND NOT provisional ORDER BY first",
                (number,),
            ).fetchall()
            messages = [_read_message(*row) for row in rows]
            positions = [message.position for message in messages]
            wrong["skipped"] += positions != list(range(1, len(rows) + 1)) or ends != [len(rows)] * 2
            wrong["interleaved"] += _count_interleaved(messages, ledger, found)
            wrong["summarized twice"] += sum(second[0] <= first[1] for first, second in pairwise(segments))
            stored |= {(name, message.id) for message in messages}
            seen.update(
                message.turn if message.is_user else message.answer or message.id for message in messages
            )
            found.update(conversations=1, messages=len(rows), segments=len(segments))
    wrong["duplicates"] = sum(times - 1 for times in seen.values())
    for turn in ledger.turns.values():
        if turn.answer is None:
            wrong["unanswered"] += 1
            continue
        wanted = {(turn.conversation, one) for one in (turn.name, *turn.answer)}
        found["acknowledged"] += len(wanted)
        wrong["lost"] += len(wanted - stored)
    return wrong, found


def _read_message(position: int, message_id: str, is_user: bool, body: str) -> StoredMessage:
    mark = _MARK.search(body)
    assert mark is not None, body
    turn, attempt, answer = mark.groups()
    return StoredMessage(position, message_id, is_user, turn, int(attempt or 0), answer or "")


def _count_interleaved(messages: list[StoredMessage], ledger: Ledger, found: Counter[str]) -> int:
    """How many turns have a message of another one between their first and their last.

    What a process has stored before it died stays, and another turn may come next: of a turn that was sent
    again, each attempt is looked at by itself.
    """
    spans: dict[tuple[str, int], list[int]] = defaultdict(list)
    answers: Counter[str] = Counter()
    for index, message in enumerate(messages):
        attempts = ledger.turns[message.turn].attempts
        spans[message.turn, 1 if message.is_user and attempts == 1 else message.attempt].append(index)
    interleaved = 0
    for (turn, attempt), indexes in spans.items():
        answers[turn] += attempt > 0
        interleaved += indexes[-1] - indexes[0] + 1 != len(indexes)
    found["resumed"] += sum(1 for times in answers.values() if times > 1)
    return interleaved


async def measure(folder: Path) -> list[Figure]:
    with running_server(_SETTINGS) as server:
        with model_server.running() as model_url:
            driver = Driver(server, model_url, folder)
            await driver.run()
            late = await settle(server.url(), model_url)
            model = HttpModel(model_url, "turn")
            asked = await model.stats()
            await model.close()
        figures = _figures(driver.ledger, late, asked, server.url())
        return [*figures, *await turn_lease.measure_on(lambda name: _create(server, name), LEASED_TURNS)]


def _create(server: PostgresServer, name: str) -> str:
    server.execute(f'CREATE DATABASE "{name}"')
    return server.url(name)


def _figures(ledger: Ledger, late: dict[str, str], asked: dict[str, int], url: str) -> list[Figure]:
    wrong, found = check_tables(url, ledger)
    counts, errors = ledger.counts, ledger.errors
    attempts = sum(turn.attempts for turn in ledger.turns.values())
    failed = sum(asked.get(f"failed_{kind}", 0) for kind in model_server.FAILURES)
    print(
        f"\n{len(ledger.turns)} turns in {found['conversations']} conversations, {attempts} attempts; "
        f"{counts['kills']} kills cut {counts['died']}, {counts['restarts']} restarts of the server\n"
        f"errors told: {', '.join(f'{name} {number}' for name, number in errors.most_common()) or 'none'}\n"
        f"model: {asked['turn_calls']} calls for turns, {asked['summary_calls']} for "
        f"{asked['summary_batches']} batches (most for one: {asked['summary_batch_most_calls']}), "
        f"{failed} failed\n"
        f"{found['messages']} messages, {found['segments']} summaries; "
        f"{found['resumed']} turns were written by more than one attempt"
    )
    for conversation, problem in late.items():
        print(f"late: {conversation}, {problem}; owed: {_read_work(url, conversation)}")
    for problem in ledger.unexpected[:3]:
        print(problem)
    return [
        _none("acknowledged messages lost", f"{found['acknowledged']} acknowledged", wrong["lost"]),
        _none("turns never acknowledged", f"{len(ledger.turns)} turns", wrong["unanswered"]),
        _none("messages stored twice", f"{found['messages']} messages", wrong["duplicates"]),
        _none("logs with a position skipped", f"{found['conversations']} logs", wrong["skipped"]),
        _none("turns interleaved", f"{attempts} attempts", wrong["interleaved"]),
        _none("messages in two summaries", f"{found['segments']} summaries", wrong["summarized twice"]),
        _none("windows over the hard limit", f"{asked['turn_calls']} calls", ledger.over),
        _none("windows over the ceiling at the end", f"{found['conversations']} windows", len(late)),
        _none("errors of no known type", f"{errors.total()} errors", len(ledger.unexpected)),
    ]


def _read_work(url: str, conversation: str) -> object:
    """What a conversation is owed: in how many seconds, after how many failures and refusals."""
    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT w.due - autonomy_ctx.now_seconds(), w.attempts, w.refusals "
            "FROM autonomy_ctx.work w JOIN autonomy_ctx.conversation c ON c.id = w.conversation_id "
            "WHERE c.scope = %s AND c.conversation = %s",
            (SCOPE, conversation),
        ).fetchone()


def _none(name: str, ours: str, value: float) -> Figure:
    return Figure(name=f"killed processes: {name}", ours=ours, floor="0", value=value, bound=0)
