"""`ContextCapability` and its history processor with agents of Pydantic AI."""

from __future__ import annotations

from collections.abc import AsyncIterable, Collection
from typing import Any, ClassVar

import pytest
from adapters.contract import AdapterContract
from adapters.recorded_conversation import CONVERSATION, INSTRUCTIONS, PNG, noted, weather
from adapters.several_agents import EXPERT, GUIDE, HAND_OVER, SeveralAgentsContract
from models.provider_server import Fault, ProviderServer, providing
from models.provider_words import Say
from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent, ImageUrl, RunContext, ToolFailed
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    CachePoint,
    DocumentUrl,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from autonomy_ctx import (
    ContextTemplate,
    ConversationHistorySection,
    ImageContent,
    Message,
    SystemInstructionsSection,
    TextContent,
    ThinkingContent,
)
from autonomy_ctx.adapters.pydantic_ai import ContextCapability, from_message, to_messages
from autonomy_ctx.agents.explain import RECORD_KIND, parse_turn
from autonomy_ctx.errors import HistoryMismatch
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.summary import visible_fields


def find_weather(city: str) -> str:
    """The weather in a city."""
    try:
        return weather(city)
    except LookupError as error:
        raise ToolFailed(str(error)) from error


def make_client(url: str) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0)


def make_agent(client: AsyncOpenAI, *capabilities: Any, **options: Any) -> Any:
    # OpenAI's own server refuses thinking, so it is read and not sent back.
    profile = OpenAIModelProfile(openai_chat_send_back_thinking_parts=False)
    model = OpenAIChatModel("gpt-4.1", provider=OpenAIProvider(openai_client=client), profile=profile)
    agent = Agent(model, capabilities=list(capabilities), **{"instructions": INSTRUCTIONS, **options})
    agent.tool_plain(name="weather")(find_weather)
    return agent


async def read_stream(_: Any, events: AsyncIterable[Any]) -> None:
    async for _event in events:
        pass


class PydanticAgent:
    """An agent of Pydantic AI that is given its history with each run, as JSON in between."""

    carries: ClassVar[Collection[str]] = ("images", "thinking", "errors")

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None:
        self.adapter = ContextCapability(**options)
        self.client = make_client(url)
        self.agent = make_agent(self.client, *self.capabilities())
        self.histories: dict[str, bytes] = {} if history is None else history

    def capabilities(self) -> list[Any]:
        return [self.adapter]

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        prompt = text if image is None else [text, BinaryContent(image, media_type="image/png")]
        known = self.histories.get(conversation)
        options = {
            "conversation_id": conversation,
            "message_history": None if known is None else ModelMessagesTypeAdapter.validate_json(known),
        }
        handler = read_stream if streamed else None
        result = await self.agent.run(prompt, event_stream_handler=handler, **options)
        self.histories[conversation] = result.all_messages_json()
        return str(result.output)

    def history(self) -> dict[str, bytes]:
        return self.histories

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class ProcessorAgent(PydanticAgent):
    """The same with a history processor: what is sent becomes the history."""

    def capabilities(self) -> list[Any]:
        return [ProcessHistory(self.adapter.process_history)]


class TestCapability(AdapterContract):
    framework = PydanticAgent


class TestHistoryProcessor(AdapterContract):
    framework = ProcessorAgent
    hears_answers = False


class PydanticTeam:
    """Agents of Pydantic AI. A handover is a run of the other agent with the history, by the application."""

    argument: ClassVar[str] = "question"

    @staticmethod
    def handover(name: str) -> None:
        return None

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        self.adapter = ContextCapability(**options)
        self.client = make_client(url)
        model = OpenAIChatModel("gpt-4.1", provider=OpenAIProvider(openai_client=self.client))
        shared = self.capabilities()
        expert: Any = Agent(model, name="expert", instructions=EXPERT, capabilities=shared)
        guide: Any = Agent(model, name="guide", instructions=GUIDE, capabilities=shared)
        if not hands_over:

            @guide.tool(name="expert")
            async def ask(ctx: RunContext[None], question: str) -> str:
                """Ask the expert."""
                result = await expert.run(question, usage=ctx.usage, **self.inner(ctx))
                return str(result.output)

        self.agents = {HAND_OVER: expert}
        self.guide, self.history = guide, None

    def capabilities(self) -> list[Any]:
        return [self.adapter]

    def inner(self, ctx: Any) -> dict[str, Any]:
        """Without an id, an inner run gets a new one."""
        return {}

    async def send(self, text: str) -> str:
        agent = self.agents.get(text, self.guide)
        result = await agent.run(text, conversation_id=CONVERSATION, message_history=self.history)
        self.history = result.all_messages()
        return str(result.output)

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class PydanticTeamWithOneId(PydanticTeam):
    """The same, and the inner run is given the id of the outer one."""

    def inner(self, ctx: Any) -> dict[str, Any]:
        return {"conversation_id": ctx.conversation_id}


class ProcessorTeam(PydanticTeamWithOneId):
    """The same with a history processor."""

    def capabilities(self) -> list[Any]:
        return [ProcessHistory(self.adapter.process_history)]


class TestTeam(SeveralAgentsContract):
    team = PydanticTeam


class TestTeamWithOneId(SeveralAgentsContract):
    team = PydanticTeamWithOneId


class TestProcessorTeam(SeveralAgentsContract):
    team = ProcessorTeam


async def test_the_record_of_a_call_has_its_model_and_usage(server: ProviderServer, memory_url: str) -> None:
    agent = PydanticAgent(server.url, {"scope": "ana", "memory": memory_url})
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
    summary = {"floor": 1, "ceiling": 2}
    agent = PydanticAgent(server.url, {"scope": "ana", "memory": memory_url, "context_summary": summary})
    for number in range(4):
        await agent.send("trip", f"Remark {number}")
        await agent.adapter.settled()
    await agent.close()
    assert len(ModelMessagesTypeAdapter.validate_json(agent.histories["trip"])) == 8
    assert len(server.seen[-1].body["messages"]) < 8


async def test_a_processed_history_stays_short_and_the_log_is_whole(
    server: ProviderServer, memory_url: str
) -> None:
    summary = {"floor": 1, "ceiling": 2}
    agent = ProcessorAgent(server.url, {"scope": "ana", "memory": memory_url, "context_summary": summary})
    for number in range(5):
        await agent.send("trip", f"Remark {number}")
        await agent.adapter.settled()
    count = await agent.adapter.memory.get_message_count("ana", "trip")
    await agent.close()
    assert len(ModelMessagesTypeAdapter.validate_json(agent.histories["trip"])) < 7
    # The last answer comes with the next request.
    assert count == 9


async def test_a_conversation_without_its_history_goes_on_from_the_log(
    server: ProviderServer, memory_url: str
) -> None:
    async with (
        make_client(server.url) as client,
        ContextCapability(scope="ana", memory=memory_url) as adapter,
    ):
        agent = make_agent(client, adapter)
        for text in ("One", "Yes", "Yes"):
            result = await agent.run(text, conversation_id="trip")
        # The id is in the history, too.
        last = await agent.run("Last", message_history=result.all_messages())
        assert last.output == noted("Last")
        shown = [message.text for message in (await adapter.explain("trip")).messages]
        assert shown[1::2] == ["One", "Yes", "Yes", "Last"]
        with pytest.raises(HistoryMismatch):
            await agent.run("Cut", message_history=last.all_messages()[1:])


async def test_a_run_that_failed_may_be_forgotten(memory_url: str) -> None:
    async with (
        providing(Say("Here."), Fault.OVERLOADED, Say("There.")) as server,
        make_client(server.url) as client,
        ContextCapability(scope="ana", memory=memory_url) as adapter,
    ):
        agent = make_agent(client, adapter)
        first = await agent.run("One", conversation_id="trip")
        with pytest.raises(ModelHTTPError):
            await agent.run("Two", message_history=first.all_messages())
        third = await agent.run("Three", message_history=first.all_messages())
        composed = await adapter.explain("trip")
    assert third.output == "There."
    assert [message.text for message in composed.messages[1:]] == ["One", "Here.", "Three"]


async def test_the_scope_is_found_in_the_dependencies(server: ProviderServer, memory_url: str) -> None:
    async with (
        make_client(server.url) as client,
        ContextCapability(scope=lambda ctx: ctx.deps, memory=memory_url) as adapter,
    ):
        agent = make_agent(client, adapter, deps_type=str)
        for user in ("ana", "ben"):
            await agent.run(user, conversation_id="trip", deps=user)
        for user in ("ana", "ben"):
            stored = await adapter.memory.get_messages_only(user, "trip")
            assert [message["content"] for message in stored] == [user, noted(user)]


@pytest.mark.parametrize("processed", [False, True])
async def test_system_prompts_and_sections_of_a_template_are_sent(
    server: ProviderServer, memory_url: str, processed: bool
) -> None:
    template = ContextTemplate(
        [SystemInstructionsSection("From us."), ConversationHistorySection(max_messages=2)]
    )
    async with (
        make_client(server.url) as client,
        ContextCapability(scope="ana", memory=memory_url, context_template=template) as adapter,
    ):
        capability = ProcessHistory(adapter.process_history) if processed else adapter
        agent = make_agent(client, capability, system_prompt="Be kind.", instructions=None)
        history = None
        for text in ("One", "Two", "Three"):
            result = await agent.run(text, conversation_id="trip", message_history=history)
            history = result.all_messages()
    assert sorted(server.asked().system) == ["Be kind.", "From us."]
    assert [text for _, text in server.asked().said][-1] == "Three"
    assert "One" not in [text for _, text in server.asked().said]


def test_what_the_framework_has_is_read() -> None:
    history = [
        ModelRequest(
            parts=[
                UserPromptPart(
                    [
                        "Look.",
                        ImageUrl("https://example.org/a.png"),
                        CachePoint(),
                        DocumentUrl("https://x.org/b"),
                    ]
                )
            ]
        ),
        ModelResponse(
            parts=[
                ThinkingPart("Hm.", signature="abc"),
                TextPart("I do."),
                ToolCallPart("look", {"at": 1}, "c1"),
            ]
        ),
        ModelRequest(
            parts=[
                ToolReturnPart("look", [{"seen": True}, BinaryContent(PNG, media_type="image/png")], "c1"),
                UserPromptPart("And?"),
            ]
        ),
    ]
    asked, thought, result, more = [one.message for one in to_messages(history)]
    assert asked.parts == (
        TextContent("Look."),
        ImageContent("https://example.org/a.png"),
        TextContent("[document-url]"),
    )
    assert thought.parts == (ThinkingContent("Hm.", signature="abc"), TextContent("I do."))
    assert [(call.id, call.arguments) for call in thought.tool_calls] == [("c1", '{"at":1}')]
    assert (result.tool_call_id, result.name, more.text) == ("c1", "look", "And?")
    assert sum(isinstance(part, ImageContent) for part in result.parts) == 1


def test_a_message_of_ours_becomes_one_of_theirs() -> None:
    messages = [
        Message("user", ["Look.", ImageContent.from_bytes(PNG), ImageContent("https://example.org/a.png")]),
        Message("assistant", "I do.", tool_calls=[{"id": "c1", "name": "look", "arguments": '{"at":1}'}]),
        Message("tool", "gone", tool_call_id="c1", name="look", is_error=True),
    ]
    again = [one.message for one in to_messages([from_message(message) for message in messages])]
    assert [visible_fields(message) for message in again] == [visible_fields(message) for message in messages]
