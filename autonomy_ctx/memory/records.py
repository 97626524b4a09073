"""Records: rows that stand beside a log, such as what was shown, what lies on a shelf, and mail.

A record has a name, unique within its conversation and kind, and a body that only its owner
understands. Like everything else that belongs to a conversation, it goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.memory.key import Key, check_name


class Record(NamedTuple):
    """A row beside a log. Numbers only grow; `at` is in seconds since 1970 by the store's clock."""

    number: int
    name: str
    at: float
    body: str


class Records(Protocol):
    """Rows by kind and name, beside the log of a conversation, which may have no messages yet."""

    async def put_records(
        self,
        key: Key,
        kind: str,
        records: Sequence[tuple[str, str]],
        *,
        keep: int | None = None,
        derived: bool = False,
        generation: int | None = None,
    ) -> list[int]:
        """Store (name, body) pairs, all or none, and give their numbers.

        A name that is there already is replaced and goes to the end. With `keep`, only the newest so
        many of this kind stay. `derived` ones are made from messages: they go when any message of the
        conversation is deleted. With `generation`, nothing is stored and the list is empty when the
        conversation has another one by now.
        """

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        """The newest `limit` records with a number greater than `after`, oldest first."""

    async def drop_records(
        self, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
    ) -> list[str]:
        """Remove records, all or those named, perhaps only those put before a time; the names that went.

        Of several who drop the same record only one is given its name.
        """


def check_put(kind: str, records: Sequence[tuple[str, str]], keep: int | None) -> None:
    """Refuse what some store could not hold exactly as it is, before anything changes."""
    check_name("kind", kind)
    for name, body in records:
        check_name("name", name)
        if not isinstance(body, str):
            raise TypeError(f"the body of record {name!r} must be a string, not {type(body).__name__}")
    if keep is not None and keep < 1:
        raise ValueError(f"keep is {keep}; it must be at least 1")


def check_read(kind: str, limit: int | None) -> None:
    """Refuse a limit that means nothing."""
    check_name("kind", kind)
    if limit is not None and limit < 0:
        raise ValueError(f"limit is {limit}; it must be at least 0")


def check_drop(kind: str, names: Sequence[str] | None) -> None:
    """Refuse one name where names are meant: its letters would be taken for names."""
    check_name("kind", kind)
    if isinstance(names, str):
        raise InvalidKey("names", "must be a list of strings, not one string")
