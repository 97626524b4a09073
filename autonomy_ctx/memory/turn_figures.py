"""The figures of a turn: a small record of every turn, as long as its conversation is kept.

It has numbers, and the names of sections and of the model, but no text. `agents/explain.py` keeps the full
contexts of the newest turns only. Deleting messages leaves the figures of their turns; the positions in them
are then holes in the log. Deleting the conversation or its scope deletes them.

The first turn of a conversation has the number 1. A number is given once, also if its turn is undone. A fork
continues with the numbers of its source, and has no figures of the turns before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import NamedTuple

from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.encoding import encode_text
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, RecordDraft
from autonomy_ctx.messages.json_values import EMPTY

TURN_KIND = "turn"
# What a record may take. Where there are many sections, the smallest ones are counted together.
MAX_BYTES = 400
OTHER_SECTIONS = "other"
USAGE_FIELDS = tuple(field.name for field in fields(Usage))
_MAX_NAME = 64


class TurnFigures(NamedTuple):
    """The figures of a turn, in the order in which they are stored; new ones are added at the end.

    Tokens are those of the last step, `usage` and `cost` those of all steps. `position` is that of the user's
    message, `newest` of the newest message that was shown; 0 means that there is none.
    """

    number: int
    # "" means the id of the user's message, which is deleted with the message.
    id: str = ""
    position: int = 0
    newest: int = 0
    # 0 in a fork: the turn is one of the source, and only its number is known.
    steps: int = 0
    # From the user's message to the end of the turn, with the time that it waited.
    milliseconds: int | None = None
    model: str | None = None
    # For each section its tokens, and those of the summary in it.
    sections: Mapping[str, Sequence[int]] = EMPTY
    # The tokens of the tools, and of the schema of the answer.
    definitions: Sequence[int] = (0, 0)
    shared_tokens: int = 0
    # The values of `USAGE_FIELDS`; empty if the provider reported nothing.
    reported: Sequence[int] = ()
    cost: float | None = None
    epoch: int = 0
    # The reasons of the epochs that ended in the turn.
    end_reasons: Sequence[str] = ()
    # 1 if the turn ended with an error, or was cancelled.
    failed: int = 0

    @property
    def tokens(self) -> int:
        """The tokens of all messages."""
        return sum(tokens for tokens, _ in self.sections.values())

    @property
    def request_tokens(self) -> int:
        """The tokens of the messages and of what was sent beside them."""
        return self.tokens + sum(self.definitions)

    @property
    def usage(self) -> Usage | None:
        """The tokens as the provider counted them; None when they are not known."""
        return Usage(**dict(zip(USAGE_FIELDS, self.reported, strict=False))) if self.reported else None


def draft_figures(figures: TurnFigures, generation: int) -> RecordDraft:
    """The record of a turn's figures, to be stored with its last message."""
    figures = figures._replace(
        id=figures.id if len(figures.id) <= _MAX_NAME else "",
        model=figures.model and figures.model[:_MAX_NAME],
    )
    while len(encode_text(body := _encode(figures)).encode()) > MAX_BYTES and len(figures.sections) > 1:
        figures = figures._replace(sections=_merge_smallest(figures.sections))
    return RecordDraft(TURN_KIND, str(figures.number), body, generation=generation)


def _encode(figures: TurnFigures) -> str:
    form = figures._replace(sections=dict(figures.sections))
    return json.dumps(form, separators=(",", ":"), ensure_ascii=False)


def _merge_smallest(sections: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    """Add the smallest section to the others that are counted together."""
    named = {name: counts for name, counts in sections.items() if name != OTHER_SECTIONS}
    smallest = min(named, key=lambda name: named[name][0])
    other, merged = sections.get(OTHER_SECTIONS, (0, 0)), named.pop(smallest)
    return {**named, OTHER_SECTIONS: [other[0] + merged[0], other[1] + merged[1]]}


def _decode(body: str) -> TurnFigures:
    # A newer version may have stored more.
    return TurnFigures(*json.loads(body)[: len(TurnFigures._fields)])


async def read_newest(store: Store, key: Key) -> TurnFigures:
    """The figures of the newest turn; with the number 0 before the first one."""
    found = await store.read_records(key, TURN_KIND, limit=1)
    return _decode(found[-1].body) if found else TurnFigures(0)


async def read_figures(store: Store, key: Key, number: int) -> TurnFigures | None:
    """The figures of a turn; None if there is no record of it."""
    found = await store.read_records(key, TURN_KIND, name=str(number))
    return _decode(found[-1].body) if found else None


async def read_page(
    store: Store, key: Key, *, before: int | None, limit: int
) -> list[tuple[float, TurnFigures]]:
    """The figures of the newest turns, or of those before a number, oldest first, with the time of each.

    Records are listed from the newest one, so older ones are read by their numbers.
    """
    if before is None:
        found = await store.read_records(key, TURN_KIND, limit=limit)
    else:
        numbers = range(max(before - limit, 1), before)
        found = [
            record
            for number in numbers
            for record in await store.read_records(key, TURN_KIND, name=str(number))
        ]
    return [(record.at, _decode(record.body)) for record in found]


async def read_numbers(store: Store, key: Key) -> dict[int, int]:
    """The number of each turn that has figures, by the position of the user's message."""
    every = [_decode(record.body) for record in await store.read_records(key, TURN_KIND)]
    return {figures.position: figures.number for figures in every if figures.position}


async def carry_number(store: Store, source: Key, fork: Key, at: int | None) -> None:
    """Let the turns of a fork continue with the numbers of its source."""
    number = (await read_newest(store, source)).number
    if at is not None:
        number = await _find_number(store, source, at, number)
    if number:
        await store.put_records(fork, TURN_KIND, [(str(number), _encode(TurnFigures(number)))])


async def _find_number(store: Store, key: Key, at: int, last: int) -> int:
    """The newest turn that began at a position or before, found in few reads."""
    low, high = 0, last
    while low < high:
        middle = probe = (low + high + 1) // 2
        # Turns that were killed have no record.
        while (figures := await read_figures(store, key, probe)) is None and probe > low:
            probe -= 1
        if figures is None or figures.position <= at:
            low = middle
        else:
            high = probe - 1
    return low
