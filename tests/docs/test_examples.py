"""Every example runs, offline, says something, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("_"))

# Loaded by the interpreter at start: an example that reaches for the network fails.
OFFLINE = """
import socket

def refuse(*args, **kwargs):
    raise OSError("examples run offline")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""

# What `pip install autonomy-ctx` brings.
INSTALLED = {
    "anyio",
    "autonomy_ctx",
    "cachetools",
    "certifi",
    "h11",
    "httpcore",
    "httpx",
    "idna",
    "typing_extensions",
}
# Anything else that is installed here is not found.
ALONE = f"""
import sys
from importlib.metadata import packages_distributions

OTHERS = set(packages_distributions()) - {INSTALLED}

class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in OTHERS:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Refusing())
"""


def run(script: Path, folder: Path, *, before: str = "", **variables: str) -> str:
    """Run a script in a folder with nothing but what it needs, and give what it printed."""
    (folder / "offline").mkdir()
    (folder / "offline" / "sitecustomize.py").write_text(OFFLINE + before)
    (folder / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": str(folder / "offline"),
            "PYTHONIOENCODING": "utf-8",
            "TMPDIR": str(folder / "tmp"),
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert list((folder / "tmp").iterdir()) == [], "temporary files were left behind"
    return done.stdout


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    assert run(script, tmp_path).strip()


@pytest.mark.parametrize("columns", [80, 120])
def test_the_demo_fits_the_terminal_and_is_plain_when_piped(columns: int, tmp_path: Path) -> None:
    printed = run(EXAMPLES / "demo.py", tmp_path, COLUMNS=str(columns))
    assert max(map(len, printed.splitlines())) == columns
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", printed)


def test_the_demo_shows_every_part(tmp_path: Path) -> None:
    printed = run(EXAMPLES / "demo.py", tmp_path)
    for part in (
        "floor 10",
        "20 ceiling",
        "300/300",
        "summaries_committed",
        "conversation_history",
        "memory keeps them all",
        "shared with the turn before",
        "ConnectionError: weather.example is down",
    ):
        assert part in printed


def test_the_demo_runs_with_what_the_library_depends_on_and_installs_nothing_else(tmp_path: Path) -> None:
    assert "300/300" in run(EXAMPLES / "demo.py", tmp_path, before=ALONE)
    command = ["make", "--dry-run", "--always-make", "demo", f"PYTHON={sys.executable}"]
    steps = subprocess.run(command, cwd=EXAMPLES.parent, capture_output=True, text=True, check=True).stdout
    installs = [line.partition(" install ")[2] for line in steps.splitlines() if " install " in line]
    assert installs == ["--quiet --disable-pip-version-check --editable ."]
