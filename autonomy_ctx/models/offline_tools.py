"""The tool that the offline model calls: one that the request names, with arguments that stand in it.

There is no understanding here. A tool fits if the request shares words with its name or its description, its
required arguments are in the request, and no other word of the request is left over.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language.stemmer import normalized_words
from autonomy_ctx.language.tables import stop_words

_WORD = lazy_pattern(r"[^\W_]+(?:['’-][^\W_]+)*")  # noqa: RUF001
_NUMBER = lazy_pattern(r"(?<![\w.,-])-?\d+(?:\.\d+)?(?![\w-])")
_CAMEL = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBERS_WORDS = "zero one two three four five six seven eight nine ten"
_NUMBER_NAMES = {name: number for number, name in enumerate(_NUMBERS_WORDS.split())}
# A question about what was said is answered from the context.
_ABOUT_TALK = lazy_pattern(
    r"\b(?:did|have|had) (?:i|we|you)\b|\b(?:i|we|you) (?:said|told|asked|mentioned|decided|agreed)\b",
    re.IGNORECASE,
)
_REQUESTS_WORDS = """
calculate check compare count describe explain fetch find get give help list look name read recall remind
repeat say search show suggest summarize tell translate
"""
_QUESTIONS_WORDS = """
am are can could did do does had has have how is may might shall should was were what when where which who
whom whose why will would
"""
_REQUESTS, _QUESTION_WORDS = frozenset(_REQUESTS_WORDS.split()), frozenset(_QUESTIONS_WORDS.split())
_POLITE = frozenset(("please", "now", "and", "then", "so", "ok", "okay", "hey", "hi", "hello"))
# Words of a name that say nothing of what a tool is for.
_NAMES_WORDS = "call current lookup make run set tool use"
_COMMON = _REQUESTS | _QUESTION_WORDS | frozenset(_NAMES_WORDS.split())
_QUESTION_MARKS, STOPS = ("?", "？", "؟"), (".", "!", "。", "！", "।")  # noqa: RUF001


class ToolChoice(NamedTuple):
    """A tool and the arguments for it, as JSON."""

    name: str
    arguments: str


class _Word(NamedTuple):
    text: str
    # As words are compared.
    forms: frozenset[str]
    start: int
    end: int


def asks(text: str) -> bool:
    """Tell whether a text asks for something; else it states something."""
    text = text.strip()
    if any(f"{mark} " in f"{text} " for mark in _QUESTION_MARKS):
        return True
    first = _first_word(text)
    return first in _REQUESTS or (first in _QUESTION_WORDS and not text.endswith(STOPS))


def choose_tool(text: str, tools: Iterable[Mapping[str, Any]]) -> ToolChoice | None:
    """The tool that fits a request best, with its arguments; None if none does."""
    words = [
        _Word(found[0], frozenset(normalized_words(found[0])), found.start(), found.end())
        for found in _WORD.finditer(text)
    ]
    if not words or _ABOUT_TALK.search(text):
        return None
    rated = [rated for tool in tools if (rated := _rate(text, words, tool)) is not None]
    # Of equals, the first.
    return max(rated, key=lambda one: one[0])[1] if rated else None


def _first_word(text: str) -> str:
    words = (found[0].lower() for found in _WORD.finditer(text))
    return next((word for word in words if word not in _POLITE), "")


def _rate(text: str, words: Sequence[_Word], tool: Mapping[str, Any]) -> tuple[float, ToolChoice] | None:
    """A score for a tool that fits, with the call of it; None if it does not."""
    spoken = _CAMEL.sub(" ", str(tool["name"])).replace("_", " ").replace("-", " ")
    named = frozenset(normalized_words(spoken))
    told = frozenset(normalized_words(str(tool.get("description") or "").partition("\n\n")[0])) - stop_words()
    is_named = _first_word(text) in spoken.lower().split()
    if not asks(text) and not is_named:
        return None
    by_name = [word for word in words if _shares(word, named - _COMMON)]
    by_text = [word for word in words if _shares(word, told - _COMMON)]
    is_covered = bool(by_name) and len(by_name) >= len(named - _COMMON - stop_words())
    if not is_named and not is_covered and len(by_text) < 2:
        return None
    arguments = _fill(text, words, named | told, tool.get("parameters") or {})
    if arguments is None:
        return None
    known = sum(any(_is_alike(form, other) for word in words for other in word.forms) for form in named)
    score = 2 * len(by_name) + len(by_text) + known / max(len(named), 1)
    return score, ToolChoice(str(tool["name"]), json.dumps(arguments, ensure_ascii=False))


def _fill(
    text: str, words: Sequence[_Word], about: frozenset[str], parameters: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The required arguments of a tool from a request; None if one is missing, or a word is left over."""
    properties = parameters.get("properties") or {}
    filled: dict[str, Any] = {}
    free: list[str] = []
    numbers = _find_numbers(text, words)
    used: list[tuple[int, int]] = []
    for name in parameters.get("required") or ():
        schema = properties.get(name) or {}
        if isinstance(schema.get("enum"), list):
            value = _find_choice(text, schema["enum"])
            if value is None:
                return None
            filled[name] = value
            at = text.lower().find(str(value).lower())
            used.append((at, at + len(str(value))))
        elif schema.get("type") in ("integer", "number"):
            fitting = [one for one in numbers if schema["type"] == "number" or one[0] == int(one[0])]
            if not fitting:
                return None
            number, place = fitting[0]
            numbers.remove(fitting[0])
            filled[name] = int(number) if schema["type"] == "integer" or number == int(number) else number
            used.append(place)
        elif schema.get("type") == "string":
            free.append(name)
        else:
            return None
    known = about | stop_words() | _COMMON | frozenset(normalized_words(" ".join(map(str, properties))))
    left = [
        word
        for word in words
        if not _shares(word, known)
        and word.text.lower() not in _POLITE
        and not any(word.start < end and start < word.end for start, end in used)
    ]
    if not free:
        return filled if not left else None
    if len(free) > 1 or not left:
        return None
    # The rest of the sentence: from the first word that is not of the tool to the last, with all of a name.
    following = [word for word in words if word.start > left[-1].start]
    name_end = [left[-1], *takewhile(lambda word: word.text[0].isupper(), following)][-1]
    filled[free[0]] = text[left[0].start : name_end.end]
    return filled


def _find_numbers(text: str, words: Sequence[_Word]) -> list[tuple[float, tuple[int, int]]]:
    """The numbers in a text, in digits or words, with their places."""
    found = [(float(one[0]), one.span()) for one in _NUMBER.finditer(text)]
    named = [word for word in words if word.text.lower() in _NUMBER_NAMES]
    found += [(float(_NUMBER_NAMES[one.text.lower()]), (one.start, one.end)) for one in named]
    return sorted(found, key=lambda one: one[1])


def _find_choice(text: str, choices: Sequence[Any]) -> Any:
    """The longest of some values that stands in a text."""
    there = [one for one in choices if isinstance(one, str) and one and one.lower() in text.lower()]
    return max(there, key=len, default=None)


def _shares(word: _Word, others: frozenset[str]) -> bool:
    """Tell whether all parts of a word are among others."""
    return bool(word.forms) and all(any(_is_alike(form, one) for one in others) for form in word.forms)


def _is_alike(one: str, other: str) -> bool:
    """Tell whether two words are the same but for their last letter, as `ferrie` and `ferry`."""
    shorter = min(len(one), len(other))
    is_long = shorter >= 5 and abs(len(one) - len(other)) < 2
    return one == other or (is_long and one[: shorter - 1] == other[: shorter - 1])
