"""Reads and checks the arguments of a request, and finds the conversation that it is about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, Self, TypeVar

import anyio
from starlette.requests import Request

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import MAX_POSITION, Key
from autonomy_ctx.server.common.errors import SLOW_BODY, RequestRefused, bad_request

T = TypeVar("T")

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
        self._known: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        unknown = next((name for name in self._values if name not in self._known), None)
        if kind is None and unknown is not None:
            known = ", ".join(self._known) or "nothing"
            raise bad_request(f"the {self._where} has an unknown `{unknown[:40]}`; it takes {known}")

    def text(self, name: str, *, limit: int | None = None) -> str:
        """A required text."""
        value = self.optional_text(name, limit=limit)
        if value is None:
            raise bad_request(f"the {self._where} has no `{name}`")
        return value

    def optional_text(self, name: str, *, limit: int | None = None) -> str | None:
        """A text; None when it is not given."""
        if name in self._fixed:
            return self._fixed[name]
        self._known.append(name)
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


class RequestReader(Protocol):
    """Reads requests, and finds the memory and the agent that they name."""

    def query(self, request: Request) -> Arguments:
        """The arguments in the address of a request."""

    async def body(self, request: Request) -> Arguments:
        """The arguments in the JSON body of a request."""

    def view(self, agent: str) -> Memory:
        """The memory of an agent."""

    def agent(self, name: str) -> Agent | None:
        """The agent of a name, if it runs in this process."""


class OperatorRequests:
    """Requests of an operator, who may name any agent and any scope of a memory."""

    def __init__(self, memory: Memory, node: Node | None, *, body_seconds: float) -> None:
        self._memory, self._node, self._body_seconds = memory, node, body_seconds

    def query(self, request: Request) -> Arguments:
        """The arguments in the address of a request."""
        return read_query(request)

    async def body(self, request: Request) -> Arguments:
        """The arguments in the JSON body of a request."""
        return await read_body(request, seconds=self._body_seconds)

    def view(self, agent: str) -> Memory:
        """The memory of an agent, also of one that does not run."""
        return self._memory.for_agent(agent)

    def agent(self, name: str) -> Agent | None:
        """The agent of a name, if it runs in this process."""
        hosted = [] if self._node is None else self._node.agents
        return next((agent for agent in hosted if agent.memory.agent == name), None)


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
