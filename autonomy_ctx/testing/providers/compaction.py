"""Compaction on demand: Claude writes a summary and signs it, so that the thinking after it stays valid.

The signed block holds the hashes of the content that it replaces. Thinking of the messages that stay fits
these hashes; thinking that is made later fits the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autonomy_ctx.testing.providers.claude_models import ClaudeModel
from autonomy_ctx.testing.providers.state import (
    Body,
    ProviderRefusal,
    ProviderState,
    make_hash,
    seal,
    to_canonical,
    unseal,
)
from autonomy_ctx.testing.providers.thinking import PrefixChain, walk_blocks

COMPACTION_BETA = "compact-2026-09-04"
MAX_INSTRUCTIONS = 16_384
_CONFLICTS = ("context_management", "stop_sequences")


def check_request(
    body: Body, messages: Sequence[Body], model: ClaudeModel, betas: set[str], *, is_bedrock: bool
) -> None:
    """Refuse a request for a summary that has no header, no content, or options that do not fit it."""
    if COMPACTION_BETA not in betas or is_bedrock or not model.compacts:
        raise ProviderRefusal("compaction: Extra inputs are not permitted")
    output = body.get("output_config") or {}
    conflicts = [name for name in _CONFLICTS if body.get(name)]
    conflicts += ["output_config.format"] if output.get("format") else []
    conflicts += ["task_budget.remaining"] if "remaining" in (output.get("task_budget") or {}) else []
    conflicts += ["tool_choice"] if (body.get("tool_choice") or {}).get("type") in ("any", "tool") else []
    if conflicts:
        raise ProviderRefusal(f"compaction: not supported together with {', '.join(conflicts)}")
    if len((body["compaction"] or {}).get("instructions") or "") > MAX_INSTRUCTIONS:
        raise ProviderRefusal(f"compaction.instructions: at most {MAX_INSTRUCTIONS} characters")
    if not messages:
        raise _refuse("compaction_nothing_to_summarize", "there are no messages")
    if any(block["type"] == "tool_use" for block in messages[-1]["content"]):
        raise _refuse("compaction_incomplete_turn", "the last message has a call without a result")


def summarize(
    state: ProviderState, chain: PrefixChain, body: Body, messages: Sequence[Body], model: ClaudeModel
) -> Body:
    """The `content` and the `stop_reason` of the reply: a signed summary, or a scripted failure."""
    failure = state.compaction_failures.pop(0) if state.compaction_failures else None
    if failure == "unavailable":
        raise ProviderRefusal("no summary can be made now", status=529, code="compaction_unavailable")
    if failure:
        return {"content": [], "stop_reason": failure}
    text = "\n".join(str(block["text"]) for block in state.answer(body) if block["type"] == "text")
    changes = [
        block
        for _, message, block in walk_blocks(messages)
        if message["role"] == "system" and block["type"] in ("tool_addition", "tool_removal")
    ]
    block: Body = {"type": "compaction", "content": text, **({"tool_changes": changes} if changes else {})}
    block["signature"] = seal(
        state,
        {
            "content": make_hash(text),
            "tool_changes": make_hash(to_canonical(changes)),
            "start": chain.start,
            # A model that does not check prefixes does not record them either.
            "states": chain.states if model.binds else [],
            "last_role": messages[-1]["role"],
            "organization": state.organization,
        },
    )
    return {"content": [block], "stop_reason": "compaction"}


def resume_chain(state: ProviderState, chain: PrefixChain, messages: Sequence[Body], betas: set[str]) -> None:
    """Check the summary that a request begins with, if it does, and let its prefix begin there."""
    found = [(path, block) for path, _, block in walk_blocks(messages) if block["type"] == "compaction"]
    if not found:
        return
    if COMPACTION_BETA not in betas:
        raise ProviderRefusal(f"{found[0][0]}: blocks of the type `compaction` need a beta header")
    if len(found) > 1:
        raise _refuse("compaction_block_ambiguous", "a request has at most one summary")
    [(path, block)] = found
    if path != "messages.0.content.0":
        raise _refuse("compaction_block_misplaced", f"{path}: the summary must be the first block")
    signed = unseal(state, block.get("signature"))
    if signed is None or signed.get("organization") != state.organization or "states" not in signed:
        raise _refuse("compaction_signature_invalid", f"{path}: the signature is not valid")
    if make_hash(str(block.get("content"))) != signed["content"]:
        raise _refuse("compaction_content_mismatch", f"{path}: the summary was changed")
    if make_hash(to_canonical(block.get("tool_changes", []))) != signed["tool_changes"]:
        raise _refuse("compaction_tool_changes_mismatch", f"{path}: the tool changes were changed")
    chain.resume(signed["states"] if _continues(signed, chain, messages) else [], block)


def _continues(signed: dict[str, Any], chain: PrefixChain, messages: Sequence[Body]) -> bool:
    """Tell whether the messages that stay can be the ones that followed those in the summary."""
    _, *kept = [message["role"] for _, message, _ in walk_blocks(messages)]
    return signed["start"] == chain.start and bool(kept) and kept[0] not in ("system", signed["last_role"])


def _refuse(code: str, message: str) -> ProviderRefusal:
    return ProviderRefusal(message, code=code)
