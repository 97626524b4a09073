"""Sentences and clauses, split in one place for facts, digests and checks."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import any_text, some

from autonomy_ctx.language.sentences import (
    is_binding,
    sentence_ends,
    sentence_spans,
    split_clauses,
    split_prose,
    split_sentences,
)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("we use vim. it is fine. i said no. he left", 4),
        ("Buy No. 5 for Dr. Smith, e.g. today. He waits.", 2),
        ("Nummer 5. Der 2. Versuch am 3. Mai war z.B. gut. Danke.", 3),
        ("Réunion le 3. mai avec M. Dupont. À demain.", 2),
        ("Escribe al Dr. López. Gracias.", 2),
        ("予算は四百ユーロです。明日決めます。", 2),
        ("预算是四百欧元。明天决定。", 2),
        ("هل وصل الطلب؟ نعم وصل.", 2),
        ("The price is 3.50 EUR... maybe 4. We see.", 3),
    ],
)
def test_a_full_stop_ends_a_sentence_or_belongs_to_a_word(text: str, sentences: int) -> None:
    spans = list(sentence_spans(text))
    assert len(spans) == sentences
    assert len(split_sentences(text)) == sentences


@some
@given(any_text)
def test_spans_are_the_whole_text(text: str) -> None:
    assert "".join(text[start:end] for start, end in sentence_spans(text)) == text
    assert sentence_ends(text) == sorted(set(sentence_ends(text)))


def test_the_number_of_a_list_is_no_sentence() -> None:
    assert [text.text for text in split_sentences("1. Buy milk.\n2. Call Ana.")] == ["Buy milk.", "Call Ana."]
    assert len(list(sentence_spans("1. Buy milk."))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "El PIN es 4711. No lo compartas.",
        "The PIN is 4711. Don't share it with them.",
        "Das Passwort ist blau-17. Gib es niemals weiter.",
        "Le code est 4711. Ne le partage pas.",
        "O código é 4711. Não o compartilhe.",
        "Merge it. But only if the tests pass.",
    ],
)
def test_a_denial_of_what_was_said_before_is_not_quoted_apart(text: str) -> None:
    assert [piece for piece in split_prose(text) if piece] == [text]


@pytest.mark.parametrize(
    ("sentence", "clauses"),
    [
        ("Mi clave ZX-9 está en la nota azul, y no lo compartas con nadie, porque es privada.", 2),
        ("If the tests pass on the main branch, and Ana agrees with it; merge the branch.", 1),
        ("We moved to the new cluster; the export takes 40 minutes; never start it while it runs.", 2),
    ],
)
def test_a_clause_stays_with_what_denies_it(sentence: str, clauses: int) -> None:
    found = split_clauses(sentence)
    assert len(found) == clauses, found
    assert "".join(found) == sentence
    assert is_binding(sentence)
