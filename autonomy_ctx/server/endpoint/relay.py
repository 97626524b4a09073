"""Passes an answer of upstream to the client: its bytes as they came, stored before the last is sent.

Nothing is sent to the client before it is known that the request was not too long. If it was, upstream is
called again with a smaller context. A stream that breaks off ends with an error in the format of the API.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote

import anyio
import anyio.to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from autonomy_ctx.background import Urgent
from autonomy_ctx.formats.incoming import as_mapping, as_nonempty_text
from autonomy_ctx.formats.overflow import Overflow, find_overflow
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.server.common.app import ActiveRequests
from autonomy_ctx.server.common.events import LAST_SECONDS, cancel_on_disconnect, send_piece
from autonomy_ctx.server.endpoint.client_api import (
    CONVERSATION_HEADER,
    OMITTED_HEADER,
    AnswerReader,
    ClientRequest,
    Exchange,
    UpstreamAnswer,
)
from autonomy_ctx.server.endpoint.conversations import Conversations
from autonomy_ctx.server.endpoint.errors import ENDPOINT_CLOSING, EndpointError, to_endpoint_error
from autonomy_ctx.server.endpoint.upstream import (
    EventSplitter,
    Upstream,
    UpstreamFailure,
    UpstreamResponse,
    read_object,
)

logger = logging.getLogger("autonomy_ctx.server")

_NO_LIMIT = 2**62
# All that a header can hold; what is not here is percent-encoded.
_HEADER_CHARACTERS = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%") + " "


class ModelAnswer(Response):
    """Answers with what upstream says to a context, and asks once more with less if that was too much."""

    def __init__(
        self,
        conversations: Conversations,
        upstream: Upstream,
        tenant: str,
        request: ClientRequest,
        headers: Mapping[str, str],
        requests: ActiveRequests,
        urgent: Urgent,
        *,
        path: str,
    ) -> None:
        super().__init__()
        # With the query of the client.
        self._path = path
        self._conversations, self._upstream, self._tenant = conversations, upstream, tenant
        self._request, self._request_headers = request, headers
        self._requests, self._urgent = requests, urgent
        # Once the first byte is out, nobody waits for it.
        self._sender = _Sender(on_first=urgent.end)
        self._exchange: Exchange
        self._is_answered = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer; when the client goes away, upstream is left at once."""
        self._sender.send = send
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
                await self._relay()
                group.cancel_scope.cancel()
        finally:
            self._urgent.end()
            if self._requests.closing and not self._sender.ended:
                with anyio.move_on_after(LAST_SECONDS, shield=True):
                    await self._fail(ENDPOINT_CLOSING)

    async def _relay(self) -> None:
        failure: EndpointError | None = None
        try:
            async with self._conversations.turn(self._tenant, self._request):
                self._exchange = await self._conversations.begin(self._tenant, self._request)
                self._sender.conversation = self._exchange.conversation
                try:
                    await self._converse()
                finally:
                    await self._conversations.leave(self._exchange, answered=self._is_answered)
        except Exception as error:
            failure = to_endpoint_error(error)
        if failure is not None:
            await self._fail(failure)

    async def _converse(self) -> None:
        """Ask; if it was too much, once more with less."""
        refusal = await self._ask(may_retry=True)
        if refusal is None:
            return
        smaller = await self._conversations.compose_smaller(self._exchange, refusal.overflow)
        if smaller is None:
            await self._sender.send_all(refusal.response, refusal.body)
        else:
            self._exchange = smaller
            await self._ask(may_retry=False)

    async def _fail(self, failure: EndpointError) -> None:
        if self._sender.started:
            await self._sender.end(self._request.api.error_event(failure))
        else:
            await self._sender.send_error(self._request.api.error_response(failure))

    async def _ask(self, *, may_retry: bool) -> _Refusal | None:
        """Ask and pass the answer on. One that says the request was too long is given back, to retry."""
        api, encoded = self._exchange.request.api, await self._conversations.encode(self._exchange)
        self._sender.omitted = encoded.omitted
        async with self._upstream.send(
            "POST", self._path, self._request_headers, encoded.content
        ) as answered:
            response = api.translate(answered)
            is_good = 200 <= response.status < 300
            if is_good and response.content_type == "text/event-stream":
                return await self._relay_stream(response, may_retry)
            body = await response.read_all()
            data = read_object(body) or {}
            is_good = is_good and not data.get("error")
            overflow = None if is_good else find_overflow(max(response.status, 400), body)
            if overflow is not None and may_retry:
                return _Refusal(overflow, response, body)
            if is_good:
                await self._store_answer(api.read_answer(data))
            if self._sender.started:
                # The client has the heartbeats of a stream that was too long.
                error = as_mapping(data.get("error"))
                message = as_nonempty_text(error.get("message")) or f"{self._upstream.host} sent no stream"
                raise EndpointError(message, status=response.status, code=as_nonempty_text(error.get("code")))
            await self._sender.send_all(response, body)
        return None

    async def _relay_stream(self, response: UpstreamResponse, may_retry: bool) -> _Refusal | None:
        api, sender = self._exchange.request.api, self._sender
        reader, splitter = AnswerReader(api), EventSplitter()
        waiting, has_failed = bytearray(), False
        # Whether the client was sent, or is to be sent, more than heartbeats.
        is_begun = has_events = False
        while (chunk := await response.read_chunk()) is not None:
            ready = 0
            for piece in splitter.feed(chunk):
                error = api.error_of(piece)
                if error is not None:
                    has_failed = True
                    overflow = find_overflow(400, {"error": error})
                    if overflow is not None and may_retry and not is_begun:
                        return _Refusal(overflow, response, bytes(waiting + piece.raw))
                reader.feed(piece)
                if api.is_last(piece):
                    await sender.send_some(response, bytes(waiting))
                    if not has_failed:
                        await self._store_answer(reader.finish())
                    await sender.end(piece.raw)
                    await response.drain()
                    return None
                waiting += piece.raw
                has_events = has_events or not piece.is_heartbeat
                if piece.is_heartbeat or is_begun or not api.is_preface(piece):
                    ready, is_begun = len(waiting), has_events
            # What came together goes on together.
            if ready:
                await sender.send_some(response, bytes(waiting[:ready]))
                del waiting[:ready]
        answer = reader.finish()
        if not has_failed and answer.reply.stop is None:
            raise UpstreamFailure(f"{self._upstream.host} broke off its answer", code="upstream_broke_off")
        if not has_failed:
            await self._store_answer(answer)
        await sender.send_some(response, bytes(waiting))
        await sender.end(splitter.rest)
        return None

    async def _store_answer(self, answer: UpstreamAnswer) -> None:
        if answer.messages:
            await self._conversations.finish(self._exchange, answer)
            self._is_answered = True


class PassedThrough(Response):
    """Answers with what upstream says to a request that is none of ours."""

    def __init__(
        self,
        upstream: Upstream,
        method: str,
        path: str,
        headers: Mapping[str, str],
        content: AsyncIterable[bytes] | None,
    ) -> None:
        super().__init__()
        self._upstream, self._method, self._path = upstream, method, path
        self._request_headers, self._content = headers, content

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer as it comes."""
        sender = _Sender()
        sender.send = send
        async with (
            self._upstream.send(
                self._method, self._path, self._request_headers, self._content, max_bytes=_NO_LIMIT
            ) as response,
            anyio.create_task_group() as group,
        ):
            group.start_soon(cancel_on_disconnect, receive, group.cancel_scope)
            try:
                while (chunk := await response.read_chunk()) is not None:
                    await sender.send_some(response, chunk)
                await sender.send_some(response, b"")
                await sender.end(b"")
            except UpstreamFailure:
                # The body stays without its end, so the client sees that it is not whole.
                if not sender.started:
                    raise
            group.cancel_scope.cancel()


class _Refusal(NamedTuple):
    """An answer that says the request was too long; not sent yet."""

    overflow: Overflow
    response: UpstreamResponse
    body: bytes


class _Sender:
    """Sends the head of an answer once, and pieces of its body."""

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        self._on_first = on_first
        # Once it is known.
        self.conversation: str | None = None
        self.omitted: Mapping[str, int] = EMPTY
        self.started = self.ended = False
        self.send: Any = None

    async def send_some(self, response: UpstreamResponse, piece: bytes) -> None:
        """Send what is there."""
        await self._start(response.status, response.headers)
        if piece:
            await send_piece(self.send, piece)
            self._on_first()

    async def send_all(self, response: UpstreamResponse, body: bytes) -> None:
        """Send a whole answer."""
        is_stream = response.content_type == "text/event-stream"
        length = [] if is_stream else [("content-length", str(len(body)))]
        await self._start(response.status, [*response.headers, *length])
        await self.end(body)

    async def send_error(self, response: Response) -> None:
        """Send an error of ours."""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
        await self._start(response.status_code, headers)
        await self.end(bytes(response.body))

    async def end(self, last: bytes) -> None:
        """Send the last piece."""
        if not self.ended:
            self.ended = True
            await self.send({"type": "http.response.body", "body": last, "more_body": False})

    async def _start(self, status: int, headers: list[tuple[str, str]]) -> None:
        if self.started:
            return
        self.started = True
        if self.conversation is not None:
            name = quote(self.conversation, safe=_HEADER_CHARACTERS)
            inner = name.strip(" ")
            # A header has no spaces at its ends.
            name = name.replace(" ", "%20") if name != inner else name
            headers = [*headers, (CONVERSATION_HEADER, name)]
        if self.omitted:
            shown = ", ".join(f"{name}={count}" for name, count in self.omitted.items())
            headers = [*headers, (OMITTED_HEADER, shown)]
        encoded = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self.send({"type": "http.response.start", "status": status, "headers": encoded})
