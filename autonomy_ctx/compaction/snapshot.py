"""`SnapshotReader`: the summary of a conversation and the messages it does not cover, as of one moment.

Composing a context uses this module, so nothing here waits for a summary. Messages beyond the hard limit that
no summary covers yet are replaced by a provisional digest, or reported as omitted if the digest would take
too long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import CountMessage, Limits, bounded_start
from autonomy_ctx.compaction.schema_records import digest_record
from autonomy_ctx.compaction.view import window_budget
from autonomy_ctx.compaction.word_tables import are_tables_loaded, prepare_tables
from autonomy_ctx.language.digest import digest, read_for_digest
from autonomy_ctx.language.fact import active_facts
from autonomy_ctx.memory.conversation_cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Head, Key, StoredSegment, SummaryState, Window
from autonomy_ctx.messages.cuts import MAX_CALL_LOOKBACK, orphaned_results
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.messages.tokens import TokenCounter

# Characters read for a digest that a turn is waiting for: a few milliseconds.
MAX_DIGEST_CHARACTERS = 12_000


def provisional_segment(
    entries: Sequence[Entry], first: int, settings: CompactionSettings, counter: TokenCounter
) -> StoredSegment:
    """A provisional segment from position `first` to the last of the entries."""
    messages = [entry.message for entry in entries]
    tokens = max(settings.size // 4, 32)
    make = digest if settings.schema is None else partial(digest_record, schema=settings.schema)
    text = make(messages, tokens=tokens, counter=counter, max_characters=MAX_DIGEST_CHARACTERS)
    return StoredSegment(
        first=first,
        last=entries[-1].position,
        text=text,
        tokens=counter.count_text(text),
        provisional=True,
        model="digest",
        created=messages[-1].created_at.timestamp(),
        began=messages[0].created_at.timestamp(),
        ended=messages[-1].created_at.timestamp(),
    )


CACHED_CONVERSATIONS = 512
_MAX_READ_TRIES = 16


class PendingDigest(NamedTuple):
    """A digest that is being stored, and the generation of the conversation that it was made of."""

    segment: StoredSegment
    generation: int


@dataclass(frozen=True, slots=True)
class ConversationSnapshot:
    """One snapshot of a conversation: the current summary and the messages that it does not cover."""

    state: SummaryState
    head: Head
    entries: list[Entry]
    # Whether the entries are all that is not covered.
    complete: bool
    # What is covered but stands after position `covered_since`; None when it was not read, or not all of it.
    covered_entries: list[Entry] | None = None
    covered_since: int = 0

    def follow(self, window: Window, limit: int) -> ConversationSnapshot | None:
        """The snapshot as of a window with all that came after it; None if it must be read again.

        That is so if the summary has changed, or if `limit` entries or more would be in it.
        """
        head, new = window.head, window.entries
        if not _same_summary(head, self.state.head):
            return None
        if head == self.head:
            return self
        read = len(self.entries) + len(self.covered_entries or ()) + len(new)
        if not self.complete or read >= limit:
            return None
        return replace(self, head=head, entries=[*self.entries, *new])

    def with_pending(self, pending: PendingDigest | None) -> ConversationSnapshot:
        """The snapshot with a digest that is being stored, as it will be when that is done."""
        if pending is None or pending.generation != self.head.generation:
            return self
        segment, before = pending.segment, self.entries[0].position - 1 if self.entries else 0
        if segment.first != self.state.covered + 1 or not before <= segment.last < self.head.position:
            return self
        state = replace(self.state, segments=(*self.state.segments, segment))
        entries = [entry for entry in self.entries if entry.position > segment.last]
        return ConversationSnapshot(state, self.head, entries, complete=True)


@dataclass(frozen=True, slots=True)
class BoundedView:
    """The parts that are shown within the hard limits, and the range that is in neither part."""

    # The summary that the window was measured beside.
    state: SummaryState
    segments: list[StoredSegment]
    window: list[Entry]
    missing: tuple[int, int] | None = None
    # Whether the last segment is a digest that is not stored yet.
    is_digested: bool = False

    @property
    def last_hidden(self) -> int:
        """The last position that is not in the window."""
        if self.missing is not None:
            return self.missing[1]
        return self.segments[-1].last if self.segments else 0


class SnapshotReader:
    """Reads conversations, and caches their summaries while these are current."""

    def __init__(self, metrics: SummaryMetrics) -> None:
        self._metrics = metrics
        # With the log they were read from: another file may have been put in its place.
        self._states: ConversationCache[StoreKey, tuple[object, SummaryState]] = ConversationCache(
            CACHED_CONVERSATIONS
        )
        self._digests: ConversationCache[tuple[StoreKey, int, int, int], StoredSegment] = ConversationCache(
            CACHED_CONVERSATIONS
        )
        # The last position that was read for a digest.
        self._last_read: ConversationCache[StoreKey, int] = ConversationCache(CACHED_CONVERSATIONS)

    @property
    def cached_keys(self) -> list[Key]:
        """The conversations that have a cached summary."""
        return [key for (_, key), (_, state) in self._states.items() if state.segments]

    @property
    def cached_facts(self) -> int:
        """How many facts the cached summaries have."""
        return sum(len(active_facts(state.facts)) for _, state in self._states.values())

    async def read(
        self,
        memory: Memory,
        store_key: StoreKey,
        limits: Limits,
        since: int | None = None,
        known: ConversationSnapshot | None = None,
    ) -> ConversationSnapshot:
        """The current summary and the newest entries that it does not cover, read in one snapshot.

        A cached summary is used only if the head, read together with the window, shows that it is current.
        With `since`, entries after that position are read too, even if a segment covers them. A `known`
        snapshot with the same limits is returned if nothing has changed, and continued if something was said.
        """
        key, store = store_key.key, memory.store
        limit = limits.hard + limits.batch + 1
        identity, state = self._states.get(store_key, (None, None))
        if identity != store.identity:
            state = None
        if known is not None and known.state is state and known.covered_since == (since or 0):
            window = await memory.read_key(key, after=known.head.position, limit=limit)
            longer = known.follow(window, limit) if identity == store.identity else None
            if longer is not None:
                return longer
        for _ in range(_MAX_READ_TRIES):
            if state is None:
                self._metrics.add("summary_reads")
                state = await store.summary(key)
                self._states[store_key] = (store.identity, state)
            after = state.covered if since is None else min(since, state.covered)
            window = await memory.read_key(key, after=after, limit=limit)
            if _same_summary(window.head, state.head):
                break
            older, state = state, None
        # Summaries arrive faster than they can be read: use an older one with all messages that it does not
        # cover.
        state = state or older
        read, covered = window.entries, state.covered
        entries = [entry for entry in read if entry.position > covered]
        complete = len(read) < limit or len(entries) < len(read)
        covered_entries = None
        if since is not None and len(read) < limit:
            covered_entries = [entry for entry in read if entry.position <= covered]
        while (
            not complete
            and len(entries) < MAX_CALL_LOOKBACK
            and _starts_inside_group(entries, state.covered, limits)
        ):
            limit = 2 * len(entries)
            page = await memory.read_key(key, after=state.covered, before=entries[0].position, limit=limit)
            if page.head.generation != window.head.generation:
                break
            entries = [*page.entries, *entries]
            complete = len(page.entries) < limit
        return ConversationSnapshot(state, window.head, entries, complete, covered_entries, since or 0)

    async def prepare_bound(
        self,
        snapshot: ConversationSnapshot,
        settings: CompactionSettings,
        count: CountMessage,
        pending: PendingDigest | None = None,
    ) -> None:
        """Prepare what the first digest of a process needs, if `bound` makes one."""
        if not are_tables_loaded():
            shown = snapshot.with_pending(pending)
            tokens = window_budget(settings, shown.state)
            if bounded_start(shown.entries, shown.state.covered, settings.limits, tokens, count):
                await prepare_tables()

    def bound(
        self,
        memory: Memory,
        key: Key,
        snapshot: ConversationSnapshot,
        settings: CompactionSettings,
        count: CountMessage,
        pending: PendingDigest | None = None,
    ) -> BoundedView:
        """The parts to show. A digest replaces the messages that the hard limit cuts off."""
        stored, snapshot = snapshot, snapshot.with_pending(pending)
        segments, entries, covered = list(snapshot.state.segments), snapshot.entries, snapshot.state.covered
        cut = bounded_start(entries, covered, settings.limits, window_budget(settings, snapshot.state), count)
        if not snapshot.complete:
            # In the middle of a group that is larger than all that may be shown.
            cut = cut or _skip_leading_results(entries, len(entries) - settings.limits.hard)
            missing = (covered + 1, entries[cut].position - 1)
            return BoundedView(snapshot.state, segments, entries[cut:], missing)
        if not cut:
            return BoundedView(snapshot.state, segments, entries, is_digested=snapshot is not stored)
        digested = [*segments, self._digest(memory, key, snapshot, cut, settings)]
        return BoundedView(snapshot.state, digested, entries[cut:], is_digested=True)

    def note_shown(self, view: BoundedView) -> None:
        """Count the digests that were shown in place of a summary."""
        if view.missing is not None:
            self._metrics.add("omissions_served")
        elif view.is_digested:
            self._metrics.add("digests_served")

    def prepare_digest(
        self,
        memory: Memory,
        key: Key,
        snapshot: ConversationSnapshot,
        settings: CompactionSettings,
        count: CountMessage,
    ) -> None:
        """Prepare the digest that will be needed after one more batch, if no summary is written."""
        limits, tokens = settings.limits, window_budget(settings, snapshot.state)
        sooner = replace(limits, hard=max(limits.hard - limits.batch, 1))
        tokens = None if tokens is None else tokens * 3 // 4
        cut = bounded_start(snapshot.entries, snapshot.state.covered, sooner, tokens, count)
        if cut and snapshot.complete:
            self._digest(memory, key, snapshot, cut, settings)

    def read_ahead(self, store_key: StoreKey, snapshot: ConversationSnapshot) -> Generator[int, None, None]:
        """Read what a digest would quote, each message once and one at each step, so that no turn has to."""
        entries, last = snapshot.entries, self._last_read.get(store_key, 0)
        start = bisect_right(entries, last, key=lambda entry: entry.position)
        if start < len(entries):
            self._last_read[store_key] = entries[-1].position
            messages = [entry.message for entry in entries]
            yield from read_for_digest(messages, MAX_DIGEST_CHARACTERS, start=start)

    def _digest(
        self, memory: Memory, key: Key, snapshot: ConversationSnapshot, cut: int, settings: CompactionSettings
    ) -> StoredSegment:
        covered, last = snapshot.state.covered, snapshot.entries[cut - 1].position
        digest_key = (make_store_key(memory.store, key), snapshot.head.generation, covered, last)
        digest = self._digests.get(digest_key)
        if digest is None:
            digest = provisional_segment(snapshot.entries[:cut], covered + 1, settings, memory.token_counter)
            self._digests[digest_key] = digest
        return digest

    def clear(self, scope: str | None, conversation: str | None) -> None:
        """Clear the cache of a conversation, a scope or all."""
        self._states.forget(scope=scope, conversation=conversation)
        self._digests.forget(scope=scope, conversation=conversation)
        self._last_read.forget(scope=scope, conversation=conversation)


def _starts_inside_group(entries: list[Entry], covered: int, limits: Limits) -> bool:
    """Tell whether the entries begin inside a group: a result has no call there, or no cut is safe."""
    if orphaned_results([entry.message for entry in entries]):
        return True
    return bounded_start(entries, covered, limits, None, lambda message: 0) == 0


def _skip_leading_results(entries: list[Entry], start: int) -> int:
    """The first index from `start` on that is not a tool result. A result without its call means nothing."""
    spoken = (at for at in range(start, len(entries)) if entries[at].message.role is not ChatRole.TOOL)
    return next(spoken, start)


def _same_summary(head: Head, other: Head) -> bool:
    return head.generation == other.generation and head.revision == other.revision
