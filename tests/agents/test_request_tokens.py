"""Every token of a request is attributed: the parts of a context are the count of what the provider got."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import (
    Agent,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    KnowledgeSection,
    Memory,
    Message,
    Model,
    RecallSection,
    SummarizedHistorySection,
    SystemInstructionsSection,
    tool,
)
from autonomy_ctx.agents.explain import RECORD_KIND
from autonomy_ctx.engine import ContextEngine, SourcedMessage
from autonomy_ctx.inspection import TurnReport, inspect_turn
from autonomy_ctx.knowledge.text import TextKnowledge
from autonomy_ctx.memory.store import Key, RecordDraft
from autonomy_ctx.messages.tokens import PER_CALL, PER_MESSAGE, PER_TOOL
from autonomy_ctx.template import BudgetReport
from autonomy_ctx.testing import ProviderServer, ScriptedModel
from autonomy_ctx.tokens import TextCounter, TokenCounter

PLACE = ("ana", "trip")
# Each text of a summary stands between marks, which are not counted.
SUMMARY_TEXT = re.compile(r"<(summary [0-9a-f]{16})>\n(.*?)\n</\1>", re.DOTALL)


@tool
def find_beds(city: str, nights: int = 1) -> str:
    """Find a place to sleep.

    Args:
        city: Where to look.
        nights: How long the stay is.
    """
    return f"the {city} hostel has {nights + 2} beds"


@dataclass
class Trip:
    """A trip.

    Args:
        days: How long it is.
    """

    days: int
    city: str = "Rome"


def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Call the tool once in each turn, if it is offered; then answer, as a trip if one is asked for."""
    messages = body["messages"]
    offered = [one["function"]["name"] for one in body.get("tools", ())]
    if "find_beds" in offered and messages[-1]["role"] == "user":
        call = {"city": "Rome", "nights": len(messages)}
        return [{"type": "tool_use", "id": f"call_{len(messages)}", "name": "find_beds", "input": call}]
    return [{"type": "text", "text": '{"days": 3, "city": "Rome"}' if "response_format" in body else "Done."}]


def count_text(count: TextCounter, content: Any) -> int:
    if isinstance(content, list):
        return sum(count_text(count, part["text"]) for part in content)
    texts = [found[2] for found in SUMMARY_TEXT.finditer(content or "")]
    return sum(map(count.count, texts or [content or ""]))


def count_body(body: Mapping[str, Any], count: TextCounter, factor: float) -> dict[str, int]:
    """Count a request of chat completions as it came, without the help of what made it."""
    messages, names = 0, dict[str, str]()
    for message in body["messages"]:
        tokens = PER_MESSAGE + count_text(count, message.get("content"))
        for call in message.get("tool_calls", ()):
            names[call["id"]] = call["function"]["name"]
            tokens += PER_CALL + sum(map(count.count, call["function"].values()))
        if message["role"] == "tool":
            # A result is counted with the name of its tool.
            tokens += count.count(names[message["tool_call_id"]])
        messages += ceil(tokens * factor)
    tools = [one["function"] for one in body.get("tools", ())]
    asked = body.get("response_format")
    schemas = [asked["json_schema"]["schema"]] if asked else []
    beside = {
        name: ceil(factor * sum(PER_TOOL + count.count(json.dumps(one)) for one in sent))
        for name, sent in (("tools", tools), ("output_schema", schemas))
    }
    return {"messages": messages, **beside}


def assert_attributed(context: ComposedContext, body: Mapping[str, Any], counter: TokenCounter) -> None:
    """The parts of a context add up to the count of the request, each of them."""
    counted = count_body(body, counter.text_counter, context.calibration)
    parts = context.parts()
    assert context.request_tokens == sum(parts.values()) == sum(counted.values())
    assert context.tokens == sum(context.counts) == counted["messages"]
    assert context.tool_tokens == parts.get("tools", 0) == counted["tools"]
    assert parts.get("output_schema", 0) == counted["output_schema"]
    names = [one["function"]["name"] for one in body.get("tools", ())]
    assert [name for one in context.definitions or () if one.name == "tools" for name in one.items] == names


def assert_reported(report: TurnReport, context: ComposedContext) -> None:
    """The report of a turn has the same numbers."""
    sections, beside = (sum(one.tokens for one in some) for some in (report.sections, report.definitions))
    assert report.request_tokens == context.request_tokens == sections + beside
    assert report.tool_tokens == context.tool_tokens


async def talk(agent: Agent, server: ProviderServer, texts: Sequence[str], **options: Any) -> None:
    """Send texts; each request is compared with the context of its step, which is read from its record."""
    counter = agent.memory.token_counter
    for text in texts:
        first = len(server.requests)
        reply = await agent.send(text, scope="ana", conversation="trip", **options)
        await agent.context_template.settled()
        sent = server.requests[first:]
        assert len(sent) == reply.steps
        for step, request in enumerate(sent, 1):
            context = await agent.explain(reply.turn, step=step, scope="ana", conversation="trip")
            assert_attributed(context, request.body, counter)
        assert_reported(await inspect_turn(agent.memory, *PLACE, reply.turn), context)


QUESTIONS = [f"Where do we sleep on day {day}, and do we still keep to 900 euros?" for day in range(1, 4)]


def model_of(server: ProviderServer, name: str = "gpt-5") -> Model:
    return Model(name, provider="openai", client=server.client(), api_key="k")


@pytest.mark.parametrize("name", ["gpt-5", "of-an-unknown-window"])
@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"builtin_tools": ()}, id="no tools"),
        pytest.param({"tools": [find_beds], "builtin_tools": ()}, id="one tool"),
        pytest.param({"tools": [find_beds], "limits": {"context_tokens": 500}}, id="a budget"),
        pytest.param({"tools": [find_beds], "context": "render"}, id="without epochs"),
    ],
)
async def test_every_token_of_an_agent_is_attributed(
    name: str, options: dict[str, Any], memory: Memory
) -> None:
    server = ProviderServer(answer)
    model = model_of(server, name)
    async with Agent("guide", "You plan trips.", model=model, memory=memory, **options) as agent:
        await talk(agent, server, QUESTIONS)
        last = await agent.explain(scope="ana", conversation="trip")
        preview = await agent.preview(scope="ana", conversation="trip")
        assert preview.parts().keys() == last.parts().keys()
        # An agent whose window is not known has no budget of its own.
        assert (last.budget is None) is (model.context_window is None and "limits" not in options)
        assert last.budget is None or last.budget.used == last.request_tokens


async def test_summaries_facts_recall_and_knowledge_are_attributed(memory: Memory) -> None:
    server, counter = ProviderServer(answer), memory.token_counter
    model = model_of(server)
    knowledge = TextKnowledge()
    await knowledge.add("The hostel in Rome lets you sleep for 30 euros.", source="hostels")
    template = ContextTemplate(
        [
            SystemInstructionsSection("You plan trips."),
            KnowledgeSection(knowledge),
            SummarizedHistorySection(ScriptedModel("They sleep in hostels."), floor=2, ceiling=4),
            RecallSection(),
        ]
    )
    options: dict[str, Any] = {"tools": [find_beds], "context_template": template}
    async with Agent("guide", model=model, memory=memory, **options) as agent:
        await talk(agent, server, ["Please never book a hotel. The budget is 900 euros.", *QUESTIONS * 2])
        context = await agent.explain(scope="ana", conversation="trip")
    await knowledge.close()
    # All of it is there.
    assert context.facts
    assert {name for name, tokens in context.parts().items() if tokens} == {
        *("system_instructions", "knowledge", "conversation_history", "recall", "tools"),
    }
    assert counter.calibration.reports


@pytest.mark.parametrize("tools", [[], [find_beds]], ids=["alone", "with a tool"])
async def test_the_schema_of_an_answer_is_attributed(tools: list[Any], memory: Memory) -> None:
    server = ProviderServer(answer)
    model = model_of(server)
    async with Agent("guide", "You plan trips.", tools, model=model, memory=memory) as agent:
        await talk(agent, server, QUESTIONS[:1])
        await talk(agent, server, QUESTIONS[1:2], output=Trip)
        context = await agent.explain(scope="ana", conversation="trip")
        assert [one.items for one in context.definitions or ()][-1] == ("Trip",)
        # The window is known: what goes beside the messages leaves less for them.
        budget = context.budget
        assert budget is not None
        assert budget.limit == budget.max_tokens - budget.tools - budget.output_schema
        assert budget.output_schema > 0
        await talk(agent, server, QUESTIONS[2:])
        assert "output_schema" not in (await agent.explain(scope="ana", conversation="trip")).parts()


async def test_a_call_of_a_framework_is_attributed(tmp_path: Path) -> None:
    server = ProviderServer(answer)
    instructions = [SourcedMessage(Message("system", "You plan trips."))]
    key, said = Key("guide", *PLACE), list[SourcedMessage]()
    url = f"sqlite:///{tmp_path}/memory.db"
    for question in QUESTIONS:
        said += [SourcedMessage(Message("user", question))]
        # Each call in a process of its own.
        async with ContextEngine(scope="ana", memory=url, agent="guide") as engine, server.client() as client:
            made = await engine.compose(key, said, instructions=instructions, tools=[find_beds.spec])
            body = made.composed.to_openai(tools=made.tools) | {"model": "gpt-5"}
            await client.post("https://provider/v1/chat/completions", json=body)
            explained = await engine.explain("trip")
            assert_attributed(explained, server.requests[-1].body, engine.memory.token_counter)
            assert explained.tool_tokens
        said += [SourcedMessage(Message("assistant", "Done."))]
    assert server.refused == []


class CountingCounter:
    """Counts words, and keeps the texts that it was asked to count."""

    name = "words"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, text: str) -> int:
        self.texts.append(text)
        return len(text.split())


@pytest.mark.parametrize("max_tokens", [None, 5000], ids=["no budget", "a budget"])
async def test_tools_are_counted_once_while_they_stay_the_same(max_tokens: int | None) -> None:
    counter = CountingCounter()
    memory = Memory(token_counter=TokenCounter(counter))
    template = ContextTemplate([ConversationHistorySection()], max_tokens=max_tokens)
    context: ComposedContext | None = None
    for text in ("one", "two", "three"):
        await memory.append(*PLACE, Message("user", text))
        context = await template.compose(memory, *PLACE, previous=context, tools=[find_beds])
        assert context.tool_tokens
    assert counter.texts.count(json.dumps(find_beds.spec)) == 1
    other = {**find_beds.spec, "name": "find_more_beds"}
    assert (await template.compose(memory, *PLACE, previous=context, tools=[other])).definitions
    assert counter.texts.count(json.dumps(other)) == 1


@pytest.mark.parametrize("tools", [None, 40], ids=["no budget", "a budget"])
async def test_records_from_before_are_read_as_they_are(tools: int | None, memory: Memory) -> None:
    async with Agent("guide", "You plan trips.", model=ScriptedModel("Done."), memory=memory) as agent:
        reply = await agent.send("Hello", scope="ana", conversation="trip")
        key, view = Key("guide", *PLACE), agent.memory
        [record] = await view.store.read_records(key, RECORD_KIND)
        [form] = json.loads(record.body)
        del form["definitions"]
        if tools is not None:
            form["budget"] = {"max_tokens": 500, "reserve_output": 0, "tools": 40, "limit": 460, "used": 90}
        draft = RecordDraft(RECORD_KIND, reply.turn, json.dumps([form]), keep=1, derived=True)
        await view.store.append(key, (), [draft])

        context = await agent.explain(scope="ana", conversation="trip")
        assert context.tool_tokens == tools
        assert context.request_tokens == context.tokens + (tools or 0)
        if tools is not None:
            assert context.budget == BudgetReport(
                max_tokens=500, reserve_output=0, tools=40, limit=460, used=90
            )
        report = await inspect_turn(view, *PLACE)
        assert report.tool_tokens == tools
        assert report.request_tokens == (None if tools is None else context.tokens + tools)
