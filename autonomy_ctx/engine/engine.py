"""`ContextEngine`: what all adapters share. An adapter only converts messages and connects the framework.

For one model call of a framework, it stores the new messages, composes a context and records it for
`explain`. The module `branches` finds the history in memory.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread

from autonomy_ctx.agents.explain import EXPLAIN_SECONDS, EXPLAIN_TURNS, ContextRecords
from autonomy_ctx.background import AsyncResource, Background, close_resources
from autonomy_ctx.engine.branches import CACHED_CONVERSATIONS, Branches, StoredHistory, identify, to_store
from autonomy_ctx.engine.framework_context import (
    FrameworkContext,
    SourcedMessage,
    TurnContexts,
    framework_context,
    thinking_start,
)
from autonomy_ctx.errors import InvalidKey, UnnamedConversation, UserMessageMissing
from autonomy_ctx.formats.base import ModelReply, Usage
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, RecordDraft, check_name, make_key
from autonomy_ctx.memory.turn_figures import read_newest
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ChatRole, Message, now
from autonomy_ctx.sections.section import (
    ComposeParams,
    Composition,
    ContributingSection,
    Contribution,
    Params,
)
from autonomy_ctx.template.composed import ComposedContext, trace_attributes, without_params
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.epoch_store import (
    StoredEpochs,
    composer_name,
    draft_epoch,
    drop_ended,
    read_epochs,
)
from autonomy_ctx.template.template import ContextTemplate
from autonomy_ctx.tracing import is_tracing, record_call

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from autonomy_ctx.compaction.config import ContextSummaryConfig

T = TypeVar("T")
# The scope of a call: a name, or a function of what the framework knows of the call.
Scope: TypeAlias = str | Callable[[Any], str]

INSTRUCTIONS = "agent_instructions"


class AgentInstructionsSection(ContributingSection):
    """The instructions of the framework's agent in this call. Its place in the template is their place."""

    kind = "stable"
    required = True

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(INSTRUCTIONS, enabled)

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        return Contribution(tuple(params.get(INSTRUCTIONS, ())))


class EngineOptions(TypedDict, total=False):
    """The options of every adapter beside its `scope`; see `ContextEngine`."""

    memory: Memory | str | None
    agent: str
    context_summary: bool | Literal["auto"] | Mapping[str, Any] | ContextSummaryConfig | None
    context_template: ContextTemplate | None
    max_tokens: int | None
    reserve_output: int
    explain_turns: int
    explain_seconds: float
    clock: Callable[[], datetime]


class HistoryRules(TypedDict, total=False):
    """The changes that a history which is not the stored one may make; see `ContextEngine.compose`."""

    may_begin_anew: bool
    may_continue: bool


class ContextEngine(AsyncResource):
    """Stores the messages of a framework's agent, and composes the contexts of its model.

    `scope` is the user or tenant: a name, or a function that finds it in a call. `memory` is a `Memory`,
    which the engine does not close, or a URL; without it, conversations are lost when the engine is closed.
    Conversations belong to `agent`. Without a `context_template`, a context has the agent's instructions and
    the history, summarized as `context_summary` says (without a model: by digests), within `max_tokens`.
    """

    def __init__(
        self,
        *,
        scope: Scope,
        memory: Memory | str | None = None,
        agent: str = "",
        context_summary: bool | Literal["auto"] | Mapping[str, Any] | ContextSummaryConfig | None = True,
        context_template: ContextTemplate | None = None,
        max_tokens: int | None = None,
        reserve_output: int = 0,
        explain_turns: int = EXPLAIN_TURNS,
        explain_seconds: float = EXPLAIN_SECONDS,
        clock: Callable[[], datetime] = now,
    ) -> None:
        if not isinstance(scope, str) and not callable(scope):
            raise InvalidKey("scope", "must be a name, or a function that takes a call and returns a name")
        if isinstance(scope, str):
            check_name("scope", scope)
        self._scope, self.clock = scope, clock
        self._owns_memory = not isinstance(memory, Memory)
        memory = memory if isinstance(memory, Memory) else Memory(memory, clock=clock)
        self.memory = memory.for_agent(agent) if agent else memory
        self.background = Background()
        self._owns_template = context_template is None
        if context_template is not None:
            if max_tokens is not None or reserve_output:
                raise ValueError(
                    "max_tokens and reserve_output belong to the context_template; set them there"
                )
            self.template = _with_instructions(context_template)
        else:
            self.template = _default_template(context_summary, self.background, max_tokens, reserve_output)
        if self.models:
            # Our models import it in a thread. Clients of frameworks look for it in `sys.modules`, and would
            # find half of it.
            import httpx  # noqa: F401
        self._records = ContextRecords(self.memory, turns=explain_turns, seconds=explain_seconds, clock=clock)
        self._branches = Branches(self.memory)
        # By conversation as the framework names it: the agent that it was with last.
        self._agents: ConversationCache[Key, str] = ConversationCache(CACHED_CONVERSATIONS)
        # By conversation as the framework names it: the steps of its turn.
        self._turns: ConversationCache[Key, TurnContexts] = ConversationCache(CACHED_CONVERSATIONS)
        self._portal_lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._portal_owner: AbstractContextManager[BlockingPortal] | None = None

    # -- names ----------------------------------------------------------------------------------

    def key(self, call: Any, conversation: str | None, *, remedy: str) -> Key:
        """The key of a call's conversation. If the call names none, `remedy` is the advice in the error."""
        if conversation is None or conversation == "":
            raise UnnamedConversation(remedy=remedy)
        scope = self._scope if isinstance(self._scope, str) else self._scope(call)
        return make_key(self.memory.agent, scope, conversation)

    async def current_conversation(self, conversation: str, *, scope: str | None = None) -> str:
        """The name that the framework's conversation has in memory.

        It is a different name, that of a fork, after the framework has continued from an earlier message.
        """
        return (await self._branches.current(self._named_key(conversation, scope))).conversation

    def forget(self, key: Key) -> None:
        """Have the next call read where a conversation is: another process may have gone on in a fork."""
        self._branches.forget(key)

    def inner_key(self, key: Key, agent: str) -> Key:
        """The conversation of an agent's runs inside the runs of another agent, such as in a tool."""
        return make_key(key.agent, key.scope, f"{key.conversation}/{agent}")

    async def agent_key(self, key: Key, history: Sequence[SourcedMessage], agent: str) -> Key:
        """The conversation of an agent's call, for a framework that does not tell an inner run.

        An agent that takes over has the history of the agent before it. An inner run has none of it.
        """
        if self._agents.get(key, agent) != agent and not await self.shares(key, history):
            return self.inner_key(key, agent)
        self._agents[key] = agent
        return key

    async def shares(self, key: Key, history: Sequence[SourcedMessage]) -> bool:
        """Tell whether a history has some of a conversation's newest messages, or the conversation is new."""
        return await self._branches.shares(key, history)

    # -- calls of a model -----------------------------------------------------------------------

    async def compose(
        self,
        key: Key,
        history: Sequence[SourcedMessage],
        *,
        instructions: Sequence[SourcedMessage] = (),
        tools: Sequence[Mapping[str, Any]] = (),
        params: Mapping[str, Any] | None = None,
        max_tokens: int | None = None,
        after: str = "",
        model: str | None = None,
        may_begin_anew: bool = False,
        may_continue: bool = False,
        record: bool = True,
    ) -> FrameworkContext:
        """Store the new messages of a framework's whole history, and compose the context of its next call.

        `max_tokens` is the budget of this call, instead of the template's. With `after`, the history is only
        the part after the stored message with this id. `model` is the name of the model. A history that has
        nothing in common with the stored one raises `HistoryMismatch`, unless `may_begin_anew` is true. With
        `may_continue`, a history of new messages alone goes on after the newest stored one: the framework has
        lost the rest. Without `record`, the context is not recorded for `explain` until you call `record`.
        """
        async with self._branches.lock(key):
            stored = await self._branches.store_history(
                key, history, after, may_begin_anew=may_begin_anew, may_continue=may_continue
            )
        context = await self._compose(
            key,
            stored.branch,
            [*instructions, *stored.said],
            len(instructions),
            tools,
            params,
            max_tokens,
            model=model,
            record=record,
            stored=stored,
        )
        return replace(context, history=stored.said)

    async def compose_stored(
        self,
        key: Key,
        *,
        instructions: Sequence[SourcedMessage] = (),
        tools: Sequence[Mapping[str, Any]] = (),
        params: Mapping[str, Any] | None = None,
        model: str | None = None,
        record: bool = True,
    ) -> FrameworkContext:
        """Compose for a framework whose history is our log: nothing is stored.

        Without `record`, the context is not recorded for `explain`: use this if it may never be sent.
        """
        branch = await self._branches.current(key)
        return await self._compose(
            key, branch, instructions, len(instructions), tools, params, model=model, record=record
        )

    async def record(
        self,
        key: Key,
        context: FrameworkContext,
        *,
        reply: ModelReply | None = None,
        options: Mapping[str, Any] = EMPTY,
        is_current: bool = False,
    ) -> None:
        """Record a sent context for `explain`, in the turn of the newest user message.

        With `is_current`, record it in the turn that it was composed for, and its call as a span: with the
        model's `reply`, if there is one, and the `options` of the request. Without a reply, the next request
        need not begin with this one.
        """
        if is_current:
            turn, records = await self._draft_call(key, context, reply)
            await self.memory.store.append(turn.branch, (), records)
            if reply is not None:
                await self._drop_old_records(turn, context.composed)
            _trace(key, replace(context, turn=turn.as_sent()), reply, options)
            return
        branch = await self._branches.current(key)
        head = await self.memory.head(branch.scope, branch.conversation)
        turn = await self._read_turn(key, branch, head.last_user)
        usage = _usage_of(reply)
        self._observe(context, usage)
        await self._record(turn, context.composed, head.generation, context.model, usage)

    async def store_reply(
        self,
        key: Key,
        context: FrameworkContext,
        *replies: Message | SourcedMessage,
        usage: Usage | None = None,
        reply: ModelReply | None = None,
        options: Mapping[str, Any] = EMPTY,
    ) -> Key:
        """Store a model's answer to a context at once, because there may be no next call.

        `usage` is what the provider reported. With the `reply` to a context that is not recorded yet, it is
        recorded in the same transaction, as `record` does. Returns the name of the conversation in memory
        that has the answer.
        """
        before = context.history[-1].stored_id if context.history else ""
        answers = [one if isinstance(one, SourcedMessage) else SourcedMessage(one) for one in replies]
        said = identify(answers, before)
        async with self._branches.lock(key):
            branch, records = key._replace(conversation=context.composed.conversation), list[RecordDraft]()
            if reply is not None:
                turn, records = await self._draft_call(key, context, reply)
            head = context.head
            if head is None or not await self._branches.append_reply(key, branch, said, records, head):
                stored = await self._branches.store_history(
                    key, [*context.history, *said], may_begin_anew=True, records=records, recorded=branch
                )
                branch = stored.branch
            elif reply is not None:
                turn.end = head.position + len(said)
        if reply is not None:
            await self._drop_old_records(turn, context.composed)
            _trace(key, replace(context, turn=turn.as_sent()), reply, options)
            return branch
        if usage is not None:
            await self._record_usage(key, context, usage)
        parts = tuple(part for one in answers for part in one.message.parts)
        calls = tuple(call for one in answers for call in one.message.tool_calls)
        _trace(key, context, ModelReply(parts=parts, tool_calls=calls, usage=usage or Usage()))
        return branch

    async def store_history(
        self, key: Key, history: Sequence[SourcedMessage], *, may_begin_anew: bool = False
    ) -> None:
        """Store the new messages of a framework's whole history, without composing a context."""
        async with self._branches.lock(key):
            await self._branches.store_history(key, history, may_begin_anew=may_begin_anew)

    async def append(self, key: Key, messages: Sequence[Message]) -> list[Message]:
        """Store messages at the end of the log, and return them as they were stored."""
        async with self._branches.lock(key):
            branch = await self._branches.current(key)
            window = await self.memory.read(branch.scope, branch.conversation, limit=1)
            before = window.entries[-1].message.id if window.entries else ""
            said = [to_store(one) for one in identify([SourcedMessage(one) for one in messages], before)]
            await self.memory.append(branch.scope, branch.conversation, *said)
        return said

    async def history(self, key: Key, *, limit: int | None = None) -> list[Message]:
        """The stored messages of a conversation, the newest `limit` of them."""
        branch = await self._branches.current(key)
        window = await self.memory.read(branch.scope, branch.conversation, limit=limit)
        return [entry.message for entry in window.entries]

    async def explain(
        self,
        conversation: str,
        turn: str | int | None = None,
        *,
        step: int | None = None,
        scope: str | None = None,
    ) -> ComposedContext:
        """The context of a past call, byte for byte; by default of the newest call.

        `turn` is the number of a turn, or its id: that of the user's message that it answers. `scope` is
        needed if the engine's scope is a function.
        """
        branch = await self._branches.current(self._named_key(conversation, scope))
        return await self._records.explain(branch, turn, step)

    def run_sync(self, work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Run async work from a plain function, in an event loop of the engine's own thread."""
        with self._portal_lock:
            if self._portal is None:
                self._portal_owner = anyio.from_thread.start_blocking_portal("asyncio")
                self._portal = self._portal_owner.__enter__()
            portal = self._portal
        return portal.call(partial(work, *args, **options))

    async def run(self, work: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """Run async work in the engine's own thread if `run_sync` was used, else in this event loop."""
        if self._portal is None:
            return await work(*args, **options)
        return await anyio.to_thread.run_sync(partial(self.run_sync, work, *args, **options))

    async def close(self) -> None:
        """End the background work, and close what the engine has opened. A second call does nothing."""
        portal, self._portal = self._portal, None
        with anyio.CancelScope(shield=True):
            if portal is None:
                await self._close()
                return
            await anyio.to_thread.run_sync(portal.call, self._close)
            await anyio.to_thread.run_sync(self._stop_portal)

    def close_sync(self) -> None:
        """Close it from a plain function."""
        self.run_sync(self._close)
        self._portal = None
        self._stop_portal()

    async def _close(self) -> None:
        # Each step runs even if another one fails. The order is reversed.
        async with AsyncExitStack() as steps:
            if self._owns_memory:
                steps.push_async_callback(self.memory.close)
            if self._owns_template:
                steps.push_async_callback(close_resources, self.models)
                steps.push_async_callback(self.template.close)
            steps.push_async_callback(self.background.aclose)

    def _stop_portal(self) -> None:
        owner, self._portal_owner = self._portal_owner, None
        if owner is not None:
            owner.__exit__(None, None, None)

    @property
    def models(self) -> list[Any]:
        """The models that write summaries."""
        sections = [options.summarizing for options in self.template.section_options]
        return [one.summary_model for one in sections if one is not None and one.summary_model is not None]

    # -- the log --------------------------------------------------------------------------------

    def _named_key(self, conversation: str, scope: str | None) -> Key:
        if scope is None:
            if not isinstance(self._scope, str):
                raise InvalidKey("scope", "depends on the call here; pass the `scope` that you mean")
            scope = self._scope
        return make_key(self.memory.agent, scope, conversation)

    # -- the context ----------------------------------------------------------------------------

    async def _compose(
        self,
        key: Key,
        branch: Key,
        said: Sequence[SourcedMessage],
        instructions: int,
        tools: Sequence[Mapping[str, Any]],
        params: Mapping[str, Any] | None,
        max_tokens: int | None = None,
        *,
        model: str | None = None,
        record: bool = True,
        stored: StoredHistory | None = None,
    ) -> FrameworkContext:
        head = None if stored is None else stored.head
        head = head or await self.memory.head(branch.scope, branch.conversation)
        turn = await self._read_turn(key, branch, head.last_user, stored)
        rules = [one.message for one in said[:instructions]]
        composed = await self.template.compose(
            self.memory,
            branch.scope,
            branch.conversation,
            ComposeParams(
                {**(params or {}), INSTRUCTIONS: rules},
                Composition(turn_position=head.last_user or None),
            ),
            previous=turn.previous,
            tools=tools,
            max_tokens=max_tokens,
            stored=await self._read_epochs(branch),
        )
        if head.last_user and not _shows(composed, head.last_user, turn.message):
            raise UserMessageMissing(
                agent=branch.agent,
                position=head.last_user,
                sections=[section.name for section in composed.sections if section.messages],
            )
        thinking_after = thinking_start(composed, head, model)
        if record:
            await self._record(turn, composed, head.generation, model)
        made = framework_context(composed, said, thinking_after=thinking_after)
        return replace(
            made,
            tools=tools,
            turn_position=head.last_user,
            generation=head.generation,
            head=head,
            turn=turn.as_sent() if record else None,
            model=model,
            composed_at=time.perf_counter(),
        )

    async def _draft_call(
        self, key: Key, context: FrameworkContext, reply: ModelReply | None
    ) -> tuple[TurnContexts, list[RecordDraft]]:
        """The turn that a context was composed for, and the records of its call."""
        branch, usage = key._replace(conversation=context.composed.conversation), _usage_of(reply)
        turn = await self._read_turn(key, branch, context.turn_position)
        self._observe(context, usage)
        records = await self._draft(
            turn,
            context.composed,
            context.generation,
            context.model,
            usage,
            # One that was refused is followed by another one.
            begins_next=reply is not None,
        )
        return turn, records

    async def _record(
        self,
        turn: TurnContexts,
        composed: ComposedContext,
        generation: int,
        model: str | None,
        usage: Usage | None = None,
    ) -> None:
        records = await self._draft(turn, composed, generation, model, usage)
        await self.memory.store.append(turn.branch, (), records)
        await self._drop_old_records(turn, composed)

    async def _drop_old_records(self, turn: TurnContexts, composed: ComposedContext) -> None:
        if composed.end_reason is not None:
            await drop_ended(self.memory.store, turn.branch)
        await self._records.sweep(turn.branch, is_first=turn.number == 1)

    async def _draft(
        self,
        turn: TurnContexts,
        composed: ComposedContext,
        generation: int,
        model: str | None,
        usage: Usage | None,
        *,
        begins_next: bool = True,
    ) -> list[RecordDraft]:
        """The records of a context; with `begins_next`, the next request begins with it."""
        sent = without_params(composed)
        if begins_next:
            turn.previous = sent
        sent.model, sent.usage = model, usage
        turn.steps.append(sent)
        turn.generation = generation
        if turn.number is None:
            newest = await read_newest(self.memory.store, turn.branch)
            # A process that has ended may have begun this turn.
            is_same = turn.position > 0 and newest.position == turn.position
            turn.number = newest.number if is_same else newest.number + 1
        records = await self._records.make_drafts(turn.as_sent(), turn.steps)
        return [*draft_epoch(composed, generation), *records] if begins_next else records

    async def _read_epochs(self, branch: Key) -> StoredEpochs:
        composer = composer_name(branch.agent, self.template.get_section_names())
        # A framework or a client decides about instructions: a change that we tell is none.
        return await read_epochs(self.memory.store, branch, composer, may_instruct=False)

    async def _record_usage(self, key: Key, context: FrameworkContext, usage: Usage) -> None:
        """Note the tokens that a provider counted: in the record of the call, and for counts to come."""
        self._observe(context, usage)
        turn = self._turns.get(key)
        # Another call of the conversation may have come in between.
        if turn and turn.steps and turn.steps[-1].digest() == context.composed.digest():
            turn.steps[-1].usage = usage
            await self._records.save(turn.branch, turn.as_sent(), turn.steps)

    def _observe(self, context: FrameworkContext, usage: Usage | None) -> None:
        """Learn from what a provider counted."""
        if usage is not None and usage.input_tokens:
            counter = self.memory.token_counter
            counter.observe(context.composed.messages, usage.input_tokens, tools=context.tools)

    async def _read_turn(
        self, key: Key, branch: Key, position: int, stored: StoredHistory | None = None
    ) -> TurnContexts:
        """The turn that answers the user's message at a position, with its contexts so far."""
        known = self._turns.get(key)
        if known is not None and (known.branch, known.position) == (branch, position):
            return known
        message = None if stored is None else stored.user
        if message is None:
            after = max(position - 1, 0)
            found = await self.memory.read(
                branch.scope, branch.conversation, after=after, before=position + 1
            )
            message = found.entries[0].message if found.entries else None
        before = known if known is not None and known.branch == branch else None
        made = TurnContexts(
            branch,
            position,
            message,
            "start" if message is None else message.id,
            None if before is None else before.previous,
        )
        if before is not None and before.number is not None and stored is not None and stored.head:
            log = stored.before
            if (log.position, log.generation) == (before.end, before.generation):
                # Nobody else has gone on.
                made.number = before.number + 1
        self._turns[key] = made
        return made


def _usage_of(reply: ModelReply | None) -> Usage | None:
    """Give what the provider counted; None if it did not say."""
    return None if reply is None or reply.usage == Usage() else reply.usage


def _trace(
    key: Key, context: FrameworkContext, reply: ModelReply | None, options: Mapping[str, Any] = EMPTY
) -> None:
    """Record the call of a context as a span, if its turn is known."""
    if context.turn is None or not is_tracing():
        return
    composed = context.composed
    record_call(
        reply,
        began=context.composed_at,
        model=context.model,
        options=options,
        messages=composed.messages,
        agent=key.agent,
        scope=key.scope,
        conversation=composed.conversation,
        turn=context.turn.id,
        number=context.turn.number,
        attributes=trace_attributes(composed),
    )


def _shows(composed: ComposedContext, position: int, message: Message | None) -> bool:
    """Tell whether a context has the user's message: by its position, its id or its text."""
    if any(position in section.positions for section in composed.sections):
        return True
    shown = [one for one in composed.messages if one.role is ChatRole.USER]
    return message is None or any(one.id == message.id or one.text == message.text for one in shown)


def _default_template(
    context_summary: Any, background: Background, max_tokens: int | None, reserve_output: int
) -> ContextTemplate:
    """The agent's instructions and the history; what is said of built-in tools is for our own agents."""
    template = create_default_template(
        [],
        context_summary=context_summary,
        background=background,
        builtin_tools=(),
        max_tokens=max_tokens,
        reserve_output=reserve_output,
    )
    for name in ("system_instructions", "framework_instructions"):
        template.remove_section(name)
    template.add_section(AgentInstructionsSection(), 0)
    return template


def _with_instructions(template: ContextTemplate) -> ContextTemplate:
    """A user's template with a place for the instructions of the framework's agent."""
    if any(isinstance(section, AgentInstructionsSection) for section in template.sections):
        return template
    return ContextTemplate(
        [AgentInstructionsSection(), *template.sections],
        max_tokens=template.max_tokens,
        reserve_output=template.reserve_output,
        token_counter=template.token_counter,
        hooks=list(template.hooks),
        model=template.model,
        arrange=template.arrange,
    )
