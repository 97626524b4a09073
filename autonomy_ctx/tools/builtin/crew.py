"""The sub-agents of one conversation: which run, and which number a new one gets.

Numbers go from 1 to the most that may run, so whoever keeps something for each sub-agent knows all
the ids there can be.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable

import anyio

from autonomy_ctx.errors import SubagentError
from autonomy_ctx.tools.builtin.delegates import Delegate, Instance

logger = logging.getLogger("autonomy_ctx.tools")


class Crew:
    """At most `limit` sub-agents by their ids."""

    def __init__(self, limit: int, *, grace: float) -> None:
        self.running: dict[str, Instance] = {}
        self._limit, self._grace = limit, grace
        self._used: set[tuple[str, int]] = set()

    @property
    def busy(self) -> bool:
        """Whether one of them works."""
        return any(one.tasks_open for one in self.running.values())

    def ids(self) -> str:
        """The ids of those that run."""
        return ", ".join(self.running) or "none"

    def lines(self) -> list[str]:
        """Those that run, each with what it has done."""
        return [_shown(one) for one in self.running.values()]

    def of_name(self, name: str) -> list[Instance]:
        """Those of a configured name that run, by number."""
        found = [one for one in self.running.values() if one.name == name]
        return sorted(found, key=lambda one: one.number)

    def new_number(self, name: str) -> int:
        """A number that no running one has, if possible one that none had before."""
        taken = {one.number for one in self.of_name(name)}
        free = [number for number in range(1, self._limit + 1) if number not in taken]
        # None is free only when all places are taken, and then nothing is added.
        return next((number for number in free if (name, number) not in self._used), (free or [1])[0])

    def add(self, name: str, number: int, start: Callable[[], Awaitable[Delegate]]) -> Instance:
        """A new one that will be started with its first task; `SubagentError` when there is no place."""
        if len(self.running) >= self._limit:
            raise SubagentError(
                f"{name}-{number}",
                f"was not started: {len(self.running)} are running, which is the most at a time; "
                f"stop one that is not needed, or give the task to one of them ({'; '.join(self.lines())})",
            )
        instance = Instance(name, number, start, grace=self._grace)
        self.running[instance.id] = instance
        self._used.add((name, number))
        return instance

    def forget_gone(self, instance: Instance) -> None:
        """Let go of one that takes no more tasks."""
        if instance.gone is not None and self.running.get(instance.id) is instance:
            del self.running[instance.id]


async def stop_crews(crews: Iterable[Crew]) -> None:
    """Stop all that run, side by side; what goes wrong is logged."""
    instances = [one for crew in crews for one in crew.running.values()]
    if not instances:
        return
    async with anyio.create_task_group() as group:
        for instance in instances:
            group.start_soon(_stop_logged, instance)


async def _stop_logged(instance: Instance) -> None:
    try:
        await instance.stop()
    except SubagentError as error:
        logger.warning("%s", error)


def _shown(instance: Instance) -> str:
    done = f"{instance.tasks_done:,} {'task' if instance.tasks_done == 1 else 'tasks'} done"
    return f"{instance.id}: {done}, {f'{instance.tasks_open:,} open' if instance.tasks_open else 'idle'}"
