"""One turn: a user's message in, an answer out, and everything in between kept.

The user's message is stored before the model is asked; a call and its results are stored together.
So wherever a turn ends, by an error, a cancel or a kill, the next one finds a history it can use.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import anyio

from autonomy_ctx.agents.conversation_items import Shelf
from autonomy_ctx.agents.options import AgentHook, Setting
from autonomy_ctx.agents.reply import STEPS, TOKENS, WAITING, AgentEvent, AgentReply, ToolAnswered, added
from autonomy_ctx.completion.call import complete, takes_messages
from autonomy_ctx.containers.recording import record_model_call
from autonomy_ctx.errors import BudgetExceeded, ContextOverflow, HookError, InvalidItem, UserMessageMissing
from autonomy_ctx.hooks import fire
from autonomy_ctx.items.formats.base import ModelReply, StreamEvent, TextDelta, Usage
from autonomy_ctx.items.message import ChatRole, Message, ToolCall
from autonomy_ctx.items.model_info import context_window_of
from autonomy_ctx.memory.encoding import MESSAGE_LIMIT
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.inbox import InboxSection
from autonomy_ctx.sections.section import ComposeParams, Composition
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.tools.run import Ran, result_message, run_calls

if TYPE_CHECKING:
    from autonomy_ctx.tools.builtin.ask_user import Question

# How far back a question that waits can be: its call, and the results of the calls beside it.
QUESTION_REACH = 64
# What a model reads at once; the rest comes with the next turn.
MOST_MAIL = 32
# One answer to several questions asked at once: the others point to it.
POINTER = "See the answer to the question asked before this one."


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenIn:
    """Where the newest user message is, and itself unless an answer was taken in.

    `waiting` are questions that came after what was said, which was said before.
    """

    position: int
    message: Message | None
    waiting: tuple[str, ...] = ()


async def take_in(
    memory: Memory,
    key: Key,
    message: Message,
    *,
    tools: Collection[str],
    mailbox: Mailbox | None,
    new_id: Callable[[], str],
) -> TakenIn:
    """Store what a user said: as the answer to an open question, otherwise as a new message.

    Mail that waits for the agent comes before a new message.
    """
    # Imported here and below: built-in tools are made when their modules are imported.
    from autonomy_ctx.tools.builtin.ask_user import ask_user_for_input

    _, scope, conversation = key
    window: list[Message] = []
    if ask_user_for_input.name in tools:
        found = await memory.read(scope, conversation, limit=QUESTION_REACH)
        window = [entry.message for entry in found.entries]
    waiting = _waiting(window)
    still = tuple(question.text for question in waiting)
    before = next((one for one in window if one.id == message.id), None)
    if before is not None and before.role is ChatRole.TOOL:
        # The same answer again; the store refuses another one under its id.
        await memory.add_message(scope, conversation, replace(before, content=message.content))
    elif before is not None or not waiting:
        if before is None and mailbox is not None:
            await _receive(mailbox, key)
        position = await memory.add_message(scope, conversation, message)
        return TakenIn(position=position, message=message, waiting=still)
    else:
        still = ()
        await memory.add_messages(scope, conversation, _answers(waiting, message, new_id))
    last_user = (await memory.head(scope, conversation)).last_user
    return TakenIn(position=last_user, message=None, waiting=still)


async def _receive(mailbox: Mailbox, key: Key) -> None:
    """Take mail into the log, most urgent first; one by one, since together it goes by time."""
    agent, scope, conversation = key
    waiting = await mailbox.query_by_target(agent, scope=scope, conversation=conversation, limit=MOST_MAIL)
    for mail in waiting:
        await mailbox.deliver(agent, [mail.id], scope=scope, conversation=conversation)


def _answers(waiting: Sequence[Question], message: Message, new_id: Callable[[], str]) -> list[Message]:
    first, *others = waiting
    at = message.created_at
    answers = [replace(first.answered(""), content=message.content, id=message.id, created_at=at)]
    return answers + [replace(other.answered(POINTER), id=new_id(), created_at=at) for other in others]


def _waiting(window: Sequence[Message]) -> list[Question]:
    """The open questions that a turn paused for; those of a turn that was cut short were never asked."""
    from autonomy_ctx.tools.builtin.ask_user import open_questions

    asked = {call.id for one in window if one.phase == WAITING for call in one.tool_calls}
    return [question for question in open_questions(window) if question.call.id in asked]


# Room for what a row has besides the text, and for characters that JSON writes longer.
_LONGEST_TEXT = MESSAGE_LIMIT // 4


async def run_tools(
    setting: Setting, key: Key, calls: Sequence[ToolCall], done: Callable[[Ran], None]
) -> list[Ran]:
    """Run calls and give what became of each, in their order; `done` hears of each as it ends.

    Its message is what memory keeps: all of a long result, which memory cuts for the log. A call that
    pauses has none.
    """
    vetoed = await _vetoed(setting, key, calls)
    for ran in vetoed.values():
        done(ran)
    shelf = await setting.shelves.of(key)
    allowed = [call for index, call in enumerate(calls) if index not in vetoed]
    limits = setting.limits
    ended = iter(
        await run_calls(
            allowed,
            setting.tools,
            inject={
                **setting.inject,
                "pool": shelf.pool,
                "memory": setting.memory,
                "scope": key.scope,
                "conversation": key.conversation,
            },
            timeout=limits.tool_timeout,
            output_limit=limits.tool_output,
            parallel=limits.parallel_tools,
            clock=setting.clock,
            new_id=setting.new_id,
            done=done,
        )
    )
    return [vetoed[index] if index in vetoed else _whole(next(ended)) for index in range(len(calls))]


async def shelved(setting: Setting, key: Key, shelf: Shelf, ran: Ran) -> Ran:
    """The same call once its items are on the shelf; an error result if they could not be."""
    if not ran.items:
        return ran
    try:
        await setting.shelves.put(key, shelf, ran.items)
    except (InvalidItem, HookError) as error:
        return replace(
            ran, message=_refusal(setting, ran.call, f"it ran, but what it found was not kept: {error}")
        )
    return ran


async def tell_called(setting: Setting, key: Key, ran: Sequence[Ran]) -> None:
    """Tell the hooks of calls and their results."""
    if setting.hooks:
        for one in ran:
            if one.message is not None:
                await _fire(setting, AgentHook.AFTER_CALL, key, one.call, one.message, done=True)


async def _vetoed(setting: Setting, key: Key, calls: Sequence[ToolCall]) -> dict[int, Ran]:
    """The calls that a hook does not let through, by their place, with what the model is told."""
    vetoed: dict[int, Ran] = {}
    for index, call in enumerate(calls if setting.hooks else ()):
        try:
            await _fire(setting, AgentHook.BEFORE_CALL, key, call, done=False)
        except HookError as error:
            message = _refusal(setting, call, f"it was not run: {error}")
            vetoed[index] = Ran(call=call, message=message, error=error)
    return vetoed


def _whole(ran: Ran) -> Ran:
    """A long result with all of its text, as far as memory takes it; the log shows its ends."""
    if ran.full is None or ran.message is None or len(ran.full) > _LONGEST_TEXT:
        return ran
    return replace(ran, message=replace(ran.message, content=ran.full))


def _refusal(setting: Setting, call: ToolCall, text: str) -> Message:
    return result_message(call, text, is_error=True, message_id=setting.new_id(), created_at=setting.clock())


async def _fire(setting: Setting, event: AgentHook, key: Key, *args: Any, done: bool) -> None:
    await fire(setting.hooks, event, key.scope, key.conversation, *args, done=done)


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
            ComposeParams(self._params, Composition(queue=shelf.queue.items, pool=shelf.pool.view())),
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
        return await complete(
            setting.model,
            composed.messages,
            tools=setting.specs,
            max_tokens=setting.limits.output_tokens,
            # Other models have no cache to mark places in.
            breakpoints=composed.breakpoints if takes_messages(setting.model) else (),
            answered=await self._answered(composed),
            on_event=None if self._heard is None else self._tell,
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
        # Of several sections with one name the first is meant.
        deliveries = {one.name: one.delivery for one in reversed(self._setting.template.placements)}
        for report in composed.sections:
            delivery = deliveries.get(report.name)
            if delivery is not None and report.messages:
                messages = composed.messages
                shown = [messages[index] for index in report.indexes]
                await delivery.deliver(self._setting.memory, scope, conversation, shown)

    async def _call(self, reply: ModelReply) -> list[str]:
        """Run what the model called and keep calls and results together; what the user is asked."""
        setting, key = self._setting, self._key
        ended: list[Ran] = []

        def done(ran: Ran) -> None:
            ended.append(ran)
            if self._heard is not None and ran.message is not None:
                self._heard(ToolAnswered(ran.call, ran.message))

        from autonomy_ctx.tools.builtin.ask_user import question_of

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
        window = context_window_of(setting.model)
        if limits.context_tokens is not None:
            return limits.context_tokens
        if setting.template.max_tokens is not None or window is None:
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
            self._heard(event)  # type: ignore[arg-type]  # all but the last kind, which `complete` keeps

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
