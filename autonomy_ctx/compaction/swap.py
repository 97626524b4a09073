"""When a new summary replaces the older one in the context.

A new summary changes the beginning of the context, so the provider reads the rest uncached. Keeping the
older one means sending more messages, which are cached. The policy is asked with what each conversation was
shown before.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.cost_model import SwapChoice
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import CountMessage
from autonomy_ctx.compaction.snapshot import ConversationSnapshot, ConversationState, DisplayedSummary
from autonomy_ctx.compaction.view import facts_until, window_budget
from autonomy_ctx.memory.facts import newest_facts
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.fact import Fact

logger = logging.getLogger("autonomy_ctx.compaction")
# Less replaced text than this is not worth a new beginning, which leaves out thinking.
MIN_SUPERSEDED = 0.05
# A question and its answer.
MESSAGES_OF_TURN = 2


def choose_snapshot(
    conversation: ConversationState,
    snapshot: ConversationSnapshot,
    settings: CompactionSettings,
    count: CountMessage,
    now: float,
    metrics: SummaryMetrics,
    *,
    is_in_turn: bool = False,
) -> ConversationSnapshot:
    """The snapshot to show: the newest, or for now the summary that was shown and all it does not cover.

    Inside a turn the summary that it began with stays, as long as the limits allow it.
    """
    last = conversation.displayed
    older = None if last is None else _older_view(last, snapshot, settings, count, is_in_turn)
    if (
        last is None
        or older is None
        or (
            not is_in_turn
            and _should_swap(settings, _swap_choice(last, older, snapshot, settings, count, now))
        )
    ):
        generation, segments = snapshot.head.generation, snapshot.state.segments
        if last is None or (last.generation, last.segments) != (generation, segments):
            metrics.add("swaps", 0 if last is None else 1)
            last = conversation.displayed = DisplayedSummary(generation, segments, now)
        older, last.facts = snapshot, snapshot.state.facts
    else:
        metrics.add("swaps_put_off")
    last.shown_at, last.newest_segments = now, snapshot.state.segments
    # In one context, of the messages that a summary could replace: all before the last `floor`.
    tokens = sum(count(entry.message) for entry in older.entries[: -settings.limits.floor])
    price = settings.price
    last.carried_cost += tokens * price.cached_input / price.input if price.input else 0.0
    return older


def summary_until(snapshot: ConversationSnapshot, covered: int, now: float) -> DisplayedSummary | None:
    """The summary that was shown when it ended at a position; None if it cannot be told from the newest."""
    state = snapshot.state
    segments = tuple(segment for segment in state.segments if segment.last <= covered)
    if covered != (segments[-1].last if segments else 0):
        return None
    # It waits for the next one: whether it was the right moment was asked when this one was new.
    return DisplayedSummary(
        snapshot.head.generation,
        segments,
        now,
        facts_until(state.facts, covered),
        newest_segments=state.segments,
    )


def show_older(
    displayed: DisplayedSummary | None,
    snapshot: ConversationSnapshot,
    settings: CompactionSettings,
    count: CountMessage,
    covered: int | None,
    now: float,
) -> ConversationSnapshot | None:
    """The snapshot with the summary that was sent and ended at a position; None if it is not known."""
    if covered is not None and (displayed is None or displayed.covered != covered):
        displayed = summary_until(snapshot, covered, now)
    return None if displayed is None else _older_view(displayed, snapshot, settings, count, is_in_turn=True)


def superseded_share(
    settings: CompactionSettings, entries: Sequence[Entry], count: CountMessage, idle_seconds: float
) -> float:
    """The share of a context that later text may have replaced, until it is cheaper to show all anew.

    Replaced text is read from the cache by each request up to the next summary. Beginning anew writes the
    rest to the cache once more; that costs nothing if the cache is cold.
    """
    price, limits = settings.price, settings.limits
    if idle_seconds >= settings.cache_seconds:
        return MIN_SUPERSEDED
    if not entries:
        return 1.0
    left = float(limits.ceiling - len(entries))
    if settings.costs is not None:
        # Until a summary pays, as many messages are expected as there were since the last one.
        left = float(len(entries))
    elif limits.ceiling_tokens is not None:
        tokens = sum(count(entry.message) for entry in entries)
        left = min(left, (limits.ceiling_tokens - tokens) / max(tokens / len(entries), 1))
    read = max(left / MESSAGES_OF_TURN, 1) * price.cached_input
    write = max(price.cache_write - price.cached_input, 0.0)
    return max(write / (write + read), MIN_SUPERSEDED) if read else 1.0


def _should_swap(settings: CompactionSettings, choice: SwapChoice) -> bool:
    """Ask the policy whether to show the newest summary; one that fails costs some tokens, not the turn."""
    try:
        return bool(settings.swap(choice))
    except Exception:
        logger.warning("the `swap` function failed, so the newest summary is shown", exc_info=True)
        return True


def _older_view(
    last: DisplayedSummary,
    snapshot: ConversationSnapshot,
    settings: CompactionSettings,
    count: CountMessage,
    is_in_turn: bool,
) -> ConversationSnapshot | None:
    """The snapshot with the older summary; None when it may not be shown, or is the newest."""
    state, covered = snapshot.state, last.covered
    if (
        last.generation != snapshot.head.generation
        or last.segments == state.segments
        or snapshot.covered_entries is None
        or not snapshot.complete
        # Another context of this conversation, composed beside this one, has changed it meanwhile.
        or not snapshot.covered_since <= covered <= state.covered
    ):
        return None
    facts = last.facts if is_in_turn else _lasting_facts(last, state.facts)
    if facts is None:
        return None
    state = replace(state, segments=last.segments, facts=facts)
    back = [entry for entry in snapshot.covered_entries if entry.position > covered]
    older = replace(snapshot, state=state, entries=[*back, *snapshot.entries], covered_entries=None)
    if len(older.entries) > settings.limits.hard:
        return None
    max_tokens = window_budget(settings, state)
    if max_tokens is not None and sum(count(entry.message) for entry in older.entries) > max_tokens:
        return None
    return older


def _lasting_facts(last: DisplayedSummary, facts: Sequence[Fact]) -> tuple[Fact, ...] | None:
    """The facts of an older summary that can stay, as the window shows what has changed them; None if not.

    A digest only stands in: it is not kept for the sake of money. A list of facts without one of them has
    the whole window after it read uncached: the older summary would save nothing. But the oldest of a kind,
    which are no longer read beside new ones, had no room in it. What a user wrote is appended.
    """
    if any(segment.provisional for segment in last.segments):
        return None
    now, known = {fact.id for fact in facts}, {fact.id for fact in last.facts}
    new = [fact for fact in facts if fact.id not in known]
    if any(fact.position <= last.covered and fact.source != "user" for fact in new):
        return None
    if known <= now:
        return last.facts
    read = {fact.id for fact in newest_facts((*last.facts, *new))}
    older = [fact for fact in last.facts if fact.state == "holds" and fact.id not in read]
    gone = known - now - {fact.id for fact in older} - {fact.replaces for fact in older}
    return None if gone else tuple(fact for fact in last.facts if fact.id in now)


def _swap_choice(
    last: DisplayedSummary,
    older: ConversationSnapshot,
    snapshot: ConversationSnapshot,
    settings: CompactionSettings,
    count: CountMessage,
    now: float,
) -> SwapChoice:
    # New segments are read anew once, now or later; the window after them at every swap.
    anew, price = sum(count(entry.message) for entry in snapshot.entries), settings.price
    premium = max(price.cache_write - price.cached_input, 0.0) / price.input if price.input else 0.0
    return SwapChoice(
        idle_seconds=now - last.shown_at,
        cache_seconds=settings.cache_seconds,
        carried=last.carried_cost,
        swap_cost=anew * premium,
        fresh=snapshot.state.segments != last.newest_segments,
        room=settings.limits.hard - len(older.entries),
        batch=settings.limits.batch,
    )
