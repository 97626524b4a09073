"""The SQL of the message log: writing in a `Transaction`, and reading windows, heads and single messages.

Small windows are read row by row. Large ones are read in a thread as JSON arrays of many rows, because a
thread has to wait for the interpreter lock after each row that SQLite steps to.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.errors import ConflictingMessage
from autonomy_ctx.memory.encoding import (
    UnreadableRow,
    check_complete,
    decode_entries,
    same_content,
    to_microseconds,
)
from autonomy_ctx.memory.sqlite.connection import snapshot
from autonomy_ctx.memory.sqlite.facts import DROP_LOST, DROP_RANGE, drop_facts
from autonomy_ctx.memory.sqlite.forks import (
    MessagePlace,
    SharedRange,
    find_message,
    newest_user,
    read_forks,
    read_ranges,
    remove_ranges,
)
from autonomy_ctx.memory.sqlite.fulltext import unlist_entries
from autonomy_ctx.memory.sqlite.progress import Progress
from autonomy_ctx.memory.sqlite.segments import restore_segments
from autonomy_ctx.memory.sqlite.vectors import delete_vectors
from autonomy_ctx.memory.store import MAX_POSITION, Draft, Head, Key, Window
from autonomy_ctx.messages.message import USER

# An append of a few messages writes 3 to 13 pages of 4 KB.
PROBE_BYTES = 12 * 4096

_SELECT_CONVERSATION = """
    SELECT id, head, count, generation, last_user, revision, is_fork FROM conversation
    WHERE agent = ? AND scope = ? AND conversation = ?
"""
_SELECT_BY_MESSAGE_ID = """
    SELECT m.position, coalesce(w.body, m.body) FROM message m
    LEFT JOIN whole w ON w.conversation_id = m.conversation_id AND w.position = m.position
    WHERE m.conversation_id = ? AND m.id = ?
"""
_INSERT_MESSAGE = """
    INSERT INTO message (conversation_id, position, id, created, is_user, tokens, counter, size, body)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_COUNT_COMMIT = "UPDATE progress SET commits = commits + 1, messages = messages + ?"
_SELECT_PROGRESS = "SELECT database, commits, messages FROM progress"
_UPDATE_HEAD = "UPDATE conversation SET head = ?, count = ?, last_user = ? WHERE id = ?"
_ROW_COLUMNS = (
    "m.position, m.id, m.created, m.tokens, m.counter, m.size, CASE WHEN m.size <= ?4 THEN m.body END"
)
_SELECT_ROWS = f"""
    SELECT {_ROW_COLUMNS} FROM message m
    WHERE m.conversation_id = ?1 AND m.position > ?2 AND m.position < ?3
    ORDER BY m.position DESC LIMIT ?5
"""  # noqa: S608  # our names
# A fork reads range by range, newest first.
_SELECT_FORK_ROWS = f"""
    SELECT {_ROW_COLUMNS} FROM shared_range r
    CROSS JOIN message m ON m.conversation_id = r.source_id
        AND m.position BETWEEN max(r.first, ?2 + 1) AND min(r.last, ?3 - 1)
    WHERE r.conversation_id = ?1
    ORDER BY r.first DESC, m.position DESC LIMIT ?5
"""  # noqa: S608  # our names
# Position 0 is any of a conversation, see the schema.
_DELETE_QUOTING = """
    DELETE FROM record WHERE number IN (
        SELECT number FROM record_ref WHERE conversation_id = ?1 AND position = 0
        UNION ALL
        SELECT number FROM record_ref WHERE conversation_id = ?1 AND position BETWEEN ?2 AND ?3)
"""
# Those of which it is not known what they quote.
_DELETE_UNKNOWN = """
    DELETE FROM record WHERE number IN (SELECT number FROM record_ref WHERE conversation_id = 0)
    AND conversation_id IN (SELECT id FROM conversation WHERE scope = ?)
"""


@dataclass(slots=True)
class ConversationRow:
    """A conversation's row while a transaction works on it."""

    id: int
    position: int
    count: int
    last_user: int
    is_fork: bool = False


class Transaction:
    """Many writes in one commit. A conversation's row is read at most once and written once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        # Those that this transaction has changed and not yet written.
        self._open_rows: dict[Key, ConversationRow] = {}
        self._changes_before = connection.total_changes
        self._appended = 0
        self.has_deleted = False
        # Called by the writer's thread right after the commit, before anybody learns of it.
        self.when_committed: list[Callable[[], None]] = []
        # Whether this transaction has taken a step of the search index: one is enough for a commit.
        self.has_indexed = False

    def append(self, key: Key, drafts: Sequence[Draft]) -> list[int]:
        """Store drafts at the next positions, all of them or none."""
        row = self._open_rows.get(key) or self._conversation(key)
        before, last_user = row.position, row.last_user
        positions: list[int] = []
        for draft in drafts:
            known = find_message(self._connection, row.id, draft.message.id) if row.is_fork else None
            # The unique index finds a known id; asking first would cost every new message a query.
            try:
                if known is None:
                    self._insert(row.id, row.position + 1, draft)
            except sqlite3.IntegrityError:
                known = MessagePlace(row.id, 0)
            if known is not None:
                found = self._connection.execute(
                    _SELECT_BY_MESSAGE_ID, (known.conversation_id, draft.message.id)
                ).fetchone()
                if found is None:
                    raise UnreadableRow("the head of a conversation contradicts its log")
                position, body = found
                if not same_content(body, draft.whole or draft.body):
                    self._undo(row, before, last_user)
                    raise ConflictingMessage(message_id=draft.message.id, position=position)
                positions.append(position)
                continue
            row.position += 1
            positions.append(row.position)
            if draft.message.role is USER:
                row.last_user = row.position
        if not row.count and row.position > before:
            self._connection.execute("UPDATE conversation SET has_messages = 1 WHERE id = ?", (row.id,))
        row.count += row.position - before
        self._appended += row.position - before
        self._open_rows[key] = row
        return positions

    def delete(
        self, scope: str, agent: str | None, conversation: str | None, ids: Sequence[str] | None
    ) -> int:
        """Delete messages and raise the generation of every conversation that lost one."""
        # Forks, which are newer, before their sources: what goes with a fork is then no loss of it.
        meant = sorted(find_conversation_ids(self.flushed_connection(), scope, agent, conversation))[::-1]
        if ids is None:
            deleted = sum(self._delete_all(conversation_id) for conversation_id in meant)
        else:
            deleted = sum(self._delete_some(conversation_id, ids) for conversation_id in meant)
        if self.has_deleted:
            self._connection.execute(_DELETE_UNKNOWN, (scope,))
        return deleted

    def note_appended(self, messages: int) -> None:
        """Count messages that were stored by other statements than `append`."""
        self._appended += messages

    def probe(self) -> None:
        """Write as much as an append of ordinary size, so that a disk without room for one refuses it."""
        # Random: SQLite does not write a page again that stays the same.
        self._connection.execute("REPLACE INTO health VALUES (1, randomblob(?))", (PROBE_BYTES,))

    def conversation_id(self, key: Key) -> int:
        """A conversation's number in the tables; a row is made for one that is new."""
        row = self._open_rows.get(key)
        return (row or self._conversation(key)).id

    def flushed_connection(self) -> sqlite3.Connection:
        """The connection, with every conversation's row as this transaction has left it."""
        self.flush()
        return self._connection

    def flush(self) -> None:
        """Write the conversations' rows; done before the commit."""
        if self._open_rows:
            heads = [(row.position, row.count, row.last_user, row.id) for row in self._open_rows.values()]
            self._connection.executemany(_UPDATE_HEAD, heads)
            self._open_rows.clear()

    def count(self) -> Progress | None:
        """Count this transaction, as the last thing before its commit; None when it has changed nothing."""
        if self._connection.total_changes == self._changes_before:
            return None
        self._connection.execute(_COUNT_COMMIT, (self._appended,))
        [row] = self._connection.execute(_SELECT_PROGRESS).fetchall()
        return Progress(*row)

    def _conversation(self, key: Key) -> ConversationRow:
        found = self._connection.execute(_SELECT_CONVERSATION, key).fetchone()
        if found is not None:
            return ConversationRow(found[0], found[1], found[2], found[4], bool(found[6]))
        made = self._connection.execute(
            "INSERT INTO conversation (agent, scope, conversation) VALUES (?, ?, ?)", key
        )
        assert made.lastrowid is not None
        return ConversationRow(made.lastrowid, 0, 0, 0)

    def _insert(self, conversation_id: int, position: int, draft: Draft) -> None:
        message = draft.message
        row = (
            conversation_id,
            position,
            message.id,
            to_microseconds(message.created_at),
            message.role is USER,
            draft.tokens,
            draft.counter,
            draft.size,
            draft.body,
        )
        self._connection.execute(_INSERT_MESSAGE, row)
        if draft.whole is not None:
            self._connection.execute(
                "INSERT INTO whole VALUES (?, ?, ?)", (conversation_id, position, draft.whole)
            )

    def _undo(self, row: ConversationRow, position: int, last_user: int) -> None:
        """Take back what this append has inserted; other appends of the transaction stay."""
        for table in ("message", "whole"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE conversation_id = ? AND position > ?",  # noqa: S608  # our names
                (row.id, position),
            )
        row.position, row.last_user = position, last_user

    def _delete_all(self, conversation_id: int) -> int:
        """Delete a conversation and all that was made from it; its own messages go from its forks too."""
        execute, meant = self._connection.execute, (conversation_id,)
        losses = [
            (one, self._count_rows(one, conversation_id)) for one in read_forks(self._connection, *meant)
        ]
        remove_ranges(self._connection, conversation_id)
        execute("DELETE FROM whole WHERE conversation_id = ?", meant)
        deleted = execute("DELETE FROM message WHERE conversation_id = ?", meant).rowcount
        execute("DELETE FROM record WHERE conversation_id = ?", meant)
        facts = execute("DELETE FROM fact WHERE conversation_id = ?", meant).rowcount
        unlist_entries(self._connection, conversation_id)
        delete_vectors(self._connection, conversation_id)
        # Also when nothing is left: what was dropped before may still stand in the write-ahead log.
        self.has_deleted = True
        [(count,)] = execute("SELECT count FROM conversation WHERE id = ?", meant).fetchall()
        self._note_loss(conversation_id, count, [SharedRange(conversation_id, 0, MAX_POSITION)], facts)
        for one, lost in losses:
            if lost:
                self._note_loss(one.conversation_id, lost, [one])
        return deleted

    def _delete_some(self, conversation_id: int, ids: Sequence[str]) -> int:
        """Delete messages of a conversation, from every one that has them."""
        places = [place for message_id in ids for place in self._delete_one(conversation_id, message_id)]
        losses: dict[int, list[SharedRange]] = {}
        for owner in {place.conversation_id for place in places}:
            sharing = [SharedRange(owner, 1, MAX_POSITION), *read_forks(self._connection, owner)]
            for one in sharing:
                losses.setdefault(one.conversation_id, []).extend(
                    SharedRange(one.conversation_id, place.position, place.position)
                    for place in places
                    if place.conversation_id == owner and one.first <= place.position <= one.last
                )
        for one_id, lost in losses.items():
            if lost:
                self._note_loss(one_id, len(lost), lost)
        return len(places)

    def end_quotes(self, conversation_id: int) -> None:
        """Delete the records that quote a conversation as a whole."""
        self.has_deleted = True
        self._connection.execute(_DELETE_QUOTING, (conversation_id, 0, 0))

    def _note_loss(
        self, conversation_id: int, count: int, ranges: Sequence[SharedRange], facts: int = 0
    ) -> None:
        """Delete what was made from messages that are gone, and raise the generation."""
        derived = self._delete_derived(conversation_id, ranges) + facts
        if not count and not derived:
            return
        self.has_deleted = True
        execute = self._connection.execute
        execute("DELETE FROM record WHERE conversation_id = ? AND derived", (conversation_id,))
        execute(
            """
            UPDATE conversation SET count = count - ?2, generation = generation + 1, last_user = ?4,
                revision = revision + ?3
            WHERE id = ?1
            """,
            (conversation_id, count, derived > 0, newest_user(self._connection, conversation_id)),
        )
        execute("UPDATE conversation SET has_messages = 0 WHERE id = ? AND count = 0", (conversation_id,))
        execute(
            "DELETE FROM work WHERE conversation_id = ?1 AND "
            "(SELECT count FROM conversation WHERE id = ?1) = 0",
            (conversation_id,),
        )

    def _delete_derived(self, conversation_id: int, ranges: Sequence[SharedRange]) -> int:
        """Delete the segments from the first lost position on, their facts, and the pins of lost messages.

        The records of any conversation that quote them are deleted, too, and not counted.
        """
        execute = self._connection.execute
        for one in ranges:
            execute(_DELETE_QUOTING, (conversation_id, one.first, one.last))
        first = min(one.first for one in ranges)
        segments = execute(
            "DELETE FROM segment WHERE conversation_id = ? AND last >= ?", (conversation_id, first)
        ).rowcount
        if segments:
            restore_segments(self._connection, conversation_id)
        facts = drop_facts(self._connection, conversation_id, DROP_LOST, conversation_id)
        facts += sum(
            drop_facts(self._connection, conversation_id, DROP_RANGE, one.first, one.last) for one in ranges
        )
        pins = sum(
            execute(
                "DELETE FROM pin WHERE conversation_id = ? AND position BETWEEN ? AND ?",
                (conversation_id, one.first, one.last),
            ).rowcount
            for one in ranges
        )
        return segments + pins + facts

    def _delete_one(self, conversation_id: int, message_id: str) -> list[MessagePlace]:
        place = find_message(self._connection, conversation_id, message_id)
        if place is None:
            return []
        for table in ("message", "whole"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE conversation_id = ? AND position = ?",  # noqa: S608  # our names
                place,
            )
        unlist_entries(self._connection, *place)
        delete_vectors(self._connection, *place)
        return [place]

    def _count_rows(self, shared: SharedRange, owner: int) -> int:
        """Count the rows of the owner in a range."""
        [(number,)] = self._connection.execute(
            "SELECT count(*) FROM message WHERE conversation_id = ? AND position BETWEEN ? AND ?",
            (owner, shared.first, shared.last),
        )
        return int(number)


def read_rows(
    connection: sqlite3.Connection,
    key: Key,
    after: int,
    before: int | None,
    limit: int | None,
    max_bytes: int,
    max_rows: int,
) -> Window | None:
    """A window, or None when it holds more than it may: then not all of it was read."""
    with snapshot(connection):
        found = connection.execute(_SELECT_CONVERSATION, key).fetchone()
        if found is None:
            return Window(Head(), [])
        conversation_id, is_fork, head = found[0], found[6], Head(*found[1:6])
        if type(head.position) is not int or type(head.count) is not int:
            raise UnreadableRow("the head of a conversation cannot be read")
        if 0 < head.position <= after or limit == 0:
            return Window(head, [])
        row_limit, end = MAX_POSITION if limit is None else limit, MAX_POSITION if before is None else before
        if min(head.count, head.position - after, end - after - 1, row_limit) > max_rows:
            return None
        rows: list[tuple[Any, ...]] = []
        total = 0
        statement = _SELECT_FORK_ROWS if is_fork else _SELECT_ROWS
        values = (conversation_id, after, end, max_bytes, row_limit)
        # Closed also when an error keeps this frame alive: an open cursor holds on to an old snapshot.
        with closing(connection.execute(statement, values)) as cursor:
            for row in cursor:
                total += row[5]
                if total > max_bytes:
                    return None
                rows.append(row)
    entries = decode_entries(rows[::-1])
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


def find_conversation(connection: sqlite3.Connection, key: Key) -> tuple[int, Head] | None:
    """A conversation's number in the tables, and where it stands."""
    found = connection.execute(_SELECT_CONVERSATION, key).fetchone()
    return None if found is None else (found[0], Head(*found[1:6]))


def find_conversation_ids(
    connection: sqlite3.Connection, scope: str, agent: str | None, conversation: str | None
) -> list[int]:
    """The numbers of the conversations that are meant: of a scope, perhaps of one agent or name."""
    found = connection.execute(
        """
        SELECT id FROM conversation
        WHERE scope = ?1
          AND (?2 IS NULL OR agent = ?2) AND (?3 IS NULL OR conversation = ?3)
        """,
        (scope, agent, conversation),
    ).fetchall()
    return [number for (number,) in found]


def read_head(connection: sqlite3.Connection, key: Key) -> Head:
    """Where a conversation stands."""
    found = find_conversation(connection, key)
    return Head() if found is None else found[1]


def find_stored(connection: sqlite3.Connection, key: Key, message_id: str) -> str | None:
    """The uncut body of a message, to tell a retry from a conflict; None when there is none."""
    found = find_conversation(connection, key)
    row = (
        None
        if found is None
        else connection.execute(_SELECT_BY_MESSAGE_ID, (found[0], message_id)).fetchone()
    )
    return None if row is None else str(row[1])


def read_full_text(connection: sqlite3.Connection, key: Key, message_id: str) -> str | None:
    """The uncut body of a message that was too large for the log."""
    conversation = find_conversation(connection, key)
    place = None if conversation is None else find_message(connection, conversation[0], message_id)
    if place is None:
        return None
    found = connection.execute(
        "SELECT body FROM whole WHERE conversation_id = ? AND position = ?", place
    ).fetchone()
    return None if found is None else str(found[0])


BLOCK_ROWS = 256
# A body larger than this is read by itself, so that a block stays within 16 MB.
LARGE_BODY_BYTES = 64 * 1024
_SELECT_BLOCK = f"""
    SELECT json_group_array(json_array(position, id, created, tokens, counter, size,
        CASE WHEN size <= {LARGE_BODY_BYTES} THEN body END))
    FROM (SELECT * FROM message WHERE conversation_id = ? AND position > ? AND position < ?
          ORDER BY position DESC LIMIT ?)
"""  # noqa: S608  # our number
_SELECT_BODY = "SELECT body FROM message WHERE conversation_id = ? AND position = ?"


def read_blocks(
    connection: sqlite3.Connection, key: Key, after: int, before: int | None, limit: int | None
) -> Window:
    """A window of any length, in one snapshot."""
    with snapshot(connection):
        found = find_conversation(connection, key)
        if found is None:
            return Window(Head(), [])
        conversation_id, head = found
        rows: list[tuple[Any, ...]] = []
        row_limit = MAX_POSITION if limit is None else limit
        for source_id, first, last in read_ranges(connection, conversation_id):
            start, end = max(after, first - 1), last + 1 if before is None else min(before, last + 1)
            while len(rows) < row_limit:
                size = min(BLOCK_ROWS, row_limit - len(rows))
                block = _read_block(connection, source_id, start, end, size)
                rows += block
                if len(block) < size:
                    break
                end = block[-1][0]
    entries = decode_entries(rows[::-1])
    if before is None:
        check_complete(head, after, limit, len(entries))
    return Window(head, entries)


def _read_block(
    connection: sqlite3.Connection, conversation_id: int, after: int, before: int, size: int
) -> list[tuple[Any, ...]]:
    """The last rows before a position, newest first."""
    [(text,)] = connection.execute(_SELECT_BLOCK, (conversation_id, after, before, size))
    rows = []
    for *values, body in json.loads(text):
        if body is None:
            [(body,)] = connection.execute(_SELECT_BODY, (conversation_id, values[0]))
        rows.append((*values, body))
    # The order within a group is not promised.
    return sorted(rows, reverse=True)
