"""Eight processes that append to one conversation in one SQLite file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from autonomy_ctx import Memory
from benchmarks.table import Figure

PROCESSES, EACH = 8, 400

_WORKER = """
import json, sys, time, anyio
from autonomy_ctx import Memory

async def main():
    path, name, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    memory = Memory(f"sqlite:///{path}")
    await memory.health_check()
    print("ready", flush=True)
    sys.stdin.readline()
    waits, errors = [], 0
    for number in range(count):
        started = time.perf_counter()
        try:
            message = {"id": f"{name}.{number}", "role": "user", "content": "hello " * 30}
            await memory.add_message("ana", "trip", message)
        except Exception:
            errors += 1
        waits.append(time.perf_counter() - started)
    await memory.close()
    print(json.dumps({"worst": max(waits), "errors": errors}), flush=True)

anyio.run(main)
"""


async def measure(folder: Path) -> list[Figure]:
    path = folder / "processes.db"
    workers = [
        subprocess.Popen(  # noqa: ASYNC220  # nothing else runs in this loop
            [sys.executable, "-c", _WORKER, str(path), f"p{number}", str(EACH)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    for worker in workers:
        assert worker.stdout is not None
        worker.stdout.readline()
    started = time.perf_counter()
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.write("go\n")
        worker.stdin.flush()
    results = []
    for worker in workers:
        assert worker.stdout is not None
        results.append(json.loads(worker.stdout.readline()))
        worker.wait()
        worker.stdout.close()
        if worker.stdin is not None:
            worker.stdin.close()
    took = time.perf_counter() - started
    memory = Memory(f"sqlite:///{path}")
    entries = (await memory.read("ana", "trip")).entries
    await memory.close()
    ids = [entry.message.id for entry in entries]
    lost = PROCESSES * EACH - len(set(ids))
    wrong = lost + (len(ids) - len(set(ids))) + sum(result["errors"] for result in results)
    wrong += [entry.position for entry in entries] != list(range(1, len(entries) + 1))
    worst = max(result["worst"] for result in results)
    rate = f"{PROCESSES * EACH / took:,.0f}/s"
    return [
        Figure(
            name="8 processes, one conversation: lost, twice or failed",
            ours=rate,
            floor="0",
            value=wrong,
            bound=0,
        ),
        Figure(
            name="8 processes: worst wait in ms", ours=rate, floor="100 ms", value=worst * 1000, bound=100
        ),
    ]
