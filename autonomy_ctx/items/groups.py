"""What in a list of items goes together, and what must stay: the rules every shortening shares.

A cut splits a list in two; a context in hand may also lose items from its middle. Then a call goes
with all its results or not at all, and nothing goes that the conversation still depends on:
instructions, summaries, handoffs, changed configurations, calls that are still running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autonomy_ctx.items.cuts import get_tool_result_id, get_tool_use_ids
from autonomy_ctx.items.events import AgentConfigUpdate, AgentHandoff
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import TextContent, ThinkingContent
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.items.wire import Item

_INSTRUCTING = (ChatRole.SYSTEM, ChatRole.DEVELOPER)


def is_summary(item: Item) -> bool:
    """Whether it stands for items that are gone."""
    return isinstance(item, Summary) or (isinstance(item, Message) and bool(item.extra.get("summary")))


def is_instruction(item: Item) -> bool:
    """Whether it tells the agent what to do: a system or developer message that is no summary."""
    return isinstance(item, Message) and item.role in _INSTRUCTING and not is_summary(item)


def is_structural(item: Item) -> bool:
    """Whether it shapes the conversation and is no turn of it: instructions, handoffs, configurations."""
    return isinstance(item, AgentHandoff | AgentConfigUpdate) or is_instruction(item)


def is_plain(item: Item) -> bool:
    """Whether it is a message that neither calls a tool nor answers a call."""
    return isinstance(item, Message) and item.role is not ChatRole.TOOL and not item.tool_calls


def says_something(message: Message) -> bool:
    """Whether it has any content but white space."""
    if isinstance(message.content, str):
        return bool(message.content.strip())
    return any(not isinstance(part, TextContent) or part.text.strip() for part in message.parts)


def users(items: Sequence[Item]) -> list[int]:
    """Where users speak."""
    return [
        index for index, item in enumerate(items) if isinstance(item, Message) and item.role is ChatRole.USER
    ]


def results_of_calls(items: Sequence[Item]) -> dict[int, int]:
    """For the index of every result that has a call before it, the index of that call.

    An id used twice: a result belongs to the latest call before it, also when it comes twice.
    """
    calls: dict[str, int] = {}
    found: dict[int, int] = {}
    for index, item in enumerate(items):
        if not isinstance(item, Message):
            continue
        calls.update(dict.fromkeys(get_tool_use_ids(item), index))
        result = get_tool_result_id(item)
        if result and result in calls:
            found[index] = calls[result]
    return found


def running_calls(items: Sequence[Item]) -> set[int]:
    """Where the messages are whose calls may still get a result.

    A call without a result is over when its id was used again, or when the conversation went on
    without it: a user spoke after it and got an answer.
    """
    waiting: dict[str, int] = {}
    user = settled = -1
    for index, item in enumerate(items):
        if not isinstance(item, Message):
            continue
        waiting.update(dict.fromkeys(get_tool_use_ids(item), index))
        waiting.pop(get_tool_result_id(item) or "", None)
        if item.role is ChatRole.USER:
            user = index
        elif item.role is ChatRole.ASSISTANT and is_plain(item) and not is_summary(item):
            settled = user
    return {index for index in waiting.values() if index > settled}


def removable(items: Sequence[Item], *, keep_newest_user: bool = True) -> list[list[int]]:
    """The indexes of what may go, in groups that go together, oldest first; linear time."""
    calls, running = results_of_calls(items), running_calls(items)
    newest = max(users(items), default=-1) if keep_newest_user else -1
    heads = _heads(items, calls)
    groups: dict[int, list[int]] = {}
    whole: set[int] = set()
    for index, item in enumerate(items):
        if index in running:
            whole.add(heads[index])
        elif index == newest or is_summary(item) or is_structural(item):
            # Its other half would be left alone.
            if index in calls or (isinstance(item, Message) and get_tool_use_ids(item)):
                whole.add(heads[index])
        else:
            groups.setdefault(heads[index], []).append(index)
    return sorted(group for head, group in groups.items() if head not in whole)


def _heads(items: Sequence[Item], calls: Mapping[int, int]) -> list[int]:
    """For every item, the index of the one that its group is named after."""
    heads = [calls.get(index, index) for index in range(len(items))]
    answer = None
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if not isinstance(item, Message):
            continue
        # Thinking that was stored as a message of its own stays with the answer that follows it.
        if answer is not None and _only_thinking(item):
            heads[index] = heads[answer]
        answer = index if item.role is ChatRole.ASSISTANT else None
    return heads


def _only_thinking(message: Message) -> bool:
    if message.role is not ChatRole.ASSISTANT or message.tool_calls or isinstance(message.content, str):
        return False
    return bool(message.parts) and all(isinstance(part, ThinkingContent) for part in message.parts)
