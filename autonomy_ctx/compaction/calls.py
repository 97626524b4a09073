"""Calls of the summary model: when a failing one is called again, batches, and cached requests.

A breaker belongs to a model and is shared by all conversations. While calls keep failing, only one
conversation at a time calls the model.

The work row of a conversation has the id of its batch, so any process can read it, also after a restart. A
row with one outlives its conversation, until the batch is dropped.

The provider of the answering model has the messages of its requests in its cache. A request that repeats them
and adds one message is read almost completely at the cached price. The request contains the agent's own
instructions, so this way of writing summaries is an option.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from autonomy_ctx.errors import ModelError
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.model_table import DEFAULT_PRICE
from autonomy_ctx.memory.store import SummaryState
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.models.call import CallFailed, Prompt
from autonomy_ctx.models.catalog import cache_rule, price_of

FIRST_DELAY_SECONDS, MAX_DELAY_SECONDS = 1.0, 300.0
TRIP_THRESHOLD = 5


def retry_delay(failures: int, jitter: Callable[[], float] = random.random) -> float:
    """Seconds to wait after so many failures in a row: 1, 2, 4 ... up to 5 minutes, and up to a quarter more.

    The jitter only adds, so there are at most 20 attempts in the first hour.
    """
    return float(
        min(FIRST_DELAY_SECONDS * 2 ** min(failures - 1, 20), MAX_DELAY_SECONDS) * (1 + 0.25 * jitter())
    )


class CircuitBreaker:
    """Stops the calls to a model that keeps failing; only one conversation at a time tries again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures = 0
        self._retry_at = 0.0
        self.stopped = False

    def seconds_until_allowed(self) -> float:
        """Seconds until the model may be called; 0 means now, infinity means never until `reset`."""
        if self.stopped:
            return float("inf")
        if self._failures < TRIP_THRESHOLD:
            return 0.0
        return max(self._retry_at - self._clock(), 0.0)

    def record_failure(self) -> None:
        """Note a failed call. After several in a row, the next call must wait."""
        self._failures += 1
        self.record_attempt()

    def record_attempt(self) -> None:
        """Note that a call begins; other conversations wait for its result."""
        if self._failures >= TRIP_THRESHOLD:
            self._retry_at = self._clock() + retry_delay(self._failures - TRIP_THRESHOLD + 1)

    def record_success(self) -> None:
        """A call succeeded, whichever conversation it was for."""
        self._failures, self._retry_at = 0, 0.0

    def stop(self) -> None:
        """The model refuses all calls, such as for a wrong key: another call would not help."""
        self.stopped = True

    def reset(self) -> None:
        """Forget all failures."""
        self.stopped = False
        self.record_success()


_breakers: WeakKeyDictionary[Any, CircuitBreaker] = WeakKeyDictionary()


def breaker_of(model: Any, clock: Callable[[], float] = time.monotonic) -> CircuitBreaker:
    """The breaker of a model, shared by all its callers; the first caller sets the clock."""
    try:
        found = _breakers.get(model)
        if found is None:
            found = _breakers[model] = CircuitBreaker(clock)
    except TypeError:
        # Not every object can be referred to weakly.
        return CircuitBreaker(clock)
    return found


# -- batches -------------------------------------------------------------------------------------------------


# How soon a batch is asked for again.
BATCH_POLL_SECONDS = 60.0
# How the mark of a work row begins that has a batch; the queries know it too.
BATCH_MARK = "batch"


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryBatchMark:
    """A batch for the messages `first` to `last` of a conversation, as of a generation."""

    generation: int
    first: int
    last: int
    model: str
    id: str

    @classmethod
    def decode(cls, text: str) -> SummaryBatchMark | None:
        """The mark of a work row; None for one without a batch."""
        name, *found = text.split(" ")
        if name != BATCH_MARK or len(found) != 5:
            return None
        generation, first, last, model, batch = found
        return cls(generation=int(generation), first=int(first), last=int(last), model=model, id=batch)

    def encode(self) -> str:
        """The mark as a text."""
        return f"{BATCH_MARK} {self.generation} {self.first} {self.last} {self.model} {self.id}"

    def is_current(self, state: SummaryState, model: str) -> bool:
        """Tell whether its result can be used: nothing was deleted, and its messages are the next ones."""
        place = (state.head.generation, state.written + 1)
        return (self.generation, self.first) == place and self.model == model.replace(" ", "_")


class BatchPending(Exception):
    """A batch was sent, or has no answer yet."""

    def __init__(self, batch: str) -> None:
        super().__init__(batch)
        self.batch = batch


@dataclass(slots=True)
class BatchCall:
    """The next call of a summary model, by a batch: the one with an id, or a new one."""

    model: Any
    id: str | None = None
    is_read: bool = False

    async def complete(self, prompt: Prompt, *, max_tokens: int) -> ModelReply:
        """The reply of the batch. Raises `BatchPending` while there is none, and else only `CallFailed`."""
        try:
            if self.id is None:
                raise BatchPending(await self.model.send_batch(prompt.messages, max_tokens=max_tokens))
            reply: ModelReply | None = await (await self.model.batches()).read(self.id)
        except ModelError as error:
            reason = "not allowed" if error.status_code in (401, 403) else "failed"
            raise CallFailed(reason, type(error).__name__) from error
        if reply is None:
            raise BatchPending(self.id)
        self.is_read = True
        return reply


# -- cached requests -----------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class CachedRequest:
    """A context as it was sent: messages, tools, and the breakpoints of the provider's cache."""

    messages: Sequence[Message]
    tokens: int
    tools: Sequence[Mapping[str, Any]]
    breakpoints: Sequence[int]
    # The conversation's generation, and the clock's seconds.
    generation: int
    at: float
    cache_key: str | None = None
    # For each message its position in the log, if it has one, and the newest one when the epoch began.
    positions: Sequence[int | None] = ()
    began: int = 0

    @property
    def covered(self) -> int:
        """The position up to which a summary stands for messages."""
        return max((one.covers_to for one in self.messages if isinstance(one, Summary)), default=0)

    def before_reply(self, position: int) -> Sequence[Message] | None:
        """The messages of the request that the reply at a position answers; None if it is not known.

        Requests of one epoch begin with each other, so it is the part of this one before the reply.
        """
        if position - 1 < self.began:
            return None
        if position in self.positions:
            return self.messages[: self.positions.index(position)]
        is_next = max((one for one in self.positions if one is not None), default=0) == position - 1
        return self.messages if is_next else None


def cheaper_prompt(
    request: CachedRequest,
    after: Prompt | None,
    separate: Prompt,
    reader: Any,
    model: Any,
    *,
    output: int,
    counter: TokenCounter,
) -> Prompt | None:
    """The prompt after the cached request, if it costs less than a new request with the messages."""
    reading, writing = price_of(reader), price_of(model)
    if reading is None or writing is None:
        # Of neither, if one is not known.
        reading = writing = DEFAULT_PRICE if is_same_model(reader, model) else None
    if after is None or reading is None or writing is None:
        return None
    cached = request.tokens + (counter.count_tools(request.tools) if request.tools else 0)
    if cached < cache_rule(reader).min_tokens:
        return None
    added = counter.count_text("".join(message["content"] for message in after.messages))
    anew = counter.count_text("".join(message["content"] for message in separate.messages))
    cost = reading.cost(cached=cached, written=added, output=output)
    return after if cost < writing.cost(uncached=anew, output=output) else None


def is_same_model(one: Any, other: Any) -> bool:
    """Tell whether two objects call the same model, by its name."""
    name = model_name(one)
    return one is other or (name is not None and name == model_name(other))
