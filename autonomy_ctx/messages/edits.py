"""Pure functions that edit a history: truncate, filter, insert, merge, and find the active configuration.

Each takes a list of items and returns a new list; items are frozen and shared. No function separates a
call from its results, and `truncate_items` reports how far the result is still over the limits.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.messages.cuts import (
    find_tool_pair_boundary,
    has_content,
    is_instruction,
    is_plain,
    is_structural,
    match_results_to_calls,
    removable_groups,
    user_indexes,
)
from autonomy_ctx.messages.events import AgentConfigUpdate, AgentHandoff, DirectMessage
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.tokens import PER_MESSAGE, TokenCounter
from autonomy_ctx.messages.wire import Item
from autonomy_ctx.validation import check_int


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncation:
    """Items that a truncation left, and how far they are over the limits."""

    items: list[Item]
    over_items: int = 0
    over_tokens: int = 0

    @property
    def limits_met(self) -> bool:
        """True when no limit is exceeded."""
        return not self.over_items and not self.over_tokens


def truncate_items(
    items: Sequence[Item],
    *,
    max_items: int | None = None,
    max_tokens: int | None = None,
    counter: TokenCounter,
) -> Truncation:
    """The items without the oldest that may go, as many as it takes to meet the limits.

    A call goes with its results. Instructions, summaries, handoffs, configurations, calls still
    running and the newest user message stay, even when that is too much.
    """
    check_int("max_items", max_items, least=0, optional=True)
    check_int("max_tokens", max_tokens, least=0, optional=True)
    costs = [0] * len(items) if max_tokens is None else [item_tokens(item, counter) for item in items]
    count, cost = len(items), sum(costs)
    scale = counter.calibration.scale

    def over_items() -> int:
        return 0 if max_items is None else max(count - max_items, 0)

    def over_tokens() -> int:
        return 0 if max_tokens is None else max(scale(cost) - max_tokens, 0)

    left = list(items)
    if over_items() or over_tokens():
        gone: set[int] = set()
        for group in removable_groups(items):
            gone.update(group)
            count -= len(group)
            cost -= sum(costs[index] for index in group)
            if not over_items() and not over_tokens():
                break
        left = [item for index, item in enumerate(items) if index not in gone]
    return Truncation(items=left, over_items=over_items(), over_tokens=over_tokens())


def item_tokens(item: Item, counter: TokenCounter) -> int:
    """Tokens of an item as a model is shown it, before calibration."""
    if isinstance(item, Message):
        return counter.count_uncalibrated(item)
    match item:
        case AgentHandoff():
            texts = [item.from_agent, item.to_agent, item.reason]
        case AgentConfigUpdate():
            texts = [item.instructions, *(item.tools or ())]
        case DirectMessage():
            texts = [item.source_agent, item.content]
    return PER_MESSAGE + sum(counter.text_counter.count(text) for text in texts if text)


# -- picking ------------------------------------------------------------------------------------------


def turn_start(items: Sequence[Item], turns: int) -> int:
    """Where the last `turns` user turns begin; earlier if a result would lose its call there."""
    check_int("turns", turns, least=0)
    spoken = user_indexes(items)
    if turns and len(spoken) <= turns:
        return 0
    start = spoken[-turns] if turns else len(items)
    where = [index for index, item in enumerate(items) if isinstance(item, Message)]
    before = sum(index < start for index in where)
    safe = find_tool_pair_boundary([item for item in items if isinstance(item, Message)], before)
    return start if safe == before else where[safe]


def recent_turns(items: Sequence[Item], turns: int) -> list[Item]:
    """The last so many user turns and all structural items before them, in order."""
    start = turn_start(items, turns)
    return [item for index, item in enumerate(items) if index >= start or is_structural(item)]


def filter_items(
    items: Sequence[Item],
    *,
    exclude_system_messages: bool = False,
    exclude_instructions: bool = False,
    exclude_empty_messages: bool = False,
    exclude_handoffs: bool = False,
    exclude_config_updates: bool = False,
    tools: Iterable[Any] | None = None,
    filter_agent_id: str | None = None,
) -> list[Item]:
    """The items that pass every filter given; a result goes where its call goes.

    `tools` keeps only calls of these (names, or objects with a `name`), an empty list none at all.
    With `filter_agent_id`, structural items of other agents stay.
    """
    allowed = None if tools is None else set(tool_names(tools))
    results = match_results_to_calls(items)
    kept: dict[int, Item] = {}

    def excluded(item: Item) -> bool:
        match item:
            case AgentHandoff():
                return exclude_handoffs
            case AgentConfigUpdate():
                return exclude_config_updates
            case Message() if is_instruction(item):
                system = exclude_system_messages and item.role is ChatRole.SYSTEM
                return system or exclude_instructions or (exclude_empty_messages and not has_content(item))
            case Message() if is_plain(item) and exclude_empty_messages and not has_content(item):
                return True
        return filter_agent_id is not None and item.agent != filter_agent_id

    for index, item in enumerate(items):
        call = kept.get(results[index]) if index in results else None
        if isinstance(call, Message) and isinstance(item, Message):
            if any(made.id == item.tool_call_id for made in call.tool_calls):
                kept[index] = item
        elif index not in results and not excluded(item):
            left = item if allowed is None else _keep_allowed_calls(item, allowed)
            if left is not None:
                kept[index] = left
    return list(kept.values())


def tool_names(tools: Iterable[Any]) -> list[str]:
    """The names of tools that are given by name or as objects with a `name`."""
    if isinstance(tools, str):
        raise TypeError("tools must be a list of tools, not one string")
    names = [tool if isinstance(tool, str) else getattr(tool, "name", None) for tool in tools]
    for index, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"tools[{index}] must be a name or an object with a `name`")
    return [name for name in names if isinstance(name, str)]


def _keep_allowed_calls(item: Item, allowed: Container[str]) -> Item | None:
    """The item with only the calls of allowed tools; None if nothing is left."""
    if not isinstance(item, Message):
        return item
    if item.role is ChatRole.TOOL:
        return item if item.name in allowed else None
    calls = tuple(call for call in item.tool_calls if call.name in allowed)
    if len(calls) == len(item.tool_calls):
        return item
    return replace(item, tool_calls=calls) if calls or has_content(item) else None


# -- putting together ---------------------------------------------------------------------------------


def insert_items(items: Sequence[Item], *new: Item) -> list[Item]:
    """The items with new ones inserted by time: each before the first later item."""
    by_time = attrgetter("created_at")
    return list(merge(items, sorted(new, key=by_time), key=by_time))


def merge_items(mine: Sequence[Item], other: Sequence[Item]) -> list[Item]:
    """All items of both, each id once, in the order of time; equal times stay in their order.

    An item that was edited in `other` (same id and time, other content) takes the place of mine. Other
    content under the same id from another time is a `ConflictingMessage`.
    """
    found = {item.id: index for index, item in enumerate(mine)}
    together = list(mine)
    for item in other:
        index = found.setdefault(item.id, len(together))
        if index == len(together):
            together.append(item)
        elif not _covers(together[index], item):
            if type(item) is not type(together[index]) or item.created_at != together[index].created_at:
                raise ConflictingMessage(message_id=item.id, position=index)
            together[index] = item
    # A clock may be set back while a tool runs; its result stays behind the call all the same.
    times = [item.created_at for item in together]
    for result, call in match_results_to_calls(together).items():
        times[result] = max(times[result], times[call])
    order = sorted(range(len(together)), key=times.__getitem__)
    return [together[index] for index in order]


def _covers(mine: Item, theirs: Item) -> bool:
    """True if my item contains everything of theirs; a filter may have removed calls from theirs."""
    if theirs is mine or theirs == mine:
        return True
    if type(mine) is not Message or type(theirs) is not Message:
        return False
    if not set(theirs.tool_calls) <= set(mine.tool_calls):
        return False
    agent = mine.agent if theirs.agent is None else theirs.agent
    return replace(theirs, tool_calls=mine.tool_calls, agent=agent) == mine


# -- configuration ------------------------------------------------------------------------------------


class ActiveConfig(NamedTuple):
    """The instructions and the tools that apply at some point; None if nothing was set."""

    instructions: str | None
    tools: list[str] | None


def active_config(
    items: Sequence[Item], target: str | int | None = None, *, ignored_ids: Container[str] = ()
) -> ActiveConfig:
    """The configuration after the item with this id or index; an unknown id and None mean the end.

    `ignored_ids` holds ids of items that are records of what another agent was told.
    """
    instructions: str | None = None
    tools: list[str] | None = None
    for item in islice(items, _target_end(items, target)):
        if item.id in ignored_ids:
            continue
        if isinstance(item, AgentConfigUpdate):
            instructions = item.instructions if item.instructions is not None else instructions
            tools = list(item.tools) if item.tools is not None else tools
        elif isinstance(item, Message) and is_instruction(item):
            instructions = item.text
    return ActiveConfig(instructions, tools)


def _target_end(items: Sequence[Item], target: str | int | None) -> int:
    match target:
        case None:
            return len(items)
        case str():
            return next((index + 1 for index, item in enumerate(items) if item.id == target), len(items))
        case int():
            # As in a list, -1 is the last item.
            return max((target if target >= 0 else len(items) + target) + 1, 0)
    raise TypeError(f"target must be an item's id, an index or None, not {type(target).__name__}")
