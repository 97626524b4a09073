"""No pattern of the package takes more than linear time, whatever it is given.

Texts come from users, models, tools and files. A pattern that backtracks holds the event loop, and nothing
can cancel it. Every pattern is found by walking the modules, and fed inputs made from its own parts: each
repeated part many times over, after what has to come before it, and before something that lets the
match fail. What decides is how the CPU time grows when the input grows eightfold: eightfold for a linear
pattern, 64-fold for a quadratic one. A slow machine makes both slower and changes neither.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import pytest

import autonomy_ctx
from autonomy_ctx import _lazy

ROOT = Path(__file__).parent.parent / "autonomy_ctx"
# A pattern that takes less than `PROBE_SECONDS` for the short input is not quadratic: that takes 18 million
# steps, 20 ms or more. Any other one is tried with an input that is eight times as long.
SHORT, LONG = 6_000, 48_000
PROBE_SECONDS, STOP_SECONDS = 0.004, 5.0
# Between 8 and 64; the least of some tries is compared, so that a pause of the machine decides nothing.
MOST_GROWTH, TRIES = 24, 3
MOST_REPEATED = 20
# One of each kind of character; a class of a pattern is tried with the first few that are in it.
PALETTE = "a 0\n.-,;:!?/<(\"'`[{|=*_@#\\+~\tZ猫é\u3002\uff5c\u201c\u2019\u00a0\u0301\x00"
PER_CLASS, MOST_PAIRED = 5, 8
SUFFIXES = ("", "\x00", "\n", "x")
WHOLE_METHODS = ("match", "fullmatch")
NAMED = ("LITERAL", "RANGE")
SEARCH_METHODS = ("search", "findall", "finditer", "split", "sub", "subn")
PARSER: Any = importlib.import_module("re._parser")
Tree: TypeAlias = list[tuple[Any, Any]]


@dataclass(frozen=True)
class Found:
    """A pattern of the package, and which methods are called on it."""

    where: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]


# -- which patterns there are -------------------------------------------------------------------------


@cache
def sources() -> dict[str, ast.Module]:
    """The source of every module."""
    names = [one.name for one in pkgutil.walk_packages(autonomy_ctx.__path__, "autonomy_ctx.")]
    made = {}
    for name in ("autonomy_ctx", *names):
        # Found, not imported: the adapters need frameworks that are not installed here.
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        made[name] = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    return made


def is_adapter(module: str) -> bool:
    return module.startswith("autonomy_ctx.adapters.")


def patterns_in(value: Any) -> Iterator[re.Pattern[Any]]:
    """The patterns that a value of a module holds, compiled or not yet."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, _lazy._LazyPattern):
        yield value._compile()
    elif isinstance(value, dict):
        for one in (*value.keys(), *value.values()):
            yield from patterns_in(one)
    elif isinstance(value, tuple | list | set | frozenset):
        for one in value:
            yield from patterns_in(one)


def module_patterns() -> Iterator[Found]:
    """Patterns that are values of a module, alone or in a table."""
    for module, tree in sources().items():
        if is_adapter(module):
            continue
        used: dict[str, set[str]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                used.setdefault(node.value.id, set()).add(node.attr)
        for name, value in vars(importlib.import_module(module)).items():
            found = list(patterns_in(value))
            called = used.get(name, set()) & {*WHOLE_METHODS, *SEARCH_METHODS}
            # One that is passed on, or is in a table, is tried in every way.
            methods = frozenset(called) or frozenset(("match", "fullmatch", "search"))
            for index, pattern in enumerate(found):
                yield Found(f"{module}.{name}" + (f"[{index}]" if len(found) > 1 else ""), pattern, methods)


def inline_calls() -> Iterator[tuple[str, ast.Call]]:
    """Calls of `re` inside functions."""
    for module, tree in sources().items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for node in ast.walk(function):
                called = node.func if isinstance(node, ast.Call) else None
                if (
                    isinstance(node, ast.Call)
                    and isinstance(called, ast.Attribute)
                    and isinstance(called.value, ast.Name)
                    and called.value.id == "re"
                    and called.attr in ("compile", *WHOLE_METHODS, *SEARCH_METHODS)
                ):
                    yield f"{module}.{function.name}", node


def inline_patterns() -> Iterator[Found]:
    for where, call in inline_calls():
        given = call.args[0]
        if isinstance(given, ast.Constant):
            assert isinstance(call.func, ast.Attribute)
            yield Found(f"{where}()", re.compile(given.value), frozenset((call.func.attr,)))


# By what they are: a pattern that another module imports is one.
_UNIQUE = {(one.pattern, one.methods): one for one in (*inline_patterns(), *module_patterns())}
ALL = {one.where: one for one in _UNIQUE.values()}
# Made of a text that is known only later. Each is `re.escape` of that text, with bounded repeats around it.
MADE_LATER = {
    "autonomy_ctx._lazy._compile",
    # A closing tag, and letters with other characters between them: both take linear time.
    "autonomy_ctx.compaction.reply_text._strip_thoughts",
    "autonomy_ctx.compaction.reply_text.has_words_in",
    "autonomy_ctx.messages.transcript.neutralize_text",
    "autonomy_ctx.messages.transcript.wrap_untrusted",
    # Words, of which none is a pattern, and the pieces of a JSON string up to a number of them.
    "autonomy_ctx.messages.excerpt._argument_pattern",
    "autonomy_ctx.messages.excerpt._show",
    "autonomy_ctx.tools.results._find",
}


def test_every_pattern_is_found() -> None:
    """None hides in a function, where the walk over the modules does not see it."""
    later = {where for where, call in inline_calls() if not isinstance(call.args[0], ast.Constant)}
    assert later == MADE_LATER
    assert "autonomy_ctx.knowledge.documents._TITLE" in ALL
    assert "autonomy_ctx.language.identifiers._WORD_PATTERN" in ALL
    assert "autonomy_ctx.formats.overflow._WORDINGS[0]" in ALL


# -- the worst inputs of a pattern --------------------------------------------------------------------


def contains(parts: Tree, character: str) -> bool:
    """Whether a class, as the parser gives it, holds a character."""
    inside, negated = False, False
    for kind, value in parts:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                inside |= ord(character) == value
            case "RANGE":
                inside |= value[0] <= ord(character) <= value[1]
            case "CATEGORY":
                letter = {"DIGIT": "d", "SPACE": "s", "WORD": "w"}[str(value).rpartition("_")[2]]
                letter = letter.upper() if "_NOT_" in str(value) else letter
                inside |= re.match(rf"\{letter}", character) is not None
            case other:
                raise AssertionError(f"the classes of this test do not know {other}")
    return inside != negated


def samples(node: tuple[Any, Any]) -> list[str]:
    """Some texts that one part of a pattern matches."""
    kind, value = str(node[0]), node[1]
    match kind:
        case "LITERAL":
            return [chr(value)]
        case "NOT_LITERAL":
            return [one for one in PALETTE if ord(one) != value][:PER_CLASS]
        case "ANY":
            return [one for one in PALETTE if one != "\n"][:PER_CLASS]
        case "IN":
            held = [one for one in PALETTE if contains(value, one)]
            # None of the palette: the class names its characters.
            named = [one if str(kind) == "LITERAL" else one[0] for kind, one in value if str(kind) in NAMED]
            return (held or [chr(one) for one in named])[:PER_CLASS]
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            least = min(value[0], MOST_REPEATED)
            return [text * max(least, 1) for text in samples_of(value[2])]
        case "SUBPATTERN":
            return samples_of(value[3])
        case "ATOMIC_GROUP":
            return samples_of(value)
        case "BRANCH":
            return [text for branch in value[1] for text in samples_of(branch)[:2]]
        case "ASSERT" | "ASSERT_NOT" | "AT" | "GROUPREF":
            return [""]
        case other:
            raise AssertionError(f"the samples of this test do not know {other}")


def samples_of(nodes: Any) -> list[str]:
    """Some texts that the parts match one after the other: each part's n-th sample with the others' n-th."""
    each = [samples(node) or [""] for node in nodes]
    most = max(map(len, each), default=1)
    return list(dict.fromkeys("".join(one[min(at, len(one) - 1)] for one in each) for at in range(most)))


def repeats(nodes: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Each repeated part as texts to repeat, with a text that leads to it."""
    for node in nodes:
        kind, value = str(node[0]), node[1]
        match kind:
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                for text in samples_of(value[2]):
                    yield before, text
                yield from repeats(value[2], before)
            case "SUBPATTERN":
                yield from repeats(value[3], before)
            case "ATOMIC_GROUP":
                yield from repeats(value, before)
            case "BRANCH":
                for branch in value[1]:
                    yield from repeats(branch, before)
            case "ASSERT" | "ASSERT_NOT":
                yield from repeats(value[1], before)
        before += (samples(node) or [""])[0]
        yield "", before


@dataclass(frozen=True)
class Input:
    """A text that can be made in any size."""

    before: str
    pump: str
    after: str

    def of_size(self, size: int, pattern: re.Pattern[Any]) -> Any:
        text = self.before + self.pump * (size // len(self.pump)) + self.after
        return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


def worst_inputs(pattern: re.Pattern[Any]) -> Iterator[Input]:
    """What could make the pattern backtrack: what it repeats, and does not find the end of."""
    source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    tree = PARSER.parse(source, pattern.flags)
    pieces = list(dict.fromkeys(repeats(tree)))
    pumps = dict.fromkeys((before, text) for before, text in pieces if text)
    # The way to a repeated part, many times over, and two parts in turn.
    pumps |= dict.fromkeys(("", before + text) for before, text in pumps)
    texts = list(dict.fromkeys(text for _, text in pumps))[:MOST_PAIRED]
    pumps |= dict.fromkeys(("", one + other) for one in texts for other in texts if one != other)
    for before, text in pumps:
        for after in SUFFIXES:
            yield Input(before, text, after)


# -- how long they take -------------------------------------------------------------------------------


class TooLong(Exception):
    """The match was stopped."""


@contextmanager
def stopped_after(seconds: float) -> Iterator[None]:
    """Stop a match that takes longer; `re` looks for signals while it backtracks."""

    def stop(number: int, frame: object) -> None:
        raise TooLong

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def cpu_seconds(call: Callable[[Any], object], text: Any, stop: float = STOP_SECONDS) -> float:
    """How much CPU a call takes; infinite when it had to be stopped."""
    began = time.thread_time()
    try:
        with stopped_after(stop):
            call(text)
    except TooLong:
        return float("inf")
    return time.thread_time() - began


def grows_too_much(call: Callable[[Any], object], short: Any, long: Any) -> bool:
    """Whether the longer of two inputs takes more than its length explains."""
    first = cpu_seconds(call, short)
    if first < PROBE_SECONDS:
        return False
    if first == float("inf"):
        return True
    limit = MOST_GROWTH * min(first, *(cpu_seconds(call, short) for _ in range(TRIES)))
    return all(cpu_seconds(call, long, stop=limit) > limit for _ in range(TRIES))


def uses(found: Found) -> dict[str, Callable[[Any], object]]:
    """The ways in which the package uses the pattern: at one place, or all over a text."""
    made: dict[str, Callable[[Any], object]] = {
        method: getattr(found.pattern, method) for method in WHOLE_METHODS if method in found.methods
    }
    if found.methods & set(SEARCH_METHODS):
        made["finditer"] = lambda text: sum(1 for _ in found.pattern.finditer(text))
    return made


def slow_uses(found: Found) -> Iterator[str]:
    for given in worst_inputs(found.pattern):
        short, long = (given.of_size(size, found.pattern) for size in (SHORT, LONG))
        for method, call in uses(found).items():
            if grows_too_much(call, short, long):
                yield f"{method} of {given}"


def folder_of(where: str) -> str:
    return where.split(".")[1]


@pytest.mark.parametrize("folder", sorted({folder_of(where) for where in ALL}))
def test_no_input_takes_a_pattern_more_than_linear_time(folder: str) -> None:
    patterns = {where: found for where, found in ALL.items() if folder_of(where) == folder}
    slow = {where: next(slow_uses(found), None) for where, found in patterns.items()}
    assert {where: use for where, use in slow.items() if use} == {}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("bad", "method"),
    [
        (r"\A(?:\s*\n)*#\s+(.{1,200})$", "match"),
        (r"(a+)+b", "match"),
        (r"(?:a|a)*b", "match"),
        (r"\w+\s*(?:x)?\s*:", "match"),
        (r"context\w*exceeded", "search"),
        (r"\s+$", "sub"),
        (r"[a-z]+://", "search"),
        (r'"(?:[^"\\]|\\.)*"', "search"),
        (r"<[^>]*>", "search"),
        (r"\d+,?\d+%", "search"),
    ],
)
def test_this_test_knows_bad_patterns(bad: str, method: str) -> None:
    assert next(slow_uses(Found("bad", re.compile(bad, re.MULTILINE), frozenset((method,)))), None)


def test_adapters_have_no_patterns_that_nobody_tries() -> None:
    adapters = {name: tree for name, tree in sources().items() if is_adapter(name)}
    assert adapters
    for name, tree in adapters.items():
        named = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not named & {"re", "lazy_pattern"}, name
