"""Everything that can be wrong with a file, a disk or a process, done to a real one."""

# ruff: noqa: ASYNC240  # a test may wait for its own small files

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from timeouts import USUAL, set_timeout

from autonomy_ctx import AutonomyCtxError, Memory, Message, StoreBusy
from autonomy_ctx.errors import MessageTooLarge, StoreClosed, StoreCorrupt, StoreFull, StoreUnavailable
from autonomy_ctx.memory.encoding import MESSAGE_LIMIT, RESULT_LIMIT, encode_row
from autonomy_ctx.memory.sqlite import connection
from autonomy_ctx.memory.sqlite.connection import FileLock, check_location, filesystem_type
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.memory.worker_thread import WorkerThread
from autonomy_ctx.stores import Draft
from autonomy_ctx.testing import MAIN, make_drafts, make_message

PAGE = 4096


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
async def memory(path: Path) -> AsyncIterator[Memory]:
    made = opened(path)
    yield made
    await made.close()


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def opened(path: Path, **options: Any) -> Memory:
    return Memory(f"sqlite:///{path}", **options)


def hello(number: int) -> Message:
    return make_message(f"hello {number}", id=f"m{number}")


async def ids(memory: Memory, **options: Any) -> list[str]:
    return [entry.message.id for entry in (await memory.read("ana", "trip", **options)).entries]


def inside(path: Path, sql: str, *values: Any) -> list[Any]:
    """Run a statement on the file, as another program would."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, values).fetchall()


def python(script: str, *arguments: object, prefix: tuple[str, ...] = ()) -> str:
    """What a process of its own prints."""
    done = subprocess.run(
        [*prefix, sys.executable, "-c", IMPORTS + script, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORTS = """
import asyncio, os, resource, signal, sys, threading
from autonomy_ctx import *
from autonomy_ctx.errors import *
from autonomy_ctx.testing import make_message

URL = f"sqlite:///{sys.argv[1]}"

def opened(**options):
    return Memory(URL, **options)

async def ids(memory):
    return [entry.message.id for entry in (await memory.read("ana", "trip")).entries]

async def attempt(call):
    try:
        return await call
    except Exception as error:
        return type(error).__name__
"""

# -- opening -------------------------------------------------------------------------------------


def test_a_missing_folder_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match=r"folder .*nowhere does not exist; make it first"):
        opened(tmp_path / "nowhere" / "memory.db")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_a_folder_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="is a folder; name a file in it"):
        opened(tmp_path)


def test_a_file_where_the_folder_should_be_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreUnavailable, match="does not exist"):
        opened(tmp_path / "file" / "memory.db")


def test_a_path_that_is_a_pipe_is_refused_at_once(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(StoreUnavailable, match="is a pipe, a socket or a device; name a file"):
        opened(path)


async def test_all_files_are_made_for_their_owner_alone(path: Path) -> None:
    """Whatever the umask says."""
    before = os.umask(0)
    try:
        async with opened(path) as memory:
            await memory.append("ana", "trip", hello(1))
            await memory.read("ana", "trip")
            modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert set(modes) == {f"memory.db{suffix}" for suffix in ("", "-wal", "-shm", ".lock", ".progress")}
    assert set(modes.values()) == {0o600}


async def test_a_database_that_others_may_read_stays_so(path: Path) -> None:
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1))
    path.chmod(0o640)
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(2))
        for name in ("", "-wal", "-shm"):
            assert stat.S_IMODE(Path(f"{path}{name}").stat().st_mode) == 0o640


NOBODY = """
async def main():
    await attempt(Memory().append("ana", "trip", make_message("warm up", id="m0")))
    warm = Memory(f"sqlite:///{sys.argv[2]}/warm.db")
    await warm.append("ana", "trip", make_message("warm up", id="m0"))
    await ids(warm)
    await warm.close()
    if os.getuid() == 0:
        os.setgid(65534)
        os.setuid(65534)
    try:
        memory = opened()
    except StoreUnavailable as error:
        print("at once:", error)
        return
    try:
        print(await memory.append("ana", "trip", make_message("hello", id="m2")), await ids(memory))
    except StoreUnavailable as error:
        print("at use:", error)
    await memory.close()

asyncio.run(main())
"""


@pytest.fixture
def prepared(open_folder: Path) -> Path:
    """A file with one message that belongs to us."""
    path = open_folder / "memory.db"

    async def fill() -> None:
        async with opened(path) as memory:
            await memory.append("ana", "trip", hello(1))

    asyncio.run(fill())
    return path


@pytest.mark.parametrize("mode", [0o444, 0o000], ids=["read-only", "unreadable"])
def test_a_file_one_may_not_write_is_refused_at_once(prepared: Path, tmp_path: Path, mode: int) -> None:
    prepared.chmod(mode)
    assert "at once: " in (told := python(NOBODY, prepared, tmp_path))
    assert "this user may not read and write the file; change its owner or permissions" in told


def test_a_folder_one_may_not_write_is_refused_at_once(prepared: Path, tmp_path: Path) -> None:
    prepared.chmod(0o666)
    prepared.parent.chmod(0o555)
    try:
        assert "is not writable for this user" in python(NOBODY, prepared, tmp_path)
    finally:
        prepared.parent.chmod(0o777)


def test_a_lock_file_of_another_user_is_named(prepared: Path, tmp_path: Path) -> None:
    prepared.chmod(0o666)
    Path(f"{prepared}.lock").chmod(0o400)
    assert "the operating system refused (Permission denied)" in python(NOBODY, prepared, tmp_path)


def test_a_write_ahead_log_of_another_user_is_named(prepared: Path, tmp_path: Path) -> None:
    """A process of root's has the file open and has made the files beside it."""
    prepared.chmod(0o666)
    Path(f"{prepared}.lock").chmod(0o666)

    async def hold() -> str:
        async with opened(prepared) as memory:
            await memory.append("ana", "trip", hello(3))
            for name in ("-wal", "-shm"):
                Path(f"{prepared}{name}").chmod(0o400)
            return await anyio.to_thread.run_sync(python, NOBODY, prepared, tmp_path)

    assert "check that the file and its folder belong to this user" in asyncio.run(hold())


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
server:/x /mnt/with\\040space cifs rw 0 0
tmpfs /data tmpfs rw 0 0
server:/y /data nfs rw 0 0
garbage
"""


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("/memory.db", "ext4"),
        ("/home/ana/memory.db", "nfs4"),
        ("/home/local/memory.db", "xfs"),
        ("/homework/memory.db", "ext4"),
        ("/mnt/with space/memory.db", "cifs"),
        ("/mnt/with/memory.db", "ext4"),
        ("/data/memory.db", "nfs"),
    ],
)
def test_the_filesystem_of_a_file_is_that_of_the_nearest_and_latest_mount(file: str, kind: str) -> None:
    assert filesystem_type(Path(file), MOUNTS) == kind


def test_without_a_list_of_mounts_the_filesystem_is_unknown() -> None:
    assert filesystem_type(Path("/memory.db"), "") is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"])
def test_a_network_filesystem_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = f"/dev/sda1 / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n"
    with pytest.raises(StoreUnavailable, match=rf"network filesystem \({kind}\).*use a local disk"):
        check_location(str(tmp_path / "memory.db"), mounts=mounts)
    check_location(str(tmp_path / "memory.db"), mounts="/dev/sda1 / ext4 rw 0 0\n")


async def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    """When it is opened, not before: to look into it would drop this process's locks on it."""
    path.write_text("Dear diary, this is no database.")
    with pytest.raises(StoreCorrupt, match=r"SQLITE_NOTADB.*If it never was .* name another file"):
        async with opened(path):
            pass
    assert path.read_text() == "Dear diary, this is no database."


async def test_a_file_that_only_starts_like_a_database_is_refused(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00" + b"garbage " * 1000)
    memory = opened(path)
    with pytest.raises(StoreCorrupt, match=str(path)):
        await memory.append("ana", "trip", hello(1))
    with pytest.raises(StoreCorrupt, match=r"\.recover"):
        await memory.read("ana", "trip")
    await memory.close()


# -- damage --------------------------------------------------------------------------------------

WHOLE = [f"m{number}" for number in range(1, 301)]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a file with 300 messages in it, some of them too large for one page."""
    path = tmp_path_factory.mktemp("healthy") / "memory.db"

    async def fill() -> None:
        async with opened(path) as memory:
            sizes = [9000 if number % 50 == 0 else 40 for number in range(1, 301)]
            await memory.append(
                "ana",
                "trip",
                *(make_message("x" * size, id=f"m{n}") for n, size in enumerate(sizes, start=1)),
            )

    asyncio.run(fill())
    return path.read_bytes()


async def judged(path: Path) -> str:
    """What becomes of a damaged file: all is still there, or it is refused with the right words."""
    memory = opened(path)
    refused: set[str] = set()
    calls: list[Callable[[], Awaitable[list[str]]]] = [
        lambda: ids(memory),
        lambda: ids(memory, limit=300),
        lambda: ids(memory, limit=1000),
    ]
    try:
        for call in calls:
            try:
                assert await call() == WHOLE, "a partial history was given out as the whole"
            except StoreCorrupt:
                refused.add("refused")
        try:
            assert await memory.append("ana", "trip", make_message("after", id="after")) == [301]
        except StoreCorrupt:
            refused.add("refused")
    finally:
        await memory.close()
    return "refused" if refused else "intact"


async def test_a_page_of_garbage_is_never_read_as_part_of_a_history(tmp_path: Path, healthy: bytes) -> None:
    """Each page in turn."""
    verdicts: list[str] = []
    for number in range(len(healthy) // PAGE):
        path = tmp_path / f"{number}.db"
        damaged = bytearray(healthy)
        spoiled = random.Random(number).randbytes(PAGE)
        # The name of the format stays, so that the file is opened at all.
        start = number * PAGE + (16 if number == 0 else 0)
        damaged[start : (number + 1) * PAGE] = spoiled[: (number + 1) * PAGE - start]
        path.write_bytes(damaged)
        verdicts.append(await judged(path))
    assert verdicts.count("refused") > 20, "the damage was where nothing stands"


async def test_a_page_of_zeros_is_never_read_as_part_of_a_history(tmp_path: Path, healthy: bytes) -> None:
    for number in range(1, len(healthy) // PAGE):
        path = tmp_path / f"{number}.db"
        path.write_bytes(healthy[: number * PAGE] + bytes(PAGE) + healthy[(number + 1) * PAGE :])
        await judged(path)


async def test_a_file_cut_short_is_refused(tmp_path: Path, healthy: bytes) -> None:
    for pages in range(1, len(healthy) // PAGE, 3):
        path = tmp_path / f"{pages}.db"
        path.write_bytes(healthy[: pages * PAGE + 100])
        assert await judged(path) == "refused"


async def test_a_page_that_has_forgotten_some_of_its_rows_is_refused(tmp_path: Path, healthy: bytes) -> None:
    """SQLite itself does not notice: only that fewer messages are found than were counted."""
    leaves = [
        at
        for at in range(PAGE, len(healthy), PAGE)
        if healthy[at] == 10 and b'{"role"' in healthy[at : at + PAGE]
    ]
    assert len(leaves) > 3
    for number, at in enumerate(leaves):
        path = tmp_path / f"{number}.db"
        rows = int.from_bytes(healthy[at + 3 : at + 5])
        path.write_bytes(healthy[: at + 3] + (rows - 1).to_bytes(2) + healthy[at + 5 :])
        assert await judged(path) == "refused"


@pytest.mark.parametrize(
    "damage",
    [
        b'"role"!',
        b'{"role":"us\xff\xfe',
        b"[1]",
        b'{"role":"nobody","content":"x"}',
        b"",
        b'{"role":"user","con',
        b'[2,"Uc","hel',
        b'[2,"Uc",5]',
        b'[2,"Xc","hello"]',
    ],
    ids=[
        *("no JSON", "no text", "no dict", "no such role", "empty", "cut short"),
        *("array cut short", "no content", "no such field"),
    ],
)
async def test_a_message_that_cannot_be_read_back_is_damage_not_a_crash(path: Path, damage: bytes) -> None:
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1), hello(2), hello(3))
    inside(path, "UPDATE message SET body = CAST(? AS TEXT) WHERE id = 'm2'", damage)
    memory = opened(path)
    for limit in (None, 2, 600):
        with pytest.raises(StoreCorrupt, match=str(path)):
            await memory.read("ana", "trip", limit=limit)
    assert await ids(memory, limit=1) == ["m3"], "what is whole can still be read"
    await memory.close()


async def test_damage_in_one_conversation_does_not_stop_time_in_the_others(path: Path) -> None:
    """Not even while somebody, a log for instance, still holds the error."""
    memory = opened(path)
    await memory.append("ana", "trip", hello(1), hello(2))
    await memory.append("bob", "trip", hello(1))
    inside(path, "UPDATE message SET body = 'damaged' WHERE id = 'm2'")
    with pytest.raises(StoreCorrupt) as held:
        await memory.read("ana", "trip")
    assert await memory.append("bob", "trip", hello(3)) == [2]
    window = await memory.read("bob", "trip")
    assert [entry.message.id for entry in window.entries] == ["m1", "m3"]
    assert (await memory.head("bob", "trip")).position == 2
    del held
    await memory.close()


async def test_a_head_that_contradicts_the_log_is_damage_and_overwrites_nothing(path: Path) -> None:
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1), hello(2), hello(3))
    inside(path, "UPDATE conversation SET head = 1")
    memory = opened(path)
    with pytest.raises(StoreCorrupt):
        await memory.append("ana", "trip", hello(4))
    await memory.close()
    assert inside(path, "SELECT position, id FROM message") == [(1, "m1"), (2, "m2"), (3, "m3")]


async def test_messages_whose_part_of_the_log_is_whole_survive_a_cut_in_its_end(
    path: Path, tmp_path: Path
) -> None:
    """As after a kill: the process is gone, the write-ahead log is not folded into the file."""
    memory = opened(path)
    log = Path(f"{path}-wal")
    sizes: list[int] = []
    for number in range(1, 9):
        await memory.append("ana", "trip", hello(number))
        sizes.append(log.stat().st_size)
    left, log_left = path.read_bytes(), log.read_bytes()
    await memory.close()
    for index, end in enumerate(sizes):
        for cut in (end - 1, end, end + 1, end + 500):
            folder = tmp_path / f"{index} {cut}"
            folder.mkdir()
            (folder / "memory.db").write_bytes(left)
            (folder / "memory.db-wal").write_bytes(log_left[:cut])
            whole = sum(size <= cut for size in sizes)
            async with opened(folder / "memory.db") as survivor:
                assert await ids(survivor) == [f"m{number}" for number in range(1, whole + 1)]
                assert await survivor.append("ana", "trip", make_message("next", id="next")) == [whole + 1]


def copy_with_log_cut(path: Path, folder: Path, size: int | None) -> Path:
    """A database whose write-ahead log has lost its end; without a size all of it."""
    folder.mkdir()
    shutil.copy(path, folder / "memory.db")
    shutil.copy(f"{path}.progress", folder / "memory.db.progress")
    if size is not None:
        (folder / "memory.db-wal").write_bytes(Path(f"{path}-wal").read_bytes()[:size])
    return folder / "memory.db"


USES: dict[str, Callable[[Memory], Awaitable[object]]] = {
    "read": lambda memory: memory.read("ana", "trip"),
    "write": lambda memory: memory.append("ana", "trip", hello(6)),
    "enter": lambda memory: memory.__aenter__(),
}


@pytest.mark.parametrize("use", USES)
async def test_a_log_that_was_cut_is_noticed_and_what_is_missing_is_said(
    memory: Memory, path: Path, tmp_path: Path, use: str
) -> None:
    sizes = []
    for number in range(1, 6):
        await memory.append("ana", "trip", hello(number), hello(10 + number))
        sizes.append(Path(f"{path}-wal").stat().st_size)
    for kept, size in [(1, sizes[0]), (3, sizes[3] - 1), (4, sizes[3])]:
        cut = copy_with_log_cut(path, tmp_path / str(size), size)
        found = opened(cut)
        missing = f"the last {5 - kept} of 5 commits, with {10 - 2 * kept} messages, are missing"
        with pytest.raises(StoreCorrupt, match=f"{missing}: .*-wal was cut or removed"):
            await USES[use](found)
        await found.close()
        async with opened(cut, accept_shorter=True) as accepted:
            assert len(await ids(accepted)) == 2 * kept
        async with opened(cut) as again:
            assert await again.append("ana", "trip", hello(6)) == [2 * kept + 1]


@pytest.mark.parametrize("size", [None, 0, 100])
@pytest.mark.parametrize("use", USES)
async def test_a_log_that_is_gone_does_not_make_a_new_history(
    memory: Memory, path: Path, tmp_path: Path, use: str, size: int | None
) -> None:
    """Until the first checkpoint everything is in the log, the tables too."""
    await memory.append("ana", "trip", hello(1))
    cut = copy_with_log_cut(path, tmp_path / "cut", size)
    found = opened(cut)
    with pytest.raises(StoreCorrupt, match="the last 1 of 1 commits, with 1 messages, are missing"):
        await USES[use](found)
    await found.close()
    assert b"progress" not in cut.read_bytes(), "no tables were made"


async def test_a_whole_database_is_opened_whatever_its_progress_file_says_of_others(path: Path) -> None:
    progress = Path(f"{path}.progress")
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1), hello(2))
    far = progress.read_bytes()
    # Somebody deletes the database and leaves the rest: it begins anew.
    path.unlink()
    async with opened(path) as memory:
        assert await ids(memory) == []
    # It speaks of the one that was deleted.
    progress.write_bytes(far)
    async with opened(path) as memory:
        assert await memory.append("ana", "trip", hello(1)) == [1]
    # Cut short by a power cut, zeros, nothing, another text, another number.
    for data in (far[:30], bytes(len(far)), b"", b"a b c d e f", far.replace(b"commits 0", b"commits 9")):
        progress.write_bytes(data)
        async with opened(path) as memory:
            assert await ids(memory) == ["m1"]


async def test_the_progress_file_follows_commits_that_are_synced_and_no_others(path: Path) -> None:
    progress = Path(f"{path}.progress")
    async with opened(path, synchronous="NORMAL") as memory:
        await memory.append("ana", "trip", hello(1))
        assert not progress.exists()
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(2))
        said = progress.read_bytes()
        assert b"messages 00000000000000000002 " in said
        await memory.read("ana", "trip")
        assert progress.read_bytes() == said
        progress.unlink()
        await memory.append("ana", "trip", hello(3))
        assert b"messages 00000000000000000003 " in progress.read_bytes()


# -- gone and back -------------------------------------------------------------------------------


def move(source: Path, target: Path, *, with_log: bool = True) -> None:
    for name in ("", *(("-wal", "-shm") if with_log else ())):
        if Path(f"{source}{name}").exists():
            Path(f"{source}{name}").rename(f"{target}{name}")


async def test_nothing_is_acknowledged_that_went_into_a_file_that_is_gone(
    memory: Memory, path: Path, tmp_path: Path
) -> None:
    """From the very next write on: what is written to a deleted file is lost with it."""
    await memory.append("ana", "trip", hello(1))
    await memory.append("ana", "trip", hello(2))
    move(path, tmp_path / "away.db")
    with pytest.raises(StoreUnavailable, match="the file is gone"):
        await memory.append("ana", "trip", hello(3))


@pytest.mark.parametrize("with_log", [True, False], ids=["all files", "only the database"])
async def test_a_file_that_is_gone_is_named_and_used_again_when_it_is_back(
    memory: Memory, path: Path, tmp_path: Path, with_log: bool
) -> None:
    await memory.append("ana", "trip", hello(1))
    assert await ids(memory, limit=5) == ["m1"]
    move(path, tmp_path / "away.db", with_log=with_log)
    assert not await memory.health_check()
    with pytest.raises(StoreUnavailable, match="the file is gone; put it back"):
        await memory.append("ana", "trip", hello(2))
    for limit in (5, None, 600):
        with pytest.raises(StoreUnavailable, match="the file is gone"):
            await memory.read("ana", "trip", limit=limit)
    assert not path.exists(), "nothing was written to a new, empty file"
    move(tmp_path / "away.db", path, with_log=with_log)
    assert await memory.append("ana", "trip", hello(2)) == [2]
    assert await ids(memory, limit=5) == ["m1", "m2"]


async def test_nothing_is_written_to_an_empty_file_that_took_its_place(
    memory: Memory, path: Path, tmp_path: Path
) -> None:
    await memory.append("ana", "trip", hello(1))
    move(path, tmp_path / "away.db")
    path.touch()
    assert not await memory.health_check()
    with pytest.raises(StoreUnavailable):
        await memory.append("ana", "trip", hello(2))
    assert path.stat().st_size == 0
    path.unlink()
    move(tmp_path / "away.db", path)
    assert await memory.append("ana", "trip", hello(2)) == [2]
    assert await ids(memory) == ["m1", "m2"]


async def test_a_folder_that_took_its_place_is_refused(memory: Memory, path: Path, tmp_path: Path) -> None:
    await memory.append("ana", "trip", hello(1))
    move(path, tmp_path / "away.db")
    path.mkdir()
    assert not await memory.health_check()
    with pytest.raises(StoreUnavailable):
        await memory.append("ana", "trip", hello(2))
    path.rmdir()
    move(tmp_path / "away.db", path)
    assert await memory.append("ana", "trip", hello(2)) == [2]


async def test_another_database_that_took_its_place_is_used(
    memory: Memory, path: Path, tmp_path: Path
) -> None:
    """A backup is put back while memory runs."""
    await memory.append("ana", "trip", hello(1))
    async with opened(tmp_path / "backup.db") as backup:
        await backup.append("ana", "trip", make_message("1", id="old1"), make_message("2", id="old2"))
    move(path, tmp_path / "away.db")
    move(tmp_path / "backup.db", path)
    assert await memory.health_check()
    assert await memory.append("ana", "trip", hello(3)) == [3]
    assert await ids(memory) == ["old1", "old2", "m3"]


class Vanishing(SqliteStore):
    """A store whose file disappears just before one of the times it is opened."""

    vanishes = False

    def _connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        if self.vanishes:
            os.rename(self.path, f"{self.path}.away")
            self.vanishes = False
        return super()._connect(*arguments, **options)


@pytest.mark.parametrize("use", ["write", "small read", "large read"])
async def test_a_file_that_vanishes_in_the_last_moment_is_not_made_anew(path: Path, use: str) -> None:
    """Between the look at the file and its opening, history must not silently start again."""
    async with opened(path) as first:
        await first.append("ana", "trip", make_message("x" * 100_000, id="m1"))
    store = Vanishing(str(path))
    store.vanishes = True
    memory = Memory(store=store)
    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "write": lambda: memory.append("ana", "trip", hello(2)),
        "small read": lambda: memory.head("ana", "trip"),
        "large read": lambda: memory.get_full_message("ana", "trip", "m1"),
    }
    with pytest.raises(StoreUnavailable):
        await calls[use]()
    assert not path.exists()
    Path(f"{path}.away").rename(path)
    assert await memory.append("ana", "trip", hello(2)) == [2]
    assert await ids(memory) == ["m1", "m2"]
    await memory.close()


VANISHED = """
import fcntl, sqlite3, anyio.lowlevel

def lock_is_taken():
    with open(sys.argv[1] + ".lock") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False

def move(source, target):
    for name in ("", "-wal", "-shm"):
        if os.path.exists(source + name):
            os.rename(source + name, target + name)

async def main():
    memory = opened(timeout=10)
    await memory.append("ana", "trip", make_message("1", id="m1"))
    await ids(memory)
    other = sqlite3.connect(sys.argv[1], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    append = asyncio.ensure_future(attempt(memory.append("ana", "trip", make_message("2", id="m2"))))
    while not lock_is_taken():
        await anyio.lowlevel.checkpoint()
    move(sys.argv[1], sys.argv[1] + ".away")
    # A check makes sure that the next read looks at the file, however soon it comes.
    rest = [asyncio.ensure_future(attempt(memory.health_check()))]
    await anyio.lowlevel.checkpoint()
    rest.append(asyncio.ensure_future(attempt(memory.read("ana", "trip"))))
    for _ in range(1000):
        await anyio.lowlevel.checkpoint()
    move(sys.argv[1] + ".away", sys.argv[1])
    other.execute("ROLLBACK")
    other.close()
    print(await append)
    await asyncio.wait(rest)
    print(await memory.append("ana", "trip", make_message("2", id="m2")), await ids(memory))
    await memory.close()

asyncio.run(main())
"""


def test_a_file_that_vanishes_while_a_write_waits_is_no_trouble_when_it_is_back(path: Path) -> None:
    """A read finds the file gone while the writer, on the old one, still waits for another process."""
    outcome, after = python(VANISHED, path).splitlines()
    assert outcome in ("[2]", "StoreUnavailable", "StoreBusy")
    assert after == "[2] ['m1', 'm2']"


# -- no room -------------------------------------------------------------------------------------

FULL = """
def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

async def main():
    limit(100)
    memory = opened()
    print(await attempt(memory.append("ana", "trip", make_message("hello", id="m1"))))
    limit(resource.RLIM_INFINITY)
    print(await memory.append("ana", "trip", make_message("hello", id="m1")))
    limit(os.stat(sys.argv[1] + "-wal").st_size + 3000)
    for size in (10, 1_000_000):
        print(await attempt(memory.append("ana", "trip", make_message("x" * size, id="m2"))))
    # A closed log begins anew and has room again: from here on it has none.
    print(await ids(memory))
    limit(4000)
    refused = await attempt(memory.append("ana", "trip", make_message("x", id="m2")))
    print(refused, await memory.health_check())
    limit(resource.RLIM_INFINITY)
    print(await memory.append("ana", "trip", make_message("x", id="m2")), await ids(memory))
    print(await memory.health_check())
    await memory.close()

asyncio.run(main())
"""
NO_ROOM = ("StoreFull", "StoreUnavailable")


def test_a_file_that_may_not_grow_refuses_and_goes_on_when_it_may(path: Path) -> None:
    first, made, small, large, kept, ill, after, well = python(FULL, path).splitlines()
    assert first in NO_ROOM
    assert made == "[1]"
    assert small in NO_ROOM
    assert large in NO_ROOM
    assert kept == "['m1']"
    assert ill in [f"{error} False" for error in NO_ROOM]
    assert well == "True"
    assert after == "[2] ['m1', 'm2']"
    assert inside(path, "PRAGMA integrity_check") == [("ok",)]


DISK_FULL = """
async def main():
    import subprocess
    folder = os.path.dirname(sys.argv[1])
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True).returncode:
        print("no mount")
        return
    memory = opened()
    acknowledged, refused = [], "nothing"
    for number in range(1, 1000):
        refused = await attempt(memory.append("ana", "trip", make_message("x" * 5000, id=f"m{number}")))
        if isinstance(refused, str):
            break
        acknowledged.append(f"m{number}")
    print(refused, await ids(memory) == acknowledged, len(acknowledged) > 5)
    print(await memory.health_check(), await memory.health_check())
    subprocess.run(["mount", "-o", "remount,size=8m", folder], check=True)
    print(await memory.append("ana", "trip", make_message("x" * 5000, id=f"m{number}")) == [number])
    print(await memory.health_check())
    await memory.close()

asyncio.run(main())
"""


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare"), reason="a small disk can only be mounted by root"
)
def test_a_full_disk_refuses_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    told = python(DISK_FULL, folder / "memory.db", prefix=("unshare", "--mount")).split()
    if told[0] == "no":
        pytest.skip("nothing can be mounted here")
    assert told == ["StoreFull", "True", "True", "False", "False", "True", "True"]


async def test_a_database_at_its_largest_size_refuses_and_stores_nothing(path: Path) -> None:
    store = SqliteStore(str(path))
    memory = Memory(store=store)
    await memory.append("ana", "trip", hello(1))
    assert store._writer.connection is not None
    store._writer.connection.execute("PRAGMA max_page_count = 12")
    with pytest.raises(StoreFull, match="nothing was stored"):
        await memory.append("ana", "trip", make_message("x" * 100_000, id="m2"))
    assert await ids(memory) == ["m1"]
    assert await memory.append("ana", "trip", make_message("x" * 100_000, id="m2")) == [2], (
        "the limit was the connection's"
    )
    await memory.close()


# -- closing -------------------------------------------------------------------------------------


async def test_after_close_every_call_says_so(memory: Memory) -> None:
    await memory.append("ana", "trip", hello(1))
    await memory.read("ana", "trip", limit=5)
    view = memory.for_agent("helper")
    await memory.close()
    await memory.close()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: memory.append("ana", "trip", hello(2)),
        lambda: view.append("ana", "trip", hello(2)),
        lambda: memory.read("ana", "trip"),
        lambda: memory.read("ana", "trip", limit=5),
        lambda: memory.get_messages_only("ana", "trip"),
        lambda: memory.get_message_count("ana", "trip"),
        lambda: memory.get_full_message("ana", "trip", "m1"),
        lambda: memory.delete_message("ana", "trip", "m1"),
        lambda: memory.delete_scope("ana"),
    ]
    for call in calls:
        with pytest.raises(StoreClosed, match="make a new `Memory`"):
            await call()
    assert not await memory.health_check()


async def test_close_finishes_what_was_accepted(path: Path) -> None:
    memory = opened(path)
    await memory.append("ana", "trip", hello(0))
    positions: list[int] = []

    async def speak(number: int) -> None:
        positions.extend(await memory.append("ana", "trip", hello(number)))

    lock = FileLock(f"{path}.lock")
    async with anyio.create_task_group() as group:
        with lock:
            for number in range(1, 6):
                group.start_soon(speak, number)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(memory.close)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(StoreClosed):
                await memory.append("ana", "trip", make_message("late", id="late"))
    lock.close()
    assert sorted(positions) == [2, 3, 4, 5, 6]
    assert [row[0] for row in inside(path, "SELECT id FROM message ORDER BY id")] == [
        f"m{n}" for n in range(6)
    ]


def open_files(path: Path) -> list[str]:
    """The names under which this process has the database's files open."""
    names = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            names.append(str(link.readlink()))
        except FileNotFoundError:
            continue
    return [name for name in names if name.startswith(str(path))]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.parametrize("use", ["nothing", "small read", "large read", "write", "all"])
async def test_close_lets_go_of_files_and_threads(path: Path, use: str) -> None:
    async with opened(path) as first:
        await first.append("ana", "trip", make_message("x" * 100_000, id="m1"), hello(2))
    before = set(threading.enumerate())
    memory = opened(path)
    if use in ("small read", "all"):
        await memory.read("ana", "trip", limit=1)
    if use in ("large read", "all"):
        await memory.read("ana", "trip")
    if use in ("write", "all"):
        await memory.append("ana", "trip", hello(3))
    await memory.close()
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("autonomy_ctx"):
            thread.join(5)
            assert not thread.is_alive()
    assert open_files(path) == []


LOCKED = """
import fcntl
with open(sys.argv[1], "r+") as file:
    try:
        # The bytes that every connection to an SQLite file keeps a shared lock on.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)
        print("free")
    except BlockingIOError:
        print("locked")
"""


async def test_a_second_memory_on_the_same_file_drops_none_of_the_firsts_locks(path: Path) -> None:
    """POSIX drops all locks of a process on a file when it closes any of its descriptors for it."""
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1))
        assert await anyio.to_thread.run_sync(python, LOCKED, path) == "locked\n"
        async with opened(path) as other:
            await other.append("ana", "trip", hello(2))
            await other.read("ana", "trip")
        check_location(str(path))
        assert await anyio.to_thread.run_sync(python, LOCKED, path) == "locked\n"
        assert await ids(memory) == ["m1", "m2"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
async def test_a_memory_that_cannot_be_entered_leaves_nothing_behind(path: Path) -> None:
    """Nobody can close what `async with` has not given out."""
    path.write_text("Dear diary, this is no database.")
    before = set(threading.enumerate())
    with pytest.raises(StoreCorrupt):
        async with opened(path):
            pass
    for thread in set(threading.enumerate()) - before:
        if thread.name.startswith("autonomy_ctx"):
            thread.join(5)
            assert not thread.is_alive()
    assert open_files(path) == []


# -- many users of one object --------------------------------------------------------------------


def test_two_threads_with_a_loop_each_may_share_a_memory(path: Path) -> None:
    """One runs asyncio, one trio; both write, read and delete as fast as they can."""
    memory = opened(path)
    problems: list[BaseException] = []

    async def talk(name: str) -> None:
        for number in range(150):
            await memory.append("ana", "trip", make_message("x", id=f"{name}.{number}"))
            await memory.append("ana", f"{name} {number % 7}", make_message("x", id=f"{number}"))
            window = await memory.read("ana", "trip", limit=20)
            assert any(entry.message.id == f"{name}.{number}" for entry in window.entries) or number < 149
            await memory.read("ana", f"{name} {number % 7}", limit=20)
            if number % 10 == 0:
                await memory.delete_conversation("ana", f"{name} {number % 7}")
            await memory.read("ana", "trip")

    def run(backend: str) -> None:
        try:
            anyio.run(talk, backend, backend=backend)
        except BaseException as error:
            problems.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(0.000001)
    try:
        threads = [threading.Thread(target=run, args=(backend,)) for backend in ("asyncio", "trio")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert problems == []
    found = asyncio.run(ids(memory))
    for name in ("asyncio", "trio"):
        assert [one for one in found if one.startswith(name)] == [f"{name}.{number}" for number in range(150)]
    asyncio.run(memory.close())


def test_a_memory_may_be_used_in_one_loop_after_the_other(path: Path) -> None:
    memory = opened(path)
    for number, backend in enumerate(["asyncio", "asyncio", "trio", "asyncio"], start=1):
        assert anyio.run(memory.append, "ana", "trip", hello(number), backend=backend) == [number]
        assert anyio.run(ids, memory, backend=backend) == [f"m{n}" for n in range(1, number + 1)]
    asyncio.run(memory.close())


def test_a_loop_that_ends_in_the_middle_of_an_append_does_not_hurt_the_next(path: Path) -> None:
    """A task is abandoned with its loop; what it had handed in is written or not, once."""
    memory = opened(path)
    asyncio.run(memory.append("ana", "trip", hello(1)))

    async def walk_out() -> None:
        task = asyncio.ensure_future(memory.append("ana", "trip", hello(2)))
        await anyio.lowlevel.checkpoint()
        assert not task.done()

    lock = FileLock(f"{path}.lock")
    with lock:
        asyncio.run(walk_out())
    lock.close()
    assert asyncio.run(memory.append("ana", "trip", hello(3))) in ([2], [3])
    assert asyncio.run(ids(memory)) in (["m1", "m3"], ["m1", "m2", "m3"])
    asyncio.run(memory.close())


def test_appends_whose_tasks_nobody_holds_are_not_collected(path: Path) -> None:
    """The loop keeps only weak references to tasks; while they wait, memory keeps them alive."""
    memory = opened(path)
    finished: list[int] = []
    all_finished = asyncio.Event()

    async def speak(number: int) -> None:
        finished.extend(await memory.append("ana", "trip", hello(number)))
        if len(finished) == 20:
            all_finished.set()

    async def main() -> None:
        await memory.append("ana", "trip", hello(0))
        lock = FileLock(f"{path}.lock")
        with lock:
            for number in range(1, 21):
                asyncio.ensure_future(speak(number))  # noqa: RUF006  # that is the point
            await anyio.lowlevel.checkpoint()
            gc.collect()
        lock.close()
        await memory.append("ana", "trip", make_message("last", id="last"))
        await asyncio.wait_for(all_finished.wait(), 30)

    asyncio.run(main())
    assert sorted(finished) == list(range(2, 22))
    asyncio.run(memory.close())


async def test_a_deletion_that_cannot_be_done_fails_alone(memory: Memory, path: Path) -> None:
    """Jobs that wait share one transaction; what is wrong with one of them is not the others' fault."""
    await memory.append("ana", "trip", hello(0))
    positions: list[int] = []
    errors: list[BaseException] = []

    async def speak(number: int) -> None:
        positions.extend(await memory.append("bob", "trip", hello(number)))

    async def delete(name: Any) -> None:
        try:
            assert not await memory.delete_message("ana", "trip", name)
        except (AutonomyCtxError, TypeError) as error:
            errors.append(error)

    lock = FileLock(f"{path}.lock")
    async with anyio.create_task_group() as group:
        with lock:
            group.start_soon(speak, 1)
            for name in ("\ud800", None, 2**70, ["m0"], {"a": 1}):
                group.start_soon(delete, name)
            group.start_soon(speak, 2)
            await anyio.wait_all_tasks_blocked()
    lock.close()
    assert sorted(positions) == [1, 2]
    assert await ids(memory) == ["m0"]


async def test_an_append_to_a_damaged_conversation_fails_alone(memory: Memory, path: Path) -> None:
    """The transaction that it spoils is shared, and the others in it are done again without it."""
    await memory.append("ana", "trip", hello(1), hello(2), hello(3))
    inside(path, "UPDATE conversation SET head = 1")
    positions: dict[str, list[int]] = {}
    refused: list[str] = []

    async def speak(scope: str) -> None:
        try:
            positions[scope] = await memory.append(scope, "trip", hello(4))
        except StoreCorrupt:
            refused.append(scope)

    lock = FileLock(f"{path}.lock")
    async with anyio.create_task_group() as group:
        with lock:
            for scope in ("bob", "ana", "carl"):
                group.start_soon(speak, scope)
            await anyio.wait_all_tasks_blocked()
    lock.close()
    assert (positions, refused) == ({"bob": [1], "carl": [1]}, ["ana"])


class Drafts(list[Draft]):
    """A list that can be watched until nobody holds it any more."""


@pytest.mark.parametrize("patience", [60, 0], ids=["refused", "cancelled"])
async def test_what_nobody_waits_for_any_more_is_not_held_in_memory(path: Path, patience: float) -> None:
    """However long another process keeps the lock, and however much is refused meanwhile."""
    store = SqliteStore(str(path))
    await store.append(MAIN, make_drafts(hello(1)))
    set_timeout(store, 0.1)

    left: list[weakref.ref[Drafts]] = []

    async def in_vain() -> None:
        drafts = Drafts(make_drafts(hello(2)))
        left.append(weakref.ref(drafts))
        with suppress(StoreBusy), anyio.move_on_after(patience):
            await store.append(MAIN, drafts)

    lock = FileLock(f"{path}.lock")
    with lock:
        async with anyio.create_task_group() as group:
            group.start_soon(in_vain)
        gc.collect()
        assert left[0]() is None
    lock.close()
    await store.close()


class AtTheLastMoment(WorkerThread):
    """A worker that pauses when it finds that nobody waits any more."""

    pause: Callable[[], object]

    def has_waiters(self) -> bool:
        waited_for = super().has_waiters()
        if not waited_for:
            self.pause()
        return waited_for


async def test_an_append_that_comes_as_the_last_one_gives_up_is_not_forgotten(path: Path) -> None:
    store = SqliteStore(str(path))
    memory = Memory(store=store)
    await memory.append("ana", "trip", hello(1))
    noticed, handed_in = threading.Event(), threading.Event()

    def pause() -> None:
        noticed.set()
        handed_in.wait(10)

    store._writer.worker.__class__ = AtTheLastMoment
    store._writer.worker.pause = pause  # type: ignore[attr-defined]
    positions: list[int] = []

    async def speak() -> None:
        positions.extend(await memory.append("ana", "trip", hello(3)))

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        set_timeout(store, 0.3)
        with pytest.raises(StoreBusy):
            await memory.append("ana", "trip", hello(2))
        set_timeout(store, USUAL)
        await anyio.to_thread.run_sync(noticed.wait, 10)
        async with anyio.create_task_group() as group:
            group.start_soon(speak)
            await anyio.wait_all_tasks_blocked()
            other.execute("ROLLBACK")
            handed_in.set()
    assert positions == [2]
    store._writer.worker.__class__ = WorkerThread
    await memory.close()


# -- waiting ---------------------------------------------------------------------------------------


async def test_waiting_for_the_lock_of_a_new_file_costs_no_processor_time(path: Path) -> None:
    """How often SQLite is asked, not how long: a wait that spins asks thousands of times."""
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA journal_mode = DELETE")
    holder.execute("BEGIN IMMEDIATE")
    store = SqliteStore(str(path), timeout=0.3)
    asked: list[str] = []

    def connect(timeout: float, create: bool) -> sqlite3.Connection:
        opened = connection.connect(str(path), timeout, create=create)
        opened.set_trace_callback(asked.append)
        return opened

    store._writer._connect = connect
    with pytest.raises(StoreBusy):
        await store.append(MAIN, make_drafts(make_message("x", id="m1")))
    holder.execute("ROLLBACK")
    holder.close()
    set_timeout(store, USUAL)
    assert await store.append(MAIN, make_drafts(make_message("x", id="m1"))) == [1]
    assert len([one for one in asked if "IMMEDIATE" in one]) < 20
    await store.close()


def lock_is_free(path: Path) -> bool:
    with closing(FileLock(f"{path}.lock")) as lock:
        return lock.try_acquire()


async def test_the_lock_is_free_again_when_an_append_is_acknowledged(memory: Memory, path: Path) -> None:
    """A process that is stopped holds nobody up, unless it is stopped inside its transaction."""
    for number in range(1, 30):
        await memory.append("ana", "trip", hello(number))
        assert lock_is_free(path)


async def test_nothing_is_read_and_no_text_is_split_while_others_wait(path: Path) -> None:
    """A search takes what it found in the log to the index in a transaction that only writes."""
    store = SqliteStore(str(path))
    asked: list[str] = []

    def connect(timeout: float, create: bool) -> sqlite3.Connection:
        opened = connection.connect(str(path), timeout, create=create)
        opened.set_trace_callback(asked.append)
        return opened

    store._writer._connect = connect
    await store.append(MAIN, make_drafts(*(make_message(f"museum {n}", id=f"m{n}") for n in range(300))))
    assert len(await store.search(MAIN.agent, MAIN.scope, "museum", limit=500)) == 300
    assert any("INSERT INTO search_term" in one for one in asked)
    assert [one for one in asked if "body FROM message" in one] == []
    await store.close()


@pytest.mark.parametrize("use", ["opened", "new"])
async def test_a_writer_gives_up_a_lock_that_another_process_never_lets_go(path: Path, use: str) -> None:
    """A thread that waited inside the system could not be ended."""
    store = SqliteStore(str(path))
    if use == "opened":
        await store.append(MAIN, make_drafts(hello(1)))
    set_timeout(store, 0.2)
    lock = FileLock(f"{path}.lock")
    with lock:
        with pytest.raises(StoreBusy):
            await store.append(MAIN, make_drafts(hello(2)))
        await store.close()
        thread = store._writer.worker._thread
        assert thread is not None
        thread.join(10)
        assert not thread.is_alive()
    lock.close()


async def test_a_lock_file_that_was_removed_is_noticed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Whoever comes later locks the new file: the old one would keep nobody out."""
    memory = opened(path)
    await memory.append("ana", "trip", hello(1))
    Path(f"{path}.lock").unlink()
    newcomer = FileLock(f"{path}.lock")
    set_timeout(memory, 0.3)
    with newcomer, pytest.raises(StoreBusy):
        await memory.append("ana", "trip", hello(2))
    set_timeout(memory, USUAL)
    assert await memory.append("ana", "trip", hello(2)) == [2]
    assert "was removed while it was in use" in caplog.text
    newcomer.close()
    await memory.close()


# -- fork ----------------------------------------------------------------------------------------

FORKED = """
def told(*words):
    print(*words, flush=True)

def child_of(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException as error:
            told("child failed:", repr(error))
        os._exit(0)
    return pid
"""


def test_the_child_of_a_fork_is_told_that_it_cannot_use_what_its_parent_has_open(path: Path) -> None:
    """SQLite counts the parent's locks as the child's: what the child wrote could be lost without a word."""
    script = """
memory = opened()
asyncio.run(memory.append("ana", "trip", make_message("x", id="parent1")))
asyncio.run(ids(memory))

os.symlink(sys.argv[1], sys.argv[1] + ".link")

def work():
    for mine in (memory, opened(), Memory(f"sqlite:///{sys.argv[1]}.link")):
        for use in (mine.append("ana", "trip", make_message("x", id="child1")), ids(mine)):
            try:
                told(asyncio.run(use))
            except StoreUnavailable as error:
                told("forked" in str(error), "spawn" in str(error))

os.waitpid(child_of(work), 0)
told(asyncio.run(memory.append("ana", "trip", make_message("x", id="parent2"))))
asyncio.run(memory.close())
told(asyncio.run(ids(opened())))
"""
    assert python(FORKED + script, path).splitlines() == [
        *["True True"] * 6,
        "[2]",
        "['parent1', 'parent2']",
    ]
    assert inside(path, "PRAGMA integrity_check") == [("ok",)]


@pytest.mark.parametrize("before", ["", "asyncio.run(use_and_close())"], ids=["never opened", "closed"])
def test_parent_and_children_may_write_at_once_when_nothing_was_open_at_the_fork(
    path: Path, before: str
) -> None:
    script = f"""
async def use_and_close():
    async with opened() as early:
        await early.append("ana", "early", make_message("x", id="early"))

{before}
memory = opened()

async def speak(name):
    for number in range(20):
        await memory.append("ana", "trip", make_message("x", id=f"{{name}}.{{number}}"))

children = [child_of(lambda: asyncio.run(speak(f"child{{number}}"))) for number in range(3)]
asyncio.run(speak("parent"))
for child in children:
    os.waitpid(child, 0)
told(len(asyncio.run(ids(memory))))
asyncio.run(memory.close())
"""
    assert python(FORKED + script, path) == "80\n"
    rows = inside(
        path,
        "SELECT position FROM message m JOIN conversation c ON c.id = m.conversation_id "
        "WHERE conversation = 'trip' ORDER BY 1",
    )
    assert [row[0] for row in rows] == list(range(1, 81))
    assert inside(path, "PRAGMA integrity_check") == [("ok",)]


# A transaction that is open when the fork comes, and could end from then on.
MID_WRITE = """
memory = opened(timeout=8)
asyncio.run(memory.append("ana", "trip", make_message("x", id="parent1")))
writing, go_on = threading.Event(), threading.Event()
os.register_at_fork(before=go_on.set)

def hold(*transaction):
    writing.set()
    go_on.wait()

def write():
    asyncio.run(memory._store.run_write(hold))

threading.Thread(target=write, daemon=True).start()
writing.wait()
"""


def test_a_parent_killed_in_a_transaction_leaves_no_lock_with_its_child(path: Path) -> None:
    script = """
def work():
    told("child", os.getpid())
    sys.stdin.readline()

child_of(work)
sys.stdin.readline()
os.kill(os.getpid(), signal.SIGKILL)
"""
    parent = subprocess.Popen(
        [sys.executable, "-c", IMPORTS + FORKED + MID_WRITE + script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    child = int(parent.stdout.readline().split()[1])
    try:
        os.kill(parent.pid, signal.SIGKILL)
        parent.wait()

        async def use() -> list[int]:
            async with opened(path, timeout=10) as memory:
                return await memory.append("ana", "trip", make_message("x", id="other"))

        assert asyncio.run(use()) == [2]
    finally:
        os.kill(child, signal.SIGKILL)
        parent.communicate()


def test_a_parent_that_forked_in_the_middle_of_a_write_goes_on(path: Path) -> None:
    script = """
def work():
    told(asyncio.run(attempt(memory.append("ana", "trip", make_message("x", id="child1")))).split()[0])

os.waitpid(child_of(work), 0)
told(asyncio.run(memory.append("ana", "trip", make_message("x", id="parent2"))))
asyncio.run(memory.close())
"""
    assert python(FORKED + MID_WRITE + script, path).splitlines() == ["StoreUnavailable", "[2]"]


# -- numbers and sizes -----------------------------------------------------------------------------


@pytest.mark.parametrize("edge", [2**31, 2**32, 2**53, 2**62 - 10], ids=["2^31", "2^32", "2^53", "2^62"])
async def test_positions_go_on_past_the_edges_of_number_types(path: Path, edge: int) -> None:
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1))
    inside(path, "UPDATE conversation SET head = ?", edge - 2)
    async with opened(path) as memory:
        assert await memory.append("ana", "trip", *map(hello, range(2, 6))) == list(range(edge - 1, edge + 3))
        head = await memory.head("ana", "trip")
        assert (head.position, head.count, head.last_user) == (edge + 2, 5, edge + 2)
        for limit in (None, 5, 600):
            window = await memory.read("ana", "trip", after=edge - 1, limit=limit)
            assert [entry.position for entry in window.entries] == [edge, edge + 1, edge + 2]
        assert await ids(memory, before=edge) == ["m1", "m2"]
        assert await memory.delete_message("ana", "trip", "m4")
        assert await memory.append("ana", "trip", hello(6)) == [edge + 3]


async def test_a_generation_goes_on_past_the_edges_of_number_types(path: Path) -> None:
    async with opened(path) as memory:
        await memory.append("ana", "trip", hello(1))
    inside(path, "UPDATE conversation SET generation = ?", 2**53 - 1)
    async with opened(path) as memory:
        await memory.delete_message("ana", "trip", "m1")
        assert (await memory.head("ana", "trip")).generation == 2**53


def sized(size: int, character: str = "x", **fields: Any) -> Message:
    """A message whose row takes exactly so many bytes."""
    empty = make_message("", id="big", **fields)
    room = size - len(encode_row(empty).encode())
    width = len(character.encode())
    return make_message(character * (room // width) + "x" * (room % width), id="big", **fields)


@pytest.mark.parametrize("character", ["x", "中"])
async def test_the_largest_message_is_kept_and_one_byte_more_is_refused(
    memory: Memory, path: Path, character: str
) -> None:
    await memory.append("ana", "trip", hello(1))
    with pytest.raises(MessageTooLarge) as refused:
        await memory.append("ana", "trip", hello(2), sized(MESSAGE_LIMIT + 1, character))
    assert (refused.value.size, refused.value.limit) == (MESSAGE_LIMIT + 1, MESSAGE_LIMIT)
    assert await ids(memory) == ["m1"], "not even the small one before it"
    largest = sized(MESSAGE_LIMIT, character)
    assert await memory.append("ana", "trip", largest) == [2]
    assert (await memory.read("ana", "trip")).entries[1].message == largest


async def test_a_tool_result_is_shortened_in_the_log_from_one_byte_over_its_limit(memory: Memory) -> None:
    fits = sized(RESULT_LIMIT, role="tool", tool_call_id="c1")
    await memory.append("ana", "fits", fits)
    assert (await memory.read("ana", "fits")).entries[0].message == fits
    assert await memory.get_full_message("ana", "fits", "big") is None
    over = sized(RESULT_LIMIT + 1, role="tool", tool_call_id="c1")
    await memory.append("ana", "over", over)
    [entry] = (await memory.read("ana", "over")).entries
    assert len(entry.message.text) < RESULT_LIMIT
    assert f"of {len(over.text):,} characters are not shown here" in entry.message.text
    whole = await memory.get_full_message("ana", "over", "big")
    assert whole is not None
    assert whole["content"] == over.text


# -- settings ------------------------------------------------------------------------------------


def pragma(connection: sqlite3.Connection | None, name: str) -> object:
    assert connection is not None
    return connection.execute(f"PRAGMA {name}").fetchone()[0]


@pytest.mark.parametrize(("setting", "value"), [("FULL", 2), ("NORMAL", 1)])
async def test_the_settings_that_durability_rests_on_are_in_force(
    path: Path, setting: Any, value: int
) -> None:
    store = SqliteStore(str(path), synchronous=setting)
    memory = Memory(store=store)
    await memory.append("ana", "trip", make_message("x" * 100_000, id="m1"))
    await memory.read("ana", "trip")
    assert pragma(store._writer.connection, "synchronous") == value
    assert pragma(store._writer.connection, "journal_mode") == "wal"
    assert pragma(store._writer.connection, "secure_delete") == 1
    for opened in (
        store._writer.connection,
        store._reader.inline_connection,
        store._reader.thread_connection,
    ):
        assert pragma(opened, "wal_autocheckpoint") == 0
    await memory.close()


async def test_full_is_the_default(memory: Memory) -> None:
    assert isinstance(memory._store, SqliteStore)
    await memory.health_check()
    assert pragma(memory._store._writer.connection, "synchronous") == 2


async def test_the_write_ahead_log_is_folded_into_the_file_as_it_grows(memory: Memory, path: Path) -> None:
    for number in range(200):
        await memory.append("ana", "trip", make_message("x" * 100_000, id=f"m{number}"))
    assert Path(f"{path}-wal").stat().st_size < 12_000_000 < path.stat().st_size


def test_the_warning_about_an_old_sqlite_is_given_once() -> None:
    script = """
import logging, sqlite3
logging.basicConfig(format="%(levelname)s %(name)s %(message)s", stream=sys.stdout)
for number in range(3):
    Memory(f"{URL}{number}")
print(sqlite3.sqlite_version_info < (3, 51, 3))
"""
    with tempfile.TemporaryDirectory() as folder:
        *warnings, old = python(script, f"{folder}/memory.db").splitlines()
    assert [line for line in warnings if line.startswith("WARNING autonomy_ctx.memory SQLite 3.")] == warnings
    assert len(warnings) == (1 if old == "True" else 0)


# -- deleted is gone -----------------------------------------------------------------------------

SECRET = "correct horse battery staple"


def files_with(folder: Path, text: str) -> list[str]:
    return [file.name for file in folder.iterdir() if text.encode() in file.read_bytes()]


@pytest.mark.parametrize("others", [0, 400], ids=["alone", "among others"])
@pytest.mark.parametrize("size", [1, 200, 40_000], ids=["short", "long", "too long for the log"])
@pytest.mark.parametrize("what", ["message", "conversation", "scope"])
async def test_deleted_text_is_in_none_of_the_files(
    path: Path, tmp_path: Path, what: str, size: int, others: int
) -> None:
    memory, other = opened(path), opened(path)
    await memory.append("bob", "trip", *(make_message("y" * (n % 300), id=f"y{n}") for n in range(others)))
    tool = {"role": "tool", "tool_call_id": "c1"}
    dice = random.Random(size)
    for number in range(1, 1 + max(1, min(others, 60))):
        secret = make_message(f"{SECRET} " * size, id=f"m{number}", **(tool if size > 1000 else {}))
        await memory.append("ana", "trip", secret)
        await memory.append("bob", "trip", make_message("z" * dice.randrange(900), id=f"z{number}"))
        if size > 1000 and number == 2:
            break
    assert await ids(other)
    assert files_with(tmp_path, SECRET)
    match what:
        case "message":
            for name in await ids(memory):
                await memory.delete_message("ana", "trip", name)
        case "conversation":
            await memory.delete_conversation("ana", "trip")
        case "scope":
            await memory.delete_scope("ana")
    assert files_with(tmp_path, SECRET) == []
    assert await ids(other) == []
    await memory.close()
    await other.close()
    assert files_with(tmp_path, SECRET) == []


# -- nothing is told -----------------------------------------------------------------------------


def all_it_says(error: BaseException | None) -> list[str]:
    """An error and everything it was caused by, as a log would show it, without lines of source."""
    if error is None:
        return []
    shown = [*traceback.format_exception_only(error), repr(error.args)]
    return (
        shown
        + all_it_says(error.__cause__)
        + all_it_says(None if error.__suppress_context__ else error.__context__)
    )


async def test_what_users_say_and_are_called_is_in_no_log_and_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A day on which everything goes wrong, logged in full."""
    caplog.set_level(logging.DEBUG)
    path = tmp_path / "memory.db"
    scope, trip, text = "canary-scope", "canary-conversation", "canary-text"
    secrets = (scope, trip, text)
    memory = opened(path)
    one = make_message(text, id="m1")
    told: list[str] = []

    async def fails(call: Awaitable[object]) -> None:
        with pytest.raises((AutonomyCtxError, ValueError)) as failed:
            await call
        told.extend(all_it_says(failed.value))

    await memory.append(scope, trip, one, {"role": "user", "content": {"type": "text", "text": text}})
    await fails(memory.append(scope, trip, make_message(f"{text} changed", id="m1")))
    await fails(memory.append(scope, trip, make_message(text * 1_000_000, id="m9")))
    await fails(memory.append(scope, trip, {"role": "user", "content": text, "own": {1: text}}))
    await fails(memory.append(scope, trip, {"role": "user", "content": text, "own": float("nan")}))
    await fails(memory.append(f"{scope}\0", trip, one))
    await fails(memory.append(scope, f"{trip}\ud800", one))
    lock = FileLock(f"{path}.lock")
    with lock:
        set_timeout(memory, 0.2)
        await fails(memory.append(scope, trip, make_message(text, id="m2")))
        set_timeout(memory, USUAL)
    lock.close()
    await memory.health_check()
    await memory.delete_message(scope, trip, "m1")
    move(path, tmp_path / "away.db")
    assert not await memory.health_check()
    await fails(memory.append(scope, trip, make_message(text, id="m3")))
    move(tmp_path / "away.db", path)
    await memory.append(scope, trip, make_message(text, id="m4"))
    await memory.close()
    for damage in (
        b'{"role":"user","content":"canary-text',
        b'{"role":"canary-text","content":"canary-text"}',
        b'{"role":"user","content":"canary-text\xff"}',
        b'[2,"Uc","canary-text',
        b'[2,"canary-text","canary-text"]',
        b'[2,"Ack","canary-text",["canary-text"]]',
    ):
        inside(path, "UPDATE message SET body = CAST(? AS TEXT)", damage)
        async with opened(path) as reader:
            await fails(reader.read(scope, trip))
            await fails(reader.read(scope, trip, limit=600))
    await fails(memory.read(scope, trip))
    logged = [record.getMessage() + (record.exc_text or "") for record in caplog.records]
    assert any("not healthy" in line for line in logged)
    for secret in secrets:
        assert [line for line in logged + told if secret in line] == []
