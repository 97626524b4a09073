"""The SQL of listings: agents, scopes and conversations, a page at a time.

A name is found by one step in an index, whatever number of conversations it has. The times of a
conversation are those of its first and last row, also one step each.
"""

from __future__ import annotations

import sqlite3

from autonomy_ctx.memory.encoding import decode_conversation_info
from autonomy_ctx.memory.store import ConversationInfo, Key

_SELECT_CONVERSATIONS = """
    SELECT c.agent, c.scope, c.conversation, c.count,
           {first}, {last}
    FROM conversation c
    WHERE c.has_messages AND {condition}
    ORDER BY c.agent, c.conversation LIMIT :limit
"""
_SELECT_TIME = """
    CASE WHEN c.is_fork
        THEN (SELECT m.created FROM shared_range r CROSS JOIN message m
              WHERE r.conversation_id = c.id AND m.conversation_id = r.source_id
                AND m.position BETWEEN r.first AND r.last
              ORDER BY r.first {order}, m.position {order} LIMIT 1)
        ELSE (SELECT created FROM message WHERE conversation_id = c.id ORDER BY position {order} LIMIT 1)
    END
"""
_TIMES = {"first": _SELECT_TIME.format(order="ASC"), "last": _SELECT_TIME.format(order="DESC")}
# Each name is the smallest after the one before: conversations of the same name are passed over.
_SELECT_NAMES = """
    WITH RECURSIVE names (name) AS (
        SELECT min({column}) FROM conversation WHERE has_messages AND {condition} AND {start}
        UNION ALL
        SELECT (SELECT min({column}) FROM conversation
                WHERE has_messages AND {condition} AND {column} > name)
        FROM names WHERE name IS NOT NULL
    )
    SELECT name FROM names WHERE name IS NOT NULL LIMIT :limit
"""


def list_agents(
    connection: sqlite3.Connection, scope: str | None, after: str | None, limit: int
) -> list[str]:
    """The first agents after a name, in all scopes or in one."""
    return _list_names(connection, "agent", "scope", scope, after, limit)


def list_scopes(
    connection: sqlite3.Connection, agent: str | None, after: str | None, limit: int
) -> list[str]:
    """The first scopes after a name, with all agents or with one."""
    return _list_names(connection, "scope", "agent", agent, after, limit)


def list_conversations(
    connection: sqlite3.Connection, scope: str, agent: str | None, after: Key | None, limit: int
) -> list[ConversationInfo]:
    """The first conversations of a scope after a key, with all agents or with one."""
    condition = "c.scope = :scope"
    if agent is not None:
        condition += " AND c.agent = :agent"
    if after is not None:
        # With one agent the simpler form: for the other SQLite would sort.
        condition += (
            " AND (c.agent, c.conversation) > (:last_agent, :last_conversation)"
            if agent is None
            else " AND c.conversation > :last_conversation"
        )
    statement = _SELECT_CONVERSATIONS.format(condition=condition, **_TIMES)
    last = Key("", "", "") if after is None else after
    values = {
        "scope": scope,
        "agent": agent,
        "last_agent": last.agent,
        "last_conversation": last.conversation,
        "limit": limit,
    }
    return [decode_conversation_info(*row) for row in connection.execute(statement, values).fetchall()]


def _list_names(
    connection: sqlite3.Connection,
    column: str,
    other: str,
    other_name: str | None,
    after: str | None,
    limit: int,
) -> list[str]:
    """The first names of one column after a name, optionally filtered by the other column."""
    statement = _SELECT_NAMES.format(
        column=column,
        condition="true" if other_name is None else f"{other} = :other",
        start="true" if after is None else f"{column} > :after",
    )
    values = {"other": other_name, "after": after, "limit": limit}
    return [name for (name,) in connection.execute(statement, values).fetchall()]
