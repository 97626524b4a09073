"""LiteLLM's proxy: a hook that replaces the messages of a request, for any client in any language.

Clients send their whole history, as always. It is stored, and the model sees our context.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, Scope
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import (
    BudgetExceeded,
    HistoryMismatch,
    InvalidKey,
    InvalidMessage,
    UnnamedConversation,
)
from autonomy_ctx.formats.openai import openai_message
from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES
from autonomy_ctx.messages.message import Message, Part, TextContent, parse_list_part

try:
    from fastapi import HTTPException
    from litellm.integrations.custom_logger import CustomLogger
except ImportError as error:
    raise missing_framework(error, "litellm") from None

_REMEDY = "send it as the header `x-litellm-session-id` or in the body as `metadata.session_id`"
_CHAT = ("completion", "acompletion")
# Errors that the client of the request can fix.
_CLIENT_ERRORS = (BudgetExceeded, HistoryMismatch, InvalidKey, InvalidMessage, UnnamedConversation)


class ContextHook(ContextAdapter, CustomLogger):
    """Gives the chat completions of a proxy a context with summaries, facts and a budget.

    `scope` is a name, or a function that takes the caller's key, such as `lambda key: key.user_id`. The
    conversation is the session id of a request; a request without one gets status 400. An answer is stored
    when the client sends it back with its next request. Other kinds of requests are not changed.
    """

    def __init__(self, *, scope: Scope, **options: Unpack[EngineOptions]) -> None:
        CustomLogger.__init__(self)
        self.engine = ContextEngine(scope=scope, **options)

    async def async_pre_call_hook(
        self, user_api_key_dict: Any, cache: Any, data: dict[str, Any], call_type: str
    ) -> dict[str, Any]:
        """Store the new messages, and replace all of them by our context."""
        if call_type not in _CHAT or "messages" not in data:
            return data
        try:
            key = self.engine.key(user_api_key_dict, _session_id(data), remedy=_REMEDY)
            said = from_openai(data["messages"])
            rules = next((at for at, one in enumerate(said) if not _is_rule(one)), len(said))
            made = await self.engine.compose(
                key,
                said[rules:],
                instructions=said[:rules],
                tools=[tool["function"] for tool in data.get("tools") or () if "function" in tool],
                model=data.get("model"),
            )
        except _CLIENT_ERRORS as problem:
            raise HTTPException(status_code=400, detail={"error": str(problem)}) from problem
        return {**data, "messages": to_openai([*made.instructions, *made.messages])}


def from_openai(messages: Iterable[Mapping[str, Any]]) -> list[SourcedMessage]:
    """The messages of a chat completion, with LiteLLM's own fields for thinking."""
    said: list[SourcedMessage] = []
    for number, message in enumerate(messages):
        content = message.get("content")
        thinking = message.get("thinking_blocks") or ()
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
        path = f"messages[{number}].content"
        found = [_part(part, f"{path}[{index}]") for index, part in enumerate([*thinking, *parts])]
        made = Message(
            message.get("role", ""),
            found,
            tool_calls=[_call(call) for call in message.get("tool_calls") or ()],
            tool_call_id=message.get("tool_call_id"),
            name=message.get("name"),
        )
        said.append(SourcedMessage(made, dict(message)))
    return said


def to_openai(messages: Iterable[SourcedMessage]) -> list[dict[str, Any]]:
    """The messages of a chat completion."""
    return [openai_message(one.message) if one.source is None else one.source for one in messages]


def _part(part: Any, path: str) -> Part:
    try:
        return parse_list_part(part, path)
    except InvalidMessage:
        # For example a sound or a file. The original message is sent while it is shown unchanged.
        return TextContent(f"[{part.get('type') if isinstance(part, Mapping) else 'unknown'}]")


def _call(call: Any) -> Any:
    """A tool call in the format of messages; a custom tool has text instead of arguments."""
    custom = call.get("custom") if isinstance(call, Mapping) else None
    return {"id": call.get("id"), "name": custom["name"], "arguments": custom["input"]} if custom else call


def _is_rule(one: SourcedMessage) -> bool:
    return one.message.role in INSTRUCTION_ROLES


def _session_id(data: Mapping[str, Any]) -> str | None:
    places = [data.get("litellm_session_id")]
    places += [(data.get(name) or {}).get("session_id") for name in ("metadata", "litellm_metadata")]
    return next((one for one in places if isinstance(one, str) and one), None)
