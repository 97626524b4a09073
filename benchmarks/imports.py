"""The time of importing the library, beside `import httpx`, with all bytecode compiled before."""

from __future__ import annotations

import compileall
import subprocess
import sys
from pathlib import Path
from statistics import median

import autonomy_ctx
from benchmarks.table import Figure

ROUNDS = 15
HTTPX = "import httpx"
# What is measured, and at most how many times as long as httpx it may take.
BOUNDS = {
    "import autonomy_ctx": 0.3,
    "from autonomy_ctx import Agent, Model, Memory": 1.8,
}
# Without click httpx is as its users have it: its command line, which brings rich, is an extra.
_TIMED = """
import sys, time
sys.modules["click"] = None
began = time.perf_counter()
{statement}
print(time.perf_counter() - began)
"""


def seconds(statement: str) -> float:
    """How long a statement takes in a fresh interpreter."""
    ran = subprocess.run(
        [sys.executable, "-c", _TIMED.replace("{statement}", statement)],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(ran.stdout)


async def measure(folder: Path) -> list[Figure]:
    compileall.compile_dir(Path(str(autonomy_ctx.__file__)).parent, quiet=1)
    times: dict[str, list[float]] = {statement: [] for statement in (HTTPX, *BOUNDS)}
    for _ in range(ROUNDS):
        # By turns, so that whatever else the machine does meets all of them alike.
        for statement, taken in times.items():
            taken.append(seconds(statement))
    floor = median(times[HTTPX])
    return [
        Figure(
            name=f"{statement} / {HTTPX}",
            ours=f"{median(times[statement]) * 1000:.0f} ms",
            floor=f"{floor * 1000:.0f} ms",
            value=median(times[statement]) / floor,
            bound=bound,
        )
        for statement, bound in BOUNDS.items()
    ]
