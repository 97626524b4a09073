"""Two writers of one file append as one store in process does."""

from __future__ import annotations

import tempfile
from pathlib import Path

import anyio
from hypothesis import given, settings
from hypothesis import strategies as st

from autonomy_ctx import Memory
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.memory.store import Key
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
def test_appends_between_the_steps_of_another_process_are_those_of_one_store(
    steps: list[tuple[int, str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(check_steps, Path(folder) / "memory.db", steps)
