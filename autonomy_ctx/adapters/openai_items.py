"""Converts input items of the OpenAI Agents SDK to our messages and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

from autonomy_ctx.adapters.adapter import missing_framework
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.formats.openai_responses import is_plain_item, read_input, responses_items
from autonomy_ctx.messages.json_values import thaw
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import visible_fields

try:
    from agents.run import CallModelData, ModelInputData
except ImportError as error:
    raise missing_framework(error, "openai-agents") from error

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
