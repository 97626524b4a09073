"""A summary written by the model that just read the conversation, after what it has in its cache.

A summarizer of its own reads every message anew. The model that answers has them in its provider's cache:
sent the same context again and one more message, it reads nearly all of it for a tenth of the price. The
context is the agent's own, rules included, so this is an option; what was said in it stays data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from autonomy_ctx.compaction.snapshot import Place
from autonomy_ctx.compaction.view import shown_text
from autonomy_ctx.completion.prompt import PLACEHOLDER, Prompt, records_prompt, stretch_prompt
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.summary import Summary
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.items.transcript import body, speaker
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.models.catalog import LEAST_CACHED, USUAL, Price, price_of

# A context is as large as it is: only a few are kept, those of conversations that go on now.
KEPT = 64
# Characters of a message by which it is named.
NAMED_BY = 80


@dataclass(slots=True, kw_only=True)
class Sent:
    """A context as it was given out: messages, tools, and where the provider's cache may be cut."""

    messages: Sequence[Message]
    tokens: int
    tools: Sequence[Mapping[str, Any]]
    breakpoints: Sequence[int]
    # The conversation's generation, and the clock's seconds.
    generation: int
    at: float


class SentContexts:
    """The last context of each of the newest conversations."""

    def __init__(self) -> None:
        self._sent: LRUCache[Place, Sent] = LRUCache(KEPT)

    def note(self, place: Place, sent: Sent) -> None:
        """Keep what was given out for a conversation."""
        self._sent[place] = sent

    def warm(self, place: Place, generation: int, since: float) -> Sent | None:
        """What a provider still has, if nothing has been deleted meanwhile."""
        sent = self._sent.get(place)
        return sent if sent is not None and sent.generation == generation and sent.at >= since else None

    def forget(self, scope: str | None, conversation: str | None) -> None:
        """Drop what is kept of a conversation, a scope or all."""
        for place in list(self._sent):
            if scope in (None, place[1].scope) and conversation in (None, place[1].conversation):
                self._sent.pop(place, None)


def shared_prompt(
    sent: Sent, messages: Sequence[Message], *, cap: int, instructions: str | None
) -> Prompt | None:
    """Ask for a record of these messages after the context they stand in; None when they do not, all of them.

    A prompt of one's own with a place for the conversation is not asked this way either.
    """
    if not messages or _own(instructions):
        return None
    ids = [message.id for message in sent.messages]
    if messages[0].id not in ids:
        return None
    start = ids.index(messages[0].id)
    end = start + len(messages)
    if list(sent.messages[start:end]) != list(messages):
        return None
    first, last, to_end = named(messages[0]), named(messages[-1]), end == len(sent.messages)
    return stretch_prompt(sent, first, last, len(messages), to_end=to_end, cap=cap, instructions=instructions)


def shared_merge_prompt(
    sent: Sent, segments: Sequence[StoredSegment], *, cap: int, instructions: str | None
) -> Prompt | None:
    """Ask for one record in place of segments that the context shows; None when it does not, all of them."""
    if _own(instructions):
        return None
    shown = [
        part.text for message in sent.messages if isinstance(message, Summary) for part in message.segments
    ]
    if not all(any(part.endswith(shown_text(one)) for part in shown) for one in segments):
        return None
    return records_prompt(sent, segments[0].first, segments[-1].last, cap=cap, instructions=instructions)


def _own(instructions: str | None) -> bool:
    return instructions is not None and PLACEHOLDER in instructions


def named(message: Message) -> str:
    """Who speaks and how the message begins: enough to find it in a context."""
    said = body(message) or ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)
    return f"{speaker(message, {})}: {said[:NAMED_BY]}"


def cheaper(
    sent: Sent,
    shared: Prompt,
    separate: Prompt,
    *,
    reader: Any,
    model: Any,
    output: int,
    counter: TokenCounter,
) -> bool:
    """Whether asking after the cached context costs less than a call that reads the messages anew."""
    prices = _prices(reader, model)
    if prices is None:
        return False
    reading, writing = prices
    begins = sent.tokens + (counter.count_tools(sent.tools) if sent.tools else 0)
    if begins < LEAST_CACHED:
        return False
    asked = counter.count_text("".join(message["content"] for message in shared.messages))
    ours = reading.cost(cached=begins, written=asked, output=output)
    anew = counter.count_text("".join(message["content"] for message in separate.messages))
    return ours < writing.cost(uncached=anew, output=output)


def _prices(reader: Any, model: Any) -> tuple[Price, Price] | None:
    """The prices of both; of two models that are not both known, none can be told to be cheaper."""
    reading, writing = price_of(reader), price_of(model)
    if reading is not None and writing is not None:
        return reading, writing
    same = reader is model or (
        getattr(reader, "name", None) is not None and reader.name == getattr(model, "name", None)
    )
    return (USUAL, USUAL) if same else None
