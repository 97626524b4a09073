"""Splits a text into sentences, without what was pasted into it, code and logs.

A sentence stands on one line. It is a contiguous piece of its message, apart from runs of white space.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.reported_speech import split_speech
from autonomy_ctx.language.tables import month_words
from autonomy_ctx.language.words import fold_text

MIN_WRAPPED_LINE = 60  # characters; a line that is broken in the middle of a sentence is at least this long
MAX_WRAPPED_TEXT = 1000
MAX_CODE_SHARE = 0.08  # of the characters of a line that only code and tables have
QUESTION_MARKS = "?\uff1f\u061f"
_CODE_CHARACTERS = dict.fromkeys(map(ord, "{}[]<>;=|&$\\^~"))
_BULLET = lazy_pattern(r"\s{0,16}(?:[-*+\u2022\u00b7]|\d{1,3}[.)]|\[[ xX]?\])\s{1,8}(?:\[[ xX]?\]\s{1,4})?")
_LOG_LINE = lazy_pattern(
    r"\W{0,3}(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL)\b"
    r'|Traceback |File "|at [\w.$]{1,80}\(|\$ |>>> |#|//|/\*|diff --git|\+\+\+|---|@@|</?\w'
    r"|def |class \w{1,40}[:(]"
    r"|SELECT |INSERT |import \w{1,40}$|from \w{1,40} import)"
)
_SENTENCE_END = lazy_pattern(
    "(?<![.!?\u2026])[.!?\u2026]++[\"')\\]\u00bb\u201d\u2019*]{0,3}(?=\\s|\\Z)|[\u3002\uff01\uff1f\u061f]+[\u201d\u300d\u300f\uff09]?"
)
_LAST_WORD = lazy_pattern(r"[^\s(]{1,12}\Z")
_NEXT_WORD = lazy_pattern(r"\s{1,4}([^\W\d_]{1,12})")
_ABBREVIATION_WORDS = """
dr. mr. mrs. ms. prof. st. e.g. i.e. etc. vs. approx. no. nr. ca. z.b. bzw. d.h. usw. sr. sra. m. mme. mlle.
p.ex. ej. fig. inc. ltd. co. jr. dept. est. min. max. tel. str. u.a. evtl. inkl. bspw. vgl. resp. art. num.
"""
_ABBREVIATIONS = frozenset(_ABBREVIATION_WORDS.split())


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence on one line, without the mark of a list before it."""

    text: str
    is_list_item: bool = False

    @property
    def is_question(self) -> bool:
        """Tell whether it ends with a question mark."""
        return self.text.rstrip("\"')*\u201d\u300d ").endswith(tuple(QUESTION_MARKS))


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a message that its author said, in order."""
    own = split_speech(text).own
    return [sentence for line, is_item in _spoken_lines(own) for sentence in _split_line(line, is_item)]


def _spoken_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Lines of prose; a line that was broken in the middle of a sentence is put together again."""
    waiting, waiting_is_item = "", False
    for line in text.splitlines():
        bullet = _BULLET.match(line)
        body = line[bullet.end() :] if bullet else line
        body = " ".join(body.split())
        continues = bool(waiting) and not bullet and body[:1].islower()
        if waiting and not continues:
            yield waiting, waiting_is_item
            waiting = ""
        if not body or _is_code(body):
            continue
        if continues:
            body = f"{waiting} {body}"
        else:
            waiting_is_item = bullet is not None
        if MIN_WRAPPED_LINE <= len(body) <= MAX_WRAPPED_TEXT and body[-1].isalnum():
            waiting = body
        else:
            waiting = ""
            yield body, waiting_is_item
    if waiting:
        yield waiting, waiting_is_item


def _is_code(line: str) -> bool:
    """Tell whether a line is code, a log or a table, and not what a person says."""
    if _LOG_LINE.match(line) or line[-1] in "{};":
        return True
    marks = len(line) - len(line.translate(_CODE_CHARACTERS))
    return marks > 2 and marks > len(line) * MAX_CODE_SHARE


def _split_line(line: str, is_item: bool) -> Iterator[Sentence]:
    start = 0
    for match in _SENTENCE_END.finditer(line):
        if match[0] == "." and not _is_end(line, match.start(), match.end()):
            continue
        if sentence := line[start : match.end()].strip():
            yield Sentence(sentence, is_item and start == 0)
        start = match.end()
    if sentence := line[start:].strip():
        yield Sentence(sentence, is_item and start == 0)


def _is_end(line: str, dot: int, end: int) -> bool:
    """Tell whether a dot ends a sentence, and not an abbreviation, an initial or the number of a day."""
    last = _LAST_WORD.search(line, max(dot - 12, 0), dot + 1)
    word = fold_text(last[0]) if last else ""
    if word in _ABBREVIATIONS or (len(word) == 2 and word[0].isalpha() and end < len(line)):
        return False
    following = _NEXT_WORD.match(line, end)
    is_day = word[:-1].isdigit() and following is not None and fold_text(following[1]) in month_words()
    return not is_day
