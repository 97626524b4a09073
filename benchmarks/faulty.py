"""A summarizer in this process that fails in one way after the other, and the time that goes with it."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from random import Random
from typing import Any

from autonomy_ctx.messages.message import now
from benchmarks.honest import summary_of
from benchmarks.model_server import SLOW, garbage

FAULTS = ("hung", "dead", "slow", "garbage", "useless", "flaky")
# Seconds for a usual answer; a hundred times of it is late, but within the timeout.
USUAL_SECONDS = 0.0003


class Time:
    """Time that moves on when told to: as a clock in seconds and as the time of day."""

    def __init__(self) -> None:
        self.seconds, self._start = 0.0, now()

    def monotonic(self) -> float:
        return self.seconds

    def of_day(self) -> datetime:
        return self._start + timedelta(seconds=self.seconds)


class FaultyModel:
    """Writes honest summaries once `fault` is None; knows which task a turn runs in."""

    name = "faulty"

    def __init__(self, fault: str, turns: asyncio.Task[Any] | None) -> None:
        self.fault: str | None = fault
        self.calls = 0
        # Calls that were made by the turn itself, which had to wait for them.
        self.waited = 0
        self._turns = turns
        self._random = Random(11)

    async def complete_chat(
        self, messages: list[dict[str, Any]], stream: bool = False, max_tokens: int = 2048
    ) -> Any:
        self.calls += 1
        self.waited += asyncio.current_task() is self._turns
        match self.fault:
            case "hung":
                await asyncio.sleep(3600)
            case "dead":
                raise ConnectionError("connection refused")
            case "slow":
                await asyncio.sleep(SLOW * USUAL_SECONDS)
            case "garbage":
                return garbage(self.calls, messages)
            case "useless":
                # The part of garbage that anybody can tell: a tool call as text, or nothing.
                return garbage(1 + self.calls % 2, messages)
            case "flaky" if self._random.random() < 0.5:
                raise ConnectionError("connection reset")
        await asyncio.sleep(USUAL_SECONDS)
        return summary_of(messages, max_tokens)
