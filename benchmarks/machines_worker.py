"""One of the processes that `machines` kills: an agent that answers what comes over a socket.

Each line that comes is a turn, each line that goes what became of one: acknowledged, with the ids of the
messages that answer it, or the name of an error. All are forked from a process that has imported this.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import traceback
from contextvars import ContextVar
from typing import Any

from autonomy_ctx import Agent, AutonomyCtxError, Memory, Node
from autonomy_ctx.compaction.word_tables import load_lazy_parts
from autonomy_ctx.messages import Summary
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.models.model import Model

AGENT, SCOPE = "orders", "shop"
FLOOR, CEILING, HARD = 2, 6, 12
# Short, so that those of killed processes are taken over within the minute.
TURN_LEASE_SECONDS, SUMMARY_LEASE_SECONDS = 1.0, 2.0
MODEL_SECONDS = 2.0

# Besides this module, what the first turn of a process would import.
PRELOAD = (
    "anyio._backends._asyncio",
    "autonomy_ctx.formats.eventstream",
    "autonomy_ctx.formats.openai",
    "autonomy_ctx.knowledge.knowledge",
    "autonomy_ctx.memory.postgres.store",
    "autonomy_ctx.models.client",
    "autonomy_ctx.models.streaming",
    "autonomy_ctx.tools.arguments",
    "autonomy_ctx.tools.builtin.ask_user",
    "autonomy_ctx.tools.builtin.lookup",
    "autonomy_ctx.tools.builtin.time",
    "autonomy_ctx.tools.schema",
    "httpcore",
    "httpx",
    "trio",
)

# The turn that runs, and which attempt at it; and the largest window that a model was shown in it.
_attempt: ContextVar[str] = ContextVar("attempt", default="none")
_windows: ContextVar[list[int]] = ContextVar("windows")


class NamedModel:
    """A model that is told who asks, and that notes how many messages it is shown."""

    takes_messages = True

    def __init__(self, url: str) -> None:
        self.name, self.context_window = "turn", None
        self._model = Model("turn", base_url=f"{url}/v1", api_key="none", timeout=MODEL_SECONDS)

    async def complete_chat(self, messages: Any, *given: Any, **options: Any) -> Any:
        verbatim = (
            one for one in messages if one.role is not ChatRole.SYSTEM and not isinstance(one, Summary)
        )
        _windows.get().append(sum(1 for _ in verbatim))
        return await self._model.complete_chat(messages, *given, user=_attempt.get(), **options)

    async def close(self) -> None:
        await self._model.close()


async def find_order(batch: int, limit: int = 5) -> str:
    """Find an order.

    Args:
        batch: Its batch.
        limit: The most to find.
    """
    await asyncio.sleep(0.005)
    return f"[{_attempt.get()}] Order {batch} is in depot {limit}."


async def start_agent(node: Node, model_url: str) -> Agent:
    """The agent that all processes have."""
    return await Agent.start(
        node=node,
        name=AGENT,
        instructions="You look after the orders of a shop.",
        model=NamedModel(model_url),
        tools=[find_order],
        context_summary={
            "floor": FLOOR,
            "ceiling": CEILING,
            "hard_limit": HARD,
            "lease": SUMMARY_LEASE_SECONDS,
            "timeout": MODEL_SECONDS,
            "model": Model(
                "summary", base_url=f"{model_url}/v1", api_key="none", timeout=MODEL_SECONDS, retries=0
            ),
        },
        turn_lease_seconds=TURN_LEASE_SECONDS,
    )


async def take_turn(agent: Agent, asked: dict[str, str], writer: asyncio.StreamWriter) -> None:
    """Take a turn, and tell what became of it."""
    _attempt.set(asked["attempt"])
    _windows.set([])
    told: dict[str, Any] = {"attempt": asked["attempt"]}
    try:
        reply = await agent.send(
            asked["text"], scope=SCOPE, conversation=asked["conversation"], message_id=asked["turn"]
        )
        told["ids"] = [message.id for message in reply.messages]
    except AutonomyCtxError as error:
        told["error"] = type(error).__name__
    except Exception:
        told["unexpected"] = traceback.format_exc()
    told["window"] = max(_windows.get(), default=0)
    writer.write(json.dumps(told).encode() + b"\n")


async def serve(connection: socket.socket, url: str, model_url: str) -> None:
    """Take all turns that come, until no more come."""
    reader, writer = await asyncio.open_connection(sock=connection)
    async with (
        Memory(url) as memory,
        Node("worker", memory=memory) as node,
        await start_agent(node, model_url) as agent,
        asyncio.TaskGroup() as group,
    ):
        writer.write(b"{}\n")
        while line := await reader.readline():
            group.create_task(take_turn(agent, json.loads(line), writer))
    writer.close()
    await writer.wait_closed()


def run(connection: socket.socket, log: str, url: str, model_url: str) -> None:
    """What the process runs."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    asyncio.run(serve(connection, url, model_url))


load_lazy_parts()
