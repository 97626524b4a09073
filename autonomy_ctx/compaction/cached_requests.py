"""The requests in a provider's prompt cache, and whether a summary is cheaper if it follows one.

The provider of the answering model has the messages in its cache. A request that repeats them and adds one
message is read almost completely at the cached price. The request contains the agent's own instructions, so
this way of writing summaries is an option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.formats.model_table import DEFAULT_PRICE, Price
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.models.call import Prompt
from autonomy_ctx.models.catalog import cache_rule, price_of


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


def is_cheaper(
    request: CachedRequest,
    after: Prompt,
    separate: Prompt,
    *,
    reader: Any,
    model: Any,
    output: int,
    counter: TokenCounter,
) -> bool:
    """Tell whether a prompt after the cached request costs less than a new request with the messages."""
    prices = _prices(reader, model)
    if prices is None:
        return False
    reading, writing = prices
    cached = request.tokens + (counter.count_tools(request.tools) if request.tools else 0)
    if cached < cache_rule(reader).min_tokens:
        return False
    added = counter.count_text("".join(message["content"] for message in after.messages))
    anew = counter.count_text("".join(message["content"] for message in separate.messages))
    cost = reading.cost(cached=cached, written=added, output=output)
    return cost < writing.cost(uncached=anew, output=output)


def _prices(reader: Any, model: Any) -> tuple[Price, Price] | None:
    """The prices of both models, or of neither if one is not known."""
    reading, writing = price_of(reader), price_of(model)
    if reading is not None and writing is not None:
        return reading, writing
    name = model_name(reader)
    same = reader is model or (name is not None and name == model_name(model))
    return (DEFAULT_PRICE, DEFAULT_PRICE) if same else None
