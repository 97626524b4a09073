"""Broken turns: what two turns of one conversation must never do to each other."""

from __future__ import annotations

from mutants.mutant import Mutant

STORES = "tests/memory/test_stores.py"
MACHINE = "tests/memory/test_turns_machine.py"
LEASE = "tests/agents/test_turn_lease.py"
PROCESSES = "tests/black_box/test_turns.py"
MUTANTS = [
    Mutant(
        "a turn that was replaced writes no more",
        "memory/sqlite/turns.py",
        "    if held is None and not _is_stored(connection, key, drafts):",
        "    if False:",
        MACHINE,
    ),
    Mutant(
        "a turn that was replaced writes no more, in one process",
        "memory/rows.py",
        "        return holder is not None and (holder.ticket, holder.owner) == (turn.ticket, turn.owner)\n",
        "        return True\n",
        MACHINE,
    ),
    Mutant(
        "turns come in the order of their tickets",
        "memory/sqlite/turns.py",
        "    return not any(_is_live(owner, until, now) for owner, until in before)\n",
        "    return True\n",
        MACHINE,
    ),
    Mutant(
        "a turn has one holder",
        "memory/sqlite/turns.py",
        "    if line.holder and _is_live(line.owner, line.until, now):\n        return False\n",
        "",
        MACHINE,
    ),
    Mutant(
        "a lease ends",
        "memory/store.py",
        "    return now < until <= now + MAX_LEASE_SECONDS\n",
        "    return True\n",
        MACHINE,
    ),
    Mutant(
        "a turn is given back with its last message",
        "memory/sqlite/turns.py",
        "        connection.execute(_GIVE_BACK, held)\n",
        "        pass\n",
        MACHINE,
    ),
    Mutant(
        "an answer gives the turn back",
        "agents/turn.py",
        "            ends_turn=ends,\n",
        "",
        LEASE,
    ),
    Mutant(
        "a turn that fails gives its lease back",
        "agents/turn_lease.py",
        "                await self._leave()\n",
        "                pass\n",
        LEASE,
    ),
    Mutant(
        "a turn writes under its lease",
        "agents/turn.py",
        "            self._environment = environment._replace(memory=environment.memory.in_turn(hold))\n",
        "            pass\n",
        LEASE,
    ),
    Mutant(
        "leases are renewed",
        "agents/turn_lease.py",
        "                await self._renew_due()\n",
        "                pass\n",
        PROCESSES,
    ),
    Mutant(
        "what was read decides what is stored",
        "memory/sqlite/turns.py",
        "if drafts and after in (None, line.head) else []",
        "if drafts else []",
        STORES,
    ),
    Mutant(
        "a killed process is replaced before its lease ends",
        "memory/sqlite/turns.py",
        " and not has_ended(owner)\n",
        "\n",
        PROCESSES,
    ),
]
