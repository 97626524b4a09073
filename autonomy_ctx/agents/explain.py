"""The stored contexts of past turns, byte for byte: the records behind `agent.explain` and `inspect_turn`.

A record refers to messages of the log by position and contains only the other messages. So a record is small,
and deleting a message deletes it here too. It names the messages of other conversations that it quotes:
deleting one of them deletes the record. A record also has the name of the model and the tokens that the
provider reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from autonomy_ctx.errors import UnknownTurn
from autonomy_ctx.formats.base import NO_THINKING, CacheMiss, ThinkingUse, Usage
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.joint_append import RecordDraft, put_record
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, Record
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.template.composed import ComposedContext, encode_fields, from_record, to_record
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.validation import check_int, check_seconds

RECORD_KIND = "context"
EXPLAIN_TURNS = 20
EXPLAIN_SECONDS = 7 * 24 * 3600.0
# Old records of a conversation are looked for at most this often.
_SWEEP_SECONDS = 3600.0


class WindowBounds(NamedTuple):
    """The smallest and the largest number of messages in the window of a summarized history."""

    floor: int
    ceiling: int


def window_bounds(sections: Iterable[Any]) -> WindowBounds | None:
    """The bounds of the first section whose window has them, such as `SummarizedHistorySection`."""
    for section in sections:
        if hasattr(section, "floor") and hasattr(section, "ceiling"):
            return WindowBounds(section.floor, section.ceiling)
    return None


class Step(NamedTuple):
    """One model call of a turn: the context, the name of the model, and the usage that the provider reported.

    `usage` is None when there was no answer, or nothing was reported. `thinking` says which thinking of
    earlier replies went with it, and `cache_miss` what the provider said of its cache, if it was asked.
    """

    context: ComposedContext
    model: str | None = None
    usage: Usage | None = None
    bounds: WindowBounds | None = None
    thinking: ThinkingUse = NO_THINKING
    cache_miss: CacheMiss | None = None


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
        usage = self.form.get("usage")
        return None if usage is None else Usage(**usage)

    @property
    def bounds(self) -> WindowBounds | None:
        """The bounds of the window in messages; None without a summarized history."""
        bounds = self.form.get("bounds")
        return None if bounds is None else WindowBounds(*bounds)

    @property
    def thinking(self) -> ThinkingUse:
        """The thinking of earlier replies that was sent and left out."""
        stored = self.form.get("thinking") or {}
        return ThinkingUse(
            sent=tuple(stored.get("sent", ())),
            left_out=stored.get("left_out", EMPTY),
            refused=stored.get("refused", False),
            block=stored.get("block", ""),
            refused_block=stored.get("refused_block", ""),
        )

    @property
    def cache_miss(self) -> CacheMiss | None:
        """The provider's own reason why it did not read the prompt from its cache; None if it gave none."""
        stored = self.form.get("cache_miss")
        return None if stored is None else CacheMiss(**stored)

    @property
    def epoch(self) -> int | None:
        """The number of the epoch; None in records of 0.2, which had none."""
        return self.form.get("epoch") or None

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
    def tokens(self) -> int:
        """The tokens of all messages, as they were counted then."""
        return sum(self.form["counts"])

    @property
    def newest_position(self) -> int | None:
        """The newest message of the log that was shown; in the first step it is the user's."""
        shown = (position for section in self.form["sections"] for position in section["positions"])
        return max((position for position in shown if position), default=None)

    async def read_context(self, key: Key, memory: Memory) -> ComposedContext | None:
        """Read what the model was shown; None when messages of it have been deleted."""
        composed = await from_record(self.form, key.scope, key.conversation, memory)
        if composed is not None:
            composed.thinking, composed.usage = self.thinking, self.usage
            composed.cache_miss = self.cache_miss
        return composed


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnRecord:
    """A turn as it is stored: its id, when it ended, and its steps."""

    id: str
    at: datetime
    steps: tuple[StepRecord, ...]


def parse_turn(record: Record) -> TurnRecord:
    """The turn that a record of `RECORD_KIND` holds."""
    forms: list[dict[str, Any]] = json.loads(record.body)
    return TurnRecord(
        id=record.name,
        at=datetime.fromtimestamp(record.at, UTC),
        steps=tuple(StepRecord(form=form) for form in forms),
    )


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

    async def save(self, key: Key, turn: str, generation: int, steps: Sequence[Step]) -> None:
        """Save the contexts of the steps of a turn, unless messages were deleted meanwhile."""
        record = await self.make_draft(turn, generation, steps)
        if record is None:
            return
        await put_record(self._memory.store, key, record)
        await self.sweep(key)

    async def make_draft(self, turn: str, generation: int, steps: Sequence[Step]) -> RecordDraft | None:
        """The record of a turn, to go with its last append; None when nothing is to be saved."""
        if not self._turns:
            return None
        forms = [await self._encode_step(step) for step in steps]
        body = json.dumps(forms, separators=(",", ":"))
        refs = tuple(dict.fromkeys(ref for step in steps for ref in step.context.refs))
        return RecordDraft(
            RECORD_KIND, turn, body, keep=self._turns, derived=True, refs=refs, generation=generation
        )

    async def sweep(self, key: Key) -> None:
        """Drop the records of a conversation that are too old, if that was not done lately."""
        now = self._clock().timestamp()
        if self._turns and now - self._swept_at.get(key, 0.0) > _SWEEP_SECONDS:
            self._swept_at[key] = now
            await self._memory.store.drop_records(key, RECORD_KIND, before=now - self._seconds)

    async def turns(self, key: Key) -> list[str]:
        """The recorded turns, oldest first."""
        return [record.name for record in await self._read(key, None, limit=None)]

    async def explain(self, key: Key, turn: str | None, step: int | None) -> ComposedContext:
        """The context of a step of a turn; by default the last step of the newest turn."""
        records = await self._read(key, turn, limit=1)
        if not records:
            raise UnknownTurn(
                turn=turn,
                step=None,
                problem=f"there is no record of it; the newest {self._turns} turns of the last "
                f"{self._seconds / 86400:g} days are kept, unless one of their messages is deleted",
            )
        steps = parse_turn(records[-1]).steps
        if step is not None and not 1 <= step <= len(steps):
            raise UnknownTurn(turn=turn, step=step, problem=f"the turn has steps 1 to {len(steps)}")
        composed = await steps[-1 if step is None else step - 1].read_context(key, self._memory)
        if composed is None:
            raise UnknownTurn(turn=turn, step=step, problem="messages that it showed have been deleted")
        return composed

    async def _encode_step(self, step: Step) -> dict[str, Any]:
        usage = None if step.usage is None else encode_fields(step.usage)
        form = await to_record(step.context, self._memory)
        form |= {"model": step.model, "usage": usage, "bounds": step.bounds}
        if step.cache_miss is not None:
            form["cache_miss"] = encode_fields(step.cache_miss)
        return form if step.thinking == NO_THINKING else form | {"thinking": encode_fields(step.thinking)}

    async def _read(self, key: Key, turn: str | None, *, limit: int | None) -> list[Record]:
        oldest = self._clock().timestamp() - self._seconds
        found = await self._memory.store.read_records(key, RECORD_KIND, name=turn, limit=limit)
        return [record for record in found if record.at >= oldest]
