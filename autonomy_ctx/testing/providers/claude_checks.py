"""Requests that Claude refuses for their shape: options, cache marks, and the order of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autonomy_ctx.testing.providers.claude_models import ClaudeModel
from autonomy_ctx.testing.providers.state import Body, ProviderRefusal
from autonomy_ctx.testing.providers.thinking import THINKING, find_references

BINDING_BETA = "thinking-binding-controls-2026-08-01"
EDITING_BETA = "context-management-2025-06-27"
CLEAR_AT_BETA = "mid-conversation-system-clear-at-2026-08-21"
# Either name; Claude Code sends the second one.
OUTPUT_CONFIG_BETAS = {"mid-conversation-output-config-2026-07-01", "per-turn-control-2026-07-01"}
MAX_MARKS = 4


def check_options(body: Body, model: ClaudeModel, betas: set[str]) -> None:
    """Refuse options that the model, or the request without a beta header, does not have."""
    thinking = body.get("thinking") or {}
    kind = thinking.get("type")
    if "block_binding" in thinking and (BINDING_BETA not in betas or kind not in ("adaptive", "enabled")):
        raise ProviderRefusal(f"thinking.{kind}.block_binding: Extra inputs are not permitted")
    if kind == "disabled" and not model.thinking_can_be_off:
        raise ProviderRefusal("thinking.type: this model always thinks")
    effort = (body.get("output_config") or {}).get("effort")
    if kind == "between_tools" and effort in ("xhigh", "max"):
        raise ProviderRefusal("thinking.type: `between_tools` is not supported with this effort")
    if not model.thinking_can_be_off and (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        raise ProviderRefusal("tool_choice: this model cannot be made to call a tool while it thinks")
    if "context_management" in body and EDITING_BETA not in betas:
        raise ProviderRefusal("context_management: Extra inputs are not permitted")
    for name, needed in (("clear_at", {CLEAR_AT_BETA}), ("output_config", OUTPUT_CONFIG_BETAS)):
        if any(name in message for message in body.get("messages", ())) and not needed & betas:
            raise ProviderRefusal(f"messages: {name}: Extra inputs are not permitted")


def check_tools(body: Body, messages: Sequence[Body]) -> None:
    """Refuse tools that are all deferred, marks on deferred ones, and references to unknown tools."""
    tools = body.get("tools") or []
    deferred = [tool for tool in tools if tool.get("defer_loading")]
    if deferred and len(deferred) == len(tools):
        raise ProviderRefusal("tools: at least one tool must have defer_loading=false")
    if any(tool.get("cache_control") for tool in deferred):
        raise ProviderRefusal("tools: cache_control cannot be set for a tool with defer_loading=true")
    results = [
        block.get("content")
        for message in messages
        for block in message["content"]
        if block["type"] == "tool_result"
    ]
    missing = set(find_references(results)) - {tool.get("name") for tool in tools}
    if missing:
        raise ProviderRefusal(f"tool_reference_unresolved: {min(missing)} is not in `tools`")


def check_marks(body: Body, messages: Sequence[Body]) -> None:
    """Refuse more than four cache marks, shorter lives before longer ones, and marks on thinking."""
    blocks: list[Any] = [*(body.get("tools") or [])]
    if isinstance(body.get("system"), list):
        blocks += body["system"]
    for message in messages:
        for block in message["content"]:
            inner = block.get("content")
            blocks += inner if block["type"] == "tool_result" and isinstance(inner, list) else []
            blocks.append(block)
    marked = [block for block in blocks if block.get("cache_control")]
    if any(block.get("type") in THINKING for block in marked):
        raise ProviderRefusal("cache_control cannot be set for thinking blocks")
    # The mark of the request itself stands on its last block.
    marked += [body] if body.get("cache_control") else []
    if len(marked) > MAX_MARKS:
        raise ProviderRefusal(f"A maximum of {MAX_MARKS} blocks with cache_control may be provided")
    lives = [block["cache_control"].get("ttl", "5m") for block in marked]
    if lives != sorted(lives):
        raise ProviderRefusal(
            "a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block"
        )


def check_messages(messages: Sequence[Body], model: ClaudeModel, *, may_end_with_reply: bool = False) -> None:
    """Refuse messages in an order that Claude does not take, and calls without results."""
    if not messages or (messages[0]["role"] != "user" and not _begins_with_summary(messages)):
        raise ProviderRefusal("messages: first message must use the user role")
    if messages[-1]["role"] == "assistant" and not may_end_with_reply:
        raise ProviderRefusal("messages: this model does not support assistant message prefill")
    calls: list[str] = []
    for at, message in enumerate(messages):
        role, content = message["role"], message["content"]
        if role == "system":
            _check_system_message(messages, at, model)
            continue
        if not content:
            raise ProviderRefusal(f"messages.{at}: content must not be empty")
        if any(block["type"] == "text" and not block["text"].strip() for block in content):
            raise ProviderRefusal(f"messages.{at}: text content blocks must contain non-whitespace text")
        if content[-1]["type"] in THINKING:
            raise ProviderRefusal(
                f"messages.{at}: the final block in an assistant message cannot be `thinking`"
            )
        results = [block["tool_use_id"] for block in content if block["type"] == "tool_result"]
        if sorted(results) != sorted(calls):
            missing = sorted(set(calls) ^ set(results))
            raise ProviderRefusal(
                f"messages.{at}: `tool_use` ids must have a `tool_result` block right after them: {missing}"
            )
        if any(block["type"] != "tool_result" for block in content[: len(results)]):
            raise ProviderRefusal(f"messages.{at}: `tool_result` blocks must come first in a message")
        calls = [block["id"] for block in content if block["type"] == "tool_use"]
    if calls:
        raise ProviderRefusal(f"messages: `tool_use` ids were found without `tool_result` blocks: {calls}")


def _begins_with_summary(messages: Sequence[Body]) -> bool:
    return bool(messages[0]["content"]) and messages[0]["content"][0]["type"] == "compaction"


def _check_system_message(messages: Sequence[Body], at: int, model: ClaudeModel) -> None:
    if model.ignores_system_messages:
        return
    if not model.takes_system_messages:
        raise ProviderRefusal(f"messages.{at}: role 'system' is not supported on this model")
    message = messages[at]
    is_text = all(block["type"] == "text" and "cache_control" not in block for block in message["content"])
    if "clear_at" in message and (not is_text or "output_config" in message):
        raise ProviderRefusal(f"messages.{at}: a message with `clear_at` has only text, and no marks")
    if "output_config" in message and not message["content"]:
        # A change of the effort says nothing, and may stand anywhere.
        return
    before = next((one for one in reversed(messages[:at]) if one["role"] != "system"), None)
    after = next((one["role"] for one in messages[at + 1 :] if one["role"] != "system"), None)
    if after not in ("assistant", None) or before is None or not _ends_with_input(before):
        raise ProviderRefusal(
            f"messages.{at}: a system message stands after a user message, and before a reply or at the end"
        )


def _ends_with_input(message: Body) -> bool:
    """Tell whether a message is the user's, or ends with the result of a tool that the provider ran."""
    return message["role"] == "user" or str(message["content"][-1]["type"]).endswith("_tool_result")
