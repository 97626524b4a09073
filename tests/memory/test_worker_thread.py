"""How a wait for a store's thread ends when two things fall into one turn of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from autonomy_ctx.memory.worker_thread import Waiter


@pytest.fixture
def anyio_backend() -> str:
    # The order of two callbacks of one moment is known for asyncio alone.
    return "asyncio"


async def test_a_notification_right_after_the_timeout_is_not_overlooked() -> None:
    loop, waiter = asyncio.get_running_loop(), Waiter(0)
    wait = waiter.wait()
    # Due after the timer of the wait, and before the task goes on.
    loop.call_at(loop.time(), waiter.notify)
    await wait
    assert waiter.notified
