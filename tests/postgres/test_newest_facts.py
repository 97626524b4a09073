"""PostgreSQL finds the facts of a summary by an index, however many hold."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from stores.facts import make_change

from autonomy_ctx.memory.facts import MAX_FACTS_OF_KIND
from autonomy_ctx.memory.postgres.store import PostgresStore
from autonomy_ctx.memory.sql.facts import NEWEST_FACTS
from autonomy_ctx.testing import MAIN, make_drafts, make_message


async def test_the_newest_facts_are_read_without_the_others(database_url: str) -> None:
    store = PostgresStore(database_url)
    await store.append(MAIN, make_drafts(make_message("hello", id="m1")))
    told = [make_change(1, f"the port of host {at} is 80") for at in range(3 * MAX_FACTS_OF_KIND)]
    await store.write_facts(MAIN, told)
    await store.close()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        await connection.execute("ANALYZE autonomy_ctx.fact")
        cursor = await connection.execute("SELECT id FROM autonomy_ctx.conversation")
        [(number,)] = await cursor.fetchall()
        cursor = await connection.execute(
            f"EXPLAIN (ANALYZE, FORMAT JSON) {NEWEST_FACTS.postgres}", {"id": number}
        )
        [([plan],)] = await cursor.fetchall()
    assert "fact_in_force" in json.dumps(plan)
    assert round(max(read_rows(plan["Plan"]))) == MAX_FACTS_OF_KIND


def read_rows(plan: dict[str, Any]) -> list[float]:
    """The rows that each step read from a table in all its rounds."""
    own = []
    if "Relation Name" in plan:
        read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)
        own = [read * plan["Actual Loops"]]
    return own + [count for step in plan.get("Plans", ()) for count in read_rows(step)]
