"""Splits texts into sentences and sentences into clauses: for facts, for digests and for checks of a summary.

A sentence that is quoted must not mean something else than in its text. So a digest keeps together what
belongs together: a sentence and the one that restricts it ("But only on Fridays."), a heading ("Never:") and
the items below it, a clause and the denial of what it says. Every pattern takes linear time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.reported_speech import split_speech
from autonomy_ctx.language.tables import START_MARK, Language, find_languages, load_language
from autonomy_ctx.language.words import Words, fold_text, split_words

MAX_LANGUAGE_SAMPLE = 600  # characters of a text by which its languages are found
MIN_WRAPPED_LINE = 60  # characters; a line that is broken in the middle of a sentence is at least this long
MAX_JOINED_LENGTH = 1200  # characters of a sentence over several lines
MAX_LINE_LENGTH = 300  # characters; a longer line of a tool is divided into sentences or records
MAX_CODE_SHARE = 0.08  # of the characters of a line that only code and tables have
MAX_DAY = 31  # a larger number before a full stop is no day of a month
# Letters of a word before a full stop: a shorter one may be an abbreviation if no capital follows.
MIN_ORDINARY_WORD = 3
MIN_CLAUSE_LENGTH = 12  # characters; what is shorter stays with the clause before it
CLAUSE_HEAD = 3  # words of a clause that tell whether it stands alone
MAX_BACKWARD_WORDS = 12  # a longer sentence says itself what it is about
QUESTION_MARKS = ("?", "\uff1f", "\u061f")
# What makes another statement of the one beside it.
BINDING = frozenset(("negation", "condition"))
_CONTINUATION = frozenset(("condition", "restriction", "conjunction", "continuation"))
_CLAUSE_MARKS = frozenset(".!?;\n\u2026\u3002\u2014\u2013(")
_COLONS = (":", "\uff1a")
_CLOSING_MARKS = "\"')]»”’*"  # noqa: RUF001
_CODE_CHARACTERS = dict.fromkeys(map(ord, "{}[]<>;=|&$\\^~"))
_LIST_MARK = r"(?:[-*+\u2022\u00b7\u2013]|\(?\d{1,3}[.)]|[a-z][.)]|\[[ xX]?\])"
_LIST_ITEM = lazy_pattern(rf"\s{{0,16}}{_LIST_MARK}\s{{1,8}}(?:\[[ xX]?\]\s{{1,4}})?")
_LIST_NUMBER = lazy_pattern(r"\s*[(]?\d{1,4}[.)]\s*")
_LOG_LINE = lazy_pattern(
    r"\W{0,3}(?:\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\d\d:\d\d:\d\d|(?:ERROR|WARN|WARNING|INFO|DEBUG|TRACE|FATAL)\b"
    r'|Traceback |File "|at [\w.$]{1,80}\(|\$ |>>> |#|//|/\*|diff --git|\+\+\+|---|@@|</?\w'
    r"|def |class \w{1,40}[:(]"
    r"|SELECT |INSERT |import \w{1,40}$|from \w{1,40} import)"
)
_ENDS, _WIDE_ENDS = ".!?\u2026", "。\uff01\uff1f\u061f\u06d4"
# Not inside "[...]", which stands for what is left out. Python skips to a character of the first class.
_SENTENCE_END = lazy_pattern(
    rf"[{_ENDS}{_WIDE_ENDS}\n](?:(?<=\n)\n*|(?<=[{_WIDE_ENDS}])[{_WIDE_ENDS}]*+[”」』\uff09]{{0,2}}"
    rf"|(?<=[{_ENDS}])(?<![{_ENDS}\[].)[{_ENDS}]*+[\"')\]»”\u2019*]{{0,3}}(?=\s|\Z))"
)
_LAST_WORD = lazy_pattern(r"[^\s(\"'\[«„“]{1,16}\Z")
_RECORD_END = lazy_pattern(r"(?<=[}\]]),\s{0,4}")
_ARGUMENT_END = lazy_pattern(r',\s{0,4}(?="[^"\n]{1,60}"\s?:)')
_CLAUSE_END = lazy_pattern(r";\s|\uff1b|\uff0c|\s[\u2014\u2013]\s|\n|[.!?\u2026]\s")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence on one line, without the mark of a list before it."""

    text: str
    is_list_item: bool = False

    @property
    def is_question(self) -> bool:
        """Tell whether it ends with a question mark."""
        return self.text.rstrip("\"')*\u201d\u300d ").endswith(QUESTION_MARKS)


# -- words --------------------------------------------------------------------------------------------


def text_languages(text: str) -> tuple[Language, ...]:
    """The tables of the languages that a text may be in."""
    sample = text[:MAX_LANGUAGE_SAMPLE]
    return tuple(map(load_language, find_languages(split_words(sample).folded, sample)))


def find_meanings(
    words: Words,
    languages: Iterable[Language],
    *,
    table: str = "cues",
    first: int = 0,
    most: int | None = None,
) -> set[str]:
    """The meanings of all phrases that begin at one of `most` words from one on, also inside of others."""
    found = set[str]()
    folded = words.folded[first : None if most is None else first + most]
    for phrases in [language.phrases[table] for language in languages]:
        opened = first  # a clause begins up to here: nothing but openers stands before
        for at in phrases.starts(folded, first):
            for _, last, meanings in phrases.match_all(words, at):
                anywhere = [one for one in meanings if one[0] != START_MARK]
                found.update(anywhere)
                is_opener = "opener" in anywhere
                if not is_opener and len(anywhere) == len(meanings):
                    continue
                if at <= opened or _begins_clause(words, at):
                    found.update(one.lstrip(START_MARK) for one in meanings)
                    opened = last + 1 if is_opener else opened
    return found


def _begins_clause(words: Words, at: int) -> bool:
    between = words.text[words.end(at - 1) : words.start(at)]
    return words.folded[at - 1] in (",", ":") or not _CLAUSE_MARKS.isdisjoint(between)


def is_binding(text: str, languages: Sequence[Language] = ()) -> bool:
    """Tell whether a text denies something or names a condition."""
    return not BINDING.isdisjoint(find_meanings(split_words(text), languages or text_languages(text)))


# -- sentences ----------------------------------------------------------------------------------------


def sentence_ends(text: str, languages: Sequence[Language] = ()) -> list[int]:
    """Where sentences and lines end; the end of the text only if a sentence ends there, or nowhere else."""
    ends: list[int] = []
    for found in _SENTENCE_END.finditer(text):
        start = ends[-1] if ends else 0
        if found[0].rstrip(_CLOSING_MARKS) == ".":
            languages = languages or text_languages(text)
            if not _is_end(text, found.start(), found.end(), languages):
                continue
        if not _LIST_NUMBER.fullmatch(text, start, found.end()):
            ends.append(found.end())
    return ends or [len(text)] * bool(text)


def sentence_spans(text: str, languages: Sequence[Language] = ()) -> Iterator[tuple[int, int]]:
    """From where to where each sentence or line goes; together they are the whole text."""
    start = 0
    for end in sentence_ends(text, languages):
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def _is_end(text: str, dot: int, end: int, languages: Iterable[Language]) -> bool:
    """Tell whether a dot ends a sentence, and not an abbreviation, an initial or the number of a day."""
    after = text[end : end + 4].lstrip()[:1]
    if not after:
        return True
    last = _LAST_WORD.search(text, max(dot - 16, 0), dot)
    word = fold_text(last[0]) if last else ""
    is_common = any(word in language.words["function"] for language in languages)
    if any(word in language.words.get("abbreviations", ()) for language in languages):
        return is_common and not after.isdecimal()
    if len(word) == 1 and word.isalpha():
        return is_common
    if word.isdecimal() and len(word) < 3 and int(word) <= MAX_DAY:
        goes_on = "after_number" in find_meanings(split_words(text[end : end + 20]), languages, most=1)
        return not (goes_on or after.islower() or after.isdecimal())
    if "." in word and all(len(piece) < 2 for piece in word.split(".")):
        return False
    # Some people write without capitals; then only an ordinary word ends a sentence.
    is_ordinary = is_common or (word.isalpha() and len(word) >= MIN_ORDINARY_WORD)
    return is_ordinary or not (after.islower() or after.isdecimal())


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a message that its author said, in order, without code and logs."""
    own = split_speech(text).own
    languages, found = text_languages(own), list[Sentence]()
    lines = ["" if _is_code(line) else line for line in own.splitlines()]
    for block in _join_lines(lines, languages, keep_headings=False):
        mark = _LIST_ITEM.match(block)
        line = " ".join(block[mark.end() if mark else 0 :].split())
        for start, end in sentence_spans(line, languages):
            if sentence := line[start:end].strip():
                found.append(Sentence(sentence, mark is not None and start == 0))
    return found


def _goes_on(before: str, line: str, languages: Sequence[Language]) -> bool:
    """Tell whether a line continues the sentence of the one before it."""
    line, before = line.lstrip(), before.rstrip()
    last = before[-1:]
    if not line[:1].islower() or len(before) + len(line) > MAX_JOINED_LENGTH:
        return False
    if last in (",", "-"):
        return True
    if not (last.isalnum() or last in (")", "'", '"')):
        return False
    if len(before) >= MIN_WRAPPED_LINE:
        return True
    return not _CONTINUATION.isdisjoint(find_meanings(split_words(line[:80]), languages, most=1))


def _is_code(line: str) -> bool:
    """Tell whether a line is code, a log or a table, and not what a person says."""
    mark = _LIST_ITEM.match(line)
    line = line[mark.end() if mark else 0 :].strip()
    if _LOG_LINE.match(line) or line.endswith(("{", "}", ";")):
        return True
    marks = len(line) - len(line.translate(_CODE_CHARACTERS))
    return marks > 2 and marks > len(line) * MAX_CODE_SHARE


# -- what can be quoted alone -------------------------------------------------------------------------


def split_prose(text: str, languages: Sequence[Language] = ()) -> Iterator[str]:
    """The sentences of a text, each with the parts that it needs to be understood.

    An empty one separates two lines, whose sentences are not neighbours.
    """
    languages = languages or text_languages(text)
    for block in _join_lines(text.splitlines(), languages):
        yield from [block] if has_heading(block) else _join_restrictions(block, languages)
        yield ""


def split_output(text: str, languages: Sequence[Language] = ()) -> Iterator[str]:
    """The lines of what a program printed; a long line in its records or sentences."""
    for line in text.splitlines():
        if len(line) <= MAX_LINE_LENGTH and not line.startswith(("[{", '{"')):
            yield line
        elif line.lstrip().startswith(("{", "[")):
            yield from _split_at(line, (match.end() for match in _RECORD_END.finditer(line)))
        else:
            yield from _join_restrictions(line, languages or text_languages(line))


def has_heading(block: str) -> bool:
    """Tell whether its first line announces the others."""
    first, _, others = block.partition("\n")
    return bool(others) and first.rstrip().endswith(_COLONS)


def _join_lines(
    lines: Iterable[str], languages: Sequence[Language], *, keep_headings: bool = True
) -> Iterator[str]:
    """Lines, but a sentence over several as one block, and a heading with what it announces."""
    block, is_heading, is_code, gap = "", False, False, False
    for line in lines:
        if line.lstrip().startswith("```"):
            is_code = not is_code
        if is_heading and not line.strip():
            gap = True
            continue
        is_item = bool(_LIST_ITEM.match(line))
        joins = (is_item or not gap) if is_heading else not is_item and _goes_on(block, line, languages)
        if block and joins and not is_code:
            block += "\n" + line
            continue
        if block:
            yield block
        block, gap = line, False
        is_heading = keep_headings and not is_code and line.rstrip().endswith(_COLONS)
    if block:
        yield block


def _join_restrictions(block: str, languages: Sequence[Language]) -> Iterator[str]:
    """Sentences, but one that the sentence before it rules over, or that restricts it, together with that."""
    joined, is_ruled = "", False
    for start, end in sentence_spans(block.replace("\n", " "), languages):
        sentence = block[start:end]
        if joined and (is_ruled or _LIST_ITEM.match(sentence) or _leans_back(sentence, languages)):
            joined += sentence
            continue
        if joined:
            yield joined
        joined = sentence
        heading, colon, _ = sentence.partition(": ")
        is_ruled = bool(colon) and len(heading) < MAX_LINE_LENGTH and is_binding(heading, languages)
    if joined:
        yield joined


def _leans_back(sentence: str, languages: Sequence[Language]) -> bool:
    """Tell whether a sentence limits the one before it: "But only if ...", "No lo compartas.", "Don't."."""
    words = split_words(sentence[:200])
    if "restriction" in find_meanings(words, languages, most=1):
        return True
    if len(words) > MAX_BACKWARD_WORDS or identifiers(sentence):
        return False
    meanings = find_meanings(words, languages)
    if BINDING.isdisjoint(meanings):
        return False
    return "backward" in meanings or all(
        any(word in one.words["function"] or word in one.phrases["cues"].meanings for one in languages)
        for word in words.folded
    )


# -- clauses ------------------------------------------------------------------------------------------


def split_clauses(sentence: str, languages: Sequence[Language] = ()) -> list[str]:
    """Clauses that make up the sentence when they are put together again.

    A clause that begins with a denial, a condition or a pronoun stays with the one before it. A sentence that
    begins with a condition is one clause: the condition may rule over all of it.
    """
    if sentence.lstrip().startswith(("{", "[")):
        return list(_split_at(sentence, (match.end() for match in _ARGUMENT_END.finditer(sentence))))
    languages = languages or text_languages(sentence)
    words = split_words(sentence)
    if "condition" in find_meanings(words, languages, most=1):
        return [sentence]
    ends = {match.end() for match in _CLAUSE_END.finditer(sentence)}
    for at in {at for language in languages for at in language.phrases["cues"].starts(words.folded)}:
        if not at or words.start(at) - words.end(at - 1) != 1:
            continue
        some = find_meanings(words, languages, first=at, most=1)
        if "clause_start" in some or ("conjunction" in some and words.folded[at - 1] == ","):
            ends.add(words.start(at))
    made: list[str] = []
    for clause in _split_at(sentence, sorted(ends)):
        is_short = bool(made) and min(len(clause.strip()), len(made[-1].strip())) < MIN_CLAUSE_LENGTH
        if made and (is_short or _belongs_before(clause, languages)):
            made[-1] += clause
        else:
            made.append(clause)
    return made


def _belongs_before(clause: str, languages: Sequence[Language]) -> bool:
    head = find_meanings(split_words(clause[:80]), languages, most=CLAUSE_HEAD)
    return not head.isdisjoint(BINDING | {"restriction", "backward"})


def _split_at(text: str, ends: Iterable[int]) -> Iterator[str]:
    start = 0
    for end in ends:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]
