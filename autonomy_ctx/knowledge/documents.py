"""Documents: reading texts, files, folders and messages, and splitting text into overlapping chunks."""

from __future__ import annotations

import os
import re
import stat
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread

from autonomy_ctx.errors import InvalidDocument
from autonomy_ctx.formats.outgoing import replace_surrogates
from autonomy_ctx.knowledge.knowledge import SearchTool
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.token_estimate import estimate_tokens
from autonomy_ctx.messages.transcript import nonce

CHUNK_TOKENS, OVERLAP_TOKENS = 240, 40
# No token is usually longer, so nothing further back can be part of an overlap.
_OVERLAP_CHARACTERS = 8 * OVERLAP_TOKENS
_PARAGRAPH = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_SENTENCE = re.compile(r"(?<=[.!?\u2026])\s+|(?<=[\u3002\uff01\uff1f])|\n")


class TextSpan(NamedTuple):
    """A part of a text that is not divided further."""

    start: int
    end: int
    tokens: int


def chunks(text: str, *, size: int = CHUNK_TOKENS, overlap: int = OVERLAP_TOKENS) -> list[str]:
    """The text in pieces of at most `size` tokens, each after the last sentences of the one before it."""
    made: list[str] = []
    start = end = begun = spent = 0
    for piece in _split_spans(text, size):
        if spent and spent + piece.tokens > size:
            made.append(text[begun:end].strip())
            begun, start, spent = _overlap_start(text, start, end, overlap), piece.start, 0
        end, spent = piece.end, spent + piece.tokens
    made.append(text[begun:end].strip())
    return [chunk for chunk in made if chunk]


def _overlap_start(text: str, start: int, end: int, tokens: int) -> int:
    """Where the last sentences of text[start:end] begin that cost at most so many tokens."""
    first = max(start, end - _OVERLAP_CHARACTERS)
    starts = [found.end() for found in _SENTENCE.finditer(text, first, end)]
    return next((at for at in starts if at > start and estimate_tokens(text[at:end]) <= tokens), end)


def _split_spans(text: str, size: int) -> Iterator[TextSpan]:
    for paragraph in _split_at(text, 0, len(text), _PARAGRAPH):
        whole = _make_span(text, *paragraph)
        if whole.tokens <= size:
            yield whole
            continue
        for sentence in _split_at(text, *paragraph, _SENTENCE):
            yield from _split_in_half(text, _make_span(text, *sentence), size)


def _split_at(text: str, start: int, end: int, border: re.Pattern[str]) -> Iterator[tuple[int, int]]:
    """Split at borders; a border belongs to the part before it, so nothing is lost."""
    at = start
    for found in border.finditer(text, start, end):
        if found.end() > at:
            yield at, found.end()
        at = found.end()
    if at < end:
        yield at, end


def _split_in_half(text: str, piece: TextSpan, size: int) -> Iterator[TextSpan]:
    if piece.tokens <= size or piece.end - piece.start < 2:
        yield piece
        return
    middle = (piece.start + piece.end) // 2
    space = text.rfind(" ", piece.start + 1, middle)
    cut = space + 1 if space > 0 and middle - space < 100 else middle
    yield from _split_in_half(text, _make_span(text, piece.start, cut), size)
    yield from _split_in_half(text, _make_span(text, cut, piece.end), size)


def _make_span(text: str, start: int, end: int) -> TextSpan:
    return TextSpan(start, end, estimate_tokens(text[start:end]))


MAX_DOCUMENT_BYTES = 16 * 2**20
_BINARY_PROBE_BYTES = 8192
# Possessive: every way to divide a run of blank lines would be tried before it fails.
_TITLE = re.compile(r"\A(?:[^\S\n]*+\n)*+#\s++(.{1,200})$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A text, where it is from, and what it is called."""

    text: str
    source: str
    title: str | None = None


def make_document(text: Any, source: Any, title: Any = None) -> Document:
    """A document, or an error that says what is wrong with it."""
    if not isinstance(source, str) or not source.strip():
        raise InvalidDocument(str(source), "needs a `source`: the name by which it is shown and replaced")
    if not isinstance(text, str):
        raise InvalidDocument(source, f"is {type(text).__name__}, not text")
    if title is not None and not isinstance(title, str):
        raise InvalidDocument(source, f"has a title that is {type(title).__name__}, not text")
    if len(text) > MAX_DOCUMENT_BYTES:
        raise _too_large(source, len(text))
    return Document(
        text=replace_surrogates(text),
        source=replace_surrogates(source),
        title=replace_surrogates(title) if title else None,
    )


def read_file(path: str | os.PathLike[str]) -> Document:
    """A text file; its first heading is its title. Bytes that are not UTF-8 are replaced."""
    source = Path(path).as_posix()
    try:
        # Asked before it is opened: opening a pipe would wait for its writer.
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidDocument(source, "is not a regular file")
        if found.st_size > MAX_DOCUMENT_BYTES:
            raise _too_large(source, found.st_size)
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, InvalidDocument):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidDocument(source, f"cannot be read ({reason})") from error
    if b"\0" in data[:_BINARY_PROBE_BYTES]:
        raise InvalidDocument(source, "is not text; leave it out, or extract its text first")
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    heading = _TITLE.match(text)
    return make_document(text, source, heading[1].strip() if heading else None)


def read_folder(path: str | os.PathLike[str], pattern: str) -> list[Document]:
    """The files below a folder that fit a pattern, by name; what a link leads to elsewhere is left out."""
    folder = Path(path)
    if not folder.is_dir():
        raise InvalidDocument(folder.as_posix(), "is not a folder")
    inside = folder.resolve()
    try:
        files = sorted(file for file in folder.glob(pattern) if file.is_file())
    except (ValueError, NotImplementedError) as error:
        raise InvalidDocument(
            folder.as_posix(), f"has no files for the pattern {pattern!r} ({error})"
        ) from error
    return [read_file(file) for file in files if file.resolve().is_relative_to(inside)]


def message_documents(messages: Iterable[Message | Mapping[str, Any]]) -> list[Document]:
    """Make a document of each message of users, assistants and tools, named after its id.

    A dict without an id is named after its content, so that adding it again adds nothing.
    """
    made: dict[str, Document] = {}
    for given in messages:
        message = wire.from_dict(given)
        if message.role in (ChatRole.SYSTEM, ChatRole.DEVELOPER) or isinstance(message, Summary):
            continue
        text = message.text
        if not text.strip():
            continue
        named = isinstance(given, Message) or given.get("id") or given.get("message_id")
        name = message.id if named else nonce(message.role.value, text)
        made[name] = make_document(text, f"message {name}", message.role.value)
    return list(made.values())


class DocumentKnowledge(SearchTool, ABC):
    """A knowledge base of documents. Adding a document with a known `source` replaces the old one."""

    async def add(self, text: str, *, source: str, title: str | None = None) -> None:
        """Add a text, or replace the one with this source."""
        await self._put([make_document(text, source, title)])

    async def add_file(self, path: str | os.PathLike[str]) -> None:
        """Add a text file; its source is its path."""
        await self._put([await anyio.to_thread.run_sync(read_file, path)])

    async def add_messages(self, messages: Iterable[Message | Mapping[str, Any]]) -> None:
        """Add messages of users, assistants and tools; each message is one source."""
        await self._put(await anyio.to_thread.run_sync(message_documents, list(messages)))

    @abstractmethod
    async def _put(self, documents: list[Document]) -> None:
        """Add documents."""


def _too_large(source: str, size: int) -> InvalidDocument:
    return InvalidDocument(source, f"has a size of {size:,}, over {MAX_DOCUMENT_BYTES:,}; divide it")
