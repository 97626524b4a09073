"""Named queries in `.sql` files, in one text for SQLite and PostgreSQL.

A query begins with `-- name: ...` and uses this notation, which is translated when its file is loaded:

- `@message` is a table, `:position` a value, and `::text` the type that PostgreSQL needs to know.
- `@key(c)` says that the row `c` is that of the conversation with the key that was given.
- `@in(:numbers)` looks for one of a list that `Session.array` has made.
- `@now()` is the time in seconds since 1970, `@lease_now()` that of the clock which leases follow.
- `{sqlite: ...}` and `{postgres: ...}` are for one of them. Other names in braces are given by the loader.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import NamedTuple

_SCHEMA = "autonomy_ctx"
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--.*\n", re.MULTILINE)
_ONLY = {name: re.compile(rf"\{{{name}: ([^{{}}]*)\}}") for name in ("sqlite", "postgres")}
_FRAGMENT = re.compile(r"\{(\w+)\}")
_KEY = re.compile(r"@key\((\w+)\)")
_IN = re.compile(r"@in\((:\w+)\)")
_TABLE = re.compile(r"@(\w+)(?!\()\b")
_VALUE = re.compile(r"(?<!:):(\w+)")
_CAST = re.compile(r"::[a-z0-9]+(\[\])?")


class Query(NamedTuple):
    """A statement for each kind of database, and the clocks that SQLite has to be given."""

    sqlite: str
    postgres: str
    clocks: tuple[str, ...]


def load_queries(file: str, **fragments: str) -> Mapping[str, Query]:
    """The queries of a file by name."""
    folder = resources.files("autonomy_ctx.memory.sql") / "queries"
    _, *parts = _NAME.split((folder / f"{file}.sql").read_text(encoding="utf-8"))
    return {
        name: translate_query(text, **fragments) for name, text in zip(parts[::2], parts[1::2], strict=True)
    }


def translate_query(text: str, **fragments: str) -> Query:
    """A query for both kinds of database."""
    text = _COMMENT.sub("", text)
    while _FRAGMENT.search(text):
        text = _FRAGMENT.sub(lambda found: fragments[found[1]], text)
    clocks = tuple(name for name in ("now", "lease_now") if f"@{name}()" in text)
    return Query(_for_sqlite(text), _for_postgres(text), clocks)


def _for_sqlite(text: str) -> str:
    text = _ONLY["sqlite"].sub(r"\1", _ONLY["postgres"].sub("", text))
    text = _KEY.sub(r"\1.agent = :agent AND \1.scope = :scope AND \1.conversation = :conversation", text)
    text = _IN.sub(r"IN (SELECT value FROM json_each(\1))", text)
    text = re.sub(r"@(now|lease_now)\(\)", r":\1", text)
    return _squeeze(_CAST.sub("", _TABLE.sub(r"\1", text)))


def _for_postgres(text: str) -> str:
    text = _ONLY["postgres"].sub(r"\1", _ONLY["sqlite"].sub("", text))
    text = _KEY.sub(r"\1.key = :key", text)
    text = _IN.sub(r"= ANY(\1)", text)
    text = re.sub(r"@(now|lease_now)\(\)", f"{_SCHEMA}.now_seconds()", text)
    return _squeeze(_VALUE.sub(r"%(\1)s", _TABLE.sub(rf"{_SCHEMA}.\1", text)))


def _squeeze(text: str) -> str:
    return " ".join(text.split())
