"""Excerpts of long tool results: what a model is shown of a result that is stored completely.

Results are most of what an agent sends, again with each request. So a long one is shown once as its
beginning, its end, and the lines between them that are likely to matter: those with words of the arguments,
errors, definitions and headings. JSON is cut between its values. Each gap says how much is missing and where
it can be read. The same text gives the same excerpt, in every process. Pure functions.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.messages.clamp import CHARACTERS_PER_TOKEN, CountText, fair_share
from autonomy_ctx.messages.token_estimate import estimate_tokens

READER = "read_result"
# The least tokens that a result may be given.
MIN_RESULT_TOKENS = 200
# How often an excerpt is made shorter until it fits.
MAX_TRIES = 12
# The part of its room that an excerpt takes, and tokens that it may take in any case. Each request sends it
# again, and the model reads on only where it has to.
EXCERPT_SHARE, MIN_EXCERPT = 0.5, 1_000
_SAMPLE = 8_000
# Of the room: the beginning and the end, and the lines from between them.
_HEAD_SHARE, _TAIL_SHARE, _PICKED_SHARE = 0.4, 0.2, 0.35
# A line with more of the room than this is cut; with lines as long as this on average, so is the text.
_LINE_SHARE, _LONG_LINE = 8, 600
# How far back a cut moves to leave a word whole: what is longer is no name.
_MAX_WORD = 100
# Lines that match more often than this do not tell what was looked for.
_MAX_MATCH_SHARE, _FEW_MATCHES = 0.2, 12
_MIN_VALUE = 40
_MAX_PICKED = 240
_MARK = "…"

_WORD = lazy_pattern(r"[\w./\\:@-]+")
_ARGUMENT = lazy_pattern(r"[\w./\\:@*-]{3,80}")
_ERROR = lazy_pattern(
    r"(?i)\b(?:\w*error|\w*exception|traceback|fatal|panic|critical|fail(?:ed|ure|ures)?|segfault)\b|^E  "
)
# Definitions of programs, headings, files that are named; the indentation is their rank.
_OUTLINE = lazy_pattern(
    r"(?P<indent>\s*)(?:(?:export|default|public|private|protected|static|abstract|async|pub(?:\(\w+\))?|final"
    r"|inline)\s+)*(?:def|class|func|function|fn|interface|struct|enum|trait|impl|type|module|namespace|CREATE)"
    r"\s+[\w<(]|(?P<path>[\w@+-]*[./][\w./@+-]*):\d+:|#{1,6} |diff --git |[\w.@+-]*/[\w./@+ -]*:$|\.:$"
    r"|\s*<(?:title|h[1-6])\b|=+ .* =+$|\[[\w. -]+\]$"
)
# With so many of these, a text is a program or a listing, in which the word "error" tells nothing.
_OUTLINE_SHARE, _COMMENT_RANK = 0.02, 40
_TIME = lazy_pattern(r"^[\d\-/:.,TZ+\[\]\s]+")
_NUMBERS = lazy_pattern(r"0x[0-9a-fA-F]+|\b[0-9a-fA-F-]{8,}\b|\d+")
_SPACE = lazy_pattern(r"[ \t\n\r]*")
# A character of a JSON string, as it is written; the two halves of one character are one.
_STRING_PIECES = r"(?:\\u[dD][89abAB]..\\u[dD]...|\\u....|\\.|[^\\]){0,%d}"


class Room(NamedTuple):
    """The room that a result has: bytes, and tokens if these are limited too."""

    bytes: int
    tokens: int | None = None
    count: CountText = estimate_tokens

    def excess(self, text: str) -> float:
        """The size of a text as a part of the room; above 1, it does not fit."""
        size = len(text.encode()) / self.bytes
        return size if self.tokens is None else max(size, self.count(text) / self.tokens)

    def fits(self, text: str) -> bool:
        """Tell whether a text fits. A very short or a very long one is not counted."""
        if len(text) * CHARACTERS_PER_TOKEN <= min(self.bytes, self.tokens or self.bytes):
            return True
        is_long = self.tokens is not None and len(text) > self.tokens * CHARACTERS_PER_TOKEN
        return not is_long and self.excess(text) <= 1

    def fill(self, text: str, make: Callable[[int], str], least: str) -> str:
        """The text that `make` gives for the most characters that fit; `least` if nothing does."""
        sample = text[:_SAMPLE]
        characters = int(len(sample) / max(self.excess(sample), 0.001))
        for _ in range(MAX_TRIES):
            made = make(characters)
            if (excess := self.excess(made)) <= 1:
                return made
            characters = int(characters * min(0.95 / excess, 0.9))
        return least


def make_excerpt(text: str, room: Room, *, result_id: str = "", arguments: str = "") -> str:
    """The text, or an excerpt of it in half of its room; `arguments` are those of the call, as JSON.

    Without a `result_id`, the one who reads it has no tool that reads results.
    """
    if room.fits(text):
        return text
    if room.tokens is not None:
        room = room._replace(tokens=max(int(room.tokens * EXCERPT_SHARE), min(room.tokens, MIN_EXCERPT)))
    words = _argument_pattern(arguments)
    source: _JsonExcerpt | _LineExcerpt
    try:
        source = _JsonExcerpt(text, words, result_id)
    except (ValueError, RecursionError):
        source = _LineExcerpt(text, words, result_id)
    return room.fill(text, source.render, _gap(len(text), len(text), "characters", result_id, "offset=0"))


def quote(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _gap(hidden: int, total: int, unit: str, result_id: str, how: str) -> str:
    return (
        f"[{_MARK} {hidden:,} of {total:,} {unit} are not shown here; {_rest_hint(result_id, how)} {_MARK}]"
    )


def _rest_hint(result_id: str, how: str) -> str:
    """Say how the rest is read."""
    if not result_id:
        return "the same call, made again, shows them"
    return f'{READER}(id={quote(result_id)}, {how}) reads on, query="words" searches'


def _argument_pattern(arguments: str) -> re.Pattern[str] | None:
    """A pattern of the words in the arguments of a call; None if it has none."""
    try:
        values = json.loads(arguments or "{}")
    except ValueError:
        return None
    texts = [one for one in values.values() if isinstance(one, str)] if isinstance(values, dict) else []
    words = dict.fromkeys(word.strip(".:*") for text in texts for word in _ARGUMENT.findall(text)[:20])
    found = [re.escape(word) for word in words if len(word) > 2]
    return re.compile("|".join(found), re.IGNORECASE) if found else None


def clip(text: str, *, at_start: bool = False) -> str:
    """A text that was cut at its end, or at its start, without the pieces of a word or character there."""
    pieces = text[::-1] if at_start else text
    end = len(pieces)
    near = pieces[max(end - _MAX_WORD, 0) :]
    words = _WORD.search(near[::-1])
    if words is not None and words.start() == 0 and words.end() < len(near):
        end -= words.end()
    while end and (
        unicodedata.combining(pieces[end - 1])
        or pieces[end - 1] in "\u200d\ufe0f"
        or ord(pieces[end - 1]) >= 0x1F000
    ):
        end -= 1
    kept = pieces[:end]
    return kept[::-1] if at_start else kept


class _PickedLine(NamedTuple):
    """A line from the middle, and how many more look like it."""

    at: int
    text: str
    alike: int

    def __str__(self) -> str:
        more = f" [{self.alike:,} more lines like this]" if self.alike else ""
        return f"{self.at + 1}: {self.text}{more}"


class _LineExcerpt:
    """Excerpts of a text by lines, or by characters if it has few."""

    def __init__(self, text: str, words: re.Pattern[str] | None, result_id: str) -> None:
        self._text, self._words, self._id = text, words, result_id
        self._lines = text.split("\n")
        if not self._lines[-1]:
            self._lines.pop()
        # Found once, however often the excerpt is made shorter.
        self._asked, self._errors = self._find_asked(), self._find_errors()
        self._outline, self._rare = self._find_outline(), self._find_rare()

    def render(self, characters: int) -> str:
        """The excerpt in about so many characters."""
        room = max(characters - 220, 0)
        if len(self._text) > _LONG_LINE * len(self._lines):
            return self._render_wide(room)
        longest = max(room // _LINE_SHARE, 80)
        head = self._take(range(len(self._lines)), int(room * _HEAD_SHARE), longest)
        after = head[-1][1] if head else 0
        backwards = range(len(self._lines) - 1, after - 1, -1)
        tail = self._take(backwards, int(room * _TAIL_SHARE), longest)[::-1]
        end = tail[0][0] if tail else len(self._lines)
        picked = self._pick(range(after, end), int(room * _PICKED_SHARE), longest)
        left = room - sum(len(text) for _, _, text in (*head, *tail)) - sum(len(str(one)) for one in picked)
        head += self._take(range(after, end), left, longest)
        after = head[-1][1] if head else 0
        picked = [one for one in picked if one.at >= after]
        hidden = end - after - len(picked)
        between = f"lines={quote(f'{after + 1}-{end}')}"
        rows = [text for _, _, text in head]
        if hidden > 0:
            rows.append(_gap(hidden, len(self._lines), "lines", self._id, between))
            rows += [str(one) for one in picked]
            if picked:
                rows.append(f"[{_MARK} from line {end + 1:,} on {_MARK}]")
        else:
            rows += [self._lines[at] for at in range(after, end)]
            rows.append(f"[{_MARK} {_rest_hint(self._id, 'offset=0')} {_MARK}]")
        return "\n".join([*rows, *(text for _, _, text in tail)])

    def _take(self, indexes: range, room: int, longest: int) -> list[tuple[int, int, str]]:
        """Lines one after the other, each with its index and the next one; of equal ones the first."""
        found = list[tuple[int, int, str]]()
        at, step, stop = indexes.start, indexes.step, indexes.stop
        while at != stop:
            text = self._clip_line(at, longest)
            shape = _TIME.sub("", self._lines[at])
            last = at
            while shape and last + step != stop and _TIME.sub("", self._lines[last + step]) == shape:
                last += step
            if abs(last - at) > 2:
                first, end = sorted((at + step, last))
                count, places = f"{end - first + 1:,}", f"{first + 1} to {end + 1}"
                same = f"[{_MARK} {count} lines like this one are not shown here, {places} {_MARK}]"
                text = f"{text}\n{same}" if step > 0 else f"{same}\n{text}"
            else:
                last = at
            room -= len(text) + 1
            if room < 0:
                break
            low, high = sorted((at, last))
            found.append((low, high + 1, text))
            at = last + step
        return found

    def _clip_line(self, index: int, longest: int) -> str:
        line = self._lines[index]
        if len(line) <= longest:
            return line
        kept = clip(line[:longest])
        return f"{kept}{_MARK}[{len(line) - len(kept):,} more characters of this line are not shown here]"

    def _pick(self, indexes: range, room: int, longest: int) -> list[_PickedLine]:
        """The lines that are likely to matter: by the arguments, errors, the outline, or else rare ones."""
        chosen: dict[int, _PickedLine] = {}
        is_outlined = len(self._outline) >= len(self._lines) * _OUTLINE_SHARE
        for groups in (self._asked, [] if is_outlined else self._errors, self._outline, self._rare):
            if groups is self._rare and chosen:
                break
            share = room if groups in (self._outline, self._rare) else room // 2
            for group in groups:
                own = [at for at in group if at in indexes]
                if not own or own[0] in chosen:
                    continue
                text = self._clip_line(own[0], min(longest, _MAX_PICKED))
                one = _PickedLine(own[0], text, len(own) - 1)
                share -= len(str(one)) + 1
                if share < 0:
                    break
                chosen[one.at] = one
                room -= len(str(one)) + 1
        return [chosen[at] for at in sorted(chosen)]

    # Each of these gives groups of lines that are alike, the groups that matter most first.

    def _find_asked(self) -> list[list[int]]:
        found = [at for at, line in enumerate(self._lines) if self._words and self._words.search(line)]
        is_telling = len(found) <= max(len(self._lines) * _MAX_MATCH_SHARE, _FEW_MATCHES)
        return [[at] for at in found] if is_telling else []

    def _find_errors(self) -> list[list[int]]:
        return self._group([at for at, line in enumerate(self._lines) if _ERROR.search(line)])

    def _find_outline(self) -> list[list[int]]:
        """Definitions, headings and places: those that stand above others first, from all of the text."""
        ranks: dict[int, dict[str, list[int]]] = {}
        for at, line in enumerate(self._lines):
            if match := _OUTLINE.match(line):
                # A heading of one text is a comment of another.
                rank = _COMMENT_RANK if line.startswith("#") else len(match["indent"] or "")
                ranks.setdefault(rank, {}).setdefault(match["path"] or line, []).append(at)
        # Half of what follows another, then half of what is left: however many fit, they are spread evenly.
        return [
            group
            for _, groups in sorted(ranks.items())
            for _, group in sorted(
                enumerate(groups.values()), key=lambda one: -(one[0] & -one[0]) or -len(groups)
            )
        ]

    def _find_rare(self) -> list[list[int]]:
        """Lines of each form, where most lines have one of a few forms."""
        found = self._group(range(len(self._lines)))
        return found if len(found) * 3 <= len(self._lines) else []

    def _group(self, indexes: Sequence[int]) -> list[list[int]]:
        """Lines that differ only in numbers."""
        shapes: dict[str, list[int]] = {}
        for at in indexes:
            if shape := _NUMBERS.sub("#", self._lines[at].strip()[:200]):
                shapes.setdefault(shape, []).append(at)
        return list(shapes.values())

    def _render_wide(self, room: int) -> str:
        """The beginning and the end by characters, and what is around words of the arguments."""
        text = self._text
        head = clip(text[: int(room * 0.6)])
        tail = clip(text[len(text) - int(room * 0.2) :], at_start=True)
        rows, left, last = list[str](), int(room * 0.2), len(head)
        hidden = len(text) - len(head) - len(tail)
        for match in self._words.finditer(text, len(head), len(text) - len(tail)) if self._words else ():
            if match.start() < last:
                continue
            first, last = max(match.start() - 60, len(head)), min(match.end() + 60, len(text) - len(tail))
            inner = clip(clip(text[first:last]), at_start=True)
            rows.append(f"offset {first}: {_MARK}{inner}{_MARK}".replace("\n", " "))
            left -= len(rows[-1]) + 1
            if left < 0:
                rows.pop()
                break
        gap = _gap(hidden, len(text), "characters", self._id, f"offset={len(head)}")
        return "\n".join([head, gap, *rows, tail])


class _Member(NamedTuple):
    """A value inside a JSON text: where it begins and ends, and its key."""

    first: int
    last: int
    key: str = ""

    @property
    def length(self) -> int:
        """The characters of the value."""
        return self.last - self.first


class _JsonExcerpt:
    """Excerpts of a JSON text: whole values, and how many are missing where."""

    def __init__(self, text: str, words: re.Pattern[str] | None, result_id: str) -> None:
        self._text, self._words, self._id = text, words, result_id
        self._decode = json.JSONDecoder().raw_decode
        first = _skip(text, 0)
        if text[first : first + 1] not in ("[", "{"):
            raise ValueError("no object or list")
        self._whole = _Member(first, self._decode(text, first)[1])
        if _skip(text, self._whole.last) < len(text):
            raise ValueError("more than one value")

    def render(self, characters: int) -> str:
        """The excerpt in about so many characters."""
        shown = self._show(self._whole, max(characters - 260, 0))
        return (
            f"{shown}\n[JSON of {len(self._text):,} characters; what {_MARK} stands for is not shown here. "
            f"{_rest_hint(self._id, 'offset=N')}.]"
        )

    def _show(self, value: _Member, room: int) -> str:
        text, first = self._text, value.first
        if value.length <= max(room, _MIN_VALUE):
            return text[first : value.last]
        if text[first] == "{":
            return self._show_object(list(self._members(value)), room)
        if text[first] == "[":
            return self._show_list(list(self._members(value)), room)
        if text[first] != '"':
            return f"{_MARK}[a number of {value.length:,} characters, from offset {first}]"
        written = re.match(_STRING_PIECES % max(room - 60, 16), text[first + 1 : value.last - 1], re.DOTALL)
        kept = clip(written[0] if written else "")
        hidden = value.length - 2 - len(kept)
        return (
            f'"{kept}"{_MARK}[{hidden:,} more characters of this text, from offset {first + 1 + len(kept)}]'
        )

    def _show_object(self, members: Sequence[_Member], room: int) -> str:
        shown = self._first_that_fit(members, [len(one.key) + _MIN_VALUE + 4 for one in members], room)
        left = room - sum(len(one.key) + 6 for one in shown)
        most = fair_share([one.length for one in shown], left)
        rows = [f"{one.key}: {self._show(one, most)}" for one in shown]
        if len(shown) < len(members):
            keys = [one.key for one in members[len(shown) :]]
            names = clip(", ".join(keys)[: max(room // 4, 60)]).rstrip(", ")
            at = members[len(shown)].first - len(keys[0])
            rows.append(f"{_MARK}[{len(keys):,} of {len(members):,} keys, from offset {at}: {names}{_MARK}]")
        return "{" + ",\n ".join(rows) + "}"

    def _show_list(self, members: Sequence[_Member], room: int) -> str:
        # A long value leaves room for two others: the first rows tell how all are made.
        most = max(room // 3, _MIN_VALUE)
        costs = [min(one.length, most) + 2 for one in members]
        shown = self._first_that_fit(members, costs, int(room * (0.7 if self._words else 1)))
        rows = [self._show(one, most) for one in shown]
        rest = members[len(shown) :]
        if rest:
            hidden = f"{len(rest):,} of {len(members):,} items, from offset {rest[0].first}"
            rows.append(f"{_MARK}[{hidden}]")
            asked = [
                one for one in rest if self._words and self._words.search(self._text, one.first, one.last)
            ]
            if len(asked) <= max(len(rest) * _MAX_MATCH_SHARE, 1):
                left = room - sum(map(len, rows))
                for one in self._first_that_fit(asked, [one.length + 40 for one in asked], left):
                    place = f"{_MARK}[item {members.index(one) + 1:,}, offset {one.first}]"
                    rows.append(f"{place} {self._text[one.first : one.last]}")
        return "[" + ",\n ".join(rows) + "]"

    def _first_that_fit(
        self, members: Sequence[_Member], costs: Sequence[int], room: int
    ) -> Sequence[_Member]:
        for at, cost in enumerate(costs):
            room -= cost
            if room < 0:
                return members[:at]
        return members

    def _members(self, value: _Member) -> Iterator[_Member]:
        """The values of an object or a list, in order."""
        text, at = self._text, _skip(self._text, value.first + 1)
        while text[at] not in "]}":
            key = ""
            if text[value.first] == "{":
                end = self._decode(text, at)[1]
                key, at = text[at:end], _skip(text, _skip(text, end) + 1)
            end = self._decode(text, at)[1]
            yield _Member(at, end, key)
            at = _skip(text, end)
            if text[at] == ",":
                at = _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
