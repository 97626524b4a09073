"""A provider with a prompt cache, and what it would bill: the cost of a conversation without any network.

It caches what providers say they do: the beginning of a request, byte for byte, in steps of 128 tokens from
1,024 on. A token read costs 1, a cached one a tenth, a written one 5.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx import Message
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.token_estimate import estimate_tokens
from benchmarks.fact_model import FACTS
from benchmarks.honest import asked, summary_of
from benchmarks.model_server import common

STEP, LEAST = 128, 1024
CACHED, OUTPUT = 0.1, 5.0
# How many of the newest requests are looked through: those that share most are among them.
KEPT = 24
_PASS_PHRASE = re.compile(r"The (pass phrase of customer C-\d{4} is zephyr-\d+)\.")
_MARKED = re.compile(r"<message ([0-9a-f]{16})>\n(.*?)\n</message \1>", re.DOTALL)


class Provider:
    """Reads requests, remembers their beginnings, and adds up what they cost."""

    def __init__(self) -> None:
        self.sent = self.cached = self.output = 0
        self._requests: list[str] = []

    @property
    def cost(self) -> float:
        return self.sent - self.cached + CACHED * self.cached + OUTPUT * self.output

    @property
    def share(self) -> float:
        return self.cached / self.sent

    def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        answer: str,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Bill one request and its answer."""
        text = "\n".join([*map(json.dumps, tools), rendered(messages)])
        alike = max((common(text, known) for known in self._requests), default=0)
        shared = estimate_tokens(text[:alike]) // STEP * STEP
        self.sent += estimate_tokens(text)
        self.cached += shared if shared >= LEAST else 0
        self.output += estimate_tokens(answer)
        self._requests = [*self._requests[1 - KEPT :], text]

    def forget(self) -> None:
        """What a pause does that is longer than the cache lives."""
        self._requests = []


class BilledModel:
    """Writes honest summaries and has them billed; knows which task a turn runs in."""

    name = "billed"

    def __init__(self, provider: Provider, turns: asyncio.Task[Any] | None) -> None:
        self._provider, self._turns = provider, turns
        self.calls = 0
        # Calls that were made by the turn itself, which had to wait for them.
        self.waited = 0

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, max_tokens: int = 2048
    ) -> str:
        self.calls += 1
        self.waited += asyncio.current_task() is self._turns
        text = self._answer(messages, max_tokens)
        self._provider.ask(messages, text)
        return text

    def _answer(self, messages: Sequence[Mapping[str, Any]], most: int) -> str:
        return summary_of(named_stretch(messages) or messages, most)


class FactWriter(BilledModel):
    """Writes honest summaries and, where it is asked for facts, each pass phrase that it reads as one."""

    def _answer(self, messages: Sequence[Mapping[str, Any]], most: int) -> str:
        text = super()._answer(messages, most)
        prompt = "\n".join(str(message.get("content") or "") for message in messages)
        said = _PASS_PHRASE.findall(asked(named_stretch(messages) or messages, most).source)
        if FACTS not in prompt or not said:
            return text
        return "\n".join([text, FACTS, *(f"+ value: {one}" for one in dict.fromkeys(said))])


def rendered(messages: Sequence[Message | Mapping[str, Any]]) -> str:
    """Messages as one text: roles, parts in order, calls."""
    lines: list[str] = []
    for given in messages:
        message = wire.from_dict(given)
        lines.append(f"<{message.role.value}>")
        # No text and an empty one are the same to a model.
        lines += filter(None, (getattr(part, "text", "") for part in message.parts))
        lines += [f"{call.name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(lines)


def named_stretch(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of a context with a question after it: the stretch that the question names, and the question."""
    *context, asked = messages
    marks = [text.partition(": ")[2].strip() for _, text in _MARKED.findall(str(asked["content"]))]
    told = [rendered([message]).partition("\n")[2].strip() for message in context]
    if marks:
        start = _beginning(told, marks[0], 0)
        end = len(told) - 1 if len(marks) == 1 else _beginning(told, marks[1], start)
        return [_block("\n\n".join(told[start : end + 1])), asked]
    return []


def _block(text: str) -> Mapping[str, Any]:
    secret = "0" * 16
    return {"role": "user", "content": f"<conversation {secret}>\n{text}\n</conversation {secret}>"}


def _beginning(told: Sequence[str], mark: str, start: int) -> int:
    return next(at for at in range(start, len(told)) if told[at].startswith(mark))
