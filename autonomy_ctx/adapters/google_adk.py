"""Google's Agent Development Kit: a plugin that replaces what a model is sent; sessions stay as they are."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import Any, Unpack

from autonomy_ctx.adapters.engine import (
    ContextAdapter,
    EngineOptions,
    Scope,
    SourcedMessage,
    insert_before_question,
    make_engine,
    missing_framework,
)
from autonomy_ctx.items.formats.google import GoogleFormat, function_response, model_parts, user_parts
from autonomy_ctx.items.formats.outgoing import ToolNames
from autonomy_ctx.items.message import ChatRole, ImageContent, Message, Part, TextContent
from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.store import Key

try:
    from google.adk.plugins import BasePlugin
    from google.genai import types
except ImportError as error:
    raise missing_framework(error, "google-adk") from None

# Calls that have no id get one, which no provider is sent.
_MADE_ID = "adk-call-"
# How ADK begins what another agent said.
_OTHER_AGENT = "For context:"


class ContextPlugin(ContextAdapter, BasePlugin):
    """Gives the agents of a runner a context with summaries, facts and a budget.

    `scope` is a name, or a function of the callback's context, such as `lambda context: context.user_id`.
    The conversation is the id of the session; that of an agent below the root is `session/agent`, for it
    sees another history. Agents with `include_contents="none"` are left alone.
    """

    def __init__(self, *, scope: Scope, name: str = "autonomy_ctx", **options: Unpack[EngineOptions]) -> None:
        BasePlugin.__init__(self, name=name)
        self.engine = make_engine(scope, **options)
        self._agents: dict[str, Any] = {}
        self._histories: ConversationCache[Key, list[SourcedMessage]] = ConversationCache(256)

    async def before_agent_callback(self, *, agent: Any, callback_context: Any) -> None:
        """Remember who is about to ask a model."""
        self._agents[agent.name] = agent

    async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> None:
        """Store what is new of the history, and send our context in its place."""
        includes = getattr(self._agents.get(callback_context.agent_name), "include_contents", "default")
        if includes != "default" or llm_request.previous_interaction_id:
            return
        key = self._key(callback_context)
        known = {
            _identity(part) for event in callback_context.session.events for part in _parts(event.content)
        }
        passing = [one for one in llm_request.contents if _is_passing(one, known)]
        said = from_contents([one for one in llm_request.contents if not _is_passing(one, known)])
        self._histories[key] = said
        rules = str(llm_request.config.system_instruction or "")
        made = await self.engine.compose(
            key,
            said,
            instructions=[SourcedMessage(Message("system", rules))] if rules else [],
            tools=_tools(llm_request),
        )
        if made.instructions_text != rules:
            llm_request.config.system_instruction = made.instructions_text or None
        # ADK puts there what is for this call only, too.
        llm_request.contents = to_contents(insert_before_question(made.messages, from_contents(passing)))

    async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> None:
        """Store the answer."""
        key = self._key(callback_context)
        history = self._histories.get(key)
        if history is not None and not llm_response.partial and _parts(llm_response.content):
            calls = [call.id or "" for one in history for call in one.message.tool_calls]
            made = sum(call_id.startswith(_MADE_ID) for call_id in calls)
            answer = from_contents([llm_response.content], made_ids=made)
            await self.engine.store_history(key, [*history, *answer])

    def _key(self, context: Any) -> Key:
        agent, conversation = self._agents.get(context.agent_name), context.session.id
        if agent is not None and agent.root_agent is not agent:
            conversation = f"{conversation}/{agent.name}"
        return self.engine.key(context, conversation, remedy="give run_async a `session_id`")


def from_contents(contents: Sequence[types.Content], *, made_ids: int = 0) -> list[SourcedMessage]:
    """The messages of a request; each result of a tool is a message of its own.

    Calls without an id get one, after so many that were made before; results without are in their order.
    """
    said: list[SourcedMessage] = []
    ids = (f"{_MADE_ID}{number}" for number in count(made_ids + 1))
    unanswered: list[str] = []
    for content in contents:
        parts = [part for part in _parts(content) if not part.function_response]
        for part in _parts(content):
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
    """The contents of a request; neighbours of one role are one content there."""
    contents: list[types.Content] = []
    names: dict[str | None, str] = {}
    for one in messages:
        names |= {call.id: call.name for call in one.message.tool_calls}
        role = "model" if one.message.role is ChatRole.ASSISTANT else "user"
        parts = _build_parts(one.message, names) if one.source is None else list(one.source)
        if contents and contents[-1].role == role:
            contents[-1].parts = [*_parts(contents[-1]), *parts]
        elif parts:
            contents.append(types.Content(role=role, parts=parts))
    return contents


def _build_parts(message: Message, names: dict[str | None, str]) -> list[types.Part]:
    notes: list[str] = []
    images: list[Any] = []
    match message.role:
        case ChatRole.ASSISTANT:
            shapes = model_parts(message, ToolNames(()), notes, signatures_required=True)
        case ChatRole.TOOL:
            shapes = [function_response(message, names.get(message.tool_call_id, "tool"), images, notes)]
        case _:
            shapes = user_parts(message, notes)
    parts = [types.Part.model_validate_json(json.dumps(shape)) for shape in [*shapes, *images]]
    for part in parts:
        called = part.function_call or part.function_response
        if called and called.id and called.id.startswith(_MADE_ID):
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
    # A document, a sound: the part itself is sent as long as the message is shown as it was.
    return TextContent(f"[{', '.join(part.model_dump(exclude_none=True))}]")


def _tool_message(response: dict[str, Any], call_id: str) -> Message:
    """A result; ADK and Google have a text under one of three names."""
    name, value = next(iter(response.items())) if len(response) == 1 else ("", None)
    is_text = name in ("result", "output", "error") and isinstance(value, str)
    text = value if is_text else json.dumps(response, ensure_ascii=False, default=str)
    return Message("tool", text, tool_call_id=call_id, is_error="error" in response)


def _is_passing(content: types.Content, known: Collection[str | int]) -> bool:
    """Whether a content is for this call only: instructions that ADK puts between the contents."""
    parts = _parts(content)
    if content.role != "user" or any(part.function_response for part in parts):
        return False
    return bool(parts) and parts[0].text != _OTHER_AGENT and not any(_identity(one) in known for one in parts)


def _identity(part: types.Part) -> str | int:
    """What tells a part from others: its text, or what it shares with the event that it was copied from."""
    return part.text if part.text is not None else id(part.inline_data or part.file_data or part)


def _tools(request: Any) -> list[dict[str, Any]]:
    offers = [getattr(tool, "function_declarations", None) or () for tool in request.config.tools or ()]
    return [one.model_dump(mode="json", exclude_none=True) for offer in offers for one in offer]


def _parts(content: types.Content | None) -> Sequence[types.Part]:
    return content.parts or () if content else ()
