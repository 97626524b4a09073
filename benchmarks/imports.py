"""What `import autonomy_ctx` takes beside `import httpx`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from statistics import median

from benchmarks.table import Figure

ROUNDS = 11
_TIMED = "import time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"


async def measure(folder: Path) -> list[Figure]:
    taken: dict[str, list[float]] = {"autonomy_ctx": [], "httpx": []}
    for _ in range(ROUNDS):
        for name, times in taken.items():
            out = subprocess.run(  # noqa: ASYNC221  # nothing else runs in this loop
                [sys.executable, "-c", _TIMED.replace("{name}", name)],
                capture_output=True,
                text=True,
                check=True,
            )
            times.append(float(out.stdout))
    ours, floor = median(taken["autonomy_ctx"]), median(taken["httpx"])
    return [
        Figure(
            name="import autonomy_ctx / import httpx",
            ours=f"{ours * 1000:.0f} ms",
            floor=f"{floor * 1000:.0f} ms",
            value=ours / floor,
            bound=2,
        )
    ]
