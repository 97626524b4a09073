"""What memory needs of a store: a log per conversation, what is kept beside it, and search.

A log is read by tail or after a position. A store keeps rows; it does not know what a message
means. `rows` turns messages into rows and back, so every store gives back exactly the same messages.
`autonomy_ctx.testing.StoreContract` says in tests what must hold; subclass it to prove your own store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from autonomy_ctx.items.message import Message
from autonomy_ctx.memory.key import Key
from autonomy_ctx.memory.records import Records
from autonomy_ctx.memory.search import Search
from autonomy_ctx.memory.segments import Summaries
from autonomy_ctx.memory.work import Work


class Draft(NamedTuple):
    """A message ready to be stored: everything a row needs, checked and encoded."""

    message: Message
    body: str
    size: int
    tokens: int
    counter: str
    # The whole message, when `message` is a shortened form of one too large for the log.
    whole: str | None = None


class Entry(NamedTuple):
    """A message at its place in the log."""

    position: int
    message: Message


@dataclass(frozen=True, slots=True)
class Head:
    """Where a conversation stands: the last position given, messages kept, and which past is meant.

    Deleting raises the generation: whatever was derived from an older one is void. A change of the
    segments in force or the pins raises the revision: same revision and generation, same summary.
    """

    position: int = 0
    count: int = 0
    generation: int = 0
    last_user: int = 0
    revision: int = 0


class Window(NamedTuple):
    """Entries in order, and the head they were read with, in one snapshot."""

    head: Head
    entries: Sequence[Entry]


class Log(Protocol):
    """Where messages are kept. Appends never overwrite; reads come back in order."""

    async def append(self, key: Key, drafts: Sequence[Draft]) -> list[int]:
        """Store all drafts or none; positions are gap-free, a known id gives its old position."""

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        """The newest `limit` entries between two positions, both excluded."""

    async def head(self, key: Key) -> Head:
        """Where the conversation stands."""

    async def whole(self, key: Key, message_id: str) -> str | None:
        """The uncut body of a message that was too large for the log."""

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete a scope, a conversation or some of its messages, whole; how many messages went."""


class Store(Log, Summaries, Work, Records, Search, Protocol):
    """A log with its summaries, the work they are owed, records and search, and a life of its own."""

    @property
    def identity(self) -> object:
        """Which log this is; another object when a file has been put in the place of the first."""

    async def check(self) -> None:
        """Raise the error a user should see if the store cannot be written now."""

    async def close(self) -> None:
        """Finish what was accepted and let go of everything; a second close does nothing."""
