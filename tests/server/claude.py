"""A Claude behind real HTTP that has the provider's rules, a talk with it, and an endpoint before it.

The model is a script: it calls the tools that the user's message names, then tells what they returned. So
its answers do not depend on how much of the talk it was shown, apart from the one to `QUESTION`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from server.tenants import uvicorn_client

from autonomy_ctx.server import endpoint_app
from autonomy_ctx.server.endpoint.app import EndpointApp
from autonomy_ctx.testing import ProviderServer

MODEL = "claude-opus-5-5"
KEY = "sk-of-the-client"
TURNS = 60
# Of the endpoint, unless it is told otherwise. A summary, the user's message and a group of calls that is not
# divided stand beside the newest messages.
CEILING = 20
MOST_MESSAGES = 2 * CEILING + 6
FACT = "Remember: our code word is {}."
QUESTION = "What is our code word?"
SYSTEM = "You know all ferries. " * 20
TOOL: dict[str, Any] = {
    "name": "ferry_time",
    "description": "When a ferry leaves.",
    "input_schema": {"type": "object", "properties": {"pier": {"type": "string"}}, "required": ["pier"]},
}
# The arguments of a tool, from what is written behind its name.
_ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "ferry_time": ("pier", {}),
    "Read": ("file_path", {}),
    "Bash": ("command", {"description": "Runs a command."}),
    "Agent": ("prompt", {"description": "Looks it up.", "subagent_type": "general-purpose"}),
}
_SUMMARY = "<analysis>Read.</analysis>\n<summary>They talked. {}</summary>"


def prompt(turn: int, word: str = "heron") -> str:
    """What the user says in a turn; every third time, it needs a tool."""
    if turn == 1:
        return FACT.format(word)
    if turn == TURNS:
        return QUESTION
    return f"Question {turn}: which ferry next?" + (f"\nferry_time pier-{turn}" if turn % 3 == 0 else "")


def run_tool(arguments: Mapping[str, Any]) -> str:
    """What the client's tool returns."""
    return f"{arguments['pier']} leaves at nine"


def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The next step of what the newest message of the user asks for."""
    if "format" in (body.get("output_config") or {}):
        return [{"type": "text", "text": '{"title": "Ferries"}'}]
    asked, results = _find_prompt(body["messages"])
    known = re.search(r"code word is (\w+)", json.dumps([body.get("system"), body["messages"]]))
    word = f"It is {known[1]}." if known else "I do not know."
    if "Respond with TEXT ONLY" in asked:
        return [{"type": "text", "text": _SUMMARY.format(known[0] if known else "")}]
    thinking = [{"type": "thinking", "thinking": "I think."}] if "thinking" in body else []
    names = {tool["name"] for tool in body.get("tools") or ()} & set(_ARGUMENTS)
    lines = [line.strip().partition(" ") for line in asked.splitlines()]
    steps = [(name, rest) for name, _, rest in lines if name in names and rest]
    if len(results) < len(steps):
        name, rest = steps[len(results)]
        argument, others = _ARGUMENTS[name]
        call = hashlib.sha256(f"{asked}{len(results)}".encode()).hexdigest()[:12]
        use = {"type": "tool_use", "id": f"toolu_{call}", "name": name, "input": {argument: rest, **others}}
        return [*thinking, {"type": "text", "text": f"I use {name}."}, use]
    said = word if asked.endswith(QUESTION) else " ".join([f"To {asked.splitlines()[-1]!r}:", *results])
    return [*thinking, {"type": "text", "text": said}]


def _find_prompt(messages: Sequence[Mapping[str, Any]]) -> tuple[str, list[str]]:
    """The newest words of the user, and what the tools returned since."""
    results: list[str] = []
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        results[:0] = [text_of(one["content"]) for one in blocks if one["type"] == "tool_result"]
        texts = [one["text"] for one in blocks if one["type"] == "text"]
        texts = [one for one in texts if not one.lstrip().startswith("<system-reminder>")]
        if texts:
            return texts[-1], results
    return "", results


def text_of(content: Any) -> str:
    """A content as one text."""
    if isinstance(content, str):
        return content
    return " ".join(one["text"] for one in content if one["type"] == "text")


@dataclass
class ClaudeUpstream:
    """A `ProviderServer` whose next answers may be cut off after so many bytes."""

    provider: ProviderServer
    url: str = ""
    cuts: list[int] = field(default_factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
            return

        async def cut(message: Any) -> None:
            if self.cuts and message["type"] == "http.response.body":
                # Never ended: the connection is closed.
                message = {**message, "body": message["body"][: self.cuts.pop()], "more_body": True}
            await send(message)

        await self.provider(scope, receive, cut)

    @property
    def asked(self) -> list[Mapping[str, Any]]:
        """The bodies of the requests that were for an answer."""
        return [one.body for one in self.provider.requests if one.path == "/v1/messages"]

    def check(self, *allowed: int) -> None:
        """No request was refused, but with these statuses."""
        refused = [one for one in self.provider.refused if one.status not in allowed]
        assert [(one.path, one.error) for one in refused] == []


@asynccontextmanager
async def claude(provider: ProviderServer | None = None, **options: Any) -> AsyncIterator[ClaudeUpstream]:
    """The provider on loopback."""
    server = ClaudeUpstream(provider or ProviderServer(answer, **options))
    async with uvicorn_client(server) as client:
        server.url = str(client.base_url).rstrip("/")
        yield server


@dataclass(frozen=True)
class ClaudeEndpoint:
    """An endpoint in front of it, and the URL that a client is given."""

    app: EndpointApp
    url: str
    upstream: ClaudeUpstream

    async def stored(self) -> dict[str, list[str]]:
        """The texts of each conversation."""
        memory, found = self.app.memory, {}
        for one in await memory.conversations("ana"):
            window = await memory.read("ana", one.conversation, limit=1000)
            found[one.conversation] = [entry.message.text for entry in window.entries]
        return found


@asynccontextmanager
async def claude_endpoint(upstream: ClaudeUpstream, **options: Any) -> AsyncIterator[ClaudeEndpoint]:
    """The endpoint that the tests are about."""
    app = endpoint_app(f"{upstream.url}/v1", scope="ana", **options)
    async with uvicorn_client(app) as client:
        yield ClaudeEndpoint(app, str(client.base_url).rstrip("/"), upstream)


def without_bound_parts(content: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The blocks of an answer without signatures, which depend on all that the model was shown."""
    return [{name: one[name] for name in one if name != "signature"} for one in content]
