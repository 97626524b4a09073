"""Forms of a word share a stem, and a stem is its own stem."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.language.stemmer import MAX_STEM_LENGTH, light_stems, stem_word
from autonomy_ctx.language.tables import load_index
from autonomy_ctx.language.words import fold_script, normalize_text
from autonomy_ctx.memory.search_terms import index_terms

CORPUS = Path(__file__).parent.parent / "corpus"


@pytest.mark.parametrize(
    "forms",
    [
        *("run runs running", "make makes making", "hope hopes hoping", "hop hops hopped hopping"),
        *("close closes closed closing", "travel travels travelled travelling traveled", "city cities"),
        *("install installs installed installation", "migrate migrates migration", "price prices pricing"),
        *("deploy deployed deployment", "manage manager management", "try tries tried trying"),
        *("eat eating", "use used using", "box boxes", "glass glasses", "file files filed", "need needed"),
    ],
)
def test_forms_of_an_english_word_share_a_stem(forms: str) -> None:
    assert len({stem_word(word) for word in forms.split()}) == 1


@pytest.mark.parametrize(
    "words",
    ["hope hop", "station state", "box boxer", "thing the", "need nee", "news new", "bus bu", "evening even"],
)
def test_other_words_keep_their_own_stem(words: str) -> None:
    one, other = words.split()
    assert stem_word(one) != stem_word(other)


@pytest.mark.parametrize("word", ["4712", "東京", "v2s", "güter", "x" * (MAX_STEM_LENGTH + 1) + "ing"])
def test_numbers_codes_and_words_of_other_scripts_stay(word: str) -> None:
    assert stem_word(word) == word


def test_a_stem_of_the_corpus_is_its_own_stem() -> None:
    stems = {term for path in sorted(CORPUS.iterdir()) for term in index_terms(path.read_text("utf-8")).words}
    assert len(stems) > 1000
    assert [stem for stem in stems if stem_word(stem) != stem] == []


@given(st.text("aeiosdyngrtlm", min_size=1, max_size=20))
def test_any_stem_is_its_own_stem_and_no_longer_than_its_word(word: str) -> None:
    stem = stem_word(word)
    assert stem_word(stem) == stem
    assert 0 < len(stem) <= len(word)


def test_rules_are_written_as_words_are_compared() -> None:
    """A rule with an accent would never fit."""
    for code, rules in load_index().stems.items():
        affixes = [affix for step in rules["steps"] for pair in step["affixes"].items() for affix in pair]
        for word in (*affixes, *rules["irregular"], *rules["irregular"].values()):
            assert fold_script(normalize_text(word)) == word, (code, word)


@pytest.mark.parametrize(
    ("language", "forms"),
    [
        ("de", "hauser haus; rechnungen rechnung; autos auto; lampen lampe; kindes kinder; tochter tochtern"),
        ("de", "konto konten; zentrum zentren; firma firmen; thema themas"),
        ("nl", "huizen huis; brieven brief; katten kat; tafels tafel; kinderen kind"),
        ("sv", "bilar bil; huset hus; fakturor faktura"),
        ("fr", "chevaux cheval; bateaux bateau; factures facture"),
        ("es", "luces luz; ciudades ciudad; canciones cancion; coches coche"),
        ("pt", "cancoes cancao; animais animal; viagens viagem; hoteis hotel"),
        ("it", "libri libro; amiche amica; stazioni stazione"),
        ("pl", "faktury faktura; miastach miasto; numerow numer"),
        ("tr", "kitaplar kitap; kitabi kitap; evler ev"),
        ("ar", "الكتاب كتاب; وبالكتاب كتاب; المعلمون معلم; للشركه شركه"),
        ("ru", "книги книга; красная красный"),
        ("he", "דלתות דלת"),
        ("hi", "लडके लडका"),
    ],
)
def test_forms_of_a_noun_share_a_stem(language: str, forms: str) -> None:
    for pair in forms.split("; "):
        one, other = (next(iter(light_stems(word, [language])), word) for word in pair.split())
        assert one == other, pair


def test_a_word_that_only_looks_like_one_with_an_article_stays() -> None:
    for word in ("الله", "لله", "الى"):
        assert light_stems(word, ()) == [], word
