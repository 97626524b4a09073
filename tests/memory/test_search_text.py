"""The terms of a text."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.language.stemmer import stem_word
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.memory.search_terms import MAX_TERM_LENGTH, index_terms


@given(
    words=st.lists(
        st.text("abXYZ019", min_size=1, max_size=70) | st.sampled_from(["the", "of", "a-b", "x" * 70])
    )
)
def test_the_terms_are_the_stems_of_words_and_their_parts(words: list[str]) -> None:
    little = stop_words()
    split = [part for word in words for part in ([*word.split("-"), "ab"] if "-" in word else [word])]
    expected = [stem_word(word.lower()[:MAX_TERM_LENGTH]) for word in split if word.lower() not in little]
    assert index_terms(" ".join(words)).words == expected
    assert not any(re.search("[A-Z]", term) for term in expected)
