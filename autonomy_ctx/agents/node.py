"""A node hosts agents and owns what they share: memory, background work and servers."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self, TypeAlias

import anyio

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.background import AsyncResource, Background, close_resources
from autonomy_ctx.errors import AgentClosed, InvalidAgent, UnknownAgent
from autonomy_ctx.memory.memory import Memory

logger = logging.getLogger("autonomy_ctx.agents")

# What a node opens while it runs, such as an HTTP server, and closes before its agents.
Serve: TypeAlias = Callable[["Node"], AbstractAsyncContextManager[Any]]


class Node(AsyncResource):
    """Hosts agents that share memory and background work. Use `async with Node(...)` or `Node.start(main)`.

    `memory` is a `Memory`, which the node does not close, or a URL such as `sqlite:///agents.db`. Without it,
    conversations are lost when the node is closed. `serve` is a server to start, such as `http(port=8000)`.
    """

    def __init__(
        self, name: str = "node", *, memory: Memory | str | None = None, serve: Serve | None = None
    ) -> None:
        self.name = name
        self._owns_memory = not isinstance(memory, Memory)
        self.memory = memory if isinstance(memory, Memory) else Memory(memory)
        self.background = Background()
        self._serve = serve
        self._agents: dict[str, Agent] = {}
        self._servers = AsyncExitStack()
        self._stopped = anyio.Event()
        self._closed = False

    @classmethod
    def start(
        cls,
        main: Callable[[Self], Awaitable[Any]],
        *,
        name: str = "node",
        memory: Memory | str | None = None,
        serve: Serve | None = None,
        backend: str = "asyncio",
    ) -> None:
        """Run an application until it is stopped: by Ctrl-C, a TERM signal or `node.stop()`.

        `main` gets the node and starts its agents. The node keeps running after `main` has returned. An error
        in `main` stops the node and is raised here.
        """

        async def run() -> None:
            # The node is made inside the event loop, like everything that it owns.
            await cls(name, memory=memory, serve=serve).run(main)

        anyio.run(run, backend=backend)

    async def run(self, main: Callable[[Self], Awaitable[Any]]) -> None:
        """Run an application as `start` does, for an existing node and inside a running event loop."""
        failed: list[Exception] = []
        async with self, _stop_at_signals(self) as scope:
            with scope:
                try:
                    await main(self)
                except Exception as error:
                    # Raised after everything is closed, and not inside an exception group.
                    failed.append(error)
                    self.stop()
                await self.wait_stopped()
        if failed:
            raise failed[0]

    async def serve(self, serve: Serve) -> None:
        """Start one more server for this open node, such as `http(port=8000)`. It is closed with the node."""
        if self._closed:
            raise AgentClosed(self.name)
        await self._servers.enter_async_context(serve(self))

    @property
    def closed(self) -> bool:
        """Tell whether the node is closed and takes no more turns."""
        return self._closed

    @property
    def agents(self) -> list[Agent]:
        """The agents of this node, in the order in which they were started."""
        return list(self._agents.values())

    def agent(self, name: str) -> Agent:
        """The agent with this name. Raises `UnknownAgent` if there is none."""
        if name not in self._agents:
            raise UnknownAgent(name, known=list(self._agents))
        return self._agents[name]

    def host(self, agent: Agent) -> None:
        """Add an agent under its name. `Agent.start` calls this."""
        if self._closed:
            raise AgentClosed(self.name)
        if agent.name in self._agents:
            raise InvalidAgent(
                agent.name, "is already hosted by this node; close it first, or take another name"
            )
        self._agents[agent.name] = agent

    def release(self, agent: Agent) -> None:
        """Remove an agent. `agent.close()` calls this."""
        if self._agents.get(agent.name) is agent:
            del self._agents[agent.name]

    async def healthy(self) -> bool:
        """Tell whether a write to memory works now."""
        return not self._closed and await self.memory.health_check()

    async def get_metrics(self) -> dict[str, Mapping[str, Any]]:
        """Counters of memory (under `memory`) and of each agent (under `agent:NAME`)."""
        counts: dict[str, Mapping[str, Any]] = {"memory": await self.memory.get_metrics()}
        return counts | {f"agent:{agent.name}": agent.get_metrics() for agent in self.agents}

    def stop(self) -> None:
        """Stop the node: `start`, `run` and `wait_stopped` return."""
        self._stopped.set()

    async def wait_stopped(self) -> None:
        """Wait until the node is stopped."""
        await self._stopped.wait()

    async def close(self) -> None:
        """Close the servers, the agents, and what they share. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        self.stop()
        # Summaries are ended together with requests and turns, not after them.
        self.background.begin_closing()
        agents = self.agents
        # Each step runs even if another one fails, because no other code would do it. The order is reversed.
        with anyio.CancelScope(shield=True):
            async with AsyncExitStack() as steps:
                if self._owns_memory:
                    steps.push_async_callback(self.memory.close)
                steps.push_async_callback(
                    close_resources, [model for agent in agents for model in agent.models]
                )
                steps.push_async_callback(self.background.aclose)
                steps.push_async_callback(_close_all, agents)
                steps.push_async_callback(self._servers.aclose)

    async def __aenter__(self) -> Self:
        if self._owns_memory:
            await self.memory.__aenter__()
        if self._serve is not None:
            try:
                await self.serve(self._serve)
            except BaseException:
                await self.close()
                raise
        return self

    def __repr__(self) -> str:
        return f"Node({self.name!r}, agents={list(self._agents)})"


async def _close_all(agents: Sequence[Agent]) -> None:
    """Close agents side by side: each may take a while to end its turns."""
    async with anyio.create_task_group() as group:
        for agent in agents:
            group.start_soon(_close_logged, agent)


async def _close_logged(agent: Agent) -> None:
    """Close an agent. If that fails, the others must still be closed."""
    try:
        await agent.close()
    except Exception:
        logger.exception("agent %r did not close properly", agent.name)


@asynccontextmanager
async def _stop_at_signals(node: Node) -> AsyncIterator[anyio.CancelScope]:
    """A cancel scope that a signal cancels, so that `main` ends too."""
    scope = anyio.CancelScope()

    async def watch() -> None:
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async for _ in signals:
                node.stop()
                scope.cancel()
                # From here on, a second signal has its default effect.
                return

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        try:
            yield scope
        finally:
            group.cancel_scope.cancel()
