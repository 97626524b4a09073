"""Reports of a past turn: sections and messages, cached tokens, cost, and what changed.

It reads the records of agents (see `agents/explain.py`), without a running agent. Full contexts are kept of
the newest turns, figures of every turn (`memory/turn_figures.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, NamedTuple

from autonomy_ctx.agents.explain import (
    NOT_KEPT,
    RECORD_KIND,
    StepRecord,
    TurnRecord,
    parse_turn,
    read_turn_id,
)
from autonomy_ctx.errors import UnknownConversation, UnknownTurn
from autonomy_ctx.formats.base import CacheMiss, Usage
from autonomy_ctx.formats.model_table import Price
from autonomy_ctx.inspection.changes import advise_on_end, describe_changes, describe_end
from autonomy_ctx.inspection.message import MessageReport, message_fields
from autonomy_ctx.inspection.report import Report, bounds_fields, count_of, make_report, range_of, shorten
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import position_ranges
from autonomy_ctx.memory.store import MAX_POSITION, Key, Record, make_key
from autonomy_ctx.memory.turn_figures import USAGE_FIELDS, TurnFigures, read_page
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.models.catalog import estimate_cost, price_of
from autonomy_ctx.sections.section import Omission, SectionKind
from autonomy_ctx.template.composed import BudgetReport, ComposedContext, Cut, Definitions, SectionReport
from autonomy_ctx.template.context_record import decode_section
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

    `number` is that of the turn in its conversation; None in records of 0.2. `tokens`, `sections` and `epoch`
    are those of the last step; so are `request_tokens`, which include the tools, and `shared_tokens`, the
    prefix shared with the previous context. `usage` is the sum of all steps, None when it is not known.
    `end_reasons` are those of the epochs that ended in its steps. `seconds` is the time from the user's
    message to the end. `has_context` is false if the full context is no longer kept. `has_failed` is true if
    the turn of an agent ended with an error or was cancelled; records of 0.2 do not say it.
    """

    number: int | None
    id: str
    at: datetime
    seconds: float | None
    steps: int
    model: str | None
    tokens: int
    request_tokens: int | None
    shared_tokens: int
    sections: tuple[SectionTokens, ...]
    usage: Usage | None
    cost: float | None
    epoch: int | None
    end_reasons: tuple[EndReason, ...]
    position: int | None
    text: str
    has_context: bool
    has_failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnSection(Report):
    """The part of one section, and by how much its tokens changed since the previous turn."""

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
    """A message as the model saw it. `cached_tokens` is its part in the prefix of the previous context.

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
    """The context of a step: its messages, their origins, and what changed since the previous turn.

    `tokens` is our own count of the messages: `cached_tokens` are in the prefix shared with the previous
    context, `new_tokens` are not. `request_tokens` are those of the `sections` and of the `definitions`,
    which are the tools and the schema of the answer; None and empty where these are not known, as in most
    records of 0.2. `usage` is what the provider reported. `epoch` is None in records of 0.2; `end_reason`
    says why this step does not begin with the previous one, and `advice` what would cost less. `cache_miss`
    is what the provider says of its cache, if it was asked.
    """

    agent: str
    scope: str
    conversation: str
    number: int | None
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
    request_tokens: int | None
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
    definitions: tuple[Definitions, ...]
    messages: tuple[TurnMessage, ...]
    previous: str | None
    next: str | None
    changes: tuple[str, ...]


class StepContext(NamedTuple):
    """A step of a turn with its context read back."""

    turn: TurnRecord
    step: int
    context: ComposedContext


async def list_turns(
    memory: Memory, scope: str, conversation: str, *, limit: int = MAX_TURNS, before: int | None = None
) -> tuple[TurnInfo, ...]:
    """A page of the turns of a conversation, oldest first: the newest ones, or those before a number.

    Turns that were recorded by 0.2 have no number; they stand before the first turn with one.
    """
    check_int("limit", limit)
    check_int("before", before, most=MAX_POSITION, optional=True)
    key = make_key(memory.agent, scope, conversation)
    await _check_known(memory, key)
    figures = await read_page(memory.store, key, before=before, limit=limit)
    contexts = {
        record.name: record
        for record in await memory.store.read_records(key, RECORD_KIND, limit=max(limit, MAX_TURNS))
    }
    unnumbered = [turn for turn in map(parse_turn, contexts.values()) if turn.number is None]
    place = memory, key
    numbered = [await _figures_info(*place, at, one, contexts) for at, one in figures if one.steps]
    first = figures[0][1].number if figures else before or 1
    older = unnumbered if first == 1 else []
    return tuple([*[await _turn_info(*place, turn) for turn in older], *numbered][-limit:])


async def inspect_turn(
    memory: Memory, scope: str, conversation: str, turn: str | int | None = None, *, step: int | None = None
) -> TurnReport:
    """The context of a turn; by default of the last step of the newest turn.

    `turn` is its number in the conversation, or its id. Raises `UnknownTurn` if its full context is not kept
    (`list_turns` still has its figures), and `UnknownConversation` if there are no messages.
    """
    key = make_key(memory.agent, scope, conversation)
    await _check_known(memory, key)
    # The newest one needs only itself and the one before.
    records = await memory.store.read_records(key, RECORD_KIND, limit=2 if turn is None else None)
    at = await find_turn(memory, key, records, turn)
    shown = await read_step(memory, key, parse_turn(records[at]), step)
    before: ComposedContext | None = None
    if at:
        with suppress(UnknownTurn):
            before = (await read_step(memory, key, parse_turn(records[at - 1]), None)).context
    following = records[at + 1].name if at + 1 < len(records) else None
    return _report(key, shown, before, previous=records[at - 1].name if at else None, following=following)


async def read_turn_steps(
    memory: Memory, scope: str, conversation: str, *turns: tuple[str | int | None, int | None]
) -> list[StepContext]:
    """Steps of turns, each given by the name of its turn and its number; None is the newest and the last."""
    key = make_key(memory.agent, scope, conversation)
    await _check_known(memory, key)
    records = await memory.store.read_records(key, RECORD_KIND)
    return [
        await read_step(memory, key, parse_turn(records[await find_turn(memory, key, records, turn)]), step)
        for turn, step in turns
    ]


async def find_turn(memory: Memory, key: Key, records: Sequence[Record], turn: str | int | None) -> int:
    """The index of a turn's record, by its id or its number; None means the newest turn.

    A text that is no id but a number names the turn with this number.
    """
    names = [record.name for record in records]
    if turn is None and names:
        return len(names) - 1
    if turn in names:
        return names.index(turn)
    number = read_number(turn)
    if number is None:
        known = ", ".join(map(repr, names[-5:])) or "none; only agents record turns"
        raise UnknownTurn(turn=turn, step=None, problem=f"there is no record of it; recorded turns: {known}")
    name = await read_turn_id(memory, key, number)
    if name not in names:
        raise UnknownTurn(turn=number, step=None, problem=NOT_KEPT)
    return names.index(name)


def read_number(turn: str | int | None) -> int | None:
    """The number that a turn was given as; None for an id."""
    if isinstance(turn, str):
        return int(turn) if turn.isdecimal() and turn.isascii() and len(turn) < 16 else None
    check_int("turn", turn, most=MAX_POSITION, optional=True)
    return turn


async def read_step(memory: Memory, key: Key, turn: TurnRecord, step: int | None) -> StepContext:
    """A step of a turn; None means the last step."""
    check_int("step", step, optional=True)
    context = await turn.read_context(key, memory, step, asked=turn.id)
    return StepContext(turn, step or len(turn.steps), context)


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


async def _read_said(memory: Memory, key: Key, position: int | None) -> Message | None:
    """The user's message at a position; None if there is none, or it was deleted."""
    if not position:
        return None
    window = await memory.read(key.scope, key.conversation, after=position - 1, before=position + 1)
    return window.entries[0].message if window.entries else None


async def _figures_info(
    memory: Memory, key: Key, at: float, figures: TurnFigures, contexts: Mapping[str, Record | None]
) -> TurnInfo:
    said = await _read_said(memory, key, figures.position)
    name = figures.id or ("" if said is None else said.id)
    has_context = name in contexts
    if not has_context and name and len(contexts) >= MAX_TURNS:
        has_context = bool(await memory.store.read_records(key, RECORD_KIND, name=name))
    return make_report(
        TurnInfo,
        figures,
        id=name,
        at=datetime.fromtimestamp(at, UTC),
        seconds=None if figures.milliseconds is None else figures.milliseconds / 1000,
        sections=tuple(
            SectionTokens(name=name, tokens=tokens, summary_tokens=summary)
            for name, (tokens, summary) in figures.sections.items()
        ),
        epoch=figures.epoch or None,
        end_reasons=tuple(EndReason(reason) for reason in figures.end_reasons),
        position=figures.position or None,
        text="" if said is None else shorten(said.text, _TEXT_CHARACTERS),
        has_context=has_context,
        has_failed=bool(figures.failed),
    )


async def _turn_info(memory: Memory, key: Key, turn: TurnRecord) -> TurnInfo:
    """A turn that has no figures: a record of 0.2."""
    last, usage = turn.steps[-1], total_usage(turn)
    figures = TurnFigures(
        number=0,
        id=turn.id,
        position=turn.steps[0].newest_position or 0,
        steps=len(turn.steps),
        model=last.model,
        sections=_section_tokens(last),
        reported=[getattr(usage, name) for name in USAGE_FIELDS] if usage else (),
        cost=turn_cost(turn),
    )
    info = await _figures_info(memory, key, turn.at.timestamp(), figures, {turn.id: None})
    return replace(info, number=None, at=turn.at, request_tokens=None)


def _section_tokens(step: StepRecord) -> dict[str, tuple[int, int]]:
    form = step.form
    messages, counts = form["messages"], form["counts"]
    found: dict[str, tuple[int, int]] = {}
    for section in form["sections"]:
        indexes = decode_section(section).indexes
        # Messages of the log are stored as their positions; of the others, summaries have segments.
        of_summary = [at for at in indexes if isinstance(messages[at], dict) and "segments" in messages[at]]
        found[section["name"]] = (section["tokens"], sum(counts[at] for at in of_summary))
    return found


def _report(
    key: Key,
    shown: StepContext,
    before: ComposedContext | None,
    *,
    previous: str | None,
    following: str | None,
) -> TurnReport:
    turn, number, context = shown
    messages = tuple(_messages(context, turn.steps[number - 1].head_length))
    cached = sum(message.cached_tokens for message in messages)
    usage, model, thinking = context.usage, context.model, context.thinking
    price = None if model is None else price_of(model)
    output = 0 if usage is None else usage.output_tokens
    ends = [step.end_reason for step in turn.steps[:number]]
    changes = [describe_end(reason) for reason in ends if reason is not None]
    if before is not None:
        changes += describe_changes(before, context)
    if before is not None and before.model not in (None, model):
        changes.insert(0, f"the model changed from {before.model} to {model}")
    return make_report(
        TurnReport,
        context,
        **key._asdict(),
        number=turn.number,
        id=turn.id,
        at=turn.at,
        position=turn.steps[0].newest_position,
        step=number,
        steps=len(turn.steps),
        epoch=context.epoch or None,
        advice=advise_on_end(context.end_reason),
        request_tokens=None if context.definitions is None else context.request_tokens,
        cached_tokens=cached,
        new_tokens=context.tokens - cached,
        cached_messages=sum(message.is_cached for message in messages),
        turn_usage=total_usage(turn),
        thinking=TurnThinking(
            sent=len(thinking.sent),
            left_out=sum(thinking.left_out.values()),
            reasons=tuple(thinking.left_out),
            is_refused=thinking.refused,
            is_summary_refused=bool(thinking.refused_block),
        ),
        cost=TurnCost(
            estimated=None if price is None else context.estimated_cost(price, output_tokens=output),
            reported=None if price is None or usage is None else estimate_cost(usage, price),
            turn=turn_cost(turn),
            price=price,
        ),
        **bounds_fields(context.bounds),
        sections=tuple(_section(one, context, messages, before) for one in context.sections),
        definitions=context.definitions or (),
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
        told.append(f"{count_of(own, 'message')} written by the section")
    return ", ".join(told)


def _summary_source(summary: Summary) -> str:
    if not summary.segments:
        return "current facts"
    covered = range_of(summary.covers_from, summary.covers_to)
    facts = " and current facts" if summary.facts else ""
    return f"summary of messages {covered} ({count_of(len(summary.segments), 'segment')}{facts})"
