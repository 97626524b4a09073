"""Sections that fail, take too long, are cancelled, or run beside each other."""

from __future__ import annotations

import gc
import logging
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from own_sections import Does, Says, fail, note, texts

from autonomy_ctx import (
    AdditionalContextSection,
    ContextTemplate,
    ConversationHistorySection,
    Memory,
    Message,
    SectionError,
)

ADVICE = (
    "Fix the section. If a turn may do without it, set `required = False` on it before "
    "you add it to the template"
)


# -- sections that fail -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "reason"),
    [
        (fail, "RuntimeError: away"),
        (lambda params: None, "returned None; a section without messages returns []"),
        (lambda params: "hello", "returned str, not a list of messages"),
        (lambda params: {"role": "user"}, "returned dict, not a list of messages"),
        (
            lambda params: [note("good"), 5],
            "InvalidMessage: invalid message: `message` must be a dict or a Message, not int",
        ),
        (lambda params: params["missing"], "KeyError: 'missing'"),
        (lambda params: (_ for _ in ()).throw(ValueError()), "ValueError"),
    ],
    ids=["raises", "None", "text", "one dict", "no message", "KeyError", "wordless"],
)
async def test_an_optional_section_that_fails_is_left_out_and_recorded(
    work: Callable[[dict[str, Any]], Any], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    template = ContextTemplate([Says("before"), Does("broken", work), Says("after")])
    with caplog.at_level(logging.WARNING, logger="autonomy_ctx"):
        context = await template.compose(Memory(), "ana", "trip")
    assert [message.text for message in context.messages] == ["before", "after"]
    report = context.section("broken")
    assert report is not None
    assert (report.status, report.reason, report.messages, report.tokens) == ("failed", reason, 0, 0)
    assert "section `broken`" in caplog.text


async def test_a_section_that_fails_leaves_nothing_behind_for_the_garbage_collector(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.CRITICAL, logger="autonomy_ctx")  # a log record would keep the failure alive
    memory = Memory()
    await memory.append("ana", "trip", Message("user", "hello"))
    history = ConversationHistorySection(filter_fn=fail)
    history.required = False  # type: ignore[attr-defined]
    template = ContextTemplate([Says("broken", 5), history])
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        context = await template.compose(memory, "ana", "trip")
        gc.collect()
    assert [report.status for report in context.sections] == ["failed", "failed"]
    assert [str(warning.message) for warning in warned] == []


@pytest.mark.parametrize("independent", [False, True])
@pytest.mark.parametrize(
    ("work", "problem"),
    [
        (fail, "failed: RuntimeError: away"),
        (lambda params: None, "returned None; a section without messages returns []"),
    ],
    ids=["raises", "None"],
)
async def test_a_required_section_that_fails_leaves_no_context(
    work: Callable[[dict[str, Any]], Any], problem: str, independent: bool
) -> None:
    template = ContextTemplate([Says("fine"), Does("rules", work, required=True, independent=independent)])
    with pytest.raises(SectionError) as caught:
        await template.compose(Memory(), "ana", "trip")
    assert caught.value.section == "rules"
    assert str(caught.value) == f"required section `rules` {problem}; no context was composed. {ADVICE}"


@pytest.mark.parametrize("beside", [[], [Says("beside", independent=True)]], ids=["alone", "beside"])
async def test_no_section_starts_after_a_required_one_has_failed(beside: list[Any]) -> None:
    started: list[str] = []

    def start(params: dict[str, Any]) -> list[Any]:
        started.append("later")
        return []

    template = ContextTemplate([*beside, Does("rules", fail, required=True), Does("later", start)])
    with pytest.raises(SectionError):
        await template.compose(Memory(), "ana", "trip")
    assert started == []


async def test_the_error_of_a_required_section_is_the_cause() -> None:
    template = ContextTemplate([Does("rules", fail, required=True)])
    with pytest.raises(SectionError) as caught:
        await template.compose(Memory(), "ana", "trip")
    assert isinstance(caught.value.__cause__, RuntimeError)


@pytest.mark.parametrize("name", ["system_instructions", "conversation_history"])
async def test_instructions_and_history_are_required_unless_they_say_otherwise(name: str) -> None:
    with pytest.raises(SectionError, match=f"required section `{name}` failed: RuntimeError: away"):
        await texts(ContextTemplate([Does(name, fail)]))
    assert await texts(ContextTemplate([Does(name, fail, required=False)])) == []


async def test_a_required_provider_that_fails_leaves_no_context() -> None:
    section = AdditionalContextSection(
        "prices", provider_fn=lambda scope, conversation, params: fail(params), required=True
    )
    with pytest.raises(
        SectionError, match="required section `prices` its provider failed: RuntimeError: away"
    ):
        await texts(ContextTemplate([section]))


# -- time ---------------------------------------------------------------------------------------------


async def forever(params: dict[str, Any]) -> Any:
    await anyio.Event().wait()


@pytest.mark.parametrize("independent", [False, True])
async def test_an_optional_section_that_takes_too_long_is_left_out(independent: bool) -> None:
    slow = Does("slow", forever, timeout=0.01, independent=independent)
    with anyio.fail_after(5):
        context = await ContextTemplate([slow, Says("fast")]).compose(Memory(), "ana", "trip")
    assert [message.text for message in context.messages] == ["fast"]
    assert [report.reason for report in context.sections] == ["took longer than 0.01 s", None]


async def test_a_required_section_that_takes_too_long_leaves_no_context() -> None:
    template = ContextTemplate([Does("slow", forever, timeout=0.01, required=True)])
    with (
        anyio.fail_after(5),
        pytest.raises(SectionError, match=r"required section `slow` took longer than 0\.01 s; no context"),
    ):
        await template.compose(Memory(), "ana", "trip")


async def test_a_subclass_with_its_own_get_messages_is_held_to_its_timeout() -> None:
    class Endless(AdditionalContextSection):
        async def get_messages(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
            await anyio.Event().wait()

    class EndlessToo(AdditionalContextSection):
        async def contribute(self, memory: Any, scope: str, conversation: str, params: Any) -> Any:
            await anyio.Event().wait()

    for kind in (Endless, EndlessToo):
        with anyio.fail_after(5):
            context = await ContextTemplate([kind(timeout=0.01)]).compose(Memory(), "ana", "trip")
        assert context.sections[0].reason == "took longer than 0.01 s"


async def test_a_section_that_is_in_time_is_not_disturbed_by_its_timeout() -> None:
    assert await texts(ContextTemplate([Says("quick", timeout=60)])) == ["quick"]


@pytest.mark.parametrize("options", [{}, {"independent": True}, {"timeout": 60}, {"required": True}], ids=str)
async def test_cancellation_passes_through(options: dict[str, Any]) -> None:
    started = anyio.Event()
    ended: list[str] = []

    async def wait(params: dict[str, Any]) -> Any:
        started.set()
        await anyio.Event().wait()

    async def compose() -> None:
        try:
            await ContextTemplate([Does("waits", wait, **options)]).compose(Memory(), "ana", "trip")
            ended.append("composed")
        except anyio.get_cancelled_exc_class():
            ended.append("cancelled")
            raise

    async with anyio.create_task_group() as group:
        group.start_soon(compose)
        await started.wait()
        group.cancel_scope.cancel()
    assert ended == ["cancelled"]


# -- side by side -------------------------------------------------------------------------------------


def meeting(number: int) -> list[Callable[..., Any]]:
    """Work for several sections, each of which ends only when all have started."""
    started = [anyio.Event() for _ in range(number)]

    async def work(mine: int, *given: Any) -> list[Any]:
        started[mine].set()
        for event in started:
            await event.wait()
        return [note(str(mine))]

    return [partial(work, mine) for mine in range(number)]


async def test_independent_sections_run_side_by_side_and_keep_their_order() -> None:
    works = meeting(3)
    sections = [Does(str(mine), work, independent=True) for mine, work in enumerate(works)]
    with anyio.fail_after(5):
        assert await texts(ContextTemplate([*sections, Says("last")])) == ["0", "1", "2", "last"]


async def test_an_independent_section_runs_beside_those_that_wait_their_turn() -> None:
    works = meeting(2)
    sections = [Does("0", works[0]), Says("between"), Does("1", works[1], independent=True)]
    with anyio.fail_after(5):
        assert await texts(ContextTemplate(sections)) == ["0", "between", "1"]


async def test_sections_that_are_not_independent_run_one_after_the_other() -> None:
    running: list[str] = []

    def alone(name: str) -> Callable[[dict[str, Any]], Any]:
        async def work(params: dict[str, Any]) -> list[Any]:
            assert not running
            running.append(name)
            await anyio.lowlevel.checkpoint()
            running.remove(name)
            return [note(name)]

        return work

    beside = Says("beside", independent=True)
    template = ContextTemplate([Does("a", alone("a")), beside, Does("b", alone("b"))])
    assert await texts(template) == ["a", "beside", "b"]


async def test_a_provider_may_run_beside_the_others() -> None:
    sections = [
        AdditionalContextSection(str(mine), provider_fn=work, independent=True)
        for mine, work in enumerate(meeting(2))
    ]
    with anyio.fail_after(5):
        assert await texts(ContextTemplate(sections)) == ["0", "1"]


async def test_a_required_section_that_fails_ends_those_that_run_beside_it() -> None:
    sections = [Does("endless", forever, independent=True), Does("rules", fail, required=True)]
    with anyio.fail_after(5), pytest.raises(SectionError, match="required section `rules`"):
        await texts(ContextTemplate(sections))


async def test_an_optional_section_that_fails_beside_the_others_takes_nobody_along() -> None:
    sections = [Does("broken", fail, independent=True), Says("fine", independent=True)]
    assert await texts(ContextTemplate(sections)) == ["fine"]
