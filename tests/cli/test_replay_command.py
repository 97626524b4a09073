"""`autonomy-ctx replay`: from a file, a pipe and a memory; its table, its JSON, its page and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import anyio
import pytest
from pty_process import Terminal, run_command
from replay.recordings import talk

from autonomy_ctx import Memory

SMALL = ("--floor", "4", "--ceiling", "10,20")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the same conversation as a file and in a memory."""
    folder = tmp_path_factory.mktemp("replay")
    (folder / "talk.json").write_text(json.dumps(talk(30)))
    (folder / "broken.json").write_text('[{"role": "user", "content": "a"}, {"role": "nobody"}]')

    async def fill() -> None:
        async with Memory(f"sqlite:///{folder}/talk.db") as memory:
            await memory.append("ana", "support", *talk(30)[1:])
            await memory.append("bo", "support", {"role": "user", "content": "Hello"})

    anyio.run(fill)
    return folder


def test_a_file_is_replayed_as_a_table_and_drawn_as_a_page(folder: Path) -> None:
    ran = run_command("replay", "talk.json", *SMALL, "--html", "page.html", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert "turns counted by the user's messages; digests, no model; prices of claude-sonnet-4-5" in " ".join(
        ran.stdout.split()
    )
    rows = [line.split()[0] for line in ran.stdout.splitlines() if "$" in line]
    assert rows[:3] == ["4/10", "4/20", "whole"]
    assert ran.stdout.count("<-") == 1
    assert "Runner-up: 4/" in ran.stdout
    assert 'context_summary={"floor": 4, "ceiling": ' in ran.stdout
    assert "\x1b" not in ran.stdout
    assert ran.stderr == "drawn in page.html\n"
    assert (folder / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (folder / "page.html").stat().st_mode & 0o777 == 0o600


def test_json_is_the_whole_report(folder: Path) -> None:
    ran = run_command("replay", "talk.json", *SMALL, "--json", cwd=folder)
    report = json.loads(ran.stdout)
    assert [one["label"] for one in report["settings"]] == ["4/10", "4/20"]
    assert report["recommendation"]["setting"]["floor"] == 4
    assert len(report["settings"][0]["turns"]["cost"]) == 30


def test_a_conversation_of_a_memory_and_a_pipe_give_the_same(folder: Path) -> None:
    arguments = (
        "support",
        "--memory",
        "talk.db",
        "--scope",
        "ana",
        *SMALL,
        "--json",
        "--cache-seconds",
        "9e9",
    )
    stored = json.loads(run_command("replay", *arguments, cwd=folder).stdout)
    lines = "".join(json.dumps(message) + "\n" for message in talk(30)[1:])
    piped = json.loads(run_command("replay", "-", *SMALL, "--json", cwd=folder, text=lines).stdout)
    for one, other in zip(stored["settings"], piped["settings"], strict=True):
        assert one["turns"]["context_messages"] == other["turns"]["context_messages"]
        assert one["identifiers_share"] == other["identifiers_share"]


def test_a_replay_leaves_the_memory_as_it_was(folder: Path) -> None:
    ran = run_command("replay", "support", "-m", "talk.db", "-s", "ana", *SMALL, cwd=folder)
    assert ran.returncode == 0

    async def read() -> None:
        async with Memory(f"sqlite:///{folder}/talk.db") as memory:
            assert (await memory.summary("ana", "support")).segments == ()
            assert await memory.get_message_count("ana", "support") == 80
            assert await memory.scopes() == ["ana", "bo"]

    anyio.run(read)


def test_combinations_that_cannot_be_are_named(folder: Path) -> None:
    ran = run_command("replay", "talk.json", "--floor", "4,10", "--ceiling", "10", "--last", "5", cwd=folder)
    assert ran.returncode == 0
    assert "5 turns" in ran.stdout
    assert ran.stderr.startswith("left out: floor (10) must be less than ceiling (10)")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nothing.json",), "nothing.json does not exist"),
        (("broken.json",), "broken.json: message 2 of 'broken' cannot be read"),
        (("talk.json", "--floor", "few"), "--floor is 'few'; give whole numbers with commas between"),
        (("talk.json", "--floor", "30", "--ceiling", "20"), "no setting is left to try: floor (30) must be"),
        (("talk.json", "--budget", "20"), "no setting is left to compare"),
        (("talk.json", "--price", "nobody"), "no price of 'nobody' is known"),
        (("talk.json", "--html", "missing/page.html"), "missing/page.html: there is no folder missing"),
        (("talk.json", "--instructions", "none.txt"), "none.txt: No such file or directory"),
        (("support", "--memory", "talk.db"), "there are several conversations named 'support'"),
        (("suport", "--memory", "talk.db"), "did you mean"),
        (("support",), "no memory was named"),
    ],
)
def test_wrong_input_is_one_sentence(folder: Path, arguments: tuple[str, ...], problem: str) -> None:
    ran = run_command("replay", *arguments, cwd=folder)
    assert ran.returncode in (1, 2)
    assert ran.stdout == ""
    assert ran.stderr.startswith("error: ")
    assert problem in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_line_of_the_table_is_wider_than_the_terminal(folder: Path, columns: int) -> None:
    with Terminal("replay", "talk.json", *SMALL, "--size", "512", cwd=folder, columns=columns) as terminal:
        assert terminal.wait() == 0
        screen = terminal.text
    assert "\x1b[" in terminal.raw, "there are colours"
    rows = [line for line in screen.splitlines() if "$" in line and "%" in line]
    assert len([line for line in rows if line.startswith(("4/", "whole"))]) >= 3
    assert all(len(line) <= columns for line in screen.splitlines() if line.startswith(("4/", "whole", "─")))
    assert "replaying" in screen
    assert "[progress" not in screen, "the bar shows no markup"
    # It is gone by then.
    table = screen[screen.index("30 turns") :]
    assert "…" not in table
    assert ("tokens sent" in screen) == (columns == 200)


def test_without_colours_there_are_no_escape_sequences_in_the_result(folder: Path) -> None:
    ran = run_command("replay", "talk.json", *SMALL, "--no-color", cwd=folder)
    assert "\x1b" not in ran.stdout + ran.stderr


def test_a_model_that_cannot_be_asked_is_told(folder: Path) -> None:
    ran = run_command("replay", "talk.json", *SMALL, "--model", "gpt-5", cwd=folder)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "OPENAI_API_KEY" in ran.stderr


def test_a_model_that_works_offline_writes_the_summaries(folder: Path) -> None:
    ran = run_command("replay", "talk.json", *SMALL, "--model", "offline", cwd=folder)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "summaries by offline; prices of claude-sonnet-4-5" in " ".join(ran.stdout.split())
