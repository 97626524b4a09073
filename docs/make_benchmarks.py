"""The list of benchmarks in these docs: each by its name, with the first line of its own docstring.

python -m docs.make_benchmarks
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.__main__ import ALL

PAGE = Path(__file__).parent / "benchmarks.md"
HEAD = "| name | what it measures |\n|---|---|\n"


def list_benchmarks() -> str:
    """The rows of the table."""
    modules = {name: sys.modules[measure.__module__] for name, measure in ALL.items()}
    return "".join(
        f"| `{name}` | {(module.__doc__ or '').strip().splitlines()[0]} |\n"
        for name, module in modules.items()
    )


def main() -> None:
    before, _, old = PAGE.read_text(encoding="utf-8").partition(HEAD)
    _, blank, after = old.partition("\n\n")
    PAGE.write_text(before + HEAD + list_benchmarks().rstrip() + "\n" + blank[1:] + after, encoding="utf-8")


if __name__ == "__main__":
    main()
