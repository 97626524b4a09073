"""Words are found in other forms, and what a text says is among what it is found by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.language.tables import guess_languages, load_index
from autonomy_ctx.language.words import fold_script, fold_text, normalize_text, spelling_forms
from autonomy_ctx.memory.search_terms import (
    FORM_MARK,
    HEAD_MARK,
    MAX_TERM_LENGTH,
    TAIL_MARK,
    folded_terms,
    index_terms,
    search_terms,
    syllables,
)

# Letters with something to fold, and what they are folded to.
LETTERS = "aeouäöüßåøæœłıİIéñsxnrlt ٠١٢أإآاىيیةهکكالوبكًَُّـ\u200c֑שלוםהיתङअंकि़यँगาเน้ำกカかｶ東东國国がギё й Σςσ"
TEXTS = st.text() | st.text(LETTERS) | st.text("abcdefghijklmnopqrstuvwxyzäöüß ", max_size=60)


@given(TEXTS)
def test_normalizing_and_folding_twice_change_nothing(text: str) -> None:
    plain = normalize_text(text)
    assert normalize_text(plain) == plain
    folded = fold_script(plain)
    assert fold_script(folded) == folded


@given(TEXTS)
def test_a_text_is_found_by_each_of_its_words(text: str) -> None:
    assert set(search_terms(text)) <= set(index_terms(text).words)


@given(TEXTS)
def test_a_form_is_never_taken_for_a_word(text: str) -> None:
    words, forms = index_terms(text)
    marks = (FORM_MARK, HEAD_MARK, TAIL_MARK)
    assert not any(mark in word for word in words for mark in marks)
    assert all(form.startswith(marks) and len(form) <= MAX_TERM_LENGTH for form in forms)


@given(TEXTS)
def test_a_word_in_plain_letters_finds_the_text(text: str) -> None:
    terms = index_terms(text)
    for word in search_terms(text):
        plain = fold_script(word)
        if plain != word and search_terms(plain) == [plain]:
            asked = folded_terms(plain, 100)
            assert set(asked.forms) & set(terms.forms), (word, plain)


@given(TEXTS)
def test_what_is_looked_for_is_bounded(text: str) -> None:
    for some in folded_terms(text, 7):
        assert len(some) <= 7


@given(st.text("กขคงาเแโ้่ำัลວນາເ\u1780\u17d2\u1781\u17b6\u1000\u103a\u1039", min_size=1))
def test_syllables_are_the_run(run: str) -> None:
    assert "".join(syllables(run)) == run


@pytest.mark.parametrize(
    ("word", "plain"),
    [
        ("Müller", "muller"),
        ("Straße", "strasse"),
        ("Łódź", "lodz"),
        ("İSTANBUL", "istanbul"),
        ("Ørsted", "orsted"),
        ("Đà", "da"),
        ("ёлка", "елка"),
        ("йод", "йод"),
        ("λόγος", "λογοσ"),
        ("كَتَبَ", "كتب"),
        ("أحمد", "احمد"),
        ("کتاب", "كتاب"),
        ("مدرسة", "مدرسه"),
        ("שָׁלוֹם", "שלומ"),
        ("हिन्दी", "हिंदी"),
        ("ज़मीन", "जमीन"),
        ("カメラ", "かめら"),
        ("圖書館", "图书馆"),
        ("学校", "学校"),
    ],
)
def test_a_word_in_plain_letters(word: str, plain: str) -> None:
    assert fold_script(normalize_text(word)) == plain


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ＰＲ－４４１２", "pr-4412"),
        ("٢٠٢٤ ۲۵ १२ ๑๒", "2024 25 12 12"),
        ("كتـــاب", "كتاب"),
        ("می\u200cروم", "میروم"),
    ],
)
def test_what_a_reader_does_not_see_is_taken_away(text: str, plain: str) -> None:
    assert normalize_text(text) == plain


def test_an_umlaut_may_be_spelled_in_three_ways() -> None:
    assert spelling_forms("müller") == ["muller", "mueller"]
    assert spelling_forms("mueller") == ["muller"]
    assert spelling_forms("question") == []


def guess(text: str) -> tuple[str, ...]:
    return guess_languages(fold_text(text).split(), text)


def test_the_language_of_a_text_is_that_of_its_little_words() -> None:
    assert guess("wir haben das gestern gekauft") == ("de",)
    assert guess("nous avons une maison") == ("fr",)
    assert guess("abbiamo parlato con gli altri") == ("it",)
    assert guess("the plan of the house") == ("en",)
    assert guess("plan") == ()
    assert set(guess("ł")) <= set(load_index().latin)


def test_english_has_no_other_forms() -> None:
    assert index_terms("The stations of the houses were planned by universities").forms == []
    assert index_terms("error 500 in the handler of users.find_one").forms == []


def test_data_has_no_other_forms() -> None:
    row = "id name price stock colour weight height width length status"
    assert index_terms(f"{row} {row}").forms == []
