"""Puts the whole program of each chapter of the tutorial, and what it prints, into the chapter.

python docs/make_tutorial.py

The programs are those of examples/tutorial. They run one after the other in one new folder, as a reader
runs them. The pieces of code that a chapter explains stay as they are: `tests/docs/test_tutorial.py` says
which of them the program no longer has. The output of the last chapter stays, too: its program needs a
PostgreSQL server.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROGRAMS = ROOT / "examples" / "tutorial"
_RUN = re.compile(r"^python (\w+\.py)$", re.MULTILINE)
_OUTPUT = re.compile(r"^```text\n.*?^```$", re.MULTILINE | re.DOTALL)
_WHOLE = re.compile(r"^(<details .*?</summary>\n\n)```python\n.*?^```$", re.MULTILINE | re.DOTALL)


def update(text: str, folder: str) -> str:
    """A chapter with the program and the output of today."""
    [name] = _RUN.findall(text)
    program = (PROGRAMS / name).read_text(encoding="utf-8")
    text = _WHOLE.sub(lambda found: f"{found[1]}```python\n{program}```", text)
    if "DATABASE_URL" in program:
        return text
    done = subprocess.run(  # noqa: S603  # a program of this repository
        [sys.executable, PROGRAMS / name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return _OUTPUT.sub(lambda _: f"```text\n{done.stdout}```", text)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for page in sorted((ROOT / "docs" / "tutorial").glob("[0-9]-*.md")):
            page.write_text(update(page.read_text(encoding="utf-8"), folder), encoding="utf-8")


if __name__ == "__main__":
    main()
