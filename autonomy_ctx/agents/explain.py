"""The stored contexts of past turns, byte for byte: the records behind `agent.explain` and `inspect_turn`.

A record refers to messages of the log by position and contains only the other messages. So a record is small,
and deleting a message deletes it here too. It names the messages of other conversations that it quotes:
deleting one of them deletes the record. A record also has the name of the model and the tokens that the
provider reported. The figures of every turn are stored with it, and stay (`memory/turn_figures.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from autonomy_ctx.errors import UnknownTurn
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.formats.model_table import Price
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, Record, RecordDraft
from autonomy_ctx.memory.turn_figures import (
    USAGE_FIELDS,
    TurnFigures,
    draft_figures,
    read_figures,
    read_newest,
)
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.models.catalog import estimate_cost, price_of
from autonomy_ctx.template.composed import ComposedContext, WindowBounds
from autonomy_ctx.template.context_record import (
    decode_bounds,
    decode_section,
    decode_usage,
    from_record,
    read_forms,
    write_contexts,
)
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.validation import check_int, check_seconds

RECORD_KIND = "context"
EXPLAIN_TURNS = 20
EXPLAIN_SECONDS = 7 * 24 * 3600.0
NO_TURN = "there are no messages yet; send the agent a message first, with the same scope and conversation"
NOT_KEPT = (
    "its full context is not kept; figures of every turn are, see `list_turns`. Agents keep the contexts of "
    "the newest turns, until a message of the conversation is deleted; "
    "`Agent(explain_turns=..., explain_seconds=...)` keeps more"
)
# Old records of a conversation are looked for at most this often.
_SWEEP_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """A step as it is stored. Its context is read on demand, because that reads messages from memory."""

    form: Mapping[str, Any]

    @property
    def model(self) -> str | None:
        """The name of the model; None in records from before it was stored."""
        return self.form.get("model")

    @property
    def usage(self) -> Usage | None:
        """The tokens as the provider counted them; None when they are not known."""
        return decode_usage(self.form)

    @property
    def bounds(self) -> WindowBounds | None:
        """The bounds of the window in messages; None without a summarized history."""
        return decode_bounds(self.form)

    @property
    def end_reason(self) -> EndReason | None:
        """The reason why this context did not begin with the one before."""
        reason = self.form.get("end_reason")
        return EndReason(reason) if reason else None

    @property
    def head_length(self) -> int | None:
        """The number of messages that the epoch began with; None if that is not known."""
        return self.form.get("head")

    @property
    def newest_position(self) -> int | None:
        """The newest message of the log that was shown; in the first step it is the user's."""
        sections = map(decode_section, self.form["sections"])
        shown = (position for section in sections for position in section.positions)
        return max((position for position in shown if position), default=None)

    async def read_context(self, key: Key, memory: Memory) -> ComposedContext | None:
        """Read what the model was shown; None when messages of it have been deleted."""
        return await from_record(self.form, key.scope, key.conversation, memory)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """A turn as it is stored: its id, when it ended, and its steps."""

    id: str
    at: datetime
    steps: tuple[StepRecord, ...]

    @property
    def number(self) -> int | None:
        """The number of the turn in its conversation; None in records of 0.2."""
        return self.steps[0].form.get("turn")

    async def read_context(
        self, key: Key, memory: Memory, step: int | None, *, asked: str | int | None
    ) -> ComposedContext:
        """The context of a step, by default of the last one; `asked` is the turn as the caller named it."""
        if step is not None and not 1 <= step <= len(self.steps):
            raise UnknownTurn(turn=asked, step=step, problem=f"the turn has steps 1 to {len(self.steps)}")
        composed = await self.steps[-1 if step is None else step - 1].read_context(key, memory)
        if composed is None:
            raise UnknownTurn(turn=asked, step=step, problem="messages that it showed have been deleted")
        return composed


def parse_turn(record: Record) -> TurnRecord:
    """The turn that a record of `RECORD_KIND` holds."""
    steps = tuple(StepRecord(form=form) for form in read_forms(record.body))
    return TurnRecord(id=record.name, at=datetime.fromtimestamp(record.at, UTC), steps=steps)


class SentTurn(NamedTuple):
    """A turn whose requests were sent: its names, and where and when it began."""

    number: int
    id: str
    # Of the user's message; 0 if there is none.
    position: int
    generation: int
    milliseconds: int | None = None
    has_failed: bool = False
    # Whether its id is that of the user's message, which must go with the message.
    has_message_id: bool = False


def make_figures(turn: SentTurn, steps: Sequence[ComposedContext]) -> TurnFigures:
    """The figures of a turn from the contexts of its steps."""
    last, end_reasons, usages = steps[-1], list[str](), list[Usage]()
    prices: dict[str | None, Price | None] = {}
    cost: float | None = 0.0
    for step in steps:
        if step.end_reason is not None:
            end_reasons.append(step.end_reason.value)
        if step.model not in prices:
            prices[step.model] = None if step.model is None else price_of(step.model)
        known = None if step.usage is None else estimate_cost(step.usage, prices[step.model])
        cost = None if cost is None or known is None else cost + known
        if step.usage is not None:
            usages.append(step.usage)
    usage = sum(usages, Usage())
    counts = {one.name: one.tokens for one in last.definitions or ()}
    sections = _count_sections(last)
    return TurnFigures(
        number=turn.number,
        id="" if turn.has_message_id else turn.id,
        position=turn.position,
        newest=max([max(filter(None, one.positions), default=0) for one in last.sections], default=0),
        steps=len(steps),
        milliseconds=turn.milliseconds,
        model=last.model,
        sections=sections,
        definitions=(counts.get("tools", 0), counts.get("output_schema", 0)),
        shared_tokens=0 if last.shared is None else last.shared.tokens,
        reported=[getattr(usage, name) for name in USAGE_FIELDS] if usages else (),
        # Six digits are enough for a sum of many turns.
        cost=None if cost is None else float(f"{cost:.6g}"),
        epoch=last.epoch,
        end_reasons=end_reasons,
        failed=int(turn.has_failed),
    )


def _count_sections(context: ComposedContext) -> dict[str, tuple[int, int]]:
    """The tokens of each section, and those of the summary in it."""
    counts, found = context.counts, dict[str, tuple[int, int]]()
    summaries = [at for at, one in enumerate(context.messages) if isinstance(one, Summary)]
    for section in context.sections:
        if section.tokens:
            tokens, summary = found.get(section.name, (0, 0))
            own = set(section.indexes) if summaries else ()
            summary += sum([counts[at] for at in summaries if at in own]) if summaries else 0
            found[section.name] = (tokens + section.tokens, summary)
    return found


async def read_turn_id(memory: Memory, key: Key, number: int) -> str:
    """The id of the turn with a number, by which its contexts are stored; "" if its message is deleted."""
    check_int("turn", number)
    figures = await read_figures(memory.store, key, number)
    if figures is None or not figures.steps:
        newest = (await read_newest(memory.store, key)).number
        known = f"the newest turn is {newest}" if newest else "no turn has a number yet"
        raise UnknownTurn(turn=number, step=None, problem=f"there is no record of this number; {known}")
    if figures.id or not figures.position:
        return figures.id
    at = figures.position
    window = await memory.read(key.scope, key.conversation, after=at - 1, before=at + 1)
    return window.entries[0].message.id if window.entries else ""


class ContextRecords:
    """The contexts of the newest turns of each conversation, up to a count and an age."""

    def __init__(
        self,
        memory: Memory,
        *,
        turns: int = EXPLAIN_TURNS,
        seconds: float = EXPLAIN_SECONDS,
        clock: Callable[[], datetime],
    ) -> None:
        check_int("explain_turns", turns, least=0)
        check_seconds("explain_seconds", seconds, endless=True)
        self._memory, self._turns, self._seconds, self._clock = memory, turns, seconds, clock
        self._swept_at: ConversationCache[Key, float] = ConversationCache(1024)

    async def save(self, key: Key, turn: SentTurn, steps: Sequence[ComposedContext]) -> None:
        """Save the contexts and the figures of a turn, unless messages were deleted meanwhile."""
        await self._memory.store.append(key, (), await self.make_drafts(turn, steps))
        await self.sweep(key)

    async def make_drafts(self, turn: SentTurn, steps: Sequence[ComposedContext]) -> list[RecordDraft]:
        """The records of a turn, to go with its last append: its figures, and its contexts."""
        figures = draft_figures(make_figures(turn, steps), turn.generation)
        return [figures, await self._draft_contexts(turn, steps)] if self._turns else [figures]

    async def _draft_contexts(self, turn: SentTurn, steps: Sequence[ComposedContext]) -> RecordDraft:
        body = await write_contexts(steps, self._memory, turn=turn.number)
        refs = tuple(dict.fromkeys(ref for step in steps for ref in step.refs))
        options: dict[str, Any] = {"derived": True, "refs": refs, "generation": turn.generation}
        return RecordDraft(RECORD_KIND, turn.id, body, keep=self._turns, **options)

    async def sweep(self, key: Key, *, is_first: bool = False) -> None:
        """Drop records that are too old, if that was not done lately; after a first turn there are none."""
        now = self._clock().timestamp()
        if self._turns and now - self._swept_at.get(key, 0.0) > _SWEEP_SECONDS:
            self._swept_at[key] = now
            if not is_first:
                await self._memory.store.drop_records(key, RECORD_KIND, before=now - self._seconds)

    async def explain(self, key: Key, turn: str | int | None, step: int | None) -> ComposedContext:
        """The context of a step of a turn, by number or id; by default the last step of the newest turn."""
        name = await read_turn_id(self._memory, key, turn) if isinstance(turn, int) else turn
        oldest = self._clock().timestamp() - self._seconds
        records = await self._memory.store.read_records(key, RECORD_KIND, name=name, limit=1)
        if not records or records[-1].at < oldest:
            if not (await self._memory.head(key.scope, key.conversation)).position:
                raise UnknownTurn(turn=turn, step=None, problem=NO_TURN)
            days = self._seconds / 86400
            kept = f"this agent keeps the newest {self._turns} turns of the last {days:g} days"
            raise UnknownTurn(turn=turn, step=None, problem=f"{NOT_KEPT}; {kept}")
        return await parse_turn(records[-1]).read_context(key, self._memory, step, asked=turn)
