"""Is a text fit to stand for its source?

A summary takes the place of what was said, so a bad one loses history. An answer is kept only when
it is no refusal, no echo, no tool protocol and short enough; what one more question may mend comes
with the sentence to ask it with.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from autonomy_ctx.items.formats.any_reply import CUT_OFF_REASONS, REFUSAL_REASONS, has_calls
from autonomy_ctx.items.formats.base import ModelReply
from autonomy_ctx.items.identifiers import covered_share, identifiers
from autonomy_ctx.items.terms import lazy_pattern
from autonomy_ctx.items.transcript import MARK_PATTERN, neutralize_marks

TOOL_STARTS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "<invoke ", "<function_calls>")
SMALLEST = 256
LONGEST_TOKEN = 16  # characters, on average over a text
SHINGLE = 8
ECHO_SHARE, ECHO_LENGTH, ECHO_TOKENS = 0.6, 0.6, 100
LEAST_IDENTIFIERS, LEAST_COVERAGE = 4, 0.3
MOST_NAMES = 12
SHORTENED_MARK = " [shortened]"

# One "word" per character in scripts that put no spaces between words.
_WORD = lazy_pattern("[\u3040-\u30ff\u3400-\u9fff]|[^\\s\u3040-\u30ff\u3400-\u9fff]+")
_ONE_WORD = lazy_pattern(r"[^\s<>]{1,80}")
_TURN = lazy_pattern(r"\s*(?:(?:Human|Assistant):\s*)+")
# A bounded look around each place: runs of marks must not cost more than their length.
_SENTENCE_END = lazy_pattern("(?<=[.!?…])[\"')\\]»”’*]{0,3}(?=\\s|\\Z)|[。！？][”」』）]?|\n+|\\Z")  # noqa: RUF001
_LIST_NUMBER = lazy_pattern(r"\s*[(]?\d{1,4}[.)]\s*")
# Counted for coverage, but no reason to ask again: summaries may well leave them out.
_SMALL_NUMBER = lazy_pattern(r"\d{1,3}")
_WORD_END = lazy_pattern(r"(?<=\S)(?=\s|\Z)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A text made safe to keep, whether it is fit, and what to ask if it can be mended."""

    text: str
    fit: bool
    problem: str | None
    repair: str | None
    coverage: float


def judge(
    reply: ModelReply,
    *,
    source: str,
    source_tokens: int,
    cap: int,
    count: Callable[[str], int],
    secret: str,
    names: Sequence[str] | None = None,
) -> Verdict:
    """Whether a reply may stand for its source in at most `cap` tokens; `secret` is that of the prompt.

    `names` are the identifiers of the source, where they are known.
    """
    answer = _without_thinking(reply.text)
    text = neutral(answer)
    source_names = identifiers(source) if names is None else names
    # Of a text far too long only the head can be kept; searching the rest for every name takes seconds.
    covered = covered_share(source_names, text[: LONGEST_TOKEN * max(cap, SMALLEST)])

    def verdict(problem: str | None, repair: str | None = None, *, fit: bool = False) -> Verdict:
        return Verdict(text=text, fit=fit, problem=problem, repair=repair, coverage=covered)

    stop = (reply.stop or "").lower()
    if stop in REFUSAL_REASONS:
        return verdict("refused by the model")
    if (has_calls(reply) and not text) or _is_tool_protocol(answer) or _is_tool_protocol(text):
        return verdict("tool protocol")
    if not text:
        return verdict("empty")
    tokens = count(text)
    if (secret and secret.lower() in answer.lower()) or _echoes(text, tokens, source, source_tokens):
        return verdict("echo")
    max_tokens = min(cap, max(source_tokens, SMALLEST) - 1)
    if stop in CUT_OFF_REASONS:
        return verdict("cut off", f"It was cut off; write at most {max_tokens} tokens.")
    if tokens > max_tokens:
        return verdict("too long", f"It is too long; write at most {max_tokens} tokens.")
    if covered < LEAST_COVERAGE:
        known = [name for name in source_names if not _SMALL_NUMBER.fullmatch(name)]
        if len(known) >= LEAST_IDENTIFIERS:
            return verdict("poor coverage", _leaves_out(known, text), fit=True)
    return verdict(None, fit=True)


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
    """Which of an answer and its repair to keep; one that can be trimmed is better than a hopeless one."""

    def worth(verdict: Verdict) -> tuple[bool, bool, float]:
        return verdict.fit, verdict.repair is not None or verdict.fit, verdict.coverage

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
    for ends in (_sentences(text), words, range(1, words[0] + 1)):
        if kept := _longest(ends, lambda end: count(marked(end)) <= cap):
            return marked(ends[kept - 1])
    return marked(1)


def _longest(ends: Sequence[int], fits: Callable[[int], bool]) -> int:
    """How many of the ends fit, looking no further than about twice as far as that."""
    low, step = 0, 1
    while low + step <= len(ends) and fits(ends[low + step - 1]):
        low += step
        step *= 2
    high = min(low + step, len(ends) + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(ends[middle - 1]) else (low, middle)
    return low


def _sentences(text: str) -> list[int]:
    """Where sentences and lines end; the end of the text only if a sentence ends there, or nowhere else."""
    ends: list[int] = []
    for found in _SENTENCE_END.finditer(text):
        start = ends[-1] if ends else 0
        if found.end() == start or _LIST_NUMBER.fullmatch(text, start, found.end()):
            continue
        if found.end() < len(text) or found[0] or text[-1] in ".!?…" or not ends:
            ends.append(found.end())
    return ends


def _without_thinking(text: str) -> str:
    """The text after the thoughts that open models write in front of it."""
    if not text.lstrip().startswith("<think>"):
        return text
    return text.partition("</think>")[2].lstrip()


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


def _echoes(text: str, tokens: int, source: str, source_tokens: int) -> bool:
    """Whether a long text mostly repeats its source word by word."""
    if tokens <= max(ECHO_TOKENS, ECHO_LENGTH * source_tokens):
        return False
    said = _shingles(text)
    known = set(_shingles(source))
    return bool(said) and sum(one in known for one in said) >= ECHO_SHARE * len(said)


def _shingles(text: str) -> list[tuple[str, ...]]:
    words = _WORD.findall(text)
    return list(zip(*(words[start:] for start in range(SHINGLE)), strict=False))


def _leaves_out(known: Sequence[str], text: str) -> str:
    # Names come from the source: only what reads as one word is repeated outside its marks.
    missing = (name for name in known if _ONE_WORD.fullmatch(name) and name not in text)
    names = ", ".join(islice(missing, MOST_NAMES)) or "most names, numbers and dates"
    return f"It leaves out: {names}."
