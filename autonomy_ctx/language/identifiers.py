"""Finds identifiers in a text: names, numbers, dates, paths, addresses and short quotes.

A summary may rephrase everything else, so the share of identifiers it still has (`coverage`) measures
its quality without a model. Every pattern is bounded or possessive, so the time is linear in the length
of the text.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.language.tables import load_index

MAX_IDENTIFIERS = 4000
MAX_IDENTIFIER_LENGTH = 200
MAX_URL_LENGTH = 2000

# Scripts written without spaces: their characters end a word in another script.
WIDE_CHARACTERS = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
_BRACKETS = {")": "(", "]": "[", "}": "{"}
_QUOTES = '"`\u201c\u201d\u201e'
_URL_DELIMITERS = rf"\s<>{_QUOTES}{WIDE_CHARACTERS}"
_WORD_DELIMITERS = rf"\s,;'{_QUOTES}\u2018\u2019«»()\[\]{{}}<>|=*\u2026\u2013\u2014{WIDE_CHARACTERS}"


def _make_word_pattern() -> str:
    """A word, URL or date.

    Ordinary words are skipped within one match, which is most of the speed, but not before a digit: it may be
    a month. What follows is optional, so that a text of nothing else is not tried again from every character.
    """
    index = load_index()
    letters = "".join(sorted({name[0] for name in index.month_names}))
    month = rf"(?=[{letters}])(?:{'|'.join(index.month_names)})\.?"
    nth, joints = "|".join(index.ordinal_endings), "|".join(index.date_joints)
    return (
        rf"[{_WORD_DELIMITERS}]*+"
        r"(?:[A-Za-z][a-z]*+[.,;:!?)]*+(?:\s++(?!\d)|\Z))*+(?:"
        rf"(?P<url>[A-Za-z][A-Za-z0-9+.-]{{1,9}}://[^{_URL_DELIMITERS}]+)"
        rf"|(?P<date>\d{{1,2}}(?:\.|{nth})? (?:(?:{joints}) )?{month}(?:,? \d{{4}})?(?!\w)"
        rf"|{month} (?:\d{{1,2}}(?:{nth})?(?:,? \d{{4}})?|\d{{4}})(?!\w)"
        r"|(?:\d{4}年)?\d{1,2}月(?:\d{1,2}日)?)"
        rf"|(?P<word>[^{_WORD_DELIMITERS}]+(?:(?<=\d),(?=\d)[^{_WORD_DELIMITERS}]+)*))?"
    )


_WORD_PATTERN = lazy_pattern(_make_word_pattern)
_QUOTE_PATTERN = lazy_pattern(
    r"`(?P<code>[^`\n]{1,100})`"
    r'|"(?P<plain>(?=[^\s,:;])[^"\n]{2,60})"(?!:)'  # the keys of JSON are no quotes
    r"|[\u201c\u201e](?P<curly>(?=\S)[^\u201c-\u201e\n]{2,60})[\u201c\u201d]"
)
# A word that is none of these is an ordinary word.
_IDENTIFIER_HINT = lazy_pattern(r"[\d/\\@_.]|[a-z][A-Z]|[A-Z]{2}[a-z]{2}")
_IDENTIFIER_CHARACTER = lazy_pattern(r"[\d_\\@]")
_LETTER_OR_DIGIT = lazy_pattern(r"[^\W_]")
_QUOTE_MARK = lazy_pattern(f"[{_QUOTES}]")
THOUSANDS_SEPARATOR = lazy_pattern("(?<=\\d)[,.'_\u2019\u00a0\u2009\u202f](?=\\d{3}(?!\\d))")


def identifiers(text: str) -> list[str]:
    """Names, numbers, dates, paths, addresses and short quotes, as written, by first appearance."""
    words: Iterable[tuple[int, str]] = _find_words(text)
    if _QUOTE_MARK.search(text):
        words = heapq.merge(_find_quotes(text), words)
    found: dict[str, None] = {}
    for _, word in words:
        found[word] = None
        if len(found) == MAX_IDENTIFIERS:
            break
    return list(found)


def coverage(source: str, text: str) -> float:
    """The share of the source's identifiers that the text has too, 1.0 when there are none."""
    return covered_share(identifiers(source), text)


def covered_share(wanted: Sequence[str], text: str) -> float:
    """The share of identifiers that are known already which the text has, 1.0 when there are none."""
    if not wanted:
        return 1.0
    plain = THOUSANDS_SEPARATOR.sub("", text)
    return sum(word in text or THOUSANDS_SEPARATOR.sub("", word) in plain for word in wanted) / len(wanted)


def _find_quotes(text: str) -> Iterator[tuple[int, str]]:
    for match in _QUOTE_PATTERN.finditer(text):
        word = match[match.lastgroup or 0].strip()
        if word:
            yield match.start(), word


def _find_words(text: str) -> Iterator[tuple[int, str]]:
    for match in _WORD_PATTERN.finditer(text):
        kind = match.lastgroup
        if kind is None:
            continue
        word = match[kind]
        if kind == "date":
            yield match.start(kind), word.rstrip(".")
        elif kind == "url":
            if len(word) <= MAX_URL_LENGTH:
                yield match.start(kind), _strip_url(word)
        elif len(word) <= MAX_IDENTIFIER_LENGTH and _IDENTIFIER_HINT.search(word):
            pause()
            word = word.rstrip(".,:;!?-&").lstrip("!?:;,&")
            if is_identifier(word):
                yield match.start(kind), word


def _strip_url(url: str) -> str:
    """A URL without the sentence around it; a bracket that it opened itself stays."""
    while url[-1] in ".,:;!?'*|" or url.count(url[-1]) > url.count(_BRACKETS.get(url[-1], url[-1])):
        url = url[:-1]
    return url


def is_identifier(word: str) -> bool:
    """Tell whether a word has the form of a name, number, path or address."""
    if len(word) < 2 or not _LETTER_OR_DIGIT.search(word):
        return False
    if _IDENTIFIER_CHARACTER.search(word):
        return True
    if "/" in word:
        return word.lower() not in load_index().word_pairs
    if "." in word:
        pieces = word.removeprefix(".").split(".")
        # Not "e.g" and not "well...then": a name has no empty piece and one longer than a letter.
        return all(pieces) and max(map(len, pieces)) > 1
    return bool(_IDENTIFIER_HINT.search(word))
