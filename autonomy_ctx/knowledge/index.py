"""The full-text index in SQLite: documents in, passages out. All of it blocks; `text` runs it in threads."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources

from autonomy_ctx.errors import KnowledgeError, SchemaTooNew, StoreUnavailable
from autonomy_ctx.knowledge.chunks import chunks
from autonomy_ctx.knowledge.documents import Document
from autonomy_ctx.knowledge.knowledge import Passage
from autonomy_ctx.knowledge.terms import indexed

# Tells our files from others: "aknw".
APPLICATION, VERSION = 0x616B6E77, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A document divided into passages, each with its form in the index."""

    source: str
    title: str | None
    digest: bytes
    passages: tuple[tuple[str, str], ...]


def opened(path: str, timeout: float) -> sqlite3.Connection:
    """A connection to a file of ours, made if it is new; one that holds something else is left alone."""
    connection = sqlite3.connect(path, timeout=timeout, check_same_thread=False, isolation_level=None)
    try:
        # Only a new file is locked: opening must not wait for whoever is writing to an old one.
        if not _is_ours(connection, path):
            connection.execute("BEGIN IMMEDIATE")
            if not _is_ours(connection, path):
                _create(connection)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection, path: str) -> bool:
    """Whether the file has our tables; false when it has none at all."""
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return False
    [application] = connection.execute("PRAGMA application_id").fetchone()
    [version] = connection.execute("PRAGMA user_version").fetchone()
    if application != APPLICATION:
        raise StoreUnavailable(
            path=path, problem="it is a database of something else", advice="give knowledge a file of its own"
        )
    if version > VERSION:
        raise SchemaTooNew(path=path, found=version, known=VERSION)
    return True


def _create(connection: sqlite3.Connection) -> None:
    schema = (resources.files("autonomy_ctx.knowledge") / "schema.sql").read_text(encoding="utf-8")
    try:
        for statement in schema.split(";\n"):
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if "no such module" in str(error):
            raise KnowledgeError(
                "TextKnowledge", "needs an SQLite with FTS5, which this Python's has not; use another build"
            ) from error
        raise
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def digest_of(document: Document) -> bytes:
    """What changes when a document does."""
    return sha256(f"{document.title or ''}\0{document.text}".encode()).digest()


def prepared(document: Document) -> Prepared:
    """The document divided, without touching the index."""
    passages = tuple((text, indexed(text, document.title)) for text in chunks(document.text))
    return Prepared(
        source=document.source, title=document.title, digest=digest_of(document), passages=passages
    )


def unchanged(connection: sqlite3.Connection, documents: Sequence[Document]) -> set[str]:
    """The sources of documents that the index has just so."""
    found = set()
    for document in documents:
        row = connection.execute(
            "SELECT digest FROM document WHERE source = ?", (document.source,)
        ).fetchone()
        if row is not None and row[0] == digest_of(document):
            found.add(document.source)
    return found


def put(
    connection: sqlite3.Connection,
    changed: Iterable[Prepared],
    *,
    folder: str | None = None,
    sources: Sequence[str] = (),
) -> None:
    """Replace these documents; of a folder, drop what is no longer among its `sources`."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for document in changed:
            _drop(connection, document.source)
            _insert(connection, document)
        if folder is not None:
            for source in sources:
                connection.execute("UPDATE document SET folder = ? WHERE source = ?", (folder, source))
            kept = set(sources)
            had = connection.execute("SELECT source FROM document WHERE folder = ?", (folder,)).fetchall()
            for [source] in had:
                if source not in kept:
                    _drop(connection, source)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def drop(connection: sqlite3.Connection, source: str) -> bool:
    """Remove a document whole; whether there was one."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        there = _drop(connection, source)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
    return there


def find(connection: sqlite3.Connection, question: str, limit: int) -> list[Passage]:
    """The passages that fit best, of equals the older first."""
    rows = connection.execute(
        "SELECT passage.text, passage.source, passage.number, document.title, bm25(words) AS cost"
        " FROM words JOIN passage ON passage.id = words.rowid"
        " JOIN document ON document.source = passage.source"
        " WHERE words MATCH ? ORDER BY cost, passage.id LIMIT ?",
        (question, limit),
    )
    return [
        Passage(text, score=-cost, source=source, title=title, id=f"{source}#{number}")
        for text, source, number, title, cost in rows
    ]


def _insert(connection: sqlite3.Connection, document: Prepared) -> None:
    connection.execute(
        "INSERT INTO document (source, title, digest) VALUES (?, ?, ?)",
        (document.source, document.title, document.digest),
    )
    for number, (text, body) in enumerate(document.passages, start=1):
        made = connection.execute(
            "INSERT INTO passage (source, number, text) VALUES (?, ?, ?)", (document.source, number, text)
        )
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (made.lastrowid, body))


def _drop(connection: sqlite3.Connection, source: str) -> bool:
    connection.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM passage WHERE source = ?)", (source,)
    )
    connection.execute("DELETE FROM passage WHERE source = ?", (source,))
    return connection.execute("DELETE FROM document WHERE source = ?", (source,)).rowcount > 0
