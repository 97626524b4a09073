"""`ContextMemory`: our context as the memory of agents and chat engines of LlamaIndex.

Our log is the history: `put` stores a message, and `get` returns the context that our template composes.
"""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any, Unpack

from autonomy_ctx.adapters.adapter import ContextAdapter, missing_framework
from autonomy_ctx.engine.engine import ContextEngine, EngineOptions, Scope
from autonomy_ctx.engine.framework_context import SourcedMessage, plain_content
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.json_values import thaw
from autonomy_ctx.messages.message import ChatRole, ImageContent, Message, Part, TextContent, ThinkingContent
from autonomy_ctx.messages.summary import visible_fields

try:
    from llama_index.core.base.llms.types import (
        ChatMessage,
        ImageBlock,
        TextBlock,
        ThinkingBlock,
        ToolCallBlock,
    )
    from llama_index.core.bridge.pydantic import Field
    from llama_index.core.memory import BaseMemory
except ImportError as error:
    raise missing_framework(error, "llama-index") from error

# The key under which a stored message keeps the framework's original, if a conversion would lose something.
CHAT_MESSAGE = "llama_index_message"
_ROLES = {"chatbot": "assistant", "model": "assistant", "function": "tool"}
_BLOCKS = (TextBlock, ImageBlock, ThinkingBlock, ToolCallBlock)


class ContextMemory(BaseMemory, ContextAdapter):
    """Pass it to `agent.run(memory=...)` or to a chat engine. Use one object for each conversation.

    `scope` is a name, or a function that takes the memory. Other arguments: see `ContextEngine`. `share`
    makes a memory for another conversation with the same engine.
    """

    conversation: str
    engine: Any = Field(exclude=True, repr=False)

    def __init__(self, conversation: str, *, scope: Scope, **options: Unpack[EngineOptions]) -> None:
        super().__init__(conversation=conversation, engine=ContextEngine(scope=scope, **options))

    @classmethod
    def class_name(cls) -> str:
        """Its name in the framework."""
        return "ContextMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> ContextMemory:
        """Make one, as the constructor does."""
        return cls(**kwargs)

    def share(self, conversation: str) -> ContextMemory:
        """Another conversation with the same memory and background work; close only the first one."""
        made: ContextMemory = self.model_copy(update={"conversation": conversation})
        return made

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """The composed context."""
        return self.engine.run_sync(self._compose)  # type: ignore[no-any-return]

    def get_all(self) -> list[ChatMessage]:
        """All stored messages."""
        return [from_message(one) for one in self.engine.run_sync(self.engine.history, self._key())]

    def put(self, message: ChatMessage) -> None:
        """Store a message."""
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        """Store messages, all or none."""
        self.engine.run_sync(self.engine.append, self._key(), [to_message(one) for one in messages])

    def set(self, messages: list[ChatMessage]) -> None:
        """Store the new messages of a whole history. A history that differs continues in a fork."""
        said = [SourcedMessage(to_message(one)) for one in messages]
        self.engine.run_sync(self.engine.store_history, self._key(), said)

    def reset(self) -> None:
        """Delete the conversation."""
        self.engine.run_sync(self.memory.delete_conversation, self._key().scope, self.conversation)

    async def _compose(self) -> list[ChatMessage]:
        engine: ContextEngine = self.engine
        context = await engine.compose_stored(self._key(), record=False)
        shown = [one.message for one in (*context.instructions, *context.messages)]
        if shown and shown[-1].role is not ChatRole.ASSISTANT:
            # After an answer, an agent reads its memory without asking its model.
            await engine.record(self._key(), context)
        return [from_message(message) for message in shown]

    def _key(self) -> Key:
        engine: ContextEngine = self.engine
        return engine.key(self, self.conversation, remedy="give the memory a `conversation`")


def to_message(message: ChatMessage) -> Message:
    """A message of LlamaIndex as ours."""
    more = dict(message.additional_kwargs)
    role = _ROLES.get(message.role.value, message.role.value)
    calls = [
        {"id": block.tool_call_id, "name": block.tool_name, "arguments": _arguments(block.tool_kwargs)}
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    made = Message(
        role,
        plain_content([part for block in message.blocks if (part := _to_part(block)) is not None]),
        tool_calls=calls,
        tool_call_id=more.pop("tool_call_id", None) if role == "tool" else None,
        name=more.pop("name", None),
    )
    if more or not all(isinstance(block, _BLOCKS) for block in message.blocks):
        return replace(made, extra={CHAT_MESSAGE: message.model_dump(mode="json")})
    return made


def from_message(message: Message) -> ChatMessage:
    """The LlamaIndex message for a message: its original, or a new one if ours was changed."""
    stored = thaw(message.extra.get(CHAT_MESSAGE))
    if stored:
        own = ChatMessage.model_validate(stored)
        if visible_fields(to_message(own)) == visible_fields(message):
            return own
    blocks = [_from_part(part) for part in message.parts]
    for call in message.tool_calls:
        arguments = call.parse_arguments()
        blocks.append(ToolCallBlock(tool_call_id=call.id, tool_name=call.name, tool_kwargs=arguments))
    more = {"tool_call_id": message.tool_call_id} if message.role is ChatRole.TOOL else {}
    named = more | ({"name": message.name} if message.name else {})
    return ChatMessage(role=message.role.value, blocks=blocks, additional_kwargs=named)


def _to_part(block: Any) -> Part | None:
    """A block as our part; unsupported blocks become a note."""
    match block:
        case TextBlock():
            return TextContent(block.text)
        case ThinkingBlock():
            return ThinkingContent(
                block.content or "", signature=block.additional_information.get("signature")
            )
        case ImageBlock(url=url) if url is not None:
            return ImageContent(str(url))
        case ImageBlock():
            return ImageContent(block.inline_url())
        case ToolCallBlock():
            return None
    return TextContent(f"[{block.block_type}]")


def _from_part(part: Part) -> Any:
    match part:
        case TextContent():
            return TextBlock(text=part.text)
        case ThinkingContent():
            signature = {"signature": part.signature} if part.signature else {}
            return ThinkingBlock(content=part.text, additional_information=signature)
        case ImageContent() if part.image.startswith("data:"):
            head, _, data = part.image.partition(",")
            kind = head.removeprefix("data:").partition(";")[0]
            return ImageBlock(image=base64.b64decode(data), image_mimetype=kind)
    return ImageBlock(url=part.image)


def _arguments(given: dict[str, Any] | str) -> str:
    return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)
