"""`SummarizedHistorySection`: the conversation with its older part summarized in the background.

It joins snapshot, swap policy, summarizer and view; no turn waits for a summary.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack
from weakref import ref

import anyio

from autonomy_ctx.background import AsyncResource, Background
from autonomy_ctx.compaction.calls import CachedRequest
from autonomy_ctx.compaction.config import (
    ContextSummaryConfig,
    SummaryOptions,
    check_writer,
    make_config,
    resolve_settings,
)
from autonomy_ctx.compaction.cost_model import eager
from autonomy_ctx.compaction.facts import learn_profile
from autonomy_ctx.compaction.manual import ManualSummary
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.snapshot import (
    ConversationState,
    SnapshotBounder,
    find_question,
    note_shown,
    read_snapshot,
)
from autonomy_ctx.compaction.summarizer import Summarizer
from autonomy_ctx.compaction.swap import choose_snapshot, show_older, summary_until, superseded_share
from autonomy_ctx.compaction.view import message_counter, needs_summary, pays, shown_tokens
from autonomy_ctx.formats.model_info import context_window_of, model_name
from autonomy_ctx.hooks import Hook
from autonomy_ctx.memory.cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.facts import ConversationFacts
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.mirror import MemoryMirrors
from autonomy_ctx.memory.store import Key, check_name, make_key
from autonomy_ctx.messages.fact import active_facts
from autonomy_ctx.sections.clearing import ClearingLimits
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params, composition_of
from autonomy_ctx.sections.summarized_view import HistoryContribution, add_block, show_history

logger = logging.getLogger("autonomy_ctx.sections")
OTHER_TOKENS_STEP = 64
MAX_CONVERSATIONS = 512
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
        self.clearing = ClearingLimits.of(
            self.config.clear_results_after, self.config.clear_images_after, self.config.max_result_tokens
        )
        self._reader = reader
        self._reading_model = summary_model if reader is None else reader
        window = context_window_of(self._reading_model)
        check_writer(self.config, self._reading_model)
        self._settings = resolve_settings(self.config, window, reader=reader)
        if self.config.writer == "provider" and self._settings.block_writer is None:
            logger.warning("the provider of this model writes no summaries on demand; our own are shown")
        # The largest budget of the contexts so far, and what the other sections took of the last one.
        self._budget: int | None = None
        self._other_tokens = 0
        self._resolved_for: tuple[Any, ...] = (window, model_name(self._reading_model), None, 0)
        self._metrics = SummaryMetrics()
        self._own_background = background is None
        self._background = background or Background()
        self._clock = clock
        self._requests: ConversationCache[StoreKey, CachedRequest] = ConversationCache(
            MAX_REQUESTS, holds_texts=True
        )
        self._summarizer = Summarizer(
            self._settings,
            self._metrics,
            background=self._background,
            hooks=hooks,
            clock=clock,
            requests=self._requests,
        )
        self._mirrors = MemoryMirrors()
        self._conversations: ConversationCache[StoreKey, ConversationState] = ConversationCache(
            MAX_CONVERSATIONS, holds_texts=True
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
        settings, count = self._settings, message_counter(memory.token_counter)
        limits = settings.limits
        waits = settings.swap is not eager or composition.is_in_turn
        sent = None if composition.is_in_turn else composition.covered
        if known.displayed is not None and sent not in (None, known.displayed.covered):
            # Another process has sent a context since: what was shown here is not what goes on.
            known.displayed = None
        since = composition.covered if waits or self.config.writer == "provider" else None
        if not composition.is_in_turn and (composition.is_ended or known.shows_newest):
            # A new summary was asked for.
            known.displayed, known.shows_newest, since = None, False, None
        if waits and known.displayed is not None:
            since = known.displayed.covered
        snapshot = await read_snapshot(memory, key, limits, known, self._metrics, since)
        now = self._clock()
        if known.displayed is None and since is not None:
            # Sent by another process, or by this one before it was restarted.
            known.displayed = summary_until(snapshot, since, now)
        params["conversation_message_count"] = snapshot.head.count
        idle = 0.0 if known.displayed is None else now - known.displayed.shown_at
        # The summary that is shown may be older than the one that is stored.
        before = known.displayed
        chosen = choose_snapshot(
            known, snapshot, settings, count, now, self._metrics, is_in_turn=composition.is_in_turn
        )
        if settings.costs is not None:
            tokens = shown_tokens(snapshot.state)
            prefers = settings.costs.prefers_long_life(snapshot.entries, tokens, count)
            known.long_cache = known.long_cache if prefers is None else prefers
        turn = composition.turn_position or snapshot.head.last_user
        pending = self._summarizer.pending_digest(store_key)
        asked = await find_question(memory, key, turn, chosen.entries)
        bounder = SnapshotBounder(known, settings, memory.token_counter, count, pending, asked)
        view = await bounder.bound(chosen)
        show = partial(
            show_history,
            memory,
            store_key,
            known,
            settings=settings,
            role=self.config.summary_role,
            count=count,
            question=asked,
            current=snapshot.state,
            beginning=composition.beginning,
            max_superseded=(
                superseded_share(settings, chosen.entries, count, idle) if self.config.auto else 1.0
            ),
        )
        add = partial(add_block, memory, key, composition)
        if self.config.writer == "provider" and turn > view.last_hidden:
            view = await add(chosen, view)
        found: Contribution = await show(chosen, view)
        began_with = "" if composition.beginning is None else composition.beginning.block
        if view.block is not None and view.block.name != began_with:
            # A new one. What was sent is shown as well: all of it behind the new summary can stay.
            anew = going = found.anew or found
            older = show_older(before, snapshot, settings, count, composition.covered, now)
            if older is not None:
                going = await show(older, await add(older, await bounder.bound(older)))
            found = replace(going, anew=anew, swapped=found)
        if self.clearing.may_clear(found):
            old = self.clearing.find_cleared(found, composition.beginning)
            state = snapshot.state
            named = {pin.position for pin in state.pins} | {one.position for one in active_facts(state.facts)}
            # Its summaries decide when it pays to begin anew.
            found = self.clearing.clear(found, composition, sorted(named.intersection(old)))
        note_shown(self._metrics, known, snapshot, view, self.ceiling, now)
        if len(view.window) < len(chosen.entries):
            self._summarizer.request_digest(memory, key)
        seconds = self._metrics.summary_seconds
        if needs_summary(settings, snapshot.state, snapshot.entries, count, seconds):
            self._summarizer.request(memory, key)
        elif not known.is_watched and pays(settings, snapshot.state, snapshot.entries, count, expires=True):
            waiting = partial(self._wait_for_expiry, ref(memory), key, store_key, known)
            known.is_watched = self._background.start(waiting, daemon=True)
        is_late = len(snapshot.entries) > min(limits.ceiling + limits.batch // 2, limits.hard - limits.batch)
        # Sooner or later a digest stands in for these messages, as it does for those before them.
        if settings.config.model is not None and (is_late or snapshot.state.covered > snapshot.state.written):
            self._background.start(partial(bounder.prepare_digest, snapshot))
        generation = snapshot.head.generation
        # Once for each message, however many steps its turn has.
        if settings.config.profile is True and known.learned_from != (generation, turn):
            known.learned_from = (generation, turn)
            said, facts = [one for one in snapshot.entries if one.position == turn], snapshot.state.facts
            self._background.start(
                partial(learn_profile, memory, key, said, facts, settings.zone, generation)
            )
        return found

    async def _wait_for_expiry(
        self, memory: ref[Memory], key: Key, store_key: StoreKey, known: ConversationState
    ) -> None:
        """Have a summary written shortly before the provider's cache expires, if no request comes."""
        try:
            left = known.seconds_until_expiry(self._settings, self._clock())
            while left > 0:
                await anyio.sleep(left)
                # Later, if a request came meanwhile.
                left = known.seconds_until_expiry(self._settings, self._clock())
        finally:
            known.is_watched = False
        found = memory()
        if found is not None and self._conversations.get(store_key) is known:
            self._summarizer.request(found, key, expires=True)

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

    async def summarize_now(
        self, memory: Memory, scope: str, conversation: str, *, focus: str | None = None
    ) -> ManualSummary:
        """Summarize all but the newest `floor` messages, whether it is due or not; `focus` is for this once.

        The next context shows it, also where `swap` would wait, unless the turn of an agent has begun.
        """
        made, key = ManualSummary(focus=focus), make_key(memory.agent, scope, conversation)
        if not (await memory.head(scope, conversation)).count:
            made.problem = "there are no messages"
            return made
        await self._summarizer.write_now(memory, key, made)
        if not made.segments and not made.problem:
            made.problem = f"there are no messages before the newest {self.floor}, which stay as they are"
        if (known := self._conversations.get(make_store_key(memory.store, key))) is not None:
            known.shows_newest = bool(made.segments)
        return made

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
