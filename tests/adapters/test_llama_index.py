"""`ContextMemory` with agents and chat engines of LlamaIndex."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar

import pytest
from adapters import recorded_conversation
from adapters.contract import AdapterContract
from adapters.recorded_conversation import CONVERSATION, INSTRUCTIONS, PNG, QUESTION, shown, weather
from adapters.several_agents import EXPERT, GUIDE, SeveralAgentsContract
from llama_index.core.agent.workflow import AgentWorkflow, FunctionAgent
from llama_index.core.base.llms.types import (
    ChatMessage,
    ChatResponse,
    DocumentBlock,
    ImageBlock,
    LLMMetadata,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.llms.llm import ToolSelection
from llama_index.core.tools import FunctionTool
from models.provider_server import ProviderServer
from models.provider_words import Call
from openai import AsyncOpenAI

from autonomy_ctx import ImageContent, Message, TextContent, ThinkingContent
from autonomy_ctx.adapters.llama_index import ContextMemory, from_message, to_message
from autonomy_ctx.errors import UnnamedConversation
from autonomy_ctx.formats.openai import openai_message
from autonomy_ctx.messages.summary import visible_fields


class ServedLLM(FunctionCallingLLM):
    """Chat completions, as the framework's own package for them asks for them."""

    url: str

    @property
    def metadata(self) -> LLMMetadata:
        return LLMMetadata(is_function_calling_model=True, model_name="gpt-4.1")

    def _prepare_chat_with_tools(self, tools: Sequence[Any], **options: Any) -> dict[str, Any]:
        return {
            "messages": options["chat_history"],
            "tools": [tool.metadata.to_openai_tool() for tool in tools],
        }

    async def achat(self, messages: Sequence[ChatMessage], **options: Any) -> ChatResponse:
        body: dict[str, Any] = {"messages": [openai_message(to_message(one)) for one in messages]}
        body |= {"tools": options["tools"]} if options.get("tools") else {}
        async with AsyncOpenAI(base_url=f"{self.url}/v1", api_key="k", max_retries=0) as client:
            reply = await client.chat.completions.create(model="gpt-4.1", **body)
        said = reply.choices[0].message
        blocks: list[Any] = []
        if thought := getattr(said, "reasoning_content", None):
            blocks.append(ThinkingBlock(content=thought))
        if said.content:
            blocks.append(TextBlock(text=said.content))
        for call in said.tool_calls or ():
            arguments = json.loads(call.function.arguments)
            blocks.append(
                ToolCallBlock(tool_call_id=call.id, tool_name=call.function.name, tool_kwargs=arguments)
            )
        return ChatResponse(message=ChatMessage(role="assistant", blocks=blocks), delta=said.content)

    async def astream_chat(
        self, messages: Sequence[ChatMessage], **options: Any
    ) -> AsyncIterator[ChatResponse]:
        async def pieces() -> AsyncIterator[ChatResponse]:
            yield await self.achat(messages, **options)

        return pieces()

    def get_tool_calls_from_response(self, response: ChatResponse, **_: Any) -> list[ToolSelection]:
        return [
            ToolSelection(
                tool_id=block.tool_call_id, tool_name=block.tool_name, tool_kwargs=block.tool_kwargs
            )
            for block in response.message.blocks
            if isinstance(block, ToolCallBlock)
        ]

    def _not_used(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError

    chat = stream_chat = complete = stream_complete = acomplete = astream_complete = _not_used


WEATHER = FunctionTool.from_defaults(weather, name="weather", description="The weather in a city.")


class LlamaIndexAgent:
    """An agent of LlamaIndex; a result has no flag for errors there."""

    carries: ClassVar[Collection[str]] = ("images", "thinking")

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None:
        self.adapter = ContextMemory("first", **options)
        self.agents = {
            streaming: FunctionAgent(
                tools=[WEATHER], llm=ServedLLM(url=url), system_prompt=INSTRUCTIONS, streaming=streaming
            )
            for streaming in (False, True)
        }

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        blocks: list[Any] = [TextBlock(text=text)]
        if image is not None:
            blocks.append(ImageBlock(image=image, image_mimetype="image/png"))
        memory = self.adapter.share(conversation)
        return str(await self.agents[streamed].run(ChatMessage(role="user", blocks=blocks), memory=memory))

    def history(self) -> None:
        return None

    async def close(self) -> None:
        await self.adapter.close()


class LlamaIndexTeam:
    """Agents of LlamaIndex: one in a tool, with a memory for each run, or both in a workflow with one."""

    argument: ClassVar[str] = "question"

    @staticmethod
    def handover(name: str) -> Call:
        return Call("", "handoff", {"to_agent": name, "reason": "It was asked for."})

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        self.adapter = ContextMemory(CONVERSATION, **options)
        llm, runs = ServedLLM(url=url), count(1)
        expert = FunctionAgent(
            name="expert", description="Knows.", llm=llm, system_prompt=EXPERT, streaming=False
        )

        async def ask(question: str) -> str:
            """Ask the expert."""
            return str(await expert.run(question, memory=self.adapter.share(f"expert-{next(runs)}")))

        tools = [] if hands_over else [FunctionTool.from_defaults(async_fn=ask, name="expert")]
        guide = FunctionAgent(
            name="guide", description="Leads.", llm=llm, system_prompt=GUIDE, tools=tools, streaming=False
        )
        agents = [guide, expert] if hands_over else [guide]
        self.workflow = AgentWorkflow(agents=agents, root_agent="guide")

    async def send(self, text: str) -> str:
        # Each run begins with the guide: a `Context`, which would know the agent, cannot hold our memory.
        return str(await self.workflow.run(text, memory=self.adapter))

    async def close(self) -> None:
        await self.adapter.close()


class TestTeam(SeveralAgentsContract):
    team = LlamaIndexTeam


class TestLlamaIndex(AdapterContract):
    framework = LlamaIndexAgent

    def expected(self, agent: Any) -> list[recorded_conversation.Shown]:
        """The agent puts its instructions before what its memory gives."""
        return super().expected(agent)[1:]

    async def test_each_call_of_a_turn_is_a_step_that_can_be_explained(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        """An agent puts the calls of a turn into its memory when the turn has ended."""
        agent = self.make(server, memory_url)
        try:
            await agent.send("trip", QUESTION)
            steps = [await agent.adapter.explain("trip", step=step) for step in (1, 2)]
        finally:
            await agent.close()
        assert [[one.role for one in shown(step)] for step in steps] == [["user"], ["user"]]


async def test_a_memory_needs_the_name_of_a_conversation() -> None:
    async with ContextMemory("", scope="ana") as memory:
        with pytest.raises(UnnamedConversation, match="conversation"):
            await memory.aput(ChatMessage(role="user", content="Hello"))


def test_a_chat_engine_uses_it_without_a_loop(memory_url: str) -> None:
    with ContextMemory("trip", scope=lambda memory: "ana", memory=memory_url) as memory:
        engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=memory)
        engine.chat("Hello")
        engine.chat("And now?")
        assert [message.content for message in memory.get_all()][::2] == ["Hello", "And now?"]
        assert memory.engine.run_sync(memory.engine.explain, "trip", scope="ana").messages
        engine.reset()
        assert memory.get_all() == []


async def test_a_history_that_is_set_goes_on_or_becomes_a_fork(memory_url: str) -> None:
    said = [ChatMessage(role=role, content=text) for role, text in (("user", "One"), ("assistant", "Two"))]
    async with ContextMemory.from_defaults(conversation="trip", scope="ana", memory=memory_url) as memory:
        await memory.aput_messages(said)
        await memory.aset([*said, ChatMessage(role="user", content="Three")])
        assert [message.content for message in await memory.aget()] == ["One", "Two", "Three"]
        await memory.aset([*said, ChatMessage(role="user", content="Four")])
        await memory.aput(ChatMessage(role="assistant", content="Five"))
        assert [message.content for message in await memory.aget()] == ["One", "Two", "Four", "Five"]
        stored = await memory.engine.run(memory.memory.get_messages_only, "ana", "trip")
        assert [message["content"] for message in stored] == ["One", "Two", "Three"]


def test_messages_of_the_framework_are_the_same_again() -> None:
    messages = [
        ChatMessage(
            role="user", blocks=[TextBlock(text="Look."), ImageBlock(url="https://example.org/a.png")]
        ),
        ChatMessage(role="user", blocks=[ImageBlock(image=PNG, image_mimetype="image/png")]),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="Hm.", additional_information={"signature": "abc"}),
                TextBlock(text="I do."),
                ToolCallBlock(tool_call_id="c1", tool_name="look", tool_kwargs={"at": 1}),
            ],
        ),
        ChatMessage(role="tool", content="seen", additional_kwargs={"tool_call_id": "c1", "name": "look"}),
        ChatMessage(
            role="user", blocks=[DocumentBlock(data=b"text", title="a", document_mimetype="text/plain")]
        ),
        ChatMessage(role="assistant", content="Done.", additional_kwargs={"refusal": None, "own": [1]}),
    ]
    again = [from_message(to_message(message)) for message in messages]
    assert [one.model_dump() for one in again] == [one.model_dump() for one in messages]


def test_what_we_have_a_field_for_is_read() -> None:
    thought = ChatMessage(
        role="model",
        blocks=[
            ThinkingBlock(content="Hm."),
            ToolCallBlock(tool_call_id="c", tool_name="look", tool_kwargs="{"),
        ],
    )
    assert to_message(thought).parts == (ThinkingContent("Hm."),)
    assert [call.arguments for call in to_message(thought).tool_calls] == ["{"]
    shortened = replace(
        to_message(ChatMessage(role="user", blocks=[DocumentBlock(data=b"x")])), content="cut"
    )
    assert from_message(shortened).content == "cut"
    assert to_message(ChatMessage(role="user", blocks=[ImageBlock(image=PNG)])).parts == (
        ImageContent.from_bytes(PNG),
    )
    assert visible_fields(Message("user", "Hello")) == visible_fields(to_message(ChatMessage("Hello")))
    assert to_message(ChatMessage(role="user", blocks=[TextBlock(text="a"), TextBlock(text="b")])).parts == (
        TextContent("a"),
        TextContent("b"),
    )
