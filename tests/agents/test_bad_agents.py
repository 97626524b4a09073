"""What a user gets wrong when making or asking an agent, and the error that says so at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from autonomy_ctx import Agent, ContextPool, Memory, MemoryHook, Model, Turn, hook
from autonomy_ctx.errors import AgentClosed, InvalidAgent, InvalidParams, InvalidTool, UnregisteredToolError

OFFLINE = Model("offline")


class Silent:
    """Cannot answer."""


def twice_of(number: int) -> int:
    """Twice a number."""
    return 2 * number


@hook(MemoryHook.BEFORE_APPEND)
def guards_memory(*args: Any) -> None: ...


BUILT: list[tuple[type[Exception], str, dict[str, Any]]] = [
    (
        InvalidAgent,
        "has memory of type dict; give a Memory or its URL, such as 'sqlite:///agents.db'",
        {"memory": {}},
    ),
    (ValueError, "'x.db' is not the URL of a memory; did you mean 'sqlite:///x.db'?", {"memory": "x.db"}),
    (InvalidAgent, "has tools of type function; give a list of functions or tools", {"tools": twice_of}),
    (InvalidAgent, "has tools of type str; give a list of functions or tools", {"tools": "twice_of"}),
    (
        InvalidTool,
        "tool `twice_of` is a text, not a function; give the function itself",
        {"tools": ["twice_of"]},
    ),
    (InvalidAgent, "has a context_template of type list; give a ContextTemplate", {"context_template": []}),
    (InvalidAgent, "has subagents of type list; give a dict of names", {"subagents": ["helper"]}),
    (InvalidAgent, "has a sub-agent 'helper' of type str; give a dict", {"subagents": {"helper": "Help."}}),
    (TypeError, "context_queue must be a ContextQueue, not list", {"context_queue": []}),
    (TypeError, "context_pool must be a ContextPool, not dict", {"context_pool": {}}),
    (TypeError, "context_queue must be a ContextQueue, not ContextPool", {"context_queue": ContextPool()}),
    (ValueError, "explain_turns must be >= 0, not -1", {"explain_turns": -1}),
    (ValueError, "explain_turns must be a whole number >= 0, not str", {"explain_turns": "5"}),
    (ValueError, "explain_seconds must be a number of seconds > 0, not 0", {"explain_seconds": 0}),
    (ValueError, "explain_seconds must be a number of seconds > 0, not nan", {"explain_seconds": math.nan}),
    (ValueError, "TurnLimits: steps must be a whole number >= 1, not str", {"limits": {"steps": "3"}}),
    (
        ValueError,
        "TurnLimits: tool_timeout must be a number of seconds > 0 or None, not nan",
        {"limits": {"tool_timeout": math.nan}},
    ),
    (
        TypeError,
        "hook `guards_memory` is for MemoryHook.BEFORE_APPEND and would never be called here, because the "
        "events here are those of AgentHook; add it to an object that has its events",
        {"hooks": [guards_memory]},
    ),
]


@pytest.mark.parametrize(("kind", "text", "options"), BUILT, ids=[row[1] for row in BUILT])
def test_a_wrong_option_is_met_when_the_agent_is_made(
    kind: type[Exception], text: str, options: dict[str, Any]
) -> None:
    with pytest.raises(kind) as caught:
        Agent("guide", "Plans trips.", model=OFFLINE, **options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"model": Silent()}, "has a model of type Silent without complete_chat()"),
        ({"tools": [5]}, "tool `int` is not a function"),
        ({"limits": {"stepz": 1}}, "limits has unknown names stepz"),
        ({"context_summary": {"florr": 1}}, "context_summary does not know florr (did you mean 'floor'?)"),
        ({"enable_filesystem": True, "filesystem_visibility": "user"}, "visibility is 'user'"),
        ({"subagents": {"deeper": {"tools": [5]}}}, "has a sub-agent 'deeper' that cannot be made"),
    ],
)
def test_a_sub_agent_that_cannot_be_made_is_met_when_its_agent_is(config: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidAgent) as caught:
        Agent("lead", model=OFFLINE, subagents={"helper": config})
    assert "agent 'lead' has a sub-agent 'helper' that cannot be made: " in str(caught.value)
    assert text in str(caught.value)


async def test_a_sub_agent_may_have_itself_as_a_sub_agent() -> None:
    own = Model("offline")
    config: dict[str, Any] = {"instructions": "Divide the work.", "model": own}
    config["subagents"] = {"divider": config}
    async with Agent("lead", model=OFFLINE, subagents={"divider": config}) as agent:
        assert agent.models == [OFFLINE, own]


def test_an_agent_among_the_tools_is_told_to_become_one() -> None:
    with pytest.raises(
        InvalidTool, match=r"tool `Agent` is not a function, but can be a tool; give its `as_tool"
    ):
        Agent("lead", tools=[Agent("guide", model=OFFLINE)], model=OFFLINE)


@pytest.mark.parametrize("ask", [Agent.send, Agent.stream])
async def test_params_that_are_none_are_refused_before_the_message_is_kept(
    ask: Callable[..., Any], memory: Memory
) -> None:
    agent = Agent("guide", model=OFFLINE, memory=memory)
    with pytest.raises(TypeError, match="params must be a dict for the sections, not list; nothing was"):
        await ask(agent, "hello", params=[1])
    assert await agent.history() == []


@pytest.mark.parametrize("ask", [Agent.send, Agent.stream])
@pytest.mark.parametrize("name", ["context_queue", "context_pool", "conversation_message_count"])
async def test_params_with_a_name_of_the_agents_own_are_refused(
    ask: Callable[..., Any], name: str, memory: Memory
) -> None:
    agent = Agent("guide", model=OFFLINE, memory=memory)
    with pytest.raises(InvalidParams, match=f"params must not have '{name}': the agent sets this itself"):
        await ask(agent, "hello", params={"city": "Porto", name: ["obey"]})
    assert await agent.history() == []


def test_a_stream_without_a_model_is_refused_when_it_is_asked_for() -> None:
    with pytest.raises(InvalidAgent, match="agent 'guide' has no model that could answer"):
        Agent("guide").stream("hello")


@pytest.mark.parametrize(
    "name", ["ana] system", "a<b", "x|", "\uff3dana", "\u300cana\u300d", "\u2329ana", "(ana)"]
)
def test_a_name_that_could_close_a_mark_is_refused(name: str) -> None:
    with pytest.raises(InvalidAgent, match="must not have brackets or bars in its name"):
        Agent(name, model=OFFLINE)
    with pytest.raises(InvalidAgent, match="must not have brackets"):
        Agent("lead", model=OFFLINE, subagents={name: {"instructions": "Help."}})


async def test_an_agent_is_started_on_a_node() -> None:
    with pytest.raises(InvalidAgent, match="agent 'guide' is started on NoneType; give a Node"):
        await Agent.start(node=None, name="guide", instructions="", model=OFFLINE)  # type: ignore[arg-type]


async def test_a_closed_agent_takes_no_turns_to_run() -> None:
    agent = Agent("guide", tools=[twice_of])
    await agent.close()
    with pytest.raises(AgentClosed):
        await agent.put(Turn("twice_of", kwargs={"number": 2}))
    assert not agent.waiting


def test_a_turn_for_a_plain_function_is_told_to_name_it() -> None:
    with pytest.raises(TypeError, match="not function; give the name of a function"):
        Turn(twice_of)  # type: ignore[arg-type]


def test_a_saved_agent_may_be_read_under_another_name() -> None:
    saved = Agent("guide", "Plans trips.", [twice_of], model=OFFLINE).to_dict()
    assert Agent.from_dict(saved, name="other", tools=[twice_of], model=OFFLINE).name == "other"
    with pytest.raises(UnregisteredToolError):
        Agent.from_dict(saved, name="other", model=OFFLINE)
