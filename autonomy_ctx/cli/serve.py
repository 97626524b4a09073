"""`autonomy-ctx serve`: the agents of a Python file, or an endpoint, until Ctrl-C or a TERM signal."""

from __future__ import annotations

import inspect
import json
import secrets
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import quote

import anyio
import typer
from rich.text import Text

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.cli.endpoint import EndpointOptions, ServerOptions, serve_endpoint
from autonomy_ctx.cli.output import Output, WrongInput, clean_line
from autonomy_ctx.cli.python_file import MODULE, load_objects, name_options, split_place, takes_argument
from autonomy_ctx.cli.target import MEMORY_VARIABLE, TOKEN_VARIABLE, memory_url
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.server.node.http import HttpServer, http

MAIN = "main"
WHAT = "Node, async function main(node) or Agent"

Main: TypeAlias = Callable[[Any], Awaitable[Any]]


def serve(
    output: Output,
    place: Annotated[str | None, typer.Argument(metavar="FILE[:NAME]")] = None,
    upstream: Annotated[str | None, typer.Option(metavar="URL")] = None,
    *,
    server: ServerOptions,
    endpoint: EndpointOptions,
) -> None:
    """Serve the agents of a Python file over HTTP, and a page that shows their conversations.

    Ctrl-C or a TERM signal ends the server; running turns get a moment to finish. With --memory, agents and
    `main` use that database; a Node has its own. The page is the inspector; its address contains the token.

    With --upstream and no file, it is an endpoint: clients change only their base URL. Their messages
    are stored, and their model is sent a context that stays small.

    Args:
        place: A Python file with a Node, a main(node), or agents at its top level; the file is executed.
        upstream: Serve the API of OpenAI or Anthropic in front of this server, such as
            https://api.openai.com/v1.
    """
    output.log_warnings()
    if upstream is not None:
        if place is not None:
            raise WrongInput(f"--upstream serves no agents; leave out {place}, or --upstream")
        anyio.run(serve_endpoint, output, upstream, server, endpoint)
        return
    if place is None:
        raise WrongInput("name a Python file with agents, or give --upstream URL")
    if given := name_options(asdict(endpoint)):
        raise WrongInput(f"give {' and '.join(given)} only with --upstream; a Python file sets this itself")
    token, memory = server.token, server.memory
    chosen = token or secrets.token_urlsafe(24)
    serving = http(
        host=server.host,
        port=server.port,
        token=chosen,
        idle_seconds=server.idle_seconds,
        inspector="write" if server.write else "read",
    )
    service, shown = load_service(place, memory), None if token else chosen

    async def main(node: Node) -> None:
        await node.serve(serving)
        print_address(output, serving, shown)
        await service.main(node)
        print_agents(output, serving, shown, node.agents)

    anyio.run(run_service, service, main)


class Service(NamedTuple):
    """The service of a file: a node, what starts its agents, and memories that nobody else closes."""

    node: Node
    main: Main
    memories: Sequence[Memory] = ()


async def run_service(service: Service, main: Main) -> None:
    """Run the node until it is stopped."""
    async with AsyncExitStack() as stack:
        for memory in service.memories:
            await stack.enter_async_context(memory)
        await service.node.run(main)


def load_service(place: str, memory: str | None) -> Service:
    """Find the service of a file. Its Node goes before its `main`, and that before its agents."""
    _, name = split_place(place)
    found = load_objects(place, is_servable if name else is_default_servable, WHAT)
    nodes = [one for one in found.values() if isinstance(one, Node)]
    mains = [one for one in found.values() if inspect.iscoroutinefunction(one)]
    agents = [one for one in found.values() if isinstance(one, Agent)]
    if len(nodes) > 1:
        names = [key for key, one in found.items() if isinstance(one, Node)]
        raise WrongInput(f"{place} has several nodes; name one: {place}:{' or '.join(names)}")
    if nodes:
        [node] = nodes
        if memory is not None:
            raise WrongInput(
                f"the Node of {place} has a memory of its own; leave out --memory and unset {MEMORY_VARIABLE}"
            )
        own = [agent for agent in agents if agent.options.node is node and agent not in node.agents]
        return Service(node, mains[0] if mains else partial(host_agents, own))
    if mains:
        return Service(Node(memory=None if memory is None else memory_url(memory)), mains[0])
    if memory is not None:
        return Service(Node(memory=memory_url(memory)), partial(start_copies, agents))
    memories = list({id(agent.memory.store): agent.memory for agent in agents}.values())
    node = Node(memory=Memory(store=agents[0].memory.store))
    return Service(node, partial(host_agents, agents), memories)


def is_servable(value: Any) -> bool:
    """Tell whether an object that was named can be served."""
    # A function without a node runs a program of its own.
    is_main = inspect.iscoroutinefunction(value) and takes_argument(value)
    return isinstance(value, Node | Agent) or is_main


def is_default_servable(value: Any) -> bool:
    """Tell whether an object is served when none was named: of functions, only the file's own `main`."""
    if inspect.iscoroutinefunction(value) and (value.__module__, value.__name__) != (MODULE, MAIN):
        return False
    return is_servable(value)


async def host_agents(agents: Sequence[Agent], node: Node) -> None:
    """Take in agents that have a memory of their own."""
    for agent in agents:
        node.host(agent)


async def start_copies(agents: Sequence[Agent], node: Node) -> None:
    """Start agents like these, on the memory of the node."""
    for agent in agents:
        options = agent.options.arguments() | {"node": node}
        node.host(Agent(agent.name, hooks=list(agent.hooks), **options))


def print_address(output: Output, serving: HttpServer, token: str | None) -> None:
    """Tell where the server is and how to get in, as soon as it listens. A given token is not repeated."""
    url = serving.url
    if output.is_json:
        output.print_json_line({"url": url, "token": token, "inspector": f"{url}/inspector/"})
    else:
        output.print_row("address", url)
        output.print_row("token", token or "as given", "bold" if token else "dim")
        output.print_row("page", (serving.inspector_page if token else None) or f"{url}/inspector/")
    sys.stdout.flush()


def print_agents(output: Output, serving: HttpServer, token: str | None, agents: Sequence[Agent]) -> None:
    """Tell who answers, once they are started."""
    names = [agent.name for agent in agents]
    if not names:
        output.warn("no agent was started; `await Agent.start(node=node, ...)` in main(node) starts one")
    elif output.is_json:
        output.print_json_line({"agents": names})
    else:
        output.print(Text(f"{'agents':<9}").append(", ".join(map(clean_line, names)), "bold"))
        path = f"{serving.url}/agents/{quote(names[0], safe='')}"
        body = json.dumps({"message": "Hello", "scope": "ana"})
        output.note("Ctrl-C stops the server. To ask an agent:")
        shown = token or f"${TOKEN_VARIABLE}"
        output.messages.print(
            Text(f"curl {path} -H \"Authorization: Bearer {shown}\" --json '{body}'"), soft_wrap=True
        )
    sys.stdout.flush()
