"""The store that `Memory()` uses: everything in plain Python objects, gone when the process ends."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from autonomy_ctx.errors import ConflictingMessage, StoreClosed
from autonomy_ctx.items.fact import Fact, FactChange
from autonomy_ctx.items.message import ChatRole
from autonomy_ctx.memory.encoding import encode_row, same_content
from autonomy_ctx.memory.facts import USERS_SEGMENT, FactRows
from autonomy_ctx.memory.rows import RecordRows, SegmentRows, WorkRows
from autonomy_ctx.memory.store import (
    ConversationInfo,
    Draft,
    Entry,
    Head,
    IndexedMessage,
    Key,
    Lease,
    Record,
    SearchHit,
    StoredSegment,
    SummaryState,
    Window,
    check_drop,
    check_put,
    check_read,
    query_terms,
)

if TYPE_CHECKING:
    from autonomy_ctx.memory.name_index import NameIndex
    from autonomy_ctx.memory.search_index import SearchIndex


class _ConversationLog:
    """One log: entries by position, positions by id; and what was made from it."""

    __slots__ = ("entries", "facts", "head", "pins", "positions", "records", "segments", "wholes")

    def __init__(self) -> None:
        self.head = Head()
        self.entries: list[Entry] = []
        self.positions: dict[str, int] = {}
        self.wholes: dict[int, str] = {}
        self.segments = SegmentRows()
        self.facts = FactRows()
        self.records = RecordRows()
        self.pins: set[int] = set()

    def body(self, message_id: str) -> str | None:
        """What an id stands for, uncut, to tell a retry from a conflict."""
        position = self.positions.get(message_id)
        if position is None:
            return None
        return self.wholes.get(position) or encode_row(self.entry(position).message)

    def entry(self, position: int) -> Entry:
        """The entry at a position where there is one."""
        return self.entries[bisect_left(self.entries, position, key=_position)]

    def after(self, position: int) -> list[Entry]:
        """The entries after a position."""
        return self.entries[bisect_right(self.entries, position, key=_position) :]

    def has(self, position: int) -> bool:
        """Whether there is an entry at a position."""
        at = bisect_left(self.entries, position, key=_position)
        return at < len(self.entries) and self.entries[at].position == position

    def revise(self, *, new_generation: bool = False) -> None:
        """Note that the segments in force, the pins or the facts have changed."""
        head = self.head
        self.head = replace(head, revision=head.revision + 1, generation=head.generation + new_generation)


class InProcessStore:
    """Logs in plain lists."""

    in_memory = True

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._conversations: dict[Key, _ConversationLog] = {}
        self._work = WorkRows()
        self._index: SearchIndex | None = None
        # Made by the first listing.
        self._names: NameIndex | None = None
        self._clock = clock
        self._closed = False

    async def append(self, key: Key, drafts: Sequence[Draft]) -> list[int]:
        self._check_open()
        log = self._conversations.get(key) or _ConversationLog()
        positions: dict[str, int] = {}
        fresh: dict[str, Draft] = {}
        for draft in drafts:
            message_id = draft.message.id
            known = _whole_body(fresh[message_id]) if message_id in fresh else log.body(message_id)
            if known is None:
                fresh[message_id] = draft
                positions[message_id] = log.head.position + len(fresh)
                continue
            positions.setdefault(message_id, log.positions.get(message_id, 0))
            if not same_content(known, _whole_body(draft)):
                raise ConflictingMessage(message_id=message_id, position=positions[message_id])
        position, last_user = log.head.position, log.head.last_user
        for message_id, draft in fresh.items():
            position += 1
            log.entries.append(Entry(position, draft.message))
            log.positions[message_id] = position
            if draft.whole is not None:
                log.wholes[position] = draft.whole
            if draft.message.role is ChatRole.USER:
                last_user = position
        if fresh and not log.head.count and self._names is not None:
            self._names.add(key)
        log.head = replace(
            log.head, position=position, count=log.head.count + len(fresh), last_user=last_user
        )
        self._conversations[key] = log
        return [positions[draft.message.id] for draft in drafts]

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        self._check_open()
        log = self._conversations.get(key)
        if log is None:
            return Window(Head(), [])
        entries = log.entries
        start = bisect_right(entries, after, key=_position) if after else 0
        stop = len(entries) if before is None else bisect_left(entries, before, key=_position)
        if limit is not None:
            start = max(start, stop - limit)
        return Window(log.head, entries[start:stop])

    async def head(self, key: Key) -> Head:
        self._check_open()
        log = self._conversations.get(key)
        return Head() if log is None else log.head

    async def whole(self, key: Key, message_id: str) -> str | None:
        self._check_open()
        log = self._conversations.get(key)
        return None if log is None else log.wholes.get(log.positions.get(message_id, 0))

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        self._check_open()
        deleted = 0
        for key, log in self._matching(scope, agent, conversation):
            gone = _delete_messages(log, ids)
            if gone or ids is None:
                log.records.delete_all(only_derived=ids is not None)
            deleted += gone
            if not log.entries:
                self._work.delete(key)
                if gone and self._names is not None:
                    self._names.remove(key)
        if deleted and self._index is not None:
            self._index.retire()
        return deleted

    async def summary(self, key: Key) -> SummaryState:
        self._check_open()
        log = self._conversations.get(key)
        if log is None:
            return SummaryState(Head())
        pins = tuple(log.entry(position) for position in sorted(log.pins))
        return SummaryState(log.head, log.segments.in_force, pins, log.facts.in_force())

    async def commit_segment(
        self,
        key: Key,
        segment: StoredSegment,
        *,
        generation: int,
        fence: int | None,
        facts: Sequence[FactChange] | None = None,
    ) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        if log is None or log.head.generation != generation:
            return False
        if fence is not None and not self._work.is_leased(key, fence):
            return False
        number = log.segments.commit(segment, log.head, self._clock())
        if number is None:
            return False
        if facts is not None:
            log.facts.drop(lambda row: segment.first <= row.position <= segment.last)
            log.facts.write(facts, segment=number)
        log.revise()
        return True

    async def undo_segment(self, key: Key) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        undone = None if log is None else log.segments.undo()
        if log is None or undone is None:
            return False
        log.facts.drop(lambda row: row.segment == undone)
        log.revise(new_generation=True)
        return True

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        self._check_open()
        dropped = 0
        for key, log in self._matching(scope, agent, conversation):
            self._work.delete(key)
            dropped += len(log.segments.in_force)
            facts = log.facts.drop(lambda row: True)
            if log.segments.delete_from(0) or facts:
                log.revise(new_generation=True)
        return dropped

    async def pin(self, key: Key, message_id: str, pinned: bool) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        position = None if log is None else log.positions.get(message_id)
        if log is None or position is None:
            return False
        if pinned != (position in log.pins):
            log.pins ^= {position}
            log.revise()
        return True

    async def facts(self, key: Key) -> list[Fact]:
        self._check_open()
        log = self._conversations.get(key)
        return [] if log is None else log.facts.all()

    async def write_facts(self, key: Key, changes: Sequence[FactChange]) -> list[Fact]:
        self._check_open()
        log = self._conversations.setdefault(key, _ConversationLog())
        found = log.facts.write(changes, segment=USERS_SEGMENT)
        log.revise()
        return found

    async def remove_fact(self, key: Key, number: int) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        if log is None or not log.facts.remove(number):
            return False
        log.revise()
        return True

    async def owe(self, key: Key, *, task: str) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        spoken_in = log is not None and bool(log.entries)
        if spoken_in:
            self._work.owe(key, task, self._clock())
        return spoken_in

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._check_open()
        log = self._conversations.get(key)
        if log is None or not log.entries:
            return None
        return self._work.claim(key, owner, task, seconds, self._clock())

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._check_open()
        return self._work.claim_next(owner, task, seconds, self._clock())

    async def extend(self, lease: Lease, seconds: float) -> bool:
        self._check_open()
        return self._work.extend(lease, seconds, self._clock())

    async def settle(self, lease: Lease, *, again_in: float | None = None) -> bool:
        self._check_open()
        return self._work.settle(lease, again_in, self._clock())

    async def put_records(
        self,
        key: Key,
        kind: str,
        records: Sequence[tuple[str, str]],
        *,
        keep: int | None = None,
        derived: bool = False,
        generation: int | None = None,
    ) -> list[int]:
        self._check_open()
        check_put(kind, records, keep)
        log = self._conversations.get(key) or _ConversationLog()
        if generation not in (None, log.head.generation):
            return []
        self._conversations[key] = log
        return log.records.put(kind, records, keep, derived, self._clock())

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        self._check_open()
        check_read(kind, limit)
        log = self._conversations.get(key)
        return [] if log is None else log.records.read(kind, name, after, limit)

    async def drop_records(
        self, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
    ) -> list[str]:
        self._check_open()
        check_drop(kind, names)
        log = self._conversations.get(key)
        return [] if log is None else log.records.drop(kind, names, before)

    async def search(
        self, agent: str, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        self._check_open()
        terms = query_terms(query, limit)
        logs = dict(self._matching(scope, agent, conversation)) if terms else {}
        if not logs:
            return []
        if self._index is None or self._index.retired:
            # Imported here: until somebody searches, no SQLite is needed.
            from autonomy_ctx.memory.search_index import SearchIndex

            self._index = SearchIndex()
        new = {key: log.after(self._index.indexed(key)) for key, log in logs.items()}
        look = partial(self._index.search, new, terms, limit, whole_scope=conversation is None)
        return [
            SearchHit(
                conversation=hit.key.conversation,
                position=hit.position,
                message=logs[hit.key].entry(hit.position).message,
                score=hit.score,
            )
            for hit in await anyio.to_thread.run_sync(look)
            # It may have been deleted meanwhile.
            if logs[hit.key].has(hit.position)
        ]

    async def read_indexed(
        self, agent: str, scope: str, places: Sequence[tuple[str, int]]
    ) -> list[IndexedMessage]:
        self._check_open()
        logs = {name: self._conversations.get(Key(agent, scope, name)) for name, _ in places}
        return [
            IndexedMessage(name, position, log.entry(position).message)
            for name, position in places
            if (log := logs[name]) is not None and log.has(position)
        ]

    async def list_agents(self, *, scope: str | None, after: str | None, limit: int) -> list[str]:
        return self._name_index().agents(scope, after, limit)

    async def list_scopes(self, *, agent: str | None, after: str | None, limit: int) -> list[str]:
        return self._name_index().scopes(agent, after, limit)

    async def list_conversations(
        self, scope: str, *, agent: str | None, after: Key | None, limit: int
    ) -> list[ConversationInfo]:
        keys = self._name_index().conversations(scope, agent, after, limit)
        return [
            ConversationInfo(
                **key._asdict(),
                messages=len(entries),
                first_at=entries[0].message.created_at,
                last_at=entries[-1].message.created_at,
            )
            for key, entries in ((key, self._conversations[key].entries) for key in keys)
        ]

    @property
    def identity(self) -> object:
        return None

    async def check(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._closed = True
        self._conversations.clear()
        if self._index is not None:
            self._index.retire()

    def _matching(
        self, scope: str, agent: str | None, conversation: str | None
    ) -> Iterator[tuple[Key, _ConversationLog]]:
        for key, log in self._conversations.items():
            if key.scope != scope or agent not in (None, key.agent):
                continue
            if conversation in (None, key.conversation):
                yield key, log

    def _name_index(self) -> NameIndex:
        self._check_open()
        if self._names is None:
            # Imported here: few programs list what there is.
            from autonomy_ctx.memory.name_index import NameIndex

            self._names = NameIndex(key for key, log in self._conversations.items() if log.entries)
        return self._names

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("this process")


def _delete_messages(log: _ConversationLog, ids: Sequence[str] | None) -> int:
    gone = set(log.positions) if ids is None else log.positions.keys() & set(ids)
    positions = {log.positions.pop(message_id) for message_id in gone}
    # With all of a conversation goes also what was made after its last message had gone.
    first = 0 if ids is None else min(positions, default=log.head.position + 1)
    derived = log.segments.delete_from(first) + len(log.pins & positions)
    derived += (
        log.facts.clear()
        if ids is None
        else log.facts.drop(lambda row: row.segment not in log.segments or row.position in positions)
    )
    if not gone and not derived:
        return 0
    log.pins -= positions
    for position in positions:
        log.wholes.pop(position, None)
    log.entries = [entry for entry in log.entries if entry.message.id not in gone]
    users = (entry.position for entry in reversed(log.entries) if entry.message.role is ChatRole.USER)
    generation, revision = log.head.generation + 1, log.head.revision + (derived > 0)
    log.head = Head(log.head.position, len(log.entries), generation, next(users, 0), revision)
    return len(gone)


def _whole_body(draft: Draft) -> str:
    return draft.whole or draft.body


def _position(entry: Entry) -> int:
    return entry.position
