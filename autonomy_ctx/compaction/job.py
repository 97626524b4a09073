"""`SummaryJob`: the steps that summarize one conversation.

Each step reads the conversation, writes one segment and commits it only if nothing has changed meanwhile.
A failure leaves the log and the older summary as they were.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from autonomy_ctx.background import give_way, run_in_steps, run_in_thread, wait_for_quiet
from autonomy_ctx.compaction.calls import CachedRequest
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
    Limits,
    bounded_start,
    chunk_end,
    digests_to_merge,
    last_cut,
    merged_digest_tokens,
    request_cut,
    segments_to_merge,
    window_start,
)
from autonomy_ctx.compaction.snapshot import READ_AHEAD, PendingDigest, find_question, provisional_segment
from autonomy_ctx.compaction.view import (
    message_counter,
    needs_summary,
    render_summary_facts,
    shown_tokens,
    summary_tokens,
    window_budget,
)
from autonomy_ctx.compaction.word_tables import prepare_tables
from autonomy_ctx.compaction.writer import SegmentDraft, SegmentWriter, UnfitSummary
from autonomy_ctx.memory.cache import StoreKey, make_store_key
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Key, Lease, StoredSegment, SummaryState, Window
from autonomy_ctx.memory.summary_blocks import StoredBlock, put_blocks
from autonomy_ctx.messages.fact import FactChange
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.models.call import CallFailed, PromptTooLong
from autonomy_ctx.models.catalog import estimate_cost
from autonomy_ctx.tracing import summary_span

logger = logging.getLogger("autonomy_ctx.compaction")

# After so many refusals of the same messages, fewer of them are tried, or none.
MAX_REFUSALS = 2
_MAX_SHRINK_TRIES = 8


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
        writer: SegmentWriter,
        metrics: SummaryMetrics,
        requests: Mapping[StoreKey, CachedRequest],
        clock: Callable[[], float],
        *,
        expires: bool = False,
        by_hand: bool = False,
        until: int | None = None,
    ) -> None:
        self._memory, self._key = memory, key
        self._store_key = make_store_key(memory.store, key)
        self._requests, self._clock = requests, clock
        self._expires, self._by_hand = expires, by_hand
        # The last position of what a batch was sent for.
        self._until = until
        # The last position of what was found to pay in this run, or was asked for.
        self._last_that_pays = 0
        self._settings, self._limits = writer.settings, writer.settings.limits
        self._writer, self._metrics = writer, metrics
        self._count = message_counter(memory.token_counter)

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
        if self._until is not None:
            sent, self._until = [one for one in entries if one.position <= self._until], None
            return state, SummaryBatch(sent, after + 1, f"{head.generation}:{after}") if sent else None
        complete = head.position <= after + READ_AHEAD
        settings, seconds = self._settings, self._metrics.summary_seconds
        is_begun = entries[0].position <= self._last_that_pays
        is_asked = self._by_hand and not self._last_that_pays
        if complete and not (
            is_begun
            or is_asked
            or needs_summary(settings, state, entries, self._count, seconds, expires=self._expires)
        ):
            return state, None
        costs, limits = settings.costs, settings.limits_beside(summary_tokens(settings, state))
        if is_begun:
            # More than one call may take: the rest of it follows.
            end = sum(entry.position <= self._last_that_pays for entry in entries)
        elif complete:
            end = window_start(entries, limits, self._count, self._settings.room)
        else:
            end = last_cut(entries)
        if costs is not None and complete and not is_begun and not is_asked:
            end = costs.move_cut(entries, end, shown_tokens(state), self._count)
        # The messages behind a digest are no longer shown, so they belong to this batch.
        hidden = sum(entry.position <= state.covered for entry in entries)
        end = max(end, hidden)
        if complete and end and self._settings.block_writer is not None:
            end = self._end_of_request(state, entries, end, limits, hidden)
        if not end:
            return state, None
        if (costs is not None or is_asked) and complete:
            self._last_that_pays = entries[end - 1].position
        chosen = entries[: chunk_end(entries[:end], self._writer.max_batch_tokens, self._count)]
        place = f"{head.generation}:{after}"
        # Changes with every batch of new messages, also while the first of a backlog stay the same. Where the
        # cost decides, a batch may have any size: there it changes when there are twice as many.
        waiting = head.position - after
        step = waiting // self._limits.batch if costs is None else waiting.bit_length()
        in_backlog = not complete or len(chosen) < end
        # From the same place on, when there were fewer, or a part of them.
        refused, fresh = lease.refused, f"{place}:{step}"
        was_refused = refused.startswith((f"{place}:", f"{place}-")) and refused != fresh
        if not in_backlog and not was_refused:
            return state, SummaryBatch(chosen, after + 1, fresh)
        # More messages do not help: from now on, what is refused is divided.
        chosen = self._divide_refused(chosen, place, lease)
        divisible = self._half_of(chosen) < len(chosen)
        refusal_key = f"{place}-{chosen[-1].position}" + ("" if divisible else f":{step}")
        return state, SummaryBatch(chosen, after + 1, refusal_key, divisible)

    def _end_of_request(
        self, state: SummaryState, entries: Sequence[Entry], wanted: int, limits: Limits, hidden: int
    ) -> int:
        """The cut for a provider that summarizes as well, where a request ended; 0 to wait."""
        request = self._find_request(state)
        if request is None:
            return wanted
        most = limits.ceiling_tokens
        has_room = most is None or self._tokens_of(entries) <= most
        is_early = has_room and len(entries) <= (limits.ceiling + limits.hard) // 2
        may_wait = is_early and not hidden and not self._by_hand
        if may_wait and state.covered > request.covered:
            # There is a summary that was not shown yet: the one after it would only replace it.
            return 0
        cut = request_cut(entries, wanted, limits, began=request.began, least=hidden)
        return cut or (0 if may_wait else wanted)

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
        cached = self._find_request(state, is_cached=True) if self._settings.share_prefix else None
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
                longest = max(self._count(entry.message) for entry in entries)
                if smaller == len(entries) and longest <= self._writer.max_message_tokens:
                    raise UnfitSummary("does not fit the window") from error
                entries = entries[:smaller]
        else:
            raise UnfitSummary("does not fit the window")
        segment = replace(
            draft.segment,
            first=batch.first,
            last=entries[-1].position,
            began=entries[0].message.created_at.timestamp(),
            ended=entries[-1].message.created_at.timestamp(),
        )
        facts = await self._fact_changes(draft, entries, state, done)
        merged, merge_error = None, None
        try:
            merged = await self._merge_if_needed((*final_segments, segment), state)
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
        merged = await self._merge_if_needed(state.segments, state)
        if merged is None or not await self._commit(merged, state, lease):
            return False
        self._metrics.add("summaries_merged")
        return True

    def _find_request(self, state: SummaryState, *, is_cached: bool = False) -> CachedRequest | None:
        """The newest request of the conversation, if its provider still has it, where that matters."""
        request = self._requests.get(self._store_key)
        if request is None or request.generation != state.head.generation:
            return None
        is_gone = is_cached and self._clock() - request.at > self._settings.cache_seconds
        return None if is_gone else request

    async def _write_block(self, state: SummaryState, last: int) -> None:
        """Have the provider summarize the messages up to a position, too, and store what it writes.

        If it writes nothing, the reason is stored, and our own text is shown.
        """
        request, model = self._find_request(state), self._settings.block_writer
        messages = None if request is None else request.before_reply(last + 1)
        if request is None or messages is None:
            return
        cost = None
        try:
            with anyio.fail_after(self._settings.config.timeout):
                made = await model.compact(
                    messages,
                    request.tools,
                    breakpoints=[at for at in request.breakpoints if at < len(messages)],
                    cache_key=request.cache_key,
                )
        except Exception as error:
            block, problem = None, type(error).__name__
        else:
            self._metrics.add("summarizer_calls")
            self._metrics.add("summarizer_input_tokens", made.usage.input_tokens)
            self._metrics.add("summarizer_output_tokens", made.usage.output_tokens)
            block, problem = made.block, "" if made.block else made.stop
            # One that wrote nothing is charged, too.
            cost = estimate_cost(made.usage, model)
        if problem:
            logger.warning("the provider wrote no summary (%s); our own is shown", problem)
        self._metrics.add("blocks_failed" if problem else "blocks_written")
        stored = StoredBlock(last, state.head.generation, block, problem, cost or 0.0)
        await put_blocks(self._memory.store, self._key, [stored])

    async def _find_completed(self, state: SummaryState, entries: Sequence[Entry]) -> list[FoundDone]:
        """The facts that a digest of these messages has found done: whether they are is decided again."""
        store, first, last = self._memory.store, entries[0].position, entries[-1].position
        if not self._settings.config.facts or state.covered < first:
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
        if not settings.config.facts:
            return None
        state = replace(state, facts=facts_beside(state.facts, entries, done))
        changes = await self._standing_changes(draft, entries, state, done)
        return await run_in_thread(
            lambda: add_profile_changes(changes, entries, state.facts, settings.zone, settings.config.profile)
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
        writes_facts = draft.segment.model != "digest" and any(fact.source == "model" for fact in state.facts)
        if (draft.facts.lines is not None or writes_facts) and not draft.facts.is_unread:
            changes = await run_in_thread(
                lambda: changes_from_lines(draft.facts.lines or (), entries, state.facts, zone)
            )
            # A model whose lines are all invented does not write facts either.
            if changes or not draft.facts.lines:
                return changes + still_done(done, entries, changes, draft.listed)
        before = await self._entry_before(entries[0])
        return await run_in_steps(changes_by_rules(entries, state.facts, zone, before))

    async def _entry_before(self, entry: Entry) -> Entry | None:
        """The message right before a batch, which the first one of the batch may answer."""
        if entry.position <= 1 or entry.message.role is ChatRole.TOOL:
            return None
        found = await self._memory.store.read(self._key, after=entry.position - 2, before=entry.position)
        return found.entries[-1] if found.entries else None

    async def _merge_if_needed(
        self,
        segments: Sequence[StoredSegment],
        state: SummaryState,
        *,
        provisional: bool = False,
    ) -> StoredSegment | None:
        """One segment for neighbours that should be merged, if any; of `provisional` ones without a model."""
        await give_way()
        counter = self._memory.token_counter
        has_model = self._settings.config.model is not None and not provisional
        facts = render_summary_facts(state.facts, self._settings, counter)
        # What the facts leave of the size.
        size = self._settings.size - counter.count_text(facts.text)
        if has_model:
            chosen = segments_to_merge(segments, size)
        else:
            chosen = digests_to_merge(segments, size, provisional=provisional)
        if not chosen:
            return None
        first, last = chosen[0].first, chosen[-1].last
        with summary_span(first=first, last=last, model=self._settings.model_name):
            merged = await self._merge_with_model(segments, chosen, size) if has_model else None
            if merged is None:
                tokens = merged_digest_tokens(segments, chosen, size)
                outdated = [one.text for one in state.ended] if self._settings.config.facts else []
                merged = await self._writer.extract([one.text for one in chosen], tokens, counter, outdated)
        return replace(
            merged,
            first=first,
            last=last,
            level=1 + max(one.level for one in chosen),
            provisional=provisional,
            began=chosen[0].began,
            ended=chosen[-1].ended,
        )

    async def _merge_with_model(
        self,
        segments: Sequence[StoredSegment],
        chosen: Sequence[StoredSegment],
        size: int,
    ) -> StoredSegment | None:
        """The chosen segments as one; None if the model fails and the size limit needs a digest."""
        try:
            return await self._writer.write_merge(chosen, self._memory.token_counter)
        except CallFailed:
            # The size limit always holds; a failed call is repeated only while there is room.
            if sum(one.tokens for one in segments) <= size + size // 4:
                raise
        except UnfitSummary as error:
            self._metrics.count_refusal(error.reason)
        except PromptTooLong:
            pass
        return None

    async def store_digest(self, announce: Callable[[PendingDigest], None]) -> bool:
        """Store the digest of one batch if the hard limit is exceeded.

        It is announced when it is written: the facts of its messages, which are stored with it, take longer.
        Returns whether there was one to store.
        """
        store = self._memory.store
        state = await store.summary(self._key)
        after = state.covered
        window = await self._read(after)
        entries = window.entries
        if not entries or window.head.generation != state.head.generation:
            return False
        if window.head.position > after + READ_AHEAD:
            cut = chunk_end(entries[: last_cut(entries)], self._writer.max_batch_tokens, self._count)
        else:
            tokens = window_budget(self._settings, state)
            asked = await find_question(self._memory, self._key, state.head.last_user, entries)
            cut = bounded_start(entries, after, self._limits, tokens, self._count, asked)
        if not cut:
            return False
        chosen = entries[:cut]
        await prepare_tables()
        segment = await run_in_thread(
            lambda: provisional_segment(chosen, after + 1, self._settings, self._memory.token_counter)
        )
        announce(PendingDigest(segment, state.head.generation))
        facts = None
        if self._settings.config.facts:
            before = await self._entry_before(entries[0])
            facts = await run_in_steps(changes_by_rules(chosen, state.facts, self._settings.zone, before))
        done = await store.commit_segment(
            self._key, segment, generation=state.head.generation, fence=None, facts=facts
        )
        if done:
            self._metrics.add("digests_committed")
            # Those of a long outage keep the size together.
            state = await store.summary(self._key)
            merged = await self._merge_if_needed(state.segments, state, provisional=True)
            if merged is not None:
                generation = state.head.generation
                await store.commit_segment(self._key, merged, generation=generation, fence=None)
        return done

    async def _read(self, after: int) -> Window:
        """Read the entries after a position, through the memory if it belongs to the same agent."""
        memory, (agent, scope, conversation) = self._memory, self._key
        before = after + READ_AHEAD + 1
        if memory.agent == agent:
            return await memory.read(scope, conversation, after=after, before=before)
        return await memory.store.read(self._key, after=after, before=before)

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
