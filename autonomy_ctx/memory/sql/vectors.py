"""The scripts of vectors: which messages lack one, and storing them with the progress."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.memory.sql.log import MESSAGE_ID
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import Key
from autonomy_ctx.memory.vectors import EmbeddingBlock, VectorBlock, make_embedding_block

_QUERIES = load_queries("vectors", message_id=MESSAGE_ID)
# How many vectors of an embedder before it one transaction takes out.
_OUTDATED_ROWS = 256


async def use_embedder(session: Session, name: str, dimensions: int, **more: bool) -> int:
    """Make an embedder the active one and return its number. Vectors of another embedder are deleted.

    `more` is what only this kind of database keeps of it.
    """
    wanted = {"name": name, "dimensions": dimensions, **more}
    found = await session.fetch(_QUERIES["select_embedder"])
    if not found:
        await session.execute(_QUERIES["insert_embedder"], **wanted)
        return 1
    [(number, *known)] = found
    if known != list(wanted.values()):
        number += 1
        await session.execute(_QUERIES["update_embedder"], number=number, **wanted)
    return int(number)


async def is_active(session: Session, embedder: int) -> bool:
    """True while vectors are kept under this number."""
    return [row[0] for row in await session.fetch(_QUERIES["select_embedder"])] == [embedder]


async def read_unembedded(
    session: Session, agent: str, scope: str, *, embedder: int, conversation: str | None = None, limit: int
) -> list[EmbeddingBlock] | None:
    """The next blocks without vectors, at most `limit` messages; empty if all have vectors.

    The blocks of a conversation contain only its own messages. Returns None if the embedder is not active.
    """
    if not await is_active(session, embedder):
        return None
    if conversation is None:
        values = {"agent": agent, "scope": scope, "embedder": embedder, "limit": limit}
        lacking = await session.fetch(_QUERIES["select_unembedded"], **values)
    else:
        key = session.key_values(Key(agent, scope, conversation))
        lacking = await session.fetch(_QUERIES["select_unembedded_of"], **key, embedder=embedder)
    blocks: list[EmbeddingBlock] = []
    for conversation_id, name, head, start in lacking:
        values = {"id": conversation_id, "start": start, "limit": limit + 1}
        rows = await session.fetch(_QUERIES["select_rows"], **values)
        blocks.append(make_embedding_block(Key(agent, scope, name), start, head, rows, limit))
        limit -= len(blocks[-1].texts)
        if limit <= 0:
            break
    return blocks


async def put_vectors(session: Session, blocks: Sequence[VectorBlock], *, embedder: int) -> bool:
    """Store vectors and the progress; false, and nothing is stored, if the embedder is not active.

    A deleted message gets no vector. A block that another process has stored is left out.
    """
    if not await is_active(session, embedder):
        return False
    keys = [session.key_values(block.key) for block in blocks]
    found = await session.fetch_each(_QUERIES["find_id"], keys)
    known = sorted((rows[0][0], at) for at, rows in enumerate(found) if rows)
    # In one order for all, as the marks are locked too.
    await session.fetch(_QUERIES["lock_ids"], ids=session.array([number for number, _ in known]))
    for conversation_id, at in known:
        block = blocks[at]
        values = {"id": conversation_id, "embedder": embedder, "start": block.start, "end": block.end}
        if await session.execute(_QUERIES["move_progress"], **values) and block.vectors:
            await session.put_vectors(conversation_id, embedder, block)
    await session.execute(_QUERIES["delete_outdated"], embedder=embedder, limit=_OUTDATED_ROWS)
    return True
