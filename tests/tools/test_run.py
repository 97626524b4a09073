"""Calls run side by side, and whatever goes wrong in one is an answer to the model."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import ContextItem, ContextPool, ImageContent, Memory, Message, TextContent
from autonomy_ctx.errors import InvalidTool, ToolTimeout
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input, open_questions
from autonomy_ctx.tools.output import IMAGE_LIMIT, MAX_IMAGES, OUTPUT_LIMIT, cap_text
from autonomy_ctx.tools.run import CallOutcome, run_calls
from autonomy_ctx.tools.tool import Tool, tool


@tool
async def double(n: int) -> int:
    return 2 * n


@tool
async def for_ever() -> None:
    await anyio.sleep_forever()


class Colour(Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: str


@dataclass
class Report:
    made: datetime
    colours: set[str]
    pair: Pair


def calling(name: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, name, json.dumps(arguments))


async def ran_one(made: Tool[..., Any], call: ToolCall | None = None, **options: Any) -> CallOutcome:
    return (await run_calls([call or calling(made.name)], [made], **options))[0]


async def text_of(made: Tool[..., Any], **options: Any) -> str:
    message = (await ran_one(made, **options)).message
    assert message is not None
    return message.text


def returning(value: Any) -> Tool[..., Any]:
    async def give() -> Any:
        return value

    return Tool(give)


async def test_a_result_is_a_tool_message_that_answers_its_call() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)
    ran = await ran_one(double, calling("double", "c7", n=4), clock=lambda: at, new_id=lambda: "m1")
    assert ran.message == Message("tool", "8", tool_call_id="c7", name="double", id="m1", created_at=at)
    assert (ran.value, ran.error, ran.items, ran.full) == (8, None, (), None)
    assert ran.seconds >= 0


async def test_calls_run_side_by_side_and_answer_in_their_order() -> None:
    turns = [anyio.Event() for _ in range(4)]

    @tool
    async def wait_for_the_next(n: int) -> int:
        # Each ends only after the one behind it: one after the other they would wait for ever.
        if n < 3:
            await turns[n + 1].wait()
        turns[n].set()
        return n

    calls = [calling("wait_for_the_next", str(n), n=n) for n in range(4)]
    done = await run_calls(calls, [wait_for_the_next])
    assert [ran.value for ran in done] == [0, 1, 2, 3]
    assert [ran.call for ran in done] == calls


async def test_threads_run_side_by_side_too() -> None:
    together = threading.Barrier(3, timeout=20)

    @tool
    def meet() -> bool:
        together.wait()
        return threading.current_thread() is not threading.main_thread()

    done = await run_calls([calling("meet", str(n)) for n in range(3)], [meet])
    assert [ran.value for ran in done] == [True, True, True]


async def test_no_more_run_at_once_than_allowed_and_they_begin_in_order() -> None:
    running: list[int] = []
    began: list[int] = []
    most = 0

    @tool
    async def work(n: int) -> None:
        nonlocal most
        began.append(n)
        running.append(n)
        most = max(most, len(running))
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        running.remove(n)

    calls = [calling("work", str(n), n=n) for n in range(9)]
    await run_calls(calls, [work], parallel=3)
    assert most == 3
    assert began == list(range(9))
    most = 0
    await run_calls(calls, [work], parallel=1)
    assert most == 1


async def test_no_calls_are_no_results() -> None:
    assert await run_calls([], [double]) == []


async def test_an_unknown_tool_is_an_error_that_names_the_known_ones() -> None:
    ran = (await run_calls([calling("tripple")], [double, for_ever]))[0]
    assert ran.message is not None
    assert ran.message.is_error
    assert ran.message.text == "UnknownTool: there is no tool named 'tripple'; the tools are double, for_ever"
    (none,) = await run_calls([calling("x" * 500)], [])
    assert none.message is not None
    assert none.message.text.endswith("there are no tools")
    assert len(none.message.text) < 200


async def test_invalid_arguments_are_an_error_and_the_tool_is_not_run() -> None:
    for arguments, said in [('{"n": "x"}', "argument `n` must be an integer"), ("{", "not JSON")]:
        ran = await ran_one(double, ToolCall("c1", "double", arguments))
        assert ran.message is not None
        assert ran.message.is_error
        assert ran.message.text.startswith("InvalidArguments: ")
        assert said in ran.message.text


async def test_long_arguments_are_read_outside_the_event_loop() -> None:
    seen: list[threading.Thread] = []

    @dataclass
    class Told:
        n: int

        def __post_init__(self) -> None:
            seen.append(threading.current_thread())

    @tool
    async def count(many: list[Told]) -> int:
        return len(many)

    assert (await ran_one(count, calling("count", many=[{"n": n} for n in range(10_000)]))).value == 10_000
    assert threading.main_thread() not in seen
    assert (await ran_one(count, calling("count", many=[{"n": 1}]))).value == 1
    assert seen[-1] is threading.main_thread()
    failed = await ran_one(count, calling("count", many=[{"n": "x" * 60_000}]))
    assert failed.message is not None
    assert failed.message.text == (
        "InvalidArguments: argument `many[0].n` must be an integer, "
        "but a text of 60,000 characters came; `count` was not run"
    )


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no such town"), "ValueError: no such town"),
        (KeyError("k"), "KeyError: 'k'"),
        (StopIteration(), "StopIteration"),
        (SystemExit(3), "SystemExit: 3"),
        (ExceptionGroup("two", [ValueError("a"), ValueError("b")]), "ExceptionGroup: two (2 sub-exceptions)"),
    ],
    ids=str,
)
async def test_an_exception_is_an_error_result_without_a_traceback(
    error: BaseException, text: str, in_thread: bool
) -> None:
    def fail() -> None:
        raise error

    async def fail_async() -> None:
        raise error

    ran = await ran_one(Tool(fail if in_thread else fail_async, name="fail"), calling("fail"))
    assert ran.message is not None
    assert ran.message.is_error
    if isinstance(error, StopIteration):
        # Python itself turns it into another where it cannot pass.
        assert "StopIteration" in ran.message.text
    else:
        assert ran.message.text == text
        assert ran.error is error
    assert "File" not in ran.message.text


async def test_an_error_with_a_long_or_broken_text_is_bounded() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    @tool
    async def long() -> None:
        raise ValueError("x" * 100_000)

    @tool
    async def broken() -> None:
        raise Broken

    assert len(await text_of(long)) <= 2_000
    assert await text_of(broken) == "Broken"


async def test_one_failure_leaves_the_other_calls_alone() -> None:
    calls = [calling("double", "1", n=1), calling("nope", "2"), calling("double", "3", n="x")]
    done = await run_calls([*calls, calling("double", "4", n=4)], [double])
    assert [ran.message is not None and ran.message.is_error for ran in done] == [False, True, True, False]


async def test_a_tool_that_takes_too_long_is_given_up() -> None:
    ran = await ran_one(for_ever, timeout=0.01)
    assert ran.message is not None
    assert ran.message.is_error
    assert ran.message.text.startswith("ToolTimeout: `for_ever` was stopped after 0.01 s")
    assert isinstance(ran.error, ToolTimeout)


async def test_a_thread_that_takes_too_long_is_left_alone_and_its_result_dropped() -> None:
    may_end = threading.Event()

    @tool(timeout=0.01)
    def hang() -> str:
        may_end.wait(20)
        return "late"

    try:
        ran = await ran_one(hang, timeout=None)
    finally:
        may_end.set()
    assert isinstance(ran.error, ToolTimeout)


async def test_threads_that_hang_take_no_place_from_others() -> None:
    may_end = threading.Event()

    @tool
    def hang() -> None:
        may_end.wait(20)

    @tool
    def quick() -> int:
        return 1

    try:
        await run_calls([calling("hang", str(n)) for n in range(45)], [hang], timeout=0.2, parallel=45)
        assert (await ran_one(quick, timeout=10)).value == 1
    finally:
        may_end.set()


async def test_the_tools_own_timeout_counts_before_the_runs() -> None:
    calls = [calling("quick"), calling("double", n=1)]
    quick = tool(name="quick", timeout=0.01)(for_ever.function)
    with anyio.fail_after(20):
        done = await run_calls(calls, [quick, double], timeout=None)
    assert [type(ran.error) for ran in done] == [ToolTimeout, type(None)]


async def test_a_tools_own_timeout_error_keeps_its_words() -> None:
    @tool
    async def slow() -> None:
        raise TimeoutError("the printer did not answer")

    assert await text_of(slow) == "TimeoutError: the printer did not answer"


async def test_cancelling_cancels_what_runs_and_passes_through() -> None:
    began, ended = [], []
    all_began = anyio.Event()

    @tool
    async def wait(n: int) -> None:
        began.append(n)
        if len(began) == 3:
            all_began.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(n)

    finished = False

    async def run() -> None:
        nonlocal finished
        await run_calls([calling("wait", str(n), n=n) for n in range(3)], [wait])
        finished = True

    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await all_began.wait()
            group.cancel_scope.cancel()
    assert sorted(ended) == [0, 1, 2]
    assert not finished


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_task_cancelled_by_asyncio_itself_ends_the_run() -> None:
    for calls in (1, 3):
        began = asyncio.Event()

        @tool
        async def wait() -> None:
            began.set()  # noqa: B023  # called before the next round
            await asyncio.Event().wait()

        task = asyncio.ensure_future(run_calls([calling("wait", str(n)) for n in range(calls)], [wait]))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_cancellation_that_a_tool_lets_loose_is_its_error() -> None:
    @tool
    async def wait_for_a_cancelled_future() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    calls = [calling("wait_for_a_cancelled_future"), calling("double", n=2)]
    done = await run_calls(calls, [wait_for_a_cancelled_future, double])
    assert isinstance(done[0].error, asyncio.CancelledError)
    assert done[1].value == 4


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text as it is", "text as it is"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (1.5, "1.5"),
        (float("nan"), '"nan"'),
        ({"b": 1, "a": [1, None]}, '{"b": 1, "a": [1, null]}'),
        ({1: "a", Colour.RED: "b", (1, 2): "c"}, '{"1": "a", "red": "b", "[1, 2]": "c"}'),
        ({"ä": "ö"}, '{"ä": "ö"}'),
        ({3, 10, 2}, "[2, 3, 10]"),
        ({"b", "a", "c"}, '["a", "b", "c"]'),
        (b"\x00\xff", '"2 bytes in base64: AP8="'),
        (date(2030, 1, 2), '"2030-01-02"'),
        (Decimal("1.10"), '"1.10"'),
        (Path("a/b"), '"a/b"'),
        (Colour.RED, '"red"'),
        (Pair(1, "r"), '{"left": 1, "right": "r"}'),
        (
            Report(datetime(2030, 1, 1, tzinfo=UTC), {"b", "a"}, Pair(1, "r")),
            '{"made": "2030-01-01T00:00:00+00:00", "colours": ["a", "b"], "pair": {"left": 1, "right": "r"}}',
        ),
        (Message("user", "hi", id="m", created_at=0).model_dump()["created_at"], "1970-01-01T00:00:00+00:00"),
    ],
    # A set is written in another order in every process.
    ids=lambda value: repr(sorted(value) if isinstance(value, set) else type(value)),
)
async def test_what_is_returned_becomes_text(value: Any, text: str) -> None:
    assert await text_of(returning(value)) == text


async def test_what_cannot_be_shown_says_that_the_tool_ran() -> None:
    circle: list[Any] = []
    circle.append(circle)
    for value, said in [
        (object(), "holds a object"),
        ([object], "holds a type"),
        (circle, "nested more"),
        (10**5000, "too many digits"),
    ]:
        ran = await ran_one(returning(value))
        assert ran.message is not None
        assert ran.message.is_error
        assert ran.message.text.startswith("InvalidResult: it ran, but its result ")
        assert said in ran.message.text


async def test_a_result_can_be_stored_whatever_characters_it_has(memory: Memory) -> None:
    ran = await ran_one(returning("a\ud800b\0c \x1b[31m"))
    assert ran.message is not None
    assert ran.message.text == "a?b\0c \x1b[31m"
    await memory.append("ana", "trip", ran.message)


async def test_a_long_result_is_cut_in_the_middle_and_kept_whole_beside() -> None:
    whole = "".join(f"{n:09}\n" for n in range(200_000))
    ran = await ran_one(returning(whole))
    assert ran.message is not None
    text = ran.message.text
    assert len(text.encode()) <= OUTPUT_LIMIT
    assert text.startswith(whole[:40_000])
    assert text.endswith(whole[-20_000:])
    assert "of 2,000,000 bytes are not shown here; ask for less at a time" in text
    assert ran.full == whole
    small = tool(name="give", output_limit=300)(returning(whole).function)
    assert len(await text_of(small)) <= 300


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=2000), st.integers(256, 2000))
def test_a_capped_text_is_within_its_limit_and_a_short_one_unchanged(text: str, limit: int) -> None:
    capped = cap_text(text, limit)
    assert len(capped.encode()) <= limit
    if len(text.encode()) <= limit:
        assert capped == text
    else:
        head, _, rest = capped.partition("\n[... ")
        assert text.startswith(head)
        assert text.endswith(rest.partition(" ...]\n")[2])


async def test_items_are_collected_beside_the_text() -> None:
    seen = ContextItem("just seen")
    report = ContextItem({"pages": 3}, "The report\nof May", "r1")

    @tool
    async def one() -> ContextItem[Any]:
        return report

    @tool
    def several() -> list[Any]:
        return [seen, "and text", report]

    @tool
    async def stream() -> AsyncIterator[Any]:
        yield "first"
        yield seen
        yield {"n": 1}

    @tool
    def stream_in_thread() -> Iterator[Any]:
        yield from (report, 5)

    pooled = "Kept; `read_context_item` reads it:\n- [r1] The report of May"
    cases: list[tuple[Tool[..., Any], Any, str]] = [
        (one, (report,), pooled),
        (several, (seen, report), f"just seen\nand text\n{pooled}"),
        (stream, (seen,), 'first\njust seen\n{"n": 1}'),
        (stream_in_thread, (report,), f"{pooled}\n5"),
    ]
    for made, items, text in cases:
        ran = await ran_one(made)
        assert ran.message is not None
        assert ran.items == items
        assert ran.message.text == text
        assert not ran.message.is_error
    assert (await ran_one(stream)).value == ["first", seen, {"n": 1}]


async def test_a_generator_that_fails_is_an_error_and_is_closed() -> None:
    closed = []

    @tool
    async def failing() -> AsyncIterator[Any]:
        try:
            yield ContextItem("half")
            raise ValueError("broken")
        finally:
            closed.append(True)

    ran = await ran_one(failing)
    assert ran.message is not None
    assert ran.message.text == "ValueError: broken"
    assert ran.items == ()
    assert closed == [True]


async def test_a_generator_that_never_ends_is_stopped() -> None:
    @tool
    def endless() -> Iterator[int]:
        while True:
            yield 1

    @tool
    async def endless_async() -> AsyncIterator[int]:
        while True:
            yield 1

    for made in (endless, endless_async):
        assert "more than 10,000 pieces" in await text_of(made)


async def test_a_plain_function_that_returns_a_coroutine_is_awaited() -> None:
    @tool
    def later(n: int) -> Any:
        return double(n)

    assert (await ran_one(later, calling("later", n=2))).value == 4


async def test_what_is_injected_reaches_the_function() -> None:
    @tool
    def who(scope: str, conversation: str, pool: Any) -> str:
        return f"{scope} {conversation} {pool.catalogue()}"

    pool = ContextPool()
    await pool.add(ContextItem(1, "first", "a"))
    given = {"scope": "ana", "conversation": "trip", "pool": pool, "memory": None}
    assert await text_of(who, inject=given) == "ana trip - [a] first"


async def test_a_tool_that_pauses_is_not_run_and_has_no_message_yet() -> None:
    call = calling("ask_user_for_input", "c1", question="Which town?")
    asked, answered = await run_calls([call, calling("double", "c2", n=1)], [ask_user_for_input, double])
    assert asked.message is None
    assert asked.error is None
    assert answered.message is not None
    wrong = await ran_one(ask_user_for_input, calling("ask_user_for_input"))
    assert wrong.message is not None
    assert wrong.message.is_error


async def test_a_question_is_open_until_it_is_answered_or_the_user_goes_on() -> None:
    call = calling("ask_user_for_input", "c1", question="Which town?")
    broken = calling("ask_user_for_input", "c2")
    log = [Message("user", "Book a room."), Message("assistant", "", tool_calls=[call, broken])]
    (question,) = open_questions(log)
    assert (question.text, question.call) == ("Which town?", call)
    answer = question.answer("Oslo")
    assert (answer.role, answer.tool_call_id, answer.name) == ("tool", "c1", "ask_user_for_input")
    assert open_questions([*log, answer]) == []
    assert open_questions([*log, Message("user", "Never mind.")]) == []
    assert ask_user_for_input.pauses
    assert await ask_user_for_input("Which town?") == "Which town?"


async def test_wrong_settings_are_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="output_limit must be >= 256, not 5"):
        await run_calls([], [], output_limit=5)
    with pytest.raises(ValueError, match="parallel must be >= 1, not 0"):
        await run_calls([], [], parallel=0)
    with pytest.raises(InvalidTool):
        await run_calls([], [double, tool(name="double")(for_ever.function)])


async def test_a_tool_that_exits_does_not_end_the_program() -> None:
    @tool
    def leave() -> None:
        sys.exit("bye")

    assert await text_of(leave) == "SystemExit: bye"


@pytest.mark.parametrize("parallel", [1, 8])
async def test_whoever_is_cancelled_knows_which_calls_had_ended(parallel: int) -> None:
    ended: list[CallOutcome] = []
    calls = [calling("double", "a", n=2), calling("nobody", "b"), calling("for_ever", "c")]
    with anyio.CancelScope() as scope:

        def note(ran: CallOutcome) -> None:
            ended.append(ran)
            if len(ended) == 2:
                scope.cancel()

        await run_calls(calls, [double, for_ever], parallel=parallel, done=note)
    assert scope.cancelled_caught
    assert {ran.call.id: ran.value for ran in ended} == {"a": 4, "b": None}


@pytest.mark.parametrize("count", [1, 5])
async def test_each_call_is_told_once_with_what_is_returned(count: int) -> None:
    ended: list[CallOutcome] = []
    calls = [calling("double", str(n), n=n) for n in range(count)]
    done = await run_calls(calls, [double], done=ended.append)
    assert sorted(ended, key=lambda ran: str(ran.call.id)) == done


PICTURE = ImageContent.from_bytes(b"\x89PNG\r\n\x1a\n", "image/png")


async def test_images_of_a_result_are_parts_of_its_message() -> None:
    message = (await ran_one(returning(["A chart:", PICTURE]))).message
    assert message is not None
    assert message.parts == (TextContent("A chart:"), PICTURE)
    alone = (await ran_one(returning(PICTURE))).message
    assert alone is not None
    assert alone.parts == (PICTURE,)


async def test_an_image_that_a_result_has_no_room_for_is_a_line_of_its_text() -> None:
    large = ImageContent(f"data:image/png;base64,{'A' * IMAGE_LIMIT}")
    message = (await ran_one(returning([large, PICTURE]))).message
    assert message is not None
    _, image = message.parts
    assert image == PICTURE
    assert "An image of 5,000,022 characters is not shown" in message.text
    message = (await ran_one(returning([PICTURE] * (MAX_IMAGES + 2)))).message
    assert message is not None
    assert sum(isinstance(part, ImageContent) for part in message.parts) == MAX_IMAGES
    assert message.text.count("is not shown") == 2


async def test_the_text_beside_an_image_is_capped_like_any_other() -> None:
    ran = await ran_one(returning(["x" * 10_000, PICTURE]), output_limit=1_000)
    assert ran.message is not None
    assert ran.message.parts[1] == PICTURE
    assert len(ran.message.text.encode()) <= 1_000
    assert ran.full == "x" * 10_000
