"""Tools on demand: an index that finds tools by words, and a catalog of their names. Pure.

Definitions of many tools take more of a context than the conversation. So a model is told their names, and
finds the definitions when it needs them.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from autonomy_ctx.language.stemmer import normalized_words
from autonomy_ctx.language.tables import stop_words

# What a word counts for, by where it stands, and how fast more of the same words count less.
NAME_WEIGHT, GROUP_WEIGHT, DESCRIPTION_WEIGHT, PARAMETER_WEIGHT = 3.0, 2.0, 1.0, 0.3
SATURATION = 1.0
# What a word counts for that begins like another one, and the letters that both have in common.
PREFIX_WEIGHT, PREFIX_LETTERS = 0.5, 4
# What a word counts for that means much the same, and one that is related to such a word.
RELATED_WEIGHT, REMOTE_WEIGHT = 0.6, 0.1
# What a function word such as "who" counts for, if it is related to words of tools at all.
FUNCTION_WEIGHT = 0.5
# What a tool gains, in parts of its score, that has all words of a request, or whose name has no others.
COVERAGE_GAIN, NAME_GAIN = 1.0, 0.3
# What is added to a rank by words and one by meaning, before they are joined.
RANK_OFFSET = 10
# Characters of a description in the catalog, and the examples of a group of which only the number is shown.
LINE_CHARACTERS, GROUP_EXAMPLES = 90, 4
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|\n")


class IndexedTool(NamedTuple):
    """A tool as it is found: its spec, and the server or prefix that it belongs to."""

    group: str
    spec: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name by which it is called."""
        return str(self.spec["name"])

    @property
    def line(self) -> str:
        """Its name and the first sentence of its description."""
        first = _SENTENCE_END.split(str(self.spec.get("description", "")).strip(), 1)[0].rstrip(".")
        return f"- {self.name}: {first[:LINE_CHARACTERS]}" if first else f"- {self.name}"

    def describe(self) -> str:
        """Its definition as a text."""
        schema = json.dumps(self.spec["parameters"], ensure_ascii=False, separators=(",", ":"))
        return f"{self.name}: {self.spec.get('description', '')}\narguments: {schema}"


class ToolIndex:
    """Finds tools by the words of a request."""

    def __init__(self, tools: Sequence[IndexedTool]) -> None:
        self.tools = tools
        # By a word, the tools that have it, with what it counts there.
        self._places: defaultdict[str, dict[int, float]] = defaultdict(dict)
        for at, tool in enumerate(tools):
            for word, weight in _weigh_words(tool).items():
                self._places[word][at] = weight
        self._rarity = {word: math.log(1 + len(tools) / len(had)) for word, had in self._places.items()}
        # What the words of a name, without those of the group, count for together.
        self._names = [_name_words(tool) for tool in tools]
        self._name_totals = [sum(self._rarity[word] for word in words) for words in self._names]
        self._related = read_related_words() if tools else {}
        self._by_prefix: defaultdict[str, list[str]] = defaultdict(list)
        for word in self._rarity:
            self._by_prefix[word[:PREFIX_LETTERS]].append(word)

    def find(self, request: str, limit: int, meaning: Sequence[int] = ()) -> list[IndexedTool]:
        """The tools that fit a request best, the best first.

        `meaning` are the indexes of tools by their meaning, the best first, if these are known.
        """
        ranks: defaultdict[int, float] = defaultdict(float)
        for order in (self._by_words(request), meaning):
            for rank, at in enumerate(order):
                ranks[at] += 1 / (RANK_OFFSET + rank)
        found = sorted(ranks.items(), key=lambda one: (-one[1], one[0]))
        return [self.tools[at] for at, _ in found[:limit]]

    def _by_words(self, request: str) -> list[int]:
        """The indexes of tools with words of a request, the best first."""
        scores: defaultdict[int, float] = defaultdict(float)
        had: Counter[int] = Counter()
        in_names: defaultdict[int, dict[str, float]] = defaultdict(dict)
        stop, asked = stop_words(), 0
        for word in dict.fromkeys(_stems(request)):
            if word in stop and word not in self._related:
                continue
            best: dict[int, tuple[float, float, str]] = {}
            for form, share in self._forms(word).items():
                for at, weight in self._places[form].items():
                    match = (share * weight * self._rarity[form], share, form)
                    best[at] = max(best.get(at, match), match)
            asked += bool(best)
            for at, (score, share, form) in best.items():
                scores[at] += score * FUNCTION_WEIGHT if word in stop else score
                had[at] += 1
                in_names[at][form] = max(share, in_names[at].get(form, 0.0))
        ranked = []
        for at, score in scores.items():
            name = sum(self._rarity[word] * in_names[at].get(word, 0.0) for word in self._names[at])
            gain = (1 + COVERAGE_GAIN * had[at] / asked) * (
                1 + NAME_GAIN * name / (self._name_totals[at] or 1)
            )
            ranked.append((score * gain, -at))
        return [-at for _, at in sorted(ranked, reverse=True)]

    def _forms(self, word: str) -> dict[str, float]:
        """The words of tools that a word stands for, with what each counts."""
        found = {word: 1.0} if word in self._rarity else {}
        if not found and len(word) >= PREFIX_LETTERS:
            found = dict.fromkeys(self._by_prefix.get(word[:PREFIX_LETTERS], ()), PREFIX_WEIGHT)
        related = self._related.get(word, frozenset())
        remote = (one for near in related for one in self._related[near])
        for words, share in ((related, RELATED_WEIGHT), (remote, REMOTE_WEIGHT)):
            for one in words:
                if one in self._rarity:
                    found.setdefault(one, share)
        return found


def read_related_words() -> Mapping[str, frozenset[str]]:
    """The stems of words that mean much the same, by each of them."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in Path(__file__).with_name("related_words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        first, *others = normalized_words(line)
        for other in others:
            if other != first:
                found[first].add(other)
                found[other].add(first)
    return {word: frozenset(related) for word, related in found.items()}


def _weigh_words(tool: IndexedTool) -> dict[str, float]:
    """The words of a tool with what each counts."""
    fields = (
        (NAME_WEIGHT, tool.name),
        (GROUP_WEIGHT, tool.group),
        (DESCRIPTION_WEIGHT, str(tool.spec.get("description", ""))),
        (PARAMETER_WEIGHT, " ".join(_parameter_texts(tool.spec["parameters"]))),
    )
    weights: defaultdict[str, float] = defaultdict(float)
    for weight, text in fields:
        for word in dict.fromkeys(_split(text)):
            weights[word] += weight
    return {word: weight / (weight + SATURATION) for word, weight in weights.items()}


def _parameter_texts(schema: Mapping[str, Any]) -> Iterable[str]:
    for name, value in (schema.get("properties") or {}).items():
        yield str(name)
        if isinstance(value, Mapping):
            yield str(value.get("description", ""))
            yield " ".join(map(str, value.get("enum") or ()))


def _name_words(tool: IndexedTool) -> list[str]:
    """The words of a name; without those of the group, if there are others."""
    words, group = dict.fromkeys(_split(tool.name)), set(_split(tool.group))
    return [word for word in words if word not in group] or list(words)


def _split(text: str) -> list[str]:
    """The stems of the words of a text without stop words."""
    stop = stop_words()
    return [word for word in _stems(text) if word not in stop]


def _stems(text: str) -> list[str]:
    """The stems of the words of a text, also of names such as `listOpenIssues`."""
    return normalized_words(" ".join(_WORD.findall(text)).lower())


def write_catalog(tools: Sequence[IndexedTool], most: int, count: Callable[[str], int]) -> str:
    """The names of all tools in at most so many tokens: with a line each, alone, or as numbers of groups."""
    groups: dict[str, list[IndexedTool]] = {}
    for tool in tools:
        groups.setdefault(tool.group, []).append(tool)
    text = "\n".join(
        "\n".join([f"{group} ({len(own)}):", *(one.line for one in own)]) for group, own in groups.items()
    )
    for shorten in (_list_names, _list_examples, lambda group, own: f"{group} ({len(own)})"):
        if count(text) <= most:
            break
        text = "\n".join(shorten(group, own) for group, own in groups.items())
    return text


def _list_names(group: str, tools: Sequence[IndexedTool]) -> str:
    return f"{group} ({len(tools)}): {', '.join(one.name for one in tools)}"


def _list_examples(group: str, tools: Sequence[IndexedTool]) -> str:
    return _list_names(group, tools[:GROUP_EXAMPLES]).replace(
        f"({min(len(tools), GROUP_EXAMPLES)})", f"({len(tools)})", 1
    ) + (", ..." if len(tools) > GROUP_EXAMPLES else "")
