"""Strands Agents: a conversation manager that stores the history and composes what the model sees.

The agent's `messages` stay complete. Before each model call, a middleware replaces the messages to send. An
agent without messages, such as after a restart, gets those of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.adapters.strands_messages import from_strands, to_strands
from autonomy_ctx.engine.engine import EngineOptions, Scope, make_engine
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import Message

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
        self.engine = make_engine(scope, **options)
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
