"""Signs that a reply is not a summary of a conversation, found without a model.

`strip_reply` removes what models write around a summary. `rejection_reason` names a fault for which a reply
is always rejected. A summary that is only plain has none.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.compaction.reply_cues import ERROR_PHRASES, PLACEHOLDER_WORDS, cues_of
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.language.words import UNSPACED_SCRIPTS, fold_text, is_unspaced
from autonomy_ctx.messages.text_cache import TextCache

# How often what stands around a record is looked for; a reply with more of it is no record.
MOST_ROUNDS = 8
HEAD, SHORT_WORDS, LONG_WORD = 240, 40, 5
LOOP_SHINGLE, LOOP_WORDS, LOOP_SHARE, LOOP_AGAINST_SOURCE = 4, 24, 0.5, 1.3
PROMPT_WORDS = 6
# Of a text, the share in scripts that its source does not have; of a script, the letters to tell.
SCRIPT_SHARE, MIN_LETTERS = 0.6, 16
RICH_SOURCE, FEW_WORDS, SHARED_WORDS = 24, 6, 2
QUOTED_WORDS = 2
DENIAL_SHARE = 0.6

_SPACES = lazy_pattern(r"\s+")
_BLANK_LINES = lazy_pattern(r"\n{3,}")
# A bounded look around each place: runs of marks must not cost more than their length.
_SENTENCE_END = lazy_pattern("(?<=[.!?…؟])[\"')\\]»”’*]{0,3}(?=\\s|\\Z)|[。！？][”」』）]?|\n+|\\Z")  # noqa: RUF001
_SENTENCE_MARK = lazy_pattern("[.!?…؟。！？]")  # noqa: RUF001
_LIST_NUMBER = lazy_pattern(r"\s*[(]?\d{1,4}[.)]\s*")
_LIST_MARK = lazy_pattern(r"\s*+(?:[-*•#>|]{1,6}|[(]?\d{1,3}[.)]|\[[ x]?\])?\s*+")
_THOUGHTS = "think|thinking|thought|thoughts|analysis|reasoning|reflection|scratchpad"
_THOUGHT_START = lazy_pattern(rf"\s*<({_THOUGHTS})>", re.IGNORECASE)
_THOUGHT_END = lazy_pattern(rf"</(?:{_THOUGHTS})>[ \t]{{0,8}}(?:\n|\Z)", re.IGNORECASE)
_FIRST_WORDS = lazy_pattern("[^\n!,.;:。、，！—~<]{1,30}(?:[!,.;:。、，！—~]{1,3}|(?=[\n<])|\\Z)")  # noqa: RUF001
_WRAPPER_START = lazy_pattern(r"<(summary|record|answer|output|response|final)>", re.IGNORECASE)
_TAG = lazy_pattern(r"</?[A-Za-z][^<>\n]{0,120}>")
_PAGE_START = lazy_pattern(r"<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)
_PAGE_TAG = lazy_pattern(r"<(?:html|head|body|title|center|h1|hr)\b", re.IGNORECASE)
_STATUS = lazy_pattern(r"(?:http\S{0,5} |error(?: code)?:? |status:? ){0,2}[45]\d\d\b[ :-]{0,3}[a-z{]")
_ERROR_KEYS = frozenset(
    [
        *("error", "errors", "type", "message", "detail", "details", "code", "status"),
        *("request_id", "statuscode", "title", "param", "timestamp", "path", "success", "ok"),
        *("instance", "object"),
    ]
)
_QUOTATION = lazy_pattern(
    '"[^"\n]{0,300}"|\u201c[^\u201d\n]{0,300}\u201d|\u201e[^\u201c\n]{0,300}\u201c|「[^」\n]{0,300}」|«[^»\n]{0,300}»'
)
_BRACKET_PLACEHOLDER = lazy_pattern(
    r"\{\{[^{}\n]{0,60}\}\}|\[[^\[\]\n]{1,60}\]|<[a-z][a-z _-]{0,40}\d{0,2}>|\{[a-z][a-z _-]{0,40}\}",
    re.IGNORECASE,
)
_WORD = lazy_pattern(rf"[{UNSPACED_SCRIPTS}]|[^\s{UNSPACED_SCRIPTS}]+")
_LETTERS = lazy_pattern(rf"[{UNSPACED_SCRIPTS}]+|[^\W\d_{UNSPACED_SCRIPTS}]+")
_TOOL_BLOCK = lazy_pattern(r"(?:Tool\b[^:\n]{0,80}: |(?:Assistant|User)\b[^:\n]{0,80} calls )")
_SPEAKER = lazy_pattern(r"(?:User|Assistant|System|Developer)(?: \([^()\n]{0,70}\))?: ")
_SAID_BY = lazy_pattern(
    "(?:user|customer|client|nutzer|kunde|utilisateur|usuario|ユーザー|用户|المستخدم)\\S{0,3}\\s?[:\uff1a]"
)
_CLAUSE_END = lazy_pattern(r"[,;:，；、،]\s?|\s(?:but|aber|mais|pero|mas)\s")  # noqa: RUF001
_CODE_CHARACTER = lazy_pattern(r"[\d_/\\@=]")
_SCRIPTS = {
    "han": "\u3005\u3400-\u4dbf\u4e00-\u9fff",
    "kana": "\u3040-\u30ff",
    "hangul": "\uac00-\ud7af\u1100-\u11ff",
    "latin": "A-Za-z\u00c0-\u024f",
    "arabic": "\u0600-\u06ff\u0750-\u077f",
    "cyrillic": "\u0400-\u052f",
    "greek": "\u0370-\u03ff",
    "hebrew": "\u0590-\u05ff",
    "indic": "\u0900-\u0dff",
    "thai": "\u0e00-\u0e7f",
}
# One character of these says as much as two or three letters.
_DENSE = {"han": 2.5, "kana": 2.5, "hangul": 2.0}
_LETTER_OF = {script: lazy_pattern(f"[{letters}]") for script, letters in _SCRIPTS.items()}
# A sentence, or some words of one: names and codes alone are no language. Japanese mixes two scripts.
_RUN_OF = {
    script: lazy_pattern(
        rf"(?:[{letters}][^A-Za-z\n]{{0,6}}){{{int(MIN_LETTERS / _DENSE[script])}}}"
        if script in _DENSE
        else rf"(?:[{letters}][\s,.'\u2019،-]{{0,2}}){{{MIN_LETTERS}}}"
    )
    for script, letters in _SCRIPTS.items()
}
# What every record says, whatever it is about.
_RECORD_WORDS = frozenset(
    [
        *("user", "users", "assistant", "goal", "goals", "rules", "decision", "decisions"),
        *("facts", "identifiers", "artifacts", "questions", "question", "conversation"),
        *("summary", "record", "request", "requested", "asked", "wants", "headings"),
        *("discussed", "answer", "answered", "open", "next", "step", "steps", "done"),
    ]
)


@dataclass(frozen=True)
class SummarySource:
    """The text to summarize and the prompt around it, which a reply is compared with."""

    text: str
    prompt: str = ""

    @cached_property
    def prose(self) -> str:
        """The source without tool calls, results and the names of speakers, if anything is left then."""
        return self._spoken or self.text

    @cached_property
    def _spoken(self) -> str:
        blocks = [one for one in self.text.split("\n\n") if not _TOOL_BLOCK.match(one)]
        return "\n\n".join(_SPEAKER.sub("", one) for one in blocks)

    @cached_property
    def scripts(self) -> frozenset[str]:
        """The scripts in which it has some words in a row, such as a sentence that is quoted."""
        words = _without_codes(self.prose)
        return frozenset(script for script, run in _RUN_OF.items() if run.search(words))

    @cached_property
    def stems(self) -> frozenset[str]:
        return frozenset(_stems(self.text))

    @cached_property
    def spoken_stems(self) -> frozenset[str]:
        """The stems of what people said: what tools list need not be in a record."""
        return frozenset(_stems(self._spoken))

    @cached_property
    def repeated_share(self) -> float:
        return _repeated_share(_WORD.findall(self.text))

    @cached_property
    def folded(self) -> str:
        return _plain(self.text)

    @cached_property
    def asked_lines(self) -> tuple[str, ...]:
        return tuple(filter(None, (_bare_line(line) for line in self.prompt.splitlines())))

    @cached_property
    def asked_sentences(self) -> tuple[str, ...]:
        """The sentences of the prompt that only instructions have: long enough, and not headings."""
        found = (_plain(one) for one in split_sentences(self.prompt))
        return tuple(
            one
            for one in found
            if one.endswith(".") and one.count(" ") + 1 >= PROMPT_WORDS and one not in self.folded
        )


# -- what stands around a record ----------------------------------------------------------------------


def strip_reply(text: str) -> str:
    """A reply without thoughts, fences, preambles and offers around it; stripped again it stays the same."""
    text = text.strip()
    for _ in range(MOST_ROUNDS):
        before = text
        for strip in (
            _without_opening,
            _without_thoughts,
            _without_wrapper,
            _without_preamble,
            _without_fence,
            _without_closing,
        ):
            text = strip(text).strip()
        if text == before:
            return text
    return ""


def _without_opening(text: str) -> str:
    """The text without a first word to somebody, such as `Okay.`; thoughts may follow it."""
    found = _FIRST_WORDS.match(text)
    if found and _plain(found[0]).rstrip("!,.;:。、，！—~ ") in cues_of("opening"):  # noqa: RUF001
        return text[found.end() :]
    return text


def _without_thoughts(text: str) -> str:
    at = 0
    while start := _THOUGHT_START.match(text, at):
        end = (
            text.lower().find(f"</{start[1].lower()}>", start.end()) if len(text.lower()) == len(text) else -1
        )
        if end < 0:
            return ""
        at = end + len(start[1]) + 3
    text = text[at:]
    # Some templates open the thoughts themselves: the reply has only their end.
    if (end_mark := _THOUGHT_END.search(text)) and not _THOUGHT_ANY.search(text[: end_mark.start()]):
        return text[end_mark.end() :]
    return text


_THOUGHT_ANY = lazy_pattern(rf"<(?:{_THOUGHTS})>", re.IGNORECASE)


def _without_wrapper(text: str) -> str:
    start = _WRAPPER_START.match(text)
    if start is None:
        return text
    closing = f"</{start[1]}>"
    return text[start.end() :].removesuffix(closing)


def _without_fence(text: str) -> str:
    if text.startswith("```") and text.endswith("```") and "\n" in text and text.count("```") == 2:
        return text.partition("\n")[2][:-3]
    return text


def _without_preamble(text: str) -> str:
    line = text[:HEAD].partition("\n")[0]
    folded = _plain(line.lstrip("*#>_ "))
    if not folded.startswith(cues_of("preamble")):
        return text
    for end in (":", "\uff1a", ".", "。"):
        head, found, _ = line.partition(end)
        if found and _has_cue(_plain(head), cues_of("noun")):
            return text[len(head) + 1 :].lstrip("*_ ")
    return text[len(line) :] if len(text) > len(line) and _has_cue(folded, cues_of("noun")) else text


def _without_closing(text: str) -> str:
    """The text without a last line that only offers more help."""
    head, _, last = text.rpartition("\n")
    if len(last) <= HEAD and _plain(last.lstrip("*_>- ")).startswith(cues_of("closing")):
        return head
    return text


# -- what may never stand for history -----------------------------------------------------------------


def rejection_reason(
    text: str, source: SummarySource, covered: float, *, script_free: bool = False
) -> str | None:
    """The reason to reject a text, or None; `covered` is its share of the key identifiers."""
    if not any(map(str.isalnum, _TAG.sub("", text))):
        return "empty"
    if _is_error(text, covered):
        return "error page"
    body = _own_lines(text, source)
    if _repeats_prompt(text, body, source):
        return "prompt repeated"
    if _is_refusal(text, covered, source):
        return "refusal in words"
    if _is_loop(text, source):
        return "loop"
    if not script_free and _has_other_script(body, source):
        return "other script"
    if not covered and says_nothing(text, source):
        return "empty"
    return None


def _is_error(text: str, covered: float) -> bool:
    if _PAGE_START.match(text) or len(_PAGE_TAG.findall(text[:2000])) > 2:
        return True
    if text.startswith("{") and _is_error_body(text):
        return True
    first = _plain(text[:HEAD].partition("\n")[0])
    if covered >= 0.3 or len(_WORD.findall(text[:2000])) > SHORT_WORDS:
        return False
    return bool(_STATUS.match(first)) or any(phrase in first[: len(phrase) + 8] for phrase in ERROR_PHRASES)


def _is_error_body(text: str) -> bool:
    try:
        data: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    if not isinstance(data, dict) or not data:
        return False
    keys = {str(key).lower() for key in data}
    return keys <= _ERROR_KEYS and not keys.isdisjoint(("error", "errors", "message", "detail"))


def _own_lines(text: str, source: SummarySource) -> str:
    """The lines of a text that are not headings of the prompt."""
    asked = source.asked_lines
    return "\n".join(
        line
        for line in text.splitlines()
        if not (bare := _bare_line(line)) or not any(one.startswith(bare) for one in asked)
    )


def _repeats_prompt(text: str, body: str, source: SummarySource) -> bool:
    if not source.prompt:
        return False
    if not any(map(str.isalnum, body)):
        return True
    plain = _plain(text)
    return any(one in plain for one in source.asked_sentences)


def _is_refusal(text: str, covered: float, source: SummarySource) -> bool:
    """Tell whether the first sentence begins like a refusal, or one of few words has one.

    The second one counts, too, unless the text has much of its source. What the source says word for word
    is quoted from it, and a sentence about the same as the source tells of somebody who cannot do something.
    """
    short = len(_WORD.findall(text[:2000])) <= SHORT_WORDS
    for number, sentence in enumerate(_first_sentences(text, 2 if covered < 0.3 else 1)):
        plain = _plain(_QUOTATION.sub("", sentence))
        plain = plain[mark.end() :] if (mark := _LIST_MARK.match(plain)) else plain
        if plain.count(" ") > 1 and plain.rstrip(".!") in source.folded:
            continue
        for cue in cues_of("refusal"):
            at = plain.find(cue)
            if at < 0 or not _is_word(plain, at, at + len(cue)) or _is_quoted(plain[at:], cue, source):
                continue
            inside = number == 0 and short and not _SAID_BY.search(plain[:at])
            if at == 0 or (inside and _shared_words(plain, source) < SHARED_WORDS):
                return True
    return False


def _is_quoted(plain: str, cue: str, source: SummarySource) -> bool:
    """Tell whether the source has these words, too: the cue and what follows it."""
    following = plain[len(cue) :].split(" ", QUOTED_WORDS + 1)[: QUOTED_WORDS + 1]
    return len(following) > QUOTED_WORDS and cue + " ".join(following) in source.folded


def _is_loop(text: str, source: SummarySource) -> bool:
    sentences = [_plain(one) for one in split_sentences(text)]
    sentences = [one for one in sentences if one.count(" ") > 1]
    if len(sentences) > 2 and 2 * len(set(sentences)) <= len(sentences):
        return True
    words = _WORD.findall(text)
    for part in (words, words[len(words) * 3 // 5 :]):
        share = _repeated_share(part) if len(part) >= LOOP_WORDS else 0.0
        if share >= LOOP_SHARE and share >= LOOP_AGAINST_SOURCE * source.repeated_share:
            return True
    return False


def _repeated_share(words: Sequence[str]) -> float:
    """The share of a text that says what is said three times or more."""
    shingles = Counter(zip(*(words[at:] for at in range(LOOP_SHINGLE)), strict=False))
    repeated = sum(times for times in shingles.values() if times > 2)
    return repeated / max(shingles.total(), 1)


def _has_other_script(text: str, source: SummarySource) -> bool:
    """Tell whether a text is written in a script that its source does not have."""
    words = _without_codes(text)
    found = {
        script: len(letter.findall(words)) * _DENSE.get(script, 1.0) for script, letter in _LETTER_OF.items()
    }
    total = sum(found.values())
    if total < MIN_LETTERS or not source.scripts:
        return False
    return sum(found[script] for script in found.keys() - source.scripts) > SCRIPT_SHARE * total


def _without_codes(text: str) -> str:
    """The text without names, paths and codes, which are in no script."""
    return " ".join(word for word in text.split() if not word.isascii() or not _CODE_CHARACTER.search(word))


def says_nothing(text: str, source: SummarySource) -> bool:
    """Tell whether nothing, or one word, is left of a text without headings and placeholders.

    Of a source with hardly a word, one word may be enough.
    """
    body = _own_lines(text, source)
    for one in _BRACKET_PLACEHOLDER.findall(body):
        if _is_placeholder(one, source):
            body = body.replace(one, " ")
    body = "\n".join(line for line in body.splitlines() if not line.rstrip(" *_").endswith((":", "\uff1a")))
    if not any(map(str.isalnum, body)):
        return True
    if len(source.spoken_stems) < FEW_WORDS or identifiers(body):
        return False
    words = _LETTERS.findall(body)
    is_title = not _SENTENCE_MARK.search(body) and not _stems(body, least=3)
    return is_title or (len(words) < 2 and not (is_unspaced(body) and len(words[0]) > 3))


def _is_placeholder(found: str, source: SummarySource) -> bool:
    inside = _plain(found.strip("{}[]<>"))
    if not inside or _plain(found) in source.folded:
        return False
    return found.startswith("{{") or inside.startswith(PLACEHOLDER_WORDS)


def is_other_subject(text: str, source: SummarySource) -> bool:
    """Tell whether a text says almost nothing that a source with enough to say has, too."""
    if len(source.spoken_stems) < RICH_SOURCE:
        return False
    body = _own_lines(text, source)
    shared = _shared_words(body, source)
    return shared < SHARED_WORDS and 2 * shared < max(len(set(_stems(body))), 1)


def _shared_words(text: str, source: SummarySource) -> int:
    """Count the words of a text that its source has too."""
    return len(set(_stems(text)) & source.stems)


# -- sentences ----------------------------------------------------------------------------------------


def has_whole_sentence(text: str) -> bool:
    """Tell whether at least one sentence or item of a list is complete."""
    told = (_LETTERS.findall(text[start:end]) for start, end in sentence_spans(text))
    return any(len(words) > 2 or any(is_unspaced(one) and len(one) > 3 for one in words) for words in told)


def sentence_ends(text: str) -> list[int]:
    """Where sentences and lines end; the end of the text only if a sentence ends there, or nowhere else."""
    ends: list[int] = []
    for found in _SENTENCE_END.finditer(text):
        start = ends[-1] if ends else 0
        if found.end() == start or _LIST_NUMBER.fullmatch(text, start, found.end()):
            continue
        if found.end() < len(text) or found[0] or text[-1] in ".!?…؟" or not ends:
            ends.append(found.end())
    return ends


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each sentence or line goes; together they are the whole text."""
    start = 0
    for end in sentence_ends(text):
        yield start, end
        start = end
    if start < len(text):
        yield start, len(text)


def split_sentences(text: str) -> list[str]:
    """The sentences and lines of a text, without the blank ones."""
    return [one for start, end in sentence_spans(text) if (one := text[start:end].strip())]


def drop_sentences(text: str, unwanted: Callable[[int, int], bool]) -> str:
    """The text without the sentences that are not wanted; lines of which nothing is left go, too."""
    kept: list[str] = []
    changed = False
    for start, end in sentence_spans(text):
        if text[start:end].strip() and unwanted(start, end):
            changed = True
            # The item of a list goes on with its next sentence, and the line ends as before.
            mark = _LIST_MARK.match(text, start, end) if start == 0 or text[start - 1] == "\n" else None
            kept.append(mark[0].rstrip() if mark else "")
            kept.append("\n" if text[start:end].endswith("\n") else "")
        else:
            kept.append(text[start:end])
    if not changed:
        return text
    lines = _BLANK_LINES.sub("\n\n", "".join(kept)).split("\n")
    return "\n".join(
        line.rstrip() for line in lines if not line.strip() or not _LIST_MARK.fullmatch(line)
    ).strip()


def _first_sentences(text: str, number: int) -> list[str]:
    return split_sentences(text[: 4 * HEAD])[:number]


# -- what contradicts what holds ----------------------------------------------------------------------


class _Rule(NamedTuple):
    """A text that holds, as sentences are compared with it."""

    plain: str
    stems: tuple[str, ...]
    names: tuple[str, ...]


# A long conversation has thousands of facts, and each summary is compared with all of them.
_rules: TextCache[_Rule] = TextCache(16_384)


def _read_rule(text: str) -> _Rule:
    plain = _plain(text)
    return _Rule(
        plain,
        tuple(dict.fromkeys(_subject_stems(plain))),
        tuple({fold_text(name) for name in identifiers(plain)}),
    )


class _Sentence:
    """A sentence of a summary. Many rules are about the same as it is, so it is read once for all."""

    def __init__(self, text: str) -> None:
        self.plain = _plain(text)
        self.stems = frozenset(_subject_stems(self.plain))

    @cached_property
    def clauses(self) -> list[tuple[str, frozenset[str]]]:
        """Its clauses, each with its stems."""
        clauses = filter(None, _CLAUSE_END.split(self.plain))
        return [(clause, frozenset(_subject_stems(clause))) for clause in clauses]

    @cached_property
    def is_denial(self) -> bool:
        return _is_denial(self.plain)

    @cached_property
    def is_lifting(self) -> bool:
        return _has_cue(self.plain, cues_of("lifting"))


def contradicts(sentence: str, standing: Iterable[str]) -> bool:
    """Tell whether a sentence says the opposite of a text that holds."""
    return bool(find_denied([sentence], standing))


def find_denied(sentences: Iterable[str], standing: Iterable[str]) -> list[str]:
    """The texts that hold and of which a sentence says the opposite."""
    told = [_Sentence(text) for text in sentences]
    stems = frozenset().union(*(sentence.stems for sentence in told))
    whole = "\n".join(sentence.plain for sentence in told)
    denied: list[str] = []
    for text in standing:
        pause()
        rule = _rules.get_or_make(text, partial(_read_rule, text))
        # Hardly any is about what the sentences say: no more is looked at then.
        if not _is_about(stems, rule) or any(name not in whole for name in rule.names):
            continue
        if any(_is_about(sentence.stems, rule) and _denies(sentence, rule) for sentence in told):
            denied.append(text)
    return denied


def turns_rule(text: str, rules: Iterable[str]) -> bool:
    """Tell whether a clause of a text says the opposite of a rule and nothing else."""
    told = [_Sentence(one) for one in split_sentences(text)]
    for rule in (_rules.get_or_make(one, partial(_read_rule, one)) for one in rules):
        for sentence in told:
            alone = any(
                _is_about(stems, rule) and stems.issubset(rule.stems) for _, stems in sentence.clauses
            )
            if alone and _denies(sentence, rule):
                return True
    return False


def _is_about(stems: Set[str], rule: _Rule) -> bool:
    return bool(rule.stems) and sum(map(stems.__contains__, rule.stems)) >= DENIAL_SHARE * len(rule.stems)


def _denies(sentence: _Sentence, rule: _Rule) -> bool:
    """Tell whether a sentence that is about a rule says the opposite."""
    if any(name not in sentence.plain for name in rule.names):
        return False
    if sentence.is_lifting and not _has_cue(rule.plain, cues_of("lifting")):
        return True
    is_denial = _is_denial(rule.plain)
    if sentence.is_denial == is_denial:
        return False
    about = [
        clause
        for clause, stems in sentence.clauses
        if all(name in clause for name in rule.names) and _is_about(stems, rule)
    ]
    return bool(about) and _is_denial(min(about, key=len)) != is_denial


def _is_denial(plain: str) -> bool:
    words = plain.replace(",", " ").replace(".", " ").split()
    spaced, unspaced = _denials()
    return not spaced.isdisjoint(words) or any(word in plain for word in unspaced)


@cache
def _denials() -> tuple[frozenset[str], tuple[str, ...]]:
    """The words that deny something, and those of them that need no space around them."""
    words = cues_of("denial")
    return frozenset(words), tuple(filter(is_unspaced, words))


def _subject_stems(plain: str) -> list[str]:
    words, _ = _denials()
    return [stem for stem in _stems(plain, least=3) if stem not in words and stem not in _MUST_STEMS]


_MUST_STEMS = frozenset(("must", "shoul", "alway", "pleas", "user", "rule", "only", "have", "need"))


# -- words --------------------------------------------------------------------------------------------


def _stems(text: str, least: int = LONG_WORD) -> list[str]:
    """The words that say what a text is about, by how they begin; without spaces pairs of characters."""
    found: list[str] = []
    stops = stop_words()
    for line in fold_text(text).splitlines():
        pause()
        for run in _LETTERS.findall(line):
            if not run.isascii() and is_unspaced(run):
                found += [run[at : at + 2] for at in range(len(run) - 1)]
            elif len(run) >= least and run not in stops and run not in _RECORD_WORDS:
                found.append(run[:LONG_WORD])
    return found


def _plain(text: str) -> str:
    """A text to look for cues in: folded, with plain apostrophes and single spaces."""
    return _SPACES.sub(" ", fold_text(text).replace("\u2019", "'").replace("\u2018", "'")).strip()


def _bare_line(line: str) -> str:
    return _plain(line).strip("*#>_-• :")


def _has_cue(plain: str, cues: Iterable[str]) -> bool:
    return any(cue in plain for cue in cues)


def _is_word(plain: str, start: int, end: int) -> bool:
    """Tell whether a cue stands by itself, not inside a longer word; some scripts have no such thing."""
    if not plain[start].isascii():
        return True
    before, after = plain[start - 1 : start], plain[end : end + 1]
    return not (before.isalnum() or (after.isalnum() and plain[end - 1].isalnum()))
