"""Microsoft Agent Framework, with OpenAI's own client."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, ClassVar

import agent_framework
import pytest
from adapters.contract import AdapterContract, recorded_step, summarizer
from adapters.recorded_conversation import (
    CALLS,
    CONVERSATION,
    INSTRUCTIONS,
    PNG,
    QUESTION,
    SCOPE,
    noted,
    shown,
    weather,
)
from adapters.several_agents import EXPERT, GUIDE, HAND_OVER, SeveralAgentsContract
from agent_framework import Agent, AgentSession, Content, Message, tool
from agent_framework.openai import OpenAIChatCompletionClient
from models.provider_server import ProviderServer
from openai import AsyncOpenAI

from autonomy_ctx.adapters.agent_framework import ContextProvider, from_messages, to_messages
from autonomy_ctx.errors import UnnamedConversation
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.messages.summary import visible_fields


@tool(name="weather")
def weather_tool(city: str) -> str:
    """The weather in a city."""
    try:
        return weather(city)
    except LookupError as error:
        return str(error)


class MicrosoftAgent:
    """An agent whose sessions are kept as dicts, as an application would keep them."""

    # A tool that raises has the framework's text for its error; see below. This client tells no thinking.
    carries: ClassVar[Collection[str]] = ("images",)

    def __init__(self, url: str, options: dict[str, Any], history: dict[str, Any] | None = None) -> None:
        self.adapter = ContextProvider(**options)
        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k")
        self.agent = Agent(
            client=OpenAIChatCompletionClient(model="gpt-4.1", async_client=self.client),
            instructions=INSTRUCTIONS,
            tools=[weather_tool],
            context_providers=[self.adapter],
        )
        self.sessions = {name: AgentSession.from_dict(one) for name, one in (history or {}).items()}

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        session = self.sessions.setdefault(conversation, AgentSession(session_id=conversation))
        contents = [Content.from_text(text)]
        if image is not None:
            contents.append(Content.from_data(image, "image/png"))
        asked = Message("user", contents)
        if not streamed:
            said = (await self.agent.run(asked, session=session)).text
        else:
            said = "".join(
                [update.text async for update in self.agent.run(asked, session=session, stream=True)]
            )
        return str(said).removeprefix(CALLS.text)

    def history(self) -> dict[str, Any]:
        return {name: session.to_dict() for name, session in self.sessions.items()}

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class MicrosoftTeam:
    """Agents of Agent Framework. A handover is a run of the other agent with the session."""

    argument: ClassVar[str] = "task"

    @staticmethod
    def handover(name: str) -> None:
        return None

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        self.adapter = ContextProvider(**options)
        self.client = AsyncOpenAI(base_url=f"{url}/v1", api_key="k")
        client = OpenAIChatCompletionClient(model="gpt-4.1", async_client=self.client)
        self.expert = Agent(
            client=client, name="expert", instructions=EXPERT, context_providers=[self.adapter]
        )
        tools = [] if hands_over else [self.expert.as_tool()]
        self.guide = Agent(
            client=client, name="guide", instructions=GUIDE, tools=tools, context_providers=[self.adapter]
        )
        self.session = AgentSession(session_id=CONVERSATION)

    async def send(self, text: str) -> str:
        agent = self.expert if text == HAND_OVER else self.guide
        return str((await agent.run(text, session=self.session)).text)

    async def close(self) -> None:
        await self.adapter.close()
        await self.client.close()


class TestTeam(SeveralAgentsContract):
    team = MicrosoftTeam


class TestAgentFramework(AdapterContract):
    framework = MicrosoftAgent

    async def test_the_record_of_a_call_has_its_model_and_usage(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = MicrosoftAgent(server.url, self.options(memory_url))
        await agent.send(CONVERSATION, QUESTION)
        step = await recorded_step(agent.adapter)
        await agent.close()
        usage = Usage(input_tokens=900, cached_tokens=512, output_tokens=12)
        assert (step.model, step.usage) == ("gpt-4.1", usage)

    async def test_the_session_keeps_the_whole_history(
        self, server: ProviderServer, summaries: ProviderServer, memory_url: str
    ) -> None:
        agent = MicrosoftAgent(server.url, self.options(memory_url, summarizer(summaries)))
        for number in range(4):
            await agent.send(CONVERSATION, f"Remark {number}")
            await agent.adapter.settled()
        stored = (await agent.adapter.memory.read(SCOPE, CONVERSATION)).entries
        await agent.close()
        said = [message.text for message in agent.sessions[CONVERSATION].state["in_memory"]["messages"]]
        assert said[::2] == [f"Remark {number}" for number in range(4)]
        assert len(server.asked().said) < len(said)
        # The last answer is stored as soon as it is there.
        assert [entry.message.text for entry in stored] == said

    async def test_a_tool_that_raises_gives_a_result_with_an_error_flag(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = MicrosoftAgent(server.url, self.options(memory_url))
        agent.agent.default_options["tools"] = [tool(weather, name="weather")]
        await agent.send(CONVERSATION, QUESTION)
        composed = shown(await agent.adapter.explain(CONVERSATION))
        await agent.close()
        assert [one.is_error for one in composed if one.role == "tool"] == [False, True]

    async def test_what_other_providers_add_is_sent_and_not_stored(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = MicrosoftAgent(server.url, self.options(memory_url))
        agent.agent.context_providers.append(Tides("tides"))
        for number in range(3):
            assert await agent.send(CONVERSATION, f"Remark {number}") == noted(f"Remark {number}")
        stored = await agent.adapter.memory.get_messages_only(SCOPE, CONVERSATION)
        await agent.close()
        assert [text for role, text in server.asked().said if role == "user"] == [
            "Remark 0",
            "Remark 1",
            "The tide is low.",
            "Remark 2",
        ]
        assert len(stored) == 6

    async def test_a_run_without_a_session_is_an_error_that_says_what_to_do(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = MicrosoftAgent(server.url, self.options(memory_url))
        with pytest.raises(UnnamedConversation, match="create_session"):
            await agent.agent.run("Hello")
        await agent.close()
        assert server.seen == []

    def test_messages_survive_both_ways(self) -> None:
        messages = [
            Message(
                "user", [Content.from_text("Look."), Content.from_data(PNG, "image/png")], author_name="ana"
            ),
            Message(
                "assistant",
                [
                    Content.from_text_reasoning(text="Hm.", protected_data="signed"),
                    Content.from_function_call("c1", "look", arguments='{"at": 1}'),
                ],
            ),
            Message("tool", [Content.from_function_result("c1", result="gone", exception="LookupError")]),
            Message("assistant", [Content.from_text("Gone."), Content.from_hosted_file("f1")]),
        ]
        said = from_messages(messages)
        assert [one.message.role.value for one in said] == ["user", "assistant", "tool", "assistant"]
        assert said[2].message.is_error
        assert [one.to_dict() for one in to_messages(said)] == [one.to_dict() for one in messages]
        # Without the framework's own messages, as for one that was shortened: what is unknown is named.
        again = from_messages(to_messages(replace(one, source=None) for one in said))
        fields = [visible_fields(one.message) for one in said]
        assert [visible_fields(one.message) for one in again] == fields
        assert said[3].message.text == "Gone.\n[hosted_file]"


class Tides(agent_framework.ContextProvider):
    """Another provider of context."""

    async def before_run(self, *, context: Any, **more: Any) -> None:
        context.extend_messages(self, [Message("user", ["The tide is low."])])
