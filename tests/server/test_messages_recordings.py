"""Requests of Claude Code, turn by turn, and the same talk made longer.

See `tests/server/recorded/README.md`.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from server.claude import (
    MOST_MESSAGES,
    QUESTION,
    TURNS,
    ClaudeUpstream,
    claude,
    claude_endpoint,
    without_bound_parts,
)

RECORDED = json.loads((Path(__file__).parent / "recorded" / "claude-code.json").read_text(encoding="utf-8"))
REQUESTS: list[Any] = RECORDED["requests"]
MARK = {"cache_control": {"type": "ephemeral"}}
SESSION = REQUESTS[0]["headers"]["x-claude-code-session-id"]
# The requests before its own compaction.
FIRST_PART = 9
REFUSED = next(at for at, one in enumerate(REQUESTS) if one["status"] != 200)


@dataclass
class Replay:
    """A client that sends recorded requests with the answers that it got."""

    url: str
    # For each request: its status, and the blocks of its answer.
    got: list[tuple[int, list[Any]]] = field(default_factory=list)

    async def send(self, requests: Sequence[Mapping[str, Any]]) -> None:
        async with httpx.AsyncClient(base_url=self.url, timeout=60) as http:
            for one in requests:
                body = {**one["body"], "messages": [self._fill(said) for said in one["body"]["messages"]]}
                answer = await http.post("/v1/messages?beta=true", json=body, headers=one["headers"])
                blocks = read_stream(answer.text) if answer.status_code == 200 else []
                self.got.append((answer.status_code, blocks))

    def _fill(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        """An answer in place of its number, perhaps without thinking, or with a mark."""
        named = message["content"]
        if not isinstance(named, dict):
            return message
        blocks = [one for one in self.got[named["answer"]][1] if named.get("thinking", True) or "text" in one]
        if named.get("marked"):
            blocks = [*blocks[:-1], blocks[-1] | MARK]
        return {**message, "content": blocks}

    def comparable(self) -> list[Any]:
        return [(status, without_bound_parts(blocks)) for status, blocks in self.got]


def read_stream(text: str) -> list[Any]:
    """The blocks of a streamed answer, as a client puts them together."""
    blocks: list[Any] = []
    arguments: dict[int, str] = {}
    for line in text.splitlines():
        if not line.startswith("data: "):
            continue
        event = json.loads(line.removeprefix("data: "))
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            delta, block = event["delta"], blocks[event["index"]]
            if delta["type"] == "input_json_delta":
                arguments[event["index"]] = arguments.get(event["index"], "") + delta["partial_json"]
            else:
                kind = delta["type"].removesuffix("_delta")
                block[kind] += delta[kind]
    for index, given in arguments.items():
        blocks[index]["input"] = json.loads(given)
    return blocks


def follow(request: Mapping[str, Any], number: int, *content: Mapping[str, Any]) -> Any:
    """The next request of the talk: marks move to the end, and a text that is no longer new is a string."""
    made = copy.deepcopy(dict(request))
    for message in made["body"]["messages"]:
        if isinstance(message["content"], list):
            for block in message["content"]:
                block.pop("cache_control", None)
            if [block["type"] for block in message["content"]] == ["text"]:
                message["content"] = message["content"][0]["text"]
    said = [*content[:-1], {**content[-1], **MARK}]
    made["body"]["messages"] += [
        {"role": "assistant", "content": {"answer": number}},
        {"role": "user", "content": said},
    ]
    return made


async def replay(upstream: ClaudeUpstream, url: str, requests: Sequence[Any]) -> Replay:
    done = Replay(url)
    await done.send(requests)
    upstream.check(400)
    return done


async def test_a_session_is_answered_as_without_an_endpoint() -> None:
    """With a sub agent, its own compaction, and a request that it sends again without thinking."""
    async with claude() as upstream:
        direct = await replay(upstream, upstream.url, REQUESTS)
        bodies = upstream.asked
    async with claude() as upstream, claude_endpoint(upstream) as made:
        done = await replay(upstream, made.url, REQUESTS)
        stored = await made.stored()
    assert [status for status, _ in direct.got] == [one["status"] for one in REQUESTS]
    # The provider refuses thinking behind the client's own summary; the endpoint does not send it there.
    assert {status for status, _ in done.got} == {200}
    assert done.got[:FIRST_PART] == direct.got[:FIRST_PART]
    pairs = zip(done.comparable(), direct.comparable(), strict=True)
    assert [one for one, other in pairs if one != other] == [done.comparable()[REFUSED]]
    # As long as it is short, the model sees what the client sent.
    assert upstream.asked[:FIRST_PART] == bodies[:FIRST_PART]
    first = stored[SESSION]
    # What the user says, and the answer that repeats it.
    assert [len([one for one in first if text in one]) for text in ("Remember", "Bash echo ferry")] == [2, 2]
    assert not any("echo seal" in one for one in first if "Agent" not in one)


async def test_sixty_turns_are_bounded_and_valid_over_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'talks.db'}"
    async with claude() as upstream:
        async with claude_endpoint(upstream, memory=url) as made:
            done = await replay(upstream, made.url, REQUESTS[:FIRST_PART])
            request = REQUESTS[FIRST_PART - 1]
            for turn in range(3, 30):
                request = await go_on(done, request, f"Bash echo ferry {turn}")
        async with claude_endpoint(upstream, memory=url) as made:
            done.url = made.url
            for turn in range(30, TURNS):
                request = await go_on(done, request, f"Bash echo ferry {turn}")
            await go_on(done, request, QUESTION)
            stored = await made.stored()
        upstream.check()
    assert {status for status, _ in done.got} == {200}
    assert done.got[-1][1][-1]["text"] == "It is heron."
    assert max(len(body["messages"]) for body in upstream.asked) <= MOST_MESSAGES
    # What was said, the call, its result, and the answer; each once.
    assert [one for one in stored[SESSION] if one == "Bash echo ferry 40"] == ["Bash echo ferry 40"]
    assert len(stored[SESSION]) > 4 * (TURNS - 3)


async def go_on(done: Replay, request: Any, text: str) -> Any:
    """A turn more, with the tools that it calls; its last request."""
    content: dict[str, Any] = {"type": "text", "text": text}
    while True:
        request = follow(request, len(done.got) - 1, content)
        await done.send([request])
        newest = done.got[-1][1][-1]
        if newest["type"] != "tool_use":
            return request
        content = {"tool_use_id": newest["id"], "type": "tool_result", "content": "ferry", "is_error": False}
