"""The endpoint asked with Anthropic's SDK for Node and with the AI SDK, before a provider with its rules."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from server.claude import (
    CEILING,
    MODEL,
    MOST_MESSAGES,
    SYSTEM,
    TURNS,
    claude,
    claude_endpoint,
    prompt,
    text_of,
    without_bound_parts,
)
from server.node_sdk import node_environment

RUN_SECONDS = 60
CASES = ["sdk", "sdk-streamed", "ai", "ai-streamed"]


@dataclass
class NodeTalk:
    """A talk that a program of Node goes on with, run by run; its history is in a file."""

    folder: Path
    case: str
    file: Path
    said: list[Any] = field(default_factory=list)

    async def run(self, url: str, *asked: str, **options: Any) -> Any:
        """Ask all of these, and return the error that the program saw, if any."""
        state: dict[str, Any] = {"model": MODEL, "system": SYSTEM, "history": self.history}
        self.file.write_text(json.dumps(state | {"asked": asked} | options))
        command = ["node", str(self.folder / "messages.mjs"), self.case, url, str(self.file)]
        with anyio.fail_after(RUN_SECONDS):
            done = await anyio.run_process(command, env=node_environment(), check=False)
        assert done.returncode == 0, done.stderr.decode()
        saw = json.loads(done.stdout)
        self.said += saw["said"]
        return saw["error"]

    @property
    def history(self) -> list[Any]:
        return json.loads(self.file.read_text())["history"] if self.file.exists() else []

    @property
    def last(self) -> str:
        content = self.history[-1]["content"]
        return text_of(content)

    def comparable(self) -> list[Any]:
        """What came of each request, without what depends on all that the model was shown."""
        if self.case.startswith("ai"):
            return self.said
        return [{**one, "content": without_bound_parts(one["content"])} for one in self.said]


@pytest.fixture(params=CASES)
def talk(request: pytest.FixtureRequest, node_folder: Path, tmp_path: Path) -> NodeTalk:
    return NodeTalk(node_folder, request.param, tmp_path / "talk.json")


async def test_sixty_turns_are_bounded_valid_and_answered_as_without_an_endpoint(
    talk: NodeTalk, tmp_path: Path
) -> None:
    asked = [prompt(turn) for turn in range(1, TURNS + 1)]
    url = f"sqlite:///{tmp_path / 'talks.db'}"
    async with claude() as upstream:
        # With a restart of the endpoint in the middle.
        async with claude_endpoint(upstream, memory=url) as made:
            assert await talk.run(made.url, *asked[:30]) is None
        async with claude_endpoint(upstream, memory=url) as made:
            assert await talk.run(made.url, *asked[30:]) is None
            [stored] = (await made.stored()).values()
    upstream.check()
    assert talk.last == "It is heron."
    assert len(stored) == len(talk.history) > 3 * CEILING
    assert max(len(body["messages"]) for body in upstream.asked) <= MOST_MESSAGES
    direct = NodeTalk(talk.folder, talk.case, tmp_path / "direct.json")
    async with claude() as upstream:
        assert await direct.run(upstream.url, *asked) is None
    upstream.check()
    assert talk.comparable() == direct.comparable()


@pytest.mark.parametrize(("status", "name"), [(429, "RateLimitError"), (529, "OverloadedError")])
async def test_a_fault_of_the_provider_is_the_client_s_own_error(
    talk: NodeTalk, status: int, name: str
) -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        await talk.run(made.url, prompt(1))
        before = talk.history
        upstream.provider.failures.append(status)
        saw = await talk.run(made.url, prompt(2))
        assert saw["name"] == (name if talk.case.startswith("sdk") else "APICallError")
        assert (saw["status"], saw["retryAfter"]) == (status, "7" if status == 429 else None)
        # The client sends it again, and it is stored once.
        talk.file.write_text(json.dumps({"history": before}))
        assert await talk.run(made.url, prompt(2)) is None
        [stored] = (await made.stored()).values()
    upstream.check(status)
    assert stored == [text_of(one["content"]) for one in talk.history]


async def test_a_stream_that_breaks_is_an_error_and_is_asked_again(talk: NodeTalk) -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        await talk.run(made.url, prompt(1))
        before = talk.history
        upstream.cuts.append(600)
        assert await talk.run(made.url, prompt(2)) is not None
        talk.file.write_text(json.dumps({"history": before}))
        assert await talk.run(made.url, prompt(2)) is None
        [stored] = (await made.stored()).values()
    upstream.check()
    assert stored == [text_of(one["content"]) for one in talk.history]
