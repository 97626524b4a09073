"""Message search in PostgreSQL: the scripts of its full-text index.

Terms are split, folded and stemmed in Python, with the same result as in the other stores. PostgreSQL stores
them as a `tsvector`, finds them, and ranks the results by BM25.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

from autonomy_ctx.memory.postgres.connection import fetch_all
from autonomy_ctx.memory.postgres.session import PostgresSession
from autonomy_ctx.memory.ranking import BM25_B, BM25_K1
from autonomy_ctx.memory.search_terms import FoldedTerms, IndexTerms
from autonomy_ctx.memory.search_text import (
    FOLDED_WEIGHT,
    FULL_MATCH_GAIN,
    IndexBlock,
    QueryTerms,
    RowHit,
    SearchScope,
)
from autonomy_ctx.memory.sql.forks import SharedRange
from autonomy_ctx.memory.sql.query import load_statements
from autonomy_ctx.memory.sql.search import FullText
from autonomy_ctx.memory.store import Key

# PostgreSQL keeps no more positions of a term.
_MAX_FREQUENCY = 255
_RANK_LIMIT = math.pi**2 / 6

_SQL = load_statements(
    "postgres",
    "search",
    rank_limit=_RANK_LIMIT,
    bm25_k1=BM25_K1,
    bm25_b=BM25_B,
    folded_weight=FOLDED_WEIGHT,
    full_match_gain=FULL_MATCH_GAIN,
)
SELECT_SCOPE_HITS = _SQL["select_hits"].format(
    condition="true", those="scope = %(scope)s AND agent = %(agent)s"
)
_SELECT_CONVERSATION_HITS = _SQL["select_hits"].format(
    condition="""e.conversation_id = ANY(%(ids)s) AND EXISTS (
        SELECT 1 FROM unnest(%(ids)s::int8[], %(firsts)s::int8[], %(lasts)s::int8[]) AS r (id, first, last)
        WHERE r.id = e.conversation_id AND e.position BETWEEN r.first AND r.last
    )""",
    those="key = %(key)s",
)


async def _write(session: PostgresSession, scope_number: int, block: IndexBlock) -> None:
    place = {"id": block.conversation_id, "start": block.start, "end": block.end}
    await session.connection.execute(_SQL["delete_entries"], place)
    if block.terms:
        vectors = [_vector(scope_number, found) for found in block.terms.values()]
        # Other forms of words do not make a message longer.
        lengths = [len(found.words) for found in block.terms.values()]
        values = (block.conversation_id, list(block.terms), lengths, vectors)
        await session.connection.execute(_SQL["insert_entries"], values)


async def _find(
    session: PostgresSession,
    number: int,
    search_scope: SearchScope,
    ranges: Sequence[SharedRange],
    terms: QueryTerms,
    limit: int,
) -> list[RowHit]:
    exact = [_quote(number, term) for term in terms.exact]
    folded = _folded_queries(number, terms.folded)
    values: dict[str, Any] = {
        "terms": exact + folded,
        "are_exact": [True] * len(exact) + [False] * len(folded),
        "is_single": len(terms.exact) == 1,
        "exact_terms": len(exact),
        "limit": limit,
        "ids": [one.conversation_id for one in ranges],
        "firsts": [one.first for one in ranges],
        "lasts": [one.last for one in ranges],
    }
    values |= session.key_values(Key(*search_scope[:2], search_scope.conversation or ""))
    statement = _SELECT_CONVERSATION_HITS if ranges else SELECT_SCOPE_HITS
    return [RowHit(*row) for row in await fetch_all(session.connection, statement, values)]


def _vector(scope_number: int, found: IndexTerms) -> str:
    """A `tsvector` as PostgreSQL reads it."""
    terms = Counter(found.words)
    terms.update(found.forms)
    return " ".join(
        f"{_quote(scope_number, term)}:{_positions(min(count, _MAX_FREQUENCY))}"
        for term, count in terms.items()
    )


def _positions(count: int) -> str:
    return ",".join(map(str, range(1, count + 1)))


def _folded_queries(scope_number: int, folded: FoldedTerms) -> list[str]:
    """Other forms of terms as PostgreSQL looks for them."""
    quote = partial(_quote, scope_number)
    found = [
        *map(quote, folded.words),
        *(f"({quote(one)} & {quote(other)})" for one, other in folded.pairs),
        *map(quote, folded.forms),
        *(f"{quote(prefix)}:*" for prefix in folded.prefixes),
    ]
    return list(dict.fromkeys(found))


def _quote(scope_number: int, term: str) -> str:
    """A term of a scope, in quotes, so that nothing is syntax."""
    doubled = term.replace("\\", "\\\\").replace("'", "''")
    return f"'{scope_number}x{doubled}'"


TSVECTOR = FullText(find=_find, begin=lambda session: True, write=_write)
