"""Clients of one API in front of a server with another one, with the real SDKs over real HTTP."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Self, TypeAlias

import anthropic
import anyio
import pytest
from models.model_server import Answer, as_json, serving
from models.provider_server import Fault
from models.provider_words import Call, Say, sse
from server.endpoint import KEY, Endpoint, endpoint, endpoint_before

from autonomy_ctx.messages.message import ThinkingContent
from autonomy_ctx.server import endpoint_app
from autonomy_ctx.server.anthropic.messages import Messages
from autonomy_ctx.server.endpoint.client_api import OMITTED_HEADER
from autonomy_ctx.server.endpoint.translation import UpstreamApi, choose_target
from autonomy_ctx.server.openai.chat_completions import ChatCompletions

PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
READ = Call("call_1", "read", {"path": "über.txt"})
LIST = Call("call_2", "list", {"path": "."})
FORMATS = {"chat": "openai", "responses": "responses", "messages": "anthropic"}


Told: TypeAlias = tuple[str, list[tuple[str, Any]]]


class Talk(ABC):
    """A client that keeps its own history, as agents do, and is told texts and calls."""

    def __init__(self, client: Any) -> None:
        self.client, self.history = client, list[Any]()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *problem: object) -> None:
        await self.client.close()

    async def ask(self, text: str, *, stream: bool) -> Told:
        """Ask something."""
        self.history.append({"role": "user", "content": text})
        return await self.send(stream)

    async def give(self, results: dict[str, str], *, stream: bool) -> Told:
        """Give the results of calls."""
        self.history += self.results(results)
        return await self.send(stream)

    @abstractmethod
    def results(self, results: dict[str, str]) -> list[Any]:
        """The results of calls as messages."""

    @abstractmethod
    async def send(self, stream: bool) -> Told:
        """Send the history."""


class ChatTalk(Talk):
    """Chat completions with the SDK."""

    def __init__(self, made: Endpoint) -> None:
        super().__init__(made.sdk())
        self.history.append({"role": "system", "content": "Be kind."})

    def results(self, results: dict[str, str]) -> list[Any]:
        return [{"role": "tool", "tool_call_id": name, "content": text} for name, text in results.items()]

    async def send(self, stream: bool) -> Told:
        tools: Any = [
            {"type": "function", "function": {"name": name, "parameters": PARAMETERS}}
            for name in ("read", "list")
        ]
        given: Any = {"model": "served", "messages": self.history, "tools": tools}
        if stream:
            async with self.client.chat.completions.stream(**given) as events:
                async for _ in events:
                    pass
                found = await events.get_final_completion()
        else:
            found = await self.client.chat.completions.create(**given)
        message = found.choices[0].message
        self.history.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        calls = message.tool_calls or []
        for call in self.history[-1].get("tool_calls", ()):
            call["function"].pop("parsed_arguments", None)
        assert found.usage is None or found.usage.prompt_tokens == 900
        return message.content or "", [(one.id, json.loads(one.function.arguments)) for one in calls]


class ResponsesTalk(Talk):
    """Responses with the SDK."""

    def __init__(self, made: Endpoint) -> None:
        super().__init__(made.sdk())

    def results(self, results: dict[str, str]) -> list[Any]:
        made = {"type": "function_call_output"}
        return [{**made, "call_id": name, "output": text} for name, text in results.items()]

    async def send(self, stream: bool) -> Told:
        tools: Any = [
            {"type": "function", "name": name, "parameters": PARAMETERS, "strict": False}
            for name in ("read", "list")
        ]
        given: Any = {"model": "served", "input": self.history, "tools": tools, "store": False}
        given["instructions"] = "Be kind."
        if stream:
            async with self.client.responses.stream(**given) as events:
                async for _ in events:
                    pass
                found: Any = await events.get_final_response()
        else:
            found = await self.client.responses.create(**given)
        self.history += [
            item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in found.output
        ]
        calls = [item for item in found.output if item.type == "function_call"]
        assert found.usage.input_tokens == 900
        return found.output_text, [(one.call_id, json.loads(one.arguments)) for one in calls]


class MessagesTalk(Talk):
    """Messages with the SDK."""

    def __init__(self, made: Endpoint) -> None:
        base = str(made.http.base_url).rstrip("/")
        super().__init__(anthropic.AsyncAnthropic(base_url=base, api_key=KEY, max_retries=0))

    def results(self, results: dict[str, str]) -> list[Any]:
        made = {"type": "tool_result"}
        content = [{**made, "tool_use_id": name, "content": text} for name, text in results.items()]
        return [{"role": "user", "content": content}]

    async def send(self, stream: bool) -> Told:
        tools = [{"name": name, "input_schema": PARAMETERS} for name in ("read", "list")]
        given: Any = {"model": "served", "messages": self.history, "tools": tools, "max_tokens": 500}
        given["system"] = "Be kind."
        if stream:
            async with self.client.messages.stream(**given) as events:
                async for _ in events:
                    pass
                found = await events.get_final_message()
        else:
            found = await self.client.messages.create(**given)
        content = [block.model_dump(exclude_none=True) for block in found.content]
        self.history.append({"role": "assistant", "content": content})
        usage = found.usage
        assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == 900
        calls = [(one["id"], one["input"]) for one in content if one["type"] == "tool_use"]
        return "".join(one["text"] for one in content if one["type"] == "text"), calls


TALKS: dict[str, type[Any]] = {"chat": ChatTalk, "responses": ResponsesTalk, "messages": MessagesTalk}
PAIRS = [(client, api) for client in TALKS for api in TALKS if client != api]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("client", "api"), PAIRS)
async def test_a_talk_with_tools_is_translated_both_ways(client: str, api: UpstreamApi, stream: bool) -> None:
    script = (
        Say("I look.", calls=[READ, LIST], thinking="Which file?"),
        Say("It says Grüße."),
        Say("Bye."),
    )
    async with endpoint(*script, upstream_api=api) as made, TALKS[client](made) as talk:
        expected = [("call_1", dict(READ.arguments)), ("call_2", dict(LIST.arguments))]
        assert await talk.ask("Read it.", stream=stream) == ("I look.", expected)
        told = await talk.give({"call_1": "Grüße", "call_2": "über.txt"}, stream=stream)
        assert told == ("It says Grüße.", [])
        assert await talk.ask("Thanks.", stream=stream) == ("Bye.", [])
        for number in range(3):
            asked = made.upstream.asked(number)
            assert made.upstream.speaking(made.upstream.seen[number]).name == FORMATS[api]
            assert asked.system == ["Be kind."]
            assert asked.tools == ["read", "list"]
        assert ("user", "Read it.") in made.upstream.asked().said
        # Stored once, in one conversation, under the id of the answers.
        [said] = (await made.stored()).values()
        assert said == ["Read it.", "I look.", "Grüße", "über.txt", "It says Grüße.", "Thanks.", "Bye."]


async def stored_thinking(made: Endpoint) -> list[ThinkingContent]:
    memory = made.app.memory
    [one] = await memory.conversations("ana")
    window = await memory.read("ana", one.conversation)
    return [
        part for entry in window.entries for part in entry.message.parts if isinstance(part, ThinkingContent)
    ]


async def test_thinking_goes_back_to_the_provider_that_signed_it() -> None:
    script = (Say("I look.", calls=[READ], thinking="Which file?"), Say("Done."))
    async with endpoint(*script, upstream_api="messages") as made, ChatTalk(made) as talk:
        await talk.ask("Read it.", stream=True)
        assert talk.history[-1]["reasoning_content"] == "Which file?"
        await talk.give({"call_1": "Grüße"}, stream=True)
        [thought] = await stored_thinking(made)
        assert thought.signature is not None
        content = made.sent()[1]["content"]
        assert [block["type"] for block in content] == ["thinking", "text", "tool_use"]
        assert f"anthropic:{content[0]['signature']}" == thought.signature


async def test_thinking_of_another_provider_is_left_out_and_counted() -> None:
    script = (Say("I look.", calls=[READ], thinking="Which file?"), Say("Done."))
    async with endpoint(*script, upstream_api="chat") as made, MessagesTalk(made) as talk:
        await talk.ask("Read it.", stream=False)
        assert talk.history[-1]["content"][0] == {
            "type": "thinking",
            "thinking": "Which file?",
            "signature": "",
        }
        answer = await made.http.post(
            "/v1/messages",
            json={
                "model": "served",
                "max_tokens": 9,
                "thinking": {"type": "enabled", "budget_tokens": 2000},
                "messages": [*talk.history, {"role": "user", "content": [RESULT]}],
            },
        )
        assert answer.status_code == 200
        assert answer.headers[OMITTED_HEADER] == "thinking=2"


RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": "Grüße"}
MESSAGES_ERRORS = [
    (Fault.LIMITED, anthropic.RateLimitError, 429),
    (Fault.OVERLOADED, anthropic.APIStatusError, 503),
    (Fault.CUT_BEFORE, anthropic.APIStatusError, 502),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("fault", "kind", "status"), MESSAGES_ERRORS)
async def test_an_error_of_upstream_has_the_clients_form(
    fault: Fault, kind: type[anthropic.APIStatusError], status: int, stream: bool
) -> None:
    async with endpoint(fault, upstream_api="chat") as made, MessagesTalk(made) as talk:
        with pytest.raises(kind) as failed:
            await talk.ask("Hi", stream=stream)
        assert failed.value.status_code == status
        assert failed.value.body["type"] == "error"  # type: ignore[index]
        if status == 429:
            assert failed.value.response.headers["retry-after"] == "7"


@pytest.mark.parametrize("fault", [Fault.CUT_AFTER_FIRST_TOKEN, Fault.ERROR_AFTER_FIRST_TOKEN])
@pytest.mark.parametrize(("client", "api"), PAIRS)
async def test_a_stream_that_fails_ends_with_the_clients_error(
    client: str, api: UpstreamApi, fault: Fault
) -> None:
    async with endpoint(fault, upstream_api=api) as made:
        path = {"chat": "chat/completions"}.get(client, client)
        said = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99}
        body = {"input": "Hi"} if client == "responses" else said
        answer = await made.http.post(f"/v1/{path}", json={"model": "served", "stream": True, **body})
        last = answer.text.strip().split("\n\n")[-1].split("data: ")[-1]
        error = json.loads(last)
        assert error.get("type") == "error" or "error" in error
        assert "[DONE]" not in answer.text
        assert [one for one in (await made.stored()).values() if len(one) > 1] == []


@pytest.mark.parametrize(("client", "api"), PAIRS)
async def test_a_context_that_is_too_long_is_asked_again_with_less(client: str, api: UpstreamApi) -> None:
    script = (Fault.TOO_LONG, Say("At last."))
    made_of = endpoint(*script, upstream_api=api, context_summary=False)
    async with made_of as made, TALKS[client](made) as talk:
        for number in range(20):
            talk.history.append({"role": "user", "content": f"Question {number}? {'word ' * 300}"})
            talk.history.append({"role": "assistant", "content": f"Answer {number}."})
        assert await talk.ask("And now?", stream=True) == ("At last.", [])
        first, second = (made.upstream.asked(number).said for number in range(2))
        assert len(second) < len(first) > 40
        assert second[-1] == first[-1]


async def test_what_upstream_cannot_do_is_refused_before_anything_is_stored() -> None:
    async with endpoint(Say("Hello."), upstream_api="chat") as made, MessagesTalk(made) as talk:
        search: Any = {"type": "web_search_20260318", "name": "web_search"}
        hello: Any = {"role": "user", "content": "Hi"}
        with pytest.raises(anthropic.BadRequestError, match="web_search"):
            await talk.client.messages.create(model="served", max_tokens=9, messages=[hello], tools=[search])
        assert await made.stored() == {}
        assert made.upstream.seen == []


PDF = "JVBERi0="
FILE = {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}}
DOCUMENT = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF}}


async def test_what_is_left_out_is_told_in_a_header() -> None:
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    said = {"role": "user", "content": [{"type": "text", "text": "Read."}, sound, FILE]}
    async with endpoint(Say("Hello.", thinking="Hm."), Say("Yes."), upstream_api="messages") as made:
        strange: Any = {"bad\r\nname: é": 1}
        answer = await made.ask(said, seed=3, **strange)
        assert answer.headers[OMITTED_HEADER] == "seed=1, other=1, input_audio=1"
        again = await made.ask(said, answer.json()["choices"][0]["message"], "Sure?")
        assert again.headers[OMITTED_HEADER] == "input_audio=1"
        [question, reply, _] = made.sent()
        assert question["content"][-1]["source"] == DOCUMENT["source"]
        # Its own thinking goes back to Claude.
        assert reply["content"][0]["type"] == "thinking"


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_document_goes_where_it_can_be_read(api: UpstreamApi) -> None:
    async with endpoint(Say("Hello."), upstream_api=api) as made:
        said = {"role": "user", "content": [DOCUMENT, {"type": "text", "text": "Read."}]}
        body = {"model": "m", "max_tokens": 99, "messages": [said]}
        answer = await made.http.post("/v1/messages", json=body)
        assert answer.status_code == 200
        [sent] = made.sent()
        if api == "responses":
            assert sent["content"][0]["file_data"] == FILE["file"]["file_data"]  # type: ignore[index]
            assert OMITTED_HEADER not in answer.headers
        else:
            assert sent["content"].startswith("[document ")
            assert answer.headers[OMITTED_HEADER] == "document=1"


async def test_the_first_words_do_not_wait_for_the_last() -> None:
    gate = anyio.Event()
    said = {"choices": [{"index": 0, "delta": {"content": "Hel"}}]}
    told = Answer([sse(said)], headers={"content-type": "text/event-stream"}, after=gate)
    async with serving(told) as upstream, endpoint_before(upstream, upstream_api="chat") as made:
        hello = {"role": "user", "content": "Hi"}
        body = {"model": "m", "max_tokens": 9, "stream": True, "messages": [hello]}
        seen = []
        async with made.http.stream("POST", "/v1/messages", json=body) as response:
            async for line in response.aiter_lines():
                seen.append(line.removeprefix("event: "))
                if "Hel" in line:
                    # Only now upstream goes on, and breaks off.
                    gate.set()
        kinds = [line for line in seen if line.isidentifier()]
        assert kinds == ["message_start", "content_block_start", "content_block_delta", "error"]


async def test_an_answer_without_words_is_an_error() -> None:
    empty = as_json({"choices": []})
    async with serving(empty) as upstream, endpoint_before(upstream, upstream_api="chat") as made:
        body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}
        answer = await made.http.post("/v1/messages", json=body)
        assert (answer.status_code, answer.json()["type"]) == (502, "error")


async def test_tokens_are_counted_here_where_upstream_has_no_count() -> None:
    async with endpoint(Say("Hello."), upstream_api="chat") as made, MessagesTalk(made) as talk:
        hello: Any = {"role": "user", "content": "One two three."}
        counted = await talk.client.messages.count_tokens(model="served", messages=[hello])
        assert 0 < counted.input_tokens < 50
        assert made.upstream.seen == []


async def test_names_of_tools_that_upstream_does_not_take_are_given_back() -> None:
    call = Call("call_1", "files_read", {})
    async with endpoint(Say("", calls=[call]), upstream_api="messages") as made:
        function = {"name": "files.read", "parameters": PARAMETERS}
        answer = await made.ask("Hi", tools=[{"type": "function", "function": function}])
        [found] = answer.json()["choices"][0]["message"]["tool_calls"]
        assert found["function"]["name"] == "files.read"
        assert made.upstream.asked().tools == ["files_read"]


async def test_the_key_goes_where_upstream_looks_for_it() -> None:
    async with endpoint(Say("Hello."), upstream_api="messages") as made, ChatTalk(made) as asking:
        await asking.ask("Hi", stream=False)
        headers = made.upstream.seen[-1].headers
        assert headers["x-api-key"] == KEY
        assert "authorization" not in headers
        assert headers["anthropic-version"]
    async with endpoint(Say("Hello."), upstream_api="chat") as made, MessagesTalk(made) as talk:
        await talk.ask("Hi", stream=False)
        headers = made.upstream.seen[-1].headers
        assert headers["authorization"] == f"Bearer {KEY}"
        assert not [name for name in headers if name.startswith("anthropic") or name == "x-api-key"]


async def test_a_response_is_found_by_the_id_that_the_client_was_given() -> None:
    async with endpoint(Say("Hello."), Say("At nine."), upstream_api="chat") as made, made.sdk() as client:
        first = await client.responses.create(model="served", input="Hi")
        second = await client.responses.create(model="served", input="When?", previous_response_id=first.id)
        assert second.output_text == "At nine."
        assert [one["content"] for one in made.sent()] == ["Hi", "Hello.", "When?"]


async def test_models_are_listed_in_the_clients_form() -> None:
    rows = [{"id": "qwen3", "object": "model", "created": 1, "owned_by": "me"}]
    claude = [{"id": "claude-x", "type": "model", "display_name": "X", "created_at": "2026-01-01T00:00:00Z"}]
    listed = as_json({"object": "list", "data": rows}), as_json({"data": claude, "has_more": False})
    async with (
        serving(listed[0]) as upstream,
        endpoint_before(upstream, upstream_api="chat") as made,
        MessagesTalk(made) as talk,
    ):
        assert [one.id async for one in await talk.client.models.list()] == ["qwen3"]
        assert upstream.seen[-1].headers["authorization"] == f"Bearer {KEY}"
        bare = await made.http.get("/v1/models", headers={"x-api-key": KEY})
        assert bare.json()["first_id"] == "qwen3"
    async with (
        serving(as_json(rows[0])) as upstream,
        endpoint_before(upstream, upstream_api="chat") as made,
        MessagesTalk(made) as talk,
    ):
        found = await talk.client.models.retrieve("qwen3")
        assert (found.type, found.id) == ("model", "qwen3")
        assert upstream.seen[-1].path == "/v1/models/qwen3"
    async with (
        serving(listed[1]) as upstream,
        endpoint_before(upstream, upstream_api="messages") as made,
        made.sdk() as client,
    ):
        assert [one.id async for one in client.models.list()] == ["claude-x"]


@pytest.mark.parametrize(
    ("host", "chat", "messages"),
    [
        ("http://127.0.0.1:11434/v1", None, None),
        ("https://api.openai.com/v1", None, "responses"),
        ("https://api.anthropic.com", "anthropic", None),
    ],
)
def test_the_host_of_upstream_tells_its_api(host: str, chat: str | None, messages: str | None) -> None:
    assert choose_target(ChatCompletions(), host, None) == chat
    assert choose_target(Messages(), host, None) == messages
    assert choose_target(Messages(), host, "messages") is None
    assert choose_target(Messages(), host, "chat") == "openai"


def test_an_unknown_api_of_upstream_is_refused() -> None:
    with pytest.raises(ValueError, match="chat, responses, messages"):
        endpoint_app("http://127.0.0.1/v1", scope="ana", upstream_api="completions")  # type: ignore[arg-type]
