"""What is wrong with a message, or with the names of its conversation."""

from __future__ import annotations

from autonomy_ctx.errors.root import AutonomyCtxError


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

    def __init__(self, *, message_id: str, position: int | None = None) -> None:
        where = "in use" if position is None else f"at position {position}"
        super().__init__(
            f"message id {message_id!r} is already {where} with other content; "
            f"messages are never rewritten: send the new content under a new id"
        )
        self.message_id, self.position = message_id, position


class MailboxFull(AutonomyCtxError):
    """So many direct messages wait for an agent in one conversation that no more are taken."""

    def __init__(self, *, target: str, waiting: int, limit: int, size: int, most_bytes: int) -> None:
        super().__init__(
            f"{waiting:,} direct messages ({size:,} bytes) wait for agent {target!r} in this conversation, "
            f"at most {limit:,} ({most_bytes:,} bytes) may; nothing was stored and nothing was dropped. "
            f"Let the agent take a turn, which delivers them, or send with a `ttl_seconds`"
        )
        self.target, self.waiting, self.limit = target, waiting, limit
        self.size, self.most_bytes = size, most_bytes


class InvalidKey(AutonomyCtxError, ValueError):
    """An agent, scope or conversation name that cannot name a conversation."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"invalid {part}: {problem}")
        self.part = part
