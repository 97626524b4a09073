"""What every adapter does, whatever its framework: one class of tests, run on each.

A subclass names its `Framework`: an agent of that framework with our adapter and a tool named `weather`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar, Protocol

import anyio
import pytest
from adapters.recorded_conversation import (
    ANSWER,
    CALLS,
    CONVERSATION,
    FAILURE,
    PNG,
    QUESTION,
    RESULT,
    SCOPE,
    SECOND_QUESTION,
    SUMMARY,
    Shown,
    expected,
    noted,
    shown,
)
from models.provider_server import Fault, ProviderServer, providing

from autonomy_ctx import Memory, Model
from autonomy_ctx.adapters.adapter import ContextAdapter
from autonomy_ctx.agents.explain import RECORD_KIND, StepRecord, parse_turn
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.summary import Summary


class Framework(Protocol):
    """An agent of one framework, with our adapter, that asks the provider at `url`.

    `options` are those of the adapter. `history` is what an agent before a restart gave as its `history`.
    """

    # Which of images, thinking and errors the framework and its client carry.
    carries: ClassVar[Collection[str]]

    @property
    def adapter(self) -> ContextAdapter: ...

    def __init__(self, url: str, options: dict[str, Any], history: Any = None) -> None: ...

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        """One turn; the text of the answer."""

    def history(self) -> Any:
        """What the framework itself keeps of its conversations, for the agent after a restart."""

    async def close(self) -> None:
        """End the agent and the adapter."""


async def _no_sleep(seconds: float) -> None:
    """A model that is not to wait between its attempts."""


def summarizer(server: ProviderServer) -> dict[str, Any]:
    """Options for summaries that a server writes, of all but the last two messages."""
    model = Model("gpt-5", base_url=server.url, api_key="k", sleep=_no_sleep)
    return {"model": model, "floor": 2, "ceiling": 4}


async def recorded_step(adapter: ContextAdapter) -> StepRecord:
    """The record of the newest call of the conversation."""
    key = Key("", SCOPE, CONVERSATION)
    records = await adapter.engine.run(adapter.memory.store.read_records, key, RECORD_KIND)
    return parse_turn(records[-1]).steps[-1]


class AdapterContract:
    """What every adapter does."""

    framework: ClassVar[type[Framework]]
    # Whether the adapter is told an answer at once, not with the next call only.
    hears_answers: ClassVar[bool] = True

    def options(self, memory_url: str, summary: Any = None) -> dict[str, Any]:
        return {"scope": SCOPE, "memory": memory_url, "context_summary": summary}

    def make(self, server: ProviderServer, url: str, summary: Any = None, history: Any = None) -> Framework:
        return self.framework(server.url, self.options(url, summary), history)

    def expected(self, agent: Framework) -> list[Shown]:
        """The context of the second question."""
        return expected(agent.carries)

    @pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
    async def test_the_recorded_conversation_gives_the_same_context(
        self, server: ProviderServer, memory_url: str, streamed: bool
    ) -> None:
        agent = self.make(server, memory_url)
        try:
            first = await agent.send(CONVERSATION, QUESTION, image=PNG, streamed=streamed)
            second = await agent.send(CONVERSATION, SECOND_QUESTION, streamed=streamed)
            composed = await agent.adapter.explain(CONVERSATION)
        finally:
            await agent.close()
        assert (first, second) == (ANSWER, noted(SECOND_QUESTION))
        assert shown(composed) == self.expected(agent)
        # The provider was sent the same, three times for two turns.
        assert len(server.seen) == 3
        # A framework may mark an error in words of its own; some clients send an image by itself.
        sent = [FAILURE if FAILURE in text else text for _, text in server.asked().said if text]
        assert sent == [QUESTION, CALLS.text, RESULT, FAILURE, ANSWER, SECOND_QUESTION]

    async def test_each_call_of_a_turn_is_a_step_that_can_be_explained(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = self.make(server, memory_url)
        try:
            await agent.send(CONVERSATION, QUESTION)
            first = await agent.adapter.explain(CONVERSATION, step=1)
            second = await agent.adapter.explain(CONVERSATION, step=2)
        finally:
            await agent.close()
        assert [one.role for one in shown(first)] == ["system", "user"]
        assert [one.role for one in shown(second)] == ["system", "user", "assistant", "tool", "tool"]

    async def test_a_long_conversation_is_summarized_and_no_turn_waits(
        self, server: ProviderServer, summaries: ProviderServer, memory_url: str
    ) -> None:
        summaries.before = anyio.Event()
        agent = self.make(server, memory_url, summarizer(summaries))
        try:
            with anyio.fail_after(60):
                for number in range(4):
                    assert await agent.send(CONVERSATION, f"Remark {number}") == noted(f"Remark {number}")
            before = await agent.adapter.explain(CONVERSATION)
            summaries.before.set()
            await agent.adapter.settled()
            assert await agent.send(CONVERSATION, "Remark 4") == noted("Remark 4")
            after = await agent.adapter.explain(CONVERSATION)
        finally:
            await agent.close()
        assert not any(isinstance(message, Summary) for message in before.messages)
        assert any(isinstance(message, Summary) for message in after.messages)
        sent = "\n".join(text for _, text in server.asked().said)
        assert SUMMARY in sent
        assert "Remark 0" not in sent
        assert "Remark 4" in sent

    async def test_a_failing_summarizer_fails_no_turn(self, server: ProviderServer, memory_url: str) -> None:
        async with providing(Fault.OVERLOADED) as failing:
            agent = self.make(server, memory_url, summarizer(failing))
            try:
                for number in range(6):
                    assert await agent.send(CONVERSATION, f"Remark {number}") == noted(f"Remark {number}")
                await agent.adapter.settled()
            finally:
                await agent.close()
            assert failing.seen
        assert "Remark 5" in server.asked().said[-1][1]

    async def test_two_conversations_at_once_stay_apart(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = self.make(server, memory_url)

        async def talk(conversation: str) -> None:
            for number in range(3):
                said = f"{conversation} {number}"
                assert await agent.send(conversation, said) == noted(said)

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(talk, "rome")
                group.start_soon(talk, "oslo")
            contexts = [shown(await agent.adapter.explain(name)) for name in ("rome", "oslo")]
        finally:
            await agent.close()
        for name, context in zip(("rome", "oslo"), contexts, strict=True):
            users = [one.text for one in context if one.role == "user"]
            assert users == [f"{name} {number}" for number in range(3)]

    async def test_after_a_restart_the_conversation_goes_on(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = self.make(server, memory_url)
        try:
            assert await agent.send(CONVERSATION, QUESTION, image=PNG) == ANSWER
            history = agent.history()
        finally:
            await agent.close()
        agent = self.make(server, memory_url, history=history)
        try:
            assert await agent.send(CONVERSATION, SECOND_QUESTION) == noted(SECOND_QUESTION)
            composed = await agent.adapter.explain(CONVERSATION)
        finally:
            await agent.close()
        assert shown(composed) == self.expected(agent)
        async with Memory(memory_url) as memory:
            stored = await memory.get_messages_only(SCOPE, CONVERSATION)
        assert [message["role"] for message in stored][:5] == [
            "user",
            "assistant",
            "tool",
            "tool",
            "assistant",
        ]
        assert len(stored) in (6, 7), "nothing is stored twice"

    async def test_a_framework_that_lost_its_history_goes_on_from_the_log(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        """It passes the new message alone, which may be one that it had passed before."""
        texts = ["Yes", "Yes", "No", "Yes"]
        for text in texts:
            agent = self.make(server, memory_url)
            try:
                assert await agent.send(CONVERSATION, text) == noted(text)
            finally:
                await agent.close()
        agent = self.make(server, memory_url)
        try:
            # From here on it has a history again, which begins in the middle of the log.
            for text in (QUESTION, "Yes", "Yes"):
                assert await agent.send(CONVERSATION, text) == (ANSWER if text == QUESTION else noted(text))
            assert await agent.adapter.engine.current_conversation(CONVERSATION) == CONVERSATION
        finally:
            await agent.close()
        said = [text for role, text in server.asked().said if role == "user"]
        # The same message again, after one that was not answered as far as is known, is the same turn.
        known = [*(texts if self.hears_answers else texts[1:]), QUESTION, "Yes", "Yes"]
        assert said == known
        async with Memory(memory_url) as memory:
            stored = await memory.get_messages_only(SCOPE, CONVERSATION)
        assert sum(one["role"] == "user" for one in stored) == len(known)
