"""What is too long is cut in the middle, marked there, and fits."""

from __future__ import annotations

import json
import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from strategies import any_text, messages, names, parts, some, summaries

from autonomy_ctx import ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.memory.encoding import make_draft
from autonomy_ctx.messages import Summary
from autonomy_ctx.messages.clamp import clamp_message, clamp_text, fair_share, shorten
from autonomy_ctx.messages.token_estimate import estimate_tokens
from autonomy_ctx.tokens import TokenCounter

MARKER = re.compile(r"\n\[\.\.\. ([\d,]+) of ([\d,]+) characters are not shown here(.*) \.\.\.\]\n")
COUNTER = TokenCounter()

# Long texts that are dense in one place and thin in another, and have cuts of every kind.
long_texts = st.lists(
    st.tuples(st.sampled_from(["word ", "x", "🙂", "漢", "\n", "  ", "12,5 ", "aB_c/"]), st.integers(1, 400)),
    max_size=6,
).map(lambda runs: "".join(piece * times for piece, times in runs))


@some
@given(long_texts | any_text, st.integers(40, 400))
def test_a_text_fits_and_is_the_same_when_it_already_did(text: str, tokens: int) -> None:
    clamped = clamp_text(text, tokens, estimate_tokens, "; memory.get_messages(...) gives all of it")
    assert estimate_tokens(clamped) <= tokens
    assert (clamped == text) == (estimate_tokens(text) <= tokens)
    assert clamped == clamp_text(text, tokens, estimate_tokens, "; memory.get_messages(...) gives all of it")


@some
@given(long_texts, st.integers(40, 400))
def test_the_marker_says_exactly_how_much_is_missing(text: str, tokens: int) -> None:
    clamped = clamp_text(text, tokens, estimate_tokens)
    if clamped == text:
        return
    found = MARKER.search(clamped)
    assert found is not None
    head, tail = clamped[: found.start()], clamped[found.end() :]
    assert text.startswith(head)
    assert text.endswith(tail)
    missing, all_of_it = (int(number.replace(",", "")) for number in found.group(1, 2))
    assert (missing, all_of_it) == (len(text) - len(head) - len(tail), len(text))


@some
@given(long_texts, st.integers(-3, 40), st.sampled_from([len, estimate_tokens]))
def test_even_without_room_something_says_that_there_was_text(text: str, tokens: int, count: object) -> None:
    assert callable(count)
    assert (not text) == (not clamp_text(text, tokens, count))
    assert (not text) == (not shorten(text, tokens, count))


def test_beginning_and_end_stay_and_words_stay_whole() -> None:
    text = "It begins here. " + "All kinds of things happen. " * 200 + "It ends here."
    clamped = clamp_text(text, 100, estimate_tokens)
    head, tail = re.split(MARKER, clamped)[:: len(re.split(MARKER, clamped)) - 1]
    assert head.startswith("It begins here.")
    assert tail.endswith("It ends here.")
    assert len(head) > len(tail)
    assert set(re.findall(r"\w+", head + " " + tail)) <= set(re.findall(r"\w+", text))
    assert estimate_tokens(clamped) >= 90


def test_the_whole_text_is_counted_only_once() -> None:
    text, asked = "🙂" * 1000 + " . " * 300_000, []

    def count(piece: str) -> int:
        asked.append(len(piece))
        return estimate_tokens(piece)

    clamped = clamp_text(text, 1000, count)
    assert asked.count(len(text)) == 1
    assert len(asked) < 16
    assert 800 <= estimate_tokens(clamped) <= 1000


def test_a_message_whose_tokens_are_known_is_not_counted_again() -> None:
    asked: list[int] = []

    class Counter:
        name = "noted"

        def count(self, text: str) -> int:
            asked.append(len(text))
            return estimate_tokens(text)

    counter = TokenCounter(Counter())
    text = "a line of output 17\n" * 2000
    message = make_draft(Message("tool", text, name="list", tool_call_id="c1"), counter).message
    asked.clear()
    clamped = clamp_message(message, 500, counter)
    assert max(asked) < len(message.text) // 2
    assert 450 <= COUNTER.count_uncalibrated(replace(clamped, content=clamped.text)) <= 500


@some
@given(st.lists(st.integers(0, 50), max_size=6), st.integers(0, 200))
def test_a_fair_share_lets_all_fit_and_wastes_little(costs: list[int], room: int) -> None:
    most = fair_share(costs, room)
    assert sum(min(cost, most) for cost in costs) <= room
    if sum(costs) > room:
        assert sum(min(cost, most + 1) for cost in costs) > room


big = long_texts.map(TextContent)
long_messages = messages | st.builds(
    Message,
    st.just("assistant"),
    long_texts | st.lists(parts | big, max_size=4),
    tool_calls=st.lists(st.builds(ToolCall, st.none() | names, st.just("look"), long_texts), max_size=2),
    is_error=st.booleans(),
    agent=st.none() | names,
    phase=st.none() | names,
    id=names,
)


@some
@given(long_messages, st.integers(100, 500))
def test_a_message_fits_and_keeps_all_but_its_content(message: Message, tokens: int) -> None:
    clamped = clamp_message(message, tokens, COUNTER)
    if COUNTER.count_uncalibrated(message) <= tokens:
        assert clamped is message
        return
    assert COUNTER.count_uncalibrated(clamped) <= tokens
    assert COUNTER.count_uncalibrated(clamped) == COUNTER.count_uncalibrated(replace(clamped))
    for field in ("role", "id", "created_at", "tool_call_id", "name", "is_error", "agent", "phase", "extra"):
        assert getattr(clamped, field) == getattr(message, field)
    assert [(call.id, call.name) for call in clamped.tool_calls] == [
        (call.id, call.name) for call in message.tool_calls
    ]
    for now, before in zip(clamped.tool_calls, message.tool_calls, strict=True):
        assert now == before or list(json.loads(now.arguments)) == ["not_shown"]
    assert isinstance(clamped.content, str) == isinstance(message.content, str)


def test_the_marker_in_a_message_names_the_message() -> None:
    clamped = clamp_message(Message("tool", "line\n" * 5000, tool_call_id="c1", id="m7"), 200, COUNTER)
    assert "; memory has all of message 'm7' ...]" in clamped.text


def test_thinking_goes_before_anything_else() -> None:
    message = Message("assistant", [ThinkingContent("hm " * 500), TextContent("The answer is 42.")])
    assert clamp_message(message, 50, COUNTER).parts == (TextContent("The answer is 42."),)


def test_an_image_stays_while_there_is_room_and_is_noted_when_not() -> None:
    image = ImageContent("https://x.test/cat.png")
    message = Message("user", [TextContent("Look at this. " * 400), image])
    assert image in clamp_message(message, 500, COUNTER).parts
    assert "[image not shown here]" in clamp_message(message, 200, COUNTER).text


def test_arguments_that_are_too_long_stay_json() -> None:
    call = ToolCall("c1", "write_file", json.dumps({"text": "abc " * 5000}))
    clamped = clamp_message(Message("assistant", "I write it.", tool_calls=[call]), 100, COUNTER)
    assert clamped.text == "I write it."
    assert clamped.tool_calls[0].parse_arguments() == {"not_shown": f"{len(call.arguments):,} characters"}


@some
@given(summaries(), st.integers(10, 60))
def test_a_summary_stays_one_and_covers_the_same(summary: Summary, tokens: int) -> None:
    clamped = clamp_message(summary, tokens, COUNTER)
    assert isinstance(clamped, Summary)
    assert clamped.display_role == summary.display_role
    ranges = [(segment.first, segment.last, segment.provisional) for segment in summary.segments]
    assert [(segment.first, segment.last, segment.provisional) for segment in clamped.segments] == ranges
