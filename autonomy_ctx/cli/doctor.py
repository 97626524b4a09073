"""`autonomy-ctx doctor`: what this program is, what the memory is, and what is wrong with either.

Keys are named and never shown. Nothing leaves this machine without --network, except to the memory itself.
"""

from __future__ import annotations

import os
import platform
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from rich.table import Table
from rich.text import Text

from autonomy_ctx.agents.agent_tools import LARGE_TOOLS
from autonomy_ctx.cli.database import ServerState, connect_read_only, hears_notifications, read_server_state
from autonomy_ctx.cli.explain import describe_large_tools
from autonomy_ctx.cli.output import ExitCode, Output, clean_line, count, describe_error
from autonomy_ctx.cli.target import (
    POSTGRES,
    MemoryOption,
    describe_missing,
    describe_url,
    iterate_all,
    memory_path,
    memory_url,
    read_versions,
)
from autonomy_ctx.errors import AutonomyCtxError
from autonomy_ctx.formats.model_table import MODELS, TABLE_DATE, find_model, is_known_model
from autonomy_ctx.inspection.turn import list_turns
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.sqlite.connection import WAL_RESET_FIX_VERSION, check_location
from autonomy_ctx.models.providers import PROVIDERS, Provider

# What each extra installs.
EXTRAS = {
    "tokens": ("splintr-rs",),
    "images": ("pillow",),
    "embeddings": ("model2vec", "numpy"),
    "otel": ("opentelemetry-api",),
    "local": ("xllamacpp",),
    "server": ("httpcore", "starlette", "uvicorn"),
    "postgres": ("psycopg", "psycopg-pool"),
    "cli": ("typer", "rich"),
    "mcp": ("mcp",),
}
# The frameworks that there are adapters for. Nobody has all of them: those that are there are told.
FRAMEWORKS = {
    "langchain": ("langchain",),
    "openai-agents": ("openai-agents",),
    "pydantic-ai": ("pydantic-ai-slim",),
    "google-adk": ("google-adk",),
    "agent-framework": ("agent-framework-core",),
    "llama-index": ("llama-index-core",),
    "strands": ("strands-agents",),
    "litellm": ("litellm",),
}
REACH_SECONDS = 5.0
# An older table of models is a warning.
MAX_TABLE_DAYS = 120
# Conversations whose models are looked up, and models that need no row.
RECENT_CONVERSATIONS, OWN_MODELS = 100, ("offline",)
# With less room on its disk, a database soon cannot be written.
FREE_BYTES = 100 * 2**20
Status: TypeAlias = Literal["ok", "note", "warning", "problem"]
MARKS: dict[Status, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", "dim"),
    "warning": ("!", "yellow"),
    "problem": ("✗", "red"),
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One thing that was looked at, and what to know about it."""

    group: str
    name: str
    status: Status
    text: str


async def examine(output: Output, memory: MemoryOption = None, network: bool = False) -> int:
    """Check this installation and, with --memory, a memory: versions, schema, integrity, rights, keys.

    The exit code is 1 if something is wrong. No key is shown or sent.

    Args:
        network: Also connect to the providers whose keys are set.
    """
    findings = [*_examine_program(), *_examine_extras()]
    if memory:
        findings += [one async for one in _examine_memory(output, memory)]
    else:
        findings.append(Diagnosis("memory", "database", "note", "not checked; give --memory to check it"))
    findings += [*_examine_table(), *_examine_keys()]
    if network:
        findings += [one async for one in _examine_network()]
    has_problem = any(one.status == "problem" for one in findings)
    if output.is_json:
        output.print_json({"ok": not has_problem, "findings": [asdict(one) for one in findings]})
    else:
        _print(output, findings)
    return ExitCode.FAILED if has_problem else ExitCode.DONE


# -- this installation --------------------------------------------------------------------------------


def _examine_program() -> Iterator[Diagnosis]:
    own = _installed_version("autonomy-ctx")
    yield Diagnosis("program", "autonomy_ctx", "ok", own or "run from its source, not installed")
    python = f"{platform.python_version()} ({platform.python_implementation()}) on {platform.system()}"
    yield Diagnosis("program", "Python", "ok", python)
    fixed = ".".join(map(str, WAL_RESET_FIX_VERSION))
    if sqlite3.sqlite_version_info < WAL_RESET_FIX_VERSION:
        yield Diagnosis(
            "program",
            "SQLite",
            "warning",
            f"{sqlite3.sqlite_version} can damage a file that two connections write and checkpoint at once; "
            f"{fixed} fixes this. Processes that use autonomy_ctx take turns; do not let another program "
            f"write to the file",
        )
    else:
        yield Diagnosis("program", "SQLite", "ok", sqlite3.sqlite_version)


def _examine_extras() -> Iterator[Diagnosis]:
    for extra, packages in (EXTRAS | FRAMEWORKS).items():
        found = {name: _installed_version(name) for name in packages}
        missing = [name for name, number in found.items() if number is None]
        if missing and extra in FRAMEWORKS:
            continue
        if missing:
            text = f"not installed: pip install 'autonomy-ctx[{extra}]'"
            yield Diagnosis("extras", extra, "note", text)
        else:
            text = ", ".join(f"{name} {number}" for name, number in found.items())
            yield Diagnosis("extras", extra, "ok", text)


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


# -- the memory ---------------------------------------------------------------------------------------


async def _examine_memory(output: Output, given: str) -> AsyncIterator[Diagnosis]:
    url, path = memory_url(given), memory_path(given)
    yield Diagnosis("memory", "database", "ok", describe_url(url))
    try:
        versions = await read_versions(url)
        if path is not None and versions is not None and versions.found is None:
            yield Diagnosis("memory", "file", "problem", describe_missing(path))
            return
        if versions is not None:
            schema = _examine_schema(versions.found, versions.known)
            yield schema
            if schema.status != "ok":
                return
        if path is not None:
            with output.progress("checking the file"):
                for finding in await anyio.to_thread.run_sync(_examine_file, path):
                    yield finding
        elif url.startswith(POSTGRES):
            for finding in _examine_server(await read_server_state(url)):
                yield finding
            yield await _examine_notifications(url)
        async with Memory(url) as opened:
            yield Diagnosis("memory", "writing", "ok", "a test write succeeded")
            recent = await _read_recent_turns(opened)
            for model in recent.unknown_models:
                yield Diagnosis("models", model, "warning", _describe_unknown(model))
            for agent, tokens in recent.large_tools.items():
                name = f"tools of {agent}" if agent else "tools"
                yield Diagnosis("memory", clean_line(name), "warning", describe_large_tools(tokens))
    except (AutonomyCtxError, ImportError, OSError, sqlite3.Error) as error:
        yield Diagnosis("memory", "opening", "problem", describe_error(error))


def _examine_schema(found: int | None, known: int) -> Diagnosis:
    if found is None:
        text = "the database has no tables of autonomy_ctx; they are created when a program opens it"
        return Diagnosis("memory", "schema", "warning", text)
    if found < known:
        text = f"version {found}; run `autonomy-ctx migrate` to upgrade it to {known}"
        return Diagnosis("memory", "schema", "warning", text)
    if found > known:
        text = f"version {found}, and this program knows up to {known}; upgrade autonomy_ctx"
        return Diagnosis("memory", "schema", "problem", text)
    return Diagnosis("memory", "schema", "ok", f"version {found}, the newest")


def _examine_file(path: str) -> list[Diagnosis]:
    """The file of an SQLite database, its folder, and every page of it."""
    findings = []
    try:
        check_location(path)
    except AutonomyCtxError as error:
        findings.append(Diagnosis("memory", "folder", "problem", str(error)))
    file, log = Path(path), Path(f"{path}-wal")
    sizes = f"{_megabytes(file.stat().st_size)}"
    if log.exists() and log.stat().st_size:
        sizes += f", and {_megabytes(log.stat().st_size)} in its write-ahead log"
    findings.append(Diagnosis("memory", "size", "ok", sizes))
    free = shutil.disk_usage(file.absolute().parent).free
    room: Status = "ok" if free > FREE_BYTES else "warning"
    findings.append(Diagnosis("memory", "free room", room, _megabytes(free)))
    faults = _find_faults(file)
    if faults:
        advice = f"Restore a backup, or save what can be saved with `sqlite3 {path} .recover`"
        findings.append(Diagnosis("memory", "integrity", "problem", f"{'; '.join(faults)}. {advice}"))
    else:
        findings.append(Diagnosis("memory", "integrity", "ok", "every page was read; none is damaged"))
    return findings


def _find_faults(file: Path) -> list[str]:
    """List what SQLite finds wrong with a file when it reads all of it."""
    try:
        with closing(connect_read_only(file)) as connection:
            faults = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                return faults
            broken = connection.execute("PRAGMA foreign_key_check").fetchmany(5)
    except sqlite3.DatabaseError as error:
        return [str(error)]
    return [f"table {table} refers to a missing row of {parent}" for table, _, parent, _ in broken]


def _megabytes(size: int) -> str:
    return f"{size / 2**20:,.1f} MB" if size < 2**30 else f"{size / 2**30:,.1f} GB"


def _examine_server(state: ServerState) -> Iterator[Diagnosis]:
    from autonomy_ctx.memory.postgres.migrate import MIN_SERVER_VERSION

    number = f"PostgreSQL {state.server_version // 10000}.{state.server_version % 10000}"
    is_old = state.server_version < MIN_SERVER_VERSION
    needed = f"; autonomy_ctx needs {MIN_SERVER_VERSION // 10000} or later" if is_old else ""
    yield Diagnosis("memory", "server", "problem" if is_old else "ok", number + needed)
    is_utf8 = state.encoding == "UTF8"
    advice = "" if is_utf8 else ", which cannot hold every text; create the database with ENCODING 'UTF8'"
    yield Diagnosis("memory", "encoding", "ok" if is_utf8 else "problem", state.encoding + advice)
    if state.refused_tables:
        some = ", ".join(state.refused_tables[:4])
        text = f"this user may not read and write {count(len(state.refused_tables), 'table')}, such as {some}"
        yield Diagnosis("memory", "rights", "problem", text)
    elif state.may_create:
        yield Diagnosis("memory", "rights", "ok", "this user may read, write and upgrade the tables")
    else:
        text = "this user may read and write; upgrades need a user who may create in the database"
        yield Diagnosis("memory", "rights", "ok", text)
    if state.is_behind_pooler:
        yield Diagnosis("memory", "pooler", "note", "a pooler, such as pgbouncer, is in front of the server")


async def _examine_notifications(url: str) -> Diagnosis:
    if await hears_notifications(url):
        return Diagnosis("memory", "notifications", "ok", "processes notify each other at once")
    text = "none arrive, probably because of a pooler; waits last up to two seconds longer. Give `listen_dsn`"
    return Diagnosis("memory", "notifications", "warning", text)


# -- models -------------------------------------------------------------------------------------------


class RecentTurns(NamedTuple):
    """The models of recent turns that are not in the table, and the tokens of many tools by agent."""

    unknown_models: list[str]
    large_tools: dict[str, int]


async def _read_recent_turns(memory: Memory) -> RecentTurns:
    names: set[str] = set()
    tools: dict[str, int] = {}
    found = 0
    async for info in iterate_all(memory, None, None):
        own = memory.for_agent(info.agent) if info.agent else memory
        turns = await list_turns(own, info.scope, info.conversation, limit=1)
        names |= {turn.model for turn in turns if turn.model}
        for turn in turns:
            if turn.request_tokens is not None and turn.request_tokens - turn.tokens > LARGE_TOOLS:
                tools[info.agent] = max(turn.request_tokens - turn.tokens, tools.get(info.agent, 0))
        found += 1
        if found == RECENT_CONVERSATIONS:
            break
    unknown = sorted(name for name in names if not is_known_model(name) and name not in OWN_MODELS)
    return RecentTurns(unknown, tools)


def _describe_unknown(name: str) -> str:
    info = find_model(name)
    known = "it is not known" if info is None else f"not in the table; the values of {info.name} are used"
    return f"{known}; upgrade autonomy_ctx, or add a row to autonomy_ctx.tokens.MODELS"


def _examine_table() -> Iterator[Diagnosis]:
    days = (datetime.now(UTC).date() - date.fromisoformat(TABLE_DATE)).days
    text = f"windows and prices of {len(MODELS)} models, checked on {TABLE_DATE}"
    if days > MAX_TABLE_DAYS:
        text += f", {days} days ago; upgrade autonomy_ctx, or add rows to autonomy_ctx.tokens.MODELS"
    yield Diagnosis("models", "table", "warning" if days > MAX_TABLE_DAYS else "ok", text)


def _examine_keys() -> Iterator[Diagnosis]:
    variables = {
        variable: provider
        for provider in reversed(list(PROVIDERS.values()))
        for variable in (*provider.key_variables, *provider.url_variables)
        if os.environ.get(variable)
    }
    for variable, provider in sorted(variables.items()):
        yield Diagnosis("models", provider.name, "ok", f"{variable} is set")
    if not variables:
        yield Diagnosis("models", "keys", "note", "no key is set; the offline model needs none")


async def _examine_network() -> AsyncIterator[Diagnosis]:
    providers: dict[str, Provider] = {}
    for provider in PROVIDERS.values():
        is_used = provider.read_key() or any(map(os.environ.get, provider.url_variables))
        try:
            address = provider.resolve_base_url(None) if is_used else None
        except ValueError as error:
            yield Diagnosis("network", provider.name, "problem", str(error))
            continue
        if address is not None:
            providers.setdefault(address, provider)
    for address, provider in providers.items():
        yield await _reach(provider.name, address)
    if not providers:
        yield Diagnosis("network", "providers", "note", "no provider has a key or an address")


async def _reach(name: str, address: str) -> Diagnosis:
    """Ask a server for its first page, without a key: any answer shows that it can be reached."""
    import httpx

    host = urlsplit(address).netloc
    begun = time.perf_counter()
    try:
        async with httpx.AsyncClient(timeout=REACH_SECONDS) as client:
            await client.head(f"{urlsplit(address).scheme}://{host}/")
    except httpx.HTTPError as error:
        text = f"{host} cannot be reached ({type(error).__name__}); check the network, the proxy and DNS"
        return Diagnosis("network", name, "problem", text)
    milliseconds = (time.perf_counter() - begun) * 1000
    return Diagnosis("network", name, "ok", f"{host} answered after {milliseconds:,.0f} ms")


# -- drawing ------------------------------------------------------------------------------------------


def _print(output: Output, findings: list[Diagnosis]) -> None:
    group = ""
    table = _new_group()
    for finding in findings:
        if finding.group != group:
            if group:
                output.print(table)
                output.print("")
            group, table = finding.group, _new_group()
            output.print(Text(group, style="bold"))
        mark, style = MARKS[finding.status]
        text = Text(clean_line(finding.text), style="dim" if finding.status == "note" else "")
        table.add_row(Text(mark, style=style), Text(clean_line(finding.name)), text)
    output.print(table)
    problems = sum(one.status == "problem" for one in findings)
    warnings = sum(one.status == "warning" for one in findings)
    ending = [count(problems, "problem")] * bool(problems) + [count(warnings, "warning")] * bool(warnings)
    style = "bold red" if problems else "bold yellow" if warnings else "bold green"
    output.print("")
    output.print(Text(" and ".join(ending) if ending else "no problems were found", style=style))


def _new_group() -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(width=1)
    table.add_column(min_width=14, overflow="fold")
    table.add_column(overflow="fold")
    return table
