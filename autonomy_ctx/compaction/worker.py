"""`Worker`: writes the summaries that agents in other processes have asked for.

Agents with `context_summary={"worker": "summaries"}` write no summary themselves: they leave a note in the
store. Any number of workers of that name, on any machine that reaches the store, take turns at the notes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import anyio

from autonomy_ctx.background import AsyncResource, Background
from autonomy_ctx.compaction.config import (
    ContextSummaryConfig,
    check_worker_name,
    read_config,
    resolve_settings,
)
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.summarizer import Summarizer
from autonomy_ctx.formats.model_info import context_window_of
from autonomy_ctx.hooks import Hook
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.validation import check_int, check_seconds


class Worker(AsyncResource):
    """Writes summaries for agents in other processes, until it is closed.

    `config` has the same limits as the agents: the value of their `context_summary`, a dict or a
    `ContextSummaryConfig`. `model` writes the summaries; None means digests without a model. `reader` is the
    agents' model and `budget` their budget in tokens; they are needed if limits are fractions or depend on a
    budget. The worker looks for work every `poll_seconds`, or at once if the store sends notifications.
    Closing the worker does not close the memory.
    """

    def __init__(
        self,
        memory: Memory,
        model: Any = None,
        *,
        name: str = "summaries",
        config: ContextSummaryConfig | Mapping[str, Any] | None = None,
        reader: Any = None,
        budget: int | None = None,
        poll_seconds: float = 2.0,
        hooks: Iterable[Hook] | None = None,
    ) -> None:
        if not isinstance(memory, Memory):
            raise TypeError(f"memory is {type(memory).__name__}; it must be a Memory")
        check_worker_name("name", name)
        check_int("budget", budget, optional=True)
        self.name, self._memory = name, memory
        self._poll_seconds = check_seconds("poll_seconds", poll_seconds)
        found = read_config({} if config is None else config, model=model)
        if found is None:
            raise ValueError("config is False; give the limits of the agents, or leave it out")
        self.config = replace(found, worker=name)
        self._metrics = SummaryMetrics()
        self._background = Background()
        self._summarizer = Summarizer(
            resolve_settings(
                self.config,
                context_window_of(reader if reader is not None else self.config.model),
                reader=reader,
                budget=budget,
                room=budget,
            ),
            self._metrics,
            background=self._background,
            hooks=hooks,
        )
        self._scope: anyio.CancelScope | None = None
        self._ended = anyio.Event()
        self._closed = False

    async def run(self) -> None:
        """Write all due summaries and wait for more, until the worker is cancelled or closed.

        If the store cannot be reached, the worker tries again. If the model fails, it tries again after
        growing pauses.
        """
        if self._scope is not None:
            raise RuntimeError(f"the worker {self.name!r} is already running; make another Worker to run two")
        if self._closed:
            raise RuntimeError(f"the worker {self.name!r} is closed; make a new one")
        try:
            with anyio.CancelScope() as self._scope:
                await self._summarizer.serve(self._memory, self._wait, self._poll_seconds)
        finally:
            self._scope = None
            ended, self._ended = self._ended, anyio.Event()
            ended.set()

    async def catch_up(self) -> float | None:
        """Write all summaries that are due now. Returns the seconds until the next one is due, or None."""
        return await self._summarizer.catch_up(self._memory)

    def get_metrics(self) -> dict[str, Any]:
        """Counters of the summaries that this worker wrote, as in the history section of an agent."""
        return self._metrics.dump()

    async def close(self) -> None:
        """Stop the worker. A summary in progress is given up, and another worker can take it at once."""
        self._closed = True
        if self._scope is not None:
            self._scope.cancel()
            await self._ended.wait()
        await self._background.aclose()

    async def _wait(self, seconds: float) -> None:
        await self._memory.store.wait_for_work(task=self._summarizer.task, seconds=seconds)
