"""What messages cost, counted once, corrected seldom."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
import splintr
from hypothesis import given
from hypothesis import strategies as st
from strategies import any_text, message_dicts, messages, some

from autonomy_ctx import (
    ContextTemplate,
    ConversationHistorySection,
    ImageContent,
    InvalidMessage,
    Memory,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.summary import Segment, Summary, SummaryBlock
from autonomy_ctx.messages.tokens import PER_CALL, PER_IMAGE, PER_MESSAGE, PER_TOOL, count_message
from autonomy_ctx.tokens import Calibration, ExactTextCounter, TokenCounter


class Letters:
    """A counter that charges one token per character and notes what it was asked."""

    def __init__(self, name: str = "letters") -> None:
        self.name = name
        self.asked: list[str] = []

    def count(self, text: str) -> int:
        self.asked.append(text)
        return len(text)


def counted(message: Message) -> int:
    return TokenCounter(Letters()).count_messages([message])


def test_the_system_text_counts_like_any_message() -> None:
    assert counted(Message("system", "be brief")) == PER_MESSAGE + 8
    assert TokenCounter(Letters()).count_text("be brief") == 8


@pytest.mark.parametrize(
    ("message", "cost"),
    [
        (Message("user", ""), 0),
        (Message("user", "four"), 4),
        (Message("user", TextContent("four")), 4),
        (Message("user", ["four", "more"]), 8),
        (Message("user", ImageContent("data:image/png;base64," + "A" * 9999)), PER_IMAGE),
        (Message("assistant", [ThinkingContent("hmm"), TextContent("ok")]), 5),
        (Message("assistant", ThinkingContent("", redacted="secret")), 6),
        (Message("assistant", tool_calls=[ToolCall("c1", "add", "{}")]), PER_CALL + 5),
        (Message("assistant", "hi", tool_calls=[ToolCall("a", "x"), ToolCall("b", "y")]), 2 * PER_CALL + 4),
        (Message("tool", "3", tool_call_id="c1", name="add"), 4),
        # What the model does not see costs nothing.
        (Message("user", "four", extra={"note": "x" * 99}, phase="planning", agent="helper", id="m" * 99), 4),
    ],
)
def test_a_message_costs_what_the_model_reads_of_it(message: Message, cost: int) -> None:
    assert counted(message) == PER_MESSAGE + cost


def test_tools_cost_their_description_as_json() -> None:
    tools = [{"name": "add", "description": "Größe"}, {"name": "now"}]
    text = sum(len(json.dumps(tool, ensure_ascii=False)) for tool in tools)
    assert TokenCounter(Letters()).count_tools(tools) == 2 * PER_TOOL + text
    assert TokenCounter(Letters()).count_tools([]) == 0


@some
@given(st.lists(message_dicts, max_size=3))
def test_dicts_and_messages_cost_the_same(forms: list[dict[str, Any]]) -> None:
    counter = TokenCounter()
    assert counter.count_messages(forms) == counter.count_messages([wire.from_dict(form) for form in forms])


@some
@given(st.lists(messages, max_size=4))
def test_a_list_costs_the_sum_of_its_messages(several: list[Message]) -> None:
    counter = TokenCounter()
    assert counter.count_messages(several) == sum(counter.count_messages([message]) for message in several)


# -- counted once -------------------------------------------------------------------------------------


def test_another_counter_counts_for_itself() -> None:
    message = Message("user", "hello")
    assert TokenCounter().count_messages([message]) != 0
    assert TokenCounter(Letters("other")).count_messages([message]) == PER_MESSAGE + 5


async def test_what_memory_counted_is_not_counted_again_when_composing(memory: Memory) -> None:
    letters = Letters()
    counting = Memory(store=memory._store, token_counter=TokenCounter(letters))
    await counting.append("ana", "trip", {"role": "user", "content": "hello"}, Message("assistant", "hi"))
    assert letters.asked == ["hello", "hi"]
    template = ContextTemplate([ConversationHistorySection()], token_counter=TokenCounter(letters))
    for _ in range(2):
        assert (await template.compose(counting, "ana", "trip")).tokens == 2 * PER_MESSAGE + 7
    assert letters.asked == ["hello", "hi"]


# -- calibration --------------------------------------------------------------------------------------


def test_a_report_far_off_moves_the_calibration_one_recorded_step() -> None:
    counter = TokenCounter(Letters())
    message = Message("user", "x" * 96)
    assert counter.count_messages([message]) == 100
    assert counter.observe([message], reported=130)
    assert counter.count_messages([message]) == 130
    assert [(step.factor, step.reports) for step in counter.calibration.steps] == [(1.0, 0), (1.3, 1)]


def test_the_same_report_every_turn_moves_it_once() -> None:
    calibration = Calibration()
    assert [calibration.observe(100, 130) for _ in range(50)] == [True] + [False] * 49


@some
@given(st.lists(st.integers(980, 1020), min_size=1, max_size=60))
def test_reports_that_wobble_by_two_percent_never_move_it(reports: list[int]) -> None:
    calibration = Calibration()
    for reported in reports:
        assert not calibration.observe(1000, reported)
    assert calibration.factor == 1.0


@some
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000)), max_size=40))
def test_every_move_is_a_recorded_step_of_about_five_percent_or_more(reports: list[tuple[int, int]]) -> None:
    calibration = Calibration()
    for counted_tokens, reported in reports:
        before = list(calibration.steps)
        moved = calibration.observe(counted_tokens, reported)
        assert calibration.steps[: len(before)] == before
        assert len(calibration.steps) == len(before) + moved
        assert calibration.factor == calibration.steps[-1].factor
        if moved:
            assert abs(calibration.factor / before[-1].factor - 1) > 0.045
        assert 0.25 <= calibration.factor <= 4


@pytest.mark.parametrize(("counted_tokens", "reported"), [(0, 10), (10, 0), (-5, 10), (10, -5)])
def test_a_report_of_nothing_is_ignored(counted_tokens: int, reported: int) -> None:
    calibration = Calibration()
    assert not calibration.observe(counted_tokens, reported)
    assert calibration.to_dict() == Calibration().to_dict()


def test_the_calibration_does_not_change_what_is_stored_beside_a_message() -> None:
    counter = TokenCounter(Letters())
    message = Message("user", "x" * 96)
    counter.observe([message], reported=200)
    assert counter.count_uncalibrated(message) == 100


@some
@given(
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), max_size=20),
    st.lists(st.tuples(st.integers(1, 5000), st.integers(1, 5000)), max_size=20),
)
def test_a_calibration_goes_on_after_a_restart_as_if_there_had_been_none(
    before: list[tuple[int, int]], after: list[tuple[int, int]]
) -> None:
    one = Calibration()
    for report in before:
        one.observe(*report)
    other = Calibration.from_dict(json.loads(json.dumps(one.to_dict())))
    assert [one.observe(*report) for report in after] == [other.observe(*report) for report in after]
    assert one.to_dict() == other.to_dict()


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (
            {},
            "invalid message: `calibration` is not what Calibration.to_dict returned (KeyError('average'))",
        ),
        (
            {"average": 1.0, "reports": 0, "steps": []},
            "invalid message: `calibration.steps` must have factors between 0.25 and 4.0",
        ),
        (
            {"average": 1.0, "reports": 0, "steps": [{"factor": 9, "reports": 1}]},
            "invalid message: `calibration.steps` must have factors between 0.25 and 4.0",
        ),
    ],
)
def test_a_state_that_is_none_is_refused(state: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidMessage) as caught:
        Calibration.from_dict(state)
    assert str(caught.value) == text


# -- exact counts -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def exact() -> ExactTextCounter:
    return ExactTextCounter("gpt-4o")


@pytest.fixture(scope="module")
def vocabulary() -> splintr.AnyTokenizer:
    return splintr.Tokenizer.from_pretrained("o200k_base")


@pytest.mark.parametrize(
    "text", ["", "hello world", "Straße 中文 🙂", "<|endoftext|> is text", '{"a": [1, 2]}', "x" * 300]
)
def test_an_exact_count_is_the_tokenizers(
    text: str, exact: ExactTextCounter, vocabulary: splintr.AnyTokenizer
) -> None:
    assert exact.count(text) == len(vocabulary.encode_ordinary(text))


@some
@given(text=any_text)
def test_any_text_can_be_counted_exactly_lone_surrogates_included(text: str, exact: ExactTextCounter) -> None:
    assert (exact.count(text) > 0) is bool(text)


def test_models_with_the_same_vocabulary_count_under_one_name(exact: ExactTextCounter) -> None:
    assert exact.name == ExactTextCounter("openai/GPT-5-mini").name == ExactTextCounter("o200k_base").name
    assert exact.name == "splintr:o200k_base"


def test_a_model_without_a_vocabulary_is_told_to_use_the_estimate() -> None:
    with pytest.raises(ValueError, match="no bundled vocabulary fits 'claude-sonnet-4'; use the estimate"):
        ExactTextCounter("claude-sonnet-4")


@pytest.mark.parametrize(
    ("items", "more"),
    [
        # Claude's text is longer than ours, or shorter; OpenAI's cannot be read and has messages beside it.
        ([{"type": "compaction", "content": "a b c d e f"}], 4),
        ([{"type": "compaction", "content": "a"}], 0),
        ([{"type": "compaction", "content": None}, {"content": ["odd", {"text": 4}]}], 0),
        ([{"type": "message", "role": "user", "content": "x y z"}, {"type": "compaction"}], 3),
        (
            [{"type": "message", "content": [{"type": "input_text", "text": "x y"}]}, {"type": "compaction"}],
            2,
        ),
    ],
)
def test_a_summary_of_a_provider_costs_what_can_be_read_of_it(items: list[Any], more: int) -> None:
    block = SummaryBlock(owner="anthropic", model="claude-opus-5-5", data=json.dumps(items))
    segments = [Segment(text="two words", first=1, last=2)]
    words = partial(count_message, count=lambda text: len(text.split()))
    assert words(Summary(segments, block=block)) == words(Summary(segments)) + more
