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
NAME_WEIGHT, GROUP_WEIGHT, DESCRIPTION_WEIGHT, PARAMETER_WEIGHT = 3.0, 2.0, 1.0, 1.0
SATURATION = 1.0
# What a word counts for that begins like another one, and the letters that both have in common.
PREFIX_WEIGHT, PREFIX_LETTERS = 0.5, 4
# What a word counts for that means much the same.
RELATED_WEIGHT = 0.5
# What a tool gains that has all words of a request, in parts of its score.
COVERAGE_GAIN = 1.0
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
        self._weights: list[dict[str, float]] = [_weigh_words(tool) for tool in tools]
        found = Counter(word for weights in self._weights for word in weights)
        self._rarity = {word: math.log(1 + len(tools) / count) for word, count in found.items()}
        self._related = read_related_words() if tools else {}
        self._by_prefix: defaultdict[str, list[str]] = defaultdict(list)
        for word in found:
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
        forms = [self._forms(word) for word in dict.fromkeys(_split(request))]
        forms = [one for one in forms if one]
        scored: list[tuple[float, int]] = []
        most = [max(share * self._rarity[word] for word, share in one) for one in forms]
        for at, weights in enumerate(self._weights):
            matches = [
                max((share * weights.get(word, 0.0) * self._rarity[word] for word, share in one))
                for one in forms
            ]
            if total := sum(matches):
                had = sum(part for part, match in zip(most, matches, strict=True) if match)
                scored.append((total * (1 + COVERAGE_GAIN * had / sum(most)), -at))
        return [-at for _, at in sorted(scored, reverse=True)]

    def _forms(self, word: str) -> list[tuple[str, float]]:
        """The words of tools that a word stands for, with what each counts."""
        found = {word: 1.0} if word in self._rarity else {}
        if not found and len(word) >= PREFIX_LETTERS:
            found = dict.fromkeys(self._by_prefix.get(word[:PREFIX_LETTERS], ()), PREFIX_WEIGHT)
        for one in self._related.get(word, ()):
            if one in self._rarity:
                found.setdefault(one, RELATED_WEIGHT)
        return list(found.items())


def read_related_words() -> Mapping[str, frozenset[str]]:
    """The stems of words that mean much the same, by each of them."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for line in Path(__file__).with_name("related_words.txt").read_text(encoding="utf-8").splitlines():
        words = [] if line.startswith("#") else normalized_words(line)
        for word in words:
            found[word].update(one for one in words if one != word)
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


def _split(text: str) -> list[str]:
    """The stems of the words of a text, also of names such as `listOpenIssues`, without stop words."""
    stop = stop_words()
    parts = " ".join(_WORD.findall(text)).lower()
    return [word for word in normalized_words(parts) if word not in stop]


def write_catalog(tools: Sequence[IndexedTool], most: int, count: Callable[[str], int]) -> str:
    """The names of all tools in at most so many tokens: with a line each, alone, or as numbers of groups."""
    groups: dict[str, list[IndexedTool]] = {}
    for tool in tools:
        groups.setdefault(tool.group, []).append(tool)
    text = "\n".join(
        "\n".join([f"{group} ({len(own)}):", *(one.line for one in own)]) for group, own in groups.items()
    )
    for shorten in (_list_names, _list_examples, _list_group):
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


def _list_group(group: str, tools: Sequence[IndexedTool]) -> str:
    return f"{group} ({len(tools)})"
