"""What is printed of stored text: nothing that a terminal acts on, and in JSON exactly what was stored."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from autonomy_ctx.cli.output import (
    CommandFailed,
    ExitCode,
    WrongInput,
    clean,
    clean_line,
    count,
    describe_error,
    encode_json,
    exit_code_of,
)
from autonomy_ctx.errors import InvalidKey, StoreClosed, UnknownFact

# Text that is likely to hold what a terminal acts on.
HOSTILE = st.text(
    st.sampled_from(
        "ab \n\t\r\x00\x07\x08\x1b\x7f\x84\x90\x9b\x9c\x9d[]0;m?H\\\u202e\u2066\u200b\ufeff\u061cé猫"
    )
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b[2J\x1b[Hgone", "gone"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        ("\x1bP1;2|data\x1b\\after", "after"),
        ("ab\rcd", "abcd"),
        ("one\r\ntwo", "one\ntwo"),
        ("a\tb", "a b"),
        ("\u202egnp.exe", "gnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("bell\x07 back\x08", "bell back"),
        ("ends with escape \x1b", "ends with escape "),
        ("naïve 猫 [bold]x[/bold]", "naïve 猫 [bold]x[/bold]"),
    ],
)
def test_clean_text_moves_no_cursor_and_turns_no_writing(text: str, shown: str) -> None:
    assert clean(text) == shown


@given(HOSTILE)
def test_no_control_is_left_in_clean_text(text: str) -> None:
    left = clean(text)
    assert all(char == "\n" or unicodedata.category(char)[0] != "C" for char in left)
    assert "\n" not in clean_line(text)
    assert clean(left) == left


@given(st.text(min_size=0), st.integers(min_value=1, max_value=30))
def test_a_clean_line_is_no_longer_than_it_may_be(text: str, most: int) -> None:
    assert len(clean_line(text, most)) <= most


def test_a_line_that_is_cut_ends_with_an_ellipsis() -> None:
    assert clean_line("one two three", 8) == "one two…"
    assert clean_line("one two", 7) == "one two"


@example("\x7f")
@example("\u202e \U000e0041")
@given(st.recursive(st.text() | HOSTILE, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_says_exactly_what_was_stored_and_nothing_a_terminal_acts_on(value: object) -> None:
    text = encode_json(value)
    assert json.loads(text) == value
    assert text.isprintable()
    indented = encode_json(value, indent=2)
    assert json.loads(indented) == value
    assert indented.replace("\n", "").isprintable()


def test_letters_stay_readable_in_json() -> None:
    assert encode_json({"text": "猫 é"}) == '{"text":"猫 é"}'
    assert encode_json({"text": "猫"}, ascii_only=True) == '{"text":"\\u732b"}'


def test_a_number_comes_with_its_noun() -> None:
    assert [count(1, "message"), count(1200, "message"), count(2, "message was", "messages were")] == [
        "1 message",
        "1,200 messages",
        "2 messages were",
    ]


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (WrongInput("no such file"), ExitCode.WRONG_INPUT, "no such file"),
        (CommandFailed("not all of it"), ExitCode.FAILED, "not all of it"),
        (InvalidKey("scope", "must be a string"), ExitCode.WRONG_INPUT, "invalid scope: must be a string"),
        (UnknownFact("f1"), ExitCode.WRONG_INPUT, str(UnknownFact("f1"))),
        (StoreClosed("a.db"), ExitCode.FAILED, "memory on a.db is closed; make a new `Memory` to continue"),
        (
            FileNotFoundError(2, "No such file or directory", "x"),
            ExitCode.FAILED,
            "x: No such file or directory",
        ),
        (KeyError("name"), ExitCode.FAILED, "KeyError: 'name'; run it again with --debug to see where"),
    ],
)
def test_every_error_is_a_sentence_and_an_exit_code(error: Exception, code: ExitCode, sentence: str) -> None:
    assert exit_code_of(error) is code
    assert describe_error(error) == sentence
