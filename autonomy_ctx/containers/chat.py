"""A conversation in hand: add to it, shorten it, fork it for a sub-agent and merge what came of it.

Items are frozen, so contexts share them: a copy costs a list, and no edit of one reaches another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Self, TypeGuard

from autonomy_ctx.containers.chat_dict import items_from_dict, merged_from_dict
from autonomy_ctx.containers.chat_record import ChatRecord
from autonomy_ctx.containers.chat_summary import (
    CONVERSATION_SUMMARY,
    DEFAULT_MAX_TOKENS,
    SUB_AGENT_SUMMARY,
    ChatModel,
    summary_of,
)
from autonomy_ctx.containers.chat_view import ChatView, Kept
from autonomy_ctx.errors import LimitNotMet, SummaryFailed
from autonomy_ctx.items.cuts import is_instruction, is_plain, is_summary, removable, says_something
from autonomy_ctx.items.edits import check_limit, filtered, merged, recent_turns, truncated, turn_start
from autonomy_ctx.items.events import AgentConfigUpdate
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.transcript import nonce
from autonomy_ctx.items.wire import Item

logger = logging.getLogger("autonomy_ctx.containers")


class Over(NamedTuple):
    """By how much a context is over the limits of its last truncation."""

    items: int
    tokens: int


class ChatContext(ChatRecord):
    """An ordered list of messages, handoffs, configuration changes and direct messages.

    A function call is an assistant's message with one tool call, its output a tool's message. What is
    added under an id that is already there must be the same, or it is a `ConflictingMessage`.
    """

    # What `truncate` could not remove; None when its limits were met.
    over: Over | None = None

    @classmethod
    def empty(cls) -> Self:
        """A context with nothing in it."""
        return cls()

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The context that `to_dict` gave; also reads calls and outputs that are items of their own."""
        made = cls(items_from_dict(data))
        made._kept.merged = merged_from_dict(data)
        return made

    def view(self) -> ChatView:
        """The same context for somebody who may only read it; it shows later changes, too."""
        return ChatView(self._kept, self.token_counter)

    def cleanup(self) -> None:
        """Empty this context; forks, copies and the items themselves keep what they have."""
        self._kept.replace([])

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
        """A context of its own with the items that pass every filter.

        `tools`, by name or as objects with a `name`, are those whose calls and results stay: None keeps
        all, an empty list none. With `filter_agent_id`, only this agent's items and structural ones stay.
        """
        return self._with(
            filtered(
                self._kept.items,
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
        """A context of its own with the same items; what happens to one does not reach the other."""
        return self._with(self._kept.items)

    __copy__ = fork

    def fork_filtered(self, recent_turns: int = 3, tools: Iterable[Any] | None = None) -> Self:
        """A fork with the structural items and the last user turns; `tools` as in `copy`."""
        check_limit("recent_turns", recent_turns)
        if recent_turns < 1:
            raise ValueError(f"recent_turns must be >= 1, not {recent_turns}")
        return self._with(_recent(filtered(self._kept.items, tools=tools), recent_turns))

    def fork_brief(
        self, instructions: str, task_brief: str | None = None, agent_id: str | None = None
    ) -> Self:
        """A new context with instructions for a sub-agent and maybe its task, and no history."""
        if not instructions:
            raise ValueError("fork_brief() requires non-empty instructions")
        made = self._with([])
        made.system(instructions, agent_id=agent_id)
        if task_brief:
            made.user(task_brief, agent_id=agent_id)
        return made

    def _with(self, items: Iterable[Item]) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._kept = Kept(items, self._kept.merged)
        made.over = None
        return made

    # -- merging ----------------------------------------------------------------------------------

    async def merge(self, other: ChatView) -> Self:
        """Take in all of a sub-agent's items, in the order of time, each id once.

        What the sub-agent was told is kept as a record: its instructions and configurations are in
        `merged_instructions` and never in force here. An item edited in `other` takes the place of mine.
        """
        items = _items_of(other)
        told = [item.id for item in items if _is_told(item) and self._kept.find(item.id) is None]
        self._kept.replace(merged(self._kept.items, items), told)
        return self

    async def merge_result(self, other: ChatView, *, agent_id: str | None = None) -> Self:
        """Take in a sub-agent's last answer alone, at the end; nothing if it is already here."""
        final = next((item for item in reversed(_items_of(other)) if _is_answer(item)), None)
        if final is not None and self._kept.find(final.id) is None:
            self._kept.append(final if agent_id is None else replace(final, agent=agent_id))
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
        """Take in a summary of what a sub-agent did that is not here yet, at the end.

        The same work is not summarized twice. Without a summary nothing changes: that is logged, and
        raised as `SummaryFailed` if `strict`.
        """
        work = [item for item in _items_of(other) if self._kept.find(item.id) is None]
        # Named after what it stands for: merging the same work again finds it.
        summary_id = f"summary_{nonce(*(item.id for item in work))}"
        if self._kept.find(summary_id) is not None:
            return self
        text = await self._summary(work, (), llm, max_tokens, strict)
        if text and self._kept.find(summary_id) is None:
            content, extra = SUB_AGENT_SUMMARY + text, {"summary": True}
            self.assistant(content, message_id=summary_id, agent_id=agent_id, extra=extra)
        return self

    # -- shortening -------------------------------------------------------------------------------

    def truncate(
        self, max_items: int | None = None, max_tokens: int | None = None, *, strict: bool = False
    ) -> Self:
        """Remove the oldest items until the limits are met, calls together with their results.

        Structural items, summaries, calls still running and the newest user message stay. When they
        alone are too much, that is logged and in `over`; if `strict`, nothing is removed and
        `LimitNotMet` is raised.
        """
        found = truncated(
            self._kept.items, max_items=max_items, max_tokens=max_tokens, counter=self.token_counter
        )
        if not found.met:
            error = LimitNotMet(over_items=found.over_items, over_tokens=found.over_tokens)
            if strict:
                raise error
            logger.warning(
                "a truncated context is still %d items and %d tokens over its limit",
                found.over_items,
                found.over_tokens,
            )
        if len(found.items) < len(self._kept.items):
            self._kept.replace(found.items)
        self.over = None if found.met else Over(found.over_items, found.over_tokens)
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

        Structural items and calls still running stay; an earlier summary becomes part of the new one.
        Only what the model was shown is replaced: whatever is added or removed meanwhile stays so.
        Without a usable answer nothing changes: that is logged, and raised as `SummaryFailed` if `strict`.
        """
        check_limit("keep_recent_turns", keep_recent_turns)
        items = self.items
        start = turn_start(items, keep_recent_turns)
        groups = removable(items, keep_newest_user=False)
        said = [items[index] for index in sorted(at for group in groups if group[-1] < start for at in group)]
        earlier = [item for item in items[:start] if is_summary(item) and is_plain(item)]
        text = await self._summary(said, earlier, llm, max_tokens, strict) if said else None
        if text:
            self._replace(said, earlier, CONVERSATION_SUMMARY + text)
        return self

    async def _summary(
        self, said: Sequence[Item], earlier: Sequence[Item], llm: ChatModel, max_tokens: int, strict: bool
    ) -> str | None:
        try:
            return await summary_of(
                said, llm, earlier=earlier, counter=self.token_counter, max_tokens=max_tokens
            )
        except SummaryFailed as error:
            if strict:
                raise
            logger.warning("%s", error)
            return None

    def _replace(self, said: Sequence[Item], earlier: Sequence[Item], text: str) -> None:
        """Put a summary in the place of what is still here of the items that it stands for."""
        # By identity: an item that was exchanged meanwhile is not the one the model was shown.
        gone = {id(item) for item in said}
        now_here = self._kept.items
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
        self._kept.replace([*before, summary, *now_here[last + 1 :]])


# `fork_filtered` has an argument of the same name.
_recent = recent_turns


def _is_told(item: Item) -> bool:
    """Whether it says what some agent has to do."""
    return is_instruction(item) or isinstance(item, AgentConfigUpdate)


def _is_answer(item: Item) -> TypeGuard[Message]:
    if not isinstance(item, Message) or item.role is not ChatRole.ASSISTANT:
        return False
    return is_plain(item) and says_something(item) and not is_summary(item)


def _items_of(other: ChatView) -> list[Item]:
    if not isinstance(other, ChatView):
        raise TypeError(f"a ChatContext merges another ChatContext, not {type(other).__name__}")
    return other.items
