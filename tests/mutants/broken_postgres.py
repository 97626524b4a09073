"""Broken builds of the PostgreSQL store."""

from __future__ import annotations

from mutants.mutant import Mutant

OUTAGES = "tests/postgres/test_outages.py"
CRASHES = "tests/postgres/test_crashes.py"
STOPPED = "tests/postgres/test_stopped.py"
SCHEMA = "tests/postgres/test_migrate.py"
CONNECTION = "tests/postgres/test_connection.py"
STORES = "tests/postgres/test_stores.py"
FORKS = "tests/postgres/test_forks.py"
COPIES = "tests/postgres/test_copy_memory.py"
PAGE = "tests/postgres/test_page.py"
MUTANTS = [
    Mutant(
        "a commit without an answer is looked up",
        "memory/postgres/connection.py",
        "        if transaction.is_lost:\n            cursor",
        "        if False:\n            cursor",
        OUTAGES,
    ),
    Mutant(
        "a transaction that was not committed is made again",
        "memory/postgres/connection.py",
        "            if await cursor.fetchone() == (writer.number,):\n",
        "            if True:\n",
        CRASHES,
    ),
    Mutant(
        "a commit that arrives late is refused",
        "memory/postgres/connection.py",
        "    SET number = CASE WHEN w.number < excluded.number THEN excluded.number END, at = excluded.at;\n",
        "    SET number = excluded.number, at = excluded.at;\n",
        CRASHES,
    ),
    Mutant(
        "the server ends a transaction in which a process stands still",
        "memory/postgres/connection.py",
        "idle_in_transaction_session_timeout = {milliseconds}",
        "idle_in_transaction_session_timeout = 0",
        STOPPED,
    ),
    Mutant(
        "idle connections are dropped when one is lost",
        "memory/postgres/connection.py",
        "            self.is_lost = True\n",
        "            return\n",
        OUTAGES,
    ),
    Mutant(
        "a statement is cancelled at its deadline",
        "memory/postgres/connection.py",
        "        await connection.cancel_safe(timeout=CANCEL_SECONDS)\n",
        "        pass\n",
        OUTAGES,
    ),
    Mutant(
        "a server that has fallen silent is given up",
        "memory/postgres/connection.py",
        "            one.shutdown(socket.SHUT_RDWR)\n",
        "            pass\n",
        OUTAGES,
    ),
    Mutant(
        "a connection is given back when its caller is cancelled",
        "memory/postgres/connection.py",
        "            await asyncio.shield(loop.create_task(_give_back(pool, connection, guard)))\n",
        "            guard.stop()\n",
        OUTAGES,
    ),
    Mutant(
        "an append says when its outcome is not known",
        "memory/postgres/connection.py",
        "deadline.is_append and is_unanswered(error)",
        "False",
        OUTAGES,
    ),
    Mutant(
        "a server that takes no writes is asked again",
        "memory/postgres/errors.py",
        "        return Failure.READ_ONLY\n",
        "        return Failure.FINAL\n",
        OUTAGES,
    ),
    Mutant(
        "what was cached of another server is forgotten",
        "memory/postgres/connection.py",
        "                self.identity = (identity, self._opens)\n",
        "                self.identity = (identity, 1)\n",
        OUTAGES,
    ),
    Mutant(
        "a wrong password is told at once",
        "memory/postgres/connection.py",
        "                if is_refusal(error) or classify(error) is Failure.FINAL:\n",
        "                if classify(error) is Failure.FINAL:\n",
        CONNECTION,
    ),
    Mutant(
        "processes make the tables one after another",
        "memory/postgres/migrate.py",
        '            await connection.execute("SELECT pg_advisory_xact_lock(%s)", (LOCK_NUMBER,))\n',
        "",
        SCHEMA,
    ),
    Mutant(
        "a newer schema is refused",
        "memory/postgres/migrate.py",
        "    if version > latest_version():\n",
        "    if False:\n",
        SCHEMA,
    ),
    Mutant(
        "tables that vanished are not made again",
        "memory/postgres/migrate.py",
        "    if found is None and not create:\n",
        "    if False:\n",
        SCHEMA,
    ),
    Mutant(
        "long names and ids are told apart",
        "memory/postgres/log.py",
        '    return f"{text[:MAX_INDEXED_BYTES]}:{sha256(encoded).hexdigest()}"\n',
        "    return text[:MAX_INDEXED_BYTES]\n",
        CONNECTION,
    ),
    Mutant(
        "a forked process leaves the connections of its parent alone",
        "memory/postgres/connection.py",
        "            self._pools, self._opening, self._process = {}, {}, os.getpid()\n",
        "            self._process = os.getpid()\n",
        CONNECTION,
    ),
    Mutant(
        "an older lease commits nothing on a server",
        "memory/postgres/leases.py",
        "        WHERE c.id = %s AND c.fence = %s AND w.owner IS NOT NULL\n",
        "        WHERE c.id = %s AND c.fence >= %s AND w.owner IS NOT NULL\n",
        STORES,
    ),
    Mutant(
        "work is looked at again under the lock",
        "memory/postgres/leases.py",
        "    if lease_until is not None and now < lease_until <= now + MAX_LEASE_SECONDS:\n",
        "    if False:\n",
        STORES,
    ),
    Mutant(
        "a fork on a server shares nothing after its position",
        "memory/postgres/forks.py",
        "least(last, %(at)s)",
        "last",
        STORES,
    ),
    Mutant(
        "an id that a fork shares is known on a server",
        "memory/postgres/log.py",
        "WHERE key = %s AND NOT is_fork RETURNING",
        "WHERE key = %s RETURNING",
        STORES,
    ),
    Mutant(
        "a deletion on a server reaches every fork",
        "memory/postgres/deletion.py",
        "        ON r.source_id = p.conversation_id AND p.position",
        "        ON r.source_id = 0 AND p.position",
        STORES,
    ),
    Mutant(
        "a deletion looks again at what it has locked",
        "memory/postgres/deletion.py",
        "    while not (found := await find()) <= locked:\n",
        "    if not (found := await find()) <= locked:\n",
        FORKS,
    ),
    Mutant(
        "nothing is deleted from a conversation while it is forked",
        "memory/postgres/forks.py",
        "    WHERE key = %s FOR SHARE\n",
        "    WHERE key = %s\n",
        FORKS,
    ),
    Mutant(
        "what a fork shares is found under its name on a server",
        "memory/postgres/search.py",
        "conversation=owner if search_scope.conversation is None else search_scope.conversation,\n",
        "conversation=owner,\n",
        STORES,
    ),
    Mutant(
        "what was copied is found where other messages were",
        "memory/postgres/transfer.py",
        "    WHERE conversation_id = %(id)s AND indexed >= %(first)s\n",
        "    WHERE conversation_id = %(id)s AND false\n",
        COPIES,
    ),
    Mutant(
        "the records of a conversation are copied",
        "memory/postgres/transfer.py",
        "    await _import_records(connection, conversation_id, copy.records)\n",
        "",
        COPIES,
    ),
    Mutant(
        "an id that is there is known in a partition, too",
        "memory/postgres/log.py",
        """if (error.diag.constraint_name or "").endswith("_pkey"):""",
        """if error.diag.constraint_name != "message_id":""",
        PAGE,
    ),
    Mutant(
        "the first message of a conversation is stored, not only those of one that is there",
        "memory/postgres/log.py",
        "        if found is not None:\n            return [found[0]]\n",
        "        return [found[0]] if found is not None else [1]\n",
        STORES,
    ),
    Mutant(
        "a record that quotes a message is not put beside its deletion",
        "memory/postgres/records.py",
        " ORDER BY id FOR KEY SHARE\n",
        " ORDER BY id\n",
        "tests/postgres/test_quotes.py",
    ),
]
