"""The first thing that somebody writes: a model by its name, and a memory by its URL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from models.model_server import as_json, chat, serving

from autonomy_ctx import Agent, ContextTemplate, Memory, Model, Node, SummarizedHistorySection
from autonomy_ctx.errors import MissingKey, StoreClosed
from autonomy_ctx.models.providers import PROVIDERS


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for provider in PROVIDERS.values():
        for name in (*provider.key_variables, *provider.url_variables):
            monkeypatch.delenv(name, raising=False)


async def test_an_agent_takes_the_name_of_a_model_and_the_url_of_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    async with serving(as_json(chat("Hello, Ana."))) as server:
        # A server on this machine needs no key.
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        async with Agent(model="gpt-5", memory=url) as agent:
            assert str(await agent.send("I am Ana.")) == "Hello, Ana."
    with pytest.raises(StoreClosed):
        await agent.history()
    async with Memory(url) as memory:
        texts = [message["content"] for message in await memory.for_agent("agent").history()]
    assert texts == ["I am Ana.", "Hello, Ana."]


@pytest.mark.parametrize(
    ("name", "provider"),
    [
        ("gpt-5", "openai"),
        ("o3", "openai"),
        ("claude-opus-4-5", "anthropic"),
        ("gemini-2.5-pro", "google"),
        ("ollama/llama3", "ollama"),
        ("offline", "offline"),
    ],
)
async def test_the_provider_is_found_by_the_name(
    name: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in PROVIDERS[provider].key_variables:
        monkeypatch.setenv(variable, "k")
    async with Agent("guide", model=name) as agent:
        assert isinstance(agent.model, Model)
        assert (agent.model.name, agent.model.provider) == (name, provider)
        assert agent.models == [agent.model]


async def test_an_agent_of_a_node_closes_only_what_it_has_made(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    async with Node() as node:
        options: dict[str, Any] = {"node": node, "instructions": "You help.", "model": "offline"}
        own = await Agent.start(name="own", memory=url, **options)
        shared = await Agent.start(name="shared", **options)
        for agent in (own, shared):
            await agent.send("The code is X-7.")
            await agent.close()
        assert await shared.get_message_count() == 2
        with pytest.raises(StoreClosed):
            await own.get_message_count()
    async with Memory(url) as memory:
        given = Agent("given", model="offline", memory=memory)
        await given.close()
        assert await memory.for_agent("own").get_message_count("default", "default") == 2


async def test_a_branch_shares_the_model_that_was_made_of_a_name() -> None:
    async with Agent(model="offline") as agent:
        branch = agent.branch()
        assert branch.model is agent.model
        assert branch.memory.store is agent.memory.store


def lacking(kind: str, model: str) -> dict[str, Any]:
    """Options of an agent with a model that has no key, in each place where there can be one."""
    match kind:
        case "model":
            return {"model": model}
        case "fallback":
            return {"model": Model("offline", fallback=model)}
        case "summary":
            return {"model": "offline", "context_summary": {"model": Model(model)}}
        case "template":
            template = ContextTemplate([SummarizedHistorySection(Model(model))])
            return {"model": "offline", "context_template": template}
        case _:
            return {"model": "offline", "subagents": {"helper": {"model": model}}}


@pytest.mark.parametrize("kind", ["model", "fallback", "summary", "template", "subagent"])
def test_a_missing_key_is_told_when_the_agent_is_made(kind: str, tmp_path: Path) -> None:
    with pytest.raises(MissingKey) as raised:
        Agent(memory=f"sqlite:///{tmp_path}/x.db", **lacking(kind, "claude-opus-4-5"))
    assert str(raised.value).splitlines() == [
        "model `claude-opus-4-5` needs a key, and ANTHROPIC_API_KEY is not set",
        "with a key: set ANTHROPIC_API_KEY in the environment, or give `api_key`",
        'without one: give the `base_url` of a server that needs none, or use the model "offline"',
    ]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options", [{"api_key": "k"}, {"headers": {"x-key": "k"}}, {"base_url": "http://127.0.0.1:1/v1"}]
)
async def test_a_model_that_needs_no_key_of_the_environment_is_taken(options: dict[str, Any]) -> None:
    async with Agent(model=Model("gpt-5", **options)) as agent:
        assert agent.model.provider == "openai"


async def test_a_sub_agent_takes_the_name_of_a_model() -> None:
    async with Agent(model="offline", subagents={"helper": {"model": "offline"}}) as agent:
        assert agent.models == [agent.model]
        task = await agent._subagents._spawn("helper", 1, "default", "default")
        assert await task.ask("The code is X-7.")
