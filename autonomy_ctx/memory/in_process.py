"""The store of `Memory()`: plain Python objects, which are lost when the process ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from autonomy_ctx.errors import ConflictingMessage, NotPinned, StoreClosed, TurnLost
from autonomy_ctx.language.fact import Fact, FactChange
from autonomy_ctx.memory.conversation_log import ConversationLog, shared_positions
from autonomy_ctx.memory.encoding import make_pin, same_content
from autonomy_ctx.memory.facts import NO_SEGMENT, is_fact_lost, replaces_fact_of_user
from autonomy_ctx.memory.forks import fork_position
from autonomy_ctx.memory.outline import ConversationOutline
from autonomy_ctx.memory.rows import PinRows, TurnRows, WorkRows
from autonomy_ctx.memory.search_text import query_terms
from autonomy_ctx.memory.store import (
    ConversationInfo,
    Draft,
    Head,
    IndexedMessage,
    Key,
    Lease,
    MessageRef,
    PinSource,
    ProfileFact,
    Record,
    SearchHit,
    StoredSegment,
    SummaryState,
    TurnStart,
    TurnToken,
    Window,
    check_drop,
    check_put,
    check_read,
)
from autonomy_ctx.memory.turn_signals import TurnSignals

if TYPE_CHECKING:
    from autonomy_ctx.memory.search_index import SearchIndex
    from autonomy_ctx.memory.vector_rows import VectorRows
    from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock


class InProcessStore:
    """Logs in plain lists."""

    in_memory = True

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._conversations: dict[Key, ConversationLog] = {}
        self._work = WorkRows()
        self._turns, self._turn_signals = TurnRows(), TurnSignals()
        self._index: SearchIndex | None = None
        # Made for the first embedder.
        self._vectors: VectorRows | None = None
        self._clock = clock
        self._closed = False

    async def append(
        self, key: Key, drafts: Sequence[Draft], *, turn: TurnToken | None = None, ends: bool = False
    ) -> list[int]:
        self._check_open()
        if turn is not None and not self._turns.is_held(turn) and not self._has(key, drafts):
            raise TurnLost
        positions = self._append(key, drafts)
        if turn is not None and ends:
            self._turns.leave(key, turn.ticket, turn.owner)
            self._turn_signals.notify(key)
        return positions

    async def begin_turn(
        self,
        key: Key,
        drafts: Sequence[Draft],
        *,
        owner: str,
        seconds: float,
        ticket: int | None = None,
        after: int | None = None,
    ) -> TurnStart:
        self._check_open()
        now = self._clock()
        if not self._turns.may_begin(key, ticket, now):
            return TurnStart(self._turns.wait(key, ticket, owner, now + seconds), None)
        log = self._conversations.get(key)
        fits = after in (None, 0 if log is None else log.head.position)
        positions = self._append(key, drafts) if drafts and fits else []
        ticket, took_over = self._turns.take(key, ticket, owner, now + seconds)
        return TurnStart(ticket, positions, took_over)

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        self._check_open()
        return self._turns.renew(key, ticket, owner, self._clock() + seconds)

    async def leave_turn(self, key: Key, ticket: int | None, *, owner: str) -> None:
        self._check_open()
        self._turns.leave(key, ticket, owner)
        self._turn_signals.notify(key)

    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        async def may_begin() -> bool:
            self._check_open()
            has_place = self._turns.has_place(key, ticket)
            return not has_place or self._turns.may_begin(key, ticket, self._clock())

        await self._turn_signals.wait_until(key, may_begin, seconds)

    def _has(self, key: Key, drafts: Sequence[Draft]) -> bool:
        """True when all drafts are stored already."""
        log = self._conversations.get(key) or ConversationLog(key)
        known = [(log.body(draft.message.id), _whole_body(draft)) for draft in drafts]
        return all(body is not None and same_content(body, other) for body, other in known)

    def _append(self, key: Key, drafts: Sequence[Draft]) -> list[int]:
        log = self._conversations.get(key) or ConversationLog(key)
        positions: dict[str, int] = {}
        fresh: dict[str, Draft] = {}
        for draft in drafts:
            message_id = draft.message.id
            known = _whole_body(fresh[message_id]) if message_id in fresh else log.body(message_id)
            if known is None:
                fresh[message_id] = draft
                positions[message_id] = log.head.position + len(fresh)
                continue
            if message_id not in positions and (place := log.find(message_id)) is not None:
                positions[message_id] = place[1]
            if not same_content(known, _whole_body(draft)):
                raise ConflictingMessage(message_id=message_id, position=positions[message_id])
        for message_id, draft in fresh.items():
            if draft.whole is not None:
                log.wholes[positions[message_id]] = draft.whole
        log.append([draft.message for draft in fresh.values()])
        self._conversations[key] = log
        return [positions[draft.message.id] for draft in drafts]

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        self._check_open()
        log = self._conversations.get(key)
        if log is None:
            return Window(Head(), [])
        return Window(log.head, log.between(after, before, limit))

    async def head(self, key: Key) -> Head:
        self._check_open()
        log = self._conversations.get(key)
        return Head() if log is None else log.head

    async def full_text(self, key: Key, message_id: str) -> str | None:
        self._check_open()
        log = self._conversations.get(key)
        place = None if log is None else log.find(message_id)
        return None if place is None else place[0].wholes.get(place[1])

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        self._check_open()
        # Forks are deleted before their sources, so that their deletion is not counted as a loss.
        logs = [log for _, log in self._matching(scope, agent, conversation)][::-1]
        deleted = sum(self._delete_all(log) if ids is None else self._delete_some(log, ids) for log in logs)
        if deleted and self._index is not None:
            self._index.retire()
        return deleted

    async def summary(self, key: Key) -> SummaryState:
        self._check_open()
        log = self._conversations.get(key)
        if log is None:
            return SummaryState(Head())
        pins = tuple(make_pin(log.entry(pin.position), pin.pinned_at, pin.source) for pin in log.pins)
        return SummaryState(log.head, log.segments.in_force, pins, log.facts.in_force())

    async def commit_segment(
        self,
        key: Key,
        segment: StoredSegment,
        *,
        generation: int,
        fence: int | None,
        facts: Sequence[FactChange] | None = None,
        merged: StoredSegment | None = None,
    ) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        if log is None or log.head.generation != generation:
            return False
        if fence is not None and not self._work.is_leased(key, fence):
            return False
        now = self._clock()
        number = log.segments.commit(segment, log.head, now)
        if number is None:
            return False
        if merged is not None:
            log.segments.commit(merged, log.head, now)
        if facts is not None:
            log.facts.replace_range(segment.first, segment.last, facts, segment=number)
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

    async def pin(
        self,
        key: Key,
        message_id: str,
        pinned: bool,
        *,
        replaces: str | None = None,
        source: PinSource = "user",
    ) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        place = None if log is None else log.find(message_id)
        if log is None or place is None:
            return False
        if replaces is not None:
            before = log.find(replaces)
            if before is None or not log.pins.drop([before[1]]):
                raise NotPinned(replaces)
        changed = log.pins.add(place[1], self._clock(), source) if pinned else log.pins.drop([place[1]])
        if changed or replaces is not None:
            log.revise()
        return True

    async def facts(self, key: Key) -> list[Fact]:
        self._check_open()
        log = self._conversations.get(key)
        return [] if log is None else log.facts.all()

    async def write_facts(
        self, key: Key, changes: Sequence[FactChange], *, generation: int | None = None
    ) -> list[Fact]:
        self._check_open()
        log = self._conversations.setdefault(key, ConversationLog(key))
        if generation not in (None, log.head.generation):
            return []
        found = log.facts.write(changes, segment=NO_SEGMENT)
        if replaces_fact_of_user(changes):
            self._delete_quoting(key, set())
        log.revise()
        return found

    async def remove_fact(self, key: Key, number: int) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        if log is None or not log.facts.remove(number):
            return False
        self._delete_quoting(key, set())
        log.revise()
        return True

    async def profile_facts(self, agent: str, scope: str) -> list[ProfileFact]:
        self._check_open()
        found = [
            ProfileFact(key.conversation, fact)
            for key, log in self._matching(scope, agent, None)
            for fact in log.facts.in_profile()
        ]
        return sorted(found, key=lambda one: one.fact.created_at)

    async def enqueue_task(self, key: Key, *, task: str) -> bool:
        self._check_open()
        log = self._conversations.get(key)
        spoken_in = log is not None and log.head.count > 0
        if spoken_in:
            self._work.enqueue_task(key, task, self._clock())
        return spoken_in

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._check_open()
        log = self._conversations.get(key)
        if log is None or not log.head.count:
            return None
        return self._work.claim(key, owner, task, seconds, self._clock())

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        self._check_open()
        return self._work.claim_next(owner, task, seconds, self._clock())

    async def extend(self, lease: Lease, seconds: float) -> bool:
        self._check_open()
        return self._work.extend(lease, seconds, self._clock())

    async def complete_task(self, lease: Lease, *, again_in: float | None = None) -> bool:
        self._check_open()
        return self._work.complete_task(lease, again_in, self._clock())

    async def put_records(
        self,
        key: Key,
        kind: str,
        records: Sequence[tuple[str, str]],
        *,
        keep: int | None = None,
        derived: bool = False,
        generation: int | None = None,
        refs: Sequence[MessageRef] = (),
    ) -> list[int]:
        self._check_open()
        check_put(kind, records, keep)
        log = self._conversations.get(key) or ConversationLog(key)
        if generation not in (None, log.head.generation) or not all(
            self._is_there(ref.key(key), ref) for ref in refs
        ):
            return []
        self._conversations[key] = log
        quoted = [(ref.key(key), ref.position) for ref in refs]
        return log.records.put(kind, records, keep, derived, self._clock(), quoted)

    async def end_quotes(self, key: Key) -> None:
        self._check_open()
        log = self._conversations.setdefault(key, ConversationLog(key))
        self._delete_quoting(key, set())
        log.revise(new_generation=True)

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
        # Imported here: until somebody searches, no SQLite is needed.
        from autonomy_ctx.memory.search_index import KeyRange, SearchIndex

        if self._index is None or self._index.retired:
            self._index = SearchIndex()
        ranges = [] if conversation is None else [one for log in logs.values() for one in log.ranges()]
        owners = {one.log.key: one.log for one in ranges} or logs
        new = {key: log.after(self._index.indexed(key)) for key, log in owners.items()}
        places = [KeyRange(one.log.key, one.first, one.last) for one in ranges]
        look = partial(self._index.search, new, terms, limit, places)
        return [
            SearchHit(
                conversation=hit.key.conversation if conversation is None else conversation,
                position=hit.position,
                message=owners[hit.key].entry(hit.position).message,
                score=hit.score,
            )
            for hit in await anyio.to_thread.run_sync(look)
            # It may have been deleted meanwhile.
            if owners[hit.key].has(hit.position)
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

    async def use_embedder(self, name: str, dimensions: int) -> int:
        self._check_open()
        if self._vectors is None:
            # Imported here: it needs numpy.
            from autonomy_ctx.memory.vector_rows import VectorRows

            self._vectors = VectorRows()
        return self._vectors.use_embedder(name, dimensions)

    async def read_unembedded(
        self, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
    ) -> list[EmbeddingBlock] | None:
        rows = self._vectors_of(embedder)
        logs = [log for _, log in self._matching(scope, agent, conversation)]
        return None if rows is None else rows.read_unembedded(logs, limit)

    async def put_vectors(self, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
        rows = self._vectors_of(embedder)
        if rows is None:
            return False
        for block in blocks:
            if (log := self._conversations.get(block.key)) is not None:
                rows.put(block, log)
        return True

    async def nearest(
        self,
        agent: str,
        scope: str,
        vector: bytes,
        *,
        embedder: int,
        conversation: str | None = None,
        limit: int,
    ) -> list[SearchHit]:
        rows = self._vectors_of(embedder)
        ranges = None
        if conversation is not None:
            ranges = [one for _, log in self._matching(scope, agent, conversation) for one in log.ranges()]
        if rows is None:
            return []
        found = await anyio.to_thread.run_sync(rows.searcher(agent, scope, vector, limit, ranges))
        return [
            SearchHit(
                conversation=key.conversation if conversation is None else conversation,
                position=one.position,
                message=log.entry(one.position).message,
                score=one.score,
            )
            for one in found
            # It may have been deleted meanwhile.
            if (log := self._conversations.get(key := rows.key_of(one))) is not None and log.has(one.position)
        ]

    async def list_agents(self, *, scope: str | None, after: str | None, limit: int) -> list[str]:
        names = {key.agent for key in self._spoken_in() if scope in (None, key.scope)}
        return sorted(name for name in names if after is None or name > after)[:limit]

    async def list_scopes(self, *, agent: str | None, after: str | None, limit: int) -> list[str]:
        names = {key.scope for key in self._spoken_in() if agent in (None, key.agent)}
        return sorted(name for name in names if after is None or name > after)[:limit]

    async def list_conversations(
        self, scope: str, *, agent: str | None, after: Key | None, limit: int
    ) -> list[ConversationInfo]:
        keys = [key for key in self._spoken_in() if key.scope == scope and agent in (None, key.agent)]
        # All of one scope: by agent and name.
        page = sorted(key for key in keys if after is None or key > after)[:limit]
        return [
            ConversationInfo(
                **key._asdict(),
                messages=log.head.count,
                first_at=log.first_entry().message.created_at,
                last_at=log.between(0, None, 1)[0].message.created_at,
            )
            for key, log in ((key, self._conversations[key]) for key in page)
        ]

    async def outline(self, key: Key, ranges: Sequence[tuple[int, int]]) -> ConversationOutline:
        self._check_open()
        log = self._conversations.get(key)
        if log is None:
            return ConversationOutline()
        marks = (log.mark(first, last) for first, last in ranges)
        return ConversationOutline(
            tuple(mark for mark in marks if mark is not None),
            tuple(log.segments.versions()),
            tuple(log.facts.ends()),
            self._work.owed(key),
        )

    async def fork(self, key: Key, at: int | None, name: str) -> None:
        self._check_open()
        source, target = self._conversations.get(key), key._replace(conversation=name)
        head = Head() if source is None else source.head
        at = fork_position(key, head, at, name, name_exists=target in self._conversations)
        assert source is not None
        log = ConversationLog(target)
        log.shared = [one._replace(last=min(one.last, at)) for one in source.ranges() if one.first <= at]
        for one in log.shared:
            one.log.forks.append(log)
        log.segments = source.segments.fork(at)
        log.facts = source.facts.fork(log.segments.in_force, at)
        log.pins = source.pins.fork(at)
        log.head = Head(
            position=at,
            count=sum(one.log.count_between(one.first, one.last) for one in log.shared),
            generation=head.generation,
            last_user=log.newest_user(),
            # Not that of a conversation that nobody has used.
            revision=head.revision + 1,
        )
        self._conversations[target] = log

    async def shared_until(self, key: Key) -> int:
        self._check_open()
        log = self._conversations.get(key)
        if log is None:
            return 0
        ends = (one.last for fork in log.forks for one in fork.shared if one.log is log)
        return max((log.shared_until, *ends))

    @property
    def identity(self) -> object:
        return None

    async def check(self) -> None:
        self._check_open()

    async def close(self) -> None:
        self._closed = True
        self._conversations.clear()
        self._vectors = None
        if self._index is not None:
            self._index.retire()

    def _vectors_of(self, embedder: int) -> VectorRows | None:
        """The vectors, if they are those of this embedder."""
        self._check_open()
        return self._vectors if self._vectors is not None and self._vectors.embedder == embedder else None

    def _matching(
        self, scope: str, agent: str | None, conversation: str | None
    ) -> Iterator[tuple[Key, ConversationLog]]:
        for key, log in self._conversations.items():
            if key.scope != scope or agent not in (None, key.agent):
                continue
            if conversation in (None, key.conversation):
                yield key, log

    def _is_there(self, key: Key, ref: MessageRef) -> bool:
        log = self._conversations.get(key)
        if log is None and ref.generation == 0:
            # Nothing is in it yet; it must be there to be quoted.
            log = self._conversations[key] = ConversationLog(key)
        if log is None or ref.generation not in (None, log.head.generation):
            return False
        return ref.position is None or log.has(ref.position)

    def _delete_quoting(self, quoted: Key, positions: set[int] | None) -> None:
        """Delete the records of the scope that quote messages which are gone."""
        for _, log in self._matching(quoted.scope, None, None):
            log.records.delete_quoting(quoted, positions)

    def _delete_some(self, log: ConversationLog, ids: Sequence[str]) -> int:
        """Delete messages of a log, from every log that has them."""
        places: dict[ConversationLog, set[int]] = {}
        for message_id in set(ids):
            if (found := log.find(message_id)) is not None:
                places.setdefault(found[0], set()).add(found[1])
        losses: dict[ConversationLog, set[int]] = {}
        for owner, positions in places.items():
            owner.remove(positions)
            if self._vectors is not None:
                self._vectors.remove(owner.key, positions)
            losses.setdefault(owner, set()).update(positions)
            for fork in owner.forks:
                losses.setdefault(fork, set()).update(shared_positions(fork, owner, positions))
        for one, positions in losses.items():
            self._note_loss(one, positions)
        return sum(len(positions) for positions in places.values())

    def _delete_all(self, log: ConversationLog) -> int:
        """Delete a log and all that was made from it; its own messages go from its forks too."""
        own = set(log.positions.values())
        losses = {fork: shared_positions(fork, log, own) for fork in log.forks}
        log.remove(own)
        if self._vectors is not None:
            self._vectors.remove(log.key)
        for fork, positions in losses.items():
            fork.shared = [one for one in fork.shared if one.log is not log]
            self._note_loss(fork, positions)
        log.forks = []
        log.leave_sources()
        derived = log.segments.delete_from(0) + len(log.pins) + log.facts.clear()
        log.pins = PinRows()
        log.records.delete_all(only_derived=False)
        self._delete_quoting(log.key, None)
        self._set_count(log, 0, derived)
        return len(own)

    def _note_loss(self, log: ConversationLog, positions: set[int]) -> None:
        """Take away what was made from messages that are gone."""
        if not positions:
            return
        derived = log.segments.delete_from(min(positions)) + log.pins.drop(positions)
        derived += log.facts.drop(lambda row: is_fact_lost(row, log.segments, positions))
        log.records.delete_all(only_derived=True)
        self._delete_quoting(log.key, positions)
        self._set_count(log, log.head.count - len(positions), derived)

    def _set_count(self, log: ConversationLog, count: int, derived: int) -> None:
        head = log.head
        if not count:
            self._work.delete(log.key)
        if count < head.count or derived:
            generation, revision = head.generation + 1, head.revision + (derived > 0)
            log.head = Head(head.position, count, generation, log.newest_user(), revision)

    def _spoken_in(self) -> list[Key]:
        """The conversations that have messages."""
        self._check_open()
        return [key for key, log in self._conversations.items() if log.head.count]

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed("this process")


def _whole_body(draft: Draft) -> str:
    return draft.whole or draft.body
