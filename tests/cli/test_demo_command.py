"""`autonomy-ctx demo`: it runs offline, fits the terminal, and leaves a database with turns to look at."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import anyio
from pty_process import ROOT, Terminal, run_command

from autonomy_ctx import Agent, Memory, Model
from autonomy_ctx.cli.demo import AGENT, CONVERSATION, DATABASE, NEXT_STEPS, SCOPE, TURNS

PARTS = (
    "300/300",
    "summaries written",
    "assistant: The context says:",
    "The ferry to Berlenga leaves at 9:40 from pier 3.",
    "conversation_history",
    "ConnectionError: weather.example is down",
    "memory keeps them all",
    "My booking code is PT-5822 now",
    "Next steps",
)


REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")


def installed_names(*distributions: str) -> set[str]:
    """The packages that these bring, with all that they depend on."""
    found: set[str] = set()
    due = list(distributions)
    while due:
        name = re.sub(r"[-_.]+", "-", due.pop().lower())
        if name in found:
            continue
        found.add(name)
        # What an older Python or another system needs is not installed here.
        with suppress(PackageNotFoundError):
            needed = [one for one in requires(name) or () if "extra ==" not in one]
            due += [match[0] for match in map(REQUIREMENT.match, needed) if match]
    return {
        package
        for package, owners in packages_distributions().items()
        if found & {re.sub(r"[-_.]+", "-", owner.lower()) for owner in owners}
    }


# What `pip install 'autonomy-ctx[cli]'` brings. Anything else that is installed here is not found.
INSTALLED = installed_names("anyio", "cachetools", "httpx", "typer", "rich") | {"autonomy_ctx"}
ALONE = f"""
import socket, sys
from importlib.metadata import packages_distributions

OTHERS = set(packages_distributions()) - {INSTALLED}

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OTHERS:
            raise ModuleNotFoundError(name)

def refuse(*args, **kwargs):
    raise OSError("the demo runs offline")

sys.meta_path.insert(0, Refusing())
socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""


async def check_database(path: Path) -> None:
    """It has all turns, and what each was shown."""
    async with (
        Memory(f"sqlite:///{path}") as memory,
        Agent(AGENT, instructions="", model=Model("offline"), memory=memory) as agent,
    ):
        [info] = await memory.conversations(SCOPE, agent=AGENT)
        assert info.key.conversation == CONVERSATION
        context = await agent.explain(scope=SCOPE, conversation=CONVERSATION)
        assert {section.name: section.status for section in context.sections}["weather"] == "failed"
        records = await memory.store.read_records(info.key, "context")
        assert len(records) == TURNS + 1
        assert (await agent.summary(scope=SCOPE, conversation=CONVERSATION)).segments


def test_the_demo_runs_offline_is_plain_when_piped_and_leaves_its_database(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_text("what another demo left")
    (tmp_path / "alone").mkdir()
    (tmp_path / "alone" / "sitecustomize.py").write_text(ALONE)
    ran = run_command("demo", cwd=tmp_path, COLUMNS="120", PYTHONPATH=f"{tmp_path / 'alone'}:{ROOT}")
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    assert max(map(len, ran.stdout.splitlines())) == 120
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", ran.stdout)
    assert [part for part in PARTS if part not in ran.stdout] == []
    anyio.run(check_database, tmp_path / DATABASE)
    # Each of the commands that it ends with works as it is written there.
    for step in NEXT_STEPS:
        assert f"autonomy-ctx {step} -m {DATABASE}\n" in ran.stdout
        if step == "inspect":
            # It serves until Ctrl-C, and has tests of its own.
            continue
        # One setting: all nine take a while.
        options = ["--floor", "10", "--ceiling", "20"] if step == "replay" else []
        assert run_command(step, "-m", DATABASE, *options, cwd=tmp_path).returncode == 0


def test_the_demo_draws_in_a_narrow_terminal(tmp_path: Path) -> None:
    with Terminal("demo", cwd=tmp_path, columns=40) as terminal:
        assert terminal.wait() == 0
    # Rows are drawn over, and some stay.
    assert "\x1b[2K" in terminal.raw
    assert terminal.text.count(f"{TURNS // 2}/{TURNS}") >= 1
    assert "\x1b[32m" in terminal.raw
    assert "Next steps" in terminal.text


def test_the_demo_as_json(tmp_path: Path) -> None:
    ran = run_command("demo", "--json", cwd=tmp_path)
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stderr
    told = json.loads(ran.stdout)
    assert told["database"] == DATABASE
    assert told["metrics"]["context_tokens"] < told["whole_history_tokens"] / 4


def test_make_demo_installs_the_command_line_with_the_inspector_and_nothing_else() -> None:
    command = ["make", "--dry-run", "--always-make", "--no-print-directory"]
    command += ["demo", f"PYTHON={sys.executable}"]
    # The tests may have been started by make, which hands its own flags down.
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ran = subprocess.run(command, cwd=ROOT, env=clean, capture_output=True, text=True, check=True)
    steps = ran.stdout
    installs = [line.partition(" install ")[2] for line in steps.splitlines() if " install " in line]
    exactly = "--constraint tests/constraints.txt"
    assert installs == [f"--quiet --disable-pip-version-check {exactly} --editable '.[cli,server]'"]
    assert steps.splitlines()[-1].endswith("bin/autonomy-ctx demo")
    assert set(NEXT_STEPS) == {"show", "explain", "replay", "inspect"}
