"""Long talks through `/v1/messages` with a provider that binds thinking to what stands before it.

A request that does not keep its rules is refused: thinking behind a changed prefix, a loop whose thinking is
incomplete, results that are not in one message, a message of the application in a wrong place.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from server.anthropic_endpoint import MODEL, Body, ClaudeEndpoint, call, claude_endpoint, result, text, user

from autonomy_ctx import Memory
from autonomy_ctx.testing import ProviderServer

TURNS = 60
TOOLS = [{"name": "run", "description": "Run it.", "input_schema": {"type": "object"}}]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
PAPER = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "The plan."}}
MARK = {"cache_control": {"type": "ephemeral"}}
SYSTEM = [text("Be brief.", **MARK), text("Answer in English.")]


class Talk:
    """A client with tools that sends its whole history, as the SDKs of the vendor make it."""

    def __init__(self, chance: random.Random, thinking: Body) -> None:
        self.history: list[Body] = []
        self.chance, self.thinking = chance, thinking
        self.calls = 0

    def answer(self, body: Mapping[str, Any]) -> list[Body]:
        """The content of an answer of the model: thinking, texts and sometimes calls."""
        said: list[Body] = [{"type": "thinking", "thinking": f"Thought {self.calls}."}]
        said += [text("Let me see.")] if self.chance.random() < 0.5 else []
        if self.chance.random() < 0.5:
            for _ in range(self.chance.choice((1, 1, 2, 3))):
                self.calls += 1
                said.append(call(f"toolu_{self.calls}"))
            return said
        return [*said, text(f"Answer {self.calls}.")]

    def question(self, number: int) -> Body:
        """What the user says, in one of the forms that it may have."""
        words = f"Question {number}."
        forms = [user(words), user(text("<note>"), text(words)), user(PICTURE, words), user(PAPER, words)]
        return self.chance.choice(forms)

    def results(self, calls: list[str]) -> Body:
        """The results of calls, with or without words beside them."""
        blocks: list[Any] = [
            result(one, self.chance.choice(("done", [text("done"), PICTURE]))) for one in calls
        ]
        return user(*blocks, *(["Go on."] if self.chance.random() < 0.2 else []))

    async def turn(self, made: ClaudeEndpoint, number: int) -> None:
        """Ask, and run tools until there is an answer."""
        self.history.append(self.question(number))
        if number == 0 or self.chance.random() < 0.2:
            self.history.append({"role": "system", "content": f"It is day {number}."})
        while True:
            content = await self.ask(made)
            self.history.append({"role": "assistant", "content": content})
            calls = [block["id"] for block in content if block["type"] == "tool_use"]
            if not calls:
                return
            self.history.append(self.results(calls))

    async def ask(self, made: ClaudeEndpoint) -> list[Body]:
        """Send the history, with a cache mark that moves, and give the content of the answer."""
        last = self.history[-1]
        content = [text(last["content"])] if isinstance(last["content"], str) else last["content"]
        marked = [*content[:-1], {**content[-1], **MARK}] if last["role"] == "user" else content
        sent: Any = [*self.history[:-1], {**last, "content": marked}]
        given: Any = {"model": MODEL, "max_tokens": 2000, "system": SYSTEM, "tools": TOOLS, "messages": sent}
        given["thinking"] = self.thinking
        async with made.sdk() as client:
            if self.chance.random() < 0.5:
                async with client.messages.stream(**given) as stream:
                    answer = await stream.get_final_message()
            else:
                answer = await client.messages.create(**given)
        return [block.to_dict(exclude_unset=True) for block in answer.content]


def without_marks(messages: list[Body]) -> list[Body]:
    """Messages as values: a mark is none, and a text is a block."""
    found = []
    for one in messages:
        blocks = [text(one["content"])] if isinstance(one["content"], str) else one["content"]
        kept = [{name: value for name, value in block.items() if name != "cache_control"} for block in blocks]
        found.append({**one, "content": kept})
    return found


@pytest.mark.parametrize(
    ("seed", "thinking"),
    [(0, {"type": "adaptive", "display": "omitted"}), (1, {"type": "enabled", "budget_tokens": 1024})],
)
async def test_no_request_of_a_long_talk_with_tools_is_refused(
    seed: int, thinking: Body, tmp_path: Path
) -> None:
    talk = Talk(random.Random(seed), thinking)
    upstream = ProviderServer(talk.answer)
    summary = {"floor": 6, "ceiling": 16}
    for part in range(3):
        # Twice the endpoint is started again in the middle of the talk.
        async with (
            Memory(f"sqlite:///{tmp_path}/memory.db") as memory,
            claude_endpoint(upstream, memory=memory, context_summary=summary) as made,
        ):
            for number in range(part * TURNS // 3, (part + 1) * TURNS // 3):
                await talk.turn(made, number)
                if talk.chance.random() < 0.7:
                    await made.app.settled()
            found = await made.stored()
    assert [request.error for request in upstream.refused] == []
    requests = [request.body["messages"] for request in upstream.requests]
    assert len(requests) > TURNS * 1.5
    [stored] = found.values()
    assert sum(one.startswith("Question") or "\nQuestion" in one for one in stored) == TURNS
    # What the model sees stays small, and has thinking, although most of a long talk is summarized.
    assert max(map(len, requests)) < len(talk.history) / 2
    thinks = ['"type": "thinking"' in json.dumps(one) for one in requests]
    assert sum(thinks) * 2 > len(requests)
    # Requests only grow, but for where a summary has come in.
    pairs = [(without_marks(before), without_marks(after)) for before, after in pairwise(requests)]
    ends = sum(after[: len(before)] != before for before, after in pairs)
    assert ends * 2 < len(requests)
