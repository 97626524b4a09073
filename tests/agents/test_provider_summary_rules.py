"""Random conversations whose summaries the provider writes as well: nothing is refused or shown again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest
from agents.epoch_talk import TextSection

from autonomy_ctx import (
    Agent,
    ContextTemplate,
    Memory,
    Model,
    SummarizedHistorySection,
    SystemInstructionsSection,
    tool,
)
from autonomy_ctx.errors import SharedTurn
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.testing import ProviderRequest, ProviderServer, ScriptedModel

pytestmark = pytest.mark.anyio

CLAUDES = ("claude-opus-5-5", "claude-opus-5-5", "claude-sonnet-5-5", "claude-fable-5-2", "claude-opus-5")
GPTS = ("gpt-6.1-sol", "gpt-6.1-sol", "gpt-5.4")
FAILURES = ("max_tokens", "refusal", "tool_use", "end_turn", "unavailable")
BINDING: dict[str, Any] = {
    "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}},
    "headers": {"anthropic-beta": "thinking-binding-controls-2026-08-01"},
}


@tool
def look_up(order: str = "") -> str:
    """Look up an order."""
    return f"order {order} was sent"


class Answered(NamedTuple):
    """A request of a turn: its context, and what the provider got."""

    conversation: str
    context: ComposedContext
    request: ProviderRequest


class Conversation:
    """One conversation, with all that can happen to it."""

    def __init__(self, seed: int, models: Sequence[str], url: str) -> None:
        self.random = Random(seed)
        self.models, self.url = models, url
        self.model = self.random.choice(models)
        self.server = ProviderServer(self.answer)
        self.clock = TextSection("clock", text="It is 0:00.")
        self.rule = TextSection("rule", "stable", "Be brief.")
        self.notes = TextSection("notes", "slow", "Likes tea.\n" + "And ferries.\n" * 80)
        self.found = TextSection("found", says="adds")
        self.is_clock_first = self.random.random() < 0.3
        self.conversation = "trip"
        self.steps = self.calls = 0
        # What must not be sent again, and the requests that were answered.
        self.gone: list[str] = []
        self.answered: list[Answered] = []
        self.memory = Memory(url)
        self.agent: Agent | None = None

    def answer(self, body: Mapping[str, Any]) -> list[dict[str, Any]]:
        thinks = [{"type": "thinking", "thinking": ""}] * self.random.choice([0, 1, 1, 2])
        if self.steps <= 0 or "tools" not in body or "compaction" in body:
            return [*thinks, {"type": "text", "text": "Yes."}]
        self.steps -= 1
        self.calls += 1
        call = {"type": "tool_use", "id": f"toolu_{self.calls}", "name": "look_up", "input": {}}
        return [*thinks, call]

    @property
    def where(self) -> dict[str, Any]:
        return {"scope": "ana", "conversation": self.conversation}

    def make_agent(self, client: httpx.AsyncClient) -> Agent:
        is_gpt = self.model.startswith("gpt")
        model = Model(
            self.model,
            provider="openai-responses" if is_gpt else None,
            client=client,
            api_key="key",
            retries=0,
            **({} if is_gpt else BINDING),
        )
        floor = self.random.choice([2, 4])
        history = SummarizedHistorySection(
            ScriptedModel("They talked about orders."),
            floor=floor,
            ceiling=self.random.choice([6, 9]),
            hard_limit=40,
            writer="provider",
            reader=model,
        )
        sections = [self.rule, self.notes, self.found]
        first = [self.clock] if self.is_clock_first else []
        last = [] if self.is_clock_first else [self.clock]
        rules = SystemInstructionsSection("You help.")
        template = ContextTemplate([rules, *first, history, *sections, *last])
        return Agent("shop", model=model, memory=self.memory, tools=[look_up], context_template=template)

    async def run(self, turns: int = 16) -> None:
        async with self.server.client() as client:
            for number in range(turns):
                if self.agent is None:
                    self.agent = self.make_agent(client)
                await self.turn(self.agent, number)
                if self.random.random() < 0.6:
                    await self.agent.context_template.settled()
                await self.disturb(self.agent, number)
            await self.restart()
        await self.memory.close()

    async def turn(self, agent: Agent, number: int) -> None:
        self.steps = self.random.choice([0, 0, 1, 3])
        if self.random.random() < 0.4:
            self.clock.text = f"It is {number}:00."
        if self.random.random() < 0.3:
            self.found.text = f"Found {number}."
        before = len(self.server.requests)
        reply = await agent.send(f"secret-{number}-", **self.where)
        assert reply.text == "Yes."
        sent = [one for one in self.server.requests[before:] if is_turn(one)]
        assert len(sent) == reply.steps
        for step, request in enumerate(sent, start=1):
            context = await agent.explain(reply.turn, step=step, **self.where)
            self.answered.append(Answered(self.conversation, context, request))
        for text in self.gone:
            assert all(text not in json.dumps(one.body) for one in self.server.requests[before:]), text
        shown = json.dumps(sent[0].body)
        rules = [fact.text for fact in await agent.facts(**self.where) if fact.source == "user"]
        for text in (self.clock.text, self.rule.text, "And ferries", *rules):
            assert text in shown, text

    async def disturb(self, agent: Agent, number: int) -> None:
        memory = agent.memory
        match self.random.randrange(16):
            case 0:
                fork = await agent.fork(**self.where)
                self.conversation = fork
                # It goes on from the requests of its parent.
                if self.answered:
                    self.answered.append(self.answered[-1]._replace(conversation=fork))
            case 1:
                self.model = self.random.choice(self.models)
                await self.restart()
            case 2:
                await self.restart(forgets=True)
            case 3:
                with suppress(SharedTurn):
                    await self.delete_newest(agent)
            case 4:
                entries = (await memory.read("ana", self.conversation)).entries
                users = [one for one in entries if one.message.role.value == "user"]
                chosen = self.random.choice(users)
                await agent.delete_message(chosen.message.id, **self.where)
                self.gone.append(chosen.message.text)
                self.answered.clear()
            case 5:
                self.server.compaction_failures.append(self.random.choice(FAILURES))
            case 6:
                await agent.facts(**self.where).add("rule", f"Rule {number}.")
            case 7:
                for fact in (await agent.facts(**self.where))[:1]:
                    if fact.source == "user":
                        await agent.facts(**self.where).remove(fact.id)
                        self.answered.clear()
            case 8:
                [first, *_] = (await memory.read("ana", self.conversation)).entries
                await agent.pin(first.message.id, **self.where)
            case 10:
                self.rule.text = f"Be brief, {number}."
            case 9:
                self.notes.text = f"Likes {number}.\n" + "And ferries.\n" * 80

    async def delete_newest(self, agent: Agent) -> None:
        entries = (await agent.memory.read("ana", self.conversation)).entries
        text = next(one.message.text for one in reversed(entries) if one.message.role.value == "user")
        if await agent.drop_last_turn(**self.where):
            self.gone.append(text)
            self.answered.clear()

    async def restart(self, *, forgets: bool = False) -> None:
        if self.agent is None:
            return
        await self.agent.context_template.close()
        await self.agent.close()
        if forgets:
            await self.memory.close()
            self.memory = Memory(self.url)
        self.agent = None


def is_turn(request: ProviderRequest) -> bool:
    return "compaction" not in request.body and "compact" not in request.path


def has_block(request: ProviderRequest) -> bool:
    return '"type": "compaction"' in json.dumps(request.body.get("messages", request.body.get("input")))


def flat(request: ProviderRequest) -> list[str]:
    """A request block by block, without cache marks and thinking."""
    body = request.body
    items = body.get("input") or [
        {"role": one["role"], **block} for one in body["messages"] for block in one["content"]
    ]
    head = [body.get("system"), body.get("tools")]
    kinds = ("thinking", "redacted_thinking", "reasoning")
    return [json.dumps(strip(one), sort_keys=True) for one in (head, *items) if kind_of(one) not in kinds]


def kind_of(item: Any) -> Any:
    return item.get("type") if isinstance(item, dict) else None


def strip(value: Any) -> Any:
    if isinstance(value, list):
        return [strip(one) for one in value]
    if isinstance(value, dict):
        return {name: strip(one) for name, one in value.items() if name != "cache_control"}
    return value


def check_prefixes(answered: Sequence[Answered]) -> None:
    """Each request begins with the one before, or an epoch has ended."""
    for before, after in pairwise(answered):
        if before.conversation != after.conversation or before.request is after.request:
            continue
        if after.context.end_reason is None and after.context.epoch == before.context.epoch:
            if before.request.model == after.request.model:
                assert flat(after.request)[: len(flat(before.request))] == flat(before.request)
        else:
            assert after.context.end_reason is not None


async def check_conversations(seeds: Sequence[int], models: Sequence[str], path: Path) -> None:
    blocks = kept = 0
    for seed in seeds:
        talk = Conversation(seed, models, f"sqlite:///{path}/{seed}.db")
        await talk.run()
        sent = [one for one in talk.server.requests if is_turn(one)]
        assert [one.error for one in talk.server.requests if one.status == 400] == [], f"seed {seed}"
        assert [one.error for one in sent if one.status != 200] == [], f"seed {seed}"
        reasons = {reason["reason"] for one in talk.server.requests for reason in one.transformations}
        assert reasons <= {"model_binding_mismatch"}, f"seed {seed}"
        check_prefixes(talk.answered)
        blocks += sum(map(has_block, sent))
        swaps = [one for one in talk.answered if one.context.end_reason is EndReason.SWAP]
        kept += sum(one.request.thinking for one in swaps if has_block(one.request))
    assert blocks > len(seeds)
    assert kept > 0


async def test_no_conversation_of_two_providers_is_refused_or_shows_what_was_deleted(tmp_path: Path) -> None:
    await check_conversations(range(2), CLAUDES + GPTS, tmp_path)


@pytest.mark.parametrize("models", [CLAUDES, GPTS, CLAUDES + GPTS], ids=["claude", "gpt", "both"])
async def test_no_random_conversation_is_refused_or_shows_what_was_deleted(
    models: Sequence[str], tmp_path: Path
) -> None:
    await check_conversations(range(12), models, tmp_path)


@pytest.mark.nightly
@pytest.mark.parametrize("models", [CLAUDES, GPTS, CLAUDES + GPTS], ids=["claude", "gpt", "both"])
async def test_no_random_conversation_of_300_is_refused_or_shows_what_was_deleted(
    models: Sequence[str], tmp_path: Path
) -> None:
    await check_conversations(range(1_000, 1_300), models, tmp_path)
