"""The example with FastAPI, run as a program of its own: two tenants with keys that see their own."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from server.serving import error_of

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "fastapi_app.py"
ASK = "/assistant/agents/assistant"
ACME, ZEN = {"x-api-key": "key-of-acme"}, {"x-api-key": "key-of-zen"}


@pytest.fixture
def client(tmp_path: Path) -> Iterator[httpx.Client]:
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "agents.db"), "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = (re.search(r"running on (http://\S+)", line) for line in process.stderr)
        found = next((one for one in told if one), None)
        assert found is not None, "the example did not start"
        with httpx.Client(base_url=found[1], trust_env=False, verify=False, timeout=30) as made:
            yield made
        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
    assert "Application shutdown complete" in rest
    assert "Traceback" not in rest


def test_each_tenant_of_the_example_sees_its_own(client: httpx.Client) -> None:
    body = {"message": "Our code word is heron.", "conversation": "ops"}
    assert client.post(ASK, json=body, headers=ACME).status_code == 200
    question = {"message": "What is our code word?", "conversation": "ops"}
    assert "heron" in client.post(ASK, json=question, headers=ACME).json()["text"]
    assert "heron" not in client.post(ASK, json=question, headers=ZEN).json()["text"]
    found = [
        len(client.get(f"{ASK}/search", params={"query": "heron"}, headers=headers).json()["hits"])
        for headers in (ACME, ZEN)
    ]
    assert found[0] > 0
    assert found[1] == 0
    assert error_of(client.get("/assistant/agents")) == (401, "Unauthorized")
    closed = client.get("/assistant/agents", headers={"x-api-key": "key-of-old"})
    assert error_of(closed) == (403, "AccessDenied")
    # Its own routes are there, too.
    assert client.get("/").json()["assistant"] == "/assistant"


def test_a_tenant_of_the_example_that_asks_too_often_waits_and_the_other_does_not(
    client: httpx.Client,
) -> None:
    answers = [client.get("/assistant/agents", headers=ACME) for _ in range(61)]
    assert [one.status_code for one in answers[:60]] == [200] * 60
    assert error_of(answers[60]) == (429, "RateLimited")
    assert 0 < int(answers[60].headers["retry-after"]) <= 60
    assert client.get("/assistant/agents", headers=ZEN).status_code == 200
