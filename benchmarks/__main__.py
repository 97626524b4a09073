"""Run the figures: `python -m benchmarks`, or some of them by name: `python -m benchmarks append`.

Those on public conversations take the path of a checkout: `python -m benchmarks beam ~/BEAM`.
"""

from __future__ import annotations

import logging
import sys
import tempfile
from pathlib import Path

import anyio

from benchmarks import (
    agents,
    append,
    beam,
    branch,
    budget,
    compactbench,
    compose,
    consolidation,
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
    gateway,
    imports,
    inspection,
    kept_facts,
    language,
    linear,
    locomo,
    long_lived,
    machines,
    postgres,
    postgres_size,
    prefix,
    processes,
    profile,
    random_costs,
    recall,
    recall_scale,
    replay,
    rolling,
    room,
    search,
    small_budgets,
    summarized,
    thinking,
    tls,
    tokens,
    tool_search,
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
    "consolidation": consolidation.measure,
    "profile": profile.measure,
    "recall_scale": recall_scale.measure,
    "vectors": vectors.measure,
    "replay": replay.measure,
    "turns": turns.measure,
    "turn_cpu": turn_cpu.measure,
    "turn_lease": turn_lease.measure,
    "long_lived": long_lived.measure,
    "machines": machines.measure,
    "faults": faults.measure,
    "linear": linear.measure,
    "prefix": prefix.measure,
    "thinking": thinking.measure,
    "epochs": epochs.measure,
    "cost": cost.measure,
    "random_costs": random_costs.measure,
    "rolling": rolling.measure,
    "room": room.measure,
    "kept_facts": kept_facts.measure,
    "digests": digests.measure,
    "fact_costs": fact_costs.measure,
    "branch": branch.measure,
    "fork": fork.measure,
    "inspection": inspection.measure,
    "edits": edits.measure,
    "files": files.measure,
    "gate": gate.measure,
    "gateway": gateway.measure,
    "tokens": tokens.measure,
    "tool_search": tool_search.measure,
    "agents": agents.measure,
    "endpoint": endpoint.measure,
    "tls": tls.measure,
    "tracing": tracing.measure,
    "imports": imports.measure,
}


# On public data, which are not here: each takes the path of a checkout.
PUBLIC = {"beam": beam.measure, "compactbench": compactbench.measure, "locomo": locomo.measure}


async def main(names: list[str]) -> bool:
    if names and names[0] in PUBLIC:
        if len(names) != 2:
            sys.exit(f"usage: python -m benchmarks {names[0]} PATH, where PATH is the folder of a checkout")
        return show(names[0], await PUBLIC[names[0]](Path(names[1])))
    unknown = [name for name in names if name not in ALL]
    if unknown:
        sys.exit(f"no such benchmark: {', '.join(unknown)}; there are {', '.join([*ALL, *PUBLIC])}")
    met = True
    for name in names or list(ALL):
        with tempfile.TemporaryDirectory() as folder:
            met &= show(name, await ALL[name](Path(folder)))
    return met


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.exit(0 if anyio.run(main, sys.argv[1:]) else 1)
