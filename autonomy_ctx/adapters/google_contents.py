"""Converts contents of Google's Agent Development Kit to our messages and back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from autonomy_ctx.adapters.adapter import missing_framework
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.formats.google import GoogleFormat, GoogleWriter
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent

try:
    from google.genai import types
except ImportError as error:
    raise missing_framework(error, "google-adk") from None

# Calls that have no id get one, which no provider is sent.
MADE_ID = "adk-call-"


def from_contents(contents: Sequence[types.Content], *, made_ids: int = 0) -> list[SourcedMessage]:
    """The messages of a request; each tool result is a separate message.

    Calls without an id get one, numbered after earlier calls. Results without an id are matched by order.
    """
    said: list[SourcedMessage] = []
    ids = (f"{MADE_ID}{number}" for number in count(made_ids + 1))
    unanswered: list[str] = []
    for content in contents:
        parts = [part for part in parts_of(content) if not part.function_response]
        for part in parts_of(content):
            if answer := part.function_response:
                call_id = answer.id or (unanswered.pop(0) if unanswered else "")
                said.append(SourcedMessage(_tool_message(answer.response or {}, call_id), [part]))
        if parts and content.role == "model":
            unanswered = []
            shape = content.model_dump(mode="json", by_alias=True, exclude_none=True)
            for part in shape["parts"]:
                if call := part.get("functionCall"):
                    call["id"] = call.get("id") or next(ids)
                    unanswered.append(call["id"])
            reply = GoogleFormat().reply({"candidates": [{"content": shape}]})
            said.append(SourcedMessage(reply.message, parts))
        elif parts:
            said.append(SourcedMessage(Message("user", [_part(part) for part in parts]), parts))
    return said


def to_contents(messages: Iterable[SourcedMessage]) -> list[types.Content]:
    """The contents of a request; consecutive messages of one role become one content."""
    contents: list[types.Content] = []
    names: dict[str | None, str] = {}
    for one in messages:
        names |= {call.id: call.name for call in one.message.tool_calls}
        role = "model" if one.message.role is ChatRole.ASSISTANT else "user"
        parts = _build_parts(one.message, names) if one.source is None else list(one.source)
        if contents and contents[-1].role == role:
            contents[-1].parts = [*parts_of(contents[-1]), *parts]
        elif parts:
            contents.append(types.Content(role=role, parts=parts))
    return contents


def _build_parts(message: Message, names: dict[str | None, str]) -> list[types.Part]:
    writer = GoogleWriter(signatures_required=True)
    match message.role:
        case ChatRole.ASSISTANT:
            shapes = writer.model_parts(message)
        case ChatRole.TOOL:
            shapes = writer.result_parts(message, names.get(message.tool_call_id, "tool"))
        case _:
            shapes = writer.user_parts(message)
    parts = [types.Part.model_validate_json(json.dumps(shape)) for shape in shapes]
    for part in parts:
        called = part.function_call or part.function_response
        if called and called.id and called.id.startswith(MADE_ID):
            called.id = None
    return parts


def _part(part: types.Part) -> Part:
    if part.text is not None:
        return TextContent(part.text)
    data, file = part.inline_data, part.file_data
    if data and data.data and data.mime_type and data.mime_type.startswith("image/"):
        return ImageContent.from_bytes(data.data, data.mime_type)
    if file and file.file_uri and file.mime_type and file.mime_type.startswith("image/"):
        return ImageContent(file.file_uri)
    # For example a document or a sound. The original part is sent while the message is shown unchanged.
    return TextContent(f"[{', '.join(part.model_dump(exclude_none=True))}]")


def _tool_message(response: dict[str, Any], call_id: str) -> Message:
    """A tool result; ADK and Google put its text under one of three names."""
    name, value = next(iter(response.items())) if len(response) == 1 else ("", None)
    is_text = name in ("result", "output", "error") and isinstance(value, str)
    text = value if is_text else json.dumps(response, ensure_ascii=False, default=str)
    return Message("tool", text, tool_call_id=call_id, is_error="error" in response)


def parts_of(content: types.Content | None) -> Sequence[types.Part]:
    """The parts of a content, which may have none."""
    return content.parts or () if content else ()
