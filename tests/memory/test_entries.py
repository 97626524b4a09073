"""Entries whose positions and messages are kept apart read as a list of entries does."""

from __future__ import annotations

from autonomy_ctx.memory.entries import EntryColumns
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.message import Message

ENTRIES = [Entry(position, Message("user", f"said {position}")) for position in (3, 4, 7, 8)]
COLUMNS = EntryColumns.of(ENTRIES)


def test_columns_read_as_the_entries_that_they_were_made_of() -> None:
    assert list(COLUMNS) == ENTRIES
    assert [COLUMNS[index] for index in (0, 2, -1)] == [ENTRIES[index] for index in (0, 2, -1)]
    assert list(reversed(COLUMNS)) == ENTRIES[::-1]
    assert (len(COLUMNS), ENTRIES[1] in COLUMNS, bool(COLUMNS[:0])) == (4, True, False)
    assert all(type(entry) is Entry for entry in COLUMNS)


def test_slices_and_sums_of_columns_are_columns() -> None:
    assert COLUMNS[1:3] == ENTRIES[1:3]
    assert COLUMNS[-2:] + COLUMNS[:1] == [*ENTRIES[-2:], ENTRIES[0]]
    assert isinstance(COLUMNS[1:] + COLUMNS, EntryColumns)


def test_columns_are_equal_where_their_entries_are() -> None:
    assert EntryColumns.of(list(ENTRIES)) == COLUMNS == ENTRIES
    assert ENTRIES == COLUMNS
    assert ENTRIES[1:] != COLUMNS
    assert EntryColumns.of(COLUMNS) is COLUMNS
