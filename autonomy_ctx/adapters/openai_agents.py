"""`ContextSession` and `ContextInputFilter`: our context for the OpenAI Agents SDK.

With a `ContextSession`, our log is the history: a run begins with the context that our template composes from
it. With a `ContextInputFilter`, the SDK keeps the history, and the input of each model call is composed.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, Scope
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.formats.openai_responses import is_plain_item, read_input, responses_items
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.json_values import thaw
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import visible_fields

try:
    from agents import FunctionTool, Handoff, RunContextWrapper  # type: ignore[attr-defined]
    from agents.memory import SessionABC, SessionSettings
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise missing_framework(error, "openai-agents") from error

logger = logging.getLogger("autonomy_ctx.adapters")


class ContextInputFilter(ContextAdapter):
    """Pass it to `RunConfig(call_model_input_filter=...)`. The SDK keeps the history, in any session.

    `scope` and `conversation` are names, or functions that take the `CallModelData`, whose `context` is that
    of the run. An agent that runs as a tool has the conversation `conversation/agent`. Other arguments: see
    `ContextEngine`.
    """

    def __init__(
        self, *, scope: Scope, conversation: str | Callable[[Any], str], **options: Unpack[EngineOptions]
    ) -> None:
        self.engine = ContextEngine(scope=scope, **options)
        self._conversation = conversation

    async def __call__(self, data: CallModelData) -> ModelInputData:
        """The input of one model call."""
        found = self._conversation(data) if callable(self._conversation) else self._conversation
        key = self.engine.key(data, found, remedy="give the filter a `conversation` that finds one")
        said = to_messages(data.model_data.input)
        own = await self.engine.agent_key(key, said, data.agent.name)
        context = await self.engine.compose(
            own,
            said,
            instructions=read_rules(data),
            tools=_tool_specs(data),
            may_begin_anew=own != key,
            may_continue=own == key,
        )
        return model_input(context)


class ContextSession(SessionABC, ContextAdapter):
    """Pass it to `Runner.run(session=...)`, and optionally its `input_filter` to the `RunConfig`.

    `scope` is a name, or a function that takes an object whose `context` is that of the run. The conversation
    is the `session_id`; that of an agent that runs as a tool is `session_id/agent`. Other arguments: see
    `ContextEngine`. One object serves one run at a time; `share` makes more of them.
    """

    session_settings: SessionSettings | None = None
    # The state of a run: its agent, the number of items at its start, what it has stored since, how many of
    # these the run added itself, and its first context, until one of its calls is recorded.
    _wrapper: RunContextWrapper[Any] | None
    _agent: Any
    _given: int
    _run: list[Message]
    _added: int
    _unrecorded: FrameworkContext | None

    def __init__(self, session_id: str, *, scope: Scope, **options: Unpack[EngineOptions]) -> None:
        self.session_id, self.engine = session_id, ContextEngine(scope=scope, **options)
        self._forget_run()

    def share(self, session_id: str) -> ContextSession:
        """Another session with the same memory and background work; close only the first one."""
        made = copy.copy(self)
        made.session_id = session_id
        made._forget_run()
        return made

    async def get_items(
        self, limit: int | None = None, *, wrapper: RunContextWrapper[Any] | None = None
    ) -> list[Any]:
        """The items that a run begins with: the composed context, or its last `limit` items."""
        context = await self.engine.compose_stored(self._key(wrapper), record=False)
        given = [item for one in (*context.instructions, *context.messages) for item in from_message(one)]
        given = given if limit is None else given[max(len(given) - limit, 0) :]
        if wrapper is not None and wrapper is not self._wrapper:
            # A run begins here. It may read again later, and other runs may read too.
            self._forget_run()
            self._wrapper, self._given, self._unrecorded = wrapper, len(given), context
        return given

    async def add_items(self, items: list[Any], *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Store the items of a run, except those that its filter has already stored."""
        said = [with_items(one) for one in to_messages(items)]
        new = said[shared_length(said, self._run[self._added :]) :]
        self._run += await self.engine.append(self._key(wrapper), new)
        self._added += len(said)
        if self._unrecorded is not None and any(one.role is ChatRole.ASSISTANT for one in said):
            # No filter has composed the calls of this run: all began with what the session gave.
            await self.engine.record(self._key(wrapper), self._unrecorded)
            self._unrecorded = None

    async def pop_item(self, *, wrapper: RunContextWrapper[Any] | None = None) -> Any | None:
        """Delete the newest item and return it."""
        key = self._key(wrapper)
        newest = await self.engine.history(key, limit=1)
        if not newest:
            return None
        *rest, popped = from_message(SourcedMessage(newest[-1]))
        conversation = await self.engine.current_conversation(key.conversation, scope=key.scope)
        await self.memory.delete_message(key.scope, conversation, newest[-1].id)
        self._run, self._added = self._run[:-1], min(self._added, max(len(self._run) - 1, 0))
        await self.engine.append(key, [with_items(one) for one in to_messages(rest)])
        return popped

    async def clear_session(self, *, wrapper: RunContextWrapper[Any] | None = None) -> None:
        """Delete the conversation."""
        key = self._key(wrapper)
        await self.memory.delete_conversation(key.scope, key.conversation)
        self._forget_run()

    async def input_filter(self, data: CallModelData) -> ModelInputData:
        """The input of one model call of a run with this session; pass it to `RunConfig`."""
        if self._agent not in (None, data.agent) and data.agent.name not in _successors(self._agent):
            return await self._filter_inner(data)
        new = [with_items(one) for one in to_messages(data.model_data.input[self._given :])]
        if shared_length(new, self._run) < len(self._run):
            logger.warning("session %r: the run's input was edited, so it is sent unchanged", self.session_id)
            return data.model_data
        key, self._unrecorded, self._agent = self._key(data), None, data.agent
        self._run += await self.engine.append(key, new[len(self._run) :])
        context = await self.engine.compose_stored(
            key, instructions=read_rules(data), tools=_tool_specs(data)
        )
        return model_input(context)

    async def _filter_inner(self, data: CallModelData) -> ModelInputData:
        """The input of an agent that runs as a tool, and has the filter but not the session of the run."""
        context = await self.engine.compose(
            self.engine.inner_key(self._key(data), data.agent.name),
            to_messages(data.model_data.input),
            instructions=read_rules(data),
            tools=_tool_specs(data),
            may_begin_anew=True,
        )
        return model_input(context)

    def _forget_run(self) -> None:
        self._wrapper, self._agent, self._given, self._run, self._added = None, None, 0, [], 0
        self._unrecorded = None

    def _key(self, call: Any) -> Key:
        return self.engine.key(call, self.session_id, remedy="give the session a `session_id`")


def _successors(agent: Any) -> set[str]:
    """The names of the agents that an agent may hand over to."""
    return {one.agent_name if isinstance(one, Handoff) else one.name for one in agent.handoffs}


def _tool_specs(data: CallModelData) -> list[Mapping[str, Any]]:
    return [
        {"name": tool.name, "description": tool.description, "parameters": tool.params_json_schema}
        for tool in data.agent.tools
        if isinstance(tool, FunctionTool)
    ]


# The key under which a stored message keeps the SDK's original items, if a conversion would lose something.
ITEMS = "openai_agents_items"


def to_messages(items: Sequence[Mapping[str, Any]]) -> list[SourcedMessage]:
    """Input items as messages, with the items of each."""
    return [SourcedMessage(one.message, one.items) for one in read_input(items)]


def from_message(shown: SourcedMessage) -> list[Any]:
    """The input items for a message: the SDK's originals, or new ones if ours was changed or added."""
    if shown.source is not None:
        return list(shown.source)
    own = thaw(shown.message.extra.get(ITEMS))
    if own and shared_length([one.message for one in to_messages(own)], [shown.message]):
        return list(own)
    return responses_items(shown.message)


def with_items(one: SourcedMessage) -> Message:
    """A message to store, with the SDK's own items if a conversion would lose something."""
    if all(map(is_plain_item, one.source)):
        return one.message
    return replace(one.message, extra={ITEMS: list(map(dict, one.source))})


def shared_length(said: Sequence[Message], known: Sequence[Message]) -> int:
    """The length of the common prefix of two lists of messages."""
    pairs = zip(said, known, strict=False)
    return len(list(takewhile(lambda pair: visible_fields(pair[0]) == visible_fields(pair[1]), pairs)))


def read_rules(data: CallModelData) -> list[SourcedMessage]:
    """The instructions of the agent in a call."""
    text = data.model_data.instructions
    return [SourcedMessage(Message("system", text), text)] if text else []


def model_input(context: FrameworkContext) -> ModelInputData:
    """The input that is sent for a context."""
    items = [item for one in context.messages for item in from_message(one)]
    return ModelInputData(input=items, instructions=context.instructions_text or None)
