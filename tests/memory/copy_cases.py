"""A memory with something of everything, and what two memories with the same content have in common."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stores.facts import make_change

from autonomy_ctx import Memory
from autonomy_ctx.stores import Key, Lease, StoredSegment
from autonomy_ctx.testing import make_message

TALK = Key("", "ana", "talk")
LONG_RESULT = "all of it " * 120_000


async def fill(memory: Memory) -> None:
    """Messages of all kinds, deletions, summaries, facts, pins, records, a fork of a fork, two scopes."""
    for number in range(1, 31):
        await memory.append("ana", "talk", make_message(f"said {number}", id=f"m{number}"))
    own = {"role": "user", "content": "own fields", "own": [1, {"x": None}], "id": "d"}
    await memory.append("ana", "talk", own, make_message("NUL \0, surrogate \ud800, 中文", id="odd"))
    call = {"id": "c1", "name": "look", "arguments": "{}"}
    await memory.append(
        "ana",
        "talk",
        {"role": "assistant", "content": None, "tool_calls": [call], "id": "call"},
        {"role": "tool", "content": LONG_RESULT, "tool_call_id": "c1", "id": "result"},
    )
    await memory.delete_message("ana", "talk", "m30")
    generation = (await memory.head("ana", "talk")).generation
    for first, last, level in ((1, 8, 0), (9, 16, 0), (1, 16, 1)):
        segment = StoredSegment(first=first, last=last, text=f"{first} to {last}", tokens=4, level=level)
        change = replace(make_change(first, f"rule {first}"), in_profile=first == 9)
        facts = [change] if level == 0 else None
        lease = await memory.store.claim(TALK, owner="me", task="t", seconds=30)
        assert isinstance(lease, Lease)
        assert await memory.store.commit_segment(
            TALK, segment, generation=generation, fence=lease.fence, facts=facts
        )
        await memory.store.complete_task(lease)
    facts_of = memory.facts("ana", "talk")
    added = await facts_of.add("value", "budget 900")
    await facts_of.replace(added.id, "budget 800")
    await memory.pin("ana", "talk", "m3")
    await memory.store.pin(TALK, "m4", True, source="model")
    await memory.profile("ana").add("preference", "window seats")
    await memory.store.put_records(TALK, "notes", [("one", "body \ud800"), ("two", "other")], derived=True)
    await memory.fork("ana", "talk", at=20, name="fork")
    await memory.append("ana", "fork", make_message("only here", id="f1"))
    await memory.fork("ana", "fork", name="fork of the fork")
    await memory.append("ana", "fork of the fork", make_message("and here", id="g1"))
    await memory.store.put_records(Key("", "ana", "no messages"), "notes", [("three", "body")])
    for number in range(1, 4):
        await memory.append(f"tenant {number}", "talk", make_message("hello", id="h"))


async def content(memory: Memory) -> dict[str, Any]:
    """All that a user of a memory can read."""
    found: dict[str, Any] = {}
    for scope in await memory.scopes():
        for info in await memory.conversations(scope):
            name = info.conversation
            state = await memory.summary(scope, name)
            notes = await memory.store.read_records(info.key, "notes")
            found[f"{scope}/{name}"] = {
                "info": info,
                "messages": await memory.get_messages_only(scope, name),
                "segments": [replace(one, number=0) for one in state.segments],
                "pins": [(pin.position, pin.pinned_at, pin.source) for pin in state.pins],
                "profile": await memory.profile(scope),
                "facts": await memory.facts(scope, name),
                "notes": [(one.name, one.at, one.body) for one in notes],
                "whole": await memory.get_full_message(scope, name, "result"),
            }
    return found
