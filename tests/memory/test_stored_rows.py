"""Rows in every form that a version of the library has written read back exactly.

`dict_rows.sqlite` was made by `fill` with the first version, `letter_rows.json` with a later one, which wrote
the bodies in letters.
"""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import ImageContent, Memory, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.errors import ConflictingMessage, StoredFormTooNew
from autonomy_ctx.memory.encoding import coerce_message, make_draft
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.messages import Segment, Summary, wire
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.testing import StoppedClock, numbered_ids

DICT_ROWS = Path(__file__).with_name("dict_rows.sqlite")
LETTER_ROWS = json.loads(Path(__file__).with_name("letter_rows.json").read_text(encoding="utf-8"))
NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
ODD_TEXT = 'NUL \0, surrogate \ud800, 中文, \u2028, \U0001f600, {braces}, "quotes", \\ and \''
PIXEL = "data:image/png;base64,AA=="


def code_messages() -> list[Message]:
    """Messages made in code, of every kind."""
    calls = [
        ToolCall("c1", "find", '{"city":"Porto"}'),
        ToolCall("c2", "find", '{"city":"中文"}', {"thought_signature": "s", "deep": [1, {"x": None}]}),
        ToolCall(None, "wait"),
    ]
    made: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "developer", "content": "Use the tools.", "name": "dev"},
        {"role": "user", "content": "hello"},
        {"role": "user", "content": ""},
        {"role": "user", "content": ODD_TEXT, "name": ODD_TEXT, "phase": ODD_TEXT, "agent": "ag \u2028"},
        {"role": "user", "content": TextContent("one part")},
        {"role": "user", "content": ImageContent("https://x.test/a.png", "high")},
        {"role": "user", "content": [TextContent("two"), ImageContent(PIXEL), TextContent(ODD_TEXT)]},
        {"role": "user", "content": []},
        {"role": "assistant", "content": "hi", "phase": "executing", "agent": "helper"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": None, "tool_calls": calls[:1]},
        {"role": "assistant", "content": "looking", "tool_calls": calls},
        {"role": "assistant", "content": [ThinkingContent("hm", signature="sig"), TextContent("so")]},
        {"role": "assistant", "content": ThinkingContent("", redacted="xyz"), "tool_calls": calls[:2]},
        {"role": "tool", "content": "found", "tool_call_id": "c1"},
        {"role": "tool", "content": "no such city", "tool_call_id": "c2", "name": "find", "is_error": True},
        {"role": "tool", "content": [TextContent("a"), ImageContent(PIXEL, "low")], "tool_call_id": ODD_TEXT},
        {"role": "user", "content": "with more", "extra": {"own": [1, 1.5, True, None, {"deep": ODD_TEXT}]}},
    ]
    return [
        Message(**fields, id=f"code {number} é", created_at=NOON + timedelta(microseconds=number))
        for number, fields in enumerate(made)
    ]


def dict_messages() -> list[dict[str, Any]]:
    """Messages as callers write them, in every spelling."""
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
    turned = {"function": {"arguments": '{"a": 1}', "name": "find"}, "type": "function", "id": "c2"}
    flat = {"id": "c3", "name": "find", "arguments": {"city": "Porto"}, "thought_signature": "s"}
    made: list[dict[str, Any]] = [
        {"role": "user", "content": "hello"},
        {"content": "hello", "role": "user"},
        {"role": "user", "content": {"text": "hi", "type": "text"}, "phase": "executing"},
        {"phase": None, "content": {"type": "text", "text": ODD_TEXT}, "role": "user"},
        {"role": "user", "content": {"text": "no type"}},
        {"role": "user", "content": {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}},
        {"role": "user", "content": ["plain", {"type": "input_text", "text": "part"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": PIXEL, "detail": "low"}}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "url", "url": "https://x.test"}}]},
        {"role": "user", "content": "x", "own": [1, {"two": None}], "extra": {"own too": 2.5}},
        {"role": "user", "content": "x", "own \ud800 {key}": ODD_TEXT, "extra": {}},
        {"type": "message", "role": "user", "content": "x", "agent_id": "helper", "name": None},
        {"role": "user", "content": "x", "agent": None, "agent_id": "other", "is_error": None},
        {"role": "assistant", "tool_calls": [call, turned, flat]},
        {"role": "assistant", "content": None, "tool_calls": [call], "agent": "helper"},
        {"role": "assistant", "content": "done", "tool_calls": []},
        {"role": "assistant", "content": "done", "tool_calls": None, "confidence": 0.5},
        {"role": "tool", "tool_call_id": "c1", "content": "found", "is_error": False},
        {"role": "tool", "tool_call_id": "c2", "name": "find", "content": ODD_TEXT, "is_error": True},
    ]
    stamps: list[dict[str, Any]] = [
        {},
        {"timestamp": 1_900_000_000.25},
        {"created_at": "2031-02-03T04:05:06+02:00"},
    ]
    return [
        {("message_id" if number % 5 == 3 else "id"): f"dict {number}", **fields, **stamps[number % 3]}
        for number, fields in enumerate(made)
    ] + [
        {
            "role": "user",
            "content": "in code's own form",
            "timestamp": "0900-01-01T00:00:00+00:00",
            "id": "old",
        },
        wire.to_dict(Summary([Segment(text="sum", first=1, last=2)], id="summary", created_at=NOON)),
    ]


LOGS: dict[Key, list[Any]] = {
    Key("", "ana", "code"): code_messages(),
    Key("", "ana", "dicts"): dict_messages(),
    Key("helper", "bob", "trip \u00e9"): [*dict_messages()[:4], *code_messages()[:4]],
}
CODE, _, BOB = LOGS
FULL_TEXT = "all of the result " * 99
CUT = Message("tool", "all ... result", tool_call_id="c9", id="cut", created_at=NOON)
SEGMENTS = [
    StoredSegment(first=1, last=3, text=ODD_TEXT.replace("\0", ""), tokens=9, model="m", coverage=0.5),
    StoredSegment(first=4, last=6, text="digest", tokens=2, provisional=True),
]
RECORDS = [("one", ODD_TEXT), ("two", '{"a": [1]}')]


async def fill(memory: Memory) -> None:
    """Store one of everything."""
    for key, values in LOGS.items():
        await _view(memory, key).append(key.scope, key.conversation, *values)
    await memory.append("ana", "whole", CUT, full_texts={"cut": FULL_TEXT})
    for segment in SEGMENTS:
        assert await memory.store.commit_segment(CODE, segment, generation=0, fence=None)
    for name in ("code 2 é", "code 12 é"):
        assert await memory.pin("ana", "code", name)
    price = await memory.facts("ana", "code").add("value", "The budget is 2,400 euros.")
    await memory.facts("ana", "code").replace(price.id, "The budget is 2,500 euros.")
    await memory.store.put_records(BOB, "note", RECORDS)


def _view(memory: Memory, key: Key) -> Memory:
    return memory.for_agent(key.agent) if key.agent else memory


def _write_letters(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for message_id, body in LETTER_ROWS["message"].items():
            connection.execute("UPDATE message SET body = ? WHERE id = ?", (body, message_id))
        connection.execute("UPDATE whole SET body = ?", (LETTER_ROWS["whole"]["cut"],))


@pytest.fixture(params=["dict rows", "letter rows", "present rows"])
async def filled(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Memory]:
    """A memory with one of everything: as an older version left it, or as written today."""
    path = tmp_path / "memory.db"
    if request.param == "dict rows":
        shutil.copy(DICT_ROWS, path)
    elif request.param == "letter rows":
        async with Memory(f"sqlite:///{path}", clock=StoppedClock()) as memory:
            await fill(memory)
        _write_letters(path)
    async with Memory(f"sqlite:///{path}", clock=StoppedClock()) as memory:
        if request.param == "present rows":
            await fill(memory)
        yield memory


def _as_stored(value: Any) -> Message:
    message = coerce_message(value, new_id=numbered_ids(), now=StoppedClock())
    return make_draft(message, TokenCounter()).message


def _digest(value: Any) -> str:
    # As text: 1, 1.0 and True are equal, and so are dicts in another order.
    return json.dumps(value)


async def test_every_message_reads_back_exactly(filled: Memory) -> None:
    for key, values in LOGS.items():
        entries = (await _view(filled, key).read(key.scope, key.conversation)).entries
        assert [entry.position for entry in entries] == list(range(1, len(values) + 1))
        for (_, found), value in zip(entries, values, strict=True):
            sent = _as_stored(value)
            assert found == sent
            assert type(found) is type(sent)
            assert (found.id, found.created_at, hash(found)) == (sent.id, sent.created_at, hash(sent))
            assert _digest(found.model_dump()) == _digest(sent.model_dump())
            assert pickle.loads(pickle.dumps(found)) == sent


async def test_a_dict_comes_back_as_it_was_given(filled: Memory) -> None:
    for key, values in LOGS.items():
        dicts = await _view(filled, key).get_messages_only(key.scope, key.conversation)
        for found, value in zip(dicts, values, strict=True):
            assert _digest(found) == _digest(wire.to_dict(_as_stored(value)))
            if isinstance(value, dict):
                # The id and the time may stand elsewhere, all else is in its order.
                assert [(name, found[name]) for name in found if name in value and name != "id"] == [
                    item for item in value.items() if item[0] != "id"
                ]


async def test_a_message_sent_again_is_kept_once(filled: Memory) -> None:
    for key, values in LOGS.items():
        memory = _view(filled, key)
        positions = list(range(1, len(values) + 1))
        assert await memory.append(key.scope, key.conversation, *values) == positions
        entries = (await memory.read(key.scope, key.conversation)).entries
        again = [entry.message for entry in entries]
        assert await memory.append(key.scope, key.conversation, *again) == positions
    assert await filled.append("ana", "whole", CUT, full_texts={"cut": FULL_TEXT}) == [1]
    with pytest.raises(ConflictingMessage):
        await filled.append("ana", "whole", CUT, full_texts={"cut": FULL_TEXT + "!"})


@pytest.mark.parametrize("number", range(len(code_messages())))
async def test_other_content_under_a_known_id_is_refused(filled: Memory, number: int) -> None:
    for changed in (
        replace(code_messages()[number], content="other"),
        replace(code_messages()[number], name="other"),
    ):
        with pytest.raises(ConflictingMessage):
            await filled.append("ana", "code", changed)


async def test_what_stands_beside_the_messages_reads_back(filled: Memory) -> None:
    whole = await filled.get_full_message("ana", "whole", "cut")
    assert whole == {"role": "tool", "content": FULL_TEXT, "tool_call_id": "c9", "id": "cut"}
    state = await filled.summary("ana", "code")
    assert [(one.first, one.last, one.text, one.provisional) for one in state.segments] == [
        (one.first, one.last, one.text, one.provisional) for one in SEGMENTS
    ]
    assert [entry.message for entry in state.pins] == [code_messages()[2], code_messages()[12]]
    assert [fact.text for fact in await filled.facts("ana", "code")] == ["The budget is 2,500 euros."]
    assert [(one.name, one.body) for one in await filled.store.read_records(BOB, "note")] == RECORDS


@pytest.mark.parametrize("limit", [None, 600])
async def test_a_row_of_a_newer_version_says_to_upgrade(tmp_path: Path, limit: int | None) -> None:
    path = tmp_path / "memory.db"
    async with Memory(f"sqlite:///{path}", clock=StoppedClock()) as memory:
        await fill(memory)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("UPDATE message SET body = '[3]' WHERE id = ?", (code_messages()[7].id,))
    async with Memory(f"sqlite:///{path}") as memory:
        with pytest.raises(StoredFormTooNew, match=r"stored format 3.*upgrade autonomy_ctx"):
            await memory.read("ana", "code", limit=limit)
        with pytest.raises(StoredFormTooNew):
            await memory.append("ana", "code", code_messages()[7])
        with pytest.raises(StoredFormTooNew):
            await memory.search("ana", "hello")
        assert len((await memory.read("ana", "dicts")).entries) == len(dict_messages())


async def test_every_message_is_found_by_its_words(filled: Memory) -> None:
    assert {hit.message.id for hit in await filled.search("ana", "Porto")} == {
        "code 11 é",
        "code 12 é",
        "code 14 é",
        "dict 13",
    }
    assert [hit.message.id for hit in await filled.search("ana", "looking")] == ["code 12 é"]
