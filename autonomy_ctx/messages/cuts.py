"""Where a history may be cut, and which items belong together.

A cut never separates a tool call from its result. Items removed from the middle go in whole groups.
Instructions, summaries, handoffs, configuration changes, calls that still run and the newest user
message are never removed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from autonomy_ctx.messages import wire
from autonomy_ctx.messages.events import AgentConfigUpdate, AgentHandoff
from autonomy_ctx.messages.message import (
    ASSISTANT,
    TOOL,
    USER,
    ChatRole,
    Message,
    TextContent,
    ThinkingContent,
)
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.wire import Item

# How many messages a window looks back for the call of a result: one that is further away has lost it.
MAX_CALL_LOOKBACK = 1024
# In `extra` of a system message that asks for the answer of one turn.
OUTPUT_REQUEST = "output_request"
_INSTRUCTION_ROLES = (ChatRole.SYSTEM, ChatRole.DEVELOPER)


def is_summary(item: Item) -> bool:
    """True for an item that replaces others, which are gone."""
    return isinstance(item, Summary) or (isinstance(item, Message) and bool(item.extra.get("summary")))


def is_instruction(item: Item) -> bool:
    """True for a system or developer message that is not a summary."""
    return isinstance(item, Message) and item.role in _INSTRUCTION_ROLES and not is_summary(item)


def is_structural(item: Item) -> bool:
    """True for an instruction that is not for one turn only, a handoff or a configuration."""
    if isinstance(item, Message) and OUTPUT_REQUEST in item.extra:
        return False
    return isinstance(item, AgentHandoff | AgentConfigUpdate) or is_instruction(item)


def is_plain(item: Item) -> bool:
    """True for a message that neither calls a tool nor answers a call."""
    return isinstance(item, Message) and item.role is not ChatRole.TOOL and not item.tool_calls


def has_content(message: Message) -> bool:
    """True for a message with any content but white space."""
    if isinstance(message.content, str):
        return bool(message.content.strip())
    return any(not isinstance(part, TextContent) or part.text.strip() for part in message.parts)


def user_indexes(items: Sequence[Item]) -> list[int]:
    """Where users speak."""
    return [
        index for index, item in enumerate(items) if isinstance(item, Message) and item.role is ChatRole.USER
    ]


def newest_user_index(items: Sequence[Item]) -> int | None:
    """Where the newest message of a user stands; None when there is none."""
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if isinstance(item, Message) and item.role is ChatRole.USER:
            return index
    return None


def match_results_to_calls(items: Sequence[Item]) -> dict[int, int]:
    """For the index of every result that has a call before it, the index of that call.

    An id used twice: a result belongs to the latest call before it, also when it comes twice.
    """
    return {result: call for call, result in _match_tool_pairs(items).spans}


def running_calls(items: Sequence[Item]) -> set[int]:
    """Where the messages are whose calls may still get a result.

    A call without a result is over when its id was used again, or when the conversation went on
    without it: a user spoke after it and got an answer.
    """
    pairs = _match_tool_pairs(items)
    if not pairs.unanswered:
        return set()
    newest_user = settled = -1
    for index, item in enumerate(items):
        if not isinstance(item, Message):
            continue
        if item.role is USER:
            newest_user = index
        elif item.role is ASSISTANT and not item.tool_calls and not is_summary(item):
            settled = newest_user
    return {index for call, index in pairs.unanswered if index > settled and pairs.calls[call] == index}


def removable_groups(items: Sequence[Item], *, keep_newest_user: bool = True) -> list[list[int]]:
    """The indexes of what may go, in groups that go together, oldest first; linear time."""
    calls, heads = match_results_to_calls(items), list(range(len(items)))
    for result, call in calls.items():
        heads[result] = call
    said = [(index, item) for index, item in enumerate(items) if isinstance(item, Message)]
    # From the end: several thoughts in a row stay with the same answer.
    for (index, thought), (answer, message) in reversed(list(pairwise(said))):
        if _only_thinking(thought) and message.role is ASSISTANT:
            heads[index] = heads[answer]
    found = newest_user_index(items)
    newest_user = -1 if found is None else found
    staying = {index for index, item in enumerate(items) if is_summary(item) or is_structural(item)}
    # What asks for the answer of the newest turn: that goes on.
    staying.update(at for at, one in said if at > newest_user and OUTPUT_REQUEST in one.extra)
    if keep_newest_user:
        staying.add(newest_user)
    running = running_calls(items)
    whole = {heads[index] for index in running}
    for index in staying - running:
        # Its other half would be left alone.
        item = items[index] if index >= 0 else None
        if index in calls or (isinstance(item, Message) and get_tool_use_ids(item)):
            whole.add(heads[index])
    staying |= running
    groups: dict[int, list[int]] = {}
    for index, head in enumerate(heads):
        if index not in staying and head not in whole:
            groups.setdefault(head, []).append(index)
    return list(groups.values())


def safe_cuts(messages: Sequence[Message | Mapping[str, Any]]) -> list[int]:
    """All indexes from 0 to len(messages) where a cut is safe, in order; 0 is always safe.

    The end is not safe while the last call still waits for its result.
    """
    made = [wire.from_dict(message) for message in messages]
    return [index for index, blocked in enumerate(_blocked_cuts(made)) if not blocked]


def find_window_start(messages: Sequence[Message], limit: int) -> int:
    """Where a window of at most `limit` messages may start.

    When no safe cut leaves that few, the window is the last group that cannot be divided.
    """
    first = max(len(messages) - limit, 0)
    if first == 0:
        return 0
    blocked = _blocked_cuts(messages)
    later = next((at for at in range(first, len(messages)) if not blocked[at]), None)
    if later is not None:
        return later
    return next(at for at in range(first, -1, -1) if not blocked[at])


def orphaned_results(messages: Sequence[Message]) -> set[str]:
    """The ids of results whose call does not stand before them in `messages`."""
    return set(_match_tool_pairs(messages).orphans)


def validate_tool_pairing(messages: Sequence[Message | Mapping[str, Any]]) -> tuple[bool, str | None]:
    """Check that every result has a call before it and every call a result; if not, say what is wrong."""
    pairs = _match_tool_pairs(messages)
    if pairs.orphans:
        return False, f"Orphaned tool results (no call before them): {sorted(pairs.orphans)}"
    unanswered = sorted({call_id for call_id, _ in pairs.unanswered})
    if unanswered:
        return False, f"Orphaned tool uses (no result after them): {unanswered}"
    return True, None


def find_tool_pair_boundary(messages: Sequence[Message | Mapping[str, Any]], start: int) -> int:
    """`start`, or the nearest earlier index that is not between a call and its result.

    A result may also come before its call, if the call has no result after it.
    """
    if start <= 0 or start >= len(messages):
        return start
    pairs = _match_tool_pairs(messages)
    early = [(result, call) for (_, call), result in pairs.early.items()]
    crossed = _count_crossings(len(messages), pairs.spans + early)
    return next((at for at in range(start, 0, -1) if not crossed[at]), 0)


def find_safe_trim_count(messages: Sequence[Message | Mapping[str, Any]], count: int) -> int:
    """Number of the first `count` messages that can go without separating a call from its result."""
    count = max(0, min(count, len(messages)))
    return find_tool_pair_boundary(messages, count)


def get_tool_use_ids(message: Message | Mapping[str, Any]) -> list[str]:
    """The ids of the calls an assistant message makes; calls without an id are left out."""
    if isinstance(message, Message):
        if message.role is not ASSISTANT:
            return []
        return [call.id for call in message.tool_calls if call.id]
    if message.get("role") != "assistant":
        return []
    calls = message.get("tool_calls") or []
    return [call["id"] for call in calls if isinstance(call, Mapping) and call.get("id")]


def get_tool_result_id(message: Message | Mapping[str, Any]) -> str | None:
    """The id of the call that a tool message answers."""
    if isinstance(message, Message):
        return message.tool_call_id if message.role is TOOL else None
    found = message.get("tool_call_id") if message.get("role") == "tool" else None
    return found if isinstance(found, str) else None


class _ToolPairs:
    """Calls matched with their results."""

    def __init__(self) -> None:
        self.calls: dict[str, int] = {}
        # By id and index, in order: a dict serves as an ordered set.
        self.unanswered: dict[tuple[str, int], None] = {}
        self.spans: list[tuple[int, int]] = []
        # By id, the first of the results that have no call before them.
        self.orphans: dict[str, int] = {}
        # By id and index, the calls whose result stands before them, and where that is.
        self.early: dict[tuple[str, int], int] = {}


def _match_tool_pairs(items: Sequence[Item | Mapping[str, Any]]) -> _ToolPairs:
    pairs = _ToolPairs()
    for index, item in enumerate(items):
        if isinstance(item, Message):
            # Most messages have neither calls nor a result.
            if not item.tool_calls and item.role is not TOOL:
                continue
        elif not isinstance(item, Mapping):
            continue
        for made in get_tool_use_ids(item):
            if made in pairs.orphans and made not in pairs.calls:
                pairs.early[made, index] = pairs.orphans[made]
            pairs.calls[made] = index
            pairs.unanswered[made, index] = None
        result = get_tool_result_id(item)
        # An id used twice: a result belongs to the latest call before it, also when it comes twice.
        call = pairs.calls.get(result or "")
        if result and call is not None:
            pairs.spans.append((call, index))
            pairs.unanswered.pop((result, call), None)
            pairs.early.pop((result, call), None)
        elif result:
            pairs.orphans.setdefault(result, index)
    return pairs


def _blocked_cuts(messages: Sequence[Message]) -> list[bool]:
    """For every index from 0 to len(messages): is a cut there forbidden?"""
    pairs = _match_tool_pairs(messages)
    spans = pairs.spans
    if pairs.unanswered:
        users = [index for index, message in enumerate(messages) if message.role is USER]
        spans = spans + _unanswered_spans([index for _, index in pairs.unanswered], users, len(messages))
    crossed = _count_crossings(len(messages), spans)
    blocked = [number > 0 for number in crossed]
    follows_thinking = False
    for index, message in enumerate(messages):
        role = message.role
        if role is TOOL or (follows_thinking and role is ASSISTANT):
            blocked[index] = True
        follows_thinking = role is ASSISTANT and _only_thinking(message)
    blocked[0] = False
    return blocked


def _only_thinking(message: Message) -> bool:
    if message.role is not ASSISTANT or message.tool_calls or isinstance(message.content, str):
        return False
    return bool(message.parts) and all(isinstance(part, ThinkingContent) for part in message.parts)


def _unanswered_spans(calls: list[int], users: list[int], end: int) -> list[tuple[int, int]]:
    """A span for each call without a result, up to the last message before the next user's."""
    spans: list[tuple[int, int]] = []
    at = 0
    for start in calls:
        while at < len(users) and users[at] < start:
            at += 1
        spans.append((start, users[at] - 1 if at < len(users) else end))
    return spans


def _count_crossings(length: int, spans: list[tuple[int, int]]) -> list[int]:
    """For every index from 0 to length: how many spans a cut there would split."""
    change = [0] * (length + 2)
    for start, stop in spans:
        # Messages `start` and `stop` belong together: no cut at start+1 .. stop.
        change[start + 1] += 1
        change[stop + 1] -= 1
    return list(accumulate(change[: length + 1]))
