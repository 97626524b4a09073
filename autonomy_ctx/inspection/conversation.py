"""Reports of a conversation: counts and times, the summary, the facts, the pins, the turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from autonomy_ctx.agents.cost_limit import summary_cost
from autonomy_ctx.agents.explain import RECORD_KIND, parse_turn
from autonomy_ctx.compaction.writer import DOUBTFUL_MARK
from autonomy_ctx.errors import UnknownConversation
from autonomy_ctx.inspection.message import PAGE_CHARACTERS, MessageReport, read_forward, report_entry
from autonomy_ctx.inspection.report import Report, bounds_fields, from_seconds, make_report
from autonomy_ctx.inspection.turn import TurnInfo, list_turns
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import ConversationOutline, DueTask, FactEnd
from autonomy_ctx.memory.store import Entry, Key, Pin, PinSource, StoredSegment, make_key
from autonomy_ctx.messages.fact import Fact, FactKind, FactSource, FactState
from autonomy_ctx.template.composed import WindowBounds


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReport(Report):
    """A segment of the current summary: the range that it covers, its text, and how it was made.

    `is_digest` means that no model wrote it; a written segment will replace it. `is_doubtful` means that it
    was kept though it is poor, because asking once more gave no better one. `cost` is that of its model
    calls, as if nothing had been cached; None if the price is not known.
    """

    number: int
    first: int
    last: int
    level: int
    tokens: int
    model: str
    is_digest: bool
    is_doubtful: bool
    coverage: float
    input_tokens: int
    output_tokens: int
    cost: float | None
    created_at: datetime | None
    began_at: datetime | None
    ended_at: datetime | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FactReport(Report):
    """A fact, what it replaced, what replaced it, and where it ended; None while it holds."""

    id: str
    kind: FactKind
    text: str
    position: int
    created_at: datetime
    state: FactState
    source: FactSource
    in_profile: bool
    replaces: str | None
    replaced_text: str | None
    replaced_by: str | None
    ended_position: int | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PinReport(Report):
    """A pinned message, when it was pinned, and whether the user or a model did it."""

    pinned_at: datetime | None
    source: PinSource
    message: MessageReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryWork(Report):
    """A summary that is due: the time of the next attempt, and how often in a row it has failed.

    `failures` are failed model calls, `refusals` are rejected answers.
    """

    due_at: datetime | None
    failures: int
    refusals: int
    is_running: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationReport(Report):
    """The state of a conversation.

    The summary covers the messages up to `covered`; up to `summarized`, it contains no digest that waits to
    be replaced. `window` is the number of messages after the summary. `floor` and `ceiling` are those of the
    newest recorded turn. Messages up to `shared_until` are also in a fork, or in the conversation that this
    one was forked from. `turns_cost` is that of the recorded turns, `summaries_cost` that of the segments;
    None if it is not known of any.
    """

    agent: str
    scope: str
    conversation: str
    messages: int
    head: int
    generation: int
    revision: int
    first_at: datetime
    last_at: datetime
    covered: int
    summarized: int
    window: int
    floor: int | None
    ceiling: int | None
    summary_tokens: int
    segments: tuple[SegmentReport, ...]
    facts: tuple[FactReport, ...]
    pins: tuple[PinReport, ...]
    shared_until: int
    work: SummaryWork | None
    turns: tuple[TurnInfo, ...]
    turns_cost: float | None
    summaries_cost: float | None


async def inspect_conversation(memory: Memory, scope: str, conversation: str) -> ConversationReport:
    """The state of a conversation. It reads the summary, the facts and two messages, never the history."""
    key = make_key(memory.agent, scope, conversation)
    newest = (await memory.read(scope, conversation, limit=1)).entries
    if not newest:
        raise UnknownConversation(conversation)
    state = await memory.summary(scope, conversation)
    _, oldest = await read_forward(memory, scope, conversation, 0, 1)
    segments = tuple(report_segment(segment) for segment in state.segments)
    outline = await memory.store.outline(key, ())
    turns = await list_turns(memory, scope, conversation)
    return ConversationReport(
        **key._asdict(),
        messages=state.head.count,
        head=state.head.position,
        generation=state.head.generation,
        revision=state.head.revision,
        first_at=(oldest or newest)[0].message.created_at,
        last_at=newest[0].message.created_at,
        covered=state.covered,
        summarized=state.written,
        window=state.head.position - state.covered,
        **bounds_fields(await read_bounds(memory, key)),
        summary_tokens=sum(segment.tokens for segment in segments),
        segments=segments,
        facts=await report_facts(memory, scope, conversation, outline),
        pins=tuple(_report_pin(memory, pin) for pin in state.pins),
        shared_until=await memory.store.shared_until(key),
        work=report_work(outline.work),
        turns=turns,
        turns_cost=_sum_costs(turns),
        summaries_cost=_sum_costs(segments),
    )


def _sum_costs(parts: Sequence[TurnInfo | SegmentReport]) -> float | None:
    known = [part.cost for part in parts if part.cost is not None]
    return sum(known) if known else None


async def read_facts(memory: Memory, scope: str, conversation: str) -> tuple[FactReport, ...]:
    """All stored facts, also old ones, with what each replaced and what ended it."""
    outline = await memory.store.outline(make_key(memory.agent, scope, conversation), ())
    return await report_facts(memory, scope, conversation, outline)


async def report_facts(
    memory: Memory, scope: str, conversation: str, outline: ConversationOutline
) -> tuple[FactReport, ...]:
    """Every fact, with the ends that an outline tells."""
    facts = await memory.facts(scope, conversation).history()
    by_id = {fact.id: fact for fact in facts}
    successors = {fact.replaces: fact for fact in facts if fact.replaces}
    ends = {end.fact_id: end for end in outline.done_facts}
    return tuple(_report_fact(fact, by_id, successors, ends) for fact in facts)


def report_segment(segment: StoredSegment) -> SegmentReport:
    """A segment as people look at it."""
    return make_report(
        SegmentReport,
        segment,
        is_digest=segment.provisional,
        is_doubtful=segment.prompt_hash.endswith(DOUBTFUL_MARK),
        cost=summary_cost(segment),
        created_at=from_seconds(segment.created),
        began_at=from_seconds(segment.began),
        ended_at=from_seconds(segment.ended),
    )


def _report_fact(
    fact: Fact, by_id: Mapping[str, Fact], successors: Mapping[str, Fact], ends: Mapping[str, FactEnd]
) -> FactReport:
    replaced = by_id.get(fact.replaces or "")
    successor = successors.get(fact.id)
    end = ends.get(fact.id) if successor is None else successor
    return make_report(
        FactReport,
        fact,
        replaced_text=None if replaced is None else replaced.text,
        replaced_by=None if successor is None else successor.id,
        ended_position=None if end is None else end.position,
        ended_at=None if end is None else end.created_at,
    )


def _report_pin(memory: Memory, pin: Pin) -> PinReport:
    entry = Entry(pin.position, pin.message)
    return PinReport(
        pinned_at=pin.pinned_at, source=pin.source, message=report_entry(memory, entry, PAGE_CHARACTERS)
    )


async def read_bounds(memory: Memory, key: Key) -> WindowBounds | None:
    """Floor and ceiling as the newest recorded turn had them."""
    for record in await memory.store.read_records(key, RECORD_KIND, limit=1):
        return parse_turn(record).steps[-1].bounds
    return None


def report_work(work: DueTask | None) -> SummaryWork | None:
    """The report of a summary that is due."""
    if work is None:
        return None
    return SummaryWork(
        due_at=from_seconds(work.due),
        failures=work.attempts,
        refusals=work.refusals,
        is_running=work.is_leased,
    )
