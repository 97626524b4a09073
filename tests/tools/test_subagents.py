"""Sub-agents: started, asked and stopped by id, each conversation with its own, within limits."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx import FrameworkInstructionsSection, Memory
from autonomy_ctx.errors import SubagentError
from autonomy_ctx.messages.message import ToolCall
from autonomy_ctx.tools.builtin.subagents import StartedSubagent, Subagents
from autonomy_ctx.tools.run import CallOutcome, run_calls

CONFIGS = {"researcher": {"instructions": "Finds facts.\nSlowly."}, "writer": {}}


class Worker:
    """A delegate that echoes; `hold` waits until it is let go, `fail` fails."""

    def __init__(self, company: Company, name: str, number: int, scope: str, conversation: str) -> None:
        self.company, self.who = company, f"{name}-{number}@{scope}/{conversation}"
        self.stopped = 0
        self.working = 0

    async def ask(self, task: str) -> str:
        assert not self.working, "two tasks at once"
        assert not self.stopped, "asked after it was stopped"
        self.working += 1
        try:
            self.company.began.append(f"{self.who}: {task}")
            self.company.news.set()
            self.company.news = anyio.Event()
            if task.startswith("hold"):
                await self.company.let_go.wait()
            if task == "fail":
                raise RuntimeError("no such book")
            return f"{self.who} did {task}"
        finally:
            self.working -= 1

    async def stop(self) -> None:
        assert not self.working, "stopped in the middle of a task"
        await anyio.lowlevel.checkpoint()
        self.stopped += 1
        if self.company.fails_to_stop:
            raise OSError("the door is locked")
        if self.company.never_stops:
            await anyio.sleep_forever()


class Company:
    """Spawns workers and remembers them."""

    def __init__(self, **options: Any) -> None:
        self.made: list[Worker] = []
        self.began: list[str] = []
        self.news, self.let_go = anyio.Event(), anyio.Event()
        self.starting, self.may_start = anyio.Event(), anyio.Event()
        self.slow_start = self.fails_to_start = self.fails_to_stop = self.never_stops = False
        self.subagents = Subagents(CONFIGS, self.spawn, **options)

    async def spawn(self, name: str, number: int, scope: str, conversation: str) -> StartedSubagent:
        self.starting.set()
        if self.slow_start:
            await self.may_start.wait()
        if self.fails_to_start:
            raise ConnectionError("no desk is free")
        self.made.append(Worker(self, name, number, scope, conversation))
        return self.made[-1]

    async def run(
        self, *calls: ToolCall, scope: str = "ana", conversation: str = "trip"
    ) -> list[CallOutcome]:
        return await run_calls(
            calls, self.subagents.tools, inject={"scope": scope, "conversation": conversation}, timeout=20
        )

    async def say(self, tool: str, *, is_error: bool = False, at: str = "ana/trip", **arguments: Any) -> str:
        scope, _, conversation = at.partition("/")
        [ran] = await self.run(call(tool, **arguments), scope=scope, conversation=conversation)
        assert ran.message is not None
        assert ran.message.is_error is is_error, ran.message.text
        return ran.message.text

    async def start(self, name: str = "researcher", **options: Any) -> str:
        return await self.say("start_subagent", name=name, **options)

    async def ask(self, subagent: str, task: str = "it", **options: Any) -> str:
        return await self.say("delegate_to_subagent", subagent=subagent, task=task, **options)

    async def stop(self, subagent: str, **options: Any) -> str:
        return await self.say("stop_subagent", subagent=subagent, **options)

    async def listed(self, **options: Any) -> list[str]:
        _, _, running = (await self.say("list_subagents", **options)).partition("Running:")
        return [line.removeprefix("- ") for line in running.strip().splitlines()]

    async def begun(self, count: int) -> None:
        while len(self.began) < count:
            await self.news.wait()

    @property
    def stopped(self) -> list[str]:
        return [worker.who for worker in self.made if worker.stopped]


def call(tool: str, call_id: str = "c1", **arguments: Any) -> ToolCall:
    return ToolCall(call_id, tool, json.dumps(arguments))


def asking(subagent: str, task: str) -> ToolCall:
    return call("delegate_to_subagent", task, subagent=subagent, task=task)


@asynccontextmanager
async def beside(company: Company, *calls: ToolCall, **options: Any) -> AsyncIterator[list[str]]:
    """The calls run beside what is done within; their texts are there at the end."""
    texts: list[str] = []

    async def work() -> None:
        texts.extend(ran.message.text for ran in await company.run(*calls, **options) if ran.message)

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        yield texts


# -- the tools ----------------------------------------------------------------------------------------


async def test_the_tools_are_those_that_the_framework_describes() -> None:
    company = Company()
    section = FrameworkInstructionsSection(subagent_configs=CONFIGS)
    [form] = await section.get_messages(Memory(), "ana", "trip", {})
    assert len(company.subagents.tools) == 4
    for tool in company.subagents.tools:
        assert f"- `{tool.name}`: " in form["content"]["text"]
        assert tool.description
        assert tool.parameters.injected == {"scope": True, "conversation": True}
        assert not {"scope", "conversation"} & set(tool.spec["parameters"]["properties"])


@pytest.mark.parametrize(("given", "seconds"), [(None, math.inf), (30.0, 30.0)])
def test_only_delegating_has_a_timeout_of_its_own(given: float | None, seconds: float) -> None:
    tools = {tool.name: tool.timeout for tool in Company(timeout=given).subagents.tools}
    assert tools.pop("delegate_to_subagent") == seconds
    assert set(tools.values()) == {None}


@pytest.mark.parametrize(("options", "count"), [({"depth": 3}, 4), ({"depth": 4}, 0), ({"max_depth": 0}, 0)])
def test_the_tools_are_not_offered_too_deep(options: dict[str, int], count: int) -> None:
    assert len(Subagents(CONFIGS, Company().spawn, **options).tools) == count


def test_nothing_to_start_means_no_tools() -> None:
    assert Subagents({}, Company().spawn).tools == []


@pytest.mark.parametrize(
    ("configs", "options", "said"),
    [
        ({"a": {}, "a-2": {}}, {}, "'a' and 'a-2' cannot be told apart"),
        ({"": {}}, {}, "one line of text"),
        ({"a\nb": {}}, {}, "one line of text"),
        ({5: {}}, {}, "one line of text"),
        ({"a": {}}, {"max_running": 0}, "max_running"),
        ({"a": {}}, {"max_conversations": 0}, "max_conversations"),
    ],
)
def test_settings_that_cannot_work_are_refused(configs: Any, options: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Subagents(configs, Company().spawn, **options)


def test_names_that_only_look_like_ids_are_taken() -> None:
    assert len(Subagents({"gpt-4": {}, "a": {}, "a-02": {}}, Company().spawn).tools) == 4


# -- starting, asking, listing, stopping --------------------------------------------------------------


async def test_each_start_gives_a_new_id() -> None:
    company = Company()
    assert [await company.start() for _ in range(2)] == ["researcher-1", "researcher-2"]
    assert await company.start("writer") == "writer-1"
    assert await company.stop("researcher-2") == "stopped researcher-2"
    assert await company.start() == "researcher-3"


async def test_numbers_stay_within_the_most_that_may_run_and_old_ones_come_last() -> None:
    company = Company(max_running=3)
    ids = []
    for _ in range(5):
        ids.append(await company.start())
        await company.stop(ids[-1])
    assert ids == ["researcher-1", "researcher-2", "researcher-3", "researcher-1", "researcher-1"]
    assert await company.ask("researcher-2") == "researcher-2@ana/trip did it"
    assert [await company.start() for _ in range(2)] == ["researcher-1", "researcher-3"]
    assert "3 are running" in await company.start(is_error=True)
    assert "`-1` to `-3`" in await company.ask("researcher-4", is_error=True)


async def test_a_task_goes_to_the_one_with_the_id() -> None:
    company = Company()
    await company.start()
    await company.start()
    assert await company.ask("researcher-2", "maps") == "researcher-2@ana/trip did maps"
    assert len(company.made) == 2


async def test_a_name_is_the_first_that_runs_or_starts_one() -> None:
    company = Company()
    assert await company.ask("researcher") == "researcher-1@ana/trip did it"
    await company.start()
    assert await company.ask("researcher") == "researcher-1@ana/trip did it"
    await company.stop("researcher-1")
    assert await company.ask("researcher") == "researcher-2@ana/trip did it"
    await company.stop("researcher")
    assert await company.ask("researcher") == "researcher-1@ana/trip did it"
    assert len(company.made) == 3


async def test_after_a_restart_an_id_is_started_again_with_its_number() -> None:
    company = Company()
    assert await company.ask("researcher-2") == "researcher-2@ana/trip did it"
    assert await company.listed() == ["researcher-2: 1 task done, idle"]
    assert [await company.start() for _ in range(2)] == ["researcher-1", "researcher-3"]


async def test_the_list_says_what_can_be_started_and_what_runs() -> None:
    company = Company()
    everything = "Can be started:\n- researcher: Finds facts.\n- writer: No description.\n"
    assert await company.say("list_subagents") == everything + "Running: none"
    await company.start("writer")
    await company.ask("researcher")
    await company.ask("researcher")
    await company.ask("researcher", "fail", is_error=True)
    assert await company.say("list_subagents") == (
        everything + "Running:\n- writer-1: 0 tasks done, idle\n- researcher-1: 2 tasks done, idle"
    )


async def test_a_stopped_one_is_stopped_once_and_gone() -> None:
    company = Company()
    await company.start()
    await company.stop("researcher-1")
    assert [worker.stopped for worker in company.made] == [1]
    assert "running: none" in await company.stop("researcher-1", is_error=True)


async def test_a_name_stops_one_only_if_it_is_the_only_one() -> None:
    company = Company()
    await company.start()
    await company.start()
    assert "running: researcher-1, researcher-2" in await company.stop("researcher", is_error=True)
    assert company.stopped == []


@pytest.mark.parametrize(
    "wrong", ["", "resercher", "researcher-", "researcher-0", "researcher-x", "writer-01", "writer-9"]
)
async def test_who_is_not_known_is_told_who_is(wrong: str) -> None:
    company = Company()
    assert "researcher, writer" in await company.ask(wrong, is_error=True)
    assert "researcher, writer" in await company.start(wrong, is_error=True)
    assert company.made == []
    assert not company.subagents._groups


# -- order --------------------------------------------------------------------------------------------


async def test_tasks_for_one_queue_in_order_and_others_work_beside() -> None:
    company = Company()
    tasks = [asking("researcher", f"hold {n}") for n in range(4)]
    async with beside(company, *tasks, asking("writer", "hold too")) as texts:
        await company.begun(2)
        assert sorted(company.began) == ["researcher-1@ana/trip: hold 0", "writer-1@ana/trip: hold too"]
        assert await company.listed() == [
            "researcher-1: 0 tasks done, 4 open",
            "writer-1: 0 tasks done, 1 open",
        ]
        company.let_go.set()
    assert [said for said in company.began if "researcher" in said] == [
        f"researcher-1@ana/trip: hold {n}" for n in range(4)
    ]
    assert texts[3] == "researcher-1@ana/trip did hold 3"
    assert len(company.made) == 2


async def test_a_task_that_is_given_up_leaves_the_others_in_order() -> None:
    company = Company()
    async with beside(company, asking("researcher", "hold 0")) as first:
        await company.begun(1)
        with anyio.CancelScope() as scope:
            async with beside(company, asking("researcher", "hold 1")):
                await company.subagents.list_subagents("ana", "trip")
                scope.cancel()
        async with beside(company, asking("researcher", "2")) as last:
            company.let_go.set()
    assert (first, last) == (["researcher-1@ana/trip did hold 0"], ["researcher-1@ana/trip did 2"])
    assert len(company.began) == 2
    assert await company.listed() == ["researcher-1: 2 tasks done, idle"]


async def test_stopping_ends_the_task_that_runs_and_those_that_wait() -> None:
    company = Company()
    async with beside(company, asking("researcher", "hold"), asking("researcher", "later")) as texts:
        await company.begun(1)
        assert await company.stop("researcher-1") == "stopped researcher-1"
    assert texts == ["SubagentError: sub-agent `researcher-1` was stopped before it answered"] * 2
    assert (len(company.began), len(company.stopped)) == (1, 1)
    assert await company.ask("researcher") == "researcher-1@ana/trip did it"


# -- conversations ------------------------------------------------------------------------------------


async def test_no_conversation_sees_the_sub_agents_of_another() -> None:
    company = Company()
    await company.ask("researcher", at="ana/trip")
    for other in ("ana/food", "bob/trip"):
        assert await company.listed(at=other) == ["none"]
        assert "running: none" in await company.stop("researcher-1", at=other, is_error=True)
        assert await company.ask("researcher", at=other) == f"researcher-1@{other} did it"
    assert await company.listed(at="ana/trip") == ["researcher-1: 1 task done, idle"]


async def test_conversations_not_used_for_long_lose_theirs_but_never_at_work() -> None:
    company = Company(max_conversations=3)
    async with beside(company, asking("researcher", "hold"), conversation="busy") as texts:
        await company.begun(1)
        for name in ("used", "forgotten", "used", "new"):
            await company.ask("writer", at=f"ana/{name}")
        assert company.stopped == ["writer-1@ana/forgotten"]
        company.let_go.set()
    assert texts == ["researcher-1@ana/busy did hold"]
    assert len(company.subagents._groups) == 3
    # Stopped, but not lost: the same number is started again.
    assert await company.ask("writer-1", at="ana/forgotten") == "writer-1@ana/forgotten did it"


async def test_many_conversations_are_held_in_bounded_memory() -> None:
    company = Company(max_conversations=5)
    for n in range(40):
        await company.start(at=f"ana/{n}")
        await company.ask("nobody", is_error=True, at=f"bob/{n}")
    assert len(company.subagents._groups) == 5
    assert len(company.stopped) == 35


# -- limits and failures ------------------------------------------------------------------------------


async def test_no_more_run_than_allowed_and_the_error_says_which_could_go() -> None:
    company = Company(max_running=2)
    await company.ask("researcher")
    await company.start("writer")
    for text in (await company.start(is_error=True), await company.ask("writer-2", is_error=True)):
        assert "2 are running" in text
        assert "stop one that is not needed" in text
        assert "(researcher-1: 1 task done, idle; writer-1: 0 tasks done, idle)" in text
    assert await company.start(at="ana/other") == "researcher-1"
    await company.stop("writer-1")
    assert await company.start() == "researcher-2"


async def test_a_failure_is_an_answer_with_its_reason_and_the_next_task_works() -> None:
    company = Company()
    text = await company.ask("researcher", "fail", is_error=True)
    assert text == "SubagentError: sub-agent `researcher-1` failed: RuntimeError: no such book"
    assert await company.ask("researcher-1") == "researcher-1@ana/trip did it"
    assert len(company.made) == 1


async def test_one_that_cannot_be_started_says_why_and_leaves_no_trace() -> None:
    company = Company()
    company.fails_to_start = True
    said = "SubagentError: sub-agent `{}` could not be started: ConnectionError: no desk is free"
    assert await company.start(is_error=True) == said.format("researcher-1")
    done = await company.run(*(asking("writer", str(n)) for n in range(3)))
    assert {ran.message.text for ran in done if ran.message} == {said.format("writer-1")}
    assert await company.listed() == ["none"]
    company.fails_to_start = False
    assert await company.ask("writer") == "writer-1@ana/trip did it"


async def test_a_start_that_is_given_up_leaves_no_trace_and_keeps_nobody_waiting() -> None:
    company = Company()
    company.slow_start = True
    given_up = anyio.CancelScope()

    async def start() -> None:
        with given_up:
            await company.run(asking("writer", "first"))

    async with anyio.create_task_group() as group:
        group.start_soon(start)
        await company.starting.wait()
        async with beside(company, asking("writer", "second")) as texts:
            while await company.listed() != ["writer-1: 0 tasks done, 2 open"]:
                await anyio.lowlevel.checkpoint()
            given_up.cancel()
    assert texts == ["SubagentError: sub-agent `writer-1` could not be started: it was given up"]
    assert company.made == []
    assert await company.listed() == ["none"]
    company.may_start.set()
    assert await company.ask("writer") == "writer-1@ana/trip did it"


async def test_one_that_is_stopped_while_it_starts_is_not_started() -> None:
    company = Company()
    company.slow_start = True
    async with beside(company, call("start_subagent", name="writer")) as texts:
        await company.starting.wait()
        await company.stop("writer")
    assert texts == ["SubagentError: sub-agent `writer-1` was stopped before it answered"]
    assert await company.listed() == ["none"]
    assert company.made == []


async def test_one_that_does_not_stop_properly_is_gone_all_the_same() -> None:
    company = Company()
    company.fails_to_stop = True
    await company.start()
    text = await company.stop("researcher-1", is_error=True)
    assert text.endswith("`researcher-1` did not stop properly: OSError: the door is locked")
    assert await company.listed() == ["none"]


async def test_stopping_never_takes_for_ever() -> None:
    company = Company(grace=0.01)
    company.never_stops = True
    await company.start()
    assert "did not stop within 0.01 s" in await company.stop("researcher-1", is_error=True)


async def test_all_are_stopped_at_the_end_also_when_some_fail(caplog: pytest.LogCaptureFixture) -> None:
    company = Company()
    for at in ("ana/trip", "bob/food"):
        await company.start(at=at)
        await company.start("writer", at=at)
    company.fails_to_stop = True
    async with beside(company, asking("researcher", "hold")) as texts:
        await company.begun(1)
        with caplog.at_level(logging.WARNING, "autonomy_ctx.tools"):
            await company.subagents.stop_all()
    assert len(company.stopped) == 4
    assert len(caplog.messages) == 4
    assert "the door is locked" in caplog.text
    assert texts == ["SubagentError: sub-agent `researcher-1` was stopped before it answered"]
    await company.subagents.stop_all()
    assert [worker.stopped for worker in company.made] == [1, 1, 1, 1]


async def test_stopping_all_goes_through_when_the_caller_is_cancelled() -> None:
    company = Company()
    await company.start()
    with anyio.CancelScope() as scope:
        scope.cancel()
        await company.subagents.stop_all()
    assert company.stopped == ["researcher-1@ana/trip"]


async def test_all_can_be_stopped_from_within_a_task() -> None:
    """As when a sub-agent's own tool closes the whole program."""

    class Closing:
        stopped = 0

        async def ask(self, task: str) -> str:
            await subagents.stop_all()
            await anyio.lowlevel.checkpoint()
            return "never"

        async def stop(self) -> None:
            self.stopped += 1

    closing = Closing()

    async def spawn(*who: Any) -> StartedSubagent:
        return closing

    subagents = Subagents(CONFIGS, spawn, grace=0.01)
    with pytest.raises(SubagentError, match="was stopped before it answered"):
        await subagents.delegate_to_subagent("writer", "close", "ana", "trip")
    assert closing.stopped == 1


STEPS = st.sampled_from(["start", "ask", "hold", "fail", "stop", "give up", "let go"])


@given(st.lists(st.tuples(STEPS, st.sampled_from(["researcher", "writer-2"])), max_size=25))
async def test_whatever_happens_each_is_stopped_once_and_does_one_task_at_a_time(
    steps: list[tuple[str, str]],
) -> None:
    company = Company(max_running=3)
    answers: list[str] = []
    scopes: list[anyio.CancelScope] = []

    async def run(call: ToolCall) -> None:
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            answers.extend(ran.message.text for ran in await company.run(call) if ran.message)

    async with anyio.create_task_group() as group:
        for step, who in steps:
            match step:
                case "start":
                    group.start_soon(run, call("start_subagent", name=who.removesuffix("-2")))
                case "ask" | "hold" | "fail":
                    group.start_soon(run, asking(who, step))
                case "stop":
                    group.start_soon(run, call("stop_subagent", subagent=who))
                case "give up":
                    for scope in scopes[-1:]:
                        scope.cancel()
                case "let go":
                    company.let_go.set()
            await anyio.lowlevel.checkpoint()
        company.let_go.set()
    await company.subagents.stop_all()
    assert [text for text in answers if "AssertionError" in text] == []
    assert [worker.stopped for worker in company.made] == [1] * len(company.made)
    assert await company.listed() == ["none"]
