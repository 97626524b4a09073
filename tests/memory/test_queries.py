"""The queries of the stores: each is used, and SQLite finds its rows by an index, however many there are."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import autonomy_ctx
from autonomy_ctx.memory.sql.query import Query, translate_query
from autonomy_ctx.memory.sqlite.migrate import migrate

FOLDER = Path(autonomy_ctx.__file__).parent / "memory" / "sql"
FILES = sorted(file.stem for file in (FOLDER / "queries").iterdir())
# It counts all conversations before they are copied.
# The tables of the embedder and of the purge have one row.
SCANS = {
    ("search", "select_scope"),
    ("transfer", "count"),
    ("vectors", "select_embedder"),
    ("vectors", "update_embedder"),
}


def module_of(file: str) -> ModuleType:
    return import_module(f"autonomy_ctx.memory.sql.{file}")


def queries_of(file: str) -> Mapping[str, Query]:
    found: Mapping[str, Query] = vars(module_of(file))["_QUERIES"]
    return found


def plan(connection: sqlite3.Connection, query: Query) -> list[str]:
    """How SQLite would run a query, step by step."""
    values = dict.fromkeys(re.findall(r":(\w+)", query.sqlite), 1)
    return [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query.sqlite}", values)]


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        migrate(connection, ":memory:")
        yield connection


@pytest.mark.parametrize("file", FILES)
def test_sqlite_scans_no_table(connection: sqlite3.Connection, file: str) -> None:
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    scanned = set()
    for name, query in queries_of(file).items():
        aliases = {
            alias: one for one, alias in re.findall(r"(?:FROM|JOIN) (\w+) (?:AS )?(\w+)", query.sqlite)
        }
        for step in plan(connection, query):
            found = re.match(r"SCAN (\w+)", step)
            if found and aliases.get(found[1], found[1]) in tables:
                scanned.add((file, name))
    assert scanned <= SCANS


def test_a_message_is_found_without_the_others_of_its_conversation(connection: sqlite3.Connection) -> None:
    steps = [step for query in queries_of("log").values() for step in plan(connection, query)]
    of_messages = [step for step in steps if step.startswith("SEARCH m ")]
    assert len(of_messages) >= 5
    by_all = re.compile(r"\(conversation_id=\?( AND position>\? AND position<\?)?\)$")
    assert [step for step in of_messages if by_all.search(step)] == []


@pytest.mark.parametrize("name", ["select_newest", "select_known", "select_ended_last"])
def test_the_facts_of_a_summary_are_found_without_the_others(
    connection: sqlite3.Connection, name: str
) -> None:
    steps = [step for step in plan(connection, queries_of("facts")[name]) if step.startswith("SEARCH")]
    assert len(steps) >= 2
    for step in steps:
        assert "fact_target" in step or re.search(r"\(conversation_id=\? AND (kind|number)=\?", step), step


@pytest.mark.parametrize("file", FILES)
def test_every_query_is_used(file: str) -> None:
    source = Path(module_of(file).__file__ or "").read_text(encoding="utf-8")
    assert [name for name in queries_of(file) if f'"{name}"' not in source] == []


def test_a_query_is_translated_for_both_databases() -> None:
    text = """
        -- Why it is so.
        SELECT {columns}, @now() FROM @message m JOIN @conversation c ON c.id = m.conversation_id
        WHERE @key(c) AND m.id @in(:ids) AND (:kind::text IS NULL OR m.kind = :kind)
        {sqlite: INDEXED BY nothing}{postgres: FOR UPDATE}
    """
    query = translate_query(text, columns="m.position")
    assert query.sqlite == (
        "SELECT m.position, :now FROM message m JOIN conversation c ON c.id = m.conversation_id "
        "WHERE c.agent = :agent AND c.scope = :scope AND c.conversation = :conversation "
        "AND m.id IN (SELECT value FROM json_each(:ids)) AND (:kind IS NULL OR m.kind = :kind) "
        "INDEXED BY nothing"
    )
    assert query.postgres == (
        "SELECT m.position, autonomy_ctx.now_seconds() FROM autonomy_ctx.message m "
        "JOIN autonomy_ctx.conversation c ON c.id = m.conversation_id WHERE c.key = %(key)s "
        "AND m.id = ANY(%(ids)s) AND (%(kind)s::text IS NULL OR m.kind = %(kind)s) FOR UPDATE"
    )
    assert query.clocks == ("now",)
