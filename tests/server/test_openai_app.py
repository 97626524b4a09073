"""Chat completions through the endpoint: what a client gets, what upstream is sent, what is stored."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from models.model_server import as_json, chat, serving
from models.provider_words import Say
from server.endpoint import (
    CHAT,
    KEY,
    RESPONSES,
    Endpoint,
    answer_of,
    assistant,
    endpoint,
    endpoint_before,
    user,
)

from autonomy_ctx.server import endpoint_app

RULES = {"role": "system", "content": "Be kind."}


async def names(made: Endpoint) -> list[str]:
    return [one.conversation for one in await made.app.memory.conversations("ana")]


async def test_a_client_that_sends_its_whole_history_is_understood_and_stored_once() -> None:
    async with endpoint(Say("Hello."), Say("At nine."), Say("Yes.")) as made:
        first = await made.ask(RULES, "Hi")
        assert answer_of(first) == "Hello."
        second = await made.ask(RULES, "Hi", assistant("Hello."), "When?")
        assert second.headers["x-conversation-id"] == first.headers["x-conversation-id"]
        said = [RULES, "Hi", assistant("Hello."), "When?", assistant("At nine."), "Sure?"]
        await made.ask(*said)
        assert made.sent() == [
            one if isinstance(one, dict) else {"role": "user", "content": one} for one in said
        ]
        assert await made.stored() == {
            first.headers["x-conversation-id"]: ["Hi", "Hello.", "When?", "At nine.", "Sure?", "Yes."]
        }


async def test_a_named_conversation_takes_new_messages_only() -> None:
    async with endpoint(Say("Hello."), Say("At nine.")) as made:
        await made.ask(RULES, "Hi", conversation="trip")
        answer = await made.ask(RULES, "When?", conversation="trip")
        assert answer.headers["x-conversation-id"] == "trip"
        assert [one["content"] for one in made.sent()] == ["Be kind.", "Hi", "Hello.", "When?"]
        assert await made.stored() == {"trip": ["Hi", "Hello.", "When?", "At nine."]}


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"conversation_id": "trip"}},
        {"metadata": {"session_id": "trip"}},
        {"metadata": {"thread_id": "trip"}},
    ],
)
async def test_a_conversation_is_named_in_the_body_too(fields: dict[str, Any]) -> None:
    async with endpoint(Say("Hello.")) as made:
        await made.ask("Hi", **fields)
        assert await names(made) == ["trip"]
        assert fields.items() <= made.upstream.seen[-1].body.items()


async def test_a_user_has_several_conversations() -> None:
    async with endpoint(Say("Hello."), Say("Hello again.")) as made:
        for text in ("Our word is heron.", "What else?"):
            await made.ask(text, user="ana-7")
            assert made.sent() == [user(text)]
            assert made.upstream.seen[-1].body["user"] == "ana-7"
        body = {"model": "served", "input": "And now?", "user": "ana-7"}
        await made.http.post(RESPONSES, json=body)
        assert len(await names(made)) == 3
        assert "ana-7" not in await names(made)


async def test_a_user_has_one_conversation_if_that_is_asked_for() -> None:
    async with endpoint(Say("Hello."), conversation_by_user=True) as made:
        await made.ask("Our word is heron.", user="ana-7")
        await made.http.post(RESPONSES, json={"model": "served", "input": "What is it?", "user": "ana-7"})
        assert await names(made) == ["ana-7"]
        assert len(made.sent()) == 3


async def test_conversations_are_named_for_the_cache_if_that_is_asked_for() -> None:
    async with endpoint(Say("Hello."), Say("Yes."), Say("No.")) as made:
        await made.ask("Hi", conversation="trip")
        assert "prompt_cache_key" not in made.upstream.seen[-1].body
    async with endpoint(Say("Hello."), Say("Yes."), Say("No."), cache_fields=True) as made:
        for conversation in ("trip", "trip", "other"):
            await made.ask("Hi", conversation=conversation)
        first, again, other = (seen.body["prompt_cache_key"] for seen in made.upstream.seen)
        assert first == again != other
        await made.ask("Hi", conversation="trip", prompt_cache_key="mine")
        assert made.upstream.seen[-1].body["prompt_cache_key"] == "mine"


@pytest.mark.parametrize(
    "name", [" trip", "trip ", "  my trip  ", " ", "my trip", "a%20b ", "\ttrip\n", "Füße "]
)
async def test_any_name_of_a_conversation_comes_back_in_the_header(name: str) -> None:
    async with endpoint(Say("Hello.")) as made:
        answer = await made.ask("Hi", metadata={"conversation_id": name})
        assert answer_of(answer) == "Hello."
        told = answer.headers["x-conversation-id"]
        assert unquote(told) == name
        again = await made.ask("Hi again", conversation=told)
        assert again.headers["x-conversation-id"] == told
        assert await names(made) == [name]


async def test_the_body_goes_on_as_the_client_wrote_it() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png", "detail": "high"}}
    asked = {
        "role": "user",
        "content": [{"type": "text", "text": "What is it?", "cache_control": {"type": "ephemeral"}}, image],
        "name": "ana",
        "mood": "curious",
    }
    fields = {"temperature": 0.25, "seed": 7, "x_unknown": {"a": [1, None]}}
    async with serving(as_json(chat("A dog."))) as upstream, endpoint_before(upstream) as made:
        await made.http.post(CHAT, json={"model": "served", "messages": [RULES, asked], **fields})
        seen = made.upstream.seen[-1]
        assert seen.body == {"model": "served", "messages": [RULES, asked], **fields}
        assert seen.headers["authorization"] == f"Bearer {KEY}"
        assert "x-conversation-id" not in seen.headers


async def test_what_only_the_client_understands_is_sent_again_after_it_was_stored() -> None:
    part = {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}
    sound = {"role": "user", "content": [part]}
    async with serving(as_json(chat("A bell."))) as upstream, endpoint_before(upstream) as made:
        await made.ask(sound, conversation="trip")
        await made.ask("How loud?", conversation="trip")
        assert made.sent()[0] == sound


async def test_the_sdk_streams_and_goes_on() -> None:
    async with endpoint(Say("Hello there."), Say("At nine.")) as made, made.sdk() as client:
        said: list[Any] = [RULES, {"role": "user", "content": "Hi"}]
        text = ""
        async for chunk in await client.chat.completions.create(model="served", messages=said, stream=True):
            text += (chunk.choices[0].delta.content or "") if chunk.choices else ""
        assert text == "Hello there."
        said += [{"role": "assistant", "content": text}, {"role": "user", "content": "When?"}]
        whole = await client.chat.completions.with_raw_response.create(model="served", messages=said)
        assert whole.parse().choices[0].message.content == "At nine."
        assert list((await made.stored()).values()) == [["Hi", "Hello there.", "When?", "At nine."]]


async def test_arguments_that_mean_nothing_are_refused() -> None:
    for wrong in ("api.openai.com", "ftp://host/v1", "https://user:key@host/v1", "https://host/v1?key=1"):
        with pytest.raises(ValueError, match="upstream must be"):
            endpoint_app(wrong, scope="ana")
    with pytest.raises(TypeError, match="either `authenticate`"):
        endpoint_app("https://host/v1")
    with pytest.raises(ValueError, match="scope is empty"):
        endpoint_app("https://host/v1", scope="")


async def test_thinking_of_a_claude_model_goes_on_only_while_our_part_of_the_request_is_the_same() -> None:
    thought = [{"type": "thinking", "thinking": "hm", "signature": "s"}]

    def answered(text: str) -> dict[str, Any]:
        return {"role": "assistant", "content": text, "thinking_blocks": thought}

    texts = ("One.", "Two.", "Three.", "Four.")
    async with (
        serving(*(as_json(chat(text)) for text in texts)) as upstream,
        endpoint_before(upstream) as made,
    ):
        history: list[Any] = []
        sent: list[list[bool]] = []
        for rule, reply in (("Be kind.", "One."), ("Be kind.", "Two."), ("Be short.", "Three.")):
            history.append(user(f"Before {reply}"))
            rules = {"role": "system", "content": rule}
            await made.ask(rules, *history, conversation="trip", model="anthropic/claude-opus-5-5")
            answers = [one for one in made.sent() if one["role"] == "assistant"]
            sent.append(["thinking_blocks" in one for one in answers])
            history.append(answered(reply))
        # Another model gets what the client sent.
        await made.ask(rules, *history, user("And?"), conversation="trip", model="served")
    assert sent == [[], [True], [False, False]]
    assert all("thinking_blocks" in one for one in made.sent() if one["role"] == "assistant")


async def test_metrics_count_answers_and_tokens_with_the_names_of_a_node() -> None:
    async with endpoint(Say("Hello."), Say("At nine.")) as made:
        await made.ask("Hi")
        await made.ask("Hi", assistant("Hello."), "When?")
        told = (await made.http.get("/metrics")).text.splitlines()
        assert {
            "autonomy_ctx_memory_messages_added_total 4",
            'autonomy_ctx_agent_turns_total{agent=""} 2',
            'autonomy_ctx_agent_steps_total{agent=""} 2',
        } <= set(told)
        assert 'autonomy_ctx_agent_output_tokens_total{agent=""} 0' not in told


async def test_tenants_see_no_metrics_and_the_server_shows_them_with_its_token() -> None:
    async with endpoint(Say("Hello."), authenticate=lambda request: "ana") as made:
        await made.ask("Hi")
        assert (await made.http.get("/metrics")).status_code == 404
        made.app.metrics_token = "of-the-page"
        assert (await made.http.get("/metrics")).status_code == 404
        headers = {"authorization": "Bearer of-the-page"}
        assert "steps_total" in (await made.http.get("/metrics", headers=headers)).text


async def test_clients_with_the_same_words_and_other_instructions_have_a_conversation_each() -> None:
    rules = [{"role": "system", "content": f"You look after shop {number}."} for number in range(2)]
    async with endpoint(*[Say("Hello."), Say("Hello."), Say("At nine."), Say("At nine.")]) as made:
        names: list[set[str]] = [set(), set()]
        for said in (["Hi"], ["Hi", assistant("Hello."), "When?"]):
            for number, rule in enumerate(rules):
                answer = await made.ask(rule, *said)
                names[number].add(answer.headers["x-conversation-id"])
                assert made.sent() == [
                    one if isinstance(one, dict) else {"role": "user", "content": one}
                    for one in [rule, *said]
                ]
        assert [len(one) for one in names] == [1, 1]
        assert list((await made.stored()).values()) == [["Hi", "Hello.", "When?", "At nine."]] * 2
