"""Where the context of a task comes from: memory, mail and events, of the task's own session only."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

from autonomy_ctx.background import Strides
from autonomy_ctx.items.events import DirectMessage
from autonomy_ctx.items.message import now
from autonomy_ctx.knowledge.knowledge import checked_limit
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.inbox import MOST_SHOWN
from autonomy_ctx.template.tasks import (
    DEFAULT,
    addressed,
    check_event,
    direct_message,
    event_id,
    event_message,
    event_time,
    is_direct,
    session_of,
)


class Events(Protocol):
    """Where events come from."""

    def events(self, session_id: str | None) -> Iterable[Any] | Awaitable[Iterable[Any]]:
        """The events of a session, at least the newest; plain or async."""


class EventBus:
    """Events in this process, the newest `limit` of all sessions; one whose id comes again is replaced."""

    def __init__(self, limit: int = 1000) -> None:
        self._limit = checked_limit("limit", limit)
        self._events: dict[Any, Any] = {}

    def publish(self, event: Any) -> None:
        """Make an event, such as a `Task`, known."""
        check_event(event)
        name = event_id(event) or id(event)
        self._events.pop(name, None)
        self._events[name] = event
        if len(self._events) > self._limit:
            del self._events[next(iter(self._events))]

    def events(self, session_id: str | None = None) -> list[Any]:
        """The events of a session, oldest first; None is the session of those that name none."""
        wanted = DEFAULT if session_id is None else session_id
        return [event for event in self._events.values() if session_of(event) == wanted]


class MemoryContextSource:
    """The newest messages of a task's session, and the mail of its agent.

    `memory` is a `Memory`, any object with `get_messages_only(scope, conversation)`, or one whose
    `tasks(session_id)`, plain or async, gives tasks.
    """

    def __init__(
        self, memory: Any, *, scope: str = "default", limit: int = 50, clock: Callable[[], datetime] = now
    ) -> None:
        if not any(callable(getattr(memory, name, None)) for name in ("get_messages_only", "tasks")):
            raise TypeError(
                f"memory is {type(memory).__name__}; it must have `get_messages_only` or `tasks(session_id)`"
            )
        self.memory, self.scope, self.clock = memory, scope, clock
        self.limit = checked_limit("limit", limit)
        self._history = ConversationHistorySection(max_messages=limit)

    async def recent(self, task: Any) -> list[Entry]:
        """The newest messages at their positions, oldest first."""
        if callable(getattr(self.memory, "get_messages_only", None)):
            found = await self._history.contribute(self.memory, self.scope, session_of(task), {})
            return [
                Entry(at or 0, one) for at, one in zip(found.positions or (), found.messages, strict=True)
            ]
        messages = map(event_message, await _events_of(self.memory.tasks, task))
        told = [Entry(at, one) for at, one in enumerate(messages, start=1) if one is not None]
        return told[-self.limit :]

    async def mail(self, task: Any) -> list[DirectMessage]:
        """What waits for the agent in this session."""
        if not isinstance(self.memory, Memory):
            return []
        box = Mailbox(self.memory, clock=self.clock)
        return await box.query_by_target(
            self.agent(task), scope=self.scope, conversation=session_of(task), limit=MOST_SHOWN
        )

    def agent(self, task: Any) -> str:
        """Whose mail it is: the agent of the memory's view, else the one that the task is for."""
        return str(getattr(self.memory, "agent", "") or getattr(task, "target_agent", ""))


class EventBusContextSource:
    """The newest events of a task's session, in order of time, and the direct messages among them.

    Direct messages are those to `agent`; unless given, to the task's `target_agent`.
    """

    def __init__(
        self,
        event_bus: Events,
        *,
        agent: str | None = None,
        limit: int = 50,
        clock: Callable[[], datetime] = now,
    ) -> None:
        if not callable(getattr(event_bus, "events", None)):
            raise TypeError(f"event_bus is {type(event_bus).__name__}; it must have `events(session_id)`")
        self.event_bus, self.agent, self.clock = event_bus, agent, clock
        self.limit = checked_limit("limit", limit)

    async def events(self, task: Any) -> list[Any]:
        """The events of the task's session, oldest first, each once."""
        return await _events_of(self.event_bus.events, task)

    async def mail(self, events: Iterable[Any], task: Any) -> list[DirectMessage]:
        """Those that are direct messages to the agent and have not expired."""
        agent, at = getattr(task, "target_agent", "") if self.agent is None else self.agent, self.clock()
        mine = [event for event in events if is_direct(event) and agent in addressed(event)]
        found = [direct_message(event) async for some in Strides(mine, 100) for event in some]
        return [mail for mail in found if mail is not None and not mail.expired(at)]


async def _events_of(give: Callable[[str | None], Any], task: Any) -> list[Any]:
    """The events of the task's session, whatever else is given, each once and in order of time."""
    found = give(getattr(task, "session_id", None))
    if inspect.isawaitable(found):
        found = await found
    session = session_of(task)
    mine = {event_id(one) or id(one): one for one in found if session_of(one) == session}
    return in_time(mine.values())


def in_time(events: Iterable[Any]) -> list[Any]:
    """In order of time where all say theirs, else as they came."""
    timed = [(event_time(event), event) for event in events]
    if all(at is not None for at, _ in timed):
        timed.sort(key=lambda one: one[0])  # type: ignore[arg-type, return-value]
    return [event for _, event in timed]
