"""Every example runs, offline, says something, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.rglob("*.py") if not path.name.startswith("_"))

# Loaded by the interpreter at start: an example that reaches for the network fails.
OFFLINE = """
import socket

def refuse(*args, **kwargs):
    raise OSError("examples run offline")

socket.socket.connect = socket.create_connection = socket.getaddrinfo = refuse
"""


def run(script: Path, folder: Path) -> str:
    """Run a script in a folder with nothing but what it needs, and give what it printed."""
    (folder / "offline").mkdir()
    (folder / "offline" / "sitecustomize.py").write_text(OFFLINE)
    (folder / "tmp").mkdir()
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env={
            "PATH": os.environ.get("PATH", ""),
            "PYTHONPATH": os.pathsep.join([str(folder / "offline"), str(ROOT)]),
            "PYTHONIOENCODING": "utf-8",
            "TMPDIR": str(folder / "tmp"),
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
