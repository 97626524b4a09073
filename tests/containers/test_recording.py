"""What runs and executed tools leave in which context, on disk and in hand, whatever happens to them."""

from __future__ import annotations

import contextvars
import functools
import json
import math
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Generator, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import few

from autonomy_ctx import Message
from autonomy_ctx.containers.context import Context
from autonomy_ctx.containers.recording import record_model_call
from autonomy_ctx.containers.runtime import Runtime, get_runtime
from autonomy_ctx.containers.strategies import TruncateOldest
from autonomy_ctx.errors import ToolTimeout
from autonomy_ctx.tools.tool import Tool, tool

ROOT = Path(__file__).parents[2]
ASKED, ANSWERED = '{"problem": "What is 2+2?"}', '{"result": "4"}'


class Solver:
    """An agent as a runtime sees it: an object that is called with its input and awaited."""

    name = "solver"

    async def __call__(self, **given: Any) -> str:
        await anyio.lowlevel.checkpoint()
        return "4"


async def failing(**given: Any) -> str:
    await anyio.lowlevel.checkpoint()
    raise LookupError("no idea")


@tool
async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"result": a + b}


@tool
def divide(a: int, b: int) -> float:
    """Divide two numbers."""
    return a / b


@tool(is_model_call=True)
async def ask(prompt: str, schema: type | None = None) -> str:
    """Ask a model."""
    return f"an answer to {prompt}"


def shown(messages: Any) -> list[str]:
    """Messages as a reader would tell them."""
    found = []
    for message in messages:
        for call in message.tool_calls:
            found.append(f"call {call.name}({call.arguments})")
        if message.text or not message.tool_calls:
            error = " error" if message.is_error else ""
            found.append(f"{message.role}{error}: {message.text}")
    return found


def told(runtime: Runtime) -> dict[str, list[str]]:
    return {name: shown(context) for name, context in runtime.CTX.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.json"


@pytest.fixture(params=["in hand", "in a file"])
def runtime(request: pytest.FixtureRequest, path: Path) -> Iterator[Runtime]:
    """A runtime; one with a file is, at the end of the test, what its file and journal say it is."""
    if request.param == "in hand":
        yield Runtime()
    else:
        made = Runtime(file_path=path, keep_updated=True)
        yield made
        assert told(on_disk(path)) == told(made)


def on_disk(path: Path) -> Runtime:
    return contextvars.copy_context().run(Runtime.from_file, path)


# -- a run --------------------------------------------------------------------------------------------


async def test_a_run_records_what_it_was_asked_and_what_it_answered(runtime: Runtime) -> None:
    assert await runtime.run(Solver(), problem="What is 2+2?") == "4"
    both = [f"user: {ASKED}", f"assistant: {ANSWERED}"]
    assert told(runtime) == {"attempt_a": both, "main": both}
    assert len(runtime.get_full_context()) == 2


async def test_a_run_that_fails_leaves_main_alone(runtime: Runtime) -> None:
    with pytest.raises(LookupError, match="no idea") as caught:
        await runtime.run(failing, problem="What is 2+2?")
    assert caught.type is LookupError
    assert told(runtime) == {"attempt_a": [f"user: {ASKED}", "assistant error: LookupError: no idea"]}


async def test_a_run_that_is_cancelled_leaves_main_alone(runtime: Runtime) -> None:
    async def slow(**given: Any) -> None:
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        await runtime.run(slow, x=1)
    assert scope.cancelled_caught
    assert told(runtime) == {"attempt_a": ['user: {"x": 1}', "assistant error: Cancelled"]}


async def test_the_runtime_that_runs_is_the_current_one_inside(runtime: Runtime) -> None:
    seen = []

    async def agent() -> None:
        seen.append(get_runtime())

    before = get_runtime()
    await runtime.run(agent)
    await runtime.execute(agent)
    with pytest.raises(LookupError):
        await runtime.run(failing)
    assert seen == [runtime, runtime]
    assert get_runtime() is before is not runtime


async def test_a_plain_function_runs_in_a_thread_that_sees_the_callers_variables(runtime: Runtime) -> None:
    which = contextvars.ContextVar("which", default="none")
    which.set("mine")

    def agent(number: int) -> Any:
        assert threading.current_thread() is not threading.main_thread()
        return [which.get(), get_runtime() is runtime, number]

    assert await runtime.run(agent, number=3) == ["mine", True, 3]
    assert await runtime.execute(functools.partial(agent, number=4)) == ["mine", True, 4]
    assert shown(runtime.CTX["main"])[1:] == [
        'assistant: {"result": ["mine", true, 3]}',
        "call agent({})",
        'tool: {"result": ["mine", true, 4]}',
    ]


async def test_a_function_of_any_colour_is_run_to_its_end(runtime: Runtime) -> None:
    def later() -> Any:
        return Solver()()

    def pieces() -> Iterator[int]:
        yield from (1, 2)

    async def slow_pieces() -> AsyncIterator[int]:
        yield 3

    assert [await runtime.execute(one) for one in (later, pieces, slow_pieces, Solver())] == [
        "4",
        [1, 2],
        [3],
        "4",
    ]
    assert shown(runtime.CTX["main"])[-2:] == ["call solver({})", 'tool: {"result": "4"}']


@dataclass
class Answer:
    answer: int
    why: str


class Modelled:
    def model_dump(self) -> dict[str, Any]:
        return {"answer": 4}


@dataclass
class Reply:
    text: str
    steps: int = 3

    def __str__(self) -> str:
        return self.text


@pytest.mark.parametrize(
    ("result", "recorded"),
    [
        ("4", '{"result": "4"}'),
        (4, '{"result": 4}'),
        (None, '{"result": null}'),
        ('{"answer": 4}', '{"answer": 4}'),
        ('{"answer": 4', '{"result": "{\\"answer\\": 4"}'),
        ("[4]", '{"result": "[4]"}'),
        ({"answer": 4}, '{"answer": 4}'),
        (Answer(4, "2+2"), '{"answer": 4, "why": "2+2"}'),
        (Modelled(), '{"answer": 4}'),
        (Reply("é"), '{"result": "é"}'),
        (Message("assistant", "4"), '{"result": "4"}'),
        (b"1234", '{"result": "<4 bytes>"}'),
        (object(), '{"result": "<object>"}'),
    ],
)
async def test_an_output_is_recorded_as_an_object(result: Any, recorded: str) -> None:
    runtime = Runtime()

    async def agent() -> Any:
        return result

    assert await runtime.run(agent) is result
    assert runtime.CTX["main"][-1].text == recorded


# -- tools --------------------------------------------------------------------------------------------


async def test_an_executed_tool_is_recorded_with_its_result(runtime: Runtime) -> None:
    assert await runtime.execute(add, a=2, b=2) == {"result": 4}
    assert told(runtime) == {"main": ['call add({"a": 2, "b": 2})', 'tool: {"result": 4}']}
    call, result = runtime.CTX["main"]
    assert (result.tool_call_id, result.name, result.is_error) == (call.tool_calls[0].id, "add", False)


async def test_an_executed_tool_that_fails_is_recorded_with_its_error(runtime: Runtime) -> None:
    with pytest.raises(ZeroDivisionError):
        await runtime.execute(divide, a=1, b=0)
    assert told(runtime) == {
        "main": ['call divide({"a": 1, "b": 0})', "tool error: ZeroDivisionError: division by zero"]
    }


async def test_a_tool_has_the_time_that_it_says_it_may_take(runtime: Runtime) -> None:
    async def hang() -> None:
        await anyio.sleep_forever()

    with pytest.raises(ToolTimeout):
        await runtime.execute(Tool(hang, timeout=0.01))
    assert shown(runtime.CTX["main"])[0] == "call hang({})"
    assert runtime.CTX["main"][1].is_error
    assert await runtime.execute(Tool(Solver().__call__, name="solve", timeout=math.inf)) == "4"


async def test_what_is_called_directly_is_not_recorded(runtime: Runtime) -> None:
    as_tool = Tool(Solver().__call__, name="solver")

    async def agent() -> str:
        await add(a=2, b=2)
        assert divide(a=1, b=2) == 0.5
        return str(await as_tool(problem="x"))

    with runtime:
        await add(a=2, b=2)
        await as_tool(problem="x")
        assert runtime.CTX == {}
        await runtime.run(agent)
    both = ["user: {}", f"assistant: {ANSWERED}"]
    assert told(runtime) == {"attempt_a": both, "main": both}


async def test_a_runtime_first_used_through_execute_writes_to_its_file(path: Path) -> None:
    await Runtime.from_file(path, keep_updated=True).execute(add, a=2, b=2)
    assert shown(on_disk(path).CTX["main"]) == ['call add({"a": 2, "b": 2})', 'tool: {"result": 4}']


async def test_a_runtime_first_used_through_run_writes_to_its_file(path: Path) -> None:
    await Runtime.from_file(path, keep_updated=True).run(Solver())
    assert shown(on_disk(path).CTX["main"]) == ["user: {}", f"assistant: {ANSWERED}"]


async def test_identical_calls_have_ids_of_their_own(runtime: Runtime) -> None:
    for _ in range(3):
        await runtime.execute(add, a=2, b=2)
    main = list(runtime.CTX["main"])
    ids = [call.id for message in main for call in message.tool_calls]
    assert len(set(ids)) == 3
    assert [message.tool_call_id for message in main if message.tool_call_id] == ids


async def test_an_argument_that_json_cannot_hold_reaches_the_tool_as_it_is(runtime: Runtime) -> None:
    class Secretive:
        def __repr__(self) -> str:
            return "password"

        @property
        def text(self) -> str:
            raise RuntimeError

    itself: list[Any] = []
    itself += [itself, itself]
    given = {
        "secretive": Secretive(),
        "when": datetime(2030, 1, 1, tzinfo=UTC),
        "kind": int,
        "data": b"abc",
        "keys": {(1, 2): {3, 1, 2}},
        "number": math.nan,
        "huge": 10**5000,
        "itself": itself,
    }
    got: dict[str, Any] = {}

    async def keep(**given: Any) -> None:
        got.update(given)

    await runtime.execute(keep, **given)
    await runtime.run(keep, **given)
    assert all(got[name] is value for name, value in given.items())
    call, _, asked, _ = runtime.CTX["main"]
    assert json.loads(call.tool_calls[0].arguments) == json.loads(asked.text)
    assert json.loads(asked.text) == {
        "secretive": "<Secretive>",
        "when": "2030-01-01T00:00:00+00:00",
        "kind": "<int>",
        "data": "<3 bytes>",
        "keys": {"[1, 2]": [1, 2, 3]},
        "number": "nan",
        "huge": "<int>",
        "itself": ["<list>", "<list>"],
    }


async def test_arguments_are_recorded_as_they_were_before_the_tool_ran(runtime: Runtime) -> None:
    async def take(items: list[int]) -> int:
        return items.pop()

    assert await runtime.execute(take, items=[1, 2]) == 2
    assert shown(runtime.CTX["main"])[0] == 'call take({"items": [1, 2]})'


@pytest.mark.parametrize("name", ["llm", "chat_with_llm", "LLM_router"])
async def test_a_tool_is_a_model_call_when_it_says_so_and_not_by_its_name(name: str) -> None:
    runtime = Runtime()
    await runtime.execute(Tool(add.function, name=name), a=1, b=1)
    assert shown(runtime.CTX["main"])[0] == f'call {name}({{"a": 1, "b": 1}})'


async def test_a_name_that_no_provider_takes_is_made_one(runtime: Runtime) -> None:
    await runtime.execute(lambda: "x")
    assert shown(runtime.CTX["main"])[0] == "call _lambda_({})"


# -- model calls --------------------------------------------------------------------------------------


async def test_a_model_call_outside_a_run_is_not_recorded(runtime: Runtime) -> None:
    assert await runtime.execute(ask, prompt="why") == "an answer to why"
    with runtime:
        record_model_call("why", "because")
    assert runtime.CTX == {}


async def test_model_calls_inside_a_run_go_to_one_context_of_their_own(runtime: Runtime) -> None:
    async def agent() -> str:
        await runtime.execute(ask, prompt="why", schema=int)
        history = [{"role": "user", "content": "old"}, {"role": "user", "content": "new"}]
        record_model_call([*history, Message("assistant", "hm")], "answer to new")
        return "4"

    await runtime.run(agent)
    await runtime.run(agent)
    both = ["user: {}", f"assistant: {ANSWERED}"]
    noted = ["user: why", "assistant: an answer to why", "user: new", "assistant: answer to new"]
    assert told(runtime) == {
        "attempt_a": both,
        "intermediate_a": noted,
        "main": both * 2,
        "attempt_b": both,
        "intermediate_b": noted,
    }


async def test_a_model_call_that_fails_records_nothing_of_itself(runtime: Runtime) -> None:
    async def agent() -> str:
        with pytest.raises(LookupError):
            await runtime.execute(Tool(failing, is_model_call=True))
        return "4"

    await runtime.run(agent)
    assert list(runtime.CTX) == ["attempt_a", "main"]


async def test_a_model_call_that_notes_itself_is_noted_once(runtime: Runtime) -> None:
    async def answer(prompt: str) -> str:
        record_model_call(prompt, "noted by itself")
        return "noted by itself"

    async def agent() -> None:
        await runtime.execute(Tool(answer, is_model_call=True), prompt="why")
        await runtime.execute(ask, prompt="how")

    await runtime.run(agent)
    assert shown(runtime.CTX["intermediate_a"]) == [
        "user: why",
        "assistant: noted by itself",
        "user: how",
        "assistant: an answer to how",
    ]


@pytest.mark.parametrize(
    ("prompt", "noted"),
    [
        ("text", "text"),
        (Message("user", "one"), "one"),
        ([], ""),
        ([{"role": "system", "content": "rules"}], "rules"),
        ({1: Message("user", "first"), 2: Message("assistant", "x")}.values(), "first"),
    ],
    ids=["text", "message", "nothing", "no user", "no list"],
)
async def test_of_a_models_messages_the_newest_of_the_user_is_noted(prompt: Any, noted: str) -> None:
    runtime = Runtime()

    async def agent() -> None:
        record_model_call(prompt, "answer")

    await runtime.run(agent)
    assert runtime.CTX["intermediate_a"][0].text == noted


# -- tools inside a run -------------------------------------------------------------------------------


async def test_tools_inside_a_run_reach_main_with_it_and_in_order(runtime: Runtime) -> None:
    async def agent(x: int) -> str:
        await runtime.execute(add, a=x, b=1)
        with pytest.raises(ZeroDivisionError):
            await runtime.execute(divide, a=x, b=0)
        assert "main" not in runtime.CTX
        return "done"

    await runtime.run(agent, x=1)
    assert shown(runtime.CTX["main"]) == [
        'user: {"x": 1}',
        'call add({"a": 1, "b": 1})',
        'tool: {"result": 2}',
        'call divide({"a": 1, "b": 0})',
        "tool error: ZeroDivisionError: division by zero",
        'assistant: {"result": "done"}',
    ]
    assert list(runtime.CTX["main"]) == list(runtime.CTX["attempt_a"])


async def test_tools_inside_a_run_that_fails_stay_in_its_attempt(runtime: Runtime) -> None:
    async def agent() -> None:
        await runtime.execute(divide, a=1, b=0)

    with pytest.raises(ZeroDivisionError):
        await runtime.run(agent)
    assert told(runtime) == {
        "attempt_a": [
            "user: {}",
            'call divide({"a": 1, "b": 0})',
            "tool error: ZeroDivisionError: division by zero",
            "assistant error: ZeroDivisionError: division by zero",
        ]
    }


@pytest.mark.parametrize("fails", [True, False])
async def test_a_run_inside_a_run_counts_when_the_outer_one_does(runtime: Runtime, fails: bool) -> None:
    async def inner() -> str:
        await runtime.execute(add, a=1, b=1)
        return "inner"

    async def outer() -> str:
        with pytest.raises(LookupError):
            await runtime.run(failing)
        await runtime.run(inner)
        if fails:
            raise LookupError
        return "outer"

    if fails:
        with pytest.raises(LookupError):
            await runtime.run(outer)
        assert "main" not in runtime.CTX
    else:
        await runtime.run(outer)
        assert shown(runtime.CTX["main"]) == [
            "user: {}",
            "user: {}",
            'call add({"a": 1, "b": 1})',
            'tool: {"result": 2}',
            'assistant: {"result": "inner"}',
            'assistant: {"result": "outer"}',
        ]


async def test_another_runtime_inside_a_run_has_its_own_main(runtime: Runtime) -> None:
    other = Runtime()

    async def deep() -> str:
        await runtime.execute(add, a=1, b=1)
        return "deep"

    async def agent() -> None:
        await other.run(deep)
        assert shown(other.CTX["main"]) == ["user: {}", 'assistant: {"result": "deep"}']
        assert "main" not in runtime.CTX

    await runtime.run(agent)
    assert shown(runtime.CTX["main"])[1:3] == ['call add({"a": 1, "b": 1})', 'tool: {"result": 2}']


async def test_runs_at_the_same_time_do_not_mix(runtime: Runtime) -> None:
    async def agent(number: int) -> int:
        for step in range(3):
            await runtime.execute(add, a=number, b=step)
            await anyio.lowlevel.checkpoint()
        record_model_call(str(number), str(number))
        return number

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(functools.partial(runtime.run, agent, number=number))
    main = shown(runtime.CTX["main"])
    assert len(main) == 4 * 8
    for at in range(0, len(main), 8):
        number = json.loads(main[at].removeprefix("user: "))["number"]
        assert main[at + 1 : at + 8 : 2][:3] == [
            f'call add({{"a": {number}, "b": {step}}})' for step in range(3)
        ]
        assert main[at + 7] == f'assistant: {{"result": {number}}}'
    for letter in "abcd":
        asked, answered = runtime.CTX[f"intermediate_{letter}"]
        assert asked.text == answered.text


@pytest.mark.parametrize("fails", [True, False])
async def test_what_a_task_records_after_its_run_goes_the_way_of_the_run(
    runtime: Runtime, fails: bool
) -> None:
    ended = anyio.Event()

    async def late() -> None:
        await ended.wait()
        await runtime.execute(add, a=1, b=1)

    async def agent() -> str:
        group.start_soon(late)
        return await failing() if fails else "4"

    async with anyio.create_task_group() as group:
        try:
            await runtime.run(agent)
        except LookupError:
            assert fails
        ended.set()
    late_call = ['call add({"a": 1, "b": 1})', 'tool: {"result": 2}']
    assert shown(runtime.CTX["attempt_a"])[2:] == late_call
    both = ["user: {}", f"assistant: {ANSWERED}"]
    assert shown(runtime.CTX.get("main", [])) == ([] if fails else [*both, *late_call])


async def test_a_run_that_nobody_waits_for_any_more_leaves_main_alone(runtime: Runtime) -> None:
    class Forever:
        def __await__(self) -> Generator[None, None, None]:
            yield

    async def agent() -> None:
        await Forever()

    running = runtime.run(agent)
    running.send(None)
    running.close()
    assert told(runtime) == {"attempt_a": ["user: {}"]}
    await runtime.execute(add, a=1, b=1)
    assert len(runtime.CTX["main"]) == 2


# -- retries and candidates ---------------------------------------------------------------------------


async def test_a_failed_attempt_is_tried_again_in_a_context_of_its_own(path: Path) -> None:
    runtime = Runtime.from_file(path, keep_updated=True, retries=2)
    left = iter([True, True, False])

    async def agent(x: int) -> str:
        await runtime.execute(add, a=x, b=x)
        return await failing() if next(left) else "4"

    await runtime.run(agent, x=1)
    tried = ['user: {"x": 1}', 'call add({"a": 1, "b": 1})', 'tool: {"result": 2}']
    failed = [*tried, "assistant error: LookupError: no idea"]
    done = [*tried, f"assistant: {ANSWERED}"]
    assert told(runtime) == {"attempt_a": failed, "attempt_b": failed, "attempt_c": done, "main": done}
    assert told(on_disk(path)) == told(runtime)


async def test_after_the_last_retry_the_error_is_raised() -> None:
    runtime = Runtime(retries=2)
    with pytest.raises(LookupError):
        await runtime.run(failing)
    assert list(runtime.CTX) == ["attempt_a", "attempt_b", "attempt_c"]


async def test_a_cancelled_attempt_is_not_tried_again() -> None:
    runtime = Runtime(retries=2)

    async def slow() -> None:
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    with anyio.CancelScope() as scope:
        await runtime.run(slow)
    assert list(runtime.CTX) == ["attempt_a"]


async def test_of_several_candidates_the_first_to_succeed_reaches_main() -> None:
    runtime = Runtime(candidates=3)
    numbers = iter(range(3))
    failed = anyio.Event()

    async def agent() -> int:
        number = next(numbers)
        await runtime.execute(add, a=number, b=0)
        if number == 0:
            failed.set()
            raise LookupError("no idea")
        if number == 1:
            await anyio.sleep_forever()
        await failed.wait()
        return number

    assert await runtime.run(agent) == 2
    ends = sorted(shown(runtime.CTX[f"attempt_{letter}"])[-1] for letter in "abc")
    assert ends == [
        "assistant error: Cancelled",
        "assistant error: LookupError: no idea",
        'assistant: {"result": 2}',
    ]
    assert shown(runtime.CTX["main"]) == [
        "user: {}",
        'call add({"a": 2, "b": 0})',
        'tool: {"result": 2}',
        'assistant: {"result": 2}',
    ]


async def test_candidates_that_succeed_together_give_one_answer() -> None:
    runtime = Runtime(candidates=3)
    await runtime.run(Solver())
    assert shown(runtime.CTX["main"]) == ["user: {}", f"assistant: {ANSWERED}"]
    ends = sorted(context[-1].text for name, context in runtime.CTX.items() if name != "main")
    assert ends == ["Cancelled", "Cancelled", ANSWERED]


async def test_when_all_candidates_fail_an_error_is_raised_as_it_is() -> None:
    runtime = Runtime(candidates=2, retries=1)
    with pytest.raises(LookupError, match="no idea"):
        await runtime.run(failing)
    assert list(runtime.CTX) == ["attempt_a", "attempt_b", "attempt_c", "attempt_d"]


async def test_a_run_cancelled_while_its_candidates_end_leaves_main_alone() -> None:
    runtime, numbers = Runtime(candidates=2), iter(range(2))

    async def agent() -> str:
        if next(numbers) == 0:
            return "4"
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        return "never"

    with anyio.CancelScope() as scope:
        await runtime.run(agent)
    assert scope.cancelled_caught
    assert "main" not in runtime.CTX
    assert {context[-1].text for context in runtime.CTX.values()} == {"Cancelled"}


async def test_an_exit_inside_a_candidate_is_raised_as_it_is() -> None:
    runtime = Runtime(candidates=2, retries=3)

    async def agent() -> None:
        await anyio.lowlevel.checkpoint()
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await runtime.run(agent)
    assert "main" not in runtime.CTX


# -- mistakes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"retries": -1}, "retries must be >= 0, not -1"),
        ({"retries": 1.5}, "retries must be a whole number >= 0, not 1.5"),
        ({"candidates": 0}, "candidates must be >= 1, not 0"),
        ({"candidates": True}, "candidates must be a whole number >= 1, not True"),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(options: dict[str, Any], problem: str, path: Path) -> None:
    for make in (Runtime, functools.partial(Runtime.from_file, path)):
        with pytest.raises((TypeError, ValueError), match=problem):
            make(**options)
    assert not list(path.parent.iterdir())


async def test_what_cannot_be_called_is_refused_before_anything_is_recorded() -> None:
    runtime = Runtime()
    with pytest.raises(TypeError, match="agent must be a function or a callable object; str"):
        await runtime.run("solver")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="tool must be a function"):
        await runtime.execute(None)  # type: ignore[arg-type]
    assert runtime.CTX == {}


async def test_input_may_have_any_names(runtime: Runtime) -> None:
    async def agent(**given: Any) -> Any:
        return given

    names = {"self": 1, "agent": 2, "tool": 3, "input": 4}
    assert await runtime.run(agent, **names) == names == await runtime.execute(agent, **names)


# -- contexts that are not plain ----------------------------------------------------------------------


async def test_a_strategy_runs_after_what_is_recorded() -> None:
    runtime = Runtime(compact=TruncateOldest(max_messages=4))
    for _ in range(5):
        await runtime.run(Solver())
    assert len(runtime.CTX["main"]) == 4


async def test_main_may_be_a_context_with_a_file_of_its_own(tmp_path: Path) -> None:
    runtime = Runtime(file_path=tmp_path / "run.json", keep_updated=True)
    runtime.CTX["main"] = Context.from_file(tmp_path / "main.json", keep_updated=True)
    await runtime.run(Solver())
    assert shown(Context.from_file(tmp_path / "main.json")) == ["user: {}", f"assistant: {ANSWERED}"]


async def test_messages_put_in_by_hand_are_saved_with_what_is_recorded(path: Path) -> None:
    runtime = Runtime(file_path=path, keep_updated=True)
    runtime.CTX["main"] = Context([Message("user", "before")])
    await runtime.execute(add, a=1, b=1)
    assert shown(on_disk(path).CTX["main"])[0] == "user: before"
    assert told(on_disk(path)) == told(runtime)


def test_without_keep_updated_save_writes_what_was_recorded(path: Path) -> None:
    runtime = Runtime(file_path=path)
    anyio.run(runtime.run, Solver())
    assert not path.exists()
    runtime.save()
    assert told(on_disk(path)) == told(runtime)


# -- both or nothing ----------------------------------------------------------------------------------

actions = st.sampled_from(["tool", "bad tool", "model", "turn", "inner", "bad inner"])
ends = st.sampled_from(["return", "return", "raise", "cancel"])
scripts = st.lists(st.tuples(st.lists(actions, max_size=4), ends), min_size=1, max_size=4)


@few
@given(scripts, st.integers(0, 2), st.integers(1, 2), st.sampled_from(["asyncio", "trio"]))
def test_main_gets_all_of_a_run_or_nothing(
    runs: list[tuple[list[str], str]], retries: int, candidates: int, backend: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.json"
        runtime = Runtime(file_path=path, keep_updated=True, retries=retries, candidates=candidates)
        returned: set[int] = set()

        async def inner(fails: bool) -> str:
            await anyio.lowlevel.checkpoint()
            return await failing() if fails else "inner"

        async def agent(run: int, scope: anyio.CancelScope) -> int:
            steps, end = runs[run]
            for step in steps:
                match step:
                    case "tool":
                        await runtime.execute(add, a=run, b=0)
                    case "bad tool":
                        with pytest.raises(ZeroDivisionError):
                            await runtime.execute(divide, a=run, b=0)
                    case "model":
                        await runtime.execute(ask, prompt=str(run))
                    case "turn":
                        await anyio.lowlevel.checkpoint()
                    case _:
                        try:
                            await runtime.run(inner, fails=step == "bad inner")
                        except LookupError:
                            assert step == "bad inner"
            if end == "raise":
                await failing()
            if end == "cancel":
                scope.cancel()
                await anyio.lowlevel.checkpoint()
            return run

        async def started(run: int) -> None:
            with anyio.CancelScope() as scope:
                try:
                    returned.add(await runtime.run(agent, run=run, scope=scope))
                except LookupError:
                    assert runs[run][1] == "raise"

        async def together() -> None:
            async with anyio.create_task_group() as group:
                for run in range(len(runs)):
                    group.start_soon(started, run)

        anyio.run(together, backend=backend)
        assert returned == {run for run, (_, end) in enumerate(runs) if end == "return"}
        main = list(runtime.CTX.get("main", []))
        while main:
            run = json.loads(main[0].text)["run"]
            returned.remove(run)
            sizes = {"tool": 2, "bad tool": 2, "inner": 2}
            size = 2 + sum(sizes.get(step, 0) for step in runs[run][0])
            assert json.loads(main[size - 1].text) == {"result": run}
            open_calls = {call.id for message in main[:size] for call in message.tool_calls}
            assert open_calls == {message.tool_call_id for message in main[:size]} - {None}
            main = main[size:]
        assert returned == set()
        assert told(on_disk(path)) == told(runtime)


async def test_cancelled_at_any_point_a_run_returns_or_leaves_main_alone(path: Path) -> None:
    for candidates in (1, 2):
        outcomes = set()
        for turn in range(40):
            runtime = Runtime(candidates=candidates)

            async def agent(runtime: Runtime = runtime) -> str:
                await runtime.execute(add, a=1, b=1)
                await anyio.lowlevel.checkpoint()
                await runtime.execute(divide, a=1, b=1)
                return "4"

            async def cancel(turn: int = turn) -> None:
                for _ in range(turn):
                    await anyio.lowlevel.checkpoint()
                scope.cancel()

            result = None
            async with anyio.create_task_group() as group:
                with anyio.CancelScope() as scope:
                    group.start_soon(cancel)
                    result = await runtime.run(agent)
            outcomes.add(result)
            assert len(runtime.CTX.get("main", [])) == (0 if result is None else 6)
        assert None in outcomes


def test_a_journal_cut_at_any_byte_has_all_of_a_run_or_nothing(path: Path) -> None:
    runtime = Runtime(file_path=path, keep_updated=True)

    async def agent() -> str:
        await runtime.execute(add, a=1, b=1)
        return "4"

    async def both() -> None:
        await runtime.run(agent)
        await runtime.execute(add, a=2, b=2)

    anyio.run(both)
    journal = path.with_name("run.json.journal")
    data = journal.read_bytes()
    found = []
    lines = {at + near for at, byte in enumerate(data) if byte == 10 for near in range(-1, 3)}
    for size in sorted(lines.union(range(0, len(data), 20))):
        journal.write_bytes(data[:size])
        found.append(shown(on_disk(path).CTX.get("main", [])))
        for torn in path.parent.glob("*.torn*"):
            torn.unlink()
    assert {len(main) for main in found} == {0, 4, 6}
    assert found[-1] == shown(runtime.CTX["main"])


RUN_UNTIL_KILLED = """
import sys
import anyio
from autonomy_ctx.containers.runtime import Runtime
runtime = Runtime.from_file(sys.argv[1], keep_updated=True)

async def look(number):
    return number

async def agent(number):
    await runtime.execute(look, number=number)
    return "x" * 20000

async def main():
    for number in range(1_000_000):
        await runtime.run(agent, number=number)
        print(number, flush=True)

anyio.run(main)
"""


def test_runs_acknowledged_before_a_kill_are_whole_after_it(path: Path) -> None:
    command = [sys.executable, "-c", RUN_UNTIL_KILLED, str(path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        for line in process.stdout:
            if int(line) >= 30:
                break
        process.send_signal(signal.SIGKILL)
        acknowledged = [30, *map(int, process.stdout.read().split())][-1]
    main = list(on_disk(path).CTX["main"])
    assert len(main) % 4 == 0
    assert [json.loads(message.text) for message in main[::4]] == [
        {"number": number} for number in range(len(main) // 4)
    ]
    assert len(main) // 4 in (acknowledged + 1, acknowledged + 2)


RUN_ON_A_FULL_DISK = """
import logging, resource, sys
import anyio
from autonomy_ctx.containers.runtime import Runtime
logging.basicConfig()
runtime = Runtime.from_file(sys.argv[1], keep_updated=True)

async def agent(size):
    return "x" * size

async def failing():
    raise KeyError("x" * 5000)

async def main():
    await runtime.run(agent, size=1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, resource.RLIM_INFINITY))
    try:
        await runtime.run(agent, size=9000)
    except OSError as error:
        assert error.filename.startswith(sys.argv[1]), error
    else:
        raise AssertionError("there was room")
    assert len(runtime.CTX["main"]) == 2
    assert len(runtime.CTX["attempt_b"]) == 1
    for work in (runtime.run, runtime.execute):
        try:
            await work(failing)
        except KeyError:
            pass
    assert len(runtime.CTX["main"]) == 2
    await runtime.run(agent, size=2)

anyio.run(main)
"""


def test_a_run_that_cannot_be_written_leaves_main_alone(path: Path) -> None:
    command = [sys.executable, "-c", RUN_ON_A_FULL_DISK, str(path)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "could not record that attempt_c failed" in ran.stderr
    assert "could not record that failing failed" in ran.stderr
    asked = [message.text for message in on_disk(path).CTX["main"]][::2]
    assert asked == ['{"size": 1}', '{"size": 2}']
