"""Tells a user's own words from what the user pasted: mails, quotations, code, logs and chats.

What somebody else wrote is no rule, value or preference of the user. It is known by its form (fences, quotes,
headers, separators, tags, indents), and by an introduction such as "here is the mail I got:". Where such a
text ends is seldom marked: below a header, a separator or an introduction all the rest of a message counts as
pasted. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.tables import DEFAULT_LANGUAGE, PhraseTable, find_languages, load_language
from autonomy_ctx.language.words import Words, split_words

MAX_HEADER_LINES = 6
MAX_GREETING_WORDS = 5
MIN_QUOTED_WORDS = 3
MAX_LABEL, MAX_READ = 40, 4000  # characters of a header's label, and of a text whose language is told
_COLONS = (":", "\uff1a")
_FENCE = lazy_pattern(r"\s{0,8}(```|~~~)")
_QUOTED_LINE = lazy_pattern(r"\s*[>|]")
_INDENT = lazy_pattern(r"(?: {4}|\t)\s{0,40}\S")
_BULLET = lazy_pattern(r"\s{0,16}(?:[-*+\u2022\u00b7]|\d{1,3}[.)])\s")
_OPENING_TAG = lazy_pattern(r"\s{0,8}<([A-Za-z][\w-]{0,40})(?:\s[^<>\n]{0,200})?>")
_CLOSING_TAG = lazy_pattern(r"</([A-Za-z][\w-]{0,40})>")
# "[09:12] Bob: ...", "04.05.2026, 09:12 - Bob: ..."
_CHAT_LINE = lazy_pattern(
    r"\s{0,4}(?:[\[(][^\[\]()\n]{0,20}\d{1,2}:\d\d[^\[\]()\n]{0,12}[\])]"
    r"|\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?\s\d{1,2}:\d\d[^:\n]{0,8}\s-)"
    r"\s{1,3}[^:\n]{1,40}[:\uff1a]"
)
_SEPARATOR = lazy_pattern(r"\s{0,4}(?:[-_=]{5,60}[^-_=\n]{3,80}[-_=]{5,60}|_{20,200})\s{0,4}")
_LABEL = r"[\s*_]{0,6}[^\W\d_][^:\uff1a\n]{0,24}[:\uff1a]"
_HEADER_LINE = lazy_pattern(_LABEL + r"[*_]{0,2}\s?\S")
_ADDRESS = r"[^\s<>@]{1,64}@[^\s<>@]{1,64}"
# A line of a header that only a mail has: with an address, or with a label of `[speech]`.
_ADDRESS_LINE = lazy_pattern(rf"{_LABEL}[^\n<]{{0,200}}<{_ADDRESS}>|[^\n]{{0,200}}<{_ADDRESS}>\s?[:\uff1a]")
_ENDS = ".!?\u2026\u3002\uff01\uff1f\u061f"
_QUOTATION = lazy_pattern(
    '(?<![\\w"])"(?=\\S)[^"]{1,4000}(?<=\\S)"(?!\\w)|\u201c[^\u201c\u201d]{1,4000}\u201d'
    "|\u201e[^\u201e\u201c\u201d]{1,4000}[\u201c\u201d]|\u00ab[^\u00ab\u00bb]{1,4000}\u00bb|\u00bb[^\u00ab\u00bb]{1,4000}\u00ab"
    "|\u300c[^\u300c\u300d]{1,4000}\u300d|\u300e[^\u300e\u300f]{1,4000}\u300f"
)
_SENTENCE_BREAK = lazy_pattern(f"[{_ENDS}](?=\\s|[\u3002\uff01\uff1f]|\\Z)|[\u3002\uff01\uff1f]|\\n")
# A line that has none of these, and is the only one, is the author's own.
_MARKS = frozenset('\n<>|`~["\u201c\u201e\u00ab\u00bb\u300c\u300e')


class Speech(NamedTuple):
    """A text without what was pasted into it, line by line, and what was pasted."""

    own: str
    pasted: str


def split_speech(text: str) -> Speech:
    """The words of a text's author, and those of somebody else in it."""
    if _MARKS.isdisjoint(text):
        return Speech(text, "")
    lines = text.splitlines()
    are_pasted = _pasted_lines(lines, _tables(text))
    pasted = list(compress(lines, are_pasted))
    own, quoted = _cut_quotations(
        "\n".join(["" if out else line for line, out in zip(lines, are_pasted, strict=True)])
    )
    return Speech(own, "\n".join([*pasted, *quoted]))


def _tables(text: str) -> list[PhraseTable]:
    """The words of the languages in a text that tell pasted ones."""
    codes = (*find_languages(split_words(text[:MAX_READ]).folded, text[:MAX_READ]), DEFAULT_LANGUAGE)
    return [load_language(code).phrases["speech"] for code in dict.fromkeys(codes)]


def _pasted_lines(lines: Sequence[str], tables: Sequence[PhraseTable]) -> list[bool]:
    found = [False] * len(lines)
    # Where everything is indented, an indent says nothing.
    has_margin = any(line.strip() and not line[0].isspace() for line in lines)
    closed = {tag[1]: at for at, line in enumerate(lines) for tag in _CLOSING_TAG.finditer(line)}
    closing = ""  # what ends the block that a line stands in
    in_code = False
    for at, line in enumerate(lines):
        if closing:
            found[at] = True
            is_last = closing in line if closing[0] == "<" else line.lstrip().startswith(closing)
            closing = "" if is_last else closing
        elif fence := _FENCE.match(line):
            found[at], closing = True, fence[1]
        elif (tag := _OPENING_TAG.match(line)) and closed.get(tag[1], -1) >= at:
            end = f"</{tag[1]}>"
            found[at], closing = True, "" if end in line else end
        elif _begins_pasted_text(lines, at, tables):
            return [*found[:at], *([True] * (len(lines) - at))]
        else:
            if not in_code:
                in_code = has_margin and (not at or not lines[at - 1].strip())
            in_code = in_code and (not line.strip() or bool(_INDENT.match(line) and not _BULLET.match(line)))
            found[at] = in_code or bool(_QUOTED_LINE.match(line) or _CHAT_LINE.match(line))
    return found


def _begins_pasted_text(lines: Sequence[str], at: int, tables: Sequence[PhraseTable]) -> bool:
    """Tell whether all from this line on was pasted: a separator, a mail header, or an introduction."""
    line = lines[at]
    # Frameworks mark the words of other agents so.
    if _SEPARATOR.fullmatch(line) or "<<<BEGIN_" in line:
        return True
    for header in lines[at : at + MAX_HEADER_LINES]:
        if not _HEADER_LINE.match(header):
            break
        label = split_words(header[:MAX_LABEL].replace("\uff1a", ":").partition(":")[0])
        if _ADDRESS_LINE.match(header) or _means(label, "header", tables, is_whole=True):
            return True
    if not line.rstrip().endswith(_COLONS):
        return False
    # By index: a copy of the rest for each line would take quadratic time.
    after = next((index for index in range(at + 1, len(lines)) if lines[index].strip()), at)
    following = lines[after].rstrip() if after > at else ""
    if not following or _BULLET.match(following):
        return False
    is_greeting = following.endswith((",", "\uff0c")) and len(following.split()) <= MAX_GREETING_WORDS
    return is_greeting or bool(_ADDRESS_LINE.match(line)) or _means(split_words(line), "introduction", tables)


def _means(words: Words, meaning: str, tables: Sequence[PhraseTable], *, is_whole: bool = False) -> bool:
    found = (match for table in tables for match in table.find(words) if meaning in match.meanings)
    return any(not is_whole or (match.first, match.last) == (0, len(words) - 1) for match in found)


def _cut_quotations(text: str) -> tuple[str, list[str]]:
    """The text without the sentences in which somebody else is quoted with whole sentences."""
    kept: list[str] = []
    quoted: list[str] = []
    start = 0
    for match in _QUOTATION.finditer(text):
        if match.start() < start or not _has_sentences(text, match.start(), match.end()):
            continue
        breaks = [one.end() for one in _SENTENCE_BREAK.finditer(text, start, match.start())]
        kept.append(text[start : breaks[-1] if breaks else start])
        quoted.append(match[0])
        start = match.end()
        # The sentence may go on after the quotation: ", he wrote."
        if not text[start : start + 4].lstrip()[:1].isupper():
            end = _SENTENCE_BREAK.search(text, start)
            start = end.end() if end else len(text)
    return "\n".join([*kept, text[start:]]), quoted


def _has_sentences(text: str, start: int, end: int) -> bool:
    """Tell whether a quotation has several sentences, or is one and alone in its line or after a colon."""
    inner = text[start + 1 : end - 1].strip()
    if len(inner.split()) < MIN_QUOTED_WORDS and inner.isascii():
        return False
    breaks = [one.end() for one in _SENTENCE_BREAK.finditer(inner)]
    if any(one < len(inner) for one in breaks):
        return True
    line_end = text.find("\n", end)
    before = text[text.rfind("\n", 0, start) + 1 : start].rstrip()
    after = text[end : line_end if line_end >= 0 else len(text)].strip(_ENDS + ", ")
    return (not before or (before.endswith(_COLONS) and bool(breaks))) and not after
