"""A sheet of the facts that are shown without a model, each beside its source, to be judged by readers.

    python -m benchmarks.fact_sheet benchmarks/fact_cases/talks_final.json sheet.md

Conversations of such a file run through the real pipeline. Readers who know neither the rules nor
the conversations judge each fact with the rubric at the head of the sheet. The figure is the share of facts
that are right; of two readers the stricter one counts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import anyio

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.summary import Summary

MOST = 100
SEED = 20_261_118
START = datetime(2026, 5, 4, 9, tzinfo=UTC)
AROUND = 2  # messages before the source that are shown
MAX_CHARACTERS = 700
RUBRIC = """# Facts that an assistant is shown

The assistant sees the list of facts of a conversation instead of its older messages. Judge each fact beside
its source message and the messages before it, as a careful secretary would who has to act on the list alone.

- R (right): it was said in the user's own voice or was agreed, it still holds at the end of the quoted part,
  its kind is right enough to act on, and it can be understood without the conversation.
- F (false or misleading): another person's, hypothetical, asked, joked, quoted, over, replaced wrongly, of
  the wrong kind so that someone would act wrongly, or cut so that it says something else.
- U (useless): true but not worth keeping: small talk, a request for the moment, or nothing that can be
  understood alone.

"Until" notes in brackets are part of the fact: a wrong one makes it F.
"""


async def shown_facts(name: str, messages: Sequence[dict[str, Any]]) -> list[tuple[str, int]]:
    """The lines of the facts at the end of a conversation, each with the position of its source."""
    memory, section = Memory(), SummarizedHistorySection(None, floor=2, ceiling=4)
    template = ContextTemplate([section])
    for at, data in enumerate(messages):
        message = wire.from_dict({**data, "created_at": (START + timedelta(minutes=at)).isoformat()})
        await memory.append("ana", name, message)
        if data["role"] in ("user", "tool"):
            await template.compose(memory, "ana", name)
            await section.settled()
    context = await template.compose(memory, "ana", name)
    summaries = [one for one in map(wire.from_dict, context.messages) if isinstance(one, Summary)]
    lines = [line for one in summaries for line in one.facts.splitlines()[1:]]
    positions = {fact.id: fact.position for fact in await memory.facts("ana", name)}
    await section.close()
    await memory.close()
    return [(line, positions[line.split(" ", 1)[0]]) for line in lines]


def render_entry(number: int, name: str, line: str, at: int, messages: Sequence[dict[str, Any]]) -> str:
    parts = [f"## {number}. {line.partition(' ')[2]}", f"conversation: {name}", ""]
    for position in range(max(at - AROUND, 1), at + 1):
        data = messages[position - 1]
        text = str(data.get("content") or "")[:MAX_CHARACTERS]
        calls = "".join(f" [calls {one['name']} {one['arguments']}]" for one in data.get("tool_calls", ()))
        parts.append(f"{'SOURCE ' if position == at else ''}{data['role']}: {text}{calls}")
    return "\n".join([*parts, "", "verdict:", ""])


async def make_sheet(talks: Sequence[dict[str, Any]]) -> str:
    found = [
        (talk, line, at) for talk in talks for line, at in await shown_facts(talk["name"], talk["messages"])
    ]
    chosen = found if len(found) <= MOST else Random(SEED).sample(found, MOST)
    entries = [
        render_entry(number, talk["name"], line, at, talk["messages"])
        for number, (talk, line, at) in enumerate(chosen, start=1)
    ]
    print(f"{len(chosen)} of {len(found)} facts of {len(talks)} conversations")
    return "\n".join([RUBRIC, *entries])


if __name__ == "__main__":
    read, written = map(Path, sys.argv[1:3])
    sheet = anyio.run(make_sheet, json.loads(read.read_text("utf-8")))
    written.write_text(sheet, encoding="utf-8")
