"""Decides whether a summary may replace its source.

A summary replaces messages, so a broken one loses history: it is refused, for one of the reasons below. One
that is merely poor is kept if asking once more gives no better one, because a model that is plain but honest
has none. Sentences that name something which is not in the source, or deny a fact, are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.compaction.reply_text import (
    HEAD,
    LINE_MARKS,
    SCRIPT_LETTERS,
    SPEAKER_PATTERN,
    TAG_PATTERN,
    bare_line,
    clean_reply,
    count_letters,
    covered_names,
    drop_sentences,
    drop_unknown,
    find_cues,
    has_finished_sentence,
    has_words_in,
    missing_names,
    plain_text,
    repeated_share,
    shingles,
    split_text,
    strip_fence,
    strip_reply,
    text_words,
    trim_to_cap,
    wrapper_languages,
)
from autonomy_ctx.formats.any_reply import CUT_OFF_REASONS, REFUSAL_REASONS, has_calls
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.name_index import NameIndex, key_names_of, unknown_names
from autonomy_ctx.language.sentences import QUESTION_MARKS, text_languages
from autonomy_ctx.language.tables import Language
from autonomy_ctx.language.words import is_unspaced, split_words

# -- sentences that say the opposite of a fact, by the words of the `[reply]` table of their language --------


RULE_SHARE = 0.6  # of the words of a rule, those of a clause about it
MAX_SPACES = 3  # in a name, such as a date
STEM = 4  # letters by which words are compared
# What these say is no subject.
_OPERATORS = frozenset(("denial", "ban", "lack", "lifting", "upper", "lower", "earlier", "later", "duty"))
_OPERATORS |= {"permission", "undecided", "neutral", "frame", "error", "record_noun"}
_ARABIC_PREFIXES = "التينمبلوف"
_CLAUSE_END = lazy_pattern(r"[,;，；、،]\s?|\s[\u2013\u2014-]\s")  # noqa: RUF001


class Claim(NamedTuple):
    """A text as it is compared: the beginnings of its words, and the meanings of its phrases."""

    stems: frozenset[str]
    meanings: frozenset[str]
    names: Sequence[str]
    # The text is read when a name is looked for.
    known: NameIndex
    # The stems before its first bound in time ("before", "after").
    first: frozenset[str]
    # The beginnings of the stems, by which two claims may be alike.
    heads: frozenset[str]

    @property
    def is_negative(self) -> bool:
        """Tell whether it denies: `not`, `forbidden` and `without` each turn what the others say."""
        return ("denial" in self.meanings) ^ ("ban" in self.meanings) ^ ("lack" in self.meanings)

    @property
    def bound(self) -> int:
        """Below 0 for a bound from above or before, above 0 for the others; a denial turns it."""
        bound = bool(self.meanings & {"lower", "later"}) - bool(self.meanings & {"upper", "earlier"})
        return -bound if self.is_negative else bound

    def align(self, rule: Claim) -> Claim:
        """The statement with the stems of a rule where its own only begin alike: "aski" and "ask"."""
        known = {one[:3]: one for one in rule.stems if len(one) == 3 or one[:3] in self.stems}
        return self._replace(
            stems=frozenset(known.get(one[:3], one) for one in self.stems),
            first=frozenset(known.get(one[:3], one) for one in self.first),
        )

    def is_about(self, rule: Claim) -> bool:
        """Tell whether it has most of the words of a rule, and all its identifiers."""
        shared = len(self.stems & rule.stems)
        return 0 < shared >= RULE_SHARE * len(rule.stems) and all(map(self.known.has, rule.names))


def read_claim(text: str, languages: Sequence[Language]) -> Claim:
    """A text as it is compared with others, read line by line."""
    stems: list[str] = []
    # What is quoted is no name, but words.
    names = [name for name in identifiers(text) if name.count(" ") < MAX_SPACES]
    meanings = set[str]()
    first: int | None = None
    plain = text
    for name in names:
        plain = plain.replace(name, " " * len(name))
    for line in plain.splitlines():
        pause()
        words = split_words(line)
        said: list[str] = list(words.folded)
        for match in (one for language in languages for one in language.phrases["reply"].find(words)):
            meanings.update(match.meanings)
            if not _OPERATORS.isdisjoint(match.meanings):
                said[match.first : match.last + 1] = [""] * (match.last + 1 - match.first)
            if first is None and ("earlier" in match.meanings or "later" in match.meanings):
                first = len(stems) + len(_stems(said[: match.first], languages))
        stems += _stems(said, languages)
    bound, heads = frozenset(stems[: first or 0]), frozenset(one[:3] for one in stems)
    return Claim(frozenset(stems), frozenset(meanings), names, NameIndex(more=(text,)), bound, heads)


def deny_facts(
    text: str, source: str, facts: Sequence[str], languages: Sequence[Language]
) -> dict[str, list[str]]:
    """The facts that a text denies, each with these sentences, unless users took them back."""
    denied = find_denied(split_text(text), facts, languages) if facts else {}
    if not denied:
        return {}
    turns = [block for block in source.split("\n\n") if block.startswith("User")] or [source]
    said = _statements(split_text("\n".join(SPEAKER_PATTERN.sub("", turn) for turn in turns)))
    claims: dict[str, list[Claim]] = {}
    for fact in list(denied):
        rules = _clauses(fact, languages)
        # What was said last about the fact counts; before it nothing is read.
        for sentence in reversed(said):
            claims[sentence] = claims.get(sentence) or _clauses(sentence, languages)
            if (is_taken_back := is_denied(rules, claims[sentence])) is not None:
                if is_taken_back:
                    del denied[fact]
                break
    return denied


def find_denied(
    sentences: Iterable[str], facts: Iterable[str], languages: Sequence[Language]
) -> dict[str, list[str]]:
    """The facts of which a sentence says the opposite, each with these sentences."""
    told = [(one, _clauses(one, languages)) for one in _statements(sentences)]
    stems = frozenset().union(*(clauses[0].stems for _, clauses in told))
    denied: dict[str, list[str]] = {}
    for fact in facts:
        pause()
        # Hardly any is about what the sentences say: most are not read closely.
        if stems.isdisjoint(_stems(split_words(fact).folded, languages)):
            continue
        rules = _clauses(fact, languages)
        if found := [sentence for sentence, clauses in told if is_denied(rules, clauses)]:
            denied[fact] = found
    return denied


def is_denied(rules: Sequence[Claim], clauses: Sequence[Claim]) -> bool | None:
    """Tell whether clauses deny a rule, given whole and in parts; None if they are not about it."""
    found: bool | None = None
    for rule in rules:
        near = (clause.align(rule) for clause in clauses if not clause.heads.isdisjoint(rule.heads))
        about = [one for one in near if one.is_about(rule)]
        if about:
            # That has most of its words, and fewest of others.
            clause = min(about, key=lambda one: (len(rule.stems - one.stems), len(one.stems - rule.stems)))
            if is_opposite(clause, rule):
                return True
            found = False if rule is rules[0] else found
    return found


def is_opposite(clause: Claim, rule: Claim) -> bool:
    """Tell whether a clause about a rule says the opposite: lifts it, denies it, or turns its bound."""
    if "lifting" in clause.meanings or "undecided" in clause.meanings:
        return "lifting" in clause.meanings - rule.meanings
    if rule.bound and clause.bound:
        # "Ask before you delete" is "delete after you asked".
        is_swapped = bool(clause.first & rule.stems - rule.first) and bool(
            rule.first & clause.stems - clause.first
        )
        return (clause.bound != rule.bound) ^ is_swapped
    if rule.bound:
        return "lack" in clause.meanings - rule.meanings and clause.is_negative
    # Another word in place of one of the rule ("keep it", "it is not changed") may turn it as well.
    is_same = rule.stems <= clause.stems or clause.stems <= rule.stems
    is_allowed = "permission" in clause.meanings and rule.is_negative
    return (is_same or is_allowed) and clause.is_negative != rule.is_negative


def _statements(sentences: Iterable[str]) -> list[str]:
    """Sentences that are no questions."""
    return [one for one in sentences if not one.rstrip().endswith(QUESTION_MARKS)]


def _clauses(text: str, languages: Sequence[Language]) -> list[Claim]:
    """The whole text as a statement, and each of its clauses."""
    text = text.replace("\n", " ")
    cuts = [start for start, _, meanings in find_cues(text, languages) if "contrast" in meanings]
    cuts = sorted({0, *cuts, *(found.end() for found in _CLAUSE_END.finditer(text)), len(text)})
    parts = (text[start:end] for start, end in pairwise(cuts))
    return [read_claim(part, languages) for part in dict.fromkeys((text, *parts))]


def _stems(words: Sequence[str], languages: Sequence[Language]) -> list[str]:
    """The beginnings of the words that say something, in order."""
    stems: list[str] = []
    for language in languages:
        words = [word for word in words if word not in language.words["function"]]
    for word in words:
        if "\u0620" <= word <= "\u06ff":
            bare = word.lstrip(_ARABIC_PREFIXES)
            stems.append(bare[:3] if len(bare) > 2 else word[-3:])
        elif not is_unspaced(word):
            stems += [word[:STEM]] if len(word) > 2 and not word.isdecimal() else []
        # Hiragana only bends words.
        elif not "\u3040" <= word <= "\u309f":
            stems.append(word)
    return stems


# -- the checks ----------------------------------------------------------------------------------------------


SMALLEST = 256  # tokens that a text may have whatever its source has
LONGEST_TOKEN = 16  # characters, on average over a text
SHORT_WORDS = 40  # an error or a refusal in passing is shorter
ERROR_WORDS = 5  # the first of a line; one of them names the error
KNOWN_SHARE = 0.5  # of the words of a text about its source, those that the source has
SHINGLE, ECHO_SHARE, ECHO_LENGTH, ECHO_TOKENS = 8, 0.6, 0.6, 100
ECHO_TURNS, TURNS_SHARE, TURN_HEAD = 4, 0.3, 24  # written turn by turn, less is an echo
LOOP_WORDS, LOOP_SHARE, LOOP_AGAINST_SOURCE = 24, 0.5, 1.3
PROMPT_WORDS = 6  # of a sentence that only instructions have
SCRIPT_SHARE = 0.6  # of a text, in scripts that its source does not have
FEW_WORDS, RICH_SOURCE = 12, 24  # in a source: one word may be a record of few; many tell a subject
SHARED_WORDS, PLAIN_WORDS = 2, 5  # with its source, of a text about it, and of a record without names
FAIR_COVERAGE = 0.3  # of the key identifiers: no refusal and no error has so much of its source
LEAST_IDENTIFIERS, LEAST_COVERAGE = 4, 0.1  # a text with less of them is asked for again
DROPPED_SHARE = 0.25  # so is one that loses more than this by its unknown identifiers
CAP_TOLERANCE = 16  # a text this little over its cap is not worth a second call
MOST_NAMES = 12
TOO_LONG, CUT_OFF = "too long", "cut off"
LONGER, RULE_TURNED = "longer than its source", "rule turned into its opposite"
RULE_REPAIR = "It says the opposite of what holds; keep every rule as it is."
SCRIPT_REPAIR = "It is not in the language of the conversation; write in that language."
SUBJECT_REPAIR = "It does not say what the conversation says; write a record of it."

_TOOL_START = lazy_pattern(
    r"(?i)<[|\uff5c]?/?(?:[a-z]+:)?(?:tool|function|invoke|python_tag|call)|\[TOOL_|```tool|to=functions\."
    r"|(?:thought:[^\n]*+\n++)?action: ?[\w.-]++[^\S\n]*+\n\s*+action input:"
    r"|[a-z_][\w.]*+\((?:[^()=\n]*+=)?[\"'{\[][^\n]*\)\Z"
)
_CALL_KEYS = frozenset(("arguments", "parameters", "input", "args", "action_input", "tool_input"))
# Not in a list: a record may quote who said what.
_TURN_LINE = lazy_pattern(r"(?i)(?:\A|\n)[\s*>\[(]{0,4}(?:user|assistant|human|tool|ai)\b[^:\]\n]{0,80}[:\]]")
_PAGE = lazy_pattern(r"(?i)\A<(?:!doctype|html|head|body|\?xml)\b|(?:<(?:title|center|h1|hr)\b.{0,400}){3}")
_STATUS = lazy_pattern(r"(?<![\w.,-])[45]\d\d(?![\w.,-]\d)\b")
_QUOTATION = lazy_pattern(
    '"[^"\n]{0,300}"|\u201c[^\u201c\u201d\n]{0,300}\u201d|\u201e[^\u201e\u201c\n]{0,300}\u201c'
    "|「[^「」\n]{0,300}」|«[^«»\n]{0,300}»"
)
_CODE = lazy_pattern(r"(?<![!-~])[!-~]*?[\d_/\\@=][!-~]*+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The cleaned text, what is wrong with it, and the question that may repair it.

    A broken reply has a problem and no text. The text of a poor one may be kept if there is no better one,
    cut at a sentence if it is too long or was cut off.
    """

    text: str
    problem: str | None
    repair: str | None
    coverage: float

    @property
    def fit(self) -> bool:
        """Tell whether nothing is wrong."""
        return self.problem is None

    def fit_to(self, cap: int, count: Callable[[str], int]) -> str:
        """The text in at most about `cap` tokens; what is too long or unfinished is cut at a sentence."""
        return trim_to_cap(self.text, cap, count) if self.problem in (TOO_LONG, CUT_OFF) else self.text


def better(first: Verdict, second: Verdict) -> Verdict:
    """Which of an answer and its repair to keep; a poor one is better than a broken one."""

    def worth(verdict: Verdict) -> tuple[bool, bool, float]:
        return verdict.fit, bool(verdict.text), verdict.coverage

    return second if worth(second) > worth(first) else first


@dataclass(frozen=True)
class Comparison:
    """A reply without what stands around it, beside the text that it should stand for and its prompt."""

    text: str
    source: str
    asked: str
    # Its share of the key identifiers.
    covered: float

    @cached_property
    def languages(self) -> Sequence[Language]:
        """The languages of the reply and of its source."""
        found = {one.code: one for text in (self.text, self.source) for one in text_languages(text)}
        return list(found.values())

    @cached_property
    def known(self) -> frozenset[str]:
        """The stems of the source."""
        return read_claim(self.source, self.languages).stems

    @cached_property
    def folded(self) -> str:
        return plain_text(self.source)

    @cached_property
    def body(self) -> str:
        """The lines of the reply that are not headings of the prompt."""
        asked = list(map(bare_line, self.asked.splitlines()))
        lines = [(line, bare_line(line)) for line in self.text.splitlines()]
        own = [line for line, bare in lines if not bare or not any(one.startswith(bare) for one in asked)]
        return "\n".join(own)


def is_tool_protocol(text: str) -> bool:
    """Tell whether a text is a call of a tool."""
    bare = strip_fence(text.strip()).strip()
    data = _parse(bare)
    is_call = any(map(_is_call, data if isinstance(data, list) else [data]))
    return is_call or any(_TOOL_START.match(one) for one in (text.strip(), bare))


def is_echo(reply: str, text: str, tokens: int, source: str, source_tokens: int) -> bool:
    """Tell whether a long text repeats its source word by word; written as turns, also a shorter one."""
    share, least = ECHO_SHARE, max(ECHO_TOKENS, ECHO_LENGTH * source_tokens)
    plain, turns = plain_text(reply), [one for one in source.split("\n\n") if SPEAKER_PATTERN.match(one)]
    begun = sum(plain_text(SPEAKER_PATTERN.sub("", turn))[:TURN_HEAD] in plain for turn in turns)
    if len(_TURN_LINE.findall(reply)) >= ECHO_TURNS:
        share, least = TURNS_SHARE, 0
    elif begun >= max(ECHO_TURNS, len(turns) / 2):
        share, least = TURNS_SHARE, ECHO_LENGTH * source_tokens
    if tokens <= least:
        return False
    said, known = shingles(text_words(text), SHINGLE), set(shingles(text_words(source), SHINGLE))
    return bool(said) and sum(one in known for one in said) >= share * len(said)


def is_error(one: Comparison) -> bool:
    """Tell whether a text is a page or a line that a server wrote in place of an answer."""
    if _PAGE.search(one.text[:2000]) or one.covered >= FAIR_COVERAGE:
        return one.covered < FAIR_COVERAGE
    is_data = isinstance(_parse(one.text), dict | list)
    line = one.text[:2000].replace("_", " ") if is_data else one.text[:HEAD].partition("\n")[0]
    cues = [cue for cue in find_cues(line, wrapper_languages(line)) if "error" in cue.meanings]
    if not cues or (not is_data and len(text_words(one.text[:2000])) > SHORT_WORDS):
        return False
    begins = len(split_words(line[: min(cue.start for cue in cues)])) < ERROR_WORDS
    said = read_claim(one.text, one.languages).stems
    is_own = len(said & one.known) >= KNOWN_SHARE * max(len(said), 1)
    return (begins or bool(_STATUS.search(line)) or is_data) and not is_own


def repeats_prompt(one: Comparison) -> bool:
    """Tell whether a text has only headings of the prompt, or a sentence that only instructions have."""
    if not one.asked or not any(map(str.isalnum, one.body)):
        return bool(one.asked)
    plain = plain_text(one.text)
    told = (plain_text(sentence) for sentence in split_text(one.asked))
    long = (told for told in told if told.endswith(".") and told.count(" ") + 1 >= PROMPT_WORDS)
    return any(sentence in plain and sentence not in one.folded for sentence in long)


def is_refusal(one: Comparison) -> bool:
    """Tell whether the first sentence begins like a refusal, or a short text has one in passing.

    The second sentence counts, too, in a text with little of its source. What the source says word for word
    is quoted, and a sentence about the same as the source tells of somebody who cannot do something.
    """
    short = len(text_words(one.text[:2000])) <= SHORT_WORDS
    languages = wrapper_languages(one.text[:HEAD], one.source)
    said = read_claim(one.text[: 4 * HEAD], languages)
    if short and one.covered < FAIR_COVERAGE and len(said.stems & one.known) < SHARED_WORDS:
        is_question = one.text.endswith(QUESTION_MARKS) and "\n" not in one.text
        if is_question or ("task" in said.meanings and not said.meanings.isdisjoint(("denial", "ban"))):
            return True
    told = split_text(one.text[: 4 * HEAD])[: 2 if one.covered < FAIR_COVERAGE else 1]
    for sentence in told:
        plain = plain_text(_QUOTATION.sub(" ", sentence.lstrip(LINE_MARKS)))
        for cue in find_cues(plain, languages):
            if "refusal" not in cue.meanings or plain[cue.start :].rstrip(".! ") in one.folded:
                continue
            following = " ".join(plain[cue.start : cue.end + 24].split(" ")[:-1])
            is_quoted = len(following) > cue.end - cue.start and following in one.folded
            shared = len(read_claim(plain, one.languages).stems & one.known)
            inside = short and ":" not in plain[: cue.start] and shared < SHARED_WORDS
            if not is_quoted and (cue.start == 0 or inside):
                return True
    return False


def is_loop(one: Comparison) -> bool:
    """Tell whether a text says the same again and again, more than its source does."""
    sentences = [plain for told in split_text(one.text) if (plain := plain_text(told)).count(" ") > 1]
    if len(sentences) > 2 and 2 * len(set(sentences)) <= len(sentences):
        return True
    words = text_words(one.text)
    parts = [part for part in (words, words[len(words) * 3 // 5 :]) if len(part) >= LOOP_WORDS]
    share = max(map(repeated_share, parts), default=0.0)
    return share >= LOOP_SHARE and share >= LOOP_AGAINST_SOURCE * repeated_share(text_words(one.source))


def is_other_script(one: Comparison) -> bool:
    """Tell whether a text is written in a script of which its source has no words in a row."""
    letters, prose = count_letters(_CODE.sub(" ", one.body)), _CODE.sub(" ", one.source)
    known = {script for script in count_letters(prose) if has_words_in(prose, script)}
    total = sum(letters.values())
    unknown = sum(number for script, number in letters.items() if script not in known)
    return bool(known) and total >= SCRIPT_LETTERS and unknown > SCRIPT_SHARE * total


def is_empty(one: Comparison) -> bool:
    """Tell whether a text without headings has nothing, one word, or only placeholders."""
    body, words = one.body, split_words(one.body).folded
    if not any(map(str.isalnum, body)) or identifiers(body) or len(one.known) < FEW_WORDS:
        return not any(map(str.isalnum, body))
    said = read_claim(body, one.languages)
    if "placeholder" in said.meanings:
        return len(said.stems & one.known) < SHARED_WORDS
    is_title = not said.stems and body.rstrip()[-1] not in ".!。！"  # noqa: RUF001
    return is_title or len(words) < (4 if is_unspaced(body.strip()) else 2)


# A reply of which one is true is refused; what to ask for where another try may help.
HARD_REASONS: Sequence[tuple[str, Callable[[Comparison], bool], str | None]] = (
    ("prompt repeated", repeats_prompt, "It repeats the instructions; write the record itself."),
    ("error page", is_error, None),
    ("refusal in words", is_refusal, None),
    ("loop", is_loop, "It repeats itself; say everything once."),
    ("other script", is_other_script, SCRIPT_REPAIR),
    ("empty", is_empty, None),
)


def check_summary(
    reply: ModelReply,
    *,
    source: str,
    source_tokens: int,
    cap: int,
    count: Callable[[str], int],
    secret: str,
    key_names: Sequence[str] | None = None,
    asked: str = "",
    context: Sequence[str] = (),
    standing: Sequence[str] = (),
    rules: Sequence[str] = (),
    facts: str = "",
    script_free: bool = False,
) -> Verdict:
    """Tell whether a reply may stand for its source in at most `cap` tokens; `secret` is that of the prompt.

    `key_names` are the identifiers that matter, all of the source's by default. `asked` is the prompt
    without the source. What `context` names is known though the source does not have it. A sentence that
    denies one of the `standing` facts is left out; a text that turns one of the `rules` among them into its
    opposite is refused. What the reply names in its `facts`, below the record, need not be in the record.
    With `script_free` the text may be in another language than its source.
    """
    answer = strip_reply(reply.text)
    text = clean_reply(answer)
    wanted = key_names_of(source) if key_names is None else key_names
    # Of a text far too long only the head can be kept; searching the rest for every name takes seconds.
    head = text[: LONGEST_TOKEN * max(cap, SMALLEST)]
    covered = covered_names(wanted, f"{head}\n{facts}")

    def refused(problem: str, repair: str | None = None) -> Verdict:
        return Verdict(text="", problem=problem, repair=repair, coverage=covered)

    def kept(problem: str | None = None, repair: str | None = None) -> Verdict:
        return Verdict(text=text, problem=problem, repair=repair, coverage=covered)

    stop = (reply.stop or "").lower()
    if stop in REFUSAL_REASONS:
        return refused("refused by the model")
    if (has_calls(reply) and not text) or any(map(is_tool_protocol, (reply.text, answer, text))):
        return refused("tool protocol")
    tokens = count(text)
    has_secret = bool(secret) and secret.lower() in answer.lower()
    if has_secret or is_echo(reply.text, text, tokens, source, source_tokens):
        return refused("echo")
    if not any(map(str.isalnum, TAG_PATTERN.sub("", head))):
        return refused("empty")
    one = Comparison(head, source, asked, covered if wanted else 0.0)
    for problem, is_broken, repair in HARD_REASONS:
        if not (script_free and is_broken is is_other_script) and is_broken(one):
            return refused(problem, repair)
    longest = max(source_tokens, SMALLEST)
    max_tokens = min(cap + cap // CAP_TOLERANCE, longest - 1)
    shorter = f"write at most {min(cap, max_tokens)} tokens."
    if tokens > longest:
        return refused(LONGER, f"It is too long; {shorter}")
    denied = deny_facts(head, source, standing, one.languages)
    if not denied.keys().isdisjoint(rules):
        return refused(RULE_TURNED, RULE_REPAIR)
    known = NameIndex(source, *context, more=(*wanted, *standing))
    unknown = unknown_names(head, known)
    names = _join_names(missing_names("", unknown), "numbers and dates")
    strange = f"It names what the conversation does not: {names}"
    untrue = {sentence for sentences in denied.values() for sentence in sentences}
    whole = text
    if unknown:
        text = drop_unknown(head, known)
    if untrue:
        text = drop_sentences(text, untrue.__contains__)
    if len(text) < len(whole):
        if is_empty(replace(one, text=text)):
            return refused("empty", strange) if unknown else refused(RULE_TURNED, RULE_REPAIR)
        covered, tokens = covered_names(wanted, f"{text}\n{facts}"), count(text)
    if stop in CUT_OFF_REASONS:
        repair = f"It was cut off; {shorter}"
        return (
            kept(CUT_OFF, repair)
            if has_finished_sentence(replace(one, text=text).body)
            else refused("empty", repair)
        )
    if tokens > max_tokens:
        return kept(TOO_LONG, f"It is too long; {shorter}")
    if unknown and len(text) < (1 - DROPPED_SHARE) * len(whole):
        return kept("unknown identifiers", strange)
    shared = len(read_claim(text, one.languages).stems & one.known)
    if covered >= LEAST_COVERAGE and wanted:
        return kept()
    if not script_free and shared < SHARED_WORDS and len(one.known) >= RICH_SOURCE:
        return kept("another subject", SUBJECT_REPAIR)
    room = min(1.0, cap / 2 / max(count(", ".join(wanted)), 1))
    if len(wanted) >= LEAST_IDENTIFIERS and covered < LEAST_COVERAGE * room and shared < PLAIN_WORDS:
        names = _join_names(missing_names(text, wanted), "most names, numbers and dates")
        return kept("poor coverage", f"It leaves out: {names}")
    return kept()


def _parse(text: str) -> Any:
    try:
        return json.loads(text) if text.startswith(("{", "[")) else None
    except (ValueError, RecursionError):
        return None


def _is_call(data: Any) -> bool:
    keys = set(data) if isinstance(data, dict) else set()
    named = not keys.isdisjoint(("name", "action", "tool", "tool_name")) and not keys.isdisjoint(_CALL_KEYS)
    is_block = bool(keys) and data.get("type") in ("tool_use", "function", "tool_call")
    return named or is_block or not keys.isdisjoint(("tool_calls", "function", "function_call"))


def _join_names(names: Sequence[str], otherwise: str) -> str:
    return f"{', '.join(names[:MOST_NAMES]) or otherwise}."
