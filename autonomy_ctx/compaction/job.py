"""One conversation brought up to date under a lease, a segment at a time.

Every step reads where the conversation stands, writes one segment and commits it only if nothing
has changed underneath. Whatever fails leaves the log and the older summary as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autonomy_ctx.compaction.asking import AskFailed, TooMuch
from autonomy_ctx.compaction.config import Settings
from autonomy_ctx.compaction.merging import to_merge
from autonomy_ctx.compaction.metrics import Metrics
from autonomy_ctx.compaction.place import Place, place_of
from autonomy_ctx.compaction.plan import (
    Count,
    bounded_start,
    chunk_end,
    expected,
    is_due,
    last_cut,
    window_start,
)
from autonomy_ctx.compaction.sharing import Sent
from autonomy_ctx.compaction.standin import stand_in
from autonomy_ctx.compaction.view import room
from autonomy_ctx.compaction.writing import SegmentWriter, Unfit, Written
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Key, Lease, StoredSegment, SummaryState, Window

# Positions looked at in one step; a longer backlog takes several.
READ_AHEAD = 512
_SMALLER_TRIES = 8


@dataclass(frozen=True, slots=True)
class Batch:
    """Entries to summarize next, and what a refusal of them would be remembered by."""

    entries: Sequence[Entry]
    first: int
    name: str


@dataclass(frozen=True, slots=True)
class Committed:
    """A segment that is in force, and why the merge it called for is not."""

    segment: StoredSegment
    failed: AskFailed | None = None


class Job:
    """The steps for one conversation."""

    def __init__(
        self,
        memory: Memory,
        key: Key,
        settings: Settings,
        writer: SegmentWriter,
        metrics: Metrics,
        sent: Callable[[Place, int], Sent | None] | None = None,
    ) -> None:
        self._memory, self._key, self._sent = memory, key, sent
        self._settings, self._limits = settings, settings.limits
        self._writer, self._metrics = writer, metrics
        counter = memory.token_counter
        self._count: Count = lambda message: counter.calibration.scaled(counter.uncalibrated(message))

    async def next_batch(self) -> tuple[SummaryState, Batch | None]:
        """What is to be summarized now, read from the store."""
        state = await self._memory.store.summary(self._key)
        after = state.written
        window = await self._read(after)
        head, entries = window.head, window.entries
        if not entries:
            return state, None
        complete = head.position <= after + READ_AHEAD
        lead = expected(entries, self._metrics.summary_seconds) if self._settings.lead else 0
        if complete and not (is_due(entries, self._limits, self._count, lead) or state.covered > after):
            return state, None
        end = window_start(entries, self._limits, self._count) if complete else last_cut(entries)
        # What a digest stands in for is not shown any more: it belongs to this batch.
        end = max(end, sum(entry.position <= state.covered for entry in entries))
        if not end:
            return state, None
        chosen = entries[:end]
        chosen = chosen[: chunk_end(chosen, self._writer.most, self._count)]
        # Changes with every batch of new messages, also while the first of a backlog stay the same.
        step = (head.position - after) // self._limits.batch
        return state, Batch(chosen, after + 1, f"{head.generation}:{after}:{step}")

    async def write_batch(self, state: SummaryState, batch: Batch, lease: Lease) -> Committed | None:
        """Summarize a batch and commit it; None when it came too late.

        A merge that it makes necessary is written before either is committed: contexts then change
        their beginning once, not twice.
        """
        kept = tuple(one for one in state.segments if not one.provisional)
        entries, counter = batch.entries, self._memory.token_counter
        sent = self._warm(state)
        for _ in range(_SMALLER_TRIES):
            try:
                written = await self._writer.batch(
                    [entry.message for entry in entries], [one.text for one in kept], counter, sent
                )
                break
            except TooMuch as error:
                tokens = sum(self._count(entry.message) for entry in entries)
                smaller = chunk_end(entries, min(self._writer.most, tokens // 2), self._count)
                # Where no cut divides a batch, its messages are shown shorter as long as that helps.
                if smaller == len(entries) and not self._long(entries):
                    raise Unfit("does not fit the window") from error
                entries = entries[:smaller]
        else:
            raise Unfit("does not fit the window")
        made = _segment(written, batch.first, entries[-1].position)
        merged, failed = None, None
        try:
            merged = await self._merged((*kept, made), sent)
        except AskFailed as error:
            failed = error
        if not await self._commit(made, state, lease):
            return None
        if merged is not None and await self._commit(merged, state, lease):
            self._metrics.add("summaries_merged")
        return Committed(made, failed)

    async def merge(self, lease: Lease) -> bool:
        """Merge neighbours when the summary is over its size; whether something was merged."""
        state = await self._memory.store.summary(self._key)
        merged = await self._merged(state.segments, self._warm(state))
        if merged is None or not await self._commit(merged, state, lease):
            return False
        self._metrics.add("summaries_merged")
        return True

    def _warm(self, state: SummaryState) -> Sent | None:
        """The context that the reader's provider still has, if the option to use it is on."""
        if self._sent is None:
            return None
        return self._sent(place_of(self._memory, self._key), state.head.generation)

    async def _merged(self, segments: Sequence[StoredSegment], sent: Sent | None) -> StoredSegment | None:
        """One segment for neighbours that should be merged, if any."""
        chosen = to_merge(segments, self._settings.size)
        if not chosen:
            return None
        texts, counter = [one.text for one in chosen], self._memory.token_counter
        try:
            written = await self._writer.merge(chosen, counter, sent)
        except (AskFailed, Unfit, TooMuch) as error:
            # The size holds whatever the model does; a failed call is tried again while there is room.
            size = self._settings.size
            if isinstance(error, AskFailed) and sum(one.tokens for one in segments) <= size + size // 4:
                raise
            written = await self._writer.extract(texts, counter)
        return _segment(written, chosen[0].first, chosen[-1].last, 1 + max(one.level for one in chosen))

    async def stand_in(self) -> bool:
        """Store the digest of one batch when the hard limit is passed; whether there was one to store."""
        state = await self._memory.store.summary(self._key)
        after = state.covered
        window = await self._read(after)
        entries = window.entries
        if not entries or window.head.generation != state.head.generation:
            return False
        if window.head.position > after + READ_AHEAD:
            cut = chunk_end(entries[: last_cut(entries)], self._writer.most, self._count)
        else:
            tokens = room(self._settings, state)
            cut = bounded_start(entries, after, self._limits, tokens, self._count)
        if not cut:
            return False
        made = stand_in(entries[:cut], after + 1, self._settings.size, self._memory.token_counter)
        done = await self._memory.store.commit_segment(
            self._key, made, generation=state.head.generation, fence=None
        )
        if done:
            self._metrics.add("digests_committed")
            await self._merge_stand_ins()
        return done

    async def _read(self, after: int) -> Window:
        """What comes after a position, from memory's own window where that is of the same agent."""
        memory, (agent, scope, conversation) = self._memory, self._key
        before = after + READ_AHEAD + 1
        if memory.agent == agent:
            return await memory.read(scope, conversation, after=after, before=before)
        return await memory.store.read(self._key, after=after, before=before)

    def _long(self, entries: Sequence[Entry]) -> bool:
        """Whether the summarizer is shown some of these messages in part."""
        return any(self._count(entry.message) > self._writer.longest for entry in entries)

    async def _merge_stand_ins(self) -> None:
        """Keep the digests of a long outage within the size together."""
        state = await self._memory.store.summary(self._key)
        waiting = [one for one in state.segments if one.provisional]
        if len(waiting) < 2 or sum(one.tokens for one in state.segments) <= self._settings.size:
            return
        written = await self._writer.extract([one.text for one in waiting], self._memory.token_counter)
        made = _segment(written, waiting[0].first, waiting[-1].last, 1, provisional=True)
        await self._memory.store.commit_segment(self._key, made, generation=state.head.generation, fence=None)

    async def _commit(self, made: StoredSegment, state: SummaryState, lease: Lease) -> bool:
        done = await self._memory.store.commit_segment(
            self._key, made, generation=state.head.generation, fence=lease.fence
        )
        if not done:
            self._metrics.add("summaries_discarded")
        return done


def _segment(
    written: Written, first: int, last: int, level: int = 0, *, provisional: bool = False
) -> StoredSegment:
    return StoredSegment(
        first=first,
        last=last,
        text=written.text,
        tokens=written.tokens,
        level=level,
        provisional=provisional,
        model=written.model,
        input_tokens=written.input_tokens,
        output_tokens=written.output_tokens,
        prompt_hash=written.prompt_hash,
        source_hash=written.source_hash,
        coverage=written.coverage,
    )
