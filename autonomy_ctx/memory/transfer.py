"""`copy_memory`: copies one memory into another, for a move from SQLite to PostgreSQL or back.

Rows are copied as they are: positions, ids, times, summaries, facts, pins, forks and records stay the same.
An interrupted copy continues where it stopped. At the end, both sides are read and compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, runtime_checkable

from autonomy_ctx.errors import CopyConflict, CopyMismatch, StoreUnavailable
from autonomy_ctx.memory.encoding import REPLACED_BY_UNDO, MessageRow
from autonomy_ctx.memory.facts import EndedFact
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Head, Key, PinSource, StoredSegment, check_name

KEYS_PER_PAGE = 500
MESSAGES_PER_PAGE = 500


class PinRow(NamedTuple):
    """A pin as it is stored: `pinned_at` in seconds since 1970 by the store's clock."""

    position: int
    pinned_at: float | None
    source: PinSource


class SegmentCopy(NamedTuple):
    """A segment, the number of the one that stands for it now, and of the one that left it as a rest."""

    segment: StoredSegment
    replaced_by: int | None
    rest_of: int | None


class RecordCopy(NamedTuple):
    """A record without its number."""

    kind: str
    name: str
    at: float
    derived: bool
    body: str
    # Whether it quotes messages. In the target, any message of the scope counts as quoted.
    quotes: bool = False


class RangeCopy(NamedTuple):
    """Positions of a fork that are messages of another conversation of the same scope and agent."""

    source: Key
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ConversationCopy:
    """All of a conversation but its own messages. Segments are in the order of their numbers."""

    head: Head
    last_fact: int = 0
    ranges: tuple[RangeCopy, ...] = ()
    segments: tuple[SegmentCopy, ...] = ()
    facts: tuple[EndedFact, ...] = ()
    pins: tuple[PinRow, ...] = ()
    records: tuple[RecordCopy, ...] = ()

    def digest(self) -> str:
        """A digest that is equal for equal content: numbers that only name rows do not count."""
        places = {one.segment.number: at for at, one in enumerate(self.segments)}
        said = (
            (self.head.position, self.head.count, self.head.last_user, self.last_fact),
            self.ranges,
            [
                (
                    replace(segment, number=0, generation=0),
                    None if replaced_by is None else places.get(replaced_by, -1),
                    None if rest_of is None else places.get(rest_of, -1),
                )
                for segment, replaced_by, rest_of in self.segments
            ],
            [(row._replace(segment=places.get(row.segment, -1)), ended_by) for row, ended_by in self.facts],
            self.pins,
            self.records,
        )
        return hashlib.sha256(repr(said).encode("utf-8", "surrogatepass")).hexdigest()


def renumber(number: int | None, numbers: Mapping[int, int]) -> int | None:
    """The number that a segment has in the target; of one that has gone, the one of those taken back."""
    return None if number is None else numbers.get(number, REPLACED_BY_UNDO)


@runtime_checkable
class Transfer(Protocol):
    """A store whose rows can be copied out of it and into it."""

    async def count_conversations(self, scope: str | None) -> int:
        """Count the conversations, also those without messages."""

    async def export_keys(self, scope: str | None, *, after: int, limit: int) -> list[tuple[int, Key]]:
        """The next conversations after a number, in the order they were made: a source before its forks."""

    async def export_messages(self, key: Key, *, after: int, last: int, limit: int) -> list[MessageRow]:
        """The next messages of a conversation's own, after a position, up to another."""

    async def last_own_position(self, key: Key) -> int:
        """The position of the newest message of a conversation's own; 0 when it has none."""

    async def export_conversation(self, key: Key) -> ConversationCopy:
        """All of a conversation but its messages."""

    async def import_messages(self, key: Key, rows: Sequence[MessageRow], *, generation: int) -> None:
        """Store messages of a conversation at their positions, all or none."""

    async def import_conversation(self, key: Key, copy: ConversationCopy) -> None:
        """Replace all data of the conversation except its own messages by this data."""


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy."""

    # "copy" or "check".
    step: str
    conversations: int
    total_conversations: int
    messages: int


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy and of the comparison at its end."""

    conversations: int
    messages: int
    # Of these, the ones that were there already from an earlier copy.
    unchanged_conversations: int
    # Over all conversations and messages, the same for both sides.
    digest: str


async def copy_memory(
    source: Memory | str,
    target: Memory | str,
    *,
    scope: str | None = None,
    progress: Callable[[CopyProgress], None] | None = None,
) -> CopyReport:
    """Copy all conversations, or those of one scope, from one memory into another, and compare both.

    `source` and `target` are memories or their URLs. After an interruption, call it again: it continues where
    it stopped. Stop all processes that write to the source before the last call. Raises `CopyConflict` if the
    target has another conversation of the same name, which stays unchanged. Raises `CopyMismatch` if both
    sides differ at the end, for example because the source was changed meanwhile.
    """
    if scope is not None:
        check_name("scope", scope)
    async with AsyncExitStack() as stack:
        stores: list[Transfer] = []
        for name, side in (("source", source), ("target", target)):
            if not isinstance(side, Memory | str):
                raise TypeError(f"{name} is {type(side).__name__}; it must be a Memory or the URL of one")
            memory = await stack.enter_async_context(Memory(side)) if isinstance(side, str) else side
            stores.append(_as_transfer(name, memory))
        return await _CopyRun(stores[0], stores[1], scope, progress).run()


def _as_transfer(name: str, memory: Memory) -> Transfer:
    if not isinstance(memory.store, Transfer):
        raise StoreUnavailable(
            path=f"the {name}",
            problem=f"{type(memory.store).__name__} cannot be copied row by row",
            advice="copy between sqlite:/// and postgresql:// memories",
        )
    return memory.store


class _CopyRun:
    """One run of a copy."""

    def __init__(
        self,
        source: Transfer,
        target: Transfer,
        scope: str | None,
        progress: Callable[[CopyProgress], None] | None,
    ) -> None:
        self._source, self._target = source, target
        self._scope, self._progress = scope, progress
        self._conversations = self._messages = self._unchanged = 0
        self._total = 0
        self._differing: list[Key] = []
        self._compared = hashlib.sha256()

    async def run(self) -> CopyReport:
        self._total = await self._source.count_conversations(self._scope)
        await self._for_each(self._copy)
        self._conversations = self._messages = 0
        await self._for_each(self._compare)
        if self._differing:
            raise CopyMismatch(self._differing)
        return CopyReport(self._conversations, self._messages, self._unchanged, self._compared.hexdigest())

    async def _for_each(self, work: Callable[[Key], Awaitable[None]]) -> None:
        """Do something with every conversation of the source, a source before its forks."""
        after = 0
        while page := await self._source.export_keys(self._scope, after=after, limit=KEYS_PER_PAGE):
            for _, key in page:
                await work(key)
            after = page[-1][0]

    async def _copy(self, key: Key) -> None:
        """Copy what the target does not have of one conversation."""
        copy, after = await self._source.export_conversation(key), await self._target.last_own_position(key)
        if after:
            await self._check_same(key, after)
        before = self._messages
        while rows := await self._read_page(self._source, key, after, copy):
            await self._target.import_messages(key, rows, generation=copy.head.generation)
            after = rows[-1].position
            self._messages += len(rows)
            self._tell("copy")
        known = await self._target.export_conversation(key)
        if known.digest() != copy.digest():
            await self._target.import_conversation(key, copy)
        elif self._messages == before:
            self._unchanged += 1
        self._conversations += 1
        self._tell("copy")

    async def _check_same(self, key: Key, position: int) -> None:
        """Refuse a conversation of the target that is not the beginning of the source's."""
        place = {"after": position - 1, "last": position, "limit": 1}
        ours = await self._source.export_messages(key, **place)
        if ours != await self._target.export_messages(key, **place):
            raise CopyConflict(key)

    async def _compare(self, key: Key) -> None:
        """Read one conversation on both sides."""
        ours, messages = await self._digest(self._source, key)
        if ours != (await self._digest(self._target, key))[0]:
            self._differing.append(key)
        self._compared.update(ours.encode())
        self._conversations += 1
        self._messages += messages
        self._tell("check")

    async def _digest(self, store: Transfer, key: Key) -> tuple[str, int]:
        """The digest of a conversation, and how many messages it has of its own."""
        copy, found = await store.export_conversation(key), hashlib.sha256()
        found.update(copy.digest().encode())
        after = messages = 0
        while rows := await self._read_page(store, key, after, copy):
            found.update(repr(rows).encode("utf-8", "surrogatepass"))
            after = rows[-1].position
            messages += len(rows)
        return found.hexdigest(), messages

    async def _read_page(
        self, store: Transfer, key: Key, after: int, copy: ConversationCopy
    ) -> list[MessageRow]:
        return await store.export_messages(key, after=after, last=copy.head.position, limit=MESSAGES_PER_PAGE)

    def _tell(self, step: str) -> None:
        if self._progress is not None:
            self._progress(CopyProgress(step, self._conversations, self._total, self._messages))
