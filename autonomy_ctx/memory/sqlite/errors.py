"""SQLite's errors in words a user can act on."""

from __future__ import annotations

import sqlite3

from autonomy_ctx.errors import (
    AutonomyCtxError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreUnavailable,
)


class UnreadableRow(Exception):
    """What SQLite gave cannot be what was stored: the file is damaged, or something else wrote to it."""


def translated(error: BaseException, path: str, seconds: float) -> BaseException:
    """The error a user should see; an error that is already ours, or is no store's, stays."""
    if isinstance(error, AutonomyCtxError):
        return error
    if isinstance(error, OSError):
        return StoreUnavailable(
            path=path, problem=f"the operating system refused ({error.strerror})", advice="nothing was stored"
        )
    if isinstance(error, UnreadableRow):
        return StoreCorrupt(path=path, problem=str(error))
    if not isinstance(error, sqlite3.Error):
        return error
    if "decode to UTF-8" in str(error):
        return StoreCorrupt(path=path, problem="it holds text that is not UTF-8")
    if "no such module: fts5" in str(error):
        return StoreUnavailable(
            path=path,
            problem=f"SQLite {sqlite3.sqlite_version} was built without FTS5, which search needs",
            advice="use a Python whose SQLite has FTS5",
        )
    code = getattr(error, "sqlite_errorcode", None)
    name = getattr(error, "sqlite_errorname", None) or type(error).__name__
    match None if code is None else code & 0xFF:
        case sqlite3.SQLITE_FULL:
            return StoreFull(path=path, problem="the disk is full")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(path=path, problem=name)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(path=path, seconds=seconds)
        case sqlite3.SQLITE_IOERR:
            return StoreUnavailable(
                path=path,
                problem=f"the disk reported an error ({name}), nothing was stored",
                advice="look at the disk and its free space; the same memory goes on when it works again",
            )
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_AUTH:
            return StoreUnavailable(
                path=path,
                problem=f"cannot be opened for writing ({name})",
                advice="check that the file and its folder belong to this user and are not read-only",
            )
    return StoreError(f"{path}: SQLite refused with {name}; nothing was stored")
