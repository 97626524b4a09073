"""The text of a reply: taken out of what models write around a record, shortened, with missing names."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.name_index import NameIndex, unknown_names
from autonomy_ctx.language.sentences import sentence_ends, sentence_spans, text_languages
from autonomy_ctx.language.tables import DEFAULT_LANGUAGE, Language, load_language
from autonomy_ctx.language.words import fold_text, split_words
from autonomy_ctx.messages.transcript import MARK_PATTERN, neutralize_marks

# How often what stands around a record is looked for; a reply with more of it is no record.
MOST_ROUNDS = 8
HEAD = 240  # characters of a line that may stand around a record
SHORTENED_MARK = " [shortened]"
ALSO_NAMED = "Also named: "
MIN_LINE_TOKENS = 48
LOOP_SHINGLE = 4  # words that are said again
SCRIPT_LETTERS = 16  # in a row are some words of a script
LINE_MARKS = "*#>_- "
_THOUGHTS = "think|thinking|thought|thoughts|analysis|reasoning|reflection|scratchpad"
_THOUGHT_START = lazy_pattern(rf"\s*<({_THOUGHTS})>", re.IGNORECASE)
_THOUGHT_MARK = lazy_pattern(rf"<(/?)(?:{_THOUGHTS})>[ \t]{{0,8}}(\n|\Z)?", re.IGNORECASE)
_WRAPPER = lazy_pattern(r"<(summary|record|answer|output|response|final)>", re.IGNORECASE)
_TURN = lazy_pattern(r"\s*(?:(?:Human|Assistant):\s*)+")
_LIST_MARK = lazy_pattern(r"\s*+(?:[-*•#>|]{1,6}|[(]?\d{1,3}[.)]|\[[ x]?\])?\s*+")
_SPACES = lazy_pattern(r"\s+")
SPEAKER_PATTERN = lazy_pattern(r"(?:User|Assistant|System|Developer)(?: \([^()\n]{0,70}\))?: ")
TAG_PATTERN = lazy_pattern(r"</?[A-Za-z][^<>\n]{0,120}>")
_BLANK_LINES = lazy_pattern(r"\n{3,}")
ONE_WORD = lazy_pattern(r"[^\s<>]{1,80}")
_WORD = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff]|[^\\s\u3040-\u30ff\u3400-\u9fff]+")
_WORD_END = lazy_pattern(r"(?<=\S)(?=\s|\Z)")
_KANA = {"HIRAGANA": "KANA", "KATAKANA": "KANA"}
_DENSE = {"CJK": 2.5, "KANA": 2.5, "HANGUL": 2.0}  # one character says as much as so many letters
_ENDS, _ITEM_MARKS = '.!?…。！？؟)"', "-*•1234567890"  # noqa: RUF001
_AFTER_OPENING = "!,.;:。、，！—~"  # noqa: RUF001
_LINE_ENDS = (":", "\uff1a", ".", "。")


class Cue(NamedTuple):
    """A phrase of the table of replies in a text: where it stands, and its meanings."""

    start: int
    end: int
    meanings: Sequence[str]


def find_cues(text: str, languages: Iterable[Language]) -> list[Cue]:
    """The phrases of a text that tell something of a reply, language by language."""
    words = split_words(text)
    return [
        Cue(words.start(found.first), words.end(found.last), found.meanings)
        for language in languages
        for found in language.phrases["reply"].find(words)
    ]


def wrapper_languages(*texts: str) -> Sequence[Language]:
    """The languages of these texts, and English: models often speak it around a record."""
    found = {one.code: one for text in texts for one in text_languages(text)}
    return list((found | {DEFAULT_LANGUAGE: load_language(DEFAULT_LANGUAGE)}).values())


def strip_reply(text: str) -> str:
    """A reply without thoughts, fences, preambles and offers around it; stripped again it stays the same."""
    text = text.strip()
    for _ in range(MOST_ROUNDS):
        before = text
        for strip in (_strip_opening, _strip_thoughts, _strip_wrapper, strip_fence, _strip_closing):
            text = strip(text).strip()
        if text == before:
            return text
    return ""


def _strip_opening(text: str) -> str:
    """The text without a first word to somebody ("Okay."), or a line before it ("Here is the record:")."""
    line = text[:HEAD].partition("\n")[0]
    start = len(line) - len(line.lstrip(LINE_MARKS))
    cues = find_cues(line[start:], wrapper_languages(line, text[:HEAD]))
    for end, meanings in ((start + cue.end, cue.meanings) for cue in cues if cue.start == 0):
        if "opening" in meanings and (not text[end:] or text[end] in f"{_AFTER_OPENING}\n<"):
            return text[end:].lstrip(_AFTER_OPENING)
        if "preamble" in meanings:
            nouns = [start + cue.end for cue in cues if "record_noun" in cue.meanings]
            ends = [at for mark in _LINE_ENDS if nouns and (at := line.find(mark, nouns[0])) >= 0]
            if nouns and (ends or len(text) > len(line)):
                return text[ends[0] + 1 if ends else len(line) :].lstrip("*_ ")
    return text


def _strip_thoughts(text: str) -> str:
    while start := _THOUGHT_START.match(text):
        end = re.compile(f"</{start[1]}>", re.IGNORECASE).search(text, start.end())
        text = text[end.end() :] if end else ""
    # Some templates open the thoughts themselves: the reply has only their end.
    mark = _THOUGHT_MARK.search(text)
    return text[mark.end() :] if mark and mark[1] and mark[2] is not None else text


def _strip_wrapper(text: str) -> str:
    found = _WRAPPER.match(text)
    return text[found.end() :].removesuffix(f"</{found[1]}>") if found else text


def strip_fence(text: str) -> str:
    """The text inside of a fence that is all around it."""
    is_fenced = text.startswith("```") and text.endswith("```") and "\n" in text and text.count("```") == 2
    return text.partition("\n")[2][:-3] if is_fenced else text


def _strip_closing(text: str) -> str:
    """The text without a last line that only offers more help."""
    head, _, last = text.rpartition("\n")
    if len(last) > HEAD:
        return text
    cues = find_cues(last.lstrip(LINE_MARKS), wrapper_languages(last))
    return head if any(cue.start < 2 and "closing" in cue.meanings for cue in cues) else text


def neutral(text: str) -> str:
    """The text without role tokens, turns of a chat template and marks in the form of a prompt's."""
    lines = MARK_PATTERN.sub(" ", text).split("\n")
    blank = True
    for index, line in enumerate(lines):
        if blank and (turn := _TURN.match(line)):
            lines[index] = line[turn.end() :]
        blank = not lines[index].strip()
    # What only the removals put together is broken: removing it could put together the next, without end.
    return neutralize_marks("\n".join(lines).strip())


def clean_reply(text: str) -> str:
    """The text without marks and without what stands around a record, also what only the other hid."""
    for _ in range(4):
        before, text = text, strip_reply(neutral(text))
        if text == before:
            return text
    return neutral(text)


def split_text(text: str) -> list[str]:
    """The sentences and lines of a text, without the blank ones."""
    return [one for start, end in sentence_spans(text) if (one := text[start:end].strip())]


def plain_text(text: str) -> str:
    """A text to look for others in: folded, with plain apostrophes and single spaces."""
    return _SPACES.sub(" ", fold_text(text).replace("\u2019", "'").replace("\u2018", "'")).strip()


def bare_line(line: str) -> str:
    """A line to compare with headings."""
    return plain_text(line).strip("*#>_-• :")


def text_words(text: str) -> list[str]:
    """The words of a text as they are written; in scripts without spaces, its characters."""
    return _WORD.findall(text)


def shingles(words: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """All runs of so many words."""
    return list(zip(*(words[start:] for start in range(size)), strict=False))


def repeated_share(words: Sequence[str]) -> float:
    """The share of a text that says what is said three times or more."""
    found = Counter(shingles(words, LOOP_SHINGLE))
    return sum(times for times in found.values() if times > 2) / max(found.total(), 1)


def drop_sentences(text: str, unwanted: Callable[[str], bool]) -> str:
    """The text without the sentences that are not wanted; lines of which nothing is left go, too."""
    kept: list[str] = []
    for start, end in sentence_spans(text):
        sentence = text[start:end]
        if sentence.strip() and unwanted(sentence.strip()):
            # The item of a list goes on with its next sentence, and the line ends as before.
            mark = _LIST_MARK.match(sentence) if start == 0 or text[start - 1] == "\n" else None
            sentence = (mark[0].rstrip() if mark else "") + "\n" * sentence.endswith("\n")
        kept.append(sentence)
    if (shorter := "".join(kept)) == text:
        return text
    lines = _BLANK_LINES.sub("\n\n", shorter).split("\n")
    return "\n".join(
        one.rstrip() for one in lines if not one.strip() or not _LIST_MARK.fullmatch(one)
    ).strip()


def name_missing(
    text: str, wanted: Sequence[str], *, cap: int, count: Callable[[str], int], fill: bool = False
) -> str:
    """The text with one more line that names the identifiers it lacks, as many as there is room for.

    With `fill` the line may take all that is left of the cap; otherwise a text stays longer than it.
    """
    missing = missing_names(text, wanted)
    tokens = count(text)
    room = cap if fill else min(cap, tokens + max(tokens // 2, MIN_LINE_TOKENS))

    def named(number: int) -> str:
        return neutral(f"{text}\n{ALSO_NAMED}{', '.join(missing[:number])}")

    number = _longest(range(1, len(missing) + 1), lambda one: count(named(one)) <= room)
    return named(number) if number else text


def missing_names(text: str, wanted: Sequence[str]) -> list[str]:
    """The identifiers that a text lacks and that read as one word: only these are repeated outside marks."""
    has = NameIndex(text).has
    return [name for name in wanted if ONE_WORD.fullmatch(name) and not has(name)]


def covered_names(wanted: Sequence[str], text: str) -> float:
    """The share of the identifiers that a text has, however they are written, 1.0 when there are none."""
    return sum(map(NameIndex(text).has, wanted)) / len(wanted) if wanted else 1.0


def without_names_line(text: str) -> str:
    """The text without the line that `name_missing` has added."""
    record, _, last = text.rpartition("\n")
    return record if record and last.startswith(ALSO_NAMED) else text


def trim_to_cap(text: str, cap: int, count: Callable[[str], int]) -> str:
    """The whole sentences or lines that fit into `cap` tokens, marked as shortened.

    An unfinished sentence at the end is left out. When not even one sentence fits, whole words are
    kept, then characters; a text never becomes empty.
    """
    text = text.strip()
    if text.endswith(SHORTENED_MARK) and count(text) <= cap:
        return text
    text = text.removesuffix(SHORTENED_MARK.strip()).rstrip()
    if not text:
        return SHORTENED_MARK.strip()

    def marked(end: int) -> str:
        return text[:end].rstrip() + SHORTENED_MARK

    words = [found.end() for found in _WORD_END.finditer(text)]
    for ends in (sentence_ends(text), words, range(1, words[0] + 1)):
        if kept := _longest(ends, lambda end: count(marked(end)) <= cap):
            return marked(ends[kept - 1])
    return marked(1)


def _longest(ends: Sequence[int], fits: Callable[[int], bool]) -> int:
    """Count the ends that fit, looking no further than about twice as far as that."""
    low, step = 0, 1
    while low + step <= len(ends) and fits(ends[low + step - 1]):
        low += step
        step *= 2
    high = min(low + step, len(ends) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(ends[middle - 1]) else (low, middle)
    return low


def has_finished_sentence(text: str) -> bool:
    """Tell whether a text that was cut off has a sentence, or an item of a list, before its end."""
    ends = sentence_ends(text)
    told = split_text(text[: ends[-1]] if ends and (ends[-1] < len(text) or text[-1] in _ENDS) else "")
    whole = [one for one in told if one[-1] in _ENDS or one[0] in _ITEM_MARKS]
    return any(len(split_words(one)) > 2 for one in whole)


def drop_unknown(text: str, known: NameIndex) -> str:
    """The text without the sentences that name what is not known; what is left names nothing else."""
    while unknown := unknown_names(text, known):
        shorter = drop_sentences(text, lambda sentence: any(name in sentence for name in unknown))
        if shorter == text:
            return ""
        text = shorter
    return text


def count_letters(text: str) -> dict[str, float]:
    """Letters of a text by script, by their names in Unicode."""
    found: dict[str, float] = {}
    for letter, times in Counter(text).items():
        if script := _script(letter):
            found[script] = found.get(script, 0) + times * _DENSE.get(script, 1.0)
    return found


def _script(letter: str) -> str:
    name = unicodedata.name(letter, "").partition(" ")[0] if letter.isalpha() else ""
    return _KANA.get(name, name)


def has_words_in(text: str, script: str) -> bool:
    """Tell whether a text has some words of a script in a row: names and codes alone are no language."""
    letters = re.escape("".join(one for one in set(text) if _script(one) == script))
    most = int(SCRIPT_LETTERS / _DENSE.get(script, 1.0))
    between = rf"[^A-Za-z\n{letters}]{{0,6}}" if script in _DENSE else r"[\s,.'\u2019،-]{0,2}"
    return bool(letters) and re.search(rf"(?:[{letters}]{between}){{{most}}}", text) is not None
