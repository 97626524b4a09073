"""Asking a provider why its prompt cache was missed, and reading what it says.

Claude and GPT compare a request with an earlier one, which is named by the id of its reply. So the id of each
reply is stored with its message.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from autonomy_ctx.formats.base import (
    ANTHROPIC,
    CacheMiss,
    ModelReply,
    WireRequest,
    signature_of,
    tag_signature,
)
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_nonempty_text
from autonomy_ctx.messages.message import ChatRole, Message

DIAGNOSIS_BETA = "cache-diagnosis-2026-04-07"
# Under this name the extra fields of a message have the id of the reply, with the provider's name.
REPLY_ID = "reply_id"


def ask_for_diagnosis(request: WireRequest, messages: Sequence[Message], owner: str) -> WireRequest:
    """The request, with the question why it is not read from the cache up to the reply before it."""
    newest = next((message for message in reversed(messages) if message.role is ChatRole.ASSISTANT), None)
    stored = None if newest is None else as_nonempty_text(newest.extra.get(REPLY_ID))
    before = signature_of(owner, stored)
    if owner == ANTHROPIC:
        # Without a reply before, the request is only remembered.
        body = {**request.body, "diagnostics": {"previous_message_id": before}}
        return replace(request, body=body, betas=(*request.betas, DIAGNOSIS_BETA))
    if before is None:
        return request
    options = {**as_mapping(request.body.get("prompt_cache_options")), "comparison_response_id": before}
    return replace(request, body={**request.body, "prompt_cache_options": options})


def store_reply_id(reply: ModelReply, owner: str) -> ModelReply:
    """The reply, whose message has its id, for the next request to name."""
    if reply.id is None:
        return reply
    return replace(reply, extra={**reply.extra, REPLY_ID: tag_signature(owner, reply.id)})


def read_cache_miss(body: Mapping[str, Any]) -> CacheMiss | None:
    """The reason that a reply of Claude or GPT gives; None if it gives none."""
    claude = as_mapping(as_mapping(body.get("diagnostics")).get("cache_miss_reason"))
    if reason := as_nonempty_text(claude.get("type")):
        return CacheMiss(reason=reason, tokens=as_count(claude.get("cache_missed_input_tokens")))
    gpt = as_mapping(body.get("prompt_cache_diagnostics"))
    kind = as_nonempty_text(gpt.get("type"))
    if kind is None or kind == "cache_hit":
        return None
    # Without a reason, the kind says why there is no comparison.
    reason = as_nonempty_text(gpt.get("reason")) or kind
    return CacheMiss(reason=reason, tokens=as_count(gpt.get("cache_missed_tokens")))
