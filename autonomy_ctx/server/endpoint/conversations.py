"""Which conversation a request of a client belongs to, what of it is new, and where the answer goes.

A client names a conversation, or it is recognised: by an index of answers, kept in memory beside the
conversations of a scope. The messages of the last request stay in this process, so that a history which
only grew is compared and not hashed.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import anyio
import anyio.to_thread
from cachetools import LRUCache, TTLCache

from autonomy_ctx.agents.metrics import AgentMetrics
from autonomy_ctx.agents.turn import RETRY_SHARE, WINDOW_SHARE
from autonomy_ctx.agents.turn_queue import TURN_LEASE_SECONDS, TURN_WAIT_SECONDS, TurnLease, TurnQueue
from autonomy_ctx.engine.engine import ContextEngine
from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import BudgetExceeded
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.overflow import Overflow
from autonomy_ctx.memory.processes import has_ended, process_name
from autonomy_ctx.memory.store import Key, make_key
from autonomy_ctx.messages.message import ChatRole, Message, new_id
from autonomy_ctx.models.catalog import find_context_window
from autonomy_ctx.server.common.errors import encode_json
from autonomy_ctx.server.endpoint.client_api import (
    CALL_LOOKBACK,
    ClientRequest,
    EncodedBody,
    Exchange,
    PreviewedBody,
    UpstreamAnswer,
    check_results,
    shows_newest,
)
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.history import (
    HistoryMessage,
    chain_id,
    chain_ids,
    fingerprint,
    pair_id,
    place_history,
)

logger = logging.getLogger("autonomy_ctx.server")

# The index of a scope stands beside a log that nobody writes to.
INDEX_CONVERSATION = "autonomy_ctx:openai"
ANSWER_KIND = "answer"
# How a client of a conversation sends its history, beside that conversation.
STYLE_KIND = "openai_style"
WHOLE_STYLE = "whole"
# Answers that a scope's index has; older ones are dropped now and then.
MAX_INDEXED = 40_000
_TRIM_EVERY = 256
# How many answers of a history are looked up, the newest first.
MAX_LOOKUPS = 16
# What requests of the past may take of this process, in bytes of their bodies.
CACHE_BYTES = 32 * 2**20
# Histories from this length on are read in a thread.
_LONG_HISTORY = 200
# How far back a log is read to place messages that are not at its end.
LOG_LIMIT = 4096
# From here on a body is read and written in a thread. Below it takes some milliseconds, and a thread would
# wait longer for its turn while another one writes summaries.
LARGE_BODY = 1024 * 1024
# How long a window is kept to that an error has named. A server may be given another model under one name.
WINDOW_SECONDS = 3600.0
# For an answer to be stored, also when its client has gone. Of hundreds that end at once, each waits for all.
STORE_SECONDS = 30.0
# How much of a history that the log has is compared with it.
TAIL_MESSAGES = 128


@dataclass(frozen=True, slots=True)
class LastRequest:
    """The newest request of a conversation: what the client wrote, and the messages with their ids."""

    sources: Sequence[Any]
    said: Sequence[SourcedMessage]
    size: int
    resends_history: bool
    # Of its API.
    path: str
    # Of the turn, in a conversation that the client names.
    ticket: int = 0


class _IndexEntry(NamedTuple):
    """A conversation, the id of an answer there, and who asked: as hashes, "" where that is not known."""

    key: Key
    message_id: str
    instructions: str = ""
    tools: str = ""
    # The process that waits for an answer to a question.
    owner: str = ""


@dataclass(frozen=True, slots=True)
class _PlacedRequest:
    """A conversation, the messages of a request under their ids there, and what they come after."""

    key: Key
    said: list[SourcedMessage]
    after: str = ""
    resends_history: bool = False
    # The answer or question that it was recognised by.
    found: _IndexEntry | None = None


class Conversations:
    """Finds, stores and continues the conversations of clients, within the windows of their models."""

    def __init__(
        self,
        engine: ContextEngine,
        *,
        turn_wait_seconds: float | None = TURN_WAIT_SECONDS,
        names_conversations: bool = False,
    ) -> None:
        self.engine, self._memory = engine, engine.memory
        self._names_conversations = names_conversations
        self._turns, self._metrics = TurnQueue(engine.memory.agent), AgentMetrics()
        self._turn_wait_seconds = turn_wait_seconds
        self._requests: LRUCache[Key, LastRequest] = LRUCache(CACHE_BYTES, lambda one: max(one.size, 1))
        self._locks: WeakValueDictionary[Key, anyio.Lock] = WeakValueDictionary()
        self._indexed = 0
        # How much models read at once, as they told a tenant when it was too much.
        self._windows: TTLCache[tuple[str, str], int] = TTLCache(
            256, WINDOW_SECONDS, timer=lambda: engine.clock().timestamp()
        )
        # Requests that wait for their answer, by conversation, and the tickets of turns that run.
        self._active: Counter[Key] = Counter()
        self._tickets: dict[Key, int] = {}

    @asynccontextmanager
    async def turn(self, scope: str, request: ClientRequest) -> AsyncIterator[None]:
        """Hold the turn of the conversation that a request names; its other requests wait, in all processes.

        Whoever names none goes on from a certain answer, alone or in a fork.
        """
        if request.conversation is None or request.previous_response is not None:
            yield
            return
        key = make_key(self._memory.agent, scope, request.conversation)
        lease = TurnLease(self._memory, key, TURN_LEASE_SECONDS, self.engine.background, self._metrics)

        async def begin(is_alone: bool) -> bool:
            start = await lease.begin()
            if start is not None:
                self._forget_if_stale(key, start.ticket)
            return start is not None

        async with self._turns.turn(key, lease, begin, wait_seconds=self._turn_wait_seconds):
            try:
                yield
            finally:
                self._tickets.pop(key, None)

    def _forget_if_stale(self, key: Key, ticket: int) -> None:
        """Read again where a conversation is if its last turn was not in this process."""
        last, self._tickets[key] = self._requests.get(key), ticket
        if last is None or last.ticket + 1 != ticket:
            self._requests.pop(key, None)
            self.engine.forget(key)

    async def begin(self, scope: str, request: ClientRequest) -> Exchange:
        """Store the new messages of a request, and compose the context to send instead."""
        max_tokens = self._context_limit(scope, request)
        if request.previous_response is not None:
            key, after, *_ = await self._find_response(scope, request.previous_response)
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

    async def compose_smaller(self, exchange: Exchange, overflow: Overflow) -> Exchange | None:
        """Compose a request with less, after it was too much for the model; None if there is no less."""
        request, sent = exchange.request, exchange.context.composed.request_tokens
        target, window = int(sent * RETRY_SHARE), overflow.learned_window(sent + request.output_tokens)
        if window is not None:
            target = min(target, _room(window, request))
            if request.model is not None:
                self._windows[exchange.key.scope, request.model] = window
        try:
            context = await self.engine.compose(
                exchange.key,
                exchange.context.history,
                instructions=request.instructions,
                tools=exchange.context.tools,
                model=request.model,
                max_tokens=max(1, target),
                record=False,
            )
        except BudgetExceeded:
            return None
        if not shows_newest(context, exchange.said):
            return None
        await self._record(exchange, None)
        self._metrics.count("overflow_retries")
        return replace(exchange, context=context)

    async def encode(self, exchange: Exchange) -> EncodedBody:
        """The body for upstream: the client's own, with the context in place of its messages."""
        request = exchange.request
        body, omitted = request.api.write_body(request, exchange.context, exchange.sources())
        field, key = request.api.cache_field, exchange.context.composed.cache_key
        if self._names_conversations and field is not None and key:
            # A name that the client gives wins.
            body = {field: key, **body}
        encode = partial(encode_json, body)
        large = request.size >= LARGE_BODY
        return EncodedBody(await anyio.to_thread.run_sync(encode) if large else encode(), omitted)

    async def preview(self, scope: str, request: ClientRequest) -> PreviewedBody:
        """The body that would be sent for a request, and its tokens as they are counted here.

        Nothing is stored. A history that does not go on where its conversation ends is sent as it is.
        """
        read = await self._read(request)
        said = _identify(read, chain_ids(await _fingerprints(read)))
        key, new = await self._find_end(scope, request, said)
        context = await self.engine.compose_stored(
            key,
            instructions=request.instructions,
            tools=request.api.tools(request.body),
            model=request.model,
            record=False,
        )
        answered = {one.message.tool_call_id for one in new if one.message.tool_call_id}
        # Results that the log does not have yet were repaired.
        known = [one for one in context.messages if one.message.tool_call_id not in answered]
        context = replace(context, messages=[*known, *new])
        body = await self.encode(
            Exchange(request=request, key=key, context=context, said=said, conversation="")
        )
        counter = self._memory.token_counter
        tokens = context.composed.request_tokens + counter.count_messages(one.message for one in new)
        return PreviewedBody(body.content, tokens)

    async def _find_end(
        self, scope: str, request: ClientRequest, said: Sequence[SourcedMessage]
    ) -> tuple[Key, Sequence[SourcedMessage]]:
        """The conversation that a history goes on, and its messages that are not in it yet."""
        name = request.conversation
        key = make_key(self._memory.agent, scope, name or _new_conversation())
        answers = [one for one in said if one.message.role is ChatRole.ASSISTANT]
        for one in reversed(answers[-MAX_LOOKUPS:] if name is None else []):
            found = await self._look_up(scope, one.stored_id)
            if found is not None:
                key = found.key
                break
        branch = await self.engine.current_conversation(key.conversation, scope=scope)
        newest = await self._memory.read(scope, branch, limit=1)
        ids = [one.stored_id for one in said]
        if newest.entries and newest.entries[-1].message.id in ids:
            return key, said[ids.index(newest.entries[-1].message.id) + 1 :]
        return key._replace(conversation=_new_conversation()), said

    async def get_metrics(self) -> dict[str, Mapping[str, Any]]:
        """The counters of memory, and of the conversations with clients, as a node has them."""
        counts = self._metrics.collect(self.engine.template)
        return {"memory": await self._memory.get_metrics(), f"agent:{self._memory.agent}": counts}

    async def finish(self, exchange: Exchange, answer: UpstreamAnswer) -> None:
        """Store an answer, and note how to find it, also when its client goes away meanwhile."""
        # If it fails, the client has its answer all the same, and most send it back with their next request.
        with _store_anyway():
            await self._store_answer(exchange, answer)

    async def leave(self, exchange: Exchange, *, answered: bool) -> None:
        """The request has ended. Note what only later requests need."""
        self._active[exchange.key] -= 1
        if not self._active[exchange.key]:
            del self._active[exchange.key]
        if not answered:
            self._metrics.count("turns_failed")
        with _store_anyway():
            if not answered:
                await self._record(exchange, None)
                if all(one.message.role is not ChatRole.ASSISTANT for one in exchange.said):
                    # Nobody waits any more for the answer to a first question.
                    await self._index(exchange.key, [exchange.said[-1].stored_id], exchange.request)
            if exchange.is_first_whole and exchange.request.conversation is not None:
                style = [(WHOLE_STYLE, "")]
                await self._memory.store.put_records(exchange.key, STYLE_KIND, style, keep=1)

    async def _store_answer(self, exchange: Exchange, answer: UpstreamAnswer) -> None:
        question, reply = exchange.context.history[-1], answer.reply
        self._metrics.count("steps")
        self._metrics.count("turns", not reply.tool_calls)
        self._metrics.count("epochs_ended", exchange.context.composed.end_reason is not None)
        self._metrics.add_usage(reply.usage)
        said = _chain_from([SourcedMessage(one) for one in answer.messages], 0, question.stored_id)
        branch = await self.engine.store_reply(
            exchange.key, exchange.context, *said, reply=reply, options=exchange.request.body
        )
        before, last = [fingerprint(one.message) for one in (question, *said)][-2:]
        name = said[-1].stored_id
        own = _instructions(exchange.request)
        names = [one for plain in (name, pair_id(before, last)) for one in (plain, chain_id(own, plain))]
        if reply.id is not None and exchange.request.api.has_responses:
            names.append(_response_name(reply.id))
        await self._index(branch, names, exchange.request, message_id=name)

    async def owns_response(self, scope: str, response_id: str) -> bool:
        """Tell whether a response was given in a scope."""
        return await self._look_up(scope, _response_name(response_id)) is not None

    # -- finding ----------------------------------------------------------------------------------

    async def _find_response(self, scope: str, response_id: str) -> _IndexEntry:
        found = await self._look_up(scope, _response_name(response_id))
        if found is None:
            raise EndpointError(
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
        window = await self._memory.read(key.scope, key.conversation, limit=CALL_LOOKBACK)
        log = [one.message for one in window.entries]
        if any(one.id == after for one in log):
            check_results(request, said, 0, log)
        return _PlacedRequest(key, placed, after)

    async def _place_named(self, key: Key, request: ClientRequest) -> _PlacedRequest:
        last = self._requests.get(key)
        if last is None:
            styles = await self._memory.store.read_records(key, STYLE_KIND, limit=1)
            said, new, resends_history = await self._read(request), 0, bool(styles) or request.resends_history
        else:
            resends_history = last.resends_history
            continues = _continues(request, last)
            said, new = self._extend(last, request) if continues else (await self._read(request), 0)
        branch = await self.engine.current_conversation(key.conversation, scope=key.scope)
        is_history = any(one.message.role is ChatRole.ASSISTANT for one in said)
        if is_history or resends_history:
            placed = _chain_from(said, new)
            newest = await self._memory.read(key.scope, branch, limit=1)
            ids = [one.stored_id for one in placed]
            known = bool(newest.entries) and newest.entries[-1].message.id in ids
            if not newest.entries or known or request.begins_anew:
                check_results(request, said, new, ())
                return _PlacedRequest(key, placed, resends_history=True)
        limit = LOG_LIMIT if is_history or resends_history else len(said) + CALL_LOOKBACK
        window = await self._memory.read(key.scope, branch, limit=limit)
        found = place_history(
            [_history_message(one.message) for one in said],
            [_history_message(one.message) for one in window.entries],
            is_retry=request.is_retry,
            resends_history=resends_history,
        )
        check_results(request, said, 0, [one.message for one in window.entries])
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
            found = await self._look_up_answer(scope, placed[at].stored_id, request)
            if found is not None:
                check_results(request, said, 0, ())
                return _PlacedRequest(found.key, placed, found=found)
        if answers and answers[-1] and not request.begins_anew:
            question, answer = prints[answers[-1] - 1 : answers[-1] + 1]
            place = await self._find_window(scope, request, said, pair_id(question, answer))
            if place is not None:
                return place
        check_results(request, said, 0, ())
        found = None if answers else await self._look_up(scope, placed[-1].stored_id)
        if found is not None and await self._waits(found, placed[-1].stored_id, request.is_retry):
            return _PlacedRequest(found.key, placed, found=found)
        key = make_key(self._memory.agent, scope, _new_conversation())
        if not answers:
            # Before anything is stored: so it is known when it comes again, whatever happens to it.
            await self._index(key, [placed[-1].stored_id], request, owner=process_name())
        return _PlacedRequest(key, placed)

    async def _fork_for_helper(self, place: _PlacedRequest, request: ClientRequest) -> _PlacedRequest:
        """The place of a request, in a fork if it is of somebody else than the requests before.

        Agents have helpers that are given the whole talk, with instructions and tools of their own. What they
        say is no part of it.
        """
        found = place.found
        if found is None or found.instructions in ("", _instructions(request)):
            return place
        if found.tools == _tools(request):
            return place
        key = place.key
        branch = await self.engine.current_conversation(key.conversation, scope=key.scope)
        name = await self._memory.fork(key.scope, branch, name=_new_conversation())
        return replace(place, key=key._replace(conversation=name))

    async def _recognise_recent(self, scope: str, request: ClientRequest) -> _PlacedRequest | None:
        """By the newest answer and the messages of the request before it, which this process has."""
        sources, api = request.sources, request.api
        start = next((at for at in range(len(sources) - 1, 0, -1) if api.is_answer(sources[at])), 0)
        end = start + 1
        while start and not api.is_boundary(sources[start - 1]):
            start -= 1
        if not start:
            return None
        *_, question = api.read_messages(sources[start - 1 : start], start - 1)
        [answer] = api.read_messages(sources[start:end], start)
        pair = pair_id(fingerprint(question.message), fingerprint(answer.message))
        found = await self._look_up_answer(scope, pair, request)
        last = None if found is None else self._requests.get(found.key)
        if found is None or last is None or not _continues(request, last):
            return None
        said, new = self._extend(last, request)
        check_results(request, said, new, ())
        return _PlacedRequest(found.key, _chain_from(said, new), found=found)

    async def _find_window(
        self, scope: str, request: ClientRequest, said: list[SourcedMessage], pair: str
    ) -> _PlacedRequest | None:
        """By an answer with its question, for a history whose beginning the client has dropped."""
        found = await self._look_up_answer(scope, pair, request)
        if found is None:
            return None
        key = found.key
        window = await self._memory.read(key.scope, key.conversation, limit=LOG_LIMIT)
        placed = place_history(
            [_history_message(one.message) for one in said],
            [_history_message(one.message) for one in window.entries],
        )
        if not placed.after:
            return None
        check_results(request, said, 0, [one.message for one in window.entries])
        return _PlacedRequest(key, _identify(said, placed.ids), placed.after, found=found)

    async def _waits(self, found: _IndexEntry, message_id: str, is_retry: bool) -> bool:
        """Tell whether a message is the newest of its conversation, and nobody waits for its answer.

        In a retry it may have an answer, which its client did not get.
        """
        key, is_own = found.key, found.owner in ("", process_name())
        newest = await self._memory.read(key.scope, key.conversation, limit=2)
        ids = [one.message.id for one in newest.entries]
        if is_retry:
            return message_id in ids
        is_active = self._active[key] > 0 if is_own else not has_ended(found.owner)
        return ids[-1:] == [message_id] and not is_active

    # -- messages of a request --------------------------------------------------------------------

    async def _read(self, request: ClientRequest) -> list[SourcedMessage]:
        if len(request.sources) < _LONG_HISTORY:
            return request.api.read_messages(request.sources, _first_number(request))
        read = request.api.read_messages
        return await anyio.to_thread.run_sync(read, request.sources, _first_number(request))

    def _extend(self, last: LastRequest, request: ClientRequest) -> tuple[list[SourcedMessage], int]:
        """Read the messages of a request; those of the request before, which are counted, have their ids."""
        count = len(last.sources)
        rest = request.api.read_messages(request.sources[count:], _first_number(request) + count)
        return [*last.said, *rest], len(last.said)

    # -- storing ----------------------------------------------------------------------------------

    async def _compose(
        self, place: _PlacedRequest, request: ClientRequest, max_tokens: int | None
    ) -> Exchange:
        context = await self.engine.compose(
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
        if not shows_newest(context, place.said):
            raise EndpointError(
                "the newest message does not fit into the context beside the user's message and the tools: "
                "ask for fewer `max_tokens` of output, or take a model with a larger window",
                code="context_length_exceeded",
                param=request.api.field,
            )
        key, branch = place.key, context.composed.conversation
        before = self._requests.get(key)
        last = LastRequest(
            request.sources,
            tuple(place.said),
            request.size,
            place.resends_history,
            request.api.path,
            self._tickets.get(key, 0),
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
            branch = await self.engine.current_conversation(place.key.conversation, scope=place.key.scope)
            newest = await self._memory.read(place.key.scope, branch, limit=1)
            if newest.entries and any(one.stored_id == newest.entries[-1].message.id for one in tail):
                return tail
        return place.said

    async def _record(self, exchange: Exchange, reply: ModelReply | None) -> None:
        """Let `explain` know what was sent."""
        options = exchange.request.body
        await self.engine.record(
            exchange.key, exchange.context, reply=reply, options=options, is_current=True
        )

    async def _index(
        self,
        branch: Key,
        names: Sequence[str],
        request: ClientRequest,
        *,
        message_id: str = "",
        owner: str = "",
    ) -> None:
        key = branch._replace(conversation=INDEX_CONVERSATION)
        body = json.dumps([branch.conversation, message_id, _instructions(request), _tools(request), owner])
        self._indexed += 1
        keep = MAX_INDEXED if self._indexed % _TRIM_EVERY == 0 else None
        await self._memory.store.put_records(
            key, ANSWER_KIND, [(name, body) for name in dict.fromkeys(names)], keep=keep
        )

    async def _look_up(self, scope: str, name: str) -> _IndexEntry | None:
        """The conversation that has an answer, and the id that the answer has there."""
        key = make_key(self._memory.agent, scope, INDEX_CONVERSATION)
        records = await self._memory.store.read_records(key, ANSWER_KIND, name=name, limit=1)
        if not records:
            return None
        # Entries of earlier versions say only where the answer is.
        conversation, *rest = json.loads(records[-1].body)
        return _IndexEntry(key._replace(conversation=conversation), *rest)

    async def _look_up_answer(self, scope: str, name: str, request: ClientRequest) -> _IndexEntry | None:
        """The conversation that has an answer: one with these instructions, if others have the same words."""
        own = await self._look_up(scope, chain_id(_instructions(request), name))
        return await self._look_up(scope, name) if own is None else own

    def _context_limit(self, scope: str, request: ClientRequest) -> int | None:
        """Find the most tokens of a context, unless the template has a budget of its own."""
        if self.engine.template.max_tokens is not None or request.model is None:
            return None
        window = self._windows.get((scope, request.model)) or find_context_window(request.model)
        return None if window is None else _room(window, request)

    def _lock(self, key: Key) -> anyio.Lock:
        """One request of a conversation at a time stores messages."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = anyio.Lock()
        return lock


@contextmanager
def _store_anyway() -> Iterator[None]:
    """Store something even if its client has gone; what goes wrong is logged."""
    with anyio.move_on_after(STORE_SECONDS, shield=True) as slow:
        try:
            yield
        except Exception as error:
            logger.error("an answer could not be stored: %s", type(error).__name__)
    if slow.cancelled_caught:
        logger.error("an answer could not be stored in time")


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


def _continues(request: ClientRequest, last: LastRequest) -> bool:
    """Tell whether a history begins with the messages of the request before, and goes on with others."""
    before = last.sources
    return (
        last.path == request.api.path
        and request.api.is_boundary(before[-1])
        and request.sources[: len(before)] == before
    )


def _new_conversation() -> str:
    return f"chat-{new_id()}"


def _instructions(request: ClientRequest) -> str:
    """Hash the rules of a request, however its API writes them."""
    return chain_id("", "\n\n".join(one.message.text for one in request.instructions))


def _tools(request: ClientRequest) -> str:
    """Hash the names of the tools."""
    return chain_id("", json.dumps(sorted(str(one["name"]) for one in request.api.tools(request.body))))


def _room(window: int, request: ClientRequest) -> int:
    """The most tokens of a context in a window, with room for the answer.

    Some clients ask for more tokens of output than a small model has in all.
    """
    return int(window * WINDOW_SHARE) - min(request.output_tokens, window // 2)


def _first_number(request: ClientRequest) -> int:
    """The number of the first message that is no instruction, for errors."""
    return sum(not isinstance(one.source, str) for one in request.instructions)


def _response_name(response_id: str) -> str:
    return f"response:{chain_id('', response_id)}"
