"""`TurnSignals`: wakes the turns of this process that wait for a conversation.

A signal only saves time. The rows of the store decide which turn is next, and turns of other processes read
them at intervals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import uniform
from typing import Any

import anyio

from autonomy_ctx.background import current_loop
from autonomy_ctx.memory.store import Key

# How often a turn looks whether it is next: by chance a little more or less, so that turns that began to
# wait together, in many processes, do not all ask the store at once.
POLL_SECONDS = 0.05
POLL_JITTER = 0.2


class TurnSignals:
    """One signal for each conversation that a turn waits for."""

    def __init__(self) -> None:
        # By event loop, too: an event belongs to one.
        self._events: dict[tuple[Any, Key], anyio.Event] = {}

    async def wait_until(self, key: Key, may_begin: Callable[[], Awaitable[bool]], seconds: float) -> None:
        """Look at every signal and in intervals; return when it may begin, or after so many seconds."""
        with anyio.move_on_after(seconds):
            while not await may_begin():
                # It stays until the turn is given back, which every turn that waited does in the end.
                event = self._events.setdefault((current_loop(), key), anyio.Event())
                with anyio.move_on_after(POLL_SECONDS * uniform(1 - POLL_JITTER, 1 + POLL_JITTER)):
                    await event.wait()

    def notify(self, key: Key) -> None:
        """Wake those of the running event loop that wait for a conversation."""
        event = self._events.pop((current_loop(), key), None) if self._events else None
        if event is not None:
            event.set()
