"""Files for a model: read, write, list and search, never outside one folder."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from autonomy_ctx.errors import FileRefused
from autonomy_ctx.tools.builtin import sandbox
from autonomy_ctx.tools.builtin.sandbox import (
    MAX_DEPTH,
    RootFolder,
    open_folder,
    open_subfolder,
    read_bytes,
    refuse_os_errors,
    split_path,
)
from autonomy_ctx.tools.tool import Tool

Visibility: TypeAlias = Literal["conversation", "scope", "agent", "all"]
PRIVATE = ".private"
_UNSAFE = re.compile(r"[^a-z0-9_-]+")
MAX_PATTERN_LENGTH = 200
LINE_CHARACTERS = 200
MAX_FILE_BYTES = 8_000_000
READ_BYTES = 200_000
SEARCH_SECONDS = 10.0
_MAX_ENTRIES = 100_000
_MAX_LISTED = 1_000
_MAX_RESULTS = 200
_SEARCH_BYTES = 200_000_000


class FilesRoot:
    """A root folder on disk, and who shares its files."""

    def __init__(self, root: str | os.PathLike[str], visibility: Visibility) -> None:
        if visibility not in get_args(Visibility):
            known = ", ".join(get_args(Visibility))
            raise ValueError(f"visibility is {visibility!r}; it must be one of {known}")
        # Fixed now: the process may change its working folder later.
        self.root = Path(root).absolute()
        self.visibility: Visibility = visibility
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            problem = f"cannot be the root of the files: {os.strerror(error.errno or 0)}; name a folder"
            raise FileRefused(str(self.root), problem) from None

    @contextmanager
    def open(self, agent: Any, scope: str | None, conversation: str | None) -> Iterator[RootFolder]:
        """The folder of this agent, scope and conversation, made if need be, and open."""
        names = self._names(agent, scope, conversation)
        with refuse_os_errors("."):
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened = [root]
        try:
            device = os.fstat(root).st_dev
            base = RootFolder(root, device)
            if names:
                with refuse_os_errors("."):
                    for name in (PRIVATE, self.visibility, *names):
                        opened.append(open_subfolder(base, opened[-1], name, make=True, mode=0o700))
                base = RootFolder(opened[-1], device)
            else:
                hidden = None
                with suppress(OSError):
                    info = os.stat(PRIVATE, dir_fd=root, follow_symlinks=False)
                    hidden = (info.st_dev, info.st_ino)
                base = RootFolder(root, device, hidden, PRIVATE)
            yield base
        finally:
            for fd in opened:
                os.close(fd)

    def _names(self, agent: Any, scope: str | None, conversation: str | None) -> list[str]:
        agent = agent if isinstance(agent, str | None) else getattr(agent, "name", None)
        who = {"agent": agent, "scope": scope, "conversation": conversation}
        depth = {"all": 0, "agent": 1, "scope": 2, "conversation": 3}[self.visibility]
        chosen = list(who.items())[:depth]
        for part, name in chosen:
            if not isinstance(name, str):
                raise FileRefused(".", f"belongs to one {self.visibility}, and no {part} was given")
        return [_folder_name(str(name)) for _, name in chosen]


def _folder_name(name: str) -> str:
    """A unique folder name, also on a disk that does not distinguish `A` and `a`."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:40]
    return f"{_UNSAFE.sub('-', name[:24].lower())}-{digest}"


@dataclass(slots=True, kw_only=True)
class SearchLimits:
    """The limits of a search in time and size, and which of them ended it."""

    clock: Callable[[], float]
    seconds: float
    entries: int
    results: int
    total_bytes: int
    stop_reason: str | None = None
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.seconds

    def count(self, *, entries: int = 0, size: int = 0, results: int = 0) -> bool:
        """Count something. Returns whether the limit is reached."""
        self.entries -= entries
        self.total_bytes -= size
        self.results -= results
        if self.clock() > self._until:
            self.stop_reason = f"{self.seconds:g} seconds are over"
        elif self.entries < 0 or self.total_bytes < 0:
            self.stop_reason = "there is too much to look at"
        elif self.results < 0:
            self.stop_reason = "there are more"
        return self.stop_reason is not None


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that a walk found: its path from the base, and its open folder."""

    path: str
    name: str
    fd: int


def walk(base: RootFolder, parts: Sequence[str], limits: SearchLimits) -> Iterator[FoundFile]:
    """All plain files at and below a folder, sorted, without following a link."""
    with open_folder(base, parts) as fd:
        yield from _walk(base, fd, list(parts), limits)


def _walk(base: RootFolder, fd: int, parts: list[str], limits: SearchLimits) -> Iterator[FoundFile]:
    for name, info in list_entries(base, fd, limits):
        if stat.S_ISREG(info.st_mode):
            yield FoundFile("/".join([*parts, name]), name, fd)
        elif stat.S_ISDIR(info.st_mode) and len(parts) < MAX_DEPTH:
            try:
                inner = open_subfolder(base, fd, name)
            except OSError:
                continue  # Gone meanwhile, a link by now, or not ours to enter.
            try:
                yield from _walk(base, inner, [*parts, name], limits)
            finally:
                os.close(inner)
        if limits.stop_reason is not None:
            return


def list_entries(base: RootFolder, fd: int, limits: SearchLimits) -> list[tuple[str, os.stat_result]]:
    """The entries of an open folder, sorted by name; as many as the limits allow."""
    found = []
    with os.scandir(fd) as listed:
        for entry in listed:
            if limits.count(entries=1):
                break
            try:
                info = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            if not base.hides(info):
                found.append((entry.name, info))
    return sorted(found, key=lambda one: one[0])


def matches(path: str, pattern: str) -> bool:
    """Tell whether a path fits a pattern: `*.md` anywhere, `notes/*.md` there, `**` for any folders."""
    pattern_parts = [part for part in pattern.split("/") if part not in ("", ".")]
    parts = path.split("/")
    if len(pattern_parts) == 1 and pattern_parts[0] != "**":
        return fnmatchcase(parts[-1], pattern_parts[0])
    # Which beginnings of the pattern fit the path so far: linear, whatever the pattern.
    reached = _skip_double_stars(pattern_parts, {0})
    for part in parts:
        after = {at for at in reached if at < len(pattern_parts) and pattern_parts[at] == "**"}
        one_part = [at for at in reached - after if at < len(pattern_parts)]
        after |= {at + 1 for at in one_part if fnmatchcase(part, pattern_parts[at])}
        reached = _skip_double_stars(pattern_parts, after)
    return len(pattern_parts) in reached


def _skip_double_stars(pattern_parts: Sequence[str], reached: set[int]) -> set[int]:
    for at in range(len(pattern_parts)):
        if at in reached and pattern_parts[at] == "**":
            reached.add(at + 1)
    return reached


def walk_matching(base: RootFolder, path: str, pattern: str, limits: SearchLimits) -> Iterator[FoundFile]:
    """All plain files at and below a path that fit a pattern, which must be quick to match."""
    if len(pattern) > MAX_PATTERN_LENGTH or pattern.count("*") > 10:
        raise FileRefused(pattern, f"is a pattern of more than {MAX_PATTERN_LENGTH} characters or 10 stars")
    parts = split_path(path)
    for found in walk(base, parts, limits):
        if matches("/".join(found.path.split("/")[len(parts) :]), pattern):
            yield found


def matching_lines(text: str, query: str, *, ignore_case: bool) -> Iterator[tuple[int, str]]:
    """The lines that hold a text, with their numbers from 1."""
    query = query.casefold() if ignore_case else query
    if query not in (text.casefold() if ignore_case else text):
        return
    for number, line in enumerate(text.split("\n"), 1):
        at = (line.casefold() if ignore_case else line).find(query)
        if at >= 0:
            start = max(0, at - LINE_CHARACTERS // 2)
            yield number, line[start : start + LINE_CHARACTERS].strip()


def read_text(file: FoundFile, limit: int) -> str | None:
    """A file's text; None if it is none, too large, or not to be touched."""
    try:
        data = read_bytes(file.fd, file.name, limit)
    except OSError:
        return None
    return decode_text(data)


def decode_text(data: bytes) -> str | None:
    """The exact text of some bytes; None if they are not text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def filesystem_tools(
    root: str | os.PathLike[str],
    visibility: Visibility = "conversation",
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
    look_seconds: float = SEARCH_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> list[Tool[..., Any]]:
    """The tools for files in the folder `root`, which is created if it is missing.

    `visibility` says who shares the files: a conversation, a scope, an agent or all. With `all`, the files
    are in `root` itself, else in a separate folder below `root/.private`. Links, devices and files with hard
    links are not touched.
    """
    sandbox.check_system(os.fspath(root))
    files = _FileTools(FilesRoot(root, visibility), max_file_bytes, look_seconds, clock)
    made = (
        files.list_directory,
        files.read_file,
        files.write_file,
        files.edit_file,
        files.find_files,
        files.search_in_files,
        files.remove_file,
    )
    return [Tool(function) for function in made]


class _FileTools:
    """The file tools. Their docstrings are what a model reads."""

    def __init__(self, root: FilesRoot, limit: int, seconds: float, clock: Callable[[], float]) -> None:
        self._root, self._max_file_bytes, self._search_seconds, self._clock = root, limit, seconds, clock

    def list_directory(
        self, path: str = ".", agent: Any = None, scope: Any = None, conversation: Any = None
    ) -> str:
        """List a folder: its folders, and its files with their sizes.

        Args:
            path: A folder, relative to your own; `.` is all of it.
        """
        with self._root.open(agent, scope, conversation) as base, refuse_os_errors(path):
            limits = self._limits(results=_MAX_LISTED)
            with open_folder(base, split_path(path)) as fd:
                found = list_entries(base, fd, limits)
        lines = [_entry_line(name, info) for name, info in found[:_MAX_LISTED]]
        if len(found) > _MAX_LISTED or limits.stop_reason:
            lines.append(f"[{len(lines):,} are shown; there are more: use find_files with a pattern]")
        return "\n".join(lines) or "[the folder is empty]"

    def read_file(
        self,
        path: str,
        first_line: int = 1,
        last_line: int | None = None,
        agent: Any = None,
        scope: Any = None,
        conversation: Any = None,
    ) -> str:
        """Read a text file, or some of its lines.

        Args:
            path: A file, relative to your own folder.
            first_line: The first line to read, counted from 1.
            last_line: The last line to read; all up to the end if it is left out.
        """
        if first_line < 1 or (last_line is not None and last_line < first_line):
            raise FileRefused(path, "has lines from 1 on, and the last must not come before the first")
        with self._open_parent(path, agent, scope, conversation) as (fd, name):
            text = self._read_text(fd, name, path)
        lines = text.splitlines(keepends=True)
        if first_line > max(len(lines), 1):
            raise FileRefused(path, f"has only {len(lines):,} lines")
        shown: list[str] = []
        room = READ_BYTES
        for line in lines[first_line - 1 : last_line]:
            room -= len(line.encode())
            # At least one line: otherwise a very long one could never be passed.
            if room < 0 and shown:
                break
            shown.append(line)
        last = first_line - 1 + len(shown)
        if len(shown) == len(lines):
            return text
        end = "" if not shown or shown[-1].endswith("\n") else "\n"
        return f"{''.join(shown)}{end}[lines {first_line:,} to {last:,} of {len(lines):,}]"

    def write_file(
        self, path: str, content: str, agent: Any = None, scope: Any = None, conversation: Any = None
    ) -> str:
        """Make a text file, or replace all of one. Folders on the way are made.

        Args:
            path: A file, relative to your own folder.
            content: The whole text of the file.
        """
        data = self._encode(content, path)
        with self._open_parent(path, agent, scope, conversation, make=True) as (fd, name):
            sandbox.lock(fd)
            replaced = sandbox.write_bytes(fd, name, data)
        return f"{'replaced' if replaced else 'made'} {path} ({len(data):,} bytes)"

    def edit_file(
        self,
        path: str,
        old_text: str,
        new_text: str,
        replace_all: bool = False,
        agent: Any = None,
        scope: Any = None,
        conversation: Any = None,
    ) -> str:
        """Replace a piece of a text file.

        Args:
            path: A file, relative to your own folder.
            old_text: The piece to replace, exactly as it is in the file, with enough around it to occur once.
            new_text: What comes in its place.
            replace_all: Whether to replace it everywhere, should it occur more than once.
        """
        with self._open_parent(path, agent, scope, conversation) as (fd, name):
            # Calls run side by side: of two edits of one file, both must be in it.
            sandbox.lock(fd)
            text = self._read_text(fd, name, path)
            count = text.count(old_text) if old_text else 0
            if not count:
                raise FileRefused(path, "does not contain `old_text`; read it and copy the text exactly")
            if count > 1 and not replace_all:
                raise FileRefused(
                    path,
                    f"contains `old_text` {count:,} times; add the text around it, or set replace_all",
                )
            sandbox.write_bytes(fd, name, self._encode(text.replace(old_text, new_text), path))
        return f"replaced {count:,} in {path}"

    def find_files(
        self, pattern: str, path: str = ".", agent: Any = None, scope: Any = None, conversation: Any = None
    ) -> str:
        """Find files by their names.

        Args:
            pattern: Such as `*.md` for a name anywhere, `notes/*.md` for a path, `**` for any folders.
            path: The folder to look in, relative to your own.
        """
        limits = self._limits(results=_MAX_RESULTS)
        lines: list[str] = []
        with self._root.open(agent, scope, conversation) as base, refuse_os_errors(path):
            for found in walk_matching(base, path, pattern, limits):
                if limits.count(results=1):
                    break
                lines.append(_printable_path(found.path))
        return _search_result(lines, limits, "no file has such a name")

    def search_in_files(
        self,
        text: str,
        path: str = ".",
        pattern: str = "*",
        ignore_case: bool = False,
        agent: Any = None,
        scope: Any = None,
        conversation: Any = None,
    ) -> str:
        """Find a text in files; each result is `path:line: text`.

        Args:
            text: The text as it is written; it is no regular expression, and within one line.
            path: The folder to look in, relative to your own.
            pattern: Which files, as for find_files.
            ignore_case: Whether capital and small letters are the same.
        """
        if not text or "\n" in text:
            raise FileRefused(path, "can be searched for a text of one line that is not empty")
        limits = self._limits(results=_MAX_RESULTS)
        lines: list[str] = []
        with self._root.open(agent, scope, conversation) as base, refuse_os_errors(path):
            for found in walk_matching(base, path, pattern, limits):
                content = read_text(found, self._max_file_bytes) or ""
                limits.count(size=len(content))
                for number, line in matching_lines(content, text, ignore_case=ignore_case):
                    if limits.count(results=1):
                        break
                    lines.append(f"{_printable_path(found.path)}:{number}: {line}")
                if limits.stop_reason is not None:
                    break
        return _search_result(lines, limits, "no file contains this text")

    def remove_file(self, path: str, agent: Any = None, scope: Any = None, conversation: Any = None) -> str:
        """Delete a file.

        Args:
            path: A file, relative to your own folder.
        """
        with self._open_parent(path, agent, scope, conversation) as (fd, name):
            sandbox.remove_file(fd, name)
        return f"removed {path}"

    @contextmanager
    def _open_parent(
        self, path: str, agent: Any, scope: Any, conversation: Any, *, make: bool = False
    ) -> Iterator[tuple[int, str]]:
        """The open folder that a file is in, and the file's name in it."""
        with self._root.open(agent, scope, conversation) as base, refuse_os_errors(path):
            *parts, name = split_path(path) or [""]
            _check_name(base, parts, name, path)
            with open_folder(base, parts, make=make) as fd:
                yield fd, name

    def _read_text(self, fd: int, name: str, path: str) -> str:
        data = sandbox.read_bytes(fd, name, self._max_file_bytes)
        text = decode_text(data)
        if text is None:
            raise FileRefused(path, f"is not text ({len(data):,} bytes)")
        return text

    def _encode(self, text: str, path: str) -> bytes:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise FileRefused(path, "cannot hold this text: it has half of a character in it") from None
        if len(data) > self._max_file_bytes:
            raise FileRefused(path, f"would be larger than {self._max_file_bytes:,} bytes")
        return data

    def _limits(self, *, results: int) -> SearchLimits:
        return SearchLimits(
            clock=self._clock,
            seconds=self._search_seconds,
            entries=_MAX_ENTRIES,
            results=results,
            total_bytes=_SEARCH_BYTES,
        )


def _check_name(base: RootFolder, parts: list[str], name: str, path: str) -> None:
    if not name or path.endswith("/"):
        raise FileRefused(path, "is a folder; name a file")
    if not parts and base.hidden_name is not None and name.casefold() == base.hidden_name:
        raise FileRefused(path, "is a name that is not free")


def _entry_line(name: str, info: os.stat_result) -> str:
    if stat.S_ISDIR(info.st_mode):
        return f"{_printable_path(name)}/"
    if stat.S_ISREG(info.st_mode):
        return f"{_printable_path(name)} ({info.st_size:,} bytes)"
    return f"{_printable_path(name)} (a link or a device; not available)"


def _printable_path(name: str) -> str:
    """A name on one line, whatever is in it."""
    return name if sandbox.is_plain_name(name) else repr(name)[1:-1]


def _search_result(lines: list[str], limits: SearchLimits, nothing: str) -> str:
    if limits.stop_reason:
        lines.append(f"[{len(lines):,} found, not all: {limits.stop_reason}; look in a smaller folder]")
    return "\n".join(lines) or f"[{nothing}]"
