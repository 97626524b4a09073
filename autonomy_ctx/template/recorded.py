"""A composed context as JSON and back.

Messages that memory has are named by their positions and read from there again: the log never
changes, so they come back byte for byte. The others, such as instructions and summaries, are written
out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from functools import partial
from hashlib import sha256
from typing import Any

import anyio.to_thread

from autonomy_ctx.items import wire
from autonomy_ctx.items.message import Message
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.sections.section import Omission
from autonomy_ctx.template.composed import ComposedContext, SectionReport, SharedPrefix
from autonomy_ctx.template.cut import BudgetReport, Cut

# Reading across a gap of a few messages is cheaper than reading twice.
_GAP = 16
# What is written and compared outside the event loop.
LARGE_TOKENS = 20_000
LARGE_MESSAGES = 200
_REPORTED = tuple(field.name for field in fields(SectionReport))


async def to_record(composed: ComposedContext, memory: Memory) -> dict[str, Any]:
    """A context as JSON."""
    positions = composed.positions()
    # A message that a store has read says so itself; any other may have been shortened to be shown.
    shown = zip(composed.messages, positions, strict=True)
    unsure = [position for message, position in shown if position and not message._kept]
    stored = await _stored(unsure, composed.scope, composed.conversation, memory) if unsure else {}
    written = partial(_written, composed, positions, stored)
    return await anyio.to_thread.run_sync(written) if _is_large(composed) else written()


async def from_record(
    form: Mapping[str, Any], scope: str, conversation: str, memory: Memory
) -> ComposedContext | None:
    """The context that was written down; None when memory no longer has all of it."""
    positions = [one for one in form["messages"] if isinstance(one, int)]
    stored = await _stored(positions, scope, conversation, memory)
    if any(position not in stored for position in positions):
        return None
    if form["stored"] != _fingerprint(stored[position] for position in positions):
        return None
    return ComposedContext(
        scope=scope,
        conversation=conversation,
        messages=[stored[one] if isinstance(one, int) else wire.from_dict(one) for one in form["messages"]],
        counts=form["counts"],
        sections=[_section(section) for section in form["sections"]],
        calibration=form["calibration"],
        budget=None if form["budget"] is None else BudgetReport(**form["budget"]),
        shared=None if form["shared"] is None else SharedPrefix(**form["shared"]),
    )


def _is_large(composed: ComposedContext) -> bool:
    return len(composed) > LARGE_MESSAGES or composed.tokens > LARGE_TOKENS


def _written(
    composed: ComposedContext, positions: Sequence[int | None], stored: Mapping[int, Message]
) -> dict[str, Any]:
    messages: list[Any] = []
    named: list[Message] = []
    for message, position in zip(composed.messages, positions, strict=True):
        if position and (message._kept or stored.get(position) == message):
            messages.append(position)
            named.append(message)
        else:
            messages.append(wire.to_dict(message))
    return {
        "messages": messages,
        "stored": _fingerprint(named),
        "counts": composed.counts,
        "sections": [_section_form(section) for section in composed.sections],
        "calibration": composed.calibration,
        "budget": None if composed.budget is None else asdict(composed.budget),
        "shared": None if composed.shared is None else asdict(composed.shared),
    }


def _fingerprint(messages: Iterable[Message]) -> str:
    """Which messages these are: under one id a log never has other content."""
    return sha256("\0".join(message.id for message in messages).encode()).hexdigest()


async def _stored(
    positions: Sequence[int], scope: str, conversation: str, memory: Memory
) -> dict[int, Message]:
    found: dict[int, Message] = {}
    for first, last in _runs(positions):
        window = await memory.read(scope, conversation, after=first - 1, before=last + 1)
        found |= {entry.position: entry.message for entry in window.entries}
    return found


def _section_form(section: SectionReport) -> dict[str, Any]:
    # Not `asdict`, which copies each of the positions by itself.
    form = {name: getattr(section, name) for name in _REPORTED}
    return form | {name: [asdict(one) for one in form[name]] for name in ("omitted", "cut")}


def _section(form: Mapping[str, Any]) -> SectionReport:
    return SectionReport(
        **{
            **form,
            "positions": tuple(form["positions"]),
            "omitted": tuple(Omission(**one) for one in form["omitted"]),
            "cut": tuple(Cut(**one) for one in form["cut"]),
            "split": tuple(form["split"]) if form.get("split") else None,
        }
    )


def _runs(positions: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Positions as ranges to read, each with only small gaps in it."""
    first = last = None
    for position in sorted(set(positions)):
        if first is None or last is None:
            first = last = position
        elif position - last <= _GAP:
            last = position
        else:
            yield first, last
            first = last = position
    if first is not None and last is not None:
        yield first, last
