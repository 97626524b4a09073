"""Strands Agents: a conversation manager that stores the history and composes what the model sees.

The agent's `messages` stay complete. Before each model call, a middleware replaces the messages to send. An
agent without messages, such as after a restart, gets those of the log.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, Scope
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import (
    ChatRole,
    ImageContent,
    Message,
    Part,
    TextContent,
    ThinkingContent,
    ToolCall,
)

try:
    from strands.agent.conversation_manager import ConversationManager
    from strands.hooks import AfterInvocationEvent, AfterModelCallEvent, AgentInitializedEvent, HookRegistry
    from strands.middleware import InvokeModelContext, InvokeModelStage
    from strands.types.content import split_system_prompt
except ImportError as error:
    raise missing_framework(error, "strands") from None

# After an overflow the next context may take this part of the tokens that the last one took.
OVERFLOW_FRACTION = 0.7
_REMEDY = "give ContextConversationManager a `conversation`, or the agent a session manager"


class ContextConversationManager(ContextAdapter, ConversationManager):
    """Gives a Strands agent a context with summaries, facts and a budget.

    `scope` is a name, or a function that takes the agent. `conversation` is needed unless the agent has a
    session manager; then it is the id of the session. An agent has one conversation.
    """

    def __init__(
        self, *, scope: Scope, conversation: str | None = None, **options: Unpack[EngineOptions]
    ) -> None:
        super().__init__()
        self.engine = ContextEngine(scope=scope, **options)
        self._conversation = conversation
        self._context: FrameworkContext | None = None
        self._max_tokens: int | None = None

    def register_hooks(self, registry: HookRegistry, **kwargs: Any) -> None:
        """Listen to the agent; called by Strands."""
        super().register_hooks(registry, **kwargs)
        registry.add_callback(AgentInitializedEvent, self._attach)
        registry.add_callback(AfterModelCallEvent, self._store_usage)
        registry.add_callback(AfterInvocationEvent, self._store_answer)

    def apply_management(self, agent: Any, **kwargs: Any) -> None:
        """Do nothing: the agent's messages stay complete."""

    def reduce_context(self, agent: Any, e: Exception | None = None, **kwargs: Any) -> None:
        """After an overflow, make the next context smaller; raise the error if that is impossible."""
        tokens = int(self._context.composed.tokens * OVERFLOW_FRACTION) if self._context else 0
        if e is not None and self._max_tokens is not None and tokens >= self._max_tokens:
            raise e
        self._max_tokens = tokens or None

    def _attach(self, event: AgentInitializedEvent) -> None:
        # From here on the engine runs in its own thread, because the event loop of a plain agent call ends
        # with the call.
        limit = 0 if event.agent.messages else None
        stored = self.engine.run_sync(self.engine.history, self._key(event.agent), limit=limit)
        event.agent.messages.extend(to_strands(SourcedMessage(message) for message in stored))
        event.agent.add_middleware(InvokeModelStage.Input, self._compose)

    async def _compose(self, context: InvokeModelContext) -> InvokeModelContext:
        text = split_system_prompt(context.system_prompt)[0] or ""
        compose = partial(
            self.engine.run,
            self.engine.compose,
            self._key(context.agent),
            from_strands(context.messages),
            instructions=[SourcedMessage(Message("system", text))] if text else [],
            tools=[_tool(spec) for spec in context.tool_specs],
            model=context.model.get_config().get("model_id"),
            # After each run as a tool, Strands takes the messages back.
            may_begin_anew=True,
        )
        try:
            made = await compose(max_tokens=self._max_tokens)
        except BudgetExceeded:
            if self._max_tokens is None:
                raise
            # The context cannot be made small enough: the model reports the overflow again.
            made = await compose()
        self._context = made
        changed = {} if made.instructions_text == text else {"system_prompt": made.instructions_text or None}
        return context.replace(messages=to_strands(made.messages), **changed)

    async def _store_usage(self, event: AfterModelCallEvent) -> None:
        if event.stop_response is not None and self._context is not None:
            told = event.stop_response.message["metadata"]["usage"]
            # Only some models include cached tokens in the input tokens.
            total, output = told["totalTokens"], told["outputTokens"]
            cached = told.get("cacheReadInputTokens", 0)
            usage = Usage(
                input_tokens=total - output,
                cached_tokens=cached,
                cache_write_tokens=told.get("cacheWriteInputTokens", 0),
                output_tokens=output,
            )
            key = self._key(event.agent)
            await self.engine.run(self.engine.store_reply, key, self._context, usage=usage)

    async def _store_answer(self, event: AfterInvocationEvent) -> None:
        history = from_strands(event.agent.messages)
        key = self._key(event.agent)
        await self.engine.run(self.engine.store_history, key, history, may_begin_anew=True)

    def _key(self, agent: Any) -> Key:
        manager = getattr(agent, "_session_manager", None)
        conversation = self._conversation or getattr(manager, "session_id", None)
        return self.engine.key(agent, conversation, remedy=_REMEDY)


def _tool(spec: Mapping[str, Any]) -> dict[str, Any]:
    parameters = spec["inputSchema"].get("json", {})
    return {"name": spec["name"], "description": spec["description"], "parameters": parameters}


def from_strands(messages: Sequence[Mapping[str, Any]]) -> list[SourcedMessage]:
    """The messages of an agent; each tool result is a separate message."""
    said: list[SourcedMessage] = []
    for message in messages:
        results = [block for block in message["content"] if "toolResult" in block]
        others = [block for block in message["content"] if "toolResult" not in block]
        said += [SourcedMessage(_tool_message(block["toolResult"]), [block]) for block in results]
        if others or not results:
            calls = [_tool_call(block["toolUse"]) for block in others if "toolUse" in block]
            parts = [_part(block) for block in others if not block.keys() & {"toolUse", "cachePoint"}]
            said.append(SourcedMessage(Message(message["role"], parts, tool_calls=calls), others))
    return said


def to_strands(messages: Iterable[SourcedMessage]) -> list[dict[str, Any]]:
    """The messages for a model; consecutive messages of one role become one."""
    turns: list[dict[str, Any]] = []
    for one in messages:
        role = "assistant" if one.message.role is ChatRole.ASSISTANT else "user"
        blocks = _blocks(one.message) if one.source is None else list(one.source)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    return turns


def _tool_call(use: Mapping[str, Any]) -> ToolCall:
    return ToolCall(use["toolUseId"], use["name"], json.dumps(use["input"], ensure_ascii=False))


def _tool_message(result: Mapping[str, Any]) -> Message:
    parts, is_error = [_part(block) for block in result["content"]], result.get("status") == "error"
    return Message("tool", parts, tool_call_id=result["toolUseId"], is_error=is_error)


def _part(block: Mapping[str, Any]) -> Part:
    match block:
        case {"text": text}:
            return TextContent(text)
        case {"json": value}:
            return TextContent(json.dumps(value, ensure_ascii=False))
        case {"image": {"format": kind, "source": {"bytes": data}}}:
            return ImageContent.from_bytes(data, f"image/{kind}")
        case {"reasoningContent": {"reasoningText": thought}}:
            return ThinkingContent(thought.get("text", ""), signature=thought.get("signature"))
        case {"reasoningContent": {"redactedContent": data}}:
            return ThinkingContent("", redacted=base64.b64encode(data).decode())
    # For example a document or a video. The original block is sent while the message is shown unchanged.
    return TextContent(f"[{next(iter(block), 'nothing')}]")


def _blocks(message: Message) -> list[dict[str, Any]]:
    blocks = [_block(part) for part in message.parts]
    if message.role is ChatRole.TOOL:
        status = "error" if message.is_error else "success"
        return [{"toolResult": {"toolUseId": message.tool_call_id, "status": status, "content": blocks}}]
    for call in message.tool_calls:
        use = {"toolUseId": call.id, "name": call.name, "input": call.parse_arguments()}
        blocks.append({"toolUse": use})
    return blocks


def _block(part: Part) -> dict[str, Any]:
    match part:
        case TextContent(text=text):
            return {"text": text}
        case ThinkingContent(redacted=str(data)):
            return {"reasoningContent": {"redactedContent": base64.b64decode(data)}}
        case ThinkingContent(text=text, signature=signature):
            signed = {} if signature is None else {"signature": signature}
            return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}
        case ImageContent(image=image):
            head, is_data, data = image.partition(";base64,")
            kind, source = head.removeprefix("data:image/"), {"bytes": base64.b64decode(data)}
            return {"image": {"format": kind, "source": source}} if is_data else {"text": f"[{image}]"}
