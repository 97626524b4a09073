"""The registry of stores: which store the URL of a `Memory` opens.

A store is registered by its URL scheme as a function, so that it is imported when first used. Installed
packages add stores by an entry point of the group `autonomy_ctx.stores`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeAlias

from autonomy_ctx.memory.sql.store import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

    from autonomy_ctx.memory.sqlite.threads import Synchronous

ENTRY_POINTS = "autonomy_ctx.stores"
# What `Memory()` without a URL uses.
IN_PROCESS = "memory://"
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreOptions:
    """The arguments of `Memory` that are for its store."""

    timeout: float = 30.0
    synchronous: Synchronous = "FULL"
    # Whether a file may have less than it once had, as after a backup was restored.
    accept_shorter: bool = False
    # How many connections a store on a server may have at once.
    pool_size: int = 10
    # Where a store on a server listens for what other processes do: None for its URL, empty for nowhere.
    listen_dsn: str | None = None
    # Seconds since 1970. A store on a server has the server's clock.
    clock: Callable[[], float] = time.time


StoreFactory: TypeAlias = Callable[[str, StoreOptions], Store]


def _open_in_process(url: str, options: StoreOptions) -> Store:
    from autonomy_ctx.memory.in_process import InProcessStore

    return InProcessStore(clock=options.clock)


def _open_sqlite(url: str, options: StoreOptions) -> Store:
    from autonomy_ctx.memory.sqlite.connection import path_from_url
    from autonomy_ctx.memory.sqlite.store import SqliteStore

    return SqliteStore(
        path_from_url(url),
        timeout=options.timeout,
        synchronous=options.synchronous,
        accept_shorter=options.accept_shorter,
        clock=options.clock,
    )


def _open_postgres(url: str, options: StoreOptions) -> Store:
    try:
        from autonomy_ctx.memory.postgres.store import PostgresStore
    except ImportError as error:
        raise ImportError(
            f"PostgreSQL memory needs {error.name}: pip install 'autonomy-ctx[postgres]'"
        ) from None
    return PostgresStore(
        url, timeout=options.timeout, pool_size=options.pool_size, listen_dsn=options.listen_dsn
    )


_factories: dict[str, StoreFactory] = {
    "memory": _open_in_process,
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
}


def register_store(scheme: str, factory: StoreFactory, *, replace: bool = False) -> None:
    """Let `Memory("scheme://...")` use the store that `factory(url, options)` returns.

    Registering a known scheme again is an error, unless `replace` is true.
    """
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        raise ValueError(f"scheme is {scheme!r}; it must be lower-case letters, digits, +, . and -")
    if not callable(factory):
        raise TypeError(
            f"factory is {type(factory).__name__}; it must be a function that takes a URL and options"
        )
    if scheme in _factories and not replace:
        raise ValueError(f"the scheme {scheme!r} already has a store; give replace=True to replace it")
    _factories[scheme] = factory


def open_store(url: str | None, options: StoreOptions) -> Store:
    """The store that a URL names; without one, a store in this process."""
    if url is None:
        url = IN_PROCESS
    scheme, mark, _ = url.partition("://")
    # The rest of a URL may hold a password: it is not repeated in errors.
    if not mark:
        raise ValueError(f"{url!r} is not the URL of a memory; did you mean 'sqlite:///{url}'?")
    factory = _factories.get(scheme) or _find_installed_factory(scheme)
    if factory is None:
        known = sorted({*_factories, *(point.name for point in _entry_points())})
        raise ValueError(
            f"no store for URLs that begin with '{scheme}://'; there are {', '.join(known)}. Add one with "
            f"register_store({scheme!r}, factory), or install a package that brings it"
        )
    return factory(url, options)


def _find_installed_factory(scheme: str) -> StoreFactory | None:
    """The factory that an installed package offers for a scheme."""
    found = {point.value: point for point in _entry_points() if point.name == scheme}
    if len(found) > 1:
        raise ValueError(
            f"several packages offer a store for '{scheme}://': {', '.join(sorted(found))}; "
            f"choose one with register_store({scheme!r}, factory)"
        )
    for point in found.values():
        factory: Any = point.load()
        register_store(scheme, factory)
        return _factories[scheme]
    return None


def _entry_points() -> EntryPoints:
    # Takes longer to import than the rest of memory, and few need it.
    from importlib.metadata import entry_points

    return entry_points(group=ENTRY_POINTS)


def check_store(store: object) -> None:
    """Refuse what is no store, and a store that was written for an older version: its turns would fail."""
    begin_turn = getattr(store, "begin_turn", None)
    if begin_turn is None:
        raise TypeError(f"{type(store).__name__} is not a Store. See docs/how-to/write-a-store.md")
    parameters = signature(begin_turn).parameters.values()
    takes_all = any(one.kind is Parameter.VAR_KEYWORD for one in parameters)
    if not takes_all and not {"unless", "records"} <= {one.name for one in parameters}:
        raise TypeError(
            f"{type(store).__name__} was written for autonomy_ctx 0.2: its `begin_turn` does not take "
            "`unless` and `records`. See docs/how-to/write-a-store.md, 'Upgrade a store of 0.2'"
        )
