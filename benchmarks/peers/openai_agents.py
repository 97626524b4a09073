"""OpenAI Agents SDK: an agent with a `SQLiteSession`.

Its compaction is the Responses API's own, on OpenAI's servers; over chat completions there is none.
"""

from __future__ import annotations

from pathlib import Path

from agents import (  # type: ignore[attr-defined]
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    SQLiteSession,
    function_tool,
)
from openai import AsyncOpenAI

from benchmarks.peers.settings import INSTRUCTIONS, MODEL, find_order


class Conversation:
    def __init__(self, agent: Agent, session: SQLiteSession) -> None:
        self._agent, self._session = agent, session

    async def ask(self, text: str) -> str:
        result = await Runner.run(self._agent, text, session=self._session)
        return str(result.final_output)

    async def settle(self) -> None:
        """All is done when a turn ends."""

    async def stored(self) -> list[str]:
        return [str(item) for item in await self._session.get_items()]

    async def close(self) -> None:
        self._session.close()


async def start(url: str, folder: Path, level: str) -> Conversation:
    model = OpenAIChatCompletionsModel(MODEL, AsyncOpenAI(base_url=url))
    agent = Agent("shop", instructions=INSTRUCTIONS, model=model, tools=[function_tool(find_order)])
    return Conversation(agent, SQLiteSession("orders", folder / "session.db"))
