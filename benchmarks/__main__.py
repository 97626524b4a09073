"""Run the figures: `python -m benchmarks`, or some of them by name: `python -m benchmarks append`."""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import anyio

from benchmarks import (
    agents,
    append,
    branch,
    budget,
    compose,
    conversations,
    cost,
    digests,
    edits,
    endpoint,
    epochs,
    fact_costs,
    faults,
    files,
    folding,
    fork,
    gate,
    imports,
    inspection,
    kept_facts,
    language,
    linear,
    machines,
    postgres,
    postgres_size,
    prefix,
    processes,
    random_costs,
    recall,
    replay,
    rolling,
    search,
    small_budgets,
    summarized,
    thinking,
    tls,
    tokens,
    tracing,
    turn_cpu,
    turn_lease,
    turns,
    vectors,
)
from benchmarks.table import show

ALL = {
    "compose": compose.measure,
    "budget": budget.measure,
    "small_budgets": small_budgets.measure,
    "summarized": summarized.measure,
    "conversations": conversations.measure,
    "append": append.measure,
    "processes": processes.measure,
    "postgres": postgres.measure,
    "postgres_size": postgres_size.measure,
    "search": search.measure,
    "folding": folding.measure,
    "language": language.measure,
    "recall": recall.measure,
    "vectors": vectors.measure,
    "replay": replay.measure,
    "turns": turns.measure,
    "turn_cpu": turn_cpu.measure,
    "turn_lease": turn_lease.measure,
    "machines": machines.measure,
    "faults": faults.measure,
    "linear": linear.measure,
    "prefix": prefix.measure,
    "thinking": thinking.measure,
    "epochs": epochs.measure,
    "cost": cost.measure,
    "random_costs": random_costs.measure,
    "rolling": rolling.measure,
    "kept_facts": kept_facts.measure,
    "digests": digests.measure,
    "fact_costs": fact_costs.measure,
    "branch": branch.measure,
    "fork": fork.measure,
    "inspection": inspection.measure,
    "edits": edits.measure,
    "files": files.measure,
    "gate": gate.measure,
    "tokens": tokens.measure,
    "agents": agents.measure,
    "endpoint": endpoint.measure,
    "tls": tls.measure,
    "tracing": tracing.measure,
    "imports": imports.measure,
}


async def main(names: list[str]) -> bool:
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(ALL)}")
    met = True
    for name in names or list(ALL):
        with tempfile.TemporaryDirectory() as folder:
            met &= show(name, await ALL[name](Path(folder)))
    return met


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.exit(0 if anyio.run(main, sys.argv[1:]) else 1)
