"""`TextKnowledge`: documents in a full-text index (SQLite FTS5), in memory or in a file.

Needs no model and nothing to install. Also here: the index's schema, query syntax and SQL.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib import resources
from pathlib import Path

import anyio.to_thread

from autonomy_ctx.background import AsyncResource
from autonomy_ctx.errors import KnowledgeError, SchemaTooNew, StoreUnavailable
from autonomy_ctx.knowledge.documents import Document, DocumentKnowledge, chunks, read_folder
from autonomy_ctx.knowledge.knowledge import Passage
from autonomy_ctx.language.stemmer import normalized_words
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.language.words import is_unspaced, text_ends
from autonomy_ctx.memory.search_terms import fts_or_query
from autonomy_ctx.memory.sqlite.connection import check_folder, translate_error
from autonomy_ctx.validation import check_int

# Of a long question as many terms and characters count at its beginning as at its end.
END_TERMS, END_CHARACTERS = 32, 10_000


def index_text(text: str, title: str | None = None) -> str:
    """A passage as the index sees it."""
    return " ".join(normalized_words(f"{title}\n{text}" if title else text))


def fts_query(text: str) -> str | None:
    """A question in the index's syntax: any of its words, common ones only if there are no others."""
    found = list(dict.fromkeys(_query_terms(normalized_words(text_ends(text, END_CHARACTERS)))))
    terms = [term for term in found if term not in stop_words()] or found
    if len(terms) > 2 * END_TERMS:
        terms = [*terms[:END_TERMS], *terms[-END_TERMS:]]
    return fts_or_query(terms) or None


def _query_terms(found: list[str]) -> list[str]:
    """Words, and each two neighbours of a script without spaces as one."""
    terms: list[str] = []
    before = ""
    for word in found:
        spaceless = is_unspaced(word)
        if not spaceless:
            terms.append(word)
        elif before:
            if terms[-1] == before:
                terms.pop()
            terms.append(f"{before} {word}")
        else:
            terms.append(word)
        before = word if spaceless else ""
    return terms


# Tells our files from others: "aknw".
APPLICATION_ID, SCHEMA_VERSION = 0x616B6E77, 2
_CREATE_WORDS = "CREATE VIRTUAL TABLE words USING fts5 (body, tokenize = 'unicode61 remove_diacritics 2')"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedDocument:
    """A document divided into passages, each with its form in the index."""

    source: str
    title: str | None
    digest: bytes
    passages: tuple[tuple[str, str], ...]


def open_index(path: str, timeout: float) -> sqlite3.Connection:
    """A connection to a file of ours, made if it is new; one that holds something else is left alone."""
    connection = sqlite3.connect(path, timeout=timeout, check_same_thread=False, isolation_level=None)
    try:
        # Only a new file is locked, because opening an old one must not wait for a writer.
        if not _has_schema(connection, path):
            connection.execute("BEGIN IMMEDIATE")
            if not _has_schema(connection, path):
                _create_schema(connection)
            connection.execute("COMMIT")
        elif _version(connection) < SCHEMA_VERSION:
            connection.execute("BEGIN IMMEDIATE")
            if _version(connection) < SCHEMA_VERSION:
                _index_again(connection)
            connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _has_schema(connection: sqlite3.Connection, path: str) -> bool:
    """Tell whether the file has our tables; false when it has none at all."""
    if connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone() is None:
        return False
    [application] = connection.execute("PRAGMA application_id").fetchone()
    version = _version(connection)
    if application != APPLICATION_ID:
        raise StoreUnavailable(
            path=path,
            problem="it is the database of another program",
            advice="give knowledge a file of its own",
        )
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(path=path, found=version, known=SCHEMA_VERSION)
    return True


def _version(connection: sqlite3.Connection) -> int:
    [version] = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def _index_again(connection: sqlite3.Connection) -> None:
    """Index the passages of an older file, whose words were stemmed by SQLite."""
    connection.execute("DROP TABLE words")
    connection.execute(_CREATE_WORDS)
    rows = connection.execute(
        "SELECT passage.id, passage.text, document.title FROM passage"
        " JOIN document ON document.source = passage.source"
    )
    indexed = ((number, index_text(text, title)) for number, text, title in rows.fetchall())
    connection.executemany("INSERT INTO words (rowid, body) VALUES (?, ?)", indexed)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def _create_schema(connection: sqlite3.Connection) -> None:
    schema = (resources.files("autonomy_ctx.knowledge") / "schema.sql").read_text(encoding="utf-8")
    try:
        for statement in (*schema.split(";\n"), _CREATE_WORDS):
            connection.execute(statement)
    except sqlite3.OperationalError as error:
        if "no such module" in str(error):
            raise KnowledgeError(
                "TextKnowledge", "needs SQLite with FTS5, which this Python does not have; use another build"
            ) from error
        raise
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")


def document_digest(document: Document) -> bytes:
    """A hash of the title and text of a document."""
    return sha256(f"{document.title or ''}\0{document.text}".encode()).digest()


def prepare_document(document: Document) -> IndexedDocument:
    """The document divided, without touching the index."""
    passages = tuple((text, index_text(text, document.title)) for text in chunks(document.text))
    return IndexedDocument(
        source=document.source, title=document.title, digest=document_digest(document), passages=passages
    )


def unchanged_sources(connection: sqlite3.Connection, documents: Sequence[Document]) -> set[str]:
    """The sources of documents that the index has just so."""
    found = set()
    for one in documents:
        row = connection.execute("SELECT digest FROM document WHERE source = ?", (one.source,)).fetchone()
        if row is not None and row[0] == document_digest(one):
            found.add(one.source)
    return found


def put_documents(
    connection: sqlite3.Connection,
    changed: Iterable[IndexedDocument],
    *,
    folder: str | None = None,
    sources: Sequence[str] = (),
) -> None:
    """Replace these documents; of a folder, drop what is no longer among its `sources`."""
    with _transaction(connection):
        for document in changed:
            _delete_document_rows(connection, document.source)
            _insert_document(connection, document)
        if folder is None:
            return
        for source in sources:
            connection.execute("UPDATE document SET folder = ? WHERE source = ?", (folder, source))
        had = connection.execute("SELECT source FROM document WHERE folder = ?", (folder,)).fetchall()
        for source in {source for [source] in had}.difference(sources):
            _delete_document_rows(connection, source)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def find_passages(connection: sqlite3.Connection, question: str, limit: int) -> list[Passage]:
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


def _insert_document(connection: sqlite3.Connection, document: IndexedDocument) -> None:
    connection.execute(
        "INSERT INTO document (source, title, digest) VALUES (?, ?, ?)",
        (document.source, document.title, document.digest),
    )
    for number, (text, body) in enumerate(document.passages, start=1):
        made = connection.execute(
            "INSERT INTO passage (source, number, text) VALUES (?, ?, ?)", (document.source, number, text)
        )
        connection.execute("INSERT INTO words (rowid, body) VALUES (?, ?)", (made.lastrowid, body))


def _delete_document_rows(connection: sqlite3.Connection, source: str) -> bool:
    connection.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM passage WHERE source = ?)", (source,)
    )
    connection.execute("DELETE FROM passage WHERE source = ?", (source,))
    return connection.execute("DELETE FROM document WHERE source = ?", (source,)).rowcount > 0


class TextKnowledge(DocumentKnowledge, AsyncResource):
    """Texts, files and messages in a full-text index, in memory or in a file that processes can share.

    Adding a document with a known `source` replaces the old one. All work runs in worker threads.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout: float = 5.0) -> None:
        self.path = None if path is None else os.fspath(path)
        self._display_path = "knowledge in memory" if self.path is None else self.path
        self._timeout = timeout
        # One connection, one thread at a time; a thread lock, as an index may serve several loops.
        self._lock = threading.Lock()
        if self.path is not None:
            check_folder(self.path)
        try:
            self._connection: sqlite3.Connection | None = open_index(self.path or ":memory:", timeout)
            if self.path is None:
                # One in memory may be dropped without a close: from Python 3.13 on that is a warning.
                weakref.finalize(self, self._connection.close)
        except (sqlite3.Error, OSError) as error:
            raise translate_error(error, self._display_path, timeout) from error

    async def add_folder(self, path: str | os.PathLike[str], pattern: str = "**/*.md") -> list[str]:
        """Add the files of a folder, all or none, and return their sources.

        A second call with the same pattern reads only changed files, and removes files that no longer exist.
        """

        documents = await anyio.to_thread.run_sync(read_folder, path, pattern)
        await self._put(documents, f"{Path(path).as_posix()}\0{pattern}")
        return [one.source for one in documents]

    async def remove(self, source: str) -> bool:
        """Remove the document with this source. Returns whether it was there."""

        def work() -> bool:
            with self._open() as connection, _transaction(connection):
                return _delete_document_rows(connection, source)

        return await anyio.to_thread.run_sync(work)

    async def search(self, query: str, limit: int = 5) -> list[Passage]:
        """The passages that share words with the query, best first."""
        if not isinstance(query, str):
            raise TypeError(f"a query is text, not {type(query).__name__}")
        check_int("limit", limit)

        def work() -> list[Passage]:
            asked = fts_query(query)
            if asked is None:
                return []
            with self._open() as connection:
                return find_passages(connection, asked, limit)

        # If the caller is cancelled, the thread finishes alone; it changes nothing.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    async def close(self) -> None:
        """Close the file. A second call does nothing."""
        await anyio.to_thread.run_sync(self._close)

    def __repr__(self) -> str:
        return f"TextKnowledge({self.path!r})" if self.path is not None else "TextKnowledge()"

    async def _put(self, documents: list[Document], folder: str | None = None) -> None:
        """Add documents, all or none."""
        # Not abandoned on cancellation: after the call, the change is made completely or not at all.
        await anyio.to_thread.run_sync(self._put_now, documents, folder)

    def _put_now(self, documents: list[Document], folder: str | None) -> None:
        by_source = {one.source: one for one in documents}
        with self._open() as connection:
            known = unchanged_sources(connection, list(by_source.values()))
        # Divided before the lock is taken, so that searches do not wait for it.
        changed = [prepare_document(one) for one in by_source.values() if one.source not in known]
        with self._open() as connection:
            put_documents(connection, changed, folder=folder, sources=list(by_source))

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The connection, which others do not use meanwhile."""
        with self._lock:
            if self._connection is None:
                raise KnowledgeError(repr(self), "is closed; make a new one to continue")
            try:
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                raise translate_error(error, self._display_path, self._timeout) from error

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
