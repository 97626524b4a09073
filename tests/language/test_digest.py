"""A digest quotes what tells most, in order, within its budget, without a model; it never alters."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import any_text, messages, some

from autonomy_ctx import ImageContent, Message, ToolCall
from autonomy_ctx.language.digest import digest, digest_texts
from autonomy_ctx.language.identifiers import coverage
from autonomy_ctx.messages.text_cache import forget_texts
from autonomy_ctx.tokens import TokenCounter

COUNTER = TokenCounter()


class Letters:
    """Charges one token per character."""

    name = "letters"

    def count(self, text: str) -> int:
        return len(text)


counters = st.sampled_from([COUNTER, TokenCounter(Letters())])
sayings = st.lists(
    st.sampled_from(
        [
            "We must go. ",
            "Is it 12:30?",
            "ok ",
            "see src/a.py\n",
            "漢字。",
            "word " * 200,
            "🙂" * 90,
            "- User: x\n",
        ]
    ),
    max_size=5,
).map("".join)
histories = st.lists(
    messages | st.builds(Message, st.sampled_from(["user", "assistant", "tool"]), sayings),
    min_size=1,
    max_size=8,
)

TRIP = [
    Message(
        "user", "Hi there! I want to fly to Lisbon. My budget is €1,500 and I must be back by 2026-05-10."
    ),
    Message("assistant", "Sounds lovely. There are so many nice things to see there. " * 12),
    Message("user", "Thanks, that is nice. I never take flights before 9am."),
    Message(
        "assistant",
        "I look for flights.",
        tool_calls=[ToolCall("c1", "search", '{"to": "LIS", "max": 1500}')],
    ),
    Message("tool", "It took a while.\nTAP TP571 leaves at 10:25 for €312.\nThat is all.", tool_call_id="c1"),
    Message(
        "assistant", "I booked it for you. The booking reference is QX7K2P. Have a good time! " + "Yes. " * 90
    ),
    Message("user", "Great. Which seat do I have?"),
]

CODING = [
    Message("user", "The tests in tests/test_cart.py fail. Please do not touch src/pay.py."),
    Message("assistant", None, tool_calls=[ToolCall("c1", "run_tests", '{"path": "tests/test_cart.py"}')]),
    Message(
        "tool",
        "collecting\nstarting\nrunning\n" + "a dull line\n" * 300 + "E KeyError: 'total' in src/cart.py:41",
        tool_call_id="c1",
        is_error=True,
    ),
    Message("assistant", "Let me think about that for a while. The cause is Cart.sum_up in src/cart.py."),
]


def test_a_trip_keeps_goal_limits_flight_and_booking() -> None:
    text = digest(TRIP, tokens=200, counter=COUNTER)
    for word in (
        "Lisbon",
        "€1,500",
        "2026-05-10",
        "never take flights before 9am",
        "TP571",
        "QX7K2P",
        "seat",
    ):
        assert word in text
    assert "- Tool search: TAP TP571 leaves at 10:25 for €312." in text.splitlines()
    assert COUNTER.count_text(text) <= 200 < COUNTER.count_messages(TRIP) / 2


def test_a_small_budget_goes_to_what_the_user_ruled() -> None:
    assert digest(TRIP, tokens=54, counter=COUNTER).splitlines() == [
        "- User: My budget is €1,500 and I must be back by 2026-05-10.",
        "- User: I never take flights before 9am.",
        "- User: Which seat do I have?",
    ]


def test_a_coding_session_keeps_files_rules_and_the_failure() -> None:
    text = digest(CODING, tokens=150, counter=COUNTER)
    assert '- Assistant calls run_tests({"path": "tests/test_cart.py"})' in text.splitlines()
    assert "- Tool run_tests failed: E KeyError: 'total' in src/cart.py:41" in text.splitlines()
    assert "Please do not touch src/pay.py." in text
    assert "Cart.sum_up" in text


@some
@given(histories, st.integers(32, 300), counters)
def test_a_digest_is_never_empty_nor_over_its_budget(
    history: list[Message], tokens: int, counter: TokenCounter
) -> None:
    text = digest(history, tokens=tokens, counter=counter)
    assert text.strip()
    assert counter.count_text(text) <= tokens
    assert text == digest(history, tokens=tokens, counter=counter)
    assert all(line.startswith("- ") for line in text.splitlines())


@some
@given(histories)
def test_lines_come_in_the_order_they_were_said(history: list[Message]) -> None:
    numbered = [Message("user", f"Line {number:04} of it.") for number in range(len(history) * 9)]
    lines = digest(numbered, tokens=20 * len(history), counter=COUNTER).splitlines()
    assert lines == sorted(lines)


@some
@given(st.integers(1, 12), st.integers(25, 60))
def test_every_user_message_has_a_line_when_the_budget_has_room(users: int, each: int) -> None:
    noise = Message("assistant", "See src/app/main.py and get_user, see 500 at 10:30. " * 9)
    asked = [
        Message("user", f"q{number} is about the house. " + "It goes on and on. " * 9)
        for number in range(users)
    ]
    history = [message for one in asked for message in (one, noise)]
    text = digest(history, tokens=max(32, users * each), counter=COUNTER)
    assert all(f"- User: q{number} is about the house." in text for number in range(users))


@some
@given(histories, st.integers(32, 60))
def test_the_newest_user_message_has_a_line_in_any_budget(history: list[Message], tokens: int) -> None:
    newest = Message("user", "zebra crossing")
    answers = [message for message in history if message.role != "user"]
    assert "- User: zebra crossing" in digest([*history, newest, *answers], tokens=tokens, counter=COUNTER)


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (Message("user", [ImageContent("https://x.test/a.png")]), "- User: [image]"),
        (Message("user", ""), "- User: [no text]"),
        (Message("assistant", None), "- Assistant: [no text]"),
        (Message("user", "好。我要去里斯本。"), "- User: 我要去里斯本。"),
    ],
)
def test_there_is_a_line_for_whatever_there_is(message: Message, line: str) -> None:
    assert line in digest([message], tokens=32, counter=COUNTER)


def test_a_megabyte_is_read_at_its_ends_which_is_said() -> None:
    text = "We must start at 10:30. " + "Nothing here. " * 70_000 + "We must end at 11:30."
    started = time.process_time()
    made = digest([Message("user", text)], tokens=200, counter=COUNTER)
    assert time.process_time() - started < 1
    assert "start at 10:30" in made
    assert "end at 11:30" in made
    assert f"of {len(text):,} characters were not read" in made


@pytest.mark.parametrize("piece", ["a", " ", "\n", ".", ". ", "。", "1", '"', "a.", "12 ", "`a", "漢"])
def test_a_hostile_megabyte_takes_no_longer_than_others(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    started = time.process_time()
    assert digest([Message("user", text)], tokens=100, counter=COUNTER)
    assert digest_texts([text], tokens=100, counter=COUNTER)
    # Either takes a few hundredths of a second; quadratic time would be minutes.
    assert time.process_time() - started < 3


def test_a_hundred_messages_take_no_time_to_speak_of() -> None:
    history = TRIP * 15
    digest(history, tokens=500, counter=COUNTER)
    started = time.process_time()
    digest(history, tokens=500, counter=COUNTER)
    assert time.process_time() - started < 0.3


@some
@given(st.lists(sayings | any_text, min_size=1, max_size=5), st.integers(32, 200), counters)
@example([f"{'word ' * at}must go. see src/a.py" for at in (300, 400)], 32, COUNTER)
def test_a_digest_of_texts_fits_and_repeats_nothing(
    texts: list[str], tokens: int, counter: TokenCounter
) -> None:
    text = digest_texts(texts, tokens=tokens, counter=counter)
    assert text.strip()
    assert counter.count_text(text) <= tokens
    assert text == digest_texts(texts, tokens=tokens, counter=counter)
    lines = text.split("\n")
    assert len(lines) == len(set(lines))


def test_a_digest_of_digests_keeps_what_is_exact() -> None:
    first = digest(TRIP, tokens=200, counter=COUNTER)
    dull = "\n".join(
        f"- Assistant: {word} is a fine thing to talk about" for word in ("tea", "coffee", "bread")
    )
    again = digest_texts([dull, first, first], tokens=205, counter=COUNTER)
    assert coverage(first, again) == 1.0
    assert [line for line in first.splitlines() if line in again.splitlines()] == [
        line for line in again.splitlines() if line in first.splitlines()
    ]
    assert digest_texts([], tokens=32, counter=COUNTER) == ""
    assert digest([], tokens=32, counter=COUNTER) == ""


def test_a_merge_leaves_out_what_no_longer_holds() -> None:
    texts = ["- User: we still need boxes. The move is on 3 May.", "- User: We take the train."]
    text = digest_texts(
        texts,
        tokens=200,
        counter=COUNTER,
        outdated=["we still need boxes (2 May 2026)", "The move is on 3 May"],
    )
    assert text == "- User: We take the train."


def test_what_was_asked_makes_room_for_what_was_stated() -> None:
    asked = [f"- User: btw what does part {number} of the old engine cost" for number in range(30)]
    stated = "- User: hexes won, the squares were dull"
    text = digest_texts(["\n".join([stated, *asked])], tokens=60, counter=COUNTER)
    assert stated in text


def test_what_is_said_again_is_quoted_once() -> None:
    said = ["- User: the kitchen window leaks", "- User: hm, the kitchen window leaks again"]
    noise = [f"- Assistant: The shop number {number} opens at noon." for number in range(60)]
    lines = digest_texts(["\n".join([*said, *noise])], tokens=120, counter=COUNTER).splitlines()
    assert said[1] in lines
    assert said[0] not in lines


@given(st.lists(messages, min_size=1, max_size=6), st.integers(100, 3000))
def test_a_digest_is_the_same_whatever_was_read_before(said: list[Message], most: int) -> None:
    forget_texts()
    anew = digest(said, tokens=80, counter=COUNTER, max_characters=most)
    digest(said[1:], tokens=80, counter=COUNTER, max_characters=2 * most)
    assert digest(said, tokens=80, counter=COUNTER, max_characters=most) == anew


def test_long_texts_that_differ_at_one_end_are_read_apart() -> None:
    middle = "Nothing of note was said here. " * 60
    ended = [
        digest(
            [Message("user", f"{middle}Invoice {number} is due.")],
            tokens=60,
            counter=COUNTER,
            max_characters=800,
        )
        for number in (4711, 4712)
    ]
    assert "4711" in ended[0]
    assert "4712" in ended[1]
