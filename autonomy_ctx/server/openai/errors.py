"""Errors in the format of the OpenAI API, so that clients raise their usual exceptions."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from autonomy_ctx.errors import BudgetExceeded, InvalidKey, InvalidMessage, MessageTooLarge, TurnWaitTimeout
from autonomy_ctx.server.common.errors import (
    NODE_CLOSING,
    ClientError,
    client_error,
)
from autonomy_ctx.server.common.responses import json_response
from autonomy_ctx.server.openai.upstream import UpstreamFailure

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


class OpenAIError(Exception):
    """An error that a client gets instead of an answer."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        param: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.param = message, status, param
        self.type, usual = _WORDS.get(status, _SERVER_WORDS)
        self.code = code or usual
        self.headers = headers or {}

    def fields(self) -> dict[str, Any]:
        """The error as the API has it."""
        return {"message": self.message, "type": self.type, "param": self.param, "code": self.code}

    def response(self) -> Response:
        """The error as a response."""
        return json_response({"error": self.fields()}, status=self.status, headers=self.headers)


def invalid_request(message: str, *, param: str | None = None) -> OpenAIError:
    """A request whose sender must change it."""
    return OpenAIError(message, param=param)


def to_openai_error(error: Exception) -> OpenAIError:
    """Make the error that a client is told; details that it must not know are logged."""
    match error:
        case OpenAIError():
            return error
        case UpstreamFailure():
            return OpenAIError(error.message, status=error.status, code=error.code)
        case MessageTooLarge():
            return OpenAIError(str(error), status=413)
        case TurnWaitTimeout():
            return OpenAIError(
                f"earlier requests of this conversation took longer than {error.seconds:g} s; nothing of "
                f"this one was stored. Send it again later, or in another conversation",
                status=409,
            )
        case InvalidMessage() | InvalidKey():
            return OpenAIError(str(error))
        case BudgetExceeded():
            return OpenAIError(str(error), code="context_length_exceeded", param="messages")
    return _from_client_error(client_error(error))


def _from_client_error(error: ClientError) -> OpenAIError:
    return OpenAIError(error.message, status=error.status, headers=error.all_headers())


ENDPOINT_CLOSING = OpenAIError(
    "this endpoint is closing; try again when it is back", status=NODE_CLOSING.status
)
