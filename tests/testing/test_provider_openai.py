"""Requests that OpenAI refuses, and what it makes of a conversation with reasoning and tools."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testing.provider_calls import Body, post, text

from autonomy_ctx import Agent, Model, tool
from autonomy_ctx.formats.base import load_format
from autonomy_ctx.testing import ProviderServer

GPT = "gpt-5.6-sol"
THOUGHT = {"type": "thinking", "thinking": "Let me see"}
CALL = {"type": "tool_use", "id": "call_1", "name": "look_up", "input": {"order": "7"}}
HELLO = {"role": "user", "content": "Where is order 7?"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "sent"}


@tool
def look_up(order: str) -> str:
    """Look up an order."""
    return f"order {order} was sent"


def make_server() -> ProviderServer:
    return ProviderServer(lambda body: [THOUGHT, CALL])


async def ask(server: ProviderServer, *items: Body, path: str = "/v1/responses") -> Body:
    return dict((await post(server, path, {"model": GPT, "input": items})).json())


async def ask_for_error(server: ProviderServer, *items: Body) -> Body:
    return dict((await ask(server, *items))["error"])


async def test_a_reply_has_reasoning_and_calls_as_items() -> None:
    answer = await ask(make_server(), HELLO)
    reasoning, call = answer["output"]
    assert (reasoning["type"], reasoning["summary"]) == (
        "reasoning",
        [{"type": "summary_text", "text": "Let me see"}],
    )
    assert (call["type"], call["call_id"], call["arguments"]) == ("function_call", "call_1", '{"order": "7"}')
    # 3 words of reasoning; the call has a name and an argument.
    assert (answer["usage"]["output_tokens"], answer["usage"]["output_tokens_details"]) == (
        5,
        {"reasoning_tokens": 3},
    )


async def test_items_that_come_back_as_they_were_are_accepted() -> None:
    server = make_server()
    answer = await ask(server, HELLO)
    await ask(server, HELLO, *answer["output"], OUTPUT)
    assert not server.refused


async def test_reasoning_that_was_changed_or_is_of_another_organization_is_refused() -> None:
    server = make_server()
    reasoning, call = (await ask(server, HELLO))["output"]
    sealed = reasoning["encrypted_content"]
    changed = {**reasoning, "encrypted_content": "x" + sealed[1:]}
    error = await ask_for_error(server, HELLO, changed, call, OUTPUT)
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_encrypted_content")
    server.organization = "org-2"
    error = await ask_for_error(server, HELLO, reasoning, call, OUTPUT)
    assert error["code"] == "invalid_encrypted_content"


async def test_reasoning_without_the_item_that_followed_it_is_refused() -> None:
    server = make_server()
    reasoning, call = (await ask(server, HELLO))["output"]
    other = {**call, "id": "fc_other", "call_id": "call_2"}
    said = {"role": "assistant", "content": "Yes."}
    for items in ([reasoning], [reasoning, said], [reasoning, other, {**OUTPUT, "call_id": "call_2"}]):
        error = await ask_for_error(server, HELLO, *items)
        assert "without its required following item" in error["message"]


async def test_an_item_with_its_id_needs_its_reasoning() -> None:
    server = make_server()
    _, call = (await ask(server, HELLO))["output"]
    error = await ask_for_error(server, HELLO, call, OUTPUT)
    assert "without its required 'reasoning' item" in error["message"]
    del call["id"]
    assert "error" not in await ask(server, HELLO, call, OUTPUT)


async def test_calls_and_outputs_belong_together() -> None:
    server = make_server()
    call = {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": "{}"}
    error = await ask_for_error(server, HELLO, call)
    assert error["message"] == "No tool output found for function call call_1."
    error = await ask_for_error(server, HELLO, OUTPUT)
    assert error["message"].startswith("No tool call found")
    assert "error" not in await ask(server, HELLO, call, OUTPUT)


async def test_nothing_is_stored() -> None:
    answer = await post(make_server(), "/v1/responses", {"model": GPT, "previous_response_id": "resp_1"})
    assert answer.json()["error"]["code"] == "previous_response_not_found"
    assert (await ask_for_error(make_server()))["param"] == "input"


async def test_a_prompt_over_the_window_has_a_code() -> None:
    error = await ask_for_error(ProviderServer(max_tokens=3), HELLO)
    assert (error["code"], error["param"]) == ("context_length_exceeded", "input")


async def test_a_stream_is_the_same_reply_in_pieces() -> None:
    said = {"/v1/responses": "input", "/v1/chat/completions": "messages"}
    for path, name in said.items():
        body = {"model": GPT, name: [HELLO]}
        whole = await post(make_server(), path, body)
        streamed = await post(make_server(), path, body | {"stream": True})
        words = load_format("responses" if name == "input" else "openai")
        reader = words.reader()
        for event in streamed.text.split("\n\n"):
            data = event.rpartition("data: ")[2]
            if data.startswith("{"):
                reader.feed(json.loads(data))
        read, expected = reader.finish(), words.reply(whole.json())
        assert (read.parts, read.tool_calls) == (expected.parts, expected.tool_calls)
        assert read.stop == expected.stop


# -- chat completions ----------------------------------------------------------------------------

CHAT_CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "look_up", "arguments": '{"order": "7"}'},
}
CHAT_RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "sent"}
ASSISTANT = {"role": "assistant", "content": None, "tool_calls": [CHAT_CALL]}


async def chat(server: ProviderServer, *messages: Any) -> Body:
    body = {"model": GPT, "messages": messages}
    return dict((await post(server, "/v1/chat/completions", body)).json())


async def test_a_completion_has_calls_and_no_thinking() -> None:
    [choice] = (await chat(make_server(), HELLO))["choices"]
    assert choice["message"] == {**ASSISTANT, "refusal": None}
    assert choice["finish_reason"] == "tool_calls"


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([HELLO, ASSISTANT], "did not have response messages: call_1"),
        ([HELLO, ASSISTANT, HELLO, CHAT_RESULT], "did not have response messages: call_1"),
        ([HELLO, CHAT_RESULT], "must be a response to a preceding message"),
        ([HELLO, ASSISTANT, CHAT_RESULT, CHAT_RESULT], "must be a response to a preceding message"),
        ([HELLO, ASSISTANT, CHAT_RESULT], None),
    ],
)
async def test_results_of_a_completion_stand_right_after_their_calls(
    messages: list[Body], error: str | None
) -> None:
    answer = await chat(make_server(), *messages)
    assert error is None or error in answer["error"]["message"]
    assert ("error" in answer) is (error is not None)


# -- an agent ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "path"),
    [(f"openai-responses/{GPT}", "/v1/responses"), (f"openai/{GPT}", "/v1/chat/completions")],
)
async def test_an_agent_talks_to_it_with_reasoning_and_tools(name: str, path: str) -> None:
    numbers = iter(range(100))

    def answer(body: Any) -> list[Body]:
        number = next(numbers)
        call = {**CALL, "id": f"call_{number}"}
        return [THOUGHT, call] if number % 2 == 0 else [THOUGHT, text("It was sent.")]

    server = ProviderServer(answer)
    async with server.client() as client:
        model = Model(name, client=client, api_key="key")
        async with Agent("shop", model=model, tools=[look_up]) as agent:
            for _ in range(3):
                reply = await agent.send("Where is order 7?")
    assert not server.refused
    assert (reply.text, [request.path for request in server.requests]) == ("It was sent.", [path] * 6)
    if path == "/v1/responses":
        assert [request.thinking for request in server.requests] == [0, 1, 2, 3, 4, 5]


# -- compaction ----------------------------------------------------------------------------------


async def test_compaction_keeps_the_users_messages_and_an_item_that_cannot_be_read() -> None:
    server = ProviderServer(lambda body: [text("Ana asks about orders.")])
    said = [HELLO, {"role": "assistant", "content": "It was sent."}, {"role": "user", "content": "And 8?"}]
    answer = await ask(server, *said, path="/v1/responses/compact")
    *users, item = answer["output"]
    assert (answer["object"], users, item["type"]) == (
        "response.compaction",
        [said[0], said[2]],
        "compaction",
    )
    assert "Ana" not in item["encrypted_content"]
    # 4 + 3 + 2 words in, 4 out.
    assert (answer["usage"]["input_tokens"], answer["usage"]["output_tokens"]) == (9, 4)
    await ask(server, *answer["output"], HELLO)
    # 4 + 2, the summary of 4 words, and 4.
    assert server.requests[-1].use.total == 4 + 2 + 4 + 4
    changed = {**item, "encrypted_content": "x" + item["encrypted_content"][1:]}
    assert (await ask_for_error(server, changed, HELLO))["code"] == "invalid_encrypted_content"


async def test_compaction_checks_a_request_as_an_answer_would() -> None:
    answer = await ask(make_server(), HELLO, OUTPUT, path="/v1/responses/compact")
    assert answer["error"]["message"].startswith("No tool call found")


async def test_a_compaction_can_fail() -> None:
    server = ProviderServer()
    server.compaction_failures = ["unavailable"]
    body = {"model": GPT, "input": "Hello"}
    statuses = [(await post(server, "/v1/responses/compact", body)).status_code for _ in range(2)]
    assert statuses == [503, 200]
