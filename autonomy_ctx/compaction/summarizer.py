"""The background summarizer: which conversations are summarized, and when a failure is retried.

No turn waits for it. Jobs run in a `Background` under leases kept in the store, so one process at a time
summarizes a conversation and any process can continue after a crash.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary, ref

import anyio
from anyio.abc import TaskGroup

from autonomy_ctx.background import Background
from autonomy_ctx.compaction.calls import (
    BATCH_POLL_SECONDS,
    BatchCall,
    BatchPending,
    CachedRequest,
    SummaryBatchMark,
    breaker_of,
    retry_delay,
)
from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.job import MAX_REFUSALS, CommitResult, SummaryBatch, SummaryJob
from autonomy_ctx.compaction.manual import ManualSummary
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.snapshot import PendingDigest
from autonomy_ctx.compaction.word_tables import prepare_tables
from autonomy_ctx.compaction.writer import SegmentWriter, UnfitSummary
from autonomy_ctx.errors import ModelError, StoreClosed, StoreError
from autonomy_ctx.hooks import Hook, fire, validate_hooks
from autonomy_ctx.memory.cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, Lease, StoredSegment, SummaryState
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.models.call import CallFailed
from autonomy_ctx.tracing import background_trace, current_span_context, summary_span

logger = logging.getLogger("autonomy_ctx.compaction")

# How soon to ask again for a conversation that another process is working on.
LEASED_RETRY_SECONDS = 1.0
# How soon a worker elsewhere is asked again for a conversation.
WORKER_REQUEST_SECONDS = 2.0
# How often to look for work that a process has left behind.
SWEEP_SECONDS = 30.0
_REFUSAL_RETRY_SECONDS = 300.0
# The task of a summary that somebody asked for: another one than that of summaries which are due, so that it
# does not wait for their next attempt.
MANUAL_TASK = "by hand"
# After so many rejected summaries in a row, a warning shows how the last one began.
MANY_REFUSALS = 5
_TRACKED_CONVERSATIONS = 4096


class SummaryHook(Enum):
    """The events of a summarizer. Each hook gets a `SummaryEvent`."""

    BEFORE_SUMMARY = "before_summary"
    AFTER_SUMMARY = "after_summary"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryEvent:
    """The argument of a hook: which messages a summary covers, and the segment, if it is written."""

    agent: str
    scope: str
    conversation: str
    first: int
    last: int
    messages: int
    segment: StoredSegment | None = None


@dataclass(slots=True)
class _DueSummary:
    """State of a conversation until its next summary; safe to lose."""

    # Not before this time, by the clock.
    not_before: float = 0.0
    # Whether its cache will expire before the next request.
    expires: bool = False
    # The span of the turn that asked for the summary.
    cause: Any = None
    # A digest that is being stored.
    digest: PendingDigest | None = None


class Summarizer:
    """Keeps conversations between floor and ceiling, a few at a time."""

    def __init__(
        self,
        settings: CompactionSettings,
        metrics: SummaryMetrics,
        *,
        background: Background,
        hooks: Iterable[Hook] | None = None,
        clock: Callable[[], float] = time.monotonic,
        requests: Mapping[StoreKey, CachedRequest] | None = None,
    ) -> None:
        self._settings, self._metrics = settings, metrics
        self._requests = {} if requests is None else requests
        self._background, self._clock = background, clock
        self._hooks = validate_hooks(hooks, SummaryHook)
        self.writer = SegmentWriter(settings, metrics, breaker_of(settings.config.model, clock))
        self._owner = f"{os.getpid()}-{uuid4().hex[:12]}"
        self.task = settings.task
        # By store and key: two memories may hold conversations with the same name.
        self._running: set[StoreKey] = set()
        self._storing_digests: set[StoreKey] = set()
        # They wait in the store until a slot is free.
        self._queued: ConversationCache[StoreKey, bool] = ConversationCache(_TRACKED_CONVERSATIONS)
        self._waiting: ConversationCache[StoreKey, _DueSummary] = ConversationCache(_TRACKED_CONVERSATIONS)
        self._slot_freed = anyio.Event()
        # The event that wakes the sweeper of a store early.
        self._wakeups: WeakKeyDictionary[Any, anyio.Event] = WeakKeyDictionary()

    @property
    def settings(self) -> CompactionSettings:
        """The limits as they are now; they follow the model's context window and the budget."""
        return self._settings

    @settings.setter
    def settings(self, settings: CompactionSettings) -> None:
        self._settings = self.writer.settings = settings

    @property
    def pending(self) -> int:
        """Conversations that are being summarized or wait for it."""
        return len(self._running) + len(self._queued)

    def request(self, memory: Memory, key: Key, *, expires: bool = False) -> None:
        """Request a summary of a conversation, unless one is in progress or must wait.

        With `expires`, one that pays because the cache will have expired before the next request.
        """
        store_key = make_store_key(memory.store, key)
        is_running, waiting = store_key in self._running, self._waiting_for(store_key)
        if self.settings.config.worker is not None:
            may_ask = not is_running and waiting.not_before <= self._clock()
            if may_ask and self._background.start(partial(self._enqueue, memory, key)):
                waiting.not_before = self._clock() + WORKER_REQUEST_SECONDS
            return
        self._sweep(memory)
        if is_running or waiting.not_before > self._clock():
            return
        waiting.expires |= expires
        waiting.cause = waiting.cause or current_span_context()
        is_full = len(self._running) >= self.settings.config.parallel
        if is_full or self.writer.breaker.seconds_until_allowed() > 0:
            if store_key not in self._queued and self._background.start(partial(self._enqueue, memory, key)):
                self._queued[store_key] = True
        elif self._background.start(partial(self._run, memory, key)):
            self._mark_running(store_key)

    def request_digest(self, memory: Memory, key: Key) -> None:
        """Store the digest that a context showed, so that the next context need not make it again."""
        store_key = make_store_key(memory.store, key)
        if self.settings.config.model is None:
            # A summary without a model is a digest itself: one of the two is enough.
            self.request(memory, key)
            if store_key in self._running:
                return
        if store_key not in self._storing_digests and self._background.start(
            partial(self._store_digests, memory, key)
        ):
            self._storing_digests.add(store_key)

    def pending_digest(self, store_key: StoreKey) -> PendingDigest | None:
        """The digest that is being stored for a conversation, if there is one."""
        waiting = self._waiting.get(store_key)
        return None if waiting is None else waiting.digest

    def clear(self, scope: str | None = None, conversation: str | None = None) -> None:
        """Forget the delays of a conversation, a scope or all; for all, also the failures of the model."""
        self._waiting.forget(scope=scope, conversation=conversation)
        if scope is None:
            self.writer.breaker.reset()

    async def catch_up(self, memory: Memory) -> float | None:
        """Do all due work on this store. Returns the seconds until more is due, or None if there is none."""
        while True:
            errors: list[StoreError] = []
            found: Lease | float | None = None
            took = False
            async with anyio.create_task_group() as group:
                while not errors and isinstance(found := await self._claim_next(memory), Lease):
                    took = True
                    group.start_soon(self._run_lease, memory, found, errors)
            if errors:
                raise errors[0]
            # What was taken has been let go of by now: only another look tells what is owed.
            if not took:
                return None if found is None or isinstance(found, Lease) else min(found, SWEEP_SECONDS)

    async def write_now(self, memory: Memory, key: Key, manual: ManualSummary) -> None:
        """Summarize all but the newest messages now. It says what was written, and why not all."""
        lease: Lease | float | None = None
        with anyio.move_on_after(self.settings.config.timeout):
            while not isinstance(lease, Lease):
                lease = await memory.store.claim(
                    key, owner=self._owner, task=MANUAL_TASK, seconds=self.settings.config.lease
                )
                if not isinstance(lease, Lease):
                    await anyio.sleep(LEASED_RETRY_SECONDS / 4)
        if not isinstance(lease, Lease):
            manual.problem = "another summary of this conversation is being written"
            return
        store_key = make_store_key(memory.store, key)
        self._mark_running(store_key)
        try:
            await self._run_under_lease(memory, lease, manual)
        finally:
            self._mark_done(store_key)

    async def serve(
        self, memory: Memory, wait: Callable[[float], Awaitable[None]], poll_seconds: float
    ) -> None:
        """Do all work on this store, also later work, until it is cancelled or the store is closed.

        `wait` is called with the most seconds to wait when nothing is due; it may return sooner. No wait is
        longer than `poll_seconds`.
        """
        async with anyio.create_task_group() as group:
            while True:
                try:
                    found = await self._claim_next(memory)
                except StoreClosed:
                    return
                except StoreError as error:
                    logger.warning(
                        "due summaries could not be read; the next attempt is in %g s: %s",
                        poll_seconds,
                        error,
                    )
                    found = poll_seconds
                if isinstance(found, Lease):
                    group.start_soon(self._run_lease, memory, found)
                else:
                    await wait(poll_seconds if found is None else min(found, poll_seconds))

    async def _claim_next(self, memory: Memory) -> Lease | float | None:
        """Claim due work once a slot is free; the seconds until some may be due, or None if none is."""
        while len(self._running) >= self.settings.config.parallel:
            await self._slot_freed.wait()
        found = self.writer.breaker.seconds_until_allowed() or await memory.store.claim_next(
            owner=self._owner, task=self.task, seconds=self.settings.config.lease
        )
        if isinstance(found, Lease):
            self._mark_running(make_store_key(memory.store, found.key))
        return found

    def _waiting_for(self, store_key: StoreKey) -> _DueSummary:
        return self._waiting.setdefault(store_key, _DueSummary())

    def _mark_running(self, store_key: StoreKey) -> None:
        self._running.add(store_key)
        self._queued.pop(store_key, None)
        self._metrics.add("background_tasks_started")

    def _mark_done(self, store_key: StoreKey) -> None:
        """Free a slot, and look for more work if some is due."""
        self._running.discard(store_key)
        slot_freed, self._slot_freed = self._slot_freed, anyio.Event()
        slot_freed.set()
        if self._queued:
            for wakeup in list(self._wakeups.values()):
                wakeup.set()

    async def _enqueue(self, memory: Memory, key: Key) -> None:
        try:
            await memory.store.enqueue_task(key, task=self.task)
        except StoreError:
            self._queued.pop(make_store_key(memory.store, key), None)

    async def _run_lease(self, memory: Memory, lease: Lease, errors: list[StoreError] | None = None) -> None:
        """Work under a lease and free its slot; an error of the store is collected, or logged."""
        try:
            await self._run_under_lease(memory, lease)
        except StoreError as error:
            if errors is None:
                self._note_failure(error)
            else:
                errors.append(error)
        finally:
            self._mark_done(make_store_key(memory.store, lease.key))

    async def _run(self, memory: Memory, key: Key) -> None:
        store_key = make_store_key(memory.store, key)
        try:
            lease = await memory.store.claim(
                key, owner=self._owner, task=self.task, seconds=self.settings.config.lease
            )
            if isinstance(lease, Lease):
                await self._run_under_lease(memory, lease)
            else:
                seconds = LEASED_RETRY_SECONDS if lease is None else lease
                self._waiting_for(store_key).not_before = self._clock() + seconds
        except StoreError as error:
            self._note_failure(error)
        finally:
            self._mark_done(store_key)

    def _note_failure(self, error: StoreError) -> None:
        """Count and log an error of the store; turns meet the same error, and the work stays due."""
        self._metrics.add("background_tasks_failed")
        if not isinstance(error, StoreClosed):
            logger.warning("a summary could not be written: %s", error)

    async def _run_under_lease(
        self, memory: Memory, lease: Lease, manual: ManualSummary | None = None
    ) -> None:
        """Work under a lease until nothing is left to do, and release the lease in any case."""
        settled, failure = False, None
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep_lease, memory, lease, group)
                try:
                    waiting = self._waiting_for(make_store_key(memory.store, lease.key))
                    cause, waiting.cause = waiting.cause, None
                    with background_trace(*lease.key, cause):
                        again = await self._work(memory, lease, manual)
                    # One that was asked for is not tried again; what is due is requested by the next turn.
                    await self._settle(memory, lease, again if manual is None else None)
                    settled = True
                except StoreError as error:
                    # Raised after the group has ended: callers meet one error, not a group of one.
                    failure = error
                group.cancel_scope.cancel()
        finally:
            if not settled:
                # Let another process go on at once. A lease that cannot be given back runs out.
                with anyio.move_on_after(1, shield=True), suppress(StoreError):
                    await memory.store.complete_task(lease, again_in=0.0)
        if failure is not None:
            raise failure

    async def _keep_lease(self, memory: Memory, lease: Lease, group: TaskGroup) -> None:
        """Renew the lease while the work runs; cancel the work if the lease is lost."""
        extended = True
        while extended:
            await anyio.sleep(self.settings.config.lease / 3)
            try:
                extended = await memory.store.extend(lease, self.settings.config.lease)
            except StoreError:
                extended = False
        self._metrics.add("summaries_discarded")
        group.cancel_scope.cancel()

    async def _settle(self, memory: Memory, lease: Lease, again: tuple[Lease, float] | None) -> None:
        if again is None:
            await memory.store.complete_task(lease)
            return
        changed, seconds = again
        self._waiting_for(make_store_key(memory.store, lease.key)).not_before = self._clock() + seconds
        if not await memory.store.complete_task(changed, again_in=seconds):
            # The conversation is gone: nobody would ask for its batch.
            await self._drop_batch(SummaryBatchMark.decode(changed.refused))
        wakeup = self._wakeups.get(memory.store)
        if wakeup is not None:
            wakeup.set()

    async def _work(
        self, memory: Memory, lease: Lease, manual: ManualSummary | None = None
    ) -> tuple[Lease, float] | None:
        """Write segments until none is due; after a failure, return the lease and the time to continue."""
        await prepare_tables()
        waiting = self._waiting_for(make_store_key(memory.store, lease.key))
        expires, waiting.expires = waiting.expires, False
        mark = SummaryBatchMark.decode(lease.refused)
        is_current = False
        if mark is not None and manual is None and self.settings.config.batch:
            state = await memory.store.summary(lease.key)
            is_current = mark.is_current(state, self.settings.model_name)
        if mark is not None and not is_current:
            if not await self._drop_batch(mark) and manual is None:
                return lease, BATCH_POLL_SECONDS
            lease, mark = replace(lease, refused=""), None
        job, batch = self._make_job(memory, lease, mark, expires=expires, manual=manual), None
        manual = ManualSummary() if manual is None else manual
        try:
            while True:
                state, batch = await job.next_batch(lease)
                if batch is None:
                    break
                if lease.refusals >= MAX_REFUSALS and lease.refused == batch.refusal_key:
                    return lease, _REFUSAL_RETRY_SECONDS
                result = await self._write_batch(job, state, batch, lease)
                if result is None:
                    manual.problem = "the conversation was changed meanwhile"
                    return None
                manual.segments.append(result.segment)
                if mark is not None:
                    self._metrics.add("batches_read")
                    await self._drop_batch(mark, is_read=True)
                lease, mark = replace(lease, attempts=0, refusals=0, refused=""), None
                if result.merge_error is not None:
                    raise result.merge_error
            while await job.merge(lease):
                pass
        except BatchPending as pending:
            assert batch is not None
            self._metrics.add("batches_sent", int(mark is None))
            mark = SummaryBatchMark(
                generation=state.head.generation,
                first=batch.first,
                last=batch.entries[-1].position,
                model=self.settings.model_name.replace(" ", "_"),
                id=pending.batch,
            )
            return replace(lease, refused=mark.encode()), BATCH_POLL_SECONDS
        except CallFailed as error:
            await self._drop_batch(mark)
            lease = replace(lease, refused="") if mark is not None else lease
            self._metrics.add("background_tasks_failed")
            if error.reason == "timed out":
                self._metrics.add("summaries_timed_out")
            logger.warning("the summary model %s; the history stays and is shown: %s", error.reason, error)
            manual.problem = f"the summary model {error.reason}: {error}"
            attempts = lease.attempts + 1
            return replace(lease, attempts=attempts), retry_delay(attempts)
        except UnfitSummary as error:
            await self._drop_batch(mark)
            self._metrics.add("background_tasks_failed")
            self._note_refusal(error)
            manual.problem = f"the summary was rejected: {error.reason}"
            refusal_key = batch.refusal_key if batch is not None else ""
            refusals = lease.refusals + 1 if lease.refused == refusal_key else 1
            is_final = refusals >= MAX_REFUSALS and not (batch is not None and batch.divisible)
            delay = _REFUSAL_RETRY_SECONDS if is_final else retry_delay(refusals)
            return replace(lease, refusals=refusals, refused=refusal_key), delay
        self._metrics.add("background_tasks_completed")
        return None

    async def _write_batch(
        self, job: SummaryJob, state: SummaryState, batch: SummaryBatch, lease: Lease
    ) -> CommitResult | None:
        """Write and commit one segment, with its hooks and its span; None when it came too late."""
        first, last, messages = batch.first, batch.entries[-1].position, len(batch.entries)
        event = SummaryEvent(**lease.key._asdict(), first=first, last=last, messages=messages)
        await self._fire_hooks(SummaryHook.BEFORE_SUMMARY, event)
        model = self.settings.model_name
        with summary_span(first=first, last=last, messages=messages, model=model) as span:
            result = await job.write_batch(state, batch, lease)
            if result is None:
                span.end_summary(committed=False)
                return None
            segment = result.segment
            span.end_summary(committed=True, tokens=segment.tokens, coverage=segment.coverage)
        self._metrics.add("summaries_committed")
        self._metrics.refused_in_row = 0
        await self._fire_hooks(SummaryHook.AFTER_SUMMARY, replace(event, last=segment.last, segment=segment))
        return result

    def _note_refusal(self, error: UnfitSummary) -> None:
        self._metrics.count_refusal(error.reason)
        logger.warning("a summary was rejected (%s); the history stays and is shown", error.reason)
        if self._metrics.refused_in_row % MANY_REFUSALS == 0:
            # The one log line with such a text: without it nobody can tell what the model does wrong.
            logger.warning(
                "%d summaries in a row were rejected, the last one for this reason: %s; it begins: %r",
                self._metrics.refused_in_row,
                error.reason,
                error.text,
            )

    async def _drop_batch(self, mark: SummaryBatchMark | None, *, is_read: bool = False) -> bool:
        """Cancel a batch and delete its texts at the provider; false if it has to be tried again."""
        model = self.settings.config.model
        if mark is None or not getattr(model, "can_batch", False):
            return True
        try:
            is_gone: bool = await (await model.batches()).drop(mark.id)
        except ModelError as error:
            logger.warning("a batch of the provider could not be dropped: %s", error)
            return False
        self._metrics.add("batches_dropped", int(is_gone and not is_read))
        return is_gone

    def _make_job(
        self,
        memory: Memory,
        lease: Lease,
        mark: SummaryBatchMark | None = None,
        *,
        expires: bool = False,
        manual: ManualSummary | None = None,
    ) -> SummaryJob:
        writer, settings = self.writer, self.settings
        if manual is not None:
            writer = SegmentWriter(manual.adapt(settings), self._metrics, writer.breaker)
        elif settings.config.batch and settings.config.model is not None and not lease.attempts:
            # After a failure it is asked at once: a batch does not say what is too long for it.
            call = BatchCall(settings.config.model, None if mark is None else mark.id)
            writer = SegmentWriter(settings, self._metrics, writer.breaker, call)
        return SummaryJob(
            memory,
            lease.key,
            writer,
            self._metrics,
            self._requests,
            self._clock,
            expires=expires,
            by_hand=manual is not None,
            until=None if mark is None else mark.last,
        )

    async def _store_digests(self, memory: Memory, key: Key) -> None:
        store_key = make_store_key(memory.store, key)
        job = SummaryJob(memory, key, self.writer, self._metrics, self._requests, self._clock)
        waiting = self._waiting_for(store_key)
        try:
            while await job.store_digest(partial(setattr, waiting, "digest")):
                pass
        except StoreError as error:
            logger.warning("a digest could not be stored: %s", error)
        finally:
            waiting.digest = None
            self._storing_digests.discard(store_key)

    async def _fire_hooks(self, kind: SummaryHook, event: SummaryEvent) -> None:
        """Call the hooks; their errors are only logged."""
        try:
            await fire(self._hooks, kind, event)
        except Exception:
            self._metrics.add("hooks_failed")
            logger.exception("a hook of a summary failed; the summary continues")

    def _sweep(self, memory: Memory) -> None:
        """Do work on this store that is due later or was left behind, while the store is in use."""
        if memory.store not in self._wakeups and self._background.start(
            partial(self._sweeper, ref(memory.store), memory.token_counter), daemon=True
        ):
            self._wakeups[memory.store] = anyio.Event()

    async def _sweeper(self, store_ref: ref[Store], counter: TokenCounter) -> None:
        """Keeps a reference to the store only while it works on it, so that the store can be freed."""
        try:
            while (store := store_ref()) is not None:
                with self._background.busy():
                    wait = await self.catch_up(Memory(store=store, token_counter=counter))
                wakeup = self._wakeups[store] = anyio.Event()
                del store
                with anyio.move_on_after(SWEEP_SECONDS if wait is None else max(wait, 0.05)):
                    await wakeup.wait()
        except StoreClosed:
            pass
        except StoreError as error:
            logger.warning("due summaries could not be read and are read again in the next turn: %s", error)
        finally:
            if (store := store_ref()) is not None:
                self._wakeups.pop(store, None)
