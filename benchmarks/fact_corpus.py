"""Conversations to measure with what a context still knows at their end.

People talk to agents about code, travel, support, research and things at home, mostly in English. Each
conversation holds cases: rules, preferences, decisions, open items, values that change, identifiers. Their
sentences are written by hand, no two alike, and stand in `fact_cases`, in files for each half of the corpus;
around them stands talk made from templates, with tool calls and their noise. Some of that talk reads like a
rule, a decision or an open item and is none.

One half is for development. The other is held out: nobody reads it while working on what is measured.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Literal

from benchmarks.recall_corpus import Chance

Half = Literal["development", "held_out"]
HALVES: tuple[Half, ...] = ("development", "held_out")
SHORT, LONG = 400, 2_000
# Identifiers that actions produced, beside those written by hand.
PRODUCED = {SHORT: 5, LONG: 34}
# The files of each half. The later ones of development were written to see how far its rules reach.
FILES: dict[Half, tuple[str, ...]] = {
    "development": ("development.txt", "development_2.txt", "development_3.txt"),
    "held_out": ("held_out.txt",),
}
# Long conversations have the cases of two short ones.
LONG_PAIRS: dict[Half, tuple[tuple[int, int], ...]] = {
    "development": (
        (0, 9),
        (1, 3),
        (2, 5),
        (4, 7),
        (6, 11),
        (12, 19),
        (14, 17),
        (15, 21),
        (24, 28),
        (25, 29),
    ),
    "held_out": ((0, 9), (1, 3), (2, 5), (4, 7), (6, 11)),
}
# Kinds of cases whose first key says it all.
NAMES = ("value", "id", "artifact")
# Where the first and the last sentence of a case may stand.
FIRST_PERCENT, LAST_PERCENT = 1, 96
START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
_FOLDER = Path(__file__).with_name("fact_cases")
_LATIN = re.compile("[\x20-\u024f€]+")

Line = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Step:
    """One moment of a case: what is said, what must be found of it, and how a short note would put it.

    Every group of `keys` must be found in one line, in any of its spellings. No `text`: the case is done.
    """

    percent: int
    keys: tuple[tuple[str, ...], ...]
    text: str
    lines: tuple[Line, ...]

    @property
    def source(self) -> str:
        """The line that says it."""
        spoken = [text for role, text in self.lines if role != "c"]
        return next((text for text in spoken if has_keys(text, self.keys[:1])), spoken[0])

    def stands_in(self, line: str) -> bool:
        return has_keys(line, self.keys)


@dataclass(frozen=True, slots=True)
class Case:
    """Something to remember, from when it was first said to when it last changed."""

    kind: str
    steps: tuple[Step, ...]

    @property
    def last(self) -> Step:
        return self.steps[-1]

    @property
    def done(self) -> bool:
        return not self.last.text


@dataclass(frozen=True, slots=True)
class Script:
    """What happens in a conversation, without the talk around it."""

    name: str
    languages: tuple[str, ...]
    domain: str
    cases: tuple[Case, ...]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Messages as dicts with ids and times, and the cases in them; `places` has the index of each step."""

    name: str
    half: Half
    messages: list[dict[str, Any]]
    cases: list[Case]
    places: list[list[int]] = field(default_factory=list)


@cache
def _key_pattern(key: str) -> re.Pattern[str]:
    """A key as people write it: at the start of a word; to its end, too, if it is short or a number."""
    pattern = re.escape(key)
    if _LATIN.fullmatch(key):
        if key[0].isdigit():
            pattern = rf"(?<![\d.,]){pattern}"
        elif key[0].isalpha():
            pattern = rf"(?<!\w){pattern}"
        if key[-1].isdigit():
            pattern += r"(?!\d|[.,:]\d)"
        elif key[-1].isalpha() and len(key) <= 3:
            pattern += r"(?!\w)"
    return re.compile(pattern, re.IGNORECASE)


def has_keys(line: str, keys: Iterable[Sequence[str]]) -> bool:
    """Whether a line has one spelling of every key."""
    return all(any(_key_pattern(key).search(line) for key in spellings) for spellings in keys)


@cache
def read_scripts(half: Half) -> tuple[Script, ...]:
    """The scripts of one half, as written by hand."""
    made: list[Script] = []
    texts = [(_FOLDER / name).read_text(encoding="utf-8") for name in FILES[half]]
    for block in [block for text in texts for block in text.split("=== ")[1:]]:
        head, *cases = block.split("\n-- ")
        name, languages, domain = (part.strip() for part in head.split("|"))
        made.append(Script(name, tuple(languages.split("+")), domain, tuple(map(_case, cases))))
    return tuple(made)


def _case(block: str) -> Case:
    kind, *steps = block.strip().split("\n@ ")
    return Case(kind.strip(), tuple(map(_step, steps)))


def _step(block: str) -> Step:
    head, *lines = block.strip().split("\n")
    percent, keys, *text = (part.strip() for part in head.split("::"))
    groups = tuple(tuple(one.strip() for one in group.split("|")) for group in keys.split(" & "))
    spoken = tuple((line[0], line[2:].replace("\\n", "\n")) for line in lines)
    return Step(int(percent), groups, text[0] if text else "", spoken)


@cache
def _templates() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (_FOLDER / "filler.txt").read_text(encoding="utf-8").splitlines():
        if re.fullmatch(r"\[[\w.]+\]", line):
            found[line[1:-1]] = []
        elif line.strip():
            found[list(found)[-1]].append(line)
    return found


class Filler:
    """Talk around the cases of a conversation: chat, thanks, and tools with long results."""

    def __init__(self, script: Script, chance: Chance) -> None:
        self._chance, self._domain, self._languages = chance, script.domain, script.languages
        self._language = script.languages[0]

    def exchange(self) -> list[Line]:
        self._language = self._chance.of(self._languages)
        kind = self._chance.below(100)
        if kind < 14:
            return [("u", self._one("thanks")), ("a", self._one("welcome"))]
        if kind < 52:
            return [("u", self._ask()), ("a", self._reply())]
        lines = [("u", self._ask())]
        for _ in range(1 + self._chance.below(5) // 3 + self._chance.below(6) // 5):
            lines += self._lookup()
        return [*lines, ("a", self._reply())]

    def produced(self, code: str) -> tuple[str, list[Line]]:
        """An action and the identifier that it produced; `code` is part of that."""
        self._language = self._chance.of(self._languages)
        hexadecimal = hashlib.sha256(code.encode()).hexdigest()[:8]
        template = self._chance.of(_templates()[f"any.{self._domain}.produced"])
        filled = self._filled(template.replace("{code}", code).replace("{hex}", hexadecimal))
        call, result, said = filled.split(" => ")
        names = [word.strip(".,:()") for word in said.split()]
        name = next(word for word in names if code in word or hexadecimal in word)
        result = result.replace("\\n", "\n")
        return name, [("u", self._ask()), ("c", call), ("t", result), ("a", said)]

    def _ask(self) -> str:
        """A question as people type it, now and then with a slip."""
        opener = f"{self._one('opener')} " if self._chance.below(3) == 0 else ""
        tail = self._one("tail") if self._chance.below(5) < 2 else ""
        text = f"{opener}{self._one('ask')}{tail}"
        at = 1 + self._chance.below(len(text) - 2)
        if self._chance.below(7) == 0 and text[at : at + 2].isalpha():
            text = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
        return text

    def _reply(self) -> str:
        said = [self._one("reply") for _ in range(1 + self._chance.below(3))]
        return " ".join(dict.fromkeys(said))

    def _lookup(self) -> list[Line]:
        kinds = _NOISE[self._domain]
        tool, make = kinds[self._chance.below(len(kinds))]
        rows = 3 + self._chance.below(9) + (30 if self._chance.below(9) == 0 else 0)
        return [("c", f'{tool} {{"limit": {rows}}}'), ("t", make(self, rows))]

    def _one(self, kind: str) -> str:
        return self._filled(self._chance.of(self._lines(kind)))

    def _lines(self, kind: str) -> list[str]:
        found = _templates()
        places = (f"{self._language}.{self._domain}", f"{self._language}.any", "any.any", "en.any")
        return next(found[f"{place}.{kind}"] for place in places if f"{place}.{kind}" in found)

    def _filled(self, text: str) -> str:
        slots: dict[str, Callable[[], str]] = {
            "{n}": lambda: str(12 + self._chance.below(80)),
            "{N}": lambda: str(140 + self._chance.below(800)),
            "{path}": self.path,
            "{code}": lambda: f"{self._chance.of('GHKW')}{20_000 + self._chance.below(9_999)}",
        }
        for name in re.findall(r"\{\w+\}", text):
            value = slots[name]() if name in slots else self._chance.of(self._lines(name[1:-1]))
            # A title is named again where its action is told.
            text = text.replace(name, value, -1 if name in ("{msg}", "{slug}") else 1)
        return text

    def path(self) -> str:
        folder = self._chance.of(("src/core", "lib/io", "tests/unit", "tools"))
        name = self._chance.of(("reader", "router", "queue", "cache", "views", "models", "codec"))
        return f"{folder}/{name}_{self._chance.below(40)}.py"

    def number(self, least: int, most: int) -> int:
        return least + self._chance.below(most - least)

    def any_of(self, *choices: str) -> str:
        chosen: str = self._chance.of(choices)
        return chosen


def _test_output(filler: Filler, rows: int) -> str:
    lines = [f"{filler.path()}::test_case_{filler.number(1, 99)} PASSED" for _ in range(rows)]
    return "\n".join([*lines, f"{rows * 7} passed, {filler.number(0, 9)} skipped in {rows}.{rows % 10}3s"])


def _grep_hits(filler: Filler, rows: int) -> str:
    words = ("return self._items[key]", "raise ValueError(name)", "for row in rows:", "await conn.close()")
    return "\n".join(
        f"{filler.path()}:{filler.number(10, 700)}: {filler.any_of(*words)}" for _ in range(rows)
    )


def _log_lines(filler: Filler, rows: int) -> str:
    hour = filler.number(10, 23)
    words = ("request finished", "slow query", "retrying", "cache miss", "connection reset by peer")
    return "\n".join(
        f"2026-02-{filler.number(10, 28)}T{hour}:{filler.number(10, 59)}:07Z {filler.any_of('INFO', 'WARN')} "
        f"worker-{filler.number(1, 9)} {filler.any_of(*words)} took={filler.number(1000, 9000)}us"
        for _ in range(rows)
    )


def _source(filler: Filler, rows: int) -> str:
    lines = ["import logging", "", "log = logging.getLogger(__name__)", ""]
    for _ in range(rows):
        name = filler.any_of("load", "store", "merge", "check", "emit")
        lines += [f"def {name}_{filler.number(1, 50)}(rows, limit={filler.number(101, 190)}):"]
        lines += [
            "    log.debug('rows %s', len(rows))",
            "    return [row for row in rows if row][:limit]",
            "",
        ]
    return "\n".join(lines)


def _records(filler: Filler, rows: int) -> str:
    made = [
        {
            "id": f"Q{filler.number(100_000, 999_999)}",
            "state": filler.any_of("closed", "shipped", "returned", "in transit"),
            "total": f"{filler.number(101, 990)}.{filler.number(10, 99)}",
            "carrier": filler.any_of("DHL", "UPS", "GLS"),
            "note": filler.any_of("", "left with neighbour", "address checked", "second attempt"),
        }
        for _ in range(rows)
    ]
    return json.dumps({"count": rows, "records": made})


def _flights(filler: Filler, rows: int) -> str:
    made = [
        {
            "carrier": filler.any_of("AZ", "KL", "IB", "AF"),
            "number": f"{filler.number(2000, 8999)}",
            "departs": f"{filler.number(10, 23)}:{filler.number(10, 59)}",
            "price": filler.number(140, 890),
            "stops": filler.number(0, 3),
        }
        for _ in range(rows)
    ]
    return json.dumps({"results": made}, indent=1)


def _web_hits(filler: Filler, rows: int) -> str:
    first = (
        "A short guide",
        "Everything about it",
        "Ten questions answered",
        "Notes from a visit",
        "Overview",
    )
    rest = ("updated last year, with pictures", "comments are closed", "part two of a series", "read more")
    return "\n".join(
        f"{number}. {filler.any_of(*first)} - https://pages.example.org/a{filler.number(1000, 9999)}\n"
        f"   {filler.any_of(*rest)} ... {filler.any_of(*rest)}"
        for number in range(1, rows + 1)
    )


def _table(filler: Filler, rows: int) -> str:
    lines = ["row,group,mean,sd,flag"]
    for row in range(rows):
        values = f"{filler.number(100, 999) / 100},{filler.number(10, 99) / 100}"
        lines.append(f"{row},{filler.any_of('a', 'b', 'c')},{values},{filler.any_of('ok', 'low', '')}")
    return "\n".join(lines)


_NOISE = {
    "coding": (
        ("run_tests", _test_output),
        ("grep", _grep_hits),
        ("read_logs", _log_lines),
        ("read_file", _source),
    ),
    "travel": (("search_flights", _flights), ("web_search", _web_hits), ("web_search", _web_hits)),
    "support": (("list_records", _records), ("device_log", _log_lines), ("web_search", _web_hits)),
    "research": (("paper_search", _web_hits), ("show_table", _table), ("run_script", _log_lines)),
    "home": (("web_search", _web_hits), ("list_records", _records), ("show_table", _table)),
}


@cache
def make_corpus() -> tuple[Conversation, ...]:
    """All conversations, the same every time: for each half the short ones, then the long ones."""
    made: list[Conversation] = []
    for half in HALVES:
        scripts = read_scripts(half)
        made += [make_conversation(half, SHORT, script) for script in scripts]
        made += [make_conversation(half, LONG, scripts[one], scripts[two]) for one, two in LONG_PAIRS[half]]
    return tuple(made)


def is_long(conversation: Conversation) -> bool:
    return len(conversation.messages) >= LONG


def corpus_digest() -> str:
    """The SHA-256 of everything that is in the corpus."""
    made = [
        [one.name, one.half, one.messages, [[case.kind, str(case.steps)] for case in one.cases]]
        for one in make_corpus()
    ]
    return hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()


def make_conversation(half: Half, count: int, *scripts: Script) -> Conversation:
    """One conversation of a number of messages, the same every time, with the cases of its scripts."""
    name = "+".join(script.name for script in scripts)
    chance = Chance(int(hashlib.sha256(f"{half} {name} {count}".encode()).hexdigest()[:8], 16))
    fillers = [Filler(script, chance) for script in scripts]
    cases = [case for script in scripts for case in script.cases]
    cases += [_produced_case(fillers, number, PRODUCED[count]) for number in range(PRODUCED[count])]
    unwanted = _Unwanted(cases)
    moves = [_move(case, chance) for case in cases]
    planned = sorted(
        (
            ((step.percent + moves[index]) * count // 100, index, number)
            for index, case in enumerate(cases)
            for number, step in enumerate(case.steps)
        ),
        reverse=True,
    )
    lines: list[Line] = []
    places = [[0] * len(case.steps) for case in cases]
    while len(lines) < count or planned:
        if planned and (planned[-1][0] <= len(lines) or len(lines) >= count):
            _, index, number = planned.pop()
            step = cases[index].steps[number]
            spoken = [text for _, text in step.lines]
            places[index][number] = len(lines) + spoken.index(step.source)
            lines += step.lines
        else:
            exchange = chance.of(fillers).exchange()
            if not any(unwanted.stands_in(text) for _, text in exchange):
                lines += exchange
    return Conversation(f"{name}, {count:,}", half, list(_messages(lines, chance)), cases, places)


def _move(case: Case, chance: Chance) -> int:
    """By how many percent of the conversation a case moves as a whole, so that no kind has its own place."""
    earliest, latest = FIRST_PERCENT - case.steps[0].percent, LAST_PERCENT - case.last.percent
    return earliest + chance.below(latest - earliest + 1)


def _produced_case(fillers: list[Filler], number: int, count: int) -> Case:
    filler = fillers[number % len(fillers)]
    name, lines = filler.produced(str(30_000 + filler.number(0, 4_000) * 17 + number))
    percent = 3 + 90 * number // count
    asked, said = lines[0][1], lines[-1][1]
    return Case("id", (Step(percent, ((name,),), f"{said} The user had asked: {asked}", tuple(lines)),))


class _Unwanted:
    """What filler may not say: anything that would pass for a case."""

    def __init__(self, cases: Iterable[Case]) -> None:
        steps = [(case, step) for case in cases for step in case.steps]
        # A value or a name may not be said at all, of anything else not all of its keys.
        self._keys = [step.keys[:1] if case.kind in NAMES else step.keys for case, step in steps]
        self._firsts = [tuple(key.lower() for key in keys[0]) for keys in self._keys]

    def stands_in(self, text: str) -> bool:
        lower = text.lower()
        near = [
            keys
            for keys, firsts in zip(self._keys, self._firsts, strict=True)
            if any(first in lower for first in firsts)
        ]
        return any(has_keys(line, keys) for line in text.split("\n") for keys in near) if near else False


def _messages(lines: Iterable[Line], chance: Chance) -> Iterator[dict[str, Any]]:
    time, call = START, ""
    for number, (role, text) in enumerate(lines, 1):
        # A day's talk has some fifty messages.
        pause = 50_000 + chance.below(30_000) if chance.below(50) == 0 else 15 + chance.below(400)
        time += timedelta(seconds=pause)
        made: dict[str, Any] = {"id": f"m{number}", "timestamp": time.isoformat()}
        if role == "c":
            call = f"call_{number}"
            name, _, arguments = text.partition(" ")
            made |= {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": call, "name": name, "arguments": arguments}],
            }
        elif role == "t":
            made |= {"role": "tool", "tool_call_id": call, "content": text}
        else:
            made |= {"role": "user" if role == "u" else "assistant", "content": text}
        yield made
