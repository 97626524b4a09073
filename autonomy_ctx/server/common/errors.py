"""Errors as an HTTP client sees them: a status and a sentence.

Unexpected errors and the address of the memory are logged; the client only learns that the request failed.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio.lowlevel

from autonomy_ctx import errors
from autonomy_ctx.errors import CostLimitExceeded, HookError, RateLimited, StoreError, UnknownPrice

logger = logging.getLogger("autonomy_ctx.server")

# How much JSON is made at once, before other tasks get their turn.
YIELD_BYTES = 64 * 1024

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_STATUS: dict[type, int] = {
    errors.InvalidFact: 400,
    errors.InvalidKey: 400,
    errors.InvalidMessage: 400,
    errors.InvalidParams: 400,
    errors.NotPinned: 404,
    errors.UnknownAgent: 404,
    errors.UnknownConversation: 404,
    errors.UnknownFact: 404,
    errors.UnknownPosition: 404,
    errors.UnknownTurn: 404,
    errors.ConflictingMessage: 409,
    errors.SharedTurn: 409,
    errors.MessageTooLarge: 413,
    errors.BudgetExceeded: 422,
    errors.ContextOverflow: 422,
    errors.RateLimited: 429,
    errors.InvalidAgent: 501,
    errors.UnknownPrice: 501,
    errors.ModelError: 502,
    errors.AgentClosed: 503,
    errors.TurnLost: 503,
    errors.TurnWaitTimeout: 503,
    errors.ModelTimeout: 504,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientError:
    """The error that a client gets instead of an answer."""

    status: int
    type: str
    message: str
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The error as JSON."""
        error: dict[str, Any] = {"type": self.type, "message": self.message}
        if self.retry_after is not None:
            error["retry_after"] = self.retry_after
        return {"error": error}

    def all_headers(self) -> dict[str, str]:
        """All headers of the error response."""
        if self.retry_after is None:
            return dict(self.headers)
        return {**self.headers, "retry-after": str(math.ceil(self.retry_after))}


NODE_CLOSING = ClientError(
    status=503, type="Closing", message="this node is closing; try again when it is back"
)
TOO_MANY_CONNECTIONS = ClientError(
    status=503, type="TooManyConnections", message="this node has too many connections; try again later"
)
SLOW_HEAD = ClientError(
    status=408, type="RequestTimeout", message="the headers of the request did not arrive in time"
)
SLOW_BODY = ClientError(
    status=408,
    type="RequestTimeout",
    message="the body of the request did not arrive in time; nothing was stored",
    headers={"connection": "close"},
)
UNEXPECTED_ERROR = ClientError(
    status=500, type="InternalError", message="the request failed inside the node; its log says where"
)


class RequestRefused(Exception):
    """A request that is answered with an error."""

    def __init__(self, error: ClientError) -> None:
        super().__init__(error.message)
        self.error = error


def bad_request(message: str) -> RequestRefused:
    """A request whose sender must change it."""
    return RequestRefused(ClientError(status=400, type="BadRequest", message=message))


def client_error(error: Exception) -> ClientError:
    """The error for the client; details are logged."""
    if isinstance(error, RequestRefused):
        return error.error
    kind = type(error).__name__
    if isinstance(error, CostLimitExceeded):
        return ClientError(status=402, type=CostLimitExceeded.__name__, message=str(error.args[0]))
    # First, because it is also of the type that the hook raised.
    if isinstance(error, HookError) and not isinstance(error, UnknownPrice):
        if error.done is False:
            return ClientError(status=403, type="HookError", message="a hook of this node refused the turn")
    elif isinstance(error, StoreError):
        logger.error("memory failed: %s", error)
        return ClientError(
            status=503, type=kind, message="memory cannot be read or written now; try again later"
        )
    else:
        known = next((one for one in type(error).__mro__ if one in _STATUS), None)
        if known is not None:
            kind = known.__name__ if isinstance(error, HookError) else kind
            return ClientError(
                status=_STATUS[known], type=kind, message=str(error), retry_after=_retry_after(error)
            )
    log_unexpected(error)
    return UNEXPECTED_ERROR


def log_unexpected(error: BaseException) -> None:
    """Log where an error happened, without its text, which may quote a message."""
    chain: list[str] = []
    one: BaseException | None = error
    while one is not None and len(chain) < 5:
        chain.append(f"{type(one).__name__} at\n{''.join(traceback.format_tb(one.__traceback__))}")
        one = one.__cause__ or one.__context__
    logger.error("a request failed: %s", "caused by ".join(chain))


def _retry_after(error: Exception) -> float | None:
    seconds = error.retry_after if isinstance(error, RateLimited) else None
    return seconds if seconds is not None and 0 <= seconds < math.inf else None


async def encode_large_json(data: Any) -> bytes:
    """Encode a value of any size; other tasks get their turn while a large one is encoded."""
    if not _is_large(data):
        return encode_json(data)
    encoded, unyielded = bytearray(), 0
    for piece in _ENCODER.iterencode(data):
        encoded += piece.encode("utf-8", "backslashreplace")
        unyielded += len(piece)
        if unyielded >= YIELD_BYTES:
            unyielded = 0
            await anyio.lowlevel.checkpoint()
    return bytes(encoded)


def _is_large(data: Any) -> bool:
    """Tell whether there is more text in a value than is encoded at once."""
    waiting, size = [data], 0
    while waiting and size <= YIELD_BYTES:
        one = waiting.pop()
        if isinstance(one, str):
            size += len(one)
        elif isinstance(one, Mapping | list | tuple):
            size += len(one)
            waiting += [*one, *one.values()] if isinstance(one, Mapping) else one
    return size > YIELD_BYTES


def encode_json(data: Any) -> bytes:
    """Encode JSON as readable text; half a surrogate pair, which UTF-8 cannot hold, is escaped."""
    return _ENCODER.encode(data).encode("utf-8", "backslashreplace")
