"""The contribution of a summarized history: pins, the summary message, facts, and the messages after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.plan import CountMessage
from autonomy_ctx.compaction.snapshot import (
    BoundedView,
    ConversationSnapshot,
    ConversationState,
    find_question,
)
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
from autonomy_ctx.memory.facts import MAX_FACTS_OF_KIND, may_be_more
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Key, MessageRef, SummaryState
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
# Before a fact that was stored since the epoch began: the others stand in the summary message.
ADDED_FACT_HEADING = "[What holds now, too]"


@dataclass(frozen=True, slots=True)
class HistoryContribution(Contribution):
    """A contribution that says of which conversation, and which generation of it, it is."""

    store_key: StoreKey = field(kw_only=True)
    generation: int = field(kw_only=True)


async def add_block(
    memory: Memory,
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
    blocks = await read_blocks(memory.store, key, snapshot.head.generation)
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
    question: Entry | None,
    current: SummaryState,
    beginning: EpochBeginning | None = None,
    max_superseded: float = 1.0,
) -> HistoryContribution:
    """Pins, the summary message, the user message of the turn if it is older, and the window.

    `current` is the newest summary, whose facts of users are shown at once. With `beginning`, facts and pins
    that were added later stand behind what was sent. If a provider wrote the summary, all of them do: nothing
    may stand before its block, or between it and the window. A user message that the epoch began with before
    its window stays there in later turns.
    """
    counter, key = memory.token_counter, store_key.key
    # Without the calibration, which changes with every report: the same pins and facts are shown.
    plain = TokenCounter(counter.text_counter)
    last_hidden = view.last_hidden
    # The message that the turn answers is shown in any case.
    newest = 0 if question is None else question.position
    asked = newest if newest <= last_hidden else 0
    sent = asked if beginning is None or beginning.asked > last_hidden else beginning.asked or asked
    hidden = [pin for pin in snapshot.state.pins if pin.position != newest]
    pins = select_pins(hidden, last_hidden, settings.pin_tokens, plain, settings.zone)

    def shorten(entry: Entry, tokens: int) -> Entry:
        return Entry(entry.position, clamp_message(entry.message, tokens, counter))

    async def fit_window(asked: int) -> _FittedWindow:
        found = question
        if asked and asked != newest:
            found = await find_question(memory, key, asked, ())
        window = [found, *view.window] if asked and found is not None else view.window
        if last_hidden:
            window = detach_late_results(window)
        fit = fit_entries(window, window_budget(settings, view.state), newest, count, shorten)
        return _FittedWindow(window, fit)

    own_window = await fit_window(asked)
    sent_window = own_window if sent == asked else await fit_window(sent)
    # What was learned of a message that is in view needs no line of its own.
    facts = facts_until(_with_facts_of_users(snapshot.state.facts, current.facts), last_hidden)
    made_of = EpochBeginning(
        _newest_number(current.facts),
        tuple(entry.position for entry in pins.entries),
        asked=asked,
    )

    def show(
        facts: tuple[Fact, ...],
        own_pins: Sequence[Entry],
        window: _FittedWindow,
        added: Sequence[AddedText] = (),
        block: SummaryBlock | None = None,
        beginning: EpochBeginning = made_of,
        **more: Any,
    ) -> HistoryContribution:
        rendered = _render_facts(known, facts, settings, plain)
        notes = [settings.note] if settings.note else []
        if view.block_problem:
            notes.append(f"the provider wrote no summary ({view.block_problem}); our own is shown")
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
            created = window.entries[0].message.created_at if window.entries else _EPOCH
            own = rendered.text if block is None else ""
            messages.append(
                summary_message(view.segments, view.missing, created, role, own, settings.zone, block)
            )
            positions.append(None)
        return HistoryContribution(
            [*messages, *(entry.message for entry in window.fit)],
            [*positions, *(entry.position for entry in window.fit)],
            (
                *_omissions(view.missing, window.entries, window.fit),
                *([pin_omission(pins.omitted, "pin_tokens")] if pins.omitted else ()),
                *_fact_omissions(rendered, current.facts),
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

    anew = partial(show, facts, pins.entries, own_window)
    if (block := view.block) is not None:
        # All that was learned stands behind the block. What users wrote was said in what stays.
        if beginning is not None and beginning.block == block.name:
            newest_fact = beginning.newest_fact
        else:
            # Later ones were said in what stays, each behind the user message after it.
            newest_fact = _newest_number(
                [fact for fact in facts if fact.source == "user" and fact.position < last_hidden]
            )
        first, later = _split_facts(facts, newest_fact, of_users=True)
        return show(
            first,
            (),
            sent_window,
            _added_texts(pins.entries, later),
            block,
            EpochBeginning(newest_fact, (), block.name),
            anew=anew(),
        )
    if beginning is None or (
        beginning.newest_fact >= made_of.newest_fact and beginning.pins == made_of.pins and sent == asked
    ):
        return anew()
    # Users write facts at any time, and a digest is often shown before the facts of its messages are stored.
    first, later = _split_facts(facts, beginning.newest_fact)
    learned = sum(plain.count_text(fact_line(fact)) for fact in later if fact.source != "user")
    if learned > settings.facts_tokens:
        return anew()
    first_pins = [entry for entry in pins.entries if entry.position in beginning.pins]
    later_pins = [entry for entry in pins.entries if entry.position not in (*beginning.pins, sent)]
    added = _added_texts(later_pins, later)
    return show(first, first_pins, sent_window, added, anew=anew()) if added or sent != asked else anew()


class _FittedWindow(NamedTuple):
    """The messages after a summary, and those of them that fit."""

    entries: list[Entry]
    fit: list[Entry]


def _split_facts(
    facts: tuple[Fact, ...], newest: int, *, of_users: bool = False
) -> tuple[tuple[Fact, ...], list[Fact]]:
    """The facts up to a number, and the later ones; with `of_users`, only those of users are later ones."""
    may_be_later = [fact for fact in facts if fact.source == "user"] if of_users else facts
    later = {fact.id: fact for fact in may_be_later if (fact_number(fact.id) or 0) > newest}
    return tuple(fact for fact in facts if fact.id not in later), list(later.values())


def _added_texts(pins: Sequence[Entry], facts: Sequence[Fact]) -> list[AddedText]:
    """Pins and facts that were added since an epoch began."""
    texts = {fact.id: f"{ADDED_FACT_HEADING}\n{fact_line(fact)}" for fact in active_facts(facts)}
    return [
        *(AddedText(f"pin {entry.position}", entry.message, entry.position) for entry in pins),
        *(AddedText(f"fact {name}", data_message(text)) for name, text in texts.items()),
    ]


def _with_facts_of_users(facts: tuple[Fact, ...], current: tuple[Fact, ...]) -> tuple[Fact, ...]:
    """The facts of an older summary, with those that users have written since."""
    if facts is current:
        return facts
    known = {fact.id for fact in facts}
    return (*facts, *(fact for fact in current if fact.source == "user" and fact.id not in known))


def _newest_number(facts: Sequence[Fact]) -> int:
    """The highest number of a fact; 0 if there is none. Facts stand in the order of their numbers."""
    # Not of all: there may be thousands.
    return (fact_number(facts[-1].id) or 0) if facts else 0


def _render_facts(
    known: ConversationState, facts: tuple[Fact, ...], settings: CompactionSettings, counter: TokenCounter
) -> RenderedFacts:
    """The facts as text, rendered again only when they, their room or the way of counting changed."""
    parts = (facts, settings.facts_tokens, settings.zone, counter.name)
    if known.rendered_facts is None or known.rendered_facts[0] != parts:
        known.rendered_facts = parts, render_summary_facts(facts, settings, counter)
    return known.rendered_facts[1]


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


def _fact_omissions(facts: RenderedFacts, read: Sequence[Fact]) -> tuple[Omission, ...]:
    """Facts that hold and have no room, named by their ids; they can still be read."""
    if not facts.omitted:
        return ()
    first, last = facts.omitted_range
    bound = f"; of each kind, only the newest {MAX_FACTS_OF_KIND} were read" if may_be_more(read) else ""
    reason = f"no room for {facts.omitted_ids}{bound}"
    return (Omission(first=first, last=last, count=len(facts.omitted), reason=reason, what="facts"),)
