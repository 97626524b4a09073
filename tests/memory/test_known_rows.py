"""The SQLite writer keeps the rows of conversations. Its appends are those of a store that keeps none."""

from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx import Memory
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.memory.encoding import make_draft
from autonomy_ctx.memory.sqlite.log import MAX_CACHED_ROWS, ConversationRow, ConversationRows, Transaction
from autonomy_ctx.memory.sqlite.records import put_records
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.testing import make_message

NAMES = ("trip", "work", "fork")
# Which of the memories on the file takes the step, what it does, and to which conversation.
STEPS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(
        ["append"] * 6
        + ["turn", "record", "again", "conflict", "drop last turn", "delete conversation", "fork"]
    ),
    st.sampled_from(NAMES),
)


async def take_step(memory: Memory, number: int, step: str, name: str) -> object:
    """Take a step, and return what it gave or raised."""
    new = make_message(f"message {number}", id=f"m{number}", role="user" if number % 3 else "assistant")
    try:
        match step:
            case "append":
                return await memory.append("ana", name, new)
            case "turn":
                owner = f"owner {number}"
                start = await memory.begin_turn("ana", name, new, owner=owner, seconds=60)
                await memory.store.leave_turn(Key("", "ana", name), start.ticket, owner=owner)
                return start.positions
            case "record":
                numbers = await memory.store.put_records(Key("", "ana", name), "note", [(f"n{number}", "{}")])
                return len(numbers)
            case "again":
                return await memory.append("ana", name, make_message("known", id="known"), new)
            case "conflict":
                return await memory.append("ana", name, new, make_message(f"other {number}", id="known"))
            case "drop last turn":
                return await memory.drop_last_turn("ana", name)
            case "delete conversation":
                return await memory.delete_conversation("ana", name)
        return await memory.fork("ana", name, name="fork")
    except AutonomyCtxError as error:
        return str(error)


async def check_steps(path: Path, steps: list[tuple[int, str, str]]) -> None:
    url = f"sqlite:///{path}"
    async with Memory(url) as one, Memory(url) as other, Memory() as expected:
        for number, (who, step, name) in enumerate(steps):
            memory = (one, other)[who]
            assert await take_step(memory, number, step, name) == await take_step(
                expected, number, step, name
            )
            for each in NAMES:
                assert await memory.head("ana", each) == await expected.head("ana", each)


@settings(max_examples=40)
@given(steps=st.lists(STEPS, min_size=5, max_size=30))
def test_appends_between_the_steps_of_another_process_are_those_of_a_store_without_kept_rows(
    steps: list[tuple[int, str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(check_steps, Path(folder) / "memory.db", steps)


def test_the_rows_that_were_used_last_are_kept_up_to_a_bound() -> None:
    rows = ConversationRows()
    for number in range(MAX_CACHED_ROWS + 2):
        rows.by_key[Key("", "ana", str(number))] = ConversationRow(number, 0, 0, 0)
    rows.drop_oldest()
    assert len(rows.by_key) == MAX_CACHED_ROWS
    assert next(iter(rows.by_key)).conversation == "2"


async def test_a_record_leaves_what_is_known_of_conversations(tmp_path: Path) -> None:
    path, key = tmp_path / "memory.db", Key("", "ana", "trip")
    async with Memory(f"sqlite:///{path}") as memory:
        await memory.append("ana", "trip", make_message("hello", id="m1"))
    connection, rows = sqlite3.connect(path, isolation_level=None), ConversationRows()
    transaction = Transaction(connection, rows)
    draft = make_draft(make_message("and now?", id="m2"), TokenCounter())
    assert transaction.append(key, [draft]) == [2]
    put_records(transaction, key, "note", [("n1", "{}")], keep=None, derived=False, generation=0, now=0.0)
    assert rows.by_key[key].position == 2
    connection.close()
