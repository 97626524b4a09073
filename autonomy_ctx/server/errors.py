"""Errors as an HTTP client sees them: a status and a sentence, and nothing that is not its business.

What is unexpected, and where memory lies, stays here: the client is told only that it failed.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autonomy_ctx.errors import (
    AgentClosed,
    BudgetExceeded,
    ConflictingMessage,
    ContextOverflow,
    HookError,
    InvalidAgent,
    InvalidKey,
    InvalidMessage,
    MessageTooLarge,
    ModelError,
    ModelTimeout,
    RateLimited,
    StoreError,
    UnknownAgent,
)

logger = logging.getLogger("autonomy_ctx.server")

# The first that fits counts.
_STATUS: tuple[tuple[type[Exception], int], ...] = (
    (MessageTooLarge, 413),
    (InvalidMessage, 400),
    (InvalidKey, 400),
    (UnknownAgent, 404),
    (ConflictingMessage, 409),
    (BudgetExceeded, 422),
    (ContextOverflow, 422),
    (RateLimited, 429),
    (InvalidAgent, 501),
    (ModelTimeout, 504),
    (ModelError, 502),
    (AgentClosed, 503),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """What a client is told instead of an answer."""

    status: int
    type: str
    message: str
    retry_after: float | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The failure as JSON."""
        error: dict[str, Any] = {"type": self.type, "message": self.message}
        if self.retry_after is not None:
            error["retry_after"] = self.retry_after
        return {"error": error}

    def all_headers(self) -> dict[str, str]:
        """What else is said in headers."""
        if self.retry_after is None:
            return dict(self.headers)
        return {**self.headers, "retry-after": str(math.ceil(self.retry_after))}


CLOSING = Failure(status=503, type="Closing", message="this node is closing; try again when it is back")
_UNEXPECTED = Failure(
    status=500, type="InternalError", message="the request failed inside the node; its log says where"
)


class Refused(Exception):
    """A request that is answered with a failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def bad_request(message: str) -> Refused:
    """A request whose sender must change it."""
    return Refused(Failure(status=400, type="BadRequest", message=message))


def failure_of(error: Exception) -> Failure:
    """What the client is told about an error; the rest is logged."""
    if isinstance(error, Refused):
        return error.failure
    kind = type(error).__name__
    # First, because it is also of the type that the hook raised.
    if isinstance(error, HookError):
        if error.done is False:
            return Failure(status=403, type="HookError", message="a hook of this node refused the turn")
    elif isinstance(error, StoreError):
        logger.error("memory failed: %s", error)
        return Failure(status=503, type=kind, message="memory cannot be read or written now; try again later")
    else:
        for known, status in _STATUS:
            if isinstance(error, known):
                return Failure(status=status, type=kind, message=str(error), retry_after=_retry_after(error))
    log_unexpected(error)
    return _UNEXPECTED


def log_unexpected(error: BaseException) -> None:
    """Say where it happened; not what the error says, which may quote a message."""
    chain: list[str] = []
    one: BaseException | None = error
    while one is not None and len(chain) < 5:
        chain.append(f"{type(one).__name__} at\n{''.join(traceback.format_tb(one.__traceback__))}")
        one = one.__cause__ or one.__context__
    logger.error("a request failed: %s", "caused by ".join(chain))


def _retry_after(error: Exception) -> float | None:
    seconds = error.retry_after if isinstance(error, RateLimited) else None
    return seconds if seconds is not None and 0 <= seconds < math.inf else None


def as_json(data: Any) -> bytes:
    """JSON as readable text; half a surrogate pair, which UTF-8 cannot hold, is escaped."""
    try:
        return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(data, separators=(",", ":")).encode()
