"""`SqlStore`: the store protocols on a database, by the scripts of this package.

A subclass runs the scripts: it knows how to begin a transaction and what to do when the database does not
answer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeAlias, TypeVar

from autonomy_ctx.memory.joint_append import RecordDraft, check_record
from autonomy_ctx.memory.outline import ConversationOutline
from autonomy_ctx.memory.sql import deletion, forks, leases, listing, log, summaries, turns
from autonomy_ctx.memory.sql import facts as fact_rows
from autonomy_ctx.memory.sql import records as record_rows
from autonomy_ctx.memory.sql.outline import read_outline
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import (
    ConversationInfo,
    Draft,
    Head,
    IndexedMessage,
    Key,
    Lease,
    MessageRef,
    PinSource,
    ProfileFact,
    Record,
    StoredSegment,
    TurnStart,
    TurnToken,
    check_drop,
    check_put,
    check_read,
)
from autonomy_ctx.messages.fact import Fact, FactChange

if TYPE_CHECKING:
    from autonomy_ctx.memory.encoding import MessageRow
    from autonomy_ctx.memory.transfer import ConversationCopy

P = ParamSpec("P")
T = TypeVar("T")
Script: TypeAlias = Callable[Concatenate[Session, P], Coroutine[Any, Any, T]]


class SqlStore(ABC):
    """A store whose scripts run on a database. Reading windows, search and vectors are up to a subclass."""

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
    def wake_turns(self, key: Key) -> None:
        """Wake the turns of this process that wait for a conversation."""

    async def append(
        self, key: Key, drafts: Sequence[Draft], *, turn: TurnToken | None = None, ends: bool = False
    ) -> list[int]:
        return await self.append_with_records(key, drafts, (), turn=turn, ends=ends)

    async def append_with_records(
        self,
        key: Key,
        drafts: Sequence[Draft],
        records: Sequence[RecordDraft],
        *,
        turn: TurnToken | None = None,
        ends: bool = False,
    ) -> list[int]:
        for record in records:
            check_record(record)
        positions = await self.write_script(append_with_records, key, drafts, records, turn, ends)
        if ends:
            self.wake_turns(key)
        return positions

    async def begin_turn(
        self,
        key: Key,
        drafts: Sequence[Draft],
        *,
        owner: str,
        seconds: float,
        ticket: int | None = None,
        after: int | None = None,
        unless: str | None = None,
        records: str | None = None,
    ) -> TurnStart:
        given = (key, drafts, owner, seconds, after, unless, records)
        return await self.write_script(turns.begin_turn, *given)

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        return await self.repeat_script(turns.renew_turn, key, ticket, owner, seconds)

    async def leave_turn(self, key: Key, ticket: int | None, *, owner: str) -> None:
        await self.write_script(turns.leave_turn, key, ticket, owner)
        self.wake_turns(key)

    async def head(self, key: Key) -> Head:
        return await self.read_script(log.read_head, key)

    async def full_text(self, key: Key, message_id: str) -> str | None:
        return await self.read_script(log.read_full_text, key, message_id)

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        return await self.write_script(deletion.delete, scope, agent, conversation, ids)

    async def commit_segment(
        self,
        key: Key,
        segment: StoredSegment,
        *,
        generation: int,
        fence: int | None,
        facts: Sequence[FactChange] | None = None,
        merged: StoredSegment | None = None,
    ) -> bool:
        given = (key, segment, merged, generation, fence, facts)
        return await self.write_script(summaries.commit_segment, *given)

    async def undo_segment(self, key: Key) -> bool:
        return await self.write_script(summaries.undo_segment, key)

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        return await self.write_script(summaries.drop_segments, scope, agent, conversation)

    async def pin(
        self,
        key: Key,
        message_id: str,
        pinned: bool,
        *,
        replaces: str | None = None,
        source: PinSource = "user",
    ) -> bool:
        return await self.write_script(summaries.pin, key, message_id, pinned, replaces, source)

    async def facts(self, key: Key) -> list[Fact]:
        return await self.read_script(summaries.read_facts, key)

    async def write_facts(
        self, key: Key, changes: Sequence[FactChange], *, generation: int | None = None
    ) -> list[Fact]:
        return await self.write_script(summaries.write_facts, key, changes, generation)

    async def remove_fact(self, key: Key, number: int) -> bool:
        return await self.write_script(summaries.remove_fact, key, number)

    async def profile_facts(self, agent: str, scope: str) -> list[ProfileFact]:
        return await self.read_script(fact_rows.read_profile_facts, agent, scope)

    async def enqueue_task(self, key: Key, *, task: str) -> bool:
        return await self.write_script(leases.enqueue_task, key, task)

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        return await self.write_script(leases.claim, key, owner, task, seconds)

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        return await self.write_script(leases.claim_next, owner, task, seconds)

    async def extend(self, lease: Lease, seconds: float) -> bool:
        return await self.write_script(leases.extend, lease, seconds)

    async def complete_task(self, lease: Lease, *, again_in: float | None = None) -> bool:
        return await self.write_script(leases.complete_task, lease, again_in)

    async def put_records(
        self,
        key: Key,
        kind: str,
        records: Sequence[tuple[str, str]],
        *,
        keep: int | None = None,
        derived: bool = False,
        generation: int | None = None,
        refs: Sequence[MessageRef] = (),
    ) -> list[int]:
        check_put(kind, records, keep)
        given = (key, kind, records, keep, derived, generation, refs)
        return await self.write_script(record_rows.put_records, *given)

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        check_read(kind, limit)
        return await self.read_script(record_rows.read_records, key, kind, name, after, limit) or []

    async def drop_records(
        self, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
    ) -> list[str]:
        check_drop(kind, names)
        return await self.write_script(record_rows.drop_records, key, kind, names, before)

    async def read_indexed(
        self, agent: str, scope: str, places: Sequence[tuple[str, int]]
    ) -> list[IndexedMessage]:
        return await self.read_script(log.read_indexed, agent, scope, places)

    async def list_agents(self, *, scope: str | None, after: str | None, limit: int) -> list[str]:
        return await self.read_script(listing.list_agents, scope, after, limit)

    async def list_scopes(self, *, agent: str | None, after: str | None, limit: int) -> list[str]:
        return await self.read_script(listing.list_scopes, agent, after, limit)

    async def list_conversations(
        self, scope: str, *, agent: str | None, after: Key | None, limit: int
    ) -> list[ConversationInfo]:
        return await self.read_script(listing.list_conversations, scope, agent, after, limit)

    async def outline(self, key: Key, ranges: Sequence[tuple[int, int]]) -> ConversationOutline:
        return await self.read_script(read_outline, key, ranges)

    async def fork(self, key: Key, at: int | None, name: str) -> None:
        await self.write_script(forks.fork, key, at, name)

    async def shared_until(self, key: Key) -> int:
        return await self.read_script(forks.shared_until, key)

    async def count_conversations(self, scope: str | None) -> int:
        return await self.read_script(_transfer().count_conversations, scope)

    async def export_keys(self, scope: str | None, *, after: int, limit: int) -> list[tuple[int, Key]]:
        return await self.read_script(_transfer().export_keys, scope, after, limit)

    async def export_messages(self, key: Key, *, after: int, last: int, limit: int) -> list[MessageRow]:
        return await self.read_script(_transfer().export_messages, key, after, last, limit)

    async def last_own_position(self, key: Key) -> int:
        return await self.read_script(_transfer().last_own_position, key)

    async def export_conversation(self, key: Key) -> ConversationCopy:
        return await self.read_script(_transfer().export_conversation, key)

    async def import_messages(self, key: Key, rows: Sequence[MessageRow], *, generation: int) -> None:
        await self.write_script(_transfer().import_messages, key, rows, generation)

    async def import_conversation(self, key: Key, copy: ConversationCopy) -> None:
        await self.write_script(_transfer().import_conversation, key, copy)


async def append_with_records(
    session: Session,
    key: Key,
    drafts: Sequence[Draft],
    records: Sequence[RecordDraft],
    turn: TurnToken | None,
    ends: bool,
) -> list[int]:
    """Append, in a turn or without one, and put records."""
    if turn is None:
        positions = await log.append(session, key, drafts)
    else:
        positions = await turns.append_in_turn(session, key, drafts, turn, ends)
    for record in records:
        await record_rows.put_draft(session, key, record)
    return positions


def _transfer() -> ModuleType:
    """Imported here: few programs copy a memory."""
    from autonomy_ctx.memory.sql import transfer

    return transfer
