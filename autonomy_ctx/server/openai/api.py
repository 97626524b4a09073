"""The parts that OpenAI's two APIs share: how a request is divided, and how errors are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from starlette.responses import Response

from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES
from autonomy_ctx.messages.json_values import thaw
from autonomy_ctx.server.common.responses import json_response
from autonomy_ctx.server.endpoint.client_api import ClientApi, ClientRequest, UpstreamAnswer, is_retry
from autonomy_ctx.server.endpoint.errors import EndpointError
from autonomy_ctx.server.endpoint.history import fingerprint

# Where a stored message has the client's own form, when ours could not be made into the same again.
SOURCE = "openai_source"
# `type` and `code` by status; others are errors of the server.
_WORDS = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "access_denied"),
    404: ("invalid_request_error", "not_found"),
    405: ("invalid_request_error", "method_not_allowed"),
    408: ("invalid_request_error", "request_timeout"),
    409: ("invalid_request_error", "conversation_busy"),
    413: ("invalid_request_error", "request_too_large"),
    415: ("invalid_request_error", "unsupported_media_type"),
    429: ("rate_limit_error", "rate_limit_exceeded"),
}
_SERVER_WORDS = ("server_error", "server_error")


def error_fields(error: EndpointError) -> dict[str, Any]:
    """An error as the APIs have it."""
    kind, usual = _WORDS.get(error.status, _SERVER_WORDS)
    return {"message": error.message, "type": kind, "param": error.param, "code": error.code or usual}


class OpenAIApi(ClientApi):
    """One of OpenAI's APIs."""

    # As an error calls a message or an item.
    element: ClassVar[str]
    cache_field = "prompt_cache_key"

    def error_response(self, error: EndpointError) -> Response:
        return json_response({"error": error_fields(error)}, status=error.status, headers=error.headers)

    def is_answer(self, source: Any) -> bool:
        kind = source.get("type") or "message"
        return source.get("role") == "assistant" or (kind != "message" and not str(kind).endswith("_output"))

    def _make_request(
        self,
        body: Mapping[str, Any],
        headers: Mapping[str, str],
        size: int,
        items: list[Any],
        leading: Sequence[SourcedMessage] = (),
        *,
        named: str | None = None,
        previous: str | None = None,
    ) -> ClientRequest:
        """Divide the messages of a body into instructions and what is said after them."""
        rules = next((at for at, one in enumerate(items) if not _is_rule(one)), len(items))
        if rules == len(items):
            raise EndpointError(
                f"`{self.field}` has instructions only; add a message of the user", param=self.field
            )
        return ClientRequest(
            api=self,
            body=body,
            instructions=[*leading, *self.read_messages(items[:rules], 0)],
            sources=items[rules:],
            conversation=self.find_name(body, headers) or named,
            previous_response=previous,
            is_retry=is_retry(headers),
            size=size,
        )

    def _check_objects(self, items: Sequence[Any]) -> None:
        if wrong := [at for at, one in enumerate(items) if not isinstance(one, dict)]:
            raise EndpointError(f"{self.element} must be an object", param=f"{self.field}[{wrong[0]}]")


def one_message_answer(reply: ModelReply) -> UpstreamAnswer:
    """An answer that is one message, if it says anything."""
    return UpstreamAnswer(reply, [reply.message] if reply.parts or reply.tool_calls else [])


def own_source(
    one: SourcedMessage, sources: Mapping[str, Any], kind: type, read: Callable[[Any], str]
) -> Any:
    """The client's own form of a message, unless it is shown otherwise than the client had it.

    A message of another API has a form of another `kind`.
    """
    if one.source is not None:
        return one.source
    own = sources.get(one.message.id)
    if own is None:
        own = thaw(one.message.extra.get(SOURCE))
    return own if isinstance(own, kind) and read(own) == fingerprint(one.message) else None


def _is_rule(source: Mapping[str, Any]) -> bool:
    return source.get("role") in INSTRUCTION_ROLES and (source.get("type") or "message") == "message"
