"""The tables of each language: finished from its words, and found by what a text is written in."""

from __future__ import annotations

import pytest

from autonomy_ctx.language.tables import find_languages, load_language
from autonomy_ctx.language.words import split_words
from docs.make_language import BadTable, finish, finished_files


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
