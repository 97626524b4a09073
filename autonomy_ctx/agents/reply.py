"""The reply of a turn, and the events of a turn while it runs.

The turn runs in the background. `AgentStream` only reads its events, so a reader that stops early leaves
nothing half open.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import anyio
from anyio.abc import AsyncResource

from autonomy_ctx.agents.turn_queue import EnclosingTurns, enclosing_turns, enter_turns
from autonomy_ctx.background import Background
from autonomy_ctx.compaction.manual import ContextCompacted
from autonomy_ctx.errors import AgentClosed
from autonomy_ctx.formats.base import CallStarted, TextDelta, ThinkingDelta, Usage
from autonomy_ctx.messages.message import Message, ToolCall
from autonomy_ctx.tracing import continue_trace, current_trace

if TYPE_CHECKING:
    from opentelemetry.context import Context

OutputT = TypeVar("OutputT")
# Why a turn ended, besides the model's own reasons.
WAITING_FOR_INPUT = "waiting_for_input"
STEPS_USED_UP = "steps"
TOKENS_USED_UP = "tokens"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReply:
    """The answer of one turn. `str()` is its text.

    `stop` is the reason why the turn ended: `end`, `length`, `refused`, `waiting_for_input` (then `question`
    is the question to the user), `steps` or `tokens` for a limit of the agent, or the provider's own word.
    `messages` are the messages that the turn stored after the user's message. `usage` is the sum of all
    steps. `steps` is 0 if no model was called: a message was sent again, and its answer was stored already.
    `turn` is the id of the turn, and `number` its number in the conversation; None if no model was called.
    `output` is the value of a structured answer, see `StructuredReply`.
    """

    text: str
    turn: str
    stop: str
    question: str | None = None
    steps: int = 0
    usage: Usage = field(default_factory=Usage)
    messages: tuple[Message, ...] = ()
    output: Any = None
    number: int | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class StructuredReply(AgentReply, Generic[OutputT]):
    """The reply to `send(..., output=...)`. `output` is the value; None only if there is a `question`."""

    output: OutputT


@dataclass(frozen=True, slots=True)
class ToolAnswered:
    """A tool call has its result. The message is what memory stores and the model reads."""

    call: ToolCall
    message: Message


@dataclass(frozen=True, slots=True)
class PartialOutput:
    """A structured answer as far as it has come, as plain JSON values that have not been checked."""

    value: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """The turn is over; the last event of its stream."""

    reply: AgentReply


AgentEvent: TypeAlias = (
    TextDelta | ThinkingDelta | CallStarted | ToolAnswered | PartialOutput | ContextCompacted | TurnEnded
)


Listener: TypeAlias = Callable[[AgentEvent], Awaitable[None]]
RunTurn = Callable[[Listener], Awaitable[AgentReply]]

# What an event takes in memory besides its text.
_EVENT_SIZE = 128


def event_size(event: AgentEvent) -> int:
    """About how much an event takes in memory, in characters."""
    match event:
        case TextDelta(text) | ThinkingDelta(text):
            return _EVENT_SIZE + len(text)
        case ToolAnswered(call, message):
            return _EVENT_SIZE + len(call.arguments) + len(message.text)
        case _:
            return _EVENT_SIZE


class AgentStream(AsyncResource):
    """The events of one turn. The last is `TurnEnded` with the reply. The first `async for` starts the turn.

    With `max_buffered`, in characters, the turn waits while more than that is unread. Without it, the turn
    never waits for its reader.
    """

    def __init__(self, agent: str, run: RunTurn, background: Background) -> None:
        self._agent, self._run, self._background = agent, run, background
        self.max_buffered: int | None = None
        self._events: deque[AgentEvent] = deque()
        self._buffered = 0
        self._wakeup, self._room = anyio.Event(), anyio.Event()
        self._error: Exception | None = None
        self._scope: anyio.CancelScope | None = None
        self._enclosing: EnclosingTurns = ()
        self._trace: Context | None = None
        self._started = self._finished = self._answered = self._closed = False

    def __aiter__(self) -> AgentStream:
        return self

    async def __anext__(self) -> AgentEvent:
        if not self._started:
            self._started = True
            # The background's task does not inherit the turns and the span that the reader is inside of.
            self._enclosing, self._trace = enclosing_turns(), current_trace()
            if not self._background.start(self._run_in_background):
                raise AgentClosed(self._agent)
        while not self._events:
            if self._finished:
                raise self._final_error()
            try:
                await self._wakeup.wait()
            except BaseException:
                self._cancel()
                raise
        event = self._events.popleft()
        self._buffered -= event_size(event)
        self._room.set()
        self._room = anyio.Event()
        return event

    @property
    def buffered(self) -> int:
        """The number of characters that have not been read yet."""
        return self._buffered

    async def aclose(self) -> None:
        """Stop listening, and stop the turn if it has not ended."""
        self._cancel()
        while self._started and not self._finished:
            await self._wakeup.wait()

    async def _run_in_background(self) -> None:
        enter_turns(self._enclosing)
        try:
            with anyio.CancelScope() as self._scope, continue_trace(self._trace):
                if not self._closed:
                    self._append(TurnEnded(await self._run(self._publish)))
                    self._answered = True
        except Exception as error:
            self._error = error
        finally:
            self._finished = True
            self._wake()

    async def _publish(self, event: AgentEvent) -> None:
        self._append(event)
        while self.max_buffered is not None and self._buffered > self.max_buffered:
            await self._room.wait()

    def _append(self, event: AgentEvent) -> None:
        self._events.append(event)
        self._buffered += event_size(event)
        self._wake()

    def _wake(self) -> None:
        self._wakeup.set()
        self._wakeup = anyio.Event()

    def _cancel(self) -> None:
        self._closed = True
        if self._scope is not None:
            self._scope.cancel()

    def _final_error(self) -> Exception:
        """The exception that ends the stream: the turn's error once, then `StopAsyncIteration`."""
        error, self._error = self._error, None
        if error is not None:
            self._closed = True
            return error
        return StopAsyncIteration() if self._answered or self._closed else AgentClosed(self._agent)
