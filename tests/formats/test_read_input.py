"""Input items of a Responses request, read back as messages."""

from __future__ import annotations

from typing import Any

from autonomy_ctx import ImageContent, TextContent, ThinkingContent
from autonomy_ctx.formats.openai_responses import is_plain_item, read_input, responses_items

CALLS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "Hello"},
    {"type": "message", "role": "assistant", "content": "Look."},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"at": 1}'},
    {"type": "function_call", "call_id": "c2", "name": "look", "arguments": '{"at": 2}'},
    {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    {"type": "function_call_output", "call_id": "c2", "output": "gone"},
]


def test_what_is_read_is_written_as_it_was() -> None:
    found = read_input(CALLS)
    assert [one.message.role.value for one in found] == ["user", "assistant", "tool", "tool"]
    assert [call.id for call in found[1].message.tool_calls] == ["c1", "c2"]
    assert [item for one in found for item in one.items] == CALLS
    assert [item for one in found for item in responses_items(one.message)] == CALLS


def test_images_and_reasoning_are_read() -> None:
    asked, thought = read_input(
        [
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "What is it?"},
                    {"type": "input_image", "image_url": "https://example.org/a.png", "detail": "low"},
                    {"type": "input_file", "file_id": "file-1"},
                ],
            },
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [{"type": "summary_text", "text": "Hm."}],
                "encrypted_content": "c2VjcmV0",
            },
            {"role": "assistant", "content": [{"type": "output_text", "text": "A door."}]},
        ]
    )
    assert asked.message.parts == (
        TextContent("What is it?"),
        ImageContent("https://example.org/a.png", "low"),
        TextContent("[input_file]"),
    )
    thinking, text = thought.message.parts
    assert isinstance(thinking, ThinkingContent)
    assert (thinking.text, text) == ("Hm.", TextContent("A door."))
    assert responses_items(thought.message)[0]["encrypted_content"] == "c2VjcmV0"


def test_items_without_a_field_of_ours_leave_a_note() -> None:
    searched: dict[str, Any] = {"type": "web_search_call", "id": "ws_1"}
    file: dict[str, Any] = {"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}
    assert not any(map(is_plain_item, (searched, file)))
    assert all(map(is_plain_item, CALLS))
    [found] = read_input([searched])
    assert (found.message.role.value, found.message.text) == ("assistant", "[web_search_call]")
    call, result = read_input(
        [
            {"type": "computer_call", "id": "cc_1", "call_id": "c1", "action": {"type": "screenshot"}},
            {"type": "computer_call_output", "call_id": "c1", "output": {"type": "computer_screenshot"}},
        ]
    )
    assert [one.name for one in call.message.tool_calls] == ["computer_call"]
    assert result.message.tool_call_id == "c1"


def test_other_roles_are_written_by_themselves() -> None:
    for role in ("system", "developer", "user"):
        item = {"type": "message", "role": role, "content": "Hello"}
        [found] = read_input([item])
        assert responses_items(found.message) == [item]
