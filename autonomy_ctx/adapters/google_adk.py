"""Google's Agent Development Kit: a plugin that replaces the messages for a model.

Sessions stay unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, Scope
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage, insert_before_question
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.formats.google import GoogleFormat, GoogleWriter
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent

try:
    from google.adk.plugins import BasePlugin
    from google.genai import types
except ImportError as error:
    raise missing_framework(error, "google-adk") from None

# How the first part of a message begins in which ADK quotes another agent.
_OTHER_AGENT = "For context:"


class ContextPlugin(ContextAdapter, BasePlugin):
    """Gives the agents of a runner a context with summaries, facts and a budget.

    `scope` is a name, or a function that takes the callback's context, such as `lambda context:
    context.user_id`. The conversation is the id of the session. An agent below the root has the conversation
    `session/agent`, because it sees another history; one that runs as a tool in the session has
    `session/agent/call`. Agents with `include_contents="none"` are not changed.
    """

    def __init__(self, *, scope: Scope, name: str = "autonomy_ctx", **options: Unpack[EngineOptions]) -> None:
        BasePlugin.__init__(self, name=name)
        self.engine = ContextEngine(scope=scope, **options)
        self._agents: dict[str, Any] = {}
        self._contexts: ConversationCache[Key, FrameworkContext] = ConversationCache(256)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Remember which agent is about to call a model."""
        self._agents[agent.name] = agent

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Store the new messages of the history, and send our context instead."""
        includes = getattr(self._agents.get(callback_context.agent_name), "include_contents", "default")
        if includes != "default" or llm_request.previous_interaction_id:
            return
        key, events = self._key(callback_context), callback_context.session.events
        given = [event.content for event in events]
        if callback_context.isolation_scope is not None:
            # An agent that runs as a tool gets its task, which is no event, as its first content.
            given += llm_request.contents[:1]
        known = {_identity(part) for content in given for part in parts_of(content)}
        passing = [one for one in llm_request.contents if _is_passing(one, known)]
        said = from_contents([one for one in llm_request.contents if not _is_passing(one, known)])
        rules = str(llm_request.config.system_instruction or "")
        made = await self.engine.compose(
            key,
            said,
            instructions=[SourcedMessage(Message("system", rules))] if rules else [],
            tools=_tools(llm_request),
            model=llm_request.model,
            # A session that was lost begins with this run.
            may_continue=all(one.invocation_id == callback_context.invocation_id for one in events),
        )
        self._contexts[key] = made
        if made.instructions_text != rules:
            llm_request.config.system_instruction = made.instructions_text or None
        # ADK also puts contents there that are only for this call.
        llm_request.contents = to_contents(insert_before_question(made.messages, from_contents(passing)))

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Store the answer."""
        key = self._key(callback_context)
        context = self._contexts.get(key)
        if context is not None and not llm_response.partial and parts_of(llm_response.content):
            calls = [call.id or "" for one in context.history for call in one.message.tool_calls]
            made = sum(call_id.startswith(MADE_ID) for call_id in calls)
            replies = [one.message for one in from_contents([llm_response.content], made_ids=made)]
            usage = _usage(llm_response.usage_metadata)
            await self.engine.store_reply(key, context, *replies, usage=usage)

    def _key(self, context: Any) -> Key:
        agent, conversation = self._agents.get(context.agent_name), context.session.id
        if agent is not None and agent.root_agent is not agent:
            conversation = f"{conversation}/{agent.name}"
        if context.isolation_scope is not None:
            conversation = f"{conversation}/{context.isolation_scope}"
        return self.engine.key(context, conversation, remedy="give run_async a `session_id`")


def _is_passing(content: types.Content, known: Collection[str | int]) -> bool:
    """Tell whether a content is only for this call, such as instructions that ADK puts in between."""
    parts = parts_of(content)
    if content.role != "user" or any(part.function_response for part in parts):
        return False
    is_quotation = bool(parts) and (parts[0].text or "").startswith(_OTHER_AGENT)
    return bool(parts) and not is_quotation and not any(_identity(one) in known for one in parts)


def _identity(part: types.Part) -> str | int:
    """The identity of a part: its text, or the object that it shares with the event it was copied from."""
    return part.text if part.text is not None else id(part.inline_data or part.file_data or part)


def _tools(request: Any) -> list[dict[str, Any]]:
    offers = [getattr(tool, "function_declarations", None) or () for tool in request.config.tools or ()]
    return [one.model_dump(mode="json", exclude_none=True) for offer in offers for one in offer]


def _usage(told: Any) -> Usage | None:
    return (
        None
        if told is None
        else Usage(
            input_tokens=told.prompt_token_count or 0,
            cached_tokens=told.cached_content_token_count or 0,
            output_tokens=(told.candidates_token_count or 0) + (told.thoughts_token_count or 0),
            reasoning_tokens=told.thoughts_token_count or 0,
        )
    )


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
