"""Runs the tool calls of a model, in parallel and within limits.

An error inside a tool becomes its result, so that the model can try something else; only cancellation ends
the run.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import anyio
import anyio.lowlevel
import anyio.to_thread

from autonomy_ctx.callables import collect_call, describe_error, tool_timeout
from autonomy_ctx.containers.item import ContextItem
from autonomy_ctx.errors import UnknownTool
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key
from autonomy_ctx.messages.clamp import CountText
from autonomy_ctx.messages.excerpt import Room
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import TOOL, ChatRole, Content, Message, ToolCall, new_id, now
from autonomy_ctx.messages.token_estimate import estimate_tokens
from autonomy_ctx.tools.output import OUTPUT_LIMIT, SMALL_TEXT, cap_text, clean_text, render_output
from autonomy_ctx.tools.tool import MIN_OUTPUT_LIMIT, Tool, tools_by_name
from autonomy_ctx.tracing import tool_span
from autonomy_ctx.validation import check_int

TIMEOUT_SECONDS = 60.0
PARALLEL = 8
# A generator that never ends is stopped here even when it is quick.
MAX_YIELDED = 10_000
# How far back a result is looked for that a context leaves out.
RESULT_LOOKBACK = 256
_ERROR_LIMIT = 2_000
_NAMES_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The outcome of one call.

    `message` is the result for the log and the model; None while a tool that pauses waits for the
    user. `full` is the whole text where the message holds only its beginning and end. `value` is what
    the function returned, or the list of what it yielded; `error` is what it raised.
    """

    call: ToolCall
    message: Message | None
    items: tuple[ContextItem[Any], ...] = ()
    full: str | None = None
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0


class _CallRunner(NamedTuple):
    """Runs the calls of one model's answer, which share tools and limits."""

    tools: Mapping[str, Tool[..., Any]]
    inject: Mapping[str, Any]
    timeout: float | None
    room: Room
    clock: Callable[[], datetime]
    new_id: Callable[[], str]

    async def run(self, call: ToolCall) -> CallOutcome:
        tool = self.tools.get(call.name)
        description = "" if tool is None else tool.description
        with tool_span(call, is_known=tool is not None, description=description) as span:
            outcome = await self._run(call, tool)
            span.end_tool(outcome.message, outcome.error)
        return outcome

    async def _run(self, call: ToolCall, tool: Tool[..., Any] | None) -> CallOutcome:
        # Imported here: it is large, and a program with an asyncio loop has imported it already.
        import asyncio

        began = anyio.current_time()
        result_id = "" if tool is not None and tool.pauses else self.new_id()
        try:
            if tool is None:
                raise UnknownTool(call.name[:80], known=list(self.tools)[:_NAMES_SHOWN])
            if len(call.arguments) <= SMALL_TEXT:
                bound = self._bind(tool, call)
            else:
                bound = await anyio.to_thread.run_sync(self._bind, tool, call)
            if tool.pauses:
                return CallOutcome(call=call, message=None)
            with tool_timeout(tool.name, self.timeout if tool.timeout is None else tool.timeout):
                value = await call_function(tool.function, bound)
                rendered = await render_output(
                    value, self._room_for(tool), result_id=result_id, arguments=call.arguments
                )
        except (Exception, SystemExit) as error:
            return self._failure(call, error, began, result_id)
        except asyncio.CancelledError as error:
            # Our own cancellation is re-raised; a cancellation raised by the tool itself is an ordinary
            # error.
            await anyio.lowlevel.checkpoint_if_cancelled()
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._failure(call, error, began, result_id)
        return CallOutcome(
            call=call,
            message=self._message(call, rendered.content, result_id),
            items=rendered.items,
            full=rendered.full,
            value=rendered.value,
            seconds=anyio.current_time() - began,
        )

    def _room_for(self, tool: Tool[..., Any]) -> Room:
        """The room of a result: the tool's own limits go before those of the run."""
        room = self.room._replace(bytes=tool.output_limit or self.room.bytes)
        return room._replace(tokens=tool.result_tokens or room.tokens) if room.tokens else room

    def _bind(self, tool: Tool[..., Any], call: ToolCall) -> inspect.BoundArguments:
        # Imported here, as in `Tool`: schemas take long to import, and are not needed to import an agent.
        from autonomy_ctx.tools.arguments import parse_arguments

        return tool.bind(parse_arguments(call), self.inject)

    def _failure(self, call: ToolCall, error: BaseException, began: float, result_id: str) -> CallOutcome:
        text = cap_text(clean_text(describe_error(error)), _ERROR_LIMIT)
        return CallOutcome(
            call=call,
            message=self._message(call, text, result_id, is_error=True),
            error=error,
            seconds=anyio.current_time() - began,
        )

    def _message(
        self, call: ToolCall, content: Content, result_id: str, *, is_error: bool = False
    ) -> Message:
        return result_message(
            call, content, is_error=is_error, message_id=result_id or self.new_id(), created_at=self.clock()
        )


async def run_calls(
    calls: Sequence[ToolCall],
    tools: Iterable[Any] | Mapping[str, Tool[..., Any]],
    *,
    inject: Mapping[str, Any] = EMPTY,
    timeout: float | None = TIMEOUT_SECONDS,
    output_limit: int = OUTPUT_LIMIT,
    result_tokens: int | None = None,
    count_text: CountText = estimate_tokens,
    parallel: int = PARALLEL,
    clock: Callable[[], datetime] = now,
    new_id: Callable[[], str] = new_id,
    done: Callable[[CallOutcome], Awaitable[None] | None] | None = None,
) -> list[CallOutcome]:
    """Run calls, at most `parallel` at a time, and give their results in the order of the calls.

    They begin in that order, too, so with `parallel=1` they run one after the other. A synchronous
    function runs in a worker thread; when its time is up it is left alone there and its result is
    dropped, as nothing can stop a thread. Items yielded before an error are dropped with it. A result above
    `result_tokens` is an excerpt. `done`, plain or async, is called as each call ends, so that whoever is
    cancelled meanwhile knows which did.
    """
    check_int("output_limit", output_limit, least=MIN_OUTPUT_LIMIT)
    check_int("parallel", parallel)
    runner = _CallRunner(
        tools=tools if isinstance(tools, Mapping) else tools_by_name(tools),
        inject=inject,
        timeout=timeout,
        room=Room(output_limit, result_tokens, count_text),
        clock=clock,
        new_id=new_id,
    )
    ended: dict[int, CallOutcome] = {}
    waiting = iter(enumerate(calls))

    async def work() -> None:
        for index, call in waiting:
            ended[index] = await runner.run(call)
            if done is not None and (waiting_for := done(ended[index])) is not None:
                await waiting_for

    if len(calls) == 1 or parallel == 1:
        await work()
        return list(ended.values())
    async with anyio.create_task_group() as group:
        for _ in range(min(parallel, len(calls))):
            group.start_soon(work)
    return [ended[index] for index in range(len(calls))]


def result_message(
    call: ToolCall, content: Content, *, is_error: bool, message_id: str, created_at: datetime
) -> Message:
    """The message that tells a model the result of its call."""
    return Message(
        ChatRole.TOOL,
        content,
        tool_call_id=call.id,
        name=call.name,
        is_error=is_error,
        id=message_id,
        created_at=created_at,
    )


async def call_function(function: Callable[..., Any], bound: inspect.BoundArguments) -> Any:
    """The result of a function, plain or async; of a generator, all that it yields."""
    return await collect_call(partial(function, *bound.args, **bound.kwargs), max_values=MAX_YIELDED)


async def find_answered_calls(memory: Memory, key: Key, messages: Sequence[Message]) -> list[str]:
    """The calls in a context whose results memory has, although a section leaves them out."""
    calls = {call.id for message in messages for call in message.tool_calls}
    missing = calls - {message.tool_call_id for message in messages if message.role is TOOL} - {None}
    if not missing:
        return []
    found = await memory.read(key.scope, key.conversation, limit=RESULT_LOOKBACK)
    results = (entry.message.tool_call_id for entry in found.entries)
    return [name for name in results if name is not None and name in missing]
