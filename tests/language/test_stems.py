"""Stems are those of SQLite's full-text index, so that every store finds the same words."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.language.search_terms import index_terms
from autonomy_ctx.language.stems import stem_term

CORPUS = Path(__file__).parent.parent / "corpus"
ENDINGS = (
    *("", "s", "es", "ies", "sses", "ed", "eed", "ing", "y", "ational", "tional", "enci", "izer", "ousli"),
    *("ization", "ator", "alism", "iveness", "fulness", "aliti", "biliti", "logi", "icate", "ative", "ful"),
    *(
        "alize",
        "ical",
        "ness",
        "ance",
        "ement",
        "ment",
        "ent",
        "sion",
        "tion",
        "ion",
        "ism",
        "ize",
        "e",
        "ll",
    ),
)
MADE_UP = st.builds(str.__add__, st.text("abeilosty", min_size=1, max_size=8), st.sampled_from(ENDINGS))


def sqlite_stems(words: list[str]) -> dict[str, str]:
    """What SQLite's index makes of each word."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE word USING fts5 (text, tokenize = 'porter ascii')")
        connection.execute("CREATE VIRTUAL TABLE stem USING fts5vocab (word, instance)")
        numbered = list(enumerate(dict.fromkeys(words), 1))
        connection.executemany("INSERT INTO word (rowid, text) VALUES (?, ?)", numbered)
        stems = dict(connection.execute("SELECT doc, term FROM stem").fetchall())
    return {word: stems[number] for number, word in numbered}


def test_words_of_every_language_have_the_stems_of_sqlite() -> None:
    words = [term for path in sorted(CORPUS.iterdir()) for term in index_terms(path.read_text("utf-8")).words]
    expected = sqlite_stems(words)
    assert len(expected) > 1000
    assert {word: stem_term(word) for word in expected} == expected


@given(st.lists(MADE_UP, min_size=1))
def test_made_up_words_have_the_stems_of_sqlite(words: list[str]) -> None:
    expected = sqlite_stems(words)
    assert {word: stem_term(word) for word in expected} == expected


@pytest.mark.parametrize(
    ("word", "stem"),
    [("running", "run"), ("stations", "station"), ("files", "file"), ("4712", "4712"), ("東京", "東京")],
)
def test_forms_of_a_word_share_a_stem(word: str, stem: str) -> None:
    assert stem_term(word) == stem_term(stem)


def test_a_very_long_term_stays_as_it_is() -> None:
    assert stem_term("a" * 60 + "ations") == "a" * 60 + "ations"
