"""Context editing of Claude: results of old calls are cleared before the model sees the request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from autonomy_ctx.testing.providers.state import Body, ProviderRefusal, find_words

CLEAR_TOOL_USES, CLEAR_THINKING = "clear_tool_uses_20250919", "clear_thinking_20251015"
_FIELDS = {"type", "trigger", "keep", "clear_at_least", "exclude_tools", "clear_tool_inputs"}
_TRIGGER = {"type": "input_tokens", "value": 100_000}
_KEEP = {"type": "tool_uses", "value": 3}
_PLACEHOLDER = "[Old tool result content cleared]"


class EditedMessages(NamedTuple):
    """The messages as the model sees them, and what the reply says of that."""

    messages: Sequence[Body]
    applied: Sequence[Body] = ()


def clear_tool_uses(body: Body, messages: Sequence[Body], tokens: int) -> EditedMessages:
    """Clear old results if a request asks for that, and its prompt, of so many tokens, passes the trigger."""
    for edit in _read_edits(body):
        uses = [block for block in _blocks(messages) if block["type"] == "tool_use"]
        trigger = edit.get("trigger", _TRIGGER)
        if (tokens if trigger["type"] == "input_tokens" else len(uses)) <= trigger["value"]:
            continue
        kept = edit.get("keep", _KEEP)["value"]
        excluded = set(edit.get("exclude_tools") or ())
        old = {use["id"] for use in uses[: max(0, len(uses) - kept)] if use["name"] not in excluded}
        old &= {block["tool_use_id"] for block in _blocks(messages) if block["type"] == "tool_result"}
        edited = [
            {
                **one,
                "content": [_clear(block, old, edit.get("clear_tool_inputs")) for block in one["content"]],
            }
            for one in messages
        ]
        cleared = len(find_words(messages)) - len(find_words(edited))
        if old and cleared >= (edit.get("clear_at_least") or {"value": 0})["value"]:
            told = {"cleared_tool_uses": len(old), "cleared_input_tokens": cleared}
            return EditedMessages(edited, [{"type": CLEAR_TOOL_USES, **told}])
    return EditedMessages(messages)


def _read_edits(body: Body) -> list[Mapping[str, Any]]:
    found: list[Mapping[str, Any]] = []
    for at, edit in enumerate((body.get("context_management") or {}).get("edits") or ()):
        kind, place = edit.get("type"), f"context_management.edits.{at}"
        if kind not in (CLEAR_TOOL_USES, CLEAR_THINKING, "compact_20260112"):
            raise ProviderRefusal(
                f"{place}: Input tag '{kind}' found using 'type' does not match any of them"
            )
        if kind == CLEAR_TOOL_USES:
            if unknown := sorted(edit.keys() - _FIELDS):
                raise ProviderRefusal(f"{place}.{unknown[0]}: Extra inputs are not permitted")
            found.append(edit)
    return found


def _blocks(messages: Sequence[Body]) -> Iterator[Body]:
    for message in messages:
        yield from message["content"]


def _clear(block: Body, old: set[str], inputs: bool | Sequence[str] | None) -> Body:
    if block["type"] == "tool_result" and block["tool_use_id"] in old:
        return {**block, "content": _PLACEHOLDER}
    is_input = inputs is True or (inputs and block.get("name") in inputs)
    return {**block, "input": {}} if is_input and block.get("id") in old else block
