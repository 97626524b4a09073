"""Hooks: how they are made, found again by name, called, and what is seen when one fails."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from enum import Enum
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.errors import AutonomyCtxError, HookError, UnregisteredHookError
from autonomy_ctx.hooks import (
    Hook,
    HookRegistry,
    fire,
    hook,
    hooks_for_event,
    hooks_from_names,
    hooks_to_names,
    validate_hooks,
)


class Event(Enum):
    BEFORE = "before"
    AFTER = "after"
    LATER = "later"


class Text(str, Enum):  # noqa: UP042  # the older way of writing it is the one that is in the wild
    BEFORE = "before"


class OtherText(str, Enum):  # noqa: UP042
    BEFORE = "before"


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Nothing a test registers is known to the next."""
    before = dict(HookRegistry._hooks)
    HookRegistry.clear()
    yield
    HookRegistry._hooks.clear()
    HookRegistry._hooks.update(before)


def made(name: str, *types: Enum, called: list[str] | None = None) -> Hook:
    def function(*args: object) -> None:
        if called is not None:
            called.append(name)

    function.__name__ = name
    return hook(types)(function)


def test_a_hook_is_the_function_itself_with_its_type() -> None:
    async def note(item: str) -> None: ...

    marked = hook(Event.AFTER)(note)
    assert marked is note
    assert note.type is Event.AFTER  # type: ignore[attr-defined]
    assert HookRegistry.get("note") is note
    assert HookRegistry.names() == ["note"]


def test_a_hook_may_be_for_several_events() -> None:
    @hook([Event.BEFORE, Event.AFTER])
    def note() -> None: ...

    assert note.type == (Event.BEFORE, Event.AFTER)  # type: ignore[attr-defined]
    assert hooks_for_event([note], Event.BEFORE) == hooks_for_event([note], Event.AFTER) == [note]
    assert hooks_for_event([note], Event.LATER) == []


@pytest.mark.parametrize("wrong", [None, "before", [], [Event.BEFORE, "after"], 3])
def test_the_decorator_takes_events_only(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes the event the function is for"):
        hook(wrong)


def test_the_decorator_goes_on_functions_only() -> None:
    with pytest.raises(TypeError, match="goes on a function, not on an object of type int"):
        hook(Event.BEFORE)(3)  # type: ignore[type-var]


def test_the_latest_registration_of_a_name_wins_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    made("note", Event.BEFORE)
    with caplog.at_level(logging.DEBUG, "autonomy_ctx.hooks"):
        again = made("note", Event.AFTER)
        HookRegistry.register(again)
    assert HookRegistry.get("note") is again
    assert [record.getMessage() for record in caplog.records] == [
        "hook 'note' was registered again; the latest wins"
    ]


def test_a_name_nobody_registered_says_what_to_do() -> None:
    with pytest.raises(UnregisteredHookError, match=r"no hook named 'gone' is registered; import the module"):
        HookRegistry.get("gone")
    assert issubclass(UnregisteredHookError, LookupError)


def test_any_function_with_a_type_is_a_hook() -> None:
    def plain() -> None: ...

    plain.type = Event.BEFORE  # type: ignore[attr-defined]
    assert validate_hooks((plain,), Event) == [plain]
    assert validate_hooks(None, Event) == []


@pytest.mark.parametrize("wrong", [print, "note", 3, None, Event.BEFORE])
def test_what_is_not_a_hook_is_refused_by_name(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a hook: a hook is a function whose `.type` is an event"):
        validate_hooks([wrong], Event)


def test_a_hook_that_would_never_be_called_is_refused_by_name() -> None:
    for_both = made("for_both", Event.AFTER, Text.BEFORE)
    assert validate_hooks([for_both], Event) == [for_both]
    with pytest.raises(TypeError) as caught:
        validate_hooks([for_both], OtherText)
    assert str(caught.value) == (
        "hook `for_both` is for Event.AFTER, Text.BEFORE and would never be called here, because the events "
        "here are those of OtherText; add it to an object that has its events"
    )


@pytest.mark.parametrize("wrong", ["note", 3, made("alone", Event.BEFORE), {"before": []}])
def test_hooks_come_in_a_list(wrong: Any) -> None:
    with pytest.raises(TypeError, match="hooks must be a list of hooks, not an object of type"):
        validate_hooks(wrong, Event)


async def test_all_hooks_of_an_event_are_called_in_order_sync_or_async() -> None:
    called: list[tuple[str, int]] = []

    @hook(Event.BEFORE)
    async def first(number: int) -> None:
        await checkpoint()
        called.append(("first", number))

    @hook(Event.AFTER)
    def other(number: int) -> None:
        called.append(("other", number))

    @hook(Event.BEFORE)
    def second(number: int) -> None:
        called.append(("second", number))

    @hook([Event.BEFORE, Event.AFTER])
    async def third(number: int) -> None:
        called.append(("third", number))

    await fire([first, other, second, third], Event.BEFORE, 7)
    assert called == [("first", 7), ("second", 7), ("third", 7)]


async def test_equal_members_of_two_enums_are_two_events() -> None:
    called: list[str] = []
    await fire([made("text", Text.BEFORE, called=called)], OtherText.BEFORE)
    assert called == []


class Veto(ValueError):
    def __init__(self, code: int, *, why: str) -> None:
        super().__init__(f"{code}: {why}")
        self.code = code


class Slotted(Exception):
    __slots__ = ("detail",)

    def __init__(self, detail: str) -> None:
        self.detail = detail


class Unmakeable(Exception):
    made = False

    def __new__(cls) -> Unmakeable:
        if Unmakeable.made:
            raise TypeError("there can only be one")
        Unmakeable.made = True
        return super().__new__(cls)


def failing(error: BaseException) -> Hook:
    @hook(Event.BEFORE)
    async def guard() -> None:
        raise error

    return guard


async def test_a_failing_hook_is_named_and_keeps_its_type_and_what_it_carries() -> None:
    cause = Veto(7, why="too large")
    with pytest.raises(Veto) as caught:
        await fire([failing(cause)], Event.BEFORE)
    error = caught.value
    assert isinstance(error, HookError)
    assert isinstance(error, AutonomyCtxError)
    assert (error.hook, error.event, error.code, error.args) == ("guard", "before", 7, ("7: too large",))
    assert error.__cause__ is cause
    assert str(error) == "hook `guard` (before) failed: Veto: 7: too large"


async def test_attributes_outside_the_dict_survive_too() -> None:
    with pytest.raises(FileNotFoundError) as missing:
        await fire([failing(FileNotFoundError(2, "gone", "a.txt"))], Event.BEFORE)
    assert (missing.value.errno, missing.value.filename) == (2, "a.txt")
    with pytest.raises(Slotted) as slotted:
        await fire([failing(Slotted("kept"))], Event.BEFORE)
    assert slotted.value.detail == "kept"


@pytest.mark.parametrize(
    "cause",
    [
        KeyError("a"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
        ExceptionGroup("several", [ValueError("a")]),
        UnregisteredHookError("x"),
        Unmakeable(),
        TimeoutError(),
    ],
    ids=lambda cause: type(cause).__name__,
)
async def test_every_failure_is_a_hook_error_that_reads_the_same(cause: Exception) -> None:
    with pytest.raises(HookError) as caught:
        await fire([failing(cause)], Event.BEFORE)
    assert str(caught.value).startswith(f"hook `guard` (before) failed: {type(cause).__name__}")
    assert caught.value.__cause__ is cause
    if not isinstance(cause, Unmakeable):
        assert isinstance(caught.value, type(cause))


async def test_a_stop_iteration_does_not_turn_into_something_else() -> None:
    @hook(Event.BEFORE)
    def guard() -> None:
        raise StopIteration

    with pytest.raises(HookError, match=r"hook `guard` .* failed: StopIteration"):
        await fire([guard], Event.BEFORE)


async def test_a_hook_that_fails_inside_a_hook_names_both() -> None:
    @hook(Event.AFTER)
    async def outer() -> None:
        await fire([failing(ValueError("no"))], Event.BEFORE, done=False)

    with pytest.raises(ValueError) as caught:
        await fire([outer], Event.AFTER, done=True)
    assert str(caught.value) == (
        "hook `outer` (after) failed: HookError: hook `guard` (before) failed: ValueError: no; "
        "nothing was changed; the change was made before, and stays"
    )
    assert isinstance(caught.value, HookError)
    assert caught.value.done is True


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
async def test_what_is_no_ordinary_error_passes_untouched(error: BaseException) -> None:
    with pytest.raises(type(error)) as caught:
        await fire([failing(error)], Event.BEFORE)
    assert caught.value is error


async def test_cancellation_passes_through() -> None:
    called: list[str] = []
    started = anyio.Event()

    @hook(Event.BEFORE)
    async def waits() -> None:
        started.set()
        await anyio.Event().wait()

    async def run() -> None:
        await fire([waits, made("next", Event.BEFORE, called=called)], Event.BEFORE)

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await started.wait()
        group.cancel_scope.cancel()
    assert group.cancel_scope.cancelled_caught
    assert called == []


def test_hooks_are_written_by_event_and_name_and_found_again() -> None:
    first = made("first", Event.BEFORE)
    second = made("second", Event.AFTER, Event.BEFORE)
    names = hooks_to_names([first, second])
    assert names == {"before": ["first", "second"], "after": ["second"]}
    assert hooks_from_names(names) == [first, second]
    assert hooks_to_names([]) == {}
    assert hooks_from_names({}) == []


def test_a_name_that_now_belongs_to_another_event_is_not_taken_for_the_old_one() -> None:
    names = hooks_to_names([made("note", Event.BEFORE)])
    made("note", Event.AFTER)
    with pytest.raises(UnregisteredHookError, match="no before hook named 'note' is registered"):
        hooks_from_names(names)
    HookRegistry.clear()
    with pytest.raises(UnregisteredHookError, match="no before hook named 'note' is registered"):
        hooks_from_names(names)


def test_an_order_that_cannot_be_still_finds_every_hook() -> None:
    first, second = (made(name, Event.BEFORE, Event.AFTER) for name in ("first", "second"))
    found = hooks_from_names({"before": ["first", "second"], "after": ["second", "first"]})
    assert {first, second} == set(found)


def test_a_hook_without_a_name_cannot_be_written() -> None:
    class Callable:
        type = Event.BEFORE

        def __call__(self) -> None: ...

    with pytest.raises(TypeError, match="type Callable has no name to be saved under"):
        hooks_to_names([Callable()])


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.lists(st.sampled_from(Event), min_size=1, unique=True)),
        max_size=8,
    )
)
def test_hooks_read_back_are_called_in_the_same_order_for_every_event(
    spec: list[tuple[str, list[Event]]],
) -> None:
    HookRegistry.clear()
    functions = {name: made(name, *types) for name, types in spec}
    hooks = [functions[name] for name, _ in spec]
    back = hooks_from_names(hooks_to_names(hooks))
    for event in Event:
        assert hooks_for_event(back, event) == hooks_for_event(hooks, event)
