"""The contribution of a summarized history: pins, the summary message, facts, and the messages after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.plan import CountMessage
from autonomy_ctx.compaction.snapshot import BoundedView, ConversationSnapshot, ConversationState
from autonomy_ctx.compaction.view import (
    detach_late_results,
    facts_until,
    fit_entries,
    name_of,
    render_summary_facts,
    select_pins,
    summary_message,
    window_budget,
)
from autonomy_ctx.memory.cache import StoreKey
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Key, MessageRef, Store, SummaryState
from autonomy_ctx.memory.summary_blocks import read_blocks
from autonomy_ctx.messages.clamp import clamp_message
from autonomy_ctx.messages.fact import Fact, RenderedFacts, active_facts, fact_line, fact_number
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import SummaryBlock, SummaryRole
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.sections.section import (
    FACTS_NAME,
    AddedText,
    Composition,
    Contribution,
    EpochBeginning,
    Omission,
    data_message,
    pin_omission,
)

_EPOCH = datetime.fromtimestamp(0, UTC)
# Before a fact that a user wrote since the epoch began: the others stand in the summary message.
ADDED_FACT_HEADING = "[What holds now, too]"


@dataclass(frozen=True, slots=True)
class HistoryContribution(Contribution):
    """A contribution that says of which conversation, and which generation of it, it is."""

    store_key: StoreKey = field(kw_only=True)
    generation: int = field(kw_only=True)


async def add_block(
    store: Store,
    key: Key,
    composition: Composition,
    snapshot: ConversationSnapshot,
    view: BoundedView,
) -> BoundedView:
    """The view with the block to show in place of a summary: the one that was sent, or a newer one.

    Once our own text of a summary was sent, it stays.
    """
    if view.missing is not None or view.is_digested or not view.segments:
        return view
    blocks = await read_blocks(store, key, snapshot.head.generation)
    found = next((one for one in blocks if one.last == view.last_hidden), None)
    if found is None or found.block is None:
        return view if found is None else replace(view, block_problem=found.problem)
    beginning, covered = composition.beginning, composition.covered
    is_sent = beginning is not None and beginning.block == found.block.name
    is_new = covered is not None and covered < found.last and not composition.is_in_turn
    return replace(view, block=found.block) if is_sent or is_new else view


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
    current: SummaryState,
    beginning: EpochBeginning | None = None,
    max_superseded: float = 1.0,
) -> HistoryContribution:
    """Pins, the summary message, the user message at `newest` if it is older, and the window.

    `current` is the newest summary, whose facts of users are shown at once. With `beginning`, facts and pins
    that were added later stand behind what was sent. If a provider wrote the summary, all of them do: nothing
    may stand before its block, or between it and the window.
    """
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
    facts = facts_until(_with_facts_of_users(snapshot.state.facts, current.facts), last_hidden)
    made_of = EpochBeginning(
        _newest_fact(current.facts),
        tuple(entry.position for entry in pins.entries),
    )

    def show(
        facts: tuple[Fact, ...],
        own_pins: Sequence[Entry],
        added: Sequence[AddedText] = (),
        block: SummaryBlock | None = None,
        beginning: EpochBeginning = made_of,
        **more: Any,
    ) -> HistoryContribution:
        rendered = _render_facts(known, facts, settings, plain)
        notes = [settings.note] if settings.note else []
        if view.block_problem:
            notes.append(f"the provider wrote no summary ({view.block_problem}); ours is shown")
        if block is not None:
            if rendered.text:
                added = [
                    AddedText(FACTS_NAME + name_of(rendered.text), data_message(rendered.text)),
                    *added,
                ]
            # Removing a fact removes all texts that have it.
            more["refs"] = (MessageRef(key.conversation, agent=key.agent),)
            if settings.block_writer is not None and settings.block_writer.takes_block(block):
                notes.append(f"summary written by {block.model}, on demand")
        messages: list[Message] = [entry.message for entry in own_pins]
        positions: list[int | None] = [entry.position for entry in own_pins]
        if view.segments or view.missing or rendered.text:
            created = window[0].message.created_at if window else _EPOCH
            own = rendered.text if block is None else ""
            messages.append(
                summary_message(view.segments, view.missing, created, role, own, settings.zone, block)
            )
            positions.append(None)
        return HistoryContribution(
            [*messages, *(entry.message for entry in fit)],
            [*positions, *(entry.position for entry in fit)],
            (
                *_omissions(view.missing, window, fit),
                *([pin_omission(pins.omitted, "pin_tokens")] if pins.omitted else ()),
                *_fact_omissions(rendered),
            ),
            store_key=store_key,
            generation=snapshot.head.generation,
            floor=settings.limits.floor,
            note="; ".join(notes) or None,
            added=added,
            beginning=beginning,
            max_superseded=max_superseded,
            long_cache=known.long_cache,
            **more,
        )

    anew = partial(show, facts, pins.entries)
    if (block := view.block) is not None:
        if beginning is not None and beginning.block == block.name:
            newest_fact = beginning.newest_fact
        else:
            # Later ones were said in what stays, each behind the user message after it.
            newest_fact = _newest_fact([fact for fact in facts if fact.position < last_hidden])
        return show(
            tuple(fact for fact in facts if not _is_added(fact, newest_fact)),
            (),
            _added_texts(pins.entries, facts, newest_fact),
            block,
            EpochBeginning(newest_fact, (), block.name),
            anew=anew(),
        )
    if beginning is None or (beginning.newest_fact >= made_of.newest_fact and beginning.pins == made_of.pins):
        return anew()
    first = tuple(fact for fact in facts if not _is_added(fact, beginning.newest_fact))
    first_pins = [entry for entry in pins.entries if entry.position in beginning.pins]
    later_pins = [entry for entry in pins.entries if entry.position not in beginning.pins]
    added = _added_texts(later_pins, facts, beginning.newest_fact)
    return show(first, first_pins, added, anew=anew()) if added else anew()


def _added_texts(pins: Sequence[Entry], facts: tuple[Fact, ...], newest: int) -> list[AddedText]:
    """Pins, and the facts that users wrote after the one with a number."""
    return [
        *(AddedText(f"pin {entry.position}", entry.message, entry.position) for entry in pins),
        *(_added_fact(fact) for fact in active_facts(facts) if _is_added(fact, newest)),
    ]


def _with_facts_of_users(facts: tuple[Fact, ...], current: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The facts of an older summary, with those that users have written since."""
    if facts is current:
        return facts
    known = {fact.id for fact in facts}
    return (*facts, *(fact for fact in current if fact.source == "user" and fact.id not in known))


def _newest_fact(facts: Sequence[Fact]) -> int:
    """The number of the newest fact that a user wrote; 0 if there is none."""
    # There may be thousands of facts, of which users wrote few.
    return max((fact_number(fact.id) or 0 for fact in facts if fact.source == "user"), default=0)


def _is_added(fact: Fact, newest: int) -> bool:
    """True for a fact that a user wrote after the one with a number."""
    return fact.source == "user" and (fact_number(fact.id) or 0) > newest


def _added_fact(fact: Fact) -> AddedText:
    return AddedText(f"fact {fact.id}", data_message(f"{ADDED_FACT_HEADING}\n{fact_line(fact)}"))


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
