"""Files for a model: read, write, list and search, never outside one folder."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autonomy_ctx.errors import FileRefused
from autonomy_ctx.tools.builtin import beneath, looking
from autonomy_ctx.tools.builtin.beneath import Base, folder, split_path, told
from autonomy_ctx.tools.builtin.looking import Bounds
from autonomy_ctx.tools.builtin.places import Place, Visibility
from autonomy_ctx.tools.tool import Tool

MAX_FILE_BYTES = 8_000_000
READ_SHOWN_BYTES = 200_000
LOOK_SECONDS = 10.0
_ENTRIES = 100_000
_LISTED = 1_000
_RESULTS = 200
_LOOK_BYTES = 200_000_000


def filesystem_tools(
    root: str | os.PathLike[str],
    visibility: Visibility = "conversation",
    *,
    max_file_bytes: int = MAX_FILE_BYTES,
    look_seconds: float = LOOK_SECONDS,
    clock: Callable[[], float] = time.monotonic,
) -> list[Tool[..., Any]]:
    """The tools to work with files beneath `root`, which is made if it is missing.

    `visibility` says who shares them: a conversation, a scope, an agent or all. With `all` the files
    lie in `root` itself, else in a folder of their own below `root/.private`. Links, devices and files
    with a second name are not touched.
    """
    files = _Files(Place(root, visibility), max_file_bytes, look_seconds, clock)
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


class _Files:
    """What the tools have in common; their docstrings are what a model reads."""

    def __init__(self, place: Place, limit: int, seconds: float, clock: Callable[[], float]) -> None:
        self._place, self._limit, self._seconds, self._clock = place, limit, seconds, clock

    def list_directory(
        self, path: str = ".", agent: Any = None, scope: Any = None, conversation: Any = None
    ) -> str:
        """List a folder: its folders, and its files with their sizes.

        Args:
            path: A folder, relative to your own; `.` is all of it.
        """
        with self._place.base(agent, scope, conversation) as base, told(path):
            bounds = self._bounds(results=_LISTED)
            with folder(base, split_path(path)) as fd:
                found = looking.entries(base, fd, bounds)
        lines = [_entry(name, info) for name, info in found[:_LISTED]]
        if len(found) > _LISTED or bounds.stopped:
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
        with self._at(path, agent, scope, conversation) as (fd, name):
            text = self._text(fd, name, path)
        lines = text.splitlines(keepends=True)
        if first_line > max(len(lines), 1):
            raise FileRefused(path, f"has only {len(lines):,} lines")
        shown: list[str] = []
        room = READ_SHOWN_BYTES
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
        data = self._data(content, path)
        with self._at(path, agent, scope, conversation, make=True) as (fd, name):
            beneath.lock(fd)
            replaced = beneath.write_bytes(fd, name, data)
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
        with self._at(path, agent, scope, conversation) as (fd, name):
            # Calls run side by side: of two edits of one file, both must be in it.
            beneath.lock(fd)
            text = self._text(fd, name, path)
            count = text.count(old_text) if old_text else 0
            if not count:
                raise FileRefused(path, "does not hold `old_text`; read it and copy the piece exactly")
            if count > 1 and not replace_all:
                raise FileRefused(
                    path,
                    f"holds `old_text` {count:,} times; give more of what is around it, or set replace_all",
                )
            beneath.write_bytes(fd, name, self._data(text.replace(old_text, new_text), path))
        return f"replaced {count:,} in {path}"

    def find_files(
        self, pattern: str, path: str = ".", agent: Any = None, scope: Any = None, conversation: Any = None
    ) -> str:
        """Find files by their names.

        Args:
            pattern: Such as `*.md` for a name anywhere, `notes/*.md` for a path, `**` for any folders.
            path: The folder to look in, relative to your own.
        """
        looking.check_pattern(pattern)
        bounds = self._bounds(results=_RESULTS)
        lines: list[str] = []
        with self._place.base(agent, scope, conversation) as base, told(path):
            parts = split_path(path)
            for found in looking.walk(base, parts, bounds):
                inside = "/".join(found.path.split("/")[len(parts) :])
                if looking.matches(inside, pattern):
                    if bounds.spent(results=1):
                        break
                    lines.append(_shown(found.path))
        return _result(lines, bounds, "no file has such a name")

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
        looking.check_pattern(pattern)
        if not text or "\n" in text:
            raise FileRefused(path, "can be searched for a text of one line that is not empty")
        bounds = self._bounds(results=_RESULTS)
        lines: list[str] = []
        with self._place.base(agent, scope, conversation) as base, told(path):
            parts = split_path(path)
            for found in looking.walk(base, parts, bounds):
                if looking.matches("/".join(found.path.split("/")[len(parts) :]), pattern):
                    content = looking.text_of(found, self._limit) or ""
                    bounds.spent(size=len(content))
                    for number, line in looking.lines_with(content, text, ignore_case=ignore_case):
                        if bounds.spent(results=1):
                            break
                        lines.append(f"{_shown(found.path)}:{number}: {line}")
                if bounds.stopped is not None:
                    break
        return _result(lines, bounds, "no file holds this text")

    def remove_file(self, path: str, agent: Any = None, scope: Any = None, conversation: Any = None) -> str:
        """Delete a file.

        Args:
            path: A file, relative to your own folder.
        """
        with self._at(path, agent, scope, conversation) as (fd, name):
            beneath.remove(fd, name)
        return f"removed {path}"

    @contextmanager
    def _at(
        self, path: str, agent: Any, scope: Any, conversation: Any, *, make: bool = False
    ) -> Iterator[tuple[int, str]]:
        """The open folder that a file is in, and the file's name in it."""
        with self._place.base(agent, scope, conversation) as base, told(path):
            *parts, name = split_path(path) or [""]
            _check_name(base, parts, name, path)
            with folder(base, parts, make=make) as fd:
                yield fd, name

    def _text(self, fd: int, name: str, path: str) -> str:
        data = beneath.read_bytes(fd, name, self._limit)
        text = looking.decoded(data)
        if text is None:
            raise FileRefused(path, f"is not text ({len(data):,} bytes)")
        return text

    def _data(self, text: str, path: str) -> bytes:
        try:
            data = text.encode()
        except UnicodeEncodeError:
            raise FileRefused(path, "cannot hold this text: it has half of a character in it") from None
        if len(data) > self._limit:
            raise FileRefused(path, f"would be larger than {self._limit:,} bytes")
        return data

    def _bounds(self, *, results: int) -> Bounds:
        return Bounds(
            clock=self._clock,
            seconds=self._seconds,
            entries=_ENTRIES,
            results=results,
            total_bytes=_LOOK_BYTES,
        )


def _check_name(base: Base, parts: list[str], name: str, path: str) -> None:
    if not name or path.endswith("/"):
        raise FileRefused(path, "is a folder; name a file")
    if not parts and base.hidden_name is not None and name.casefold() == base.hidden_name:
        raise FileRefused(path, "is a name that is not free")


def _entry(name: str, info: os.stat_result) -> str:
    if stat.S_ISDIR(info.st_mode):
        return f"{_shown(name)}/"
    if stat.S_ISREG(info.st_mode):
        return f"{_shown(name)} ({info.st_size:,} bytes)"
    return f"{_shown(name)} (a link or a device; not available)"


def _shown(name: str) -> str:
    """A name on one line, whatever is in it."""
    return name if beneath.is_plain_name(name) else repr(name)[1:-1]


def _result(lines: list[str], bounds: Bounds, nothing: str) -> str:
    if bounds.stopped:
        lines.append(f"[{len(lines):,} found, not all: {bounds.stopped}; look in a smaller folder]")
    return "\n".join(lines) or f"[{nothing}]"
