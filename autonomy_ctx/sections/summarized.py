"""`SummarizedHistorySection`: the conversation with its older part summarized in the background.

It joins snapshot, swap policy, summarizer and view; no turn waits for a summary. `MemoryMirrors` copies
foreign memories, so that their conversations can be summarized too.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, tzinfo
from functools import partial
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from cachetools import LRUCache

from autonomy_ctx.background import AsyncResource, Background, run_in_steps
from autonomy_ctx.compaction.cached_requests import CachedRequest, CachedRequests
from autonomy_ctx.compaction.config import CompactionSettings, ContextSummaryConfig, resolve_settings
from autonomy_ctx.compaction.facts import ProfileRule, add_profile_changes
from autonomy_ctx.compaction.metrics import PrefixReuse, SummaryMetrics
from autonomy_ctx.compaction.plan import CountMessage, expected_messages, is_due
from autonomy_ctx.compaction.schema import SummarySchema
from autonomy_ctx.compaction.snapshot import (
    CACHED_CONVERSATIONS,
    BoundedView,
    ConversationSnapshot,
    SnapshotReader,
)
from autonomy_ctx.compaction.summarizer import Summarizer
from autonomy_ctx.compaction.swap import SummaryRollout
from autonomy_ctx.compaction.swap_policy import SwapPolicy, eager
from autonomy_ctx.compaction.view import (
    SelectedPins,
    detach_late_results,
    facts_until,
    fit_entries,
    render_summary_facts,
    select_pins,
    summary_message,
    summary_tokens,
    window_budget,
)
from autonomy_ctx.compaction.word_tables import prepare_tables
from autonomy_ctx.errors import StoreError
from autonomy_ctx.formats.model_info import context_window_of, model_name
from autonomy_ctx.hooks import Hook
from autonomy_ctx.language.fact import Fact, FactChange, RenderedFacts, normalize_fact
from autonomy_ctx.memory.compose_cache import ComposeStates, forget_states, measure_texts
from autonomy_ctx.memory.conversation_cache import ConversationCache, StoreKey, make_store_key
from autonomy_ctx.memory.encoding import encode_row, same_content
from autonomy_ctx.memory.facts import ConversationFacts
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Key, StoredSegment, check_name, make_key
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.clamp import clamp_message
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary, SummaryRole
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.sections.section import (
    ContributingSection,
    Contribution,
    Omission,
    Params,
    composition_of,
    pin_omission,
)


class MemoryMirrors:
    """A copy of each foreign memory, for as long as that lives."""

    def __init__(self) -> None:
        self._mirrors: WeakKeyDictionary[Any, _MemoryMirror] = WeakKeyDictionary()
        # For those that cannot be referred to weakly; kept alive so that no other gets their id.
        self._mirrors_by_id: LRUCache[int, tuple[Any, _MemoryMirror]] = LRUCache(64)

    async def follow(self, other: Any, scope: str, conversation: str) -> Memory:
        """Our own memory with the same messages in that conversation."""
        return await self._of(other).follow(other, scope, conversation)

    def _of(self, other: Any) -> _MemoryMirror:
        try:
            return self._mirrors.setdefault(other, _MemoryMirror())
        except TypeError:
            if id(other) not in self._mirrors_by_id:
                self._mirrors_by_id[id(other)] = (other, _MemoryMirror())
            return self._mirrors_by_id[id(other)][1]


class _MemoryMirror:
    """Copies a conversation of another memory; starts again if its past has changed."""

    def __init__(self) -> None:
        self.memory = Memory()

    async def follow(self, other: Any, scope: str, conversation: str) -> Memory:
        found = other.get_messages_only(scope, conversation)
        if inspect.isawaitable(found):
            found = await found
        messages = wire.from_dicts(found)
        known = (await self.memory.read(scope, conversation)).entries
        same = len(known) <= len(messages) and all(
            _has_same_content(entry.message, message) for entry, message in zip(known, messages, strict=False)
        )
        if not same:
            await self.memory.delete_conversation(scope, conversation)
            known = []
        # Their ids may be missing or used twice; ours count on from what is there.
        start = (await self.memory.head(scope, conversation)).position
        new = [
            _with_id(message, f"{start + number}")
            for number, message in enumerate(messages[len(known) :], start=1)
        ]
        if new:
            await self.memory.append(scope, conversation, *new)
        return self.memory


def _with_id(message: Message, name: str) -> dict[str, Any]:
    return {**wire.to_dict(message), "id": name}


def _has_same_content(kept: Message, message: Message) -> bool:
    return same_content(encode_row(kept), encode_row(wire.from_dict(_with_id(message, kept.id))))


logger = logging.getLogger("autonomy_ctx.sections")
_EPOCH = datetime.fromtimestamp(0, UTC)
OTHER_TOKENS_STEP = 64


@dataclass(frozen=True, slots=True)
class _HistoryContribution(Contribution):
    """What was contributed, for which conversation and which generation of it."""

    store_key: StoreKey = field(kw_only=True)
    generation: int = field(kw_only=True)


class _ShownSummary(NamedTuple):
    """A summary message, the facts in it, those without room, and what each follows from."""

    parts: tuple[Any, ...]
    summary: Summary | None
    rendered_for: tuple[Any, ...]
    rendered: RenderedFacts
    omitted: tuple[Omission, ...]


class _KnownHistory(NamedTuple):
    """What was shown of a conversation, and all that it follows from."""

    settings: CompactionSettings
    snapshot: ConversationSnapshot
    # Of the summary that is shown, which may be older than that of the snapshot.
    segments: Sequence[StoredSegment]
    turn: int
    # The name of the counter, and its calibration.
    counted_by: tuple[str, float]
    view: BoundedView
    contribution: _HistoryContribution
    is_due: bool

    def shows(
        self,
        snapshot: ConversationSnapshot,
        chosen: ConversationSnapshot,
        turn: int,
        counted_by: tuple[str, float],
    ) -> bool:
        """Whether the same would be shown now."""
        return (
            snapshot is self.snapshot
            and chosen.state.segments == self.segments
            and turn == self.turn
            and counted_by == self.counted_by
        )


class SummarizedHistorySection(ContributingSection, AsyncResource):
    """History as one summary message and the messages after it, verbatim.

    Up to `ceiling` messages, all are shown. With more, a summary is written in the background. Then the
    summary and the last `floor` messages are shown; until then, the older summary and all messages after it.
    `summary_model` writes the summaries: any object with `complete_chat`, or None for digests without a
    model. `reader` is the model that reads the context, by default the one that writes.
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
        auto: bool = False,
        floor_tokens: int | float | None = None,
        ceiling_tokens: int | float | None = None,
        hard_limit: int | None = None,
        hard_limit_tokens: int | float | None = None,
        timeout: float = 60.0,
        lead: bool = False,
        parallel: int = 4,
        pin_tokens: int = 1024,
        lease: float = 30.0,
        swap: Literal["eager", "cost"] | SwapPolicy = "eager",
        share_prefix: bool | Literal["auto"] = "auto",
        cache_seconds: float = 300.0,
        summary_role: SummaryRole = "user",
        facts: bool = True,
        profile: bool | ProfileRule = False,
        timezone: tzinfo | str = UTC,
        worker: str | None = None,
        schema: SummarySchema | str | Mapping[str, Any] | Sequence[Any] | None = None,
        reader: Any = None,
        background: Background | None = None,
        hooks: Iterable[Hook] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__("conversation_history", enabled)
        self.config = ContextSummaryConfig(
            auto=auto,
            floor=floor,
            ceiling=ceiling,
            size=size,
            model=summary_model,
            instructions=instructions,
            floor_tokens=floor_tokens,
            ceiling_tokens=ceiling_tokens,
            hard_limit=hard_limit,
            hard_limit_tokens=hard_limit_tokens,
            timeout=timeout,
            lead=lead,
            parallel=parallel,
            pin_tokens=pin_tokens,
            lease=lease,
            swap=swap,
            share_prefix=share_prefix,
            cache_seconds=cache_seconds,
            summary_role=summary_role,
            facts=facts,
            profile=profile,
            timezone=timezone,
            worker=worker,
            schema=schema,
        )
        self._reader = reader
        self._reading_model = summary_model if reader is None else reader
        self._window = context_window_of(self._reading_model)
        self._settings = resolve_settings(self.config, self._window, reader=reader)
        # The largest budget of the contexts so far, and what the other sections took of the last one.
        self._budget: int | None = None
        self._other_tokens = 0
        self._resolved_for: tuple[Any, ...] = (self._window, model_name(self._reading_model), None, 0)
        self._metrics = SummaryMetrics()
        self._own_background = background is None
        self._background = background or Background()
        self._summarizer = Summarizer(
            self._settings,
            self._metrics,
            background=self._background,
            hooks=hooks,
            clock=clock,
            find_cached=self._find_cached if self._settings.share_prefix else None,
        )
        self._swap_tracker, self._requests = SummaryRollout(self._metrics), CachedRequests()
        self._snapshots = SnapshotReader(self._metrics)
        self._prefix_reuse = PrefixReuse(self._metrics)
        self._mirrors = MemoryMirrors()
        self._known = ComposeStates[_KnownHistory]()
        self._clock = clock
        self._shortened_entries: ConversationCache[tuple[StoreKey, int, int], Entry] = ConversationCache(
            CACHED_CONVERSATIONS
        )
        self._summaries: ConversationCache[StoreKey, _ShownSummary] = ConversationCache(CACHED_CONVERSATIONS)
        self._selected_pins: ConversationCache[StoreKey, tuple[Any, SelectedPins]] = ConversationCache(
            CACHED_CONVERSATIONS
        )
        self._examined_turns: ConversationCache[StoreKey, tuple[int, int]] = ConversationCache(
            CACHED_CONVERSATIONS
        )
        self._lag_started: ConversationCache[StoreKey, float] = ConversationCache(CACHED_CONVERSATIONS)

    @classmethod
    def of(cls, config: ContextSummaryConfig, **options: Any) -> SummarizedHistorySection:
        """A section from an existing configuration; `options` are arguments that are not part of it."""
        chosen = {field.name: getattr(config, field.name) for field in fields(config)}
        return cls(chosen.pop("model"), **chosen, **options)

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
        settings, limits = self._settings, self._settings.limits
        counter: TokenCounter = memory.token_counter
        scaled, uncalibrated = counter.calibration.scale, counter.count_uncalibrated

        def count(message: Message) -> int:
            return scaled(uncalibrated(message))

        waits = settings.swap is not eager
        epoch, known = memory.compose_cache.epoch, self._known.get(memory.compose_cache, key)
        store_key = make_store_key(memory.store, key) if known is None else known.contribution.store_key
        if known is not None and known.settings is not settings:
            known = None
        snapshot = await self._snapshots.read(
            memory,
            store_key,
            limits,
            self._swap_tracker.covered(store_key) if waits else None,
            None if known is None else known.snapshot,
        )
        params["conversation_message_count"] = snapshot.head.count
        # What is shown may be behind what is stored, what is due follows from what is stored.
        chosen_snapshot = (
            self._swap_tracker.choose_snapshot(store_key, snapshot, settings, count, self._clock())
            if waits
            else snapshot
        )
        turn = composition.turn_position or snapshot.head.last_user
        counted_by = (counter.name, counter.calibration.factor)
        if known is None or not known.shows(snapshot, chosen_snapshot, turn, counted_by):
            pending = self._summarizer.pending_digest(store_key)
            await self._snapshots.prepare_bound(chosen_snapshot, settings, count, pending)
            view = self._snapshots.bound(memory, key, chosen_snapshot, settings, count, pending)
            found = await self._assemble(memory, key, chosen_snapshot, view, count, turn)
            due = is_due(
                snapshot.entries, settings.limits_beside(summary_tokens(settings, snapshot.state)), count
            )
            known = _KnownHistory(
                settings, snapshot, chosen_snapshot.state.segments, turn, counted_by, view, found, due
            )
            self._keep(memory, key, epoch, known)
            early = min(limits.ceiling + limits.batch // 2, limits.hard - limits.batch)
            is_late = len(snapshot.entries) > early
            # Sooner or later a digest stands in for these messages, as it does for those before them.
            if settings.model is not None and (is_late or snapshot.state.covered > snapshot.state.written):
                self._background.start(partial(self._prepare_digest, memory, key, snapshot, count))
        view = known.view
        self._snapshots.note_shown(view)
        if view.segments:
            self._metrics.add("cache_hits")
        elif len(snapshot.entries) > limits.ceiling:
            self._metrics.add("cache_misses")
        if len(view.window) < len(chosen_snapshot.entries):
            self._summarizer.request_digest(memory, key)
        self._note_lag(store_key, snapshot)
        # Provisional segments must be replaced by written ones.
        if (
            known.is_due
            or snapshot.state.covered > snapshot.state.written
            or (settings.lead and self._is_due_soon(snapshot, count))
        ):
            self._summarizer.request(memory, key)
        if settings.profile is True:
            self._learn_profile(memory, key, snapshot, turn)
        self._prefix_reuse.note(store_key, known.contribution.messages, counter)
        return known.contribution

    def _is_due_soon(self, snapshot: ConversationSnapshot, count: CountMessage) -> bool:
        """Whether the ceiling will be passed before a summary could be ready."""
        due = self._settings.limits_beside(summary_tokens(self._settings, snapshot.state))
        lead = expected_messages(snapshot.entries, self._metrics.summary_seconds)
        return is_due(snapshot.entries, due, count, lead)

    def _keep(self, memory: Memory, key: Key, epoch: int, known: _KnownHistory) -> None:
        cache, found = memory.compose_cache, known.contribution
        if self._known.admits(cache, key):
            texts = [one for one in found.messages if not cache.resident or isinstance(one, Summary)]
            count, taken = len(found.messages), measure_texts(texts)
            self._known.put(cache, key, known, epoch=epoch, references=count, text_bytes=taken)

    def _learn_profile(self, memory: Memory, key: Key, snapshot: ConversationSnapshot, turn: int) -> None:
        """Learn from the message to answer, in the background: most conversations end before a summary."""
        store_key, generation = make_store_key(memory.store, key), snapshot.head.generation
        # Once for each message, however many steps its turn has.
        if self._examined_turns.get(store_key) == (generation, turn):
            return
        self._examined_turns[store_key] = (generation, turn)
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
        if not isinstance(contribution, _HistoryContribution):
            return
        if self._settings.share_prefix:
            request = CachedRequest(
                messages=composed.messages,
                tokens=composed.tokens,
                tools=tools,
                breakpoints=composed.breakpoints,
                generation=contribution.generation,
                at=self._clock(),
            )
            self._requests.note(contribution.store_key, request)
        # What the budget leaves for the history beside the other sections.
        own = composed.section_tokens(self.name)
        # In steps, so that the limits do not follow every word of the others.
        self._other_tokens = -(-(composed.tokens - own) // OTHER_TOKENS_STEP) * OTHER_TOKENS_STEP
        if any(cut.section == self.name for cut in composed.cut):
            # The budget wants less of it: a summary that is ready is shorter.
            self._swap_tracker.forget(contribution.store_key)

    def _find_cached(self, store_key: StoreKey, generation: int) -> CachedRequest | None:
        """The request that the reader's provider has cached for a conversation, if it still has."""
        return self._requests.find(store_key, generation, self._clock() - self._settings.cache_seconds)

    async def _prepare_digest(
        self, memory: Memory, key: Key, snapshot: ConversationSnapshot, count: CountMessage
    ) -> None:
        """Read what a digest would quote, and make the digest if it is needed soon."""
        store_key, limits = make_store_key(memory.store, key), self._settings.limits
        await prepare_tables()
        await run_in_steps(self._snapshots.read_ahead(store_key, snapshot))
        if len(snapshot.entries) > limits.hard - limits.batch:
            pending = self._summarizer.pending_digest(store_key)
            self._snapshots.prepare_digest(memory, key, snapshot.with_pending(pending), self._settings, count)

    async def _assemble(
        self,
        memory: Memory,
        key: Key,
        snapshot: ConversationSnapshot,
        view: BoundedView,
        count: CountMessage,
        newest: int,
    ) -> _HistoryContribution:
        """Pins, the summary message, the user message to answer if it is older, and the window."""
        counter, window, last_hidden = memory.token_counter, view.window, view.last_hidden
        if newest and newest <= last_hidden:
            asked = await memory.read(key.scope, key.conversation, after=newest - 1, before=newest + 1)
            window = [*asked.entries, *window]
        pins = self._pins(memory, key, snapshot, last_hidden, newest)
        if last_hidden:
            window = detach_late_results(window)
        shorten = partial(self._shorten_entry, make_store_key(memory.store, key), counter)
        fit = fit_entries(window, window_budget(self._settings, view.state), newest, count, shorten)
        messages = [entry.message for entry in pins.entries]
        positions: list[int | None] = [entry.position for entry in pins.entries]
        # What was learned of a message that is in view needs no line of its own.
        facts = facts_until(snapshot.state.facts, last_hidden)
        shown = self._summary(memory, key, view, facts, window)
        if shown.summary is not None:
            messages.append(shown.summary)
            positions.append(None)
        messages += [entry.message for entry in fit]
        positions += [entry.position for entry in fit]
        return _HistoryContribution(
            tuple(messages),
            tuple(positions),
            (
                *_omissions(view.missing, window, fit),
                *([pin_omission(pins.omitted, "pin_tokens")] if pins.omitted else ()),
                *shown.omitted,
            ),
            store_key=make_store_key(memory.store, key),
            generation=snapshot.head.generation,
            floor=self.floor,
            note=self._settings.note,
        )

    def _pins(
        self, memory: Memory, key: Key, snapshot: ConversationSnapshot, before: int, newest: int
    ) -> SelectedPins:
        """The pins as they are shown: the same objects turn after turn, so that they are counted once."""
        settings, store_key = self._settings, make_store_key(memory.store, key)
        # The message that the turn answers is shown in any case.
        pins = tuple(pin for pin in snapshot.state.pins if pin.position <= before and pin.position != newest)
        if not pins:
            return SelectedPins((), ())
        parts = (pins, settings.pin_tokens)
        known = self._selected_pins.get(store_key)
        if known is None or known[0] != parts:
            found = select_pins(pins, before, settings.pin_tokens, memory.token_counter, settings.zone)
            known = self._selected_pins[store_key] = (parts, found)
        return known[1]

    def _shorten_entry(self, store_key: StoreKey, counter: TokenCounter, entry: Entry, tokens: int) -> Entry:
        """An entry cut to so many tokens; a large one is in the window for many turns and cut once."""
        known = self._shortened_entries.get((store_key, entry.position, tokens))
        if known is None:
            known = Entry(entry.position, clamp_message(entry.message, tokens, counter))
            self._shortened_entries[store_key, entry.position, tokens] = known
        return known

    def _summary(
        self, memory: Memory, key: Key, view: BoundedView, facts: Sequence[Fact], window: Sequence[Entry]
    ) -> _ShownSummary:
        """The summary message, if there is something to show, and the facts that have no room in it.

        It is the same object turn after turn, so that it is counted once.
        """
        settings, store_key = self._settings, make_store_key(memory.store, key)
        parts = (view.segments, view.missing, facts, settings.size)
        known = self._summaries.get(store_key)
        if known is not None and known.parts == parts:
            return known
        counter = memory.token_counter
        # A segment comes more often than a fact changes.
        rendered_for = (facts, settings.size, counter.name, counter.calibration.factor)
        if known is not None and known.rendered_for == rendered_for:
            rendered, omitted = known.rendered, known.omitted
        else:
            rendered = render_summary_facts(facts, settings, counter)
            omitted = _fact_omissions(rendered)
        summary = None
        if view.segments or view.missing or rendered.text:
            created = window[0].message.created_at if window else _EPOCH
            summary = summary_message(
                view.segments,
                view.missing,
                created,
                self.config.summary_role,
                rendered.text,
                settings.zone,
            )
        shown = self._summaries[store_key] = _ShownSummary(parts, summary, rendered_for, rendered, omitted)
        return shown

    # -- looking on -----------------------------------------------------------------------------

    def get_metrics(self) -> dict[str, Any]:
        """Counters since this section was made, as a dict that belongs to the caller."""
        return self._metrics.dump()

    def get_cache_info(self) -> dict[str, Any]:
        """The summaries that this process has cached, and how many are being written."""
        keys = self._snapshots.cached_keys
        return {
            "cached_conversations": len(keys),
            "pending_summarizations": self._summarizer.pending,
            "conversations": keys,
            "facts": self._snapshots.cached_facts,
        }

    def clear_cache(self, scope: str | None = None, conversation: str | None = None) -> None:
        """Clear the cache of this process, of a conversation, a scope or all; stored summaries stay."""
        if scope is None and conversation is not None:
            raise ValueError("clear_cache of a conversation needs its scope too: names repeat across scopes")
        forget_states(scope=scope, conversation=conversation)
        self._snapshots.clear(scope, conversation)
        self._shortened_entries.forget(scope=scope, conversation=conversation)
        self._summaries.forget(scope=scope, conversation=conversation)
        self._selected_pins.forget(scope=scope, conversation=conversation)
        self._examined_turns.forget(scope=scope, conversation=conversation)
        self._summarizer.clear(scope, conversation)
        self._swap_tracker.clear(scope, conversation)
        self._requests.clear(scope, conversation)
        self._prefix_reuse.clear(scope, conversation)
        self._lag_started.forget(scope=scope, conversation=conversation)

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
                self.config, window, reader=self._reader, budget=self._budget, room=room
            )
        except ValueError as error:
            # This must not fail the turn: the known limits stay.
            logger.warning("the limits of summaries cannot follow the model's context window: %s", error)

    def _note_lag(self, store_key: StoreKey, snapshot: ConversationSnapshot) -> None:
        """Note by how much the last conversation is behind what its ceiling asks for, and for how long."""
        late = snapshot.head.position - snapshot.state.written - self.ceiling
        self._metrics.lag_messages = max(late, 0)
        if late <= 0:
            self._lag_started.pop(store_key, None)
            self._metrics.lag_seconds = 0.0
        else:
            now = self._clock()
            self._metrics.lag_seconds = now - self._lag_started.setdefault(store_key, now)


def _omissions(
    missing: tuple[int, int] | None, window: list[Entry], shown: list[Entry]
) -> tuple[Omission, ...]:
    found: list[Omission] = []
    if missing is not None:
        first, last = missing
        reason = "their summary is being written"
        found.append(Omission(first=first, last=last, count=last - first + 1, reason=reason))
    if len(shown) < len(window):
        left = sorted({entry.position for entry in window} - {entry.position for entry in shown})
        found.append(Omission(first=left[0], last=left[-1], count=len(left), reason="hard_limit_tokens"))
    return tuple(found)


def _fact_omissions(facts: RenderedFacts) -> tuple[Omission, ...]:
    """Facts that hold and have no room, named by their ids; they can still be read."""
    if not facts.omitted:
        return ()
    first, last = facts.omitted_range
    reason = f"no room for {facts.omitted_ids}"
    return (Omission(first=first, last=last, count=len(facts.omitted), reason=reason, what="facts"),)
