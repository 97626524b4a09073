"""`ContextEngine`: what all adapters share, so that an adapter is two converters and a seam.

For one model call of a framework it stores the messages that are new, composes a context and records it
for `explain`. Messages get ids made from their content and the id before, so a whole history is compared
with the log by one id.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypedDict, TypeVar, Unpack
from weakref import WeakValueDictionary

import anyio
import anyio.from_thread
import anyio.to_thread

from autonomy_ctx.agents.agent import close_models
from autonomy_ctx.agents.explain import (
    EXPLAIN_SECONDS,
    EXPLAIN_TURNS,
    ContextRecords,
    Step,
    window_bounds,
)
from autonomy_ctx.background import AsyncResource, Background
from autonomy_ctx.errors import (
    HistoryMismatch,
    InvalidFork,
    InvalidKey,
    UnnamedConversation,
    UserMessageMissing,
)
from autonomy_ctx.items.formats.base import Usage
from autonomy_ctx.items.formats.outgoing import INSTRUCTION_ROLES, OPENING_TEXT, repair_messages
from autonomy_ctx.items.message import ChatRole, Message, Part, TextContent, now
from autonomy_ctx.memory.conversation_cache import ConversationCache
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, check_name, make_key
from autonomy_ctx.sections.section import (
    ComposeParams,
    Composition,
    ContributingSection,
    Contribution,
    Params,
)
from autonomy_ctx.template.composed import ComposedContext, visible_fields, without_params
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.template import ContextTemplate

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from autonomy_ctx.compaction.config import ContextSummaryConfig

T = TypeVar("T")
# The scope of a call: a name, or a function of what the framework knows of the call.
Scope: TypeAlias = str | Callable[[Any], str]

INSTRUCTIONS = "agent_instructions"
BRANCH_RECORD = "branch"
# How many messages are read at a time to find where a history left the log.
LOOKBACK = 64
# How many conversations a process remembers the newest contexts of.
CACHED_CONVERSATIONS = 256


@dataclass(frozen=True, slots=True)
class SourcedMessage:
    """A message with what the framework has in its place; None where the framework has nothing."""

    message: Message
    source: Any = None
    # The id that it has in memory; not that of the message, which would have to be made anew for it.
    stored_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkContext:
    """What a framework sends instead of its history.

    A message that is shown as the framework had it has its source: send that, it has all there was.
    """

    composed: ComposedContext
    instructions: Sequence[SourcedMessage]
    messages: Sequence[SourcedMessage]
    # The framework's own history, under the ids that its messages have in memory.
    history: Sequence[SourcedMessage] = ()
    tools: Sequence[Mapping[str, Any]] = ()

    @property
    def instructions_text(self) -> str:
        """All instructions as one text."""
        return "\n\n".join(one.message.text for one in self.instructions if one.message.text)


class AgentInstructionsSection(ContributingSection):
    """The instructions that the framework's agent has in this call; put it into a template to place them."""

    kind = "stable"
    required = True

    def __init__(self, enabled: bool = True) -> None:
        super().__init__(INSTRUCTIONS, enabled)

    async def contribute(self, memory: Any, scope: str, conversation: str, params: Params) -> Contribution:
        return Contribution(tuple(params.get(INSTRUCTIONS, ())))


class EngineOptions(TypedDict, total=False):
    """What every adapter takes beside its `scope`; see `ContextEngine`."""

    memory: Memory | str | None
    agent: str
    context_summary: bool | Mapping[str, Any] | ContextSummaryConfig | None
    context_template: ContextTemplate | None
    max_tokens: int | None
    reserve_output: int
    explain_turns: int
    explain_seconds: float
    clock: Callable[[], datetime]


class ContextEngine(AsyncResource):
    """Stores what a framework's agent says, and composes what its model sees.

    `scope` is the user or tenant: a name, or a function that finds it in a call. `memory` is a `Memory`,
    which stays its owner's, or a URL; without one, conversations live as long as the engine. Conversations
    are those of `agent`. Without a `context_template` the context is the agent's instructions and the
    history, summarized as `context_summary` says (without a model: by digests), within `max_tokens`.
    """

    def __init__(
        self,
        *,
        scope: Scope,
        memory: Memory | str | None = None,
        agent: str = "",
        context_summary: bool | Mapping[str, Any] | ContextSummaryConfig | None = True,
        context_template: ContextTemplate | None = None,
        max_tokens: int | None = None,
        reserve_output: int = 0,
        explain_turns: int = EXPLAIN_TURNS,
        explain_seconds: float = EXPLAIN_SECONDS,
        clock: Callable[[], datetime] = now,
    ) -> None:
        if not isinstance(scope, str) and not callable(scope):
            raise InvalidKey("scope", "must be a name, or a function of a call that gives one")
        if isinstance(scope, str):
            check_name("scope", scope)
        self._scope, self._clock = scope, clock
        self._owns_memory = not isinstance(memory, Memory)
        memory = memory if isinstance(memory, Memory) else Memory(memory, clock=clock)
        self.memory = memory.for_agent(agent) if agent else memory
        self.background = Background()
        self._owns_template = context_template is None
        if context_template is not None:
            if max_tokens is not None or reserve_output:
                raise ValueError("give max_tokens and reserve_output to the context_template")
            self.template = _with_instructions(context_template)
        else:
            self.template = _default_template(context_summary, self.background, max_tokens, reserve_output)
        if self.models:
            # Our models import it in a thread. Clients of frameworks look for it in `sys.modules`, and would
            # find half of it.
            import httpx  # noqa: F401
        self._records = ContextRecords(self.memory, turns=explain_turns, seconds=explain_seconds, clock=clock)
        # By conversation as the framework names it: the branch it is in now, and the steps of its turn.
        self._branches: ConversationCache[Key, Key] = ConversationCache(CACHED_CONVERSATIONS)
        self._turns: ConversationCache[Key, _TurnContexts] = ConversationCache(CACHED_CONVERSATIONS)
        self._locks: WeakValueDictionary[Key, anyio.Lock] = WeakValueDictionary()
        self._portal_lock = threading.Lock()
        self._portal: BlockingPortal | None = None
        self._portal_owner: AbstractContextManager[BlockingPortal] | None = None

    # -- names ----------------------------------------------------------------------------------

    def key(self, call: Any, conversation: str | None, *, remedy: str) -> Key:
        """The conversation of a call, in the scope that it is in; `remedy` says how to name one."""
        if conversation is None or conversation == "":
            raise UnnamedConversation(remedy=remedy)
        scope = self._scope if isinstance(self._scope, str) else self._scope(call)
        return make_key(self.memory.agent, scope, conversation)

    async def current_conversation(self, conversation: str, *, scope: str | None = None) -> str:
        """The name under which memory has what the framework calls this conversation.

        It is another one after the framework went on from an earlier message: then that is a fork.
        """
        return (await self._branch(self._named_key(conversation, scope))).conversation

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
    ) -> FrameworkContext:
        """Store what is new of a framework's whole history, and compose the context of its next call.

        `max_tokens` is a budget for this call, instead of the template's. With `after`, the history is only
        what comes after the stored message of this id. `model` is the name of the model that is asked.
        """
        said = identify(history, after)
        async with self._lock(key):
            branch = await self._store_history(key, said, after)
        context = await self._compose(
            key, branch, [*instructions, *said], len(instructions), tools, params, max_tokens, model=model
        )
        return replace(context, history=said)

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
        """The same for a framework whose history is our log: nothing is stored.

        Without `record`, `explain` is not told of it: for contexts that may never be sent.
        """
        branch = await self._branch(key)
        return await self._compose(
            key, branch, instructions, len(instructions), tools, params, model=model, record=record
        )

    async def record(self, key: Key, context: FrameworkContext) -> None:
        """Let `explain` know that a context was sent, in the turn of the newest user message."""
        branch = await self._branch(key)
        head = await self.memory.head(branch.scope, branch.conversation)
        turn = await self._read_turn(key, branch, head.last_user)
        await self._record(turn, context.composed, head.generation, None)

    async def store_reply(
        self, key: Key, context: FrameworkContext, *replies: Message, usage: Usage | None = None
    ) -> None:
        """Store what a model answered to a context, at once: the next call may never come.

        `usage` is what the provider counted.
        """
        before = context.history[-1].stored_id if context.history else ""
        said = identify([SourcedMessage(reply) for reply in replies], before)
        async with self._lock(key):
            await self._store_history(key, [*context.history, *said])
        if usage is not None:
            await self._record_usage(key, context, usage)

    async def store_history(self, key: Key, history: Sequence[SourcedMessage]) -> None:
        """Store what is new of a framework's whole history, without composing."""
        async with self._lock(key):
            await self._store_history(key, identify(history))

    async def append(self, key: Key, messages: Sequence[Message]) -> list[Message]:
        """Store messages at the end of the log, for a framework whose history it is; as they are stored."""
        async with self._lock(key):
            branch = await self._branch(key)
            window = await self.memory.read(branch.scope, branch.conversation, limit=1)
            before = window.entries[-1].message.id if window.entries else ""
            said = [_to_store(one) for one in identify([SourcedMessage(one) for one in messages], before)]
            await self.memory.append(branch.scope, branch.conversation, *said)
        return said

    async def history(self, key: Key, *, limit: int | None = None) -> list[Message]:
        """The stored messages of a conversation, the newest `limit` of them."""
        branch = await self._branch(key)
        window = await self.memory.read(branch.scope, branch.conversation, limit=limit)
        return [entry.message for entry in window.entries]

    async def explain(
        self,
        conversation: str,
        turn: str | None = None,
        *,
        step: int | None = None,
        scope: str | None = None,
    ) -> ComposedContext:
        """What the model was shown in a past call, byte for byte: by default in the newest one.

        A turn has the id of the user's message that it answers. `scope` is needed when it is a function.
        """
        branch = await self._branch(self._named_key(conversation, scope))
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
        """Run async work where the engine lives: in its own thread once `run_sync` was used, or here."""
        if self._portal is None:
            return await work(*args, **options)
        return await anyio.to_thread.run_sync(partial(self.run_sync, work, *args, **options))

    async def close(self) -> None:
        """End the background work, and close what the engine has opened. Twice is harmless."""
        portal, self._portal = self._portal, None
        with anyio.CancelScope(shield=True):
            if portal is None:
                await self._close()
                return
            await anyio.to_thread.run_sync(portal.call, self._close)
            await anyio.to_thread.run_sync(self._stop_portal)

    def close_sync(self) -> None:
        """The same from a plain function."""
        self.run_sync(self._close)
        self._portal = None
        self._stop_portal()

    async def _close(self) -> None:
        # Whatever becomes of one step, the others follow. Last come first.
        async with AsyncExitStack() as steps:
            if self._owns_memory:
                steps.push_async_callback(self.memory.close)
            if self._owns_template:
                steps.push_async_callback(close_models, [self])
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
                raise InvalidKey("scope", "is found by a function here; name the scope that you mean")
            scope = self._scope
        return make_key(self.memory.agent, scope, conversation)

    def _lock(self, key: Key) -> anyio.Lock:
        """One call of a conversation at a time stores messages."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock

    async def _branch(self, key: Key) -> Key:
        """The conversation in memory that the framework was in last."""
        known = self._branches.get(key)
        if known is None:
            records = await self.memory.store.read_records(key, BRANCH_RECORD, limit=1)
            known = key._replace(conversation=records[-1].body) if records else key
            self._branches[key] = known
        return known

    async def _store_history(self, key: Key, said: Sequence[SourcedMessage], after: str = "") -> Key:
        """Append the messages that the log does not have; the branch that they are in."""
        indexes = {one.stored_id: index for index, one in enumerate(said)}
        if after:
            indexes[after] = -1
        before = await self._branch(key)
        branch, start = await self._find_branch(key, before, indexes)
        if branch != before:
            self._branches[key] = branch
            await self.memory.store.put_records(
                key, BRANCH_RECORD, [("current", branch.conversation)], keep=1
            )
        new = [_to_store(one) for one in said[start:]]
        if new:
            await self.memory.append(branch.scope, branch.conversation, *new)
        return branch

    async def _find_branch(self, key: Key, hint: Key, indexes: Mapping[str, int]) -> tuple[Key, int]:
        """The log that a history continues, and the index of its first message that is not in it.

        A framework may go on from an earlier message: a failed run that it forgot, an edit, a step back.
        What was stored stays; the history goes on in a fork, named after the last message they share.
        """
        for branch in dict.fromkeys((hint, key)):
            newest = await self.memory.read(branch.scope, branch.conversation, limit=1)
            if not newest.entries and branch == key:
                return branch, 0
            if newest.entries and newest.entries[-1].message.id in indexes:
                return branch, indexes[newest.entries[-1].message.id] + 1
        branch = key
        while True:
            shared = await self._last_shared(branch, indexes)
            if shared is None:
                newest = await self.memory.read(branch.scope, branch.conversation, limit=LOOKBACK)
                if not newest.entries:
                    return branch, 0
                if any(_is_answer(entry.message) for entry in newest.entries):
                    raise HistoryMismatch(conversation=key.conversation, messages=len(indexes))
                # Nothing of it was ever answered: the framework has begun anew after a failure.
                branch = _branch_key(branch, next(iter(indexes), ""))
            elif shared.is_newest:
                return branch, indexes[shared.message_id] + 1
            else:
                fork = _branch_key(branch, shared.message_id)
                await self._make_fork(branch, shared.position, fork)
                branch = fork

    async def _last_shared(self, branch: Key, indexes: Mapping[str, int]) -> _SharedMessage | None:
        """The newest message of a log that a history has, too."""
        before: int | None = None
        is_newest = True
        while True:
            window = await self.memory.read(branch.scope, branch.conversation, before=before, limit=LOOKBACK)
            for entry in reversed(window.entries):
                if entry.message.id in indexes:
                    return _SharedMessage(entry.position, entry.message.id, is_newest)
                is_newest = False
            if not window.entries:
                return None
            before = window.entries[0].position

    async def _make_fork(self, branch: Key, position: int, fork: Key) -> None:
        """Fork a conversation unless that was done before."""
        if (await self.memory.head(fork.scope, fork.conversation)).count:
            return
        try:
            await self.memory.fork(branch.scope, branch.conversation, at=position, name=fork.conversation)
        except InvalidFork:
            # Another process has just made it, or its messages were deleted: then it is not used again.
            if not (await self.memory.head(fork.scope, fork.conversation)).count:
                raise

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
    ) -> FrameworkContext:
        head = await self.memory.head(branch.scope, branch.conversation)
        turn = await self._read_turn(key, branch, head.last_user)
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
        )
        if head.last_user and not _shows(composed, head.last_user, turn.message):
            raise UserMessageMissing(
                agent=branch.agent,
                position=head.last_user,
                sections=[section.name for section in composed.sections if section.messages],
            )
        if record:
            await self._record(turn, composed, head.generation, model)
        return replace(framework_context(composed, said), tools=tools)

    async def _record(
        self, turn: _TurnContexts, composed: ComposedContext, generation: int, model: str | None
    ) -> None:
        turn.previous = without_params(composed)
        bounds = window_bounds(self.template.sections)
        turn.steps.append(Step(context=turn.previous, model=model, bounds=bounds))
        turn.generation = generation
        await self._records.save(turn.branch, turn.name, generation, turn.steps)

    async def _record_usage(self, key: Key, context: FrameworkContext, usage: Usage) -> None:
        """Note the tokens that a provider counted: in the record of the call, and for counts to come."""
        if usage.input_tokens:
            counter = self.memory.token_counter
            counter.observe(context.composed.messages, usage.input_tokens, tools=context.tools)
        turn = self._turns.get(key)
        # Another call of the conversation may have come in between.
        if turn and turn.steps and turn.steps[-1].context.digest() == context.composed.digest():
            turn.steps[-1] = replace(turn.steps[-1], usage=usage)
            await self._records.save(turn.branch, turn.name, turn.generation, turn.steps)

    async def _read_turn(self, key: Key, branch: Key, position: int) -> _TurnContexts:
        """The turn that answers the user's message at a position, with its contexts so far."""
        known = self._turns.get(key)
        if known is not None and (known.branch, known.position) == (branch, position):
            return known
        after = max(position - 1, 0)
        found = await self.memory.read(branch.scope, branch.conversation, after=after, before=position + 1)
        message = found.entries[0].message if found.entries else None
        previous = None if known is None else known.previous
        made = _TurnContexts(branch, position, message, "start" if message is None else message.id, previous)
        self._turns[key] = made
        return made


class ContextAdapter(AsyncResource):
    """What adapters offer beside their seam. Use one in a `with` or an `async with`, or close it."""

    engine: ContextEngine

    @property
    def memory(self) -> Memory:
        """Where conversations are kept, with search, facts, pins and summaries."""
        return self.engine.memory

    async def explain(
        self,
        conversation: str,
        turn: str | None = None,
        *,
        step: int | None = None,
        scope: str | None = None,
    ) -> ComposedContext:
        """What the model was shown in a past call, byte for byte: by default in the newest one."""
        return await self.engine.run(self.engine.explain, conversation, turn, step=step, scope=scope)

    async def settled(self) -> None:
        """Wait until no summary is being written. For tests and shutdowns; a turn never waits."""
        await self.engine.run(self.engine.background.idle)

    async def close(self) -> None:
        """End the background work, and close what the adapter has opened."""
        await self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.close_sync()


def make_engine(scope: Scope, **options: Unpack[EngineOptions]) -> ContextEngine:
    """The engine of an adapter, from the arguments that it was given."""
    return ContextEngine(scope=scope, **options)


def missing_framework(error: ImportError, extra: str) -> ImportError:
    """The error of an adapter whose framework is not installed."""
    return ImportError(
        f"this adapter needs {error.name}: pip install 'autonomy-ctx[{extra}]'", name=error.name
    )


def plain_content(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """Parts as content; a single text as a plain string, as most messages have it."""
    if not parts:
        return ""
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], TextContent) else tuple(parts)


def identify(history: Sequence[SourcedMessage], before: str = "") -> list[SourcedMessage]:
    """The messages under ids that tell them and all before them apart from any other history."""
    said = []
    for one in history:
        shown = json.dumps(visible_fields(one.message), ensure_ascii=True, sort_keys=True)
        before = sha256(f"{before}\n{shown}".encode()).hexdigest()[:32]
        said.append(SourcedMessage(one.message, one.source, before))
    return said


def _to_store(one: SourcedMessage) -> Message:
    return replace(one.message, id=one.stored_id)


def framework_context(composed: ComposedContext, said: Sequence[SourcedMessage]) -> FrameworkContext:
    """A composed context, with what the framework has for each message that is shown as it was."""
    known = {one.stored_id or one.message.id: one for one in said}
    instructions: list[SourcedMessage] = []
    messages: list[SourcedMessage] = []
    for message in repair_messages(composed.messages).messages:
        own = known.get(message.id)
        is_same = own is not None and visible_fields(own.message) == visible_fields(message)
        shown = SourcedMessage(message, own.source if own is not None and is_same else None)
        # In the middle of a history, a rule stays where the framework had it.
        leads = message.role in INSTRUCTION_ROLES and (not messages or shown.source is None)
        (instructions if leads else messages).append(shown)
    if messages and messages[0].message.role is ChatRole.ASSISTANT:
        # What came before was cut, and most providers want a user's message first.
        messages.insert(0, SourcedMessage(Message("user", OPENING_TEXT)))
    return FrameworkContext(composed=composed, instructions=instructions, messages=messages)


def insert_before_question(
    messages: Sequence[SourcedMessage], others: Sequence[SourcedMessage]
) -> list[SourcedMessage]:
    """Messages with others that are for this call only, before the last things that the user said."""
    start = len(messages)
    while start and messages[start - 1].message.role is ChatRole.USER:
        start -= 1
    return [*messages[:start], *others, *messages[start:]]


@dataclass(frozen=True, slots=True)
class _SharedMessage:
    """The last message that a history and a log share, and whether the log ends with it."""

    position: int
    message_id: str
    is_newest: bool


def _branch_key(key: Key, message_id: str) -> Key:
    """Where a history goes on that leaves a log after a message."""
    return key._replace(conversation=f"{key.conversation}~{message_id[:8]}")


def _is_answer(message: Message) -> bool:
    return message.role is ChatRole.ASSISTANT and not message.tool_calls


class _TurnContexts:
    """The contexts of one turn, step by step, and the newest context of the conversation."""

    def __init__(
        self,
        branch: Key,
        position: int,
        message: Message | None,
        name: str,
        previous: ComposedContext | None,
    ) -> None:
        self.branch, self.position, self.message, self.name = branch, position, message, name
        self.previous = previous
        self.steps: list[Step] = []
        self.generation = 0


def _shows(composed: ComposedContext, position: int, message: Message | None) -> bool:
    """Whether a context has the user's message: by its position, its id or its text."""
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
