"""`ContextCapability`: our context for agents of Pydantic AI.

The framework keeps its message history. Each model request gets the context that our template composes from
it. `process_history` is a history processor, which replaces the history by the composed context.

A request of Pydantic AI contains several of our messages: one for each prompt and each tool result. Requests
and responses that are shown completely are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, takewhile
from typing import Any, Unpack

from cachetools import LRUCache

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.branches import CACHED_CONVERSATIONS
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, HistoryRules, Scope
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage, plain_content
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent, ThinkingContent

try:
    from pydantic_ai import messages as m
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import ModelRequestContext
    from pydantic_ai.tools import RunContext
except ImportError as error:
    raise missing_framework(error, "pydantic-ai") from error


class ContextCapability(AbstractCapability[Any], ContextAdapter):
    """Pass it to `Agent(capabilities=[...])`, before others that change messages.

    `scope` is a name, or a function that takes the `RunContext`. The conversation is the `conversation_id`,
    which Pydantic AI generates if a run has none. Other arguments: see `ContextEngine`.
    """

    def __init__(self, *, scope: Scope, **options: Unpack[EngineOptions]) -> None:
        self.engine = ContextEngine(scope=scope, **options)
        # The context of the newest request, by run.
        self._sent: LRUCache[str | None, tuple[Key, FrameworkContext]] = LRUCache(CACHED_CONVERSATIONS)

    async def before_model_request(
        self, ctx: RunContext[Any], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Send our context instead of the request's messages."""
        history = list(request_context.messages)
        if not history or not isinstance(history[-1], m.ModelRequest):
            # For a response that the provider has not finished, the same request is repeated.
            return request_context
        parameters = request_context.model_request_parameters
        rules = read_instructions([*(parameters.instruction_parts or ()), *leading_parts(history)])
        said = to_messages(history)
        key, allowed = await self._find_key(ctx, history, said)
        context = await self.engine.compose(
            key,
            said,
            instructions=rules,
            tools=_tool_specs(parameters),
            model=request_context.model.model_name,
            **allowed,
        )
        self._sent[ctx.run_id] = key, context
        added = [m.InstructionPart(one.message.text) for one in context.instructions if one.source is None]
        if added:
            parts = [*(parameters.instruction_parts or ()), *added]
            parameters = replace(parameters, instruction_parts=parts)
        messages = from_messages(context)
        return replace(request_context, messages=messages, model_request_parameters=parameters)

    async def after_model_request(
        self, ctx: RunContext[Any], *, request_context: ModelRequestContext, response: m.ModelResponse
    ) -> m.ModelResponse:
        """Store the answer."""
        sent = self._sent.pop(ctx.run_id, None)
        if sent is not None:
            told = response.usage
            usage = Usage(
                input_tokens=told.input_tokens,
                cached_tokens=told.cache_read_tokens,
                cache_write_tokens=told.cache_write_tokens,
                output_tokens=told.output_tokens,
                reasoning_tokens=told.details.get("reasoning_tokens", 0),
            )
            await self.engine.store_reply(*sent, response_message(response), usage=usage)
        return response

    async def process_history(self, ctx: RunContext[Any], messages: list[Any]) -> list[Any]:
        """A history processor for `ProcessHistory`; our log is then the history."""
        marks = [(one.metadata or {}).get(MARK) for one in messages]
        start = max((index + 1 for index, mark in enumerate(marks) if mark), default=0)
        said = to_messages(messages[start:])
        key, allowed = (
            (self._key(ctx), HistoryRules()) if start else await self._find_key(ctx, messages, said)
        )
        context = await self.engine.compose(
            key,
            said,
            instructions=read_instructions([messages[-1], *leading_parts(messages)]),
            after=str(marks[start - 1]) if start else "",
            **allowed,
        )
        shown = from_messages(context)
        added = [one.message.text for one in context.instructions if one.source is None]
        if added:
            parts = [m.SystemPromptPart(text, metadata={MARK: True}) for text in added]
            shown.insert(0, m.ModelRequest(parts=parts))
        mark = {**(shown[-1].metadata or {}), MARK: context.history[-1].stored_id}
        return [*shown[:-1], replace(shown[-1], metadata=mark)]

    async def _find_key(
        self, ctx: RunContext[Any], history: Sequence[Any], said: Sequence[SourcedMessage]
    ) -> tuple[Key, HistoryRules]:
        """The conversation of a request, and what a history may do there that is not the stored one."""
        key = self._key(ctx)
        agent = (ctx.agent and ctx.agent.name) or "agent"
        found = await self.engine.agent_key(key, said, agent)
        if found != key:
            return found, HistoryRules(may_begin_anew=True)
        # The run was given no history.
        return key, HistoryRules(may_continue=all(one.run_id == ctx.run_id for one in history))

    def _key(self, ctx: RunContext[Any]) -> Key:
        return self.engine.key(ctx, ctx.conversation_id, remedy="run the agent with a `conversation_id`")


def _tool_specs(parameters: Any) -> list[Mapping[str, Any]]:
    tools = (*parameters.function_tools, *parameters.output_tools)
    return [
        {"name": one.name, "description": one.description or "", "parameters": one.parameters_json_schema}
        for one in tools
    ]


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
