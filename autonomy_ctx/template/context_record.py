"""A context as it is stored and read back, byte for byte.

Messages of the log are stored by their positions, and read from it again. Of a turn with many steps, each
step but the first is stored without what it has in common with the one before.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import anyio.to_thread

from autonomy_ctx.formats.base import NO_THINKING, CacheMiss, ThinkingUse, Usage
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.outline import position_ranges
from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message
from autonomy_ctx.sections.section import Omission
from autonomy_ctx.template.composed import (
    BudgetReport,
    ComposedContext,
    Cut,
    Definitions,
    SectionReport,
    SharedPrefix,
    WindowBounds,
)
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_row import EpochState

# Reading across a gap of a few messages is cheaper than reading twice.
_MAX_READ_GAP = 16
# What is written and compared outside the event loop.
LARGE_TOKENS = 20_000
LARGE_MESSAGES = 200


async def write_contexts(steps: Sequence[ComposedContext], memory: Memory, **of_turn: Any) -> str:
    """The contexts of a turn as JSON."""
    forms: list[dict[str, Any]] = []
    for step in steps:
        forms.append(await to_record(step, memory))
    forms[0] |= of_turn
    # The last one first: each needs the one before as it is.
    for before, form in reversed(list(pairwise(forms))):
        known = len(before["counts"])
        if form["counts"][:known] == before["counts"]:
            form["counts"] = {"after": form["counts"][known:]}
        if form["own"] == before["own"]:
            del form["own"]
    return json.dumps(forms, separators=(",", ":"))


def read_forms(body: str) -> list[dict[str, Any]]:
    """The contexts of a turn, each for `from_record`."""
    forms: list[dict[str, Any]] = json.loads(body)
    for before, form in pairwise(forms):
        if isinstance(form["counts"], dict):
            form["counts"] = before["counts"] + form["counts"]["after"]
        if "own" in before:
            form.setdefault("own", before["own"])
    return forms


async def to_record(composed: ComposedContext, memory: Memory) -> dict[str, Any]:
    """A context as JSON."""
    positions = composed.positions()
    # A message that a store has read says so itself; any other may have been shortened to be shown.
    shown = zip(composed.messages, positions, strict=True)
    unsure = [position for message, position in shown if position and not message._is_stored]
    stored: dict[int, Message | None] = dict.fromkeys(unsure)
    if unsure:
        stored |= await _read_stored(unsure, composed.scope, composed.conversation, memory)
    if len(composed) > LARGE_MESSAGES or composed.tokens > LARGE_TOKENS:
        return await anyio.to_thread.run_sync(_encode_context, composed, positions, stored)
    return _encode_context(composed, positions, stored)


async def from_record(
    form: Mapping[str, Any], scope: str, conversation: str, memory: Memory
) -> ComposedContext | None:
    """The context that was written down; None when memory no longer has all of it."""
    sections = [decode_section(section) for section in form["sections"]]
    shown = form["messages"] if "messages" in form else _message_forms(form, sections)
    positions = [one for one in shown if isinstance(one, int)]
    stored = await _read_stored(positions, scope, conversation, memory)
    if any(position not in stored for position in positions):
        return None
    if form["stored"] != _fingerprint(stored[position] for position in positions):
        return None
    composed = ComposedContext(
        scope=scope,
        conversation=conversation,
        messages=[stored[one] if isinstance(one, int) else wire.from_dict(one) for one in shown],
        counts=form["counts"],
        sections=sections,
        calibration=form["calibration"],
        budget=None if form["budget"] is None else BudgetReport(**form["budget"]),
        shared=None if form["shared"] is None else SharedPrefix(**form["shared"]),
        # Contexts of 0.2 have no epoch.
        state=EpochState(
            number=form.get("epoch", 0),
            end_reason=EndReason(form["end_reason"]) if form.get("end_reason") else None,
        ),
    )
    composed.definitions, composed.model = decode_definitions(form), form.get("model")
    composed.usage, composed.bounds = decode_usage(form), decode_bounds(form)
    if miss := form.get("cache_miss"):
        composed.cache_miss = CacheMiss(**miss)
    if stored_use := form.get("thinking"):
        composed.thinking = ThinkingUse(**{**stored_use, "sent": tuple(stored_use["sent"])})
    return composed


def _message_forms(form: Mapping[str, Any], sections: Sequence[SectionReport]) -> list[Any]:
    """Each message as its position in the log, or as a dict; records of 0.2 have this list."""
    own = {int(index): message for index, message in form["own"].items()}
    places = {
        index: position
        for section in sections
        for index, position in zip(section.indexes, section.positions, strict=True)
    }
    return [own[index] if index in own else places[index] for index in range(len(form["counts"]))]


def decode_usage(form: Mapping[str, Any]) -> Usage | None:
    """The tokens that the provider reported, as a record has them; None when they are not known."""
    usage = form.get("usage")
    return None if usage is None else Usage(**usage)


def decode_bounds(form: Mapping[str, Any]) -> WindowBounds | None:
    """The bounds of the window, as a record has them."""
    bounds = form.get("bounds")
    return None if bounds is None else WindowBounds(*bounds)


def decode_definitions(form: Mapping[str, Any]) -> tuple[Definitions, ...] | None:
    """The definitions that a record has; of older ones, the tools if there was a budget, else None."""
    if (stored := form.get("definitions")) is not None:
        return tuple(Definitions(**{**one, "items": tuple(one["items"])}) for one in stored)
    if form["budget"] is None:
        return None
    return (Definitions(name="tools", items=(), tokens=form["budget"]["tools"]),)


def _encode_context(
    composed: ComposedContext, positions: Sequence[int | None], stored: Mapping[int, Message | None]
) -> dict[str, Any]:
    own: dict[int, Any] = {}
    named: list[Message] = []
    for index, (message, position) in enumerate(zip(composed.messages, positions, strict=True)):
        if position and (position not in stored or stored[position] == message):
            named.append(message)
        else:
            own[index] = wire.to_dict(message)
    form = {
        "own": own,
        "stored": _fingerprint(named),
        "counts": composed.counts,
        "sections": list(map(_encode_section, composed.sections)),
        "calibration": composed.calibration,
        "definitions": list(map(_encode, composed.definitions or ())),
        "budget": _encode(composed.budget),
        "shared": _encode(composed.shared),
        "epoch": composed.epoch,
        "end_reason": composed.end_reason,
        "head": composed.state.head_length,
        "model": composed.model,
        "usage": _encode(composed.usage),
        "bounds": composed.bounds,
    }
    if composed.cache_miss is not None:
        form["cache_miss"] = _encode(composed.cache_miss)
    if composed.thinking != NO_THINKING:
        form["thinking"] = _encode(composed.thinking)
    return form


def _encode(value: Any) -> dict[str, Any] | None:
    """The fields of a dataclass by name, which `asdict` would copy one by one; None as it is."""
    return None if value is None else {name: getattr(value, name) for name in value.__dataclass_fields__}


def _encode_section(section: SectionReport) -> dict[str, Any]:
    refs = [(one.conversation, one.position, one.agent, one.generation) for one in section.refs]
    lists = {"omitted": list(map(_encode, section.omitted)), "cut": list(map(_encode, section.cut))}
    form = {**(_encode(section) or {}), **lists, "refs": refs}
    positions = section.positions
    if positions and positions[0] and positions == (*range(positions[0], positions[0] + len(positions)),):
        # They follow each other.
        form["positions"] = positions[0]
    return {name: value for name, value in form.items() if value not in (None, [], ())}


def _fingerprint(messages: Iterable[Message]) -> str:
    """Which messages these are: under one id a log never has other content."""
    return sha256("\0".join([message.id for message in messages]).encode()).hexdigest()


async def _read_stored(
    positions: Sequence[int], scope: str, conversation: str, memory: Memory
) -> dict[int, Message]:
    found: dict[int, Message] = {}
    for first, last in position_ranges(positions, max_gap=_MAX_READ_GAP):
        window = await memory.read(scope, conversation, after=first - 1, before=last + 1)
        found |= {entry.position: entry.message for entry in window.entries}
    return found


def decode_section(form: Mapping[str, Any]) -> SectionReport:
    """The report of a section, as a record has it."""
    form = dict(form)
    positions = form.get("positions", ())
    if isinstance(positions, int):
        positions = range(positions, positions + form["messages"])
    # Of 0.2: how many messages stand before others, and where the rest begins.
    if split := form.pop("split", None):
        form["runs"] = [(form["start"], split[0]), (split[1], form["messages"] - split[0])]
    return SectionReport(
        **{
            "reason": None,
            **form,
            "positions": tuple(positions),
            "omitted": tuple(Omission(**one) for one in form.get("omitted", ())),
            "cut": tuple(Cut(**one) for one in form.get("cut", ())),
            "runs": tuple((first, count) for first, count in form.get("runs", ())),
            "refs": tuple(MessageRef(*one) for one in form.get("refs", ())),
        }
    )
