"""Tools for sub-agents: a model starts, calls, lists and stops them by id.

This module does not depend on agents: a callable makes a sub-agent. Each conversation has its own sub-agents.
Their ids survive the process: an id that is not running is started again with its number.
"""

from __future__ import annotations

import logging
import math
import re
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

import anyio

from autonomy_ctx.callables import describe_error
from autonomy_ctx.errors import InvalidArguments, SubagentError
from autonomy_ctx.sections.instructions import purpose_of
from autonomy_ctx.tools.tool import Tool
from autonomy_ctx.validation import check_int

_STOPPED_TEXT = "was stopped before it answered"
logger = logging.getLogger("autonomy_ctx.tools")
MAX_DEPTH = 4
MAX_RUNNING = 8
MAX_CONVERSATIONS = 256
GRACE_SECONDS = 2.0
_NAMES_SHOWN = 50
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


class StartedSubagent(Protocol):
    """A sub-agent that was started."""

    async def ask(self, task: str) -> str:
        """Do a task and give the answer; called for one task at a time."""

    async def stop(self) -> None:
        """End for good; called once, after the tasks have ended."""


# The configured name, the number of the instance, the scope and the conversation it is for.
Spawn: TypeAlias = Callable[[str, int, str, str], Awaitable[StartedSubagent]]


class RunningSubagent:
    """A sub-agent from the moment it is asked for: its first task starts it, the others queue.

    To be stopped, its tasks have `grace` seconds to end, and then it has as long itself.
    """

    def __init__(
        self, name: str, number: int, start: Callable[[], Awaitable[StartedSubagent]], *, grace: float
    ) -> None:
        self.name, self.number, self.id = name, number, f"{name}-{number}"
        self.tasks_done = 0
        # Why it takes no more tasks.
        self.end_reason: str | None = None
        self._start, self._grace = start, grace
        self._subagent: StartedSubagent | None = None
        self._lock = anyio.Lock()
        self._tasks: set[anyio.CancelScope] = set()
        self._ended = anyio.Event()

    @property
    def tasks_open(self) -> int:
        """The number of tasks that run or wait, its start among them."""
        return len(self._tasks)

    async def start(self) -> None:
        """Start it, unless it has started."""
        await self._run_task(None)

    async def ask(self, task: str) -> str:
        """Its answer to a task, after those that came before; `SubagentError` says why there is none."""
        return await self._run_task(task)

    async def stop(self) -> None:
        """End its tasks, then itself; `SubagentError` if it does not end."""
        self.end_reason = self.end_reason or _STOPPED_TEXT
        for scope in list(self._tasks):
            scope.cancel()
        with anyio.move_on_after(self._grace, shield=True):
            while self._tasks:
                await self._ended.wait()
        subagent, self._subagent = self._subagent, None
        if subagent is None:
            return
        # Shielded, because it is no longer registered and no other code would stop it.
        with anyio.move_on_after(self._grace, shield=True):
            try:
                await subagent.stop()
            except Exception as error:
                raise SubagentError(self.id, f"did not stop properly: {describe_error(error)}") from error
            return
        raise SubagentError(self.id, f"did not stop within {self._grace:g} s and was left alone")

    async def _run_task(self, task: str | None) -> str:
        """Do a task; None only starts it."""
        # Nothing is awaited before the lock, which is fair: tasks run in the order they came.
        with anyio.CancelScope() as scope:
            self._tasks.add(scope)
            try:
                async with self._lock:
                    subagent = await self._ensure_started()
                    answer = "" if task is None else await subagent.ask(task)
                    self.tasks_done += task is not None
                    return answer
            except SubagentError:
                raise
            except Exception as error:
                raise SubagentError(self.id, f"failed: {describe_error(error)}") from error
            finally:
                self._tasks.discard(scope)
                self._ended.set()
                self._ended = anyio.Event()
        raise SubagentError(self.id, _STOPPED_TEXT)

    async def _ensure_started(self) -> StartedSubagent:
        if self.end_reason is not None:
            raise SubagentError(self.id, self.end_reason)
        if self._subagent is None:
            try:
                self._subagent = await self._start()
            except BaseException as error:
                # Also when it is cancelled: those who wait must not wait for a start that nobody makes.
                why = describe_error(error) if isinstance(error, Exception) else "it was given up"
                self.end_reason = self.end_reason or f"could not be started: {why}"
                if not isinstance(error, Exception):
                    raise
                raise SubagentError(self.id, self.end_reason) from error
        return self._subagent


class SubagentGroup:
    """At most `limit` sub-agents by their ids."""

    def __init__(self, limit: int, *, grace: float) -> None:
        self.running: dict[str, RunningSubagent] = {}
        self._limit, self._grace = limit, grace
        self._used: set[tuple[str, int]] = set()

    @property
    def busy(self) -> bool:
        """Tell whether one of them works."""
        return any(one.tasks_open for one in self.running.values())

    def ids(self) -> str:
        """The ids of those that run."""
        return ", ".join(self.running) or "none"

    def status_lines(self) -> list[str]:
        """A line for each one that runs, with what it has done."""
        return [_status_line(one) for one in self.running.values()]

    def of_name(self, name: str) -> list[RunningSubagent]:
        """The running ones of a configured name, by number."""
        found = [one for one in self.running.values() if one.name == name]
        return sorted(found, key=lambda one: one.number)

    def new_number(self, name: str) -> int:
        """A number that no running one has, if possible one that none had before."""
        taken = {one.number for one in self.of_name(name)}
        free = [number for number in range(1, self._limit + 1) if number not in taken]
        # None is free only when all places are taken, and then nothing is added.
        return next((number for number in free if (name, number) not in self._used), (free or [1])[0])

    def add(self, name: str, number: int, start: Callable[[], Awaitable[StartedSubagent]]) -> RunningSubagent:
        """A new one that will be started with its first task; `SubagentError` when there is no place."""
        if len(self.running) >= self._limit:
            raise SubagentError(
                f"{name}-{number}",
                f"was not started: {len(self.running)} are running, which is the most at a time; "
                f"stop one that is not needed, or give the task to one of them "
                f"({'; '.join(self.status_lines())})",
            )
        instance = RunningSubagent(name, number, start, grace=self._grace)
        self.running[instance.id] = instance
        self._used.add((name, number))
        return instance

    def remove_ended(self, instance: RunningSubagent) -> None:
        """Let go of one that takes no more tasks."""
        if instance.end_reason is not None and self.running.get(instance.id) is instance:
            del self.running[instance.id]


async def stop_groups(groups: Iterable[SubagentGroup]) -> None:
    """Stop all that run, side by side; what goes wrong is logged."""
    instances = [one for group in groups for one in group.running.values()]
    if not instances:
        return
    async with anyio.create_task_group() as group:
        for instance in instances:
            group.start_soon(_stop_logged, instance)


async def _stop_logged(instance: RunningSubagent) -> None:
    try:
        await instance.stop()
    except SubagentError as error:
        logger.warning("%s", error)


def _status_line(instance: RunningSubagent) -> str:
    done = f"{instance.tasks_done:,} {'task' if instance.tasks_done == 1 else 'tasks'} done"
    return f"{instance.id}: {done}, {f'{instance.tasks_open:,} open' if instance.tasks_open else 'idle'}"


class Subagents:
    """The tools to work with sub-agents: `tools`, none at `max_depth`. End with `stop_all()`."""

    def __init__(
        self,
        configs: Mapping[str, Any],
        spawn: Spawn,
        *,
        depth: int = 0,
        max_depth: int = MAX_DEPTH,
        max_running: int = MAX_RUNNING,
        max_conversations: int = MAX_CONVERSATIONS,
        timeout: float | None = None,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self._configs = _check_names(configs)
        self._spawn, self._grace = spawn, grace
        self._max_running = check_int("max_running", max_running)
        self._max_conversations = check_int("max_conversations", max_conversations)
        # The one used last is the last.
        self._groups: OrderedDict[tuple[str, str], SubagentGroup] = OrderedDict()
        self.tools: list[Tool[..., Any]] = []
        if self._configs and depth < max_depth:
            self.tools = [
                Tool(self.start_subagent),
                # A sub-agent has limits of its own, so none by default.
                Tool(self.delegate_to_subagent, timeout=math.inf if timeout is None else timeout),
                Tool(self.list_subagents),
                Tool(self.stop_subagent),
            ]

    async def start_subagent(self, name: str, scope: str, conversation: str) -> str:
        """Start a sub-agent; the answer is its id, to give it tasks with.

        Args:
            name: Which sub-agent, by its name in the list of those that can be started.
        """
        if name not in self._configs:
            raise InvalidArguments(
                "start_subagent", f"names no sub-agent; there are {self._startable()}", argument="name"
            )
        group = self._group(scope, conversation)
        instance = self._add(group, name, group.new_number(name), scope, conversation)
        try:
            await instance.start()
        finally:
            group.remove_ended(instance)
        return instance.id

    async def delegate_to_subagent(self, subagent: str, task: str, scope: str, conversation: str) -> str:
        """Give a sub-agent a task, wait until it is done, and get its answer.

        Tasks for one sub-agent are done one after the other; different sub-agents work side by side.

        Args:
            subagent: The id of a sub-agent, or a name: then the first of that name, started if none runs.
            task: All that it has to know: it sees nothing of this conversation.
        """
        group = self._group(scope, conversation)
        instance = group.running.get(subagent) or self._find_or_add(group, subagent, scope, conversation)
        try:
            return await instance.ask(task)
        finally:
            group.remove_ended(instance)

    async def list_subagents(self, scope: str, conversation: str) -> str:
        """List the sub-agents that can be started and those that are running."""
        lines = ["Can be started:"]
        lines += [f"- {name}: {purpose_of(config)}" for name, config in self._configs.items()]
        running = self._group(scope, conversation).status_lines()
        lines += ["Running:", *(f"- {line}" for line in running)] if running else ["Running: none"]
        return "\n".join(lines)

    async def stop_subagent(self, subagent: str, scope: str, conversation: str) -> str:
        """Stop a sub-agent that is not needed any more; what it is working on is given up.

        Args:
            subagent: The id of a sub-agent that is running, or a name if only one of that name is.
        """
        group = self._group(scope, conversation)
        instance = group.running.get(subagent)
        if instance is None and len(of_name := group.of_name(subagent)) == 1:
            [instance] = of_name
        if instance is None:
            raise InvalidArguments(
                "stop_subagent",
                f"is not the id of a sub-agent that is running; running: {group.ids()}",
                argument="subagent",
            )
        del group.running[instance.id]
        await instance.stop()
        return f"stopped {instance.id}"

    async def stop_all(self) -> None:
        """Stop every sub-agent of every conversation; what goes wrong is logged."""
        groups = list(self._groups.values())
        self._groups.clear()
        await stop_groups(groups)

    def _group(self, scope: str, conversation: str) -> SubagentGroup:
        """The sub-agents of a conversation; a new group is kept only once it has one."""
        key = (scope, conversation)
        if key not in self._groups:
            return SubagentGroup(self._max_running, grace=self._grace)
        self._groups.move_to_end(key)
        return self._groups[key]

    def _find_or_add(
        self, group: SubagentGroup, subagent: str, scope: str, conversation: str
    ) -> RunningSubagent:
        """The first that runs of a name, else a new one; `InvalidArguments` for neither a name nor an id."""
        if subagent in self._configs:
            running = group.of_name(subagent)
            return running[0] if running else self._add(group, subagent, 1, scope, conversation)
        name, _, number = subagent.rpartition("-")
        if name not in self._configs or not _NUMBER.fullmatch(number) or int(number) > self._max_running:
            raise InvalidArguments(
                "delegate_to_subagent",
                f"is neither a name nor an id; the names are {self._startable()}, an id is a name with "
                f"`-1` to `-{self._max_running}`; running: {group.ids()}",
                argument="subagent",
            )
        return self._add(group, name, int(number), scope, conversation)

    def _add(
        self, group: SubagentGroup, name: str, number: int, scope: str, conversation: str
    ) -> RunningSubagent:
        instance = group.add(
            name, number, partial(self._spawn_within_limit, name, number, scope, conversation)
        )
        self._groups[scope, conversation] = group
        return instance

    async def _spawn_within_limit(
        self, name: str, number: int, scope: str, conversation: str
    ) -> StartedSubagent:
        await self._make_room()
        return await self._spawn(name, number, scope, conversation)

    async def _make_room(self) -> None:
        """Stop the sub-agents of conversations that were not used for long, but none that works."""
        over = len(self._groups) - self._max_conversations
        if over > 0:
            idle = [key for key, group in self._groups.items() if not group.busy][:over]
            await stop_groups([self._groups.pop(key) for key in idle])

    def _startable(self) -> str:
        return ", ".join(list(self._configs)[:_NAMES_SHOWN])


def _check_names(configs: Mapping[str, Any]) -> dict[str, Any]:
    for name in configs:
        if not isinstance(name, str) or name.splitlines() != [name] or not name.strip():
            raise ValueError(f"a sub-agent's name must be one line of text, not {name!r}")
        whole, _, number = name.rpartition("-")
        if whole in configs and _NUMBER.fullmatch(number):
            raise ValueError(
                f"the sub-agents {whole!r} and {name!r} cannot be told apart, as {name!r} is also the id of "
                f"a {whole!r}; give one of them another name"
            )
    return dict(configs)
