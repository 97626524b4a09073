"""Composed contexts: every message has an origin, every token is accounted for, every byte repeats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import NOON, few, histories, message_dicts, messages, some, told

from autonomy_ctx import (
    AdditionalContextSection,
    ComposedContext,
    ContextTemplate,
    ConversationHistorySection,
    FrameworkInstructionsSection,
    ImageContent,
    Memory,
    Message,
    SystemInstructionsSection,
    TextContent,
    ThinkingContent,
    ToolCall,
    create_default_template,
)
from autonomy_ctx.messages import wire
from autonomy_ctx.template import Origin, SharedPrefix
from autonomy_ctx.testing import StoppedClock, numbered_ids
from autonomy_ctx.tokens import Calibration, TokenCounter

# What is generated is the messages; that both event loops work is shown by the other tests.
once = pytest.mark.parametrize("anyio_backend", ["asyncio"])


class Given:
    """A section of given messages."""

    enabled = True

    def __init__(self, name: str, *given_messages: Any) -> None:
        self.name = name
        self.given = given_messages

    def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
        return self.given


async def composed(*given_messages: Any) -> ComposedContext:
    return await ContextTemplate([Given("given", *given_messages)]).compose(Memory(), "ana", "trip")


# -- origins and tokens -------------------------------------------------------------------------------


async def test_a_context_says_where_each_message_came_from(memory: Memory) -> None:
    await memory.append("ana", "trip", *told([("user", ()), ("answer", ()), ("user", ())]))
    template = create_default_template("Be brief.")
    context = await template.compose(memory, "ana", "trip")
    assert (context.scope, context.conversation, len(context)) == ("ana", "trip", 5)
    assert [(origin.section, origin.position) for origin in context.origins()] == [
        ("system_instructions", None),
        ("framework_instructions", None),
        ("conversation_history", 1),
        ("conversation_history", 2),
        ("conversation_history", 3),
    ]
    assert [(report.name, report.kind, report.start, report.messages) for report in context.sections] == [
        ("system_instructions", "stable", 0, 1),
        ("framework_instructions", "stable", 1, 1),
        ("conversation_history", "slow", 2, 3),
    ]
    assert repr(context) == f"ComposedContext(5 messages, {context.tokens} tokens)"
    assert context.section("conversation_history") is context.sections[2]
    assert context.section("unknown") is None


@once
@some
@given(st.lists(st.lists(messages, max_size=3), max_size=4), st.integers(50, 200))
async def test_origins_and_tokens_add_up(groups: list[list[Message]], percent: int) -> None:
    calibration = Calibration()
    calibration.observe(100, percent)
    counter = TokenCounter(calibration=calibration)
    sections = [Given(str(number), *group) for number, group in enumerate(groups)]
    context = await ContextTemplate(sections, token_counter=counter).compose(Memory(), "ana", "trip")
    everything = [message for group in groups for message in group]
    assert context.messages == everything
    assert context.origins() == [
        Origin(section=str(number), position=None, tokens=counter.count_messages([message]))
        for number, group in enumerate(groups)
        for message in group
    ]
    assert context.tokens == sum(origin.tokens for origin in context.origins())
    assert context.tokens == sum(report.tokens for report in context.sections)
    assert context.calibration == calibration.factor
    starts = [report.start for report in context.sections]
    assert starts == [sum(map(len, groups[:number])) for number in range(len(groups))]
    assert context.milliseconds == sum(report.milliseconds for report in context.sections) >= 0


async def test_a_context_cannot_be_edited_through_what_it_hands_out() -> None:
    context = await composed({"role": "system", "content": [{"text": "x"}]}, Message("user", "hi"))
    digest = context.digest()
    context.messages.clear()
    context.to_dicts()[0]["content"] = "spoiled"
    context.to_openai()["messages"][0]["content"] = "spoiled"
    assert (len(context), context.digest()) == (2, digest)
    assert context.to_dicts()[0] == {"role": "system", "content": "x"}


# -- digest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        Message("assistant", "hello"),
        Message("user", "hello "),
        Message("user", TextContent("hello")),
        Message("user", ["hello"]),
        Message("user", ThinkingContent("hello")),
        Message("user", ImageContent("hello")),
        Message("user", "hello", name="ana"),
        Message("user", "hello", tool_call_id="c1"),
        Message("user", "hello", is_error=True),
        Message("user", "hello", tool_calls=[ToolCall("c1", "f")]),
    ],
    ids=["role", "text", "part", "list", "thinking", "image", "name", "result", "error", "call"],
)
async def test_whatever_a_model_would_see_changes_the_digest(other: Message) -> None:
    assert (await composed(other)).digest() != (await composed(Message("user", "hello"))).digest()


async def test_ids_times_and_bookkeeping_do_not_change_the_digest() -> None:
    plain = await composed(Message("user", "hello", id="a", created_at=1))
    other = await composed(
        Message("user", "hello", id="b", created_at=2, phase="planning", agent="x", extra={"a": 1})
    )
    assert plain.digest() == other.digest()


async def test_messages_cannot_trade_text_without_changing_the_digest() -> None:
    contexts = [
        await composed(Message("user", "ab"), Message("user", "c")),
        await composed(Message("user", "a"), Message("user", "bc")),
        await composed(Message("user", "abc")),
        await composed(),
    ]
    assert len({context.digest() for context in contexts}) == 4


# -- shared prefix ------------------------------------------------------------------------------------


async def test_a_context_reports_how_much_it_shares_with_the_one_before() -> None:
    one, two, three = (Message("user", text) for text in ("one", "two", "three"))
    before = await composed(one, two)
    template = ContextTemplate([Given("given", one, two, three)])
    after = await template.compose(Memory(), "ana", "trip", previous=before)
    assert after.shared == SharedPrefix(messages=2, tokens=before.tokens, share=before.tokens / after.tokens)
    assert before.shared is None
    assert after.shared_prefix(after) == SharedPrefix(messages=3, tokens=after.tokens, share=1.0)


async def test_nothing_is_shared_after_the_first_difference() -> None:
    before = await composed(Message("user", "one"), Message("user", "two"), Message("user", "three"))
    after = await composed(Message("user", "one"), Message("user", "2"), Message("user", "three"))
    assert after.shared_prefix(before).messages == 1
    assert (await composed()).shared_prefix(before) == SharedPrefix(messages=0, tokens=0, share=1.0)


@once
@few
@given(st.lists(messages, max_size=5), st.lists(messages, max_size=3), st.lists(messages, max_size=3))
async def test_the_shared_prefix_is_the_longest_there_is(
    common: list[Message], before: list[Message], after: list[Message]
) -> None:
    first, second = await composed(*common, *before), await composed(*common, *after)
    found = second.shared_prefix(first)
    assert found.messages >= len(common)
    same = [await composed(message) for message in first.messages]
    other = [await composed(message) for message in second.messages]
    pairs = list(zip(same, other, strict=False))
    assert all(one.digest() == two.digest() for one, two in pairs[: found.messages])
    assert all(one.digest() != two.digest() for one, two in pairs[found.messages : found.messages + 1])
    assert found.tokens == sum(origin.tokens for origin in second.origins()[: found.messages])


# -- the same bytes, always ---------------------------------------------------------------------------


def template() -> ContextTemplate:
    """The same template, made anew."""
    extra = AdditionalContextSection(
        provider_fn=lambda scope, conversation, params: [{"role": "system", "content": f"for {scope}"}]
    )
    extra.set_static_messages([{"role": "system", "content": "static"}])
    newest = ConversationHistorySection(max_messages=3)
    newest.name = "newest"
    return ContextTemplate(
        [
            SystemInstructionsSection("Be brief."),
            FrameworkInstructionsSection(enable_filesystem=True),
            ConversationHistorySection(),
            extra,
            newest,
        ]
    )


async def bytes_of(memory: Memory) -> tuple[str, str]:
    context = await template().compose(memory, "ana", "trip")
    built = await template().build_context(memory, "ana", "trip")
    assert built == [wire.to_dict(message) for message in context.messages]
    return context.digest(), json.dumps([built, context.to_dicts()])


def stamping(url: str | None = None) -> Memory:
    """A memory whose ids and times can be foretold."""
    return Memory(url, synchronous="NORMAL", new_id=numbered_ids("made"), clock=StoppedClock(NOON))


def with_own_ids(several: Sequence[Any]) -> list[Any]:
    """The same messages, no two of which have the same id."""
    seen: set[str] = set()
    kept = []
    for message in several:
        form = message if isinstance(message, dict) else wire.to_dict(message)
        name = str(form.get("id") or form.get("message_id") or len(seen))
        if name not in seen:
            seen.add(name)
            kept.append(message)
    return kept


@few
@given(histories | st.lists(messages | message_dicts, max_size=4).map(with_own_ids))
async def test_the_same_log_and_template_give_the_same_bytes_on_every_store(log: list[Any]) -> None:
    found = {}
    memory = stamping()
    await memory.append("ana", "trip", *log)
    found["in process"] = await bytes_of(memory)
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/memory.db"
        memory = stamping(url)
        await memory.append("ana", "trip", *log)
        found["cold"] = await bytes_of(memory)
        found["hot"] = await bytes_of(memory)
        await memory.close()
        memory = stamping(url)
        found["reopened"] = await bytes_of(memory)
        await memory.close()
    assert found == dict.fromkeys(found, found["in process"])


@once
@some
@given(histories, st.lists(st.sampled_from(["user", "assistant"]), max_size=3))
async def test_appending_only_extends_the_prefix(history: list[Message], roles: list[str]) -> None:
    memory = Memory()
    await memory.append("ana", "trip", *history)
    lasting = create_default_template("Be brief.")
    before = await lasting.compose(memory, "ana", "trip")
    for number, role in enumerate(roles):
        await memory.append("ana", "trip", Message(role, f"new {number}"))
        after = await lasting.compose(memory, "ana", "trip", previous=before)
        assert after.to_dicts()[: len(before)] == before.to_dicts()
        assert after.shared is not None
        assert (after.shared.messages, len(after)) == (len(before), len(before) + 1)
        before = after


async def test_what_one_context_saw_is_not_changed_by_what_comes_later(
    memory: Memory, tmp_path: Path
) -> None:
    await memory.append("ana", "trip", *told([("user", ()), ("answer", ())]))
    lasting = create_default_template("Be brief.")
    before = await lasting.compose(memory, "ana", "trip")
    digest = before.digest()
    await memory.append("ana", "trip", Message("user", "more"))
    await memory.delete_message("ana", "trip", "m1")
    after = await lasting.compose(memory, "ana", "trip", previous=before)
    assert before.digest() == digest
    assert [message.text for message in after.messages[2:]] == ["2", "more"]
    assert after.shared is not None
    assert after.shared.messages == 2


async def test_no_byte_of_one_scope_is_in_the_context_of_another(memory: Memory) -> None:
    scopes = ["ana", "ana:trip", "Ana", "", "ana ", "a%", "é", "e\u0301"]
    for number, scope in enumerate(scopes):
        await memory.append(scope, "trip", Message("user", f"secret-{number}"))
    lasting = create_default_template("Be brief.")
    for number, scope in enumerate(scopes):
        text = json.dumps((await lasting.compose(memory, scope, "trip")).to_dicts())
        assert [other for other in range(len(scopes)) if f"secret-{other}" in text] == [number]
