"""Converts messages of LangChain to ours and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from autonomy_ctx.adapters.adapter import missing_framework
from autonomy_ctx.engine.framework_context import SourcedMessage, plain_content
from autonomy_ctx.formats.openai import openai_message
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent, ThinkingContent

try:
    from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, convert_to_messages
except ImportError as error:
    raise missing_framework(error, "langchain") from error

_ROLES = {"human": "user", "ai": "assistant", "tool": "tool", "system": "system"}


def to_message(message: BaseMessage) -> Message:
    """A message of LangChain as ours."""
    content: Any = message.content
    if not isinstance(content, str) or message.additional_kwargs:
        # Read with care only where there is more than text: thinking may be beside it.
        content = plain_content(
            [part for block in message.content_blocks if (part := _to_part(block)) is not None]
        )
    role = _ROLES.get(message.type) or str(getattr(message, "role", "user"))
    if isinstance(message, ToolMessage):
        return Message(
            role,
            content,
            tool_call_id=message.tool_call_id,
            name=message.name,
            is_error=message.status == "error",
        )
    calls: list[dict[str, Any]] = []
    if isinstance(message, AIMessage):
        for call in (*message.tool_calls, *message.invalid_tool_calls):
            given = call["args"]
            arguments = given if isinstance(given, str) else json.dumps(given or {}, ensure_ascii=False)
            calls.append({"id": call["id"], "name": call["name"] or "", "arguments": arguments})
    return Message(role, content, tool_calls=calls, name=message.name)


def from_message(shown: SourcedMessage) -> BaseMessage:
    """The LangChain message for a message: its original, or a new one if ours was changed or added."""
    if shown.source is not None:
        return shown.source
    message = shown.message
    form = openai_message(message)
    if message.role is not ChatRole.TOOL:
        return convert_to_messages([form])[0]
    status = "error" if message.is_error else "success"
    return ToolMessage(
        form["content"], tool_call_id=message.tool_call_id, name=message.name, status=status, id=message.id
    )


def _to_part(block: Mapping[str, Any]) -> Part | None:
    """A content block as our part. Unsupported blocks become a note; tool calls are read elsewhere."""
    match block.get("type"):
        case "text":
            return TextContent(block.get("text") or "")
        case "reasoning":
            signature = (block.get("extras") or {}).get("signature")
            return ThinkingContent(block.get("reasoning") or "", signature=signature)
        case "image" if block.get("base64"):
            return ImageContent(f"data:{block.get('mime_type') or 'image/png'};base64,{block['base64']}")
        case "image" if block.get("url"):
            return ImageContent(block["url"])
        case "tool_call" | "tool_call_chunk" | "invalid_tool_call":
            return None
        case kind:
            return TextContent(f"[{kind}]")
