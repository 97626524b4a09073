"""The SQL of listings: agents, scopes and conversations, a page at a time.

A name is found by one step in an index, whatever number of conversations it has. The times of a
conversation are those of its first and last row, also one step each.
"""

from __future__ import annotations

from autonomy_ctx.memory.encoding import decode_conversation_info
from autonomy_ctx.memory.postgres.connection import Connection, fetch_all
from autonomy_ctx.memory.store import ConversationInfo, Key

# The index has the beginning of the name of a conversation; what is equal there is sorted, a page at a time.
_SELECT_PAGE = """
    SELECT id, agent, scope, conversation, count, is_fork FROM autonomy_ctx.conversation
    WHERE has_messages AND scope = %(scope)s AND {condition}
    ORDER BY agent, left(conversation, 100), conversation LIMIT %(limit)s
"""
_AFTER_NAME = """
    (left(conversation, 100), conversation) > (left(%(last_conversation)s, 100), %(last_conversation)s)
"""
_FIRST_PAGE = _SELECT_PAGE.format(condition="true")
_FIRST_PAGE_OF_AGENT = _SELECT_PAGE.format(condition="agent = %(agent)s")
_NEXT_PAGE_OF_AGENT = _SELECT_PAGE.format(condition=f"agent = %(agent)s AND {_AFTER_NAME}")
# The rest of one agent, then the next agents. As one condition, PostgreSQL would sort all that is left.
_NEXT_PAGE = f"""
    ({_SELECT_PAGE.format(condition=f"agent = %(last_agent)s AND {_AFTER_NAME}")})
    UNION ALL ({_SELECT_PAGE.format(condition="agent > %(last_agent)s")})
"""
_SELECT_CONVERSATIONS = """
    SELECT c.agent, c.scope, c.conversation, c.count,
           {first}, {last}
    FROM (SELECT * FROM ({page}) page ORDER BY agent, conversation LIMIT %(limit)s) c
    ORDER BY c.agent, c.conversation
"""
_SELECT_TIME = """
    CASE WHEN c.is_fork
        THEN (SELECT m.created FROM autonomy_ctx.shared_range r CROSS JOIN LATERAL (
                  SELECT created FROM autonomy_ctx.message
                  WHERE conversation_id = r.source_id AND position BETWEEN r.first AND r.last
                  ORDER BY position {order} LIMIT 1
              ) m WHERE r.conversation_id = c.id ORDER BY r.first {order} LIMIT 1)
        ELSE (SELECT created FROM autonomy_ctx.message WHERE conversation_id = c.id
              ORDER BY position {order} LIMIT 1)
    END
"""
_TIMES = {"first": _SELECT_TIME.format(order="ASC"), "last": _SELECT_TIME.format(order="DESC")}
# Each name is the smallest after the one before: conversations of the same name are passed over.
_SELECT_NAMES = """
    WITH RECURSIVE names (name) AS (
        SELECT min({column}) FROM autonomy_ctx.conversation WHERE has_messages AND {condition} AND {start}
        UNION ALL
        SELECT (SELECT min({column}) FROM autonomy_ctx.conversation
                WHERE has_messages AND {condition} AND {column} > name)
        FROM names WHERE name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL LIMIT %(limit)s
"""


async def list_agents(connection: Connection, scope: str | None, after: str | None, limit: int) -> list[str]:
    """The first agents after a name, in all scopes or in one."""
    return await _list_names(connection, "agent", "scope", scope, after, limit)


async def list_scopes(connection: Connection, agent: str | None, after: str | None, limit: int) -> list[str]:
    """The first scopes after a name, with all agents or with one."""
    return await _list_names(connection, "scope", "agent", agent, after, limit)


async def list_conversations(
    connection: Connection, scope: str, agent: str | None, after: Key | None, limit: int
) -> list[ConversationInfo]:
    """The first conversations of a scope after a key, with all agents or with one."""
    if after is None:
        page = _FIRST_PAGE if agent is None else _FIRST_PAGE_OF_AGENT
    else:
        page = _NEXT_PAGE if agent is None else _NEXT_PAGE_OF_AGENT
    last = Key("", "", "") if after is None else after
    values = {
        "scope": scope,
        "agent": agent,
        "last_agent": last.agent,
        "last_conversation": last.conversation,
        "limit": limit,
    }
    rows = await fetch_all(connection, _SELECT_CONVERSATIONS.format(page=page, **_TIMES), values)
    return [decode_conversation_info(*row) for row in rows]


async def _list_names(
    connection: Connection, column: str, other: str, other_name: str | None, after: str | None, limit: int
) -> list[str]:
    """The first names of one column after a name, optionally filtered by the other column."""
    statement = _SELECT_NAMES.format(
        column=column,
        condition="true" if other_name is None else f"{other} = %(other)s",
        start="true" if after is None else f"{column} > %(after)s",
    )
    values = {"other": other_name, "after": after, "limit": limit}
    return [name for (name,) in await fetch_all(connection, statement, values)]
