from pathlib import Path

import pytest
import splintr
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.items.tokens import estimate_tokens

CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.txt"))
KINDS = {
    "chat",
    "chinese",
    "english",
    "german",
    "identifiers",
    "japanese",
    "json",
    "korean",
    "python",
    "russian",
}
CHUNK = 2048

# Any character, lone surrogates included, and short texts in which runs of every class meet at the joins.
texts = st.text(st.characters(exclude_categories=())) | st.text("aZ0 .\n\x00éжשあ漢한🙂\ud800")


@pytest.fixture(scope="module")
def exact() -> splintr.AnyTokenizer:
    return splintr.Tokenizer.from_pretrained("o200k_base")


def count(exact: splintr.AnyTokenizer, text: str) -> int:
    return len(exact.encode_ordinary(text))


def chunks(text: str) -> list[str]:
    """Return the text in pieces of 2 KB, without the characters that a cut would split."""
    data = text.encode()
    return [data[start : start + CHUNK].decode(errors="ignore") for start in range(0, len(data), CHUNK)]


def test_the_corpus_holds_every_kind_of_text() -> None:
    assert {path.stem for path in CORPUS} == KINDS


def test_the_whole_corpus_is_estimated_within_15_percent(exact: splintr.AnyTokenizer) -> None:
    corpus = [path.read_text(encoding="utf-8") for path in CORPUS]
    true = sum(count(exact, text) for text in corpus)
    assert sum(map(estimate_tokens, corpus)) == pytest.approx(true, rel=0.15)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_each_kind_of_text_is_estimated_within_15_percent(path: Path, exact: splintr.AnyTokenizer) -> None:
    text = path.read_text(encoding="utf-8")
    assert estimate_tokens(text) == pytest.approx(count(exact, text), rel=0.15)


def test_each_kind_of_identifier_is_estimated_within_20_percent(exact: splintr.AnyTokenizer) -> None:
    # In the whole file errors cancel: UUIDs +8 %, base64 -9 %, hex dump -17 %, columns of numbers +13 %.
    (path,) = (path for path in CORPUS if path.stem == "identifiers")
    for section in path.read_text(encoding="utf-8").split("\n\n"):
        assert estimate_tokens(section) == pytest.approx(count(exact, section), rel=0.20)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_no_2_kb_of_text_is_undercounted_by_more_than_35_percent(
    path: Path, exact: splintr.AnyTokenizer
) -> None:
    for chunk in chunks(path.read_text(encoding="utf-8")):
        assert estimate_tokens(chunk) >= 0.65 * count(exact, chunk)


def test_an_empty_text_costs_nothing() -> None:
    assert estimate_tokens("") == 0


@pytest.mark.parametrize("text", ["\x00", "\ud800", "\udfff\ud800", "a\x00b", "\ufeff", "\U0010ffff"])
def test_text_that_no_tokenizer_accepts_still_has_a_cost(text: str) -> None:
    assert estimate_tokens(text) >= 1


@given(texts.filter(bool))
def test_any_text_costs_at_least_one_token(text: str) -> None:
    assert estimate_tokens(text) >= 1


@given(texts, texts)
def test_adding_text_at_either_end_never_makes_it_cheaper(head: str, tail: str) -> None:
    assert estimate_tokens(head + tail) >= max(estimate_tokens(head), estimate_tokens(tail))


@given(texts, texts)
def test_a_whole_costs_its_parts_less_one_rounding_or_plus_the_join(head: str, tail: str) -> None:
    # Where the parts meet, a run may end and another start: at most 1.6 tokens, from a digit to a letter.
    parts = estimate_tokens(head) + estimate_tokens(tail)
    assert parts - 1 <= estimate_tokens(head + tail) <= parts + 2


@given(texts, st.integers(min_value=2, max_value=50))
def test_repeated_text_costs_in_proportion(text: str, times: int) -> None:
    # Both sides by the rule for a whole and its parts, once for every join.
    once = estimate_tokens(text)
    assert (once - 1) * times <= estimate_tokens(text * times) <= (once + 2) * times
