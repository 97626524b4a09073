"""JSON and errors as responses, and the conversion of an error that a route raises."""

from __future__ import annotations

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


async def handle_error(request: Request, error: Exception) -> Response:
    """Answer with an error that was raised on purpose."""
    return error_response(client_error(error))


async def handle_unexpected(request: Request, error: Exception) -> Response:
    """Answer with no more than that it failed; it is logged where it is caught in the end."""
    return error_response(
        ClientError(status=500, type="InternalError", message="the request failed inside the node")
    )


async def handle_no_route(request: Request, error: Exception) -> Response:
    """Answer at an address, or with a method, that there is not."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    kind, message = {
        405: ("MethodNotAllowed", "this address takes other methods; the header Allow names them"),
    }.get(status, ("NotFound", "there is nothing at this address"))
    headers = dict(getattr(error, "headers", None) or {})
    return error_response(ClientError(status=status, type=kind, message=message, headers=headers))


EXCEPTION_HANDLERS: dict[Any, Any] = {
    AutonomyCtxError: handle_error,
    RequestRefused: handle_error,
    HTTPException: handle_no_route,
    Exception: handle_unexpected,
}
