"""Conversations to measure with: plain talk, about 200 bytes a message."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

from autonomy_ctx import Memory
from autonomy_ctx.memory import encoding
from autonomy_ctx.memory.encoding import to_microseconds
from autonomy_ctx.messages.tokens import TokenCounter

_TEXT = (
    "I would like to see the train connections from Lisbon to Porto on {n} June, the price of each, "
    "and whether the museum near hotel number {n} is open; please keep the total below 2,400 euros."
)


def spoken(number: int) -> dict[str, Any]:
    """The n-th message of a conversation, in the dict form that users send."""
    return {
        "role": "assistant" if number % 2 else "user",
        "content": {"text": _TEXT.replace("{n}", str(number)), "type": "text"},
        "phase": "executing",
    }


async def fill(memory: Memory, scope: str, conversation: str, count: int) -> None:
    """Store `count` messages through the front door."""
    for start in range(0, count, 1000):
        batch = [spoken(number) for number in range(start, min(start + 1000, count))]
        await memory.add_messages(scope, conversation, batch)


def copy_as_dicts(source: Path, target: Path) -> sqlite3.Connection:
    """The messages of a memory in bare tables of the same names, each as the JSON of its dict."""
    bare = sqlite3.connect(target)
    bare.execute("ATTACH ? AS memory", (str(source),))
    bare.executescript(
        """
        CREATE TABLE conversation (
            id INTEGER PRIMARY KEY, agent TEXT, scope TEXT, conversation TEXT,
            UNIQUE (agent, scope, conversation)
        );
        CREATE TABLE message (
            conversation_id INTEGER, position INTEGER, id TEXT, body TEXT,
            PRIMARY KEY (conversation_id, position)
        ) WITHOUT ROWID;
        """
    )
    bare.create_function("dict_body", 1, _dict_body)
    with bare:
        bare.execute(
            "INSERT INTO conversation SELECT id, agent, scope, conversation FROM memory.conversation"
        )
        bare.execute(
            "INSERT INTO message SELECT conversation_id, position, id, dict_body(body) FROM memory.message"
        )
    bare.execute("DETACH memory")
    return bare


def _dict_body(body: str) -> str:
    form = encoding.decode_whole_body(body, "")
    form.pop("id")
    return json.dumps(form, ensure_ascii=False, separators=(",", ":"))


def fill_many(path: Path, conversations: int, messages: int) -> None:
    """Store many conversations of the scope `many` at once; the schema must be there."""
    counter = TokenCounter()
    memory_id, clock = iter(range(10**9)), encoding.from_microseconds(1_900_000_000_000_000)
    connection = sqlite3.connect(path)
    with connection:
        for number in range(conversations):
            made = connection.execute(
                "INSERT INTO conversation (agent, scope, conversation, head, count, last_user, has_messages) "
                "VALUES ('', 'many', ?, ?, ?, ?, 1)",
                (f"c{number}", messages, messages, messages - 1),
            )
            drafts = [
                encoding.make_draft(
                    encoding.coerce_message(
                        spoken(n), new_id=lambda: f"m{next(memory_id)}", now=lambda: clock
                    ),
                    counter,
                )
                for n in range(messages)
            ]
            connection.executemany(
                "INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        made.lastrowid,
                        position,
                        draft.message.id,
                        to_microseconds(draft.message.created_at),
                        draft.message.role == "user",
                        draft.tokens,
                        draft.counter,
                        draft.size,
                        draft.body,
                    )
                    for position, draft in enumerate(drafts, start=1)
                ],
            )
    connection.close()
