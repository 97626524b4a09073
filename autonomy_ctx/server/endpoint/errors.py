"""An error of the endpoint, before the API of the client writes it in its own form."""

from __future__ import annotations

from autonomy_ctx.errors import BudgetExceeded, InvalidKey, InvalidMessage, MessageTooLarge, TurnWaitTimeout
from autonomy_ctx.server.common.errors import NODE_CLOSING, UNEXPECTED_ERROR, client_error
from autonomy_ctx.server.endpoint.upstream import UpstreamFailure


class EndpointError(Exception):
    """An error that a client gets instead of an answer; by default it must change its request."""

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
        self.message, self.status, self.param, self.code = message, status, param, code
        self.headers = headers or {}


def to_endpoint_error(error: Exception) -> EndpointError:
    """Make the error that a client is told; details that it must not know are logged."""
    match error:
        case EndpointError():
            return error
        case UpstreamFailure():
            return EndpointError(error.message, status=error.status, code=error.code)
        case MessageTooLarge():
            return EndpointError(str(error), status=413)
        case TurnWaitTimeout():
            return EndpointError(
                f"earlier requests of this conversation took longer than {error.seconds:g} s; nothing of "
                f"this request was stored. Send it again later, or in another conversation",
                status=409,
            )
        case InvalidMessage() | InvalidKey():
            return EndpointError(str(error))
        case BudgetExceeded():
            return EndpointError(str(error), code="context_length_exceeded", param="messages")
    told = client_error(error)
    if told is NODE_CLOSING:
        return ENDPOINT_CLOSING
    if told is UNEXPECTED_ERROR:
        return EndpointError("the request failed inside the endpoint", status=told.status)
    return EndpointError(told.message, status=told.status, headers=told.all_headers())


ENDPOINT_CLOSING = EndpointError(
    "this endpoint is closing; try again when it is back", status=NODE_CLOSING.status
)
