"""`ContextSession` and `ContextInputFilter` with the OpenAI Agents SDK."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Collection
from typing import Any, ClassVar

import pytest
from adapters.contract import AdapterContract
from adapters.recorded_conversation import CONVERSATION, INSTRUCTIONS, QUESTION, noted, weather
from adapters.several_agents import EXPERT, GUIDE, SeveralAgentsContract
from agents import (  # type: ignore[attr-defined]
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool,
    set_tracing_disabled,
)
from models.provider_server import Fault, ProviderServer, providing
from models.provider_words import Call, Say
from openai import AsyncOpenAI, InternalServerError

from autonomy_ctx import Memory
from autonomy_ctx.adapters.openai_agents import ContextInputFilter, ContextSession, from_message, to_messages
from autonomy_ctx.errors import HistoryMismatch, UnnamedConversation

set_tracing_disabled(True)


def tell_failure(_: Any, error: Exception) -> str:
    return str(error)


@function_tool(name_override="weather", failure_error_function=tell_failure)
def find_weather(city: str) -> str:
    """The weather in a city."""
    return weather(city)


def make_client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)


def make_agent(client: AsyncOpenAI, kind: Any = OpenAIChatCompletionsModel) -> Any:
    return Agent("guide", instructions=INSTRUCTIONS, model=kind("gpt-4.1", client), tools=[find_weather])


@pytest.fixture
async def agent(server: ProviderServer) -> AsyncIterator[Any]:
    async with make_client(server.url) as client:
        yield make_agent(client)


def user_item(text: str, image: bytes | None = None) -> list[Any]:
    parts: list[Any] = [{"type": "input_text", "text": text}]
    if image is not None:
        data = base64.b64encode(image).decode()
        parts.append({"type": "input_image", "image_url": f"data:image/png;base64,{data}", "detail": "auto"})
    return [{"role": "user", "content": parts}]


async def run(agent: Any, items: Any, *, streamed: bool, **options: Any) -> str:
    if not streamed:
        return str((await Runner.run(agent, items, **options)).final_output)
    result = Runner.run_streamed(agent, items, **options)
    async for _ in result.stream_events():
        pass
    return str(result.final_output)


class SessionAgent:
    """An agent of the SDK whose history is in our session; errors of tools are texts in this SDK."""

    carries: ClassVar[Collection[str]] = ("images", "thinking")

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None:
        self.client = make_client(url)
        self.agent = make_agent(self.client)
        self.adapter = ContextSession("first", **options)

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        session = self.adapter.share(conversation)
        config = RunConfig(call_model_input_filter=session.input_filter)
        items = user_item(text, image)
        return await run(self.agent, items, streamed=streamed, session=session, run_config=config)

    def history(self) -> None:
        return None

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class FilterAgent:
    """An agent of the SDK that keeps its history in a session of the SDK's own."""

    carries: ClassVar[Collection[str]] = ("images", "thinking")

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None:
        self.client = make_client(url)
        self.agent = make_agent(self.client)
        self.adapter = ContextInputFilter(conversation=lambda data: data.context, **options)
        self.sessions: dict[str, Any] = {} if history is None else history

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        session = self.sessions.setdefault(conversation, SQLiteSession(conversation))
        config = RunConfig(call_model_input_filter=self.adapter)
        options = {"session": session, "run_config": config, "context": conversation}
        return await run(self.agent, user_item(text, image), streamed=streamed, **options)

    def history(self) -> dict[str, SQLiteSession]:
        return self.sessions

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class TestSession(AdapterContract):
    framework = SessionAgent


class TestFilter(AdapterContract):
    framework = FilterAgent
    hears_answers = False


class SessionTeam:
    """Agents of the SDK with our session and its filter, which inner runs inherit."""

    argument: ClassVar[str] = "input"

    @staticmethod
    def handover(name: str) -> Call:
        return Call("", f"transfer_to_{name}", {})

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        self.client = make_client(url)
        model = OpenAIChatCompletionsModel("gpt-4.1", self.client)
        expert: Any = Agent("expert", instructions=EXPERT, model=model)
        tools = [] if hands_over else [expert.as_tool("expert", "Knows the timetable.")]
        self.active: Any = Agent("guide", instructions=GUIDE, model=model, tools=tools)
        if hands_over:
            self.active.handoffs.append(expert)
            expert.handoffs.append(self.active)
        self.adapter: Any = self.make_adapter(options)

    def make_adapter(self, options: dict[str, Any]) -> Any:
        return ContextSession("first", **options)

    async def send(self, text: str) -> str:
        session = self.adapter.share(CONVERSATION)
        return await self.run(text, session, session.input_filter)

    async def run(self, text: str, session: Any, input_filter: Any) -> str:
        config = RunConfig(call_model_input_filter=input_filter)
        result = await Runner.run(self.active, text, session=session, run_config=config)
        self.active = result.last_agent
        return str(result.final_output)

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class FilterTeam(SessionTeam):
    """The same with a session of the SDK's own and our filter."""

    def make_adapter(self, options: dict[str, Any]) -> Any:
        self.session = SQLiteSession(CONVERSATION)
        return ContextInputFilter(conversation=CONVERSATION, **options)

    async def send(self, text: str) -> str:
        return await self.run(text, self.session, self.adapter)


class TestSessionTeam(SeveralAgentsContract):
    team = SessionTeam


class TestFilterTeam(SeveralAgentsContract):
    team = FilterTeam


async def test_a_session_alone_begins_each_run_with_the_composed_context(
    agent: Any, server: ProviderServer, memory_url: str
) -> None:
    options = {"floor": 1, "ceiling": 2}
    async with ContextSession("trip", scope="ana", memory=memory_url, context_summary=options) as session:
        for number in range(4):
            await Runner.run(agent, f"Remark {number}", session=session)
            await session.settled()
        assert len(await session.engine.history(session._key(None))) == 8
        assert len(server.seen[-1].body["messages"]) < 7
        begun = await session.explain("trip")
        assert begun.messages[-1].text == noted("Remark 2")
        assert len(await session.get_items(limit=1)) == 1


async def test_a_session_gives_back_its_newest_item_and_can_be_cleared(memory_url: str) -> None:
    items: list[Any] = [
        {"role": "user", "content": "Hello"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Look."}]},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ]
    async with ContextSession("trip", scope="ana", memory=memory_url) as session:
        await session.add_items(items)
        await session.get_items()
        assert [await session.pop_item() for _ in range(3)] == [
            items[3],
            items[2],
            {"type": "message", "role": "assistant", "content": "Look."},
        ]
        await session.add_items(items[1:])
        assert len(await session.get_items()) == 4
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None


async def test_a_run_that_failed_does_not_hide_what_was_said(memory_url: str) -> None:
    faults = (Fault.OVERLOADED, Fault.OVERLOADED, Say("Here."))
    async with providing(*faults) as server, make_client(server.url) as client:
        agent = make_agent(client)
        async with ContextSession("trip", scope="ana", memory=memory_url) as session:
            config = RunConfig(call_model_input_filter=session.input_filter)
            for streamed in (True, False):
                with pytest.raises(InternalServerError):
                    await run(agent, "One", streamed=streamed, session=session, run_config=config)
            answer = await run(agent, "Two", streamed=True, session=session, run_config=config)
            assert answer == "Here."
    assert [text for _, text in server.asked().said] == ["One", "One", "Two"]


async def test_the_filter_alone_takes_the_history_that_the_caller_passes(
    agent: Any, server: ProviderServer, memory_url: str
) -> None:
    async with ContextInputFilter(scope="ana", conversation="trip", memory=memory_url) as adapter:
        config = RunConfig(call_model_input_filter=adapter)
        first = await Runner.run(agent, "One", run_config=config)
        items = [*first.to_input_list(), {"role": "user", "content": "Two"}]
        second = await Runner.run(agent, items, run_config=config)
        assert second.final_output == noted("Two")
        with pytest.raises(HistoryMismatch):
            await Runner.run(agent, [*items[1:], {"role": "user", "content": "Three"}], run_config=config)
        await Runner.run(agent, "Three", run_config=config)
    # The new message alone goes on from the log, to which the last answer was not told.
    assert [text for _, text in server.asked().said] == ["One", noted("One"), "Two", "Three"]


async def test_a_call_without_a_conversation_is_refused(
    agent: Any, server: ProviderServer, memory_url: str
) -> None:
    async with ContextInputFilter(
        scope="ana", conversation=lambda data: data.context, memory=memory_url
    ) as adapter:
        with pytest.raises(UnnamedConversation, match="conversation"):
            await Runner.run(agent, "One", run_config=RunConfig(call_model_input_filter=adapter))
    assert server.seen == []


async def test_the_scope_is_found_in_the_context_of_a_run(agent: Any, memory_url: str) -> None:
    async with ContextSession("trip", scope=lambda call: call.context["user"], memory=memory_url) as session:
        config = RunConfig(call_model_input_filter=session.input_filter)
        for user in ("ana", "ben"):
            await Runner.run(agent, user, session=session, run_config=config, context={"user": user})
    async with Memory(memory_url) as memory:
        for user in ("ana", "ben"):
            stored = await memory.get_messages_only(user, "trip")
            assert [message["content"] for message in stored] == [user, noted(user)]


async def test_files_hosted_tools_and_reasoning_go_back_to_the_model(memory_url: str) -> None:
    reasoning = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "encrypted_content": "c2VjcmV0",
    }
    file = {"type": "input_file", "file_id": "file-1"}
    items: list[Any] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Read it."}, file]},
        reasoning,
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Found."}]},
    ]
    async with ContextSession("trip", scope="ana", memory=memory_url) as session:
        await session.add_items(items)
    async with ContextSession("trip", scope="ana", memory=memory_url) as session:
        assert await session.get_items() == items


async def test_a_session_may_be_read_while_it_runs(agent: Any, memory_url: str) -> None:
    async with ContextSession("trip", scope="ana", memory=memory_url) as session:

        async def read_and_filter(data: Any) -> Any:
            await session.get_items(limit=1)
            return await session.input_filter(data)

        config = RunConfig(call_model_input_filter=read_and_filter)
        for streamed in (False, True):
            for text in (QUESTION, "And now?"):
                await run(agent, text, streamed=streamed, session=session, run_config=config)
        assert await session.memory.get_message_count("ana", "trip") == 2 * (5 + 2)


async def test_the_responses_api_is_sent_the_same(memory_url: str) -> None:
    async with providing(Say("Here.")) as server, make_client(server.url) as client:
        agent = make_agent(client, OpenAIResponsesModel)
        async with ContextSession("trip", scope="ana", memory=memory_url) as session:
            config = RunConfig(call_model_input_filter=session.input_filter)
            await Runner.run(agent, QUESTION, session=session, run_config=config)
        assert [one.body["input"] for one in server.seen] == [
            [{"type": "message", "role": "user", "content": QUESTION}]
        ]


def test_items_and_messages_are_the_same_again() -> None:
    items: list[Any] = [
        {"type": "message", "role": "user", "content": "Hello"},
        {"type": "message", "role": "assistant", "content": "Look."},
        {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'},
        {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    ]
    found = to_messages(items)
    assert [one.message.role.value for one in found] == ["user", "assistant", "tool"]
    again = [item for one in found for item in from_message(type(one)(one.message))]
    assert again == items
