"""The progress file: a small file beside the database that says how far it had come.

If the write-ahead log was cut, SQLite silently reads a shorter history. The progress file is written after
synced commits, and is not synced itself. So it may be behind the database, but never ahead of it, and a
database that is behind the progress file has lost commits.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from typing import NamedTuple
from zlib import crc32

from autonomy_ctx.errors import StoreCorrupt
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.sqlite.connection import NEW_FILE_MODE

_SQL = load_statements("sqlite", "session")


class Progress(NamedTuple):
    """Which database it is, how many commits it has had, and how many messages with them."""

    database: str
    commits: int
    messages: int

    def encode(self) -> bytes:
        """One line that always has the same length, and says whether it is whole."""
        text = f"{self.database} commits {self.commits:020} messages {self.messages:020}"
        return f"{text} {crc32(text.encode()):08x}\n".encode()


def decode_progress(data: bytes) -> Progress | None:
    """Decode a line; None when it is not complete, as after a power cut."""
    try:
        database, _, commits, _, messages, _ = data.decode().split(" ")
        progress = Progress(database, int(commits), int(messages))
    except ValueError:
        return None
    return progress if progress.encode() == data else None


class ProgressFile:
    """The progress file of the database at a path."""

    def __init__(self, path: str) -> None:
        self.path = f"{path}.progress"
        self._file: int | None = None

    def read(self) -> Progress | None:
        """The content of the file; None if there is no file or it is not complete."""
        try:
            with open(self.path, "rb") as file:
                return decode_progress(file.read(1024))
        except OSError:
            return None

    def write(self, progress: Progress) -> None:
        """Write the progress of the database. A failure is harmless: the file is then only behind."""
        with suppress(OSError):
            if self._file is not None and not os.fstat(self._file).st_nlink:
                self.close()
            if self._file is None:
                self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, NEW_FILE_MODE)
            os.pwrite(self._file, progress.encode(), 0)

    def remove(self) -> None:
        """Say nothing until the next commit."""
        with suppress(FileNotFoundError):
            os.unlink(self.path)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def check_progress(connection: sqlite3.Connection, path: str, known: Progress | None) -> None:
    """Raise `StoreCorrupt` when a database has less than its progress file, read before, knows of."""
    if known is None:
        return
    has_row = connection.execute(_SQL["has_progress"]).fetchone()
    row = connection.execute(_SQL["select_progress"]).fetchone() if has_row else None
    # Without the row, the database is from before its first commit; with another name, it is another one.
    found = Progress(known.database, 0, 0) if row is None else Progress(*row)
    if found.database == known.database and found.commits < known.commits:
        raise StoreCorrupt(
            path=path,
            problem=f"the last {known.commits - found.commits:,} of {known.commits:,} commits, with "
            f"{known.messages - found.messages:,} messages, are missing: {path}-wal was cut or removed",
            advice=f"Put back the {path}-wal that belongs to it. If this is a backup that you restored, "
            f"open it once with `accept_shorter=True`",
        )
