"""Where documents are divided."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from strategies import some

from autonomy_ctx.knowledge.documents import CHUNK_TOKENS, OVERLAP_TOKENS, chunks
from autonomy_ctx.messages.token_estimate import estimate_tokens

PARAGRAPH = "The ferry leaves every twenty minutes. It is cheap. " * 6


def test_a_short_text_is_one_passage_and_nothing_is_none() -> None:
    assert chunks("One.\n\nTwo.") == ["One.\n\nTwo."]
    assert chunks(" \n\n ") == chunks("") == []


def test_passages_end_where_paragraphs_do() -> None:
    text = "\n\n".join(f"{number} {PARAGRAPH}".strip() for number in range(8))
    made = chunks(text)
    assert len(made) > 2
    assert all(chunk.endswith("It is cheap.") for chunk in made)
    assert made[0].startswith("0 The ferry")


def test_a_passage_begins_with_the_last_sentences_of_the_one_before() -> None:
    sentences = [f"Sentence number {number} says something of its own." for number in range(60)]
    made = chunks("\n\n".join(sentences))
    for before, after in pairwise(made):
        shared = after.split("\n\n")[0]
        assert before.endswith(shared) or shared in before.split("\n\n")[-4:]


def test_one_endless_line_is_divided_too() -> None:
    for text in ("word " * 5000, "x" * 40_000, "東京タワー" * 4000):
        assert max(map(estimate_tokens, chunks(text))) <= CHUNK_TOKENS + OVERLAP_TOKENS + 1


# Every word once, so that it is known which part of the text a passage is.
KINDS = (
    "Ferry{}.",
    " ",
    "\n",
    "\n\n",
    "東{}京。",
    "a{0} b{0} c{0}",
    "é{}",
    "!",
    " ".join(f"w{{0}}x{n}" for n in range(40)),
)


def numbered(kinds: list[str]) -> str:
    return "".join(kind.replace("{0}", str(at)).replace("{}", str(at)) for at, kind in enumerate(kinds))


@some
@given(st.lists(st.sampled_from(KINDS), max_size=80).map(numbered))
def test_nothing_is_lost_nothing_is_reordered_and_no_passage_is_too_long(text: str) -> None:
    made = chunks(text, size=60, overlap=10)
    at = 0
    covered = 0
    for chunk in made:
        assert estimate_tokens(chunk) <= 60 + 10 + 2
        # The next passage begins at, or before, where the one before it ended; only blanks lie between.
        start = text.find(chunk, at)
        assert start >= 0
        if start > covered:
            assert not text[covered:start].strip()
        at, covered = start, max(covered, start + len(chunk))
    assert not text[covered:].strip()
