"""Operations of an API: their routes, and the OpenAPI document that describes them."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from importlib import metadata
from typing import Any, NotRequired, TypedDict

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from autonomy_ctx.server.common.arguments import Argument, Declaration, Handler, Parameter
from autonomy_ctx.tools.schema import Shape, schema_of

_PATH_PARAMETER = re.compile(r"\{(\w+)\}")
# What a client of a tenant cannot choose in the query.
NEVER_IN_QUERY = frozenset({"scope", "agent", "request"})
CONVERSATION = Parameter(name="conversation", about=Argument("name of a conversation"), required=True)
_SCHEMAS = "#/components/schemas/"
_EVENTS = "server-sent events: text, thinking, call and result, and last done, whose data is this, or error"


class ErrorDetail(TypedDict):
    """The problem, and what to do about it."""

    type: str
    message: str
    retry_after: NotRequired[float]


class ErrorBody(TypedDict):
    """An error as every route answers it."""

    error: ErrorDetail


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A method of a path: who answers it, what it takes, and what it gives.

    `body` and `answer` are annotated types, `errors` the statuses that it has besides those of all
    operations.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler
    query: tuple[Parameter, ...]
    body: type | None
    answer: type
    streams: bool = False
    errors: tuple[int, ...] = ()


def operation(method: str, path: str, name: str, handler: Handler, errors: tuple[int, ...] = ()) -> Operation:
    """An operation as its handler declares it: a client chooses no scope, and the path names the agent."""
    declared = Declaration.of(handler)
    query: list[Parameter] = []
    if declared.body is None:
        query = [CONVERSATION] if declared.has_target else []
        query += [one for one in declared.parameters if one.name not in NEVER_IN_QUERY]
    return Operation(
        method=method,
        path=path,
        name=name,
        summary=declared.summary,
        handler=handler,
        query=tuple(query),
        body=declared.body,
        answer=declared.answer,
        errors=errors,
    )


def make_routes(operations: Sequence[Operation], admit: Callable[[Request], Awaitable[None]]) -> list[Route]:
    """A route for each path; every request is admitted before it is answered."""
    by_path: dict[str, dict[str, Operation]] = {}
    for operation in operations:
        by_path.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, _endpoint(methods, admit), methods=[*methods]) for path, methods in by_path.items()]


def _endpoint(methods: Mapping[str, Operation], admit: Callable[[Request], Awaitable[None]]) -> Handler:
    async def answer(request: Request) -> Response:
        await admit(request)
        # Where there is a GET, there is a HEAD.
        return await methods["GET" if request.method == "HEAD" else request.method].handler(request)

    return answer


def openapi_document(
    operations: Sequence[Operation],
    *,
    title: str,
    errors: Sequence[int],
    security_schemes: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """The operations as an OpenAPI 3.1 document; `errors` are the statuses that all of them have.

    A client signs in by one of the `security_schemes`; without any, it need not.
    """
    types = {ErrorBody, *(one.answer for one in operations), *(one.body for one in operations if one.body)}
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe(operation, errors)
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": metadata.version("autonomy-ctx")},
        "paths": paths,
        "security": [{name: []} for name in security_schemes],
        "components": {
            "securitySchemes": {name: dict(scheme) for name, scheme in security_schemes.items()},
            "schemas": {
                kind.__name__: schema_of(Shape(kind))
                for kind in sorted(types, key=lambda kind: kind.__name__)
            },
        },
    }


def _describe(operation: Operation, errors: Sequence[int]) -> dict[str, Any]:
    content: dict[str, Any] = _json_content(operation.answer)
    if operation.streams:
        content["text/event-stream"] = {"schema": {"type": "string", "description": _EVENTS}}
    answers: dict[str, Any] = {"200": {"description": operation.summary, "content": content}}
    for status in sorted({*errors, *operation.errors}):
        answers[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": _json_content(ErrorBody),
        }
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [
            *(
                {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
                for name in _PATH_PARAMETER.findall(operation.path)
            ),
            *map(_describe_parameter, operation.query),
        ],
        "responses": answers,
    }
    if operation.body is not None:
        described["requestBody"] = {"required": True, "content": _json_content(operation.body)}
    return described


def _describe_parameter(parameter: Parameter) -> dict[str, Any]:
    most = parameter.about.most
    return {
        "name": parameter.name,
        "in": "query",
        "required": parameter.required,
        "description": parameter.about.description,
        "schema": schema_of(Shape(parameter.type)) | ({} if most is None else {"maximum": most}),
    }


def _json_content(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"{_SCHEMAS}{kind.__name__}"}}}
