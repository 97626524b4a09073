"""`ContextMiddleware`: our context for agents of LangChain and graphs of LangGraph.

The framework keeps its messages in its own state. The model sees the context that our template composes from
them.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.branches import CACHED_CONVERSATIONS
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, HistoryRules, Scope
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage, plain_content
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.formats.openai import openai_message
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent, ThinkingContent

try:
    from langchain.agents.middleware import (
        AgentMiddleware,
        ExtendedModelResponse,
        ModelRequest,
        ModelResponse,
    )
    from langchain_core.messages import (
        AIMessage,
        BaseMessage,
        SystemMessage,
        ToolMessage,
        convert_to_messages,
    )
    from langchain_core.runnables.config import var_child_runnable_config
    from langchain_core.utils.function_calling import convert_to_openai_tool
except ImportError as error:
    raise missing_framework(error, "langchain") from error

REMEDY = 'invoke the agent with config={"configurable": {"thread_id": "..."}}'
# The node of a graph that runs tools.
TOOLS = "tools"


class ContextMiddleware(AgentMiddleware, ContextAdapter):
    """Pass it to `create_agent(middleware=[...])`, before other middleware that changes messages.

    `scope` is a name, or a function that takes the `ModelRequest`. The conversation is the `thread_id`; that
    of an agent in a tool is `thread_id/agent`. In your own graph, `compose` and `acompose` return the
    messages to send. Other arguments: see `ContextEngine`.
    """

    def __init__(self, *, scope: Scope, **options: Unpack[EngineOptions]) -> None:
        super().__init__()
        self.engine = ContextEngine(scope=scope, **options)
        # The framework's id of the first message, by conversation.
        self._first: ConversationCache[Key, str | None] = ConversationCache(CACHED_CONVERSATIONS)

    def wrap_model_call(self, request: ModelRequest, handler: Callable[[ModelRequest], Any]) -> Any:
        """Send our context instead of the request's messages, and store the answer."""
        key, context = self.engine.run_sync(self._compose, self._key(request), _inner_run(), request)
        response = handler(_with_context(request, context))
        self.engine.run_sync(self._store, key, context, response)
        return response

    async def awrap_model_call(
        self, request: ModelRequest, handler: Callable[[ModelRequest], Awaitable[Any]]
    ) -> Any:
        """Send our context instead of the request's messages, and store the answer."""
        key, context = await self._compose(self._key(request), _inner_run(), request)
        response = await handler(_with_context(request, context))
        await self._store(key, context, response)
        return response

    async def acompose(self, messages: Sequence[BaseMessage], *, call: Any = None) -> list[BaseMessage]:
        """The messages to send for the whole history of a thread. Call it inside a node of the graph.

        If `scope` is a function, it gets `call`, such as the state.
        """
        leading = 0
        while leading < len(messages) and isinstance(messages[leading], SystemMessage):
            leading += 1
        said = [SourcedMessage(to_message(one), one) for one in messages]
        key, allowed = await self._find_key(self._key(call), _inner_run(), said[leading:])
        context = await self.engine.compose(key, said[leading:], instructions=said[:leading], **allowed)
        return [from_message(one) for one in (*context.instructions, *context.messages)]

    def compose(self, messages: Sequence[BaseMessage], *, call: Any = None) -> list[BaseMessage]:
        """Compose for a graph that is not async."""
        return self.engine.run_sync(self.acompose, messages, call=call)

    async def _compose(
        self, key: Key, inner: tuple[str, str] | None, request: ModelRequest
    ) -> tuple[Key, FrameworkContext]:
        system = request.system_message
        said = [SourcedMessage(to_message(one), one) for one in request.messages]
        key, allowed = await self._find_key(key, inner, said)
        context = await self.engine.compose(
            key,
            said,
            instructions=[] if system is None else [SourcedMessage(to_message(system), system)],
            tools=[_tool_spec(tool) for tool in request.tools],
            model=getattr(request.model, "model_name", None) or getattr(request.model, "model", None),
            **allowed,
        )
        return key, context

    async def _find_key(
        self, key: Key, inner: tuple[str, str] | None, said: Sequence[SourcedMessage]
    ) -> tuple[Key, HistoryRules]:
        """The conversation of a call, and what a history may do there that is not the stored one."""
        if inner is not None:
            node, agent = inner
            if node == TOOLS or not await self.engine.shares(key, said):
                return self.engine.inner_key(key, agent), HistoryRules(may_begin_anew=True)
        # The first message again, under its id: the framework has its history, and steps back.
        first = said[0].source.id if said else None
        is_known = first is not None and self._first.get(key) == first
        self._first[key] = first
        return key, HistoryRules(may_continue=not is_known)

    async def _store(self, key: Key, context: FrameworkContext, response: Any) -> None:
        if isinstance(response, ExtendedModelResponse):
            response = response.model_response
        answers = response.result if isinstance(response, ModelResponse) else [response]
        replies = [to_message(answer) for answer in answers]
        await self.engine.store_reply(key, context, *replies, usage=_usage(answers))

    def _key(self, call: Any) -> Key:
        config = var_child_runnable_config.get() or {}
        thread = config.get("configurable", {}).get("thread_id")
        return self.engine.key(call, None if thread is None else str(thread), remedy=REMEDY)


def _inner_run() -> tuple[str, str] | None:
    """The node and the agent's name if a run is inside a node of another run; LangGraph tells it."""
    config = var_child_runnable_config.get() or {}
    *outer, _ = config.get("configurable", {}).get("checkpoint_ns", "").split("|")
    nodes = [one.partition(":")[0] for one in outer]
    if not nodes:
        return None
    node = TOOLS if TOOLS in nodes else nodes[-1]
    return node, str(config.get("metadata", {}).get("lc_agent_name") or node)


def _with_context(request: ModelRequest, context: FrameworkContext) -> ModelRequest:
    system = None
    if len(context.instructions) == 1:
        system = from_message(context.instructions[0])
    elif context.instructions:
        system = SystemMessage(context.instructions_text)
    return request.override(messages=[from_message(one) for one in context.messages], system_message=system)


def _usage(answers: Sequence[BaseMessage]) -> Usage | None:
    for told in filter(None, (getattr(answer, "usage_metadata", None) for answer in answers)):
        read, made = told.get("input_token_details") or {}, told.get("output_token_details") or {}
        return Usage(
            input_tokens=told["input_tokens"],
            cached_tokens=read.get("cache_read", 0),
            cache_write_tokens=read.get("cache_creation", 0),
            output_tokens=told["output_tokens"],
            reasoning_tokens=made.get("reasoning", 0),
        )
    return None


def _tool_spec(tool: Any) -> Mapping[str, Any]:
    spec = convert_to_openai_tool(tool)
    # Tools that a provider runs itself have no function.
    return spec.get("function") or {"name": str(spec.get("type")), "description": "", "parameters": {}}


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
