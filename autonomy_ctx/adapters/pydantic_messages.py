"""Converts messages of Pydantic AI to ours and back.

A request of Pydantic AI contains several of our messages: one for each prompt and each tool result. Requests
and responses that are shown completely are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any

from autonomy_ctx.adapters.adapter import missing_framework
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage, plain_content
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent, ThinkingContent

try:
    from pydantic_ai import messages as m
except ImportError as error:
    raise missing_framework(error, "pydantic-ai") from error


# In the metadata of a processed history: the newest message that memory has, and rules that a template added.
MARK = "autonomy_ctx"


@dataclass(frozen=True, eq=False)
class RequestPart:
    """A part of a request with content, and how many such parts the request has."""

    request: m.ModelRequest
    part: Any
    parts: int


def to_messages(history: Sequence[Any]) -> list[SourcedMessage]:
    """A message history as our messages: one for each prompt, tool result and response."""
    found: list[SourcedMessage] = []
    for one in history:
        if isinstance(one, m.ModelResponse):
            found.append(SourcedMessage(response_message(one), one))
            continue
        said = [(message, part) for part in one.parts if (message := _request_message(part)) is not None]
        found += [SourcedMessage(message, RequestPart(one, part, len(said))) for message, part in said]
    return found


def from_messages(context: FrameworkContext) -> list[Any]:
    """The history to send; complete requests and responses are the framework's own objects."""
    sent: list[Any] = []
    for _, group in groupby(context.messages, _request_id):
        [first, *rest] = [one.source or from_message(one.message) for one in group]
        if not isinstance(first, RequestPart):
            sent.append(first)
        elif first.parts == len(rest) + 1:
            sent.append(first.request)
        else:
            sent.append(replace(first.request, parts=[one.part for one in (first, *rest)]))
    rules = [one.source for one in context.instructions if isinstance(one.source, m.SystemPromptPart)]
    if rules and not any(part is rules[0] for part in sent[0].parts):
        sent.insert(0, m.ModelRequest(parts=rules))
    return sent


def _request_id(one: SourcedMessage) -> int:
    return id(one.source.request if isinstance(one.source, RequestPart) else one)


def from_message(message: Message) -> Any:
    """Our message as a message of the framework, which does not have it yet."""
    if message.role is ChatRole.ASSISTANT:
        parts: list[Any] = [m.TextPart(message.text)] if message.text else []
        parts += [m.ToolCallPart(call.name, call.arguments, call.id) for call in message.tool_calls]
        return m.ModelResponse(parts=parts)
    files = [
        m.BinaryContent.from_data_uri(url) if url.startswith("data:") else m.ImageUrl(url)
        for url in (part.image for part in message.parts if isinstance(part, ImageContent))
    ]
    content = [message.text, *files] if files else message.text
    if message.role is not ChatRole.TOOL:
        return m.ModelRequest(parts=[m.UserPromptPart(content)])
    outcome = "failed" if message.is_error else "success"
    result = m.ToolReturnPart(message.name or "", content, message.tool_call_id, outcome=outcome)
    return m.ModelRequest(parts=[result])


def _request_message(part: Any) -> Message | None:
    """The message for a part of a request; None for parts that only the framework reads."""
    match part:
        case m.UserPromptPart():
            given = [part.content] if isinstance(part.content, str) else part.content
            return Message("user", _content(given), created_at=part.timestamp)
        case m.ToolReturnPart():
            return Message(
                "tool",
                _content([part.model_response_str(wrap_if_error=False), *part.files]),
                tool_call_id=part.tool_call_id,
                name=part.tool_name,
                is_error=part.outcome in m.ERROR_OUTCOMES,
                created_at=part.timestamp,
            )
        case m.RetryFeedbackPart():
            return Message("user", part.model_response(), created_at=part.timestamp)
    return None


def response_message(response: m.ModelResponse) -> Message:
    calls = [
        {"id": part.tool_call_id, "name": part.tool_name, "arguments": part.args_as_json_str()}
        for part in response.parts
        if isinstance(part, m.ToolCallPart)
    ]
    return Message("assistant", _content(response.parts), tool_calls=calls, created_at=response.timestamp)


def _content(given: Sequence[Any]) -> str | tuple[Part, ...]:
    return plain_content([part for one in given if (part := _to_part(one)) is not None])


def _to_part(given: Any) -> Part | None:
    """A piece of content as our part; unsupported content becomes a note."""
    match given:
        case str():
            return TextContent(given)
        case m.TextContent() | m.TextPart():
            return TextContent(given.content)
        case m.ThinkingPart():
            return ThinkingContent(given.content, signature=given.signature)
        case m.ImageUrl():
            return ImageContent(given.url)
        case m.BinaryContent() if given.is_image:
            return ImageContent(given.data_uri)
        case m.FilePart():
            return _to_part(given.content)
        case m.CachePoint() | m.ToolCallPart():
            return None
    return TextContent(f"[{getattr(given, 'kind', None) or given.part_kind}]")


def leading_parts(history: Sequence[Any]) -> list[Any]:
    """The parts before the first answer, where the framework has its system prompts."""
    requests = takewhile(lambda one: isinstance(one, m.ModelRequest), history)
    return [part for request in requests for part in request.parts]


def read_instructions(given: Sequence[Any]) -> list[SourcedMessage]:
    """The instructions among parts or of a request, except those that a template has added."""
    found: list[SourcedMessage] = []
    for one in given:
        match one:
            case m.SystemPromptPart() if (one.metadata or {}).get(MARK):
                continue
            case m.InstructionPart() | m.SystemPromptPart():
                found.append(SourcedMessage(Message("system", one.content), one))
            case m.ModelRequest(instructions=str(text)):
                found.append(SourcedMessage(Message("system", text), one))
    return found
