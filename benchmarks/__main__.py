"""Run the figures: `python -m benchmarks`, or some of them by name: `python -m benchmarks append`.

Those on public conversations take the path of a checkout: `python -m benchmarks beam ~/BEAM`.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path

import anyio

from benchmarks.table import Figure, show

# Modules of this package.
# fmt: off
ALL = [
    "compose", "budget", "small_budgets", "summarized", "conversations", "append", "processes",
    "postgres", "postgres_size", "search", "folding", "language", "recall", "consolidation", "profile",
    "recall_scale", "vectors", "replay", "turns", "turn_cpu", "turn_lease", "long_lived", "machines",
    "faults", "linear", "prefix", "thinking", "epochs", "cost", "random_costs", "rolling", "room",
    "kept_facts", "digests", "fact_costs", "branch", "fork", "inspection", "edits", "files", "gate",
    "gateway", "tokens", "tool_search", "agents", "endpoint", "tls", "tracing", "imports",
]
# fmt: on
# On public data, which are not here: each takes the path of a checkout.
PUBLIC = ["beam", "compactbench", "locomo"]


async def main(names: list[str]) -> bool:
    if names and names[0] in PUBLIC:
        if len(names) != 2:
            sys.exit(f"usage: python -m benchmarks {names[0]} PATH, where PATH is the folder of a checkout")
        return show(names[0], await _measure(names[0], Path(names[1])))
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join([*ALL, *PUBLIC])}")
    met = True
    for name in names or ALL:
        with tempfile.TemporaryDirectory() as folder:
            met &= show(name, await _measure(name, Path(folder)))
    return met


async def _measure(name: str, path: Path) -> list[Figure]:
    """Measure with what this benchmark alone needs installed."""
    measure: Callable[[Path], Awaitable[list[Figure]]] = import_module(f"benchmarks.{name}").measure
    return await measure(path)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.exit(0 if anyio.run(main, sys.argv[1:]) else 1)
