"""The tables of each language: finished from its words, and found by what a text is written in."""

from __future__ import annotations

import re
import tomllib
from itertools import pairwise
from typing import Any

import pytest

from autonomy_ctx.language.tables import find_languages, load_index, load_language
from autonomy_ctx.language.words import split_words
from docs.make_language import DATA, OWN_TABLES, BadTable, finish, finished_files

FILES = sorted(DATA.glob("*.toml"))
# Tables whose keys say what belongs into each list.
# Their keys say what belongs into them.
NAMED_LISTS = frozenset(
    {"weekdays", "short_weekdays", "numbers", "months", "reply", "attributes", "profile", "tools"}
)
SPANS = r"(?:day|week|weekend|month|month end|year) (?:-?\d+|[+-]#)"
WEEKDAYS = r"weekday (?:said|coming|next|last|last week|this week|next week) [0-6]"


def read_source(code: str) -> dict[str, Any]:
    return tomllib.loads((DATA / f"{code}.toml").read_text("utf-8"))


def test_the_finished_tables_are_those_of_the_words() -> None:
    """After a change of a .toml file, `make language` was run."""
    for path, text in finished_files().items():
        assert path.read_text("utf-8") == text, f"{path.name} is not up to date: run `make language`"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Never deploy on Fridays", "en"),
        ("Das ist für die Küche", "de"),
        ("il n'est pas dans la liste", "fr"),
        ("la dirección está en el correo", "es"),
        ("não quero o de ontem", "pt"),
        ("予算は四百ユーロです", "ja"),
        ("这是我的预算", "zh"),
        ("الميزانية أربعمائة يورو", "ar"),
        ("Kafka 400 EUR", "en"),
    ],
)
def test_a_text_is_read_in_its_language(text: str, language: str) -> None:
    assert find_languages(split_words(text).folded, text) == (language,)


def test_the_longest_phrase_at_a_place_is_found() -> None:
    words = split_words("You're welcome, as long as it is not on Friday.")
    found = [
        (" ".join(words.folded[one.first : one.last + 1]), *one.meanings)
        for one in load_language("en").phrases["cues"].find(words)
    ]
    assert ("you're welcome", "acknowledgement") in found
    assert ("as long as", "condition", "restriction") in found


def test_a_bad_table_is_named() -> None:
    with pytest.raises(BadTable, match=r"xx.toml \[words\] function: 'two words' is not one word"):
        finish("xx", {"words": {"function": ["two words"]}})
    with pytest.raises(BadTable, match=r"xx.toml \[facts\] rule: '...' has no words"):
        finish("xx", {"words": {}, "facts": {"rule": ["..."]}})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_table_and_list_says_what_belongs_into_it(path: Any) -> None:
    table = ""
    for before, line in pairwise(["", *path.read_text("utf-8").splitlines()]):
        if line.startswith("["):
            table = line.strip("[]")
            assert before.startswith("# "), f"{path.name}: no comment above {line}"
        # The list of a step has a comment above its step.
        elif re.match(r'[\w"].* = \[', line) and table not in NAMED_LISTS and table != "stems.steps":
            assert before.startswith("# "), f"{path.name} [{table}]: no comment above {line}"


@pytest.mark.parametrize("code", [path.stem for path in FILES if path.stem != "scripts"])
def test_no_list_has_a_phrase_twice(code: str) -> None:
    for name, table in read_source(code).items():
        for meaning, phrases in table.items() if isinstance(table, dict) and name != "synonyms" else ():
            if isinstance(phrases, list) and all(isinstance(one, str) for one in phrases):
                twice = {phrase for phrase in phrases if phrases.count(phrase) > 1}
                assert twice == set(), f"{code}.toml [{name}] {meaning}"


def test_languages_with_phrases_have_the_same_tables_and_the_same_meanings_of_cues() -> None:
    sources = {code: read_source(code) for code in load_index().languages}
    assert len(sources) >= 8
    tables = {code: source.keys() - set(OWN_TABLES) for code, source in sources.items()}
    optional = {"name", "letters", "script", "joins_words", "unsearched"}
    assert {code: found - optional for code, found in tables.items()} == dict.fromkeys(
        tables, tables["en"] - optional
    )
    for code, source in sources.items():
        # Clauses of Chinese and Japanese are told by their marks.
        spaced = {"conjunction", "clause_start", "continuation", "after_number"}
        missing = spaced if code in ("ja", "zh") else set()
        assert source["cues"].keys() | missing == sources["en"]["cues"].keys(), code
        assert all(source["cues"].values()), code


@pytest.mark.parametrize("code", load_index().languages)
def test_every_date_has_a_meaning_that_can_be_resolved(code: str) -> None:
    phrases = load_language(code).phrases["dates"].meanings
    assert len(phrases) > 50
    for phrase, meanings in phrases.items():
        assert re.fullmatch(f"none|{SPANS}|{WEEKDAYS}", meanings[0]), (phrase, meanings)
        assert ("#" in phrase) == ("#" in meanings[0]), phrase


def test_a_text_in_a_language_without_phrases_is_read_in_none_that_is_near() -> None:
    text = "abbiamo parlato con gli altri di questo"
    assert find_languages(split_words(text).folded, text) == ("en",)


def test_a_language_is_loaded_when_it_is_needed() -> None:
    assert load_language("it").phrases == {}
    assert set(load_index().latin).isdisjoint({"en", "ru", "ja"})
