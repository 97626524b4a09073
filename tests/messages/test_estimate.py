from itertools import product
from pathlib import Path

import pytest
import splintr
from hypothesis import assume, given
from hypothesis import strategies as st

from autonomy_ctx.messages.token_estimate import SCRIPT_COSTS, estimate_tokens
from autonomy_ctx.messages.tokens import EstimatedTextCounter, ExactTextCounter

CORPUS = sorted((Path(__file__).parent.parent / "corpus").glob("*.txt"))
KINDS = {
    "arabic",
    "chat",
    "chinese",
    "chinese_chat",
    "csv",
    "emoji",
    "english",
    "german",
    "hindi",
    "identifiers",
    "japanese",
    "japanese_chat",
    "json",
    "korean",
    "korean_chat",
    "polish",
    "python",
    "russian",
    "thai",
    "traditional_chinese",
    "vietnamese",
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


UNFITTED = sorted((Path(__file__).parents[2] / "benchmarks" / "token_texts").glob("*.txt"))


@pytest.mark.parametrize("path", UNFITTED, ids=lambda path: path.stem)
def test_texts_that_were_not_fitted_are_estimated_within_15_percent(
    path: Path, exact: splintr.AnyTokenizer
) -> None:
    text = path.read_text(encoding="utf-8")
    assert estimate_tokens(text) == pytest.approx(count(exact, text), rel=0.15)


@pytest.mark.parametrize("vocabulary", SCRIPT_COSTS)
def test_other_vocabularies_count_their_scripts_by_a_table(vocabulary: str) -> None:
    counter, exact_counter = EstimatedTextCounter.for_model(vocabulary), ExactTextCounter(vocabulary)
    errors = {
        path.stem: counter.count(text) / exact_counter.count(text) - 1
        for path in UNFITTED
        if (text := path.read_text(encoding="utf-8"))
    }
    assert max(map(abs, errors.values())) < 0.2, errors


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
    # Letters of Vietnamese make its words cheaper.
    assume(not any("\u1e80" <= letter <= "\u1eff" for letter in head + tail))
    assert estimate_tokens(head + tail) >= max(estimate_tokens(head), estimate_tokens(tail))


@given(texts, texts)
def test_a_whole_costs_about_as_much_as_its_parts(head: str, tail: str) -> None:
    # Where the parts meet, a number or a row of marks may become one, or a word and mixed case begin.
    parts = estimate_tokens(head) + estimate_tokens(tail)
    assert parts - 4 <= estimate_tokens(head + tail) <= parts + 4


@given(texts, st.integers(min_value=2, max_value=50))
def test_repeated_text_costs_at_most_in_proportion(text: str, times: int) -> None:
    assert estimate_tokens(text * times) <= (estimate_tokens(text) + 4) * times


def test_a_run_of_one_character_is_estimated_within_15_percent(exact: splintr.AnyTokenizer) -> None:
    for character, length in product("az AX09\n\t-=*.#_!|あ哈ー─ㅋаéم😂", [24, 30, 64, 200, 1000, 5000]):
        text = character * length
        expected = pytest.approx(count(exact, text), rel=0.15, abs=2)
        assert estimate_tokens(text) == expected, (character, length)


@pytest.mark.parametrize("between", ["", " ", "the end of the line\n", "漢字"])
def test_runs_among_other_text_are_counted_apart(between: str, exact: splintr.AnyTokenizer) -> None:
    text = between.join(["=" * 80, "a title in the middle", "-" * 80, "z" * 300, "."])
    assert estimate_tokens(text) == pytest.approx(count(exact, text), rel=0.15, abs=4)


@pytest.mark.parametrize("kind", ["csv", "identifiers", "json", "english"])
@pytest.mark.parametrize("vocabulary", ["qwen3", "mistral_v3", "gemma3"])
def test_vocabularies_with_a_token_per_digit_have_a_profile(vocabulary: str, kind: str) -> None:
    text = (Path(__file__).parent.parent / "corpus" / f"{kind}.txt").read_text(encoding="utf-8")
    exact_count = len(splintr.Tokenizer.from_pretrained(vocabulary).encode_ordinary(text))
    counter = EstimatedTextCounter.for_model(f"provider/{vocabulary}-32b")
    assert counter.digits_apart
    assert counter.count(text) == pytest.approx(exact_count, rel=0.15)


def test_the_profile_follows_the_name_of_the_model() -> None:
    plain, apart = EstimatedTextCounter.for_model("gpt-4o"), EstimatedTextCounter.for_model("Qwen/Qwen3-32B")
    assert (plain.digits_apart, apart.digits_apart) == (False, True)
    assert plain.name != apart.name
    assert apart.count("1234567890") > plain.count("1234567890")


# Text without runs in which every fourth character is the same for a while, at any offset.
periodic_texts = st.lists(
    st.tuples(
        st.sampled_from(["abcd", "x.y;", "漢字かな", "\x00\x01\x02\x03", "words ", "é", "12, "]),
        st.integers(1, 40),
    ),
    min_size=1,
    max_size=6,
).map(lambda pieces: "|".join((piece * times)[: 23 if len(piece) == 1 else None] for piece, times in pieces))


@given(periodic_texts, st.integers(24, 300), periodic_texts)
def test_a_run_is_found_wherever_it_is(before: str, length: int, after: str) -> None:
    without_run = estimate_tokens(f"{before}| |{after}")
    assert estimate_tokens(f"{before}|{'=' * length}|{after}") == without_run + -(-length // 64)
