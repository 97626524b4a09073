"""Requests that Claude refuses, and the content that thinking is bound to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from testing.provider_calls import CLAUDE, Body, ask_claude, post, replied, text, user

from autonomy_ctx.testing import ProviderServer
from autonomy_ctx.testing.providers import BINDING_BETA, CLEAR_AT_BETA

MARK = {"cache_control": {"type": "ephemeral"}}
LONG_MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
CALL = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {"order": "7"}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": "sent"}
LOOK_UP = {"name": "look_up", "description": "Look up an order.", "input_schema": {"type": "object"}}
NOTE = {"role": "system", "content": "It is Monday."}
LOW_EFFORT: Body = {"role": "system", "content": [], "output_config": {"effort": "low"}}
ALL_BETAS = [CLEAR_AT_BETA, "mid-conversation-output-config-2026-07-01"]


def assistant(*content: Body) -> Body:
    return {"role": "assistant", "content": list(content)}


async def find_error(messages: Sequence[Body], server: ProviderServer | None = None, **options: Any) -> str:
    """The error that a request is answered with; empty if there is none."""
    answer = await ask_claude(server or ProviderServer(), messages, **options)
    return str(answer.get("error", {}).get("message", ""))


REFUSED: list[tuple[str, list[Body], Body]] = [
    ("must have a `tool_result`", [user("Hi"), assistant(CALL), user("And?")], {}),
    ("must have a `tool_result`", [user("Hi"), user(RESULT)], {}),
    ("come first", [user("Hi"), assistant(CALL), user("And?", RESULT)], {}),
    ("first message must use the user role", [assistant(text("Hi")), user("Hi")], {}),
    ("prefill", [user("Hi"), assistant(text("I"))], {}),
    ("must not be empty", [user("Hi"), assistant(), user("And?")], {}),
    ("non-whitespace", [user(" ")], {}),
    ("maximum of 4", [user(*[text("Hi", **MARK)] * 5)], {}),
    ("maximum of 4", [user(*[text("Hi", **MARK)] * 4)], MARK),
    ("must not come after", [user(text("Hi", **MARK), text("Hi", **LONG_MARK))], {}),
    ("must not come after", [user(text("Hi", **MARK))], LONG_MARK),
    ("always thinks", [user("Hi")], {"thinking": {"type": "disabled"}}),
    (
        "between_tools",
        [user("Hi")],
        {"thinking": {"type": "between_tools"}, "output_config": {"effort": "xhigh"}},
    ),
    ("cannot be made to call", [user("Hi")], {"tool_choice": {"type": "any"}}),
    ("not supported on this model", [user("Hi"), NOTE], {"model": "claude-sonnet-4-6"}),
    ("first message", [NOTE, user("Hi")], {}),
    ("stands after a user message", [user("Hi"), assistant(text("Yes")), NOTE], {}),
    ("stands after a user message", [user("Hi"), NOTE, user("And?")], {}),
    ("stands after a user message", [user("Hi"), assistant(CALL), NOTE, user(RESULT)], {}),
    ("clear_at: Extra inputs", [user("Hi"), {**NOTE, "clear_at": "never"}], {}),
    (
        "only text",
        [user("Hi"), {"role": "system", "clear_at": "never", "content": [text("It is Monday.", **MARK)]}],
        {"betas": [CLEAR_AT_BETA]},
    ),
    ("output_config: Extra inputs", [user("Hi"), LOW_EFFORT], {}),
    ("only text", [user("Hi"), {**NOTE, "clear_at": "never", "output_config": {}}], {"betas": ALL_BETAS}),
    ("block_binding: Extra inputs", [user("Hi")], {"thinking": {"type": "adaptive", "block_binding": {}}}),
]


@pytest.mark.parametrize(("error", "messages", "options"), REFUSED, ids=[one[0] for one in REFUSED])
async def test_what_claude_refuses(error: str, messages: list[Body], options: Body) -> None:
    server = ProviderServer()
    assert error in await find_error(messages, server, **options)
    assert [(request.status, request.cost) for request in server.refused] == [(400, 0)]


SEARCH = {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": {"tool_references": []}}
ACCEPTED: list[tuple[str, list[Body], Body]] = [
    ("marks", [user(text("Hi", **LONG_MARK), text("Hi", **MARK))], MARK),
    (
        "haiku can be made to call",
        [user("Hi")],
        {"model": "claude-haiku-5-5", "tool_choice": {"type": "any"}},
    ),
    ("sonnet 5 ignores", [user("Hi"), NOTE, user("And?")], {"model": "claude-sonnet-5"}),
    ("a note after a result", [user("Hi"), assistant(CALL), user(RESULT), NOTE], {}),
    ("two notes", [user("Hi"), NOTE, NOTE, assistant(text("Yes")), user("And?")], {}),
    ("another effort", [user("Hi"), LOW_EFFORT, user("And?")], {"betas": ALL_BETAS}),
    (
        "another effort of Claude Code",
        [user("Hi"), LOW_EFFORT, user("And?")],
        {"betas": ["per-turn-control-2026-07-01"]},
    ),
    ("a note after a search", [user("Hi"), assistant(SEARCH), NOTE], {}),
]


@pytest.mark.parametrize(
    ("messages", "options"), [one[1:] for one in ACCEPTED], ids=[one[0] for one in ACCEPTED]
)
async def test_what_claude_accepts(messages: list[Body], options: Body) -> None:
    assert await find_error(messages, **options) == ""


async def test_a_prompt_over_the_window_is_refused() -> None:
    server = ProviderServer(max_tokens=3)
    assert await find_error([user("one two three")], server) == ""
    assert "4 tokens > 3 maximum" in await find_error([user("one two three four")], server)


async def test_an_address_without_an_api_is_not_found() -> None:
    answer = await post(ProviderServer(), "/v1/models", {})
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "not_found_error")


# -- the prefix of thinking ----------------------------------------------------------------------

HELLO = [user("Hello", "again")]
TOOLS = [LOOK_UP, {**LOOK_UP, "name": "cancel"}]
DEFERRED = {**LOOK_UP, "name": "refund", "defer_loading": True}
CHANGED: list[tuple[str, str, Body]] = [
    ("The system prompt differs.", "system", {"system": "Be long."}),
    ("The system prompt differs.", "its shape", {"system": [text("Be brief.")]}),
    ("The tools differ.", "a tool less", {"tools": TOOLS[:1]}),
    ("The tools differ.", "their order", {"tools": TOOLS[::-1]}),
    ("messages.0.content.1 differs.", "a message", {"messages": [user("Hello", "Sam")]}),
    ("Content or thinking before it is missing.", "a shorter message", {"messages": [user("Hello")]}),
]


async def test_the_version_of_claude_code_is_no_part_of_the_prompt() -> None:
    server = ProviderServer()
    first, second = ([text(f"x-anthropic-billing-header: cc_version=2.{n};"), text("Help.")] for n in (1, 2))
    answer = await ask_claude(server, HELLO, system=first)
    assert answer["usage"]["input_tokens"] == 3
    assert await find_error([*HELLO, replied(answer), *HELLO], server, system=second) == ""


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens"])
@pytest.mark.parametrize(
    ("error", "change"), [(one[0], one[2]) for one in CHANGED], ids=[one[1] for one in CHANGED]
)
async def test_thinking_behind_a_changed_prefix_is_refused_with_what_differs(
    path: str, error: str, change: Body
) -> None:
    server = ProviderServer()
    body = {"model": CLAUDE, "system": "Be brief.", "tools": TOOLS, "messages": HELLO}
    answer = (await post(server, "/v1/messages", body)).json()
    later = {**body, **change}
    later["messages"] = [*later["messages"], replied(answer), user("And?")]
    refused = await post(server, path, later)
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert message.startswith(
        "messages.1.content.0: Invalid signature in thinking block. The block is bound to"
    )
    assert message.endswith(error)


async def test_counting_gives_the_tokens_of_a_valid_request_and_is_free() -> None:
    server = ProviderServer()
    body = {"model": CLAUDE, "system": "Be brief.", "messages": HELLO}
    assert (await post(server, "/v1/messages/count_tokens", body)).json() == {"input_tokens": 4}
    assert server.requests[0].cost == 0


def refer_to(name: str) -> Body:
    return {**RESULT, "content": [{"type": "tool_reference", "tool_name": name}]}


async def test_a_deferred_tool_is_bound_from_where_it_is_named() -> None:
    server = ProviderServer(lambda body: [{"type": "thinking", "thinking": ""}, text("Yes.")])
    first = await ask_claude(server, HELLO, tools=TOOLS)
    named = [*HELLO, replied(first), user("Search"), assistant(CALL), user(refer_to("refund"))]
    assert await find_error(named, server, tools=[*TOOLS, DEFERRED]) == ""
    last = server.requests[-1]
    later = [*named, assistant(*map(dict, last.reply)), user("And?")]
    assert await find_error(later, server, tools=[*TOOLS, DEFERRED]) == ""
    changed = {**DEFERRED, "description": "Pay back an order."}
    # The thinking before the name stays valid, the thinking after it does not.
    error = await find_error(later, server, tools=[*TOOLS, changed])
    assert error.startswith("messages.5.content.0")
    assert error.endswith("messages.4.content.0 differs.")


async def test_a_message_that_is_cleared_stays_as_it_was() -> None:
    server = ProviderServer()
    note = {**NOTE, "clear_at": "next_user_message"}
    answer = await ask_claude(server, [*HELLO, note], betas=[CLEAR_AT_BETA])
    later = [replied(answer), user("And?")]
    assert await find_error([*HELLO, note, *later], server, betas=[CLEAR_AT_BETA]) == ""
    for other in ([], [NOTE], [{**note, "clear_at": "never"}]):
        error = await find_error([*HELLO, *other, *later], server, betas=[CLEAR_AT_BETA])
        assert "bound to a different conversation" in error


async def test_a_gap_in_the_thinking_is_refused_and_a_cut_is_not() -> None:
    server = ProviderServer()
    turns: list[Body] = []
    for _ in range(3):
        turns.append(user("And?"))
        turns.append(replied(await ask_claude(server, turns)))
    turns.append(user("And?"))

    def without(*places: int) -> list[Body]:
        return [assistant(*turn["content"][1:]) if at in places else turn for at, turn in enumerate(turns)]

    for cut in ((), (1,), (1, 3), (5,), (3, 5), (1, 3, 5)):
        assert await find_error(without(*cut), server) == ""
    assert (await find_error(without(3), server)).startswith("messages.5.content.0")


async def test_thinking_with_another_prefix_is_dropped_on_request_or_reported() -> None:
    server = ProviderServer()
    answer = await ask_claude(server, HELLO)
    changed = [user("Hello"), replied(answer), user("And?")]
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    dropped = await ask_claude(server, changed, thinking=drop, betas=[BINDING_BETA])
    server.enforced = False
    allowed = await ask_claude(server, changed, betas=[BINDING_BETA])
    found = {"path": "messages.1.content.0", "reason": "prefix_binding_mismatch"}
    assert dropped["input_transformations"] == [{"type": "thinking_dropped", **found}]
    assert allowed["input_transformations"] == [{"type": "thinking_mismatch_allowed", **found}]


async def test_the_rest_of_a_turn_is_dropped_with_the_first_block_that_does_not_fit() -> None:
    thought = {"type": "thinking", "thinking": ""}
    server = ProviderServer(lambda body: [thought, thought, text("Yes.")])
    before = [*HELLO, replied(await ask_claude(server, HELLO)), user("And?")]
    first, second, said = (await ask_claude(server, before))["content"]
    drop = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    turns = [*before, assistant(second, first, said), user("And?")]
    answer = await ask_claude(server, turns, thinking=drop, betas=[BINDING_BETA])
    paths = [one["path"] for one in answer["input_transformations"]]
    assert paths == ["messages.3.content.0", "messages.3.content.1"]


@pytest.mark.parametrize(
    ("model", "refused"), [("claude-opus-5-5", False), ("claude-fable-5-2", True), ("claude-opus-5", False)]
)
async def test_the_newest_models_refuse_a_changed_prefix_on_every_account(model: str, refused: bool) -> None:
    server = ProviderServer(enforced=False)
    answer = await ask_claude(server, HELLO, model=model)
    turns = [user("Hello"), replied(answer), user("And?")]
    assert bool(await find_error(turns, server, model=model)) is refused


async def test_a_changed_signature_is_refused_on_every_model() -> None:
    server = ProviderServer(enforced=False)
    answer = await ask_claude(server, HELLO)
    block = answer["content"][0]
    block["signature"] = "x" + block["signature"][1:]
    error = await find_error([*HELLO, replied(answer), user("And?")], server, model="claude-opus-4-8")
    assert error == "messages.1.content.0: Invalid `signature` in `thinking` block"


async def test_thinking_that_is_not_shown_comes_back_without_its_text() -> None:
    server = ProviderServer(lambda body: [{"type": "thinking", "thinking": "I see."}, text("Yes.")])
    answer = await ask_claude(server, HELLO, thinking={"type": "adaptive", "display": "omitted"})
    assert answer["content"][0]["thinking"] == ""
    assert await find_error([*HELLO, replied(answer), user("And?")], server) == ""
    answer["content"][0]["thinking"] = "I see nothing."
    assert await find_error([*HELLO, replied(answer), user("And?")], server) == ""
    shown = await ask_claude(server, HELLO)
    shown["content"][0]["thinking"] = "I see nothing."
    assert "Invalid `signature`" in await find_error([*HELLO, replied(shown), user("And?")], server)


async def test_thinking_of_an_open_call_comes_back_complete() -> None:
    thought = {"type": "thinking", "thinking": ""}
    server = ProviderServer(lambda body: [thought, thought, CALL])
    content = (await ask_claude(server, HELLO))["content"]
    for kept, refused in ((content, False), (content[1:], True), (content[2:], False)):
        turns = [*HELLO, assistant(*kept), user(RESULT)]
        assert ("cannot be modified" in await find_error(turns, server)) is refused
    # With a budget for thinking, a call without thinking is refused.
    turns = [*HELLO, assistant(*content[2:]), user(RESULT)]
    enabled = {"type": "enabled", "budget_tokens": 1024}
    assert "must start with a thinking block" in await find_error(turns, server, thinking=enabled)
