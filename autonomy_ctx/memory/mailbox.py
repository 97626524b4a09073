"""Direct messages between agents, stored until they are delivered or expire.

A mailbox belongs to one conversation of one scope with one agent, so mail never crosses scopes and is
deleted with its conversation. Mail is delivered into exactly one log under its own id. Every step can be
repeated after a crash.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from autonomy_ctx.background import Chunks
from autonomy_ctx.errors import ConflictingMessage, InvalidMessage, MailboxFull, MessageTooLarge
from autonomy_ctx.memory.encoding import check_id
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import MAX_POSITION, Key, Record, make_key
from autonomy_ctx.messages.events import MAIL_EXTRA_KEY, DirectMessage, mail_id
from autonomy_ctx.messages.message import ChatRole, Message, now
from autonomy_ctx.messages.transcript import closed_name, nonce, wrap_untrusted
from autonomy_ctx.messages.wire import item_from_dict, item_to_dict
from autonomy_ctx.validation import check_int

MAIL_LABEL = "mail"
CHUNK_SIZE = 200


async def decode_mail(records: Sequence[Record]) -> list[DirectMessage]:
    """The mail of records, in their order."""
    return [_decode(record) async for some in Chunks(records, CHUNK_SIZE) for record in some]


def _decode(record: Record) -> DirectMessage:
    found = item_from_dict(json.loads(record.body))
    if not isinstance(found, DirectMessage):
        raise ValueError("not the body of a direct message")
    return found


def as_message(mail: DirectMessage) -> Message:
    """Mail as a model reads it, under the mail's own id: who wrote it, and the content between marks."""
    form = item_to_dict(mail)
    del form["type"], form["content"]
    source = closed_name(mail.source_agent)
    heading = f"[Direct message from {source}]" if source else "[Direct message]"
    return Message(
        ChatRole.USER,
        f"{heading}\n{wrap_untrusted(MAIL_LABEL, mail.content, nonce(mail.content))}",
        id=mail.id,
        created_at=mail.created_at,
        extra={MAIL_EXTRA_KEY: form},
    )


def mail_fingerprint(mail: DirectMessage) -> str:
    """A fingerprint of the content of mail, regardless of its time."""
    lasting = {name: value for name, value in item_to_dict(mail).items() if name != "created_at"}
    return sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def check_same_content(mail: DirectMessage, known: str) -> None:
    """Raise an error for other content under an id that is in use."""
    if mail_fingerprint(mail) != known:
        raise ConflictingMessage(message_id=mail.id)


MAIL_KIND, DELIVERED_KIND = "mail", "mail-delivered"
# The limit for one conversation; more waiting mail is a fault of a program.
MAX_PENDING = 1_000
MAX_PENDING_BYTES = 2 * 1024 * 1024
MAIL_LIMIT = 64 * 1024
# How far back mail is looked for whose delivery was cut short after it had reached the log.
DELIVERY_LOOKBACK = 128


class Mailbox:
    """The mail of all agents that use a memory."""

    def __init__(self, memory: Memory, *, clock: Callable[[], datetime] = now) -> None:
        self._memory, self._clock = memory, clock

    async def send(self, mail: DirectMessage, *, scope: str, conversation: str) -> bool:
        """Store mail for its target. Returns false if the same mail already waits or was delivered.

        Raises `ConflictingMessage` if the id has other content, and `MailboxFull` if too much mail waits.
        """
        if not isinstance(mail, DirectMessage):
            raise InvalidMessage("mail", f"must be a DirectMessage, not {type(mail).__name__}")
        check_id(mail.id)
        key, store = make_key(mail.target_agent, scope, conversation), self._memory.store
        body = json.dumps(item_to_dict(mail))
        if len(body) > MAIL_LIMIT:
            raise MessageTooLarge(size=len(body), limit=MAIL_LIMIT)
        # What waits first: mail on its way into the log is noted as delivered before it stops waiting.
        for known in await decode_mail(await store.read_records(key, MAIL_KIND, name=mail.id, limit=1)):
            if not known.expired(self._clock()):
                check_same_content(mail, mail_fingerprint(known))
                return False
        if await self._was_delivered(key, mail):
            return False
        await self._check_room(key, len(body))
        await store.put_records(key, MAIL_KIND, [(mail.id, body)])
        # Somebody else may have sent the same meanwhile, and it may have been delivered.
        if await self._was_delivered(key, mail):
            await store.drop_records(key, MAIL_KIND, [mail.id])
            return False
        return True

    async def query_by_target(
        self, target: str, *, scope: str, conversation: str, node: str | None = None, limit: int | None = None
    ) -> list[DirectMessage]:
        """The mail that waits for an agent and has not expired, most urgent first, then oldest first.

        With a `node`, mail for other nodes is left out. With a `limit`, only the first ones are returned.
        """
        check_int("limit", limit, least=0, most=MAX_POSITION, optional=True)
        key, at = make_key(target, scope, conversation), self._clock()
        found = await decode_mail(await self._memory.store.read_records(key, MAIL_KIND))
        waiting = [
            one
            for one in found
            if not one.expired(at) and (node is None or one.target_node_id in (None, target, node))
        ]
        if waiting:
            log = await self._memory.for_agent(target).read(scope, conversation, limit=DELIVERY_LOOKBACK)
            arrived = {mail_id(entry.message) for entry in log.entries}
            waiting = [one for one in waiting if one.id not in arrived]
        return sorted(waiting, key=lambda one: (-one.priority, one.created_at))[:limit]

    async def deliver(self, target: str, ids: Iterable[str], *, scope: str, conversation: str) -> int:
        """Move mail to the target's log. Repeating the call is safe. Returns how many were moved."""
        wanted = set(ids)
        if not wanted:
            return 0
        key, store = make_key(target, scope, conversation), self._memory.store
        generation = (await store.head(key)).generation
        waiting = await decode_mail(await store.read_records(key, MAIL_KIND))
        # Mail that has expired since is included, because it was read in time. The log is ordered by time.
        read = sorted((one for one in waiting if one.id in wanted), key=lambda one: one.created_at)
        if not read:
            return 0
        logged = await self._append(key, read)
        # Only now: what is noted as delivered is in the log, and what stops waiting is noted.
        notes = [(one.id, mail_fingerprint(one)) for one in read]
        if not await store.put_records(key, DELIVERED_KIND, notes, generation=generation):
            await self._undo_append(key, logged)
            return await self.deliver(target, wanted, scope=scope, conversation=conversation)
        return len(await store.drop_records(key, MAIL_KIND, [one.id for one in read]))

    async def _append(self, key: Key, read: Sequence[DirectMessage]) -> dict[str, str]:
        """Append mail to the log; returns, for the id of each, its id in the log."""
        log, ids = self._memory.for_agent(key.agent), {one.id: one.id for one in read}
        while True:
            try:
                messages = [replace(as_message(one), id=ids[one.id]) for one in read]
                await log.append(key.scope, key.conversation, *messages)
                return ids
            except ConflictingMessage as error:
                # Another message has that id. One mail must not block all others forever.
                other = [one for one in read if ids[one.id] == one.id == error.message_id]
                if not other:
                    raise
                ids[error.message_id] = mail_fingerprint(other[0])

    async def _undo_append(self, key: Key, logged: Mapping[str, str]) -> None:
        """Delete the mail again if the conversation was deleted meanwhile."""
        log, store = self._memory.for_agent(key.agent), self._memory.store
        for name, message_id in logged.items():
            waits = await store.read_records(key, MAIL_KIND, name=name, limit=1)
            if not waits and not await store.read_records(key, DELIVERED_KIND, name=name, limit=1):
                await log.delete_message(key.scope, key.conversation, message_id)

    async def _was_delivered(self, key: Key, mail: DirectMessage) -> bool:
        noted = await self._memory.store.read_records(key, DELIVERED_KIND, name=mail.id, limit=1)
        if noted:
            check_same_content(mail, noted[0].body)
        return bool(noted)

    async def _check_room(self, key: Key, size: int) -> None:
        """Raise `MailboxFull` if there is no room; expired mail is removed first."""
        store = self._memory.store
        records = await store.read_records(key, MAIL_KIND)
        if _fits(records, size):
            return
        at = self._clock()
        expired = {one.id for one in await decode_mail(records) if one.expired(at)}
        left = [record for record in records if record.name not in expired]
        if not _fits(left, size):
            raise MailboxFull(
                target=key.agent,
                waiting=len(left),
                limit=MAX_PENDING,
                size=sum(len(record.body) for record in left),
                most_bytes=MAX_PENDING_BYTES,
            )
        await store.drop_records(key, MAIL_KIND, list(expired))


def _fits(waiting: Sequence[Record], size: int) -> bool:
    total = size + sum(len(record.body) for record in waiting)
    return len(waiting) < MAX_PENDING and total <= MAX_PENDING_BYTES
