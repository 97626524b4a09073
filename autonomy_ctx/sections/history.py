"""`ConversationHistorySection`: the stored conversation, whole or as a window of the newest messages.

A window starts at a safe cut, so that no tool result loses its call, and it always holds the newest user
message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autonomy_ctx.background import Chunks
from autonomy_ctx.callables import await_value
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.model_table import DEFAULT_PRICE
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Head
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.cuts import (
    MAX_CALL_LOOKBACK,
    find_window_start,
    get_tool_result_id,
    orphaned_results,
)
from autonomy_ctx.messages.message import TOOL, USER, Message
from autonomy_ctx.models.catalog import price_of
from autonomy_ctx.sections.clearing import ClearingLimits
from autonomy_ctx.sections.section import ContributingSection, Contribution, Omission, Params, composition_of
from autonomy_ctx.validation import check_int

MessageFilter = Callable[[dict[str, Any]], bool]
MessageTransform = Callable[[dict[str, Any]], Message | Mapping[str, Any]]


class ConversationHistorySection(ContributingSection):
    """Stored messages: the most recent of those that pass the filter, each transformed.

    With `max_messages`, the window starts at a safe cut, so it may be shorter. It contains the newest user
    message even if that is older. Filters and transforms get copies as dicts. When an epoch begins, large
    results of turns before the newest `clear_results_after`, and images of turns before the newest
    `clear_images_after`, become one line each; other results of earlier turns become excerpts above
    `max_result_tokens`. `reader` is the model that reads the context; by its prices
    an epoch ends for that.
    """

    kind = "slow"

    def __init__(
        self,
        enabled: bool = True,
        max_messages: int | None = None,
        filter_fn: MessageFilter | None = None,
        transform_fn: MessageTransform | None = None,
        *,
        clear_results_after: int | None = None,
        clear_images_after: int | None = None,
        max_result_tokens: int | None = None,
        reader: Any = None,
    ) -> None:
        check_int("max_messages", max_messages, optional=True)
        super().__init__("conversation_history", enabled)
        self.max_messages = max_messages
        self.filter_fn = filter_fn
        self.transform_fn = transform_fn
        self.clearing = ClearingLimits.of(clear_results_after, clear_images_after, max_result_tokens)
        self._price = price_of(reader) or DEFAULT_PRICE

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        read = self._read if isinstance(memory, Memory) else self._read_all
        head, entries = await read(memory, scope, conversation)
        messages = [entry.message for entry in entries]
        if self.transform_fn is not None:
            messages = [self._transform(message) async for some in Chunks(messages) for message in some]
        positions = [entry.position for entry in entries]
        omitted: tuple[Omission, ...] = ()
        if len(entries) < head.count:
            omitted = (_omission(head, positions, self._reason()),)
        params["conversation_message_count"] = len(messages)
        found = Contribution(messages, positions, omitted)
        if not isinstance(memory, Memory) or not self.clearing.may_clear(found):
            return found
        kept: Sequence[int] = ()
        composition = composition_of(params)
        if old := self.clearing.find_cleared(found, composition.beginning):
            pins = (await memory.summary(scope, conversation)).pins
            kept = [pin.position for pin in pins if pin.position in old]
        count = memory.token_counter.count_uncalibrated
        return self.clearing.clear(found, composition, kept, count, self._price)

    async def _read(self, memory: Memory, scope: str, conversation: str) -> tuple[Head, list[Entry]]:
        """Read backwards from the end, no further than the window needs."""
        limit = self.max_messages
        # One more than shown: what stands before the window tells whether it may start there.
        head, page = await memory.read(scope, conversation, limit=None if limit is None else limit + 1)
        entries = await self._filter(page)
        if limit is None:
            return head, entries
        looked, size = 0, limit + 1
        start = _window_start([entry.message for entry in entries], limit)
        while start is None and len(page) == size and (looked < MAX_CALL_LOOKBACK or len(entries) <= limit):
            looked += size
            size = min(max(16, 2 * size), MAX_CALL_LOOKBACK)
            _, page = await memory.read(scope, conversation, before=page[0].position, limit=size)
            entries = await self._filter(page) + entries
            start = _window_start([entry.message for entry in entries], limit)
        if start is None:
            start = find_window_start([entry.message for entry in entries], limit)
        window = entries[start:]
        if head.last_user and all(entry.message.role is not USER for entry in window):
            newest = await memory.read(
                scope, conversation, after=head.last_user - 1, before=head.last_user + 1
            )
            window = await self._filter(newest.entries) + window
        return head, window

    async def _read_all(self, memory: Any, scope: str, conversation: str) -> tuple[Head, list[Entry]]:
        """Read everything from a memory that has only `get_messages_only`, and take the window."""
        found = await await_value(memory.get_messages_only(scope, conversation))
        everything = [Entry(index, message) for index, message in enumerate(wire.from_dicts(found), start=1)]
        entries = await self._filter(everything)
        window = entries
        if self.max_messages is not None:
            window = entries[find_window_start([entry.message for entry in entries], self.max_messages) :]
        if all(entry.message.role is not USER for entry in window):
            newest = [entry for entry in everything if entry.message.role is USER][-1:]
            window = await self._filter(newest) + window
        return Head(len(everything), len(everything)), window

    async def _filter(self, entries: Sequence[Entry]) -> list[Entry]:
        if self.filter_fn is None:
            return list(entries)
        passing: list[Entry] = []
        async for some in Chunks(entries):
            passing += [entry for entry in some if self.filter_fn(wire.to_dict(entry.message))]
        return passing

    def _transform(self, message: Message) -> Message:
        assert self.transform_fn is not None
        made = self.transform_fn(wire.to_dict(message))
        if made is None:
            raise InvalidMessage("transform_fn", "returned None; leave messages out with `filter_fn`")
        return wire.from_dict(made)

    def _reason(self) -> str:
        if self.max_messages is None:
            return "filter_fn"
        return f"max_messages={self.max_messages}" + (" and filter_fn" if self.filter_fn else "")


def _window_start(messages: Sequence[Message], limit: int) -> int | None:
    """Where the window starts, or None when that depends on what stands before the messages.

    Before them there may be the call of a result that is among them, or a call that still blocks
    cuts because no user has spoken since.
    """
    first = len(messages) - limit
    if first <= 0:
        return None
    roles = [message.role for message in messages[first - 1 :]]
    if TOOL not in roles and USER in roles[:2]:
        return first
    start = find_window_start(messages, limit)
    spoken = any(message.role is USER for message in messages[: start + 1])
    lost = orphaned_results(messages)
    return start if spoken and not any(get_tool_result_id(m) in lost for m in messages[start:]) else None


def _omission(head: Head, positions: Sequence[int], reason: str) -> Omission:
    """The messages of the log that are not at the positions that are shown."""
    last, shown = head.position, set(positions)
    while last in shown:
        last -= 1
    return Omission(first=1, last=last, count=head.count - len(positions), reason=reason)
