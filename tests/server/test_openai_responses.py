"""Responses through the endpoint, and tools, images and thinking in both APIs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import openai
import pytest
from models.model_server import as_json, events, serving
from models.provider_words import SIGNATURE, Call, Responses, Say, sse
from server.endpoint import RESPONSES, assistant, endpoint, endpoint_before, error_of, user

LOOK = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
TOOL, FLAT_TOOL = {"type": "function", "function": LOOK}, {"type": "function", **LOOK}
CALLS = Say("Let me see.", [Call("c1", "look", {"at": 1}), Call("c2", "look", {"at": 2})])
IMAGE = "data:image/png;base64,iVBORw0KGgo="


def result(call: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call, "content": text}


@pytest.mark.parametrize("stream", [False, True])
async def test_the_sdk_calls_tools_in_parallel_and_sends_their_results(stream: bool) -> None:
    async with endpoint(CALLS, Say("Both."), Say("Bye.")) as made, made.sdk() as client:
        said: list[Any] = [user("Look at both.")]
        asked: dict[str, Any] = {"model": "served", "tools": [TOOL]}
        if stream:
            async with client.chat.completions.stream(messages=said, **asked) as told:
                message = (await told.get_final_completion()).choices[0].message
        else:
            message = (await client.chat.completions.create(messages=said, **asked)).choices[0].message
        assert message.tool_calls is not None
        said.append(message.model_dump(exclude_none=True, exclude={"parsed"}))
        for call in said[-1]["tool_calls"]:
            call.pop("index", None)
            call["function"].pop("parsed_arguments", None)
        said += [result(call.id, f"seen {call.id}") for call in message.tool_calls]
        await client.chat.completions.create(messages=said, **asked)
        assert made.sent() == said
        assert made.upstream.seen[-1].body["tools"] == [TOOL]
        said += [assistant("Both."), user("Thanks.")]
        await client.chat.completions.create(messages=said, **asked)
        assert list((await made.stored()).values()) == [
            ["Look at both.", "Let me see.", "seen c1", "seen c2", "Both.", "Thanks.", "Bye."]
        ]


async def test_a_named_conversation_takes_results_only() -> None:
    async with endpoint(CALLS, Say("Both.")) as made:
        await made.ask("Look at both.", conversation="trip", tools=[TOOL])
        await made.ask(result("c1", "one"), result("c2", "two"), conversation="trip", tools=[TOOL])
        assert [one["role"] for one in made.sent()] == ["user", "assistant", "tool", "tool"]
        assert [call["id"] for call in made.sent()[1]["tool_calls"]] == ["c1", "c2"]
        refused = await made.ask(result("c9", "one"), conversation="trip")
        assert error_of(refused)[0] == 400
        assert (await made.stored())["trip"][-1] == "Both."


async def test_responses_go_on_by_their_history() -> None:
    async with endpoint(Say("Hello."), Say("At nine.")) as made:
        first = await made.http.post(
            RESPONSES, json={"model": "served", "input": "Hi", "instructions": "Be kind.", "store": False}
        )
        items = [
            {"role": "user", "content": "Hi"},
            *first.json()["output"],
            {"role": "user", "content": "When?"},
        ]
        body = {"model": "served", "input": items, "instructions": "Be kind.", "store": False}
        second = await made.http.post(RESPONSES, json=body)
        assert second.headers["x-conversation-id"] == first.headers["x-conversation-id"]
        sent = made.upstream.seen[-1].body
        assert sent["instructions"] == "Be kind."
        assert [one["role"] for one in sent["input"]] == ["user", "assistant", "user"]
        assert list((await made.stored()).values()) == [["Hi", "Hello.", "When?", "At nine."]]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_sdk_goes_on_from_a_response(stream: bool) -> None:
    words = Responses()
    numbers = iter(range(9))

    def told(say: Say) -> Any:
        name = f"resp_{next(numbers)}"
        whole = json.dumps(words.whole(say)).replace("resp-1", name)
        pieces = [piece.replace(b"resp-1", name.encode()) for piece in words.pieces(say)]
        return events_of(pieces) if stream else as_json(json.loads(whole))

    answers = [told(one) for one in (replace(CALLS, thinking="Hm."), Say("Both."), Say("Again."))]
    async with serving(*answers) as upstream, endpoint_before(upstream) as made, made.sdk() as client:

        async def ask(**fields: Any) -> Any:
            if not stream:
                return await client.responses.create(model="served", **fields)
            async for event in await client.responses.create(model="served", stream=True, **fields):
                last = event
            return last.response

        first = await ask(input="Look at both.", tools=[FLAT_TOOL], instructions="Be kind.")
        outputs = [
            {"type": "function_call_output", "call_id": one, "output": f"seen {one}"} for one in ("c1", "c2")
        ]
        second = await ask(input=outputs, previous_response_id=first.id, tools=[FLAT_TOOL])
        assert second.output_text == "Both."
        sent = upstream.seen[-1].body
        assert "previous_response_id" not in sent
        assert [one["type"] for one in sent["input"]] == [
            *("message", "reasoning", "message", "function_call", "function_call"),
            *("function_call_output", "function_call_output"),
        ]
        assert sent["input"][1]["encrypted_content"] == SIGNATURE
        # From the first answer once more: that is a fork.
        await ask(input=outputs[:1], previous_response_id=first.id)
        stored = await made.stored()
        assert sorted(map(len, stored.values())) == [4, 5]
        with pytest.raises(openai.NotFoundError) as caught:
            await ask(input="Hi", previous_response_id="resp_77")
        assert caught.value.code == "previous_response_not_found"


def events_of(pieces: list[bytes]) -> Any:
    made = events()
    made.chunks = pieces
    return made


async def test_a_conversation_object_names_a_conversation() -> None:
    async with endpoint(Say("Hello."), Say("At nine.")) as made:
        for text, conversation in (("Hi", "conv_1"), ("When?", {"id": "conv_1"})):
            body = {"model": "served", "input": text, "conversation": conversation, "store": False}
            answer = await made.http.post(RESPONSES, json=body)
            assert answer.headers["x-conversation-id"] == "conv_1"
            assert "conversation" not in made.upstream.seen[-1].body
        assert await made.stored() == {"conv_1": ["Hi", "Hello.", "When?", "At nine."]}


async def test_an_overflow_after_the_first_events_of_a_response_is_asked_again() -> None:
    words = Responses()
    begun = words.pieces(Say("x"))[0]
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    failed = sse({"type": "response.failed", "response": {"status": "failed", "error": error}})
    answers = [events_of([begun, failed]), events_of(words.pieces(Say("Fine.")))]
    async with serving(*answers) as upstream, endpoint_before(upstream, context_summary=False) as made:
        said = [user(f"Question {number} " * 30) for number in range(20)]
        answer = await made.http.post(RESPONSES, json={"model": "served", "stream": True, "input": said})
        assert "response.failed" not in answer.text
        assert "Fine." in answer.text
        assert len(made.sent(1)) < len(made.sent(0))


async def test_images_are_sent_as_they_came_also_later() -> None:
    image = {"type": "image_url", "image_url": {"url": IMAGE, "detail": "low"}}
    asked = {"role": "user", "content": [{"type": "text", "text": "What is it?"}, image]}
    async with endpoint(Say("A dot."), Say("Red.")) as made:
        await made.ask(asked, conversation="chat")
        await made.ask("Its colour?", conversation="chat")
        assert made.sent()[0] == asked
    part = {"type": "input_image", "image_url": IMAGE, "detail": "low"}
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "What?"}, part]}
    async with endpoint(Say("A dot."), Say("Red.")) as made:
        for content in ([item], [{"type": "message", "role": "user", "content": "Its colour?"}]):
            body = {"model": "served", "input": content, "store": False, "metadata": {"thread_id": "chat"}}
            await made.http.post(RESPONSES, json=body)
        assert made.sent()[0] == item


async def test_an_answer_with_thinking_is_known_without_it() -> None:
    async with endpoint(Say("Hello.", thinking="They greet me."), Say("Bye.")) as made:
        first = await made.ask("Hi")
        second = await made.ask("Hi", assistant("Hello."), "Bye")
        assert second.headers["x-conversation-id"] == first.headers["x-conversation-id"]
        assert made.sent()[1] == assistant("Hello.")


async def test_of_several_answers_the_first_is_stored() -> None:
    choices = [
        {"index": at, "finish_reason": "stop", "message": assistant(text)} for at, text in enumerate("AB")
    ]
    pieces = [
        {"id": "c", "choices": [{"index": at, "delta": {"content": text}}]}
        for text in ("x", "y")
        for at in (0, 1)
    ]
    last = [{"id": "c", "choices": [{"index": at, "delta": {}, "finish_reason": "stop"}]} for at in (0, 1)]
    whole = as_json({"id": "c", "choices": choices})
    async with serving(whole, events(*pieces, *last)) as upstream, endpoint_before(upstream) as made:
        await made.ask("Hi", n=2, conversation="one")
        await made.ask("Hi", n=2, conversation="two", stream=True)
        assert await made.stored() == {"one": ["Hi", "A"], "two": ["Hi", "xy"]}
