"""Long talks of clients in front of a provider with another API and the rules of today's models.

The provider refuses a changed prefix of thinking, an incomplete loop, and calls without results.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import openai
import pytest
from server.anthropic_endpoint import ClaudeEndpoint, claude_endpoint

from autonomy_ctx import Memory
from autonomy_ctx.server.endpoint.translation import UpstreamApi
from autonomy_ctx.testing import ProviderServer

TURNS = 24
MODELS = {"messages": "claude-opus-5-5", "responses": "gpt-5.6-sol", "chat": "gpt-5.6-sol"}
# More words than the least that is cached.
RULES = "Be brief. " * 400
PARAMETERS = {"type": "object", "properties": {"name": {"type": "string"}}}


class Talk:
    """A client with tools that sends its whole history, and a model that thinks and calls tools."""

    def __init__(self, chance: random.Random, model: str) -> None:
        self.history: list[Any] = []
        self.chance, self.model, self.calls = chance, model, 0

    def answer(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The content of an answer of the model."""
        said: list[dict[str, Any]] = [{"type": "thinking", "thinking": f"Thought {self.calls}."}]
        said += [{"type": "text", "text": "Let me see."}] if self.chance.random() < 0.5 else []
        if self.chance.random() < 0.5:
            for _ in range(self.chance.choice((1, 2))):
                self.calls += 1
                called = {"type": "tool_use", "id": f"call_{self.calls}", "name": "run"}
                said.append({**called, "input": {"name": "π"}})
            return said
        return [*said, {"type": "text", "text": f"Answer {self.calls}."}]

    async def turn(self, made: ClaudeEndpoint, number: int) -> None:
        """Ask, and run tools until there is an answer."""
        self.history.append({"role": "user", "content": f"Question {number}."})
        while calls := await self.send(made, stream=self.chance.random() < 0.5):
            self.history += [self.result(one) for one in calls]

    def result(self, call: str) -> dict[str, Any]:
        return {"role": "tool", "tool_call_id": call, "content": "done"}

    async def send(self, made: ClaudeEndpoint, *, stream: bool) -> list[str]:
        """Send the history of chat completions; the ids of the calls in the answer."""
        tool: Any = {"type": "function", "function": {"name": "run", "parameters": PARAMETERS}}
        system: Any = {"role": "system", "content": RULES}
        base = str(made.http.base_url).rstrip("/")
        given: Any = {"model": self.model, "messages": [system, *self.history], "tools": [tool]}
        given["reasoning_effort"] = "high"
        async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client:
            if stream:
                async with client.chat.completions.stream(**given) as events:
                    found: Any = await events.get_final_completion()
            else:
                found = await client.chat.completions.create(**given)
        message = found.choices[0].message
        calls = message.tool_calls or []
        functions = [
            (one.id, {"name": one.function.name, "arguments": one.function.arguments}) for one in calls
        ]
        kept = [{"id": name, "type": "function", "function": one} for name, one in functions]
        said = {"role": "assistant", "content": message.content}
        self.history.append(said | ({"tool_calls": kept} if kept else {}))
        return [one["id"] for one in kept]


class ResponsesTalk(Talk):
    """The same with Responses."""

    def result(self, call: str) -> dict[str, Any]:
        return {"type": "function_call_output", "call_id": call, "output": "done"}

    async def send(self, made: ClaudeEndpoint, *, stream: bool) -> list[str]:
        tool: Any = {"type": "function", "name": "run", "parameters": PARAMETERS, "strict": False}
        base = str(made.http.base_url).rstrip("/")
        given: Any = {"model": self.model, "input": self.history, "tools": [tool], "store": False}
        given |= {"instructions": RULES, "reasoning": {"effort": "high"}}
        async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client:
            if stream:
                async with client.responses.stream(**given) as events:
                    found: Any = await events.get_final_response()
            else:
                found = await client.responses.create(**given)
        self.history += [
            one.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for one in found.output
        ]
        return [one.call_id for one in found.output if one.type == "function_call"]


def without_marks(value: Any) -> Any:
    """A value without cache marks."""
    if isinstance(value, list):
        return [without_marks(one) for one in value]
    if isinstance(value, dict):
        return {name: without_marks(one) for name, one in value.items() if name != "cache_control"}
    return value


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("kind", "api"),
    [(Talk, "messages"), (ResponsesTalk, "messages"), (Talk, "responses"), (ResponsesTalk, "chat")],
)
async def test_no_request_of_a_translated_talk_is_refused(
    kind: type[Talk], api: UpstreamApi, seed: int, tmp_path: Path
) -> None:
    talk = kind(random.Random(seed), MODELS[api])
    upstream = ProviderServer(talk.answer)
    summary = {"floor": 6, "ceiling": 16}
    for part in range(2):
        # The endpoint is started again in the middle of the talk.
        async with (
            Memory(f"sqlite:///{tmp_path}/memory.db") as memory,
            claude_endpoint(upstream, memory=memory, context_summary=summary, upstream_api=api) as made,
        ):
            for number in range(part * TURNS // 2, (part + 1) * TURNS // 2):
                await talk.turn(made, number)
                if talk.chance.random() < 0.7:
                    await made.app.settled()
            [stored] = (await made.stored()).values()
    assert [request.error for request in upstream.refused] == []
    assert sum(one.startswith("Question") for one in stored) == TURNS
    bodies = [request.body for request in upstream.requests]
    requests = [without_marks(body["input"] if "input" in body else body["messages"]) for body in bodies]
    # Thinking goes back to the provider that made it.
    if api != "chat":
        kinds = ('"type": "thinking"', '"type": "reasoning"')
        thinks = [any(one in json.dumps(request) for one in kinds) for request in requests]
        assert sum(thinks) * 2 > len(requests)
    # Requests only grow, but for where a summary has come in.
    ends = sum(after[: len(before)] != before for before, after in pairwise(requests))
    assert ends * 2 < len(requests)
    if api == "messages":
        assert sum(request.cached > 0 for request in upstream.requests) * 2 > len(requests)
