"""`SummarizedHistorySection`: the conversation with its older part summarized in the background.

It joins snapshot, swap policy, summarizer and view; no turn waits for a summary.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Unpack
from weakref import ref

import anyio

from autonomy_ctx.background import AsyncResource, Background
from autonomy_ctx.compaction.cached_requests import CachedRequest
from autonomy_ctx.compaction.config import (
    ContextSummaryConfig,
    SummaryOptions,
    check_writer,
    make_config,
    resolve_settings,
)
from autonomy_ctx.compaction.facts import add_profile_changes
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import CountMessage, expected_messages, is_due
from autonomy_ctx.compaction.snapshot import (
    BoundedView,
    ConversationSnapshot,
    ConversationState,
    DisplayedSummary,
    SnapshotBounder,
    read_snapshot,
)
from autonomy_ctx.compaction.summarizer import Summarizer
from autonomy_ctx.compaction.swap import choose_snapshot, show_older, summary_until, superseded_share
from autonomy_ctx.compaction.swap_policy import eager
from autonomy_ctx.compaction.view import pays, shown_tokens, summary_tokens
from autonomy_ctx.errors import StoreError
from autonomy_ctx.formats.model_info import context_window_of, model_name
from autonomy_ctx.hooks import Hook
from autonomy_ctx.memory.cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.facts import ConversationFacts
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.mirror import MemoryMirrors
from autonomy_ctx.memory.store import Key, check_name, make_key
from autonomy_ctx.messages.fact import FactChange, active_facts, normalize_fact
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.sections.section import (
    ContributingSection,
    Contribution,
    Params,
    composition_of,
)
from autonomy_ctx.sections.summarized_view import HistoryContribution, add_block, show_history

logger = logging.getLogger("autonomy_ctx.sections")
_EPOCH = datetime.fromtimestamp(0, UTC)
OTHER_TOKENS_STEP = 64
MAX_CONVERSATIONS = 512
# The part of the life of a provider's cache after which a conversation counts as idle.
EXPIRY_SHARE = 0.8
# Requests are large, so only those of a few active conversations are kept.
MAX_REQUESTS = 64


class SummarizedHistorySection(ContributingSection, AsyncResource):
    """History as one summary message and the messages after it, verbatim.

    Up to `ceiling` messages, all are shown. With more, a summary is written in the background. Then the
    summary and the last `floor` messages are shown; until then, the older summary and all messages after it.
    `summary_model` writes the summaries: any object with `complete_chat`, or None for digests without a
    model. `options` are further arguments of a `ContextSummaryConfig`, or `config` has all of them. `reader`
    is the model that reads the context, by default the one that writes.
    """

    kind = "slow"

    def __init__(
        self,
        summary_model: Any,
        floor: int | None = None,
        ceiling: int | None = None,
        size: int | None = None,
        instructions: str | None = None,
        enabled: bool = True,
        *,
        config: ContextSummaryConfig | None = None,
        reader: Any = None,
        background: Background | None = None,
        hooks: Iterable[Hook] | None = None,
        clock: Callable[[], float] = time.monotonic,
        **options: Unpack[SummaryOptions],
    ) -> None:
        super().__init__("conversation_history", enabled)
        limits = {"floor": floor, "ceiling": ceiling, "size": size, "instructions": instructions}
        given = {**options, **{name: value for name, value in limits.items() if value is not None}}
        self.config = make_config(summary_model, config, given, of="SummarizedHistorySection.__init__()")
        self._reader = reader
        self._reading_model = summary_model if reader is None else reader
        window = context_window_of(self._reading_model)
        check_writer(self.config, self._reading_model)
        self._settings = resolve_settings(self.config, window, reader=reader)
        if self.config.writer == "provider" and self._settings.block_writer is None:
            logger.warning("no provider is known that writes summaries on demand; ours are shown")
        # The largest budget of the contexts so far, and what the other sections took of the last one.
        self._budget: int | None = None
        self._other_tokens = 0
        self._resolved_for: tuple[Any, ...] = (window, model_name(self._reading_model), None, 0)
        self._metrics = SummaryMetrics()
        self._own_background = background is None
        self._background = background or Background()
        self._clock = clock
        self._summarizer = Summarizer(
            self._settings,
            self._metrics,
            background=self._background,
            hooks=hooks,
            clock=clock,
            find_cached=self._find_cached if self._settings.share_prefix else None,
            find_request=self._find_request if self._settings.block_writer is not None else None,
        )
        self._mirrors = MemoryMirrors()
        self._conversations: ConversationCache[StoreKey, ConversationState] = ConversationCache(
            MAX_CONVERSATIONS, holds_texts=True
        )
        self._requests: ConversationCache[StoreKey, CachedRequest] = ConversationCache(
            MAX_REQUESTS, holds_texts=True
        )

    @classmethod
    def of(cls, config: ContextSummaryConfig, **options: Any) -> SummarizedHistorySection:
        """A section from an existing configuration; `options` are arguments that are not part of it."""
        return cls(config.model, config=config, **options)

    # -- what was asked for ---------------------------------------------------------------------

    @property
    def summary_model(self) -> Any:
        """The model that writes summaries; None for none."""
        return self.config.model

    @property
    def floor(self) -> int:
        """Messages shown verbatim after a summary."""
        return self._settings.limits.floor

    @property
    def ceiling(self) -> int:
        """Messages shown verbatim before the next summary is due."""
        return self._settings.limits.ceiling

    @property
    def size(self) -> int:
        """The most tokens of a summary."""
        return self._settings.size if self.config.auto else self.config.size

    @property
    def pin_tokens(self) -> int:
        """The most tokens of pinned messages together, as the limits are now."""
        return self._settings.pin_tokens

    @property
    def batch_size(self) -> int:
        """The number of messages that a summary takes."""
        return self._settings.limits.batch

    @property
    def instructions(self) -> str | None:
        """The instructions of the summary model, in addition to the default prompt or instead of it."""
        return self.config.instructions

    # -- composing ------------------------------------------------------------------------------

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        if not isinstance(memory, Memory):
            memory = await self._mirrors.follow(memory, scope, conversation)
        composition = composition_of(params)
        self._learn_limits(composition.max_tokens)
        key = make_key(memory.agent, scope, conversation)
        store_key = make_store_key(memory.store, key)
        known = self._conversations.setdefault(store_key, ConversationState())
        settings, count = self._settings, _make_count(memory.token_counter)
        limits = settings.limits
        waits = settings.swap is not eager or composition.is_in_turn
        sent = None if composition.is_in_turn else composition.covered
        if known.displayed is not None and sent not in (None, known.displayed.covered):
            # Another process has sent a context since: what was shown here is not what goes on.
            known.displayed = None
        since = None
        if waits:
            since = composition.covered if known.displayed is None else known.displayed.covered
        elif self.config.writer == "provider":
            since = composition.covered
        snapshot = await read_snapshot(memory, key, limits, known, self._metrics, since)
        if known.displayed is None and since is not None and waits:
            # Sent by another process, or by this one before it was restarted.
            known.displayed = summary_until(snapshot, since, self._clock())
        params["conversation_message_count"] = snapshot.head.count
        idle = 0.0 if known.displayed is None else self._clock() - known.displayed.shown_at
        # The summary that is shown may be older than the one that is stored.
        chosen, before = snapshot, known.displayed
        if waits:
            chosen = choose_snapshot(
                known,
                snapshot,
                settings,
                count,
                self._clock(),
                self._metrics,
                is_in_turn=composition.is_in_turn,
            )
        else:
            state = snapshot.state
            known.displayed = DisplayedSummary(
                snapshot.head.generation, state.segments, self._clock(), state.facts
            )
        if settings.costs is not None:
            tokens = shown_tokens(snapshot.state)
            prefers = settings.costs.prefers_long_life(snapshot.entries, tokens, count)
            known.long_cache = known.long_cache if prefers is None else prefers
        turn = composition.turn_position or snapshot.head.last_user
        pending = self._summarizer.pending_digest(store_key)
        bounder = SnapshotBounder(known, settings, memory.token_counter, count, pending)
        view = await bounder.bound(chosen)
        show = partial(
            show_history,
            memory,
            store_key,
            known,
            settings=settings,
            role=self.config.summary_role,
            count=count,
            newest=turn,
            current=snapshot.state,
            beginning=composition.beginning,
            max_superseded=(
                superseded_share(settings, chosen.entries, count, idle) if self.config.auto else 1.0
            ),
        )
        add = partial(add_block, memory.store, key, composition)
        if self.config.writer == "provider" and turn > view.last_hidden:
            view = await add(chosen, view)
        found: Contribution = await show(chosen, view)
        began_with = "" if composition.beginning is None else composition.beginning.block
        if view.block is not None and view.block.name != began_with:
            # A new one. What was sent is shown as well: all of it behind the new summary can stay.
            anew = going = found.anew or found
            older = show_older(before, snapshot, settings, count, composition.covered, self._clock())
            if older is not None:
                going = await show(older, await add(older, await bounder.bound(older)))
            found = replace(going, anew=anew, swapped=found)
        self._note_shown(known, snapshot, view)
        if len(view.window) < len(chosen.entries):
            self._summarizer.request_digest(memory, key)
        if self._needs_summary(snapshot, count):
            self._summarizer.request(memory, key)
        elif not known.is_watched and pays(settings, snapshot.state, snapshot.entries, count, expires=True):
            waiting = partial(self._wait_for_expiry, ref(memory), key, store_key, known)
            known.is_watched = self._background.start(waiting, daemon=True)
        is_late = len(snapshot.entries) > min(limits.ceiling + limits.batch // 2, limits.hard - limits.batch)
        # Sooner or later a digest stands in for these messages, as it does for those before them.
        if settings.model is not None and (is_late or snapshot.state.covered > snapshot.state.written):
            self._background.start(partial(bounder.prepare_digest, snapshot))
        if settings.profile is True:
            self._learn_profile(memory, key, known, snapshot, turn)
        return found

    def _needs_summary(self, snapshot: ConversationSnapshot, count: CountMessage) -> bool:
        """Tell whether a summary is due, or will be before it could be ready, or only a digest is there."""
        settings, state = self._settings, snapshot.state
        lead = expected_messages(snapshot.entries, self._metrics.summary_seconds) if settings.lead else 0
        limits = settings.limits_beside(summary_tokens(settings, state))
        return (
            state.covered > state.written
            or is_due(snapshot.entries, limits, count, lead)
            or pays(settings, state, snapshot.entries, count)
        )

    async def _wait_for_expiry(
        self, memory: ref[Memory], key: Key, store_key: StoreKey, known: ConversationState
    ) -> None:
        """Have a summary written shortly before the provider's cache expires, if no request comes."""
        try:
            left = self._seconds_until_expiry(known)
            while left > 0:
                await anyio.sleep(left)
                # Later, if a request came meanwhile.
                left = self._seconds_until_expiry(known)
        finally:
            known.is_watched = False
        found = memory()
        if found is not None and self._conversations.get(store_key) is known:
            self._summarizer.request(found, key, expires=True)

    def _seconds_until_expiry(self, known: ConversationState) -> float:
        life = self._settings.cache_seconds
        if known.long_cache and self._settings.costs is not None:
            life = self._settings.costs.cache.long_seconds or life
        shown = self._clock() if known.displayed is None else known.displayed.shown_at
        return shown + EXPIRY_SHARE * life - self._clock()

    def _note_shown(
        self, known: ConversationState, snapshot: ConversationSnapshot, view: BoundedView
    ) -> None:
        """Count what stood for a summary, and note by how much and for how long summaries are behind."""
        metrics = self._metrics
        if view.missing is not None:
            metrics.add("omissions_served")
        elif view.is_digested:
            metrics.add("digests_served")
        if view.segments:
            metrics.add("cache_hits")
        elif len(snapshot.entries) > self.ceiling:
            metrics.add("cache_misses")
        late, now = snapshot.head.position - snapshot.state.written - self.ceiling, self._clock()
        metrics.lag_messages = max(late, 0)
        if late <= 0:
            known.late_since = None
        elif known.late_since is None:
            known.late_since = now
        metrics.lag_seconds = 0.0 if known.late_since is None else now - known.late_since

    def _learn_profile(
        self,
        memory: Memory,
        key: Key,
        conversation: ConversationState,
        snapshot: ConversationSnapshot,
        turn: int,
    ) -> None:
        """Learn from the message to answer, in the background: most conversations end before a summary."""
        generation = snapshot.head.generation
        # Once for each message, however many steps its turn has.
        if conversation.learned_from == (generation, turn):
            return
        conversation.learned_from = (generation, turn)
        said = [one for one in snapshot.entries if one.position == turn]
        standing = snapshot.state.facts
        known = {normalize_fact(fact.text) for fact in standing}
        found = add_profile_changes((), said, standing, self._settings.zone, True)
        changes = [change for change in found if normalize_fact(change.text) not in known]
        if changes:
            self._background.start(partial(self._write_profile_facts, memory, key, changes, generation))

    async def _write_profile_facts(
        self, memory: Memory, key: Key, changes: Sequence[FactChange], generation: int
    ) -> None:
        try:
            await memory.store.write_facts(key, changes, generation=generation)
        except StoreError as error:
            # The summary of these messages finds it again.
            logger.warning("entries of the profile could not be stored yet: %s", type(error).__name__)

    def note_composed(
        self, contribution: Contribution, composed: Any, tools: Sequence[Mapping[str, Any]]
    ) -> None:
        """Called by the template with the composed context, to cache the request and to note what was cut."""
        if not isinstance(contribution, HistoryContribution):
            return
        self._metrics.add("context_tokens", composed.tokens)
        if composed.shared is not None:
            self._metrics.add("context_tokens_shared", composed.shared.tokens)
        writes_blocks = self._settings.block_writer is not None and bool(composed.state.composer)
        if self._settings.share_prefix or writes_blocks:
            self._requests[contribution.store_key] = CachedRequest(
                messages=composed.messages,
                tokens=composed.tokens,
                tools=tools,
                breakpoints=composed.breakpoints,
                cache_key=composed.cache_key,
                generation=contribution.generation,
                at=self._clock(),
                positions=composed.positions() if writes_blocks else (),
                began=composed.state.began,
            )
        # What the budget leaves for the history beside the other sections.
        own = composed.section_tokens(self.name)
        # In steps, so that the limits do not follow every word of the others.
        self._other_tokens = -(-(composed.tokens - own) // OTHER_TOKENS_STEP) * OTHER_TOKENS_STEP
        known = self._conversations.get(contribution.store_key)
        is_first = not composed.state.additions
        if known is not None and is_first and any(cut.section == self.name for cut in composed.cut):
            # The budget wants less of it: a summary that is ready is shorter.
            known.displayed = None

    def _find_cached(self, store_key: StoreKey, generation: int) -> CachedRequest | None:
        """The request that the reader's provider has cached for a conversation, if it still has."""
        request = self._find_request(store_key, generation)
        is_cached = request is not None and request.at >= self._clock() - self._settings.cache_seconds
        return request if is_cached else None

    def _find_request(self, store_key: StoreKey, generation: int) -> CachedRequest | None:
        """The newest request of a conversation that this process has composed."""
        request = self._requests.get(store_key)
        return None if request is None or request.generation != generation else request

    # -- looking on -----------------------------------------------------------------------------

    def get_metrics(self) -> dict[str, Any]:
        """Counters since this section was made, as a dict that belongs to the caller."""
        return self._metrics.dump()

    def get_cache_info(self) -> dict[str, Any]:
        """The summaries that this process has cached, and how many are being written."""
        known = [(store_key.key, one.summary) for store_key, one in self._conversations.items()]
        keys = [key for key, summary in known if summary is not None and summary.segments]
        return {
            "cached_conversations": len(keys),
            "pending_summarizations": self._summarizer.pending,
            "conversations": keys,
            "facts": sum(len(active_facts(one.facts)) for _, one in known if one is not None),
        }

    def clear_cache(self, scope: str | None = None, conversation: str | None = None) -> None:
        """Clear the cache of this process, of a conversation, a scope or all; stored summaries stay."""
        if scope is None and conversation is not None:
            raise ValueError("clear_cache of a conversation needs its scope too: names repeat across scopes")
        self._conversations.forget(scope=scope, conversation=conversation)
        self._requests.forget(scope=scope, conversation=conversation)
        self._summarizer.clear(scope, conversation)

    async def drop_summaries(self, memory: Memory, scope: str, conversation: str | None = None) -> int:
        """Remove the summaries of a scope or of one conversation, and return how many segments."""
        check_name("scope", scope)
        dropped = await memory.drop_summaries(scope, conversation)
        self.clear_cache(scope, conversation)
        return dropped

    def facts(self, memory: Memory, scope: str, conversation: str) -> ConversationFacts:
        """The facts of a conversation: `await` it to read them, or change them with its methods."""
        return memory.facts(scope, conversation)

    async def catch_up(self, memory: Memory) -> float | None:
        """Write all due summaries. Returns the seconds until the next one is due, or None."""
        return await self._summarizer.catch_up(memory)

    def summarize_before_expiry(self, memory: Memory, scope: str, conversation: str) -> None:
        """Write a summary if it pays because the provider's cache expires before the next request."""
        self._summarizer.request(memory, make_key(memory.agent, scope, conversation), expires=True)

    async def settled(self) -> None:
        """Wait until no summary is being written here. For tests and shutdowns; a turn never waits."""
        await self._background.idle()

    async def close(self) -> None:
        """End the background work; due summaries stay due, and another process can write them."""
        if self._own_background:
            await self._background.aclose()

    def _learn_limits(self, budget: int | None) -> None:
        """Take a change of the reader's context window or of the budget into the limits that follow them."""
        if budget is not None:
            # A context that was too long for the model is composed again with less: no new budget.
            self._budget = max(budget, self._budget or 0)
        window = context_window_of(self._reading_model)
        known = (window, model_name(self._reading_model), self._budget, self._other_tokens)
        if known == self._resolved_for:
            return
        self._resolved_for = known
        room = None if self._budget is None else max(self._budget - self._other_tokens, self._budget // 4)
        try:
            self._settings = self._summarizer.settings = resolve_settings(
                self.config,
                window,
                reader=self._reader,
                budget=self._budget,
                room=room,
                other_tokens=self._other_tokens,
            )
        except ValueError as error:
            # This must not fail the turn: the known limits stay.
            logger.warning("the limits of summaries cannot follow the model's context window: %s", error)


def _make_count(counter: TokenCounter) -> CountMessage:
    """Counts messages with the counter's calibration."""
    return lambda message: counter.calibration.scale(counter.count_uncalibrated(message))
