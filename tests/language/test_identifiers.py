"""What must survive a summary is found, as written and in linear time."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_text, some

from autonomy_ctx.language.identifiers import MAX_IDENTIFIERS, coverage, identifiers

telling_texts = any_text | st.text(st.sampled_from("aB1_./\\@-:,;\"“”`'() \n漢月年%€"), max_size=80)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("See https://en.wikipedia.org/wiki/Foo_(bar), ok?", ["https://en.wikipedia.org/wiki/Foo_(bar)"]),
        ("(at http://x.test/a?b=1&c=2).", ["http://x.test/a?b=1&c=2"]),
        (
            r"open /etc/hosts, src/app/main.py:12 or C:\Users\ana",
            ["/etc/hosts", "src/app/main.py:12", r"C:\Users\ana"],
        ),
        ("in notes.txt and .env.", ["notes.txt", ".env"]),
        ("Mail ana@x.test!", ["ana@x.test"]),
        ("€1,500.50, 12% of 1.500 and $20", ["€1,500.50", "12%", "1.500", "$20"]),
        ("on 2026-05-03 at 10:30 or 9am", ["2026-05-03", "10:30", "9am"]),
        (
            "5 May 2026, May 7th, 3. Oktober, in June 2027",
            ["5 May 2026", "May 7th", "3. Oktober", "June 2027"],
        ),
        ("get_user of ContextTemplate, os.path.join", ["get_user", "ContextTemplate", "os.path.join"]),
        ("MAX_SIZE in ABC-123 and 9f8e7d6c", ["MAX_SIZE", "ABC-123", "9f8e7d6c"]),
        ("id 123e4567-e89b-12d3-a456-426614174000.", ["123e4567-e89b-12d3-a456-426614174000"]),
        ("run `make test` now", ["make test"]),
        ('a "window seat" and “no smoking”', ["window seat", "no smoking"]),
        ('{"seat": "window 12A", "row":"last"}', ["window 12A", "12A", "last"]),
        ("预算1,500欧元、航班LH123、2026年5月3日。", ["1,500", "LH123", "2026年5月3日"]),
        ("and/or, e.g. this... 1. one. Well... I may! a.m", []),
        ("An ordinary sentence of Ana, in Berlin.", []),
        ("", []),
    ],
)
def test_identifiers_are_found_as_written(text: str, found: list[str]) -> None:
    assert identifiers(text) == found


@some
@given(telling_texts)
def test_every_identifier_occurs_in_the_text_and_once_in_the_list(text: str) -> None:
    found = identifiers(text)
    assert all(word and word == word.strip() and word in text for word in found)
    assert len(found) == len(set(found))
    assert [text.find(word) >= 0 for word in found] == [True] * len(found)


@some
@given(telling_texts, telling_texts)
def test_coverage_is_a_share_and_full_for_the_text_itself(source: str, text: str) -> None:
    assert 0.0 <= coverage(source, text) <= 1.0
    assert coverage(source, source) == 1.0
    assert coverage(source, text + source) == 1.0
    assert coverage(source, "") == (0.0 if identifiers(source) else 1.0)


def test_coverage_counts_what_is_left() -> None:
    source = "Flight LH123 on 2026-05-03 for €1,500 from gate_7."
    assert coverage(source, "LH123, 2026-05-03, €1500") == pytest.approx(3 / 4)
    assert coverage("It costs 12000", "12,000 it is") == 1.0
    assert coverage("Flight LH123", "flight lh123") == 0.0


def test_there_is_a_most() -> None:
    assert len(identifiers(" ".join(f"id_{number}" for number in range(9000)))) == MAX_IDENTIFIERS


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "1",
        "1,",
        '"',
        "`a",
        "http://",
        ")",
        "a.",
        " ",
        ". ",
        "_",
        "/",
        "May ",
        "12 ",
        "1 Jan",
        "aB",
        "@",
        "漢",
        "1.",
    ],
)
def test_a_hostile_megabyte_takes_no_longer_than_others(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    identifiers(text)
    identifiers("http://a" + text)
    # Quadratic time would be minutes; linear is a few tenths of a second on a busy machine.
    assert time.process_time() - started < 15
