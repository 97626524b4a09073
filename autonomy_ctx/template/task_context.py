"""Contexts for tasks and events: `Task`, the sources of memory and events, and `TaskContextManager`.

Sources read memory and events, and a template with a budget composes the context. A session is a
conversation; nothing of one session is shown in another.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime
from typing import Any

from autonomy_ctx.background import Chunks
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.outgoing import summary_record
from autonomy_ctx.memory.mailbox import Mailbox, as_message
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.events import DirectMessage, mail_id
from autonomy_ctx.messages.json_values import EMPTY, thaw
from autonomy_ctx.messages.message import ChatRole, Message, new_id, now, parse_extra, parse_text, parse_time
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import closed_name
from autonomy_ctx.sections.history import ConversationHistorySection
from autonomy_ctx.sections.inbox import MAX_INBOX_MESSAGES, MIN_INBOX_TOKENS, InboxSection, select_most_urgent
from autonomy_ctx.sections.instructions import SystemInstructionsSection
from autonomy_ctx.sections.knowledge import KnowledgeSection, shorten_question
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.running import HISTORY_SECTION
from autonomy_ctx.template.template import ContextTemplate
from autonomy_ctx.validation import check_int

logger = logging.getLogger("autonomy_ctx.template")

EXECUTE_ACTION, THINKING_ACTION, TOOL_CALL_ACTION, DIRECT_ACTION = (
    "execute",
    "node.thinking",
    "node.tool_call",
    "node.message",
)
# What a delegation is called, and which parameters may say it; the first that is there counts.
_DELEGATIONS: dict[str, tuple[str, tuple[str, ...]]] = {
    "node.delegation_request": ("request", ("subtask", "subtask_description", "content")),
    "node.delegation_response": ("response", ("result", "content")),
}
DEFAULT_SESSION = "default"
# Of the arguments of a call; what it did is told by what follows.
MAX_ARGUMENT_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class Task:
    """Something to do, or something that happened: who, to whom, what, and in which session."""

    task_id: str = field(default_factory=new_id)
    source_agent: str = ""
    target_agent: str = ""
    action: str = EXECUTE_ACTION
    parameters: Mapping[str, Any] = EMPTY
    session_id: str | None = None
    _: KW_ONLY
    created_at: datetime = field(default_factory=now)

    def __post_init__(self) -> None:
        for name in ("task_id", "source_agent", "target_agent", "action"):
            if not isinstance(getattr(self, name), str):
                kind = type(getattr(self, name)).__name__
                raise InvalidMessage(name, f"of a task must be a string, not {kind}")
        parse_text(self.session_id, "session_id")
        object.__setattr__(self, "parameters", parse_extra(self.parameters, "parameters"))
        object.__setattr__(self, "created_at", parse_time(self.created_at, "created_at"))


def events_to_messages(events: Iterable[Any]) -> list[dict[str, str]]:
    """Events as message dicts, in their order.

    Thoughts, tool calls and delegations get the role `assistant`; tasks and direct messages get `user`.
    Results of tools and unknown actions are left out.
    """
    found = [event_message(event) for event in events]
    return [{"role": one.role.value, "content": one.text} for one in found if one is not None]


def event_message(event: Any) -> Message | None:
    """One event as a message under the event's id; None for one that is not shown."""
    action, parameters = getattr(event, "action", None), _parameters(event)
    text: str | None = None
    role = ChatRole.ASSISTANT
    if action == THINKING_ACTION:
        text = _text(parameters, "content")
    elif action == TOOL_CALL_ACTION:
        name = _text(parameters, "tool_name")
        text = name and format_call(name, parameters.get("tool_args"))
    elif isinstance(action, str) and action in _DELEGATIONS:
        text = _delegation_text(event)
    elif action == EXECUTE_ACTION:
        role, text = ChatRole.USER, _request_text(parameters)
    elif action == DIRECT_ACTION:
        mail = direct_message(event)
        return None if mail is None else as_message(mail)
    if not text:
        return None
    return Message(role, text, id=event_id(event) or new_id(), created_at=event_time(event) or now())


def _delegation_text(event: Any) -> str | None:
    """The request of one agent to another, or its answer; None if there is neither."""
    parameters = _parameters(event)
    kind, names = _DELEGATIONS[event.action]
    text = next(filter(None, (_text(parameters, name) for name in names)), None)
    source = closed_name(str(getattr(event, "source_agent", None) or _text(parameters, "source_agent") or ""))
    label = f"Delegation {kind} from {source}" if source else f"Delegation {kind}"
    return text and f"[{label}] {text}"


def direct_message(event: Any) -> DirectMessage | None:
    """A `node.message` event as mail; None for other events, and if it is not valid mail."""
    if not is_direct_message(event):
        return None
    parameters = _parameters(event)
    options = ("priority", "ttl_seconds", "target_node_id", "parent_task_id", "metadata")
    given = {name: thaw(parameters[name]) for name in options if parameters.get(name) is not None}
    try:
        return DirectMessage(
            source_agent=getattr(event, "source_agent", None) or "",
            target_agent=getattr(event, "target_agent", None) or "",
            content=parameters.get("content"),  # type: ignore[arg-type]  # checked there
            id=event_id(event) or new_id(),
            created_at=event_time(event) or now(),
            **given,
        )
    except InvalidMessage as error:
        # An invalid event of another program must not fail the context.
        logger.warning("a direct message among the events was left out: %s", error)
        return None


def check_event(event: Any) -> None:
    """Raise TypeError for a value that is neither a task nor an event."""
    if not all(hasattr(event, name) for name in ("action", "parameters")):
        kind = type(event).__name__
        raise TypeError(
            f"{kind} is neither a task nor an event: give a Task, or an object with `action` and `parameters`"
        )


def is_direct_message(event: Any) -> bool:
    """Tell whether an event is a direct message, to any agent."""
    return getattr(event, "action", None) == DIRECT_ACTION


def task_text(task: Any) -> str:
    """The request of a task, in words."""
    check_event(task)
    message = event_message(task)
    if message is not None:
        return message.text
    parameters = _parameters(task)
    if text := _request_text(parameters):
        return text
    if all(value is None or value == "" for value in parameters.values()):
        raise InvalidMessage("parameters", "of the current task are empty; give it a `content`")
    return format_call(task.action, parameters).removeprefix("[Calling ").removesuffix("]")


def format_call(name: str, arguments: Any) -> str:
    """A tool call in words, such as `[Calling read_file(path="a.txt")]`."""
    if arguments is None:
        shown = "..."
    elif isinstance(arguments, Mapping):
        shown = ", ".join(f"{key}={_json(value)}" for key, value in arguments.items())
    else:
        shown = arguments if isinstance(arguments, str) else _json(arguments)
    if len(shown) > MAX_ARGUMENT_CHARACTERS:
        shown = f"{shown[:MAX_ARGUMENT_CHARACTERS]}..."
    return f"[Calling {name}({shown})]"


def session_of(event: Any) -> str:
    """The session, which is the conversation, that a task or event belongs to."""
    found = getattr(event, "session_id", None)
    return DEFAULT_SESSION if found is None else str(found)


def event_id(event: Any) -> str | None:
    """The id that an event has, if any."""
    found = getattr(event, "task_id", None)
    return found if isinstance(found, str) and found else None


def event_time(event: Any) -> datetime | None:
    """When an event happened, if it says so."""
    try:
        return parse_time(getattr(event, "created_at", None), "created_at")
    except InvalidMessage:
        return None


def _parameters(event: Any) -> Mapping[str, Any]:
    found = getattr(event, "parameters", None)
    return found if isinstance(found, Mapping) else EMPTY


def _text(parameters: Mapping[str, Any], name: str) -> str | None:
    value = parameters.get(name)
    return value if value is None or isinstance(value, str) else _json(value)


def _request_text(parameters: Mapping[str, Any]) -> str | None:
    return _text(parameters, "content") or _text(parameters, "subtask")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


class EventBus:
    """Events in this process: the newest `limit` of all sessions.

    An event with a known id replaces the old one.
    """

    def __init__(self, limit: int = 1000) -> None:
        self._limit = check_int("limit", limit)
        self._events: dict[Any, Any] = {}

    def publish(self, event: Any) -> None:
        """Publish an event, such as a `Task`."""
        check_event(event)
        name = event_id(event) or id(event)
        self._events.pop(name, None)
        self._events[name] = event
        if len(self._events) > self._limit:
            del self._events[next(iter(self._events))]

    def events(self, session_id: str | None = None) -> list[Any]:
        """The events of a session, oldest first; None means events without a session."""
        wanted = DEFAULT_SESSION if session_id is None else session_id
        return [event for event in self._events.values() if session_of(event) == wanted]


class MemoryContextSource:
    """The newest messages of a task's session, and the mail of its agent.

    `memory` is a `Memory`, an object with `get_messages_only(scope, conversation)`, or an object whose
    `tasks(session_id)`, plain or async, returns tasks.
    """

    def __init__(
        self, memory: Any, *, scope: str = "default", limit: int = 50, clock: Callable[[], datetime] = now
    ) -> None:
        if not any(callable(getattr(memory, name, None)) for name in ("get_messages_only", "tasks")):
            raise TypeError(
                f"memory is {type(memory).__name__}; it must have `get_messages_only` or `tasks(session_id)`"
            )
        self.memory, self.scope, self.clock = memory, scope, clock
        self.limit = check_int("limit", limit)
        self._history = ConversationHistorySection(max_messages=limit)

    async def recent(self, task: Any) -> list[Entry]:
        """The newest messages at their positions, oldest first."""
        if callable(getattr(self.memory, "get_messages_only", None)):
            found = await self._history.contribute(self.memory, self.scope, session_of(task), {})
            return [
                Entry(at or 0, one) for at, one in zip(found.positions or (), found.messages, strict=True)
            ]
        messages = map(event_message, await _read_events(self.memory.tasks, task))
        told = [Entry(at, one) for at, one in enumerate(messages, start=1) if one is not None]
        return told[-self.limit :]

    async def mail(self, task: Any) -> list[DirectMessage]:
        """The mail that waits for the agent in this session."""
        if not isinstance(self.memory, Memory):
            return []
        box = Mailbox(self.memory, clock=self.clock)
        return await box.query_by_target(
            self.agent(task), scope=self.scope, conversation=session_of(task), limit=MAX_INBOX_MESSAGES
        )

    def agent(self, task: Any) -> str:
        """The agent whose mail is shown: that of the memory's view, else the target of the task."""
        return str(getattr(self.memory, "agent", "") or getattr(task, "target_agent", ""))


class EventBusContextSource:
    """The newest events of a task's session, in order of time, and the direct messages among them.

    `event_bus` has `events(session_id)`, plain or async, which gives those of a session, at least the newest.
    Direct messages are those to `agent`; unless given, to the task's `target_agent`.
    """

    def __init__(
        self,
        event_bus: Any,
        *,
        agent: str | None = None,
        limit: int = 50,
        clock: Callable[[], datetime] = now,
    ) -> None:
        if not callable(getattr(event_bus, "events", None)):
            raise TypeError(f"event_bus is {type(event_bus).__name__}; it must have `events(session_id)`")
        self.event_bus, self.agent, self.clock = event_bus, agent, clock
        self.limit = check_int("limit", limit)

    async def events(self, task: Any) -> list[Any]:
        """The events of the task's session, oldest first, each once."""
        return await _read_events(self.event_bus.events, task)

    async def mail(self, events: Iterable[Any], task: Any) -> list[DirectMessage]:
        """The direct messages to the agent that have not expired."""
        agent, at = getattr(task, "target_agent", "") if self.agent is None else self.agent, self.clock()
        mine = [
            event
            for event in events
            if is_direct_message(event)
            # By its name, or by that of its node.
            and agent in (getattr(event, "target_agent", ""), _parameters(event).get("target_node_id"))
        ]
        found = [direct_message(event) async for some in Chunks(mine, 100) for event in some]
        return [mail for mail in found if mail is not None and not mail.expired(at)]


async def _read_events(give: Callable[[str | None], Any], task: Any) -> list[Any]:
    """The events of the task's session, whatever else is given, each once and in order of time."""
    found = give(getattr(task, "session_id", None))
    if inspect.isawaitable(found):
        found = await found
    session = session_of(task)
    mine = {event_id(one) or id(one): one for one in found if session_of(one) == session}
    return sort_by_time(mine.values())


def sort_by_time(events: Iterable[Any]) -> list[Any]:
    """Sorted by time if all events have a time, else in the given order."""
    timed = [(event_time(event), event) for event in events]
    if all(at is not None for at, _ in timed):
        timed.sort(key=lambda one: one[0])  # type: ignore[arg-type, return-value]
    return [event for _, event in timed]


class TaskContextManager:
    """Builds the context of a task: system prompt, memory, knowledge, events, direct messages, the task.

    The task itself is always shown, shortened in the middle if it alone is too long. Within `max_tokens`,
    events and knowledge are shortened first, then the oldest messages of memory.
    """

    def __init__(
        self,
        token_counter: TokenCounter,
        sources: Sequence[MemoryContextSource | EventBusContextSource],
        *,
        max_tokens: int = 4000,
        system_prompt: str = "",
        knowledge_base: Any = None,
    ) -> None:
        if not isinstance(sources, Iterable):
            raise TypeError(f"sources is {type(sources).__name__}; it must be a list of sources")
        for source in sources:
            if not isinstance(source, MemoryContextSource | EventBusContextSource):
                raise TypeError(
                    f"{type(source).__name__} is not a source; "
                    f"wrap it in a MemoryContextSource or an EventBusContextSource"
                )
        self.sources = list(sources)
        self.token_counter, self.max_tokens = token_counter, max_tokens
        self._system = [SystemInstructionsSection(system_prompt)] if system_prompt else []
        self.knowledge_base = knowledge_base
        # What is wrong with the arguments is said now, not at the first task.
        self._template([*self._system, *self._knowledge_sections("")])

    async def build_context(self, task: Any, *, tools: Sequence[Any] = ()) -> list[dict[str, str]]:
        """The messages for a model as dicts with `role` and a text as `content`; the task comes last."""
        context = await self.compose(task, tools=tools)
        return [{"role": one.role.value, "content": one.text} for one in context.messages]

    async def compose(self, task: Any, *, tools: Sequence[Any] = ()) -> ComposedContext:
        """The context of a task, with a report of each part. `tools` count towards the budget."""
        question = task_text(task)
        current = Message(ChatRole.USER, question, id=event_id(task) or "current")
        stored, events = dict[str, Entry](), dict[Any, Any]()
        mail, problem = list[DirectMessage](), None
        for source in self.sources:
            if isinstance(source, MemoryContextSource):
                for entry in await source.recent(task):
                    stored.setdefault(entry.message.id, entry)
                mail += await source.mail(task)
                continue
            try:
                found = await source.events(task)
            except Exception as error:
                # It fails no context.
                logger.warning("an event bus could not be read", exc_info=True)
                problem = f"could not be read: {type(error).__name__}"
                continue
            mail += await source.mail(found, task)
            plain = [one for one in found if not is_direct_message(one)][-source.limit :]
            events.update((event_id(one) or id(one), one) for one in plain)
        known = {current.id, *stored, *(mail_id(one.message) for one in stored.values())}
        recent = _recent_contribution(stored.values(), current)
        told = map(event_message, sort_by_time(events.values()))
        happened = [one for one in told if one is not None and one.id not in known]
        waiting = {one.id: one for one in mail if one.id not in known}
        urgent = sorted(waiting.values(), key=lambda one: (-one.priority, one.created_at))
        room = max(self.max_tokens // 4, MIN_INBOX_TOKENS)
        sections = [
            *self._system,
            _FixedSection("memory", recent, priority=2),
            *self._knowledge_sections(question),
            _FixedSection("events", Contribution(happened, problem=problem), priority=0),
            _FixedSection(
                "direct_messages",
                Contribution(select_most_urgent(urgent, room, self.token_counter)),
                priority=5,
            ),
            # Under the name of what a template never leaves out: it is what the user wants now.
            _FixedSection(HISTORY_SECTION, Contribution([current]), priority=10),
        ]
        beside = _EmptyMemory(self.token_counter)
        return await self._template(sections).compose(beside, "", session_of(task), tools=tools)

    async def deliver(self, task: Any, context: ComposedContext) -> None:
        """Call this after the model has answered: the mail in the context is not shown again."""
        for source in self.sources:
            if isinstance(source, MemoryContextSource):
                inbox = InboxSection(source.agent(task))
                await inbox.deliver(source.memory, source.scope, session_of(task), context.messages)

    def _knowledge_sections(self, question: str) -> list[ContributingSection]:
        if self.knowledge_base is None:
            return []
        query = shorten_question(question)
        max_tokens = max(min(self.max_tokens // 4, 1024), 1)
        return [_SystemKnowledgeSection(self.knowledge_base, query=lambda _: query, max_tokens=max_tokens)]

    def _template(self, sections: Sequence[Any]) -> ContextTemplate:
        return ContextTemplate(sections, max_tokens=self.max_tokens, token_counter=self.token_counter)


class _FixedSection(ContributingSection):
    """A section with fixed messages."""

    def __init__(self, name: str, contribution: Contribution, *, priority: int) -> None:
        super().__init__(name)
        self.priority, self._contribution = priority, contribution

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        return self._contribution


class _SystemKnowledgeSection(KnowledgeSection):
    """Knowledge as a system message, where readers of task contexts expect it; it says that it is data."""

    handles_timeout = True

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        found = await super().contribute(memory, scope, conversation, params)
        said = [Message(ChatRole.SYSTEM, message.text) for message in found.messages]

        def shorter(tokens: int) -> Message | None:
            less = None if found.shorter is None else found.shorter(tokens)
            return None if less is None else Message(ChatRole.SYSTEM, less.text)

        return Contribution(said, problem=found.problem, shorter=shorter)


class _EmptyMemory:
    """A memory for sections that do not read memory."""

    def __init__(self, token_counter: TokenCounter) -> None:
        self.token_counter = token_counter

    def get_messages_only(self, scope: str, conversation: str) -> list[Any]:
        return []


def _recent_contribution(stored: Iterable[Entry], current: Message) -> Contribution:
    """The messages before the current task, which may already be stored, under its id or another."""
    plain = [(entry.position, _plain_message(entry.message)) for entry in stored]
    said = [(at, one) for at, one in plain if one is not None and one.id != current.id]
    if said and (said[-1][1].role, said[-1][1].text) == (current.role, current.text):
        said.pop()
    return Contribution([one for _, one in said], [at for at, _ in said])


def _plain_message(message: Message) -> Message | None:
    """A stored message as one text: calls in words, results of tools and what has no text left out."""
    if message.role is ChatRole.TOOL:
        return None
    if isinstance(message, Summary):
        message = summary_record(message)
    calls = [format_call(call.name, call.arguments) for call in message.tool_calls]
    text = "\n".join(filter(None, [message.text, *calls]))
    role = ChatRole.SYSTEM if message.role is ChatRole.DEVELOPER else message.role
    return Message(role, text, id=message.id, created_at=message.created_at) if text else None
