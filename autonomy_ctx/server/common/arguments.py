"""Reads and checks the arguments of a request, and finds the conversation that it is about.

A method with `@answers` is a handler of requests: its parameters say which arguments a request has, and the
OpenAPI document says the same.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Annotated, Any, NamedTuple, Self, TypeVar, get_args, get_origin, get_type_hints

import anyio
from starlette.requests import Request
from starlette.responses import Response

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.inspection.report import to_json
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import MAX_POSITION, Key
from autonomy_ctx.server.common.errors import SLOW_BODY, RequestRefused, bad_request
from autonomy_ctx.server.common.responses import large_json_response
from autonomy_ctx.tools.schema import ObjectKind, Shape

T = TypeVar("T")
Handler = Callable[[Request], Coroutine[Any, Any, Response]]

BODY_LIMIT = 64 * 1024
EMPTY: Mapping[str, str] = MappingProxyType({})


class Arguments:
    """The arguments of a request, read inside `with`; at its end, one that was not read is an error.

    `fixed` are arguments that the client may not choose; sending one of them is an error.
    """

    def __init__(
        self, values: Iterable[tuple[str, Any]], *, where: str, fixed: Mapping[str, str] = EMPTY
    ) -> None:
        self._where, self._fixed = where, fixed
        self._values: dict[str, Any] = {}
        for name, value in values:
            if name in self._values:
                raise bad_request(f"the {where} has `{name[:40]}` twice")
            self._values[name] = value
        # In the order in which they were asked for.
        self._known: dict[str, None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        unknown = next((name for name in self._values if name not in self._known), None)
        if kind is None and unknown is not None:
            known = ", ".join(self._known) or "nothing"
            raise bad_request(f"the {self._where} has an unknown `{unknown[:40]}`; it takes {known}")

    def text(self, name: str, *, limit: int | None = None) -> str:
        """A required text."""
        return self.required(name, self.optional_text(name, limit=limit))

    def required(self, name: str, value: T | None) -> T:
        """A value that must have been given."""
        if value is None:
            raise bad_request(f"the {self._where} has no `{name}`")
        return value

    def optional_text(self, name: str, *, limit: int | None = None) -> str | None:
        """A text; None when it is not given."""
        if name in self._fixed:
            return self._fixed[name]
        self._known[name] = None
        value = self._values.get(name)
        if not isinstance(value, str | None):
            raise bad_request(f"`{name}` must be a string")
        if limit is not None and len(value or "") > limit:
            raise bad_request(f"`{name}` may have at most {limit:,} characters")
        return value

    def number(self, name: str, default: T, *, least: int = 1, most: int = MAX_POSITION) -> int | T:
        """A whole number within bounds, or the default."""
        text = self.optional_text(name)
        if text is None:
            return default
        value = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1
        if not least <= value <= most:
            raise bad_request(f"`{name}` must be a whole number from {least:,} to {most:,}")
        return value

    def key(self) -> Key:
        """The conversation of the request; without an agent, a conversation that belongs to no agent."""
        return Key(self.optional_text("agent") or "", self.text("scope"), self.text("conversation"))


class RequestReader:
    """Reads requests, and finds the memory and the agent that they name.

    An operator may name any agent and any scope of a memory.
    """

    def __init__(self, memory: Memory, node: Node | None, *, body_seconds: float) -> None:
        self.memory, self.node, self._body_seconds = memory, node, body_seconds

    def query(self, request: Request) -> Arguments:
        """The arguments in the address of a request."""
        return read_query(request, fixed=self.fixed(request))

    async def body(self, request: Request) -> Arguments:
        """The arguments in the JSON body of a request."""
        return await read_body(request, seconds=self._body_seconds, fixed=self.fixed(request))

    def fixed(self, request: Request) -> Mapping[str, str]:
        """The arguments that the client may not choose."""
        return EMPTY

    def view(self, agent: str) -> Memory:
        """The memory of an agent, also of one that does not run."""
        return self.memory.for_agent(agent)

    def agent(self, name: str) -> Agent | None:
        """The agent of a name, if it runs in this process."""
        hosted = [] if self.node is None else self.node.agents
        return next((agent for agent in hosted if agent.memory.agent == name), None)


class ConversationTarget(NamedTuple):
    """The conversation that a request names, in the memory of its agent."""

    memory: Memory
    scope: str
    conversation: str


@dataclass(frozen=True, slots=True)
class Argument:
    """A parameter as its annotation describes it, with the bounds of a number or a text."""

    description: str = ""
    least: int = 1
    most: int | None = None
    max_characters: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """An argument of a request, as a handler declares it."""

    name: str
    type: type = str
    default: Any = None
    required: bool = False
    about: Argument = Argument()

    @classmethod
    def of(cls, declared: inspect.Parameter, hint: Any) -> Parameter:
        """A parameter of a handler with its annotation."""
        kind, about = get_args(hint) if get_origin(hint) is Annotated else (hint, Argument())
        kind = int if int in (kind, *get_args(kind)) else str
        if declared.default is declared.empty:
            return cls(name=declared.name, type=kind, about=about, required=True)
        return cls(name=declared.name, type=kind, about=about, default=declared.default)

    def read(self, given: Arguments) -> Any:
        """The argument of a request, or the default."""
        if self.type is str:
            value: Any = given.optional_text(self.name, limit=self.about.max_characters)
        else:
            most = self.about.most or MAX_POSITION
            value = given.number(self.name, self.default, least=self.about.least, most=most)
        return given.required(self.name, value) if self.required else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The arguments that a handler declares, in the query or in a JSON body, and its answer."""

    summary: str
    has_target: bool
    parameters: tuple[Parameter, ...]
    body: type | None
    answer: type

    @classmethod
    def of(cls, handler: Callable[..., Any]) -> Declaration:
        """The declaration of a handler, from its docstring and its annotations."""
        work = inspect.unwrap(handler)
        hints = get_type_hints(work, include_extras=True)
        answer, has_target = hints.pop("return"), hints.pop("target", None) is not None
        declared, body = inspect.signature(work).parameters, hints.pop("body", None)
        found = [Parameter.of(declared[name], hint) for name, hint in hints.items()]
        if body is not None:
            kind = Shape(body).kind
            assert isinstance(kind, ObjectKind)
            found = [Parameter(name=one.name, required=one.required) for one in kind.fields]
        return cls(
            summary=(inspect.getdoc(work) or "").partition("\n\n")[0],
            has_target=has_target,
            parameters=tuple(found),
            body=body,
            answer=answer,
        )


def answers(work: Callable[..., Coroutine[Any, Any, Any]]) -> Callable[[Any, Request], Any]:
    """Make a method of an object with `requests` a handler: what it returns is the answer, as JSON.

    `target` is the conversation of the request, `body` the texts of its JSON body; other parameters are
    arguments in its address.
    """
    declared = Declaration.of(work)

    @wraps(work)
    async def handle(self: Any, request: Request) -> Response:
        requests: RequestReader = self.requests
        with await requests.body(request) if declared.body else requests.query(request) as given:
            key = given.key() if declared.has_target else None
            values = {one.name: one.read(given) for one in declared.parameters}
        values = {"body": values} if declared.body else values
        if key is not None:
            values["target"] = ConversationTarget(requests.view(key.agent), *key[1:])
        return await large_json_response(to_json(await work(self, **values)))

    return handle


def read_query(request: Request, *, fixed: Mapping[str, str] = EMPTY) -> Arguments:
    """The arguments in the address of a request."""
    return Arguments(request.query_params.multi_items(), where="query", fixed=fixed)


class BodyTooLarge(Exception):
    """A body has more bytes than are read of one."""


def is_json(request: Request) -> bool:
    """Tell whether a request says that its body is JSON.

    A form of a web page can send anything but this type without asking the server first.
    """
    return request.headers.get("content-type", "").partition(";")[0].strip().lower() == "application/json"


def is_encoded(request: Request) -> bool:
    """Tell whether a body is compressed."""
    return request.headers.get("content-encoding", "identity").strip().lower() != "identity"


async def read_bytes(request: Request, *, most: int, seconds: float) -> bytes:
    """Read a body; raise `BodyTooLarge`, or `TimeoutError` when it does not come in time."""
    length = request.headers.get("content-length", "0")
    if length.isdigit() and int(length[:18]) > most:
        raise BodyTooLarge
    # Joined at the end: a body that grows piece by piece is copied again and again.
    pieces: list[bytes] = []
    size = 0
    with anyio.fail_after(seconds):
        async for piece in request.stream():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise BodyTooLarge
    return b"".join(pieces)


async def read_body(request: Request, *, seconds: float, fixed: Mapping[str, str] = EMPTY) -> Arguments:
    """Read the arguments in the JSON body of a request."""
    if not is_json(request):
        raise bad_request("send JSON, with the header `content-type: application/json`")
    try:
        data = json.loads(await read_bytes(request, most=BODY_LIMIT, seconds=seconds))
    except BodyTooLarge:
        raise bad_request(f"a body may have at most {BODY_LIMIT:,} bytes") from None
    except TimeoutError:
        raise RequestRefused(SLOW_BODY) from None
    except (ValueError, RecursionError):
        raise bad_request("the body is not JSON") from None
    if not isinstance(data, dict):
        raise bad_request("the body must be a JSON object")
    return Arguments(data.items(), where="body", fixed=fixed)
