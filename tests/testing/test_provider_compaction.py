"""Summaries that Claude writes and signs: what stays valid after one, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from testing.provider_calls import CLAUDE, Body, ask_claude, post, replied, text, user

from autonomy_ctx.testing import ProviderRequest, ProviderServer
from autonomy_ctx.testing.providers import COMPACTION_BETA

THOUGHT = {"type": "thinking", "thinking": ""}
SUMMARY: dict[str, Any] = {"compaction": {"type": "summarize"}}
CALL = {"type": "tool_use", "id": "c1", "name": "look_up", "input": {}}


def answer(body: Any) -> list[Body]:
    return [text("Ana asks about orders.")] if "compaction" in body else [THOUGHT, text("Yes.")]


class Talk:
    """A conversation with Claude whose history the test cuts."""

    def __init__(self, **fields: Any) -> None:
        self.server = ProviderServer(answer)
        self.messages: list[Body] = []
        self.fields = {"betas": [COMPACTION_BETA], "system": "Be brief.", **fields}

    async def say(self, *, turns: int = 1, **fields: Any) -> Body:
        for _ in range(turns):
            self.messages.append(user("And?"))
            reply = await ask_claude(self.server, self.messages, **{**self.fields, **fields})
            if "error" in reply:
                return dict(reply["error"])
            self.messages.append(replied(reply))
        return reply

    async def summarize(self, count: int, **fields: Any) -> Body:
        return await ask_claude(self.server, self.messages[:count], **{**self.fields, **SUMMARY, **fields})

    async def swap(self, count: int, **fields: Any) -> None:
        """Replace the first messages by a summary."""
        self.messages[:count] = [replied(await self.summarize(count, **fields))]

    def thinking(self) -> int:
        assert not self.server.refused
        return self.server.requests[-1].thinking


async def test_a_summary_is_signed_and_counted_apart() -> None:
    talk = Talk()
    await talk.say()
    made = await talk.summarize(1)
    [block] = made["content"]
    assert (made["stop_reason"], block["type"], block["content"]) == (
        "compaction",
        "compaction",
        "Ana asks about orders.",
    )
    usage = made["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (0, 0)
    [spent] = usage["iterations"]
    # "Be brief." and "And?" in, 4 words out.
    assert (spent["type"], spent["input_tokens"], spent["output_tokens"]) == ("compaction", 3, 4)
    # Opus 5.5: input 4, output 20.
    assert talk.server.requests[-1].cost == pytest.approx((3 * 4 + 4 * 20) / 1e6)


async def test_thinking_of_the_messages_that_stay_is_valid_and_so_is_later_thinking() -> None:
    talk = Talk()
    await talk.say(turns=3)
    # The first three messages are those of the second request: the rest begins with its reply.
    await talk.swap(3)
    await talk.say(turns=2)
    # Of the second and third turn, and of the turn after the swap.
    assert talk.thinking() == 3


async def test_thinking_stays_valid_over_two_summaries() -> None:
    talk = Talk()
    await talk.say(turns=4)
    await talk.swap(3)
    await talk.say(turns=1)
    # The summary, the reply and the next question.
    await talk.swap(3)
    await talk.say(turns=2)
    assert talk.thinking() == 4


BROKEN: list[tuple[str, int, Body, Body]] = [
    ("other rules for the summary", 1, {"system": "Be long."}, {}),
    ("other rules later", 3, {}, {"system": "Be long."}),
    ("a model that records no prefixes", 3, {"model": "claude-opus-5"}, {}),
]


@pytest.mark.parametrize(
    ("count", "first", "later"), [one[1:] for one in BROKEN], ids=[one[0] for one in BROKEN]
)
async def test_thinking_that_stays_is_refused_if_the_summary_was_made_otherwise(
    count: int, first: Body, later: Body
) -> None:
    talk = Talk()
    await talk.say(turns=3)
    await talk.swap(count, **first)
    error = await talk.say(**later)
    assert "bound to a different conversation" in error["message"]


@pytest.mark.parametrize("second", [user("Hi"), {"role": "system", "content": "It is Monday."}], ids=str)
async def test_the_messages_that_stay_begin_with_another_role_that_is_not_system(second: Body) -> None:
    talk = Talk()
    said = [user("Hi"), second]
    talk.messages = [*said, replied(await ask_claude(talk.server, said, **talk.fields))]
    summary = replied(await talk.summarize(1))
    talk.messages[:1] = [{**summary, "role": "user"}]
    assert "bound to a different conversation" in (await talk.say())["message"]


async def test_the_messages_that_stay_must_be_as_they_were() -> None:
    talk = Talk()
    await talk.say(turns=3)
    await talk.swap(3)
    talk.messages[2] = user("And then?")
    assert "bound to a different conversation" in (await talk.say())["message"]


async def test_with_no_message_left_rules_may_change() -> None:
    talk = Talk()
    await talk.say(turns=2)
    await talk.swap(4)
    await talk.say(turns=2, system="Be long.")
    assert talk.thinking() == 1


async def test_a_summary_waits_while_the_conversation_goes_on() -> None:
    talk = Talk()
    await talk.say(turns=2)

    async def go_on(request: ProviderRequest) -> None:
        talk.server.before_reply = None
        await talk.say()

    talk.server.before_reply = go_on
    await talk.swap(3)
    await talk.say()
    assert talk.thinking() == 2


MISTAKES: list[tuple[str, Any]] = [
    ("compaction_block_misplaced", lambda block: [user("Hi"), {"role": "assistant", "content": [block]}]),
    ("compaction_block_ambiguous", lambda block: [{"role": "assistant", "content": [block, block]}]),
    ("compaction_content_mismatch", lambda block: [user({**block, "content": "Bob asks."})]),
    ("compaction_signature_invalid", lambda block: [user({**block, "signature": "x"})]),
    ("compaction_tool_changes_mismatch", lambda block: [user({**block, "tool_changes": [CALL]})]),
]


@pytest.mark.parametrize(("code", "make"), MISTAKES, ids=[one[0] for one in MISTAKES])
async def test_a_summary_that_was_moved_or_changed_is_refused(code: str, make: Any) -> None:
    talk = Talk()
    await talk.say()
    [block] = (await talk.summarize(1))["content"]
    talk.messages = make(block)
    error = await talk.say()
    assert (error["type"], error["details"]) == ("invalid_request_error", {"error_code": code})


async def test_a_summary_of_another_organization_is_refused() -> None:
    talk = Talk()
    await talk.say()
    await talk.swap(1)
    talk.server.organization = "org-2"
    assert (await talk.say())["details"]["error_code"] == "compaction_signature_invalid"


async def test_a_summary_needs_its_header_whenever_it_is_sent() -> None:
    talk = Talk()
    await talk.say()
    await talk.swap(1)
    assert "beta header" in (await talk.say(betas=[]))["message"]


REFUSED: list[tuple[str, Body]] = [
    ("compaction: Extra inputs", {"betas": []}),
    ("compaction: Extra inputs", {"model": "claude-sonnet-4-5"}),
    ("context_management", {"context_management": {"edits": [{}]}}),
    ("stop_sequences", {"stop_sequences": ["x"]}),
    ("output_config.format", {"output_config": {"format": {"type": "json_schema"}}}),
    ("task_budget.remaining", {"output_config": {"task_budget": {"remaining": 5}}}),
    ("tool_choice", {"tool_choice": {"type": "any"}}),
    ("at most 16384 characters", {"compaction": {"type": "summarize", "instructions": "x" * 16_385}}),
    ("there are no messages", {"messages": []}),
    ("without a result", {"messages": [user("Hi"), {"role": "assistant", "content": [CALL]}]}),
]


@pytest.mark.parametrize(("error", "change"), REFUSED, ids=[one[0] for one in REFUSED])
async def test_what_does_not_fit_a_request_for_a_summary(error: str, change: Body) -> None:
    options = {"betas": [COMPACTION_BETA], "messages": [user("Hi")], **SUMMARY, **change}
    options.setdefault("model", "claude-sonnet-5")
    messages = options.pop("messages")
    answered = await ask_claude(ProviderServer(answer), messages, **options)
    assert error in answered["error"]["message"]


async def test_bedrock_writes_no_summaries() -> None:
    body = {
        "messages": [{"role": "user", "content": [{"text": "Hi"}]}],
        "additionalModelRequestFields": {"anthropic_beta": [COMPACTION_BETA], **SUMMARY},
    }
    refused = await post(ProviderServer(), f"/model/us.anthropic.{CLAUDE}-v1:0/converse", body)
    assert "Extra inputs" in refused.json()["message"]


async def test_a_summary_can_fail_and_the_next_one_succeeds() -> None:
    talk = Talk()
    await talk.say()
    reasons = ["max_tokens", "refusal", "tool_use", "end_turn"]
    talk.server.compaction_failures = [*reasons, "unavailable"]
    for reason in reasons:
        failed = await talk.summarize(1)
        assert (failed["content"], failed["stop_reason"]) == ([], reason)
        assert talk.server.requests[-1].cost
    error = (await talk.summarize(1))["error"]
    assert (error["type"], error["details"]["error_code"]) == ("overloaded_error", "compaction_unavailable")
    assert talk.server.requests[-1].status == 529
    assert (await talk.summarize(1))["stop_reason"] == "compaction"


async def test_tool_changes_of_the_summarized_messages_come_back_with_the_summary() -> None:
    change = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "look_up"}}
    said = [user("Hi"), {"role": "system", "content": [change]}]
    made = await ask_claude(ProviderServer(answer), said, betas=[COMPACTION_BETA], **SUMMARY)
    assert made["content"][0]["tool_changes"] == [change]


async def test_a_streamed_summary_is_one_whole_block() -> None:
    body = {"model": CLAUDE, "messages": [user("Hi")], "stream": True, **SUMMARY}
    streamed = (await post(ProviderServer(answer), "/v1/messages", body, betas=[COMPACTION_BETA])).text
    assert '"content": "Ana asks about orders."' in streamed
    assert "content_block_delta" not in streamed


async def test_counting_ignores_that_a_summary_is_asked_for() -> None:
    body = {"model": CLAUDE, "messages": [user("Hi")], **SUMMARY}
    counted = await post(ProviderServer(answer), "/v1/messages/count_tokens", body)
    assert counted.json() == {"input_tokens": 1}
