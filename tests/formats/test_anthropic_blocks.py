"""Messages as Anthropic's documentation writes a tool loop: `tool_use` and `tool_result` blocks in dicts."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import pytest
from strategies import NOON

from autonomy_ctx import (
    AdditionalContextSection,
    ChatContext,
    Context,
    ContextTemplate,
    ConversationHistorySection,
    InvalidMessage,
    Memory,
)
from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.messages import validate_tool_pairing
from autonomy_ctx.messages.wire import from_dicts
from autonomy_ctx.tokens import TokenCounter

PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
ASKED: dict[str, Any] = {
    "role": "assistant",
    "content": [
        {"type": "thinking", "thinking": "Both.", "signature": "s"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"at": "Évora"}},
        {"type": "tool_use", "id": "c2", "name": "wait", "input": {}, "cache_control": {"type": "ephemeral"}},
    ],
    "id": "m1",
    "timestamp": NOON.timestamp(),
}
ANSWERED: dict[str, Any] = {
    "role": "user",
    "content": [
        {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "Here"}, PICTURE]},
        {"type": "tool_result", "tool_use_id": "c2", "content": "too late", "is_error": True},
        {"type": "text", "text": "And now?"},
    ],
    "id": "m2",
    "timestamp": NOON.timestamp(),
    "mood": "curious",
}
STAMP = {"timestamp": NOON.timestamp()}
STORED: list[dict[str, Any]] = [
    {
        "role": "assistant",
        "content": ASKED["content"][:2],
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "Évora"}'}},
            {"id": "c2", "type": "function", "function": {"name": "wait", "arguments": "{}"}},
        ],
        "id": "m1",
        **STAMP,
    },
    {
        "role": "tool",
        "tool_call_id": "c1",
        "content": [{"type": "text", "text": "Here"}, PICTURE],
        "id": "m2",
        "mood": "curious",
        **STAMP,
    },
    {
        "role": "tool",
        "tool_call_id": "c2",
        "content": "too late",
        "is_error": True,
        "id": "m2/2",
        "mood": "curious",
        **STAMP,
    },
    {
        "role": "user",
        "content": [{"type": "text", "text": "And now?"}],
        "id": "m2/3",
        "mood": "curious",
        **STAMP,
    },
]


async def test_a_tool_loop_in_anthropics_form_is_stored_once_and_comes_back_in_ours(memory: Memory) -> None:
    before = json.dumps([ASKED, ANSWERED])
    assert await memory.append("ana", "trip", ASKED, ANSWERED) == [1, 2, 3, 4]
    assert await memory.get_messages_only("ana", "trip") == STORED
    assert json.dumps([ASKED, ANSWERED]) == before
    # Again after an error whose outcome was not known, in either form.
    assert await memory.append("ana", "trip", ASKED, ANSWERED) == [1, 2, 3, 4]
    assert await memory.add_message("ana", "trip", ANSWERED) == 2
    assert await memory.add_messages("ana", "trip", STORED) == [1, 2, 3, 4]
    with pytest.raises(ConflictingMessage):
        await memory.append("ana", "trip", {**ANSWERED, "content": ANSWERED["content"][:1] * 2})
    composed = await ContextTemplate([ConversationHistorySection()]).compose(memory, "ana", "trip")
    assert validate_tool_pairing(composed.messages)[0]
    assert [message.is_error for message in composed.messages] == [False, False, True, False]


async def test_every_place_that_takes_a_list_of_messages_takes_that_form(memory: Memory) -> None:
    wanted = from_dicts(STORED)
    chat, context = ChatContext(), Context(messages=[ASKED, ANSWERED])
    for form in (ASKED, ANSWERED):
        chat.append(form)
    assert list(chat.items) == wanted
    assert list(context.messages) == wanted
    section = AdditionalContextSection(provider_fn=lambda *_: [ASKED, ANSWERED])
    composed = await ContextTemplate([section]).compose(memory, "ana", "trip")
    assert list(composed.messages) == wanted
    assert TokenCounter().count_messages([ASKED, ANSWERED]) == TokenCounter().count_messages(STORED)


async def test_the_objects_of_anthropics_sdk_are_blocks_too(memory: Memory) -> None:
    blocks = [
        anthropic.types.TextBlock(type="text", text="I look."),
        anthropic.types.ToolUseBlock(type="tool_use", id="c1", name="look", input={"at": 1}),
    ]
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "Here"}
    await memory.append(
        *("ana", "trip"), {"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}
    )
    asked, answered = [entry.message for entry in (await memory.read("ana", "trip")).entries]
    assert (asked.text, asked.tool_calls[0].arguments) == ("I look.", '{"at": 1}')
    assert (answered.role, answered.tool_call_id, answered.text) == ("tool", "c1", "Here")


@pytest.mark.parametrize(
    ("form", "field"),
    [
        ({"role": "user", "content": [{"type": "tool_result", "content": "x"}]}, "content[0].tool_use_id"),
        (
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "n", "input": {1: 2}}]},
            "content[0].input",
        ),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "c"}]}, "tool_calls[0].function.name"),
        (
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "c", "name": "n"}, {"type": "tool_result"}],
            },
            "content[0].type",
        ),
        ({"role": "system", "content": [{"type": "tool_use", "id": "c", "name": "n"}]}, "content[0].type"),
        ({"role": "user", "content": [{"type": ["tool_result"]}]}, "content[0].type"),
    ],
)
async def test_a_block_that_is_wrong_is_named(memory: Memory, form: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidMessage) as refused:
        await memory.append("ana", "trip", form)
    assert refused.value.field.startswith(field)
    assert await memory.get_message_count("ana", "trip") == 0
