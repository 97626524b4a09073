"""autonomy_ctx: an agent over a SQLite file with summaries in the background, as the quickstart has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autonomy_ctx import Agent, Memory, Model, tool
from benchmarks.peers.settings import INSTRUCTIONS, LEVELS, MODEL, Level, find_order

SCOPE, CONVERSATION = "shop", "orders"


class Conversation:
    def __init__(self, agent: Agent, memory: Memory) -> None:
        self._agent, self._memory = agent, memory

    async def ask(self, text: str) -> str:
        reply = await self._agent.send(text, scope=SCOPE, conversation=CONVERSATION)
        return reply.text

    async def settle(self) -> None:
        section: Any = self._agent.context_template.get_section("conversation_history")
        await section.settled()

    async def stored(self) -> list[str]:
        messages = await self._agent.memory.get_messages_only(SCOPE, CONVERSATION)
        return [str(message["content"]) for message in messages]

    async def close(self) -> None:
        await self._agent.close()
        await self._memory.close()


async def start(url: str, folder: Path, level: Level | str) -> Conversation:
    summary: Any = level
    if isinstance(level, Level):
        summary = True if level == LEVELS[0] else {"floor": level.floor, "ceiling": level.ceiling}
    memory = Memory(f"sqlite:///{folder / 'memory.db'}")
    agent = Agent(
        "shop",
        instructions=INSTRUCTIONS,
        model=Model(MODEL, base_url=url),
        memory=memory,
        tools=[tool(find_order)],
        # The others have no tools of their own either.
        builtin_tools=(),
        context_summary=summary,
    )
    return Conversation(agent, memory)
