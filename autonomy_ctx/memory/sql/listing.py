"""The scripts of listings: agents, scopes and conversations, a page at a time.

A name is found by one step in an index, whatever number of conversations it has. The times of a conversation
are those of its first and last row, also one step each.
"""

from __future__ import annotations

from collections.abc import Mapping

from autonomy_ctx.memory.encoding import decode_conversation_info
from autonomy_ctx.memory.sql.query import Query, load_queries
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import ConversationInfo, Key

_TIME = """
    CASE WHEN c.is_fork
        THEN (SELECT m.created FROM @shared_range r CROSS JOIN {{postgres: LATERAL
                  (SELECT created, position FROM autonomy_ctx.message
                   WHERE conversation_id = r.source_id AND position BETWEEN r.first AND r.last
                   ORDER BY position {order} LIMIT 1) m}}{{sqlite: message m}}
              WHERE r.conversation_id = c.id
              {{sqlite: AND m.conversation_id = r.source_id AND m.position BETWEEN r.first AND r.last}}
              ORDER BY r.first {order}, m.position {order} LIMIT 1)
        ELSE (SELECT created FROM @message WHERE conversation_id = c.id ORDER BY position {order} LIMIT 1)
    END
"""
_INFO = (
    f"c.agent, c.scope, c.conversation, c.count, {_TIME.format(order='ASC')}, {_TIME.format(order='DESC')}"
)
_QUERIES = load_queries("listing", info=_INFO, column="agent", other="scope")
_SCOPE_QUERIES = load_queries("listing", info=_INFO, column="scope", other="agent")


async def _list_names(
    session: Session, queries: Mapping[str, Query], other: str | None, after: str | None, limit: int
) -> list[str]:
    """The first names of a column after a name, of all rows or of those with one name in the other column."""
    # No character of a name is smaller.
    start = "" if after is None else f"{after}\1"
    query = queries["names" if other is None else "names_with_other"]
    return [name for (name,) in await session.fetch(query, other=other, start=start, limit=limit)]


async def list_agents(session: Session, *, scope: str | None, after: str | None, limit: int) -> list[str]:
    """The first `limit` agents after a name that have conversations, in all scopes or in one."""
    return await _list_names(session, _QUERIES, scope, after, limit)


async def list_scopes(session: Session, *, agent: str | None, after: str | None, limit: int) -> list[str]:
    """The first `limit` scopes after a name that have conversations, with all agents or with one."""
    return await _list_names(session, _SCOPE_QUERIES, agent, after, limit)


async def list_conversations(
    session: Session, scope: str, *, agent: str | None, after: Key | None, limit: int
) -> list[ConversationInfo]:
    """The first `limit` conversations of a scope after a key, by agent and name."""
    first, following = ("first_page", "next_page")
    if agent is not None:
        first, following = ("first_page_of_agent", "next_page_of_agent")
    last = Key("", "", "") if after is None else after
    values = {"last_agent": last.agent, "last_conversation": last.conversation, "limit": limit}
    query = _QUERIES[first if after is None else following]
    rows = await session.fetch(query, scope=scope, agent=agent, **values)
    return [decode_conversation_info(*row) for row in rows]


async def list_revisions(
    session: Session, agent: str, scope: str, *, limit: int
) -> dict[str, tuple[int, int]]:
    """The generations and revisions of the newest conversations that have had a summary, pins or facts."""
    rows = await session.fetch(_QUERIES["revisions"], agent=agent, scope=scope, limit=limit)
    return {name: (generation, revision) for name, generation, revision in rows}
