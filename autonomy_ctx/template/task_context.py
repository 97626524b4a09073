"""Contexts for tasks: what an event-driven agent sees, in one call and as plain dicts.

A thin layer: sources say where to look, the budget of a template does the rest. A session is a
conversation, and nothing of one session is ever shown in another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from autonomy_ctx.items.events import DirectMessage
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.memory.mailbox import mail_id
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.sections.inbox import LEAST, InboxSection, most_urgent
from autonomy_ctx.sections.instructions import SystemInstructionsSection
from autonomy_ctx.sections.knowledge import KnowledgeSection
from autonomy_ctx.sections.section import ContributingSection, Contribution, Params, keeps_time
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.placement import HISTORY
from autonomy_ctx.template.task_sources import EventBusContextSource, MemoryContextSource, in_time
from autonomy_ctx.template.tasks import called, event_id, event_message, is_direct, session_of, task_text
from autonomy_ctx.template.template import ContextTemplate

logger = logging.getLogger("autonomy_ctx.template")

# Of a very long task, what knowledge is asked with: its beginning and its end.
MOST_QUESTION = 4000


class TaskContextManager:
    """Builds the context of a task: system prompt, memory, knowledge, events, direct messages, the task.

    The task itself is always there, shortened in the middle if it alone is too long. Under `max_tokens`
    events and knowledge give first, then the oldest messages of memory.
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
        self._template([*self._system, *self._knowledge("")])

    async def build_context(self, task: Any, *, tools: Sequence[Any] = ()) -> list[dict[str, str]]:
        """The messages for a model as dicts with `role` and a text as `content`; the task comes last."""
        context = await self.compose(task, tools=tools)
        return [{"role": one.role.value, "content": one.text} for one in context.messages]

    async def compose(self, task: Any, *, tools: Sequence[Any] = ()) -> ComposedContext:
        """The same with a report of each part; `tools` travel beside and count towards the budget."""
        question = task_text(task)
        current = Message(ChatRole.USER, question, id=event_id(task) or "current")
        stored, mail = await self._remembered(task)
        events, problem = await self._happened(task, mail)
        known = {current.id, *stored, *(mail_id(one.message) for one in stored.values())}
        recent = _recent(stored.values(), current)
        happened = [one for one in map(event_message, events) if one is not None and one.id not in known]
        waiting = {one.id: one for one in mail if one.id not in known}
        urgent = sorted(waiting.values(), key=lambda one: (-one.priority, one.created_at))
        room = max(self.max_tokens // 4, LEAST)
        sections = [
            *self._system,
            _Given("memory", recent, priority=2),
            *self._knowledge(question),
            _Given("events", Contribution(happened, problem=problem), priority=0),
            _Given(
                "direct_messages", Contribution(most_urgent(urgent, room, self.token_counter)), priority=5
            ),
            # Under the name of what a template never leaves out: it is what the user wants now.
            _Given(HISTORY, Contribution([current]), priority=10),
        ]
        beside = _NoMemory(self.token_counter)
        return await self._template(sections).compose(beside, "", session_of(task), tools=tools)

    async def taken(self, task: Any, context: ComposedContext) -> None:
        """The model has answered this context: the mail in it is delivered and not shown again."""
        for source in self.sources:
            if isinstance(source, MemoryContextSource):
                inbox = InboxSection(source.agent(task))
                await inbox.taken(source.memory, source.scope, session_of(task), context.messages)

    async def _remembered(self, task: Any) -> tuple[dict[str, Entry], list[DirectMessage]]:
        stored: dict[str, Entry] = {}
        mail: list[DirectMessage] = []
        for source in self.sources:
            if isinstance(source, MemoryContextSource):
                for entry in await source.recent(task):
                    stored.setdefault(entry.message.id, entry)
                mail += await source.mail(task)
        return stored, mail

    async def _happened(self, task: Any, mail: list[DirectMessage]) -> tuple[list[Any], str | None]:
        """The events that are no mail, and what kept some away; theirs is no reason to have no context."""
        events: dict[Any, Any] = {}
        problem: str | None = None
        for source in self.sources:
            if isinstance(source, EventBusContextSource):
                try:
                    found = await source.events(task)
                except Exception as error:
                    logger.warning("an event bus could not be read", exc_info=True)
                    problem = f"could not be read: {type(error).__name__}"
                    continue
                mail += await source.mail(found, task)
                plain = [one for one in found if not is_direct(one)][-source.limit :]
                events.update((event_id(one) or id(one), one) for one in plain)
        return in_time(events.values()), problem

    def _knowledge(self, question: str) -> list[ContributingSection]:
        if self.knowledge_base is None:
            return []
        half = MOST_QUESTION // 2
        asked = question if len(question) <= MOST_QUESTION else f"{question[:half]}\n{question[-half:]}"
        most = max(min(self.max_tokens // 4, 1024), 1)
        return [_Knowledge(self.knowledge_base, query=lambda _: asked, max_tokens=most)]

    def _template(self, sections: Sequence[Any]) -> ContextTemplate:
        return ContextTemplate(sections, max_tokens=self.max_tokens, token_counter=self.token_counter)


class _Given(ContributingSection):
    """Messages that are known already."""

    def __init__(self, name: str, contribution: Contribution, *, priority: int) -> None:
        super().__init__(name)
        self.priority, self._contribution = priority, contribution

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        return self._contribution


class _Knowledge(KnowledgeSection):
    """Knowledge as a system message, where readers of task contexts expect it; it says that it is data."""

    @keeps_time
    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        found = await super().contribute(memory, scope, conversation, params)
        said = [Message(ChatRole.SYSTEM, message.text) for message in found.messages]

        def shorter(tokens: int) -> Message | None:
            less = None if found.shorter is None else found.shorter(tokens)
            return None if less is None else Message(ChatRole.SYSTEM, less.text)

        return Contribution(said, problem=found.problem, shorter=shorter)


class _NoMemory:
    """What sections are given that need none."""

    def __init__(self, token_counter: TokenCounter) -> None:
        self.token_counter = token_counter

    def get_messages_only(self, scope: str, conversation: str) -> list[Any]:
        return []


def _recent(stored: Iterable[Entry], current: Message) -> Contribution:
    """What was said before the current task, which may be stored already, under its id or another."""
    plain = [(entry.position, _plain(entry.message)) for entry in stored]
    said = [(at, one) for at, one in plain if one is not None and one.id != current.id]
    if said and (said[-1][1].role, said[-1][1].text) == (current.role, current.text):
        said.pop()
    return Contribution([one for _, one in said], [at for at, _ in said])


def _plain(message: Message) -> Message | None:
    """A stored message as one text: calls in words, results of tools and what has no text left out."""
    if message.role is ChatRole.TOOL:
        return None
    calls = [called(call.name, call.arguments) for call in message.tool_calls]
    text = "\n".join(filter(None, [message.text, *calls]))
    role = ChatRole.SYSTEM if message.role is ChatRole.DEVELOPER else message.role
    return Message(role, text, id=message.id, created_at=message.created_at) if text else None
