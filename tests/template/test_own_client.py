"""A context for the providers' own clients, and their replies back into memory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import anyio.to_thread
import pytest
from formats.golden_conversation import RICH, TOOLS, any_history
from formats.sdk import openai_takes, really, responses_takes
from formats.test_anthropic import conforming
from formats.test_bedrock import official, service
from hypothesis import given
from models.provider_server import ProviderServer, providing
from models.provider_words import ALL, SIGNATURE, Call, Say
from strategies import NOON, some

from autonomy_ctx import (
    ChatContext,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    ModelReply,
    SystemInstructionsSection,
    TextContent,
    ThinkingContent,
    ToolCall,
    tool,
)
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import RequestOptions
from autonomy_ctx.formats.bedrock import BedrockFormat
from autonomy_ctx.formats.google import GoogleFormat
from autonomy_ctx.messages import Segment, Summary
from autonomy_ctx.template.composed import ComposedContext

OPTIONS = RequestOptions(tools=TOOLS)


def context_of(messages: Sequence[Message]) -> ComposedContext:
    return ComposedContext(
        scope="ana",
        conversation="trip",
        messages=messages,
        counts=[1] * len(messages),
        sections=(),
        calibration=1.0,
    )


# -- what the clients take ----------------------------------------------------------------------------


def url_alphabet(value: Any) -> Any:
    """JSON whose base64 is in the alphabet for URLs, as Google's client writes it."""
    return json.loads(json.dumps(value).replace("+", "-").replace("/", "_"))


def google_body(arguments: dict[str, Any]) -> Any:
    """What Google's client makes of its arguments; its types refuse fields that they do not have."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from google.genai import types
    read = types.GenerateContentConfig.model_validate(arguments["config"])
    contents = [types.Content.model_validate(content) for content in arguments["contents"]]
    assert arguments.keys() == {"contents", "config"}
    both = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in (read, *contents)]
    return {**both[0], "contents": both[1:]}


def bedrock_body(arguments: dict[str, Any]) -> Any:
    """What Amazon's client sends of its arguments."""
    from botocore.serialize import create_serializer

    official(arguments)
    made = create_serializer("rest-json").serialize_to_request(
        {"modelId": "m", **arguments}, service().operation_model("Converse")
    )
    return json.loads(made["body"])


def check_all(messages: Sequence[Message]) -> None:
    context = context_of(messages)
    openai_takes(context.to_openai(tools=TOOLS))
    responses_takes(context.to_responses(tools=TOOLS))
    conforming({"model": "m", "max_tokens": 1, **context.to_anthropic(tools=TOOLS)})
    sent = GoogleFormat().request("", messages, OPTIONS).body
    assert url_alphabet(google_body(context.to_google(tools=TOOLS))) == url_alphabet(sent)
    sent = BedrockFormat().request("", messages, OPTIONS).body
    assert bedrock_body(context.to_bedrock(tools=TOOLS)) == sent


def test_a_rich_conversation_is_what_every_client_takes() -> None:
    check_all(RICH)


def test_what_google_has_signed_goes_back_as_its_bytes() -> None:
    call = ToolCall("c1", "look", "{}", {"thought_signature": SIGNATURE})
    thought = ThinkingContent("hm", signature=f"google:{SIGNATURE}")
    signed = [Message("user", "hi"), Message("assistant", [thought], tool_calls=[call])]
    check_all([*signed, Message("tool", "x", tool_call_id="c1")])
    parts = context_of(signed).to_google()["contents"][1]["parts"]
    assert [part["thought_signature"] for part in parts] == [b"signed by the provider"] * 2


@some
@given(any_history)
def test_any_conversation_is_what_every_client_takes(messages: list[Message]) -> None:
    check_all(messages)


def test_nothing_but_messages_system_and_tools_is_given() -> None:
    """Who calls the client says the rest, and no name comes twice."""
    context = context_of([Message("system", "Be brief."), Message("user", "hi")])
    assert context.to_openai().keys() == {"messages"}
    assert context.to_openai(tools=TOOLS).keys() == {"messages", "tools"}
    assert context.to_responses(tools=TOOLS).keys() == {"input", "tools"}
    assert context.to_anthropic().keys() == {"messages", "system"}
    assert context.to_anthropic(tools=TOOLS).keys() == {"messages", "system", "tools"}
    assert context.to_google()["config"].keys() == {"system_instruction"}
    assert context.to_google(tools=TOOLS)["config"].keys() == {"system_instruction", "tools"}
    assert context.to_bedrock().keys() == {"messages", "system"}
    assert context.to_bedrock(tools=TOOLS).keys() == {"messages", "system", "toolConfig"}


async def test_a_cache_is_cut_only_where_that_is_asked_for(memory: Memory) -> None:
    await memory.append("ana", "trip", Message("user", "hi"))
    template = ContextTemplate([SystemInstructionsSection("Be brief."), ConversationHistorySection()])
    context = await template.compose(memory, "ana", "trip")
    assert "cache_control" not in json.dumps(context.to_anthropic())
    assert "cache_control" in json.dumps(context.to_anthropic(caching=True))
    assert "cachePoint" not in json.dumps(context.to_bedrock())
    assert "cachePoint" in json.dumps(context.to_bedrock(caching=True))


def test_the_name_of_a_model_decides_where_models_differ() -> None:
    context = context_of([Message("system", "Be brief."), Message("user", "hi")])
    assert context.to_openai()["messages"][0]["role"] == "system"
    assert context.to_openai(model="gpt-5")["messages"][0]["role"] == "developer"


# -- plain dicts --------------------------------------------------------------------------------------


def test_plain_dicts_are_those_of_chat_completions_and_nothing_else() -> None:
    call = ToolCall("c1", "look", '{"at": 1}', {"thought_signature": "x"})
    context = context_of(
        [
            Message("system", {"text": "Be brief.", "type": "text"}, phase="system"),
            Summary([Segment(text="They met.", first=1, last=2)], id="s", created_at=NOON),
            Message("user", "hi \ud800", name="ana", extra={"mood": "good"}, agent="a"),
            Message("assistant", [ThinkingContent("hm", signature="s")], tool_calls=[call]),
            Message("tool", "gone", tool_call_id="c1", name="look", is_error=True),
            Message("assistant", [ThinkingContent("hm"), TextContent("Well.")]),
        ]
    )
    system, summary, *rest = context.to_dicts()
    assert system == {"role": "system", "content": "Be brief."}
    assert summary["role"] == "user"
    assert summary["content"].startswith("<summary ")
    function = {"name": "look", "arguments": '{"at": 1}'}
    assert rest == [
        {"role": "user", "content": "hi \ufffd", "name": "ana"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "content": "Error: gone", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Well."},
    ]


@some
@given(any_history)
def test_plain_dicts_are_as_many_as_messages_and_have_no_private_keys(messages: list[Message]) -> None:
    dicts = context_of(messages).to_dicts()
    assert [form["role"] for form in dicts] == [
        one.display_role if isinstance(one, Summary) else one.role.value for one in messages
    ]
    for form in dicts:
        assert form.keys() <= {"role", "content", "name", "tool_calls", "tool_call_id"}
        json.dumps(form, ensure_ascii=False).encode()


# -- replies ------------------------------------------------------------------------------------------

SAY = Say("Let me look.", [Call("call_1", "weather", {"city": "Rome"})], thinking="One city.")
KINDS = {
    "openai": "openai.types.chat.ChatCompletion",
    "responses": "openai.types.responses.Response",
    "anthropic": "anthropic.types.Message",
    "google": "google.genai.types.GenerateContentResponse",
}


def reply_of(provider: str, say: Say) -> Any:
    """A reply as the provider's client gives it."""
    whole = ALL[provider]().whole(say)
    return whole if provider == "bedrock" else _client_object(provider, whole)


def _client_object(provider: str, whole: Any) -> Any:
    added: dict[str, dict[str, Any]] = {"openai": {"created": 1}, "responses": RESPONSE_FIELDS}
    return really(KINDS[provider], {**whole, **added.get(provider, {})})


RESPONSE_FIELDS = {
    "created_at": 1,
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "usage": None,
}


def check_said(message: Message, provider: str) -> None:
    assert message.role.value == "assistant"
    assert message.text == "Let me look."
    [call] = message.tool_calls
    assert (call.name, json.loads(call.arguments)) == ("weather", {"city": "Rome"})
    assert call.id == "call_1" or (provider == "google" and call.id)
    assert any(isinstance(part, ThinkingContent) for part in message.parts)


@pytest.mark.parametrize("provider", ALL)
async def test_a_clients_reply_is_appended_as_it_is(memory: Memory, provider: str) -> None:
    reply = reply_of(provider, SAY)
    chat = ChatContext()
    check_said(chat.append(reply), provider)
    await memory.append("ana", "trip", Message("user", "Rome?"), reply)
    [_, entry] = (await memory.read("ana", "trip")).entries
    check_said(entry.message, provider)


@pytest.mark.parametrize("provider", ["openai", "responses", "anthropic", "google"])
async def test_the_json_of_a_reply_is_appended_too(memory: Memory, provider: str) -> None:
    await memory.append("ana", "trip", ALL[provider]().whole(SAY))
    [entry] = (await memory.read("ana", "trip")).entries
    check_said(entry.message, provider)


async def test_the_message_of_a_chat_completion_is_appended(memory: Memory) -> None:
    await memory.append("ana", "trip", reply_of("openai", SAY).choices[0].message)
    [entry] = (await memory.read("ana", "trip")).entries
    check_said(entry.message, "openai")


async def test_a_reply_of_this_library_is_kept_once(memory: Memory) -> None:
    reply = ModelReply(parts=(TextContent("Hello."),), stop="end")
    assert await memory.append("ana", "trip", reply) == [1]
    assert await memory.append("ana", "trip", reply) == [1]
    assert ChatContext().append(reply) is reply.message


async def test_a_dict_that_is_a_message_stays_what_it_is(memory: Memory) -> None:
    given = {
        "role": "assistant",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
        "id": "m1",
        "timestamp": 1.0,
    }
    await memory.append("ana", "trip", given)
    assert await memory.get_messages_only("ana", "trip") == [given]


@pytest.mark.parametrize("provider", ALL)
async def test_a_reply_without_content_is_refused(memory: Memory, provider: str) -> None:
    reply = reply_of(provider, Say())
    for append in (partial(memory.append, "ana", "trip"), _append_to_chat):
        with pytest.raises(InvalidMessage, match="is a model's reply without text and calls"):
            await append(reply)
    assert await memory.get_messages_only("ana", "trip") == []


async def _append_to_chat(value: Any) -> None:
    ChatContext().append(value)


@pytest.mark.parametrize(
    "value",
    [
        "hello",
        7,
        None,
        object(),
        ["hello"],
        SimpleNamespace(text="hello"),
        SimpleNamespace(role="user", content="hello"),
        SimpleNamespace(type="human", content="hello"),
        {"text": "hello"},
        {"role": "tool", "content": "hello"},
        Message("tool", "hello"),
        {"role": "tool", "choices": [{"message": {"content": "hello"}}], "content": object()},
    ],
)
async def test_what_is_no_message_and_no_reply_is_refused(memory: Memory, value: Any) -> None:
    """Whose words these are cannot be told."""
    for append in (partial(memory.append, "ana", "trip"), _append_to_chat):
        with pytest.raises(InvalidMessage):
            await append(value)


# -- the clients themselves ---------------------------------------------------------------------------


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@cache
def sdk(name: str) -> Any:
    """A client's package, without what it says while it is imported."""
    import importlib

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(name)


async def ask(provider: str, url: str, context: ComposedContext) -> Any:
    """Ask as the provider's manual says, with what the context gives."""
    options = {"api_key": "k", "max_retries": 0}
    match provider:
        case "openai":
            async with sdk("openai").AsyncOpenAI(base_url=f"{url}/v1", **options) as client:
                arguments = context.to_openai(tools=[weather])
                return await client.chat.completions.create(model="gpt-5", **arguments)
        case "responses":
            async with sdk("openai").AsyncOpenAI(base_url=f"{url}/v1", **options) as client:
                return await client.responses.create(
                    model="gpt-5", store=False, **context.to_responses(tools=[weather])
                )
        case "anthropic":
            async with sdk("anthropic").AsyncAnthropic(base_url=url, **options) as client:
                return await client.messages.create(
                    model="claude-x", max_tokens=100, **context.to_anthropic(tools=[weather])
                )
        case "google":
            client = sdk("google.genai").Client(api_key="k", http_options={"base_url": url})
            try:
                return await client.aio.models.generate_content(
                    model="gemini-3-pro", **context.to_google(tools=[weather])
                )
            finally:
                await client.aio.aclose()
                client.close()
    return await anyio.to_thread.run_sync(_converse, url, context.to_bedrock(tools=[weather]))


def _converse(url: str, arguments: dict[str, Any]) -> Any:
    session, unsigned = sdk("botocore.session").Session(), sdk("botocore").UNSIGNED
    config = sdk("botocore.config").Config(signature_version=unsigned)
    client = session.create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config
    )
    # By itself the client sends a key over TLS only.
    client.meta.events.register("before-send", _add_key)
    try:
        return client.converse(modelId="amazon.nova-micro-v1:0", **arguments)
    finally:
        client.close()


def _add_key(request: Any, **_: Any) -> None:
    request.headers["Authorization"] = "Bearer k"


@pytest.fixture
def anyio_backend() -> str:
    """The clients are written for asyncio."""
    return "asyncio"


@pytest.mark.parametrize("provider", ALL)
async def test_a_conversation_with_a_call_goes_through_the_providers_own_client(provider: str) -> None:
    memory = Memory()
    template = ContextTemplate([SystemInstructionsSection("Be brief."), ConversationHistorySection()])
    async with providing(SAY, Say("It is sunny.")) as server:
        await memory.append("ana", "trip", {"role": "user", "content": "How is Rome?"})
        reply = await ask(provider, server.url, await template.compose(memory, "ana", "trip"))
        await memory.append("ana", "trip", reply)
        asked = (await memory.read("ana", "trip")).entries[-1].message
        check_said(asked, provider)
        [call] = asked.tool_calls
        result = weather(**json.loads(call.arguments))
        await memory.append(
            "ana", "trip", {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": result}
        )
        reply = await ask(provider, server.url, await template.compose(memory, "ana", "trip"))
        await memory.append("ana", "trip", reply)
        check_seen(server, provider)
    assert (await memory.read("ana", "trip")).entries[-1].message.text == "It is sunny."


def check_seen(server: ProviderServer, provider: str) -> None:
    """The provider refused nothing, and saw the rules, the result and its own signature again."""
    assert server.refused == []
    seen = server.asked()
    assert (seen.system, seen.tools) == (["Be brief."], ["weather"])
    assert seen.said[-1] == ("tool", "sunny in Rome")
    assert (SIGNATURE in json.dumps(server.seen[-1].body)) == (provider != "openai")
