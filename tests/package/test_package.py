"""What is published: wheel and sdist, installed as users install them, in environments with nothing else."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from docs.readme_server import serve_openai
from docs.snippets import ROOT, snippets
from needed_programs import report_missing
from postgres_server import ServerMissing, start_server

from docs.tutorial import CHAPTERS, differences, output_on, program_of, running, without_address

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
VERSION = PROJECT["version"]
CONSTRAINTS = ROOT / "tests" / "constraints.txt"
FRAMEWORKS = ROOT / "tests" / "adapters"

# What an extra is for: a program that works with it, and not without.
PROGRAMS = {
    "tokens": "from autonomy_ctx.tokens import ExactTextCounter; ExactTextCounter('gpt-5').count('one two')",
    "embeddings": "import model2vec, numpy; from autonomy_ctx import Memory; Memory('sqlite:///a.db')",
    "images": "from autonomy_ctx import Agent; Agent('a', model='offline', max_image_side='auto')",
    "otel": "import opentelemetry.trace; from autonomy_ctx.tracing import trace_conversation_id",
    "local": "import xllamacpp",
    "server": "from autonomy_ctx.server import http, inspector_app; http(port=0)",
    "postgres": "import psycopg_pool, autonomy_ctx.memory.postgres.store",
    "cli": "import sys; sys.argv[1:] = ['--version']; from autonomy_ctx.cli import main; main()",
    "mcp": "import autonomy_ctx.tools.mcp_connection, autonomy_ctx.server.mcp.server",
}
ADAPTERS = {
    "agent-framework": "from autonomy_ctx.adapters.agent_framework import ContextProvider",
    "google-adk": "from autonomy_ctx.adapters.google_adk import ContextPlugin",
    "langchain": "from autonomy_ctx.adapters.langchain import ContextMiddleware",
    "litellm": "from autonomy_ctx.adapters.litellm import ContextHook",
    "llama-index": "from autonomy_ctx.adapters.llama_index import ContextMemory",
    "openai-agents": "from autonomy_ctx.adapters.openai_agents import ContextSession",
    "pydantic-ai": "from autonomy_ctx.adapters.pydantic_ai import ContextCapability",
    "strands": "from autonomy_ctx.adapters.strands import ContextConversationManager",
}


@dataclass(frozen=True)
class Environment:
    """A fresh one; its Python does not see this checkout."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "venv" / "bin" / "python"

    def make(self) -> Environment:
        run_command([sys.executable, "-m", "venv", "--without-pip", self.folder / "venv"], self.folder)
        return self

    def install(self, *what: object, constraints: Path = CONSTRAINTS) -> None:
        pip = [sys.executable, "-m", "pip", "--python", self.python, "--disable-pip-version-check"]
        exactly = ["--constraint", constraints, "--build-constraint", CONSTRAINTS]
        run_command([*pip, "install", "--quiet", "--no-compile", *exactly, *what], self.folder)

    def run(self, program: str, *, succeeds: bool = True) -> str:
        return run_command([self.python, "-W", "error", "-c", program], self.folder, succeeds=succeeds)


def run_command(command: list[object], folder: Path, *, succeeds: bool = True) -> str:
    """What it prints, and with a failure that is expected, what it says is wrong."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode == 0) == succeeds, done.stderr
    return done.stdout if succeeds else done.stderr


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("built")
    builder = Environment(folder).make()
    builder.install("hatchling")
    run_command([builder.python, "-m", "hatchling", "build", "-t", "sdist", "-d", folder], ROOT)
    unpacked = folder / f"autonomy_ctx-{VERSION}"
    with tarfile.open(folder / f"autonomy_ctx-{VERSION}.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    run_command([builder.python, "-m", "hatchling", "build", "-t", "wheel", "-d", folder], unpacked)
    return folder


@pytest.fixture(scope="session")
def wheel(built: Path) -> Path:
    return built / f"autonomy_ctx-{VERSION}-py3-none-any.whl"


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path).make()


def test_the_wheel_has_the_package_and_all_its_data(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if ".dist-info/" not in name}
    tracked = subprocess.run(
        ["git", "ls-files", "autonomy_ctx"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert packed == set(tracked.stdout.split())


def test_the_sdist_has_what_a_packager_needs(built: Path) -> None:
    unpacked = built / f"autonomy_ctx-{VERSION}"
    wanted = ["README.md", "LICENSE", "CHANGELOG.md", "SECURITY.md", "CITATION.cff", "Makefile"]
    wanted += ["zensical.toml", "docs/index.md", "examples", "tests/constraints.txt", "benchmarks"]
    assert [name for name in wanted if not (unpacked / name).exists()] == []


def test_the_metadata_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"autonomy_ctx-{VERSION}.dist-info/METADATA").decode()
    for line in (f"Version: {VERSION}", "License-Expression: Apache-2.0", "Requires-Python: >=3.11"):
        assert f"\n{line}\n" in text
    assert set(re.findall(r"^Provides-Extra: (.*)$", text, flags=re.MULTILINE)) == {*PROGRAMS, *ADAPTERS}


@pytest.mark.parametrize("kind", ["py3-none-any.whl", "tar.gz"])
def test_the_readme_runs_after_an_install(
    built: Path, environment: Environment, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [archive] = built.glob(f"autonomy_ctx-{VERSION}*{kind}")
    environment.install(archive)
    assert environment.run("import autonomy_ctx; print(autonomy_ctx.__file__)").startswith(
        str(environment.folder)
    )
    for number, snippet in enumerate(snippets(ROOT / "README.md")):
        folder = environment.folder / str(number)
        folder.mkdir()
        (folder / "snippet.py").write_text(snippet.source, encoding="utf-8")
        with serve_openai(monkeypatch):
            printed = run_command([environment.python, "-W", "error", "snippet.py"], folder)
        assert printed == snippet.prints, snippet.place


def test_only_the_contract_of_a_store_needs_pytest(environment: Environment, wheel: Path) -> None:
    environment.install(wheel)
    names = environment.run("""
from autonomy_ctx import testing
for name in testing.__all__:
    try:
        getattr(testing, name)
    except ImportError as error:
        print(error)
""")
    assert names == "autonomy_ctx.testing.StoreContract needs pytest: pip install pytest\n"


TUTORIAL = ROOT / "docs" / "tutorial" / "index.md"
_SHELL = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What a reader does beside these: a folder, an environment, a database, and requests to the last program.
_BY_HAND = ("mkdir", "cd", "python3", "source", "docker", "export", "curl")


def shell_commands(page: Path) -> Iterator[list[str]]:
    """The commands of a page, word by word, in order."""
    for block in _SHELL.findall(page.read_text(encoding="utf-8")):
        for line in block.splitlines():
            words = shlex.split(line)
            if words[0] not in _BY_HAND:
                yield words


@pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)
def test_a_chapter_of_the_tutorial_runs_with_only_what_it_names(
    page: Path, wheel: Path, environment: Environment
) -> None:
    """Its commands, after those of the first page, with the program that it shows."""
    folder = environment.folder / "pedal"
    folder.mkdir()
    done = []
    for words in (*shell_commands(TUTORIAL), *shell_commands(page)):
        match words:
            case ["pip", "install", package]:
                assert package.partition("[")[0] == "autonomy-ctx"
                environment.install(package.replace("autonomy-ctx", str(wheel)))
            case ["python", name]:
                program = folder / name
                program.write_text(snippets(page)[-1].source, encoding="utf-8")
                check_program(environment.python, program, page)
            case ["autonomy-ctx", "inspect", *_]:
                check_inspector([environment.python.parent / words[0], *words[1:]], folder)
            case _:
                pytest.fail(f"{page.name} has a command that this test does not know: {shlex.join(words)}")
        done.append(words[0])
    assert done[0] == "pip"
    assert done.count("python") == 1


def check_program(python: Path, program: Path, page: Path) -> None:
    """Run the program of a chapter; the last one needs a server, and is a server."""
    assert program.name == program_of(page).name
    if "DATABASE_URL" not in program.read_text(encoding="utf-8"):
        printed = run_command([python, "-W", "error", program], program.parent)
        assert differences(printed, output_on(page)) == []
        assert (program.parent / "pedal.db").exists()
        return
    try:
        server = start_server()
    except ServerMissing as problem:
        report_missing(problem)
    with closing(server), running(python, program, server.url()) as (printed, _):
        assert without_address(printed) == output_on(page)


def check_inspector(command: list[object], folder: Path) -> None:
    """It prints the address of a page; Ctrl-C stops it."""
    with subprocess.Popen(list(map(str, command)), cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        try:
            assert "conversation%3Dmay" in address
            with urlopen(address.partition("#")[0]) as page:
                assert b"<title>Inspector</title>" in page.read()
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0


def check_extra(environment: Environment, wheel: Path, extra: str, program: str, constraints: Path) -> None:
    environment.install(wheel, constraints=constraints)
    environment.run(program, succeeds=False)
    environment.install(f"{wheel}[{extra}]", constraints=constraints)
    environment.run(program)


@pytest.mark.parametrize("extra", PROGRAMS)
def test_an_extra_brings_what_it_is_for(environment: Environment, wheel: Path, extra: str) -> None:
    check_extra(environment, wheel, extra, PROGRAMS[extra], CONSTRAINTS)


# `make test-adapters` has them all in two environments; here each has its own.
@pytest.mark.nightly
@pytest.mark.parametrize("extra", ADAPTERS)
def test_the_extra_of_an_adapter_brings_its_framework(
    environment: Environment, wheel: Path, extra: str
) -> None:
    number = 2 if extra == "litellm" else 1
    check_extra(environment, wheel, extra, ADAPTERS[extra], FRAMEWORKS / f"constraints-{number}.txt")
