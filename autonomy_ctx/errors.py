"""Every error a user can meet, in one tree. Each writes its own sentence and says what to do.

Callers pass facts, not prose, so the same fault reads the same everywhere. No error text holds
message content: it may end up in a log that another tenant's operator reads.
"""

from __future__ import annotations


class AutonomyCtxError(Exception):
    """The root of all errors raised on purpose by this library."""


class InvalidMessage(AutonomyCtxError, ValueError):
    """Something that should be a message is not one; nothing was stored."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid message: `{field}` {problem}")
        self.field, self.problem = field, problem


class MessageTooLarge(InvalidMessage):
    """A message is over the size that one log entry may have."""

    def __init__(self, *, size: int, limit: int) -> None:
        super().__init__(
            "content",
            f"needs {size:,} bytes, one message may have {limit:,}; "
            f"split it, or store it as a file and send a reference",
        )
        self.size, self.limit = size, limit


class ConflictingMessage(AutonomyCtxError):
    """A message id was used again for other content."""

    def __init__(self, *, message_id: str, position: int) -> None:
        super().__init__(
            f"message id {message_id!r} is already at position {position} with other content; "
            f"messages are never rewritten: send the new content under a new id"
        )
        self.message_id, self.position = message_id, position


class InvalidKey(AutonomyCtxError, ValueError):
    """An agent, scope or conversation name that cannot name a conversation."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"invalid {part}: {problem}")
        self.part = part


class SectionError(AutonomyCtxError):
    """A section that may not be left out failed, so there is no context to send."""

    def __init__(self, *, section: str, problem: str) -> None:
        super().__init__(
            f"required section `{section}` {problem}; no context was composed. "
            f"Mend the section, or set `required = False` on it before it joins the template "
            f"if a turn may go on without it"
        )
        self.section = section


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
