"""Pages of stored results: what `read_result` shows of a result that a model was shown in part.

A page fits into the room that results have, whatever it was asked for, and says where the next one begins.
Pages that follow each other have every character of the result once. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from autonomy_ctx.messages.excerpt import READER, Room, clip, quote

# A longer line is shown around what was looked for.
_LONG_LINE = 400
# The lines behind those that were found, in all: few who look for a definition want its first line alone.
_LINES_BEHIND = 40
_LINES = re.compile(r"(\d{1,9})(?:\s*-\s*(\d{1,9}))?")


class ResultPage(NamedTuple):
    """A part of a result, or the lines of it that have a query."""

    text: str
    result_id: str
    first: int = 0
    last: int | None = None
    query: str = ""

    @classmethod
    def of_lines(cls, text: str, result_id: str, lines: str) -> ResultPage | None:
        """The page of lines such as `120-180`, counted from 1; None if that names no lines of the text."""
        match = _LINES.fullmatch(lines.strip())
        if match is None:
            return None
        first, last = int(match[1]), int(match[2] or match[1])
        starts = [0, *(one.end() for one in re.finditer("\n", text))]
        if not 1 <= first <= min(last, len(starts)):
            return None
        return cls(text, result_id, starts[first - 1], starts[last] if last < len(starts) else len(text))

    def render(self, room: Room) -> str:
        """The page under a line that says what it is; as much of it as fits."""
        return self._find(room) if self.query else self._read(room)

    def _read(self, room: Room) -> str:
        text, first = self.text, self.first
        last = len(text) if self.last is None else min(self.last, len(text))

        def make(characters: int) -> str:
            end = min(first + max(characters, 1), last)
            if end < last:
                # Behind a line, so that a page begins with one; else behind a word.
                line_end = text.rfind("\n", first + characters // 2, end) + 1
                end = line_end or max(first + len(clip(text[first:end])), first + 1)
            more = f"; {READER}(id={quote(self.result_id)}, offset={end}) reads on" if end < len(text) else ""
            numbers = [text.count("\n", 0, at) + 1 for at in (first, max(end - 1, first))]
            lines = f"lines {numbers[0]:,} to {numbers[1]:,} of {_count_lines(text):,}"
            return f"[Characters {first:,} to {end:,} of {len(text):,}, {lines}{more}]\n{text[first:end]}"

        return room.fill(text[first:last] or " ", make, make(1))

    def _find(self, room: Room) -> str:
        words = [self.query, *self.query.split()]
        found: list[_FoundLine] = []
        for pattern in (re.escape(words[0]), "|".join(map(re.escape, words[1:]))):
            found = found or list(self._matches(re.compile(pattern, re.IGNORECASE)))
        total, asked = f"{_count_lines(self.text):,} lines", clip(self.query[:80]) or self.query[:80]
        if not found:
            return (
                f"[None of the {total} has {quote(asked)}. Look for another word, or read them: "
                f"{READER}(id={quote(self.result_id)}, offset=0)]"
            )

        lines, behind = self.text.split("\n"), _LINES_BEHIND // len(found)
        nexts = [*(one.number for one in found[1:]), len(lines) + 1]

        def make(characters: int) -> str:
            shown, left = list[str](), characters - 150
            for one, following in zip(found, nexts, strict=True):
                # Up to the next one that was found.
                rest = lines[one.number : min(one.number + behind, following - 1)]
                row = "\n".join([str(one), *map(_shorten, rest)])
                if left < len(row) + 1:
                    row = str(one)
                left -= len(row) + 1
                if left < 0 and shown:
                    break
                shown.append(row)
            more = (
                "" if len(shown) == len(found) else f"; the first {len(shown):,} are shown, name more words"
            )
            return "\n".join([f"[{len(found):,} of {total} have {quote(asked)}{more}]", *shown])

        return room.fill(self.text, make, make(0))

    def _matches(self, pattern: re.Pattern[str]) -> Iterator[_FoundLine]:
        offset = 0
        for number, line in enumerate(self.text.split("\n"), start=1):
            # In a long line, each place: it may be all of the text.
            last = -_LONG_LINE
            for match in pattern.finditer(line):
                if len(line) > _LONG_LINE and match.start() < last + _LONG_LINE // 2:
                    continue
                last, at = match.start(), max(match.start() - _LONG_LINE // 2, 0)
                if len(line) <= _LONG_LINE:
                    yield _FoundLine(number, offset, line)
                    break
                yield _FoundLine(number, offset + at, f"…{line[at : at + _LONG_LINE]}…")
            offset += len(line) + 1


class _FoundLine(NamedTuple):
    """A line, or a part of a long one, with its number and offset."""

    number: int
    offset: int
    text: str

    def __str__(self) -> str:
        return f"line {self.number:,} (offset {self.offset}): {self.text}"


def _shorten(line: str) -> str:
    return line if len(line) <= _LONG_LINE else f"{line[:_LONG_LINE]}…"


def _count_lines(text: str) -> int:
    """The number of lines; a line end at the end begins no other."""
    return text.count("\n") + (not text.endswith("\n"))
