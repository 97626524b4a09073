"""When a new summary replaces the older one in the context.

A new summary changes the beginning of the context, so the provider reads the rest uncached. Keeping the
older one means sending more messages, which are cached. `SummaryRollout` remembers what each conversation was
shown and asks the policy.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import CountMessage
from autonomy_ctx.compaction.snapshot import CACHED_CONVERSATIONS, ConversationSnapshot
from autonomy_ctx.compaction.swap_policy import SwapChoice
from autonomy_ctx.compaction.view import window_budget
from autonomy_ctx.language.fact import Fact
from autonomy_ctx.memory.conversation_cache import ConversationCache, StoreKey
from autonomy_ctx.memory.store import Entry, StoredSegment
from autonomy_ctx.models.catalog import Price

logger = logging.getLogger("autonomy_ctx.compaction")


@dataclass(slots=True)
class _DisplayedSummary:
    """Which summary the last context of a conversation had, when that was, and what it has cost to keep."""

    generation: int
    segments: tuple[StoredSegment, ...]
    shown_at: float
    facts: tuple[Fact, ...] = ()
    carried_cost: float = 0.0
    # The newest summary there was the last time.
    newest_segments: tuple[StoredSegment, ...] = ()


class SummaryRollout:
    """Remembers what each conversation was shown; safe to lose, then the newest summary is shown."""

    def __init__(self, metrics: SummaryMetrics) -> None:
        self._metrics = metrics
        self._displayed: ConversationCache[StoreKey, _DisplayedSummary] = ConversationCache(
            CACHED_CONVERSATIONS
        )

    def covered(self, store_key: StoreKey) -> int | None:
        """The last position covered by the summary that was shown last."""
        last = self._displayed.get(store_key)
        return None if last is None else _last_covered(last.segments)

    def forget(self, store_key: StoreKey) -> None:
        """Show the newest summary next time."""
        self._displayed.pop(store_key, None)

    def choose_snapshot(
        self,
        store_key: StoreKey,
        snapshot: ConversationSnapshot,
        settings: CompactionSettings,
        count: CountMessage,
        now: float,
    ) -> ConversationSnapshot:
        """What to show: the newest summary, or for now the one that was shown and all it does not cover."""
        last = self._displayed.get(store_key)
        older = None if last is None else _older_view(last, snapshot, settings, count)
        if (
            last is None
            or older is None
            or _should_swap(settings, _swap_choice(last, older, snapshot, settings, count, now))
        ):
            generation, segments = snapshot.head.generation, snapshot.state.segments
            if last is None or (last.generation, last.segments) != (generation, segments):
                self._metrics.add("swaps", 0 if last is None else 1)
                last = self._displayed[store_key] = _DisplayedSummary(generation, segments, now)
            older, last.facts = snapshot, snapshot.state.facts
        else:
            self._metrics.add("swaps_put_off")
        last.shown_at, last.newest_segments = now, snapshot.state.segments
        last.carried_cost += _carrying_cost(older.entries, settings, count)
        return older

    def clear(self, scope: str | None, conversation: str | None) -> None:
        """The same for a conversation, a scope or all."""
        self._displayed.forget(scope=scope, conversation=conversation)


def _should_swap(settings: CompactionSettings, choice: SwapChoice) -> bool:
    """Ask the policy whether to show the newest summary; one that fails costs some tokens, not the turn."""
    try:
        return bool(settings.swap(choice))
    except Exception:
        logger.warning("the `swap` function failed, so the newest summary is shown", exc_info=True)
        return True


def _older_view(
    last: _DisplayedSummary, snapshot: ConversationSnapshot, settings: CompactionSettings, count: CountMessage
) -> ConversationSnapshot | None:
    """The snapshot with the older summary; None when it may not be shown, or is the newest."""
    state, covered = snapshot.state, _last_covered(last.segments)
    if (
        last.generation != snapshot.head.generation
        or last.segments == state.segments
        or snapshot.covered_entries is None
        or not snapshot.complete
        # Another context of this conversation, composed beside this one, has changed it meanwhile.
        or not snapshot.covered_since <= covered <= state.covered
        # A digest only stands in: it is not kept for the sake of money.
        or any(segment.provisional for segment in last.segments)
        or not _can_facts_wait(last.facts, state.facts, covered)
    ):
        return None
    state = replace(state, segments=last.segments, facts=last.facts)
    back = [entry for entry in snapshot.covered_entries if entry.position > covered]
    older = replace(snapshot, state=state, entries=[*back, *snapshot.entries], covered_entries=None)
    if len(older.entries) > settings.limits.hard:
        return None
    max_tokens = window_budget(settings, state)
    if max_tokens is not None and sum(count(entry.message) for entry in older.entries) > max_tokens:
        return None
    return older


def _can_facts_wait(shown: Sequence[Fact], facts: Sequence[Fact], covered: int) -> bool:
    """Tell whether the facts beside the older summary can stay: the window shows what has changed them.

    Another list of facts has the whole window after it read uncached: the older summary would save nothing.
    What a user wrote or removed is shown at once.
    """
    known = {fact.id for fact in shown}
    new = [fact for fact in facts if fact.id not in known]
    return len(facts) - len(new) == len(known) and all(
        fact.position > covered and fact.source != "user" for fact in new
    )


def _swap_choice(
    last: _DisplayedSummary,
    older: ConversationSnapshot,
    snapshot: ConversationSnapshot,
    settings: CompactionSettings,
    count: CountMessage,
    now: float,
) -> SwapChoice:
    # New segments are read anew once, now or later; the window after them at every swap.
    anew = sum(count(entry.message) for entry in snapshot.entries)
    return SwapChoice(
        idle_seconds=now - last.shown_at,
        cache_seconds=settings.cache_seconds,
        carried=last.carried_cost,
        swap_cost=anew * _uncached_premium(settings.price),
        fresh=snapshot.state.segments != last.newest_segments,
        room=settings.limits.hard - len(older.entries),
        batch=settings.limits.batch,
    )


def _carrying_cost(entries: Sequence[Entry], settings: CompactionSettings, count: CountMessage) -> float:
    """The cost in one context of the messages that a summary could replace: all before the last `floor`."""
    price = settings.price
    tokens = sum(count(entry.message) for entry in entries[: -settings.limits.floor])
    return tokens * price.cached_input / price.input if price.input else 0.0


def _uncached_premium(price: Price) -> float:
    """The extra cost of a token that is read anew, not from the cache, as a part of `input`."""
    return max(price.cache_write - price.cached_input, 0.0) / price.input if price.input else 0.0


def _last_covered(segments: Sequence[StoredSegment]) -> int:
    return segments[-1].last if segments else 0
