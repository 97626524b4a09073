"""The disk fails, or the power does: what was acknowledged is there, and nothing is half there.

The store runs on a disk of ours: a virtual file system of SQLite's that notes every write and sync.
It can fail at the n-th of them, and it can be asked what would be left on a real disk if the power
had been cut right after the n-th: what was synced, and of the rest nothing, or any part.
"""

# ruff: noqa: ASYNC240  # a test may wait for its own small files

from __future__ import annotations

import asyncio
import random
import sqlite3
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import apsw
import pytest

from autonomy_ctx import Memory
from autonomy_ctx.errors import StoreFull, StoreUnavailable
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.sqlite.threads import Synchronous
from autonomy_ctx.testing import make_message

SECTOR = 512
Fault = Literal["write error", "half a write", "no room"]


class Step(NamedTuple):
    """Something that was done to a file."""

    kind: Literal["open", "write", "truncate", "sync", "delete"]
    name: str
    offset: int = 0
    data: bytes = b""
    folder_synced: bool = False


class Content:
    """A file whatever its name: what is safe, and what was written since the last sync."""

    def __init__(self) -> None:
        self.safe = bytearray()
        self.waiting: list[Step] = []

    def sync(self) -> None:
        for step in self.waiting:
            _apply(self.safe, step)
        self.waiting = []

    def surviving(self, survives: Callable[[], bool]) -> bytes:
        left = bytearray(self.safe)
        for step in self.waiting:
            _apply_some(left, step, survives)
        return bytes(left)


class Disk:
    """All that was done to the files of one folder, and the fault that is to come."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.steps: list[Step] = []
        self.fault: Fault = "write error"
        # The step that fails, counted from one; with `broken` all that follow fail too.
        self.fails_at: int | None = None
        self.broken = False
        self._lock = threading.Lock()
        # What the progress file said before each step. It is no file of SQLite's, and never synced.
        self.progress: list[bytes] = []

    def note(self, step: Step) -> bool:
        """Note a step; true when it has to fail."""
        with self._lock:
            self.progress.append(self.read_progress())
            self.steps.append(step)
            number = len(self.steps)
        if self.fails_at is None:
            return False
        return number == self.fails_at or (self.broken and number > self.fails_at)

    def read_progress(self) -> bytes:
        file = self.folder / "memory.db.progress"
        return file.read_bytes() if file.exists() else b""

    def repair(self) -> None:
        self.fails_at = None

    def after_power_cut(self, at: int, survives: Callable[[], bool]) -> dict[str, bytes]:
        """The files as a disk would show them if the power had been cut after the first `at` steps.

        `survives` says of each sector that was written but not synced whether it reached the disk.
        """
        names: dict[str, Content] = {}
        safe_names: dict[str, Content] = {}
        for step in self.steps[:at]:
            match step.kind:
                case "open":
                    names.setdefault(step.name, Content())
                case "sync":
                    names[step.name].sync()
                case "delete":
                    names.pop(step.name, None)
                case _:
                    names[step.name].waiting.append(step)
            if step.folder_synced:
                safe_names = dict(names)
        left = dict(safe_names)
        for name in names.keys() | safe_names.keys():
            if names.get(name) is not safe_names.get(name) and survives():
                left.pop(name, None)
                left.update({name: names[name]} if name in names else {})
        return {name: content.surviving(survives) for name, content in left.items()}


def _apply(file: bytearray, step: Step) -> None:
    if step.kind == "truncate":
        del file[step.offset :]
        return
    file.extend(b"\0" * (step.offset - len(file)))
    file[step.offset : step.offset + len(step.data)] = step.data


def _apply_some(file: bytearray, step: Step, survives: Callable[[], bool]) -> None:
    """Disks write sectors: each of them arrives whole or not at all, in any order."""
    if step.kind == "truncate":
        if survives():
            _apply(file, step)
        return
    for start in range(0, len(step.data), SECTOR):
        if survives():
            _apply(file, Step("write", step.name, step.offset + start, step.data[start : start + SECTOR]))


class DiskFile(apsw.VFSFile):
    """A real file whose writes are noted."""

    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path or "temporary").name
        # SQLite syncs the folder together with the first sync of a journal it has made.
        made = flags[0] & apsw.SQLITE_OPEN_CREATE and not (disk.folder / self._name).exists()
        journal = flags[0] & (apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL)
        self._syncs_folder = bool(made and journal)
        super().__init__("unix", name, flags)
        disk.note(Step("open", self._name))

    def xWrite(self, data: Any, offset: int) -> None:  # noqa: N802  # SQLite's name
        if self._disk.note(Step("write", self._name, offset, bytes(data))):
            if self._disk.fault == "half a write":
                super().xWrite(bytes(data)[: len(data) // 2], offset)
            full = self._disk.fault == "no room"
            raise _failure(apsw.SQLITE_FULL if full else apsw.SQLITE_IOERR_WRITE)
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:  # noqa: N802
        if self._disk.note(Step("truncate", self._name, size)):
            raise _failure(apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.note(Step("sync", self._name, folder_synced=self._syncs_folder)):
            raise _failure(apsw.SQLITE_IOERR_FSYNC)
        super().xSync(flags)
        self._syncs_folder = False

    def excepthook(self, *error: Any) -> bool:
        """A fault where SQLite has nobody to tell: it was meant to happen."""
        return True


class DiskVFS(apsw.VFS):
    """The operating system's files, noted."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.name = f"disk-{id(disk)}"
        super().__init__(self.name, base="unix")

    def xOpen(self, name: Any, flags: list[int]) -> DiskFile:  # noqa: N802
        return DiskFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        if self._disk.note(Step("delete", Path(filename).name, folder_synced=syncdir)):
            raise _failure(apsw.SQLITE_IOERR_DELETE)
        super().xDelete(filename, syncdir)

    def excepthook(self, *error: Any) -> bool:
        return True


def _failure(code: int) -> apsw.Error:
    made: Any = apsw.FullError("no room") if code == apsw.SQLITE_FULL else apsw.IOError("the disk failed")
    made.extendedresult = code
    return cast(apsw.Error, made)


class Rows:
    """What a statement gave, with what the store asks of a cursor: each row is given once."""

    lastrowid = 0
    rowcount = 0

    def __init__(self, rows: list[Any]) -> None:
        self._rest = iter(rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rest

    def fetchone(self) -> Any:
        return next(self._rest, None)

    def fetchall(self) -> list[Any]:
        return list(self._rest)

    def close(self) -> None:
        return None


class Connection:
    """An apsw connection that looks like one of Python's own."""

    def __init__(self, path: str, timeout: float, vfs: str) -> None:
        with _python_errors():
            self._connection = apsw.Connection(path, vfs=vfs)
            self._connection.set_busy_timeout(int(timeout * 1000))

    def execute(self, sql: str, parameters: Sequence[Any] | dict[str, Any] = ()) -> Rows:
        bindings = parameters if isinstance(parameters, dict) else tuple(parameters)
        with _python_errors():
            rows = Rows(self._connection.execute(sql, bindings).fetchall())
        rows.lastrowid = self._connection.last_insert_rowid()
        rows.rowcount = self._connection.changes()
        return rows

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> Rows:
        with _python_errors():
            return Rows(self._connection.executemany(sql, rows).fetchall())

    def cursor(self) -> Connection:
        return self

    @property
    def total_changes(self) -> int:
        return self._connection.total_changes()

    def close(self) -> None:
        with _python_errors():
            self._connection.close()


@contextmanager
def _python_errors() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        kind = sqlite3.IntegrityError if isinstance(error, apsw.ConstraintError) else sqlite3.OperationalError
        made = kind(str(error))
        made.sqlite_errorcode = cast(Any, error).extendedresult
        made.sqlite_errorname = type(error).__name__
        raise made from error


class DiskStore(SqliteStore):
    """The store as it is, on a disk of ours."""

    def __init__(self, disk: Disk, synchronous: Synchronous = "FULL") -> None:
        self._vfs = DiskVFS(disk)
        super().__init__(str(disk.folder / "memory.db"), synchronous=synchronous)

    def _connect(self, timeout: float, create: bool) -> sqlite3.Connection:
        return cast(sqlite3.Connection, Connection(self.path, timeout, self._vfs.name))


# -- what is done, and what memory should hold afterwards -------------------------------------------


@dataclass(frozen=True)
class Action:
    """One call, and the ids that are kept when it has been done."""

    call: Callable[[Memory], Coroutine[Any, Any, Any]]
    after: list[str]


def append(after: list[str], *names: str, size: int = 10) -> Action:
    return Action(
        lambda memory: memory.append("ana", "trip", *(make_message(name * size, id=name) for name in names)),
        [*after, *names],
    )


def delete(after: list[str], name: str) -> Action:
    return Action(
        lambda memory: memory.delete_message("ana", "trip", name), [kept for kept in after if kept != name]
    )


def _short_story() -> list[Action]:
    story = [append([], "m1")]
    story.append(append(story[-1].after, "m2"))
    story.append(append(story[-1].after, "m3", "m4", "m5", size=1500))
    story.append(append(story[-1].after, "m6"))
    story.append(delete(story[-1].after, "m2"))
    story.append(append(story[-1].after, "m7"))
    story.append(Action(lambda memory: memory.delete_conversation("ana", "trip"), []))
    story.append(append([], "m8"))
    return story


def _long_story() -> list[Action]:
    """So much that the write-ahead log is folded into the file along the way, more than once."""
    story = [append([], "m0")]
    for number in range(1, 100):
        story.append(append(story[-1].after, f"m{number}", size=50_000))
    return story


SHORT, LONG = _short_story(), _long_story()


async def kept(memory: Memory) -> list[str]:
    return [entry.message.id for entry in (await memory.read("ana", "trip")).entries]


# -- the disk fails ----------------------------------------------------------------------------------

FAULTS: list[Fault] = ["write error", "half a write", "no room"]


async def tell_with_fault(disk: Disk) -> bool:
    """Do everything on a disk that fails at one point, and judge; whether that point was reached."""
    memory = Memory(store=DiskStore(disk))
    before: list[str] = []
    for action in SHORT:
        try:
            await action.call(memory)
        except (StoreUnavailable, StoreFull):
            assert disk.fails_at is not None, "an error without a fault"
            disk.repair()
            assert await kept(memory) in (before, action.after), "half of it is there"
            await action.call(memory)
        assert await kept(memory) == action.after, "the same call, sent again, settles it"
        before = action.after
    reached = disk.fails_at is None or len(disk.steps) >= disk.fails_at
    disk.repair()
    await memory.close()
    head = await reopened(disk.folder)
    assert head == (before, "ok")
    return reached


async def reopened(folder: Path) -> tuple[list[str], str]:
    """What a new process finds: the ids it reads, and SQLite's own opinion of the file."""
    async with Memory(f"sqlite:///{folder}/memory.db") as memory:
        found = await kept(memory)
        head = await memory.head("ana", "trip")
        assert head.count == len(found)
        # Positions are given without gaps, also over a fault: the next one follows.
        assert await memory.append("ana", "trip", make_message("next", id="next")) == [head.position + 1]
    with closing(sqlite3.connect(folder / "memory.db")) as connection:
        return found, str(connection.execute("PRAGMA integrity_check").fetchone()[0])


@pytest.mark.parametrize("fault", FAULTS)
def test_whichever_write_or_sync_fails_nothing_is_lost_or_half_done(tmp_path: Path, fault: Fault) -> None:
    async def every_step() -> None:
        for number in count(1):
            disk = Disk(tmp_path / str(number))
            disk.folder.mkdir()
            disk.fault, disk.fails_at = fault, number
            if not await tell_with_fault(disk):
                assert number > 50, "the faults were over before the story was"
                return

    asyncio.run(every_step())


def test_a_disk_that_stays_broken_is_named_and_forgotten_when_it_works_again(tmp_path: Path) -> None:
    async def every_step() -> None:
        for number in count(1, 5):
            disk = Disk(tmp_path / str(number))
            disk.folder.mkdir()
            disk.fails_at, disk.broken = number, True
            if not await tell_with_fault(disk):
                assert number > 50, "the faults were over before the story was"
                return

    asyncio.run(every_step())


# -- the power fails ---------------------------------------------------------------------------------


@dataclass
class Told:
    """A story as it happened on a disk: how many steps had been made when each action was acknowledged."""

    disk: Disk
    story: list[Action]
    acknowledged: list[int]

    def states(self, at: int) -> list[list[str]]:
        """What may be found after a power cut: all that was acknowledged, perhaps one action more."""
        done = sum(steps <= at for steps in self.acknowledged)
        return [[], *(action.after for action in self.story)][done : done + 2]


def tell(folder: Path, story: list[Action], synchronous: Synchronous = "FULL") -> Told:
    folder.mkdir()
    disk = Disk(folder)
    told = Told(disk, story, [])

    async def act() -> None:
        memory = Memory(store=DiskStore(disk, synchronous))
        for action in story:
            await action.call(memory)
            told.acknowledged.append(len(disk.steps))
        await memory.close()

    asyncio.run(act())
    return told


async def find_after_cut(told: Told, at: int, survives: Callable[[], bool], folder: Path) -> list[str]:
    """What memory finds on a disk whose power was cut."""
    folder.mkdir()
    for name, content in told.disk.after_power_cut(at, survives).items():
        (folder / name).write_bytes(content)
    # Whatever it says may have reached the disk: it must never be ahead of the database.
    (folder / "memory.db.progress").write_bytes([*told.disk.progress, told.disk.read_progress()][at])
    found, judged = await reopened(folder)
    assert judged == "ok"
    return found


def nothing() -> bool:
    return False


def chance(at: int, seed: int) -> Callable[[], bool]:
    """What was not synced survives or not: with each cut and each seed more or less of it."""
    dice = random.Random(f"{at} {seed}")
    share = dice.random()
    return lambda: dice.random() < share


def test_after_a_power_cut_at_any_point_everything_acknowledged_is_there(tmp_path: Path) -> None:
    told = tell(tmp_path / "told", SHORT)

    async def every_cut() -> None:
        for at in range(len(told.disk.steps) + 1):
            found = await find_after_cut(told, at, nothing, tmp_path / str(at))
            assert found in told.states(at), f"cut after step {at}"

    asyncio.run(every_cut())


@pytest.mark.parametrize("seed", range(3))
def test_so_it_is_when_some_of_what_was_not_synced_reached_the_disk(tmp_path: Path, seed: int) -> None:
    told = tell(tmp_path / "told", SHORT)

    async def every_cut() -> None:
        for at in range(len(told.disk.steps) + 1):
            found = await find_after_cut(told, at, chance(at, seed), tmp_path / str(at))
            assert found in told.states(at), f"cut after step {at}"

    asyncio.run(every_cut())


def test_a_file_whose_making_was_cut_short_is_made_again(tmp_path: Path) -> None:
    """A torn first page looks like no database; the journal beside it says that it is to be undone."""
    told = tell(tmp_path / "told", SHORT[:1])

    async def first_cuts() -> None:
        for at in range(14):
            for seed in range(12):
                found = await find_after_cut(told, at, chance(at, seed), tmp_path / f"{at} {seed}")
                assert found in told.states(at), f"cut after step {at}"

    asyncio.run(first_cuts())


def test_an_acknowledgement_waits_for_exactly_one_sync(tmp_path: Path) -> None:
    story = [append([f"m{n}" for n in range(number)], f"m{number}") for number in range(10)]
    told = tell(tmp_path / "told", story)
    for earlier, later in zip(told.acknowledged, told.acknowledged[1:], strict=False):
        assert [step.kind for step in told.disk.steps[earlier:later]].count("sync") == 1


def test_without_full_synchronous_a_power_cut_may_cost_the_end_but_never_the_order(tmp_path: Path) -> None:
    told = tell(tmp_path / "told", SHORT, "NORMAL")
    states = [[], *(action.after for action in SHORT)]

    async def every_cut() -> None:
        for at in range(0, len(told.disk.steps) + 1, 3):
            assert await find_after_cut(told, at, nothing, tmp_path / str(at)) in states

    asyncio.run(every_cut())


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(20))
def test_a_long_story_survives_any_cut_with_any_part_of_what_was_not_synced(
    tmp_path: Path, seed: int
) -> None:
    told = tell(tmp_path / "told", LONG)
    assert any(step.kind == "write" and step.name == "memory.db" for step in told.disk.steps[100:])
    cuts = random.Random(seed).sample(range(len(told.disk.steps) + 1), 60)

    async def some_cuts() -> None:
        for at in cuts:
            found = await find_after_cut(told, at, chance(at, seed), tmp_path / str(at))
            assert found in told.states(at), f"cut after step {at}"

    asyncio.run(some_cuts())


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(3, 50))
def test_the_short_story_survives_every_cut_with_many_dice(tmp_path: Path, seed: int) -> None:
    test_so_it_is_when_some_of_what_was_not_synced_reached_the_disk(tmp_path, seed)
