"""Pydantic AI: a history processor that summarizes, and messages in SQLite, as its documentation has them.

The processor there keeps the last message alone. This one keeps as many as the others and cuts between turns.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pydantic_ai import Agent, ModelMessage, ModelRequest, UserPromptPart
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from benchmarks.peers.settings import INSTRUCTIONS, MODEL, SUMMARY_TOKENS, Level, find_order

ASKED = "Summarize this conversation so far. Keep names, numbers and what was agreed."


class Conversation:
    def __init__(self, url: str, folder: Path, level: Level) -> None:
        model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=url))
        self._writer = Agent(model, model_settings={"max_tokens": SUMMARY_TOKENS})
        self._agent = Agent(
            model,
            instructions=INSTRUCTIONS,
            tools=[find_order],
            capabilities=[ProcessHistory(self._summarize)],
        )
        self._level = level
        self._history: list[ModelMessage] = []
        self._file = sqlite3.connect(folder / "messages.db")
        self._file.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, body TEXT)")

    async def _summarize(self, messages: list[ModelMessage]) -> list[ModelMessage]:
        """Put a summary in the place of all but the last messages, from a question of the user on."""
        if len(messages) <= self._level.ceiling:
            return messages
        starts = [at for at, message in enumerate(messages) if _is_question(message)]
        cut = max(at for at in starts if at <= max(len(messages) - self._level.floor, starts[0]))
        if cut == 0:
            return messages
        told = await self._writer.run(ASKED, message_history=messages[:cut])
        summary = UserPromptPart(f"Summary of the conversation so far:\n{told.output}")
        return [ModelRequest([summary]), *messages[cut:]]

    async def ask(self, text: str) -> str:
        result = await self._agent.run(text, message_history=self._history)
        self._history = result.all_messages()
        self._file.execute("INSERT INTO message (body) VALUES (?)", (result.new_messages_json(),))
        self._file.commit()
        return str(result.output)

    async def settle(self) -> None:
        """All is done when a turn ends."""

    async def stored(self) -> list[str]:
        return [body.decode() for (body,) in self._file.execute("SELECT body FROM message ORDER BY id")]

    async def close(self) -> None:
        self._file.close()


def _is_question(message: ModelMessage) -> bool:
    return any(isinstance(part, UserPromptPart) for part in message.parts)


async def start(url: str, folder: Path, level: Level) -> Conversation:
    return Conversation(url, folder, level)
