"""Errors of stores: memory could not be read, written or copied."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.errors.root import AutonomyCtxError


class StoreError(AutonomyCtxError):
    """Memory could not be read or written. Data that was acknowledged before is not affected."""


class StoreBusy(StoreError):
    """The store did not answer within the timeout, because others used it or its disk was slow."""

    def __init__(
        self,
        *,
        path: str,
        seconds: float,
        problem: str = "did not answer (another writer, or a slow disk) for",
        advice: str = "Try again, raise `timeout`, or look for a process that keeps a transaction open",
    ) -> None:
        super().__init__(f"{path} {problem} {seconds:g} s; nothing was stored. {advice}")


class StoreUnavailable(StoreError):
    """The store cannot be reached or opened."""

    def __init__(self, *, path: str, problem: str, advice: str) -> None:
        super().__init__(f"{path}: {problem}; {advice}")


class StoreFull(StoreError):
    """There is no room to write."""

    def __init__(self, *, path: str, problem: str) -> None:
        super().__init__(
            f"{path}: {problem}; nothing was stored. Free some disk space; "
            f"the memory then works again without a restart"
        )


class StoreCorrupt(StoreError):
    """The store is damaged. Nothing is read from it, because half a history would mislead the model."""

    def __init__(self, *, path: str, problem: str, advice: str | None = None) -> None:
        if advice is None:
            advice = f"Restore a backup, or save what can be saved with `sqlite3 {path} .recover`"
        super().__init__(f"{path} is damaged ({problem}); nothing is read from it. {advice}")


class StoreClosed(StoreError):
    """The memory was used after `close()`."""

    def __init__(self, path: str) -> None:
        super().__init__(f"memory on {path} is closed; make a new `Memory` to continue")


class SchemaTooNew(StoreError):
    """The file was written by a newer version of the library."""

    def __init__(self, *, path: str, found: int, known: int) -> None:
        super().__init__(
            f"{path} has schema version {found}, and this version of autonomy_ctx reads up to {known}; "
            f"upgrade autonomy_ctx to open it"
        )


class StoredFormTooNew(StoreError):
    """A stored message was written by a newer version of the library."""

    def __init__(self, *, found: int, known: int) -> None:
        super().__init__(
            f"a message has stored format {found}, and this version of autonomy_ctx reads up to {known}; "
            f"upgrade autonomy_ctx to read it"
        )
        self.found, self.known = found, known


class CopyConflict(StoreError):
    """The target of a copy has another conversation of the same name, which was not changed."""

    def __init__(self, key: tuple[str, str, str]) -> None:
        super().__init__(
            f"the target has other messages in {_conversation_text(key)}; copy into an empty memory, or "
            f"delete that conversation there and copy again"
        )
        self.key = key


class CopyMismatch(StoreError):
    """After a copy, the source and the target differ."""

    def __init__(self, keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__(
            f"{len(keys):,} conversations differ after the copy, such as {_conversation_text(keys[0])}; "
            f"stop every process that writes to the source, and copy again"
        )
        self.keys = list(keys)


def _conversation_text(key: tuple[str, str, str]) -> str:
    agent, scope, conversation = key
    return f"conversation {conversation!r} of scope {scope!r}" + (f" with agent {agent!r}" if agent else "")
