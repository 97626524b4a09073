"""What every adapter does when there are several agents: one class of tests, run on each.

A guide asks an expert, who runs as a tool; or the guide hands over to the expert, who hands back. A
subclass names its `Team`: the two agents of a framework, with our adapter.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, ClassVar, Protocol

import pytest
from adapters.recorded_conversation import CONVERSATION, SCOPE, noted
from models.provider_server import ProviderServer, providing
from models.provider_words import Asked, Call, Say

from autonomy_ctx import Memory
from autonomy_ctx.adapters.adapter import ContextAdapter

GUIDE, EXPERT = "You are the guide.", "You are the expert."
FERRY, TRAM = "Is the ferry running?", "Is the tram running?"
ASK = "Ask the expert: "
HAND_OVER, HAND_BACK, LAST = "Hand over.", "Hand back.", "And now?"
TOOK_OVER, IS_BACK = "The expert is here.", "The guide is back."


class Team(Protocol):
    """A guide and an expert, who ask the provider at `url`. `options` are those of the adapter.

    The expert is a tool of the guide's or, with `hands_over`, can take over from the guide.
    """

    # The argument of the expert as a tool, in this framework.
    argument: ClassVar[str]

    @property
    def adapter(self) -> ContextAdapter: ...

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None: ...

    @staticmethod
    def handover(name: str) -> Call | None:
        """The call by which an agent hands over to another; None if the application chooses who runs."""

    async def send(self, text: str) -> str:
        """One turn of the conversation; the text of the answer."""

    async def close(self) -> None:
        """End the agents and the adapter."""


class Script:
    """What the model says, as the guide and as the expert."""

    def __init__(self, team: type[Team]) -> None:
        self.team = team
        self.calls = 0

    def __call__(self, asked: Asked) -> Say:
        is_guide = any(GUIDE in text for text in asked.system)
        turns = [at for at, (role, text) in enumerate(asked.said) if role == "user" and self._turn(text)]
        if not turns:
            question = next(
                one for one in (FERRY, TRAM) if one in asked.said[-1][1] or one in asked.said[0][1]
            )
            return Say(self.expertise(question))
        turn, later = self._turn(asked.said[turns[-1]][1]), asked.said[turns[-1] + 1 :]
        results = [text for role, text in later if role == "tool"]
        if is_guide == (turn == HAND_OVER) and turn in (HAND_OVER, HAND_BACK) and results:
            # Some frameworks ask an agent once more that has handed over.
            return Say("I have handed over.")
        if turn == HAND_OVER:
            return self._hand_over("expert") if is_guide else Say(TOOK_OVER)
        if turn == HAND_BACK:
            return Say(IS_BACK) if is_guide else self._hand_over("guide")
        if turn == LAST:
            return Say(noted(LAST))
        if results:
            return Say(f"Guide: {results[-1]}")
        return self._call("expert", {self.team.argument: turn.removeprefix(ASK)})

    @staticmethod
    def expertise(question: str) -> str:
        return f"Expert: yes. {question}"

    @staticmethod
    def _turn(text: str) -> str:
        return next((one for one in (ASK + FERRY, ASK + TRAM, HAND_OVER, HAND_BACK, LAST) if one in text), "")

    def _hand_over(self, name: str) -> Say:
        made = self.team.handover(name)
        assert made is not None
        return self._call(made.name, made.arguments)

    def _call(self, name: str, arguments: Any) -> Say:
        self.calls += 1
        return Say(calls=[Call(f"call_{self.calls}", name, arguments)])


class SeveralAgentsContract:
    """What every adapter does with several agents."""

    team: ClassVar[type[Team]]
    # Whether an inner run is stored, in a conversation of its own.
    stores_inner_runs: ClassVar[bool] = True
    # Whether the framework shows an agent what was said before a handover, and in earlier turns.
    remembers: ClassVar[bool] = True

    @pytest.fixture
    async def answers(self) -> AsyncIterator[ProviderServer]:
        async with providing(Script(self.team)) as serving:
            yield serving
        assert serving.refused == []

    def make(self, server: ProviderServer, url: str, *, hands_over: bool) -> Team:
        options = {"scope": SCOPE, "memory": url, "context_summary": None}
        return self.team(server.url, options, hands_over=hands_over)

    async def test_an_expert_is_a_tool_again_and_again(
        self, answers: ProviderServer, memory_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, "autonomy_ctx")
        team = self.make(answers, memory_url, hands_over=False)
        try:
            for question in (FERRY, TRAM, FERRY, FERRY):
                assert Script.expertise(question) in await team.send(ASK + question)
            assert await team.send(LAST) == noted(LAST)
        finally:
            await team.close()
        assert [one for one in caplog.records if one.name.startswith("autonomy_ctx.adapters")] == []
        asked = [answers.asked(number) for number in range(len(answers.seen))]
        guide = [one for one in asked if any(GUIDE in text for text in one.system)]
        expert = [one for one in asked if one not in guide]
        # The expert is asked one question at a time, and knows nothing of the conversation.
        assert len(expert) == 4
        assert all(sum(role == "assistant" for role, _ in one.said) == 0 for one in expert)
        assert not any(ASK in text for one in expert for _, text in one.said)
        # The guide has the whole conversation, and of the expert what the tool gave.
        users = [text for role, text in guide[-1].said if role == "user"]
        assert users == [ASK + FERRY, ASK + TRAM, ASK + FERRY, ASK + FERRY, LAST]
        assert sum(role == "tool" for role, _ in guide[-1].said) == 4
        async with Memory(memory_url) as memory:
            named = {one.key.conversation for one in await memory.conversations(SCOPE)}
            stored = {name: await memory.get_messages_only(SCOPE, name) for name in named}
        users = [one["content"] for one in stored.pop(CONVERSATION) if one["role"] == "user"]
        assert [text if isinstance(text, str) else text[0]["text"] for text in users] == [
            *(ASK + one for one in (FERRY, TRAM, FERRY, FERRY)),
            LAST,
        ]
        assert all(FERRY in str(messages) or TRAM in str(messages) for messages in stored.values())
        assert bool(stored) == self.stores_inner_runs

    async def test_an_agent_hands_over_and_gets_the_conversation_back(
        self, answers: ProviderServer, memory_url: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.WARNING, "autonomy_ctx")
        team = self.make(answers, memory_url, hands_over=True)
        try:
            assert await team.send(HAND_OVER) == TOOK_OVER
            assert await team.send(HAND_BACK) == IS_BACK
            assert await team.send(HAND_OVER) == TOOK_OVER
            assert await team.send(HAND_BACK) == IS_BACK
            assert await team.send(LAST) == noted(LAST)
        finally:
            await team.close()
        assert [one for one in caplog.records if one.name.startswith("autonomy_ctx.adapters")] == []
        # In its place, and once: what users and both agents said.
        said = " ".join(text for _, text in answers.asked().said)
        known = (HAND_OVER, TOOK_OVER, HAND_BACK, IS_BACK) * 2 if self.remembers else ()
        at = 0
        for text in (*known, LAST):
            at = said.index(text, at) + len(text)
        assert all(said.count(text) == 2 for text in known)
