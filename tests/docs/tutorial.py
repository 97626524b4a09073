"""The chapters of the tutorial: each a page and a program."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from docs.snippets import ROOT, snippets

CHAPTERS = sorted((ROOT / "docs" / "tutorial").glob("[0-9]-*.md"))
PROGRAMS = ROOT / "examples" / "tutorial"

_RUN = re.compile(r"^python (\w+\.py)$", re.MULTILINE)
_SENT = re.compile(r"^(turn .* stored, )( ?\d+)( sent)$")
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


def differences(printed: str, page: str) -> list[str]:
    """The lines that a chapter does not have.

    The number of messages that are sent may differ by one: a summary covers the answer of its turn if it
    is stored already.
    """
    pairs = zip_longest(printed.splitlines(), page.splitlines(), fillvalue="")
    return [f"{line!r}, not {shown!r}" for line, shown in pairs if not _same(line, shown)]


def _same(line: str, shown: str) -> bool:
    found, expected = _SENT.match(line), _SENT.match(shown)
    if found is None or expected is None or found[1] != expected[1]:
        return line == shown
    return abs(int(found[2]) - int(expected[2])) <= 1


@contextmanager
def running(python: Path, program: Path, database_url: str) -> Iterator[tuple[str, str]]:
    """What the last program printed until it served, and the address of its inspector; Ctrl-C ends it."""
    with subprocess.Popen(
        [python, "-W", "error", program, "0"],
        cwd=program.parent,
        env={**os.environ, "DATABASE_URL": database_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if line.startswith("inspector:"):
                break
        found = re.search(r"^inspector: (\S+)$", printed, re.MULTILINE)
        try:
            assert found is not None, printed + process.stderr.read()
            yield printed, found[1]
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def without_address(printed: str) -> str:
    """What the last program printed, with the port and the token of the page."""
    return re.sub(r"#token=\S+", "#token=...", re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", printed))


def _contains(program: str, part: str) -> bool:
    """Whether a program has these lines one after the other, at any level of indentation."""
    return any(f"\n{textwrap.indent(part, ' ' * 4 * level)}" in program for level in range(4))
