"""`ConversationHistorySection`: the stored conversation, whole or as a window of the newest messages.

A window starts at a safe cut, so that no tool result loses its call, and it always holds the newest user
message.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from autonomy_ctx.background import Chunks
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.memory.compose_cache import ComposeStates, measure_texts
from autonomy_ctx.memory.entries import EntryColumns
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Head, Key, make_key
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.cuts import (
    MAX_CALL_LOOKBACK,
    find_window_start,
    get_tool_result_id,
    orphaned_results,
)
from autonomy_ctx.messages.message import TOOL, USER, ChatRole, Message
from autonomy_ctx.sections.section import (
    ContributingSection,
    Contribution,
    Omission,
    Params,
    extend_contribution,
    make_log_contribution,
    make_log_omission,
)
from autonomy_ctx.validation import check_int

MessageFilter = Callable[[dict[str, Any]], bool]
MessageTransform = Callable[[dict[str, Any]], Message | Mapping[str, Any]]
_role_of: Callable[[Message], ChatRole] = attrgetter("role")
_NO_ENTRIES = EntryColumns((), ())


class _KnownHistory(NamedTuple):
    """What was shown of a log as it stood at a head."""

    identity: object
    head: Head
    max_messages: int | None
    contribution: Contribution
    # What its messages take in bytes, if nothing else has them.
    text_bytes: int = 0
    # With `max_messages`: so many of the newest entries and one more.
    page: EntryColumns = _NO_ENTRIES

    def goes_on_in(self, memory: Memory, head: Head, new: int) -> bool:
        """Whether so many entries are all that came since, and nothing was deleted."""
        known = self.head
        return (
            known.generation == head.generation
            and known.count + new == head.count
            and self.identity == memory.store.identity
        )


class ConversationHistorySection(ContributingSection):
    """Stored messages: the most recent of those that pass the filter, each transformed.

    With `max_messages`, the window starts at a safe cut, so it may be shorter. It contains the newest user
    message even if that is older. Filters and transforms get copies as dicts.
    """

    kind = "slow"

    def __init__(
        self,
        enabled: bool = True,
        max_messages: int | None = None,
        filter_fn: MessageFilter | None = None,
        transform_fn: MessageTransform | None = None,
    ) -> None:
        check_int("max_messages", max_messages, optional=True)
        super().__init__("conversation_history", enabled)
        self.max_messages = max_messages
        self.filter_fn = filter_fn
        self.transform_fn = transform_fn
        self._states = ComposeStates[_KnownHistory]()

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        if not isinstance(memory, Memory):
            found = await self._select(*await self._read_all(memory, scope, conversation))
        elif self.filter_fn is not None or self.transform_fn is not None:
            # They may answer differently each time.
            found = await self._select(*await self._read(memory, scope, conversation))
        elif self.max_messages is None:
            found = await self._follow(memory, scope, conversation)
        else:
            found = await self._reuse(memory, scope, conversation, self.max_messages)
        params["conversation_message_count"] = len(found.messages)
        return found

    async def _follow(self, memory: Memory, scope: str, conversation: str) -> Contribution:
        """All messages: those that are known and what came after them."""
        key, epoch = make_key(memory.agent, scope, conversation), memory.compose_cache.epoch
        known = self._states.get(memory.compose_cache, key)
        if known is not None and known.max_messages is None:
            head, new = await memory.read_key(key, after=known.head.position)
            if known.goes_on_in(memory, head, len(new)):
                if not new:
                    return known.contribution
                messages, positions = [entry.message for entry in new], [entry.position for entry in new]
                found = extend_contribution(known.contribution, messages, positions)
                # Only what came is measured: a history is long, and a step adds little to it.
                taken = known.text_bytes + _text_bytes(memory, messages)
                longer = _KnownHistory(memory.store.identity, head, None, found, taken)
                self._keep(memory, key, epoch, longer)
                return found
        head, entries = await memory.read_key(key)
        found = await self._select(head, entries)
        if self._states.admits(memory.compose_cache, key):
            taken = _text_bytes(memory, found.messages)
            self._keep(memory, key, epoch, _KnownHistory(memory.store.identity, head, None, found, taken))
        return found

    async def _reuse(self, memory: Memory, scope: str, conversation: str, limit: int) -> Contribution:
        """The newest messages: the same as before while the log is, with the same limit."""
        key, epoch = make_key(memory.agent, scope, conversation), memory.compose_cache.epoch
        known = self._states.get(memory.compose_cache, key)
        # One more than shown: what stands before the window tells whether it may start there.
        size = limit + 1
        page: EntryColumns | None = None
        if known is not None and known.max_messages == limit:
            head, new = await memory.read_key(key, after=known.head.position, limit=size)
            if known.goes_on_in(memory, head, len(new)):
                if not new:
                    return known.contribution
                page = (known.page + EntryColumns.of(new))[-size:]
        if page is None:
            head, entries = await memory.read_key(key, limit=size)
            page = EntryColumns.of(entries)
        start = _window_start(page.messages, limit)
        if start is not None and page.positions[start] <= head.last_user:
            window = page[start:]
        else:
            # Without the newest user message, or not without what stands before the page.
            window = EntryColumns.of(await self._find_window(memory, scope, conversation, head, page))
        found = self._contribution(head, window, window.messages)
        if self._states.admits(memory.compose_cache, key):
            taken = _text_bytes(memory, window.messages) + _text_bytes(memory, page.messages[:1])
            made = _KnownHistory(memory.store.identity, head, limit, found, taken, page)
            self._keep(memory, key, epoch, made)
        return found

    def _keep(self, memory: Memory, key: Key, epoch: int, known: _KnownHistory) -> None:
        references = len(known.contribution.messages) + len(known.page)
        self._states.put(
            memory.compose_cache,
            key,
            known,
            epoch=epoch,
            references=references,
            text_bytes=known.text_bytes,
        )

    async def _select(self, head: Head, entries: Sequence[Entry]) -> Contribution:
        """The entries, each transformed, and what is not among them."""
        window = EntryColumns.of(entries)
        messages = window.messages
        if self.transform_fn is not None:
            messages = [self._transform(message) async for some in Chunks(messages) for message in some]
        return self._contribution(head, window, messages)

    def _contribution(self, head: Head, window: EntryColumns, messages: Sequence[Message]) -> Contribution:
        """The messages of entries, and what is not among them."""
        omitted: tuple[Omission, ...] = ()
        if len(window) < head.count:
            omitted = (_omission(head, window.positions, self._reason()),)
        return make_log_contribution(tuple(messages), tuple(window.positions), omitted)

    async def _read(self, memory: Memory, scope: str, conversation: str) -> tuple[Head, list[Entry]]:
        """Read backwards from the end, no further than the window needs."""
        limit = None if self.max_messages is None else self.max_messages + 1
        head, page = await memory.read(scope, conversation, limit=limit)
        return head, await self._find_window(memory, scope, conversation, head, page)

    async def _find_window(
        self, memory: Memory, scope: str, conversation: str, head: Head, page: Sequence[Entry]
    ) -> list[Entry]:
        """What of the newest messages is shown, and more where that depends on what stands before them."""
        limit = self.max_messages
        entries = await self._filter(page)
        if limit is None:
            return entries
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
        return window

    async def _read_all(self, memory: Any, scope: str, conversation: str) -> tuple[Head, list[Entry]]:
        """Read everything from a memory that has only `get_messages_only`, and take the window."""
        found = memory.get_messages_only(scope, conversation)
        if inspect.isawaitable(found):
            found = await found
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


def _text_bytes(memory: Memory, messages: Sequence[Message]) -> int:
    """What kept messages take in bytes; those of a log in process nothing more."""
    return 0 if memory.compose_cache.resident else measure_texts(messages)


def _window_start(messages: Sequence[Message], limit: int) -> int | None:
    """Where the window starts, or None when that depends on what stands before the messages.

    Before them there may be the call of a result that is among them, or a call that still blocks
    cuts because no user has spoken since.
    """
    first = len(messages) - limit
    if first <= 0:
        return None
    roles = list(map(_role_of, messages[first - 1 :]))
    if TOOL not in roles and USER in roles[:2]:
        return first
    start = find_window_start(messages, limit)
    spoken = any(message.role is USER for message in messages[: start + 1])
    lost = orphaned_results(messages)
    return start if spoken and not any(get_tool_result_id(m) in lost for m in messages[start:]) else None


def _omission(head: Head, positions: Sequence[int], reason: str) -> Omission:
    """The messages of the log that are not at the positions that are shown."""
    last = head.position
    if positions and positions[-1] == last and last - positions[0] == len(positions) - 1:
        # All of the newest, without a gap.
        last = positions[0] - 1
    else:
        shown = set(positions)
        while last in shown:
            last -= 1
    return make_log_omission(last=last, count=head.count - len(positions), reason=reason)
