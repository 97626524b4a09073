"""House rules that would otherwise need a reader to notice them.

Sizes, the walk of a turn, caches, names and imports have limits here. A change that needs more edits the
limit in the same commit, and says why.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TypeAlias

import pytest
from slow_tests import FEW, QUICK, SLOW

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "autonomy_ctx").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(read(path))


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parse(path)))


@pytest.fixture(scope="module", autouse=True)
def forget_files() -> Iterator[None]:
    """So that the garbage collector never walks through the syntax trees of the whole library."""
    gc.disable()
    yield
    for kept in (read, parse, nodes):
        kept.cache_clear()
    gc.enable()


def mentions(path: Path, words: Iterable[str]) -> bool:
    """Whether a file has one of the words anywhere; others need not be parsed to look for them."""
    return any(word in read(path) for word in words)


def test_every_module_imports() -> None:
    failed = {}
    for path in SOURCES:
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(part for part in parts if part != "__init__")
        try:
            importlib.import_module(name)
        except ImportError as error:
            # Adapters are imported where their frameworks are; here they say what they need.
            if "autonomy_ctx.adapters." not in name or "pip install 'autonomy-ctx[" not in str(error):
                failed[name] = str(error)
    assert failed == {}


def test_every_module_says_why_it_exists() -> None:
    assert [relative(path) for path in SOURCES if not ast.get_docstring(parse(path))] == []


WITHOUT_POSIX = """
import asyncio, os, sys

sys.modules["fcntl"] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOCTTY", "O_NOFOLLOW", "O_NONBLOCK", "fork", "register_at_fork"):
    delattr(os, name)

import autonomy_ctx
from autonomy_ctx import AutonomyCtxError, Context, Memory
from autonomy_ctx.tools import filesystem_tools

for name in autonomy_ctx.__all__:
    getattr(autonomy_ctx, name)


async def remember(url):
    memory = Memory(url)
    try:
        await memory.append("ana", "trip", {"role": "user", "content": "Hello"})
        print([message["content"] for message in await memory.get_messages_only("ana", "trip")])
    finally:
        await memory.close()


def save():
    context = Context.from_file("trip.json")
    context.user("Hello")
    context.save()


asyncio.run(remember(None))
for use in (lambda: asyncio.run(remember("sqlite:///memory.db")), save, lambda: filesystem_tools("files")):
    try:
        use()
    except AutonomyCtxError as error:
        print(error)
"""


def test_without_posix_the_library_imports_and_says_what_needs_it(tmp_path: Path) -> None:
    """As on Windows: no `fcntl`, and fewer names in `os`."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITHOUT_POSIX]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    remembered, *refused = ran.stdout.splitlines()
    assert remembered == "['Hello']"
    assert len(refused) == 3
    assert all("Linux, macOS or WSL" in line for line in refused)


def sleeps(path: Path) -> list[int]:
    """The lines of a file on which something sleeps for a time."""
    found = []
    for node in ast.walk(parse(path)) if mentions(path, ["sleep"]) else ():
        if isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "sleep":
                found.append(node.lineno)
    return found


# Programs that tests drive from outside may wait; the tests themselves wait for something to happen.
def test_no_test_sleeps() -> None:
    found = {relative(path): sleeps(path) for path in TESTS if path.name.startswith("test_")}
    assert found
    assert {name: at for name, at in found.items() if at} == {}


def test_every_test_that_is_listed_as_slow_or_quick_is_there() -> None:
    for listed in SLOW | QUICK | FEW.keys():
        file, *inner = listed.split("::")
        path = ROOT / "tests" / file
        assert path.exists(), listed
        assert all(re.search(rf"(def|class) {name}\b", path.read_text(encoding="utf-8")) for name in inner), (
            listed
        )


# -- modules and names: a module is one noun that an engineer of the field would look for ---------------


PACKAGE = ROOT / "autonomy_ctx"
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.name != "__init__.py"
}
LONGEST = 700
SHORTEST = 60
# Modules that only re-export: they are doors, not users, of what they import.
DOORS = {"autonomy_ctx.stores", "autonomy_ctx.tasks", "autonomy_ctx.tokens"}
# Small modules with one importer that stay apart, each with its reason.
SMALL: dict[str, str] = {
    "autonomy_ctx.tools.builtin.compact": "each group of built-in tools has a module of its own",
    "autonomy_ctx.tools.builtin.time": "each group of built-in tools has a module of its own",
}
# Words that once named modules here. A stranger would not look for them.
_BANNED_WORDS = """
held kept keeping saved torn told said shown written described equipped explained working asking
calling reading writing opening looking sharing swapping searching merging shrinking reporting
recorded placed placing lookout standin shelves lines hall bell crew delegates strides hot wake
equipment exchange intake latest place setting beneath places team plain readable underway
asked guard listening foreign sendable prepared frozen utils helpers misc common base_classes
"""
BANNED = frozenset(_BANNED_WORDS.split())
# Participles that do not end in -ed or -ing.
_IRREGULAR_WORDS = """
held kept written shown told said taken torn found made sent seen given chosen known left lost
heard begun done gone drawn built bound brought caught spoken spent stood thought understood
worn broken frozen hidden met led
"""
IRREGULAR = frozenset(_IRREGULAR_WORDS.split())
# Nouns and adjectives of the trade that look like participles.
_NOUNS_WORDS = """
ceiling encoding heading listing setting settings string thinking embedding binding padding
mapping anything spelling logging reasoning sampling nothing missing pending disabled required
"""
NOUNS = frozenset(_NOUNS_WORDS.split())


def imports(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever in the file."""
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def importers() -> dict[str, set[str]]:
    """For each module, the modules that use it. Doors and `__init__` files only re-export."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for name, path in MODULES.items():
        if name not in DOORS:
            for imported in imports(path):
                found[imported].add(name)
    return found


def lines(path: Path) -> int:
    return len(read(path).splitlines())


def names(path: Path) -> Iterator[str]:
    """What a module defines at its top level."""
    for node in parse(path).body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Assign():
                for target in node.targets:
                    yield from (one.id for one in ast.walk(target) if isinstance(one, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name


def is_participle(name: str) -> bool:
    """Whether a name is one word that says what was or is being done, and not what it is."""
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+", name)
    if len(words) != 1 or words[0].lower() in NOUNS:
        return False
    word = words[0].lower()
    return word in IRREGULAR or (len(word) > 4 and word.endswith(("ed", "ing")))


def test_no_module_is_too_long_to_read() -> None:
    assert {name for name, path in MODULES.items() if lines(path) > LONGEST} == set()


def test_no_module_is_a_piece_of_its_only_importer() -> None:
    users = importers()
    small = {name for name, path in MODULES.items() if lines(path) < SHORTEST and len(users[name]) == 1}
    assert small == set(SMALL)


def test_no_module_has_a_name_that_a_stranger_would_not_look_for() -> None:
    assert [name for name in MODULES if name.rpartition(".")[2].strip("_") in BANNED] == []


def test_no_name_of_a_module_is_a_bare_participle() -> None:
    assert [
        f"{name}.{one}" for name, path in MODULES.items() for one in names(path) if is_participle(one)
    ] == []


def test_the_rule_about_participles_can_tell() -> None:
    assert [
        one for one in ("written", "_Held", "KEPT", "asking", "render_summary") if is_participle(one)
    ] == [
        "written",
        "_Held",
        "KEPT",
        "asking",
    ]
    assert not any(map(is_participle, ("HEADING", "Segment", "_string", "read", "settings_of")))


# -- sizes: lines and modules of each folder, at most ----------------------------------------------------

BUDGETS: dict[str, tuple[int, int]] = {
    ".": (2_062, 13),
    "adapters": (1_715, 10),
    "agents": (4_734, 20),
    "cli": (6_117, 28),
    "compaction": (6_621, 23),
    "containers": (3_709, 14),
    "engine": (1_182, 4),
    "errors": (1_091, 10),
    "formats": (6_179, 24),
    "inspection": (1_759, 8),
    "knowledge": (1_311, 7),
    "language": (3_376, 14),
    "memory": (12_923, 69),
    "messages": (3_817, 16),
    "models": (3_037, 11),
    "replay": (2_207, 11),
    "sections": (2_418, 13),
    "server": (7_557, 41),
    "template": (4_314, 14),
    "testing": (3_208, 21),
    "tools": (4_686, 21),
}


def sizes() -> dict[str, tuple[int, int]]:
    """Lines and modules of each folder, with what is below it; "." is the package's own modules."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for path in SOURCES:
        parts = path.relative_to(PACKAGE).parts
        found[parts[0] if len(parts) > 1 else "."].append(lines(path))
    return {folder: (sum(each), len(each)) for folder, each in found.items()}


def test_every_folder_keeps_within_its_budget() -> None:
    found = sizes()
    assert set(found) == set(BUDGETS)
    over = {name: size for name, size in found.items() if any(map(int.__gt__, size, BUDGETS[name]))}
    assert over == {}, "edit BUDGETS in the same commit, with the reason"


# -- the walk: files, functions and calls of a turn, at most ---------------------------------------------

WALKS = {
    "plain": {"files": 68, "functions": 500, "calls": 1_220},
    "summary": {"files": 121, "functions": 1_258, "calls": 14_000},
}


@pytest.mark.parametrize("kind", WALKS)
def test_a_turn_walks_through_few_functions(kind: str) -> None:
    command = [sys.executable, str(ROOT / "tests" / "walk.py"), kind]
    walked = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found = json.loads(walked.stdout)
    assert {name: count for name, count in found.items() if count > WALKS[kind][name]} == {}


# -- caches: listed by name in caches.txt ------------------------------------------------------------------

DECORATORS = frozenset({"cache", "cached", "cached_property", "lru_cache", "word_cache"})
# fmt: off
CLASSES = frozenset({
    "ConversationCache", "LFUCache", "LRUCache", "TTLCache",
    "WeakKeyDictionary", "WeakValueDictionary", "WindowCache",
})
# fmt: on
FoundCache: TypeAlias = tuple[str, str]


def name_of(node: ast.AST) -> str:
    """The last part of a name that is called or used as a decorator."""
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def caches_in(node: ast.AST, where: str) -> Iterator[FoundCache]:
    """Every cache that the code makes, with the function or class it is made in."""
    for child in ast.iter_child_nodes(node):
        inside = where
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = f"{where}.{child.name}"
            used = map(name_of, child.decorator_list)
            yield from ((inside, name) for name in used if name in DECORATORS)
        elif isinstance(child, ast.Call) and name_of(child) in CLASSES:
            yield where, name_of(child)
        elif isinstance(child, ast.Call) and isinstance(child.func, ast.Call):
            # A decorator that is called with a function.
            yield from ((where, name) for name in [name_of(child.func)] if name in DECORATORS)
        yield from caches_in(child, inside)


def test_every_cache_is_listed() -> None:
    """A new one is listed with the figure of a turn or a request that it makes better by 10 % or more."""
    found = sorted(
        f"{where} {kind}"
        for name, path in MODULES.items()
        if mentions(path, DECORATORS | CLASSES)
        for where, kind in caches_in(parse(path), name)
    )
    listed = (ROOT / "tests" / "caches.txt").read_text(encoding="utf-8").splitlines()
    assert found == [line for line in listed if not line.startswith("#")]


# -- values are values -------------------------------------------------------------------------------------


def odd_assignments(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """Functions that change a frozen value or the class of an object, other than `__post_init__`."""
    for node in ast.iter_child_nodes(tree):
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else inside
        if isinstance(node, ast.Call) and name_of(node) == "__setattr__" and inside != "__post_init__":
            yield inside
        if isinstance(node, ast.Assign) and any(name_of(one) == "__class__" for one in node.targets):
            yield inside
        yield from odd_assignments(node, name)


def test_values_do_not_change_once_they_are_made() -> None:
    found = {
        f"{name}.{one}"
        for name, path in MODULES.items()
        if mentions(path, ["__setattr__", "__class__"])
        for one in odd_assignments(parse(path))
    }
    assert found == ODD


ODD = {
    "autonomy_ctx.compaction.schema.__init__",
    "autonomy_ctx.replay.conversation.__init__",
    "autonomy_ctx.replay.conversation._with",
}


# -- imports -----------------------------------------------------------------------------------------------

# Folders of values: no I/O, no time, no threads.
PURE = ("formats", "language", "messages")
IMPURE = frozenset({"anyio", "asyncio", "threading", "time", "autonomy_ctx.background"})
IMPURE_TODAY = {
    "autonomy_ctx.language.digest",
    "autonomy_ctx.language.identifiers",
    "autonomy_ctx.language.name_index",
}


def modules_used(path: Path) -> Iterator[str]:
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_values_need_no_clock_and_no_thread() -> None:
    folders = tuple(f"autonomy_ctx.{folder}." for folder in PURE)
    pure = {name: path for name, path in MODULES.items() if name.startswith(folders)}
    assert pure
    assert {name for name, path in pure.items() if IMPURE & set(modules_used(path))} == IMPURE_TODAY


def find_cycles() -> set[frozenset[str]]:
    """Groups of modules of one folder that import each other, also for types only."""
    found = set()
    reach = {name: set(modules_used(path)) & (MODULES.keys() - {name}) for name, path in MODULES.items()}
    near = {
        name: {one for one in used if one.rpartition(".")[0] == name.rpartition(".")[0]}
        for name, used in reach.items()
    }
    below: dict[str, set[str]] = {}
    for name in near:
        seen: set[str] = set()
        todo = list(near[name])
        while todo:
            one = todo.pop()
            if one not in seen:
                seen.add(one)
                todo += near[one]
        below[name] = seen
    for name, seen in below.items():
        if name in seen:
            found.add(frozenset(one for one in seen if name in below[one]))
    return found


def test_no_modules_of_a_folder_import_each_other() -> None:
    assert find_cycles() == set()


# -- one name for one thing --------------------------------------------------------------------------------

TWICE: set[str] = set()


def test_a_class_name_is_used_once() -> None:
    homes: defaultdict[str, set[str]] = defaultdict(set)
    for module, path in MODULES.items():
        for node in nodes(path):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(module)
    assert {name for name, modules in homes.items() if len(modules) > 1} == TWICE


MOST_PARAMETERS = 12
# Doors with an option for each thing that a user may set.
WIDE = {
    "autonomy_ctx.agents.agent.__init__",
    "autonomy_ctx.cli.replay.replay_conversation",
    "autonomy_ctx.cli.show.show",
    "autonomy_ctx.compaction.checks.check_summary",
    "autonomy_ctx.memory.memory.__init__",
    "autonomy_ctx.models.model.__init__",
    "autonomy_ctx.server.endpoint.app.endpoint_app",
    "autonomy_ctx.template.defaults.create_default_template",
}


def test_no_function_has_more_parameters_than_a_reader_can_hold() -> None:
    found = set()
    for module, path in MODULES.items():
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                if len([one for one in given if one.arg not in ("self", "cls")]) > MOST_PARAMETERS:
                    found.add(f"{module}.{node.name}")
    assert found == WIDE


# A docstring begins with a verb or a noun, and is understood without its neighbours.
RIDDLES = ("What ", "Whether ", "Those ", "How ", "The same ")
MOST_RIDDLES = 1


def test_docstrings_begin_with_what_they_are_about() -> None:
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    found = [
        f"{name}.{node.name}"
        for name, path in MODULES.items()
        for node in nodes(path)
        if isinstance(node, defined) and (ast.get_docstring(node) or "").startswith(RIDDLES)
    ]
    assert len(found) <= MOST_RIDDLES, found[:20]


# Phrases that a reader has to guess, and the words of the field instead: in messages, pages and docs.
PHRASES = {
    "facts that hold": "current facts",
    "fact that holds": "current fact",
    "standing fact": "current fact",
    "begin as in": "are a shared prefix with",
    "begin as before": "are a shared prefix",
    "begin alike": "share a prefix",
    "the turn before": "the previous turn",
    "the request before": "the previous request",
    "the one before": "the previous one",
    "share a word": "contain a word of",
    "shares a word": "matches these words",
    "read anew": "not cached",
    "took the place of": "replaced",
    "was taken back": "was undone",
    "there already": "already",
}
# Prompts are written for models; upgrade notes and the tutorial have their own words.
OTHER_READERS = ("autonomy_ctx/compaction/prompt.py", "docs/migrate/", "docs/tutorial/")


def shown_texts(path: Path) -> Iterator[str]:
    """Texts that a person reads: the strings of a module without its docstrings, or all of a page."""
    if path.suffix != ".py":
        yield read(path)
        return
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    docstrings = {
        id(node.body[0].value)
        for node in nodes(path)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in nodes(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def test_texts_use_the_words_of_the_field() -> None:
    pages = [
        *(ROOT / "autonomy_ctx" / "server").rglob("*.js"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
    ]
    found = [
        f"{relative(path)}: {phrase!r}; say {better!r}"
        for path in [*SOURCES, *sorted(pages)]
        if not relative(path).startswith(OTHER_READERS)
        for text in shown_texts(path)
        for phrase, better in PHRASES.items()
        if phrase in " ".join(text.lower().split())
    ]
    assert found == []
