"""The contribution of a summarized history: pins, the summary message, facts, and the messages after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.plan import CountMessage
from autonomy_ctx.compaction.snapshot import BoundedView, ConversationSnapshot, ConversationState
from autonomy_ctx.compaction.view import (
    detach_late_results,
    facts_until,
    fit_entries,
    render_summary_facts,
    select_pins,
    summary_message,
    window_budget,
)
from autonomy_ctx.language.fact import Fact, RenderedFacts
from autonomy_ctx.memory.cache import StoreKey
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.clamp import clamp_message
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import SummaryRole
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.sections.section import Contribution, Omission, pin_omission

_EPOCH = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class HistoryContribution(Contribution):
    """A contribution that says of which conversation, and which generation of it, it is."""

    store_key: StoreKey = field(kw_only=True)
    generation: int = field(kw_only=True)


async def show_history(
    memory: Memory,
    store_key: StoreKey,
    known: ConversationState,
    snapshot: ConversationSnapshot,
    view: BoundedView,
    settings: CompactionSettings,
    *,
    role: SummaryRole,
    count: CountMessage,
    newest: int,
) -> HistoryContribution:
    """Pins, the summary message, the user message at `newest` if it is older, and the window."""
    counter, key = memory.token_counter, store_key.key
    # Without the calibration, which changes with every report: the same pins and facts are shown.
    plain = TokenCounter(counter.text_counter)
    window, last_hidden = view.window, view.last_hidden
    if newest and newest <= last_hidden:
        asked = await memory.read(key.scope, key.conversation, after=newest - 1, before=newest + 1)
        window = [*asked.entries, *window]
    # The message that the turn answers is shown in any case.
    hidden = [pin for pin in snapshot.state.pins if pin.position != newest]
    pins = select_pins(hidden, last_hidden, settings.pin_tokens, plain, settings.zone)
    if last_hidden:
        window = detach_late_results(window)
    shorten = partial(_shorten_entry, counter)
    fit = fit_entries(window, window_budget(settings, view.state), newest, count, shorten)
    # What was learned of a message that is in view needs no line of its own.
    facts = _render_facts(known, facts_until(snapshot.state.facts, last_hidden), settings, plain)
    messages: list[Message] = [entry.message for entry in pins.entries]
    positions: list[int | None] = [entry.position for entry in pins.entries]
    if view.segments or view.missing or facts.text:
        created = window[0].message.created_at if window else _EPOCH
        messages.append(
            summary_message(view.segments, view.missing, created, role, facts.text, settings.zone)
        )
        positions.append(None)
    return HistoryContribution(
        [*messages, *(entry.message for entry in fit)],
        [*positions, *(entry.position for entry in fit)],
        (
            *_omissions(view.missing, window, fit),
            *([pin_omission(pins.omitted, "pin_tokens")] if pins.omitted else ()),
            *_fact_omissions(facts),
        ),
        store_key=store_key,
        generation=snapshot.head.generation,
        floor=settings.limits.floor,
        note=settings.note,
    )


def _render_facts(
    known: ConversationState, facts: tuple[Fact, ...], settings: CompactionSettings, counter: TokenCounter
) -> RenderedFacts:
    """The facts as text, rendered again only when they, their room or the way of counting changed."""
    parts = (facts, settings.facts_tokens, settings.zone, counter.name)
    if known.rendered_facts is None or known.rendered_facts[0] != parts:
        known.rendered_facts = parts, render_summary_facts(facts, settings, counter)
    return known.rendered_facts[1]


def _shorten_entry(counter: TokenCounter, entry: Entry, tokens: int) -> Entry:
    return Entry(entry.position, clamp_message(entry.message, tokens, counter))


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
