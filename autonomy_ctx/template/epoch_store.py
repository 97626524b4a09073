"""The epochs of a conversation in its store, as records beside its log.

A row is stored with the reply to the request that it describes, and only if the row that the request went on
from is still there. So a deletion, or another process, ends an epoch for everybody. Rows and parts are
`derived` records: deleting a message of the conversation, or one that they quote, deletes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from secrets import token_hex
from typing import NamedTuple

from autonomy_ctx.memory.joint_append import RecordDraft, append_with_records
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, Record, Store, make_key
from autonomy_ctx.memory.summary_blocks import StoredBlock, put_blocks, read_blocks
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import EndReason, SectionText
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

    @property
    def cache_key(self) -> str:
        """The name of the conversation for the provider's cache, the same for all its epochs."""
        return next((row.cache_key for row in self.rows if row.cache_key), "") or token_hex(16)

    @property
    def agent(self) -> str:
        """The name of the agent whose replies are stored with its requests."""
        return self.key.agent

    def with_newest(self, row: EpochRow) -> StoredEpochs:
        """The epochs after a row was stored."""
        return self._replace(rows=[row, *(one for one in self.rows if one.name != row.name)])

    async def read_last_number(self) -> int:
        """The number of the newest epoch, also if its row is gone; 0 if there was none."""
        found = await self.store.read_records(self.key, NUMBER_KIND, name=self.composer)
        last = int(found[-1].body) if found else 0
        # A fork has the rows of its parent, and no number of its own yet.
        return max([last, *(row.number for row in self.rows)])

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
    if state.base is not None:
        base, before = state.base, state.base.parts
        appended = composed.messages[base.length :]
        row, parts = extend_row(base, state.additions, state.said, appended, state.turn)
        if state.end_reason is not None:
            # It begins with a part of the context before, under a number of its own.
            before, parts = 0, [*state.carried, *parts]
            drafts.append(RecordDraft(NUMBER_KIND, state.composer, str(row.number), generation=generation))
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
        row = row._replace(name=_row_name(state.composer, row, state.said))
        # It outlives the row, so that a number is not used again.
        drafts.append(RecordDraft(NUMBER_KIND, state.composer, str(row.number), generation=generation))
    row = row._replace(cache_key=state.cache_key)
    state.row = row = row._replace(body=encode_row(row))
    draft = RecordDraft(
        EPOCH_KIND,
        row.name,
        row.body,
        keep=MAX_ROWS,
        derived=True,
        generation=generation,
        refs=composed.refs,
        expected=next((one.body for one in state.rows if one.name == row.name), ""),
        parts=tuple((row.part_name(before + at), encode_part(part)) for at, part in enumerate(parts)),
    )
    return [draft, *drafts]


def _row_name(composer: str, row: EpochRow, said: Sequence[SectionText]) -> str:
    """One row for each beginning: agents that take turns in one conversation go on from their own."""
    stable = [text.digest for section, text in row.known.items() if not said[section].is_log]
    head = "\0".join([*stable, row.tools])
    return f"{composer}:{sha256(head.encode()).hexdigest()[:16]}"


def composer_name(agent: str, sections: Sequence[str]) -> str:
    """Who composes: an agent with these sections. Another list of sections begins anew."""
    return sha256("\0".join([agent, *sections]).encode()).hexdigest()[:16]


async def read_epochs(store: Store, key: Key, composer: str, *, may_instruct: bool = True) -> StoredEpochs:
    """The epochs of a conversation that this composer has sent."""
    found = await store.read_records(key, EPOCH_KIND)
    return decode_epochs(store, key, composer, found, may_instruct=may_instruct)


def decode_epochs(
    store: Store, key: Key, composer: str, found: Sequence[Record], *, may_instruct: bool = True
) -> StoredEpochs:
    """The epochs of records that were read."""
    rows = [decode_row(record.name, record.body) for record in reversed(found)]
    own = [row for row in rows if row is not None and row.name.startswith(f"{composer}:")]
    return StoredEpochs(store, key, composer, own, may_instruct)


async def drop_last_turn(memory: Memory, key: Key) -> int:
    """Delete the user's newest message and all after it; epochs go on from the turns before.

    All records of epochs are deleted with the messages. Those that are left are put again.
    """
    epochs, blocks = await _read_all(memory.store, key), await _read_blocks(memory.store, key)
    deleted = await memory.drop_last_turn(key.scope, key.conversation)
    if deleted:
        _, left = await memory.read(key.scope, key.conversation, limit=1)
        cut = left[-1].position + 1 if left else 1
        await _put_blocks(memory.store, key, blocks, cut)
        await _put_shortened(memory.store, key, epochs, cut, is_turn_end=True)
    return deleted


async def fork_log(memory: Memory, key: Key, at: int | None, name: str | None) -> str:
    """Fork a conversation; its epochs go on in the fork, as far as their turns are in it."""
    epochs, blocks = await _read_all(memory.store, key), await _read_blocks(memory.store, key)
    made = await memory.fork(key.scope, key.conversation, at=at, name=name)
    last = (await memory.head(key.scope, made)).position
    _, after = await memory.read(key.scope, key.conversation, after=last, before=last + 2)
    is_turn_end = all(entry.message.role is ChatRole.USER for entry in after)
    target = make_key(key.agent, key.scope, made)
    await _put_blocks(memory.store, target, blocks, last + 1)
    await _put_shortened(memory.store, target, epochs, last + 1, is_turn_end=is_turn_end)
    return made


async def _read_all(store: Store, key: Key) -> list[tuple[EpochRow, list[EpochPart]]]:
    """The epochs of all who compose contexts of a conversation."""
    records, texts = [await store.read_records(key, kind) for kind in (EPOCH_KIND, PART_KIND)]
    rows = [decode_row(record.name, record.body) for record in records]
    return [(row, _parts_of(row, texts)) for row in rows if row is not None]


async def _read_blocks(store: Store, key: Key) -> list[StoredBlock]:
    return await read_blocks(store, key, (await store.head(key)).generation)


async def _put_blocks(store: Store, key: Key, blocks: Sequence[StoredBlock], cut: int) -> None:
    """Store the summaries of a provider for messages before `cut` in a conversation that has none."""
    if left := [one for one in blocks if one.last < cut]:
        generation = (await store.head(key)).generation
        await put_blocks(store, key, [one._replace(generation=generation) for one in left])


async def _put_shortened(
    store: Store,
    key: Key,
    epochs: Sequence[tuple[EpochRow, Sequence[EpochPart]]],
    cut: int,
    *,
    is_turn_end: bool,
) -> None:
    """Store what is left of epochs in a conversation that has none."""
    found = [shorten_row(row, parts, cut, is_turn_end=is_turn_end) for row, parts in epochs]
    if left := [one for one in found if one is not None]:
        generation = (await store.head(key)).generation
        drafts = [
            RecordDraft(
                EPOCH_KIND,
                row.name,
                row.body,
                derived=True,
                generation=generation,
                refs=tuple(dict.fromkeys(ref for part in parts for ref in part.refs)),
                expected="",
                parts=tuple((row.part_name(at), encode_part(part)) for at, part in enumerate(parts)),
            )
            for row, parts in left
        ]
        await append_with_records(store, key, (), drafts)


async def end_epochs(stored: StoredEpochs, reason: EndReason) -> bool:
    """End the epochs of a conversation: the next request shows everything anew. False if there is none."""
    going = [row._replace(ended=reason, parts=0) for row in stored.rows if row.ended is None]
    drafts = [
        RecordDraft(EPOCH_KIND, row.name, encode_row(row), derived=True, expected=row.body) for row in going
    ]
    await append_with_records(stored.store, stored.key, (), drafts)
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
