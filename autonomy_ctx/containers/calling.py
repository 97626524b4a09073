"""How any agent, tool or function is called, whatever its colour: the caller awaits, and nothing blocks."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx.errors import ToolTimeout

# What every provider takes as a tool's name.
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def check_callable(thing: Any, what: str) -> None:
    """Refuse what cannot be called, by what it was to be."""
    if not callable(thing):
        kind = type(thing).__name__
        raise TypeError(f"{what} must be a function, or an object that can be called; {kind} cannot")


def name_of(tool: Any) -> str:
    """What a tool is called in a record."""
    while isinstance(tool, functools.partial):
        tool = tool.func
    found = getattr(tool, "name", None) or getattr(tool, "__name__", None)
    name = found if isinstance(found, str) else type(tool).__name__
    return _OTHER.sub("_", name)[:_LONGEST_NAME]


async def called(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """What a function comes to; one that is not async runs in a worker thread.

    A generator comes to the list of what it yields. When the caller is cancelled, a thread is left
    alone and what it returns is dropped, as nothing can stop it.
    """
    if _is_async(function):
        value = function(**values)
    else:
        # A limiter of its own: a thread that hangs for ever must not take a place from others.
        (value,) = await anyio.to_thread.run_sync(
            _call_sync, function, values, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )
    if inspect.isawaitable(value):
        value = await value
    if inspect.isasyncgen(value):
        async with aclosing(value) as pieces:
            return [piece async for piece in pieces]
    return value


async def called_in_time(tool: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The same for a tool, which may say how many seconds it may take."""
    seconds = getattr(tool, "timeout", None)
    with anyio.move_on_after(seconds):
        return await called(tool, values)
    raise ToolTimeout(name_of(tool), seconds or 0)


def _call_sync(function: Callable[..., Any], values: Mapping[str, Any]) -> list[Any]:
    """The result in a list: trio takes no coroutine out of a thread as it is."""
    value = function(**values)
    return [list(value)] if inspect.isgenerator(value) else [value]


def _is_async(function: Any) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    # A tool is a plain call of its function; other objects may be async themselves.
    return any(
        inspect.iscoroutinefunction(one) or inspect.isasyncgenfunction(one)
        for one in (function, getattr(function, "function", None), getattr(function, "__call__", None))  # noqa: B004
    )
