"""The rules for modules and names: a module is one noun that an engineer of the field would look for."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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
    "autonomy_ctx.tools.builtin.time": "each group of built-in tools has a module of its own",
}
# Words that once named modules here. A stranger would not look for them.
_BANNED_WORDS = """
held kept keeping saved torn told said shown written described equipped explained working asking
calling reading writing opening looking sharing swapping searching merging shrinking reporting
recorded placed placing lookout standin shelves lines hall bell crew delegates strides hot wake
equipment exchange intake latest place setting beneath places team words plain readable underway
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
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
    return len(path.read_text(encoding="utf-8").splitlines())


def names(path: Path) -> Iterator[str]:
    """What a module defines at its top level."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
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


@pytest.mark.parametrize("name", MODULES)
def test_no_module_has_a_name_that_a_stranger_would_not_look_for(name: str) -> None:
    assert name.rpartition(".")[2].strip("_") not in BANNED


@pytest.mark.parametrize("name", MODULES)
def test_no_name_of_a_module_is_a_bare_participle(name: str) -> None:
    assert [one for one in names(MODULES[name]) if is_participle(one)] == []


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
