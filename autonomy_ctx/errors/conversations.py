"""Errors of messages, conversations, facts and pins."""

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
            f"needs {size:,} bytes, and a message may have at most {limit:,}; "
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


class UnknownConversation(AutonomyCtxError, LookupError):
    """A conversation that should be forked or inspected has no messages; nothing was changed."""

    def __init__(self, conversation: str) -> None:
        super().__init__(
            f"conversation {conversation!r} has no messages in this scope with this agent; "
            f"`memory.conversations(scope)` lists the conversations that have some"
        )
        self.conversation = conversation


class UnknownPosition(AutonomyCtxError, LookupError):
    """A conversation has no message at this position, or the message was deleted."""

    def __init__(self, *, position: int, last: int) -> None:
        super().__init__(
            f"there is no message at position {position}; the last position of the conversation is {last}, "
            f"and a deleted message leaves its position empty"
        )
        self.position, self.last = position, last


class InvalidFork(AutonomyCtxError, ValueError):
    """A fork cannot be made: its name is in use, or the position does not exist. Nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid fork: `{field}` {problem}")
        self.field, self.problem = field, problem


class SharedTurn(AutonomyCtxError):
    """The last turn cannot be deleted, because a fork shares it; nothing was deleted."""

    def __init__(self, *, conversation: str, position: int) -> None:
        elsewhere = f"fork it with `at={position - 1}`" if position > 1 else "start a new conversation"
        super().__init__(
            f"the last turn of conversation {conversation!r}, from position {position} on, is shared with a "
            f"fork; {elsewhere} and continue there. `delete_message` deletes a message from both"
        )
        self.conversation, self.position = conversation, position


class MailboxFull(AutonomyCtxError):
    """Too many direct messages wait for an agent in one conversation; the new message was not stored."""

    def __init__(self, *, target: str, waiting: int, limit: int, size: int, most_bytes: int) -> None:
        super().__init__(
            f"{waiting:,} direct messages ({size:,} bytes) wait for agent {target!r} in this conversation, "
            f"and at most {limit:,} ({most_bytes:,} bytes) may wait; nothing was stored or deleted. "
            f"Let the agent take a turn, which delivers them, or send with a `ttl_seconds`"
        )
        self.target, self.waiting, self.limit = target, waiting, limit
        self.size, self.most_bytes = size, most_bytes


class InvalidKey(AutonomyCtxError, ValueError):
    """The name of an agent, a scope or a conversation is invalid."""

    def __init__(self, part: str, problem: str) -> None:
        super().__init__(f"invalid {part}: {problem}")
        self.part = part


class InvalidFact(AutonomyCtxError, ValueError):
    """Something that should be a fact is not one; nothing was changed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"invalid fact: `{field}` {problem}")
        self.field, self.problem = field, problem


class UnknownFact(AutonomyCtxError, LookupError):
    """The conversation has no fact with this id; nothing was changed."""

    def __init__(self, fact_id: str) -> None:
        super().__init__(f"this conversation has no fact {fact_id!r}; `await facts` lists its facts")
        self.fact_id = fact_id


class UnknownProfileEntry(AutonomyCtxError, LookupError):
    """The profile has no entry with this id; nothing was changed."""

    def __init__(self, entry_id: str) -> None:
        super().__init__(
            f"this profile has no entry {entry_id!r}; `await memory.profile(scope)` lists its entries"
        )
        self.entry_id = entry_id


class NotPinned(AutonomyCtxError, LookupError):
    """The message that a pin should replace is not pinned; nothing was changed."""

    def __init__(self, message_id: str) -> None:
        super().__init__(
            f"message {message_id!r} is not pinned in this conversation, so no pin can replace it; "
            f"`(await memory.summary(scope, conversation)).pins` lists the pinned messages"
        )
        self.message_id = message_id


class InvalidPin(AutonomyCtxError, ValueError):
    """A model may not pin this message, or there is no room for it; nothing was changed."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"not pinned: {problem}")
        self.problem = problem
