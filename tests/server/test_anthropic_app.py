"""`/v1/messages` of the endpoint: what goes on to upstream, what comes back, and which conversation it is."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import anthropic
import httpx
import pytest
from models.provider_server import Fault, Step, providing
from models.provider_words import Say
from server.anthropic_endpoint import (
    KEY,
    MESSAGES,
    MODEL,
    Body,
    call,
    claude_endpoint,
    replied,
    result,
    text,
    user,
)
from server.endpoint import endpoint_before
from server.tenants import uvicorn_client

from autonomy_ctx import ContextTemplate, ConversationHistorySection
from autonomy_ctx.server import EndpointTenant, endpoint_app, inspector_app
from autonomy_ctx.testing import ProviderServer

COUNT = f"{MESSAGES}/count_tokens"
MARK = {"cache_control": {"type": "ephemeral"}}
TOOLS = [{"name": "run", "input_schema": {"type": "object"}}]
NAME = text("x-anthropic-billing-header: cc_version=2.1.327.132;")
SESSION = {"x-claude-code-session-id": "5d1e"}


def script(*contents: Any) -> ProviderServer:
    """A provider that says these things, the last one for ever."""
    steps = [[text(one)] if isinstance(one, str) else one for one in contents]
    return ProviderServer(lambda _: steps.pop(0) if len(steps) > 1 else steps[0])


def assistant(*blocks: Any) -> Body:
    return user(*blocks) | {"role": "assistant"}


def without_splits(messages: list[Body]) -> list[Body]:
    """Messages as the API reads them: neighbours of one role are one, and a text is a block."""
    joined: list[Body] = []
    for one in messages:
        blocks = [text(one["content"])] if isinstance(one["content"], str) else one["content"]
        if joined and joined[-1]["role"] == one["role"]:
            joined[-1]["content"] += blocks
        else:
            joined.append({"role": one["role"], "content": [*blocks]})
    return joined


# -- what goes on ---------------------------------------------------------------------------------------


async def test_body_and_headers_go_on_as_the_client_wrote_them() -> None:
    async with claude_endpoint() as made:
        system = [NAME, text("Be brief.", **MARK)]
        fields: Body = {
            "system": system,
            "metadata": {"user_id": "u1"},
            "new_field": {"a": [1]},
            "tools": TOOLS,
        }
        fields |= {"thinking": {"type": "adaptive", "display": "omitted"}, "output_config": {"effort": "low"}}
        headers = {
            "anthropic-beta": "one-2026-01-01, two-2026-01-01",
            "x-app": "cli",
            "x-conversation-id": "t",
        }
        messages = [user(text("Hi.", **MARK))]
        first = await made.ask(messages, path=f"{MESSAGES}?beta=true", headers=headers, **fields)
        answer = replied(first)
        assert first.headers["x-conversation-id"] == "t"
        messages = [user("Hi."), answer, user(text("And?", **MARK))]
        replied(await made.ask(messages, headers=headers, **fields))
        seen = made.upstream.requests
        assert [one.body for one in seen] == [
            {"model": MODEL, "max_tokens": 100, "messages": sent, **fields}
            for sent in ([user(text("Hi.", **MARK))], messages)
        ]
        given = seen[0].headers
        assert given["x-api-key"] == KEY
        assert (given["anthropic-version"], given["x-app"]) == ("2023-06-01", "cli")
        assert given["anthropic-beta"] == headers["anthropic-beta"]
        assert "x-conversation-id" not in given
        assert [len(texts) for texts in (await made.stored()).values()] == [4]


FILE = {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "title": "Plan"}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
CITED = text("It is.", citations=[{"type": "char_location", "cited_text": "x"}])
# Of a model that checks no signatures.
HIDDEN = [
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
]
LOOSE: Body = {"model": "claude-sonnet-5", "tools": TOOLS}


async def test_blocks_that_memory_has_no_field_for_go_on_as_they_are() -> None:
    talk = [
        user(FILE, "Read it."),
        assistant(*HIDDEN, SEARCH, FOUND, CITED),
        user("Run it."),
        assistant(*HIDDEN, call("toolu_1")),
        user(result("toolu_1", [text("a"), FILE]), text("Now?", citations=None)),
    ]
    async with claude_endpoint(context_summary=False) as made:
        made.upstream.enforced = False
        response = await made.ask(talk, **LOOSE)
        assert made.sent() == talk, response.text


async def test_a_client_without_its_history_gets_all_blocks_from_memory() -> None:
    upstream = script([SEARCH, FOUND, text("It is.")], [CITED, call("toolu_1"), text("So.")], "Done.")
    asked = [
        user(FILE, "Read it."),
        user("Run it."),
        user(result("toolu_1", [text("a"), FILE]), text("Now?", citations=None)),
        user("Thanks."),
    ]
    async with claude_endpoint(upstream, context_summary=False) as made:
        for number, one in enumerate(asked):
            is_streamed, named = number == 0, {"x-conversation-id": "n"}
            response = await made.ask([one], **LOOSE, headers=named, stream=is_streamed)
            assert response.status_code == 200, response.text
        answers = [seen.reply for seen in upstream.requests]
        expected = [
            one for pair in zip(asked, answers, strict=True) for one in (pair[0], assistant(*pair[1]))
        ]
        assert without_splits(made.sent()) == without_splits(expected[:-1])


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_an_answer_comes_back_unchanged_and_goes_out_again_from_memory(is_streamed: bool) -> None:
    said = [{"type": "thinking", "thinking": "Hm."}, text("First."), call("toolu_1"), call("toolu_2")]
    upstream = script(said, "Done.")
    async with claude_endpoint(upstream) as made:
        headers = {"x-conversation-id": "n"}
        body = {"model": MODEL, "max_tokens": 100, "messages": [user("Hi.")], "tools": TOOLS}
        async with made.sdk() as client:
            given: Any = {**body, "extra_headers": headers}
            if is_streamed:
                async with client.messages.stream(**given) as stream:
                    answer = await stream.get_final_message()
            else:
                answer = await client.messages.create(**given)
        assert [block.type for block in answer.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert answer.stop_reason == "tool_use"
        assert answer.usage.output_tokens == upstream.requests[0].output
        replied(await made.ask([user(result("toolu_1"), result("toolu_2"))], tools=TOOLS, headers=headers))
        # Signed for this place: anything else is refused.
        assert made.sent()[1]["content"] == upstream.requests[0].reply
        assert len(made.sent()) == 3


async def test_results_of_one_answer_stay_in_one_message_when_one_is_shortened() -> None:
    upstream = script([call("toolu_1"), call("toolu_2")], "Done.")
    async with claude_endpoint(upstream, max_tokens=2_000) as made:
        talk = [user("Run both.")]
        talk.append(replied(await made.ask(talk, tools=TOOLS)))
        talk.append(user(result("toolu_1", "fine"), result("toolu_2", "long output " * 4_000), "Now?"))
        replied(await made.ask(talk, tools=TOOLS))
        results, question = made.sent()[-2:]
        assert [block["tool_use_id"] for block in results["content"]] == ["toolu_1", "toolu_2"]
        assert results["content"][0] == talk[-1]["content"][0]
        assert question == user(text("Now?"))
        assert len(str(made.sent())) < 30_000


async def test_large_results_of_old_turns_become_a_line_when_a_summary_is_shown() -> None:
    steps = [step for number in range(8) for step in ([call(f"toolu_{number}")], "Done.")]
    upstream, summary = script(*steps), {"floor": 4, "ceiling": 12, "clear_results_after": 1}
    shown, talk = [], []
    async with claude_endpoint(upstream, context_summary=summary) as made:
        for number in range(8):
            talk.append(user(f"Run it a {number}. time."))
            talk.append(replied(await made.ask(talk, tools=TOOLS)))
            talk.append(user(result(f"toolu_{number}", f"line {number}\n" + "long output " * 400)))
            talk.append(replied(await made.ask(talk, tools=TOOLS)))
            await made.app.settled()
            shown.append(str(made.sent()))
    assert upstream.refused == []
    assert any("[Not shown here any more: the result of" in one for one in shown)
    assert all(f"line {number}" in one for number, one in enumerate(shown))
    assert shown[-1].count("long output " * 400) < 4


async def test_results_of_earlier_turns_become_excerpts_and_the_client_sends_them_whole() -> None:
    steps = [step for number in range(8) for step in ([call(f"toolu_{number}")], "Done.")]
    upstream, summary = script(*steps), {"floor": 8, "ceiling": 12, "max_result_tokens": 300}
    whole, shown, talk = "\n".join(f"row {row} of the long output" for row in range(400)), list[str](), []
    async with claude_endpoint(upstream, context_summary=summary) as made:
        for number in range(8):
            talk.append(user(f"Run it a {number}. time."))
            talk.append(replied(await made.ask(talk, tools=TOOLS)))
            talk.append(user(result(f"toolu_{number}", f"number {number}\n{whole}")))
            talk.append(replied(await made.ask(talk, tools=TOOLS)))
            await made.app.settled()
            shown.append(str(made.sent()))
        [name] = await made.stored()
        entries = (await made.app.memory.read("ana", name)).entries
    assert upstream.refused == []
    # What the client sends again is what the log has, and not what was sent.
    assert [one.message.text for one in entries if one.message.role == "tool"] == [
        f"number {number}\n{whole}" for number in range(8)
    ]
    assert all(f"number {number}\\nrow 0" in one and "row 399" in one for number, one in enumerate(shown))
    assert "401 lines are not shown here; the same call, made again, shows them" in shown[-1]
    assert shown[-1].count("row 200 of") < 4
    assert "read_result" not in shown[-1]


async def test_messages_of_the_application_at_the_start_stay_when_the_rest_is_summarized() -> None:
    where = {"role": "system", "content": "The folder is /work."}
    async with claude_endpoint(context_summary={"floor": 4, "ceiling": 8}) as made:
        talk = [user("Question 0."), where]
        for number in range(1, 9):
            talk.append(replied(response := await made.ask(talk)))
            talk.append(user(f"Question {number}."))
            await made.app.settled()
        assert response.headers["x-context-omitted"].startswith("thinking=")
        sent = made.sent()
        assert "<summary" in str(sent[0])
        assert sent.count(where) == 1
        assert [one["role"] for one in sent[:4]] == ["user", "user", "system", "assistant"]
    assert made.upstream.refused == []


# -- errors, keys and other routes ----------------------------------------------------------------------

WRONG: list[tuple[Body, str]] = [
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0"),
    ({"messages": [user("Hi."), {"role": "user", "content": 7}]}, "messages.1.content"),
    ({"messages": [user({"type": "tool_result", "content": "x"})]}, "messages.0.content.0.tool_use_id"),
    ({"messages": [user(result("toolu_9"))]}, "toolu_9"),
]


@pytest.mark.parametrize(("body", "told"), WRONG, ids=[one[1] for one in WRONG])
async def test_errors_are_those_of_the_api(body: Body, told: str) -> None:
    async with claude_endpoint() as made:
        response = await made.http.post(MESSAGES, json={"model": MODEL, "max_tokens": 9, **body})
        assert response.status_code == 400
        said = response.json()
        assert said["type"] == "error"
        assert said["error"]["type"] == "invalid_request_error"
        assert told in said["error"]["message"]
        assert said["request_id"] == response.headers["request-id"]
        assert made.upstream.requests == []
        assert await made.stored() == {}


async def test_errors_of_upstream_and_of_addresses_reach_the_client_in_their_form() -> None:
    async with claude_endpoint(ProviderServer(max_tokens=50)) as made:
        made.upstream.failures += [529, 429]
        async with made.sdk() as client:
            for kind in (anthropic.OverloadedError, anthropic.RateLimitError):
                with pytest.raises(kind) as raised:
                    await client.messages.create(model=MODEL, max_tokens=9, messages=[user("Hi.")])  # type: ignore[list-item]
                assert raised.value.response.json()["type"] == "error"
        assert raised.value.response.headers["retry-after"] == "7"
        missing = await made.http.get("/v2/messages")
        assert (missing.status_code, missing.json()["error"]["type"]) == (404, "not_found_error")
        # What is too long is asked again with less.
        replied(await made.ask([user("word " * 80)]))
        assert "prompt is too long" in made.upstream.refused[-1].error
    # Nobody listens there.
    app = endpoint_app("http://127.0.0.1:9/v1", scope="ana")
    async with uvicorn_client(app) as http:
        body = {"model": MODEL, "messages": [user("Hi.")]}
        response = await http.post(MESSAGES, json=body)
        assert response.status_code == 502
        error = response.json()["error"]
        assert error["type"] == "api_error"
        assert error["details"] == {"error_code": "upstream_unavailable"}


async def test_a_key_of_the_server_goes_where_the_api_has_it() -> None:
    def authenticate(request: Any) -> EndpointTenant:
        return EndpointTenant("ana", api_key="sk-own")

    async with claude_endpoint(authenticate=authenticate) as made:
        replied(await made.ask([user("Hi.")]))
        await made.http.get("/v1/models")
        for seen in made.upstream.requests:
            assert seen.headers["x-api-key"] == "sk-own"
            assert "authorization" not in seen.headers


async def test_a_route_that_is_only_passed_through_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with claude_endpoint() as made:
        with caplog.at_level(logging.WARNING, "autonomy_ctx.server"):
            for _ in range(2):
                assert (await made.http.get("/v1/models?limit=1000")).json()["type"] == "error"
        assert [one.getMessage() for one in caplog.records] == [
            "/v1/models is passed through: nothing of it is stored or composed"
        ]
        assert made.upstream.requests[0].path == "/v1/models"


# -- counting -------------------------------------------------------------------------------------------


async def test_tokens_are_counted_of_what_would_be_sent_and_nothing_is_stored() -> None:
    async with claude_endpoint(context_summary={"floor": 4, "ceiling": 8}) as made:
        talk = []
        for number in range(8):
            talk.append(user(f"Question {number}, about the long history of the ferry."))
            talk.append(replied(await made.ask(talk, system="Be brief.")))
            await made.app.settled()
        talk.append(user("And?"))
        before = await made.stored()
        counted = await made.ask(talk, path=COUNT, system="Be brief.")
        assert await made.stored() == before
        replied(await made.ask(talk, system="Be brief."))
        count, sent = made.upstream.requests[-2:]
        assert count.path == COUNT
        assert count.body["messages"] == sent.body["messages"]
        assert counted.json() == {"input_tokens": sent.use.uncached + sent.use.cached + sent.use.written}
        assert len(count.body["messages"]) < len(talk)
        # A talk that is not known is counted as it is.
        other = [user("Somebody else."), assistant("Yes?"), user("Hi.")]
        await made.ask(other, path=COUNT)
        assert made.sent() == other
        assert await made.stored() != before


async def test_where_upstream_does_not_count_it_is_done_here() -> None:
    upstream = ProviderServer()
    upstream.failures.append(404)
    async with claude_endpoint(upstream) as made:
        counted = await made.ask([user("One two three four five.")], path=COUNT)
        assert 3 < counted.json()["input_tokens"] < 30
        assert list(counted.json()) == ["input_tokens"]


# -- conversations --------------------------------------------------------------------------------------


async def test_a_conversation_goes_on_from_one_api_in_the_other() -> None:
    picture = "data:image/png;base64,iVBORw0KGgo="
    asked = [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": picture}}]
    made_call = {"id": "c1", "type": "function", "function": {"name": "run", "arguments": '{"of": "c1"}'}}
    chat: list[Any] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": asked},
        {"role": "assistant", "content": None, "tool_calls": [made_call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a ferry"},
    ]
    source = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}
    talk = [
        user("What is it?", {"type": "image", "source": source}),
        assistant(call("c1")),
        user(result("c1", [text("a ferry")])),
    ]
    tools = [{"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}]
    async with claude_endpoint(script("A ferry.")) as made:
        body = {"model": "gpt-6-sol", "messages": chat, "tools": tools}
        first = await made.http.post("/v1/chat/completions", json=body)
        assert first.status_code == 200, first.text
        answer = first.json()["choices"][0]["message"]["content"]
        talk += [assistant(text(answer)), user("Its name?")]
        second = await made.ask(talk, system="Be brief.", **LOOSE)
        talk.append(replied(second))
        assert second.headers["x-conversation-id"] == first.headers["x-conversation-id"]
        assert made.sent() == talk[:-1]
        chat += [{"role": "assistant", "content": answer}, {"role": "user", "content": "Its name?"}]
        chat += [{"role": "assistant", "content": talk[-1]["content"][-1]["text"]}, user("Thanks.")]
        third = await made.http.post("/v1/chat/completions", json={**body, "messages": chat})
        assert third.status_code == 200, third.text
        assert made.sent() == chat
        [texts] = (await made.stored()).values()
        assert len(texts) == 8


async def test_requests_of_claude_code_find_their_conversations() -> None:
    helper = {**SESSION, "x-claude-code-agent-id": "a31"}
    user_id = '{"device_id":"d","account_uuid":"","session_id":"77aa"}'
    async with claude_endpoint() as made:
        # The title of the session comes first, and has no tools.
        title = await made.ask([user("<session>Hi.</session>")], system="Name it.", headers=SESSION)
        talk = [user("Hi.")]
        main = await made.ask(talk, tools=TOOLS, system=[NAME, text("You code.")], headers=SESSION)
        inner = await made.ask([user("Look.")], tools=TOOLS, system="You look.", headers=helper)
        again = await made.ask(
            [*talk, replied(main), user("Go on.")],
            tools=TOOLS,
            # Digits of the name change; it is no other prompt.
            system=[text("x-anthropic-billing-header: cc_version=2.1.327.9;"), text("You code.")],
            headers=SESSION,
            model="claude-sonnet-5",
        )
        other = await made.ask([user("Hi.")], tools=TOOLS, metadata={"user_id": user_id})
        names = [one.headers["x-conversation-id"] for one in (main, inner, again, other)]
        assert names == ["5d1e", "5d1e/a31", "5d1e", "77aa"]
        assert title.headers["x-conversation-id"].startswith("chat-")
        assert "x-context-omitted" not in again.headers
        assert {name: len(texts) for name, texts in (await made.stored()).items()} == {
            "5d1e": 4,
            "5d1e/a31": 2,
            "77aa": 2,
            title.headers["x-conversation-id"]: 2,
        }


async def test_a_client_that_compacts_by_itself_begins_a_branch_that_is_not_summarized_again() -> None:
    async with claude_endpoint(context_summary={"floor": 4, "ceiling": 8}) as made:
        fields: Body = {"tools": TOOLS, "system": [NAME, text("You code.")], "headers": SESSION}
        talk = []
        for number in range(6):
            talk.append(user(f"Question {number}."))
            talk.append(replied(await made.ask(talk, **fields)))
            await made.app.settled()
        await made.ask([*talk, user("CRITICAL: Respond with TEXT ONLY.")], **fields)
        own = user("<note>", "This session is being continued from a previous conversation. All went well.")
        # A client may go on with nothing but its summary.
        alone = [own, {"role": "system", "content": "It is day 2."}]
        alone += [replied(await made.ask(alone, **fields)), user("Go on.")]
        replied(await made.ask(alone, **fields))
        assert [one["role"] for one in made.sent()] == ["user", "system", "assistant", "user"]
        # The last answer comes with its thinking, which was made behind what the summary replaces.
        compacted = [own, {"role": "system", "content": "It is day 2."}, talk[-1], user("Go on.")]
        response = await made.ask(compacted, **fields)
        await made.app.settled()
        assert response.headers["x-conversation-id"].startswith("5d1e~")
        assert response.headers["x-context-omitted"] == "thinking=1"
        kept = [block for block in talk[-1]["content"] if block["type"] != "thinking"]
        assert made.sent() == [*compacted[:2], {**talk[-1], "content": kept}, compacted[3]]
        talk = [*compacted, replied(response)]
        for number in range(6):
            talk.append(user(f"Question {number}."))
            talk.append(replied(await made.ask(talk, **fields)))
            await made.app.settled()
        # What comes after it is summarized, and it stays as it is.
        assert made.sent()[0] == own
        assert "<summary" in str(made.sent()[1])
        assert "All went well" not in str(made.sent()[1:])
        assert len(made.sent()) < len(talk)
    assert made.upstream.refused == []


async def test_a_compaction_on_demand_goes_both_ways_through_the_endpoint() -> None:
    beta = {"anthropic-beta": "compact-2026-09-04", "x-conversation-id": "n"}
    async with claude_endpoint(context_summary=False) as made:
        talk = [user("Hi.")]
        talk.append(replied(await made.ask(talk, headers=beta)))
        talk.append(user("More."))
        compacted = await made.ask(talk, headers=beta, compaction={"type": "summarize"})
        assert compacted.json()["stop_reason"] == "compaction"
        shorter = [replied(compacted), user("Go on.")]
        shorter.append(replied(await made.ask(shorter, headers=beta)))
        shorter.append(user("And?"))
        replied(await made.ask(shorter, headers=beta))
        assert made.sent() == shorter
    assert made.upstream.refused == []


async def test_sections_of_a_template_stand_behind_the_system_prompt_of_the_client() -> None:
    class Rules:
        name, enabled, kind = "rules", True, "stable"

        async def get_messages(
            self, memory: Any, scope: str, conversation: str, params: Mapping[str, Any]
        ) -> Any:
            return [{"role": "system", "content": "Our rule."}]

    template = ContextTemplate([Rules(), ConversationHistorySection()])
    async with claude_endpoint(context_template=template) as made:
        own = [NAME, text("Be brief.", **MARK)]
        for system in (own, "Be brief.", None):
            fields: Body = {} if system is None else {"system": system}
            response = await made.ask([user("Hi.")], **fields)
            assert isinstance(response, httpx.Response)
            replied(response)
        said = [one.body["system"] for one in made.upstream.requests]
        added = text("Our rule.")
        assert said == [[*own, added], [text("Be brief."), added], [added]]


# -- faults, and what is known of a turn ------------------------------------------------------------------


async def test_a_stream_that_breaks_off_ends_with_an_error_of_the_api_and_stores_nothing_of_it() -> None:
    script: list[Step] = [Fault.CUT_AFTER_FIRST_TOKEN, Fault.ERROR_AFTER_FIRST_TOKEN, Say("Here.")]
    async with providing(*script) as upstream, endpoint_before(upstream) as made:
        headers = {"x-api-key": KEY, "anthropic-version": "2023-06-01"}
        async with anthropic.AsyncAnthropic(
            base_url=str(made.http.base_url).rstrip("/"), api_key=KEY, max_retries=0
        ) as client:
            for kind in ("api_error", "overloaded_error"):
                with pytest.raises(anthropic.APIStatusError) as raised:
                    async with client.messages.stream(
                        model="served",
                        max_tokens=9,
                        messages=[user(text("Hi."))],  # type: ignore[list-item]
                    ) as stream:
                        await stream.get_final_message()
                assert kind in str(raised.value.body)
        body = {"model": "served", "max_tokens": 9, "messages": [user(text("Hi."))]}
        again = await made.http.post(MESSAGES, json=body, headers=headers)
        assert replied(again) == assistant(text("Here."))
        assert list((await made.stored()).values()) == [["Hi.", "Here."]]


async def test_a_turn_can_be_explained() -> None:
    async with claude_endpoint() as made:
        response = await made.ask([user("Hi.")], system="Be brief.", tools=TOOLS)
        name = response.headers["x-conversation-id"]
        sent = await made.app.engine.explain(name)
        assert [one.text for one in sent.messages] == ["Be brief.", "Hi."]
        page = inspector_app(made.app.memory, token="t")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(page), base_url="http://localhost") as web:
            found = await web.get(
                "/api/turns",
                params={"agent": "", "scope": "ana", "conversation": name},
                headers={"authorization": "Bearer t"},
            )
        [turn] = found.json()["turns"]
        assert turn["model"] == MODEL
        assert turn["usage"]["input_tokens"] == made.upstream.requests[0].use.uncached
