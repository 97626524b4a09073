"""Calls any function, sync or async, plain or generator, so that the caller can await it and the event
loop is never blocked. Sync functions run in a worker thread; the values of a generator are collected in
a list.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx.errors import InvalidResult, ToolTimeout

# What every provider takes as a tool's name.
_INVALID_NAME_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_LENGTH = 64


def check_callable(thing: Any, what: str) -> None:
    """Raise TypeError if `thing` is not callable; `what` names it in the message."""
    if not callable(thing):
        kind = type(thing).__name__
        raise TypeError(f"{what} must be a function or a callable object; {kind} is neither")


def callable_name(tool: Any) -> str:
    """The name of a tool in a record."""
    while isinstance(tool, partial):
        tool = tool.func
    found = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    name = found if isinstance(found, str) else type(tool).__name__
    return _INVALID_NAME_CHARACTERS.sub("_", name)[:_MAX_NAME_LENGTH]


@dataclass(frozen=True, slots=True)
class YieldedValues:
    """The values that a generator yielded."""

    values: list[Any]


async def await_call(call: Callable[[], Any], *, finish: Callable[[Any], Any] | None = None) -> Any:
    """The result of a call, awaited if needed. A plain function runs in a worker thread.

    A thread cannot be stopped: when the caller is cancelled, the thread runs on and its result is dropped.
    """
    if _is_async(call):
        value = call()
    else:
        # A separate limiter, so that a thread that hangs does not block other threads.
        (value,) = await anyio.to_thread.run_sync(
            _call_sync, call, finish, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    return await value if inspect.isawaitable(value) else value


async def await_value(value: Any) -> Any:
    """The value that a plain or an async function has returned, awaited if needed."""
    return await value if inspect.isawaitable(value) else value


async def collect_call(call: Callable[[], Any], *, max_values: int | None = None) -> Any:
    """The result of a call. For a generator it is the list of all yielded values, at most `max_values`."""
    value = await await_call(call, finish=partial(_drain_generator, max_values=max_values))
    if not inspect.isasyncgen(value):
        return value
    values: list[Any] = []
    async with aclosing(value) as pieces:
        async for piece in pieces:
            values.append(piece)
            _check_yield_limit(values, max_values)
    return YieldedValues(values)


async def call_with_arguments(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The result of a function; for a generator, the list of its values."""
    value = await collect_call(partial(function, **values))
    return value.values if isinstance(value, YieldedValues) else value


async def call_with_timeout(tool: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The result of a tool, which may have a timeout in seconds."""
    with tool_timeout(callable_name(tool), getattr(tool, "timeout", None)):
        return await call_with_arguments(tool, values)


@contextmanager
def tool_timeout(tool: str, seconds: float | None) -> Iterator[None]:
    """Raise `ToolTimeout` when the block takes longer than these seconds."""
    with anyio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise ToolTimeout(tool, seconds or 0)


def _call_sync(call: Callable[[], Any], finish: Callable[[Any], Any] | None) -> list[Any]:
    """The result in a list, because trio does not accept a bare coroutine from a thread."""
    value = call()
    return [value if finish is None else finish(value)]


def _drain_generator(value: Any, *, max_values: int | None) -> Any:
    if not inspect.isgenerator(value):
        return value
    values = list(value if max_values is None else islice(value, max_values + 1))
    _check_yield_limit(values, max_values)
    return YieldedValues(values)


def _check_yield_limit(values: list[Any], max_values: int | None) -> None:
    if max_values is not None and len(values) > max_values:
        raise InvalidResult(f"is more than {max_values:,} pieces")


def _is_async(function: Any) -> bool:
    while isinstance(function, partial):
        function = function.func
    # A tool is a plain call of its function; other objects may be async themselves.
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (function, getattr(function, "function", None), getattr(function, "__call__", None))  # noqa: B004
    )


def describe_error(error: BaseException) -> str:
    """The class and text of an error in one line, without a traceback."""
    try:
        text = str(error)
    except Exception:
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
