"""`Store`: what a memory is kept in. Every operation is here once, for every database.

What an operation decides is a script (see `session`). A subclass has a database: it opens connections, runs
scripts in transactions, and wakes those who wait. `autonomy_ctx.testing.StoreContract` tests one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from autonomy_ctx.memory.search_text import QueryTerms, SearchScope, query_terms
from autonomy_ctx.memory.sql import deletion, forks, leases, listing, log, search, summaries, turns, vectors
from autonomy_ctx.memory.sql import facts as fact_rows
from autonomy_ctx.memory.sql import records as record_rows
from autonomy_ctx.memory.sql.outline import read_outline
from autonomy_ctx.memory.sql.search import FullText
from autonomy_ctx.memory.store import (
    AppendResult,
    Draft,
    Key,
    RecordDraft,
    SearchHit,
    SummaryState,
    TurnToken,
    Window,
    check_put,
)

P = ParamSpec("P")
T = TypeVar("T")
# Its first argument is a `Session`, or that of the database that it is written for.
Script: TypeAlias = Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]


def reads(script: Script[P, T]) -> Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]:
    """A method that runs a script which only reads."""

    @wraps(script)
    async def run(store: Store, /, *given: P.args, **options: P.kwargs) -> T:
        return await store.read_script(script, *given, **options)

    return run


def writes(script: Script[P, T]) -> Callable[Concatenate[Store, P], Coroutine[Any, Any, T]]:
    """A method that runs a script in a transaction."""

    @wraps(script)
    async def run(store: Store, /, *given: P.args, **options: P.kwargs) -> T:
        return await store.write_script(script, *given, **options)

    return run


class Store(ABC):
    """Messages of conversations, and all that belongs to them, in a database."""

    # -- what a database has to do ----------------------------------------------------------------

    @property
    @abstractmethod
    def identity(self) -> object:
        """An object that identifies the database; it changes if another one takes its place."""

    @abstractmethod
    async def read_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        """Run a script that only reads, in one snapshot."""

    @abstractmethod
    async def write_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        """Run a script in one transaction, exactly once."""

    async def repeat_script(self, script: Script[P, T], *given: P.args, **options: P.kwargs) -> T:
        """Run a script without a transaction: each statement does the same again if it is repeated."""
        return await self.write_script(script, *given, **options)

    @abstractmethod
    def check_usable(self) -> None:
        """Raise an error if the store was closed, or cannot be used here."""

    @abstractmethod
    def wake_turns(self, key: Key) -> None:
        """Wake the turns of this process that wait for a conversation."""

    @abstractmethod
    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        """Wait until the turn may be free or the place is gone, at most that many seconds."""

    async def wait_for_work(self, *, task: str, seconds: float) -> None:
        """Wait until this `task` may be due for some conversation, at most so many seconds."""
        await anyio.sleep(seconds)

    @abstractmethod
    async def check(self) -> None:
        """Raise the error that a user should see, if a write would fail now."""

    @abstractmethod
    async def close(self) -> None:
        """Finish accepted writes and close everything; a second call does nothing."""

    # -- what each database does in its own way ---------------------------------------------------

    # The full-text index.
    fulltext: FullText

    async def purge(self) -> None:  # noqa: B027  # most databases leave nothing
        """Take out of the index what deletions have left there; nothing where they leave nothing."""

    @abstractmethod
    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        """The newest `limit` entries between two positions, both excluded."""

    @abstractmethod
    async def summary(self, key: Key) -> SummaryState:
        """The current segments and pins, and the newest current facts of each kind."""

    @abstractmethod
    async def use_embedder(self, name: str, dimensions: int) -> int:
        """Make an embedder the active one and return its number. Vectors of another embedder are deleted."""

    @abstractmethod
    async def nearest(
        self,
        agent: str,
        scope: str,
        vector: bytes,
        *,
        embedder: int,
        conversation: str | None = None,
        limit: int,
    ) -> list[SearchHit]:
        """The messages of a scope with an agent, or of one conversation, nearest in meaning; best first.

        The score is the cosine. Empty if the embedder is not active.
        """

    # -- messages and turns -----------------------------------------------------------------------

    async def append(
        self,
        key: Key,
        drafts: Sequence[Draft],
        records: Sequence[RecordDraft] = (),
        *,
        turn: TurnToken | None = None,
        ends: bool = False,
        after: int | None = None,
    ) -> list[int]:
        """As `append_and_read_head`, with the positions alone."""
        append = self.append_and_read_head
        return (await append(key, drafts, records, turn=turn, ends=ends, after=after)).positions

    async def append_and_read_head(
        self,
        key: Key,
        drafts: Sequence[Draft],
        records: Sequence[RecordDraft] = (),
        *,
        turn: TurnToken | None = None,
        ends: bool = False,
        after: int | None = None,
    ) -> AppendResult:
        """Store all drafts or none. Positions have no gaps; a known id returns its old position.

        With `turn`, raises `TurnLost` if another turn has begun since, unless all drafts are already stored.
        With `ends`, the turn is released in the same transaction. With `after`, nothing is stored, and there
        are no positions, if the log ends elsewhere. Each record is put too, if its generation and what it
        expects are those of now.
        """
        for record in records:
            check_put(record.kind, [(record.name, record.body), *record.parts], record.keep)
        appended = await self.write_script(
            turns.append, key, drafts, records, turn=turn, ends=ends, after=after
        )
        if ends:
            self.wake_turns(key)
        return appended

    async def leave_turn(self, key: Key, ticket: int | None, *, owner: str) -> None:
        """Release the turn or the place; without a ticket, whatever the owner has."""
        await self.write_script(turns.leave_turn, key, ticket, owner=owner)
        self.wake_turns(key)

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        """Renew the lease of the turn or of the place in the queue; false if it is gone."""
        return await self.repeat_script(turns.renew_turn, key, ticket, owner=owner, seconds=seconds)

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete a scope, a conversation or some of its messages, and return how many messages there were."""
        deleted = await self.write_script(deletion.delete, scope, agent, conversation, ids)
        await self.purge()
        return deleted

    async def search(
        self,
        agent: str,
        scope: str,
        query: str | QueryTerms,
        *,
        conversation: str | None = None,
        limit: int = 10,
    ) -> list[SearchHit]:
        """The messages of a scope with an agent, or of one conversation, that match a query; best first."""
        terms = query if isinstance(query, QueryTerms) else query_terms(query, limit)
        place = SearchScope(agent, scope, conversation)
        if not terms:
            self.check_usable()
            return []
        given = (self.fulltext, place, terms, limit)
        found = await self.read_script(search.find_messages, *given, even_if_stale=False)
        if isinstance(found, search.SearchState):
            if found.needs_purge:
                await self.purge()
            await self._update_index(place, found.unindexed)
            found = await self.read_script(search.find_messages, *given, even_if_stale=True)
        assert isinstance(found, list)
        return found

    async def _update_index(self, place: SearchScope, unindexed: Sequence[tuple[int, int]]) -> None:
        """Index new messages, one block at a time."""
        while blocks := await self.read_script(search.read_blocks, unindexed):
            split = [await anyio.to_thread.run_sync(block.split) for block in blocks]
            await self.write_script(search.write_blocks, self.fulltext, place, split)

    # -- operations that are a script each, which describes them ----------------------------------

    begin_turn = writes(turns.begin_turn)
    head = reads(log.read_head)
    full_text = reads(log.read_full_text)
    read_indexed = reads(log.read_indexed)

    commit_segment = writes(summaries.commit_segment)
    undo_segment = writes(summaries.undo_segment)
    drop_segments = writes(summaries.drop_segments)
    pin = writes(summaries.pin)
    facts = reads(summaries.read_facts)
    write_facts = writes(summaries.write_facts)
    remove_fact = writes(summaries.remove_fact)
    profile_facts = reads(fact_rows.read_profile_facts)

    read_unembedded = reads(vectors.read_unembedded)
    put_vectors = writes(vectors.put_vectors)

    enqueue_task = writes(leases.enqueue_task)
    claim = writes(leases.claim)
    claim_next = writes(leases.claim_next)
    extend = writes(leases.extend)
    complete_task = writes(leases.complete_task)

    put_records = writes(record_rows.put_records)
    read_records = reads(record_rows.read_records)
    drop_records = writes(record_rows.drop_records)

    list_agents = reads(listing.list_agents)
    list_scopes = reads(listing.list_scopes)
    list_conversations = reads(listing.list_conversations)
    list_revisions = reads(listing.list_revisions)
    outline = reads(read_outline)
    fork = writes(forks.fork)
    shared_until = reads(forks.shared_until)
