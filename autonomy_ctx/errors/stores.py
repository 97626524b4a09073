"""Memory could not be read or written."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


class StoreError(AutonomyCtxError):
    """Memory could not be read or written; what was acknowledged before is untouched."""


class StoreBusy(StoreError):
    """Somebody else held the write lock for longer than the timeout."""

    def __init__(self, *, path: str, seconds: float) -> None:
        super().__init__(
            f"{path} was locked by another writer for {seconds:g} s; nothing was stored. "
            f"Try again, raise `timeout`, or look for a process that keeps a transaction open"
        )


class StoreUnavailable(StoreError):
    """The store cannot be reached or opened."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path}: {problem}; {advice}")


class StoreFull(StoreError):
    """There is no room to write."""

    def __init__(self, *, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}; nothing was stored. Free some disk space: "
            f"the same memory goes on by itself, no restart is needed"
        )


class StoreCorrupt(StoreError):
    """The file is damaged; answering from half a history would be worse than not answering."""

    def __init__(self, *, path: str, problem: str) -> None:
        super().__init__(
            f"{path} is damaged ({problem}); nothing is read from it. Restore a backup, or save what "
            f"can be saved with `sqlite3 {path} .recover`"
        )


class StoreClosed(StoreError):
    """The memory was used after `close()`."""

    def __init__(self, path: str) -> None:
        super().__init__(f"memory on {path} is closed; make a new `Memory` to go on")


class SchemaTooNew(StoreError):
    """The file was written by a newer version of the library."""

    def __init__(self, *, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, this version of autonomy_ctx knows up to {known}; "
            f"upgrade autonomy_ctx to open it"
        )
