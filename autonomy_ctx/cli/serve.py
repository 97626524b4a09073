"""`autonomy-ctx serve`: the agents of a Python file, or an OpenAI endpoint, until Ctrl-C or a TERM signal."""

from __future__ import annotations

import inspect
import json
import secrets
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from typing import Annotated, Any, NamedTuple, TypeAlias
from urllib.parse import quote

import anyio
import typer
from rich.text import Text

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.cli.endpoint import EndpointOptions, serve_endpoint
from autonomy_ctx.cli.output import Output, WrongInput, clean_line
from autonomy_ctx.cli.python_file import MODULE, load_objects, name_options, split_place, takes_argument
from autonomy_ctx.cli.target import MEMORY_VARIABLE, MemoryOption, memory_url
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.server.common.limits import IDLE_SECONDS
from autonomy_ctx.server.node.http import HttpServer, http

TOKEN_VARIABLE = "AUTONOMY_CTX_TOKEN"  # noqa: S105  # the name of a variable
MAIN = "main"
# The group of the options of the endpoint in the help.
UPSTREAM = "With --upstream"
WHAT = "Node, async function main(node) or Agent"

_upstream_option = partial(typer.Option, rich_help_panel=UPSTREAM)
Main: TypeAlias = Callable[[Any], Awaitable[Any]]


def serve(
    output: Output,
    place: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE[:NAME]",
            help="A Python file with a Node, a main(node), or agents at its top level; the file is executed.",
        ),
    ] = None,
    upstream: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Serve the OpenAI API in front of this server, such as https://api.openai.com/v1.",
        ),
    ] = None,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", help="The port; 0 means any free port.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            metavar="TOKEN",
            envvar=TOKEN_VARIABLE,
            help="The token that clients must send. Without it, a random token is made and printed.",
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Let the inspector pin messages, change facts and delete data.")
    ] = False,
    idle_seconds: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="How long a connection stays open between requests. More than a load balancer keeps it.",
        ),
    ] = IDLE_SECONDS,
    memory: MemoryOption = None,
    scope: Annotated[
        str | None,
        _upstream_option(
            "--scope", "-s", metavar="NAME", help="The scope of the conversations. Without it: default."
        ),
    ] = None,
    scope_by_key: Annotated[
        bool, _upstream_option("--scope-by-key", help="Use a separate scope for each API key of a client.")
    ] = False,
    api_key_env: Annotated[
        str | None,
        _upstream_option(
            metavar="VARIABLE", help="Send the key in this variable to upstream, not the client's key."
        ),
    ] = None,
    conversation_by_user: Annotated[
        bool,
        _upstream_option(
            "--conversation-by-user", help="Use one conversation for each `user` that a request names."
        ),
    ] = False,
    cache_fields: Annotated[
        bool,
        _upstream_option(
            "--cache-fields",
            help="Name each conversation for OpenAI's prompt cache; for servers that take prompt_cache_key.",
        ),
    ] = False,
    floor: Annotated[
        int | None, _upstream_option(help="Messages that stay verbatim after a summary.")
    ] = None,
    ceiling: Annotated[
        int | None, _upstream_option(help="Messages above which a summary is written.")
    ] = None,
    max_tokens: Annotated[
        int | None,
        _upstream_option(
            metavar="TOKENS",
            help="The maximum number of tokens of a context. Without it: the model's context window.",
        ),
    ] = None,
    summary_model: Annotated[
        str | None,
        _upstream_option(
            metavar="NAME",
            help="The model that writes the summaries, called with your own key. Without it: digests.",
        ),
    ] = None,
) -> None:
    """Serve the agents of a Python file over HTTP, and a page that shows their conversations.

    Ctrl-C or a TERM signal ends the server; running turns get a moment to finish. With --memory, agents and
    `main` use that database; a Node has its own. The page is the inspector; its address contains the token.

    With --upstream and no file, it is an OpenAI endpoint: clients change only their base URL. Their messages
    are stored, and their model is sent a context that stays small.
    """
    output.log_warnings()
    own = {
        "scope": scope,
        "scope_by_key": scope_by_key,
        "api_key_env": api_key_env,
        "conversation_by_user": conversation_by_user,
        "cache_fields": cache_fields,
        "floor": floor,
        "ceiling": ceiling,
        "max_tokens": max_tokens,
        "summary_model": summary_model,
    }
    if upstream is not None:
        if place is not None:
            raise WrongInput(f"--upstream serves no agents; leave out {place}, or --upstream")
        options = EndpointOptions(
            upstream=upstream,
            host=host,
            port=port,
            token=token,
            write=write,
            idle_seconds=idle_seconds,
            memory=memory,
            **own,  # type: ignore[arg-type]  # each has the type of its option
        )
        anyio.run(serve_endpoint, output, options)
        return
    if place is None:
        raise WrongInput("name a Python file with agents, or give --upstream URL")
    if given := name_options(own):
        raise WrongInput(f"{' and '.join(given)} is for --upstream; a file says that itself")
    chosen = token or secrets.token_urlsafe(24)
    serving = http(
        host=host,
        port=port,
        token=chosen,
        idle_seconds=idle_seconds,
        inspector="write" if write else "read",
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
        output.note("Ctrl-C stops it. To ask an agent:")
        shown = token or f"${TOKEN_VARIABLE}"
        output.messages.print(
            Text(f"curl {path} -H \"Authorization: Bearer {shown}\" --json '{body}'"), soft_wrap=True
        )
    sys.stdout.flush()
