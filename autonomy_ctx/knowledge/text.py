"""Knowledge found by its words: a full-text index in SQLite, with nothing to install and no model to ask."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio.to_thread

from autonomy_ctx.background import Closing
from autonomy_ctx.errors import KnowledgeError
from autonomy_ctx.items.message import Message
from autonomy_ctx.knowledge import index
from autonomy_ctx.knowledge.calling import search_function
from autonomy_ctx.knowledge.documents import Document, document, message_documents, read_file, read_folder
from autonomy_ctx.knowledge.knowledge import Passage, checked_limit
from autonomy_ctx.knowledge.terms import question
from autonomy_ctx.memory.sqlite.connection import check_folder, translated

T = TypeVar("T")


class TextKnowledge(Closing):
    """Texts, files and messages in a full-text index: in memory, or in a file that processes may share.

    Adding under a known `source` replaces what was there. Everything runs in worker threads.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, timeout: float = 5.0) -> None:
        self.path = None if path is None else os.fspath(path)
        self._where = "knowledge in memory" if self.path is None else self.path
        self._timeout = timeout
        # One connection, one thread at a time; a thread lock, as an index may serve several loops.
        self._lock = threading.Lock()
        if self.path is not None:
            check_folder(self.path)
        try:
            self._connection: sqlite3.Connection | None = index.opened(self.path or ":memory:", timeout)
        except (sqlite3.Error, OSError) as error:
            raise translated(error, self._where, timeout) from error

    async def add(self, text: str, *, source: str, title: str | None = None) -> None:
        """Add a text, or replace the one with this source."""
        made = document(text, source, title)
        await self._work(lambda: self._put([made]))

    async def add_file(self, path: str | os.PathLike[str]) -> None:
        """Add a text file; its source is its path."""
        await self._work(lambda: self._put([read_file(path)]))

    async def add_folder(self, path: str | os.PathLike[str], pattern: str = "**/*.md") -> list[str]:
        """Add the files of a folder, all or none; gives their sources.

        Done again with the same pattern it reads only what changed, and drops files that are gone.
        """

        def work() -> list[str]:
            documents = read_folder(path, pattern)
            self._put(documents, folder=f"{Path(path).as_posix()}\0{pattern}")
            return [one.source for one in documents]

        return await self._work(work)

    async def add_messages(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        """Add what users, assistants and tools said, all or none; each message is a source of its own."""
        given = list(messages)
        await self._work(lambda: self._put(message_documents(given)))

    async def remove(self, source: str) -> bool:
        """Remove what has this source; whether there was anything."""
        return await self._work(lambda: self._locked(lambda connection: index.drop(connection, source)))

    async def search(self, query: str, limit: int = 5) -> list[Passage]:
        """The passages that share words with the query, best first."""
        if not isinstance(query, str):
            raise TypeError(f"a query is text, not {type(query).__name__}")
        checked_limit("limit", limit)

        def work() -> list[Passage]:
            asked = question(query)
            if asked is None:
                return []
            return self._locked(lambda connection: index.find(connection, asked, limit))

        # Whoever does not wait any longer leaves the thread to finish by itself: it changes nothing.
        return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)

    def as_tool(
        self, *, name: str = "search_knowledge", description: str | None = None, top_k: int = 5
    ) -> Callable[[str], Awaitable[str]]:
        """A function that agents take as a tool."""
        return search_function(self, name=name, description=description, top_k=top_k)

    async def close(self) -> None:
        """Close the file. Twice is harmless."""
        await self._work(self._close)

    def __repr__(self) -> str:
        return f"TextKnowledge({self.path!r})" if self.path is not None else "TextKnowledge()"

    async def _work(self, work: Callable[[], T]) -> T:
        # Not left behind: when the call is over, the change is made or it is not.
        return await anyio.to_thread.run_sync(work)

    def _put(self, documents: Sequence[Document], *, folder: str | None = None) -> None:
        documents = list({one.source: one for one in documents}.values())
        known = self._locked(lambda connection: index.unchanged(connection, documents))
        # Divided before the lock is taken, so that searches do not wait for it.
        changed = [index.prepared(one) for one in documents if one.source not in known]
        sources = [one.source for one in documents]
        self._locked(lambda connection: index.put(connection, changed, folder=folder, sources=sources))

    def _locked(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._lock:
            if self._connection is None:
                raise KnowledgeError(repr(self), "is closed; make a new one to go on")
            try:
                return work(self._connection)
            except (sqlite3.Error, OSError) as error:
                raise translated(error, self._where, self._timeout) from error

    def _close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
