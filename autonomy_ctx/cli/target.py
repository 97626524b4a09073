"""Finds the memory and the conversation that a command works on, by the names that were given."""

from __future__ import annotations

import os
import shlex
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from autonomy_ctx.cli.database import read_server_state, sqlite_schema_version
from autonomy_ctx.cli.output import WrongInput
from autonomy_ctx.errors.spelling import near_names
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sqlite.connection import path_from_url
from autonomy_ctx.memory.sqlite.migrate import latest_version
from autonomy_ctx.memory.store import ConversationInfo, Key

MEMORY_VARIABLE = "AUTONOMY_CTX_MEMORY"
TOKEN_VARIABLE = "AUTONOMY_CTX_TOKEN"  # noqa: S105  # the name of a variable
SQLITE, POSTGRES = "sqlite:///", ("postgresql:", "postgres:")
# Without `--scope`, a conversation is looked for in so many scopes, and so many names are compared.
MAX_SCOPES = 1000
MAX_NAMES = 2000
# How many names an error lists.
MAX_LISTED = 8

# The group of these options in the help.
WHERE = "Where"
MemoryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--memory",
        "-m",
        metavar="FILE|URL",
        envvar=MEMORY_VARIABLE,
        help="The database: an SQLite file, or a URL such as postgresql://user@host/name.",
        rich_help_panel=WHERE,
    ),
]
AgentOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--agent", "-a", metavar="NAME", help="Conversations with this agent.", rich_help_panel=WHERE
    ),
]
ScopeOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--scope",
        "-s",
        metavar="NAME",
        help="Conversations of this scope (a user or tenant).",
        rich_help_panel=WHERE,
    ),
]
BaseUrlOption: TypeAlias = Annotated[
    str | None, typer.Option("--base-url", metavar="URL", help="The address of a server with the OpenAI API.")
]
ConversationArgument: TypeAlias = Annotated[
    str | None,
    typer.Argument(
        metavar="CONVERSATION", help="The name of the conversation; optional if there is only one."
    ),
]

ConversationOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--conversation",
        "-c",
        metavar="NAME",
        help="The name of the conversation; optional if there is only one.",
        rich_help_panel=WHERE,
    ),
]


class ConversationNotFound(WrongInput):
    """There is no conversation of that name; a command that writes may begin it."""


def memory_url(given: str | None) -> str:
    """The URL of the memory that an option or the environment names."""
    if not given:
        raise WrongInput(
            f"no memory was named: give --memory FILE, or set {MEMORY_VARIABLE}{_databases_beside(Path())}"
        )
    if "://" in given:
        return given
    path = os.path.expanduser(given)
    if "?" in path:
        raise WrongInput(f"{given}: the path of a memory must not have a question mark in it")
    return SQLITE + path


def memory_path(given: str | None) -> str | None:
    """The path of the SQLite file that was named; None for another kind of memory."""
    url = memory_url(given)
    return path_from_url(url) if url.startswith("sqlite:") else None


def is_new_file(given: str | None) -> bool:
    """Tell whether an SQLite file was named that does not exist."""
    path = memory_path(given)
    return path is not None and not Path(path).exists()


@asynccontextmanager
async def open_memory(given: str | None, *, create: bool = False) -> AsyncIterator[Memory]:
    """The memory that was named. Only with `create` may it be made, or changed to a newer schema."""
    url = memory_url(given)
    if create:
        async with Memory(url) as memory:
            yield memory
        return
    await check_database(url)
    # Not by `async with`, which tries a write: whoever may only read can look, too.
    memory = Memory(url)
    try:
        yield memory
    finally:
        await memory.close()


async def check_database(url: str) -> None:
    """Refuse a memory that is not there, or would be changed by opening it."""
    versions = await read_versions(url)
    if versions is None:
        return
    name = describe_url(url)
    if versions.found is None:
        is_file = url.startswith(SQLITE)
        raise WrongInput(describe_missing(name) if is_file else f"{name} has no tables of autonomy_ctx")
    if versions.found < versions.known:
        raise WrongInput(
            f"{name} has schema version {versions.found}, and this program reads version {versions.known}; "
            f"run `autonomy-ctx migrate` on it once. Older versions of autonomy_ctx cannot open it after that"
        )


@dataclass(frozen=True, slots=True)
class SchemaVersions:
    """The schema version of a database, None where it has no tables; and the newest that is known here."""

    found: int | None
    known: int


async def read_versions(url: str) -> SchemaVersions | None:
    """Read how new a database is, without changing it; None for stores of other packages."""
    if url.startswith("sqlite:"):
        return SchemaVersions(sqlite_schema_version(Path(path_from_url(url))), latest_version())
    if url.startswith(POSTGRES):
        state = await read_server_state(url)
        from autonomy_ctx.memory.postgres.migrate import latest_version as latest_server_version

        return SchemaVersions(state.schema_version, latest_server_version())
    return None


def describe_url(url: str) -> str:
    """A memory as people name it, without user and password."""
    if url.startswith("sqlite:"):
        return path_from_url(url)
    if url.startswith(POSTGRES):
        from autonomy_ctx.memory.postgres.errors import server_name

        return server_name(url)
    return f"{url.partition('://')[0]}://..."


def describe_missing(path: str) -> str:
    """Why there is no database of ours at a path, and which there are beside it."""
    file = Path(path)
    if file.is_dir():
        problem = "is a folder, not a database"
    elif file.exists():
        problem = "is not a database of autonomy_ctx"
    else:
        problem = "does not exist"
    return f"{path} {problem}{_databases_beside(file)}"


def _databases_beside(path: Path) -> str:
    """Databases in the folder of a path, as the end of a sentence."""
    folder = path if path.is_dir() else path.parent if path.parent.is_dir() else Path()
    found = []
    with suppress(OSError):
        files = sorted(islice(folder.iterdir(), MAX_NAMES))
        found = [str(one) for one in files if sqlite_schema_version(one) is not None]
    return f"; databases found: {_join_names(found)}" if found else ""


def _join_names(names: Sequence[str]) -> str:
    listed, more = list(names[:MAX_LISTED]), len(names) - MAX_LISTED
    if more > 0:
        return f"{', '.join(listed)} and {more:,} more"
    return " and ".join(filter(None, [", ".join(listed[:-1]), listed[-1]]))


async def find_conversation(
    memory: Memory, name: str | None, *, agent: str | None = None, scope: str | None = None
) -> Key:
    """The one conversation that was meant; the error lists what there is when there is not exactly one."""
    scopes = [scope] if scope is not None else await list_scopes(memory, agent)
    if name is None:
        keys = await _list_keys(memory, scope, agent, most=MAX_LISTED + 1)
    else:
        keys = [key async for key in _keys_of_name(memory, scopes, agent, name)]
    if len(keys) == 1:
        return keys[0]
    if keys:
        named = "" if name is None else f" named {name!r}"
        raise WrongInput(f"there are several conversations{named}; choose one:\n{_list_choices(keys)}")
    known = await _list_keys(memory, scope, agent, most=MAX_NAMES)
    where = f" of scope {scope!r}" if scope is not None else ""
    where += f" with agent {agent!r}" if agent else ""
    of_agent = [key for key in known if key.agent and key.agent == name]
    if of_agent:
        raise ConversationNotFound(
            f"{name!r} is the name of an agent, not of a conversation; give one of its conversations:\n"
            f"{_list_choices(of_agent)}"
        )
    if not known and not where:
        raise ConversationNotFound(
            "there are no conversations yet; send an agent a message first, for example with "
            "`autonomy-ctx chat`"
        )
    if not known:
        near_scopes = await _describe_near_scopes(memory, scope)
        raise ConversationNotFound(f"there are no conversations{where}{near_scopes}")
    near = set(near_names(name or "", {key.conversation for key in known}, limit=MAX_LISTED))
    choices = [key for key in known if key.conversation in near] or known
    raise ConversationNotFound(
        f"there is no conversation {name!r}{where}; {'did you mean' if near else 'the conversations are'}:\n"
        f"{_list_choices(choices)}"
    )


async def iterate_all(
    memory: Memory, scope: str | None, agent: str | None
) -> AsyncIterator[ConversationInfo]:
    """All conversations that the names leave, a page at a time."""
    async for one in _iterate_scopes(memory, scope, agent):
        after: Key | None = None
        while page := await memory.conversations(one, agent=agent, after=after):
            for info in page:
                yield info
            after = page[-1].key


async def _iterate_scopes(memory: Memory, scope: str | None, agent: str | None) -> AsyncIterator[str]:
    """The scope that was named, or all scopes, a page at a time."""
    if scope is not None:
        yield scope
        return
    after: str | None = None
    while page := await memory.scopes(agent=agent, after=after):
        for one in page:
            yield one
        after = page[-1]


async def list_scopes(memory: Memory, agent: str | None) -> list[str]:
    """All scopes, where there are not too many to look into each."""
    scopes = await memory.scopes(agent=agent, limit=MAX_SCOPES + 1)
    if len(scopes) > MAX_SCOPES:
        raise WrongInput(f"there are more than {MAX_SCOPES:,} scopes; name one with --scope")
    return scopes


async def _list_keys(memory: Memory, scope: str | None, agent: str | None, *, most: int) -> list[Key]:
    keys: list[Key] = []
    async for info in iterate_all(memory, scope, agent):
        keys.append(info.key)
        if len(keys) == most:
            break
    return keys


async def _keys_of_name(
    memory: Memory, scopes: Sequence[str], agent: str | None, name: str
) -> AsyncIterator[Key]:
    """The conversations of a name; by looking at each place it may have, not at all names."""
    for scope in scopes:
        for one in [agent] if agent is not None else await memory.agents(scope=scope, limit=MAX_SCOPES):
            if (await memory.for_agent(one).head(scope, name)).count:
                yield Key(one, scope, name)


async def _describe_near_scopes(memory: Memory, scope: str | None) -> str:
    """Scopes that may have been meant, as the end of a sentence."""
    names = [] if scope is None else await memory.scopes(limit=MAX_SCOPES)
    near = near_names(scope or "", names, limit=MAX_LISTED)
    if near:
        return f"; did you mean the scope {_join_names([repr(name) for name in near])}?"
    return "; `autonomy-ctx conversations` lists all conversations"


def _list_choices(keys: Sequence[Key]) -> str:
    """Conversations as they are named on the command line."""
    has_agents = any(key.agent for key in keys)
    lines = [f"  {name_arguments(key, with_agent=has_agents)}" for key in keys[:MAX_LISTED]]
    if len(keys) > MAX_LISTED:
        lines.append("  ...; `autonomy-ctx conversations` lists all of them")
    return "\n".join(lines)


def name_arguments(key: Key, *, with_agent: bool = True) -> str:
    """The arguments that name exactly this conversation."""
    agent = f" --agent {shlex.quote(key.agent)}" if with_agent else ""
    return f"{shlex.quote(key.conversation)} --scope {shlex.quote(key.scope)}{agent}"
