"""The tables that texts are read with are built once in a process, and never by the thread of the loop."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# In a process of its own, where nothing is built yet. The profiler sees who builds: which thread, what.
SCRIPT = """
import json, sys, threading
import anyio
from autonomy_ctx import ContextTemplate, Memory, Message, SummarizedHistorySection
from autonomy_ctx.language import tables
from autonomy_ctx.testing import ScriptedModel

TABLES = {tables.load_language.__wrapped__.__code__: "cues"}
built = []

def note(frame, event, argument):
    if event == "call" and frame.f_code in TABLES:
        built.append((TABLES[frame.f_code], threading.current_thread() is threading.main_thread()))

async def summaries():
    # Two conversations, each with a section of its own, whose summaries start together.
    memory = Memory()
    sections = [SummarizedHistorySection(ScriptedModel("short"), floor=4, ceiling=8) for _ in range(2)]
    for name in ("one", "two"):
        for number in range(12):
            await memory.append("ana", name, Message("user", f"Never book flights, budget 40{number} EUR."))
    async with anyio.create_task_group() as group:
        for name, section in zip(("one", "two"), sections):
            group.start_soon(ContextTemplate([section]).compose, memory, "ana", name)
    for section in sections:
        await section.settled()
        assert section.get_metrics()["background_tasks_started"]
        await section.close()

async def digest_in_a_turn():
    # So many messages that the first context of the process needs a digest.
    memory = Memory()
    section = SummarizedHistorySection(ScriptedModel("short"), floor=4, ceiling=8)
    for number in range(20):
        await memory.append("ana", "long", Message("user", f"Never book flights, budget 40{number} EUR."))
    await ContextTemplate([section]).compose(memory, "ana", "long")
    assert section.get_metrics()["digests_served"]
    await section.close()

work = {"summaries": summaries, "digest": digest_in_a_turn}[sys.argv[1]]
threading.setprofile(note)
sys.setprofile(note)
anyio.run(work, backend=sys.argv[2])
sys.setprofile(None)
print(json.dumps(built))
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("work", ["summaries", "digest"])
def test_tables_are_built_once_and_not_on_the_event_loop(work: str, backend: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, work, backend], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    built = json.loads(ran.stdout)
    assert "cues" in [what for what, _ in built]
    assert not [what for what, on_loop in built if on_loop]
