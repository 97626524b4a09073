"""`SummaryJob`: the steps that summarize one conversation.

Each step reads the conversation, writes one segment and commits it only if nothing has changed meanwhile.
A failure leaves the log and the older summary as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from autonomy_ctx.background import give_way, run_in_steps, wait_for_quiet
from autonomy_ctx.compaction.cached_requests import CachedRequest
from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.facts import (
    FoundDone,
    add_profile_changes,
    changes_by_rules,
    changes_from_lines,
    facts_beside,
    still_done,
)
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import (
    CountMessage,
    Limits,
    bounded_start,
    chunk_end,
    digests_to_merge,
    expected_messages,
    is_due,
    last_cut,
    merged_digest_tokens,
    request_cut,
    segments_to_merge,
    window_start,
)
from autonomy_ctx.compaction.snapshot import MAX_DIGEST_CHARACTERS, PendingDigest, provisional_segment
from autonomy_ctx.compaction.view import (
    pays,
    render_summary_facts,
    shown_tokens,
    summary_tokens,
    window_budget,
)
from autonomy_ctx.compaction.word_tables import prepare_tables
from autonomy_ctx.compaction.writer import (
    INLINE_CHARACTERS,
    INLINE_FACTS,
    SegmentDraft,
    SegmentWriter,
    UnfitSummary,
    run_or_offload,
)
from autonomy_ctx.language.digest import read_for_digest
from autonomy_ctx.memory.cache import StoreKey, make_store_key
from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import OutlineReader
from autonomy_ctx.memory.store import Entry, Key, Lease, StoredSegment, SummaryState, Window
from autonomy_ctx.memory.summary_blocks import StoredBlock, put_blocks
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.models.call import CallFailed, PromptTooLong
from autonomy_ctx.tracing import summary_span

logger = logging.getLogger("autonomy_ctx.compaction")

# Positions looked at in one step; a longer backlog takes several.
READ_AHEAD = 512
# Only the newest, because no segment contains facts that were replaced long ago.
MAX_OUTDATED_FACTS = 400
# After so many refusals of the same messages, fewer of them are tried, or none.
MAX_REFUSALS = 2
_MAX_SHRINK_TRIES = 8
# At the end of the hash of its prompt, a segment has this if it was kept though it is poor.
DOUBTFUL_MARK = "?"


@dataclass(frozen=True, slots=True)
class SummaryBatch:
    """Entries to summarize next, and what a refusal of them would be remembered by."""

    entries: Sequence[Entry]
    first: int
    refusal_key: str
    # Whether fewer of them are tried next if these are refused.
    divisible: bool = False


@dataclass(frozen=True, slots=True)
class CommitResult:
    """A stored segment, and the reason why the merge after it was not stored."""

    segment: StoredSegment
    merge_error: CallFailed | None = None


class SummaryJob:
    """The steps for one conversation."""

    def __init__(
        self,
        memory: Memory,
        key: Key,
        settings: CompactionSettings,
        writer: SegmentWriter,
        metrics: SummaryMetrics,
        find_cached: Callable[[StoreKey, int], CachedRequest | None] | None = None,
        find_request: Callable[[StoreKey, int], CachedRequest | None] | None = None,
        *,
        expires: bool = False,
    ) -> None:
        self._memory, self._key = memory, key
        self._find_cached, self._find_request = find_cached, find_request
        self._expires = expires
        # The last position of what was found to pay in this run.
        self._last_that_pays = 0
        self._settings, self._limits = settings, settings.limits
        self._writer, self._metrics = writer, metrics
        counter = memory.token_counter
        self._count: CountMessage = lambda message: counter.calibration.scale(
            counter.count_uncalibrated(message)
        )

    async def next_batch(self, lease: Lease) -> tuple[SummaryState, SummaryBatch | None]:
        """Read the batch to summarize now from the store; the lease says what was refused before."""
        if self._settings.block_writer is not None:
            # Until the context that asked for a summary is known as a request.
            await wait_for_quiet()
        state = await self._memory.store.summary(self._key)
        after = state.written
        window = await self._read(after)
        head, entries = window.head, window.entries
        if not entries:
            return state, None
        complete = head.position <= after + READ_AHEAD
        lead = expected_messages(entries, self._metrics.summary_seconds) if self._settings.lead else 0
        limits = self._settings.limits_beside(summary_tokens(self._settings, state))
        is_begun = entries[0].position <= self._last_that_pays
        if complete and not (
            is_begun
            or is_due(entries, limits, self._count, lead)
            or state.covered > after
            or pays(self._settings, state, entries, self._count, expires=self._expires)
        ):
            return state, None
        costs = self._settings.costs
        if is_begun:
            # More than one call may take: the rest of it follows.
            end = sum(entry.position <= self._last_that_pays for entry in entries)
        elif complete:
            end = window_start(entries, limits, self._count, self._settings.room)
        else:
            end = last_cut(entries)
        if costs is not None and complete and not is_begun:
            end = costs.move_cut(entries, end, shown_tokens(state), self._count)
        # The messages behind a digest are no longer shown, so they belong to this batch.
        hidden = sum(entry.position <= state.covered for entry in entries)
        end = max(end, hidden)
        if complete and end and self._settings.block_writer is not None:
            end = self._end_of_request(state, entries, end, limits, hidden)
        if not end:
            return state, None
        if costs is not None and complete:
            self._last_that_pays = entries[end - 1].position
        chosen = entries[: chunk_end(entries[:end], self._writer.max_batch_tokens, self._count)]
        place = f"{head.generation}:{after}"
        # Changes with every batch of new messages, also while the first of a backlog stay the same.
        step = (head.position - after) // self._limits.batch
        in_backlog = not complete or len(chosen) < end
        if not in_backlog and not _was_refused_before(lease.refused, place, step):
            return state, SummaryBatch(chosen, after + 1, f"{place}:{step}")
        # More messages do not help: from now on, what is refused is divided.
        chosen = self._divide_refused(chosen, place, lease)
        divisible = self._half_of(chosen) < len(chosen)
        refusal_key = f"{place}-{chosen[-1].position}" + ("" if divisible else f":{step}")
        return state, SummaryBatch(chosen, after + 1, refusal_key, divisible)

    def _end_of_request(
        self, state: SummaryState, entries: Sequence[Entry], wanted: int, limits: Limits, hidden: int
    ) -> int:
        """The cut for a provider that summarizes as well, where a request ended; 0 to wait."""
        request = self._last_request(state)
        if request is None:
            return wanted
        may_wait = not hidden and self._may_wait(entries, limits)
        if may_wait and state.covered > request.covered:
            # There is a summary that was not shown yet: the one after it would only replace it.
            return 0
        cut = request_cut(entries, wanted, limits, began=request.began, least=hidden)
        return cut or (0 if may_wait else wanted)

    def _may_wait(self, entries: Sequence[Entry], limits: Limits) -> bool:
        """Tell whether there is room to wait for the reply to a request of the current epoch."""
        most = limits.ceiling_tokens
        has_room = most is None or self._tokens_of(entries) <= most
        return has_room and len(entries) <= (limits.ceiling + limits.hard) // 2

    def _divide_refused(self, entries: Sequence[Entry], place: str, lease: Lease) -> Sequence[Entry]:
        """As many of the entries as were refused last, or half of them after `MAX_REFUSALS`."""
        before, _, rest = lease.refused.partition("-")
        if before != place:
            return entries
        last = int(rest.partition(":")[0])
        tried = [entry for entry in entries if entry.position <= last] or entries
        return tried[: self._half_of(tried)] if lease.refusals >= MAX_REFUSALS else tried

    def _half_of(self, entries: Sequence[Entry]) -> int:
        """Count the first entries that have half of the tokens, up to a safe cut; all if there is none."""
        return chunk_end(entries, self._tokens_of(entries) // 2, self._count)

    def _tokens_of(self, entries: Sequence[Entry]) -> int:
        return sum(self._count(entry.message) for entry in entries)

    async def write_batch(
        self, state: SummaryState, batch: SummaryBatch, lease: Lease
    ) -> CommitResult | None:
        """Summarize a batch and commit it; None when it came too late.

        A merge that it makes necessary is committed with it: contexts then change their beginning once.
        """
        final_segments = tuple(one for one in state.segments if not one.provisional)
        entries, counter = batch.entries, self._memory.token_counter
        cached = self._cached_request(state)
        if self._settings.model is None:
            await run_in_steps(read_for_digest([entry.message for entry in entries]))
        done = await self._find_completed(state, entries)
        for _ in range(_MAX_SHRINK_TRIES):
            try:
                draft = await self._writer.write_batch(
                    [entry.message for entry in entries],
                    [one.text for one in final_segments],
                    counter,
                    cached,
                    facts_beside(state.facts, entries, done),
                    [pin.message.text for pin in state.pins],
                )
                break
            except PromptTooLong as error:
                most = min(self._writer.max_batch_tokens, self._tokens_of(entries) // 2)
                smaller = chunk_end(entries, most, self._count)
                # Where no cut divides a batch, its messages are shown shorter as long as that helps.
                if smaller == len(entries) and not self._has_long_message(entries):
                    raise UnfitSummary("does not fit the window") from error
                entries = entries[:smaller]
        else:
            raise UnfitSummary("does not fit the window")
        segment = _make_segment(draft, batch.first, entries[-1].position, times=_times(entries))
        facts = await self._fact_changes(draft, entries, state, done)
        merged, merge_error = None, None
        try:
            merged = await self._merge_if_needed((*final_segments, segment), state, cached)
        except CallFailed as error:
            merge_error = error
        # First the block: a summary that is stored is shown, with the block if there is one.
        if self._settings.block_writer is not None:
            await self._write_block(state, segment.last)
        if not await self._commit(segment, state, lease, facts, merged):
            return None
        if merged is not None:
            self._metrics.add("summaries_merged")
        return CommitResult(segment, merge_error)

    async def merge(self, lease: Lease) -> bool:
        """Merge neighbouring segments if the summary is over its size.

        Returns whether something was merged.
        """
        state = await self._memory.store.summary(self._key)
        merged = await self._merge_if_needed(state.segments, state, self._cached_request(state))
        if merged is None or not await self._commit(merged, state, lease):
            return False
        self._metrics.add("summaries_merged")
        return True

    def _cached_request(self, state: SummaryState) -> CachedRequest | None:
        """The request that the reader's provider still has, if the option to use it is on."""
        if self._find_cached is None:
            return None
        return self._find_cached(make_store_key(self._memory.store, self._key), state.head.generation)

    def _last_request(self, state: SummaryState) -> CachedRequest | None:
        """The newest request of the conversation, if its provider is to summarize it as well."""
        if self._find_request is None:
            return None
        return self._find_request(make_store_key(self._memory.store, self._key), state.head.generation)

    async def _write_block(self, state: SummaryState, last: int) -> None:
        """Have the provider summarize the messages up to a position, too, and store what it writes.

        If it writes nothing, the reason is stored, and our own text is shown.
        """
        request, model = self._last_request(state), self._settings.block_writer
        messages = None if request is None else request.before_reply(last + 1)
        if request is None or messages is None:
            return
        try:
            with anyio.fail_after(self._settings.timeout):
                made = await model.compact(
                    messages,
                    request.tools,
                    breakpoints=_within(request, messages),
                    cache_key=request.cache_key,
                )
        except Exception as error:
            block, problem = None, type(error).__name__
        else:
            self._metrics.add("summarizer_calls")
            self._metrics.add("summarizer_input_tokens", made.usage.input_tokens)
            self._metrics.add("summarizer_output_tokens", made.usage.output_tokens)
            block, problem = made.block, "" if made.block else made.stop
        if problem:
            logger.warning("the provider wrote no summary (%s); our own is shown", problem)
        self._metrics.add("blocks_failed" if problem else "blocks_written")
        stored = StoredBlock(last, state.head.generation, block, problem)
        await put_blocks(self._memory.store, self._key, [stored])

    async def _find_completed(self, state: SummaryState, entries: Sequence[Entry]) -> list[FoundDone]:
        """The facts that a digest of these messages has found done: whether they are is decided again."""
        store, first, last = self._memory.store, entries[0].position, entries[-1].position
        if not self._settings.facts or state.covered < first or not isinstance(store, OutlineReader):
            return []
        done = (await store.outline(self._key, ())).done_facts
        ends = {one.fact_id: one for one in done if first <= one.position <= last and one.source != "user"}
        found = await store.facts(self._key) if ends else []
        return [FoundDone(replace(fact, state="holds"), ends[fact.id]) for fact in found if fact.id in ends]

    async def _fact_changes(
        self,
        draft: SegmentDraft,
        entries: Sequence[Entry],
        state: SummaryState,
        done: Sequence[FoundDone],
    ) -> list[FactChange] | None:
        """The changes of facts by a batch, with those for the profile."""
        settings = self._settings
        if not settings.facts:
            return None
        state = replace(state, facts=facts_beside(state.facts, entries, done))
        changes = await self._standing_changes(draft, entries, state, done)
        light = sum(approximate_length(entry.message) for entry in entries) <= INLINE_CHARACTERS
        return await run_or_offload(
            light,
            partial(add_profile_changes, changes, entries, state.facts, settings.zone, settings.profile),
        )

    async def _standing_changes(
        self,
        draft: SegmentDraft,
        entries: Sequence[Entry],
        state: SummaryState,
        done: Sequence[FoundDone],
    ) -> list[FactChange]:
        """The changes of facts that the model wrote, or those found by rules if it wrote none to be read."""
        zone = self._settings.zone
        # A model that has written facts before, but none now, has no changes.
        writes_facts = draft.model != "digest" and any(fact.source == "model" for fact in state.facts)
        if (draft.fact_lines is not None or writes_facts) and not draft.has_unread_facts:
            changes = await run_or_offload(
                len(state.facts) <= INLINE_FACTS,
                partial(changes_from_lines, draft.fact_lines or (), entries, state.facts, zone),
            )
            # A model whose lines are all invented does not write facts either.
            if changes or not draft.fact_lines:
                return changes + still_done(done, entries, changes, draft.listed)
        before = await self._entry_before(entries[0])
        return await run_in_steps(changes_by_rules(entries, state.facts, zone, before))

    async def _entry_before(self, entry: Entry) -> Entry | None:
        """The message right before a batch, which the first one of the batch may answer."""
        if entry.position <= 1 or entry.message.role is ChatRole.TOOL:
            return None
        found = await self._memory.store.read(self._key, after=entry.position - 2, before=entry.position)
        return found.entries[-1] if found.entries else None

    async def _segments_size(self, state: SummaryState) -> int:
        """The tokens that segments may have together: what the facts leave of the size."""
        await give_way()
        return self._settings.size - self._memory.token_counter.count_text(self._render_facts(state))

    def _render_facts(self, state: SummaryState) -> str:
        return render_summary_facts(state.facts, self._settings, self._memory.token_counter).text

    async def _merge_if_needed(
        self, segments: Sequence[StoredSegment], state: SummaryState, cached: CachedRequest | None
    ) -> StoredSegment | None:
        """One segment for neighbours that should be merged, if any."""
        size = await self._segments_size(state)
        has_model = self._settings.model is not None
        chosen = (segments_to_merge if has_model else digests_to_merge)(segments, size)
        if not chosen:
            return None
        texts, counter = [one.text for one in chosen], self._memory.token_counter
        tokens, outdated = merged_digest_tokens(segments, chosen, size), await self._outdated_facts()
        try:
            with summary_span(first=chosen[0].first, last=chosen[-1].last, model=self._settings.model_name):
                if has_model:
                    draft = await self._writer.write_merge(chosen, counter, cached)
                else:
                    draft = await self._writer.extract(texts, tokens, counter, outdated)
        except (CallFailed, UnfitSummary, PromptTooLong) as error:
            # The size limit always holds; a failed call is repeated only while there is room.
            if isinstance(error, CallFailed) and sum(one.tokens for one in segments) <= size + size // 4:
                raise
            if isinstance(error, UnfitSummary):
                self._metrics.count_refusal(error.reason)
            draft = await self._writer.extract(texts, tokens, counter, outdated)
        return _make_segment(
            draft,
            chosen[0].first,
            chosen[-1].last,
            1 + max(one.level for one in chosen),
            times=(chosen[0].began, chosen[-1].ended),
        )

    async def _outdated_facts(self) -> list[str]:
        """The texts of facts that were replaced or are done."""
        if not self._settings.facts:
            return []
        facts = await self._memory.store.facts(self._key)
        return [fact.text for fact in facts if fact.state != "holds"][-MAX_OUTDATED_FACTS:]

    async def store_digest(self, announce: Callable[[PendingDigest], None]) -> bool:
        """Store the digest of one batch if the hard limit is exceeded.

        It is announced when it is written: the facts of its messages, which are stored with it, take longer.
        Returns whether there was one to store.
        """
        state = await self._memory.store.summary(self._key)
        after = state.covered
        window = await self._read(after)
        entries = window.entries
        if not entries or window.head.generation != state.head.generation:
            return False
        if window.head.position > after + READ_AHEAD:
            cut = chunk_end(entries[: last_cut(entries)], self._writer.max_batch_tokens, self._count)
        else:
            tokens = window_budget(self._settings, state)
            cut = bounded_start(entries, after, self._limits, tokens, self._count)
        if not cut:
            return False
        chosen = entries[:cut]
        await prepare_tables()
        await run_in_steps(read_for_digest([entry.message for entry in chosen], MAX_DIGEST_CHARACTERS))
        await give_way()
        segment = provisional_segment(chosen, after + 1, self._settings, self._memory.token_counter)
        announce(PendingDigest(segment, state.head.generation))
        facts = None
        if self._settings.facts:
            before = await self._entry_before(entries[0])
            facts = await run_in_steps(changes_by_rules(chosen, state.facts, self._settings.zone, before))
        done = await self._memory.store.commit_segment(
            self._key, segment, generation=state.head.generation, fence=None, facts=facts
        )
        if done:
            self._metrics.add("digests_committed")
            await self._merge_digests()
        return done

    async def _read(self, after: int) -> Window:
        """Read the entries after a position, through the memory if it belongs to the same agent."""
        memory, (agent, scope, conversation) = self._memory, self._key
        before = after + READ_AHEAD + 1
        if memory.agent == agent:
            return await memory.read(scope, conversation, after=after, before=before)
        return await memory.store.read(self._key, after=after, before=before)

    def _has_long_message(self, entries: Sequence[Entry]) -> bool:
        """Tell whether the summarizer is shown some of these messages in part."""
        return any(self._count(entry.message) > self._writer.max_message_tokens for entry in entries)

    async def _merge_digests(self) -> None:
        """Keep the digests of a long outage within the size together."""
        state = await self._memory.store.summary(self._key)
        size = await self._segments_size(state)
        waiting = digests_to_merge(state.segments, size, provisional=True)
        if not waiting:
            return
        draft = await self._writer.extract(
            [one.text for one in waiting],
            merged_digest_tokens(state.segments, waiting, size),
            self._memory.token_counter,
            await self._outdated_facts(),
        )
        times = (waiting[0].began, waiting[-1].ended)
        segment = _make_segment(draft, waiting[0].first, waiting[-1].last, 1, provisional=True, times=times)
        await self._memory.store.commit_segment(
            self._key, segment, generation=state.head.generation, fence=None
        )

    async def _commit(
        self,
        segment: StoredSegment,
        state: SummaryState,
        lease: Lease,
        facts: Sequence[FactChange] | None = None,
        merged: StoredSegment | None = None,
    ) -> bool:
        # A message that somebody waits for is stored first.
        await wait_for_quiet()
        done = await self._memory.store.commit_segment(
            self._key,
            segment,
            generation=state.head.generation,
            fence=lease.fence,
            facts=facts,
            merged=merged,
        )
        if not done:
            self._metrics.add("summaries_discarded")
        return done


def _within(request: CachedRequest, messages: Sequence[Message]) -> list[int]:
    """The breakpoints of a request that stand among its first messages."""
    return [at for at in request.breakpoints if at < len(messages)]


def _was_refused_before(refusal_key: str, place: str, step: int) -> bool:
    """Tell whether messages from the same place on were refused when there were fewer, or a part of them."""
    return refusal_key.startswith((f"{place}:", f"{place}-")) and refusal_key != f"{place}:{step}"


def _times(entries: Sequence[Entry]) -> tuple[float, float]:
    """When the first and the last of some messages were written."""
    return entries[0].message.created_at.timestamp(), entries[-1].message.created_at.timestamp()


def _make_segment(
    draft: SegmentDraft,
    first: int,
    last: int,
    level: int = 0,
    *,
    provisional: bool = False,
    times: tuple[float, float],
) -> StoredSegment:
    return StoredSegment(
        began=times[0],
        ended=times[1],
        first=first,
        last=last,
        text=draft.text,
        tokens=draft.tokens,
        level=level,
        provisional=provisional,
        model=draft.model,
        input_tokens=draft.input_tokens,
        output_tokens=draft.output_tokens,
        prompt_hash=draft.prompt_hash + DOUBTFUL_MARK * draft.is_doubtful,
        source_hash=draft.source_hash,
        coverage=draft.coverage,
    )
