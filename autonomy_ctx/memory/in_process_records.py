"""The records of one conversation that lives in this process."""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.memory.records import Record


class RecordRows:
    """Records by kind and name, oldest first; numbers are never used again."""

    __slots__ = ("_derived", "_kinds", "_last_number")

    def __init__(self) -> None:
        self._kinds: dict[str, dict[str, Record]] = {}
        self._derived: set[int] = set()
        self._last_number = 0

    def put(
        self, kind: str, records: Sequence[tuple[str, str]], keep: int | None, derived: bool, now: float
    ) -> list[int]:
        """Store records at the end."""
        rows = self._kinds.setdefault(kind, {})
        numbers = []
        for name, body in records:
            self._remove(kind, name)
            self._last_number += 1
            rows[name] = Record(self._last_number, name, now, body)
            numbers.append(self._last_number)
            if derived:
                self._derived.add(self._last_number)
        if keep is not None:
            for name in list(rows)[:-keep]:
                self._remove(kind, name)
        return numbers

    def read(self, kind: str, name: str | None, after: int, limit: int | None) -> list[Record]:
        """The newest records after a number, oldest first."""
        rows = self._kinds.get(kind, {})
        found = list(rows.values()) if name is None else [rows[name]] if name in rows else []
        found = [record for record in found if record.number > after]
        return found if limit is None else found[max(len(found) - limit, 0) :]

    def drop(self, kind: str, names: Sequence[str] | None, before: float | None) -> list[str]:
        """Remove records; the names of those that were there, oldest first."""
        meant = None if names is None else set(names)
        gone = [
            name
            for name, record in self._kinds.get(kind, {}).items()
            if (meant is None or name in meant) and (before is None or record.at < before)
        ]
        for name in gone:
            self._remove(kind, name)
        return gone

    def forget(self, *, only_derived: bool) -> None:
        """Remove all records, or those that are made from messages."""
        for kind, rows in self._kinds.items():
            for name, record in list(rows.items()):
                if not only_derived or record.number in self._derived:
                    self._remove(kind, name)

    def _remove(self, kind: str, name: str) -> None:
        gone = self._kinds[kind].pop(name, None)
        if gone is not None:
            self._derived.discard(gone.number)
