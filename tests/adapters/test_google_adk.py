"""Google's Agent Development Kit, with Gemini's own client."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import anyio
import pytest
from adapters.contract import AdapterContract, recorded_step, summarizer
from adapters.recorded_conversation import (
    ANSWER,
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
from adapters.several_agents import ASK, EXPERT, FERRY, GUIDE, TRAM, Script, SeveralAgentsContract
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models import Gemini
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools import FunctionTool
from google.adk.tools.agent_tool import AgentTool
from google.genai import types
from models.provider_server import ProviderServer, providing
from models.provider_words import Asked, Call, Google, Say

from autonomy_ctx.adapters.google_adk import ContextPlugin, from_contents, to_contents
from autonomy_ctx.formats.base import Usage

APP = "guides"


def find_weather(city: str) -> dict[str, str]:
    """The weather in a city."""
    try:
        return {"result": weather(city)}
    except LookupError as error:
        return {"error": str(error)}


TOOL = FunctionTool(find_weather)
TOOL.name = "weather"


class AdkAgent:
    """A runner whose sessions are kept in this process."""

    carries: ClassVar[Collection[str]] = ("images", "thinking", "errors")

    def __init__(
        self, url: str, options: dict[str, Any], history: InMemorySessionService | None = None
    ) -> None:
        self.adapter = ContextPlugin(**options)
        self.sessions = history or InMemorySessionService()
        self.agent = LlmAgent(
            name="guide",
            model=Gemini(model="gemini-3-pro", base_url=url),
            instruction=INSTRUCTIONS,
            tools=[TOOL],
        )
        app = App(name=APP, root_agent=self.agent, plugins=[self.adapter])
        self.runner = Runner(app=app, session_service=self.sessions, auto_create_session=True)

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        parts = [types.Part(text=text)]
        if image is not None:
            parts.append(types.Part.from_bytes(data=image, mime_type="image/png"))
        said: list[str] = []
        mode = StreamingMode.SSE if streamed else StreamingMode.NONE
        async for event in self.runner.run_async(
            user_id=SCOPE,
            session_id=conversation,
            new_message=types.Content(role="user", parts=parts),
            run_config=RunConfig(streaming_mode=mode),
        ):
            if bool(event.partial) == streamed and event.content:
                said += [part.text for part in event.content.parts if part.text and not part.thought]
        return "".join(said).removeprefix(CALLS.text)

    def history(self) -> InMemorySessionService:
        return self.sessions

    async def close(self) -> None:
        await self.runner.close()


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "k")


class AdkTeam:
    """Agents of ADK: one in an `AgentTool`, or one below the other."""

    argument: ClassVar[str] = "request"
    mode: ClassVar[Any] = None

    @staticmethod
    def handover(name: str) -> Call:
        return Call("", "transfer_to_agent", {"agent_name": name})

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        self.adapter = ContextPlugin(**options)
        model = Gemini(model="gemini-3-pro", base_url=url)
        expert = self.make_expert(model, hands_over)
        guide = LlmAgent(name="guide", model=model, instruction=GUIDE, **self.place(expert, hands_over))
        app = App(name=APP, root_agent=guide, plugins=[self.adapter])
        self.runner = Runner(app=app, session_service=InMemorySessionService(), auto_create_session=True)

    def make_expert(self, model: Gemini, hands_over: bool) -> LlmAgent:
        mode = None if hands_over else self.mode
        return LlmAgent(name="expert", description="Knows.", model=model, instruction=EXPERT, mode=mode)

    def place(self, expert: LlmAgent, hands_over: bool) -> dict[str, Any]:
        return {"sub_agents": [expert]} if hands_over else {"tools": [AgentTool(expert)]}

    async def send(self, text: str) -> str:
        said: list[str] = []
        async for event in self.runner.run_async(
            user_id=SCOPE,
            session_id=CONVERSATION,
            new_message=types.Content(role="user", parts=[types.Part(text=text)]),
        ):
            said += [part.text for part in event.content.parts if part.text] if event.content else []
        return said[-1]

    async def close(self) -> None:
        await self.runner.close()


class AdkTeamInOneSession(AdkTeam):
    """The expert runs as a tool in the session of the guide."""

    mode = "single_turn"

    def place(self, expert: LlmAgent, hands_over: bool) -> dict[str, Any]:
        return {"sub_agents": [expert]}


class AdkTaskTeam(AdkTeamInOneSession):
    """The expert runs as a tool in the session of the guide, until it says that its task is done."""

    mode = "task"


class OlderGemini(Google):
    """A model whose calls have no ids."""

    def check(self, path: str, headers: Mapping[str, str], body: Any) -> bool:
        return "stream" in path

    def whole(self, say: Say) -> Any:
        made = super().whole(say)
        for part in made["candidates"][0]["content"]["parts"]:
            part.get("functionCall", {}).pop("id", None)
        return made


class TestTeam(SeveralAgentsContract):
    team = AdkTeam


class TestTeamInOneSession(SeveralAgentsContract):
    team = AdkTeamInOneSession
    # ADK gives such an agent no history, so there is nothing to compose.
    stores_inner_runs = False


class TestGoogleAdk(AdapterContract):
    framework = AdkAgent

    async def test_the_record_of_a_call_has_its_model_and_usage(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = AdkAgent(server.url, self.options(memory_url))
        await agent.send(CONVERSATION, QUESTION)
        step = await recorded_step(agent.adapter)
        await agent.close()
        usage = Usage(input_tokens=900, cached_tokens=512, output_tokens=12)
        assert (step.model, step.usage) == ("gemini-3-pro", usage)

    async def test_the_session_keeps_the_whole_history(
        self, server: ProviderServer, summaries: ProviderServer, memory_url: str
    ) -> None:
        agent = AdkAgent(server.url, self.options(memory_url, summarizer(summaries)))
        for number in range(4):
            await agent.send(CONVERSATION, f"Remark {number}")
            await agent.adapter.settled()
        session = await agent.sessions.get_session(app_name=APP, user_id=SCOPE, session_id=CONVERSATION)
        stored = (await agent.adapter.memory.read(SCOPE, CONVERSATION)).entries
        await agent.close()
        assert session is not None
        said = [event.content.parts[0].text for event in session.events]
        assert said[::2] == [f"Remark {number}" for number in range(4)]
        assert len(server.asked().said) < len(said)
        # The last answer is stored as soon as it is there.
        assert [entry.message.text for entry in stored] == said

    async def test_the_scope_is_found_in_the_context_of_the_call(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        options = {**self.options(memory_url), "scope": lambda context: context.user_id}
        agent = AdkAgent(server.url, options)
        await agent.send(CONVERSATION, "Hello")
        composed = await agent.adapter.explain(CONVERSATION, scope=SCOPE)
        await agent.close()
        assert composed.scope == SCOPE

    async def test_what_is_for_one_call_only_is_sent_and_not_stored(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        """With a static instruction, ADK puts the other one between the contents of each call."""
        agent = AdkAgent(server.url, self.options(memory_url))
        agent.agent.static_instruction = "You know the sea."
        for number in range(3):
            await agent.send(CONVERSATION, f"Remark {number}")
        stored = await agent.adapter.memory.get_messages_only(SCOPE, CONVERSATION)
        await agent.close()
        sent = [text for role, text in server.asked().said if role == "user"]
        assert len(sent) == 4
        assert INSTRUCTIONS in sent[2]
        assert sent[3] == "Remark 2"
        assert len(stored) == 6
        assert INSTRUCTIONS not in str(stored)

    async def test_an_agent_below_the_root_has_a_conversation_of_its_own(self, memory_url: str) -> None:
        transfer = Say(calls=[Call("t1", "transfer_to_agent", {"agent_name": "scout"})])
        async with providing(transfer, Say("I am the scout."), Say("Still the scout.")) as server:
            agent = AdkAgent(server.url, self.options(memory_url))
            scout = LlmAgent(name="scout", description="Finds ways.", model=agent.agent.model)
            agent.agent.sub_agents = [scout]
            scout.parent_agent = agent.agent
            assert await agent.send(CONVERSATION, "Where am I?") == "I am the scout."
            assert await agent.send(CONVERSATION, "And now?") == "Still the scout."
            own = shown(await agent.adapter.explain(f"{CONVERSATION}/scout"))
            root = shown(await agent.adapter.explain(CONVERSATION))
            await agent.close()
        assert server.refused == []
        assert [one.text for one in own if one.role == "user"][-1] == "And now?"
        assert [one.text for one in root] == [INSTRUCTIONS, "Where am I?"]

    async def test_quotations_are_in_their_place_stored_and_shortened(self, memory_url: str) -> None:
        """With a small budget for each message, as what another agent says may be long."""
        long = "The path goes north. " * 400
        script = [
            Say(calls=[Call("t1", "transfer_to_agent", {"agent_name": "scout"})]),
            Say(long),
            Say(calls=[Call("t2", "transfer_to_agent", {"agent_name": "guide"})]),
            Say("I am the guide."),
        ]
        async with providing(*script) as server:
            agent = AdkAgent(server.url, {**self.options(memory_url), "max_tokens": 1500})
            scout = LlmAgent(name="scout", description="Finds ways.", model=agent.agent.model)
            agent.agent.sub_agents = [scout]
            scout.parent_agent = agent.agent
            assert await agent.send(CONVERSATION, "Where am I?") == long
            assert await agent.send(CONVERSATION, "And now?") == "I am the guide."
            stored = (await agent.adapter.memory.read(SCOPE, CONVERSATION)).entries
            composed = await agent.adapter.explain(CONVERSATION)
            await agent.close()
        assert server.refused == []
        texts = [entry.message.text for entry in stored]
        [said] = [at for at, text in enumerate(texts) if "[scout] said:" in text]
        assert texts.index("Where am I?") < said < texts.index("And now?")
        assert long.strip() in texts[said]
        assert texts[said].startswith("For context:")
        sent = [text for _, text in server.asked().said]
        assert composed.tokens <= 1500
        assert sum(text.count("The path goes north.") for text in sent) < 400
        assert any("[scout]" in text for text in sent[sent.index("And now?") + 1 :])

    async def test_an_agent_with_a_task_has_a_conversation_for_each(self, memory_url: str) -> None:
        script = Script(AdkTaskTeam)

        def answer(asked: Asked) -> Say:
            say = script(asked)
            if not say.text.startswith("Expert:"):
                return say
            return Say(calls=[Call(f"done_{script.calls}", "finish_task", {"result": say.text})])

        async with providing(answer) as server:
            options = {**self.options(memory_url), "context_summary": None}
            team = AdkTaskTeam(server.url, options, hands_over=False)
            with anyio.fail_after(60):
                for question in (FERRY, TRAM):
                    assert Script.expertise(question) in await team.send(ASK + question)
            named = [one.key.conversation for one in await team.adapter.memory.conversations(SCOPE)]
            await team.close()
        assert server.refused == []
        assert sorted(named) == [
            CONVERSATION,
            f"{CONVERSATION}/expert/call_1",
            f"{CONVERSATION}/expert/call_2",
        ]

    async def test_an_agent_that_wants_no_history_is_left_alone(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = AdkAgent(server.url, self.options(memory_url))
        agent.agent.include_contents = "none"
        for number in range(3):
            assert await agent.send(CONVERSATION, f"Remark {number}") == noted(f"Remark {number}")
        stored = await agent.adapter.memory.get_messages_only(SCOPE, CONVERSATION)
        await agent.close()
        assert stored == []
        assert server.asked().said == [("user", "Remark 2")]

    async def test_calls_without_ids_are_paired_in_their_order(self, memory_url: str) -> None:
        """As older models make them; the provider is sent none of the ids that we need."""
        async with providing(CALLS, Say(ANSWER), CALLS, Say(ANSWER)) as server:
            server.words = [OlderGemini()]
            agent = AdkAgent(server.url, self.options(memory_url))
            for _ in range(2):
                assert await agent.send(CONVERSATION, QUESTION) == ANSWER
            stored = (await agent.adapter.memory.read(SCOPE, CONVERSATION)).entries
            assert await agent.adapter.engine.current_conversation(CONVERSATION) == CONVERSATION
            await agent.close()
        calls = [call.id for entry in stored for call in entry.message.tool_calls]
        assert len(set(calls)) == 4
        results = [entry.message.tool_call_id for entry in stored if entry.message.role == "tool"]
        assert results == calls
        assert "adk-" not in json.dumps(server.seen[-1].body)

    async def test_plain_runs_with_an_event_loop_each_go_on(
        self, server: ProviderServer, summaries: ProviderServer, memory_url: str
    ) -> None:
        agent = AdkAgent(server.url, self.options(memory_url, summarizer(summaries)))

        def talk() -> None:
            for number in range(6):
                message = types.Content(role="user", parts=[types.Part(text=f"Remark {number}")])
                run = agent.runner.run(user_id=SCOPE, session_id=CONVERSATION, new_message=message)
                assert [event.content.parts[0].text for event in run] == [noted(f"Remark {number}")]

        await anyio.to_thread.run_sync(talk)
        stored = await agent.adapter.memory.get_messages_only(SCOPE, CONVERSATION)
        await agent.close()
        assert len(stored) == 12

    def test_a_scope_is_needed(self) -> None:
        with pytest.raises(TypeError, match="scope"):
            ContextPlugin()  # type: ignore[call-arg]

    def test_contents_survive_both_ways(self) -> None:
        call = types.FunctionCall(name="look", args={"at": "ü"})
        signed = types.Part(function_call=call, thought_signature=b"signed")
        contents = [
            types.Content(
                role="user",
                parts=[
                    types.Part(text="Look."),
                    types.Part.from_bytes(data=PNG, mime_type="image/png"),
                    types.Part.from_bytes(data=b"%PDF", mime_type="application/pdf"),
                ],
            ),
            types.Content(role="model", parts=[types.Part(text="Hm.", thought=True), signed]),
            types.Content(
                role="user",
                parts=[types.Part.from_function_response(name="look", response={"error": "gone"})],
            ),
            types.Content(role="model", parts=[types.Part(text="It is gone.")]),
        ]
        said = from_contents(contents)
        assert [one.message.role.value for one in said] == ["user", "assistant", "tool", "assistant"]
        assert said[1].message.tool_calls[0].id == said[2].message.tool_call_id
        assert said[2].message.is_error
        assert to_contents(said) == contents
        # Without ADK's own parts, as for a message that was shortened: what is no text or image is named.
        again = to_contents(replace(one, source=None) for one in said)
        assert (again[0].parts or [])[2].text == "[inline_data]"
        assert again[1:] == contents[1:]
