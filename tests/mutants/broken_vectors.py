"""Broken builds of vectors: who finds them, who deletes them, and what a failing embedder may cost."""

from __future__ import annotations

from mutants.mutant import Mutant

VECTORS = "tests/memory/test_vectors.py"
INDEX = "tests/memory/test_vector_index.py"
POSTGRES = "tests/postgres/test_vectors.py"
MUTANTS = [
    Mutant(
        "tenants and agents have vectors of their own in process",
        "memory/vector_rows.py",
        "        matrix = self._matrices.get((agent, scope))\n",
        "        matrix = next(iter(self._matrices.values()), None)\n",
        VECTORS,
    ),
    Mutant(
        "tenants and agents have vectors of their own in SQLite",
        "memory/sqlite/vector_cache.py",
        "    WHERE scope_id = ?1 AND id > ?2",
        "    WHERE ?1 AND id > ?2",
        VECTORS,
    ),
    Mutant(
        "tenants have vectors of their own in PostgreSQL",
        "memory/postgres/vectors.py",
        '    WHERE c.scope = %(scope)s AND c.agent = %(agent)s AND c.has_messages\n"""\n# A fork',
        '    WHERE c.agent = %(agent)s AND c.has_messages\n"""\n# A fork',
        POSTGRES,
    ),
    Mutant(
        "a vector goes with its message in process",
        "memory/in_process.py",
        "                self._vectors.remove(owner.key, positions)\n",
        "                pass\n",
        VECTORS,
    ),
    Mutant(
        "a vector goes with its message in SQLite",
        "memory/sqlite/log.py",
        "        delete_vectors(self._connection, *place)\n",
        "",
        VECTORS,
    ),
    Mutant(
        "vectors go with their conversation in SQLite",
        "memory/sqlite/log.py",
        "        delete_vectors(self._connection, conversation_id)\n",
        "",
        VECTORS,
    ),
    Mutant(
        "a vector goes with its message in PostgreSQL",
        "memory/postgres/deletion.py",
        '    for table in ("message", "whole", "search_entry", "vector"):\n',
        '    for table in ("message", "whole", "search_entry"):\n',
        POSTGRES,
    ),
    Mutant(
        "vectors go with their conversation in PostgreSQL",
        "memory/postgres/deletion.py",
        "    vectors AS (DELETE FROM autonomy_ctx.vector {_OF_THESE}),\n",
        "",
        POSTGRES,
    ),
    Mutant(
        "another process that deleted vectors is noticed",
        "memory/sqlite/vectors.py",
        "UPDATE vector_scope SET removals = removals + 1\n",
        "UPDATE vector_scope SET removals = removals\n",
        VECTORS,
    ),
    Mutant(
        "what was deleted while it was embedded gets no vector",
        "memory/vector_rows.py",
        "if log.positions.get(one.message_id) == one.position]",
        "]",
        VECTORS,
    ),
    Mutant(
        "an embedder that is not in force stores nothing",
        "memory/sqlite/vectors.py",
        "    if not is_in_force(connection, embedder):\n        return False\n",
        "",
        VECTORS,
    ),
    Mutant(
        "a block of vectors that comes late moves no mark back",
        "memory/sqlite/vectors.py",
        "        if found is None or found[1] != start:\n",
        "        if found is None:\n",
        VECTORS,
    ),
    Mutant(
        "a failing embedder fails no search",
        "memory/vector_index.py",
        "            except Exception as error:\n                self._note_failure(error, self._query_pause",
        "            except KeyError as error:\n                self._note_failure(error, self._query_pause",
        INDEX,
    ),
    Mutant(
        "an embedder that failed is left alone for a while",
        "memory/vector_index.py",
        "        if self._query_pause.is_over:\n",
        "        if True:\n",
        INDEX,
    ),
    Mutant(
        "a message that cannot be embedded does not hold up the others",
        "memory/vector_index.py",
        "            if len(texts) != 1 or not await self._can_embed(_PROBE):\n",
        "            if True:\n",
        INDEX,
    ),
    Mutant(
        "how a store scales its scores does not matter",
        "memory/ranking.py",
        "(max(score, 0.0) / best if best > 0 else 1.0)",
        "max(score, 0.0)",
        "tests/memory/test_fused_ranks.py",
    ),
]
