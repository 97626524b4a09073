"""LiteLLM's proxy, as a server on a loopback port, with OpenAI's client in front of it."""

from __future__ import annotations

import base64
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from threading import Thread
from typing import Any, ClassVar

import anyio
import litellm
import pytest
import uvicorn
from adapters.contract import AdapterContract
from adapters.recorded_conversation import CONVERSATION, INSTRUCTIONS, SCOPE, answer, weather
from adapters.several_agents import EXPERT, GUIDE, HAND_OVER, Script, SeveralAgentsContract
from anyio.from_thread import start_blocking_portal
from docs.snippets import ROOT, run, snippets
from litellm.proxy import proxy_server
from models.provider_server import ProviderServer, providing
from openai import AsyncOpenAI, BadRequestError

from autonomy_ctx import ThinkingContent, ToolCall
from autonomy_ctx.adapters.litellm import ContextHook, from_openai, to_openai

HELLO: Any = [{"role": "user", "content": "Hello"}]

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


class ProxyClient:
    """A client of the proxy that keeps the histories of its conversations, as clients do."""

    # Chat completions have no field for errors, and the provider's own for thinking is not sent back.
    carries: ClassVar[Collection[str]] = ("images",)
    proxy_url: ClassVar[str]

    def __init__(
        self, url: str, options: dict[str, Any], history: dict[str, list[Any]] | None = None
    ) -> None:
        self.adapter = ContextHook(**options)
        litellm.callbacks = [self.adapter]
        self.histories = history or {}
        self.client = AsyncOpenAI(base_url=self.proxy_url, api_key="sk-1", max_retries=0)

    async def send(
        self, conversation: str, text: str, *, image: bytes | None = None, streamed: bool = False
    ) -> str:
        messages = self.histories.setdefault(conversation, [{"role": "system", "content": INSTRUCTIONS}])
        content: Any = text
        if image is not None:
            url = f"data:image/png;base64,{base64.b64encode(image).decode()}"
            content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
        messages.append({"role": "user", "content": content})
        while True:
            answer = await self._ask(conversation, messages, streamed)
            messages.append(answer)
            if not answer.get("tool_calls"):
                return str(answer["content"])
            for call in answer["tool_calls"]:
                try:
                    result = weather(**json.loads(call["function"]["arguments"]))
                except LookupError as error:
                    result = str(error)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def _ask(self, conversation: str, messages: list[Any], streamed: bool) -> dict[str, Any]:
        asked: dict[str, Any] = {
            "model": "guide",
            "messages": messages,
            "tools": [TOOL],
            "extra_headers": {"x-litellm-session-id": conversation},
        }
        if not streamed:
            whole: Any = await self.client.chat.completions.create(**asked)
        else:
            stream = await self.client.chat.completions.create(**asked, stream=True)
            whole = litellm.stream_chunk_builder([chunk.model_dump() async for chunk in stream])
        message = whole.choices[0].message
        calls = [call.model_dump() for call in message.tool_calls or ()]
        return {"role": "assistant", "content": message.content, **({"tool_calls": calls} if calls else {})}

    def history(self) -> dict[str, list[Any]]:
        return self.histories

    async def close(self) -> None:
        litellm.callbacks = []
        await self.adapter.close()
        await self.client.close()


@pytest.fixture
async def server(server: ProviderServer, tmp_path: Path) -> AsyncIterator[ProviderServer]:
    """The provider, with the proxy in front of it."""
    async with in_front(server, tmp_path) as serving:
        yield serving


@asynccontextmanager
async def in_front(server: ProviderServer, tmp_path: Path) -> AsyncIterator[ProviderServer]:
    """A provider with the proxy in front of it."""
    config = {
        "general_settings": {"master_key": "sk-1"},
        "model_list": [
            {
                "model_name": "guide",
                "litellm_params": {
                    "model": "openai/gpt-4.1",
                    "api_base": f"{server.url}/v1",
                    "api_key": "k",
                },
            }
        ],
    }
    path = tmp_path / "config.yaml"
    path.write_text(json.dumps(config))
    await proxy_server.initialize(config=str(path))
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        ProxyClient.proxy_url = f"http://127.0.0.1:{port}/v1"
        running = uvicorn.Server(uvicorn.Config(proxy_server.app, log_level="warning", lifespan="off"))
        async with anyio.create_task_group() as group:
            group.start_soon(running.serve, [listener])
            yield server
            running.should_exit = True


class ProxyTeam(ProxyClient):
    """Agents in a client of the proxy: each run has a session, and a handover is another system message."""

    argument: ClassVar[str] = "question"

    @staticmethod
    def handover(name: str) -> None:
        return None

    def __init__(self, url: str, options: dict[str, Any], *, hands_over: bool) -> None:
        super().__init__(url, options)
        self.messages: list[Any] = []
        self.runs = 0

    async def send(self, text: str) -> str:  # type: ignore[override]
        self.messages.append({"role": "user", "content": text})
        return await self._run(CONVERSATION, EXPERT if text == HAND_OVER else GUIDE, self.messages)

    async def _run(self, session: str, rules: str, messages: list[Any]) -> str:
        while True:
            answer = await self._ask(session, [{"role": "system", "content": rules}, *messages], False)
            messages.append(answer)
            if not answer.get("tool_calls"):
                return str(answer["content"])
            for call in answer["tool_calls"]:
                self.runs += 1
                asked = [{"role": "user", "content": json.loads(call["function"]["arguments"])["question"]}]
                result = await self._run(f"{CONVERSATION}/expert-{self.runs}", EXPERT, asked)
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})


class TestTeam(SeveralAgentsContract):
    team = ProxyTeam

    @pytest.fixture
    async def answers(self, tmp_path: Path) -> AsyncIterator[ProviderServer]:
        async with providing(Script(self.team)) as provider, in_front(provider, tmp_path) as serving:
            yield serving
        assert provider.refused == []


class TestLiteLlm(AdapterContract):
    framework = ProxyClient

    async def test_a_request_without_a_session_is_answered_with_what_to_do(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = ProxyClient(server.url, self.options(memory_url))
        with pytest.raises(BadRequestError, match="x-litellm-session-id"):
            await agent.client.chat.completions.create(model="guide", messages=HELLO)
        await agent.close()
        assert server.seen == []

    async def test_the_session_may_be_named_in_the_body(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = ProxyClient(server.url, self.options(memory_url))
        body = {"metadata": {"session_id": CONVERSATION}}
        await agent.client.chat.completions.create(model="guide", messages=HELLO, extra_body=body)
        composed = await agent.adapter.explain(CONVERSATION)
        await agent.close()
        assert [message.text for message in composed.messages] == ["Hello"]

    async def test_the_scope_is_found_in_the_key_of_the_caller(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        options = {**self.options(memory_url), "scope": lambda key: key.user_id}
        agent = ProxyClient(server.url, options)
        await agent.send(CONVERSATION, "Hello")
        composed = await agent.adapter.explain(CONVERSATION, scope="default_user_id")
        await agent.close()
        assert composed.scope == "default_user_id"

    async def test_a_framework_that_lost_its_history_goes_on_from_the_log(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        """It does not: a client may use one session for requests that have nothing to do with each other."""
        await self.test_a_history_that_shares_nothing_with_the_session_is_refused(server, memory_url)

    async def test_a_history_that_shares_nothing_with_the_session_is_refused(
        self, server: ProviderServer, memory_url: str
    ) -> None:
        agent = ProxyClient(server.url, self.options(memory_url))
        await agent.send(CONVERSATION, "Remark 0")
        await agent.send(CONVERSATION, "Remark 1")
        agent.histories.clear()
        with pytest.raises(BadRequestError, match=CONVERSATION):
            await agent.send(CONVERSATION, "Remark 2")
        await agent.close()

    async def test_other_requests_are_left_alone(self, memory_url: str) -> None:
        async with ContextHook(scope=SCOPE, memory=memory_url) as hook:
            data = {"input": ["Hello"], "model": "guide"}
            assert await hook.async_pre_call_hook(None, None, data, "aembedding") is data

    def test_messages_survive_both_ways(self) -> None:
        thought = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
        sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
        messages: list[Any] = [
            {"role": "user", "content": [{"type": "text", "text": "Listen."}, sound], "name": "ana"},
            {"role": "assistant", "content": None, "tool_calls": [call], "thinking_blocks": [thought]},
            {"role": "tool", "tool_call_id": "c1", "content": "gone"},
        ]
        custom = {"id": "c2", "type": "custom", "custom": {"name": "shell", "input": "ls"}}
        (asked,) = from_openai([{"role": "assistant", "content": None, "tool_calls": [custom]}])
        assert asked.message.tool_calls == (ToolCall("c2", "shell", "ls"),)
        said = from_openai(messages)
        assert to_openai(said) == messages
        assert said[0].message.text == "Listen.\n[input_audio]"
        assert said[1].message.parts == (ThinkingContent("Hm.", signature="s"),)
        # Without the client's own messages, as for one that was shortened.
        again = to_openai(replace(one, source=None) for one in said)
        assert again[1:] == [{"role": "assistant", "content": None, "tool_calls": [call]}, messages[2]]


def test_the_programs_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy is a process of its own, started as the page says."""
    monkeypatch.setenv("LITELLM_MASTER_KEY", f"sk-{token_hex(32)}")
    page = ROOT / "docs" / "use-with" / "litellm.md"
    text = page.read_text(encoding="utf-8")
    config = re.search(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert config is not None
    (tmp_path / "config.yaml").write_text(config[1])
    (tmp_path / "context_hook.py").write_text(snippets(page)[0].source)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    copy = tmp_path / "page.md"
    copy.write_text(text.replace("127.0.0.1:4000", f"127.0.0.1:{port}"), encoding="utf-8")
    command = [str(Path(sys.executable).parent / "litellm"), "--config", "config.yaml", "--port", str(port)]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(providing(answer)) as provider:
        environment = {
            **os.environ,
            "OPENAI_API_BASE": f"{provider.url}/v1",
            "OPENAI_API_KEY": "k",
            "PYTHONPATH": str(ROOT),
        }
        with subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as proxy:
            try:
                assert proxy.stdout is not None
                assert any("Uvicorn running on" in line for line in proxy.stdout), "the proxy has ended"
                # So that it never waits for a reader.
                Thread(target=proxy.stdout.read, daemon=True).start()
                run(copy, tmp_path)
            finally:
                proxy.terminate()
    assert provider.refused == []
