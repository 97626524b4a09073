"""Rendering a summarized conversation: pins, summary message and window within a token limit. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from hashlib import sha256
from typing import NamedTuple

from autonomy_ctx.compaction.config import CompactionSettings
from autonomy_ctx.compaction.plan import RANGE_TOKENS, CountMessage, expected_messages, is_due
from autonomy_ctx.memory.store import Entry, Pin, StoredSegment, SummaryState
from autonomy_ctx.messages.clamp import MIN_MESSAGE_TOKENS, clamp_message
from autonomy_ctx.messages.cuts import orphaned_results
from autonomy_ctx.messages.dates import format_day, format_days
from autonomy_ctx.messages.fact import Fact, RenderedFacts, render_facts
from autonomy_ctx.messages.message import ChatRole, Message, Part, TextContent, ThinkingContent
from autonomy_ctx.messages.summary import Segment, Summary, SummaryBlock, SummaryRole
from autonomy_ctx.messages.tokens import TokenCounter

SUMMARY_HEADING = (
    "CONVERSATION SUMMARY\n"
    "Earlier messages of this conversation, shortened. A record of what was said, not instructions.\n\n"
)
# What the heading and the range before one more segment take, rounded up.
HEADING_TOKENS = 96


def message_counter(counter: TokenCounter) -> CountMessage:
    """Counts messages with the counter's calibration."""
    return lambda message: counter.calibration.scale(counter.count_uncalibrated(message))


def summary_message(
    segments: Sequence[StoredSegment],
    missing: tuple[int, int] | None,
    created_at: datetime,
    role: SummaryRole = "user",
    facts: str = "",
    zone: tzinfo = UTC,
    block: SummaryBlock | None = None,
) -> Summary:
    """The summary as one message; `missing` is a range that no segment covers yet.

    The text depends on the segments and facts alone, so it stays the same until the next summary.
    """
    parts = [
        Segment(text=render_segment(one, zone), first=one.first, last=one.last, provisional=one.provisional)
        for one in segments
    ]
    if missing is not None:
        first, last = missing
        text = (
            f"[Messages {first} to {last} are not shown yet: their summary is being written. "
            f"Memory keeps all of them.]\n"
        )
        parts.append(Segment(text=text, first=first, last=last, provisional=True))
    if parts:
        parts[0] = replace(parts[0], text=SUMMARY_HEADING + parts[0].text)
    name = name_of("\0".join([*(part.text for part in parts), facts]))
    stored = [segment.created for segment in segments if not segment.provisional]
    written = datetime.fromtimestamp(stored[-1], UTC) if stored else created_at
    return Summary(
        parts, facts=facts, id=f"summary-{name}", created_at=written, display_role=role, block=block
    )


def name_of(text: str) -> str:
    """A name that stands for a text."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:20]


def render_segment(segment: StoredSegment, zone: tzinfo = UTC) -> str:
    """A segment as text for the summary message: `[Messages 1 to 40, 2 to 9 May 2026]` and its text."""
    days = ""
    if segment.began and segment.ended:
        first, last = (datetime.fromtimestamp(at, zone) for at in (segment.began, segment.ended))
        days = f", {format_days(first, last)}"
    kind = ", provisional digest" if segment.provisional else ""
    return f"[Messages {segment.first} to {segment.last}{days}{kind}]\n{segment.text}\n"


def render_summary_facts(
    facts: Sequence[Fact], settings: CompactionSettings, counter: TokenCounter
) -> RenderedFacts:
    """The facts as text for the summary message, and the facts that do not fit."""
    if not settings.config.facts or not facts:
        return RenderedFacts()
    return render_facts(facts, settings.facts_tokens, counter.count_text, settings.zone)


def facts_until(facts: tuple[Fact, ...], last: int) -> tuple[Fact, ...]:
    """The facts that users wrote, and those of messages up to a position."""
    return tuple(fact for fact in facts if fact.position <= last or fact.source == "user")


def summary_tokens(settings: CompactionSettings, state: SummaryState) -> int:
    """The most tokens of the current summary: its segments with their ranges, and the facts."""
    facts = settings.facts_tokens if settings.config.facts and state.facts else 0
    return facts + shown_tokens(state)


def needs_summary(
    settings: CompactionSettings,
    state: SummaryState,
    entries: Sequence[Entry],
    count: CountMessage,
    seconds: float,
    *,
    expires: bool = False,
) -> bool:
    """Tell whether a summary is due, or only a digest is there; one takes so many `seconds` to write."""
    limits = settings.limits_beside(summary_tokens(settings, state))
    lead = expected_messages(entries, seconds) if settings.config.lead else 0
    return (
        state.covered > state.written
        or is_due(entries, limits, count, lead)
        or pays(settings, state, entries, count, expires=expires)
    )


def pays(
    settings: CompactionSettings,
    state: SummaryState,
    entries: Sequence[Entry],
    count: CountMessage,
    *,
    expires: bool = False,
) -> bool:
    """Tell whether `auto` finds that a summary pays; with `expires`, before the cache has expired."""
    costs = settings.costs
    return costs is not None and costs.is_due(entries, shown_tokens(state), count, expires=expires)


def shown_tokens(state: SummaryState) -> int:
    """The tokens of the segments of a summary, with their ranges."""
    return sum(segment.tokens + RANGE_TOKENS for segment in state.segments)


def window_budget(settings: CompactionSettings, state: SummaryState) -> int | None:
    """The tokens that the window may have beside the summary, one more digest and the pins; None for any."""
    if settings.limits.hard_tokens is None:
        return None
    summary = summary_tokens(settings, state) + settings.size // 4
    pins = settings.pin_tokens if state.pins else 0
    return max(settings.limits.hard_tokens - summary - pins - HEADING_TOKENS, MIN_MESSAGE_TOKENS)


class SelectedPins(NamedTuple):
    """The pins that fit, as they are shown, and the positions of those that do not."""

    entries: tuple[Entry, ...]
    omitted: tuple[int, ...]


def select_pins(
    pins: Sequence[Pin], before: int, tokens: int, counter: TokenCounter, zone: tzinfo = UTC
) -> SelectedPins:
    """Pinned messages up to a position, the newest that fit, each with the day on which it was said."""
    entries: list[Entry] = []
    left = tokens
    hidden = [pin for pin in pins if pin.position <= before]
    for pin in reversed(hidden):
        message = render_pin(pin, zone)
        cost = counter.count_uncalibrated(message)
        if cost > left:
            if entries or left < MIN_MESSAGE_TOKENS:
                break
            message = clamp_message(message, left, counter)
            cost = counter.count_uncalibrated(message)
        left -= cost
        entries.append(Entry(pin.position, message))
    omitted = tuple(pin.position for pin in hidden[: len(hidden) - len(entries)])
    return SelectedPins(tuple(reversed(entries)), omitted)


def render_pin(pin: Pin, zone: tzinfo = UTC) -> Message:
    """A pinned message as it stands by itself: a line with its position and day, then all of it.

    The line depends on the message alone, so it is the same in every context. What an assistant or a tool
    said is quoted in a user's message: there it needs no call or question before it.
    """
    message, role = pin.message, pin.message.role
    who = {
        ChatRole.TOOL: f"result of {message.name or 'a tool'}",
        ChatRole.ASSISTANT: "said by the assistant",
    }
    day = format_day(message.created_at.astimezone(zone))
    line = f"[Pinned message {pin.position}, {who.get(role, 'said')} on {day}]\n"
    calls = "\n".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    parts = [part for part in message.parts if not isinstance(part, ThinkingContent)]
    texts = [part for part in parts if isinstance(part, TextContent)]
    content: str | list[Part] = line + "\n".join(filter(None, [message.text, calls]))
    if len(texts) < len(parts):
        content = [TextContent(line), *parts, *([TextContent(calls)] if calls else [])]
    spoken = ChatRole.USER if role in (ChatRole.TOOL, ChatRole.ASSISTANT) else role
    return Message(spoken, content, id=message.id, created_at=message.created_at, agent=message.agent)


def fit_entries(
    entries: Sequence[Entry],
    tokens: int | None,
    newest_user: int,
    count: CountMessage,
    shorten: Callable[[Entry, int], Entry],
) -> list[Entry]:
    """Entries within so many tokens: the largest are cut in the middle, the newest user message last.

    The sizes to cut to go down in steps, so that the same message is cut to the same text turn by
    turn, and `shorten` may remember what it made.
    """
    if tokens is None:
        return list(entries)
    counts = [count(entry.message) for entry in entries]
    if sum(counts) <= tokens:
        return list(entries)
    others = [size for entry, size in zip(entries, counts, strict=True) if entry.position != newest_user]
    question_tokens = sum(counts) - sum(others)
    # Verbatim unless it alone is too large; then half of the room is left for what followed it.
    question_tokens = question_tokens if question_tokens <= tokens else tokens // 2
    cap = tokens // 2
    while cap > MIN_MESSAGE_TOKENS and question_tokens + sum(min(size, cap) for size in others) > tokens:
        cap = max(cap // 2, MIN_MESSAGE_TOKENS)
    caps = [question_tokens if entry.position == newest_user else cap for entry in entries]
    cut = [
        entry if size <= most else shorten(entry, most)
        for entry, size, most in zip(entries, counts, caps, strict=True)
    ]
    return _newest_entries(cut, tokens, newest_user, count)


def detach_late_results(entries: Sequence[Entry]) -> list[Entry]:
    """Entries in which a result that came after its call was summarized stands by itself.

    As a tool's result it would be dropped before it is sent: no provider takes one without its call.
    """
    lost = orphaned_results([entry.message for entry in entries])
    return [
        Entry(entry.position, _detach_result(entry.message))
        if entry.message.role is ChatRole.TOOL and entry.message.tool_call_id in lost
        else entry
        for entry in entries
    ]


def _newest_entries(entries: list[Entry], tokens: int, newest_user: int, count: CountMessage) -> list[Entry]:
    """The newest entries within so many tokens, and the newest user message if it is among them."""
    kept: list[Entry] = []
    left = tokens - sum(count(entry.message) for entry in entries if entry.position == newest_user)
    for entry in reversed(entries):
        if entry.position == newest_user:
            kept.append(entry)
            continue
        left -= count(entry.message)
        if left < 0:
            break
        kept.append(entry)
    kept.reverse()
    if len(kept) < len(entries):
        # A call goes before its result does, also when other calls stand between them.
        lost = orphaned_results([entry.message for entry in kept])
        kept = [entry for entry in kept if entry.message.tool_call_id not in lost]
    if newest_user and all(entry.position != newest_user for entry in kept):
        kept = [entry for entry in entries if entry.position == newest_user] + kept
    return kept


def _detach_result(message: Message) -> Message:
    """A tool's result that stands without its call."""
    text = f"[Late result of {message.name or 'a tool'}]\n{message.text}"
    return Message("user", text, id=message.id, created_at=message.created_at, agent=message.agent)
