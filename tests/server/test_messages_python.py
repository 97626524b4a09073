"""The endpoint asked with Anthropic's SDK for Python, in front of a provider with its rules."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import anthropic
import anyio
import httpx
import pytest
from server.claude import (
    CEILING,
    KEY,
    MODEL,
    MOST_MESSAGES,
    QUESTION,
    SYSTEM,
    TOOL,
    TURNS,
    ClaudeUpstream,
    claude,
    claude_endpoint,
    prompt,
    run_tool,
    text_of,
    without_bound_parts,
)

# More than any turn needs.
STEPS = 5
ADAPTIVE: Any = {"type": "adaptive"}


def sdk(url: str) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=url, api_key=KEY, max_retries=0)


class Talk:
    """A client that keeps the history, sends all of it each time, and runs the tools."""

    def __init__(self, url: str, *, max_tokens: int = 100) -> None:
        self.url, self.max_tokens = url, max_tokens
        self.history: list[Any] = []
        self.answers: list[Any] = []

    async def ask(self, text: str, *, stream: bool = False) -> str:
        self.history.append({"role": "user", "content": text})
        for _ in range(STEPS):
            said = await self._request(stream=stream)
            # As the SDK shows it: the blocks go back as they are.
            content = [one.model_dump(exclude_none=True) for one in said.content]
            self.history.append({"role": "assistant", "content": content})
            self.answers.append(said)
            calls = [one for one in said.content if one.type == "tool_use"]
            if not calls:
                return text_of(content)
            results = [
                {"type": "tool_result", "tool_use_id": one.id, "content": run_tool(one.input)}
                for one in calls
            ]
            self.history.append({"role": "user", "content": results})
        raise AssertionError("the model does not see what its tools returned")

    async def _request(self, *, stream: bool) -> Any:
        asked: dict[str, Any] = {
            "model": MODEL,
            "max_tokens": self.max_tokens,
            "system": SYSTEM,
            "tools": [TOOL],
            "thinking": ADAPTIVE,
            "messages": self.history,
        }
        async with sdk(self.url) as client:
            if not stream:
                return await client.messages.create(**asked)
            async with client.messages.stream(**asked) as events:
                return await events.get_final_message()

    async def run(self, turns: Sequence[int], word: str = "heron") -> str:
        """Some turns of the talk, every second one streamed; the last answer."""
        said = ""
        for turn in turns:
            said = await self.ask(prompt(turn, word), stream=turn % 2 == 0)
        return said

    def said(self) -> list[Any]:
        """What came of each request, without what depends on all that the model was shown."""
        return [
            (one.id, one.model, one.stop_reason, without_bound_parts([b.model_dump() for b in one.content]))
            for one in self.answers
        ]


def ranges(messages: Sequence[Any]) -> list[str]:
    """The messages that each part of a request's summary covers."""
    return re.findall(r"\[Messages \d+ to \d+", json.dumps(messages))


def sizes(upstream: ClaudeUpstream) -> list[int]:
    return [len(body["messages"]) for body in upstream.asked]


async def run_direct(turns: Sequence[int]) -> Talk:
    """The same talk without an endpoint."""
    async with claude() as upstream:
        talk = Talk(upstream.url)
        await talk.run(turns)
        upstream.check()
    return talk


async def test_sixty_turns_are_bounded_valid_and_answered_as_without_an_endpoint() -> None:
    turns = range(1, TURNS + 1)
    async with claude() as upstream, claude_endpoint(upstream) as made:
        talk = Talk(made.url)
        assert await talk.run(turns) == "It is heron."
        [stored] = (await made.stored()).values()
    upstream.check()
    assert len(stored) == len(talk.history) > 3 * CEILING
    assert max(sizes(upstream)) <= MOST_MESSAGES
    assert talk.said() == (await run_direct(turns)).said()


async def test_answers_of_a_short_talk_have_the_bytes_of_upstream() -> None:
    async def read(url: str) -> list[bytes]:
        history: list[Any] = []
        answers = []
        async with httpx.AsyncClient(base_url=url, headers={"x-api-key": KEY}) as http:
            for turn in range(1, 6):
                history.append({"role": "user", "content": prompt(turn)})
                body = {"model": MODEL, "max_tokens": 100, "thinking": ADAPTIVE, "messages": history}
                whole = await http.post("/v1/messages", json=body)
                streamed = await http.post("/v1/messages", json=body | {"stream": True})
                answers += [whole.content, streamed.content]
                history.append({"role": "assistant", "content": whole.json()["content"]})
        return answers

    async with claude() as upstream:
        direct = await read(upstream.url)
    async with claude() as upstream, claude_endpoint(upstream) as made:
        assert await read(made.url) == direct
    upstream.check()


async def test_a_talk_goes_on_after_a_restart(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path / 'talks.db'}"
    async with claude() as upstream:
        async with claude_endpoint(upstream, memory=url) as made:
            talk = Talk(made.url)
            await talk.run(range(1, 31))
        async with claude_endpoint(upstream, memory=url) as made:
            talk.url = made.url
            assert await talk.run(range(31, TURNS + 1)) == "It is heron."
            [stored] = (await made.stored()).values()
    upstream.check()
    assert len(stored) == len(talk.history)
    assert max(sizes(upstream)) <= MOST_MESSAGES


async def test_an_earlier_message_can_be_edited() -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        talk = Talk(made.url)
        await talk.run(range(1, 31))
        at = talk.history.index({"role": "user", "content": prompt(4)})
        del talk.history[at:]
        assert "a boat" in await talk.ask("Which is a boat?")
        assert await talk.ask(QUESTION) == "It is heron."
        stored = sorted(map(tuple, (await made.stored()).values()), key=len)
    upstream.check()
    # The model was shown nothing of what had been replaced.
    assert prompt(4) not in str(upstream.asked[-1])
    assert [prompt(4) in one for one in stored] == [False, True]


async def test_parallel_talks_do_not_mix() -> None:
    words = ["heron", "otter", "puffin", "seal"]
    said: dict[str, str] = {}

    async def run(url: str, word: str) -> None:
        said[word] = await Talk(url).run(range(1, TURNS + 1, 3) if word == "seal" else [1, 5, 6, TURNS], word)

    async with claude() as upstream, claude_endpoint(upstream) as made:
        async with anyio.create_task_group() as group:
            for word in words:
                group.start_soon(run, made.url, word)
        assert len(await made.stored()) == len(words)
    upstream.check()
    assert said | {"seal": ""} == {word: f"It is {word}." for word in words} | {"seal": ""}


FAULTS = [
    (429, anthropic.RateLimitError, "rate_limit_error"),
    (529, anthropic.APIStatusError, "overloaded_error"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "kind", "name"), FAULTS, ids=["429", "529"])
async def test_a_fault_of_the_provider_is_the_sdk_s_own_error(
    status: int, kind: type[anthropic.APIStatusError], name: str, stream: bool
) -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        talk = Talk(made.url)
        await talk.ask(prompt(1))
        upstream.provider.failures.append(status)
        with pytest.raises(kind) as caught:
            await talk.ask(prompt(2), stream=stream)
        assert (caught.value.status_code, caught.value.body["error"]["type"]) == (status, name)  # type: ignore[index]
        if status == 429:
            assert caught.value.response.headers["retry-after"] == "7"
        # The client sends it again, and it is stored once.
        talk.history.pop()
        await talk.ask(prompt(2), stream=stream)
        [stored] = (await made.stored()).values()
    upstream.check(status)
    assert stored == [text_of(one["content"]) for one in talk.history]


async def test_a_stream_that_breaks_is_an_error_and_is_asked_again() -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        talk = Talk(made.url)
        await talk.ask(prompt(1))
        upstream.cuts.append(900)
        with pytest.raises((anthropic.APIError, httpx.HTTPError)):
            await talk.ask(prompt(2), stream=True)
        talk.history.pop()
        await talk.ask(prompt(2), stream=True)
        [stored] = (await made.stored()).values()
    upstream.check()
    assert stored == [text_of(one["content"]) for one in talk.history]


@pytest.mark.parametrize("options", [{}, {"context_summary": False}], ids=["summary", "newest"])
@pytest.mark.parametrize("window", [800, 1500])
async def test_an_overflow_is_asked_again_with_less(window: int, options: Any) -> None:
    """The budget is unknown to the endpoint until the provider names it."""
    async with claude(max_tokens=window) as upstream, claude_endpoint(upstream, **options) as made:
        talk = Talk(made.url)
        for turn in range(1, 31):
            await talk.ask(f"{'word ' * 100}\n{prompt(turn)}", stream=turn % 2 == 0)
    [refused] = upstream.provider.refused
    assert refused.error.startswith("prompt is too long")
    sent = [one.body["messages"] for one in upstream.provider.requests]
    at = sent.index(refused.body["messages"])
    answered, following = sent[at + 1], sent[at + 2]
    # The next request begins with the one that was answered, and not with the refused one; only another
    # summary, which may be ready by now, begins a new epoch.
    assert following[: len(answered) - 1] == answered[:-1] or ranges(following) != ranges(answered)
    assert following[: len(sent[at]) - 1] != sent[at][:-1]


@pytest.mark.parametrize("max_tokens", [1000, 128_000])
async def test_much_output_leaves_room_for_the_newest_messages(max_tokens: int) -> None:
    """Some clients ask for more output than the window of a small model."""
    async with claude(max_tokens=1250) as upstream, claude_endpoint(upstream) as made:
        talk = Talk(made.url, max_tokens=max_tokens)
        for turn in range(1, 25):
            await talk.ask("One word more. " * 25 + prompt(turn), stream=True)
    assert upstream.provider.refused
    for sent in upstream.provider.requests:
        newest = sent.body["messages"][-1]["content"]
        assert isinstance(newest, str) or newest[-1]["type"] in ("text", "tool_result")


async def test_a_result_that_does_not_fit_is_an_error() -> None:
    """Without its result, the model would make the call again and again."""
    async with claude() as upstream, claude_endpoint(upstream, max_tokens=400) as made:
        talk = Talk(made.url)
        with pytest.raises(anthropic.BadRequestError, match="the newest message does not fit"):
            # Arguments of calls are never shortened.
            await talk.ask("ferry_time pier-" + "long " * 300)
    assert len(upstream.provider.requests) == 1


async def test_tokens_are_counted_and_models_listed_by_the_provider() -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        talk = Talk(made.url)
        await talk.ask(prompt(1))
        asked: Any = [*talk.history, {"role": "user", "content": QUESTION}]
        async with sdk(made.url) as client:
            counted = await client.messages.count_tokens(model=MODEL, messages=asked, thinking=ADAPTIVE)
            with pytest.raises(anthropic.NotFoundError):
                await client.models.list()
        assert counted.input_tokens > 0
        [stored] = (await made.stored()).values()
    assert len(stored) == 2
    assert [one.path for one in upstream.provider.requests][1:] == ["/v1/messages/count_tokens", "/v1/models"]


async def test_fields_and_betas_reach_the_provider_unchanged() -> None:
    async with claude() as upstream, claude_endpoint(upstream) as made:
        marked: Any = {"type": "text", "text": "Hello", "cache_control": {"type": "ephemeral", "ttl": "1h"}}
        asked: dict[str, Any] = {
            "model": MODEL,
            "max_tokens": 5,
            "metadata": {"user_id": "ana"},
            "messages": [{"role": "user", "content": [marked]}],
            "extra_body": {"a_new_field": [1]},
            "extra_headers": {"anthropic-beta": "a-new-beta"},
        }
        async with sdk(made.url) as client:
            await client.messages.create(**asked)
    [seen] = upstream.provider.requests
    assert seen.headers["anthropic-beta"] == "a-new-beta"
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert {**seen.body} == json.loads(
        json.dumps({name: asked[name] for name in ("model", "max_tokens", "metadata", "messages")})
    ) | {"a_new_field": [1]}
