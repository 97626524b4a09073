"""Where public names are imported from, and what importing them costs."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pytest
from public_names import MODULES, PUBLIC, ROOT, SUBMODULES, get, names

import autonomy_ctx
from autonomy_ctx._lazy import lazy_names, modules_by_name
from autonomy_ctx.memory.in_process import InProcessStore
from autonomy_ctx.stores import Draft, Key, TurnStart

FOLDER = Path(__file__).parent.parent
LAZY = [door for door in MODULES if hasattr(importlib.import_module(door), "_NAMES")]
# What doors import at once: their modules `tool` and `http` have the names of functions.
AT_ONCE = {"autonomy_ctx.tools": {"Tool", "ToolRegistry", "tool"}, "autonomy_ctx.server": {"http"}}
# Each name that one of the documents this library grew from imports from the root of its package.
SEEDS = {
    "pygents": ("Agent", "ContextPoolHook", "ContextQueue", "ContextQueueHook", "Turn", "hook", "tool"),
    "a1": ("Context", "Message", "Runtime", "get_context", "get_runtime", "new_context"),
    "autonomy": (
        "AdditionalContextSection",
        "Agent",
        "ContextTemplate",
        "ConversationHistorySection",
        "FrameworkInstructionsSection",
        "Model",
        "Node",
        "SummarizedHistorySection",
        "SystemInstructionsSection",
    ),
}


def loaded(code: str) -> set[str]:
    """The modules that a fresh interpreter has after running some code."""
    program = f"import sys\n{code}\nprint(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=FOLDER, capture_output=True, text=True, check=True
    )
    return set(ran.stdout.split())


def imports_for_types(door: str) -> dict[str, str]:
    """Name and module of each import in a door's `if TYPE_CHECKING:`."""
    tree = ast.parse(Path(str(importlib.import_module(door).__file__)).read_text(encoding="utf-8"))
    [block] = [node for node in tree.body if isinstance(node, ast.If)]
    assert ast.unparse(block.test) == "TYPE_CHECKING"
    found = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert len(found) == len(block.body)
    # Under the same name, which is how a type checker is told that it is public.
    assert all(alias.asname == alias.name for node in found for alias in node.names)
    return {alias.name: str(node.module) for node in found for alias in node.names}


def test_names_are_sorted_and_listed_once() -> None:
    # Constants first, as the linter has it.
    for door in MODULES:
        assert names(door) == sorted(set(names(door)), key=lambda name: (not name.isupper(), name)), door


@pytest.mark.parametrize("door", LAZY)
def test_the_lazy_table_the_imports_for_type_checkers_and_the_list_agree(door: str) -> None:
    module = importlib.import_module(door)
    modules = modules_by_name(module._NAMES)
    assert imports_for_types(door) == modules
    assert set(module.__all__) == set(modules) | AT_ONCE.get(door, set())
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("door", sorted(set(MODULES) - set(LAZY)))
def test_a_door_that_imports_at_once_lists_what_it_defines(door: str) -> None:
    module = importlib.import_module(door)
    public = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and getattr(value, "__module__", door).startswith("autonomy_ctx")
    }
    assert set(module.__all__) == public - {"annotations"}


def test_every_public_name_comes_from_inside_and_says_what_it_is() -> None:
    things = {(door, name): get(door, name) for door, name in PUBLIC}
    described = {
        where: thing
        for where, thing in things.items()
        if inspect.isclass(thing) or inspect.isroutine(thing) or hasattr(thing, "__module__")
    }
    assert [
        where for where, thing in described.items() if not thing.__module__.startswith("autonomy_ctx.")
    ] == []
    # A dataclass or named tuple without a docstring gets its signature as one.
    assert [
        (door, name)
        for (door, name), thing in described.items()
        if (inspect.getdoc(thing) or "").split("(")[0] in ("", name)
    ] == []


def test_a_name_is_in_one_submodule_and_perhaps_in_the_root() -> None:
    counted = Counter(name for door in SUBMODULES for name in names(door))
    assert [name for name, times in counted.items() if times > 1] == []
    for door in SUBMODULES:
        for name in set(names(door)) & set(names(ROOT)):
            assert get(door, name) is get(ROOT, name)
    defined = Counter(id(get(door, name)) for door in SUBMODULES for name in names(door))
    assert max(defined.values()) == 1, "no object has two names"


def test_the_root_has_what_an_application_names_every_day() -> None:
    assert 60 <= len(names(ROOT)) <= 80


def test_what_the_seeds_import_from_their_root_is_in_ours() -> None:
    assert {name for seed in SEEDS.values() for name in seed} - set(names(ROOT)) == set()


def test_the_changelog_names_where_each_moved_name_is_now() -> None:
    changelog = (FOLDER / "CHANGELOG.md").read_text(encoding="utf-8")
    moved = re.findall(r"^\| `\w+` \| `(autonomy_ctx\.\w+)\.(\w+)` \|$", changelog, flags=re.MULTILINE)
    assert len(moved) > 100
    with warnings.catch_warnings():
        # Some have other names by now.
        warnings.simplefilter("ignore", DeprecationWarning)
        assert [name for door, name in moved if (door, name) not in PUBLIC and get(door, name) is None] == []


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'autonomy_ctx' has no attribute 'Agnet'"):
        autonomy_ctx.Agnet  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(ImportError, match="cannot import name 'Agnet'"):
        from autonomy_ctx import Agnet  # type: ignore[attr-defined]  # noqa: F401


def test_a_name_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    door = ModuleType("a_door")
    monkeypatch.setitem(sys.modules, "a_door", door)
    get_name, list_names, _ = lazy_names("a_door", {"pathlib": "Path"})
    assert "Path" in list_names()
    assert "Path" not in vars(door)
    assert get_name("Path") is Path
    assert vars(door)["Path"] is Path


@pytest.mark.parametrize("first", ["import autonomy_ctx.tools.run", "import autonomy_ctx.tools.tool", ""])
def test_tool_is_the_decorator_whatever_was_imported_before(first: str) -> None:
    loaded(
        f"{first}\nfrom autonomy_ctx.tools import tool\nimport autonomy_ctx\nassert tool is autonomy_ctx.tool"
    )


def test_importing_the_library_imports_none_of_its_parts() -> None:
    own = {name for name in loaded("import autonomy_ctx") if name.startswith("autonomy_ctx.")}
    assert own == {"autonomy_ctx._lazy"}


def test_an_agent_is_imported_without_what_is_optional_or_rare() -> None:
    everything = loaded("from autonomy_ctx import Agent, Memory, Model")
    assert {name.partition(".")[0] for name in everything}.isdisjoint(
        {
            "httpx",
            "trio",
            "splintr",
            "apsw",
            "model2vec",
            "numpy",
            "hypothesis",
            "pytest",
            "starlette",
            "uvicorn",
        }
    )
    assert everything.isdisjoint({"autonomy_ctx.testing", "autonomy_ctx.server", "asyncio", "sqlite3"})


FORMER = [
    ("autonomy_ctx.items", "Summary", "autonomy_ctx.messages", "Summary"),
    ("autonomy_ctx.items", "safe_cuts", "autonomy_ctx.messages", "safe_cuts"),
    ("autonomy_ctx.compaction", "ClearToolResults", "autonomy_ctx.containers", "ClearToolResults"),
    ("autonomy_ctx.stores", "TurnHold", "autonomy_ctx.stores", "TurnToken"),
    ("autonomy_ctx.stores", "OwedWork", "autonomy_ctx.stores", "DueTask"),
    ("autonomy_ctx.stores", "Log", "autonomy_ctx.stores", "Store"),
    ("autonomy_ctx.stores", "Turns", "autonomy_ctx.stores", "Store"),
]


@pytest.mark.parametrize(("door", "old", "home", "new"), FORMER)
def test_a_former_name_still_works_and_says_the_new_one(door: str, old: str, home: str, new: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{door}.{old} is now called {home}.{new};") as warned:
        assert get(door, old) is get(home, new)
    assert warned[0].filename == str(FOLDER / "tests" / "public_names.py")


async def test_methods_with_former_names_still_work() -> None:
    async with autonomy_ctx.Memory() as memory:
        with pytest.warns(DeprecationWarning, match="get_full_message"):
            assert await memory.get_whole_message("ana", "trip", "m1") is None


class OldStore(InProcessStore):
    """Its `begin_turn` is that of 0.2."""

    async def begin_turn(  # type: ignore[override]
        self,
        key: Key,
        drafts: Sequence[Draft],
        *,
        owner: str,
        seconds: float,
        ticket: int | None = None,
        after: int | None = None,
    ) -> TurnStart:
        raise NotImplementedError


def test_a_store_of_0_2_is_refused_with_the_page_that_helps() -> None:
    with pytest.raises(TypeError, match=r"OldStore was written for autonomy_ctx 0\.2.*write-a-store\.md"):
        autonomy_ctx.Memory(store=OldStore())
