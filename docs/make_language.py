"""Write the finished tables of every language beside its words: `data/<language>.json` from `.toml`.

    python docs/make_language.py

`[words]` has single words, `[stems]` the endings that the stemmer takes away, as they are; every other table
has phrases by their meaning. A phrase with "^" before it has its meaning only at the beginning of a clause.
"""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from autonomy_ctx.language.words import fold_text, split_words

DATA = Path(__file__).parents[1] / "autonomy_ctx/language/data"
START_MARK = "^"
# Cues that tell the language of a message of one or two words.
TELLING_CUES = ("negation", "acknowledgement", "answer")


class BadTable(ValueError):
    """A table of a language that cannot be read, with what to mend."""


def main() -> None:
    for path, text in finished_files().items():
        path.write_text(text, encoding="utf-8")


def finished_files() -> dict[Path, str]:
    """The files to write, by their path."""
    sources = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.toml"))}
    found = {DATA / f"{code}.json": finish(code, source) for code, source in sources.items()}
    found[DATA / "index.json"] = finish_index(sources)
    return {path: json.dumps(data, ensure_ascii=False, indent=0) + "\n" for path, data in found.items()}


def finish(code: str, source: dict[str, Any]) -> dict[str, Any]:
    """The tables of one language, folded and ready to be used."""
    tables = {name: table for name, table in source.items() if isinstance(table, dict)}
    words = {
        name: finish_words(f"{code}.toml [words] {name}", found)
        for name, found in tables.pop("words").items()
    }
    stems = tables.pop("stems", {})
    phrases = {name: finish_phrases(f"{code}.toml [{name}]", table) for name, table in tables.items()}
    return {"words": words, "phrases": phrases, "stems": stems}


def finish_words(where: str, words: list[str]) -> list[str]:
    for word in words:
        if not word or any(map(str.isspace, word)):
            raise BadTable(f"{where}: {word!r} is not one word; phrases belong into another table")
    return sorted({fold_text(word).replace("\u2019", "'") for word in words})


def finish_phrases(where: str, table: dict[str, list[str]]) -> dict[str, Any]:
    meanings: dict[str, list[str]] = {}
    longest: dict[str, int] = {}
    for meaning, phrases in table.items():
        for phrase in phrases:
            words = split_words(phrase).folded
            if not words:
                raise BadTable(f"{where} {meaning}: {phrase!r} has no words")
            mark = START_MARK if phrase.startswith(START_MARK) else ""
            found = meanings.setdefault(" ".join(words), [])
            if mark + meaning not in found:
                found.append(mark + meaning)
            longest[words[0]] = max(longest.get(words[0], 0), len(words))
    return {"meanings": dict(sorted(meanings.items())), "longest": dict(sorted(longest.items()))}


def finish_index(sources: dict[str, dict[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """Which languages a frequent word or a letter belongs to."""
    words: dict[str, list[str]] = {}
    letters: dict[str, list[str]] = {}
    for code, source in sources.items():
        cues = source.get("cues", {})
        short = [one for name in TELLING_CUES for one in cues.get(name, []) if " " not in one]
        for word in finish_words(
            f"{code}.toml [words] function", source["words"].get("function", []) + short
        ):
            words.setdefault(word, []).append(code)
        for letter in source.get("letters", ""):
            letters.setdefault(letter, []).append(code)
    return {"words": dict(sorted(words.items())), "letters": dict(sorted(letters.items()))}


if __name__ == "__main__":
    try:
        main()
    except (BadTable, tomllib.TOMLDecodeError) as error:
        sys.exit(str(error))
