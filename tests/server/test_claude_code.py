"""Claude Code itself, without a screen, against the endpoint in front of a provider with its rules."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest
from server.claude import CEILING, FACT, KEY, MOST_MESSAGES, QUESTION, ClaudeUpstream, claude, claude_endpoint

from autonomy_ctx.testing import ProviderServer

RUN_SECONDS = 60
RUNS = 6


@dataclass(frozen=True)
class ClaudeCode:
    """The program with a folder of its own, which has its settings and its work."""

    program: Path
    folder: Path

    async def run(self, url: str, prompt: str, *options: str, **variables: str) -> dict[str, Any]:
        """One run, and the result that it prints."""
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.folder),
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": KEY,
            # No statistics, no updates, and no request for a title.
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            **variables,
        }
        command = [str(self.program), "-p", prompt, "--output-format", "json", *options]
        command += ["--allowedTools", "Bash,Read"]
        with anyio.fail_after(RUN_SECONDS):
            done = await anyio.run_process(command, cwd=self.folder, env=environment, check=False)
        assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
        told: dict[str, Any] = json.loads(done.stdout)
        assert not told["is_error"], told
        return told

    async def talk(self, url: str, runs: range, session: str) -> list[str]:
        """Runs that go on with one session, each with several calls of tools; what each answered."""
        said = []
        for number in runs:
            options = ("--session-id", session) if number == 1 else ("--resume", session)
            said.append((await self.run(url, make_prompt(number), *options))["result"])
        return said


def make_prompt(number: int) -> str:
    if number == 1:
        return FACT.format("heron")
    if number == RUNS:
        return QUESTION
    commands = "\n".join(f"Bash echo ferry {number}-{place}" for place in range(6))
    return f"Find ferry {number}.\nRead notes.txt\n{commands}"


@pytest.fixture
def code(claude_code: Path, tmp_path: Path) -> ClaudeCode:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text("The ferry leaves at nine.\n")
    return ClaudeCode(claude_code, folder)


def main_requests(upstream: ClaudeUpstream) -> list[Any]:
    """The messages of all requests that are not of a sub agent."""
    asked = [one for one in upstream.provider.requests if one.path == "/v1/messages"]
    return [one.body["messages"] for one in asked if "x-claude-code-agent-id" not in one.headers]


async def test_a_session_of_many_runs_is_bounded_valid_and_answered_as_without_an_endpoint(
    code: ClaudeCode, tmp_path: Path
) -> None:
    session, url = str(uuid4()), f"sqlite:///{tmp_path / 'talks.db'}"
    async with claude() as upstream:
        # With a restart of the endpoint in the middle.
        async with claude_endpoint(upstream, memory=url) as made:
            said = await code.talk(made.url, range(1, 4), session)
        async with claude_endpoint(upstream, memory=url) as made:
            said += await code.talk(made.url, range(4, RUNS + 1), session)
            stored = await made.stored()
    upstream.check()
    assert said[-1] == "It is heron."
    assert list(stored) == [session]
    assert len(stored[session]) > 3 * CEILING
    assert max(map(len, main_requests(upstream))) <= MOST_MESSAGES
    async with claude() as upstream:
        assert said == await code.talk(upstream.url, range(1, RUNS + 1), str(uuid4()))


def answer_chat(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A model behind chat completions, which reads the notes when it is asked to find something."""
    last = body["messages"][-1]
    said = str(last["content"])
    if last["role"] == "user" and "Find ferry" in said:
        return [{"type": "tool_use", "id": "call_1", "name": "Read", "input": {"file_path": "notes.txt"}}]
    if last["role"] == "user" and QUESTION in said:
        found = re.search(r"code word is (\w+)", json.dumps(body["messages"]))
        said = f"It is {found[1]}." if found else "I do not know."
    return [{"type": "text", "text": said}]


async def test_a_model_behind_chat_completions_answers_and_calls_tools(code: ClaudeCode) -> None:
    session, provider = str(uuid4()), ProviderServer(answer_chat)
    async with claude(provider) as upstream, claude_endpoint(upstream, upstream_api="chat") as made:
        said = [
            (await code.run(made.url, prompt, option, session, ANTHROPIC_MODEL="gpt-5"))["result"]
            for prompt, option in (
                (FACT.format("heron"), "--session-id"),
                ("Find ferry 1.", "--resume"),
                (QUESTION, "--resume"),
            )
        ]
    upstream.check()
    assert {one.path for one in provider.requests} == {"/v1/chat/completions"}
    assert "The ferry leaves at nine." in said[1]
    assert said[2] == "It is heron."


async def test_its_own_compaction_keeps_one_session_and_what_was_said(code: ClaudeCode) -> None:
    session = str(uuid4())
    async with claude() as upstream, claude_endpoint(upstream) as made:
        await code.talk(made.url, range(1, 4), session)
        await code.run(made.url, "/compact", "--resume", session)
        assert (await code.run(made.url, QUESTION, "--resume", session))["result"] == "It is heron."
        stored = await made.stored()
    # It sends the newest thinking behind its summary, is refused, and asks again without.
    upstream.check(400)
    assert make_prompt(2) in "\n".join(text for texts in stored.values() for text in texts)


async def test_a_sub_agent_has_a_conversation_of_its_own(code: ClaudeCode) -> None:
    session = str(uuid4())
    async with claude() as upstream, claude_endpoint(upstream) as made:
        await code.run(made.url, FACT.format("heron"), "--session-id", session)
        await code.run(made.url, "Agent Bash echo seal", "--resume", session)
        assert (await code.run(made.url, QUESTION, "--resume", session))["result"] == "It is heron."
        stored = await made.stored()
    upstream.check()
    [other] = stored.keys() - {session}
    assert "Bash echo seal" in "".join(stored[other])
    assert "echo seal" not in "".join(one for one in stored[session] if "Agent" not in one)


async def test_parallel_sessions_do_not_mix(code: ClaudeCode) -> None:
    said = {}

    async def run(url: str, word: str) -> None:
        session = str(uuid4())
        await code.run(url, FACT.format(word), "--session-id", session)
        said[word] = (await code.run(url, QUESTION, "--resume", session))["result"]

    async with claude() as upstream, claude_endpoint(upstream) as made:
        async with anyio.create_task_group() as group:
            for word in ("heron", "otter"):
                group.start_soon(run, made.url, word)
        assert len(await made.stored()) == 2
    upstream.check()
    assert said == {"heron": "It is heron.", "otter": "It is otter."}


async def test_faults_of_the_provider_cost_the_user_nothing(code: ClaudeCode) -> None:
    session = str(uuid4())
    async with claude() as upstream, claude_endpoint(upstream) as made:
        upstream.provider.failures.append(529)
        await code.run(made.url, FACT.format("heron"), "--session-id", session)
        upstream.cuts.append(1500)
        await code.run(made.url, "Bash echo ferry", "--resume", session)
        told = await code.run(made.url, QUESTION, "--continue")
        stored = await made.stored()
    upstream.check(529)
    assert told["result"] == "It is heron."
    # After the stream that broke it changes its message, so the talk goes on as a fork.
    fork, *others = sorted(stored, reverse=True)
    assert others == [session]
    assert [stored[fork].count(QUESTION), stored[session].count(QUESTION)] == [1, 0]
    said = FACT.format("heron")
    assert [len([text for text in one if text.endswith(said)]) for one in stored.values()] == [1, 1]
