"""One turn: a user's message in, an answer out, and everything in between kept.

The user's message is stored before the model is asked; a call and its results are stored together.
So wherever a turn ends, by an error, a cancel or a kill, the next one finds a history it can use.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import anyio

from autonomy_ctx.agents.asking import ask
from autonomy_ctx.agents.calling import run_tools, shelved, tell_called
from autonomy_ctx.agents.intake import take_in
from autonomy_ctx.agents.reply import STEPS, TOKENS, WAITING, AgentEvent, AgentReply, ToolAnswered, added
from autonomy_ctx.agents.setting import AgentHook, Setting
from autonomy_ctx.containers.recording import record_model_call
from autonomy_ctx.errors import BudgetExceeded, ContextOverflow, UserMessageMissing
from autonomy_ctx.hooks import fire
from autonomy_ctx.items.formats.base import ModelReply, StreamEvent, TextDelta, Usage
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.store import Key
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.inbox import InboxSection
from autonomy_ctx.sections.queue_and_pool import POOL, QUEUE
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.tools.builtin.ask_user import question_of
from autonomy_ctx.tools.run import Ran

Heard = Callable[[AgentEvent], None]
logger = logging.getLogger("autonomy_ctx.agents")

# Of a known context window: what a context may fill, because counts are estimates.
WINDOW_SHARE = 0.9
# What is left of a context that was too long, for the second try.
SMALLER = 0.6
# How far back a result is looked for that the context leaves out.
RESULT_REACH = 256
KEEP_SECONDS = 5.0


class Exchange:
    """One turn of one conversation."""

    def __init__(
        self,
        setting: Setting,
        key: Key,
        turn: str,
        *,
        params: Mapping[str, Any] | None = None,
        previous: ComposedContext | None = None,
        heard: Heard | None = None,
    ) -> None:
        self._setting, self._key, self._turn = setting, key, turn
        self._params, self._heard = params, heard
        self.previous = previous
        self._usage = Usage()
        self._spent = self._generation = 0
        self._kept: list[Message] = []
        self._contexts: list[ComposedContext] = []
        self._spoke = False
        # The newest user message, and where it is in the log.
        self._user: tuple[int, Message | None] = (0, None)

    async def run(self, message: Message) -> AgentReply:
        """Take the message in and go on until there is an answer."""
        try:
            reply = await self._take_in(message) or await self._steps()
        finally:
            if self._contexts:
                keep = self._setting.records.keep
                await self._anyway(keep(self._key, self._turn, self._generation, self._contexts))
        await self._anyway(self._setting.shelves.settle(self._key))
        await self._fire(AgentHook.AFTER_TURN, reply, done=True)
        return reply

    async def _take_in(self, message: Message) -> AgentReply | None:
        """Store what the user said; there is a reply at once when a question came after it already."""
        setting, key = self._setting, self._key
        await self._fire(AgentHook.BEFORE_TURN, message, done=False)
        self._generation = (await setting.memory.head(key.scope, key.conversation)).generation
        shows_mail = any(isinstance(section, InboxSection) for section in setting.template.sections)
        taken = await take_in(
            setting.memory,
            key,
            message,
            tools=setting.tools,
            mailbox=None if shows_mail else Mailbox(setting.memory, clock=setting.clock),
            new_id=setting.new_id,
        )
        self._user = (taken.position, taken.message)
        return self._paused("", taken.waiting) if taken.waiting else None

    async def _steps(self) -> AgentReply:
        limits = self._setting.limits
        for _ in range(limits.steps):
            reply = await self._asked()
            if not reply.tool_calls:
                await self._deliver()
                if reply.parts:
                    await self._keep(reply.message)
                return self._ended(reply.text, reply.stop or "end")
            questions = await self._call(reply)
            if questions:
                return self._paused(reply.text, questions)
            if limits.tokens is not None and self._spent >= limits.tokens:
                return self._ended(reply.text, TOKENS)
        return self._ended(reply.text, STEPS)

    async def _asked(self) -> ModelReply:
        """Compose and ask; once more with less when it was too much for the model."""
        setting = self._setting
        setting.metrics.count("steps")
        self._spoke = False
        composed = await self._compose(self._room())
        try:
            reply = await self._ask(composed)
        except ContextOverflow as overflow:
            if self._spoke:
                # Some of an answer was heard: another one must not follow it.
                raise
            setting.metrics.count("overflow_retries")
            self._learn(composed, overflow.window)
            try:
                composed = await self._compose(self._less(composed, overflow.window))
            except BudgetExceeded:
                raise overflow from None
            reply = await self._ask(composed)
        record_model_call(composed.messages, reply.text)
        setting.metrics.used(reply.usage)
        self._usage = added(self._usage, reply.usage)
        counter = setting.memory.token_counter
        reported = reply.usage.input_tokens
        if reported:
            counter.observe(composed.messages, reported, tools=setting.specs)
        if setting.limits.tokens is not None:
            sent = reported or composed.tokens + counter.count_tools(setting.specs)
            self._spent += sent + (reply.usage.output_tokens or counter.count_messages([reply.message]))
        return reply

    async def _compose(self, max_tokens: int | None) -> ComposedContext:
        setting, (_, scope, conversation) = self._setting, self._key
        shelf = await setting.shelves.of(self._key)
        composed = await setting.template.compose(
            setting.memory,
            scope,
            conversation,
            {QUEUE: shelf.queue.items, POOL: shelf.pool.view(), **(self._params or {})},
            previous=self.previous,
            tools=setting.specs,
            max_tokens=max_tokens,
        )
        position, message = self._user
        if not _shows(composed, position, message):
            raise UserMessageMissing(
                agent=setting.name,
                position=position,
                sections=[section.name for section in composed.sections if section.messages],
            )
        self.previous = composed
        self._contexts.append(composed)
        return composed

    async def _ask(self, composed: ComposedContext) -> ModelReply:
        setting = self._setting
        return await ask(
            setting.model,
            composed.messages,
            setting.specs,
            max_tokens=setting.limits.output_tokens,
            # A stand-in has no cache to mark places in.
            breakpoints=composed.breakpoints if isinstance(setting.model, Model) else (),
            answered=await self._answered(composed),
            heard=None if self._heard is None else self._tell,
        )

    async def _answered(self, composed: ComposedContext) -> list[str]:
        """The calls in a context whose results memory has, although a section leaves them out."""
        shown: set[str | None] = {None}
        calls: set[str | None] = set()
        for one in composed.messages:
            if one.tool_calls:
                calls.update(call.id for call in one.tool_calls)
            if one.role is ChatRole.TOOL:
                shown.add(one.tool_call_id)
        missing = calls - shown
        if not missing:
            return []
        found = await self._setting.memory.read(self._key.scope, self._key.conversation, limit=RESULT_REACH)
        results = (entry.message.tool_call_id for entry in found.entries)
        return [name for name in results if name is not None and name in missing]

    async def _deliver(self) -> None:
        """Tell sections that the model has answered what they showed, such as mail, which was read now."""
        (_, scope, conversation), composed = self._key, self._contexts[-1]
        for report in composed.sections:
            section = self._setting.template.get_section(report.name)
            taken = getattr(section, "taken", None)
            if callable(taken) and report.messages:
                messages = composed.messages
                shown = [messages[index] for index in report.indexes]
                await taken(self._setting.memory, scope, conversation, shown)

    async def _call(self, reply: ModelReply) -> list[str]:
        """Run what the model called and keep calls and results together; what the user is asked."""
        setting, key = self._setting, self._key
        ended: list[Ran] = []

        def done(ran: Ran) -> None:
            ended.append(ran)
            if self._heard is not None and ran.message is not None:
                self._heard(ToolAnswered(ran.call, ran.message))

        said, kept = reply.message, list[Ran]()
        try:
            ran = await run_tools(setting, key, reply.tool_calls, done)
            await self._shelve(ran, kept)
            questions = [question_of(one.call) or "" for one in kept if one.message is None]
            said = replace(said, phase=WAITING) if questions else said
            await self._keep(said, *_results(kept))
        except BaseException:
            # What has been done is kept, and once however often it is sent to memory; a call without a
            # result is shown as interrupted.
            await self._anyway(self._rescue(said, ended, kept))
            raise
        setting.metrics.count("tool_calls", len(kept))
        setting.metrics.count("tool_errors", sum(one.error is not None for one in kept))
        await tell_called(setting, key, kept)
        return questions

    async def _shelve(self, ran: Iterable[Ran], kept: list[Ran]) -> None:
        """Put what calls found on the shelf, and each call that this is done for into `kept`."""
        shelf = await self._setting.shelves.of(self._key)
        for one in ran:
            kept.append(await shelved(self._setting, self._key, shelf, one))

    async def _rescue(self, said: Message, ended: Sequence[Ran], kept: list[Ran]) -> None:
        there = {id(one.call) for one in kept}
        await self._shelve([one for one in ended if id(one.call) not in there], kept)
        await self._keep(said, *_results(kept))

    async def _keep(self, *messages: Message) -> None:
        _, scope, conversation = self._key
        stamped = [replace(message, agent=self._setting.name) for message in messages]
        await self._setting.memory.add_messages(scope, conversation, stamped)
        self._kept += stamped

    async def _anyway(self, writing: Awaitable[None]) -> None:
        """Write something down also when the turn is cancelled or has failed, which must not be hidden."""
        with anyio.move_on_after(KEEP_SECONDS, shield=True):
            try:
                await writing
            except Exception as error:
                kind, name = type(error).__name__, self._setting.name
                logger.warning("agent %r could not write down all of a turn: %s", name, kind)

    def _room(self) -> int | None:
        """What a context may fill, unless the template has a budget of its own."""
        setting, limits = self._setting, self._setting.limits
        window = getattr(setting.model, "context_window", None)
        if limits.context_tokens is not None:
            return limits.context_tokens
        if setting.template.max_tokens is not None or type(window) is not int:
            return None
        return max(1, int(window * WINDOW_SHARE) - (limits.output_tokens or 0))

    def _less(self, composed: ComposedContext, window: int | None) -> int:
        tools = self._setting.memory.token_counter.count_tools(self._setting.specs)
        target = int((composed.tokens + tools) * SMALLER)
        if window is not None:
            target = min(target, int(window * WINDOW_SHARE) - (self._setting.limits.output_tokens or 0))
        return max(1, target)

    def _learn(self, composed: ComposedContext, window: int | None) -> None:
        """A provider that names no window has at least said which size is too large for it."""
        model = self._setting.model
        sent = composed.tokens + self._setting.memory.token_counter.count_tools(self._setting.specs)
        if window is None and isinstance(model, Model) and sent < (model.context_window or sent + 1):
            model.context_window = sent

    def _tell(self, event: StreamEvent) -> None:
        self._spoke = self._spoke or isinstance(event, TextDelta)
        if self._heard is not None:
            self._heard(event)  # type: ignore[arg-type]  # all but the last kind, which `ask` keeps

    def _ended(self, text: str, stop: str, *, question: str | None = None) -> AgentReply:
        return AgentReply(
            text=text or question or "",
            turn=self._turn,
            stop=stop,
            question=question,
            steps=len(self._contexts),
            usage=self._usage,
            messages=tuple(self._kept),
        )

    def _paused(self, text: str, questions: Sequence[str]) -> AgentReply:
        self._setting.metrics.count("turns_waiting_for_input")
        return self._ended(text, WAITING, question="\n".join(questions))

    async def _fire(self, event: AgentHook, *args: Any, done: bool) -> None:
        if self._setting.hooks:
            await fire(self._setting.hooks, event, self._key.scope, self._key.conversation, *args, done=done)


def _results(ran: Iterable[Ran]) -> list[Message]:
    return [one.message for one in ran if one.message is not None]


def _shows(composed: ComposedContext, position: int, message: Message | None) -> bool:
    """Whether the newest user message is there: by its place, its id or its words."""
    if any(position in section.positions for section in composed.sections):
        return True
    said: Sequence[Message] = [one for one in composed.messages if one.role is ChatRole.USER]
    if message is None:
        # An answer to a question: sections without positions are believed if they show the user at all.
        return not position or bool(said)
    return any(one.id == message.id or one.text == message.text for one in said)
