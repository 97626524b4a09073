"""LlamaIndex: a `FunctionAgent` with `Memory` in SQLite, whose oldest messages become facts."""

from __future__ import annotations

from pathlib import Path

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.memory import FactExtractionMemoryBlock, Memory
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from benchmarks.peers.settings import INSTRUCTIONS, MODEL, Level, find_order

# Of all tokens of the memory, those of the messages.
RATIO = 0.7


class Conversation:
    def __init__(self, agent: FunctionAgent, memory: Memory) -> None:
        self._agent, self._memory = agent, memory

    async def ask(self, text: str) -> str:
        return str(await self._agent.run(text, memory=self._memory))

    async def settle(self) -> None:
        """All is done when a turn ends."""

    async def stored(self) -> list[str]:
        return [str(message.content) for message in await self._memory.aget_all()]

    async def close(self) -> None:
        """The process ends."""


async def start(url: str, folder: Path, level: Level) -> Conversation:
    llm = OpenAILike(
        model=MODEL,
        api_base=url,
        api_key="none",
        is_chat_model=True,
        is_function_calling_model=True,
        context_window=128_000,
    )
    memory = Memory.from_defaults(
        session_id="orders",
        token_limit=int(level.ceiling_tokens / RATIO),
        chat_history_token_ratio=RATIO,
        token_flush_size=level.ceiling_tokens - level.floor_tokens,
        memory_blocks=[FactExtractionMemoryBlock(llm=llm, priority=0)],
        async_database_uri=f"sqlite+aiosqlite:///{folder / 'memory.db'}",
    )
    tools = [FunctionTool.from_defaults(find_order)]
    agent = FunctionAgent(llm=llm, tools=tools, system_prompt=INSTRUCTIONS, streaming=False)
    return Conversation(agent, memory)
