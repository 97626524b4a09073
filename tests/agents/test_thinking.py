"""Thinking goes back to the model that made it only behind an unchanged prefix, and is never refused."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import httpx
import pytest

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Model,
    SummarizedHistorySection,
    SystemInstructionsSection,
    ThinkingContent,
    tool,
)
from autonomy_ctx.errors import InvalidMessage, ThinkingRefused
from autonomy_ctx.formats.thinking import BINDING_BETA, binds_thinking
from autonomy_ctx.inspection import inspect_turn, list_turns
from autonomy_ctx.testing import ProviderRequest, ProviderServer, ScriptedModel

pytestmark = pytest.mark.anyio

CLAUDE, BEDROCK = "claude-opus-5-5", "us.anthropic.claude-opus-5-5-v1:0"
APIS = pytest.mark.parametrize("name", [CLAUDE, BEDROCK])
THOUGHT = {"type": "thinking", "thinking": ""}
HIDDEN = {"type": "redacted_thinking"}
# Models of all kinds: those that bind thinking to its prefix and those that do not.
MODELS = ("claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-2", "claude-opus-5", "claude-sonnet-4-6")


def said(text: str = "Yes.") -> dict[str, Any]:
    return {"type": "text", "text": text}


class Calls:
    """Tool calls under ids that no other call has."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, name: str = "look_up", **arguments: Any) -> dict[str, Any]:
        self.count += 1
        return {"type": "tool_use", "id": f"toolu_{self.count}", "name": name, "input": arguments}


@tool
def look_up(order: str = "") -> str:
    """Look up an order."""
    return f"order {order} was sent"


@tool
def cancel(order: str = "") -> str:
    """Cancel an order."""
    return f"order {order} is cancelled"


class NoteSection:
    """A section that says what the test wants."""

    name, enabled = "note", True

    def __init__(self, text: str = "", kind: str = "volatile") -> None:
        self.text, self.kind = text, kind

    async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> list[Any]:
        return [{"role": "system", "content": self.text}] if self.text else []


@asynccontextmanager
async def talking(
    server: ProviderServer,
    name: str = CLAUDE,
    *,
    note: NoteSection | None = None,
    context: Any = "log",
    **options: Any,
) -> AsyncIterator[Agent]:
    """An agent whose model is served by the server."""
    template = ContextTemplate(
        [SystemInstructionsSection("You help."), note or NoteSection(), ConversationHistorySection()]
    )
    async with server.client() as client:
        model = Model(name, client=client, api_key="key", **options)
        async with Agent(
            "shop", model=model, tools=[look_up], context_template=template, context=context
        ) as agent:
            yield agent


def sent_thinking(request: ProviderRequest) -> int:
    """How many thinking blocks a request carries."""
    return sum(
        block.get("type") in ("thinking", "redacted_thinking") or "reasoningContent" in block
        for message in request.body["messages"]
        for block in message["content"]
    )


def scripted(*replies: Sequence[Mapping[str, Any]]) -> ProviderServer:
    """A provider that gives these replies, the last one for ever."""
    waiting = list(replies)
    return ProviderServer(lambda body: waiting.pop(0) if len(waiting) > 1 else waiting[0])


@APIS
async def test_thinking_goes_back_while_nothing_before_it_changes(name: str) -> None:
    server = scripted([THOUGHT, said()])
    async with talking(server, name) as agent:
        for _ in range(4):
            await agent.send("And?")
    assert [sent_thinking(request) for request in server.requests] == [0, 1, 2, 3]
    assert not server.refused


@APIS
async def test_empty_thinking_with_a_signature_is_stored_and_sent_back(name: str) -> None:
    server = scripted([THOUGHT, HIDDEN, said()])
    async with talking(server, name) as agent:
        await agent.send("Is it there?")
        [_, answer] = [entry.message for entry in (await agent.memory.read("default", "default")).entries]
        await agent.send("And now?")
    first, hidden, _ = answer.parts
    assert isinstance(first, ThinkingContent)
    assert (first.text, bool(first.signature)) == ("", True)
    assert isinstance(hidden, ThinkingContent)
    assert hidden.redacted
    assert server.requests[-1].thinking == 2


@APIS
async def test_a_stable_section_that_changes_leaves_out_the_thinking_after_it_for_good(name: str) -> None:
    server, note = scripted([THOUGHT, said()]), NoteSection("It is Monday.", "stable")
    async with talking(server, name, note=note) as agent:
        await agent.send("One")
        note.text = "It is Tuesday."
        await agent.send("Two")
        # As it was at first: the first thinking would fit again, but it was left out once.
        note.text = "It is Monday."
        await agent.send("Three")
        await agent.send("Four")
        metrics = agent.get_metrics()
        shown = (await agent.explain(turn=None)).thinking
    assert [sent_thinking(request) for request in server.requests] == [0, 0, 0, 1]
    assert not server.refused
    assert metrics["thinking_left_out"] == 1 + 2 + 2
    assert metrics["thinking_refused"] == 0
    assert shown.left_out == {"the context before it has changed": 2}


async def test_the_newest_thinking_that_fits_goes_back_and_not_the_older_that_was_left_out() -> None:
    server, note = scripted([THOUGHT, said()]), NoteSection("It is Monday.", "stable")
    async with talking(server, note=note) as agent:
        await agent.send("One")
        note.text = "It is Tuesday."
        await agent.send("Two")
        await agent.send("Three")
    ids = [message["content"][0].get("signature") for message in server.requests[-1].body["messages"][1::2]]
    assert ids[0] is None
    assert ids[1] == server.requests[1].reply[0]["signature"]


@APIS
async def test_thinking_goes_on_from_the_newest_that_was_sent_over_what_was_left_out_in_between(
    name: str,
) -> None:
    server, note = scripted([THOUGHT, said()]), NoteSection("It is Monday.")
    async with talking(server, name, note=note) as agent:
        await agent.send("One")
        for day in ("Tuesday", "Monday"):
            note.text = f"It is {day}."
            await agent.send("And?")
        # Without the notes between the messages, only the first thinking stands behind what it was made with.
        fork = await agent.memory.fork("default", "default")
        for _ in range(3):
            await agent.send("And now?", conversation=fork)
    assert [sent_thinking(request) for request in server.requests] == [0, 1, 2, 1, 2, 3]
    assert not server.refused


@APIS
async def test_a_section_that_changes_is_appended_and_all_thinking_goes_back(name: str) -> None:
    server, note = scripted([THOUGHT, said()]), NoteSection("It is Monday.")
    async with talking(server, name, note=note) as agent:
        for day in ("Tuesday", "Wednesday", "Thursday"):
            await agent.send("And?")
            note.text = f"It is {day}."
        await agent.send("And now?")
    assert [sent_thinking(request) for request in server.requests] == [0, 1, 2, 3]
    assert not server.refused
    assert "It is Thursday." in json.dumps(server.requests[-1].body["messages"])


@APIS
async def test_thinking_between_texts_and_calls_keeps_its_place(name: str) -> None:
    call = Calls()
    reply = [THOUGHT, said("First."), call(order="1"), HIDDEN, said("Then."), THOUGHT, call(order="2")]
    server = scripted(reply, [THOUGHT, said()])
    async with talking(server, name) as agent:
        await agent.send("Look twice")
        await agent.send("And?")
    assert not server.refused
    # Three blocks of the first reply and one of the second.
    assert [request.thinking for request in server.requests] == [0, 3, 4]


@APIS
async def test_a_reply_that_was_cut_off_while_the_model_thought_is_sent_without_its_thinking(
    name: str,
) -> None:
    server = scripted([THOUGHT, said("Let me see."), THOUGHT], [THOUGHT, said()])
    async with talking(server, name) as agent:
        for text in ("One", "Two", "Three"):
            await agent.send(text)
    assert not server.refused
    assert [request.thinking for request in server.requests] == [0, 0, 1]


@APIS
async def test_in_manual_mode_a_loop_without_its_thinking_goes_on_without_thinking(name: str) -> None:
    call, note = Calls(), NoteSection("It is Monday.")

    def answer(body: Mapping[str, Any]) -> list[dict[str, Any]]:
        note.text = f"Message {len(body['messages'])}."
        return [THOUGHT, call()] if len(body["messages"]) < 3 else [said()]

    server = ProviderServer(answer)
    thinking = {"type": "enabled", "budget_tokens": 2000}
    options: dict[str, Any] = {"thinking": thinking}
    if name == BEDROCK:
        options = {"additionalModelRequestFields": options}
    async with talking(server, name, note=note, context="render", **options) as agent:
        await agent.send("Look")
    assert not server.refused
    first, second = (json.dumps(request.body) for request in server.requests)
    assert ("budget_tokens" in first, "budget_tokens" in second) == (True, False)


@APIS
async def test_a_provider_that_refuses_all_the_same_is_asked_once_more_and_never_again(name: str) -> None:
    server = scripted([THOUGHT, said()])
    async with talking(server, name) as agent:
        await agent.send("One")
        server.hidden_prefix = "a rule that only the provider knows"
        await agent.send("Two")
        await agent.send("Three")
        await agent.send("Four")
        metrics = agent.get_metrics()
        turns = await list_turns(agent.memory, "default", "default")
        report = await inspect_turn(agent.memory, "default", "default", turns[1].id)
        later = await inspect_turn(agent.memory, "default", "default", turns[2].id)
    assert [request.status for request in server.requests] == [200, 400, 200, 200, 200]
    assert metrics["thinking_refused"] == 1
    # The second time the provider dropped it; later thinking goes back.
    assert [reason["reason"] for reason in server.requests[2].transformations] == ["prefix_binding_mismatch"]
    assert [sent_thinking(request) for request in server.requests[3:]] == [1, 2]
    assert report.thinking.is_refused
    assert report.thinking.reasons == later.thinking.reasons == ("the provider refused it",)
    assert (later.thinking.left_out, later.thinking.is_refused) == (1, False)


async def test_refused_thinking_stays_out_also_after_a_reply_that_has_none() -> None:
    server = scripted([THOUGHT, said()], [said()], [THOUGHT, said()])
    async with talking(server) as agent:
        await agent.send("One")
        server.hidden_prefix = "changed"
        for text in ("Two", "Three", "Four"):
            await agent.send(text)
    assert [request.status for request in server.requests] == [200, 400, 200, 200, 200]
    assert [sent_thinking(request) for request in server.requests[3:]] == [0, 1]


async def test_the_beta_of_a_second_try_goes_beside_those_of_the_user() -> None:
    server = scripted([THOUGHT, said()])
    async with talking(server, headers={"anthropic-beta": "other-beta"}) as agent:
        await agent.send("One")
        server.hidden_prefix = "changed"
        await agent.send("Two")
    assert server.requests[-1].headers["anthropic-beta"] == f"other-beta,{BINDING_BETA}"


@pytest.mark.parametrize(
    "options",
    [
        # A gateway may not know the field, and some modes do not take it.
        {"base_url": "https://gateway.test"},
        {"thinking": {"type": "between_tools"}},
    ],
)
async def test_where_the_provider_cannot_drop_thinking_the_second_request_has_none(options: Any) -> None:
    server = scripted([THOUGHT, said()])
    async with talking(server, **options) as agent:
        await agent.send("One")
        server.hidden_prefix = "changed"
        await agent.send("Two")
    assert [request.status for request in server.requests] == [200, 400, 200]
    assert sent_thinking(server.requests[-1]) == 0
    assert BINDING_BETA not in json.dumps(dict(server.requests[-1].headers))


async def test_a_broken_signature_is_left_out_from_then_on() -> None:
    server = scripted([THOUGHT, said()])
    async with talking(server) as agent:
        await agent.send("One")
        server.secret = b"another secret"
        await agent.send("Two")
        await agent.send("Three")
    assert [request.status for request in server.requests] == [200, 400, 200, 200]
    assert [sent_thinking(request) for request in server.requests] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("name", "provider", "error", "first"),
    [
        (
            "gpt-5",
            "openai-responses",
            {"error": {"code": "invalid_encrypted_content", "message": "could not be verified"}},
            {
                "output": [
                    {"type": "reasoning", "id": "rs_1", "encrypted_content": "SECRET", "summary": []},
                    {"type": "message", "content": [{"type": "output_text", "text": "Yes."}]},
                ],
                "status": "completed",
            },
        ),
        (
            "gemini-3-pro",
            None,
            {"error": {"status": "INVALID_ARGUMENT", "message": "Invalid thought signature."}},
            {
                "candidates": [
                    {
                        "content": {
                            "parts": [
                                {"text": "hm", "thought": True, "thoughtSignature": "U0VDUkVU"},
                                {"text": "Yes.", "thoughtSignature": "U0VDUkVU"},
                            ]
                        },
                        "finishReason": "STOP",
                    }
                ]
            },
        ),
    ],
)
async def test_other_providers_are_asked_again_without_reasoning_too(
    name: str, provider: str | None, error: Any, first: Any
) -> None:
    bodies: list[str] = []
    secret = "SECRET" if provider else "U0VDUkVU"

    def respond(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content.decode())
        return httpx.Response(400, json=error) if secret in bodies[-1] else httpx.Response(200, json=first)

    async with httpx.AsyncClient(transport=httpx.MockTransport(respond)) as client:
        model = Model(name, provider=provider, client=client, api_key="key")
        async with Agent("shop", model=model) as agent:
            for text in ("One", "Two", "Three"):
                await agent.send(text)
            metrics = agent.get_metrics()
    # The third request has the thinking of the second reply, which this provider refuses, too.
    assert [secret in body for body in bodies] == [False, True, False, True, False]
    assert metrics["thinking_refused"] == 2


async def test_thinking_that_is_refused_twice_is_an_error_that_says_what_to_do() -> None:
    refusal = {"type": "error", "error": {"type": "invalid_request_error", "message": "Invalid signature"}}
    transport = httpx.MockTransport(lambda request: httpx.Response(400, json=refusal))
    async with httpx.AsyncClient(transport=transport) as client:
        model = Model(CLAUDE, client=client, api_key="key")
        with pytest.raises(ThinkingRefused, match="start a new conversation"):
            await model.complete_chat([{"role": "user", "content": "Hello"}])


@pytest.mark.parametrize("name", ["to_anthropic", "to_bedrock"])
async def test_with_a_client_of_your_own_the_request_says_whether_thinking_still_fits(name: str) -> None:
    server = scripted([THOUGHT, said()])
    note = NoteSection("It is Monday.")
    template = ContextTemplate([SystemInstructionsSection("You help."), note, ConversationHistorySection()])
    memory = Memory()
    model = {"to_anthropic": CLAUDE, "to_bedrock": BEDROCK}[name]
    path = "/v1/messages" if name == "to_anthropic" else f"/model/{BEDROCK}/converse"
    async with server.client() as client:
        for number, day in enumerate(["Monday", "Monday", "Tuesday", "Tuesday"]):
            note.text = f"It is {day}."
            await memory.append("ana", "trip", {"role": "user", "content": f"Question {number}"})
            context = await template.compose(memory, "ana", "trip")
            arguments = getattr(context, name)(model=model)
            body = arguments | ({"model": model, "max_tokens": 100} if name == "to_anthropic" else {})
            reply = (await client.post(f"https://claude.test{path}", json=body)).json()
            await memory.append("ana", "trip", reply, request=arguments)
    assert [sent_thinking(request) for request in server.requests] == [0, 1, 0, 1]
    assert not server.refused


async def test_a_request_goes_with_the_reply_of_a_client_alone() -> None:
    memory = Memory()
    with pytest.raises(InvalidMessage, match="request"):
        await memory.append("ana", "trip", {"role": "user", "content": "Hello"}, request={"messages": []})
    assert not (await memory.read("ana", "trip")).entries


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("", None),
        ("claude-opus-5-5", True),
        ("claude-opus-5-5-20260901", True),
        ("us.anthropic.claude-haiku-5-5-v1:0", True),
        ("claude-fable-5-1", True),
        ("claude-mythos-5", False),
        ("claude-opus-5", False),
        ("claude-opus-4-20250514", False),
        ("claude-sonnet-6", True),
        ("claude-3-5-sonnet-latest", False),
        ("claude-next", True),
        ("kimi-k3", False),
    ],
)
def test_current_claude_models_and_unknown_ones_bind_thinking(model: str, expected: bool | None) -> None:
    assert binds_thinking(model) is expected


# -- random conversations ------------------------------------------------------------------------


class Conversation:
    """A conversation that a seed decides: tool loops, summaries, sections, forks, restarts, other models."""

    def __init__(self, seed: int, *, bedrock: bool) -> None:
        self.random = random.Random(seed)
        self.bedrock = bedrock
        self.server = ProviderServer(self.answer)
        self.call = Calls()
        self.memory = Memory()
        self.note = NoteSection("It is minute 0.")
        self.tools = [look_up]
        self.model = MODELS[0]
        self.rules = "You help."
        self.conversation = "main"
        self.agent: Agent | None = None
        self.steps_left = 0

    def answer(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.steps_left -= 1
        if self.random.random() < 0.1:
            self.note.text = f"It is minute {self.random.randrange(3)}."
        thinks = [THOUGHT] * self.random.choice([0, 1, 1, 1, 2]) + [HIDDEN] * (self.random.random() < 0.1)
        if self.steps_left <= 0 or "tools" not in body:
            return [*thinks, said(f"Answer {self.call.count}.")]
        blocks: list[dict[str, Any]] = list(thinks)
        for _ in range(self.random.choice([1, 1, 2])):
            if self.random.random() < 0.3:
                blocks += [said("Let me see."), THOUGHT]
            blocks.append(self.call(self.random.choice(self.tools).name, order=str(self.call.count)))
        return blocks

    async def run(self, turns: int = 10) -> None:
        async with self.server.client() as client:
            for number in range(turns):
                if self.agent is None:
                    self.agent = self.make_agent(client)
                self.steps_left = self.random.choice([1, 1, 2, 3])
                await self.agent.send(f"Question {number}", scope="ana", conversation=self.conversation)
                if self.random.random() < 0.5:
                    await self.agent._background.idle()
                await self.disturb()
            if self.agent is not None:
                await self.agent.close()
        await self.memory.close()

    async def disturb(self) -> None:
        assert self.agent is not None
        match self.random.randrange(12):
            case 0:
                self.note.text = f"It is minute {self.random.randrange(3)}."
            case 1:
                self.conversation = await self.memory.for_agent("shop").fork("ana", self.conversation)
            case 2:
                self.model = self.random.choice(MODELS)
                await self.restart()
            case 3:
                self.tools = self.random.choice([[look_up], [look_up, cancel], [cancel, look_up]])
                await self.restart()
            case 4:
                self.rules = self.random.choice(["You help.", "You help with orders."])
                await self.restart()
            case 5:
                await self.restart()
            case 6:
                await self.memory.for_agent("shop").drop_last_turn("ana", self.conversation)

    async def restart(self) -> None:
        assert self.agent is not None
        await self.agent.close()
        self.agent = None

    def make_agent(self, client: httpx.AsyncClient) -> Agent:
        name = f"us.anthropic.{self.model}-v1:0" if self.bedrock else self.model
        model = Model(name, client=client, api_key="key")
        history = SummarizedHistorySection(
            ScriptedModel("The user asks about orders and gets answers."),
            floor=self.random.choice([1, 2, 4]),
            ceiling=self.random.choice([5, 8, 30]),
        )
        template = ContextTemplate([SystemInstructionsSection(self.rules), self.note, history])
        return Agent("shop", model=model, memory=self.memory, tools=self.tools, context_template=template)


def lost_thinking(requests: Sequence[ProviderRequest]) -> int:
    """How much thinking is missing from requests that only continue the one before with its reply."""
    lost = 0
    for request, later in pairwise(requests):
        before = bare(request, reply=True)
        if bare(later)[: len(before)] == before:
            expected = [*marks(request.body), *filter(None, map(mark, request.reply))]
            lost += len(set(expected) - set(marks(later.body)))
    return lost


def bare(request: ProviderRequest, *, reply: bool = False) -> list[str]:
    """A request block by block, without thinking and cache marks; optionally with its reply at the end."""
    body = request.body
    tools = body.get("tools") or body.get("toolConfig", {}).get("tools")
    flat: list[tuple[str, Any]] = [("head", [strip(body.get("system") or []), strip(tools or [])])]
    flat += [(one["role"], block) for one in body["messages"] for block in strip(one["content"])]
    if reply:
        flat += [("assistant", in_api(block, request)) for block in strip(request.reply)]
    return [json.dumps(one, sort_keys=True) for one in flat]


def in_api(block: dict[str, Any], request: ProviderRequest) -> dict[str, Any]:
    """A block of the Messages API in the words of the API that the request used."""
    if not request.path.startswith("/model/"):
        return block
    if block["type"] == "text":
        return {"text": block["text"]}
    return {"toolUse": {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}}


def strip(blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in block.items() if name != "cache_control"}
        for block in blocks
        if mark(block) is None and "cachePoint" not in block
    ]


def mark(block: Mapping[str, Any]) -> str | None:
    """The signature of a thinking block."""
    reasoning = block.get("reasoningContent", {})
    text = reasoning.get("reasoningText", {})
    found = text.get("signature") or reasoning.get("redactedContent")
    if block.get("type") in ("thinking", "redacted_thinking"):
        found = block.get("signature") or block.get("data")
    return found if isinstance(found, str) else None


def marks(body: Mapping[str, Any]) -> list[str]:
    return [found for one in body["messages"] for block in one["content"] if (found := mark(block))]


async def check_conversations(seeds: Sequence[int], *, bedrock: bool) -> None:
    kept = 0
    for seed in seeds:
        conversation = Conversation(seed, bedrock=bedrock)
        await conversation.run()
        server = conversation.server
        assert [request.error for request in server.refused] == [], f"seed {seed}"
        assert lost_thinking(server.requests) == 0, f"seed {seed}"
        kept += sum(request.thinking for request in server.requests)
    assert kept > len(seeds)


@pytest.mark.parametrize("bedrock", [False, True], ids=["messages", "converse"])
async def test_no_random_conversation_is_refused_or_loses_thinking_behind_an_unchanged_prefix(
    bedrock: bool,
) -> None:
    await check_conversations(range(20), bedrock=bedrock)


@pytest.mark.nightly
@pytest.mark.parametrize("bedrock", [False, True], ids=["messages", "converse"])
async def test_no_random_conversation_of_300_is_refused_or_loses_thinking(bedrock: bool) -> None:
    await check_conversations(range(1_000, 1_300), bedrock=bedrock)
