"""The short ways to the words of a message give what the long ways give."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from strategies import stamped_dicts

from autonomy_ctx.language.stemmer import stem_word
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.memory.encoding import coerce_message, make_draft
from autonomy_ctx.memory.search_terms import MAX_TERM_LENGTH, index_terms
from autonomy_ctx.memory.search_text import plain_body_text, searchable_text
from autonomy_ctx.messages.message import new_id, now
from autonomy_ctx.messages.tokens import TokenCounter


@given(value=stamped_dicts())
def test_a_row_of_nothing_but_text_is_found_by_the_text_of_its_message(value: dict[str, Any]) -> None:
    made = make_draft(coerce_message(value, new_id=new_id, now=now), TokenCounter())
    assert plain_body_text(made.body) in (None, searchable_text(made.message))


def test_the_usual_rows_are_read_the_short_way() -> None:
    for value in (
        {"role": "user", "content": "an order"},
        {"role": "user", "content": {"type": "text", "text": "an order"}},
        {"role": "assistant", "content": "an order", "tool_calls": [], "agent": "shop"},
        {"role": "tool", "content": "an order", "tool_call_id": "c1", "name": "find"},
    ):
        made = make_draft(coerce_message(value, new_id=new_id, now=now), TokenCounter())
        assert plain_body_text(made.body) == "an order"


def test_a_row_with_calls_parts_or_no_json_is_read_the_long_way() -> None:
    call = '{"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}'
    for body in (call, '{"role": "user", "content": [{"type": "text", "text": "a"}]}', "[]", "no json"):
        assert plain_body_text(body) is None


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
