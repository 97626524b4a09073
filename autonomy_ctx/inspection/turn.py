"""Reports of a past turn: sections and messages, cached tokens, cost, and what changed.

It reads the records of agents (see `agents/explain.py`), without a running agent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from autonomy_ctx.agents.explain import RECORD_KIND, StepRecord, TurnRecord, parse_turn
from autonomy_ctx.errors import UnknownConversation, UnknownTurn
from autonomy_ctx.formats.base import CacheMiss, Usage
from autonomy_ctx.formats.model_table import Price
from autonomy_ctx.inspection.changes import advise_on_end, describe_changes, describe_end
from autonomy_ctx.inspection.message import MessageReport, message_fields
from autonomy_ctx.inspection.report import Report, count_of, make_report, range_of, shorten
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import position_ranges
from autonomy_ctx.memory.store import Key, Record, make_key
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.models.catalog import estimate_cost, price_of
from autonomy_ctx.sections.section import Omission, SectionKind
from autonomy_ctx.template.composed import (
    BudgetReport,
    ComposedContext,
    Cut,
    SectionReport,
    decode_section,
)
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.validation import check_int

MAX_TURNS = 100
# What a list of turns shows of the message that began each.
_TEXT_CHARACTERS = 200
# More ranges of positions than this are told by their number.
_MAX_RANGES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionTokens(Report):
    """The tokens of a section in a list of turns; `summary_tokens` of them are those of a summary."""

    name: str
    tokens: int
    summary_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnInfo(Report):
    """A turn in a list: `position` and `text` are those of the user's message that began it.

    `tokens`, `sections` and `epoch` are those of the last step; `usage` is the sum of all steps, None when it
    is not known. `end_reasons` are those of the epochs that ended in its steps.
    """

    id: str
    at: datetime
    steps: int
    model: str | None
    tokens: int
    sections: tuple[SectionTokens, ...]
    usage: Usage | None
    cost: float | None
    epoch: int | None
    end_reasons: tuple[EndReason, ...]
    position: int | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSection(Report):
    """The part of one section, and by how much its tokens changed since the turn before."""

    name: str
    kind: SectionKind
    status: Literal["included", "skipped", "failed"]
    reason: str | None
    source: str
    messages: int
    tokens: int
    tokens_change: int | None
    cached_tokens: int
    milliseconds: float
    indexes: tuple[int, ...]
    omitted: tuple[Omission, ...]
    cut: tuple[Cut, ...]
    note: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnMessage(MessageReport):
    """A message as the model saw it. `cached_tokens` is its part in the prefix of the context before.

    `is_appended` is true for a text that its section said later in the epoch: it stands where it was said.
    """

    index: int
    section: str
    cached_tokens: int
    is_cached: bool
    is_appended: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCost(Report):
    """The cost of a step, in the currency of the price table; None if the price is not known.

    `estimated` is computed from our own token counts and the shared prefix, `reported` from the usage that
    the provider reported. `turn` is the reported cost of all steps of the turn.
    """

    estimated: float | None
    reported: float | None
    turn: float | None
    price: Price | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnThinking(Report):
    """The thinking of earlier replies that a request had, and that was left out, with the reasons.

    `is_refused` says that the provider refused the request for its thinking, and it was sent again without.
    `is_summary_refused` says the same of a summary that it had written: ours was sent in its place.
    """

    sent: int
    left_out: int
    reasons: tuple[str, ...]
    is_refused: bool
    is_summary_refused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnReport(Report):
    """The context of a step: its messages, their origins, and what changed since the turn before.

    `tokens` is our own count of the messages: `cached_tokens` are in the prefix shared with the context
    before, `new_tokens` are not. `usage` is what the provider reported. `epoch` is None in records of 0.2;
    `end_reason` says why this step does not begin with the one before, and `advice` what would cost less.
    `cache_miss` is what the provider says of its cache, if it was asked.
    """

    agent: str
    scope: str
    conversation: str
    id: str
    at: datetime
    position: int | None
    step: int
    steps: int
    model: str | None
    epoch: int | None
    end_reason: EndReason | None
    advice: str | None
    tokens: int
    tool_tokens: int | None
    cached_tokens: int
    new_tokens: int
    cached_messages: int
    milliseconds: float
    usage: Usage | None
    turn_usage: Usage | None
    thinking: TurnThinking
    cache_miss: CacheMiss | None
    cost: TurnCost
    budget: BudgetReport | None
    floor: int | None
    ceiling: int | None
    sections: tuple[TurnSection, ...]
    messages: tuple[TurnMessage, ...]
    previous: str | None
    next: str | None
    changes: tuple[str, ...]


class StepContext(NamedTuple):
    """A step of a turn with its context read back."""

    turn: TurnRecord
    step: int
    record: StepRecord
    context: ComposedContext


async def list_turns(
    memory: Memory, scope: str, conversation: str, *, limit: int = MAX_TURNS
) -> tuple[TurnInfo, ...]:
    """The newest recorded turns, oldest first. By default agents keep 20 for each conversation."""
    check_int("limit", limit)
    key = make_key(memory.agent, scope, conversation)
    await _check_known(memory, key)
    turns = [parse_turn(record) for record in await _read_records(memory, key, limit=limit)]
    return tuple([await _turn_info(memory, key, turn) for turn in turns])


async def inspect_turn(
    memory: Memory, scope: str, conversation: str, turn: str | None = None, *, step: int | None = None
) -> TurnReport:
    """The context of a turn; by default of the last step of the newest turn.

    Raises `UnknownTurn` if there is no record, and `UnknownConversation` if there are no messages.
    """
    key = make_key(memory.agent, scope, conversation)
    await _check_known(memory, key)
    # The newest one needs only itself and the one before.
    records = await _read_records(memory, key, limit=2 if turn is None else None)
    at = find_turn(records, turn)
    shown = await read_step(memory, key, parse_turn(records[at]), step)
    before = await _read_last_step(memory, key, records[at - 1]) if at else None
    following = records[at + 1].name if at + 1 < len(records) else None
    return _report(key, shown, before, previous=records[at - 1].name if at else None, following=following)


async def read_turn_steps(
    memory: Memory, scope: str, conversation: str, *turns: tuple[str | None, int | None]
) -> list[StepContext]:
    """Steps of turns, each given by the id of its turn and its number; None is the newest and the last."""
    key = make_key(memory.agent, scope, conversation)
    await _check_known(memory, key)
    records = await _read_records(memory, key, limit=None)
    return [
        await read_step(memory, key, parse_turn(records[find_turn(records, turn)]), step)
        for turn, step in turns
    ]


def find_turn(records: Sequence[Record], turn: str | None) -> int:
    """The index of a turn's record; None means the newest turn."""
    names = [record.name for record in records]
    if turn is None and names:
        return len(names) - 1
    if turn in names:
        return names.index(turn)
    known = (
        ", ".join(map(repr, names[-5:])) or "none; only turns of agents are recorded, not appended messages"
    )
    raise UnknownTurn(turn=turn, step=None, problem=f"there is no record of it; recorded turns: {known}")


async def read_step(memory: Memory, key: Key, turn: TurnRecord, step: int | None) -> StepContext:
    """A step of a turn; None means the last step."""
    steps = len(turn.steps)
    check_int("step", step, optional=True)
    if step is not None and step > steps:
        raise UnknownTurn(turn=turn.id, step=step, problem=f"the turn has steps 1 to {steps}")
    number = step or steps
    record = turn.steps[number - 1]
    context = await record.read_context(key, memory)
    if context is None:
        raise UnknownTurn(turn=turn.id, step=step, problem="messages that it showed have been deleted")
    return StepContext(turn, number, record, context)


async def _read_last_step(memory: Memory, key: Key, record: Record) -> StepContext | None:
    try:
        return await read_step(memory, key, parse_turn(record), None)
    except UnknownTurn:
        return None


async def _read_records(memory: Memory, key: Key, *, limit: int | None) -> list[Record]:
    return await memory.store.read_records(key, RECORD_KIND, limit=limit)


async def _check_known(memory: Memory, key: Key) -> None:
    if not (await memory.head(key.scope, key.conversation)).count:
        raise UnknownConversation(key.conversation)


def total_usage(turn: TurnRecord) -> Usage | None:
    """The usage of all steps; None when none is known."""
    known = [step.usage for step in turn.steps if step.usage is not None]
    return sum(known, Usage()) if known else None


def turn_cost(turn: TurnRecord) -> float | None:
    """Add up the cost of all steps by reported usage; None when it is not known of all."""
    costs = [
        None if step.usage is None or step.model is None else estimate_cost(step.usage, step.model)
        for step in turn.steps
    ]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if known and len(known) == len(costs) else None


async def _turn_info(memory: Memory, key: Key, turn: TurnRecord) -> TurnInfo:
    first, last = turn.steps[0], turn.steps[-1]
    position, text = first.newest_position, ""
    if position is not None:
        window = await memory.read(key.scope, key.conversation, after=position - 1, before=position + 1)
        text = shorten(window.entries[0].message.text, _TEXT_CHARACTERS) if window.entries else ""
    return TurnInfo(
        id=turn.id,
        at=turn.at,
        steps=len(turn.steps),
        model=last.model,
        tokens=last.tokens,
        sections=tuple(_section_tokens(last)),
        usage=total_usage(turn),
        cost=turn_cost(turn),
        epoch=last.epoch,
        end_reasons=_end_reasons(turn.steps),
        position=position,
        text=text,
    )


def _end_reasons(steps: Sequence[StepRecord]) -> tuple[EndReason, ...]:
    return tuple(step.end_reason for step in steps if step.end_reason is not None)


def _section_tokens(step: StepRecord) -> Iterator[SectionTokens]:
    form = step.form
    messages, counts = form["messages"], form["counts"]
    for section in form["sections"]:
        indexes = decode_section(section).indexes
        # Messages of the log are stored as their positions; of the others, summaries have segments.
        of_summary = [at for at in indexes if isinstance(messages[at], dict) and "segments" in messages[at]]
        yield SectionTokens(
            name=section["name"],
            tokens=section["tokens"],
            summary_tokens=sum(counts[at] for at in of_summary),
        )


def _report(
    key: Key, shown: StepContext, last: StepContext | None, *, previous: str | None, following: str | None
) -> TurnReport:
    turn, number, record, context = shown
    before = None if last is None else last.context
    messages = tuple(_messages(context, record.head_length))
    cached = sum(message.cached_tokens for message in messages)
    usage, model, bounds = record.usage, record.model, record.bounds
    price = None if model is None else price_of(model)
    output = 0 if usage is None else usage.output_tokens
    changes = [describe_end(reason) for reason in _end_reasons(turn.steps[:number])]
    if before is not None:
        changes += describe_changes(before, context)
    if last is not None and last.record.model not in (None, model):
        changes.insert(0, f"the model changed from {last.record.model} to {model}")
    return TurnReport(
        **key._asdict(),
        id=turn.id,
        at=turn.at,
        position=turn.steps[0].newest_position,
        step=number,
        steps=len(turn.steps),
        model=model,
        epoch=record.epoch,
        end_reason=record.end_reason,
        advice=advise_on_end(record.end_reason),
        tokens=context.tokens,
        tool_tokens=None if context.budget is None else context.budget.tools,
        cached_tokens=cached,
        new_tokens=context.tokens - cached,
        cached_messages=sum(message.is_cached for message in messages),
        milliseconds=context.milliseconds,
        usage=usage,
        turn_usage=total_usage(turn),
        thinking=TurnThinking(
            sent=len(record.thinking.sent),
            left_out=sum(record.thinking.left_out.values()),
            reasons=tuple(record.thinking.left_out),
            is_refused=record.thinking.refused,
            is_summary_refused=bool(record.thinking.refused_block),
        ),
        cache_miss=record.cache_miss,
        cost=TurnCost(
            estimated=None if price is None else context.estimated_cost(price, output_tokens=output),
            reported=None if price is None or usage is None else estimate_cost(usage, price),
            turn=turn_cost(turn),
            price=price,
        ),
        budget=context.budget,
        floor=None if bounds is None else bounds.floor,
        ceiling=None if bounds is None else bounds.ceiling,
        sections=tuple(_section(one, context, messages, before) for one in context.sections),
        messages=messages,
        previous=previous,
        next=following,
        changes=tuple(changes),
    )


def _messages(context: ComposedContext, head_length: int | None) -> Iterator[TurnMessage]:
    """The messages of a context; those of the shared prefix are cached, of a summary after them a part is."""
    shared = context.shared
    left = 0 if shared is None else shared.tokens
    whole = 0 if shared is None else shared.messages
    origins = context.origins()
    for index, (message, origin) in enumerate(zip(context.messages, origins, strict=True)):
        cached = origin.tokens if index < whole else min(left, origin.tokens) if index == whole else 0
        left -= cached
        yield TurnMessage(
            **message_fields(message, origin.position, origin.tokens, None),
            index=index,
            section=origin.section,
            cached_tokens=cached,
            is_cached=index < whole,
            is_appended=head_length is not None and index >= head_length and not origin.position,
        )


def _section(
    section: SectionReport,
    context: ComposedContext,
    messages: Sequence[TurnMessage],
    before: ComposedContext | None,
) -> TurnSection:
    old = None if before is None else before.section(section.name)
    change = None if before is None else section.tokens - (0 if old is None else old.tokens)
    return make_report(
        TurnSection,
        section,
        source=_source(section, context),
        tokens_change=change,
        cached_tokens=sum(messages[index].cached_tokens for index in section.indexes),
        indexes=tuple(section.indexes),
    )


def _source(section: SectionReport, context: ComposedContext) -> str:
    """Where the messages of a section come from: the summary, the log, or the section itself."""
    shown, told, own = context.messages, list[str](), 0
    positions = [position for position in section.positions if position]
    for index, position in zip(section.indexes, section.positions, strict=True):
        message = shown[index]
        if isinstance(message, Summary):
            told.append(_summary_source(message))
        elif not position:
            own += 1
    if positions:
        ranges = [range_of(*one) for one in position_ranges(positions, max_gap=1)]
        where = ", ".join(ranges) if len(ranges) <= _MAX_RANGES else range_of(min(positions), max(positions))
        told.append(f"{count_of(len(positions), 'stored message')} ({where})")
    if own:
        told.append(f"{count_of(own, 'message')} of the section itself")
    return ", ".join(told)


def _summary_source(summary: Summary) -> str:
    if not summary.segments:
        return "standing facts"
    covered = range_of(summary.covers_from, summary.covers_to)
    facts = " and standing facts" if summary.facts else ""
    return f"summary of messages {covered} ({count_of(len(summary.segments), 'segment')}{facts})"
