"""`autonomy-ctx serve --upstream URL`: the OpenAI endpoint, with the inspector of its memory beside it."""

from __future__ import annotations

import gc
import os
import secrets
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import anyio
from rich.text import Text

from autonomy_ctx.cli.output import Output, WrongInput, clean_line
from autonomy_ctx.cli.target import memory_url
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.models.model import Model
from autonomy_ctx.models.providers import sends_in_clear
from autonomy_ctx.validation import format_url, is_loopback

if TYPE_CHECKING:
    from starlette.requests import Request

    from autonomy_ctx.server.openai.endpoint import OpenAIApp

DEFAULT_SCOPE = "default"
# Python has 700, 10, 10.
_GC_THRESHOLDS = (5_000, 200, 50)


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointOptions:
    """The options of the command line about the endpoint; None for those not given."""

    upstream: str
    host: str
    port: int
    token: str | None
    write: bool
    idle_seconds: float
    memory: str | None
    scope: str | None
    scope_by_key: bool
    api_key_env: str | None
    conversation_by_user: bool
    cache_fields: bool
    floor: int | None
    ceiling: int | None
    max_tokens: int | None
    summary_model: str | None

    def check(self) -> None:
        """Refuse options that do not go together."""
        if self.scope_by_key and self.scope is not None:
            raise WrongInput("--scope is one scope for all clients; leave it out, or --scope-by-key")
        if self.api_key_env is not None and sends_in_clear(self.upstream):
            raise WrongInput(
                f"the key of {self.api_key_env} would go to another machine without encryption; "
                f"give an --upstream with https"
            )
        if is_loopback(self.host):
            return
        if not self.scope_by_key:
            raise WrongInput(
                f"{self.host} can be reached from other machines, and all clients would share one memory; "
                f"give --scope-by-key, so that each key has its own, or listen on 127.0.0.1"
            )
        if self.api_key_env is not None:
            raise WrongInput(
                f"{self.host} can be reached from other machines, and with --api-key-env anybody there could "
                f"use your key; leave it out, so that clients send their own, or listen on 127.0.0.1"
            )

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
        given = {"floor": self.floor, "ceiling": self.ceiling, "model": model}
        return {name: value for name, value in given.items() if value is not None} or True


def scope_of_key(request: Request) -> str | None:
    """A scope for each key: a digest, which does not tell the key. None without one."""
    key = request.headers.get("authorization") or request.headers.get("api-key") or ""
    return f"key-{sha256(key.encode('latin-1')).hexdigest()[:32]}" if key.strip() else None


async def serve_endpoint(output: Output, options: EndpointOptions) -> None:
    """Serve until Ctrl-C or a TERM signal."""
    options.check()
    try:
        from autonomy_ctx.server.openai.endpoint import endpoint_server, openai_app
    except ImportError as error:
        raise WrongInput("this needs the extra `server`: pip install 'autonomy-ctx[cli,server]'") from error
    token = options.token or secrets.token_urlsafe(24)
    memory = Memory(None if options.memory is None else memory_url(options.memory))
    async with memory:
        app: OpenAIApp = openai_app(
            options.upstream,
            scope=None if options.scope_by_key else options.scope or DEFAULT_SCOPE,
            authenticate=scope_of_key if options.scope_by_key else None,
            api_key=options.api_key(),
            conversation_by_user=options.conversation_by_user,
            cache_fields=options.cache_fields,
            # Other names of this machine than these could be of a web page.
            allowed_hosts=["localhost"] if is_loopback(options.host) else [],
            memory=memory,
            context_summary=options.context_summary(),
            max_tokens=options.max_tokens,
        )
        serving = endpoint_server(
            app,
            host=options.host,
            port=options.port,
            token=token,
            write=options.write,
            idle_seconds=options.idle_seconds,
        )
        with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
            async with app, serving as port:
                _announce(output, options, format_url(options.host, port), token)
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


def _announce(output: Output, options: EndpointOptions, url: str, token: str) -> None:
    """Say where it is, and how a client uses it. A token that was given is not repeated."""
    shown = None if options.token else token
    scope = None if options.scope_by_key else options.scope or DEFAULT_SCOPE
    if output.is_json:
        told = {"url": f"{url}/v1", "upstream": options.upstream, "scope": scope, "token": shown}
        output.print_json_line({**told, "inspector": f"{url}/inspector/"})
        sys.stdout.flush()
        return
    page = f"{url}/inspector/" + (f"#token={shown}" if shown else "")
    rows = {
        "base URL": f"{url}/v1",
        "upstream": options.upstream,
        "scope": "one for each key" if scope is None else scope,
        "page": page,
    }
    for name, value in rows.items():
        output.print_row(name, clean_line(value), width=10)
    if options.memory is None:
        output.note("Conversations are kept until it stops; --memory FILE keeps them.")
    output.note("Ctrl-C stops it. With the OpenAI SDK:")
    key = ', api_key="any"' if options.api_key_env else ""
    output.messages.print(Text(f'OpenAI(base_url="{url}/v1"{key})'), soft_wrap=True)
    sys.stdout.flush()
