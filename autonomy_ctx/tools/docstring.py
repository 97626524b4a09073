"""What a docstring tells a model: the purpose, and a line for each argument.

People write arguments in three ways (Google, reST, numpy); a model should not get less because of
which one it was.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_TITLE = re.compile(r"(args|arguments|parameters|params|attributes|keyword args|keyword arguments):\s*", re.I)
_SECTION = re.compile(r"[A-Z][A-Za-z ]{2,30}:\s*")
_GOOGLE = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_REST = re.compile(r":(?:param|parameter|arg|argument|ivar|var)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")
_NUMPY = re.compile(r"(\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?")
_NUMPY_TITLES = {"parameters", "other parameters", "attributes"}


@dataclass(frozen=True, slots=True)
class Documented:
    """The first paragraph, and what is said of each argument."""

    summary: str = ""
    arguments: dict[str, str] = field(default_factory=dict)


def read_docstring(text: str | None) -> Documented:
    """A docstring's first paragraph and its arguments' descriptions."""
    lines = inspect.cleandoc(text or "").splitlines()
    summary: list[str] = []
    for index, line in enumerate(lines):
        if not line.strip() or _starts_arguments(lines, index):
            break
        summary.append(line.strip())
    arguments: dict[str, list[str]] = {}
    for index in range(len(lines)):
        if _TITLE.fullmatch(lines[index]):
            # Below a first line the indent is gone, as it cannot be told from the function's own.
            indent = "" if index else " "
            _read_google([indent + line for line in lines[index + 1 :]], arguments)
        elif _is_numpy_title(lines, index):
            _read_numpy(lines[index + 2 :], arguments)
        elif match := _REST.match(lines[index]):
            arguments[match[1]] = [match[2], *_indented(lines[index + 1 :])]
    return Documented(" ".join(summary), {name: _joined(said) for name, said in arguments.items()})


def _starts_arguments(lines: Sequence[str], index: int) -> bool:
    line = lines[index]
    return bool(_TITLE.fullmatch(line) or _REST.match(line) or _is_numpy_title(lines, index))


def _is_numpy_title(lines: Sequence[str], index: int) -> bool:
    return lines[index].strip().lower() in _NUMPY_TITLES and _is_rule(lines, index + 1)


def _is_rule(lines: Sequence[str], index: int) -> bool:
    return index < len(lines) and len(lines[index]) >= 3 and set(lines[index].strip()) == {"-"}


def _read_google(lines: Sequence[str], into: dict[str, list[str]]) -> None:
    depth, name = 0, ""
    for line in lines:
        if not line.strip():
            continue
        indent = len(line) - len(line.lstrip())
        if not indent:
            break
        depth = depth or indent
        match = _GOOGLE.fullmatch(line.strip()) if indent <= depth else None
        if match:
            name = match[1]
            into[name] = [match[2]]
        elif name:
            into[name].append(line)


def _read_numpy(lines: Sequence[str], into: dict[str, list[str]]) -> None:
    names: list[str] = []
    for index, line in enumerate(lines):
        if _is_rule(lines, index + 1) or _SECTION.fullmatch(line):
            break
        match = None if line[:1].isspace() or not line else _NUMPY.fullmatch(line.strip())
        if match:
            names = [one.strip().lstrip("*") for one in match[1].split(",")]
            into.update({name: [] for name in names})
        else:
            for name in names:
                into[name].append(line)


def _indented(lines: Sequence[str]) -> list[str]:
    """The lines that go on with what the line before began."""
    found: list[str] = []
    for line in lines:
        if not line[:1].isspace():
            break
        found.append(line)
    return found


def _joined(lines: Sequence[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
