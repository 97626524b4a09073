"""Snapshots: the summary of a conversation and the messages it does not cover, as of one moment.

Composing a context uses this module, so nothing here waits for a summary. Messages beyond the hard limit that
no summary covers yet are replaced by a provisional digest, or reported as omitted if the digest would take
too long.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

from autonomy_ctx.background import run_in_steps
from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.facts import mark_segments
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import CountMessage, Limits, bounded_start
from autonomy_ctx.compaction.schema_records import digest_record
from autonomy_ctx.compaction.view import window_budget
from autonomy_ctx.compaction.word_tables import prepare_tables
from autonomy_ctx.language.digest import read_for_digest
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Head, Key, StoredSegment, SummaryState
from autonomy_ctx.messages.cuts import MAX_CALL_LOOKBACK, orphaned_results
from autonomy_ctx.messages.fact import Fact, RenderedFacts
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.messages.summary import SummaryBlock
from autonomy_ctx.messages.tokens import TokenCounter

# Characters and messages read for a digest that a turn is waiting for: a few milliseconds.
MAX_DIGEST_CHARACTERS, MAX_DIGEST_MESSAGES = 12_000, 40
# Positions looked at in one step; a longer backlog takes several.
READ_AHEAD = 512
# The part of the life of a provider's cache after which a conversation counts as idle.
EXPIRY_SHARE = 0.8


def provisional_segment(
    entries: Sequence[Entry], first: int, settings: CompactionSettings, counter: TokenCounter
) -> StoredSegment:
    """A provisional segment from position `first` to the last of the entries."""
    messages = [entry.message for entry in entries]
    tokens = max(settings.size // 4, 32)
    # Without the calibration of now: the same messages have the same digest, also in another process.
    plain = TokenCounter(counter.text_counter)
    text = digest_record(
        messages, settings.config.schema, tokens=tokens, counter=plain, max_characters=MAX_DIGEST_CHARACTERS
    )
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
    # What a provider wrote, to be shown in place of the segments; or why it wrote nothing.
    block: SummaryBlock | None = None
    block_problem: str = ""

    @property
    def last_hidden(self) -> int:
        """The last position that is not in the window."""
        if self.missing is not None:
            return self.missing[1]
        return self.segments[-1].last if self.segments else 0


@dataclass(slots=True)
class DisplayedSummary:
    """The summary in the last context of a conversation, when that was, and what it has cost to keep."""

    generation: int
    segments: tuple[StoredSegment, ...]
    shown_at: float
    facts: tuple[Fact, ...] = ()
    carried_cost: float = 0.0
    # The newest summary there was the last time.
    newest_segments: tuple[StoredSegment, ...] = ()

    @property
    def covered(self) -> int:
        """The last position that it covers."""
        return self.segments[-1].last if self.segments else 0


@dataclass(slots=True)
class ConversationState:
    """State that a process keeps of a conversation between two contexts; safe to lose."""

    # Current while the head of the log has its generation and revision.
    summary: SummaryState | None = None
    # The log that the summary was read from: another file may have been put in its place.
    log_identity: object = None
    # The newest two provisional digests, each with the generation that it was made of.
    digests: Sequence[tuple[int, StoredSegment]] = ()
    displayed: DisplayedSummary | None = None
    # Whether the next context shows the newest summary, whatever the policy says.
    shows_newest: bool = False
    # The facts as text, after what they were made of: with 200 facts a millisecond of every context.
    rendered_facts: tuple[tuple[Any, ...], RenderedFacts] | None = None
    # The segments as they are shown, after what they were made of.
    marked_segments: tuple[tuple[Any, ...], tuple[StoredSegment, ...]] | None = None
    # The generation and position of the user message that the profile was learned from last.
    learned_from: tuple[int, int] | None = None
    # The last position that was read ahead for a digest.
    read_ahead: int = 0
    # Whether its pauses call for the longer life of a provider's cache, and whether a task waits for the end
    # of that life.
    long_cache: bool = False
    is_watched: bool = False
    # Since when summaries are behind what the ceiling asks for.
    late_since: float | None = None

    def seconds_until_expiry(self, settings: CompactionSettings, now: float) -> float:
        """The seconds until it counts as idle, because its prefix will leave the provider's cache."""
        life = settings.cache_seconds
        if self.long_cache and settings.costs is not None:
            life = settings.costs.cache.long_seconds or life
        shown = now if self.displayed is None else self.displayed.shown_at
        return shown + EXPIRY_SHARE * life - now


async def read_snapshot(
    memory: Memory,
    key: Key,
    limits: Limits,
    conversation: ConversationState,
    metrics: SummaryMetrics,
    since: int | None = None,
) -> ConversationSnapshot:
    """The current summary and the newest entries that it does not cover, as of one moment.

    A known summary is used only if the head, read together with the window, shows that it is current. With
    `since`, entries after that position are read too, even if a segment covers them.
    """
    store, limit = memory.store, limits.hard + limits.batch + 1
    state = conversation.summary if conversation.log_identity == store.identity else None
    for _ in range(_MAX_READ_TRIES):
        if state is None:
            metrics.add("summary_reads")
            state = await store.summary(key)
            conversation.summary, conversation.log_identity = state, store.identity
        after = state.covered if since is None else min(since, state.covered)
        window = await memory.read_key(key, after=after, limit=limit)
        head = state.head
        if (window.head.generation, window.head.revision) == (head.generation, head.revision):
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
        not complete and len(entries) < MAX_CALL_LOOKBACK and _starts_inside_group(entries, covered, limits)
    ):
        limit = 2 * len(entries)
        page = await memory.read_key(key, after=covered, before=entries[0].position, limit=limit)
        if page.head.generation != window.head.generation:
            break
        entries = [*page.entries, *entries]
        complete = len(page.entries) < limit
    if not complete and window.head.position <= covered + READ_AHEAD:
        # A history that came at once, as when a client begins to use the endpoint: a digest stands for it.
        page = await memory.read_key(key, after=covered, before=entries[0].position, limit=READ_AHEAD)
        if page.head.generation == window.head.generation:
            entries, complete = [*page.entries, *entries], True
    return ConversationSnapshot(state, window.head, entries, complete, covered_entries, since or 0)


async def find_question(memory: Memory, key: Key, position: int, entries: Sequence[Entry]) -> Entry | None:
    """The user message at a position; it is read only if it is not among the entries."""
    if position and (not entries or position < entries[0].position):
        found = await memory.read_key(key, after=position - 1, before=position + 1)
        entries = found.entries
    return next((entry for entry in entries if entry.position == position), None)


class SnapshotBounder:
    """Cuts snapshots of one conversation to the hard limits, with digests for what is cut off.

    `asked` is the question of the turn, which stands before a window that it is not in.
    """

    def __init__(
        self,
        conversation: ConversationState,
        settings: CompactionSettings,
        counter: TokenCounter,
        count: CountMessage,
        pending: PendingDigest | None = None,
        asked: Entry | None = None,
    ) -> None:
        self._conversation, self._settings = conversation, settings
        self._counter, self._count, self._pending, self._asked = counter, count, pending, asked

    async def bound(self, snapshot: ConversationSnapshot) -> BoundedView:
        """The parts to show. A digest replaces the messages that the hard limit cuts off."""
        stored, snapshot = snapshot, snapshot.with_pending(self._pending)
        state, entries = self._mark_ended(snapshot.state), snapshot.entries
        limits, segments = self._settings.limits, list(state.segments)
        cut = self._cut(snapshot, limits, window_budget(self._settings, state))
        if not snapshot.complete:
            if not cut:
                # In the middle of a group that is larger than all that may be shown; a result without its
                # call means nothing.
                least = range(len(entries) - limits.hard, len(entries))
                spoken = (at for at in least if entries[at].message.role is not ChatRole.TOOL)
                cut = next(spoken, least.start)
            missing = (state.covered + 1, entries[cut].position - 1)
            return BoundedView(state, segments, entries[cut:], missing)
        if not cut:
            return BoundedView(state, segments, entries, is_digested=snapshot is not stored)
        await prepare_tables()
        return BoundedView(state, [*segments, self._digest(snapshot, cut)], entries[cut:], is_digested=True)

    async def prepare_digest(self, snapshot: ConversationSnapshot) -> None:
        """Read what a digest would quote, each message once, and make the digest if it is needed soon."""
        await prepare_tables()
        known, entries = self._conversation, snapshot.entries
        start = bisect_right(entries, known.read_ahead, key=lambda entry: entry.position)
        if start < len(entries):
            known.read_ahead = entries[-1].position
            messages = [entry.message for entry in entries]
            await run_in_steps(read_for_digest(messages, MAX_DIGEST_CHARACTERS, start=start))
        limits = self._settings.limits
        if len(entries) <= limits.hard - limits.batch:
            return
        snapshot = snapshot.with_pending(self._pending)
        tokens = window_budget(self._settings, snapshot.state)
        sooner = replace(limits, hard=max(limits.hard - limits.batch, 1))
        cut = self._cut(snapshot, sooner, None if tokens is None else tokens * 3 // 4)
        if cut and snapshot.complete:
            self._digest(snapshot, cut)

    def _mark_ended(self, state: SummaryState) -> SummaryState:
        """The summary with a mark behind what no longer holds, made again only when one of them changed."""
        known, parts = self._conversation, (state.segments, state.ended)
        if known.marked_segments is None or known.marked_segments[0] != parts:
            plain = TokenCounter(self._counter.text_counter)
            known.marked_segments = parts, mark_segments(*parts, state.covered, plain)
        return replace(state, segments=known.marked_segments[1])

    def _cut(self, snapshot: ConversationSnapshot, limits: Limits, tokens: int | None) -> int:
        covered, asked = snapshot.state.covered, self._asked
        return bounded_start(snapshot.entries, covered, limits, tokens, self._count, asked)

    def _digest(self, snapshot: ConversationSnapshot, cut: int) -> StoredSegment:
        first, last = snapshot.state.covered + 1, snapshot.entries[cut - 1].position
        generation, known = snapshot.head.generation, self._conversation
        for made, digest in known.digests:
            if (made, digest.first, digest.last) == (generation, first, last):
                return digest
        chosen = _most_telling(snapshot.entries[:cut])
        digest = replace(provisional_segment(chosen, first, self._settings, self._counter), last=last)
        # Beside the one before it: one is shown, one is prepared.
        known.digests = (*known.digests[-1:], (generation, digest))
        return digest


def _most_telling(entries: list[Entry]) -> list[Entry]:
    """The messages to read for a digest at once: what users said first and last, and the newest of others."""
    most, first = MAX_DIGEST_MESSAGES, MAX_DIGEST_MESSAGES // 4
    said = [entry for entry in entries if entry.message.role is ChatRole.USER]
    said = said if len(said) <= most else [*said[:first], *said[first - most :]]
    others = [entry for entry in entries if entry.message.role is not ChatRole.USER]
    newest = others[max(len(others) + len(said) - most, 0) :]
    return sorted([*said, *newest], key=attrgetter("position"))


def note_shown(
    metrics: SummaryMetrics,
    conversation: ConversationState,
    snapshot: ConversationSnapshot,
    view: BoundedView,
    ceiling: int,
    now: float,
) -> None:
    """Count what stood for a summary, and note by how much and for how long summaries are behind."""
    if view.missing is not None:
        metrics.add("omissions_served")
    elif view.is_digested:
        metrics.add("digests_served")
    if view.segments:
        metrics.add("cache_hits")
    elif len(snapshot.entries) > ceiling:
        metrics.add("cache_misses")
    late = max(snapshot.head.position - snapshot.state.written - ceiling, 0)
    if not late:
        conversation.late_since = None
    elif conversation.late_since is None:
        conversation.late_since = now
    metrics.lag_messages = late
    metrics.lag_seconds = 0.0 if conversation.late_since is None else now - conversation.late_since


def _starts_inside_group(entries: list[Entry], covered: int, limits: Limits) -> bool:
    """Tell whether the entries begin inside a group: a result has no call there, or no cut is safe."""
    if orphaned_results([entry.message for entry in entries]):
        return True
    return bounded_start(entries, covered, limits, None, lambda message: 0) == 0
