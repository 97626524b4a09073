"""An agent composes a context, calls a model, runs tools and stores the messages, step by step.

What happens inside one turn is in `turn.py`.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload

import anyio

from autonomy_ctx.agents.agent_tools import AgentTools, make_agent_tool
from autonomy_ctx.agents.conversation_items import ItemsByConversation
from autonomy_ctx.agents.conversation_verbs import CONVERSATION as CONVERSATION
from autonomy_ctx.agents.conversation_verbs import SCOPE as SCOPE
from autonomy_ctx.agents.conversation_verbs import ConversationVerbs
from autonomy_ctx.agents.explain import EXPLAIN_SECONDS, EXPLAIN_TURNS, ContextRecords
from autonomy_ctx.agents.images import ImageSide, read_image_side, shrink_images
from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.agents.options import (
    ITEM_TOOL,
    AgentHook,
    AgentOptions,
    AnyModel,
    ContextMode,
    Host,
    SendOptions,
    TurnEnvironment,
    TurnLimits,
    UserContent,
    check_agent_name,
    check_context_mode,
    check_host,
    check_keys,
    check_limits,
    check_mail,
    check_memory,
    check_model,
    check_subagents,
    check_template,
    check_tool_name,
    check_tools,
    check_turn,
    check_turn_seconds,
    decode_arguments,
    question_text,
    user_message,
)
from autonomy_ctx.agents.reply import AgentReply, AgentStream, Listener, OutputT, StructuredReply
from autonomy_ctx.agents.subagents import SubagentHost
from autonomy_ctx.agents.tool_runner import Turn, run_tool_turns
from autonomy_ctx.agents.tool_search import MIN_TOOL_BUDGET
from autonomy_ctx.agents.turn import TurnRunner
from autonomy_ctx.agents.turn_queue import (
    TURN_LEASE_SECONDS,
    TURN_WAIT_SECONDS,
    TurnLease,
    TurnQueue,
    enclosing_lease,
)
from autonomy_ctx.background import AsyncResource, Background, close_resources
from autonomy_ctx.compaction.manual import CompactionResult
from autonomy_ctx.containers.pool import ContextPool
from autonomy_ctx.containers.queue import ContextQueue
from autonomy_ctx.errors import AgentClosed
from autonomy_ctx.hooks import Hook, hooks_to_names, validate_hooks
from autonomy_ctx.memory.cache import ConversationCache
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key, make_key
from autonomy_ctx.messages.events import DirectMessage
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message, new_id, now
from autonomy_ctx.sections.instructions import BUILTIN_TOOLS, check_builtin_tools
from autonomy_ctx.template.composed import ComposedContext, without_params
from autonomy_ctx.template.defaults import create_default_template
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_store import drop_last_turn, end_epochs, fork_log
from autonomy_ctx.template.template import ContextTemplate
from autonomy_ctx.tools.tool import Tool
from autonomy_ctx.tracing import turn_span
from autonomy_ctx.validation import check_int

if TYPE_CHECKING:
    from autonomy_ctx.agents.output import TurnOutput
    from autonomy_ctx.compaction.config import ContextSummaryConfig

QUEUE_LIMIT = 10
# The conversations whose newest context is kept, to tell how the next one differs.
MAX_CONTEXTS = 256


class Agent(ConversationVerbs, AsyncResource):
    """Answers users with a model and tools, and stores every conversation.

    Without a `context_template`, a context has the instructions, a description of the built-in tools, the
    history (with `context_summary`, its older part as a summary) and the instructions of the tools. With a
    template, `instructions` only describe the agent. `model` is a `Model`, its name, or an object that has
    `complete_chat`; without one, use `put` and `run`. `memory` is a `Memory` or its URL.
    """

    def __init__(
        self,
        name: str = "agent",
        description: str = "",
        tools: Iterable[Any] = (),
        *,
        instructions: str | None = None,
        model: AnyModel = None,
        memory: Memory | str | None = None,
        node: Host | None = None,
        context_summary: bool | Literal["auto"] | Mapping[str, Any] | ContextSummaryConfig | None = None,
        context_template: ContextTemplate | None = None,
        context_queue: ContextQueue | None = None,
        context_pool: ContextPool | None = None,
        enable_ask_for_user_input: bool = False,
        enable_filesystem: bool = False,
        enable_recall: bool = False,
        enable_pins: bool = False,
        enable_compaction: bool = False,
        builtin_tools: Iterable[str] = BUILTIN_TOOLS,
        filesystem_visibility: str = "conversation",
        filesystem_root: str | os.PathLike[str] | None = None,
        subagents: Mapping[str, Mapping[str, Any]] | None = None,
        tool_budget: int | None = None,
        limits: TurnLimits | Mapping[str, Any] | None = None,
        clear_results_after: int | None = 6,
        clear_images_after: int | None = 3,
        max_image_side: ImageSide = None,
        explain_turns: int = EXPLAIN_TURNS,
        explain_seconds: float = EXPLAIN_SECONDS,
        context: ContextMode = "log",
        turn_lease_seconds: float | None = TURN_LEASE_SECONDS,
        turn_wait_seconds: float | None = TURN_WAIT_SECONDS,
        hooks: Iterable[Hook] | None = None,
        clock: Callable[[], datetime] = now,
        new_id: Callable[[], str] = new_id,
    ) -> None:
        # A sub-agent's name is a path, which no other agent can have.
        self.name = name if isinstance(node, SubagentHost) else check_agent_name(name)
        self._owns_model, model = isinstance(model, str), check_model(name, model)
        self.options = AgentOptions(
            description=description,
            tools=check_tools(name, tools),
            instructions=instructions,
            model=model,
            node=node,
            context_summary=context_summary,
            context_template=check_template(name, context_template, context_summary),
            enable_ask_for_user_input=enable_ask_for_user_input,
            enable_filesystem=enable_filesystem,
            enable_recall=enable_recall,
            enable_pins=enable_pins,
            enable_compaction=enable_compaction,
            builtin_tools=check_builtin_tools(builtin_tools),
            filesystem_visibility=filesystem_visibility,
            filesystem_root=filesystem_root,
            subagents=subagents,
            tool_budget=check_int("tool_budget", tool_budget, least=MIN_TOOL_BUDGET, optional=True),
            limits=limits,
            clear_results_after=clear_results_after,
            clear_images_after=clear_images_after,
            max_image_side=read_image_side(max_image_side, model),
            explain_turns=explain_turns,
            explain_seconds=explain_seconds,
            context=check_context_mode(context),
            turn_lease_seconds=turn_lease_seconds,
            turn_wait_seconds=turn_wait_seconds,
            clock=clock,
            new_id=new_id,
        )
        self.description, self.instructions = description, instructions or description
        self.model: Any = model
        self.limits = check_limits(limits, model)
        check_turn_seconds(turn_lease_seconds, turn_wait_seconds)
        self.hooks = validate_hooks(hooks, AgentHook)
        self._clock, self._new_id, self._closed = clock, new_id, False
        self._owns_memory = isinstance(memory, str) or (memory is None and node is None)
        memory = check_memory(name, memory, node, clock=clock, new_id=new_id)
        # A view that was given belongs to whoever shares it.
        self.memory = memory if memory.agent else memory.for_agent(name)
        self._node, self._background = node, Background() if node is None else node.background
        self._subagents = SubagentHost(
            name,
            check_subagents(name, subagents),
            make=partial(
                Agent,
                clock=clock,
                new_id=new_id,
                turn_lease_seconds=turn_lease_seconds,
                turn_wait_seconds=turn_wait_seconds,
            ),
            model=model,
            memory=self.memory,
            background=self._background,
        )
        given = context_queue is not None or context_pool is not None
        defers = getattr(model, "defers_tools", False) is True
        has_items = given or bool(self.options.own_tools)
        self._tools = AgentTools(
            self.options,
            self._subagents.tools,
            reads_items=has_items,
            counter=memory.token_counter,
            defers=defers,
        )
        self.context_template = context_template or create_default_template(
            self.instructions,
            context_summary=context_summary,
            model=model,
            background=self._background,
            subagent_configs=subagents if self._subagents.tools else None,
            tools=list(self._tools.fixed.values()),
            **self.options.template_arguments(),
            tool_catalog=tool_budget is not None or defers,
        )
        self._items = ItemsByConversation(
            self.memory.store,
            self._key(SCOPE, CONVERSATION),
            ContextQueue(limit=QUEUE_LIMIT) if context_queue is None else context_queue,
            ContextPool() if context_pool is None else context_pool,
            given=given,
            new_id=new_id,
        )
        self._records = ContextRecords(self.memory, turns=explain_turns, seconds=explain_seconds, clock=clock)
        self._metrics, self._turn_queue = AgentMetrics(), TurnQueue(name)
        self._contexts: ConversationCache[Key, ComposedContext] = ConversationCache(MAX_CONTEXTS)
        # Conversations to compact after their turn, with the focus, because the model asked for it.
        self.compactions: dict[Key, str | None] = {}
        # The calls that `run` will make.
        self.waiting: deque[Turn] = deque()
        check_keys(self.models)

    @classmethod
    async def start(
        cls, *, node: Host, name: str, instructions: str, model: AnyModel, **options: Any
    ) -> Self:
        """Make an agent that a node hosts; it takes all arguments of `Agent`."""
        check_host(name, node)
        agent = cls(name, node=node, instructions=instructions, model=model, **options)
        node.host(agent)
        # Its queue and pool have at once what earlier turns put there; no turn waits for a server.
        await agent._items.load(agent._key(SCOPE, CONVERSATION))
        await agent._tools.prepare()
        return agent

    # -- turns ----------------------------------------------------------------------------------

    @overload
    async def send(
        self, text: UserContent, *, output: type[OutputT], **options: Unpack[SendOptions]
    ) -> StructuredReply[OutputT]: ...
    @overload
    async def send(
        self, text: UserContent, *, output: Mapping[str, Any], **options: Unpack[SendOptions]
    ) -> StructuredReply[Any]: ...
    @overload
    async def send(
        self, text: UserContent, *, output: None = None, **options: Unpack[SendOptions]
    ) -> AgentReply: ...
    async def send(
        self,
        text: UserContent,
        *,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
        params: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        output: Any = None,
    ) -> AgentReply:
        """Run one turn and return the answer.

        The user's message is stored before the model is called. Turns of one conversation run one at a time,
        first come first served, in all processes that share the store. With a `message_id`, a message that is
        sent again is stored once; if its turn has an answer, that answer is returned, and neither the model
        nor a tool is called. `params` are passed to the sections. `output` is the type of a structured
        answer, or its JSON schema; the reply has the value.
        """
        message = user_message(text, message_id, new_id=self._new_id, at=self._clock())
        wanted = self._check_turn(params, output)
        return await self._run_turn(message, self._key(scope, conversation), params, wanted, None)

    def stream(
        self,
        text: UserContent,
        *,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
        params: Mapping[str, Any] | None = None,
        message_id: str | None = None,
        output: Any = None,
    ) -> AgentStream:
        """Run one turn as events: text, thinking, calls, results, the output so far, and last `TurnEnded`."""
        message = user_message(text, message_id, new_id=self._new_id, at=self._clock())
        key, wanted = self._key(scope, conversation), self._check_turn(params, output)
        return AgentStream(self.name, partial(self._run_turn, message, key, params, wanted), self._background)

    async def __call__(self, **values: Any) -> str:
        """Answer one question in a new conversation, so that an agent can be called like a function."""
        return (await self.send(question_text(values), conversation=f"call-{self._new_id()}")).text

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> Tool[..., Any]:
        """This agent as a tool for another agent; it works in the scope and conversation of that agent."""
        first_line = (self.description or self.instructions).strip().partition("\n")[0]
        return make_agent_tool(self.send, self.name, name=name, description=description or first_line)

    async def message(
        self,
        to: str,
        content: str,
        *,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
        priority: float = 0.5,
        ttl_seconds: float | None = None,
        target_node_id: str | None = None,
        parent_task_id: str | None = None,
        metadata: Mapping[str, Any] = EMPTY,
    ) -> DirectMessage:
        """Send a message to another agent with the same memory; the agent reads it in its next turn there."""
        if self._closed:
            raise AgentClosed(self.name)
        check_mail(to, content)
        mail = DirectMessage(
            source_agent=self.name,
            target_agent=to,
            content=content,
            priority=priority,
            ttl_seconds=ttl_seconds,
            target_node_id=target_node_id,
            parent_task_id=parent_task_id,
            metadata=metadata,
            id=self._new_id(),
            created_at=self._clock(),
        )
        await Mailbox(self.memory, clock=self._clock).send(mail, scope=scope, conversation=conversation)
        return mail

    async def explain(
        self,
        turn: str | int | None = None,
        *,
        step: int | None = None,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
    ) -> ComposedContext:
        """The context of a turn, by its number or id, byte for byte; by default the newest, its last step."""
        return await self._records.explain(self._key(scope, conversation), turn, step)

    async def preview(
        self,
        *,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
        params: Mapping[str, Any] | None = None,
    ) -> ComposedContext:
        """The context that would be sent next, as the conversation is now. Nothing is sent or stored."""
        check_turn(self.name, self.model, params)
        key = self._key(scope, conversation)
        await self._tools.prepare()
        return await TurnRunner(self._environment(None), key, "", params=params).preview()

    async def end_epoch(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> bool:
        """End the epoch, so that the next context starts a new one. Returns False if there was none."""
        key = self._key(scope, conversation)
        async with self._edit_log(key):
            return await end_epochs(await self._environment(None).read_epochs(key), EndReason.BY_HAND)

    async def compact(
        self,
        focus: str | None = None,
        *,
        keep: Iterable[str] = (),
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
    ) -> CompactionResult:
        """Write a summary of all but the newest messages now; the next turn shows it.

        `focus` says what this summary must preserve. `keep` has ids of messages, which are pinned, and texts,
        which become facts. Turns go on while the summary is written.
        """
        # Imported here: compaction is for those who ask for summaries.
        from autonomy_ctx.agents.compaction import compact_conversation

        key = self._key(scope, conversation)
        await self._tools.prepare()
        return await compact_conversation(self._environment(None), key, self._edit_log, focus, keep)

    # -- turns without a model ------------------------------------------------------------------

    async def put(self, turn: Turn) -> None:
        """Add a tool call that `run` will make."""
        if not isinstance(turn, Turn):
            raise TypeError(f"put takes a Turn, not {type(turn).__name__}")
        if self._closed:
            raise AgentClosed(self.name)
        await self._tools.prepare()
        check_tool_name(turn.tool, self._tools.listing.tools)
        self.waiting.append(turn)

    def run(self) -> AsyncIterator[tuple[Turn, Any]]:
        """Make the added calls in order, and yield each with its value, or with each value it yielded.

        If a tool fails, its error is raised; the calls after it are kept.
        """
        key = self._key(SCOPE, CONVERSATION)
        environment = self._environment(enclosing_lease(self.memory.store, key))
        return run_tool_turns(environment, key, self.waiting)

    # -- what it holds --------------------------------------------------------------------------

    @property
    def models(self) -> list[Any]:
        """The models of the agent and of its sub-agents, and those that write summaries."""
        sections = [options.summarizing for options in self.context_template.section_options]
        writers = [section.summary_model for section in sections if section is not None]
        found = [self.model, *writers, *self._subagents.models()]
        return list({id(one): one for one in found if one is not None and not isinstance(one, str)}.values())

    @property
    def context_queue(self) -> ContextQueue:
        """The items without an id that tools returned, of the default scope and conversation."""
        return self._items.own.queue

    @context_queue.setter
    def context_queue(self, queue: ContextQueue) -> None:
        self._items.replace_queue(queue)

    @property
    def context_pool(self) -> ContextPool:
        """The items with an id that tools returned, of the default scope and conversation."""
        return self._items.own.pool

    @context_pool.setter
    def context_pool(self, pool: ContextPool) -> None:
        self._items.replace_pool(pool)

    @property
    def tools(self) -> list[Tool[..., Any]]:
        """All tools, given and built-in; the tool that reads items is there if items are expected."""
        known, expects_items = self._tools.listing.tools, self._expects_items
        return [tool for name, tool in known.items() if expects_items or name != ITEM_TOOL]

    @property
    def _expects_items(self) -> bool:
        """True with a queue or a pool, or a tool that says that it returns items."""
        return self._items.given or self._tools.returns_items

    def get_metrics(self) -> dict[str, Any]:
        """Counters since the agent was made; with a summarized history also those of its summaries."""
        return self._metrics.collect(self.context_template)

    async def settled(self) -> None:
        """Wait until no summary is being written. For scripts and tests; a turn never waits."""
        await self.context_template.settled()

    # -- its conversations ----------------------------------------------------------------------

    async def delete_message(
        self, message_id: str, *, scope: str = SCOPE, conversation: str = CONVERSATION
    ) -> bool:
        """Delete a message and all derived data, between two turns. Returns whether it was there."""
        async with self._edit_log(self._key(scope, conversation)):
            return await self.memory.delete_message(scope, conversation, message_id)

    async def drop_last_turn(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> int:
        """Delete the user's newest message and all after it, after its turn has ended. Returns how many."""
        async with self._edit_log(key := self._key(scope, conversation)):
            return await drop_last_turn(self.memory, key)

    async def fork(
        self,
        *,
        scope: str = SCOPE,
        conversation: str = CONVERSATION,
        at: int | None = None,
        name: str | None = None,
    ) -> str:
        """Make a conversation that shares the messages up to a position, and return its name.

        The fork does not have the queue, pool, mail and sub-agents of the conversation.
        """
        async with self._turn_queue.turn(key := self._key(scope, conversation)):
            return await fork_log(self.memory, key, at, name)

    async def delete_conversation(self, *, scope: str = SCOPE, conversation: str = CONVERSATION) -> int:
        """Delete a conversation with all derived data, including that of its sub-agents."""
        key = self._key(scope, conversation)
        async with self._edit_log(key):
            await self._items.clear(key)
            # First what only this conversation's records know of.
            deleted = await self._subagents.delete(key)
            return deleted + await self.memory.delete_conversation(scope, conversation)

    # -- copies and ends ------------------------------------------------------------------------

    def branch(self, name: str | None = None) -> Agent:
        """A similar agent with a branch of the queue and pool; with the same name, it shares the log."""
        made = type(self)(
            self.name if name is None else name,
            memory=self.memory if name is None else self.memory.for_agent(name),
            context_queue=self.context_queue.branch(),
            context_pool=self.context_pool.branch(),
            hooks=list(self.hooks),
            **self.options.arguments(),
        )
        made._items.given = self._items.given
        if name is None:
            # The same log, so the same queue of turns.
            made._turn_queue = TurnQueue(made.name, shared_with=self._turn_queue)
        return made

    def to_dict(self) -> dict[str, Any]:
        """The agent as JSON: names of tools and hooks, waiting turns, queue and pool; no model, no memory."""
        return {
            "name": self.name,
            "description": self.description,
            "instructions": self.instructions,
            **self.options.to_dict(),
            "hooks": hooks_to_names(self.hooks),
            "turns": [turn.to_dict() for turn in self.waiting],
            "context_queue": self.context_queue.to_dict(),
            "context_pool": self.context_pool.to_dict(),
            "reads_items": self._items.given,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **options: Any) -> Agent:
        """An agent from the result of `to_dict`; tools and hooks are found by name. `options` override it."""
        agent = cls(**decode_arguments(data, options))
        if "context_queue" not in options and "context_pool" not in options:
            # Saved ones are not given ones: they are there in every agent.
            agent._items.given = data.get("reads_items") is not False
        agent.waiting.extend(Turn.from_dict(turn) for turn in data.get("turns") or ())
        return agent

    async def close(self) -> None:
        """Wait a short time for running turns, and close connections. Turns left end with `AgentClosed`."""
        if self._closed:
            return
        self._closed = True
        if self._node is not None:
            self._node.release(self)
        # Whatever becomes of one step, the others follow: nobody else would take them. Last come first.
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as steps:
                if self._owns_memory:
                    steps.push_async_callback(self.memory.close)
                own = [self.model] * self._owns_model if self._node else self.models
                steps.push_async_callback(close_resources, own)
                if self._node is None:
                    steps.push_async_callback(self._background.aclose)
                if self.options.context_template is None:
                    steps.push_async_callback(self.context_template.close)
                steps.push_async_callback(self._tools.close)
                steps.push_async_callback(self._subagents.close)
                steps.push_async_callback(self._items.close)
                steps.push_async_callback(self._turn_queue.close)

    def __repr__(self) -> str:
        return f"Agent({self.name!r}, tools={[tool.name for tool in self.tools]})"

    def _check_turn(self, params: Any, output: Any) -> TurnOutput | None:
        check_turn(self.name, self.model, params)
        if output is None:
            return None
        # Imported here: most turns answer with text.
        from autonomy_ctx.agents.output import TurnOutput

        return TurnOutput(self.name, output)

    async def _run_turn(
        self,
        message: Message,
        key: Key,
        params: Mapping[str, Any] | None,
        output: TurnOutput | None,
        listener: Listener | None,
    ) -> AgentReply:
        message = await shrink_images(message, self.options.max_image_side)
        await self._tools.prepare()
        enclosing, turn = enclosing_lease(self.memory.store, key), self._new_id()
        lease = self._new_lease(key, enclosing)
        environment = self._environment(enclosing)
        runner = TurnRunner(
            environment, key, turn, params=params, lease=lease, listener=listener, output=output
        )
        with turn_span(
            message,
            agent=self.name,
            description=self.description,
            scope=key.scope,
            conversation=key.conversation,
            turn=turn,
            model=self.model,
        ) as span:
            wait_seconds, begin = self.options.turn_wait_seconds, partial(runner.begin, message)
            async with self._turn_queue.turn(key, lease, begin, wait_seconds=wait_seconds):
                span.begin_turn()
                runner.previous = self._contexts.get(key)
                self._metrics.count("turns")
                try:
                    reply = await runner.run(message)
                except BaseException:
                    self._metrics.count("turns_failed")
                    raise
                finally:
                    span.number_turn(runner.number)
                    if runner.previous is not None:
                        self._contexts[key] = without_params(runner.previous)
                span.end_turn(text=reply.text, usage=reply.usage, stop=reply.stop, steps=reply.steps)
            if key in self.compactions:
                from autonomy_ctx.agents.compaction import compact_later

                self._background.start(partial(compact_later, self, key, self.compactions.pop(key)))
            return reply

    @asynccontextmanager
    async def _edit_log(self, key: Key) -> AsyncIterator[None]:
        """Wait for the conversation's turn to change its log; the newest context becomes invalid."""
        lease = self._new_lease(key, enclosing_lease(self.memory.store, key))

        async def begin(is_alone: bool) -> bool:
            return lease is None or await lease.begin() is not None

        async with self._turn_queue.turn(key, lease, begin, wait_seconds=self.options.turn_wait_seconds):
            self._contexts.pop(key, None)
            yield

    def _new_lease(self, key: Key, enclosing: TurnLease | None) -> TurnLease | None:
        """A lease for a turn; none without leases, or inside a turn of an agent that shares the log."""
        if self.options.turn_lease_seconds is None or enclosing is not None:
            return None
        return TurnLease(self.memory, key, self.options.turn_lease_seconds, self._background, self._metrics)

    def _environment(self, enclosing: TurnLease | None) -> TurnEnvironment:
        # What is written inside a turn of an agent that shares the log belongs to that turn.
        hold = None if enclosing is None else enclosing.hold
        return TurnEnvironment(
            name=self.name,
            memory=self.memory if hold is None else self.memory.in_turn(hold),
            model=self.model,
            template=self.context_template,
            listing=self._tools.listing,
            items=self._items,
            records=self._records,
            limits=self.limits,
            hooks=self.hooks,
            metrics=self._metrics,
            agent=self,
            clock=self._clock,
            new_id=self._new_id,
            keeps_epochs=self.options.context == "log",
            expects_items=self._expects_items,
            image_side=self.options.max_image_side,
            enclosing=enclosing,
        )

    def _key(self, scope: str, conversation: str) -> Key:
        return make_key(self.memory.agent, scope, conversation)
