"""What a release needs says the same in every place: the version, the versions that tests run with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from docs.snippets import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
CONSTRAINTS = {
    ROOT / "tests" / "constraints.txt": "dev",
    ROOT / "docs" / "constraints.txt": "docs",
    ROOT / "tests" / "adapters" / "constraints-1.txt": "adapters-1",
    ROOT / "tests" / "adapters" / "constraints-2.txt": "adapters-2",
    ROOT / "benchmarks" / "peers" / "constraints.txt": "peers",
    ROOT / "benchmarks" / "peers" / "constraints-llama-index.txt": "peers-llama-index",
    ROOT / "benchmarks" / "peers" / "constraints-compactbench.txt": "peers-compactbench",
}


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def group_names(group: str) -> set[str]:
    """The packages of a dependency group, and of those that it includes."""
    found = set[str]()
    for one in PROJECT["dependency-groups"][group]:
        if isinstance(one, dict):
            found |= group_names(one["include-group"])
        else:
            found.add(normalize(re.split(r"[\[<>=!~ ]", one)[0]))
    return found


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    assert re.findall(r"^## \[(.+?)\]", read("CHANGELOG.md"), flags=re.MULTILINE)[0] == VERSION


def test_the_citation_names_this_version_and_its_license() -> None:
    citation = read("CITATION.cff")
    assert re.findall(r"^version: (.*)$", citation, flags=re.MULTILINE) == [VERSION]
    assert re.findall(r"^license: (.*)$", citation, flags=re.MULTILINE) == [PROJECT["project"]["license"]]


def test_security_fixes_are_for_this_minor_version() -> None:
    assert f"| {VERSION.rpartition('.')[0]}.x | yes |" in read("SECURITY.md")


def test_the_policy_names_every_python_that_the_metadata_names() -> None:
    versions = re.findall(r"Python :: (3\.\d+)", " ".join(PROJECT["project"]["classifiers"]))
    assert f"| Python | {', '.join(versions)}." in read("docs/policy.md")


@pytest.mark.parametrize("file", CONSTRAINTS, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_an_environment_of_tests_has_exact_versions_of_all_it_names(file: Path) -> None:
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+-]+", line)] == []
    exact = {normalize(line.partition("==")[0]) for line in lines}
    assert group_names(CONSTRAINTS[file]) - exact == set()
