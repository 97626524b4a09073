"""The scripts of turns: who holds the turn of a conversation, and who waits for it, by ticket.

A place is gone when its lease has expired, or at once if it is known that its process has ended. An owner
names one turn, so that a turn which asks again after a lost connection gets the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from itertools import starmap
from typing import NamedTuple

from autonomy_ctx.errors import TurnLost
from autonomy_ctx.memory.sql.log import (
    HEAD,
    LockedLog,
    append_drafts,
    ensure_conversation,
    is_stored,
    lock_log,
)
from autonomy_ctx.memory.sql.query import load_queries
from autonomy_ctx.memory.sql.records import put_draft, read_records
from autonomy_ctx.memory.sql.session import Session
from autonomy_ctx.memory.store import (
    AppendResult,
    Draft,
    Head,
    Key,
    RecordDraft,
    TurnStart,
    TurnToken,
    is_current_lease,
)

_QUERIES = load_queries("turns", head=HEAD)


class QueueTicket(NamedTuple):
    """A place in the line for a turn."""

    ticket: int
    owner: str
    until: float


class LockedLine(NamedTuple):
    """The line of one conversation: who holds the turn, and who waits."""

    log: LockedLog
    holder: QueueTicket
    last_ticket: int
    places: list[QueueTicket]

    def find(self, owner: str) -> QueueTicket | None:
        """The place of an owner."""
        return next((place for place in self.places if place.owner == owner), None)

    def before(self, owner: str) -> list[QueueTicket]:
        """The holder, and those who wait before the place of an owner, or before the end."""
        own = self.find(owner)
        waiting = [place for place in self.places if own is None or place.ticket < own.ticket]
        return [self.holder, *waiting] if self.holder.ticket else waiting

    def is_held(self, owner: str) -> bool:
        """True while an owner holds the turn."""
        return self.holder.ticket != 0 and self.holder.owner == owner


def turn_topic(key: Key) -> str:
    """The notification topic of a conversation's turns."""
    return f"turn {sha256(chr(0).join(key).encode()).hexdigest()}"


async def begin_turn(
    session: Session,
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
    """Acquire the turn and append its first messages, or take a place in the queue; in one transaction.

    A waiting turn passes its `ticket`; if its place is gone, it gets a new place at the end of the queue.
    With `after`, nothing is appended, and there are no positions, if the log ends elsewhere; with `unless`,
    if there are records of this kind. The records of the kind `records` are returned.
    """
    while (line := await _read_line(session, key)) is None:
        await ensure_conversation(session, key)
    place, again = line.find(owner) if line.places else None, line.is_held(owner)
    if not again and await _seconds_until_free(session, line, owner):
        return TurnStart(await _wait(session, line, place, owner, seconds), None)
    # First: what it refuses, such as other content under a known id, must not take the turn.
    head = line.log.head
    fits = after in (None, head.position) or (
        again and await is_stored(session, line.log.conversation_id, drafts)
    )
    if fits and unless is not None:
        fits = not await session.fetch(_QUERIES["find_record"], id=line.log.conversation_id, kind=unless)
    positions, moved = await append_drafts(session, line.log, drafts) if fits else AppendResult([])
    ticket = line.holder.ticket if again else line.last_ticket + 1 if place is None else place.ticket
    waiting = 0
    if line.places:
        waiting = sum(one.ticket > ticket for one in line.places)
        await session.execute(_QUERIES["delete_places"], id=line.log.conversation_id, ticket=ticket)
    await session.execute(
        _QUERIES["take"],
        id=line.log.conversation_id,
        ticket=ticket,
        owner=owner,
        seconds=seconds,
        last_ticket=max(ticket, line.last_ticket),
        waiting=waiting,
    )
    found = () if records is None else await read_records(session, key, records)
    took_over = line.holder.ticket != 0 and not again
    return TurnStart(ticket, positions, took_over, head.position, head.generation, found, moved)


async def append(
    session: Session,
    key: Key,
    drafts: Sequence[Draft],
    records: Sequence[RecordDraft],
    *,
    turn: TurnToken | None = None,
    ends: bool = False,
    after: int | None = None,
) -> AppendResult:
    """Append, in a turn or without one, and put records."""
    appended, log = AppendResult([]), None
    if turn is not None:
        appended, log = await _append_in_turn(session, key, drafts, turn, ends)
    elif drafts:
        log = await lock_log(session, key)
        if after not in (None, log.head.position):
            return appended
        appended = await append_drafts(session, log, drafts)
    for record in records:
        await put_draft(session, key, record, log)
        # That raises the generation.
        log = None if record.ends_quotes else log
    return appended


async def _append_in_turn(
    session: Session, key: Key, drafts: Sequence[Draft], turn: TurnToken, ends: bool
) -> tuple[AppendResult, LockedLog | None]:
    """Append while the turn is held; what is stored already also later."""
    line = await _read_line(session, key)
    is_held = line is not None and line.holder[:2] == (turn.ticket, turn.owner)
    if drafts and not is_held:
        is_known = line is not None and await is_stored(session, line.log.conversation_id, drafts)
        if not is_known:
            raise TurnLost
    if line is None:
        return AppendResult([]), None
    appended = await append_drafts(session, line.log, drafts)
    if ends and is_held:
        await _release(session, key, line)
    return appended, line.log


async def renew_turn(session: Session, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
    """Renew the lease of the turn or of the place in the queue; false if it is gone."""
    values = {**session.key_values(key), "ticket": ticket, "owner": owner, "seconds": seconds}
    # A waiting turn may become the holder in between, but never the reverse.
    for name in ("renew_holder", "renew_place", "renew_holder"):
        if await session.execute(_QUERIES[name], **values):
            return True
    return False


async def leave_turn(session: Session, key: Key, ticket: int | None, *, owner: str) -> None:
    """Release the turn or the place; without a ticket, whatever the owner has."""
    line = await _read_line(session, key)
    if line is None:
        return
    place = line.find(owner)
    if line.is_held(owner) and ticket in (None, line.holder.ticket):
        await _release(session, key, line)
    elif place is not None and ticket in (None, place.ticket):
        await session.execute(_QUERIES["delete_place"], id=line.log.conversation_id, ticket=place.ticket)
        await _update_line(session, line, line.last_ticket, len(line.places) - 1)
        await session.notify(turn_topic(key))


async def seconds_until_turn(session: Session, key: Key, ticket: int) -> float:
    """The seconds until all before a ticket are gone, unless they renew.

    0 when its turn may have come, or its place is gone.
    """
    line = await _read_line(session, key, lock=False)
    owner = None if line is None else next((one.owner for one in line.places if one.ticket == ticket), None)
    return 0.0 if line is None or owner is None else await _seconds_until_free(session, line, owner)


async def _seconds_until_free(session: Session, line: LockedLine, owner: str) -> float:
    """The seconds until the leases of all before an owner have expired; 0 when the turn is free for it."""
    if not line.holder.ticket and not line.places:
        return 0.0
    before = [one for one in line.before(owner) if not session.has_ended(one.owner)]
    if not before:
        return 0.0
    [(now,)] = await session.fetch(_QUERIES["select_now"])
    return max((one.until - now for one in before if is_current_lease(one.until, now)), default=0.0)


async def _wait(
    session: Session, line: LockedLine, place: QueueTicket | None, owner: str, seconds: float
) -> int:
    """Keep a place in the line, or take one at its end; its ticket."""
    ticket = line.last_ticket + 1 if place is None else place.ticket
    values = {"id": line.log.conversation_id, "ticket": ticket, "owner": owner, "seconds": seconds}
    await session.execute(_QUERIES["make_place" if place is None else "keep_place"], **values)
    if place is None:
        await _update_line(session, line, ticket, len(line.places) + 1)
    return ticket


async def _release(session: Session, key: Key, line: LockedLine) -> None:
    await session.execute(_QUERIES["release"], id=line.log.conversation_id)
    if line.places:
        await session.notify(turn_topic(key))


async def _update_line(session: Session, line: LockedLine, last_ticket: int, waiting: int) -> None:
    values = {"last_ticket": last_ticket, "waiting": waiting}
    await session.execute(_QUERIES["update_line"], id=line.log.conversation_id, **values)


async def _read_line(session: Session, key: Key, *, lock: bool = True) -> LockedLine | None:
    rows = await session.fetch(_QUERIES["lock_line" if lock else "find_line"], **session.key_values(key))
    if not rows:
        return None
    [(conversation_id, *head, is_fork, ticket, owner, until, last_ticket, waiting)] = rows
    places = await session.fetch(_QUERIES["select_places"], id=conversation_id) if waiting else []
    log = LockedLog(conversation_id, Head(*head), bool(is_fork))
    return LockedLine(log, QueueTicket(ticket, owner, until), last_ticket, list(starmap(QueueTicket, places)))
