"""`copy_memory`: copies one memory into another, for a move from SQLite to PostgreSQL or back.

Rows are copied as they are: positions, ids, times, summaries, facts, pins, forks and records stay the same.
An interrupted copy continues where it stopped. At the end, both sides are read and compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from autonomy_ctx.errors import CopyConflict, CopyMismatch
from autonomy_ctx.memory.encoding import MessageRow
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sql import transfer as scripts
from autonomy_ctx.memory.sql.store import Store
from autonomy_ctx.memory.sql.transfer import ConversationCopy
from autonomy_ctx.memory.store import Key, check_name

KEYS_PER_PAGE = 500
MESSAGES_PER_PAGE = 500


@dataclass(frozen=True, slots=True)
class CopyProgress:
    """The progress of a copy."""

    # "copy" or "check".
    step: str
    conversations: int
    total_conversations: int
    messages: int


@dataclass(frozen=True, slots=True)
class CopyReport:
    """The result of a copy and of the comparison at its end."""

    conversations: int
    messages: int
    # Of these, the ones that were there already from an earlier copy.
    unchanged_conversations: int
    # Over all conversations and messages, the same for both sides.
    digest: str


async def copy_memory(
    source: Memory | str,
    target: Memory | str,
    *,
    scope: str | None = None,
    progress: Callable[[CopyProgress], None] | None = None,
) -> CopyReport:
    """Copy all conversations, or those of one scope, from one memory into another, and compare both.

    `source` and `target` are memories or their URLs. After an interruption, call it again: it continues where
    it stopped. Stop all processes that write to the source before the last call. Raises `CopyConflict` if the
    target has another conversation of the same name, which stays unchanged. Raises `CopyMismatch` if both
    sides differ at the end, for example because the source was changed meanwhile.
    """
    if scope is not None:
        check_name("scope", scope)
    async with AsyncExitStack() as stack:
        stores: list[Store] = []
        for name, side in (("source", source), ("target", target)):
            if not isinstance(side, Memory | str):
                raise TypeError(f"{name} is {type(side).__name__}; it must be a Memory or the URL of one")
            memory = await stack.enter_async_context(Memory(side)) if isinstance(side, str) else side
            stores.append(memory.store)
        return await _CopyRun(stores[0], stores[1], scope, progress).run()


class _CopyRun:
    """One run of a copy."""

    def __init__(
        self,
        source: Store,
        target: Store,
        scope: str | None,
        progress: Callable[[CopyProgress], None] | None,
    ) -> None:
        self._source, self._target = source, target
        self._scope, self._progress = scope, progress
        self._conversations = self._messages = self._unchanged = 0
        self._total = 0
        self._differing: list[Key] = []
        self._compared = hashlib.sha256()

    async def run(self) -> CopyReport:
        self._total = await self._source.read_script(scripts.count_conversations, self._scope)
        await self._for_each(self._copy)
        self._conversations = self._messages = 0
        await self._for_each(self._compare)
        if self._differing:
            raise CopyMismatch(self._differing)
        return CopyReport(self._conversations, self._messages, self._unchanged, self._compared.hexdigest())

    async def _for_each(self, work: Callable[[Key], Awaitable[None]]) -> None:
        """Do something with every conversation of the source, a source before its forks."""
        after = 0
        while page := await self._source.read_script(
            scripts.export_keys, self._scope, after=after, limit=KEYS_PER_PAGE
        ):
            for _, key in page:
                await work(key)
            after = page[-1][0]

    async def _copy(self, key: Key) -> None:
        """Copy what the target does not have of one conversation."""
        copy, after = (
            await self._source.read_script(scripts.export_conversation, key),
            await self._target.read_script(scripts.last_own_position, key),
        )
        if after:
            await self._check_same(key, after)
        before = self._messages
        while rows := await self._read_page(self._source, key, after, copy):
            await self._target.write_script(
                scripts.import_messages, key, rows, generation=copy.head.generation
            )
            after = rows[-1].position
            self._messages += len(rows)
            self._tell("copy")
        known = await self._target.read_script(scripts.export_conversation, key)
        if known.digest() != copy.digest():
            await self._target.write_script(scripts.import_conversation, key, copy)
        elif self._messages == before:
            self._unchanged += 1
        self._conversations += 1
        self._tell("copy")

    async def _check_same(self, key: Key, position: int) -> None:
        """Refuse a conversation of the target that is not the beginning of the source's."""
        place = {"after": position - 1, "last": position, "limit": 1}
        ours = await self._source.read_script(scripts.export_messages, key, **place)
        if ours != await self._target.read_script(scripts.export_messages, key, **place):
            raise CopyConflict(key)

    async def _compare(self, key: Key) -> None:
        """Read one conversation on both sides."""
        ours, messages = await self._digest(self._source, key)
        if ours != (await self._digest(self._target, key))[0]:
            self._differing.append(key)
        self._compared.update(ours.encode())
        self._conversations += 1
        self._messages += messages
        self._tell("check")

    async def _digest(self, store: Store, key: Key) -> tuple[str, int]:
        """The digest of a conversation, and how many messages it has of its own."""
        copy, found = await store.read_script(scripts.export_conversation, key), hashlib.sha256()
        found.update(copy.digest().encode())
        after = messages = 0
        while rows := await self._read_page(store, key, after, copy):
            found.update(repr(rows).encode("utf-8", "surrogatepass"))
            after = rows[-1].position
            messages += len(rows)
        return found.hexdigest(), messages

    async def _read_page(
        self, store: Store, key: Key, after: int, copy: ConversationCopy
    ) -> list[MessageRow]:
        return await store.read_script(
            scripts.export_messages, key, after=after, last=copy.head.position, limit=MESSAGES_PER_PAGE
        )

    def _tell(self, step: str) -> None:
        if self._progress is not None:
            self._progress(CopyProgress(step, self._conversations, self._total, self._messages))
