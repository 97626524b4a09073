"""The Python of a Markdown page, run as a reader would run it: in one session, or each piece alone."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import start_blocking_portal

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# A fence, its language, what is inside; then perhaps the block that shows what it prints.
_BLOCK = re.compile(r"^```python\n(.*?)^```\n(?:\n?```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A block of Python, where it stands, and what the page says it prints."""

    page: Path
    line: int
    source: str
    prints: str | None

    @property
    def place(self) -> str:
        return f"{shown(self.page)}:{self.line}"


def shown(page: Path) -> str:
    """A page's path as a reader knows it."""
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name


def snippets(page: Path) -> list[Snippet]:
    """All Python blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Snippet(page, text.count("\n", 0, found.start(1)) + 1, found[1], found[2])
        for found in _BLOCK.finditer(text)
    ]


def run(page: Path, folder: Path, *, alone: bool = False) -> dict[str, Any]:
    """Run a page in a folder and give its names; an `AssertionError` says where it went wrong.

    With `alone`, no snippet knows the names of those before it.
    """
    namespace: dict[str, Any] = {"__name__": "snippets"}
    with contextlib.chdir(folder), start_blocking_portal() as portal:
        for snippet in snippets(page):
            # Line numbers in tracebacks are those of the page.
            source = "\n" * (snippet.line - 1) + snippet.source
            printed = io.StringIO()
            namespace = {"__name__": "snippets"} if alone else namespace
            try:
                flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                # Annotations are what they are for a reader, and not text, as they are in this module.
                code = compile(source, str(page), "exec", flags=flags, dont_inherit=True)
                with contextlib.redirect_stdout(printed):
                    # What awaits runs in a loop that lives as long as the page; what does not, outside it.
                    if code.co_flags & inspect.CO_COROUTINE:
                        portal.call(_awaited, code, namespace)
                    else:
                        exec(code, namespace)
            except Exception as error:
                raise AssertionError(f"{_place(snippet, error)}: {type(error).__name__}: {error}") from error
            if snippet.prints is not None:
                assert printed.getvalue() == snippet.prints, (
                    f"{snippet.place} prints something else:\n{printed.getvalue()}"
                )
    return namespace


async def _awaited(code: Any, namespace: dict[str, Any]) -> None:
    await eval(code, namespace)


def _place(snippet: Snippet, error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"{shown(snippet.page)}:{error.lineno}"
    steps = traceback.extract_tb(error.__traceback__)
    lines = [step.lineno for step in steps if step.filename == str(snippet.page)]
    return f"{shown(snippet.page)}:{lines[-1] if lines else snippet.line}"
