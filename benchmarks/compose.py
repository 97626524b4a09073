"""The cost of composing a context, compared with the history's length, a bare read and a deep copy."""

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
from autonomy_ctx.messages import wire
from benchmarks.corpus import copy_as_dicts, fill
from benchmarks.table import Figure, Side, microseconds, side_by_side

WINDOW = 20
SHORT, LONG = 100, 100_000
_SELECT_NEWEST = "SELECT id, body FROM message WHERE conversation_id = ? ORDER BY position DESC LIMIT ?"


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
    whole = ContextTemplate([ConversationHistorySection()])
    bare, dicts_only = sqlite3.connect(path), copy_as_dicts(path, folder / "dicts.db")
    (conversation_id,) = bare.execute("SELECT id FROM conversation WHERE conversation = 'long'").fetchone()
    dicts = await memory.get_messages_only("ana", "long", limit=WINDOW)

    async def forget() -> None:
        await memory.clear_short_term_memory("ana")

    async def read_and_validate() -> None:
        found = dicts_only.execute(_SELECT_NEWEST, (conversation_id, WINDOW)).fetchall()
        for message_id, body in found:
            form = json.loads(body)
            form["id"] = message_id
            wire.from_dict(form)

    async def read_newest() -> None:
        found = bare.execute(_SELECT_NEWEST, (conversation_id, WINDOW)).fetchall()
        assert len([json.loads(body) for _, body in found]) == WINDOW

    async def read_all() -> None:
        found = bare.execute(_SELECT_NEWEST, (conversation_id, LONG)).fetchall()
        assert len([json.loads(body) for _, body in found]) == LONG

    async def deep_copy() -> None:
        copy.deepcopy(dicts)

    times = await side_by_side(
        Side("short", lambda: composer.compose(memory, "ana", "short"), before=forget),
        Side("long", lambda: composer.compose(memory, "ana", "long"), before=forget),
        Side("bare", read_and_validate),
        Side("newest", read_newest),
        Side("hot", lambda: composer.compose(memory, "ana", "long")),
        Side("inside", lambda: composer.compose(inside, "ana", "short")),
        Side("copy", deep_copy),
        rounds=600,
    )
    times |= await side_by_side(
        Side("all", lambda: whole.compose(memory, "ana", "long"), before=forget),
        Side("rows", read_all),
        rounds=9,
        warm=1,
    )
    bare.close()
    dicts_only.close()
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
        ratio("compose, SQLite, cold / bare SELECT, loads", "long", "newest", 4),
        ratio("compose all of 100,000, SQLite, cold / SELECT, loads", "all", "rows", 2.5),
        ratio("compose, SQLite, hot / in process", "hot", "inside", 3),
        ratio("compose, in process, four sections / deep copy of dicts", "inside", "copy", 2),
    ]
