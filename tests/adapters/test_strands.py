"""Strands Agents, with Bedrock's own client."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import anyio
import boto3
import pytest
import strands
from adapters.contract import AdapterContract, recorded_step, summarizer
from adapters.recorded_conversation import CONVERSATION, INSTRUCTIONS, PNG, QUESTION, SCOPE, noted, weather
from adapters.several_agents import EXPERT, GUIDE, SeveralAgentsContract
from botocore import UNSIGNED
from botocore.config import Config
from models.provider_server import Fault, ProviderServer, providing
from models.provider_words import Call, Say
from strands.models import BedrockModel
from strands.multiagent import Swarm
from strands.session import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from autonomy_ctx.adapters.strands import ContextConversationManager, from_strands, to_strands
from autonomy_ctx.errors import UnnamedConversation
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.messages.summary import Summary, visible_fields

PICTURE = {"format": "png", "source": {"bytes": PNG}}


@strands.tool(name="weather")
def weather_tool(city: str) -> dict[str, Any]:
    """The weather in a city."""
    try:
        return {"status": "success", "content": [{"text": weather(city)}]}
    except LookupError as error:
        return {"status": "error", "content": [{"text": str(error)}]}


def _add_key(request: Any, **more: Any) -> None:
    """By itself the client sends a key over TLS only."""
    request.headers["Authorization"] = "Bearer k"


class StrandsFramework:
    """One agent for each conversation."""

    carries: ClassVar[Collection[str]] = ("images", "thinking", "errors")

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None:
        self.model = BedrockModel(
            model_id="amazon.nova-micro-v1:0",
            boto_session=boto3.Session(region_name="us-east-1"),
            boto_client_config=Config(signature_version=UNSIGNED),
            endpoint_url=url,
        )
        self.model.client.meta.events.register("before-send.bedrock-runtime", _add_key)
        self.options = options
        self.agents: dict[str, strands.Agent] = {}
        self.managers: dict[str, ContextConversationManager] = {}

    @property
    def adapter(self) -> ContextConversationManager:
        return next(iter(self.managers.values()))

    def agent(self, conversation: str) -> strands.Agent:
        if conversation not in self.agents:
            manager = ContextConversationManager(**self.options, conversation=conversation)
            self.managers[conversation] = manager
            self.agents[conversation] = strands.Agent(
                model=self.model,
                system_prompt=INSTRUCTIONS,
                tools=[weather_tool],
                conversation_manager=manager,
                callback_handler=None,
            )
        return self.agents[conversation]

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        content: list[Any] = [{"text": text}]
        if image is not None:
            content.append({"image": {"format": "png", "source": {"bytes": image}}})
        agent = self.agent(conversation)
        if not streamed:
            return str(await agent.invoke_async(content)).strip()
        pieces = [event["data"] async for event in agent.stream_async(content) if "data" in event]
        return "".join(pieces).removeprefix("I look at both.")

    def history(self) -> Any:
        """Nothing: an agent gets its messages from our log."""

    async def close(self) -> None:
        for manager in self.managers.values():
            await manager.close()


class StrandsTeam:
    """Agents of Strands, each with a conversation: one a tool of the other, or both in a swarm."""

    argument: ClassVar[str] = "input"

    @staticmethod
    def handover(name: str) -> Call:
        return Call("", "handoff_to_agent", {"agent_name": name, "message": "It was asked for."})

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        model = StrandsFramework(url, {}).model
        self.adapter = ContextConversationManager(**options, conversation=CONVERSATION)
        self.other = ContextConversationManager(**options, conversation=f"{CONVERSATION}/expert")
        common: dict[str, Any] = {"model": model, "callback_handler": None}
        expert = strands.Agent(name="expert", system_prompt=EXPERT, conversation_manager=self.other, **common)
        tools = [] if hands_over else [expert.as_tool(name="expert")]
        self.agent: Any = strands.Agent(
            name="guide", system_prompt=GUIDE, tools=tools, conversation_manager=self.adapter, **common
        )
        self.swarm = Swarm([self.agent, expert], entry_point=self.agent) if hands_over else None

    async def send(self, text: str) -> str:
        if self.swarm is None:
            return str(await self.agent.invoke_async(text)).strip()
        result = await self.swarm.invoke_async(text)
        return str(result.results[result.node_history[-1].node_id].result).strip()

    async def close(self) -> None:
        await self.adapter.close()
        await self.other.close()


class TestTeam(SeveralAgentsContract):
    team = StrandsTeam
    # A swarm begins each task with the messages that its agents had at first.
    remembers = False


class TestStrands(AdapterContract):
    framework = StrandsFramework

    async def test_the_record_of_a_call_has_its_model_and_usage(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = StrandsFramework(server.url, self.options(memory_url))
        await agent.send(CONVERSATION, QUESTION)
        step = await recorded_step(agent.adapter)
        await agent.close()
        usage = Usage(input_tokens=900, cached_tokens=512, output_tokens=12)
        assert (step.model, step.usage) == ("amazon.nova-micro-v1:0", usage)

    async def test_the_framework_keeps_its_whole_history(
        self, server: ProviderServer, summaries: ProviderServer, memory_url: str
    ) -> None:
        agent = StrandsFramework(server.url, self.options(memory_url, summarizer(summaries)))
        for number in range(4):
            await agent.send(CONVERSATION, f"Remark {number}")
            await agent.adapter.settled()
        messages = agent.agent(CONVERSATION).messages
        await agent.close()
        assert [block["text"] for message in messages for block in message["content"]][::2] == [
            f"Remark {number}" for number in range(4)
        ]
        assert len(server.asked().said) < len(messages)

    async def test_plain_calls_are_summarized_in_the_background_too(
        self, server: ProviderServer, summaries: ProviderServer, memory_url: str
    ) -> None:
        """Each has an event loop of its own, which ends with the call."""
        agent = StrandsFramework(server.url, self.options(memory_url, summarizer(summaries)))

        def talk() -> None:
            for number in range(5):
                assert str(agent.agent(CONVERSATION)(f"Remark {number}")).strip() == noted(f"Remark {number}")

        await anyio.to_thread.run_sync(talk)
        await agent.adapter.settled()
        await agent.send(CONVERSATION, "And now?")
        composed = await agent.adapter.explain(CONVERSATION)
        await agent.close()
        assert any(isinstance(message, Summary) for message in composed.messages)

    async def test_the_id_of_a_session_is_the_conversation(
        self, server: ProviderServer, memory_url: str, tmp_path: Path
    ) -> None:
        for number in range(2):
            async with ContextConversationManager(scope=SCOPE, memory=memory_url) as manager:
                agent = strands.Agent(
                    model=StrandsFramework(server.url, {}).model,
                    session_manager=FileSessionManager("trip-7", storage_dir=str(tmp_path)),
                    conversation_manager=manager,
                    callback_handler=None,
                )
                await agent.invoke_async(f"Remark {number}")
                assert len(agent.messages) == 2 * number + 2
                stored = await manager.memory.get_messages_only(SCOPE, "trip-7")
                assert len(stored) == 2 * number + 2

    def test_a_missing_conversation_is_an_error_that_says_what_to_do(self) -> None:
        with (
            ContextConversationManager(scope=SCOPE) as manager,
            pytest.raises(UnnamedConversation, match="session manager"),
        ):
            strands.Agent(conversation_manager=manager, callback_handler=None)

    async def test_after_an_overflow_the_next_context_is_smaller(self, memory_url: str) -> None:
        async with providing(Say("Yes."), Say("Yes."), Fault.TOO_LONG, Say("Now it fits.")) as server:
            agent = StrandsFramework(server.url, self.options(memory_url))
            for text in ("What is it? " * 200, "And this? " * 200):
                assert await agent.send(CONVERSATION, text) == "Yes."
            assert await agent.send(CONVERSATION, "Anything else?") == "Now it fits."
            assert (await agent.adapter.explain(CONVERSATION)).cut
            await agent.close()

    async def test_an_overflow_that_nothing_can_mend_is_raised(self, memory_url: str) -> None:
        async with providing(Fault.TOO_LONG) as server:
            agent = StrandsFramework(server.url, self.options(memory_url))
            with pytest.raises(ContextWindowOverflowException):
                await agent.send(CONVERSATION, "Hello")
            await agent.close()

    def test_messages_survive_both_ways(self) -> None:
        messages: list[Any] = [
            {"role": "user", "content": [{"text": "Look."}, {"image": PICTURE}, {"document": {"name": "d"}}]},
            {
                "role": "assistant",
                "content": [
                    {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
                    {"reasoningContent": {"redactedContent": b"secret"}},
                    {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"at": "ü"}}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"toolResult": {"toolUseId": "c1", "status": "error", "content": [{"json": {"a": 1}}]}},
                    {"text": "Go on."},
                ],
            },
        ]
        said = from_strands(messages)
        assert [one.message.role.value for one in said] == ["user", "assistant", "tool", "user"]
        assert to_strands(said) == messages
        # Without the framework's own blocks, as after a restart: what is no text or image is named.
        again = to_strands(replace(one, source=None) for one in said)
        shown = [visible_fields(one.message) for one in from_strands(again)]
        assert shown == [visible_fields(one.message) for one in said]
        assert again[0]["content"] == [{"text": "Look."}, {"image": PICTURE}, {"text": "[document]"}]
        assert again[1] == messages[1]
