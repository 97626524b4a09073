"""The size of the language engine, and how long the first sentence in each language takes.

Each language is read in a fresh interpreter: its finished table, the same file by `tomllib`, and the first
sentence with the index of all languages, its phrases and its dates. The lines of code are those that are
neither empty nor a comment nor a part of a docstring.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import autonomy_ctx
from benchmarks.table import Figure

PACKAGE = Path(str(autonomy_ctx.__file__)).parent
DATA = PACKAGE / "language/data"
ROUNDS = 7
MAX_LANGUAGE_LINES, MAX_CHECKS_LINES, MAX_MILLISECONDS = 2_000, 400, 5.0
SENTENCES = {
    "ar": "أريد التقرير قبل يوم الاثنين من فضلك",
    "de": "Bitte schick mir den Bericht bis Montag",
    "en": "Please send me the report by Monday",
    "es": "Por favor, envíame el informe antes del lunes",
    "fr": "Envoie-moi le rapport avant lundi, merci",
    "ja": "月曜日までに報告書を送ってください",
    "pt": "Por favor, me envie o relatório até segunda-feira",
    "zh": "请在周一之前把报告发给我",
}
_TIMED = """
import json, sys, time, tomllib
from datetime import datetime
from pathlib import Path
from autonomy_ctx.language import dates, tables, words
from autonomy_ctx.memory import search_terms
code, sentence, data = sys.argv[1:]
def seconds(work):
    began = time.process_time()
    work()
    return time.process_time() - began
def first():
    found = words.split_words(sentence)
    for one in tables.find_languages(found.folded, sentence):
        for table in tables.load_language(one).phrases.values():
            list(table.find(found))
toml = (Path(data) / f"{code}.toml").read_text("utf-8")
print(json.dumps([
    seconds(lambda: json.loads((Path(data) / f"{code}.json").read_bytes())),
    seconds(lambda: tomllib.loads(toml)),
    seconds(first),
    seconds(lambda: dates.resolve_dates(sentence, datetime(2026, 5, 15))),
    seconds(lambda: search_terms.index_terms(sentence)),
]))
"""


def count_lines(*paths: Path) -> tuple[int, int]:
    """All lines of some modules, and those of code."""
    texts = [path.read_text("utf-8") for path in paths]
    return sum(len(text.splitlines()) for text in texts), sum(map(count_code_lines, texts))


def count_code_lines(text: str) -> int:
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        number not in prose and bool(line.strip()) and line.strip()[0] != "#" for number, line in lines
    )


def time_language(code: str) -> list[float]:
    """Milliseconds of CPU in a fresh process: JSON, TOML, the first sentence, its dates, its terms."""
    command = [sys.executable, "-c", _TIMED, code, SENTENCES[code], str(DATA)]
    ran = [
        json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(ROUNDS)
    ]
    return [median(taken) * 1e3 for taken in zip(*ran, strict=True)]


async def measure(folder: Path) -> list[Figure]:
    sizes = {
        "language/": (count_lines(*sorted((PACKAGE / "language").glob("*.py"))), MAX_LANGUAGE_LINES),
        "compaction/checks.py": (count_lines(PACKAGE / "compaction/checks.py"), MAX_CHECKS_LINES),
    }
    print("\n  ms of CPU        json    toml   first sentence   then its dates   then its terms")
    firsts: dict[str, float] = {}
    for code in SENTENCES:
        finished, source, sentence, dates, terms = time_language(code)
        firsts[code] = sentence + dates
        print(f"  {code:<12} {finished:8.2f} {source:7.1f} {sentence:16.2f} {dates:16.2f} {terms:16.2f}")
    slowest = max(firsts, key=lambda code: firsts[code])
    figures = [
        Figure(
            name=f"lines of {name}, of which {code} are code",
            ours=f"{lines:,}",
            floor="none",
            value=lines,
            bound=bound,
        )
        for name, ((lines, code), bound) in sizes.items()
    ]
    return [
        *figures,
        Figure(
            name=f"first sentence of a language with its dates, the slowest ({slowest}), in milliseconds",
            ours=f"{firsts[slowest]:.2f} ms",
            floor="none",
            value=firsts[slowest],
            bound=MAX_MILLISECONDS,
        ),
    ]
