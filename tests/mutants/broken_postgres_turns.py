"""Broken turns and notifications of the PostgreSQL store."""

from __future__ import annotations

from mutants.mutant import Mutant

TURNS = "tests/postgres/test_turns.py"
NOTIFICATIONS = "tests/postgres/test_notifications.py"
STORES = "tests/postgres/test_stores.py"
MUTANTS = [
    Mutant(
        "one statement takes no turn that somebody has",
        "memory/postgres/turns.py",
        "        WHERE c.turn_ticket = 0 AND c.turns_waiting = 0 AND NOT c.is_fork AND ({condition})\n",
        "        WHERE NOT c.is_fork AND ({condition})\n",
        TURNS,
    ),
    Mutant(
        "the record of a turn is stored with its answer",
        "memory/postgres/turns.py",
        'insert_record(record) if record is not None else ("", ())\n',
        '("", ())\n',
        TURNS,
    ),
    Mutant(
        "one statement appends only to the log that was read",
        "memory/postgres/turns.py",
        '    condition="c.turn_ticket = 0 AND c.turns_waiting = 0 AND c.head = %s",\n',
        '    condition="c.turn_ticket = 0 AND c.turns_waiting = 0 AND c.head >= 0 * %s",\n',
        STORES,
    ),
    Mutant(
        "a turn that was replaced writes no more on a server",
        "memory/postgres/turns.py",
        '_IS_HELD = "c.turn_ticket = %s AND c.turn_owner = %s"\n',
        "_IS_HELD = \"%s > 0 AND %s <> ''\"\n",
        TURNS,
    ),
    Mutant(
        "a turn is given back with its last message on a server",
        "memory/postgres/turns.py",
        "    changes=\", turn_ticket = 0, turn_owner = '', turn_until = 0\", condition=_IS_HELD\n",
        '    changes="", condition=_IS_HELD\n',
        TURNS,
    ),
    Mutant(
        "a turn that asks again after a lost answer holds what it has taken",
        "memory/postgres/turns.py",
        "        if self.holder and self.owner == owner:\n",
        "        if False:\n",
        TURNS,
    ),
    Mutant(
        "an answer that is stored is known when it is sent again",
        "memory/postgres/turns.py",
        "        is_stored = line is not None and await",
        "        is_stored = False and await",
        TURNS,
    ),
    Mutant(
        "turns come in the order of their tickets on a server",
        "memory/postgres/turns.py",
        "if own is None or place.ticket < own.ticket]\n",
        "if False]\n",
        STORES,
    ),
    Mutant(
        "the end of a turn is told to those who wait",
        "memory/postgres/turns.py",
        "CASE WHEN turns_waiting > 0 THEN",
        "CASE WHEN turns_waiting < 0 THEN",
        NOTIFICATIONS,
    ),
    Mutant(
        "work that is owed is told",
        "memory/postgres/leases.py",
        "(SELECT pg_notify(%s, %s) FROM w)",
        "(SELECT pg_notify(%s, %s) FROM w WHERE false)",
        NOTIFICATIONS,
    ),
    Mutant(
        "what was told before anybody listened is looked for",
        "memory/postgres/notifications.py",
        "                    self.note_all()\n",
        "",
        NOTIFICATIONS,
    ),
    Mutant(
        "what was told between a look and a wait is not missed",
        "memory/postgres/notifications.py",
        "        if self._last.get(topic, self._last_of_others) > since or self._is_closed:\n",
        "        if self._is_closed:\n",
        NOTIFICATIONS,
    ),
    Mutant(
        "a turn that waits looks when the lease before it ends",
        "memory/postgres/store.py",
        "min(lease_seconds, TURN_POLL_SECONDS)",
        "TURN_POLL_SECONDS",
        NOTIFICATIONS,
    ),
    Mutant(
        "a wait ends when the store is closed",
        "memory/postgres/notifications.py",
        "            line.clear()\n        self.note_all()\n",
        "            line.clear()\n",
        NOTIFICATIONS,
    ),
]
