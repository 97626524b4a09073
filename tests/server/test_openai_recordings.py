"""Requests of real coding agents, turn by turn: see `tests/server/recorded/README.md`.

The provider is strict: it refuses what the real one refuses, and answers what it answered when the requests
were recorded.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketAttribute
from models.model_server import Answer, ModelServer, Seen, as_json
from models.provider_words import Call, OpenAI, Responses, Say, sse
from server.tenants import uvicorn_client

from autonomy_ctx import Memory
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.server import endpoint_app

FOLDER = Path(__file__).parent / "recorded"
NAMES = ["codex", "opencode", "qwen-code"]
WITH_SIDE_REQUESTS = ["opencode", "qwen-code"]


def read(name: str) -> Any:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def sent_messages(request: Any) -> list[Any]:
    """What a client sent, in the words of its API."""
    body = request["body"]
    return list(body["messages"] if "messages" in body else body["input"])


def is_main(request: Any) -> bool:
    """Whether a request is of the talk with the user, and not of something the agent does beside it."""
    return "side" not in request


@dataclass
class RecordedProvider(ModelServer):
    """Gives the recorded answers one after the other, and refuses bodies that a provider would refuse."""

    answers: Sequence[Answer] = ()
    requests: Sequence[Any] = ()
    refused: list[str] = field(default_factory=list)

    def answer(self, seen: Seen) -> Answer:
        number = len(self.seen) - 1
        words = OpenAI() if "messages" in seen.body else Responses()
        try:
            assert words.check(seen.path, seen.headers, seen.body), "all of them are streamed"
        except (AssertionError, KeyError, TypeError) as problem:
            self.refused.append(f"request {number}: {problem!r}")
            return as_json({"error": {"type": "invalid_request_error", "message": "refused"}}, 400)
        said = self.requests[number]["answer"]
        if isinstance(words, OpenAI):
            calls = [Call(one["id"], one["name"], json.loads(one["arguments"])) for one in said["calls"]]
            # Without the counts of a provider, which are not those of these bodies.
            chunks = [one for one in words.pieces(Say(said["text"], calls)) if b'"usage"' not in one]
        else:
            chunks = response_events(number, answer_items(self.requests, number))
        return Answer(chunks, headers={"content-type": "text/event-stream"})


def answer_items(requests: Sequence[Any], number: int) -> list[Any]:
    """The items of an answer, as the client's next request has them."""
    if number + 1 == len(requests):
        content = [{"type": "output_text", "text": requests[number]["answer"]["text"], "annotations": []}]
        return [{"type": "message", "id": "msg_last", "role": "assistant", "content": content}]
    new = sent_messages(requests[number + 1])[len(sent_messages(requests[number])) :]
    kinds = ("reasoning", "function_call", "custom_tool_call")
    return [one for one in new if one["type"] in kinds or one.get("role") == "assistant"]


def response_events(number: int, items: Sequence[Any]) -> list[bytes]:
    """A response in pieces."""
    about = {"id": f"resp_{number}", "object": "response", "model": "served"}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": {**about, "status": "in_progress", "output": []}}
    ]
    for index, item in enumerate(items):
        events.append({"type": "response.output_item.added", "output_index": index, "item": item})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    done = {**about, "status": "completed", "output": list(items)}
    events.append({"type": "response.completed", "response": done})
    return [sse({**one, "sequence_number": at}, one["type"]) for at, one in enumerate(events)]


@asynccontextmanager
async def recorded_provider(requests: Sequence[Any]) -> AsyncIterator[RecordedProvider]:
    server = RecordedProvider(requests=requests)
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        server.url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/v1"
        group.start_soon(listener.serve, server.serve)
        yield server
        group.cancel_scope.cancel()


@dataclass
class Replay:
    """What came of the requests: the conversation of each, and the bodies that the provider saw."""

    requests: Sequence[Any]
    conversations: list[str] = field(default_factory=list)
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def of(self, *, main: bool) -> set[str]:
        pairs = zip(self.requests, self.conversations, strict=True)
        return {conversation for request, conversation in pairs if is_main(request) is main}


async def replay(name: str, memory: Memory | str, *, restart_at: int | None = None, **options: Any) -> Replay:
    """Send the recorded requests through an endpoint, perhaps through another one from some request on."""
    recording = read(name)
    requests = recording["requests"]
    done = Replay(requests)
    halves = (range(restart_at or len(requests)), range(restart_at or len(requests), len(requests)))
    async with recorded_provider(requests) as provider:
        for numbers in filter(None, halves):
            app = endpoint_app(upstream=provider.url, scope="ana", memory=memory, **options)
            async with uvicorn_client(app) as client:
                for number in numbers:
                    request = requests[number]
                    answer = await client.post(
                        recording["path"], json=request["body"], headers=request["headers"]
                    )
                    assert answer.status_code == 200, (number, answer.text, provider.refused)
                    assert answer.headers["content-type"].startswith("text/event-stream")
                    done.conversations.append(answer.headers["x-conversation-id"])
        done.bodies = [one.body for one in provider.seen]
        done.refused = provider.refused
    assert done.refused == []
    assert len(done.bodies) == len(requests)
    return done


def expected_log(requests: Sequence[Any]) -> list[tuple[str, str]]:
    """Roles, and texts or ids of calls, of all that the last request of the talk has, and of its answer."""
    last = [one for one in requests if is_main(one)][-1]
    log: list[tuple[str, str]] = []
    for one in sent_messages(last):
        kind = one.get("type", "message")
        if one.get("role") in ("system", "developer") or kind == "reasoning":
            continue
        if kind.endswith("_call"):
            told = ("assistant", one["call_id"])
        elif kind.endswith("_output"):
            told = ("tool", one["call_id"])
        elif one["role"] == "tool":
            told = ("tool", one["tool_call_id"])
        else:
            told = (one["role"], texts(one["content"]))
        log.append(told)
        log += [("assistant", call["id"]) for call in one.get("tool_calls") or ()]
    return [one for one in [*log, ("assistant", last["answer"]["text"])] if one[1]]


def as_sent_on(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """A body as the provider gets it: the ids of items that it has not stored mean nothing to it."""
    if "input" not in body:
        return body
    return {
        **body,
        "input": [
            one if one["type"] == "reasoning" else {key: one[key] for key in one if key != "id"}
            for one in body["input"]
        ],
    }


def texts(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if "text" in part)
    return content or ""


async def stored_log(memory: Memory, conversation: str) -> list[tuple[str, str]]:
    """The same of what memory has."""
    log: list[tuple[str, str]] = []
    for entry in (await memory.read("ana", conversation, limit=1000)).entries:
        message = entry.message
        if message.role is ChatRole.TOOL:
            log.append(("tool", message.tool_call_id or ""))
            continue
        log += [(message.role.value, message.text)] if message.text else []
        log += [("assistant", str(call.id)) for call in message.tool_calls]
    return log


@pytest.mark.parametrize("name", NAMES)
async def test_a_short_talk_reaches_the_model_as_the_agent_sent_it(name: str) -> None:
    async with Memory() as memory:
        done = await replay(name, memory)
    assert done.bodies == [as_sent_on(request["body"]) for request in done.requests]


@pytest.mark.parametrize("name", NAMES)
async def test_a_talk_is_one_conversation_and_nothing_is_stored_twice(name: str) -> None:
    async with Memory() as memory:
        done = await replay(name, memory)
        [conversation] = done.of(main=True)
        log = await stored_log(memory, conversation)
    assert log == expected_log(done.requests)
    calls = [name for role, name in log if name.startswith("call_") and role == "assistant"]
    results = [name for role, name in log if role == "tool"]
    assert calls == results
    assert len(set(calls)) == len(calls) == 4


@pytest.mark.parametrize("name", WITH_SIDE_REQUESTS)
async def test_what_an_agent_asks_beside_the_talk_is_no_part_of_it(name: str) -> None:
    async with Memory() as memory:
        done = await replay(name, memory)
        assert done.of(main=False)
        assert done.of(main=False).isdisjoint(done.of(main=True))


@pytest.mark.parametrize("name", NAMES)
async def test_a_talk_goes_on_after_the_endpoint_was_restarted(name: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'talks.db'}"
    half = len(read(name)["requests"]) // 2
    done = await replay(name, url, restart_at=half)
    assert done.bodies == [as_sent_on(request["body"]) for request in done.requests]
    [conversation] = done.of(main=True)
    async with Memory(url) as memory:
        assert await stored_log(memory, conversation) == expected_log(done.requests)


@pytest.mark.parametrize("name", NAMES)
async def test_with_a_small_budget_the_model_sees_the_newest_and_calls_stay_with_their_results(
    name: str,
) -> None:
    async with Memory() as memory:
        done = await replay(name, memory, max_tokens=1000)
        [conversation] = done.of(main=True)
        assert await stored_log(memory, conversation) == expected_log(done.requests)
    shorter = 0
    for request, body in zip(done.requests, done.bodies, strict=True):
        sent, seen = sent_messages({"body": as_sent_on(request["body"])}), sent_messages({"body": body})
        # Messages are left out, or results are shortened.
        shorter += len(str(seen)) < len(str(sent))
        assert seen[-1] == sent[-1]
        assert {**body, "messages": 0, "input": 0} == {**request["body"], "messages": 0, "input": 0}
    assert shorter >= 3
