"""Finding files by name and by what is in them, within bounds of time and size.

Text is found as it is written, not by regular expressions: a pattern can make Python's matcher run
for years, and nothing can stop it there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from autonomy_ctx.errors import FileRefused
from autonomy_ctx.tools.builtin.beneath import MOST_PARTS, Base, enter, folder, read_bytes

LONGEST_PATTERN = 200
LINE_SHOWN = 200


@dataclass(slots=True, kw_only=True)
class Bounds:
    """How long and how much may be looked at; says what ended the look, if something did."""

    clock: Callable[[], float]
    seconds: float
    entries: int
    results: int
    total_bytes: int
    stopped: str | None = None
    _until: float = field(init=False)

    def __post_init__(self) -> None:
        self._until = self.clock() + self.seconds

    def spent(self, *, entries: int = 0, size: int = 0, results: int = 0) -> bool:
        """Count something; whether it is enough now."""
        self.entries -= entries
        self.total_bytes -= size
        self.results -= results
        if self.clock() > self._until:
            self.stopped = f"{self.seconds:g} seconds are over"
        elif self.entries < 0 or self.total_bytes < 0:
            self.stopped = "there is too much to look at"
        elif self.results < 0:
            self.stopped = "there are more"
        return self.stopped is not None


@dataclass(frozen=True, slots=True)
class Found:
    """A plain file on a walk: its path from the base, and the open folder it is in."""

    path: str
    name: str
    fd: int


def walk(base: Base, parts: Sequence[str], bounds: Bounds) -> Iterator[Found]:
    """All plain files at and below a folder, sorted, without following a link."""
    with folder(base, parts) as fd:
        yield from _walk(base, fd, list(parts), bounds)


def _walk(base: Base, fd: int, parts: list[str], bounds: Bounds) -> Iterator[Found]:
    for name, info in entries(base, fd, bounds):
        if stat.S_ISREG(info.st_mode):
            yield Found("/".join([*parts, name]), name, fd)
        elif stat.S_ISDIR(info.st_mode) and len(parts) < MOST_PARTS:
            try:
                inner = enter(base, fd, name)
            except OSError:
                continue  # Gone meanwhile, a link by now, or not ours to enter.
            try:
                yield from _walk(base, inner, [*parts, name], bounds)
            finally:
                os.close(inner)
        if bounds.stopped is not None:
            return


def entries(base: Base, fd: int, bounds: Bounds) -> list[tuple[str, os.stat_result]]:
    """What is in an open folder, sorted by name; as much as the bounds allow."""
    found = []
    with os.scandir(fd) as listed:
        for entry in listed:
            if bounds.spent(entries=1):
                break
            try:
                info = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            if not base.hides(info):
                found.append((entry.name, info))
    return sorted(found, key=lambda one: one[0])


def matches(path: str, pattern: str) -> bool:
    """Whether a path fits a pattern: `*.md` anywhere, `notes/*.md` there, `**` for any folders."""
    wanted = [part for part in pattern.split("/") if part not in ("", ".")]
    parts = path.split("/")
    if len(wanted) == 1 and wanted[0] != "**":
        return fnmatchcase(parts[-1], wanted[0])
    # Which beginnings of the pattern fit the path so far: linear, whatever the pattern.
    reached = _past_stars(wanted, {0})
    for part in parts:
        after = {at for at in reached if at < len(wanted) and wanted[at] == "**"}
        after |= {at + 1 for at in reached if at < len(wanted) and _fits(part, wanted[at])}
        reached = _past_stars(wanted, after)
    return len(wanted) in reached


def _fits(part: str, wanted: str) -> bool:
    return wanted != "**" and fnmatchcase(part, wanted)


def _past_stars(wanted: Sequence[str], reached: set[int]) -> set[int]:
    for at in range(len(wanted)):
        if at in reached and wanted[at] == "**":
            reached.add(at + 1)
    return reached


def check_pattern(pattern: str) -> str:
    """A pattern that is quick to match."""
    if len(pattern) > LONGEST_PATTERN or pattern.count("*") > 10:
        raise FileRefused(pattern, f"is a pattern of more than {LONGEST_PATTERN} characters or 10 stars")
    return pattern


def lines_with(text: str, wanted: str, *, ignore_case: bool) -> Iterator[tuple[int, str]]:
    """The lines that hold a text, with their numbers from 1."""
    wanted = wanted.casefold() if ignore_case else wanted
    if wanted not in (text.casefold() if ignore_case else text):
        return
    for number, line in enumerate(text.split("\n"), 1):
        at = (line.casefold() if ignore_case else line).find(wanted)
        if at >= 0:
            start = max(0, at - LINE_SHOWN // 2)
            yield number, line[start : start + LINE_SHOWN].strip()


def text_of(found: Found, limit: int) -> str | None:
    """A file's text; None if it is none, too large, or not to be touched."""
    try:
        data = read_bytes(found.fd, found.name, limit)
    except OSError:
        return None
    return decoded(data)


def decoded(data: bytes) -> str | None:
    """The text in some bytes, exactly; None if they are no text."""
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
