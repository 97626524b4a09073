"""`ContextCapability`: our context for agents of Pydantic AI.

The framework keeps its message history. Each model request gets the context that our template composes from
it. `process_history` is a history processor, which replaces the history by the composed context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Unpack

from cachetools import LRUCache

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.adapters.pydantic_messages import (
    MARK,
    from_messages,
    leading_parts,
    read_instructions,
    response_message,
    to_messages,
)
from autonomy_ctx.engine.branches import CACHED_CONVERSATIONS
from autonomy_ctx.engine.engine import EngineOptions, HistoryRules, Scope, make_engine
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key

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
        self.engine = make_engine(scope, **options)
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
