"""The pages about the command line: the commands run as they stand there, the reference is current."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

from docs.snippets import ROOT, run
from pty_process import command_environment

PAGE = ROOT / "docs" / "how-to" / "use-the-command-line.md"
_SHELL_BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_command_of_the_page_succeeds(tmp_path: Path) -> None:
    run(PAGE, tmp_path)
    program = f'autonomy-ctx() {{ "{sys.executable}" -m autonomy_ctx "$@"; }}'
    script = "\n".join(["set -e", program, *_SHELL_BLOCK.findall(PAGE.read_text(encoding="utf-8"))])
    ran = subprocess.run(
        ["bash", "-c", script.replace("| python ", f'| "{sys.executable}" ')],
        cwd=tmp_path,
        env=command_environment(),
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr
    assert "Night 40 costs 100 EUR." in ran.stdout


def test_the_reference_lists_the_commands_as_they_are() -> None:
    spec = importlib.util.spec_from_file_location(
        "make_cli_reference", ROOT / "docs" / "make_cli_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    maker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    assert maker.PAGE.read_text(encoding="utf-8") == maker.make_page(), (
        "run python docs/make_cli_reference.py"
    )
