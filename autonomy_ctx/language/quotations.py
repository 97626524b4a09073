"""Quotations of a digest: which of them a later one replaces, and which fit the room that there is.

A quotation is a sentence, a line of output or a call. It is shown whole, or with "[...]" for whole clauses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from autonomy_ctx.background import pause
from autonomy_ctx.language.clauses import OMISSION, WordView, clean, fit_clauses
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.messages.clamp import CHARACTERS_PER_TOKEN
from autonomy_ctx.messages.tokens import TokenCounter

MAX_LINE_TOKENS = 64  # tokens; a longer sentence is shown without some of its clauses, if that is possible
MIN_LINE_TOKENS = 12
MIN_FIT_TOKENS = 24  # below this nothing is shortened
MAX_MISSES = 32  # how many lines in a row may not fit before the rest is left unread
MAX_JOINED_LENGTH = 400  # characters of neighbouring sentences that are quoted in one line
# The part of the words that two states of one thing have in common, as a person and as a tool says them.
SAME_STATE_OVERLAP, SAME_OUTPUT_OVERLAP = 0.6, 0.5
SAME_SAYING_OVERLAP = 0.75  # the same of two sentences of a user
MIN_STATE_WORDS = 3  # fewer words that two sentences of a person share prove nothing
# The label of what a model wrote: its lines do not say who said what.
NO_LABEL = "\n"


class Kind(IntEnum):
    """The kinds of quotations, in the order of what comes first."""

    USER = 0
    ACTION = 1
    CALL = 2
    NOTE = 3
    OTHER = 4


class Reply(IntEnum):
    """Tell whether a sentence only replies to the one before it."""

    NONE = 0
    ACKNOWLEDGEMENT = 1
    ANSWER = 2


@dataclass(slots=True)
class Quotation:
    """A sentence, a line or a call that is quoted whole or not at all, and what it says for itself."""

    # Who said it; a call has no label.
    label: str
    text: str
    kind: Kind
    score: float
    # The message or line it comes from, and where in it.
    group: int
    place: int
    is_prose: bool = False
    # Whether it asks for something that lasts.
    is_rule: bool = False
    # Whether it asks or muses, so that it is over with the answer.
    is_passing: bool = False
    # Whether it says what no longer holds.
    is_outdated: bool = False
    # How many lines of this shape there were.
    alike: int = 1
    shape: object = None
    # Its identifiers, and all its words.
    exact: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    # Of what a user said, the words that say what it is about.
    content: frozenset[str] = frozenset()
    reply: Reply = Reply.NONE
    # A question and its answer say something together only: where the answer is, and whether this is one.
    answer: int | None = None
    is_answer: bool = False

    @property
    def prefix(self) -> str:
        if self.label == NO_LABEL:
            return ""
        if not self.label:
            return "- "
        note = f" (last of {self.alike} such lines)" if self.alike > 1 else ""
        return f"- {self.label}{note}: "


class Pass(NamedTuple):
    """Units to take next, in this order, and how many tokens all passes up to this one may have."""

    units: Sequence[int]
    most: int


def rank_quotations(units: Sequence[Quotation]) -> list[int]:
    """The units that nothing later replaces, the best first; of equal ones the newest."""
    _lower_older_values(units)
    gone = _find_superseded(units) | _find_repeated(units)
    places = [at for at in range(len(units)) if at not in gone]
    return sorted(places, key=lambda at: (-units[at].score, -at))


def choose_quotations(
    units: Sequence[Quotation], passes: Sequence[Pass], tokens: int, counter: TokenCounter
) -> str:
    """The units that fit, pass by pass, in the order in which they were said."""
    count = counter.count_text
    kept: dict[int, str] = {}
    seen: set[str] = set()
    left, longest = tokens, max(MAX_LINE_TOKENS, tokens // 4)
    # Neighbours share a line, which leaves room for more; in the end long sentences may have what is left.
    for _ in range(3):
        before = dict(kept)
        _take_quotations(units, passes, kept, seen, left, tokens, longest, counter)
        left = tokens - count(_render_quotations(units, kept)) - 1
        _lengthen_quotations(units, kept, left, counter)
        made = _render_quotations(units, kept)
        left, longest = tokens - count(made) - 1, tokens
        if (kept == before and before) or left < MIN_LINE_TOKENS:
            break
    # Counts of lines need not add up to the count of all: then the last to come go first.
    while len(kept) > 1 and count(made) > tokens:
        for at in list(kept)[-max(1, len(kept) // 10) :]:
            del kept[at]
        made = _render_quotations(units, kept)
    if kept and count(made) <= tokens:
        return made
    first = next((at for one in passes for at in one.units), 0)
    return first_fitting(units[first].label, clean(units[first].text), tokens, counter)


def _take_quotations(
    units: Sequence[Quotation],
    passes: Sequence[Pass],
    kept: dict[int, str],
    seen: set[str],
    left: int,
    tokens: int,
    longest: int,
    counter: TokenCounter,
) -> None:
    """Add the units of each pass that fit what is left."""
    for one in passes:
        misses = 0
        for at in one.units:
            pause()
            room = min(left, one.most - (tokens - left))
            if room < MIN_LINE_TOKENS // 2 or misses > MAX_MISSES:
                break
            unit = units[at]
            if at in kept or unit.is_answer or clean(unit.text) in seen:
                continue
            reply = None if unit.answer is None else clean(units[unit.answer].text)
            reserved = 0 if reply is None else counter.count_text(f"- User: {reply}") + 1
            text = _fit_quotation(unit, min(longest, room - 1 - reserved), counter)
            if text is None:
                misses += 1
                continue
            misses = 0
            kept[at] = text
            seen.add(clean(unit.text))
            left -= counter.count_text(unit.prefix + text) + 1 + reserved
            if unit.answer is not None and reply is not None:
                kept[unit.answer] = reply


def _lengthen_quotations(
    units: Sequence[Quotation], kept: dict[int, str], left: int, counter: TokenCounter
) -> None:
    """Show more of sentences that were shortened."""
    for at, text in list(kept.items()):
        if left >= MIN_LINE_TOKENS and OMISSION in text and OMISSION not in units[at].text:
            before = counter.count_text(units[at].prefix + text)
            longer = _fit_quotation(units[at], before + left, counter)
            if longer is not None and len(longer) > len(text):
                kept[at] = longer
                left -= counter.count_text(units[at].prefix + longer) - before


def _fit_quotation(unit: Quotation, tokens: int, counter: TokenCounter) -> str | None:
    """The unit, if need be without some of its clauses; None when it cannot be shown in so few tokens."""
    text = clean(unit.text).removesuffix(",")
    line = unit.prefix + text
    cost = counter.count_text(line) if len(line) <= tokens * CHARACTERS_PER_TOKEN else None
    if cost is not None and cost <= tokens:
        return text
    is_short = cost is not None and cost <= MAX_LINE_TOKENS
    if tokens < MIN_FIT_TOKENS or is_short or not unit.label:
        return None
    return fit_clauses(unit.text, tokens - counter.count_text(unit.prefix), counter.count_text)


def _render_quotations(units: Sequence[Quotation], kept: dict[int, str]) -> str:
    lines: list[str] = []
    last: Quotation | None = None
    quoted = ""
    for at in sorted(kept):
        unit, text = units[at], kept[at]
        whole = unit.is_prose and OMISSION not in text and "\n" not in unit.text
        if (
            last is not None
            and whole
            and (last.group, last.place + 1, last.alike) == (unit.group, unit.place, unit.alike)
            and len(quoted) + len(unit.text) <= MAX_JOINED_LENGTH
        ):
            quoted += unit.text
            lines[-1] = unit.prefix + clean(quoted)
        else:
            lines.append(unit.prefix + text)
            quoted = unit.text
        last = unit if whole else None
    return "\n".join(lines)


def first_fitting(label: str, text: str, tokens: int, counter: TokenCounter) -> str:
    """A line for what cannot be shown otherwise: all of it, or a mark that it is missing."""
    who = f"- {label}: " if label.strip() else "- "
    for line in (f"{who}{text}", f"{who}{OMISSION}"):
        if text and len(line) <= tokens * CHARACTERS_PER_TOKEN and counter.count_text(line) <= tokens:
            return line
    return f"- {OMISSION}"


# -- what a later one replaces -------------------------------------------------------------------------


def _find_superseded(units: Sequence[Quotation]) -> set[int]:
    """Units that a later one replaces: the same words again, a newer state, the last of one shape."""
    gone: set[int] = set()
    newest: dict[tuple[object, ...], int] = {}
    for at, unit in enumerate(units):
        pause()
        keys: list[tuple[object, ...]] = [(unit.label, unit.text)]
        subject = _subject(unit)
        if unit.shape is not None:
            keys.append((unit.label, "shape", unit.shape))
        elif subject:
            # Of a call that is about a file the last one; of anything else the last state.
            keys.append((unit.label or unit.text.partition("(")[0], "subject", subject))
        for key in keys:
            earlier = newest.get(key)
            if earlier is not None and (
                len(key) < 3 or key[1] == "shape" or _same_state(units[earlier], unit)
            ):
                gone.add(earlier)
            newest[key] = at
    return gone


def _find_repeated(units: Sequence[Quotation]) -> set[int]:
    """The statements that a user repeats later in almost the same words."""
    gone: set[int] = set()
    newest: dict[str, int] = {}
    for at in range(len(units) - 1, -1, -1):
        pause()
        unit = units[at]
        said, length = unit.content, len(unit.content)
        if unit.kind is not Kind.USER or length < 2:
            continue
        for found in set(map(newest.get, said)):
            if found is None or units[found].group == unit.group:
                continue
            other = units[found].content
            if min(length, len(other)) < SAME_SAYING_OVERLAP * max(length, len(other)):
                continue
            same = len(said & other)
            if same >= SAME_SAYING_OVERLAP * (length + len(other) - same):
                gone.add(at)
                break
        else:
            newest.update(dict.fromkeys(said.difference(newest), at))
    return gone


def _subject(unit: Quotation) -> str | None:
    """The subject of a line: the first name in it, or its first number; of a call only a file."""
    if unit.kind not in (Kind.ACTION, Kind.CALL, Kind.OTHER):
        return None
    named = (one for one in unit.exact if any(map(str.isdigit, one)) or "/" in one or "@" in one)
    subject = next(named, unit.exact[0] if unit.exact else None)
    if subject is None or unit.label:
        return subject
    return subject if "/" in subject or "." in subject else None


def _same_state(earlier: Quotation, later: Quotation) -> bool:
    """Tell whether two lines about one thing say the same of it, with other values."""
    if not earlier.label:
        return True
    words, others = _plain_words(earlier), _plain_words(later)
    if earlier.is_prose and min(len(words), len(others)) < MIN_STATE_WORDS:
        return False
    overlap = SAME_STATE_OVERLAP if earlier.is_prose else SAME_OUTPUT_OVERLAP
    return len(words & others) >= overlap * min(len(words), len(others))


def _plain_words(unit: Quotation) -> set[str]:
    words = set(unit.words).difference(WordView.of(" ".join(unit.exact)).words)
    return {word for word in words if not word.isdecimal()}


def _lower_older_values(units: Sequence[Quotation]) -> None:
    """Make lighter what a user said before saying the same with other numbers."""
    common = stop_words()
    newest: dict[str, tuple[Quotation, set[str]]] = {}
    for unit in reversed(units):
        pause()
        if unit.kind is not Kind.USER or not any(one[-1].isdigit() or one[0].isdigit() for one in unit.exact):
            continue
        words = _plain_words(unit)
        if len(words) < MIN_STATE_WORDS:
            continue
        telling = words - common
        for later, others in {
            id(newest[word][1]): newest[word] for word in telling if word in newest
        }.values():
            shared = len(words & others) >= SAME_STATE_OVERLAP * min(len(words), len(others))
            if shared and later.group != unit.group and later.exact != unit.exact:
                unit.is_rule, unit.score = False, unit.score - 2
                break
        for word in telling:
            newest.setdefault(word, (unit, words))
