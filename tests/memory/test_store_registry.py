"""Which store a URL means: the table of schemes, what packages add to it, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autonomy_ctx import Memory, Message
from autonomy_ctx.memory import registry
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.stores import Store, StoreOptions, register_store
from autonomy_ctx.testing import StoppedClock


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of each test's own, with the rows of this library."""
    own = {scheme: registry._factories[scheme] for scheme in ("memory", "sqlite")}
    monkeypatch.setattr(registry, "_factories", own)


def install(folder: Path, package: str, *, scheme: str, body: str) -> None:
    """Put a package into a folder that offers a store, as an installer would."""
    (folder / f"{package}.py").write_text(body)
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[autonomy_ctx.stores]\n{scheme} = {package}:open_store\n")


OPEN = """
from autonomy_ctx.memory.in_process import InProcessStore

def open_store(url, options):
    store = InProcessStore(clock=options.clock)
    store.url = url
    return store
"""


async def test_the_stores_of_this_library_are_rows_of_the_table(tmp_path: Path) -> None:
    for memory in (Memory(), Memory("memory://")):
        assert isinstance(memory.store, InProcessStore)
        await memory.close()
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        assert isinstance(memory.store, SqliteStore)


async def test_a_registered_scheme_opens_a_store_with_what_memory_was_given() -> None:
    seen: list[tuple[str, StoreOptions]] = []

    def open_table(url: str, options: StoreOptions) -> Store:
        seen.append((url, options))
        return InProcessStore(clock=options.clock)

    register_store("table", open_table)
    clock = StoppedClock()
    async with Memory("table://host/name?x=1", timeout=3, synchronous="NORMAL", clock=clock) as memory:
        await memory.append("ana", "trip", Message("user", "Hello"))
        assert await memory.get_message_count("ana", "trip") == 1
    [(url, options)] = seen
    assert (url, options.timeout, options.synchronous) == ("table://host/name?x=1", 3, "NORMAL")
    assert options.clock() == clock().timestamp()


def test_a_scheme_is_registered_once_unless_it_is_to_be_replaced() -> None:
    first, second = InProcessStore(), InProcessStore()
    register_store("table", lambda url, options: first)
    with pytest.raises(ValueError, match="'table' already has a store"):
        register_store("table", lambda url, options: second)
    assert Memory("table://").store is first
    register_store("table", lambda url, options: second, replace=True)
    assert Memory("table://").store is second


def test_an_unknown_scheme_is_named_with_those_that_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "offers_shelf", scheme="shelf", body=OPEN)
    monkeypatch.syspath_prepend(tmp_path)
    register_store("table", lambda url, options: InProcessStore())
    with pytest.raises(ValueError) as raised:
        Memory("redis://user:secret@host")
    assert str(raised.value) == (
        "no store for URLs that begin with 'redis://'; there are memory, shelf, sqlite, table. Add one with "
        "register_store('redis', factory), or install a package that brings it"
    )


def test_an_installed_package_brings_its_scheme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "offers_drawer", scheme="drawer", body=OPEN)
    monkeypatch.syspath_prepend(tmp_path)
    for url in ("drawer://one", "drawer://two"):
        store: Any = Memory(url).store
        assert store.url == url


def test_what_is_registered_goes_before_what_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "offers_box", scheme="box", body="raise ImportError('not to be imported')")
    monkeypatch.syspath_prepend(tmp_path)
    own = InProcessStore()
    register_store("box", lambda url, options: own)
    assert Memory("box://").store is own


def test_of_two_packages_with_one_scheme_none_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "offers_crate_a", scheme="crate", body=OPEN)
    install(tmp_path, "offers_crate_b", scheme="crate", body=OPEN)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match="offers_crate_a:open_store, offers_crate_b:open_store"):
        Memory("crate://")


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(TypeError, match=r"object is not a Store. See docs/how-to/write-a-store\.md"):
        Memory(store=object())  # type: ignore[arg-type]


async def test_every_store_of_this_library_is_a_store(tmp_path: Path) -> None:
    async with Memory(f"sqlite:///{tmp_path}/memory.db") as memory:
        assert isinstance(memory.store, Store)
    assert isinstance(InProcessStore(), Store)
    assert not isinstance(object(), Store)
