"""`autonomy-ctx serve --upstream URL`: the endpoint, with the inspector of its memory beside it."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from hashlib import sha256
from multiprocessing.connection import Connection
from socket import socket
from typing import TYPE_CHECKING, Annotated, Any, Literal

import anyio
import typer
from rich.text import Text

from autonomy_ctx.cli.output import Output, WrongInput, clean_line
from autonomy_ctx.cli.target import TOKEN_VARIABLE, MemoryOption, memory_url
from autonomy_ctx.cli.workers import Workers, wait_for_parent_death
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.models.model import Model
from autonomy_ctx.models.providers import sends_in_clear
from autonomy_ctx.server.common.limits import ServerLimits
from autonomy_ctx.validation import format_url, is_loopback

if TYPE_CHECKING:
    from starlette.requests import Request

    from autonomy_ctx.server.endpoint.app import EndpointApp

DEFAULT_SCOPE = "default"
# Python has 700, 10, 10.
_GC_THRESHOLDS = (5_000, 200, 50)


_upstream_option = partial(typer.Option, rich_help_panel="With --upstream")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of a server, whatever it serves.

    Args:
        host: The address to listen on.
        port: The port; 0 means any free port.
        token: The token that clients must send. Without it, a random token is made and printed.
        write: Let the inspector pin messages, change facts and delete data.
        idle_seconds: How long a connection stays open between requests. More than a load balancer keeps it.
    """

    host: Annotated[str, typer.Option(metavar="ADDRESS")] = "127.0.0.1"
    port: Annotated[int, typer.Option("--port", "-p")] = 8000
    token: Annotated[str | None, typer.Option(metavar="TOKEN", envvar=TOKEN_VARIABLE)] = None
    write: bool = False
    idle_seconds: Annotated[float, typer.Option(metavar="SECONDS")] = ServerLimits.idle_seconds
    memory: MemoryOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """The options of the endpoint alone.

    Args:
        scope: The scope of the conversations. Without it: default.
        scope_by_key: Use a separate scope for each API key of a client.
        api_key_env: Send the key in this variable to upstream, not the client's key.
        conversation_by_user: Use one conversation for each `user` that a request names.
        upstream_api: The API that upstream speaks: chat, responses or messages. Requests of other APIs are
            translated. Without it, only those to api.anthropic.com and api.openai.com are.
        cache_fields: Name each conversation for OpenAI's prompt cache; for servers that take
            prompt_cache_key.
        floor: Messages that stay verbatim after a summary.
        ceiling: Messages above which a summary is written.
        clear_results: Turns after which large results of tools become a line each, when a summary is shown.
        clear_images: Turns after which images become a line each, when a summary is shown.
        max_result_tokens: The tokens of a result of an earlier turn, when a summary is shown. A longer one
            becomes an excerpt.
        max_tokens: The maximum number of tokens of a context. Without it: the model's context window.
        summary_model: The model that writes the summaries, called with your own key. Without it: digests.
        workers: The number of processes that serve, such as one for each core. Without it: 1. They share the
            database of --memory.
    """

    scope: Annotated[str | None, _upstream_option("--scope", "-s", metavar="NAME")] = None
    scope_by_key: Annotated[bool, _upstream_option()] = False
    api_key_env: Annotated[str | None, _upstream_option(metavar="VARIABLE")] = None
    conversation_by_user: Annotated[bool, _upstream_option()] = False
    upstream_api: Annotated[Literal["chat", "responses", "messages"] | None, _upstream_option()] = None
    cache_fields: Annotated[bool, _upstream_option()] = False
    floor: Annotated[int | None, _upstream_option()] = None
    ceiling: Annotated[int | None, _upstream_option()] = None
    clear_results: Annotated[int | None, _upstream_option(metavar="TURNS")] = None
    clear_images: Annotated[int | None, _upstream_option(metavar="TURNS")] = None
    max_result_tokens: Annotated[int | None, _upstream_option(metavar="TOKENS", min=200)] = None
    max_tokens: Annotated[int | None, _upstream_option(metavar="TOKENS")] = None
    summary_model: Annotated[str | None, _upstream_option(metavar="NAME")] = None
    workers: Annotated[int | None, _upstream_option(metavar="NUMBER", min=1)] = None

    def check(self, upstream: str, server: ServerOptions) -> None:
        """Refuse options that do not go together."""
        host = server.host
        if self.workers not in (None, 1) and server.memory is None:
            raise WrongInput("workers share a database; give --memory FILE, or a PostgreSQL URL")
        if self.scope_by_key and self.scope is not None:
            raise WrongInput("--scope sets one scope for all clients; leave out --scope or --scope-by-key")
        if self.api_key_env is not None and sends_in_clear(upstream):
            raise WrongInput(
                f"the key of {self.api_key_env} would go to another machine without encryption; "
                f"give an --upstream with https"
            )
        if is_loopback(host):
            return
        if not self.scope_by_key:
            raise WrongInput(
                f"{host} can be reached from other machines, and all clients would share one memory; "
                f"give --scope-by-key, so that each key has its own, or listen on 127.0.0.1"
            )
        if self.api_key_env is not None:
            raise WrongInput(
                f"{host} can be reached from other machines, and with --api-key-env anybody there could "
                f"use your key; leave it out, so that clients send their own, or listen on 127.0.0.1"
            )

    def shared_scope(self) -> str | None:
        """The scope of all clients; None where each key has its own."""
        return None if self.scope_by_key else self.scope or DEFAULT_SCOPE

    def api_key(self) -> str | None:
        """The key in the variable that was named."""
        if self.api_key_env is None:
            return None
        found = os.environ.get(self.api_key_env)
        if not found:
            raise WrongInput(
                f"the variable {self.api_key_env} is not set; --api-key-env names where the key is"
            )
        return found

    def context_summary(self) -> bool | Mapping[str, Any]:
        """Make the settings of summaries."""
        model = None if self.summary_model is None else Model(self.summary_model)
        given = {
            "floor": self.floor,
            "ceiling": self.ceiling,
            "model": model,
            "clear_results_after": self.clear_results,
            "clear_images_after": self.clear_images,
            "max_result_tokens": self.max_result_tokens,
        }
        return {name: value for name, value in given.items() if value is not None} or True


def scope_of_key(request: Request) -> str | None:
    """A scope for each key: a digest, which does not tell the key. None without one."""
    names = ("authorization", "x-api-key", "api-key")
    key = next(filter(None, map(request.headers.get, names)), "")
    return f"key-{sha256(key.encode('latin-1')).hexdigest()[:32]}" if key.strip() else None


async def serve_endpoint(
    output: Output, upstream: str, server: ServerOptions, options: EndpointOptions
) -> None:
    """Serve until Ctrl-C or a TERM signal."""
    options.check(upstream, server)
    try:
        from autonomy_ctx.server.common.listener import listen
        from autonomy_ctx.server.endpoint.translation import translated_paths
    except ImportError as error:
        raise WrongInput("this needs the extra `server`: pip install 'autonomy-ctx[cli,server]'") from error
    chosen = replace(server, token=server.token or secrets.token_urlsafe(24))
    # Names are looked up, and this one must not lead anywhere else.
    listener = await listen("127.0.0.1" if server.host.lower() == "localhost" else server.host, server.port)
    url = format_url(server.host, listener.getsockname()[1])

    def announce() -> None:
        translated = translated_paths(upstream, options.upstream_api)
        _announce(output, upstream, server, options, url, str(chosen.token), translated)
        sys.stdout.flush()

    serve = partial(_serve_on, upstream, chosen, options)
    if options.workers in (None, 1):
        await serve(listener, announce)
        return
    # Here first: what is wrong with a database is said once, and workers find it made.
    async with _open_memory(server) as memory:
        await memory.health_check()
    workers = Workers(partial(run_worker, serve), listener, options.workers)
    with listener, anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as group:
            group.start_soon(workers.run, announce)
            async for _ in signals:
                group.cancel_scope.cancel()


def run_worker(
    serve: Callable[[socket, Callable[[], None]], Awaitable[None]], listener: socket, ready: Connection
) -> None:
    """Serve in a process of its own until a signal, or until the process that started it is gone."""

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_end_with_parent)
            await serve(listener, partial(ready.send, True))
            group.cancel_scope.cancel()

    anyio.run(main)


async def _end_with_parent() -> None:
    await wait_for_parent_death()
    os.kill(os.getpid(), signal.SIGTERM)


def _open_memory(server: ServerOptions) -> Memory:
    return Memory(None if server.memory is None else memory_url(server.memory))


async def _serve_on(
    upstream: str,
    server: ServerOptions,
    options: EndpointOptions,
    listener: socket,
    announce: Callable[[], None],
) -> None:
    """Serve on a listening socket until a signal; `announce` is called when it does."""
    from autonomy_ctx.server.endpoint.app import endpoint_app, endpoint_server

    async with _open_memory(server) as memory:
        app: EndpointApp = endpoint_app(
            upstream,
            scope=options.shared_scope(),
            authenticate=scope_of_key if options.scope_by_key else None,
            api_key=options.api_key(),
            conversation_by_user=options.conversation_by_user,
            upstream_api=options.upstream_api,
            cache_fields=options.cache_fields,
            # Other names of this machine than these could be of a web page.
            allowed_hosts=["localhost"] if is_loopback(server.host) else [],
            memory=memory,
            context_summary=options.context_summary(),
            max_tokens=options.max_tokens,
        )
        serving = endpoint_server(
            app,
            listener,
            host=server.host,
            token=str(server.token),
            write=server.write,
            idle_seconds=server.idle_seconds,
        )
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with app, serving:
                announce()
                collect_garbage_less_often()
                async for _ in signals:
                    return


def collect_garbage_less_often() -> None:
    """Leave alone what was loaded at the start, and look through newer objects less often.

    With long histories in memory, a full collection takes a tenth of a second, and a request waits for it. A
    process that does nothing else may choose so; a library may not.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def _announce(
    output: Output,
    upstream: str,
    server: ServerOptions,
    options: EndpointOptions,
    url: str,
    token: str,
    translated: Mapping[str, str],
) -> None:
    """Say where it is, and how a client uses it. A token that was given is not repeated."""
    token_shown, scope = None if server.token else token, options.shared_scope()
    if output.is_json:
        told: dict[str, Any] = {
            "url": f"{url}/v1",
            "upstream": upstream,
            "scope": scope,
            "token": token_shown,
        }
        told |= {"translated": dict(translated), "inspector": f"{url}/inspector/"}
        output.print_json_line(told)
        return
    rows = {
        "base URL": f"{url}/v1",
        "upstream": upstream,
        "scope": "one for each key" if scope is None else scope,
        "page": f"{url}/inspector/" + (f"#token={token_shown}" if token_shown else ""),
    }
    if translated:
        rows["translated"] = ", ".join(f"{own} to {other}" for own, other in translated.items())
    for name, value in rows.items():
        output.print_row(name, clean_line(value), width=12)
    if server.memory is None:
        output.note("Conversations are lost when the server stops; use --memory FILE to keep them.")
    output.note("Ctrl-C stops the server. With the SDK of OpenAI or of Anthropic:")
    key = ', api_key="any"' if options.api_key_env else ""
    for shown in (f'OpenAI(base_url="{url}/v1"{key})', f'Anthropic(base_url="{url}"{key})'):
        output.messages.print(Text(shown), soft_wrap=True)
