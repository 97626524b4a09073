"""Which conversation a request of a client belongs to, what of it is new, and where the answer goes.

A client names a conversation, or it is recognised: by an index of answers, kept in memory beside the
conversations of a scope. The messages of the last request stay in this process, so that a history which
only grew is compared and not hashed.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from cachetools import LRUCache

from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.agents.turn_lease import TURN_LEASE_SECONDS, TURN_WAIT_SECONDS, TurnLease
from autonomy_ctx.agents.turn_queue import TurnQueue
from autonomy_ctx.engine.engine import ContextEngine
from autonomy_ctx.engine.framework_context import FrameworkContext, SourcedMessage
from autonomy_ctx.formats.base import Usage
from autonomy_ctx.memory.store import Key, Turns, make_key
from autonomy_ctx.messages.message import ChatRole, Message, new_id
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.server.openai.errors import OpenAIError, invalid_request
from autonomy_ctx.server.openai.history import (
    HistoryMessage,
    chain_id,
    chain_ids,
    fingerprint,
    pair_id,
    place_history,
)
from autonomy_ctx.server.openai.requests import ClientRequest, UpstreamAnswer

# The index of a scope stands beside a log that nobody writes to.
INDEX_CONVERSATION = "autonomy_ctx:openai"
ANSWER_KIND = "answer"
# How a client of a conversation sends its history, beside that conversation.
STYLE_KIND = "openai_style"
WHOLE_STYLE = "whole"
# Answers that a scope's index has; older ones are dropped now and then.
MAX_INDEXED = 20_000
_TRIM_EVERY = 256
# How many answers of a history are looked up, the newest first.
MAX_LOOKUPS = 16
# What requests of the past may take of this process, in bytes of their bodies.
CACHE_BYTES = 32 * 2**20
# Histories from this length on are read in a thread.
_LONG_HISTORY = 200
# How far back a log is read to place messages that are not at its end.
LOG_LIMIT = 4096
# How much of a history that the log has is compared with it.
TAIL_MESSAGES = 128
# Beside the messages themselves: calls that results may answer.
_TAIL = 16


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The newest request of a conversation: what the client wrote, and the messages with their ids."""

    sources: Sequence[Any]
    said: Sequence[SourcedMessage]
    size: int
    resends_history: bool
    # As the client wrote them.
    instructions: Sequence[Any]
    tools: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request whose messages are stored, and the context to send instead."""

    request: ClientRequest
    key: Key
    context: FrameworkContext
    # All messages of the request; the context has the end of them.
    said: Sequence[SourcedMessage]
    # As the client is told it: the fork, if the history does not continue the log.
    conversation: str
    # Whether the client is now known to send whole histories.
    is_first_whole: bool = False

    def sources(self) -> dict[str, Any]:
        """The client's own messages by their ids in memory, as far as the context may show them."""
        unknown = (one.message for one in self.context.messages if one.source is None)
        wanted = {message.id for message in unknown if not isinstance(message, Summary)}
        return {one.stored_id: one.source for one in self.said if one.stored_id in wanted}


@dataclass(frozen=True, slots=True)
class _PlacedRequest:
    """A conversation, the messages of a request under their ids there, and what they come after."""

    key: Key
    said: list[SourcedMessage]
    after: str = ""
    resends_history: bool = False


class Conversations:
    """Finds, stores and continues the conversations of clients."""

    def __init__(self, engine: ContextEngine, *, turn_wait_seconds: float | None = TURN_WAIT_SECONDS) -> None:
        self._engine, self._memory = engine, engine.memory
        self._turns, self._metrics = TurnQueue(engine.memory.agent), AgentMetrics()
        self._turn_wait_seconds = turn_wait_seconds
        self._requests: LRUCache[Key, LastRequest] = LRUCache(CACHE_BYTES, lambda one: max(one.size, 1))
        self._locks: WeakValueDictionary[Key, anyio.Lock] = WeakValueDictionary()
        self._indexed = 0
        # Requests that wait for their answer, by conversation.
        self._active: Counter[Key] = Counter()

    @asynccontextmanager
    async def turn(self, scope: str, request: ClientRequest) -> AsyncIterator[None]:
        """Hold the turn of the conversation that a request names; its other requests wait, in all processes.

        Whoever names none goes on from a certain answer, alone or in a fork.
        """
        if request.conversation is None or request.previous_response is not None:
            yield
            return
        key = make_key(self._memory.agent, scope, request.conversation)
        lease: TurnLease | None = None
        if isinstance(self._memory.store, Turns):
            lease = TurnLease(self._memory, key, TURN_LEASE_SECONDS, self._engine.background, self._metrics)

        async def begin(is_alone: bool) -> bool:
            return lease is None or await lease.begin() is not None

        async with self._turns.turn(key, lease, begin, wait_seconds=self._turn_wait_seconds):
            yield

    async def begin(self, scope: str, request: ClientRequest, *, max_tokens: int | None) -> Exchange:
        """Store the new messages of a request, and compose the context to send instead."""
        if request.previous_response is not None:
            key, after = await self._find_response(scope, request.previous_response)
            async with self._lock(key):
                return await self._compose(
                    await self._place_response(key, after, request), request, max_tokens
                )
        if request.conversation is not None:
            key = make_key(self._memory.agent, scope, request.conversation)
            async with self._lock(key):
                place = await self._place_named(key, request)
                return await self._compose(place, request, max_tokens)
        place = await self._fork_for_helper(await self._recognise(scope, request), request)
        async with self._lock(place.key):
            return await self._compose(place, request, max_tokens)

    async def compose_again(self, exchange: Exchange, *, max_tokens: int) -> Exchange:
        """Compose a request again with a smaller context."""
        request = exchange.request
        context = await self._engine.compose(
            exchange.key,
            exchange.context.history,
            instructions=request.instructions,
            tools=exchange.context.tools,
            model=request.model,
            max_tokens=max_tokens,
            record=False,
        )
        await self._record(exchange, None)
        return replace(exchange, context=context)

    async def finish(self, exchange: Exchange, answer: UpstreamAnswer) -> None:
        """Store an answer, and note how to find it."""
        question, reply = exchange.context.history[-1], answer.reply
        said = _chain_from([SourcedMessage(one) for one in answer.messages], 0, question.stored_id)
        usage = None if reply.usage == Usage() else reply.usage
        branch = await self._engine.store_reply(exchange.key, exchange.context, *said)
        await self._record(exchange, usage)
        before, last = [fingerprint(one.message) for one in (question, *said)][-2:]
        name = said[-1].stored_id
        names = [name, pair_id(before, last)]
        if reply.id is not None and exchange.request.api.has_responses:
            names.append(_response_name(reply.id))
        await self._index(branch, names, name)

    async def leave(self, exchange: Exchange, *, answered: bool) -> None:
        """The request has ended. Note what only later requests need."""
        key, request = exchange.key, exchange.request
        self._active[key] -= 1
        if not self._active[key]:
            del self._active[key]
        if not answered:
            await self._record(exchange, None)
        if exchange.is_first_whole and request.conversation is not None:
            await self._memory.store.put_records(key, STYLE_KIND, [(WHOLE_STYLE, "")], keep=1)

    async def owns_response(self, scope: str, response_id: str) -> bool:
        """Tell whether a response was given in a scope."""
        return await self._look_up(scope, _response_name(response_id)) is not None

    # -- finding ----------------------------------------------------------------------------------

    async def _find_response(self, scope: str, response_id: str) -> tuple[Key, str]:
        found = await self._look_up(scope, _response_name(response_id))
        if found is None:
            raise OpenAIError(
                f"Previous response with id '{response_id[:100]}' not found.",
                status=404,
                param="previous_response_id",
                code="previous_response_not_found",
            )
        return found

    async def _place_response(self, key: Key, after: str, request: ClientRequest) -> _PlacedRequest:
        said = await self._read(request)
        # What was sent before after the same answer has the same ids.
        placed = _chain_from(said, 0, after)
        window = await self._memory.read(key.scope, key.conversation, limit=_TAIL)
        log = [one.message for one in window.entries]
        if any(one.id == after for one in log):
            _check_results(request, said, 0, log)
        return _PlacedRequest(key, placed, after)

    async def _place_named(self, key: Key, request: ClientRequest) -> _PlacedRequest:
        last = self._requests.get(key)
        resends_history = last.resends_history if last is not None else await self._read_style(key)
        said, new = await self._continue(last, request)
        branch = await self._engine.current_conversation(key.conversation, scope=key.scope)
        is_history = any(one.message.role is ChatRole.ASSISTANT for one in said)
        if is_history or resends_history:
            placed = _chain_from(said, new)
            newest = await self._memory.read(key.scope, branch, limit=1)
            if not newest.entries or any(one.stored_id == newest.entries[-1].message.id for one in placed):
                _check_results(request, said, new, ())
                return _PlacedRequest(key, placed, resends_history=True)
        limit = LOG_LIMIT if is_history or resends_history else len(said) + _TAIL
        window = await self._memory.read(key.scope, branch, limit=limit)
        found = place_history(
            [_history_message(one.message) for one in said],
            [_history_message(one.message) for one in window.entries],
            is_retry=request.is_retry,
            resends_history=resends_history,
        )
        _check_results(request, said, 0, [one.message for one in window.entries])
        return _PlacedRequest(key, _identify(said, found.ids), found.after, resends_history or is_history)

    async def _recognise(self, scope: str, request: ClientRequest) -> _PlacedRequest:
        """The conversation of a client that names none."""
        place = await self._recognise_recent(scope, request)
        if place is not None:
            return place
        said = await self._read(request)
        prints = await _fingerprints(said)
        placed = _identify(said, chain_ids(prints))
        answers = [at for at, one in enumerate(said) if one.message.role is ChatRole.ASSISTANT]
        for at in reversed(answers[-MAX_LOOKUPS:]):
            found = await self._look_up(scope, placed[at].stored_id)
            if found is not None:
                _check_results(request, said, 0, ())
                return _PlacedRequest(found[0], placed)
        if answers and answers[-1]:
            question, answer = prints[answers[-1] - 1 : answers[-1] + 1]
            place = await self._find_window(scope, request, said, pair_id(question, answer))
            if place is not None:
                return place
        _check_results(request, said, 0, ())
        found = None if answers else await self._look_up(scope, placed[-1].stored_id)
        if found is not None and await self._waits(found[0], placed[-1].stored_id, request.is_retry):
            return _PlacedRequest(found[0], placed)
        key = make_key(self._memory.agent, scope, _new_conversation())
        if not answers:
            # Before anything is stored: so it is known when it comes again, whatever happens to it.
            await self._index(key, [placed[-1].stored_id], "")
        return _PlacedRequest(key, placed)

    async def _fork_for_helper(self, place: _PlacedRequest, request: ClientRequest) -> _PlacedRequest:
        """The place of a request, in a fork if it is of somebody else than the requests before.

        Agents have helpers that are given the whole talk, with instructions and tools of their own. What they
        say is no part of it.
        """
        last = self._requests.get(place.key)
        if last is None or last.instructions == _instructions(request):
            return place
        if last.tools == _tools(request):
            return place
        key = place.key
        branch = await self._engine.current_conversation(key.conversation, scope=key.scope)
        name = await self._memory.fork(key.scope, branch, name=_new_conversation())
        return replace(place, key=key._replace(conversation=name))

    async def _recognise_recent(self, scope: str, request: ClientRequest) -> _PlacedRequest | None:
        """By the newest answer and the messages of the request before it, which this process has."""
        sources, api = request.sources, request.api
        start = next((at for at in range(len(sources) - 1, 0, -1) if _is_answer(sources[at])), 0)
        end = start + 1
        while start and not api.is_boundary(sources[start - 1]):
            start -= 1
        if not start:
            return None
        [question] = api.read_messages(sources[start - 1 : start], start - 1)
        [answer] = api.read_messages(sources[start:end], start)
        pair = pair_id(fingerprint(question.message), fingerprint(answer.message))
        found = await self._look_up(scope, pair)
        last = None if found is None else self._requests.get(found[0])
        if found is None or last is None or not _continues(request, last):
            return None
        said, new = self._extend(last, request)
        _check_results(request, said, new, ())
        return _PlacedRequest(found[0], _chain_from(said, new))

    async def _find_window(
        self, scope: str, request: ClientRequest, said: list[SourcedMessage], pair: str
    ) -> _PlacedRequest | None:
        """By an answer with its question, for a history whose beginning the client has dropped."""
        found = await self._look_up(scope, pair)
        if found is None:
            return None
        key = found[0]
        window = await self._memory.read(key.scope, key.conversation, limit=LOG_LIMIT)
        placed = place_history(
            [_history_message(one.message) for one in said],
            [_history_message(one.message) for one in window.entries],
        )
        if not placed.after:
            return None
        _check_results(request, said, 0, [one.message for one in window.entries])
        return _PlacedRequest(key, _identify(said, placed.ids), placed.after)

    async def _waits(self, key: Key, message_id: str, is_retry: bool) -> bool:
        """Tell whether a message is the newest of its conversation, and nobody waits for its answer.

        In a retry it may have an answer, which its client did not get.
        """
        newest = await self._memory.read(key.scope, key.conversation, limit=2)
        ids = [one.message.id for one in newest.entries]
        return message_id in ids if is_retry else ids[-1:] == [message_id] and not self._active[key]

    async def _read_style(self, key: Key) -> bool:
        return bool(await self._memory.store.read_records(key, STYLE_KIND, limit=1))

    # -- messages of a request --------------------------------------------------------------------

    async def _read(self, request: ClientRequest) -> list[SourcedMessage]:
        if len(request.sources) < _LONG_HISTORY:
            return request.api.read_messages(request.sources, _first_number(request))
        read = request.api.read_messages
        return await anyio.to_thread.run_sync(read, request.sources, _first_number(request))

    async def _continue(
        self, last: LastRequest | None, request: ClientRequest
    ) -> tuple[list[SourcedMessage], int]:
        """Read the messages of a request; those of the request before, which are counted, have their ids."""
        if last is None or not _continues(request, last):
            return await self._read(request), 0
        return self._extend(last, request)

    def _extend(self, last: LastRequest, request: ClientRequest) -> tuple[list[SourcedMessage], int]:
        count = len(last.sources)
        rest = request.api.read_messages(request.sources[count:], _first_number(request) + count)
        return [*last.said, *rest], len(last.said)

    # -- storing ----------------------------------------------------------------------------------

    async def _compose(
        self, place: _PlacedRequest, request: ClientRequest, max_tokens: int | None
    ) -> Exchange:
        context = await self._engine.compose(
            place.key,
            await self._find_tail(place),
            after=place.after,
            instructions=request.instructions,
            tools=request.api.tools(request.body),
            model=request.model,
            max_tokens=max_tokens,
            may_begin_anew=True,
            # Not now, when the client waits for the first byte.
            record=False,
        )
        key, branch = place.key, context.composed.conversation
        before = self._requests.get(key)
        last = LastRequest(
            request.sources,
            tuple(place.said),
            request.size,
            place.resends_history,
            _instructions(request),
            _tools(request),
        )
        if last.size <= CACHE_BYTES:
            self._requests[key] = last
        self._active[key] += 1
        return Exchange(
            request=request,
            key=key,
            context=context,
            said=place.said,
            conversation=branch,
            is_first_whole=place.resends_history and (before is None or not before.resends_history),
        )

    async def _find_tail(self, place: _PlacedRequest) -> Sequence[SourcedMessage]:
        """The messages that the log may not have, and some before them: to compare all takes long."""
        tail = place.said[-TAIL_MESSAGES:]
        if len(tail) < len(place.said):
            branch = await self._engine.current_conversation(place.key.conversation, scope=place.key.scope)
            newest = await self._memory.read(place.key.scope, branch, limit=1)
            if newest.entries and any(one.stored_id == newest.entries[-1].message.id for one in tail):
                return tail
        return place.said

    async def _record(self, exchange: Exchange, usage: Usage | None) -> None:
        """Let `explain` know what was sent."""
        model, context = exchange.request.model, exchange.context
        await self._engine.record(exchange.key, context, model=model, usage=usage, is_current=True)

    async def _index(self, branch: Key, names: Sequence[str], message_id: str) -> None:
        key = branch._replace(conversation=INDEX_CONVERSATION)
        body = json.dumps([branch.conversation, message_id])
        self._indexed += 1
        keep = MAX_INDEXED if self._indexed % _TRIM_EVERY == 0 else None
        await self._memory.store.put_records(
            key, ANSWER_KIND, [(name, body) for name in dict.fromkeys(names)], keep=keep
        )

    async def _look_up(self, scope: str, name: str) -> tuple[Key, str] | None:
        """The conversation that has an answer, and the id that the answer has there."""
        key = make_key(self._memory.agent, scope, INDEX_CONVERSATION)
        records = await self._memory.store.read_records(key, ANSWER_KIND, name=name, limit=1)
        if not records:
            return None
        conversation, message_id = json.loads(records[-1].body)
        return key._replace(conversation=conversation), message_id

    def _lock(self, key: Key) -> anyio.Lock:
        """One request of a conversation at a time stores messages."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock


async def _fingerprints(said: Sequence[SourcedMessage]) -> list[str]:
    """Hash what messages say; those of a long history in a thread."""
    messages = [one.message for one in said]
    if len(messages) < _LONG_HISTORY:
        return list(map(fingerprint, messages))
    return await anyio.to_thread.run_sync(lambda: list(map(fingerprint, messages)))


def _identify(said: Sequence[SourcedMessage], ids: Sequence[str]) -> list[SourcedMessage]:
    return [SourcedMessage(one.message, one.source, name) for one, name in zip(said, ids, strict=True)]


def _chain_from(said: Sequence[SourcedMessage], first: int, before: str = "") -> list[SourcedMessage]:
    """The messages with ids, from the first on that has none."""
    before = said[first - 1].stored_id if first else before
    ids = chain_ids((fingerprint(one.message) for one in said[first:]), before)
    return [*said[:first], *_identify(said[first:], ids)]


def _history_message(message: Message) -> HistoryMessage:
    return HistoryMessage(fingerprint(message), message.role, message.id)


def _check_results(
    request: ClientRequest, said: Sequence[SourcedMessage], first: int, log: Sequence[Message]
) -> None:
    """Refuse the result of a call that nobody has made, before anything is stored."""
    new = [one.message for one in said[first:]]
    if all(message.role is not ChatRole.TOOL for message in new):
        return
    # The newest ones: those of the log, or of the history up to here.
    earlier = [*log, *(one.message for one in said[:first][-_TAIL:])]
    calls = {call.id for message in earlier for call in message.tool_calls}
    calls.update(message.tool_call_id for message in log if message.tool_call_id)
    for message in new:
        if message.role is ChatRole.TOOL and message.tool_call_id not in calls:
            raise invalid_request(
                f"a message of a tool answers the call {str(message.tool_call_id)[:80]!r}, "
                f"which no message before it makes",
                param=request.api.field,
            )
        calls.update(call.id for call in message.tool_calls)


def _continues(request: ClientRequest, last: LastRequest) -> bool:
    """Tell whether a history begins with the messages of the request before, and goes on with others."""
    before = last.sources
    return request.api.is_boundary(before[-1]) and request.sources[: len(before)] == before


def _is_answer(source: Mapping[str, Any]) -> bool:
    """Tell whether a message, or an item of a response, is the assistant's."""
    kind = source.get("type") or "message"
    return source.get("role") == "assistant" or (kind != "message" and not str(kind).endswith("_output"))


def _new_conversation() -> str:
    return f"chat-{new_id()}"


def _instructions(request: ClientRequest) -> list[Any]:
    return [one.source for one in request.instructions]


def _tools(request: ClientRequest) -> frozenset[str]:
    return frozenset(str(one["name"]) for one in request.api.tools(request.body))


def _first_number(request: ClientRequest) -> int:
    """The number of the first message that is no instruction, for errors."""
    return sum(not isinstance(one.source, str) for one in request.instructions)


def _response_name(response_id: str) -> str:
    return f"response:{chain_id('', response_id)}"
