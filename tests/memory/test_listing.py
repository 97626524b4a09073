"""What is in a memory: listings of agents, scopes and conversations."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from memory.scripts import run_on

from autonomy_ctx import Memory, Message
from autonomy_ctx.errors import InvalidKey, StoreClosed, StoreCorrupt
from autonomy_ctx.memory.memory import PAGE_SIZE
from autonomy_ctx.memory.sql import listing
from autonomy_ctx.memory.sqlite.migrate import migrate
from autonomy_ctx.memory.store import Key
from autonomy_ctx.validation import NotANumber


async def say(memory: Memory, scope: str, conversation: str, *texts: str, role: str = "user") -> None:
    await memory.append(scope, conversation, *(Message(role, text) for text in texts))


# -- who sees what -----------------------------------------------------------------------------------


async def test_a_plain_memory_lists_the_conversations_of_all_agents(memory: Memory) -> None:
    await say(memory, "ana", "notes", "one")
    await say(memory.for_agent("guide"), "ana", "trip", "one", "two")
    await say(memory.for_agent("cook"), "bob", "dinner", "one")
    assert await memory.agents() == ["", "cook", "guide"]
    assert await memory.agents(scope="ana") == ["", "guide"]
    assert await memory.scopes() == ["ana", "bob"]
    assert await memory.scopes(agent="guide") == ["ana"]
    found = await memory.conversations("ana")
    assert [(info.agent, info.conversation, info.messages) for info in found] == [
        ("", "notes", 1),
        ("guide", "trip", 2),
    ]
    assert [info.conversation for info in await memory.conversations("ana", agent="")] == ["notes"]
    assert [info.conversation for info in await memory.conversations("ana", agent="guide")] == ["trip"]


async def test_a_view_lists_the_conversations_of_its_agent(memory: Memory) -> None:
    guide = memory.for_agent("guide")
    await say(memory, "ana", "notes", "one")
    await say(memory, "eve", "notes", "one")
    await say(guide, "ana", "trip", "one")
    assert [info.key for info in await guide.conversations("ana")] == [Key("guide", "ana", "trip")]
    assert await guide.scopes() == ["ana"]
    assert await guide.scopes(agent="") == ["ana", "eve"]


async def test_conversations_are_of_one_scope_whatever_the_names_look_like(memory: Memory) -> None:
    for scope in ("a", "a:b", "A", "a%", "", "a\uffff"):
        await say(memory, scope, "b:c", scope)
    for scope in ("a", "a:b", "A", "a%", "", "a\uffff"):
        assert [info.scope for info in await memory.conversations(scope)] == [scope]


async def test_a_page_has_a_size_also_when_none_is_named(memory: Memory) -> None:
    for number in range(PAGE_SIZE + 1):
        await say(memory.for_agent(f"agent {number:03}"), f"scope {number:03}", "c", "one")
        await say(memory, "ana", f"c {number:03}", "one")
    assert len(await memory.agents()) == len(await memory.scopes()) == PAGE_SIZE
    first = await memory.conversations("ana")
    assert len(first) == PAGE_SIZE
    [last] = await memory.conversations("ana", after=first[-1].key)
    assert last.conversation == f"c {PAGE_SIZE:03}"
    assert await memory.conversations("ana", after=last.key) == []


# -- mistakes ----------------------------------------------------------------------------------------

LIMIT = f">= 1 and <= {2**62}"
ELSEWHERE = "give the last key of the previous page"


@pytest.mark.parametrize(
    ("verb", "options", "kind", "text"),
    [
        ("agents", {"limit": 0}, ValueError, f"limit must be {LIMIT}, not 0"),
        ("scopes", {"limit": -1}, ValueError, f"limit must be {LIMIT}, not -1"),
        ("conversations", {"limit": 2**70}, ValueError, f"limit must be {LIMIT}, not {2**70}"),
        ("conversations", {"limit": "10"}, NotANumber, f"limit must be a whole number {LIMIT}, not str"),
        ("agents", {"after": 5}, InvalidKey, "invalid after: must be a string, not int"),
        ("scopes", {"after": "a\0"}, InvalidKey, "invalid after: must not contain a NUL character"),
        ("agents", {"scope": 5}, InvalidKey, "invalid scope: must be a string, not int"),
        ("scopes", {"agent": 5}, InvalidKey, "invalid agent: must be a string, not int"),
        ("conversations", {"agent": b"a"}, InvalidKey, "invalid agent: must be a string, not bytes"),
        (
            "conversations",
            {"after": "trip"},
            InvalidKey,
            "invalid after: must be a Key, such as `page[-1].key`, not str",
        ),
        (
            "conversations",
            {"after": Key("", "ana", 5)},  # type: ignore[arg-type]  # the mistake
            InvalidKey,
            "invalid conversation: must be a string, not int",
        ),
        (
            "conversations",
            {"after": Key("", "bob", "trip")},
            InvalidKey,
            f"invalid after: is of another scope; {ELSEWHERE}",
        ),
        (
            "conversations",
            {"agent": "guide", "after": Key("", "ana", "trip")},
            InvalidKey,
            f"invalid after: is of another agent; {ELSEWHERE}",
        ),
    ],
)
async def test_a_page_that_means_nothing_is_refused(
    memory: Memory, verb: str, options: dict[str, Any], kind: type[Exception], text: str
) -> None:
    list_page: Any = getattr(memory, verb)
    with pytest.raises(kind) as caught:
        await list_page(*(["ana"] if verb == "conversations" else []), **options)
    assert (type(caught.value), str(caught.value)) == (kind, text)


async def test_a_listing_of_all_scopes_at_once_is_not_offered(memory: Memory) -> None:
    with pytest.raises(InvalidKey, match="invalid scope: must be a string, not NoneType"):
        await memory.conversations(None)  # type: ignore[arg-type]


async def test_a_closed_memory_lists_nothing(memory: Memory) -> None:
    await memory.close()
    for work in (memory.agents(), memory.scopes(), memory.conversations("ana")):
        with pytest.raises(StoreClosed):
            await work


async def test_a_conversation_whose_messages_are_gone_from_the_file_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    async with Memory(f"sqlite:///{path}") as memory:
        await say(memory, "ana", "trip", "one")
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM message")
    async with Memory(f"sqlite:///{path}") as memory:
        with pytest.raises(StoreCorrupt, match="messages are missing"):
            await memory.conversations("ana")


# -- what a page costs -------------------------------------------------------------------------------


def filled(folder: Path, *, conversations: int, messages: int, deleted: int) -> sqlite3.Connection:
    """A file with as many conversations in each of 20 scopes, and as many that had messages once."""
    connection = sqlite3.connect(folder / f"{conversations}.db", isolation_level=None)
    migrate(connection, "memory.db")
    connection.execute("BEGIN")
    for scope in range(20):
        for number in range(conversations + deleted):
            there = number >= deleted
            row = ("guide", f"s{scope:02}", f"c{number:06}", messages * there, there)
            [conversation_id] = connection.execute(
                "INSERT INTO conversation (agent, scope, conversation, count, has_messages) "
                "VALUES (?, ?, ?, ?, ?) RETURNING id",
                row,
            ).fetchone()
            connection.executemany(
                "INSERT INTO message VALUES (?, ?, ?, 0, 1, 1, 'letters', 2, '{}')",
                [(conversation_id, at, f"m{at}") for at in range(1, row[3] + 1)],
            )
    connection.execute("COMMIT")
    return connection


def steps(connection: sqlite3.Connection, list_page: Any, **arguments: Any) -> int:
    """How many steps of SQLite's machine a page takes."""
    counted = 0

    def count() -> int:
        nonlocal counted
        counted += 1
        return 0

    connection.set_progress_handler(count, 1)
    limit = 1 if list_page is listing.list_agents else 10
    assert len(run_on(connection, list_page, limit=limit, **arguments)) == limit
    connection.set_progress_handler(None, 0)
    return counted


@pytest.mark.parametrize(
    ("list_page", "arguments"),
    [
        (listing.list_agents, {"scope": None, "after": None}),
        (listing.list_agents, {"scope": "s03", "after": None}),
        (listing.list_scopes, {"agent": None, "after": "s03"}),
        (listing.list_scopes, {"agent": "guide", "after": None}),
        *(
            (partial(listing.list_conversations, scope="s03"), {"agent": agent, "after": after})
            for after in (None, Key("guide", "s03", "c000000"))
            for agent in (None, "guide")
        ),
    ],
)
def test_a_page_costs_what_is_on_it_and_not_what_else_there_is(
    tmp_path: Path, list_page: Any, arguments: dict[str, Any]
) -> None:
    with (
        closing(filled(tmp_path, conversations=12, messages=2, deleted=0)) as small,
        closing(filled(tmp_path, conversations=120, messages=20, deleted=120)) as large,
    ):
        assert steps(large, list_page, **arguments) <= 1.1 * steps(small, list_page, **arguments)


def test_an_append_writes_to_no_index_of_the_listing(tmp_path: Path) -> None:
    """Only the first and the last message of a conversation change them."""
    with closing(filled(tmp_path, conversations=2, messages=1, deleted=0)) as connection:
        plan = connection.execute(
            "EXPLAIN UPDATE conversation SET head = 1, count = 1, last_user = 1 WHERE id = 1"
        ).fetchall()
    assert "IdxInsert" not in {row[1] for row in plan}
