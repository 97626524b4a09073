"""A wait for a store's thread that ends while its timeout passes."""

from __future__ import annotations

import asyncio

import pytest

from autonomy_ctx.memory.worker_thread import JobOutcome, WorkerJob, finish_jobs


@pytest.fixture
def anyio_backend() -> str:
    # The order of two callbacks of one moment is known for asyncio alone.
    return "asyncio"


async def test_a_result_right_after_the_timeout_is_not_overlooked() -> None:
    loop = asyncio.get_running_loop()
    job = WorkerJob(lambda _: None, 0)
    assert job.claim()
    # Due after the timer of the wait, and before the task goes on.
    loop.call_at(loop.time(), finish_jobs, [job])
    assert await job.wait() is JobOutcome.DONE
