"""Summaries that a provider wrote, in the store beside our own: a few rows of a conversation.

Each says up to which position it stands for messages, and for which generation of the conversation. They are
`derived` records that quote the conversation: deleting a message of it, or a fact, deletes them. Our own text
stays what is searched, exported and shown to other models.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.store import Key, MessageRef, RecordDraft
from autonomy_ctx.messages.summary import SummaryBlock

BLOCK_KIND = "provider_summary"
# The one that is shown, and newer ones until one takes its place.
MAX_BLOCKS = 3


class StoredBlock(NamedTuple):
    """A block for the messages 1 to `last` of a conversation, as of a generation.

    If the provider wrote none, `problem` says why. `cost` is what it charged, in US dollars, where the price
    is known.
    """

    last: int
    generation: int
    block: SummaryBlock | None
    problem: str = ""
    cost: float = 0.0


async def read_blocks(store: Store, key: Key, generation: int) -> list[StoredBlock]:
    """The blocks of a conversation, oldest first. Those of another generation are removed."""
    found = await store.read_records(key, BLOCK_KIND)
    blocks = [(record.name, _decode_block(record.body)) for record in found]
    current = [one for _, one in blocks if one is not None and one.generation == generation]
    if len(current) < len(found):
        gone = [name for name, one in blocks if one not in current]
        await store.drop_records(key, BLOCK_KIND, gone)
    return current


async def put_blocks(store: Store, key: Key, blocks: Sequence[StoredBlock]) -> None:
    """Store blocks, unless the conversation has another generation now."""
    drafts = [
        RecordDraft(
            BLOCK_KIND,
            str(one.last),
            _encode_block(one),
            keep=MAX_BLOCKS,
            derived=True,
            generation=one.generation,
            refs=(MessageRef(key.conversation, agent=key.agent),),
        )
        for one in blocks
    ]
    await store.append(key, (), drafts)


async def drop_block(store: Store, key: Key, name: str) -> None:
    """Remove a block that its provider has refused."""
    found = {one.name: _decode_block(one.body) for one in await store.read_records(key, BLOCK_KIND)}
    names = [last for last, one in found.items() if one and one.block and one.block.name == name]
    if names:
        await store.drop_records(key, BLOCK_KIND, names)


def _encode_block(stored: StoredBlock) -> str:
    block, form = stored.block, [stored.last, stored.generation, stored.problem, stored.cost]
    if block is not None:
        form += [block.owner, block.model, block.data, block.start, block.states]
    return json.dumps(form, separators=(",", ":"))


def _decode_block(body: str) -> StoredBlock | None:
    """The block of a record; None for one that another version has written."""
    try:
        last, generation, problem, cost, *form = json.loads(body)
        if not form:
            return StoredBlock(last, generation, None, problem, cost)
        owner, model, data, start, states = form
    except ValueError:
        return None
    block = SummaryBlock(owner=owner, model=model, data=data, start=start, states=tuple(states))
    return StoredBlock(last, generation, block, cost=cost)
