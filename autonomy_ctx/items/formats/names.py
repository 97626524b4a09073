"""Names and ids in the few characters that providers take, with distinct ones kept distinct.

Given out in the order of the conversation, so that what was sent once is sent the same way again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import sha256

LONGEST = 64
_ODD = re.compile(r"[^a-zA-Z0-9_-]")
_PLAIN = re.compile(r"[a-zA-Z0-9_-]+")


class Distinct:
    """Gives out names that a provider takes, and none of them twice."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, text: str) -> str:
        """The text itself if it will do and is still free, otherwise something like it."""
        stem = name = spelled(text)
        number = self._numbers.get(stem, 2)
        while name in self._taken:
            suffix = f"-{number}"
            name = stem[: LONGEST - len(suffix)] + suffix
            number += 1
        self._numbers[stem] = number
        self._taken.add(name)
        return name


class CallIds:
    """Ids of calls as a provider takes them, none of them twice in a request.

    An id that has to change gets a mark made from itself: it stays the same when a window begins later.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, call_id: str) -> str:
        """The id itself if it will do and is still free, otherwise something like it."""
        fits = _PLAIN.fullmatch(call_id) and len(call_id) <= self._longest
        free, number = call_id if fits else self._marked(call_id), self._numbers.get(call_id, 1)
        while free in self._taken:
            number += 1
            free = self._marked(f"{call_id} {number}")
        self._numbers[call_id] = number
        self._taken.add(free)
        return free

    def _marked(self, call_id: str) -> str:
        mark = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{_ODD.sub('_', call_id)[: self._longest - 9]}_{mark}"


class ToolNames:
    """How each tool is called on the wire; the tools on offer choose first, the well-named before all."""

    def __init__(self, offered: Iterable[str]) -> None:
        self._distinct = Distinct()
        self._names: dict[str, str] = {}
        for name in sorted(offered, key=lambda name: spelled(name) != name):
            self.of(name)

    def of(self, name: str) -> str:
        """The name on the wire, always the same for the same tool."""
        if name not in self._names:
            self._names[name] = self._distinct.new(name)
        return self._names[name]


def spelled(text: str) -> str:
    """The text in letters, digits, `_` and `-`, at least one and at most 64."""
    return _ODD.sub("_", text)[:LONGEST] or "_"


def led(name: str) -> str:
    """A tool's name as Google takes it: with a letter or `_` first."""
    return name if name[0].isalpha() or name[0] == "_" else f"_{name[:63]}"


def own_names(offered: Iterable[str]) -> dict[str, str]:
    """The own names of tools by those they have on the wire, for those that differ."""
    own = list(offered)
    wire = ToolNames(own)
    sent = [(variant, name) for name in own for variant in (wire.of(name), led(wire.of(name)))]
    return {variant: name for variant, name in sent if variant != name}
