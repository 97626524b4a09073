"""The epochs of a conversation in its store, as records beside its log.

A row is stored with the reply to the request that it describes, and only if the row that the request went on
from is still there. So a deletion, or another process, ends an epoch for everybody. Rows and parts are
`derived` records: deleting a message of the conversation, or one that they quote, deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from secrets import token_hex
from typing import Any, NamedTuple

from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, MessageRef, Record, RecordDraft, make_key
from autonomy_ctx.memory.summary_blocks import StoredBlock, put_blocks, read_blocks
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_row import (
    EpochPart,
    EpochRow,
    begin_row,
    decode_part,
    decode_row,
    encode_part,
    encode_row,
    extend_row,
    shorten_row,
    tools_digest,
)

EPOCH_KIND = "epoch"
PART_KIND = "epoch_part"
NUMBER_KIND = "epoch_number"
# Agents that hand a conversation to each other have a row each.
MAX_ROWS = 4


class StoredEpochs(NamedTuple):
    """The epochs of a conversation, as they are stored now: the newest first."""

    store: Store
    key: Key
    composer: str
    rows: Sequence[EpochRow]
    # Whether a change of the application's own text may be sent as an instruction.
    may_instruct: bool = True
    # The number of the newest epoch and its name for the cache, where no row is left that has them.
    last_number: int = 0
    last_cache_key: str = ""

    @property
    def cache_key(self) -> str:
        """The name of the conversation for the provider's cache, the same for all its epochs."""
        own = next((row.cache_key for row in self.rows if row.cache_key), "")
        return own or self.last_cache_key or token_hex(16)

    @property
    def agent(self) -> str:
        """The name of the agent whose replies are stored with its requests."""
        return self.key.agent

    def with_newest(self, row: EpochRow) -> StoredEpochs:
        """The epochs after a row was stored."""
        return self._replace(rows=[row, *(one for one in self.rows if one.name != row.name)])

    async def with_last(self) -> StoredEpochs:
        """The epochs with the number and the name of the newest one, also if its row is gone."""
        found = await self.store.read_records(self.key, NUMBER_KIND, name=self.composer)
        number, _, cache_key = found[-1].body.partition(" ") if found else ("0", "", "")
        # A fork has the rows of its parent, and no number of its own yet.
        last = max([int(number), *(row.number for row in self.rows)])
        return self._replace(last_number=last, last_cache_key=cache_key)

    async def read_parts(self, row: EpochRow) -> list[EpochPart]:
        """The texts of an epoch, in the order in which they were said."""
        return _parts_of(row, await self.store.read_records(self.key, PART_KIND)) if row.parts else []


def _parts_of(row: EpochRow, records: Sequence[Record]) -> list[EpochPart]:
    bodies = {record.name: record.body for record in records}
    parts = [decode_part(bodies.get(row.part_name(index), "")) for index in range(row.parts)]
    return [part for part in parts if part is not None]


def draft_epoch(composed: ComposedContext, generation: int) -> list[RecordDraft]:
    """The records of a context, to be stored when it was sent; none if it belongs to no stored epoch."""
    state, drafts = composed.state, list[RecordDraft]()
    if not state.composer:
        return drafts

    def keep_number(row: EpochRow) -> None:
        # It outlives the row, so that a number is not used again, and the conversation keeps its name.
        body = f"{row.number} {state.cache_key}"
        drafts.append(RecordDraft(NUMBER_KIND, state.composer, body, generation=generation))

    if state.base is not None:
        base, before = state.base, state.base.parts
        appended = composed.messages[base.length :]
        row, parts = extend_row(base, state.additions, state.said, appended, state.turn)
        if state.end_reason is not None:
            # It begins with a part of the context before, under a number of its own.
            before, parts = 0, [*state.carried, *parts]
            keep_number(row)
    else:
        before = 0
        row, parts = begin_row(
            state.said,
            state.head,
            composed.messages,
            state.shortened,
            number=state.number,
            tools=tools_digest(state.tools),
            calibration=composed.calibration,
            turn=state.turn,
            began=state.began,
            beginning=state.beginning,
        )
        # One for each beginning: agents that take turns in one conversation go on from their own.
        stable = [text.digest for section, text in row.known.items() if not state.said[section].is_log]
        beginning = sha256("\0".join([*stable, row.tools]).encode()).hexdigest()[:16]
        row = row._replace(name=f"{state.composer}:{beginning}")
        keep_number(row)
    row = row._replace(cache_key=state.cache_key)
    state.row = row = row._replace(body=encode_row(row))
    expected = next((one.body for one in state.rows if one.name == row.name), "")
    options: dict[str, Any] = {"keep": MAX_ROWS, "generation": generation, "expected": expected}
    return [_draft_row(row, parts, first=before, refs=composed.refs, **options), *drafts]


def composer_name(agent: str, sections: Sequence[str]) -> str:
    """Who composes: an agent with these sections. Another list of sections begins anew."""
    return sha256("\0".join([agent, *sections]).encode()).hexdigest()[:16]


async def read_epochs(
    store: Store, key: Key, composer: str = "", *, may_instruct: bool = True
) -> StoredEpochs:
    """The epochs of a conversation that this composer has sent; without one, of all who have."""
    found = await store.read_records(key, EPOCH_KIND)
    return decode_epochs(store, key, composer, found, may_instruct=may_instruct)


def decode_epochs(
    store: Store, key: Key, composer: str, found: Sequence[Record], *, may_instruct: bool = True
) -> StoredEpochs:
    """The epochs of records that were read."""
    prefix, own = f"{composer}:" if composer else "", list[EpochRow]()
    for record in reversed(found):
        if record.name.startswith(prefix) and (row := decode_row(record.name, record.body)) is not None:
            own.append(row)
    return StoredEpochs(store, key, composer, own, may_instruct)


async def drop_last_turn(memory: Memory, key: Key) -> int:
    """Delete the user's newest message and all after it; epochs go on from the turns before.

    All records of epochs are deleted with the messages. Those that are left are put again.
    """
    derived = await _DerivedRecords.read(memory.store, key)
    deleted = await memory.drop_last_turn(key.scope, key.conversation)
    if deleted:
        _, left = await memory.read(key.scope, key.conversation, limit=1)
        cut = left[-1].position + 1 if left else 1
        await derived.put(memory.store, key, cut, is_turn_end=True)
    return deleted


async def fork_log(memory: Memory, key: Key, at: int | None, name: str | None) -> str:
    """Fork a conversation; its epochs go on in the fork, as far as their turns are in it."""
    derived = await _DerivedRecords.read(memory.store, key)
    made = await memory.fork(key.scope, key.conversation, at=at, name=name)
    last = (await memory.head(key.scope, made)).position
    _, after = await memory.read(key.scope, key.conversation, after=last, before=last + 2)
    is_turn_end = all(entry.message.role is ChatRole.USER for entry in after)
    await derived.put(memory.store, make_key(key.agent, key.scope, made), last + 1, is_turn_end=is_turn_end)
    return made


class _DerivedRecords(NamedTuple):
    """The epochs of all who compose contexts of a conversation, and the summaries of its provider."""

    epochs: Sequence[tuple[EpochRow, Sequence[EpochPart]]]
    blocks: Sequence[StoredBlock]

    @classmethod
    async def read(cls, store: Store, key: Key) -> _DerivedRecords:
        records, texts = [await store.read_records(key, kind) for kind in (EPOCH_KIND, PART_KIND)]
        rows = [decode_row(record.name, record.body) for record in records]
        epochs = [(row, _parts_of(row, texts)) for row in rows if row is not None]
        return cls(epochs, await read_blocks(store, key, (await store.head(key)).generation))

    async def put(self, store: Store, key: Key, cut: int, *, is_turn_end: bool) -> None:
        """Store what is left of them before position `cut`, in a conversation that has none."""
        generation = (await store.head(key)).generation
        if blocks := [one._replace(generation=generation) for one in self.blocks if one.last < cut]:
            await put_blocks(store, key, blocks)
        found = [shorten_row(row, parts, cut, is_turn_end=is_turn_end) for row, parts in self.epochs]
        if left := [one for one in found if one is not None]:
            await store.append(key, (), [_draft_row(*one, generation=generation) for one in left])


def _draft_row(
    row: EpochRow,
    parts: Sequence[EpochPart],
    *,
    first: int = 0,
    refs: Sequence[MessageRef] | None = None,
    **options: Any,
) -> RecordDraft:
    """The record of a row, and those of its parts from the `first` on."""
    if refs is None:
        refs = [ref for part in parts for ref in part.refs]
    texts = tuple([(row.part_name(first + at), encode_part(part)) for at, part in enumerate(parts)])
    # Nobody else may have stored it meanwhile.
    options = {"expected": "", **options}
    return RecordDraft(
        EPOCH_KIND, row.name, row.body, derived=True, refs=tuple(dict.fromkeys(refs)), parts=texts, **options
    )


async def end_epochs(stored: StoredEpochs, reason: EndReason) -> bool:
    """End the epochs of a conversation: the next request shows everything anew. False if there is none."""
    going = [row._replace(ended=reason, parts=0) for row in stored.rows if row.ended is None]
    drafts = [
        RecordDraft(EPOCH_KIND, row.name, encode_row(row), derived=True, expected=row.body) for row in going
    ]
    await stored.store.append(stored.key, (), drafts)
    await drop_ended(stored.store, stored.key)
    return bool(going)


async def drop_ended(store: Store, key: Key) -> None:
    """Drop the texts of epochs that have ended."""
    rows = [decode_row(record.name, record.body) for record in await store.read_records(key, EPOCH_KIND)]
    live = tuple(f"{row.name}/{row.number}/" for row in rows if row is not None and row.ended is None)
    found = await store.read_records(key, PART_KIND)
    gone = [record.name for record in found if not record.name.startswith(live)]
    if gone:
        await store.drop_records(key, PART_KIND, gone)
