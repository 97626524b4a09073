"""Write the finished tables of every language beside its words: `data/<language>.json` from `.toml`.

    python docs/make_language.py

`docs/contribute/languages.md` explains the tables. `[words]` has single words; `[stems]`, `[weekdays]`,
`[numbers]`, `[months]` and `[synonyms]` are finished here in their own way; every other table has phrases by
their meaning. A phrase with "^" before it has its meaning only at the beginning of a clause.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from autonomy_ctx.language.stemmer import stem_with
from autonomy_ctx.language.words import fold_text, split_words

DATA = Path(__file__).parents[1] / "autonomy_ctx/language/data"
DEFAULT_LANGUAGE, START_MARK, NUMBER_MARK = "en", "^", "#"
OWN_TABLES = ("words", "stems", "weekdays", "short_weekdays", "numbers", "months", "synonyms")
# What a word counts for its language: a frequent one, the same if other languages have it, and one of a date.
CLEAR_VOTES, AMBIGUOUS_VOTES, DATE_VOTES = 2, 1, 1
FORM_WEIGHT, SYNONYM_WEIGHT, KIND_WEIGHT = 1.0, 0.5, 0.4
# Cues that tell the language of a message of one or two words.
TELLING_CUES = ("negation", "acknowledgement", "answer")

Source = dict[str, Any]


class BadTable(ValueError):
    """A table of a language that cannot be read, with what to mend."""


def main() -> None:
    for path, text in finished_files().items():
        path.write_text(text, encoding="utf-8")


def finished_files() -> dict[Path, str]:
    """The files to write, by their path."""
    sources = {path.stem: tomllib.loads(path.read_text("utf-8")) for path in sorted(DATA.glob("*.toml"))}
    scripts = sources.pop("scripts")
    found = {code: finish(code, source) for code, source in sources.items()}
    stems = {code: finish_stems(source["stems"]) for code, source in sources.items() if "stems" in source}
    found |= {"index": finish_index(sources, stems), "scripts": finish_scripts(scripts)}
    found |= {"synonyms": finish_synonyms(sources, stems)}
    return {DATA / f"{name}.json": write_json(data) for name, data in found.items()}


def write_json(data: dict[str, Any]) -> str:
    """JSON with one line for each table: people read the .toml file beside it."""
    lines = (f"{json.dumps(name)}: {json.dumps(table, ensure_ascii=False)}" for name, table in data.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def finish(code: str, source: Source) -> dict[str, Any]:
    """The tables of one language, folded and ready to be used."""
    tables = {name: table for name, table in source.items() if isinstance(table, dict)}
    words = {
        name: finish_words(f"{code}.toml [words] {name}", found) for name, found in tables["words"].items()
    }
    if "months" in tables:
        words["months"] = sorted({fold_text(name) for names in tables["months"].values() for name in names})
    numbers = {
        fold_text(word): int(number) for number, names in tables.get("numbers", {}).items() for word in names
    }
    if "dates" in tables:
        tables["dates"] = name_weekdays(tables)
    phrases = {
        name: finish_phrases(f"{code}.toml [{name}]", table)
        for name, table in tables.items()
        if name not in OWN_TABLES
    }
    return {"words": words, "phrases": phrases, "numbers": numbers}


def finish_words(where: str, words: list[str]) -> list[str]:
    for word in words:
        if not word or any(map(str.isspace, word)):
            raise BadTable(f"{where}: {word!r} is not one word; phrases belong into another table")
    return sorted({fold_text(word).replace("\u2019", "'") for word in words})


def finish_phrases(where: str, table: dict[str, list[str]]) -> dict[str, Any]:
    meanings: dict[str, list[str]] = {}
    longest: dict[str, dict[str, int]] = {}
    for meaning, phrases in table.items():
        for phrase in phrases:
            words = phrase_words(phrase)
            if not words:
                raise BadTable(f"{where} {meaning}: {phrase!r} has no words")
            mark = START_MARK if phrase.startswith(START_MARK) else ""
            found = meanings.setdefault(" ".join(words), [])
            if mark + meaning not in found:
                found.append(mark + meaning)
            following = longest.setdefault(words[0], {})
            for second in words[1:2]:
                following[second] = max(following.get(second, 0), len(words))
    return {"meanings": dict(sorted(meanings.items())), "longest": dict(sorted(longest.items()))}


def phrase_words(phrase: str) -> list[str]:
    """The folded words of a phrase; the place of a number is one."""
    first, *parts = phrase.split(NUMBER_MARK)
    words = list(split_words(first).folded)
    for part in parts:
        words += [NUMBER_MARK, *split_words(part).folded]
    return words


def name_weekdays(tables: Source) -> dict[str, list[str]]:
    """The phrases of `[dates]` with each day of the week in its place; Monday is 0."""
    found: dict[str, list[str]] = {}
    for meaning, phrases in tables["dates"].items():
        for phrase in phrases:
            for place, name in (("%", "weekdays"), ("~", "short_weekdays")):
                if place in phrase:
                    for number, days in enumerate(tables[name].values()):
                        named = f"{meaning} {number}" if meaning.startswith("weekday") else meaning
                        found.setdefault(named, []).extend(phrase.replace(place, day) for day in days)
                    break
            else:
                found.setdefault(meaning, []).append(phrase)
    return found


def finish_stems(table: Source) -> dict[str, Any]:
    """The rules of the stemmer, with what each beginning or ending is replaced by."""
    irregular = {word: stem or word for word, _, stem in map(split_rule, table.get("irregular", []))}
    steps = []
    for step in table.get("steps", []):
        is_prefix = "prefixes" in step
        affixes = step["prefixes" if is_prefix else "endings"]
        rules = {affix: other for affix, _, other in map(split_rule, affixes)}
        longest = max(map(len, rules))
        steps.append({"is_prefix": is_prefix, "least": step["least"], "longest": longest, "affixes": rules})
    found = {"irregular": irregular, "steps": steps, "repeats": table.get("repeats", False)}
    return found | {"links": table.get("links", [])}


def split_rule(rule: str) -> tuple[str, str, str]:
    return rule.partition(">")


def finish_index(sources: dict[str, Source], stems: dict[str, Any]) -> dict[str, Any]:
    """What is needed before the language of a text is known."""
    words: dict[str, dict[str, int]] = {}
    letters: dict[str, list[str]] = {}
    months: dict[str, list[int]] = {}
    ambiguous = set(map(fold_text, sources[DEFAULT_LANGUAGE]["words"]["ambiguous"]))
    stop: list[str] = []
    for code, source in sources.items():
        function = finish_words(f"{code}.toml [words] function", source["words"]["function"])
        if source.get("unsearched"):
            stop += function
        for word in function:
            is_clear = code == DEFAULT_LANGUAGE or word not in ambiguous
            words.setdefault(word, {})[code] = CLEAR_VOTES if is_clear else AMBIGUOUS_VOTES
        cues = source.get("cues", {})
        short = [one for name in TELLING_CUES for one in cues.get(name, []) if " " not in one]
        for word in (*date_words(source), *finish_words(f"{code}.toml [cues]", short)):
            words.setdefault(word, {}).setdefault(code, DATE_VOTES)
        for letter in source.get("letters", ""):
            letters.setdefault(letter, []).append(code)
        for number, names in source.get("months", {}).items():
            for name in map(fold_text, names):
                months[name] = sorted({*months.get(name, []), int(number)})
    # English words are stemmed in every text.
    spaced = [code for code in stems if "script" not in sources[code] and code != DEFAULT_LANGUAGE]
    joining = [code for code in spaced if sources[code].get("joins_words")]
    return {
        "languages": [code for code, source in sources.items() if "cues" in source],
        "words": dict(sorted(words.items())),
        "foreign_words": sorted(
            word
            for word, votes in words.items()
            if any(count == CLEAR_VOTES for code, count in votes.items() if code != DEFAULT_LANGUAGE)
        ),
        "letters": dict(sorted(letters.items())),
        "stems": stems,
        "latin": joining + [code for code in spaced if code not in joining],
        "compound": joining,
        "scripts": [[*source["script"], code] for code, source in sources.items() if "script" in source],
        "stop_words": sorted(set(stop)),
        "months": dict(sorted(months.items())),
        "month_names": longest_first(
            name.capitalize()
            for source in sources.values()
            for names in source.get("months", {}).values()
            for name in names
        ),
        "ordinal_endings": longest_first(words_of(sources, "ordinal_endings")),
        "date_joints": longest_first(words_of(sources, "date_joints")),
        "word_pairs": longest_first(words_of(sources, "pairs")),
    }


def words_of(sources: dict[str, Source], name: str) -> list[str]:
    """A list of `[words]`, of all languages."""
    return [fold_text(word) for source in sources.values() for word in source["words"].get(name, [])]


def longest_first(words: Iterable[str]) -> list[str]:
    return sorted(set(words), key=lambda word: (-len(word), word))


def date_words(source: Source) -> set[str]:
    """The words of the dates of a language, by which it can be told as well."""
    phrases = [
        phrase
        for table in ("dates", "weekdays", "months")
        for some in source.get(table, {}).values()
        for phrase in some
    ]
    return {word for phrase in phrases for word in phrase_words(phrase)} - {NUMBER_MARK}


def finish_scripts(source: Source) -> dict[str, dict[str, str]]:
    """One letter for another, over all scripts."""
    tables: dict[str, dict[str, str]] = {}
    for name in ("letters", "digraphs"):
        rules = [rule for key, some in source[name].items() if key != "han" for rule in some]
        tables[name] = {letter: other for letter, _, other in map(split_rule, rules)}
    han = "".join(source["letters"]["han"])
    kana = {chr(code): chr(code - 0x60) for code in range(0x30A1, 0x30F7)}
    tables["letters"] |= kana | dict(zip(han[::2], han[1::2], strict=True))
    return tables


def finish_synonyms(sources: dict[str, Source], stems: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The stems that may stand for another in an answer, each with the part of its weight they have."""
    table: dict[str, dict[str, float]] = {}
    for code, source in sources.items():
        for word, other, weight in related_words(source.get("synonyms", {})):
            one, second = stem_with(stems[code], word), stem_with(stems[code], other)
            if one != second:
                known = table.setdefault(one, {})
                known[second] = max(weight, known.get(second, 0.0))
    return dict(sorted(table.items()))


def related_words(source: Source) -> Iterator[tuple[str, str, float]]:
    for name, weight in (("forms", FORM_WEIGHT), ("groups", SYNONYM_WEIGHT)):
        for group in source.get(name, []):
            words = group.split()
            yield from ((word, other, weight) for word in words for other in words)
    for row in source.get("kinds", []):
        kind, _, members = row.partition(":")
        yield from ((kind, member, KIND_WEIGHT) for member in members.split())


if __name__ == "__main__":
    try:
        main()
    except (BadTable, tomllib.TOMLDecodeError) as error:
        sys.exit(str(error))
