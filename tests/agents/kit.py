"""What the tests of agents share: replies of a model, and a judge of histories."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import count
from typing import Any

from formats.rules import google_rules, openai_rules, responses_rules
from formats.rules_anthropic import anthropic_rules, bedrock_rules

from autonomy_ctx import ChatRole, ContextItem, Memory, Message, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.formats.anthropic import AnthropicFormat
from autonomy_ctx.formats.base import Format, RequestOptions
from autonomy_ctx.formats.bedrock import BedrockFormat
from autonomy_ctx.formats.google import GoogleFormat
from autonomy_ctx.formats.openai import OpenAIFormat
from autonomy_ctx.formats.openai_responses import ResponsesFormat

Reply = dict[str, Any]
PROVIDERS: list[tuple[str, Format, Callable[..., None]]] = [
    ("gpt-x", OpenAIFormat(), openai_rules),
    ("gpt-x", ResponsesFormat(), responses_rules),
    ("claude-x", AnthropicFormat(), anthropic_rules),
    ("us.anthropic.claude-x", BedrockFormat(), bedrock_rules),
    ("gemini-2.5-pro", GoogleFormat(), google_rules),
]
_numbers = count(1)


def call(name: str, /, **arguments: Any) -> Reply:
    """One call, under an id that no other has."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"id": f"call-{next(_numbers)}", "type": "function", "function": function}


def calls(*made: Reply, text: str | None = None) -> Reply:
    """A reply that calls tools."""
    return {"role": "assistant", "content": text, "tool_calls": list(made)}


def assert_valid(messages: Sequence[Message]) -> None:
    """All five providers would take this history, with something said after it."""
    history = [*messages, Message("user", "and now?")]
    for model, format_, rules in PROVIDERS:
        rules(format_.request(model, history, RequestOptions()).body)


async def stored(memory: Memory, scope: str = "default", conversation: str = "default") -> list[Message]:
    return [entry.message for entry in (await memory.read(scope, conversation)).entries]


def spoken(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Who said what."""
    return [(message.role.value, message.text) for message in messages]


def users(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.role is ChatRole.USER]


def made(memory: Memory, model: Any, *tools: Any, **options: Any) -> Agent:
    return Agent("helper", "Helps.", tools, model=model, memory=memory, **options)


@tool
def add_up(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def broken() -> str:
    """Fail."""
    raise RuntimeError("the pipe is frozen")


@tool
async def find_things(pool: Any) -> AsyncIterator[Any]:
    """Find things."""
    yield ContextItem({"rows": [1, 2]}, "a table", "table")
    yield ContextItem("a remark")
    yield f"{len(pool)} there before"


@tool
def find_report() -> ContextItem[str]:
    """Find one thing."""
    return ContextItem("all of a long report", "a report", "report")
