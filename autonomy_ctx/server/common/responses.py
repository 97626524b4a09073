"""JSON and errors as responses, and the conversion of an error that a route raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.server.common.errors import (
    ClientError,
    RequestRefused,
    client_error,
    encode_json,
    encode_large_json,
)


def json_response(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A small value as JSON."""
    return Response(encode_json(data), status_code=status, headers=headers, media_type="application/json")


async def large_json_response(data: Any) -> Response:
    """A value of any size as JSON; while it is encoded, other tasks get their turn."""
    return Response(await encode_large_json(data), media_type="application/json")


def error_response(error: ClientError) -> Response:
    """An error as a client gets it."""
    return json_response(error.body(), status=error.status, headers=error.all_headers())


def answer_error(error: Exception) -> Response:
    """The response to a request that has failed; what a client must not know is logged."""
    return error_response(client_error(error))


def exception_handlers(
    answer: Callable[[Exception], Response],
    *errors: type[Exception],
    failed: str,
    wrong_method: str,
    no_route: str,
) -> dict[Any, Any]:
    """The handlers of an application: `answer` writes an error in the format of its API.

    `errors` are those that are raised on purpose, besides those of this library.
    """

    async def handle(request: Request, error: Exception) -> Response:
        return answer(error)

    async def handle_unexpected(request: Request, error: Exception) -> Response:
        # No more than that it failed; it is logged where it is caught in the end.
        return answer(RequestRefused(ClientError(status=500, type="InternalError", message=failed)))

    async def handle_no_route(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        kind, message = ("MethodNotAllowed", wrong_method) if status == 405 else ("NotFound", no_route)
        headers = dict(getattr(error, "headers", None) or {})
        return answer(RequestRefused(ClientError(status=status, type=kind, message=message, headers=headers)))

    known = dict.fromkeys((AutonomyCtxError, RequestRefused, *errors), handle)
    return {**known, HTTPException: handle_no_route, Exception: handle_unexpected}


EXCEPTION_HANDLERS = exception_handlers(
    answer_error,
    failed="the request failed inside the node",
    wrong_method="this method is not allowed; the header Allow lists those that are",
    no_route="there is nothing at this address",
)
