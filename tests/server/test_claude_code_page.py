"""The page about Claude Code: its commands and its Python run, with the real programs."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from docs.snippets import ROOT, run
from pty_process import command_environment
from server.claude import KEY, claude

PAGE = ROOT / "docs" / "how-to" / "give-claude-code-a-memory.md"
TEXT = PAGE.read_text(encoding="utf-8")
BASH = re.findall(r"^```bash\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
PROGRAM = f'autonomy-ctx() {{ "{sys.executable}" -m autonomy_ctx "$@"; }}'
SECONDS = 60


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """That of the command of the page, in front of a provider of this machine, on a free port."""
    [line] = [one for one in BASH[0].splitlines() if "--upstream" in one]
    program, *arguments = shlex.split(line)
    assert program == "autonomy-ctx"
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(claude()) as upstream:
        arguments[arguments.index("--upstream") + 1] = f"{upstream.url}/v1"
        command = [sys.executable, "-m", "autonomy_ctx", *arguments, "--port", "0", "--json"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=command_environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["url"].removesuffix("/v1")
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
        upstream.check()


def test_the_commands_of_the_page_run(address: str, claude_code: Path, tmp_path: Path) -> None:
    (tmp_path / "claude").symlink_to(claude_code)
    variables = {
        "PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    printed = []
    for script in BASH:
        if "export" in script or "pip install" in script:
            continue
        done = subprocess.run(
            ["bash", "-ec", f"{PROGRAM}\n{script}"],
            cwd=tmp_path,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        printed.append(done.stdout)
    talked, listed, explained, _ = printed
    assert talked.splitlines()[-1] == "It is heron."
    assert "code word is heron" in listed
    assert "conversation_history" in explained
    memory = json.loads((tmp_path / ".claude.json").read_text())["projects"][str(tmp_path)]["mcpServers"]
    assert memory["memory"]["args"][0] == "mcp"


def test_the_python_of_the_page_runs(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", address)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    run(PAGE, tmp_path)


def test_the_variables_of_the_page_fit_its_settings() -> None:
    [settings] = re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    [(_, url)] = json.loads(settings)["env"].items()
    assert f"export ANTHROPIC_BASE_URL={url}\n" in TEXT
