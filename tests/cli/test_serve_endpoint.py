"""`autonomy-ctx serve --upstream`: a real process in front of a server of the tests, stopped by a signal."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx
import pytest
from cli.test_serve_and_worker import start
from models.model_server import as_json, chat, serving
from pty_process import WAIT_SECONDS, run_command

HI = {"model": "served", "messages": [{"role": "user", "content": "Where is the heron?"}]}
KEY = {"authorization": "Bearer sk-of-the-client"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@asynccontextmanager
async def served(folder: Path, *arguments: str, **variables: str) -> AsyncIterator[dict[str, Any]]:
    """A started endpoint, and what it printed."""
    given = ("serve", *arguments, "--port", "0", "--json")
    with start(*given, cwd=folder, **variables) as process:
        assert process.stdout is not None
        line = await anyio.to_thread.run_sync(process.stdout.readline)
        assert line, process.stderr and process.stderr.read()
        yield json.loads(line)
        process.send_signal(signal.SIGTERM)
        assert await anyio.to_thread.run_sync(partial(process.wait, WAIT_SECONDS)) == 0
        assert process.stderr is not None
        assert "sk-" not in process.stderr.read()


async def test_an_endpoint_answers_stores_and_is_inspected(tmp_path: Path) -> None:
    async with serving(as_json(chat("In the reeds."))) as upstream:
        arguments = ("--upstream", f"{upstream.url}/v1", "-m", "talk.db", "-s", "ana", "--max-tokens", "4000")
        async with served(tmp_path, *arguments, "--ceiling", "8", "--floor", "4") as told:
            assert told["upstream"] == f"{upstream.url}/v1"
            assert told["scope"] == "ana"
            async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client:
                answer = await client.post(f"{told['url']}/chat/completions", json=HI, headers=KEY)
                assert answer.json()["choices"][0]["message"]["content"] == "In the reeds."
                name = answer.headers["x-conversation-id"]
                assert upstream.seen[-1].headers["authorization"] == KEY["authorization"]
                page = await client.get(
                    f"{told['inspector']}api/conversations?scope=ana",
                    headers={"authorization": f"Bearer {told['token']}"},
                )
                assert name in page.text
                refused = await client.get(f"{told['inspector']}api/conversations?scope=ana")
                assert refused.status_code == 401
                # A web page of another site does not get in.
                foreign = {**KEY, "origin": "https://elsewhere.example"}
                refused = await client.post(f"{told['url']}/chat/completions", json=HI, headers=foreign)
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "access_denied")
    shown = run_command("show", name, "-m", "talk.db", cwd=tmp_path)
    assert "In the reeds." in shown.stdout
    explained = run_command("explain", "-c", name, "-m", "talk.db", cwd=tmp_path)
    assert explained.returncode == 0
    assert "heron" in explained.stdout
    assert b"sk-of-the-client" not in (tmp_path / "talk.db").read_bytes()


async def test_each_key_has_a_scope_of_its_own(tmp_path: Path) -> None:
    async with serving(as_json(chat("Yes."))) as upstream:
        arguments = ("--upstream", f"{upstream.url}/v1", "--scope-by-key", "--conversation-by-user")
        async with served(tmp_path, *arguments, "-m", "talk.db") as told:
            assert told["scope"] is None
            async with httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client:
                url = f"{told['url']}/chat/completions"
                for key in ("sk-1", "sk-2"):
                    await client.post(
                        url, json=HI | {"user": "trip"}, headers={"authorization": f"Bearer {key}"}
                    )
                    assert len(upstream.seen[-1].body["messages"]) == 1
                assert (await client.post(url, json=HI)).status_code == 401
    listed = run_command("conversations", "-m", "talk.db", "--json", cwd=tmp_path)
    assert listed.stdout.count("key-") >= 2
    assert listed.stdout.count('"trip"') == 2
    assert "sk-" not in listed.stdout


async def test_the_key_of_a_variable_goes_upstream(tmp_path: Path) -> None:
    async with serving(as_json(chat("Yes."))) as upstream:
        arguments = ("--upstream", upstream.url, "--api-key-env", "OUR_KEY")
        async with (
            served(tmp_path, *arguments, OUR_KEY="sk-ours") as told,
            httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client,
        ):
            await client.post(f"{told['url']}/chat/completions", json=HI, headers=KEY)
            assert upstream.seen[-1].path == "/v1/chat/completions"
            assert upstream.seen[-1].headers["authorization"] == "Bearer sk-ours"


async def test_a_model_that_is_named_writes_the_summaries_with_its_own_key(tmp_path: Path) -> None:
    async with serving(as_json(chat("Yes."))) as upstream, serving(as_json(chat("Short."))) as writer:
        arguments = (
            "--upstream",
            upstream.url,
            "--floor",
            "2",
            "--ceiling",
            "4",
            "--summary-model",
            "gpt-5-mini",
        )
        variables = {"OPENAI_API_KEY": "sk-ours", "OPENAI_BASE_URL": f"{writer.url}/v1"}
        async with (
            served(tmp_path, *arguments, **variables) as told,
            httpx.AsyncClient(trust_env=False, timeout=WAIT_SECONDS) as client,
        ):
            with anyio.fail_after(WAIT_SECONDS):
                while not writer.seen:
                    named = {"metadata": {"conversation_id": "trip"}}
                    await client.post(f"{told['url']}/chat/completions", json=HI | named, headers=KEY)
            assert writer.seen[0].body["model"] == "gpt-5-mini"
            assert writer.seen[0].headers["authorization"] == "Bearer sk-ours"
            assert all(one.headers["authorization"] == KEY["authorization"] for one in upstream.seen)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "give --upstream URL"),
        (("a.py", "--upstream", "https://host/v1"), "serves no agents"),
        (("a.py", "--floor", "4", "--scope-by-key"), "give --scope-by-key and --floor only with --upstream"),
        (("--upstream", "host"), "upstream must be the URL"),
        (("--upstream", "https://host/v1", "--idle-seconds", "-1"), "idle_seconds must be"),
        (("--upstream", "https://host/v1", "--host", "0.0.0.0"), "give --scope-by-key"),
        (("--upstream", "https://host/v1", "--scope-by-key", "-s", "ana"), "leave out --scope or"),
        (("--upstream", "https://host/v1", "--api-key-env", "NOT_SET"), "NOT_SET is not set"),
        (("--upstream", "http://host/v1", "--api-key-env", "PATH"), "without encryption"),
        (
            ("--upstream", "https://h/v1", "--host", "0.0.0.0", "--scope-by-key", "--api-key-env", "PATH"),
            "anybody there could use your key",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, arguments: tuple[str, ...], problem: str
) -> None:
    ran = run_command("serve", *arguments, "--port", "0", cwd=tmp_path)
    assert ran.returncode != 0
    assert problem in " ".join(ran.stderr.split())
    assert "Traceback" not in ran.stderr
