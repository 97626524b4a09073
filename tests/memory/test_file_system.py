"""A file system that is gone or has failed says so; the database is not called damaged."""

from __future__ import annotations

import os
import shutil
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autonomy_ctx import Memory, Message
from autonomy_ctx.errors import StoreCorrupt, StoreError, StoreUnavailable
from autonomy_ctx.memory.sqlite.connection import translate_error

# ext4's ioctl that lets a file system fail: "shut down, without writing the journal".
_SHUTDOWN, _NO_JOURNAL_FLUSH = 0x8004587D, 2


def read_damaged(path: Path) -> sqlite3.DatabaseError:
    """What SQLite says of a file that is no database."""
    path.write_bytes(b"x" * 4096)
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute("SELECT * FROM sqlite_master")
        except sqlite3.DatabaseError as error:
            return error
    raise AssertionError("it was read")


def test_what_cannot_be_read_is_damaged_only_if_its_file_system_works(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    error, path = read_damaged(folder / "memory.db"), str(folder / "memory.db")
    assert isinstance(translate_error(error, path, 1.0), StoreCorrupt)
    assert os.listdir(folder) == ["memory.db"], "nothing is left of the look at the file system"
    shutil.rmtree(folder)
    gone = translate_error(error, path, 1.0)
    assert isinstance(gone, StoreUnavailable)
    assert "is gone or has failed (No such file or directory)" in str(gone)


async def test_a_file_that_was_only_read_is_not_made_again_when_it_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    reader = Memory(f"sqlite:///{path}")
    async with Memory(f"sqlite:///{path}") as memory:
        await memory.append("ana", "trip", Message("user", "hello"))
        assert len((await reader.read("ana", "trip")).entries) == 1
    for name in os.listdir(tmp_path):
        os.unlink(tmp_path / name)
    with pytest.raises(StoreUnavailable, match="gone"):
        await reader.append("ana", "trip", Message("user", "new"))
    assert not path.exists()
    await reader.close()


async def test_a_removed_folder_is_named_and_no_other_file_is_closed(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    memory = Memory(f"sqlite:///{folder / 'memory.db'}")
    await memory.append("ana", "trip", Message("user", "hello"))
    shutil.rmtree(folder)
    other = os.open(tmp_path / "other", os.O_CREAT | os.O_RDWR)
    for _ in range(3):
        with pytest.raises(StoreUnavailable) as raised:
            await memory.append("ana", "trip", Message("user", "new"))
        assert "Bad file descriptor" not in str(raised.value)
    await memory.close()
    os.close(other)


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own."""
    image, folder = tmp_path / "image", tmp_path / "mounted"
    folder.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 8 * 1024 * 1024)
    try:
        for command in (
            ["mkfs.ext4", "-q", "-F", str(image)],
            ["mount", "-o", "loop", str(image), str(folder)],
        ):
            subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root can mount a file system")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.skipif(sys.platform != "linux", reason="ext4 is of Linux")
async def test_a_file_system_that_fails_is_not_a_damaged_database(mounted: Path) -> None:
    import fcntl

    path = mounted / "memory.db"
    writer, reader = Memory(f"sqlite:///{path}"), Memory(f"sqlite:///{path}")
    for number in range(100):
        await writer.append("ana", "trip", Message("user", "x" * 3000, id=f"m{number}"))
    await reader.read("ana", "trip", limit=2)
    file = os.open(mounted, os.O_RDONLY)
    fcntl.ioctl(file, _SHUTDOWN, struct.pack("I", _NO_JOURNAL_FLUSH))
    os.close(file)
    problems: list[StoreError] = []
    for memory in (writer, reader, Memory(f"sqlite:///{path}")):
        uses: list[Awaitable[object]] = [
            memory.read("ana", "trip"),
            memory.append("ana", "trip", Message("user", "new")),
            memory.search("ana", "hello"),
        ]
        for use in uses:
            try:
                await use
            except StoreError as error:
                problems.append(error)
        await memory.close()
    assert len(problems) == 9
    assert {type(problem) for problem in problems} == {StoreUnavailable}
