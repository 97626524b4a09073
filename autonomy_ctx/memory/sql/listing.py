"""The scripts of listings: agents, scopes and conversations, a page at a time.

A name is found by one step in an index, whatever number of conversations it has. The times of a conversation
are those of its first and last row, also one step each.
"""

from __future__ import annotations

from autonomy_ctx.memory.encoding import decode_conversation_info
from autonomy_ctx.memory.sql.query import Query, load_queries, translate_query
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
# PostgreSQL has only the beginning of a name in the index; what is equal there is sorted, a page at a time.
_QUERIES = load_queries(
    "listing",
    info=f"c.agent, c.scope, c.conversation, c.count, "
    f"{_TIME.format(order='ASC')}, {_TIME.format(order='DESC')}",
    page="SELECT id, agent, scope, conversation, count, is_fork FROM @conversation "
    "WHERE has_messages AND scope = :scope",
    in_order="ORDER BY agent, {postgres: left(conversation, 100),} conversation LIMIT :limit",
    after_name="{sqlite: conversation > :last_conversation}"
    "{postgres: (left(conversation, 100), conversation) "
    "> (left(:last_conversation, 100), :last_conversation)}",
)
# Each name is the smallest after the one before: conversations of the same name are passed over.
_SELECT_NAMES = """
    WITH RECURSIVE names (name) AS (
        SELECT min({column}) FROM @conversation WHERE has_messages AND {condition} AND {start}
        UNION ALL
        SELECT (SELECT min({column}) FROM @conversation
                WHERE has_messages AND {condition} AND {column} > name)
        FROM names WHERE name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL LIMIT :limit
"""


def _names_query(column: str, other: str | None, *, has_after: bool) -> Query:
    """The query of the first names of one column after a name, optionally filtered by the other column."""
    return translate_query(
        _SELECT_NAMES,
        column=column,
        condition="TRUE" if other is None else f"{other} = :other",
        start=f"{column} > :after" if has_after else "TRUE",
    )


# By whether a name of the other column is given, and one to begin after.
_AGENT_QUERIES, _SCOPE_QUERIES = (
    {
        (is_one, has_after): _names_query(column, other if is_one else None, has_after=has_after)
        for is_one in (False, True)
        for has_after in (False, True)
    }
    for column, other in (("agent", "scope"), ("scope", "agent"))
)


async def list_agents(session: Session, scope: str | None, after: str | None, limit: int) -> list[str]:
    """The first agents after a name, in all scopes or in one."""
    query = _AGENT_QUERIES[scope is not None, after is not None]
    return [name for (name,) in await session.fetch(query, other=scope, after=after, limit=limit)]


async def list_scopes(session: Session, agent: str | None, after: str | None, limit: int) -> list[str]:
    """The first scopes after a name, with all agents or with one."""
    query = _SCOPE_QUERIES[agent is not None, after is not None]
    return [name for (name,) in await session.fetch(query, other=agent, after=after, limit=limit)]


async def list_conversations(
    session: Session, scope: str, agent: str | None, after: Key | None, limit: int
) -> list[ConversationInfo]:
    """The first conversations of a scope after a key, with all agents or with one."""
    first, following = ("first_page", "next_page")
    if agent is not None:
        first, following = ("first_page_of_agent", "next_page_of_agent")
    last = Key("", "", "") if after is None else after
    values = {"last_agent": last.agent, "last_conversation": last.conversation, "limit": limit}
    query = _QUERIES[first if after is None else following]
    rows = await session.fetch(query, scope=scope, agent=agent, **values)
    return [decode_conversation_info(*row) for row in rows]
