"""Broken builds of search, records and listings in the PostgreSQL store."""

from __future__ import annotations

from mutants.mutant import Mutant

SEARCH = "tests/postgres/test_search.py"
NAMES = "tests/postgres/test_names.py"
CONTRACT = "tests/postgres/test_stores.py"
MUTANTS = [
    Mutant(
        "a word is found in other forms, as in SQLite",
        "language/stems.py",
        'not in "aeioulsz":',
        'not in "aeioulszn":',
        "tests/language/test_stems.py",
    ),
    Mutant(
        "nothing that was deleted meanwhile gets into the index of PostgreSQL",
        "memory/postgres/search.py",
        "        if generations[block.conversation_id] != block.generation:\n",
        "        if False:\n",
        SEARCH,
    ),
    Mutant(
        "a deletion waits for the index of PostgreSQL",
        "memory/postgres/search.py",
        " ORDER BY id FOR KEY SHARE\n",
        " ORDER BY id\n",
        SEARCH,
    ),
    Mutant(
        "an append does not wait for the index of PostgreSQL",
        "memory/postgres/search.py",
        " ORDER BY id FOR KEY SHARE\n",
        " ORDER BY id FOR UPDATE\n",
        SEARCH,
    ),
    Mutant(
        "a message gets into the index of PostgreSQL once",
        "memory/postgres/search.py",
        "        WHERE {_INDEX_POSITION} = %(start)s\n",
        "\n",
        SEARCH,
    ),
    Mutant(
        "an index of an old folding is made anew in PostgreSQL",
        "memory/postgres/search.py",
        'f"CASE p.folding WHEN {FOLDING_VERSION} THEN p.indexed ELSE 0 END"',
        '"coalesce(p.indexed, 0)"',
        SEARCH,
    ),
    Mutant(
        "a word as it is written comes before its other forms in PostgreSQL",
        "memory/postgres/search.py",
        "{FOLDED_WEIGHT} * min(exact) / nullif(max(folded), 0)",
        "{FOLDED_WEIGHT}",
        CONTRACT,
    ),
    Mutant(
        "a scope of PostgreSQL is searched alone",
        "memory/postgres/search.py",
        """    return f"'{scope_number}x{doubled}'"\n""",
        """    return f"'x{doubled}'"\n""",
        CONTRACT,
    ),
    Mutant(
        "PostgreSQL ranks by how rare a word is",
        "memory/postgres/search.py",
        "            w.weight * m.frequency * ",
        "            m.frequency * ",
        SEARCH,
    ),
    Mutant(
        "PostgreSQL ranks by how often a message has a word",
        "memory/postgres/search.py",
        "range(1, count + 1)",
        "range(1, 2)",
        SEARCH,
    ),
    Mutant(
        "a term is data in PostgreSQL",
        "memory/postgres/search.py",
        """.replace("'", "''")""",
        "",
        SEARCH,
    ),
    Mutant(
        "a deleted message is not found in PostgreSQL",
        "memory/postgres/deletion.py",
        '    for table in ("message", "whole", "search_entry", "vector"):\n',
        '    for table in ("message", "whole", "vector"):\n',
        SEARCH,
    ),
    Mutant(
        "records with long names stay apart in PostgreSQL",
        "memory/postgres/records.py",
        "coalesce(r.long_name, r.name)",
        "r.name",
        NAMES,
    ),
    Mutant(
        "no conversation is lost between two pages of PostgreSQL",
        "memory/postgres/listing.py",
        'condition="agent > %(last_agent)s"',
        'condition="agent > %(last_agent)s AND false"',
        NAMES,
    ),
]
