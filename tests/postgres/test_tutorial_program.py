"""The last chapter of the tutorial: its program on a server, asked over HTTP, with the inspector opened."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import httpx

from docs.tutorial import CHAPTERS, PROGRAMS, output_on

PROGRAM = PROGRAMS / "many_users.py"
BEN = {"agent": "desk", "scope": "ben", "conversation": "default"}


@contextmanager
def running(database_url: str) -> Iterator[tuple[str, str]]:
    """What the program printed until it served, and the address of its inspector; Ctrl-C ends it."""
    with subprocess.Popen(
        [sys.executable, "-W", "error", str(PROGRAM), "0"],
        env={**os.environ, "DATABASE_URL": database_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        printed = ""
        for line in process.stdout:
            printed += line
            if line.startswith("inspector:"):
                break
        found = re.search(r"^inspector: (\S+)$", printed, re.MULTILINE)
        try:
            assert found is not None, printed + process.stderr.read()
            yield printed, found[1]
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
    assert process.returncode == 0, rest
    assert "Traceback" not in rest


def test_the_program_serves_customers_and_the_inspector(database_url: str) -> None:
    with running(database_url) as (printed, page):
        shown = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8000", printed)
        assert re.sub(r"#token=\S+", "#token=...", shown) == output_on(CHAPTERS[-1])

        address = urlsplit(page)
        home = f"{address.scheme}://{address.netloc}"
        assert "<title>Inspector</title>" in httpx.get(page).text
        token = {"authorization": f"Bearer {address.fragment.removeprefix('token=')}"}
        api = f"{home}{address.path}api"
        assert httpx.get(f"{api}/turn", params=BEN).status_code == 401
        turn = httpx.get(f"{api}/turn", params=BEN, headers=token).json()
        assert turn["sections"][0]["name"] == "system_instructions"
        texts = [message["text"] for message in turn["messages"]]
        assert any("Rua das Flores 12" in text for text in texts)
        assert not any("Casa do Largo" in text for text in texts)

        asked = {"message": "How much is the deposit?", "scope": "ben"}
        answer = httpx.post(f"{home}/agents/desk", json=asked, timeout=30).json()
        assert "The deposit is 50 EUR for each bike." in answer["text"]


def test_a_second_run_stores_no_question_twice(database_url: str) -> None:
    for _ in range(2):
        with running(database_url) as (_, page):
            home = page.partition("/inspector")[0]
            stored = httpx.get(f"{home}/agents/desk/history", params={"scope": "ana"}).json()
    assert [one["role"] for one in stored["messages"]].count("user") == 2
