"""`ProviderServer`: a model provider for tests that has the rules of today's Claude and GPT models.

It refuses what they refuse, signs thinking so that a changed prefix is noticed, and counts what their caches
would read and write. It is an ASGI application. A test gives `ProviderServer().client()`, an HTTP client that
talks to it without a network, to `Model(client=...)` or to a provider's own client.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from autonomy_ctx.testing.providers import batches, openai
from autonomy_ctx.testing.providers.anthropic import answer_messages, make_events
from autonomy_ctx.testing.providers.converse import from_converse, make_frames, write_converse
from autonomy_ctx.testing.providers.state import Answer, Body, ProviderRefusal, ProviderRequest, ProviderState

if TYPE_CHECKING:
    import httpx

_OPENAI = {
    "/v1/responses": openai.answer_responses,
    "/v1/responses/compact": openai.compact_responses,
    "/v1/chat/completions": openai.answer_chat,
}
_ANTHROPIC = ("/v1/messages", "/v1/messages/count_tokens")
_ERROR_TYPES = {
    404: "not_found_error",
    429: "rate_limit_error",
    503: "server_error",
    529: "overloaded_error",
}
# Seconds, that a client is told to wait.
_RETRY_AFTER = b"7"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProviderResponse:
    """An HTTP response."""

    content: bytes
    status: int = 200
    kind: str = "application/json"


class ProviderServer(ProviderState):
    """Answers requests as a provider would, and keeps them in `requests`.

    `answer` makes the content of a reply; without it, the model thinks and says "Done.". With
    `enforced=False`, the account is an old one, for which a changed prefix is no error on most models.
    Thinking of another `organization` is dropped. `max_tokens` is the context window, counted in words.
    `clock` gives the time in seconds, for what is cached; without it, no time passes.
    """

    def __init__(
        self,
        answer: Answer | None = None,
        *,
        enforced: bool = True,
        organization: str = "org-1",
        strict_tool_order: bool = True,
        strict_system_shape: bool = True,
        max_tokens: int = 1_000_000,
        clock: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(organization=organization, max_tokens=max_tokens, clock=clock or (lambda: 0.0))
        self.answer = answer or self.answer
        self.enforced = enforced
        self.strict_tool_order, self.strict_system_shape = strict_tool_order, strict_system_shape
        self.requests: list[ProviderRequest] = []
        # Awaited before a reply is sent, to let a test do something while the reply is on its way.
        self.before_reply: Callable[[ProviderRequest], Awaitable[None]] | None = None

    @property
    def refused(self) -> list[ProviderRequest]:
        """The requests that were answered with an error."""
        return [request for request in self.requests if request.status != 200]

    def client(self) -> httpx.AsyncClient:
        """An HTTP client whose requests come here, whatever host they name."""
        import httpx

        return httpx.AsyncClient(transport=self.transport())

    def transport(self) -> httpx.ASGITransport:
        """The server as a transport, for a client of your own."""
        import httpx

        return httpx.ASGITransport(self)

    async def __call__(self, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        """Answer one HTTP request."""
        if scope["type"] != "http":
            return
        raw = b""
        while True:
            message = await receive()
            raw += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]
        }
        kind = headers.get("content-type", "")
        is_form = kind.startswith("multipart/")
        body = batches.read_form(raw, kind) if is_form else json.loads(raw or b"{}")
        seen = ProviderRequest(
            path=unquote(scope["path"]), headers=headers, body=body, model="", method=scope["method"]
        )
        self.requests.append(seen)
        response = self._respond(seen)
        if self.before_reply is not None:
            await self.before_reply(seen)
        # A prefix can be read once the reply to the request that writes it begins.
        self.cache.write(seen.use)
        sent = [(b"content-type", response.kind.encode())]
        sent += [(b"x-amzn-errortype", b"ValidationException")] if response.status == 400 else []
        sent += [(b"retry-after", _RETRY_AFTER)] if response.status == 429 else []
        await send({"type": "http.response.start", "status": response.status, "headers": sent})
        await send({"type": "http.response.body", "body": response.content})

    def _respond(self, seen: ProviderRequest) -> _ProviderResponse:
        is_bedrock = seen.path.startswith("/model/")
        try:
            body = from_converse(seen.path, seen.body) if is_bedrock else dict(seen.body)
            seen.model = str(body.get("model", ""))
            if self.failures:
                status = self.failures.pop(0)
                raise ProviderRefusal("try again later", status=status)
            if seen.path.startswith((batches.CLAUDE, batches.GPT, batches.FILES)):
                found = batches.answer_batch(self, seen, self._answer_of_batch)
                lines = map(json.dumps, found if isinstance(found, list) else [found])
                return _ProviderResponse(content="\n".join(lines).encode())
            made = self._answer(seen, body, is_bedrock=is_bedrock)
        except ProviderRefusal as refused:
            seen.status, seen.error = refused.status, str(refused)
            return _ProviderResponse(content=_encode_error(seen, refused), status=refused.status)
        if seen.path.endswith("/converse-stream"):
            frames = b"".join(make_frames(made))
            return _ProviderResponse(content=frames, kind="application/vnd.amazon.eventstream")
        if is_bedrock:
            made = write_converse(made)
        elif body.get("stream"):
            events = openai.write_events(made, body) if seen.path in _OPENAI else b"".join(make_events(made))
            return _ProviderResponse(content=events, kind="text/event-stream")
        return _ProviderResponse(content=json.dumps(made).encode())

    def _answer_of_batch(self, request: ProviderRequest) -> Body:
        self.requests.append(request)
        return self._answer(request, dict(request.body), is_bedrock=False)

    def _answer(self, seen: ProviderRequest, body: Body, *, is_bedrock: bool) -> Body:
        if seen.path in _OPENAI:
            return _OPENAI[seen.path](self, body, seen)
        if not is_bedrock and seen.path not in _ANTHROPIC:
            raise ProviderRefusal(f"there is nothing at {seen.path}", status=404)
        counts = seen.path.endswith("count_tokens")
        return answer_messages(self, body, seen, counts=counts, is_bedrock=is_bedrock)


def _encode_error(seen: ProviderRequest, refused: ProviderRefusal) -> bytes:
    """An error in the words of the API that the request used."""
    kind = _ERROR_TYPES.get(refused.status, "invalid_request_error")
    error: Body = {"type": kind, "message": seen.error}
    if seen.path.startswith("/model/"):
        return json.dumps({"message": seen.error}).encode()
    if seen.path in _OPENAI:
        return json.dumps({"error": {**error, "param": refused.param, "code": refused.code}}).encode()
    details = {"details": {"error_code": refused.code}} if refused.code else {}
    return json.dumps({"type": "error", "error": {**error, **details}}).encode()
