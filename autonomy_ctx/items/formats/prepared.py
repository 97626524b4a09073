"""What every provider can take: each call with its result right after it, and no half without the other.

Memory keeps what happened, and what happened may be odd: a process died between a call and its
result, a user spoke in between, a window lost the call. Providers refuse that, so it is repaired here,
on the way out, and each repair is named. Memory is never touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import TextContent
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.items.untrusted import delimited, nonce

INTERRUPTED = "interrupted: there is no result of this call"
RECORD = "summary"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Messages that a format can write down one after the other, and what was mended in them."""

    messages: list[Message]
    repairs: tuple[str, ...] = ()


def prepared(messages: Sequence[Message]) -> Prepared:
    """The messages with every call answered once, right after it; a summary as a record, not a rule."""
    repairs: list[str] = []
    named = [_with_ids(message) for message in messages]
    results = _results(named, repairs)
    out: list[Message] = []
    for index, message in enumerate(named):
        if message.role is ChatRole.TOOL:
            continue
        out.append(_record(message) if isinstance(message, Summary) else message)
        for call in message.tool_calls if message.role is ChatRole.ASSISTANT else ():
            found = results.get((index, call.id or ""))
            if found is None:
                repairs.append(f"call {call.id!r} of `{call.name}` has no result: answered as interrupted")
                found = Message("tool", INTERRUPTED, tool_call_id=call.id, name=call.name, is_error=True)
            out.append(found if found.name else replace(found, name=call.name))
    return Prepared(out, tuple(repairs))


def _results(messages: Sequence[Message], repairs: list[str]) -> dict[tuple[int, str], Message]:
    """Results by the index of the message that called, and the call's id; the latest of several counts."""
    calls: dict[str, int] = {}
    results: dict[tuple[int, str], Message] = {}
    for index, message in enumerate(messages):
        if message.role is ChatRole.ASSISTANT:
            calls.update({call.id: index for call in message.tool_calls if call.id})
        elif message.role is ChatRole.TOOL:
            name = message.tool_call_id or ""
            if name not in calls:
                repairs.append(f"a result for {message.tool_call_id!r} has no call before it: left out")
                continue
            if (calls[name], name) in results:
                repairs.append(f"call {name!r} was answered twice: the later result is shown")
            results[calls[name], name] = message
    return results


def _with_ids(message: Message) -> Message:
    """A message whose calls all have an id of their own; providers want one to pair them by."""
    if message.role is not ChatRole.ASSISTANT or not message.tool_calls:
        return message
    seen: set[str] = set()
    calls: list[ToolCall] = []
    for number, call in enumerate(message.tool_calls):
        if not call.id or call.id in seen:
            call = replace(call, id=f"call-{message.id}-{number}")
        seen.add(call.id or "")
        calls.append(call)
    if calls == list(message.tool_calls):
        return message
    return replace(message, tool_calls=tuple(calls))


def _record(summary: Summary) -> Message:
    """A summary as data in a user's message: what was said must not gain the authority of a rule.

    One part for each segment, with marks of its own: those before a new one stay the same, and with
    them what a provider has cached.
    """
    texts = [segment.text for segment in summary.segments]
    parts = [TextContent(delimited(RECORD, text, nonce(text))) for text in texts]
    return Message("user", parts, id=summary.id, created_at=summary.created_at)
