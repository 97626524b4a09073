"""The conversation itself: all of it, or a window that no provider will refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items import wire
from autonomy_ctx.items.cuts import orphaned_results, start_of_last
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Head
from autonomy_ctx.memory.strides import strides
from autonomy_ctx.sections.section import ContributingSection, Contribution, Omission, Params

Filter = Callable[[dict[str, Any]], bool]
Transform = Callable[[dict[str, Any]], Message | Mapping[str, Any]]

# How far back a window looks for the call of a result it starts with.
LOOKBACK = 64


class ConversationHistorySection(ContributingSection):
    """Stored messages: those that pass the filter, of these the most recent, each transformed.

    With `max_messages` the window starts at a safe cut, so it may be shorter, and holds the
    newest user message even when that is older. Filters and transforms get dicts of their own.
    """

    kind = "slow"

    def __init__(
        self,
        enabled: bool = True,
        max_messages: int | None = None,
        filter_fn: Filter | None = None,
        transform_fn: Transform | None = None,
    ) -> None:
        if max_messages is not None and (not isinstance(max_messages, int) or max_messages < 1):
            raise ValueError(f"max_messages is {max_messages!r}; it must be at least 1, or None for all")
        super().__init__("conversation_history", enabled)
        self.max_messages = max_messages
        self.filter_fn = filter_fn
        self.transform_fn = transform_fn

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        if isinstance(memory, Memory):
            head, entries = await self._read(memory, scope, conversation)
        else:
            head, entries = await self._read_all(memory, scope, conversation)
        omitted: tuple[Omission, ...] = ()
        if len(entries) < head.count:
            omitted = (_omission(head, entries, self._reason()),)
        messages = [entry.message for entry in entries]
        if self.transform_fn is not None:
            messages = [self._transformed(message) async for some in strides(messages) for message in some]
        params["conversation_message_count"] = len(messages)
        return Contribution(messages, [entry.position for entry in entries], omitted)

    async def _read(self, memory: Memory, scope: str, conversation: str) -> tuple[Head, list[Entry]]:
        """Read backwards from the end, no further than the window needs."""
        limit = self.max_messages
        # One more than shown: what stands before the window tells whether it may start there.
        size = None if limit is None else limit + 1
        head, page = await memory.read(scope, conversation, limit=size)
        entries = await self._passing(page)
        if limit is None or size is None:
            return head, entries
        while len(page) == size and (len(entries) <= limit or not _sure(entries, limit)):
            enough = len(entries) > limit
            size = max(LOOKBACK, 2 * limit)
            _, page = await memory.read(scope, conversation, before=page[0].position, limit=size)
            entries = await self._passing(page) + entries
            if enough:
                # Looked back once; a result whose call is not found by now has lost it.
                break
        window = _last(entries, limit)
        if head.last_user and all(entry.message.role is not ChatRole.USER for entry in window):
            _, found = await memory.read(
                scope, conversation, after=head.last_user - 1, before=head.last_user + 1
            )
            window = await self._passing(found) + window
        return head, window

    async def _read_all(self, memory: Any, scope: str, conversation: str) -> tuple[Head, list[Entry]]:
        """The same with a memory that can only give everything."""
        found = memory.get_messages_only(scope, conversation)
        if inspect.isawaitable(found):
            found = await found
        everything = [Entry(index, wire.from_dict(message)) for index, message in enumerate(found, start=1)]
        entries = await self._passing(everything)
        window = entries if self.max_messages is None else _last(entries, self.max_messages)
        if window and all(entry.message.role is not ChatRole.USER for entry in window):
            window = [entry for entry in entries if entry.message.role is ChatRole.USER][-1:] + window
        return Head(len(everything), len(everything)), window

    async def _passing(self, entries: Sequence[Entry]) -> list[Entry]:
        if self.filter_fn is None:
            return list(entries)
        passing: list[Entry] = []
        async for some in strides(entries):
            passing += [entry for entry in some if self.filter_fn(wire.to_dict(entry.message))]
        return passing

    def _transformed(self, message: Message) -> Message:
        assert self.transform_fn is not None
        made = self.transform_fn(wire.to_dict(message))
        if made is None:
            raise InvalidMessage("transform_fn", "returned None; leave messages out with `filter_fn`")
        return wire.from_dict(made)

    def _reason(self) -> str:
        if self.max_messages is None:
            return "filter_fn"
        return f"max_messages={self.max_messages}" + (" and filter_fn" if self.filter_fn else "")


def _sure(entries: Sequence[Entry], limit: int) -> bool:
    """Whether the last `limit` entries can be seen to start at a safe cut, without looking further back."""
    roles = [entry.message.role for entry in entries[-limit - 1 :]]
    if roles[1] is not ChatRole.USER and not (roles[1] is ChatRole.ASSISTANT and roles[0] is ChatRole.USER):
        return False
    return ChatRole.TOOL not in roles or not orphaned_results([entry.message for entry in entries[-limit:]])


def _last(entries: list[Entry], limit: int) -> list[Entry]:
    """The last `limit` entries, or as near to that as a safe cut allows."""
    if len(entries) > limit and _sure(entries, limit):
        return entries[-limit:]
    return entries[start_of_last([entry.message for entry in entries], limit) :]


def _omission(head: Head, entries: Sequence[Entry], reason: str) -> Omission:
    """What of the log is not among the entries."""
    shown = {entry.position for entry in entries}
    last = head.position
    while last in shown:
        last -= 1
    return Omission(first=1, last=last, count=head.count - len(entries), reason=reason)
