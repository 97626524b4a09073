"""The reference names everything public, with the arguments it has today; promises name tests that exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from docs.snippets import PAGES, ROOT, shown
from public_names import PUBLIC, get
from slow_tests import is_slow_name

from autonomy_ctx import SummarizedHistorySection

REFERENCE = {
    path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "reference").glob("*.md")
}
PROMISES = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8")

_SIGNED = re.compile(r"`(?:await )?(\w+)\(([^`]*)\)(?: -> [^`]*)?`")
# What the site takes from the source: signature, docstring and members.
_DIRECTIVE = re.compile(r"^::: ([\w.]+)\.(\w+)$", re.MULTILINE)
# A file or a folder, as a page names it: `messages/cuts.py`, `tools/builtin/`, or in a figure without marks.
_PATH = re.compile(r"(?:(?<=`)|(?<= ))((?:[\w.]+/)*(?:[\w.*<>]+\.py|[\w.]+/(?=`)))")
_TEST = re.compile(r"`((?:tests|autonomy_ctx)/[\w/]+\.py)((?:::\w+)*)`")


def exists(path: str) -> bool:
    """Whether the package or the repository has it; a bare name may be anywhere in the package."""
    package = ROOT / "autonomy_ctx"
    if "/" not in path:
        return any(package.rglob(path))
    return any(package.glob(path)) or any(ROOT.glob(path))


def entries() -> Iterator[tuple[str, str]]:
    """Each heading of the reference with what stands below it."""
    for text in REFERENCE.values():
        for entry in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
            heading, _, body = entry.partition("\n")
            yield heading, body


def parameters(written: str) -> list[str]:
    """The names in a signature as the reference writes it."""
    # Defaults may be words; only the names count.
    bare = re.sub(r"=(\"[^\"]*\"|\(\)|\{\}|[^,()]+)", "=None", written)
    function = ast.parse(f"def f({bare}): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    given = function.args
    rest = [given.vararg] if given.vararg else []
    named = [given.kwarg] if given.kwarg else []
    return [arg.arg for arg in [*given.args, *rest, *given.kwonlyargs, *named]]


def is_signature(names: list[str], thing: Any) -> bool:
    """Tell whether these are the parameters of the code; keywords may be in any order."""
    given = [one for one in inspect.signature(thing).parameters.values() if not one.name.startswith("_")]
    in_order = [one.name for one in given if one.kind is not one.KEYWORD_ONLY]
    named = {one.name for one in given} - set(in_order)
    return [one for one in names if one not in named] == in_order and set(names) >= named


def found(name: str) -> Any:
    return next(get(module, public) for module, public in PUBLIC if public == name)


def imported_names() -> set[tuple[str, str]]:
    """Module and name, as the tables at the top of the pages have them."""
    rows = [
        row
        for text in REFERENCE.values()
        for row in re.findall(r"^\| `(autonomy_ctx[\w.]*)` \| (.*) \|$", text, flags=re.MULTILINE)
    ]
    return {(module, name) for module, names in rows for name in re.findall(r"`(\w+)`", names)}


def methods(kind: type) -> list[str]:
    """The public methods of a class that this library defines."""
    return [
        name
        for name, value in inspect.getmembers(kind, inspect.isroutine)
        # A cached property is a routine, too, from Python 3.13 on.
        if callable(value)
        and not name.startswith("_")
        # Under its former name a method works, and is no part of the reference.
        and "former_method" not in value.__qualname__
        and (getattr(value, "__module__", None) or "").startswith("autonomy_ctx")
        and not issubclass(kind, Exception)
    ]


def test_every_public_name_is_in_the_reference() -> None:
    text = "\n".join(REFERENCE.values())
    names = sorted({name for _, name in PUBLIC})
    assert [name for name in names if f"`{name}`" not in text and f"`{name}(" not in text] == []


def test_every_public_name_is_taken_from_the_source_once() -> None:
    taken = [found for text in REFERENCE.values() for found in _DIRECTIVE.findall(text)]
    # Under its shortest name: the root before a submodule.
    wanted = {name: module for module, name in reversed(PUBLIC)}
    assert sorted(taken) == sorted((module, name) for name, module in wanted.items())


def test_below_a_heading_is_what_it_names() -> None:
    # Errors have a page of their own, and the hooks of agents are on that of agents.
    elsewhere = {name for module, name in PUBLIC if module == "autonomy_ctx.errors"} | {"AgentHook"}
    wrong = []
    for heading, body in entries():
        named = re.findall(r"`(\w+)[`(]", heading)
        below = re.match(r"(?:\n::: [\w.]+\n)*", body)
        assert below is not None
        taken = [name for _, name in _DIRECTIVE.findall(below[0])]
        if taken != named and (taken or not set(named) <= elsewhere):
            wrong.append(heading)
    assert wrong == [], "put `::: module.Name` below each, for each name in it"


def test_the_reference_says_where_each_name_is_imported_from() -> None:
    # One row stands for all errors.
    assert "| `autonomy_ctx.errors` | every error |" in REFERENCE["errors.md"]
    assert imported_names() == {(module, name) for module, name in PUBLIC if module != "autonomy_ctx.errors"}


def wrong_signatures(heading: str, body: str) -> Iterator[str]:
    """Names below a heading whose parameters or methods are not those of the code."""
    name = re.sub(r"\W.*", "", heading.strip("`"))
    thing = found(name)
    signed = _SIGNED.fullmatch(heading)
    if signed and not is_signature(parameters(signed[2]), thing):
        yield name
    if not inspect.isclass(thing) or name.endswith("Contract"):
        return
    items = [line.split("`: ")[0] + "`" for line in body.splitlines() if line.startswith("- `")]
    listed = dict(_SIGNED.findall("\n".join(items)))
    yield from (f"{name}.{method}" for method in set(listed) ^ set(methods(thing)))
    for method, written in listed.items():
        given = inspect.signature(getattr(thing, method)).parameters
        # A method of a store has the parameters of its script.
        real = [arg for arg in given if arg not in ("self", "session")]
        if parameters(written) != real:
            yield f"{name}.{method}"


def test_signatures_are_those_of_the_code() -> None:
    assert [name for heading, body in entries() for name in wrong_signatures(heading, body)] == []


def test_every_metric_of_summaries_is_explained() -> None:
    page = (ROOT / "docs" / "how-to" / "summarize-long-conversations.md").read_text(encoding="utf-8")
    keys = SummarizedHistorySection(None).get_metrics()
    assert [key for key in keys if f"`{key}`" not in page] == []


def proves(tree: ast.Module, names: str) -> bool:
    """Whether a file has a test of this name, and the test is expected to pass."""
    scope = tree.body
    for name in names.split("::")[1:]:
        one = next(
            (
                node
                for node in scope
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name == name
            ),
            None,
        )
        if one is None or any("xfail" in ast.unparse(mark) for mark in one.decorator_list):
            return False
        scope = one.body
    return True


def test_every_test_named_in_the_promises_exists() -> None:
    named = sorted(set(_TEST.findall(PROMISES)))
    files = {file for file, _ in named}
    assert [file for file in sorted(files) if not (ROOT / file).exists()] == []
    missing = []
    # One tree at a time: the garbage collector walks through all that are kept.
    for file in sorted(files):
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        missing += [file + names for one, names in named if one == file and not proves(tree, names)]
    assert missing == []


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_pages_for_contributors_name_only_files_that_exist(page: str) -> None:
    # `<name>` is for the reader to fill in: there is a file like it.
    named = [path.replace("<name>", "*") for path in _PATH.findall((ROOT / page).read_text(encoding="utf-8"))]
    assert named
    assert [path for path in named if not exists(path)] == []


def test_the_rule_about_named_files_can_tell() -> None:
    text = (
        "`memory/store.py`, `store.py`, `tools/builtin/`, `tests/tools/`, `a/b.py::c`, agents/turn.py or/and"
    )
    assert _PATH.findall(text) == [
        "memory/store.py",
        "store.py",
        "tools/builtin/",
        "tests/tools/",
        "a/b.py",
        "agents/turn.py",
    ]
    assert [exists(path) for path in ("tools/builtin/", "tests/tools/", "log.py")] == [True] * 3
    assert [exists(path) for path in ("tools/built/", "agents/equipment.py", "crew.py")] == [False] * 3


def test_every_promise_names_a_test_and_is_in_the_table_of_its_page() -> None:
    table, *groups, unproved = re.split(r"^## ", PROMISES, flags=re.MULTILINE)
    assert unproved.startswith("Not promised")
    for group in groups:
        heading, *promises = re.split(r"^### ", group, flags=re.MULTILINE)
        # Each promise has a heading of its own: none stands right below the heading of a group.
        assert promises, heading
        assert len(heading.splitlines()) <= 2, heading
        for promise in promises:
            name = promise.splitlines()[0]
            assert _TEST.search(promise), name
            assert f"[{name[0].lower()}{name[1:]}](" in table or f"[{name}](" in table, name


def test_every_promise_has_a_test_that_make_test_runs() -> None:
    promises = re.split(r"^### ", PROMISES.partition("\n## Not promised")[0], flags=re.MULTILINE)[1:]
    assert [
        promise.splitlines()[0]
        for promise in promises
        if all(is_slow_name(file.removeprefix("tests/") + names) for file, names in _TEST.findall(promise))
    ] == []


def test_links_between_pages_lead_somewhere() -> None:
    dead = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        pictures = re.findall(r'\b(?:src|srcset)="(?!https?:)([^"]*)"', text)
        for target in [*re.findall(r"\]\((?!https?:)([^)#]*)(?:#[^)]*)?\)", text), *pictures]:
            if target and not (page.parent / target).exists():
                dead.append(f"{shown(page)}: {target}")
    assert dead == []


@cache
def anchors(page: Path) -> set[str]:
    """What links to the headings of a page end in, after the `#`."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    words = [re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings]
    return {re.sub(r"[-\s]+", "-", heading) for heading in words}


def test_links_to_a_heading_name_one_that_is_there() -> None:
    assert [
        f"{shown(page)}: {target}#{anchor}"
        for page in PAGES
        for target, anchor in re.findall(
            r"\]\((?!https?:)([^)#]*)#([^)]*)\)", page.read_text(encoding="utf-8")
        )
        if anchor not in anchors(page.parent / target if target else page)
    ] == []
