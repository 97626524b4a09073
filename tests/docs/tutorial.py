"""The chapters of the tutorial: each a page and a program."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

from docs.snippets import ROOT, snippets

CHAPTERS = sorted((ROOT / "docs" / "tutorial").glob("[0-9]-*.md"))
PROGRAMS = ROOT / "examples" / "tutorial"

_RUN = re.compile(r"^python examples/tutorial/(\w+\.py)$", re.MULTILINE)
_OUTPUT = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def program_of(page: Path) -> Path:
    """The one program that a chapter runs."""
    [name] = _RUN.findall(page.read_text(encoding="utf-8"))
    return PROGRAMS / str(name)


def output_on(page: Path) -> str:
    """What a chapter says that its program prints."""
    [output] = _OUTPUT.findall(page.read_text(encoding="utf-8"))
    return str(output)


def foreign_code(page: Path) -> list[str]:
    """Where a page shows code that is not in its program; the last piece must be all of it."""
    program = program_of(page).read_text(encoding="utf-8")
    *parts, whole = snippets(page)
    foreign = [part.place for part in parts if not _contains(program, part.source)]
    return foreign if whole.source == program else [*foreign, whole.place]


def _contains(program: str, part: str) -> bool:
    """Whether a program has these lines one after the other, at any level of indentation."""
    return any(f"\n{textwrap.indent(part, ' ' * 4 * level)}" in program for level in range(4))
