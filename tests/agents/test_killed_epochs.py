"""kill -9 at any moment: the next process begins its request with the last one whose reply was stored."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import Memory

WORKER = Path(__file__).with_name("epoch_worker.py")
KILLS = 12


def run_and_kill(url: str, process: int, moment: random.Random) -> list[Any]:
    """The requests of a process that is killed after some of them, at any moment of the turn."""
    command = [sys.executable, str(WORKER), url, str(process)]
    environment = {**os.environ, "PYTHONPATH": str(WORKER.parent.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as child:
        assert child.stdout is not None
        found = [json.loads(child.stdout.readline()) for _ in range(moment.randint(2, 5))]
        # Some milliseconds, as the machine is fast: the reply is being stored, or the next turn has begun.
        for _ in range(moment.randrange(300_000)):
            pass
        child.kill()
        return found + [json.loads(line) for line in child.stdout if line.endswith(b"\n")]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def test_a_process_goes_on_from_the_last_request_that_counts(tmp_path: Path) -> None:
    url, moment = f"sqlite:///{tmp_path}/memory.db", random.Random(1)
    asked = [one for process in range(KILLS) for one in run_and_kill(url, process, moment)]
    async with Memory(url) as memory:
        stored = {one["content"] for one in await memory.for_agent("shop").get_messages_only("ana", "trip")}
    answered = [one["request"] for one in asked if one["reply"] in stored]
    assert len(answered) > 2 * KILLS
    assert len(answered) < len(asked), "no kill came before a reply was stored"
    for before, after in pairwise(answered):
        assert after[: len(before)] == before
    texts = [str(one["content"]) for one in answered[-1]]
    assert sum("replaces what it said before" in text for text in texts) > KILLS
