"""One turn: from a user's message to the answer, with everything in between stored.

The user's message is stored before the model is called. A call and its results are stored together. So if a
turn ends early, by an error, a cancellation or a kill, the next turn has a valid history. Everything is
stored under the turn's lease, which is acquired with the first message and released with the last.

`TurnRunner` is the loop; `turn_entry.py` says how the user's message is accepted.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import takewhile
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from autonomy_ctx.agents.explain import SentTurn
from autonomy_ctx.agents.images import shrink_images
from autonomy_ctx.agents.options import ITEM_TOOL, RESULT_TOOL, AgentHook, TurnEnvironment
from autonomy_ctx.agents.reply import (
    STEPS_USED_UP,
    TOKENS_USED_UP,
    WAITING_FOR_INPUT,
    AgentReply,
    Listener,
    ToolAnswered,
)
from autonomy_ctx.agents.tool_search import unwrap_call, wrap_outcome
from autonomy_ctx.agents.turn_entry import EntryPlan, plan_entry, reads_log, receive_mail
from autonomy_ctx.agents.turn_queue import TurnLease
from autonomy_ctx.compaction.manual import ContextCompacted
from autonomy_ctx.containers.recording import record_model_call
from autonomy_ctx.errors import (
    BudgetExceeded,
    ContextOverflow,
    HookError,
    InvalidItem,
    StoreFull,
    TurnLost,
    UserMessageMissing,
)
from autonomy_ctx.formats.base import CacheFields, ModelReply, StreamEvent, TextDelta, Usage
from autonomy_ctx.formats.model_info import context_window_of, model_name
from autonomy_ctx.hooks import fire
from autonomy_ctx.memory.mailbox import MAIL_KIND
from autonomy_ctx.memory.store import Key, RecordDraft
from autonomy_ctx.memory.summary_blocks import drop_block
from autonomy_ctx.memory.turn_figures import read_newest
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall
from autonomy_ctx.messages.tokens import EstimatedTextCounter
from autonomy_ctx.models.call import complete, takes_messages
from autonomy_ctx.models.catalog import model_info
from autonomy_ctx.models.model import Model
from autonomy_ctx.sections.section import ComposeParams, Composition
from autonomy_ctx.template.composed import ComposedContext, trace_attributes
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_row import LastTurn, covered_by_summary
from autonomy_ctx.template.epoch_store import EPOCH_KIND, StoredEpochs, draft_epoch, drop_ended
from autonomy_ctx.tools.output import KEPT_LIMIT, cap_text
from autonomy_ctx.tools.run import CallOutcome, find_answered_calls, result_message, run_calls
from autonomy_ctx.tracing import is_tracing

if TYPE_CHECKING:
    from autonomy_ctx.agents.output import TurnOutput

logger = logging.getLogger("autonomy_ctx.agents")

# Of a known context window: what a context may fill, because counts are estimates.
WINDOW_SHARE = 0.9
# What is left of a context that was too long, for the second try.
RETRY_SHARE = 0.6
# How many messages of a turn that was answered are read, when its message is sent again.
MAX_TURN_MESSAGES = 1024
SAVE_SECONDS = 5.0


class TurnRunner:
    """One turn of one conversation."""

    def __init__(
        self,
        environment: TurnEnvironment,
        key: Key,
        turn: str,
        *,
        params: Mapping[str, Any] | None = None,
        lease: TurnLease | None = None,
        listener: Listener | None = None,
        output: TurnOutput | None = None,
    ) -> None:
        self._environment, self._key, self._turn = environment, key, turn
        # The number of the turn in its conversation; None until it is about to ask the model.
        self.number: int | None = None
        self._began: datetime | None = None
        self._params, self._lease, self._output = params, lease, output
        self._listener = listener if listener is None or output is None else output.listen(listener)
        # The newest context of the conversation, before this turn and then of it.
        self.previous: ComposedContext | None = None
        # The stored epochs as they are known in this turn, and whether one has ended.
        self._epochs: StoredEpochs | None = None
        # Those that were read when the turn began, until they are used.
        self._begun_with: StoredEpochs | None = None
        self._has_ended_epoch = False
        self._usage = Usage()
        self._tokens_used, self._spent, self._generation = 0, 0.0, 0
        # The tools as the model was last told them.
        self._specs: Sequence[Mapping[str, Any]] = ()
        self._messages: list[Message] = []
        # The contexts that were sent.
        self._steps: list[ComposedContext] = []
        # Whether the steps were saved with the last messages of the turn.
        self._has_saved_steps = self._has_failed = False
        self._text_streamed = False
        # Of the user's message, once it is stored: what was stored, the position of the newest user message,
        # and where the message was already, if it is sent again.
        self._entry: EntryPlan | None = None
        self._position = 0
        self._known_at: int | None = None

    async def begin(self, message: Message, is_alone: bool) -> bool:
        """Acquire the lease, if nothing must be done before it. Returns whether it was acquired.

        Hooks and mail come first, in the turn. So does the end of a turn before in this process.
        """
        lease, environment = self._lease, self._environment
        if lease is None:
            return True
        has_hooks = environment.memory.hooks or environment.hooks
        records = EPOCH_KIND if environment.keeps_epochs else None
        if not is_alone or has_hooks:
            return await lease.begin() is not None
        if not reads_log(environment):
            # Nothing is read before: the turn begins unless mail waits.
            start = await lease.begin(message, unless=MAIL_KIND, records=records)
            entry = EntryPlan([message], message)
        else:
            entry = await plan_entry(environment, self._key, message)
            if entry.takes_mail:
                return await lease.begin() is not None
            start = await lease.begin(*entry.messages, after=entry.position, records=records)
        if start is not None and start.positions:
            if records is not None:
                self._begun_with = environment.epochs_of(self._key, start.records)
            entry = entry._replace(position=start.position, generation=start.generation)
            await self._finish_entry(entry, start.positions)
        return start is not None

    async def run(self, message: Message) -> AgentReply:
        """Store the message and run steps until there is an answer."""
        self._began = message.created_at
        hold = None if self._lease is None else self._lease.hold
        if hold is not None:
            environment = self._environment
            self._environment = environment._replace(memory=environment.memory.in_turn(hold))
        try:
            reply = await self._accept(message) or await self._run_steps()
        except TurnLost:
            # Another turn has begun: not one thing more is written.
            self._steps.clear()
            raise
        except BaseException:
            self._has_failed = True
            raise
        finally:
            number = None if self._lease is None else self._lease.number
            if self.previous is not None and hold is not None and number is not None:
                self.previous.state.last_turn = LastTurn(number, hold.ticket, self._generation)
            if self._steps and not self._has_saved_steps and not self._is_lost:
                save = self._environment.records.save(self._key, self._sent_turn(), self._steps)
                await self._save_anyway(save)
        await self._save_anyway(self._drop_outdated())
        reply = reply if self._output is None else self._output.finish(reply)
        await self._fire(AgentHook.AFTER_TURN, reply, done=True)
        return reply

    async def preview(self) -> ComposedContext:
        """The context that would be sent next."""
        _, scope, conversation = self._key
        head = await self._environment.memory.head(scope, conversation)
        # After an answer, what is sent next belongs to another turn.
        self._position = head.last_user if head.last_user == head.position else 0
        return await self._compose(self._context_limit())

    async def _drop_outdated(self) -> None:
        """Drop the records of items that were taken out, of old turns, ended epochs and refused summaries."""
        await self._environment.items.drop_removed(self._key)
        store = self._environment.memory.store
        if self._has_ended_epoch:
            await drop_ended(store, self._key)
        for step in self._steps:
            if step.thinking.refused_block:
                await drop_block(store, self._key, step.thinking.refused_block)
        await self._environment.records.sweep(self._key)

    async def _accept(self, message: Message) -> AgentReply | None:
        """Store what the user said; there is a reply at once if it was answered before, or asked back."""
        environment, (_, scope, conversation) = self._environment, self._key
        entry = self._entry
        if entry is None:
            await self._fire(AgentHook.BEFORE_TURN, message, done=False)
            entry = await plan_entry(environment, self._key, message)
            if entry.takes_mail:
                await receive_mail(environment, self._key)
            positions = await environment.memory.append(scope, conversation, *entry.messages)
            await self._finish_entry(entry, positions)
        if entry.waiting:
            return self._question_reply("", entry.waiting)
        return await self._stored_reply(self._known_at) if self._known_at else None

    async def _stored_reply(self, position: int) -> AgentReply | None:
        """The answer of an earlier turn to the message at a position; None if that turn has no answer."""
        _, scope, conversation = self._key
        found = await self._environment.memory.read(
            scope, conversation, after=position, before=position + MAX_TURN_MESSAGES
        )
        later = (entry.message for entry in found.entries)
        messages = list(takewhile(lambda message: message.role is not ChatRole.USER, later))
        if not messages or messages[-1].role is not ChatRole.ASSISTANT or messages[-1].tool_calls:
            return None
        self._environment.metrics.count("turns_answered_before")
        self._messages = messages
        text = messages[-1].text
        if text:
            await self._emit(TextDelta(text))
        return self._reply(text, "end")

    async def _finish_entry(self, entry: EntryPlan, positions: Sequence[int]) -> None:
        self._entry, self._position, self._generation = entry, positions[-1], entry.generation
        self._known_at = self._position if self._position <= entry.position else None
        if entry.message is None:
            _, scope, conversation = self._key
            self._position = (await self._environment.memory.head(scope, conversation)).last_user

    @property
    def _is_lost(self) -> bool:
        return self._lease is not None and self._lease.lost

    async def _take_number(self) -> int:
        """The number of the turn, one more than that of the turn before."""
        # A turn inside another one has no lease of its own, and gets the next number.
        environment = self._environment
        lease = self._lease or environment.enclosing
        if lease is None or lease.hold is None:
            return (await read_newest(environment.memory.store, self._key)).number + 1
        last = None if self.previous is None else self.previous.state.last_turn
        if self._entry is not None and not self._entry.position:
            # The log was empty: nothing has to be read.
            lease.number = lease.number or 0
        return await lease.take_number(last, self._generation)

    def _sent_turn(self) -> SentTurn:
        clock, began = self._environment.clock, self._began
        return SentTurn(
            number=self.number or 0,
            id=self._turn,
            position=self._position,
            generation=self._generation,
            milliseconds=None if began is None else round((clock() - began).total_seconds() * 1000),
            has_failed=self._has_failed,
        )

    async def _run_steps(self) -> AgentReply:
        limits, output = self._environment.limits, self._output
        self.number = await self._take_number()
        if output is not None and self._entry is not None:
            self._messages += await output.ask(self._environment, self._key, self._entry.messages[-1])
        for step in range(1, limits.steps + 1):
            reply = await self._ask_model()
            # Once: the message may be sent to memory again, and must be the same then.
            environment = self._environment
            message = replace(reply.message, created_at=environment.clock(), agent=environment.name)
            tokens_used_up = limits.tokens is not None and self._tokens_used >= limits.tokens
            is_last = tokens_used_up or step == limits.steps
            if not reply.tool_calls:
                await self._deliver()
                repair = [] if output is None or is_last else output.repair(reply, environment)
                if saved := [message] * bool(reply.parts) + repair:
                    await self._save(*saved, ends=not repair)
                if repair:
                    continue
                return self._reply(reply.text, reply.stop or "end")
            questions = await self._run_calls(message, is_last=is_last)
            if questions:
                return self._question_reply(reply.text, questions)
            if tokens_used_up:
                return self._reply(reply.text, TOKENS_USED_UP)
        return self._reply(reply.text, STEPS_USED_UP)

    async def _ask_model(self) -> ModelReply:
        """Compose and call the model; repeat once with a smaller context if it was too long."""
        environment = self._environment
        environment.metrics.count("steps")
        self._text_streamed = False
        composed = await self._compose(self._context_limit())
        try:
            reply = await self._complete(composed)
        except ContextOverflow as overflow:
            if self._text_streamed:
                # The listener has a part of an answer: another one must not follow it.
                raise
            environment.metrics.count("overflow_retries")
            self._learn_window(composed, overflow)
            try:
                composed = await self._compose(self._retry_limit(composed, overflow.window))
            except BudgetExceeded:
                raise overflow from None
            if composed.end_reason is EndReason.BUDGET:
                composed.state.end_reason = EndReason.DID_NOT_FIT
            reply = await self._complete(composed)
        # Only what the model has answered is gone on from.
        self.previous = composed
        if composed.end_reason is not None:
            self._has_ended_epoch = True
            environment.metrics.count("epochs_ended")
        record_model_call(composed.messages, reply.text)
        environment.metrics.add_usage(reply.usage)
        environment.metrics.add_thinking(reply.thinking)
        self._usage += reply.usage
        composed.model = reply.fallback or composed.model or reply.model
        composed.usage = None if reply.usage == Usage() else reply.usage
        composed.thinking, composed.cache_miss = reply.thinking, reply.cache_miss
        counter = environment.memory.token_counter
        reported = reply.usage.input_tokens
        # A schema is counted by the provider, and not by us.
        if reported and (self._output is None or self._output.sent is None):
            self._observe(composed, reported)
        if environment.limits.tokens is not None:
            sent = reported or composed.request_tokens
            self._tokens_used += sent + (reply.usage.output_tokens or counter.count_messages([reply.message]))
        return reply

    async def _compose(self, max_tokens: int | None) -> ComposedContext:
        environment, (_, scope, conversation) = self._environment, self._key
        counter = environment.memory.token_counter
        # Until the provider has reported how it counts. A tokenizer needs no factor.
        if not counter.calibration.reports and isinstance(counter.text_counter, EstimatedTextCounter):
            info = model_info(environment.model)
            counter.calibration.assume(1.0 if info is None else info.tokenizer_factor)
        items, listing = await environment.items.load(self._key), environment.listing
        # From the first request on, if items are expected: another list of tools ends an epoch.
        reads_items = ITEM_TOOL in listing.tools and (environment.expects_items or len(items.pool) > 0)
        composed = await environment.template.compose(
            environment.memory,
            scope,
            conversation,
            ComposeParams(
                self._params,
                Composition(
                    queue=items.queue.items,
                    pool=items.pool.view(),
                    reads_items=reads_items,
                    reads_results=RESULT_TOOL in listing.tools,
                    tool_catalog=listing.catalog,
                    deferred_tools=listing.deferred,
                    turn_position=self._position or None,
                ),
            ),
            previous=self.previous if environment.keeps_epochs else None,
            tools=environment.specs_to_send(reads_items=reads_items),
            output=None if self._output is None else self._output.sent,
            max_tokens=max_tokens,
            stored=await self._read_epochs() if environment.keeps_epochs else None,
        )
        if self.previous is not None and not environment.keeps_epochs:
            composed.shared = composed.shared_prefix(self.previous)
        self._specs = composed.state.tools
        if not self._shows_user_message(composed):
            raise UserMessageMissing(
                agent=environment.name,
                position=self._position,
                sections=[section.name for section in composed.sections if section.messages],
            )
        composed.model = model_name(environment.model)
        self._steps.append(composed)
        return composed

    async def _read_epochs(self) -> StoredEpochs:
        """The stored epochs; later in a turn, the row that this turn has stored itself is the newest.

        With quotes, it may be gone: deleting what a context quotes deletes its row.
        """
        sent = self.previous
        if self._begun_with is not None:
            self._epochs, self._begun_with = self._begun_with, None
        elif self._epochs is None or sent is None or sent.state.row is None or sent.refs:
            self._epochs = await self._environment.read_epochs(self._key)
        else:
            self._epochs = self._epochs.with_newest(sent.state.row)
        return self._epochs

    def _shows_user_message(self, composed: ComposedContext) -> bool:
        """Tell whether the newest user message is there: by its position, its id or its text."""
        if composed.shows_position(self._position):
            return True
        message = None if self._entry is None else self._entry.message
        shown = [one for one in composed.messages if one.role is ChatRole.USER]
        if message is None:
            # An answer to a question: sections without positions are believed if they show the user at all.
            return not self._position or bool(shown)
        return any(one.id == message.id or one.text == message.text for one in shown)

    async def _announce_compaction(self, composed: ComposedContext, reason: EndReason) -> None:
        """Tell hooks and the listener which messages a summary replaces in the request that follows."""
        rows = () if self._epochs is None else self._epochs.rows
        before, last = self.previous, covered_by_summary(composed.messages)
        first = (rows[0].covered if rows else covered_by_summary(before.messages if before else ())) + 1
        if last < first:
            return
        tokens = None if before is None else before.tokens
        event = ContextCompacted(
            first=first, last=last, reason=reason.value, tokens_before=tokens, tokens_after=composed.tokens
        )
        await self._fire(AgentHook.BEFORE_COMPACTION, event, done=False)
        if self._listener is not None:
            await self._listener(event)

    async def _complete(self, composed: ComposedContext) -> ModelReply:
        if composed.end_reason is not None:
            await self._announce_compaction(composed, composed.end_reason)
        environment, request = self._environment, None
        if environment.hooks or environment.limits.cost is not None:
            from autonomy_ctx.agents.cost_limit import announce_request

            request = await announce_request(environment, self._key, self._turn, self._steps, self._spent)
        reply = await complete(
            environment.model,
            composed.messages,
            tools=[*self._specs, *environment.listing.deferred],
            max_tokens=environment.limits.output_tokens,
            # Other models have no cache to mark places in.
            breakpoints=composed.breakpoints if takes_messages(environment.model) else (),
            cache=CacheFields(key=composed.cache_key, is_long=composed.long_cache),
            answered_call_ids=await find_answered_calls(environment.memory, self._key, composed.messages),
            output=None if self._output is None or self._output.sent is None else self._output.schema,
            on_event=None if self._listener is None else self._emit,
            trace_attributes=trace_attributes(composed) if is_tracing() else EMPTY,
        )
        if request is not None:
            self._spent += request.cost_of(reply) or 0.0
            await self._fire(AgentHook.AFTER_REPLY, request, reply, done=True)
        return reply

    async def _deliver(self) -> None:
        """Tell sections that the model has answered what they showed, such as mail, which was read now."""
        (_, scope, conversation), composed = self._key, self._steps[-1]
        for options in self._environment.template.section_options:
            # Of several sections with one name the first is meant.
            report = None if options.delivery is None else composed.section(options.name)
            if options.delivery is not None and report is not None and report.messages:
                messages = composed.messages
                shown = [messages[index] for index in report.indexes]
                await options.delivery.deliver(self._environment.memory, scope, conversation, shown)

    async def _run_calls(self, message: Message, *, is_last: bool) -> list[str]:
        """Run the model's calls and save them together with their results; the questions to the user."""
        metrics = self._environment.metrics
        ended: list[CallOutcome] = []

        async def on_end(outcome: CallOutcome) -> None:
            ended.append(outcome)
            if self._listener is not None and outcome.message is not None:
                await self._listener(ToolAnswered(outcome.call, outcome.message))

        from autonomy_ctx.tools.builtin.ask_user import read_question

        stored = list[CallOutcome]()
        try:
            outcomes = await self._run_tools(message.tool_calls, on_end)
            await self._store_items(outcomes, stored)
            questions = [read_question(one.call) or "" for one in stored if one.message is None]
            message = replace(message, phase=WAITING_FOR_INPUT) if questions else message
            await self._save_calls(message, stored, ends=is_last or bool(questions))
        except TurnLost:
            raise
        except BaseException:
            # Finished calls are saved, once however often they are sent to memory; a call without a
            # result is shown as interrupted.
            if not self._is_lost:
                await self._save_anyway(self._save_finished_calls(message, ended, stored))
            raise
        metrics.count("tool_calls", len(stored))
        metrics.count("tool_errors", sum(one.error is not None for one in stored))
        for one in stored:
            if one.message is not None:
                await self._fire(AgentHook.AFTER_CALL, one.call, one.message, done=True)
        return questions

    async def _run_tools(
        self, calls: Sequence[ToolCall], on_end: Callable[[CallOutcome], Awaitable[None]]
    ) -> list[CallOutcome]:
        """Run calls and give their outcomes, in their order; `on_end` gets each as it ends."""
        environment, limits = self._environment, self._environment.limits
        # A call of a tool on demand is run, and told to hooks, as that of the tool itself.
        tools = environment.listing.tools
        made = [unwrap_call(call, tools) for call in calls]
        own = {id(one): call for one, call in zip(made, calls, strict=True)}

        async def end(outcome: CallOutcome) -> None:
            await on_end(wrap_outcome(outcome, own[id(outcome.call)], tools))

        vetoed = await self._veto_calls(made)
        for outcome in vetoed.values():
            await end(outcome)
        items = await environment.items.load(self._key)
        ended = iter(
            await run_calls(
                [call for index, call in enumerate(made) if index not in vetoed],
                tools,
                inject=environment.injected(self._key, items.pool),
                timeout=limits.tool_timeout,
                output_limit=limits.tool_output,
                result_tokens=limits.result_tokens(context_window_of(environment.model)),
                count_text=environment.memory.token_counter.text_counter.count,
                parallel=limits.parallel_tools,
                clock=environment.clock,
                new_id=environment.new_id,
                done=end,
            )
        )
        outcomes = [vetoed[index] if index in vetoed else next(ended) for index in range(len(calls))]
        return [wrap_outcome(one, call, tools) for one, call in zip(outcomes, calls, strict=True)]

    async def _veto_calls(self, calls: Sequence[ToolCall]) -> dict[int, CallOutcome]:
        """The calls that a hook refuses, by index, with what the model is told."""
        vetoed: dict[int, CallOutcome] = {}
        for index, call in enumerate(calls):
            try:
                await self._fire(AgentHook.BEFORE_CALL, call, done=False)
            except HookError as error:
                message = self._error_result(call, f"it was not run: {error}")
                vetoed[index] = CallOutcome(call=call, message=message, error=error)
        return vetoed

    async def _store_items(self, outcomes: Iterable[CallOutcome], stored: list[CallOutcome]) -> None:
        """Store the items that calls found, and put each call that is done into `stored`.

        A call whose items cannot be stored gets an error as its result.
        """
        items = await self._environment.items.load(self._key)
        for outcome in outcomes:
            try:
                if outcome.items:
                    await self._environment.items.add(self._key, items, outcome.items)
            except (InvalidItem, HookError) as error:
                problem = f"it ran, but what it found was not kept: {error}"
                outcome = replace(outcome, message=self._error_result(outcome.call, problem), full=None)
            stored.append(outcome)

    async def _save_finished_calls(
        self, message: Message, ended: Sequence[CallOutcome], stored: list[CallOutcome]
    ) -> None:
        done = {id(one.call) for one in stored}
        await self._store_items([one for one in ended if id(one.call) not in done], stored)
        await self._save_calls(message, stored)

    async def _save_calls(
        self, message: Message, outcomes: Sequence[CallOutcome], *, ends: bool = False
    ) -> None:
        """Save a message with the results of its calls; beside those that are cut, all that is kept."""
        full_texts: dict[str, str] = {}
        for one in outcomes:
            if one.full is not None and one.message is not None:
                full_texts[one.message.id] = await anyio.to_thread.run_sync(cap_text, one.full, KEPT_LIMIT)
        side = self._environment.image_side
        results = [await shrink_images(one.message, side) for one in outcomes if one.message is not None]
        await self._save(message, *results, full_texts=full_texts, ends=ends)

    async def _save(
        self, *messages: Message, full_texts: Mapping[str, str] = EMPTY, ends: bool = False
    ) -> None:
        """Store messages of the turn; with the last ones, its lease is given back."""
        _, scope, conversation = self._key
        name = self._environment.name
        stamped = [one if one.agent == name else replace(one, agent=name) for one in messages]
        records = [] if self.previous is None else draft_epoch(self.previous, self._generation)
        steps = await self._draft_steps() if ends else []
        records += steps
        ends = ends and self._lease is not None
        if self._lease is not None and ends:
            self._lease.stop_renewal()
        append = partial(
            self._environment.memory.append,
            scope,
            conversation,
            *stamped,
            full_texts=full_texts,
            ends_turn=ends,
        )
        try:
            await append(records=records)
        except StoreFull:
            if not records:
                raise
            # There may be room for the answer alone, which is worth more than its records.
            steps = []
            await append()
        self._has_saved_steps = bool(steps)
        if self._lease is not None and ends:
            self._lease.released = True
        self._messages += stamped

    async def _draft_steps(self) -> list[RecordDraft]:
        """The records of the steps, to go with the last messages; none when they cannot be made now."""
        try:
            return await self._environment.records.make_drafts(self._sent_turn(), self._steps)
        except Exception as error:
            # The answer is worth more than its records, which are tried again by themselves.
            logger.debug("the record of a turn is stored later: %s", type(error).__name__)
            return []

    async def _save_anyway(self, saving: Awaitable[None]) -> None:
        """Save even if the turn was cancelled or has failed; an error here must not hide the first one."""
        with anyio.move_on_after(SAVE_SECONDS, shield=True):
            try:
                await saving
            except Exception as error:
                kind, name = type(error).__name__, self._environment.name
                logger.warning("agent %r could not store all messages of a turn: %s", name, kind)

    def _context_limit(self) -> int | None:
        """The tokens that a context may fill, unless the template has a budget of its own."""
        environment, limits = self._environment, self._environment.limits
        window = context_window_of(environment.model)
        if limits.context_tokens is not None:
            return limits.context_tokens
        if environment.template.max_tokens is not None or window is None:
            return None
        return max(1, int(window * WINDOW_SHARE) - (limits.output_tokens or 0))

    def _retry_limit(self, composed: ComposedContext, window: int | None) -> int:
        counter = self._environment.memory.token_counter
        # By the calibration of now, as the shorter context will be counted.
        tokens = composed.request_tokens * counter.calibration.factor / composed.calibration
        target = int(tokens * RETRY_SHARE)
        if window is not None:
            target = min(target, int(window * WINDOW_SHARE) - (self._environment.limits.output_tokens or 0))
        return max(1, target)

    def _observe(self, composed: ComposedContext, reported: int) -> None:
        """Learn from the tokens that the provider has counted."""
        counter = self._environment.memory.token_counter
        if self._environment.template.token_counter is not None:
            # The tools were counted by another one.
            counter.observe(composed.messages, reported, tools=self._specs)
            return
        counted = sum(map(counter.count_uncalibrated, composed.messages))
        counter.calibration.observe(counted + composed.state.tool_count, reported)

    def _learn_window(self, composed: ComposedContext, overflow: ContextOverflow) -> None:
        """A provider that names no window has at least said which size is too large for it."""
        model = self._environment.model
        if overflow.is_certain and overflow.window is None and isinstance(model, Model):
            model.learn_window(composed.request_tokens)

    async def _emit(self, event: StreamEvent) -> None:
        self._text_streamed = self._text_streamed or isinstance(event, TextDelta)
        if self._listener is not None:
            await self._listener(event)  # type: ignore[arg-type]  # all but the last kind, which `complete` keeps

    def _error_result(self, call: ToolCall, text: str) -> Message:
        environment = self._environment
        return result_message(
            call, text, is_error=True, message_id=environment.new_id(), created_at=environment.clock()
        )

    async def _fire(self, event: AgentHook, *args: Any, done: bool) -> None:
        if hooks := self._environment.hooks:
            await fire(hooks, event, self._key.scope, self._key.conversation, *args, done=done)

    def _reply(self, text: str, stop: str, *, question: str | None = None) -> AgentReply:
        return AgentReply(
            text=text or question or "",
            turn=self._turn,
            stop=stop,
            question=question,
            steps=len(self._steps),
            usage=self._usage,
            messages=tuple(self._messages),
            number=self.number,
        )

    def _question_reply(self, text: str, questions: Sequence[str]) -> AgentReply:
        self._environment.metrics.count("turns_waiting_for_input")
        return self._reply(text, WAITING_FOR_INPUT, question="\n".join(questions))
