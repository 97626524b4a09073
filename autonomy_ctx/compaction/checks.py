"""Decides whether a summary may replace its source.

A summary replaces messages, so a broken one loses history: it is refused. One that is merely poor is kept
if asking once more gives no better one, because a model that is plain but honest has none. Sentences that
name something which is not in the source, or that deny a fact which holds, are left out.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.compaction.reply_text import (
    SummarySource,
    contradicts,
    drop_sentences,
    find_denied,
    has_whole_sentence,
    is_other_subject,
    rejection_reason,
    says_nothing,
    sentence_ends,
    split_sentences,
    strip_reply,
    turns_rule,
)
from autonomy_ctx.formats.any_reply import CUT_OFF_REASONS, REFUSAL_REASONS, has_calls
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.language.name_index import NameIndex, key_names_of, unknown_names
from autonomy_ctx.messages.transcript import MARK_PATTERN, neutralize_marks

TOOL_STARTS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "<invoke ", "<function_calls>")
SMALLEST = 256
LONGEST_TOKEN = 16  # characters, on average over a text
SHINGLE = 8
ECHO_SHARE, ECHO_LENGTH, ECHO_TOKENS = 0.6, 0.6, 100
ECHO_TURNS, TURNS_SHARE = 4, 0.3
# A text with less of the key identifiers is asked for again.
LEAST_IDENTIFIERS, LEAST_COVERAGE = 4, 0.1
# One that loses more than this by its unknown identifiers, too.
DROPPED_SHARE = 0.25
# A text this little over its cap is not worth a second call.
CAP_TOLERANCE = 16
MOST_NAMES = 12
SHORTENED_MARK = " [shortened]"
TOO_LONG, CUT_OFF = "too long", "cut off"
LONGER, RULE_TURNED = "longer than its source", "rule turned into its opposite"
ALSO_NAMED = "Also named: "
MIN_LINE_TOKENS = 48

# One "word" per character in scripts that put no spaces between words.
_WORD = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff]|[^\\s\u3040-\u30ff\u3400-\u9fff]+")
_ONE_WORD = lazy_pattern(r"[^\s<>]{1,80}")
_TURN = lazy_pattern(r"\s*(?:(?:Human|Assistant):\s*)+")
_TURN_LINE = lazy_pattern(r"(?:\A|\n)(?:User|Assistant|Human|Tool)\b[^:\n]{0,80}:")
_WORD_END = lazy_pattern(r"(?<=\S)(?=\s|\Z)")

# What to ask for where a text is no record at all but another try may give one.
_REPAIRS = {
    "prompt repeated": "It repeats the instructions; write the record itself.",
    "loop": "It repeats itself; say everything once.",
    "other script": "It is not in the language of the conversation; write in that language.",
}
RULE_REPAIR = "It says the opposite of what holds; keep every rule as it is."
SUBJECT_REPAIR = "It does not say what the conversation says; write a record of it."


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
    text = _clean(answer)
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
    if (has_calls(reply) and not text) or any(map(_is_tool_protocol, (reply.text, answer, text))):
        return refused("tool protocol")
    tokens = count(text)
    if (secret and secret.lower() in answer.lower()) or _echoes(
        reply.text, text, tokens, source, source_tokens
    ):
        return refused("echo")
    compared = SummarySource(source, asked)
    # Without names to look for, the words have to tell.
    if fault := rejection_reason(head, compared, covered if wanted else 0.0, script_free=script_free):
        return refused(fault, _REPAIRS.get(fault))
    longest = max(source_tokens, SMALLEST)
    max_tokens = min(cap + cap // CAP_TOLERANCE, longest - 1)
    shorter = f"write at most {min(cap, max_tokens)} tokens."
    if tokens > longest:
        return refused(LONGER, f"It is too long; {shorter}")
    known = NameIndex(source, *context, *wanted, more=standing)
    unknown = unknown_names(head, known)
    denied = _denied_facts(head, standing, source)
    if turns_rule(head, [rule for rule in denied if rule in rules]):
        return refused(RULE_TURNED, RULE_REPAIR)
    whole = text
    text = _without_unknown(head if unknown else text, known)
    if denied:
        text = drop_sentences(text, lambda start, end: contradicts(text[start:end], denied))
    if len(text) < len(whole) and says_nothing(text, compared):
        return refused("empty", _names_unknown(unknown)) if unknown else refused(RULE_TURNED, RULE_REPAIR)
    if len(text) < len(whole):
        covered, tokens = covered_names(wanted, f"{text}\n{facts}"), count(text)
    if stop in CUT_OFF_REASONS:
        repair = f"It was cut off; {shorter}"
        return kept(CUT_OFF, repair) if _has_finished_sentence(text) else refused("empty", repair)
    if tokens > max_tokens:
        return kept(TOO_LONG, f"It is too long; {shorter}")
    if unknown and len(text) < (1 - DROPPED_SHARE) * len(whole):
        return kept("unknown identifiers", _names_unknown(unknown))
    if not script_free and (covered < LEAST_COVERAGE or not wanted) and is_other_subject(text, compared):
        return kept("another subject", SUBJECT_REPAIR)
    if len(wanted) >= LEAST_IDENTIFIERS and covered < LEAST_COVERAGE * _share_with_room(wanted, cap, count):
        return kept("poor coverage", _leaves_out(wanted, text))
    return kept()


_ENDS = ".!?…。！？؟"  # noqa: RUF001


def covered_names(wanted: Sequence[str], text: str) -> float:
    """The share of the identifiers that a text has, however they are written, 1.0 when there are none."""
    if not wanted:
        return 1.0
    has = NameIndex(text).has
    return sum(map(has, wanted)) / len(wanted)


def name_missing(
    text: str, wanted: Sequence[str], *, cap: int, count: Callable[[str], int], fill: bool = False
) -> str:
    """The text with one more line that names the identifiers it lacks, as many as there is room for.

    With `fill` the line may take all that is left of the cap; otherwise a text stays longer than it.
    """
    has = NameIndex(text).has
    missing = [name for name in wanted if _ONE_WORD.fullmatch(name) and not has(name)]
    tokens = count(text)
    room = cap if fill else min(cap, tokens + max(tokens // 2, MIN_LINE_TOKENS))

    def named(number: int) -> str:
        return neutral(f"{text}\n{ALSO_NAMED}{', '.join(missing[:number])}")

    number = _longest(range(1, len(missing) + 1), lambda one: count(named(one)) <= room)
    return named(number) if number else text


def without_names_line(text: str) -> str:
    """The text without the line that `name_missing` has added."""
    record, _, last = text.rpartition("\n")
    return record if record and last.startswith(ALSO_NAMED) else text


def _clean(text: str) -> str:
    """The text without marks and without what stands around a record, also what only the other hid."""
    for _ in range(4):
        before, text = text, strip_reply(neutral(text))
        if text == before:
            return text
    return neutral(text)


def _has_finished_sentence(text: str) -> bool:
    """Tell whether a text that was cut off has a sentence before its end, or ends with one."""
    ends = sentence_ends(text)
    return (
        bool(ends)
        and has_whole_sentence(text[: ends[-1]])
        and (ends[-1] < len(text) or text[-1] in _ENDS or len(ends) > 1)
    )


def _share_with_room(wanted: Sequence[str], cap: int, count: Callable[[str], int]) -> float:
    """The share of the identifiers that fit into half of a text: a short record of a long stretch has few."""
    return min(1.0, cap / 2 / max(count(", ".join(wanted)), 1))


def _without_unknown(text: str, known: NameIndex) -> str:
    """The text without the sentences that name what is not known; what is left names nothing else."""
    while unknown := unknown_names(text, known):
        shorter = _without_places(text, sorted(at for name in unknown for at in _occurrences(text, name)))
        if shorter == text:
            return ""
        text = shorter
    return text


def _without_places(text: str, places: Sequence[int]) -> str:
    """The text without the sentences in which one of these places is."""
    return drop_sentences(text, lambda start, end: bisect_left(places, start) < bisect_left(places, end))


def _occurrences(text: str, name: str) -> Iterator[int]:
    """The start and end of each occurrence of a name; a date may reach into the next sentence."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        if not any(
            one.isascii() and one.isalnum() for one in (text[at - 1 : at], text[end : end + 1]) if one
        ):
            yield from (at, end - 1)
        at = text.find(name, end)


def _denied_facts(text: str, standing: Sequence[str], source: str) -> list[str]:
    """The current facts that a text denies, unless users have denied them too."""
    denied = find_denied(split_sentences(text), standing)
    if not denied:
        return []
    turns = [block for block in source.split("\n\n") if block.startswith("User")] or [source]
    by_users = find_denied(split_sentences("\n".join(turns)), denied)
    return [one for one in denied if one not in by_users]


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


def better(first: Verdict, second: Verdict) -> Verdict:
    """Which of an answer and its repair to keep; a poor one is better than a broken one."""

    def worth(verdict: Verdict) -> tuple[bool, bool, float]:
        return verdict.fit, bool(verdict.text), verdict.coverage

    return second if worth(second) > worth(first) else first


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


def _is_tool_protocol(text: str) -> bool:
    text = text.strip()
    if text.startswith("```") and text.endswith("```") and "\n" in text:
        text = text.partition("\n")[2].removesuffix("```").strip()
    if text.startswith(TOOL_STARTS):
        return True
    if not text.startswith(("{", "[")):
        return False
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return any(map(_is_call, data if isinstance(data, list) else [data]))


def _is_call(data: Any) -> bool:
    if not isinstance(data, dict):
        return False
    named = "name" in data and not data.keys().isdisjoint(("arguments", "parameters"))
    return named or "tool_calls" in data or "function" in data or data.get("type") == "tool_use"


def _echoes(reply: str, text: str, tokens: int, source: str, source_tokens: int) -> bool:
    """Tell whether a long text repeats its source word by word; written as turns, also a shorter one."""
    turns = len(_TURN_LINE.findall(reply)) >= ECHO_TURNS
    share, least = (
        (TURNS_SHARE, 0.0) if turns else (ECHO_SHARE, max(ECHO_TOKENS, ECHO_LENGTH * source_tokens))
    )
    if tokens <= least:
        return False
    said = _shingles(text)
    known = set(_shingles(source))
    return bool(said) and sum(one in known for one in said) >= share * len(said)


def _shingles(text: str) -> list[tuple[str, ...]]:
    words = _WORD.findall(text)
    return list(zip(*(words[start:] for start in range(SHINGLE)), strict=False))


def _leaves_out(wanted: Sequence[str], text: str) -> str:
    has = NameIndex(text).has
    # Names come from the source: only what reads as one word is repeated outside its marks.
    missing = (name for name in wanted if _ONE_WORD.fullmatch(name) and not has(name))
    names = ", ".join(islice(missing, MOST_NAMES)) or "most names, numbers and dates"
    return f"It leaves out: {names}."


def _names_unknown(unknown: Sequence[str]) -> str:
    words = [name for name in unknown if _ONE_WORD.fullmatch(name)][:MOST_NAMES]
    return f"It names what the conversation does not: {', '.join(words) or 'numbers and dates'}."
