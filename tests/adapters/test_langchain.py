"""`ContextMiddleware` with agents of LangChain and graphs of LangGraph."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator
from typing import Any, ClassVar

import pytest
from adapters.contract import AdapterContract
from adapters.recorded_conversation import (
    ANSWER,
    CONVERSATION,
    INSTRUCTIONS,
    QUESTION,
    answer,
    noted,
    weather,
)
from adapters.several_agents import ASK, EXPERT, FERRY, GUIDE, TRAM, Script, SeveralAgentsContract
from anyio.from_thread import start_blocking_portal
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command
from models.provider_server import ProviderServer, providing
from models.provider_words import Call

from autonomy_ctx import ImageContent, Message, TextContent, ThinkingContent
from autonomy_ctx.adapters.langchain import ContextMiddleware, from_message, to_message
from autonomy_ctx.agents.explain import RECORD_KIND, parse_turn
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import HistoryMismatch, UnnamedConversation
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key


def find_weather(city: str) -> str:
    """The weather in a city."""
    try:
        return weather(city)
    except LookupError as error:
        raise ToolException(str(error)) from error


WEATHER = StructuredTool.from_function(find_weather, name="weather", handle_tool_error=True)


def in_thread(name: str) -> dict[str, Any]:
    return {"configurable": {"thread_id": name}}


class LangChainAgent:
    """An agent of LangChain that asks OpenAI's chat completions, which tell no thinking."""

    carries: ClassVar[Collection[str]] = ("images", "errors")

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None:
        self.adapter = ContextMiddleware(**options)
        self.model = ChatOpenAI(model="gpt-4.1", base_url=f"{url}/v1", api_key="k", max_retries=0)
        self.saver = history or InMemorySaver()
        self.agent = create_agent(
            self.model,
            [WEATHER],
            system_prompt=INSTRUCTIONS,
            middleware=[self.adapter],
            checkpointer=self.saver,
        )

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        content: Any = text
        if image is not None:
            data = base64.b64encode(image).decode()
            content = [
                {"type": "text", "text": text},
                {"type": "image", "base64": data, "mime_type": "image/png"},
            ]
        asked, config = {"messages": [HumanMessage(content)]}, in_thread(conversation)
        if not streamed:
            return str((await self.agent.ainvoke(asked, config))["messages"][-1].text)
        pieces: list[str] = []
        async for piece, _ in self.agent.astream(asked, config, stream_mode="messages"):
            if isinstance(piece, ToolMessage):
                pieces.clear()
            elif isinstance(piece, AIMessage):
                pieces.append(piece.text)
        return "".join(pieces)

    def history(self) -> InMemorySaver:
        return self.saver

    async def close(self) -> None:
        await self.adapter.close()


class TestLangChain(AdapterContract):
    framework = LangChainAgent


def in_tool(expert: Any) -> Any:
    async def ask(question: str) -> str:
        """Ask the expert."""
        state = await expert.ainvoke({"messages": [("user", question)]})
        return str(state["messages"][-1].text)

    return StructuredTool.from_function(coroutine=ask, name="expert")


def transfer(name: str) -> Any:
    def hand_over(runtime: ToolRuntime) -> Command[Any]:
        """Hand over."""
        told = ToolMessage("Done.", tool_call_id=runtime.tool_call_id)
        update = {"messages": [*runtime.state["messages"], told], "active": name}
        return Command(goto=name, graph=Command.PARENT, update=update)

    return StructuredTool.from_function(hand_over, name=f"transfer_to_{name}", description="Hand over.")


class LangChainTeam:
    """Agents of LangChain: one in a tool of the other, or both in one graph; they share a middleware."""

    argument: ClassVar[str] = "question"

    @staticmethod
    def handover(name: str) -> Call:
        return Call("", f"transfer_to_{name}", {})

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        self.adapter = ContextMiddleware(**options)
        self.model = ChatOpenAI(model="gpt-4.1", base_url=f"{url}/v1", api_key="k", max_retries=0)
        self.others = self.more_adapters(options)
        adapter = self.others[-1] if self.others else self.adapter
        if not hands_over:
            expert = create_agent(self.model, system_prompt=EXPERT, middleware=[adapter], name="expert")
            tools, saver = [in_tool(expert)], InMemorySaver()
            self.agent: Any = create_agent(
                self.model, tools, system_prompt=GUIDE, middleware=[self.adapter], checkpointer=saver
            )
            return

        class State(MessagesState):
            active: str

        graph = StateGraph(State)
        for name, prompt, other in (("guide", GUIDE, "expert"), ("expert", EXPERT, "guide")):
            tools = [transfer(other)]
            agent = create_agent(
                self.model, tools, system_prompt=prompt, middleware=[self.adapter], name=name
            )
            graph.add_node(name, agent)
        graph.add_conditional_edges(START, lambda state: state.get("active") or "guide", ["guide", "expert"])
        self.agent = graph.compile(InMemorySaver())

    def more_adapters(self, options: dict[str, Any]) -> list[ContextMiddleware]:
        return []

    async def send(self, text: str) -> str:
        state = await self.agent.ainvoke({"messages": [("user", text)]}, in_thread(CONVERSATION))
        return str(state["messages"][-1].text)

    async def close(self) -> None:
        for one in (*self.others, self.adapter):
            await one.close()


class LangChainTeamWithTwo(LangChainTeam):
    """The same with a middleware for each agent, on one memory."""

    def more_adapters(self, options: dict[str, Any]) -> list[ContextMiddleware]:
        return [ContextMiddleware(**options)]


class TestTeam(SeveralAgentsContract):
    team = LangChainTeam


class TestTeamWithTwo(SeveralAgentsContract):
    team = LangChainTeamWithTwo


async def test_the_record_of_a_call_has_its_model_and_usage(server: ProviderServer, memory_url: str) -> None:
    agent = LangChainAgent(server.url, {"scope": "ana", "memory": memory_url})
    await agent.send("trip", "Hello")
    memory = agent.adapter.memory
    [record] = await memory.store.read_records(Key("", "ana", "trip"), RECORD_KIND)
    [step] = parse_turn(record).steps
    await agent.close()
    assert (step.model, step.usage) == (
        "gpt-4.1",
        Usage(input_tokens=900, cached_tokens=512, output_tokens=12),
    )


async def test_the_framework_keeps_its_own_history(server: ProviderServer, memory_url: str) -> None:
    agent = LangChainAgent(
        server.url, {"scope": "ana", "memory": memory_url, "context_summary": {"floor": 1, "ceiling": 2}}
    )
    for number in range(4):
        await agent.send("trip", f"Remark {number}")
        await agent.adapter.settled()
    state = await agent.agent.aget_state(in_thread("trip"))
    await agent.close()
    assert len(state.values["messages"]) == 8
    assert len(server.seen[-1].body["messages"]) < 8


@pytest.fixture
def server_url() -> Iterator[str]:
    """A provider in a thread of its own, for tests that run no loop."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(providing(answer)) as serving:
        yield serving.url


def test_plain_functions_can_use_it(server_url: str, memory_url: str) -> None:
    with ContextMiddleware(scope="ana", memory=memory_url) as adapter:
        model = ChatOpenAI(model="gpt-4.1", base_url=f"{server_url}/v1", api_key="k", max_retries=0)
        agent = create_agent(model, [WEATHER], middleware=[adapter], checkpointer=InMemorySaver())
        result = agent.invoke({"messages": [("user", QUESTION)]}, in_thread("trip"))
        assert result["messages"][-1].text == ANSWER
        pieces = agent.stream({"messages": [("user", "And now?")]}, in_thread("trip"), stream_mode="values")
        assert [piece["messages"][-1].text for piece in pieces][-1] == noted("And now?")
        composed = adapter.engine.run_sync(adapter.explain, "trip")
        assert composed.messages[-1].text == "And now?"


async def test_a_call_without_a_thread_is_refused(server: ProviderServer, memory_url: str) -> None:
    async with ContextMiddleware(scope="ana", memory=memory_url) as adapter:
        model = ChatOpenAI(model="gpt-4.1", base_url=f"{server.url}/v1", api_key="k", max_retries=0)
        agent = create_agent(model, middleware=[adapter])
        with pytest.raises(UnnamedConversation, match="thread_id"):
            await agent.ainvoke({"messages": [("user", "Hello")]})
        with pytest.raises(UnnamedConversation, match="thread_id"):
            await adapter.acompose([HumanMessage("Hello")])
    assert server.seen == []


async def test_a_step_back_in_time_goes_on_in_a_fork(server: ProviderServer, memory_url: str) -> None:
    agent = LangChainAgent(server.url, {"scope": "ana", "memory": memory_url})
    await agent.send("trip", "One")
    before = await agent.agent.aget_state(in_thread("trip"))
    await agent.send("trip", "Two")
    result = await agent.agent.ainvoke({"messages": [("user", "Three")]}, before.config)
    assert result["messages"][-1].text == noted("Three")
    composed = await agent.adapter.explain("trip")
    await agent.close()
    assert [message.text for message in composed.messages[1:]] == ["One", noted("One"), "Three"]


async def test_a_history_that_another_middleware_shortened_is_refused(
    server: ProviderServer, memory_url: str
) -> None:
    agent = LangChainAgent(server.url, {"scope": "ana", "memory": memory_url})
    await agent.send("trip", "One")
    await agent.send("trip", "Two")
    state = await agent.agent.aget_state(in_thread("trip"))
    gone = [RemoveMessage(id=message.id) for message in state.values["messages"][:2]]
    await agent.agent.aupdate_state(in_thread("trip"), {"messages": gone})
    with pytest.raises(HistoryMismatch):
        await agent.send("trip", "Three")
    await agent.close()


async def test_a_thread_whose_messages_were_all_removed_goes_on_from_the_log(
    server: ProviderServer, memory_url: str
) -> None:
    agent = LangChainAgent(server.url, {"scope": "ana", "memory": memory_url})
    await agent.send("trip", "One")
    state = await agent.agent.aget_state(in_thread("trip"))
    gone = [RemoveMessage(id=message.id) for message in state.values["messages"]]
    await agent.agent.aupdate_state(in_thread("trip"), {"messages": gone})
    await agent.send("trip", "Two")
    await agent.close()
    assert [text for _, text in server.asked().said] == ["One", noted("One"), "Two"]


async def test_a_step_back_to_the_first_message_asks_it_again(
    server: ProviderServer, memory_url: str
) -> None:
    """The framework passes this message alone, but under the id that it had."""
    agent = LangChainAgent(server.url, {"scope": "ana", "memory": memory_url})
    await agent.send("trip", "One")
    asked = [one async for one in agent.agent.aget_state_history(in_thread("trip")) if one.next == ("model",)]
    await agent.agent.ainvoke(None, asked[0].config)
    await agent.close()
    assert [text for _, text in server.asked().said] == ["One"]


async def test_a_plain_tool_of_an_async_agent_may_run_another_agent(memory_url: str) -> None:
    async with providing(Script(LangChainTeam)) as server:
        team = LangChainTeam(
            server.url, {"scope": "ana", "memory": memory_url, "context_summary": None}, hands_over=False
        )
        expert = create_agent(team.model, system_prompt=EXPERT, middleware=[team.adapter], name="expert")

        def ask(question: str) -> str:
            """Ask the expert."""
            return str(expert.invoke({"messages": [("user", question)]})["messages"][-1].text)

        tool = StructuredTool.from_function(ask, name="expert")
        team.agent = create_agent(
            team.model, [tool], system_prompt=GUIDE, middleware=[team.adapter], checkpointer=InMemorySaver()
        )
        for question in (FERRY, TRAM, FERRY):
            assert Script.expertise(question) in await team.send(ASK + question)
        await team.close()
    assert server.refused == []


async def test_a_graph_of_ones_own_sends_what_compose_gives(server: ProviderServer, memory_url: str) -> None:
    model = ChatOpenAI(model="gpt-4.1", base_url=f"{server.url}/v1", api_key="k", max_retries=0)
    async with ContextMiddleware(scope=lambda state: state["user"], memory=memory_url) as adapter:

        class State(MessagesState):
            user: str

        async def reply(state: State) -> Any:
            messages = [SystemMessage("Be kind."), *state["messages"]]
            return {"messages": [await model.ainvoke(await adapter.acompose(messages, call=state))]}

        graph = StateGraph(State).add_node(reply).add_edge(START, "reply").compile(InMemorySaver())
        for text in ("One", "Two"):
            state = {"messages": [("user", text)], "user": "ana"}
            result = await graph.ainvoke(state, in_thread("trip"))
            assert result["messages"][-1].text == noted(text)
        composed = await adapter.explain("trip", scope="ana")
    assert [message.text for message in composed.messages] == ["Be kind.", "One", noted("One"), "Two"]


def test_thinking_images_names_and_unknown_blocks_are_read() -> None:
    thought = AIMessage(
        [
            {"type": "thinking", "thinking": "Hm.", "signature": "abc"},
            {"type": "text", "text": "Look."},
            {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "it"}},
        ],
        tool_calls=[{"id": "c1", "name": "look", "args": {"at": "it"}}],
        response_metadata={"model_provider": "anthropic"},
    )
    assert to_message(thought).parts == (ThinkingContent("Hm.", signature="abc"), TextContent("Look."))
    assert [call.arguments for call in to_message(thought).tool_calls] == ['{"at": "it"}']
    seen = HumanMessage(
        [
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "file", "base64": "AAAA", "mime_type": "application/pdf"},
        ],
        name="ana",
    )
    assert to_message(seen).parts == (ImageContent("https://example.org/a.png"), TextContent("[file]"))
    assert to_message(seen).name == "ana"


def test_a_message_of_ours_becomes_one_of_theirs() -> None:
    call = Message("assistant", "Look.", tool_calls=[{"id": "c1", "name": "look", "arguments": '{"at": 1}'}])
    failed = Message("tool", "gone", tool_call_id="c1", name="look", is_error=True)
    for message in (call, failed, Message("user", "Hello")):
        again = to_message(from_message(SourcedMessage(message)))
        assert (again.role, again.is_error) == (message.role, message.is_error)
        assert again.text.removeprefix("Error: ") == message.text
        assert [one.parse_arguments() for one in again.tool_calls] == [
            one.parse_arguments() for one in message.tool_calls
        ]
