"""The routes of a node's HTTP API, and the gate before them."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.server.asked import Asked, parse_history, read_asked
from autonomy_ctx.server.events import EventStream, cancel_when_gone, reply_body
from autonomy_ctx.server.failures import CLOSING, Failure, Refused, as_json, failure_of
from autonomy_ctx.server.guard import OPEN, Guard
from autonomy_ctx.server.prometheus import MEDIA_TYPE, prometheus_text
from autonomy_ctx.server.underway import Underway

# How much JSON is made of a history before other tasks get their turn.
_PIECE = 64 * 1024


class Routes:
    """What the API does with a node."""

    def __init__(self, node: Node, *, keep_alive_seconds: float) -> None:
        self._node, self._keep_alive_seconds = node, keep_alive_seconds

    async def agents(self, request: Request) -> Response:
        """Names and descriptions."""
        listed = [{"name": agent.name, "description": agent.description} for agent in self._node.agents]
        return _json({"agents": listed})

    async def ask(self, request: Request) -> Response:
        """One turn, whole or as events."""
        agent = self._node.agent(request.path_params["name"])
        asked = await read_asked(request)
        if asked.stream:
            stream = agent.stream(asked.message, **asked.options())
            return EventStream(stream, keep_alive_seconds=self._keep_alive_seconds)
        return await _answered(agent, asked, request.receive)

    async def history(self, request: Request) -> Response:
        """The newest messages of a conversation."""
        agent = self._node.agent(request.path_params["name"])
        messages = await agent.history(**parse_history(request.query_params))
        written, since = [], 0
        for message in messages:
            written.append(as_json(message))
            since += len(written[-1])
            if since > _PIECE:
                since = 0
                await anyio.lowlevel.checkpoint()
        return Response(b'{"messages":[%b]}' % b",".join(written), media_type="application/json")

    async def health(self, request: Request) -> Response:
        """Whether the node can take turns now."""
        if await self._node.healthy():
            return _json({"status": "ok"})
        return _json({"status": "unavailable"}, status=503)

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        text = prometheus_text(await self._node.get_metrics())
        return Response(text, headers={"content-type": MEDIA_TYPE})


class Gate:
    """Lets requests in that may come in, keeps count of them, and lets no error out."""

    def __init__(self, app: ASGIApp, *, guard: Guard, underway: Underway) -> None:
        self._app, self._guard, self._underway = app, guard, underway

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        refusal = self._guard.refusal(scope["path"], scope["headers"])
        if refusal is None and self._underway.closing:
            refusal = CLOSING
        if refusal is not None:
            await _failed(refusal)(scope, receive, send)
            return
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        with self._underway.request() as cancelled:
            try:
                await self._app(scope, receive, noted)
            except ClientDisconnect:
                return
            except Exception as error:
                # It has been answered; whoever is outside would log its text, too.
                failure_of(error)
        if cancelled.cancelled_caught and not started:
            await _failed(CLOSING)(scope, receive, send)


def application(node: Node, *, guard: Guard, underway: Underway, keep_alive_seconds: float) -> Gate:
    """The whole API of a node."""
    routes = Routes(node, keep_alive_seconds=keep_alive_seconds)
    app = Starlette(
        routes=[
            Route("/agents", routes.agents),
            Route("/agents/{name}", routes.ask, methods=["POST"]),
            Route("/agents/{name}/history", routes.history),
            Route(OPEN, routes.health),
            Route("/metrics", routes.metrics),
        ],
        exception_handlers={
            AutonomyCtxError: _on_error,
            Refused: _on_error,
            HTTPException: _on_no_route,
            Exception: _on_unexpected,
        },
    )
    app.router.redirect_slashes = False
    return Gate(app, guard=guard, underway=underway)


async def _answered(agent: Agent, asked: Asked, receive: Receive) -> Response:
    """The whole turn; when the client goes away meanwhile, the turn ends there."""
    response = _failed(CLOSING)
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_gone, receive, group.cancel_scope)
        try:
            response = _json(reply_body(await agent.send(asked.message, **asked.options())))
        except Exception as error:
            response = _failed(failure_of(error))
        group.cancel_scope.cancel()
    return response


async def _on_error(request: Request, error: Exception) -> Response:
    return _failed(failure_of(error))


async def _on_unexpected(request: Request, error: Exception) -> Response:
    # Logged where it is caught in the end.
    return _failed(Failure(status=500, type="InternalError", message="the request failed inside the node"))


async def _on_no_route(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 404
    kind, message = {
        405: ("MethodNotAllowed", "this address takes other methods; the header Allow names them"),
    }.get(status, ("NotFound", "there is nothing at this address"))
    headers = dict(getattr(error, "headers", None) or {})
    return _failed(Failure(status=status, type=kind, message=message, headers=headers))


def _failed(failure: Failure) -> Response:
    return _json(failure.body(), status=failure.status, headers=failure.all_headers())


def _json(data: Any, *, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(as_json(data), status_code=status, headers=headers, media_type="application/json")
