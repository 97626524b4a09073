"""What holds for every conversation, however it went and however it is shortened, forked and merged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from formats.rules import google_rules, openai_rules
from formats.rules_anthropic import anthropic_rules
from hypothesis import given
from hypothesis import strategies as st
from strategies import NOON, events, few, histories, messages, pairs, some, tangled_histories

from autonomy_ctx import ChatRole, Message
from autonomy_ctx.containers.chat import ChatContext
from autonomy_ctx.containers.chat_export import as_google
from autonomy_ctx.messages import AgentConfigUpdate, AgentHandoff
from autonomy_ctx.messages.wire import Item
from autonomy_ctx.testing import ScriptedModel
from autonomy_ctx.tokens import TokenCounter

limits = st.none() | st.integers(0, 16)
token_limits = st.none() | st.integers(0, 120)


@st.composite
def conversations(draw: st.DrawFn) -> list[Item]:
    """Histories with events and summaries among their messages."""
    items: list[Item] = list(draw(histories | tangled_histories))
    for number in range(draw(st.integers(0, 3))):
        stamps: dict[str, Any] = {"id": f"e{number}", "created_at": NOON}
        some_items: list[Item] = [
            AgentHandoff(to_agent="b", **stamps),
            AgentConfigUpdate(instructions="x", **stamps),
            Message("assistant", "[Conversation Summary]\n", extra={"summary": True}, **stamps),
            Message("developer", "rules", **stamps),
        ]
        event = draw(st.sampled_from(some_items))
        items.insert(draw(st.integers(0, len(items))), event)
    return items


def protected(items: Sequence[Item]) -> set[str]:
    """What no truncation may remove, one rule at a time."""
    said = [item for item in items if isinstance(item, Message)]
    questions = [item for item in said if item.role is ChatRole.USER]
    return (
        {item.id for item in items if not isinstance(item, Message)}
        | {item.id for item in said if item.role in (ChatRole.SYSTEM, ChatRole.DEVELOPER)}
        | {item.id for item in said if item.extra.get("summary")}
        | {item.id for item in questions[-1:]}
        | {said[call].id for call, end in pairs(said) if end is None and runs(said, call)}
    )


def runs(said: Sequence[Message], call: int) -> bool:
    """Whether nobody has spoken after a call, and its ids are not used again."""
    after = said[call + 1 :]
    mine = {made.id for made in said[call].tool_calls}
    again = len(mine) < len(said[call].tool_calls) or any(
        made.id in mine for message in after for made in message.tool_calls
    )
    return not again and all(message.role is not ChatRole.USER for message in after)


@some
@given(conversations(), limits, token_limits)
def test_truncating_again_changes_nothing(items: list[Item], most: int | None, tokens: int | None) -> None:
    context = ChatContext(items).truncate(most, tokens)
    once, over = context.items, context.over
    context.truncate(most, tokens)
    assert (context.items, context.over) == (once, over)


@some
@given(conversations(), limits, token_limits)
def test_truncating_keeps_what_is_protected_and_the_order(
    items: list[Item], most: int | None, tokens: int | None
) -> None:
    left = ChatContext(items).truncate(most, tokens).items
    kept = {item.id for item in left}
    assert protected(items) <= kept
    assert left == [item for item in items if item.id in kept]


@some
@given(conversations(), limits, token_limits)
def test_truncating_never_splits_a_pair(items: list[Item], most: int | None, tokens: int | None) -> None:
    kept = {item.id for item in ChatContext(items).truncate(most, tokens)}
    said = [item for item in items if isinstance(item, Message)]
    for call, end in pairs(said):
        if end is not None:
            assert (said[call].id in kept) == (said[end].id in kept)


@some
@given(conversations(), limits, token_limits)
def test_a_limit_is_met_or_what_is_over_is_said(
    items: list[Item], most: int | None, tokens: int | None
) -> None:
    context = ChatContext(items).truncate(most, tokens)
    over_items = 0 if most is None else max(len(context) - most, 0)
    over_tokens = 0 if tokens is None else max(context.estimated_tokens() - tokens, 0)
    assert (context.over or (0, 0)) == (over_items, over_tokens)
    if tokens is None and most is not None and not context.over:
        assert len(context) <= most


@some
@given(conversations(), st.lists(st.tuples(messages, st.integers(-5, 5)), max_size=4), st.booleans())
async def test_a_fork_that_is_merged_loses_and_duplicates_nothing(
    items: list[Item], new: list[tuple[Message, int]], twice: bool
) -> None:
    context = ChatContext(items)
    fork, mine = context.fork(), []
    for number, (message, seconds) in enumerate(new):
        target = fork if number % 2 else context
        at = NOON + timedelta(seconds=seconds)
        mine.append(target.add_message("user", message.text, f"new{number}", at))
    for _ in range(1 + twice):
        await context.merge(fork)
    assert sorted(item.id for item in context) == sorted([item.id for item in [*items, *mine]])
    assert all(item in context for item in [*items, *mine])
    times = [item.created_at for item in context]
    assert times == sorted(times)
    order = [item.id for item in items]
    assert [item.id for item in context if item.id in order] == order


@some
@given(conversations(), st.sampled_from([None, [], ["look"]]), st.integers(1, 3))
async def test_a_filtered_fork_that_is_merged_takes_nothing_away(
    items: list[Item], tools: list[str] | None, turns: int
) -> None:
    context = ChatContext(items)
    await context.merge(context.fork_filtered(turns, tools))
    assert context.items == items
    await context.merge(context.copy(tools=tools, exclude_instructions=True))
    assert context.items == items


@some
@given(conversations(), st.integers(0, 3))
async def test_a_summary_takes_the_place_of_whole_groups_and_nothing_else(
    items: list[Item], turns: int
) -> None:
    context = ChatContext(items)
    await context.summarize(ScriptedModel(["short"]), keep_recent_turns=turns)
    kept = {item.id for item in context}
    said = [item for item in items if isinstance(item, Message)]
    for call, end in pairs(said):
        if end is not None:
            assert (said[call].id in kept) == (said[end].id in kept)
    assert [item for item in context if item in items] == [item for item in items if item.id in kept]
    fresh = [item for item in context if item not in items]
    assert len(fresh) == (len(kept & {item.id for item in items}) < len(items))
    structural = [
        item for item in items if not isinstance(item, Message) or item.role in ("system", "developer")
    ]
    assert all(item in context for item in structural)
    assert context.turn_count() >= min(turns, ChatContext(items).turn_count())


@some
@given(st.lists(messages | events, max_size=6))
def test_a_context_comes_back_from_json_as_it_was(items: list[Item]) -> None:
    context = ChatContext(items)
    assert ChatContext.from_dict(context.to_dict()) == context
    assert ChatContext.from_dict(json.loads(json.dumps(context.to_dict()))) == context


@few
@given(conversations())
def test_the_estimate_is_the_counters(items: list[Item]) -> None:
    said = [item for item in items if isinstance(item, Message)]
    assert ChatContext(said).estimated_tokens() == TokenCounter().count_messages(said)


# -- as messages of a provider ------------------------------------------------------------------------


def anthropic_body(context: ChatContext, *, caching: bool) -> dict[str, Any]:
    """What somebody would send who has these messages: with the tools that they call."""
    messages, system = context.to_anthropic_messages(caching=caching)
    called = [block for turn in messages for block in turn["content"] if block["type"] == "tool_use"]
    names = sorted({block["name"] for block in called})
    body: dict[str, Any] = {"max_tokens": 9, "messages": messages}
    body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in names]
    return body if system is None else body | {"system": [{"type": "text", "text": system}]}


@some
@given(
    conversations() | st.lists(messages | events, max_size=8, unique_by=lambda item: item.id),
    limits,
    st.booleans(),
)
def test_any_context_is_what_every_provider_takes_and_is_left_alone(
    items: list[Item], most: int | None, flag: bool
) -> None:
    context = ChatContext(items).truncate(most)
    before = context.items
    openai_rules({"messages": context.to_openai_messages(reasoning_model=flag)})
    anthropic_rules(anthropic_body(context, caching=flag))
    contents, system = as_google(context, model="gemini-3-pro" if flag else None)
    google_rules(
        {"contents": contents} | ({"systemInstruction": {"parts": [{"text": system}]}} if system else {})
    )
    assert context.items == before


@few
@given(conversations())
async def test_what_a_merge_brought_in_as_instructions_is_shown_to_no_provider(items: list[Item]) -> None:
    context = ChatContext(items)
    before = context.to_openai_messages()
    other = context.fork()
    other.system("told to another", message_id="told")
    await context.merge(other)
    assert context.merged_instructions == {"told"}
    assert context.to_openai_messages() == before
    assert "told to another" in json.dumps(other.to_openai_messages())
    shown = as_google(context.items, context.merged_instructions)
    assert "told to another" not in json.dumps([context.to_anthropic_messages(), shown])
