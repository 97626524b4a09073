"""Named queries in `.sql` files, in one text for SQLite and PostgreSQL.

A query begins with `-- name: ...` and uses this notation, which is translated when its file is loaded:

- `@message` is a table, `:position` a value, and `::text` the type that PostgreSQL needs to know.
- `@key(c)` says that the row `c` is that of the conversation with the key that was given.
- `@in(:numbers)` looks for one of a list that `Session.array` has made.
- `@now()` is the time in seconds since 1970, `@lease_now()` that of the clock which leases follow.
- `{sqlite: ...}` and `{postgres: ...}` are for one of them. Other names in braces are given by the loader, or
  have a text in the same file that begins with `-- fragment: ...`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import NamedTuple

_SCHEMA = "autonomy_ctx"
_NAME = re.compile(r"^-- (name|fragment): (\w+)\n", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*--(?! (?:name|fragment): ).*\n", re.MULTILINE)
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
    queries, own = _read_parts("sql", file)
    return {name: translate_query(text, **own, **fragments) for name, text in queries.items()}


def load_statements(database: str, file: str, **fragments: object) -> Mapping[str, str]:
    """The statements of a file that are for one database only, by name, with fragments filled in."""
    found, _ = _read_parts(database, file)
    for fragment, value in fragments.items():
        found = {name: text.replace(f"{{{fragment}}}", str(value)) for name, text in found.items()}
    return {name: _squeeze(text) for name, text in found.items()}


def _read_parts(folder: str, file: str) -> tuple[dict[str, str], dict[str, str]]:
    """The queries of a file, and the fragments that it has for them, by name."""
    path = resources.files(f"autonomy_ctx.memory.{folder}") / "queries" / f"{file}.sql"
    _, *parts = _NAME.split(_COMMENT.sub("", path.read_text(encoding="utf-8")))
    found: dict[str, dict[str, str]] = {"name": {}, "fragment": {}}
    for kind, name, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        found[kind][name] = text
    return found["name"], found["fragment"]


@cache
def load_steps(database: str) -> tuple[tuple[int, str], ...]:
    """The steps of a database's schema as (number, SQL), in order."""
    folder = resources.files(f"autonomy_ctx.memory.{database}") / "schema"
    files = sorted(file.name for file in folder.iterdir() if file.name.endswith(".sql"))
    return tuple((int(name.split("_")[0]), (folder / name).read_text(encoding="utf-8")) for name in files)


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
