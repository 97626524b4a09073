"""`autonomy-ctx inspect`, the real command: the page it serves, and the file it writes."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import httpx
import pytest
from inspector.stories import run_beside, write_story
from pty_process import Terminal, run_command

from autonomy_ctx import Memory
from autonomy_ctx.cli.inspect import MAX_FILE_CONVERSATIONS


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inspect")
    run_beside(write_story, folder / "story.db")
    return folder


def test_it_serves_the_page_on_this_machine_until_ctrl_c(folder: Path) -> None:
    with Terminal("inspect", "trip", "--memory", "story.db", cwd=folder, columns=60) as terminal:
        terminal.wait_for("Ctrl-C stops it")
        found = re.search(r"(http://127\.0\.0\.1:\d+)/#token=([\w-]{40,})&view=(\S+)", terminal.text)
        assert found is not None, terminal.text
        url, token, view = found.groups()
        assert view == "%2Fconversation%3Fagent%3Dguide%26scope%3Dana%26conversation%3Dtrip"
        assert "<title>Inspector</title>" in httpx.get(url).text
        assert httpx.get(f"{url}/api/scopes").status_code == 401
        headers = {"authorization": f"Bearer {token}"}
        assert httpx.get(f"{url}/api/scopes", headers=headers).json()["scopes"] == ["ana", "eve"]
        place = {"agent": "guide", "scope": "ana", "conversation": "trip"}
        refused = httpx.delete(f"{url}/api/conversation", params=place, headers=headers)
        assert refused.json()["error"]["type"] == "ReadOnly"
        terminal.type("\x03")
        assert terminal.wait() == 0


def test_it_writes_one_conversation_or_all_to_a_file(folder: Path) -> None:
    one = run_command("inspect", "trip", "--memory", "story.db", "--html", "one.html", cwd=folder)
    assert (one.returncode, one.stdout) == (0, "")
    assert "one.html: 1 conversation" in one.stderr
    every = run_command("inspect", "--memory", "story.db", "--html", "all.html", "--json", cwd=folder)
    told = json.loads(every.stdout)
    assert (told["conversations"], told["left_out"]) == (2, 0)
    assert told["bytes"] == (folder / "all.html").stat().st_size
    printed = run_command("inspect", "trip", "--memory", "story.db", "--html", "-", cwd=folder)
    assert printed.stdout == (folder / "one.html").read_text(encoding="utf-8")


def test_only_its_owner_may_read_a_file_with_conversations(folder: Path) -> None:
    """Also where a file was that others could read, and behind a link."""
    (folder / "old.html").write_text("old", encoding="utf-8")
    (folder / "old.html").chmod(0o644)
    (folder / "link.html").symlink_to("linked.html")
    for name in ("new.html", "old.html", "link.html"):
        ran = run_command("inspect", "trip", "--memory", "story.db", "--html", name, cwd=folder)
        assert ran.returncode == 0, ran.stderr
    for name in ("new.html", "old.html", "linked.html"):
        assert (folder / name).stat().st_mode & 0o777 == 0o600
    assert (folder / "link.html").is_symlink()


def test_a_pipe_stays_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with open(folder / "copy.html", "wb") as copy, subprocess.Popen(["cat", "pipe"], cwd=folder, stdout=copy):
        ran = run_command("inspect", "trip", "--memory", "story.db", "--html", "pipe", cwd=folder)
    assert ran.returncode == 0, ran.stderr
    assert (folder / "copy.html").read_text(encoding="utf-8").endswith("</html>\n")
    assert (folder / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["inspect", "trap", "--memory", "story.db"], "did you mean:\n  trip --scope ana"),
        (["inspect", "--memory", "none.db"], "none.db does not exist; databases found: story.db"),
        (["inspect", "--memory", "story.db", "--html", "a.html", "--write"], "--html writes a file"),
        (
            ["inspect", "--memory", "story.db", "--html", "no/folder.html"],
            "no/folder.html: there is no folder no",
        ),
    ],
)
def test_wrong_input_is_told_in_one_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    ran = run_command(*arguments, cwd=folder)
    assert ran.returncode in (1, 2)
    assert sentence in ran.stderr
    assert "Traceback" not in ran.stderr


async def write_short_ones(path: Path, number: int) -> None:
    async with Memory(f"sqlite:///{path}") as memory:
        for day in range(1, number + 1):
            said_at = f"2030-{1 + day // 28:02}-{1 + day % 28:02}T09:00:00Z"
            said = {"role": "user", "content": "Hello", "created_at": said_at}
            await memory.append("ana", f"talk {day:02}", said)


def test_of_many_conversations_a_file_has_the_newest(tmp_path: Path) -> None:
    run_beside(write_short_ones, tmp_path / "many.db", MAX_FILE_CONVERSATIONS + 2)
    ran = run_command("inspect", "--memory", "many.db", "--html", "many.html", cwd=tmp_path)
    assert f"many.html: {MAX_FILE_CONVERSATIONS} conversations" in ran.stderr
    assert "2 older conversations left out; choose by --scope or a name" in ran.stderr
    page = (tmp_path / "many.html").read_text(encoding="utf-8")
    assert "talk 02" not in page
    assert "talk 03" in page
