"""A large read, many rows in a step, gives what reading row by row gives."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from memory.scripts import run_on

from autonomy_ctx import Memory
from autonomy_ctx.errors import StoreCorrupt
from autonomy_ctx.memory.encoding import make_draft
from autonomy_ctx.memory.sql.log import read_head
from autonomy_ctx.memory.sql.session import ReadLimit
from autonomy_ctx.memory.sql.turns import append
from autonomy_ctx.memory.sqlite.window import BLOCK_ROWS, LARGE_BODY_BYTES, read_window
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.testing import MAIN, make_message

COUNT = 3 * BLOCK_ROWS + 7
BY_ROW = ReadLimit(2**60, 2**60)
ODD = ['"', "\\", "\x1f", ",[]", "\u2028", "\ud7ff", "{}", "'"]


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    talk = [make_message(f"{n}{ODD[n % 8]}", id=f"m{n}{ODD[n % 8]}") for n in range(1, COUNT + 1)]
    talk[BLOCK_ROWS] = make_message("long " * LARGE_BODY_BYTES, id="long")
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        await memory.append("ana", "trip", *talk)
        await memory.delete_message("ana", "trip", talk[5].id)
    return tmp_path / "memory.db"


@pytest.mark.parametrize("limit", [None, 1, BLOCK_ROWS, BLOCK_ROWS + 1, COUNT - 2, COUNT - 1, COUNT + 9])
@pytest.mark.parametrize(
    ("after", "before"), [(0, None), (BLOCK_ROWS, None), (3, 2 * BLOCK_ROWS), (COUNT, None)]
)
async def test_blocks_and_rows_say_the_same(
    path: Path, after: int, before: int | None, limit: int | None
) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    asked: dict[str, Any] = {"after": after, "before": before, "limit": limit}
    window = run_on(connection, read_window, MAIN, read_limit=BY_ROW, **asked)
    assert run_on(connection, read_window, MAIN, **asked) == window
    connection.close()


async def test_rows_are_of_the_moment_of_their_head(path: Path) -> None:
    connection, other = (sqlite3.connect(path, isolation_level=None) for _ in range(2))
    ends: list[int] = []

    def write_in_between(statement: str) -> None:
        if "FROM message" in statement and not ends:
            ends.append(run_on(other, read_head, MAIN).position)
            draft = make_draft(make_message("meanwhile", id="meanwhile"), TokenCounter())
            run_on(other, append, MAIN, [draft], ())

    connection.set_trace_callback(write_in_between)
    window = run_on(connection, read_window, MAIN, limit=5, read_limit=BY_ROW)
    assert [window.head.position] == ends == [window.entries[-1].position]
    assert run_on(connection, read_head, MAIN).position == window.head.position + 1
    connection.close()
    other.close()


@pytest.mark.parametrize("body", ["no message", "{}],[1", "[]", "{}"])
async def test_a_damaged_row_is_named(path: Path, body: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute("UPDATE message SET body = ? WHERE position = ?", (body, BLOCK_ROWS + 9))
    connection.commit()
    connection.close()
    async with Memory(f"sqlite:///{path}") as memory:
        with pytest.raises(StoreCorrupt, match=f"position {BLOCK_ROWS + 9} cannot be read"):
            await memory.read("ana", "trip")
