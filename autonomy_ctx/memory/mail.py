"""Mail as it is kept and as a model reads it: pure functions between the two.

What waits is sorted and sifted by a few of its fields; only what is asked for is read whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.items.events import DirectMessage
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.wire import item_from_dict, item_to_dict
from autonomy_ctx.memory.records import Record
from autonomy_ctx.memory.strides import Strides

# What marks a message of the log as mail, with all that was sent beside the content.
MARK = "direct_message"
STRIDE = 200


class Waiting(NamedTuple):
    """Mail that waits: what decides whether and where it is shown, and its dict form."""

    id: str
    priority: float
    sent: datetime
    ttl_seconds: float | None
    node: str | None
    form: dict[str, Any]

    def expired(self, at: datetime) -> bool:
        """As of a `DirectMessage`."""
        return self.ttl_seconds is not None and (at - self.sent).total_seconds() >= self.ttl_seconds

    def is_for(self, target: str, node: str | None) -> bool:
        """Whether the target may read it at a node; None is any."""
        return node is None or self.node in (None, target, node)

    def mail(self) -> DirectMessage:
        """All of it."""
        found = item_from_dict(self.form)
        if not isinstance(found, DirectMessage):
            raise ValueError("not the body of a direct message")
        return found


def to_body(mail: DirectMessage) -> str:
    """Mail as a record's body."""
    return json.dumps(item_to_dict(mail))


async def read_waiting(records: Sequence[Record]) -> list[Waiting]:
    """The mail of records, in their order."""
    return [_waiting(json.loads(record.body)) async for some in Strides(records, STRIDE) for record in some]


def by_urgency(waiting: Sequence[Waiting]) -> list[Waiting]:
    """Most urgent first, then oldest first, then as it came."""
    return sorted(waiting, key=lambda one: (-one.priority, one.sent))


def as_message(mail: DirectMessage) -> Message:
    """Mail as a model reads it, under the mail's own id."""
    form = item_to_dict(mail)
    del form["type"], form["content"]
    source = " ".join(mail.source_agent.split())
    return Message(
        ChatRole.USER,
        f"[Direct message from {source}] {mail.content}" if source else f"[Direct message] {mail.content}",
        id=mail.id,
        created_at=mail.created_at,
        extra={MARK: form},
    )


def mail_id(message: Message) -> str | None:
    """The id of the mail that a message shows; None for any other message."""
    sent = message.extra.get(MARK)
    found = sent.get("id") if isinstance(sent, Mapping) else None
    return found if isinstance(found, str) else None


def fingerprint(form: Mapping[str, Any]) -> str:
    """The same for mail that says the same, whenever it was sent."""
    lasting = {name: value for name, value in form.items() if name != "created_at"}
    return sha256(json.dumps(lasting, sort_keys=True).encode()).hexdigest()


def check_same(mail: DirectMessage, known: str) -> None:
    """Refuse other content under an id that is in use."""
    if fingerprint(item_to_dict(mail)) != known:
        raise ConflictingMessage(message_id=mail.id)


def _waiting(form: dict[str, Any]) -> Waiting:
    return Waiting(
        id=form["id"],
        priority=form["priority"],
        sent=datetime.fromisoformat(form["created_at"]),
        ttl_seconds=form["ttl_seconds"],
        node=form["target_node_id"],
        form=form,
    )
