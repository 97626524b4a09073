"""The last chapter of the tutorial: its program on a server, asked over HTTP, with the inspector opened."""

from __future__ import annotations

import sys
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from docs.tutorial import CHAPTERS, PROGRAMS, output_on, running, without_address

PYTHON, PROGRAM = Path(sys.executable), PROGRAMS / "many_users.py"
BEN = {"agent": "desk", "scope": "ben", "conversation": "default"}


def test_the_program_serves_customers_and_the_inspector(database_url: str) -> None:
    with running(PYTHON, PROGRAM, database_url) as (printed, page):
        assert without_address(printed) == output_on(CHAPTERS[-1])

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
        with running(PYTHON, PROGRAM, database_url) as (_, page):
            home = page.partition("/inspector")[0]
            stored = httpx.get(f"{home}/agents/desk/history", params={"scope": "ana"}).json()
    assert [one["role"] for one in stored["messages"]].count("user") == 2
