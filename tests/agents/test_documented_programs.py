"""The documented programs, run as they are, and what the providers on a loopback port were sent.

Only import lines are changed: `Node` comes from where a program's `Node.start(main)` also lets the test
talk to the agents that `main` started, and then stops the node.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Awaitable, Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from agents import documented_programs as programs
from anyio.from_thread import start_blocking_portal
from models.provider_server import ProviderServer, providing
from models.provider_words import Asked, Call, Say
from public_names import names as names_of

import autonomy_ctx
from autonomy_ctx import Agent, ContextPool, ContextQueue, ContextTemplate, Model, Node, Runtime, tool

Drive = Callable[[Node], Awaitable[None]]
SCOPE, CONVERSATION = "ana", "trip"
SUMMARY = "Ana asked one question after the other, and each was noted."
DRIVEN = "autonomy_ctx_driven"


def noted(asked: Asked) -> Say:
    """An answer to a question, or a summary: only those who summarize offer no tools."""
    return Say("Noted.") if asked.tools else Say(SUMMARY)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProviderServer]:
    """The providers that the programs find by their environment."""
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(providing(noted)) as serving,
    ):
        monkeypatch.setenv("ANTHROPIC_BASE_URL", serving.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "k-anthropic")
        monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", serving.url)
        monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "k-bedrock")
        yield serving
        assert serving.refused == []


def run(program: str, drive: Drive, **given: Any) -> dict[str, Any]:
    """Run a program in this process until `drive` is done with its node; the names it defined."""

    class DrivenNode(Node):
        @classmethod
        def start(cls, main: Callable[[Any], Awaitable[Any]], **options: Any) -> None:
            async def driven(node: Any) -> None:
                await main(node)
                await drive(node)
                node.stop()

            super().start(driven, **options)

    module = ModuleType(DRIVEN)
    names: dict[str, Any] = {"__name__": "__main__", **given}
    vars(module).update({name: getattr(autonomy_ctx, name) for name in names_of("autonomy_ctx")})
    vars(module)["Node"] = DrivenNode
    sys.modules[DRIVEN] = module
    try:
        exec(program.replace("from autonomy_ctx import", f"from {DRIVEN} import"), names)
    finally:
        del sys.modules[DRIVEN]
    return names


async def talk(agent: Agent, turns: int) -> None:
    for number in range(1, turns + 1):
        reply = await agent.send(f"Question {number}.", scope=SCOPE, conversation=CONVERSATION)
        assert reply.text == "Noted."


async def settled(agent: Agent) -> None:
    section: Any = agent.context_template.get_section("conversation_history")
    await section.settled()


def turns(server: ProviderServer) -> list[Asked]:
    """What agents asked."""
    return [asked for at in range(len(server.seen)) if (asked := server.asked(at)).tools]


def summaries(server: ProviderServer) -> list[tuple[str, Asked]]:
    """What summarizers asked, and whom."""
    asked = [(server.speaking(seen).name, server.asked(at)) for at, seen in enumerate(server.seen)]
    return [(name, one) for name, one in asked if not one.tools]


def everything(asked: Asked) -> str:
    return "\n".join([*asked.system, *(text for _, text in asked.said)])


def test_basic_usage(server: ProviderServer) -> None:
    async def drive(node: Node) -> None:
        agent = node.agent("assistant")
        await talk(agent, 12)
        await settled(agent)
        await agent.send("Question 13.", scope=SCOPE, conversation=CONVERSATION)

    run(programs.BASIC_USAGE, drive)
    first, *_, last = turns(server)
    assert first.system[0] == "You are a helpful assistant."
    assert "get_current_time_utc" in first.system[1]
    assert first.said == [("user", "Question 1.")]
    # Up to the ceiling all is there, word for word; after the summary has come, it and the newest.
    # The turn that passes the ceiling does not wait.
    assert [len(asked.said) for asked in turns(server)[9:11]] == [19, 21]
    (by, summary), *more = summaries(server)
    assert (by, more) == ("anthropic", [])
    assert "Question 1." in everything(summary)
    assert "Question 13." not in everything(summary)
    assert SUMMARY in everything(last)
    assert "CONVERSATION SUMMARY" in everything(last)
    assert last.said[-1] == ("user", "Question 13.")
    shown = [number for number in range(1, 14) if f"Question {number}." in everything(last)]
    assert shown == list(range(shown[0], 14))
    assert 10 <= 2 * len(shown) - 1 <= 20
    assert f"Question {shown[0] - 1}." in everything(summary)


def test_custom_configuration(server: ProviderServer) -> None:
    async def drive(node: Node) -> None:
        agent = node.agent("code-assistant")
        await talk(agent, 17)
        await settled(agent)
        await agent.send("Question 18.", scope=SCOPE, conversation=CONVERSATION)

    run(programs.CUSTOM_CONFIGURATION, drive)
    assert turns(server)[0].system[0] == "You are a coding assistant."
    assert len(turns(server)[14].said) == 29
    (by, summary), *more = summaries(server)
    assert (by, more) == ("bedrock", [])
    prompt = everything(summary)
    assert "- All code snippets verbatim" in prompt
    assert "Question 1." in prompt
    assert prompt.index("Question 1.") < prompt.index("Summary:")
    assert "{conversation}" not in prompt
    sent = next(seen.body for seen in server.seen if seen.path.startswith("/model/"))
    assert sent["inferenceConfig"]["maxTokens"] <= 2048
    last = turns(server)[-1]
    assert SUMMARY in everything(last)
    assert 15 <= len([role for role, text in last.said if "SUMMARY" not in text]) <= 30


def test_custom_context_template(server: ProviderServer) -> None:
    async def drive(node: Node) -> None:
        await talk(node.agent("assistant"), 30)

    run(programs.CUSTOM_CONTEXT_TEMPLATE, drive)
    first, last = turns(server)[0], turns(server)[-1]
    assert first.system[0] == "You are a helpful assistant."
    assert "get_current_time_utc" in first.system[1]
    assert len(turns(server)[24].said) == 49
    # The last 50 of 59 begin with an answer; the provider wants a user's message first and gets one.
    opening, *shown = last.said
    assert len(shown) == 50
    assert "Question" not in opening[1]
    assert shown[:2] == [("assistant", "Noted."), ("user", "Question 6.")]
    assert shown[-1] == ("user", "Question 30.")


def test_custom_section(server: ProviderServer) -> None:
    class Source:
        async def get(self, scope: str, conversation: str) -> str | None:
            return "the sky is blue" if scope == SCOPE else None

    async def drive(node: Node) -> None:
        section: Any = names["CustomSection"]
        history = autonomy_ctx.ConversationHistorySection()
        template = ContextTemplate([section(Source()), history])
        agent = await Agent.start(
            node=node,
            name="assistant",
            instructions="You say what you know.",
            model=Model("claude-sonnet-4-v1"),
            context_template=template,
        )
        await talk(agent, 1)
        await agent.send("Question 1.", scope="ben", conversation=CONVERSATION)

    async def main(node: Node) -> None:
        await drive(node)
        node.stop()

    names: dict[str, Any] = {}
    exec(programs.CUSTOM_SECTION, names)
    Node.start(main)
    ana, ben = turns(server)
    # The template decides everything: the instructions only describe the agent.
    assert (ana.system, ben.system) == (["Additional context: the sky is blue"], [])
    assert ana.said == ben.said == [("user", "Question 1.")]


def test_dynamic_context(server: ProviderServer) -> None:
    fetched: list[str] = []

    class Database:
        async def fetch_user_preferences(self, scope: str) -> dict[str, str]:
            fetched.append(scope)
            return {"currency": "USD", "timezone": "America/New_York"}

    async def drive(node: Node) -> None:
        await talk(node.agent("shopper"), 2)

    run(programs.DYNAMIC_CONTEXT, drive, database=Database())
    for asked in turns(server):
        assert asked.system[0] == "You are a personalized shopping assistant"
        assert asked.system[1] == "User preferences: Currency=USD, Timezone=America/New_York"
        assert "get_current_time_utc" in asked.system[2]
    assert turns(server)[1].said == [
        ("user", "Question 1."),
        ("assistant", "Noted."),
        ("user", "Question 2."),
    ]
    assert fetched == [SCOPE]


def test_filtered_history(server: ProviderServer) -> None:
    made = iter(range(100))

    def timed(asked: Asked) -> Say:
        if asked.said[-1][0] == "user":
            return Say(calls=[Call(f"call_{next(made)}", "get_current_time_utc", {})])
        return Say("Noted.")

    async def drive(node: Node) -> None:
        server.script = [timed]
        await talk(node.agent("assistant"), 6)

    run(programs.FILTERED_HISTORY, drive)
    last = turns(server)[-1]
    results = [text for role, text in last.said if role == "tool"]
    told = [text for text in results if "20" in text]
    # 23 messages: a result at 3, 7, 11, 15, 19 and 23, of which those after 13 are shown.
    assert len(results) == 6
    assert [text in told for text in results] == [False, False, False, True, True, True]
    assert [text for role, text in last.said if role == "user"] == [f"Question {n}." for n in range(1, 7)]


def test_summarized_history_and_its_monitoring(server: ProviderServer) -> None:
    seen: dict[str, Any] = {}

    async def drive(node: Node) -> None:
        agent = node.agent("assistant")
        await talk(agent, 12)
        await settled(agent)
        for number in (13, 14):
            await agent.send(f"Question {number}.", scope=SCOPE, conversation=CONVERSATION)
        seen["async_history"] = agent.context_template.get_section("conversation_history")
        exec(programs.MONITORING, seen)

    run(programs.SUMMARIZED_HISTORY, drive)
    (by, summary), *more = summaries(server)
    assert (by, more) == ("bedrock", [])
    assert "Preserve key decisions and action items." in everything(summary)
    assert SUMMARY in everything(turns(server)[-1])
    assert turns(server)[-1].said[-1] == ("user", "Question 14.")
    assert seen["metrics"]["background_tasks_completed"] == 1
    assert seen["metrics"]["cache_hits"] >= 1
    assert seen["metrics"]["background_tasks_failed"] == 0
    assert seen["info"].keys() >= {"cached_conversations", "pending_summarizations"}


def test_custom_summarization(server: ProviderServer) -> None:
    async def drive(node: Node) -> None:
        await talk(node.agent("assistant"), 17)

    run(programs.CUSTOM_SUMMARIZATION, drive)
    # Its turns wait: with message 31, that of the user, and with 33.
    assert [by for by, _ in summaries(server)] == ["bedrock", "bedrock"]
    assert "Question 1." in everything(summaries(server)[0][1])
    last = turns(server)[-1]
    assert f"Conversation summary: {SUMMARY}" in everything(last)
    assert last.said[-1] == ("user", "Question 17.")
    assert "Question 11." not in everything(last)


def test_section_interface(server: ProviderServer) -> None:
    names: dict[str, Any] = {}
    exec(programs.SECTION_INTERFACE, names)

    async def main(node: Node) -> None:
        agent = await Agent.start(
            node=node,
            name="assistant",
            instructions="You are a helpful assistant.",
            model=Model("claude-sonnet-4-v1"),
            context_template=ContextTemplate([names["MySection"]()]),
        )
        await talk(agent, 2)
        node.stop()

    Node.start(main)
    asked = turns(server)[-1]
    assert asked.system == []
    assert asked.said == [("user", "Question 1."), ("assistant", "Noted."), ("user", "Question 2.")]


def test_the_default_context_ends_with_the_instructions_of_the_tools(server: ProviderServer) -> None:
    @tool(instructions="Give cities by their English names.")
    def weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    async def main(node: Node) -> None:
        agent = await Agent.start(
            node=node,
            name="assistant",
            instructions="You are a helpful assistant.",
            model=Model("claude-sonnet-4-v1"),
            tools=[weather],
            enable_filesystem=True,
            enable_ask_for_user_input=True,
            subagents={"researcher": {"instructions": "You look things up."}},
        )
        await talk(agent, 2)
        composed = await agent.context_template.compose(agent.memory, SCOPE, CONVERSATION)
        assert [section.name for section in composed.sections if section.messages] == [
            "system_instructions",
            "framework_instructions",
            "conversation_history",
            "tool_instructions",
        ]
        assert "Give cities by their English names." in composed.messages[-1].text
        # What is sent goes on from the first request, which ended with them.
        sent = await agent.explain(scope=SCOPE, conversation=CONVERSATION)
        names = [origin.section for origin in sent.origins()]
        assert names[-4:] == ["conversation_history", "tool_instructions", *["conversation_history"] * 2]
        node.stop()

    Node.start(main)
    asked = turns(server)[-1]
    assert asked.system[0] == "You are a helpful assistant."
    for name in ("get_current_time", "ask_user_for_input", "start_subagent", "researcher"):
        assert name in asked.system[1]
    whole = everything(asked)
    assert whole.index("Question 1.") < whole.index("Give cities by their English names.")


def test_a_summary_and_a_template_together_are_refused() -> None:
    with pytest.raises(ValueError, match="context_summary"):
        Agent("assistant", context_summary=True, context_template=ContextTemplate([]))


async def documented(code: str, names: dict[str, Any]) -> None:
    """Run documented lines that await at their top."""
    compiled = compile(code, "documented", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    waiting = eval(compiled, names)
    if waiting is not None:
        await waiting


async def test_the_queue_of_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    await documented(programs.QUEUE_OF_AN_AGENT, names)
    assert capsys.readouterr().out == "Ellipsis\n"
    assert names["agent"].context_queue.limit == 10
    await names["agent"].close()


async def test_a_queue_of_ones_own_is_filled_branched_and_restored() -> None:
    names: dict[str, Any] = {"ContextQueue": ContextQueue}
    await documented(programs.QUEUE_OF_AN_AGENT, names)
    await names["agent"].close()
    await documented(programs.AGENT_WITH_A_QUEUE, names)
    agent: Agent = names["agent"]
    assert (agent.context_queue.limit, len(agent.context_queue)) == (20, 0)
    await agent.context_queue.append(autonomy_ctx.ContextItem(content="kept"))
    branch, restored = agent.branch(), Agent.from_dict(agent.to_dict())
    for other in (branch, restored):
        assert [item.content for item in other.context_queue] == ["kept"]
        assert other.context_queue.limit == 20
        await other.close()
    await agent.close()


async def test_the_pool_of_an_agent(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"ContextPool": ContextPool}
    await documented(programs.POOL_OF_AN_AGENT, names)
    assert capsys.readouterr().out == "Ellipsis\n"
    assert names["agent"].context_pool.catalogue() == (
        "- [report-2024] Report report-2024 — quarterly financials"
    )
    await names["agent"].close()

    await documented(programs.AGENT_WITH_A_POOL, names)
    agent: Agent = names["agent"]
    turn = autonomy_ctx.Turn("fetch_doc", kwargs={"doc_id": "report-2025"})
    await agent.put(turn)
    async for _ in agent.run():
        pass
    said = "Added 'report-2025': Report report-2025 — quarterly financials\n"
    assert capsys.readouterr().out == said

    await documented(programs.ANOTHER_POOL, names)
    assert (agent.context_pool.limit, len(agent.context_pool)) == (100, 0)
    await agent.put(turn)
    async for _ in agent.run():
        pass
    assert capsys.readouterr().out == said
    await agent.close()


async def test_a_runtime_records_what_an_agent_was_asked_and_answered() -> None:
    """As the document has it for `runtime.jit(agent, problem="What is 2+2?")`."""

    class Calculating:
        async def complete_chat(self, messages: list[dict[str, Any]]) -> str:
            return "4"

    @tool
    def calculator(a: int, b: int, operation: str) -> dict[str, int]:
        """Calculate."""
        return {"result": a + b}

    runtime = Runtime()
    async with Agent("solver", "Solves problems", model=Calculating()) as agent:
        assert await runtime.run(agent, problem="What is 2+2?") == "4"
    main = runtime.get_full_context("main")
    assert [(one.role.value, one.text) for one in main] == [
        ("user", '{"problem": "What is 2+2?"}'),
        ("assistant", '{"result": "4"}'),
    ]
    assert await runtime.execute(calculator, a=2, b=2, operation="add") == {"result": 4}
    _, _, called, result = runtime.get_full_context("main")
    assert [call.name for call in called.tool_calls] == ["calculator"]
    assert (result.text, result.name, result.tool_call_id) == (
        '{"result": 4}',
        "calculator",
        called.tool_calls[0].id,
    )


async def test_a_runtime_records_nothing_in_main_of_an_agent_that_fails() -> None:
    class Failing:
        async def complete_chat(self, messages: list[dict[str, Any]]) -> str:
            raise RuntimeError("no model today")

    runtime = Runtime()
    async with Agent("solver", "Solves problems", model=Failing()) as agent:
        with pytest.raises(RuntimeError, match="no model today"):
            await runtime.run(agent, problem="What is 2+2?")
    assert runtime.get_full_context("main") == []
