"""What composing a context costs: against the history's length, a bare read and a deep copy."""

from __future__ import annotations

import copy
import json
import sqlite3
from pathlib import Path

from autonomy_ctx import (
    AdditionalContextSection,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    Memory,
    SystemInstructionsSection,
)
from autonomy_ctx.items import wire
from benchmarks.corpus import fill
from benchmarks.table import Figure, Side, microseconds, side_by_side

WINDOW = 20
SHORT, LONG = 100, 100_000


def template() -> ContextTemplate:
    """Four sections without timeouts, the history limited to the window."""
    preferences = AdditionalContextSection(name="preferences")
    preferences.add_message({"role": "system", "content": "The user pays in euros."})
    return ContextTemplate(
        [
            SystemInstructionsSection("You are a travel agent."),
            preferences,
            FrameworkInstructionsSection(),
            ConversationHistorySection(max_messages=WINDOW),
        ]
    )


async def measure(folder: Path) -> list[Figure]:
    path = folder / "compose.db"
    memory, inside = Memory(f"sqlite:///{path}"), Memory()
    await fill(memory, "ana", "short", SHORT)
    await fill(memory, "ana", "long", LONG)
    await fill(inside, "ana", "short", SHORT)
    composer = template()
    bare = sqlite3.connect(path)
    (conversation_id,) = bare.execute("SELECT id FROM conversation WHERE conversation = 'long'").fetchone()
    dicts = await memory.get_messages_only("ana", "long", limit=WINDOW)

    async def forget() -> None:
        await memory.clear_short_term_memory("ana")

    async def read_and_validate() -> None:
        found = bare.execute(
            "SELECT id, body FROM message WHERE conversation_id = ? ORDER BY position DESC LIMIT ?",
            (conversation_id, WINDOW),
        ).fetchall()
        for message_id, body in found:
            form = json.loads(body)
            form["id"] = message_id
            wire.from_dict(form)

    async def deep_copy() -> None:
        copy.deepcopy(dicts)

    times = await side_by_side(
        Side("short", lambda: composer.compose(memory, "ana", "short"), before=forget),
        Side("long", lambda: composer.compose(memory, "ana", "long"), before=forget),
        Side("bare", read_and_validate),
        Side("hot", lambda: composer.compose(memory, "ana", "long")),
        Side("inside", lambda: composer.compose(inside, "ana", "short")),
        Side("copy", deep_copy),
        rounds=600,
    )
    bare.close()
    await memory.close()
    await inside.close()

    def ratio(name: str, ours: str, floor: str, bound: float) -> Figure:
        return Figure(
            name=name,
            ours=microseconds(times[ours]),
            floor=microseconds(times[floor]),
            value=times[ours] / times[floor],
            bound=bound,
        )

    return [
        ratio("compose, SQLite: 100,000 stored messages / 100", "long", "short", 1.2),
        ratio("compose, SQLite, cold / bare SELECT, loads, validation", "long", "bare", 2),
        ratio("compose, SQLite, hot / in process", "hot", "inside", 3),
        ratio("compose, in process, four sections / deep copy of dicts", "inside", "copy", 2),
    ]
