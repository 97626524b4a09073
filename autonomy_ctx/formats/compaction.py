"""Summaries that a provider writes: Claude's compaction on demand, and OpenAI's `/responses/compact`.

The provider gets a request that it was sent before, and answers with a block that stands for all its
messages. Later requests begin with the block. Claude signs it, so that the thinking behind it stays valid.
Our own text says the same for every other model: a format puts the block in its place only where the provider
will take it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autonomy_ctx.formats.base import ANTHROPIC, RESPONSES, Format, ModelReply, Usage, WireRequest
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_mappings, as_nonempty_text
from autonomy_ctx.formats.model_table import find_model
from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES
from autonomy_ctx.formats.thinking import EXTRA_NAME, continued_states, read_states
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary, SummaryBlock

# A request that asks Claude for a block, or carries one, names this feature.
COMPACTION_BETA = "compact-2026-09-04"
# The stop reason of a reply with a block.
BLOCK_STOP = "compaction"
# Tokens that Claude may use for a block, with its thinking.
MAX_OUTPUT_TOKENS = 8192
# Under this name a message that stands for a block has its JSON.
BLOCK_NAME = "summary_block"

_CLAUDE_CONFLICTS = ("context_management", "stop_sequences", "stream")
_OUTPUT_CONFLICTS = ("format", "task_budget")
_COMPACT_FIELDS = (
    *("model", "input", "instructions", "service_tier"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
)


def can_compact(owner: str, model: str) -> bool:
    """Tell whether a model writes summaries on demand, in the format of `owner`."""
    info = find_model(model)
    return owner in (ANTHROPIC, RESPONSES) and info is not None and info.compaction


def find_block(messages: Sequence[Message], owner: str, model: str) -> SummaryBlock | None:
    """The block that goes to a model in place of a summary's text; None if there is none that it takes.

    Only instructions may stand before it. What OpenAI wrote is for the model that wrote it.
    """
    spoken = (one for one in messages if isinstance(one, Summary) or one.role not in INSTRUCTION_ROLES)
    first = next(spoken, None)
    block = first.block if isinstance(first, Summary) else None
    if block is None or not takes_block(block, owner, model):
        return None
    # A later reply may say that the provider has refused it.
    said = (as_mapping(one.extra.get(EXTRA_NAME)) for one in messages if one.extra)
    return None if any(one.get("refused_block") == block.name for one in said) else block


def takes_block(block: SummaryBlock, owner: str, model: str) -> bool:
    """Tell whether a model, in the format of `owner`, reads a block."""
    is_own = block.owner == owner and can_compact(owner, model)
    return is_own and (owner != RESPONSES or block.model == model)


def place_block(messages: Sequence[Message], block: SummaryBlock) -> list[Message]:
    """The messages with one of the assistant that stands for the block, in place of its summary."""
    return [
        Message("assistant", None, id=one.id, created_at=one.created_at, extra={BLOCK_NAME: block.data})
        if isinstance(one, Summary) and one.block is block
        else one
        for one in messages
    ]


def read_placed(message: Message) -> list[dict[str, Any]]:
    """The blocks or items of a message that stands for a block; none for any other message."""
    data = message.extra.get(BLOCK_NAME) if message.extra else None
    return [dict(one) for one in json.loads(data)] if isinstance(data, str) else []


def without_block(message: Message) -> Message:
    """A message without the block of a provider: a summary shows its text."""
    if not isinstance(message, Summary) or message.block is None:
        return message
    return replace(message, block=None)


def compaction_request(request: WireRequest, owner: str) -> WireRequest:
    """The request for a block that stands for all messages of a request."""
    if owner == RESPONSES:
        body = {name: request.body[name] for name in _COMPACT_FIELDS if name in request.body}
        return replace(request, path="/responses/compact", body=body)
    body = {name: value for name, value in request.body.items() if name not in _CLAUDE_CONFLICTS}
    if "output_config" in body:
        output = as_mapping(body["output_config"])
        body["output_config"] = {name: output[name] for name in output if name not in _OUTPUT_CONFLICTS}
    if as_mapping(body.get("tool_choice")).get("type") in ("any", "tool"):
        del body["tool_choice"]
    thinking = as_count(as_mapping(body.get("thinking")).get("budget_tokens"))
    body["max_tokens"] = max(as_count(body.get("max_tokens")), MAX_OUTPUT_TOKENS + thinking)
    body["compaction"] = {"type": "summarize"}
    betas = tuple(dict.fromkeys((*request.betas, COMPACTION_BETA)))
    return replace(request, body=body, betas=betas)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """The answer to a request for a block: the block, or the reason why there is none, and its tokens."""

    block: SummaryBlock | None
    stop: str
    usage: Usage


class CompactionReplies:
    """Reads what a provider answers to a request for a block, in the words of its format."""

    def __init__(self, words: Format) -> None:
        self.name, self._words = words.name, words

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """A reply whose `blocks` are the block, if there is one; Claude says why there is none."""
        content = as_mappings(body.get("content" if self.name == ANTHROPIC else "output"))
        is_written = any(one.get("type") == "compaction" for one in content)
        stop = as_nonempty_text(body.get("stop_reason")) or "end_turn"
        return ModelReply(
            blocks=tuple(content) if is_written else (),
            stop=BLOCK_STOP if is_written else stop,
            usage=self._words.reply(body).usage,
        )


def make_compaction(
    reply: ModelReply,
    request: WireRequest,
    before: SummaryBlock | None,
    owner: str,
    model: str,
) -> Compaction:
    """Read a reply to `request`, whose messages began with the block `before`, if there was one."""
    if not reply.blocks:
        return Compaction(block=None, stop=str(reply.stop), usage=reply.usage)
    start, states = "", tuple[str, ...]()
    if owner == ANTHROPIC:
        start, states = read_states(request.body, continued_states(before, model))
    block = SummaryBlock(
        owner=owner, model=model, data=json.dumps(list(reply.blocks)), start=start, states=states
    )
    return Compaction(block=block, stop=BLOCK_STOP, usage=reply.usage)
