"""`ConversationIndex`: the keys of conversations in order, so that a page of a listing is found by bisection.

For stores that keep their rows in plain Python objects; a database has indexes of its own.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable

from autonomy_ctx.memory.store import Key

# The names of a key in one of two orders.
_Row = tuple[str, str, str]


class ConversationIndex:
    """The keys of conversations that have messages, once by scope and once by agent."""

    __slots__ = ("_by_agent", "_by_scope")

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self._by_agent: list[_Row] = sorted(keys)
        self._by_scope: list[_Row] = sorted(_scope_first(key) for key in self._by_agent)

    def add(self, key: Key) -> None:
        """Add a conversation."""
        insort(self._by_agent, key)
        insort(self._by_scope, _scope_first(key))

    def remove(self, key: Key) -> None:
        """Remove a conversation."""
        for rows, row in ((self._by_agent, key), (self._by_scope, _scope_first(key))):
            del rows[bisect_left(rows, row)]

    def agents(self, scope: str | None, after: str | None, limit: int) -> list[str]:
        """The first agents after a name, in all scopes or in one."""
        if scope is None:
            return _distinct_names(self._by_agent, (), after, limit)
        return _distinct_names(self._by_scope, (scope,), after, limit)

    def scopes(self, agent: str | None, after: str | None, limit: int) -> list[str]:
        """The first scopes after a name, with all agents or with one."""
        if agent is None:
            return _distinct_names(self._by_scope, (), after, limit)
        return _distinct_names(self._by_agent, (agent,), after, limit)

    def conversations(self, scope: str, agent: str | None, after: Key | None, limit: int) -> list[Key]:
        """The first conversations of a scope after a key, with all agents or with one."""
        rows = self._by_scope
        prefix: tuple[str, ...] = (scope,) if agent is None else (scope, agent)
        first = bisect_left(rows, prefix) if after is None else bisect_right(rows, _scope_first(after))
        last = bisect_right(rows, prefix, first, key=_prefix_key(len(prefix)))
        return [Key(row[1], row[0], row[2]) for row in rows[first : min(last, first + limit)]]


def _scope_first(key: _Row) -> _Row:
    return key[1], key[0], key[2]


def _distinct_names(rows: list[_Row], prefix: tuple[str, ...], after: str | None, limit: int) -> list[str]:
    """The distinct names after a prefix; all rows of one name are skipped in one step."""
    column = len(prefix)
    own, above = _prefix_key(column), _prefix_key(column + 1)
    at = bisect_left(rows, prefix) if after is None else bisect_right(rows, (*prefix, after), key=above)
    names: list[str] = []
    while len(names) < limit and at < len(rows) and own(rows[at]) == prefix:
        names.append(rows[at][column])
        at = bisect_right(rows, (*prefix, names[-1]), at, key=above)
    return names


def _prefix_key(length: int) -> Callable[[_Row], tuple[str, ...]]:
    return lambda row: row[:length]
