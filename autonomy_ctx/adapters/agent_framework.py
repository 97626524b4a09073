"""Microsoft Agent Framework: a context provider that replaces the messages for a model.

Sessions stay complete.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, Scope
from autonomy_ctx.engine.framework_context import SourcedMessage, insert_before_question
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
    import agent_framework as framework
    from agent_framework import AgentSession, ChatContext, ChatResponse, Content, SessionContext
except ImportError as error:
    raise missing_framework(error, "agent-framework") from None

_REMEDY = (
    "run the agent with `session=agent.create_session(session_id=...)`; if its client lets the service keep "
    'the history, also with `options={"store": False}`'
)


class ContextProvider(ContextAdapter, framework.ContextProvider):
    """Gives an agent a context with summaries, facts and a budget.

    `scope` is a name, or a function that takes the session. The conversation is the id of the session.
    Messages that other context providers add to a call are sent but not stored.
    """

    def __init__(
        self, *, scope: Scope, source_id: str = "autonomy_ctx", **options: Unpack[EngineOptions]
    ) -> None:
        framework.ContextProvider.__init__(self, source_id)
        self.engine = ContextEngine(scope=scope, **options)

    async def before_run(
        self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]
    ) -> None:
        """Wrap the calls of the model."""
        histories = [
            one.source_id
            for one in agent.context_providers
            if isinstance(one, framework.HistoryProvider) and one.load_messages
        ]
        # With a session, the framework adds a history; without a session, or if the service keeps it, it does
        # not.
        key = self.engine.key(session, session.session_id if histories else None, remedy=_REMEDY)
        context.extend_middleware(self.source_id, _ModelCalls(self, key, agent.name or agent.id, histories))


class _ModelCalls(framework.ChatMiddleware):
    """Sends our context instead of the history, in each call of one run."""

    def __init__(self, provider: ContextProvider, key: Key, agent: str, histories: Sequence[str]) -> None:
        self._engine, self._key, self._agent, self._histories = provider.engine, key, agent, histories

    async def process(self, context: ChatContext, call_next: Callable[[], Awaitable[None]]) -> None:
        others = [one for one in context.messages if self._is_passing(one)]
        said = from_messages(one for one in context.messages if not self._is_passing(one))
        options = dict(context.options or {})
        rules = options.get("instructions") or ""
        key = await self._engine.agent_key(self._key, said, self._agent)
        made = await self._engine.compose(
            key,
            said,
            instructions=[SourcedMessage(Message("system", rules))] if rules else [],
            tools=[_tool(one) for one in options.get("tools") or () if hasattr(one, "parameters")],
            model=options.get("model"),
            may_begin_anew=key != self._key,
            may_continue=key == self._key,
        )
        context.messages = to_messages(insert_before_question(made.messages, from_messages(others)))
        if made.instructions_text != rules:
            context.options = {**options, "instructions": made.instructions_text}

        async def store(response: ChatResponse) -> None:
            replies = [one.message for one in from_messages(response.messages)]
            usage = _usage(response.usage_details)
            await self._engine.store_reply(key, made, *replies, usage=usage)

        if context.stream:
            context.stream_result_hooks.append(store)
        await call_next()
        if isinstance(context.result, ChatResponse):
            await store(context.result)

    def _is_passing(self, message: framework.Message) -> bool:
        """Tell whether another context provider has added this message to this call."""
        source = message.additional_properties.get("_attribution", {}).get("source_id")
        return source is not None and source not in self._histories


def from_messages(messages: Iterable[framework.Message]) -> list[SourcedMessage]:
    """The messages of a request; each tool result is a separate message."""
    said: list[SourcedMessage] = []
    for message in messages:
        results = [one for one in message.contents if one.type == "function_result"]
        for result in results:
            parts = [_part(item) for item in result.items or ()]
            answer = Message(
                "tool", parts, tool_call_id=result.call_id, is_error=result.exception is not None
            )
            said.append(SourcedMessage(answer, framework.Message("tool", [result])))
        if not results:
            calls = [_call(one) for one in message.contents if one.type == "function_call"]
            parts = [_part(one) for one in message.contents if one.type not in ("function_call", "usage")]
            name = message.author_name if message.role == "user" else None
            said.append(SourcedMessage(Message(message.role, parts, tool_calls=calls, name=name), message))
    return said


def to_messages(messages: Iterable[SourcedMessage]) -> list[framework.Message]:
    """The messages for a chat client; consecutive tool results become one message."""
    made: list[framework.Message] = []
    for one in messages:
        message = one.source or framework.Message(
            one.message.role.value, _contents(one.message), author_name=one.message.name
        )
        if made and made[-1].role == message.role == "tool":
            message = framework.Message("tool", [*made.pop().contents, *message.contents])
        made.append(message)
    return made


def _contents(message: Message) -> list[Content]:
    contents = [_content(part) for part in message.parts]
    if message.role is ChatRole.TOOL:
        failure = "error" if message.is_error else None
        return [Content.from_function_result(message.tool_call_id, result=contents, exception=failure)]
    calls = [
        Content.from_function_call(one.id, one.name, arguments=one.arguments) for one in message.tool_calls
    ]
    return [*contents, *calls]


def _content(part: Part) -> Content:
    match part:
        case TextContent(text=text):
            return Content.from_text(text)
        case ThinkingContent(text=text, signature=signature):
            return Content.from_text_reasoning(text=text, protected_data=signature)
        case ImageContent(image=image):
            kind = image.partition(";")[0].removeprefix("data:") if image.startswith("data:") else "image/*"
            return Content.from_uri(image, media_type=kind)


def _part(content: Content) -> Part:
    match content.type:
        case "text":
            return TextContent(content.text)
        case "text_reasoning":
            return ThinkingContent(content.text or "", signature=content.protected_data)
        case "data" | "uri" if (content.media_type or "").startswith("image/"):
            return ImageContent(content.uri)
    # For example a file or an approval. The original message is sent while it is shown unchanged.
    return TextContent(f"[{content.type}]")


def _call(content: Content) -> ToolCall:
    arguments = content.arguments
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return ToolCall(content.call_id, content.name, text)


def _tool(tool: Any) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": tool.parameters()}


def _usage(told: Any) -> Usage | None:
    return (
        None
        if not told
        else Usage(
            input_tokens=told.get("input_token_count") or 0,
            cached_tokens=told.get("cache_read_input_token_count") or 0,
            cache_write_tokens=told.get("cache_creation_input_token_count") or 0,
            output_tokens=told.get("output_token_count") or 0,
            reasoning_tokens=told.get("reasoning_output_token_count") or 0,
        )
    )
