"""LangChain: `create_agent` with `SummarizationMiddleware` and the SQLite checkpointer."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import SummarizationMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from benchmarks.peers.settings import INSTRUCTIONS, MODEL, SUMMARY_TOKENS, Level, find_order

CONFIG = {"configurable": {"thread_id": "orders"}}


class Conversation:
    def __init__(self, agent: Any, opened: AsyncExitStack) -> None:
        self._agent, self._opened = agent, opened

    async def ask(self, text: str) -> str:
        state = await self._agent.ainvoke({"messages": [{"role": "user", "content": text}]}, CONFIG)
        return str(state["messages"][-1].text)

    async def settle(self) -> None:
        """All is done when a turn ends."""

    async def stored(self) -> list[str]:
        state = await self._agent.aget_state(CONFIG)
        return [str(message.text) for message in state.values["messages"]]

    async def close(self) -> None:
        await self._opened.aclose()


async def start(url: str, folder: Path, level: Level) -> Conversation:
    opened = AsyncExitStack()
    saver = AsyncSqliteSaver.from_conn_string(str(folder / "checkpoints.db"))
    model = ChatOpenAI(model=MODEL, base_url=url)
    summaries = SummarizationMiddleware(
        ChatOpenAI(model=MODEL, base_url=url, max_tokens=SUMMARY_TOKENS),
        trigger=("messages", level.ceiling + 1),
        keep=("messages", level.floor),
        # By default a summary reads 4,000 tokens at most: at 40/10 it forgets what earlier ones kept.
        trim_tokens_to_summarize=None,
    )
    agent = create_agent(
        model,
        tools=[find_order],
        system_prompt=INSTRUCTIONS,
        middleware=[summaries],
        checkpointer=await opened.enter_async_context(saver),
    )
    return Conversation(agent, opened)
