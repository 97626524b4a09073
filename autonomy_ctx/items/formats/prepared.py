"""What every provider can take: each call with its result right after it, and no half without the other.

Memory keeps what happened, and what happened may be odd: a process died between a call and its
result, a user spoke in between, a window lost the call. Providers refuse that, so it is repaired here,
on the way out, and each repair is named. Memory is never touched.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.names import LONGEST, CallIds
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import TextContent
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.items.untrusted import delimited, nonce

INTERRUPTED = "interrupted: there is no result of this call"
NOT_SHOWN = "not shown: this call has a result, which is left out here"
RECORD = "summary"


@dataclass(frozen=True, slots=True)
class Prepared:
    """Messages that a format can write down one after the other, and what was mended in them."""

    messages: list[Message]
    repairs: tuple[str, ...] = ()


def prepared(
    messages: Sequence[Message], *, answered: Collection[str] = (), longest_id: int = LONGEST
) -> Prepared:
    """The messages with every call answered once, right after it; a summary as a record, not a rule.

    Each call has an id that providers take and that no other call has. `answered` are ids, as memory
    has them, of calls whose results are known to exist although they are not among the messages.
    """
    repairs: list[str] = []
    results = _results(messages, repairs)
    ids = CallIds(longest_id)
    renamed: list[str] = []
    out: list[Message] = []
    for index, message in enumerate(messages):
        if message.role is ChatRole.TOOL:
            continue
        if message.role is not ChatRole.ASSISTANT or not message.tool_calls:
            out.append(_record(message) if isinstance(message, Summary) else message)
            continue
        calls = _with_ids(message, ids, renamed)
        same = calls == message.tool_calls
        out.append(message if same else replace(message, tool_calls=calls))
        for call, own in zip(calls, message.tool_calls, strict=True):
            # Of calls with one id in a message, the first has the result.
            found = results.pop((index, own.id or ""), None) or _stand_in(call, own, answered, repairs)
            out.append(_for_call(found, call))
    return Prepared(out, tuple(repairs + renamed))


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


def _with_ids(message: Message, ids: CallIds, renamed: list[str]) -> tuple[ToolCall, ...]:
    """The calls of a message, all with an id of their own: providers pair calls and results by it."""
    calls: list[ToolCall] = []
    for number, call in enumerate(message.tool_calls):
        known = call.id or f"call-{message.id}-{number}"
        sent = ids.new(known)
        if sent != known:
            renamed.append(f"the call {known!r} is sent as {sent!r}")
        calls.append(call if sent == call.id else replace(call, id=sent))
    return tuple(calls)


def _stand_in(call: ToolCall, own: ToolCall, answered: Collection[str], repairs: list[str]) -> Message:
    """What stands where a result should be."""
    name = own.id or call.id
    if own.id is not None and own.id in answered:
        repairs.append(f"the result of call {name!r} of `{call.name}` is not in the context: said so")
        return Message("tool", NOT_SHOWN)
    repairs.append(f"call {name!r} of `{call.name}` has no result: answered as interrupted")
    return Message("tool", INTERRUPTED, is_error=True)


def _for_call(result: Message, call: ToolCall) -> Message:
    name = result.name or call.name
    if result.tool_call_id == call.id and result.name == name:
        return result
    return replace(result, tool_call_id=call.id, name=name)


def _record(summary: Summary) -> Message:
    """A summary as data in a user's message: what was said must not gain the authority of a rule.

    One part for each segment, with marks of its own: those before a new one stay the same, and with
    them what a provider has cached.
    """
    texts = [segment.text for segment in summary.segments]
    parts = [TextContent(delimited(RECORD, text, nonce(text))) for text in texts]
    return Message("user", parts, id=summary.id, created_at=summary.created_at)
