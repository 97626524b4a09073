"""Recall: what was said long ago and has to do with a question, read from memory within a budget."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial

import anyio.to_thread

from autonomy_ctx.items.message import Message
from autonomy_ctx.items.recall import LEAST_SHARE, Recalled, Recollection, hits_for, inherited, written
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.search import Found, Placed, ReadsPlaces

# What is shown already is found too, and often best; the search is widened until enough else is found.
SPARE, WIDER, SEARCHES = 8, 8, 3
# For each message that was found, how many in all are looked at.
READ_PER_HIT = 3
# Messages this close are read together.
NEAR = 4
# More characters than this are written outside the event loop.
LIGHT = 50_000


async def recall(
    memory: Memory,
    scope: str,
    query: str,
    *,
    conversation: str | None = None,
    max_tokens: int = 1024,
    exclude: Mapping[str, Container[int]] | None = None,
) -> Recalled:
    """The messages of a scope, or of one conversation, that say most about the query, with their neighbours.

    `exclude` names, for conversations, the positions that a reader has already; they are left out.
    """
    if type(max_tokens) is not int or max_tokens < 1:
        raise ValueError(f"max_tokens is {max_tokens!r}; it must be at least 1")
    hidden = exclude or {}
    if not isinstance(hidden, Mapping) or not all(isinstance(some, Container) for some in hidden.values()):
        raise TypeError("exclude must map conversations to sets of positions, such as {'trip': {1, 2}}")
    found = await _found(memory, scope, query, conversation, hits_for(max_tokens), hidden)
    passages = await _surrounded(memory, scope, found, hidden)
    if not passages:
        return Recalled()
    return await shown(memory, passages, max_tokens, named=conversation is None)


async def shown(
    memory: Memory, passages: Sequence[Recollection], max_tokens: int, *, named: bool = True
) -> Recalled:
    """What `written` makes of the passages; much text is written in a worker thread."""
    write = partial(written, passages, max_tokens, memory.token_counter, named=named)
    if sum(_length(passage.message) for passage in passages) <= LIGHT:
        return write()
    return await anyio.to_thread.run_sync(write, abandon_on_cancel=True)


def _length(message: Message) -> int:
    """How many characters may be written of a message, without looking at them."""
    return len(message.text) + sum(len(call.arguments) for call in message.tool_calls)


async def _found(
    memory: Memory,
    scope: str,
    query: str,
    conversation: str | None,
    wanted: int,
    hidden: Mapping[str, Container[int]],
) -> list[Found]:
    """The best messages that are not hidden, as far as they are about the same as the best of them."""
    limit = wanted + SPARE if hidden else wanted
    found: list[Found] = []
    for _ in range(SEARCHES):
        found = await memory.search(scope, query, conversation=conversation, limit=limit)
        new = [one for one in found if one.position not in hidden.get(one.conversation, ())][:wanted]
        if len(new) == wanted or len(found) < limit:
            break
        limit *= WIDER
    return [one for one in new if one.score >= LEAST_SHARE * new[0].score]


async def _surrounded(
    memory: Memory, scope: str, found: Sequence[Found], hidden: Mapping[str, Container[int]]
) -> list[Recollection]:
    """What was found and what stands around it, with the scores that go with that."""
    scores: dict[str, dict[int, float]] = defaultdict(dict)
    known = {(one.conversation, one.position): one.message for one in found}
    for one in found:
        scores[one.conversation][one.position] = one.score
    ranked = sorted(
        (
            (score, conversation, position)
            for conversation, some in scores.items()
            for position, score in inherited(some).items()
            if position not in hidden.get(conversation, ())
        ),
        reverse=True,
    )[: READ_PER_HIT * len(found)]
    missing = [(name, at) for _, name, at in ranked if (name, at) not in known]
    for placed in await _read(memory, scope, missing):
        known[placed.conversation, placed.position] = placed.message
    return [
        Recollection(conversation=conversation, position=position, message=message, score=score)
        for score, conversation, position in ranked
        if (message := known.get((conversation, position))) is not None
    ]


async def _read(memory: Memory, scope: str, places: Sequence[tuple[str, int]]) -> list[Placed]:
    """The messages at these places, in one step where the store can do that."""
    store = memory.store
    if not places:
        return []
    if isinstance(store, ReadsPlaces):
        return list(await store.read_places(memory.agent, scope, places))
    read: list[Placed] = []
    for conversation in dict.fromkeys(name for name, _ in places):
        for first, last in _spans(position for name, position in places if name == conversation):
            window = await memory.read(scope, conversation, after=first - 1, before=last + 1)
            read += [Placed(conversation, *entry) for entry in window.entries]
    return read


def _spans(positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ranges that hold the positions, and no long stretch of others."""
    ordered = sorted(positions)
    first = last = ordered[0]
    for position in ordered[1:]:
        if position > last + NEAR:
            yield first, last
            first = position
        last = position
    yield first, last
