"""The page about the endpoint: its commands, its Python and its JavaScript run, against the real command."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from anyio.from_thread import start_blocking_portal
from docs.snippets import ROOT, run
from models.provider_server import ProviderServer, providing
from models.provider_words import Asked, Say
from needed_programs import report_missing
from pty_process import command_environment
from server.node_sdk import node_environment

PAGE = ROOT / "docs" / "how-to" / "put-it-in-front-of-your-model.md"
TEXT = PAGE.read_text(encoding="utf-8")
PROGRAM = f'autonomy-ctx() {{ "{sys.executable}" -m autonomy_ctx "$@"; }}'
SECONDS = 60
# A block, and perhaps the one that shows what it prints.
_BLOCK = re.compile(
    r"^```(bash|javascript|toml)\n(.*?)^```\n(?:\n?```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)


def blocks(language: str, *, having: str = "") -> list[tuple[str, str]]:
    """Blocks in a language that have some text, each with what it prints."""
    found = [(one[2], one[3]) for one in _BLOCK.finditer(TEXT) if one[1] == language and having in one[2]]
    assert found
    return found


def answer(asked: Asked) -> Say:
    """From what the model was shown, so that a client without a history shows who remembered."""
    shown = " ".join(text for _, text in asked.said[:-1])
    known = {
        "When does the ferry leave?": ("leaves at nine", "At nine."),
        "What is our code word?": ("heron", "It is heron."),
        "What do I pack?": ("tent", "You pack a tent."),
    }
    needed, text = known.get(asked.said[-1][1], ("", "Good to know."))
    return Say(text if needed in shown else "I do not know.")


@dataclass(frozen=True)
class Running:
    """The command of the page, where it keeps its file, and what its clients have in their environment."""

    folder: Path
    environment: dict[str, str]
    provider: ProviderServer


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """The command as the page has it, in front of a provider of this machine, on a free port."""
    [line] = [one for one in blocks("bash", having="--upstream")[0][0].splitlines() if "--upstream" in one]
    program, *arguments = shlex.split(line)
    assert program == "autonomy-ctx"
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(providing(answer)) as provider,
    ):
        arguments[arguments.index("--upstream") + 1] = f"{provider.url}/v1"
        command = [sys.executable, "-m", "autonomy_ctx", *arguments, "--port", "0", "--json"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=command_environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            told = json.loads(process.stdout.readline())
            environment = node_environment() | {
                "OPENAI_BASE_URL": told["url"],
                "OPENAI_API_KEY": "sk-of-the-page",
            }
            yield Running(tmp_path, environment, provider)
            process.send_signal(signal.SIGINT)
            assert process.wait(SECONDS) == 0
    assert provider.refused == []


def shell(running: Running, script: str) -> str:
    done = subprocess.run(
        ["bash", "-ec", f"{PROGRAM}\n{script}"],
        cwd=running.folder,
        env=running.environment | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_curl_asks_and_the_command_line_shows_what_the_model_saw(running: Running) -> None:
    if shutil.which("curl") is None:
        report_missing("curl is missing; on Debian `apt-get install curl` installs it")
    [(script, _)] = blocks("bash", having="curl")
    told = shell(running, script)
    assert "At nine." in told
    [(script, _)] = blocks("bash", having="explain")
    shown = shell(running, script)
    assert "trip" in shown
    assert "conversation_history" in shown


def test_the_python_of_the_page_runs(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, running.environment[name])
    with warnings.catch_warnings():
        # What the SDK warns of while it is imported is its own affair.
        warnings.simplefilter("ignore")
        names = run(PAGE, running.folder)
    names["client"].close()
    assert len(running.provider.seen) == 6


def test_the_javascript_of_the_page_runs(running: Running, node_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(node_folder / "node_modules")
    for number, (script, prints) in enumerate(blocks("javascript")):
        (tmp_path / f"{number}.mjs").write_text(script)
        assert shell(running, f"node {number}.mjs") == prints


def test_the_settings_of_the_coding_agent_can_be_read() -> None:
    [(text, _)] = blocks("toml")
    settings = tomllib.loads(text)
    provider = settings["model_providers"][settings["model_provider"]]
    assert provider["wire_api"] == "responses"
    [variables] = [one for one, _ in blocks("bash", having="export OPENAI_BASE_URL")]
    assert f"OPENAI_BASE_URL={provider['base_url']}\n" in variables
    assert f"export {provider['env_key']}=" in variables
