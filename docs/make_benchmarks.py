"""The list of benchmarks in these docs, and the comparison with other frameworks in the README.

Each benchmark is listed by its name, with the first line of its own docstring. The comparison has some of the
columns of the table in docs/benchmarks.md, which `make bench-peers ARGS=--markdown` prints.

python -m docs.make_benchmarks
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from benchmarks.__main__ import ALL, PUBLIC

PAGE = Path(__file__).parent / "benchmarks.md"
README = Path(__file__).parent.parent / "README.md"
HEAD = "| name | what it measures |\n|---|---|\n"
PEERS_HEAD = "| system | level |"
README_BEGIN, README_END = "<!-- comparison: begin -->\n", "<!-- comparison: end -->\n"
COLUMNS = {
    "level": "ceiling/floor",
    "waits": "turns that waited for a summary",
    "p95": "turn, 95th percentile",
    "largest": "largest request, tokens",
    "cost": "cost",
    "facts": "facts known at the end",
    "lost": "messages lost",
}


def list_benchmarks() -> str:
    """The rows of the table."""
    modules = {name: import_module(f"benchmarks.{name}") for name in [*ALL, *PUBLIC]}
    return "".join(
        f"| `{name}` | {(module.__doc__ or '').strip().splitlines()[0]} |\n"
        for name, module in modules.items()
    )


def shorten_comparison() -> str:
    """The table of the README: that of the page, with some of its columns."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(PEERS_HEAD))
    names = _split_row(lines[start])
    table = ["| | " + " | ".join(COLUMNS.values()) + " |", "|---|" + "---|" * len(COLUMNS)]
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        row = dict(zip(names, _split_row(line), strict=True))
        table.append(f"| {row['system']} | " + " | ".join(row[name] for name in COLUMNS) + " |")
    return "\n".join(table) + "\n"


def _split_row(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def main() -> None:
    before, _, old = PAGE.read_text(encoding="utf-8").partition(HEAD)
    _, blank, after = old.partition("\n\n")
    PAGE.write_text(before + HEAD + list_benchmarks().rstrip() + "\n" + blank[1:] + after, encoding="utf-8")
    before, begin, old = README.read_text(encoding="utf-8").partition(README_BEGIN)
    _, end, after = old.partition(README_END)
    README.write_text(f"{before}{begin}\n{shorten_comparison()}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
