"""A conversation as an object: `ChatContext` to add, copy, merge and shorten, `ChatView` to read.

Both share one `ItemList`, so that a view shows later changes too.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeGuard, TypeVar

import anyio.to_thread

from autonomy_ctx.containers.chat_export import (
    as_google,
    items_from_dict,
    merged_from_dict,
    turn_ends,
    visible_messages,
    write_item,
)
from autonomy_ctx.containers.chat_summary import (
    CONVERSATION_SUMMARY,
    DEFAULT_MAX_TOKENS,
    SUB_AGENT_SUMMARY,
    summarize_items,
)
from autonomy_ctx.errors import ConflictingMessage, InvalidMessage, LimitNotMet, SummaryFailed
from autonomy_ctx.formats.any_reply import read_message
from autonomy_ctx.messages.cuts import (
    has_content,
    is_instruction,
    is_plain,
    is_summary,
    removable_groups,
    user_indexes,
)
from autonomy_ctx.messages.edits import (
    ActiveConfig,
    active_config,
    filter_items,
    insert_items,
    item_tokens,
    merge_items,
    tool_names,
    truncate_items,
    turn_start,
)
from autonomy_ctx.messages.edits import recent_turns as last_turns
from autonomy_ctx.messages.events import AgentConfigUpdate, AgentHandoff
from autonomy_ctx.messages.message import ChatRole, Message, check_call_id, new_id, now
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import nonce
from autonomy_ctx.messages.wire import Item, split_blocks
from autonomy_ctx.models.call import ChatModel
from autonomy_ctx.validation import check_int

if TYPE_CHECKING:
    from autonomy_ctx.formats.anthropic import AnthropicMessages
    from autonomy_ctx.formats.google import GoogleContents

logger = logging.getLogger("autonomy_ctx.containers")

AnyItem = TypeVar("AnyItem", bound=Item)


class ItemList:
    """The items of one context, shared with its views."""

    __slots__ = ("_ids", "items", "merged")

    def __init__(self, items: Iterable[Item], merged: Iterable[str] = ()) -> None:
        self.items = list(items)
        # Ids of instructions that a merge brought in: records of what another agent was told.
        self.merged = set(merged)
        self._ids: dict[str, Item] | None = None

    def find(self, item_id: str) -> Item | None:
        """The first item with this id."""
        if self._ids is None:
            # Made when first asked for, so that a fork costs no more than a list.
            self._ids = {item.id: item for item in reversed(self.items)}
        return self._ids.get(item_id)

    def append(self, item: Item) -> None:
        self.items.append(item)
        if self._ids is not None:
            self._ids.setdefault(item.id, item)

    def replace(self, items: Iterable[Item], merged: Iterable[str] = ()) -> None:
        """Hold these items instead, from now on and all at once."""
        self.items = list(items)
        self.merged.update(merged)
        self._ids = None
        if self.merged:
            self.merged = {item.id for item in self.items if item.id in self.merged}


class ChatView:
    """A read-only view of a `ChatContext`; it always shows the current items."""

    def __init__(self, item_list: ItemList, token_counter: TokenCounter) -> None:
        self._list = item_list
        self.token_counter = token_counter

    @property
    def items(self) -> list[Item]:
        """All items, in a list that belongs to the caller."""
        return list(self._list.items)

    @property
    def merged_instructions(self) -> frozenset[str]:
        """Ids of instructions and configurations that `merge` added: a record, they do not apply here."""
        return frozenset(self._list.merged)

    def __len__(self) -> int:
        return len(self._list.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __contains__(self, item: object) -> bool:
        return item in self._list.items

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChatView):
            return NotImplemented
        return self._list.items == other._list.items and self._list.merged == other._list.merged

    __hash__ = None  # type: ignore[assignment]  # equal by content, and the content changes

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} items, {self.turn_count()} turns)"

    def get_by_id(self, item_id: str) -> Item | None:
        """The item with this id, or None."""
        return self._list.find(item_id)

    def messages(self) -> list[Message]:
        """The messages of users and agents, without tool calls, tool results and events."""
        return [item for item in self._list.items if isinstance(item, Message) and is_plain(item)]

    def turn_count(self) -> int:
        """The number of messages that users sent."""
        return len(user_indexes(self._list.items))

    def estimated_tokens(self) -> int:
        """About how many tokens a model would read, in any script."""
        raw = sum(item_tokens(item, self.token_counter) for item in self._list.items)
        return self.token_counter.calibration.scale(raw)

    def active_config_at(self, target: str | int | None = None) -> ActiveConfig:
        """The instructions and tools that apply after an item, given by id or index; None means the end.

        The latest system or developer message or configuration wins. An unknown id means the end too. Items
        that `merge` added were for another agent and do not count.
        """
        return active_config(self._list.items, target, ignored_ids=self._list.merged)

    def to_openai_messages(self, *, reasoning_model: bool = False) -> list[dict[str, Any]]:
        """The messages as OpenAI's chat completions take them.

        As in the other formats, handoffs, configurations, direct messages and merged instructions are left
        out. What the provider would reject is repaired in the result, not in the context.
        """
        # Formats are imported when first asked for: most contexts never need them.
        from autonomy_ctx.formats.openai import ChatWriter
        from autonomy_ctx.formats.outgoing import replace_json_surrogates

        messages = visible_messages(self._list.items, self._list.merged)
        made = ChatWriter(reasoning_model=reasoning_model).write(messages)
        return [replace_json_surrogates(message) for message in made]

    def to_anthropic_messages(self, *, caching: bool = False) -> AnthropicMessages:
        """`messages` and `system` as Anthropic takes them.

        Roles alternate, and the first and the last message are the user's.

        With `caching`, the latest turns get cache breakpoints.
        """
        from autonomy_ctx.formats.anthropic import anthropic_messages

        messages = visible_messages(self._list.items, self._list.merged)
        return anthropic_messages(messages, breakpoints=turn_ends(messages) if caching else ())

    async def to_google_contents(
        self, *, thought_signatures: Mapping[str, str | bytes] | None = None, model: str | None = None
    ) -> GoogleContents:
        """`contents` and `system` as Gemini takes them.

        `thought_signatures`, by call id, are for calls that have none. If `model` refuses calls without a
        signature, the remaining calls are marked as made elsewhere.
        """
        write = partial(as_google, thought_signatures=thought_signatures, model=model)
        # A long context takes longer than the loop should be held.
        return await anyio.to_thread.run_sync(write, self.items, self.merged_instructions)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON that `ChatContext.from_dict` reads."""
        data: dict[str, Any] = {"items": list(map(write_item, self._list.items))}
        return data | {"merged": sorted(self._list.merged)} if self._list.merged else data


class OverLimit(NamedTuple):
    """By how much a context is over the limits of its last truncation."""

    items: int
    tokens: int


class ChatContext(ChatView):
    """An ordered list of messages, handoffs, configuration changes and direct messages.

    A function call is an assistant message with one tool call, and its output is a tool message. Adding an
    item with a known id and other content raises `ConflictingMessage`.
    """

    # What `truncate` could not remove; None when its limits were met.
    over: OverLimit | None = None

    def __init__(
        self,
        items: Iterable[Item] | None = None,
        *,
        token_counter: TokenCounter | None = None,
        clock: Callable[[], datetime] = now,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        super().__init__(ItemList(map(_check_item, items or ())), token_counter or TokenCounter())
        self._clock, self._new_id = clock, new_id

    @classmethod
    def empty(cls) -> Self:
        """A context with nothing in it."""
        return cls()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The context from the result of `to_dict`; calls and outputs may also be separate items."""
        made = cls()
        # Not through the constructor: what an earlier version accepted can still be read.
        made._list = ItemList(items_from_dict(data), merged_from_dict(data))
        return made

    def view(self) -> ChatView:
        """A read-only view of this context; it shows later changes too."""
        return ChatView(self._list, self.token_counter)

    def cleanup(self) -> None:
        """Remove all items from this context; forks and copies keep theirs."""
        self._list.replace([])

    # -- adding ------------------------------------------------------------------------------------

    def add_message(
        self,
        role: ChatRole | str,
        content: Any,
        message_id: str | None = None,
        created_at: datetime | str | float | None = None,
        replace: bool = False,
        agent_id: str | None = None,
        **fields: Any,
    ) -> Message:
        """Add a message at the end and return it.

        With `replace`, a system message replaces all earlier system messages. Other fields of a `Message`,
        such as `name`, `phase` and `extra`, are given as keyword arguments.
        """
        message = Message(
            role,
            content,
            id=message_id or self._new_id(),
            created_at=self._clock() if created_at is None else created_at,
            agent=agent_id,
            **fields,
        )
        check_call_id(message)
        replaced = filter(_is_system, self._list.items) if replace and _is_system(message) else ()
        return self._add(message, instead_of=list(replaced))

    def append(self, message: Message | Mapping[str, Any] | Any) -> Message:
        """Add a message, a dict or the reply object of a provider's SDK, and return the message.

        Of a dict that becomes several messages, the last is returned.
        """
        forms = split_blocks(message)
        made = [read_message(form, new_id=self._new_id, now=self._clock) for form in forms]
        for one in made:
            check_call_id(one)
        return [self._add(one) for one in made][-1]

    def user(self, content: Any, **fields: Any) -> Message:
        """Add what a user said."""
        return self.add_message(ChatRole.USER, content, **fields)

    def assistant(
        self,
        content: Any = None,
        tool_calls: Sequence[Any] | None = None,
        **fields: Any,
    ) -> Message:
        """Add what the agent said, called, or both."""
        return self.add_message(ChatRole.ASSISTANT, content, tool_calls=tool_calls or (), **fields)

    def tool(
        self, content: Any, name: str | None = None, tool_call_id: str | None = None, **fields: Any
    ) -> Message:
        """Add what a tool returned."""
        return self.add_message(ChatRole.TOOL, content, name=name, tool_call_id=tool_call_id, **fields)

    def system(self, content: Any, **fields: Any) -> Message:
        """Add instructions."""
        return self.add_message(ChatRole.SYSTEM, content, **fields)

    def add_function_call(
        self,
        name: str,
        arguments: str | Mapping[str, Any],
        call_id: str | None = None,
        agent_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """Add one tool call; `metadata`, such as a thought signature, is stored in its `extra`."""
        extra = None if metadata is None else dict(metadata)
        call = {"id": call_id or f"call_{self._new_id()}", "name": name, "arguments": arguments}
        return self.assistant(tool_calls=[call | {"extra": extra}], agent_id=agent_id)

    def add_function_output(
        self, name: str, output: Any, call_id: str, is_error: bool = False, agent_id: str | None = None
    ) -> Message:
        """Add the result of a call."""
        return self.tool(output, name, call_id, is_error=is_error, agent_id=agent_id)

    def add_handoff(
        self,
        to_agent: str,
        from_agent: str | None = None,
        reason: str | None = None,
        agent_id: str | None = None,
    ) -> AgentHandoff:
        """Add a handoff from one agent to another."""
        return self._add(
            AgentHandoff(to_agent=to_agent, from_agent=from_agent, reason=reason, **self._stamps(agent_id))
        )

    def add_config_update(
        self,
        instructions: str | None = None,
        tools: Iterable[Any] | None = None,
        agent_id: str | None = None,
    ) -> AgentConfigUpdate:
        """Add a change of instructions or tools; tools are names or objects with a `name`."""
        names = None if tools is None else tuple(tool_names(tools))
        return self._add(AgentConfigUpdate(instructions=instructions, tools=names, **self._stamps(agent_id)))

    def insert(self, item: AnyItem) -> AnyItem:
        """Insert an item by time: before the first later item."""
        self.insert_many([item])
        return item

    def insert_many(self, items: Iterable[Item]) -> Self:
        """Insert items by time, all or none."""
        fresh: dict[str, Item] = {}
        for item in map(_check_item, items):
            known = fresh.get(item.id) or self._list.find(item.id)
            if known is None:
                fresh[item.id] = item
            else:
                self._check_same(known, item)
        if fresh:
            self._list.replace(insert_items(self._list.items, *fresh.values()))
        return self

    def _add(self, item: AnyItem, instead_of: Sequence[Item] = ()) -> AnyItem:
        known = self._list.find(item.id)
        gone = set(map(id, instead_of))
        if known is not None and id(known) not in gone:
            self._check_same(known, item)
            return item
        if gone:
            self._list.replace([other for other in self._list.items if id(other) not in gone])
        self._list.append(item)
        return item

    def _stamps(self, agent_id: str | None) -> dict[str, Any]:
        return {"id": self._new_id(), "created_at": self._clock(), "agent": agent_id}

    def _check_same(self, known: Item, item: Item) -> None:
        if known != item:
            raise ConflictingMessage(message_id=item.id, position=self._list.items.index(known))

    # -- copies -----------------------------------------------------------------------------------

    def copy(
        self,
        *,
        exclude_system_messages: bool = False,
        exclude_instructions: bool = False,
        exclude_empty_messages: bool = False,
        exclude_handoffs: bool = False,
        exclude_config_updates: bool = False,
        tools: Iterable[Any] | None = None,
        filter_agent_id: str | None = None,
    ) -> Self:
        """A new context with the items that pass every filter.

        Only calls and results of `tools` (names, or objects with a `name`) stay: None keeps all, an empty
        list none. With `filter_agent_id`, only items of this agent and structural items stay.
        """
        return self._copy_with(
            filter_items(
                self._list.items,
                exclude_system_messages=exclude_system_messages,
                exclude_instructions=exclude_instructions,
                exclude_empty_messages=exclude_empty_messages,
                exclude_handoffs=exclude_handoffs,
                exclude_config_updates=exclude_config_updates,
                tools=tools,
                filter_agent_id=filter_agent_id,
            )
        )

    def fork(self) -> Self:
        """A new context with the same items; changes of one do not affect the other."""
        return self._copy_with(self._list.items)

    __copy__ = fork

    def fork_filtered(self, recent_turns: int = 3, tools: Iterable[Any] | None = None) -> Self:
        """A fork with the structural items and the last user turns; `tools` as in `copy`."""
        check_int("recent_turns", recent_turns)
        return self._copy_with(last_turns(filter_items(self._list.items, tools=tools), recent_turns))

    def fork_brief(
        self, instructions: str, task_brief: str | None = None, agent_id: str | None = None
    ) -> Self:
        """A new context with instructions for a sub-agent and maybe its task, and no history."""
        if not instructions:
            raise ValueError("fork_brief() requires non-empty instructions")
        made = self._copy_with([])
        made.system(instructions, agent_id=agent_id)
        if task_brief:
            made.user(task_brief, agent_id=agent_id)
        return made

    def _copy_with(self, items: Iterable[Item]) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._list = ItemList(items, self._list.merged)
        made.over = None
        return made

    # -- merging ----------------------------------------------------------------------------------

    async def merge(self, other: ChatView) -> Self:
        """Add all items of a sub-agent's context, in the order of time, each id once.

        The sub-agent's instructions and configurations are kept as a record in `merged_instructions` and do
        not apply here. An item that was edited in `other` replaces the one here.
        """
        items = _items_of(other)
        new = [item for item in items if self._list.find(item.id) is None]
        instructions = [
            item.id for item in new if is_instruction(item) or isinstance(item, AgentConfigUpdate)
        ]
        self._list.replace(merge_items(self._list.items, items), instructions)
        return self

    async def merge_result(self, other: ChatView, *, agent_id: str | None = None) -> Self:
        """Add only the last answer of a sub-agent at the end, unless it is already here."""
        final = next((item for item in reversed(_items_of(other)) if _is_answer(item)), None)
        if final is not None and self._list.find(final.id) is None:
            self._list.append(final if agent_id is None else replace(final, agent=agent_id))
        return self

    async def merge_with_summary(
        self,
        other: ChatView,
        *,
        llm: ChatModel,
        agent_id: str | None = None,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        strict: bool = False,
    ) -> Self:
        """Add a summary of the sub-agent's new items at the end.

        The same items are not summarized twice. If no summary can be written, nothing changes and a warning
        is logged; with `strict`, `SummaryFailed` is raised.
        """
        work = [item for item in _items_of(other) if self._list.find(item.id) is None]
        # Named after what it stands for: merging the same work again finds it.
        summary_id = f"summary_{nonce(*(item.id for item in work))}"
        if self._list.find(summary_id) is not None:
            return self
        text = await self._try_summary(work, (), llm, max_tokens, strict)
        if text and self._list.find(summary_id) is None:
            content, extra = SUB_AGENT_SUMMARY + text, {"summary": True}
            self.assistant(content, message_id=summary_id, agent_id=agent_id, extra=extra)
        return self

    # -- shortening -------------------------------------------------------------------------------

    def truncate(
        self, max_items: int | None = None, max_tokens: int | None = None, *, strict: bool = False
    ) -> Self:
        """Remove the oldest items until the limits are met, calls together with their results.

        Structural items, summaries, running calls and the newest user message stay. If they alone are over
        the limit, a warning is logged and `over` has the numbers; with `strict`, nothing is removed and
        `LimitNotMet` is raised.
        """
        found = truncate_items(
            self._list.items, max_items=max_items, max_tokens=max_tokens, counter=self.token_counter
        )
        if not found.limits_met:
            error = LimitNotMet(over_items=found.over_items, over_tokens=found.over_tokens)
            if strict:
                raise error
            logger.warning(
                "a truncated context is still %d items and %d tokens over its limit",
                found.over_items,
                found.over_tokens,
            )
        if len(found.items) < len(self._list.items):
            self._list.replace(found.items)
        self.over = None if found.limits_met else OverLimit(found.over_items, found.over_tokens)
        return self

    async def summarize(
        self,
        llm: ChatModel,
        *,
        keep_recent_turns: int = 3,
        max_tokens: int = DEFAULT_MAX_TOKENS,
        strict: bool = False,
    ) -> Self:
        """Replace everything before the last user turns by one summary that a model writes.

        Structural items and running calls stay; an earlier summary becomes part of the new one. Only items
        that the model was shown are replaced; changes made meanwhile are kept. Without a usable answer
        nothing changes and a warning is logged; with `strict`, `SummaryFailed` is raised.
        """
        check_int("keep_recent_turns", keep_recent_turns, least=0)
        items = self.items
        start = turn_start(items, keep_recent_turns)
        groups = removable_groups(items, keep_newest_user=False)
        old_items = [
            items[index] for index in sorted(at for group in groups if group[-1] < start for at in group)
        ]
        earlier = [item for item in items[:start] if is_summary(item) and is_plain(item)]
        text = await self._try_summary(old_items, earlier, llm, max_tokens, strict) if old_items else None
        if text:
            self._replace_with_summary(old_items, earlier, CONVERSATION_SUMMARY + text)
        return self

    async def _try_summary(
        self,
        old_items: Sequence[Item],
        earlier: Sequence[Item],
        llm: ChatModel,
        max_tokens: int,
        strict: bool,
    ) -> str | None:
        try:
            return await summarize_items(
                old_items, llm, earlier=earlier, counter=self.token_counter, max_tokens=max_tokens
            )
        except SummaryFailed as error:
            if strict:
                raise
            logger.warning("%s", error)
            return None

    def _replace_with_summary(self, old_items: Sequence[Item], earlier: Sequence[Item], text: str) -> None:
        """Replace the summarized items that are still here by a summary."""
        # By identity: an item that was exchanged meanwhile is not the one the model was shown.
        gone = {id(item) for item in old_items}
        now_here = self._list.items
        if not any(id(item) in gone for item in now_here):
            return
        gone.update(map(id, earlier))
        last = max(index for index, item in enumerate(now_here) if id(item) in gone)
        # Dated like the last item it stands for, so that sorting by time leaves it in its place.
        summary = Message(
            ChatRole.ASSISTANT,
            text,
            id=self._new_id(),
            created_at=now_here[last].created_at,
            extra={"summary": True},
        )
        before = [item for item in now_here[:last] if id(item) not in gone]
        self._list.replace([*before, summary, *now_here[last + 1 :]])


def _is_system(item: Item) -> bool:
    return isinstance(item, Message) and item.role is ChatRole.SYSTEM and not is_summary(item)


def _check_item(item: Any) -> Any:
    """An item, or an error that says how to make one."""
    if not isinstance(item, Item):
        raise InvalidMessage(
            "item", f"must be a message or an event, not {type(item).__name__}; use `from_dict` for dicts"
        )
    if isinstance(item, Message):
        check_call_id(item)
    return item


def _is_answer(item: Item) -> TypeGuard[Message]:
    if not isinstance(item, Message) or item.role is not ChatRole.ASSISTANT:
        return False
    return is_plain(item) and has_content(item) and not is_summary(item)


def _items_of(other: ChatView) -> list[Item]:
    if not isinstance(other, ChatView):
        raise TypeError(f"merge takes another ChatContext, not {type(other).__name__}")
    return other.items
