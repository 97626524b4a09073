"""Two tenants of an application with keys, real HTTP by uvicorn, and a request of each kind."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import uvicorn
from server.inspecting import client_of
from starlette.requests import Request

from autonomy_ctx import Agent, Memory, Node
from autonomy_ctx.testing import ScriptedModel

KEYS = {"key-of-ana": "ana", "key-of-bob": "bob"}
SECRET = "ferry"


def scope_of_key(request: Request) -> str | None:
    """What an application does: the header says who it is."""
    return KEYS.get(request.headers.get("x-api-key", ""))


class PromptServer(uvicorn.Server):
    """uvicorn that ends when it is told, without its own pauses of a tenth of a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.told_to_end = anyio.Event()

    async def main_loop(self) -> None:
        await self.on_tick(0)
        await self.told_to_end.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for listener in sockets or ():
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with anyio.fail_after(30):
            while self.server_state.connections or self.server_state.tasks:
                await anyio.lowlevel.checkpoint()
        await self.lifespan.shutdown()


@asynccontextmanager
async def uvicorn_client(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    """An application behind uvicorn, with its lifespan, and a client of tenant ana."""
    server = PromptServer(uvicorn.Config(app, log_config=None, access_log=False, lifespan="on"))
    # With its protocol: asyncio sends small pieces at once only where it knows that it is TCP.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        async with anyio.create_task_group() as group:
            # Whoever connects before it has started waits in the queue of the socket.
            group.start_soon(partial(server.serve, sockets=[listening]))
            async with client_of(f"http://127.0.0.1:{port}") as client:
                client.headers["x-api-key"] = "key-of-ana"
                yield client
            server.told_to_end.set()


@dataclass(frozen=True)
class Content:
    """What a tenant has, by the names that a client gives."""

    message_id: str
    turn: str
    fact_id: str
    old_fact_id: str


async def open_node(memory: Memory | str | None = None, *, model: Any = None) -> Node:
    node = await Node(memory=memory).__aenter__()
    model = model or ScriptedModel(f"The {SECRET} leaves at 9:40.")
    await Agent.start(node=node, name="helper", instructions="Be brief.", description="Helps.", model=model)
    return node


async def add_content(node: Node, scope: str, conversation: str = "trip") -> Content:
    """A conversation with a turn, a fact and a pin."""
    agent = node.agent("helper")
    place: dict[str, Any] = {"scope": scope, "conversation": conversation}
    reply = await agent.send(f"When is the {SECRET}?", **place)
    window = await agent.read(**place)
    message_id = window.entries[0].message.id
    assert message_id is not None
    fact = await agent.facts(**place).add("goal", f"Take the {SECRET}.")
    old = await agent.facts(**place).add("value", f"The {SECRET} has room for bikes.")
    assert await agent.pin(message_id, **place)
    return Content(message_id, reply.turn, fact.id, old.id)


@dataclass(frozen=True)
class Asked:
    """The arguments of one request."""

    query: dict[str, Any] = field(default_factory=dict)
    body: dict[str, Any] | None = None


def requests_of(content: Content, conversation: str = "trip") -> dict[str, Asked]:
    """A request for each operation, by its name, in an order in which each finds what it needs."""
    there = {"conversation": conversation}
    message, fact = {"message_id": content.message_id}, {"fact_id": content.fact_id}
    return {
        "listAgents": Asked(),
        "listConversations": Asked({"limit": 5}),
        "getConversation": Asked(there),
        "readHistory": Asked({**there, "before": 9, "after": 0, "limit": 5, "max_characters": 100}),
        "readMessage": Asked({**there, "position": 1}),
        "search": Asked({"query": SECRET, **there, "limit": 5}),
        "listTurns": Asked({**there, "limit": 5}),
        "explainTurn": Asked({**there, "turn": content.turn, "step": 1}),
        "listFacts": Asked(there),
        "changeFact": Asked(body={**there, "action": "replace", "text": "Take the train.", **fact}),
        "removeFact": Asked({**there, "fact_id": content.old_fact_id}),
        "unpinMessage": Asked({**there, **message}),
        "pinMessage": Asked(body={**there, **message}),
        "takeTurn": Asked(body={**there, "message": "And the train?"}),
        "undo": Asked(body={**there, "what": "turn"}),
        "deleteMessage": Asked({**there, **message}),
        "deleteConversation": Asked(there),
    }


def schema_problem(value: Any, schema: Any, path: str = "$") -> str | None:
    """Where a value is not what a schema says; as much of JSON Schema as the document uses."""
    if "anyOf" in schema:
        found = [schema_problem(value, one, path) for one in schema["anyOf"]]
        return None if None in found else f"{path}: none of {found}"
    if "enum" in schema and value not in schema["enum"]:
        return f"{path}: {value!r} is not in {schema['enum']}"
    kinds: dict[str, Any] = {
        "string": str,
        "integer": int,
        "number": int | float,
        "boolean": bool,
        "null": type(None),
        "array": list,
        "object": dict,
    }
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return f"{path}: {value!r} is no {schema['type']}"
    if isinstance(value, list) and "items" in schema:
        found = [schema_problem(one, schema["items"], f"{path}[{at}]") for at, one in enumerate(value)]
        return next((one for one in found if one), None)
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"]
        missing = [name for name in schema.get("required", ()) if name not in value]
        unknown = [name for name in value if name not in known] if not schema["additionalProperties"] else []
        if missing or unknown:
            return f"{path}: missing {missing}, unknown {unknown}"
        found = [
            schema_problem(value[name], known[name], f"{path}.{name}") for name in known if name in value
        ]
        return next((one for one in found if one), None)
    return None
