"""Waking a task from another thread, on asyncio and on trio."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


def current_loop() -> Any:
    """The loop that runs now, in the form that `call_in` takes."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        import trio

        return trio.lowlevel.current_trio_token()


def call_in(loop: Any, call: Callable[[], Any]) -> None:
    """Run something in a loop, from any thread. A loop that has ended has nobody left to wake."""
    if isinstance(loop, asyncio.AbstractEventLoop):
        try:
            loop.call_soon_threadsafe(call)
        except RuntimeError:
            return
    else:
        import trio

        try:
            loop.run_sync_soon(call)
        except trio.RunFinishedError:
            return
