"""`autonomy-ctx serve` and `autonomy-ctx worker`: real processes, asked over HTTP and stopped by signals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import anyio
import httpx
import pytest
from pty_process import WAIT_SECONDS, Terminal, command_environment, run_command

from autonomy_ctx import Memory, Message
from autonomy_ctx.memory.store import Key

FILES = {
    "main.py": """
from autonomy_ctx import Agent, Model

async def main(node):
    await Agent.start(node=node, name="guide", instructions="You plan trips.", model=Model("offline"))
""",
    "agents.py": """
from autonomy_ctx import Agent, Memory, Model

memory = Memory("sqlite:///own.db")
guide = Agent("guide", instructions="You plan trips.", model=Model("offline"), memory=memory)
_hidden = Agent("hidden", instructions="Nobody asks.", model=Model("offline"))
clerk = Agent("clerk", instructions="You write.", model=Model("offline"))
""",
    "node.py": """
from autonomy_ctx import Agent, Model, Node

node = Node(memory="sqlite:///node.db")
guide = Agent("guide", instructions="You plan trips.", model=Model("offline"), node=node)
""",
    "empty.py": "async def main(node): pass",
    "broken.py": "async def main(node): raise RuntimeError('no guide today')",
    "two.py": "from autonomy_ctx import Node\nfirst, second = Node(), Node()",
    "nothing.py": "async def start(node): pass",
    "script.py": """
from autonomy_ctx import Agent

async def main():
    agent = Agent(model="offline")
""",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


class Served:
    """A server that was started, and what it printed."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.address = self.read_line()
        self.agents: list[str] = self.read_line()["agents"]

    def read_line(self) -> dict[str, Any]:
        output = self.process.stdout
        assert output is not None
        line = output.readline()
        assert line, self.process.stderr and self.process.stderr.read()
        found: dict[str, Any] = json.loads(line)
        return found

    def ask(self, agent: str, message: str, *, token: str | None = None) -> httpx.Response:
        token = token or self.address["token"]
        return httpx.post(
            f"{self.address['url']}/agents/{agent}",
            json={"message": message, "scope": "ana"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=WAIT_SECONDS,
        )

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WAIT_SECONDS)


@contextmanager
def start(*arguments: str, cwd: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "autonomy_ctx", *arguments]
    pipe: int | IO[str] = subprocess.PIPE
    environment = command_environment(**variables)
    with subprocess.Popen(command, cwd=cwd, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()


def stored_agents(path: Path) -> list[str]:
    async def read() -> list[str]:
        async with Memory(f"sqlite:///{path}") as memory:
            return await memory.agents()

    return anyio.run(read)


# -- serve ---------------------------------------------------------------------------------------------


def test_a_main_function_is_served_with_a_random_token_until_a_signal(folder: Path) -> None:
    with start("serve", "main.py", "--port", "0", "-m", "served.db", "--json", cwd=folder) as process:
        served = Served(process)
        assert served.agents == ["guide"]
        assert len(served.address["token"]) >= 32
        assert served.ask("guide", "The ferry leaves at 9:40.").status_code == 200
        assert "9:40" in served.ask("guide", "When does the ferry leave?").json()["text"]
        assert served.ask("guide", "Hello", token="wrong").status_code == 401
        assert served.stop() == 0
    assert stored_agents(folder / "served.db") == ["guide"]


@pytest.mark.parametrize(("options", "writes"), [([], False), (["--write"], True)])
def test_the_inspector_is_served_beside_the_agents(folder: Path, options: list[str], writes: bool) -> None:
    with start("serve", "main.py", "--port", "0", "--json", *options, cwd=folder) as process:
        served = Served(process)
        page, token = served.address["inspector"], served.address["token"]
        assert httpx.get(f"{page}api/info").status_code == 401
        info = httpx.get(f"{page}api/info", headers={"Authorization": f"Bearer {token}"})
        assert info.json()["write"] is writes
        assert served.stop() == 0


def test_agents_are_served_on_their_own_memory_or_on_the_one_named(folder: Path) -> None:
    for options, database in (([], "own.db"), (["-m", "other.db"], "other.db")):
        with start("serve", "agents.py", "--port", "0", *options, "--json", cwd=folder) as process:
            served = Served(process)
            assert served.agents == ["guide", "clerk"]
            assert served.ask("guide", "Hello").status_code == 200
            assert served.ask("clerk", "Hello").status_code == 200
            assert served.stop(signal.SIGINT) == 0
        assert "guide" in stored_agents(folder / database)


def test_one_agent_is_served_by_its_name(folder: Path) -> None:
    with start("serve", "agents.py:clerk", "--port", "0", "--json", cwd=folder) as process:
        served = Served(process)
        assert served.agents == ["clerk"]
        assert served.stop() == 0


def test_a_node_is_served_with_its_agents(folder: Path) -> None:
    with start("serve", "node.py", "--port", "0", "--json", cwd=folder) as process:
        served = Served(process)
        assert served.agents == ["guide"]
        assert served.ask("guide", "Hello").status_code == 200
        assert served.stop() == 0
    assert stored_agents(folder / "node.db") == ["guide"]


def test_a_token_of_the_environment_is_used_and_not_printed(folder: Path) -> None:
    arguments = ("serve", "main.py", "--port", "0", "--json")
    with start(*arguments, cwd=folder, AUTONOMY_CTX_TOKEN="a-secret-of-ours") as process:
        served = Served(process)
        assert served.address["token"] is None
        assert served.ask("guide", "Hello", token="a-secret-of-ours").status_code == 200
        assert served.stop() == 0
        assert process.stderr is not None
        assert "a-secret-of-ours" not in process.stderr.read()


def test_in_a_terminal_it_says_how_to_ask_and_ctrl_c_stops_it(folder: Path) -> None:
    with Terminal("serve", "main.py", "--port", "0", cwd=folder) as terminal:
        terminal.wait_for(
            "address  http://127.0.0.1:", "token    ", "agents   guide", "Ctrl-C stops the server."
        )
        terminal.wait_for("curl http://127.0.0.1:", "/agents/guide", '"message": "Hello"')
        terminal.type("\x03")
        assert terminal.wait() == 0
    assert "Traceback" not in terminal.text


def test_a_main_without_agents_is_told_so(folder: Path) -> None:
    with Terminal("serve", "empty.py", "--port", "0", cwd=folder) as terminal:
        terminal.wait_for("warning: no agent was started")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["missing.py"], 2, "missing.py does not exist"),
        (["nothing.py"], 2, "nothing.py has no Node, async function main(node) or Agent"),
        (
            ["script.py"],
            2,
            "main(node) or Agent at its top level; line 5 makes an agent inside main(), where",
        ),
        (["script.py:main"], 2, "main of script.py is of type function; it must be a Node, async"),
        (["two.py"], 2, "two.py has several nodes; name one: two.py:first or second"),
        (["node.py", "-m", "x.db"], 2, "has a memory of its own; leave out --memory"),
        (["main.py", "--port", "99999"], 2, "port must be"),
        (["main.py", "--idle-seconds", "0"], 2, "idle_seconds must be"),
        (["main.py", "--token", "two words"], 2, "token must be"),
        (["main.py", "--host", "no.such.host.invalid"], 1, "the host is not known"),
        (["broken.py", "--port", "0"], 1, "no guide today"),
    ],
)
def test_what_cannot_be_served(arguments: list[str], code: int, problem: str, folder: Path) -> None:
    ran = run_command("serve", *arguments, cwd=folder)
    assert (ran.returncode, "Traceback" in ran.stderr) == (code, False)
    assert problem in ran.stderr


# -- worker --------------------------------------------------------------------------------------------


def leave_work(path: Path) -> None:
    """A conversation that is over its ceiling, whose summary is left to a worker."""

    async def talk() -> None:
        async with Memory(f"sqlite:///{path}") as memory:
            nights = [Message("user", f"Night {number} is in \x1b[31mPorto.") for number in range(6)]
            await memory.for_agent("guide").append("ana", "trip", *nights)
            await memory.store.enqueue_task(Key("guide", "ana", "trip"), task="worker:summaries")

    anyio.run(talk)


LIMITS = ("--floor", "2", "--ceiling", "4")


def test_a_worker_writes_what_is_due_once(tmp_path: Path) -> None:
    leave_work(tmp_path / "memory.db")
    ran = run_command("worker", "-m", "memory.db", "--once", *LIMITS, "--json", cwd=tmp_path)
    assert ran.returncode == 0
    told = json.loads(ran.stdout)
    assert (told["agent"], told["scope"], told["conversation"]) == ("guide", "ana", "trip")
    assert (told["first"], told["model"]) == (1, "digest")
    again = run_command("worker", "-m", "memory.db", "--once", *LIMITS, cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, "")
    assert again.stderr.endswith("0 summaries written\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_worker_runs_until_a_signal(number: signal.Signals, tmp_path: Path) -> None:
    leave_work(tmp_path / "memory.db")
    with start("worker", "-m", "memory.db", *LIMITS, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ana / guide / trip  messages 1 to ")
        process.send_signal(number)
        assert process.wait(WAIT_SECONDS) == 0
        assert process.stderr is not None
        assert "1 summary written" in process.stderr.read()


def test_a_worker_whose_model_fails_says_so(tmp_path: Path) -> None:
    leave_work(tmp_path / "memory.db")
    # Nobody listens at this port.
    options = ["--model", "local", "--base-url", "http://127.0.0.1:9/v1"]
    ran = run_command("worker", "-m", "memory.db", "--once", *LIMITS, *options, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "0 summaries written, 1 failed" in ran.stderr


def test_a_worker_makes_no_database(tmp_path: Path) -> None:
    ran = run_command("worker", "-m", "missing.db", "--once", cwd=tmp_path)
    assert ran.returncode == 2
    assert "missing.db does not exist" in ran.stderr
    assert list(tmp_path.iterdir()) == []


# -- compact -------------------------------------------------------------------------------------------


def test_a_conversation_is_compacted_from_the_command_line(tmp_path: Path) -> None:
    leave_work(tmp_path / "memory.db")
    options = ("-m", "memory.db", "--floor", "2")
    ran = run_command("compact", "trip", *options, "--keep", "a fact of mine", cwd=tmp_path)
    assert ran.returncode == 0
    assert "messages 1 to 4 have a summary of" in ran.stdout
    again = run_command("compact", "trip", *options, "--json", cwd=tmp_path)
    assert again.returncode == 1
    assert json.loads(again.stdout)["problem"].startswith("there are no messages before the newest 2")
    shown = run_command("show", "trip", "-m", "memory.db", "--facts", cwd=tmp_path)
    assert "a fact of mine" in shown.stdout
    digest = run_command("compact", "trip", *options, "--focus", "prices", cwd=tmp_path)
    assert digest.returncode == 2
    assert "--focus needs --model" in digest.stderr
