"""The endpoint asked with the real OpenAI SDK for Node, over real HTTP, in front of a strict provider.

`make test-clients` installs the SDK in the version of `tests/server/node/package-lock.json`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from models.model_server import as_json, chat, serving
from models.provider_server import Fault, ProviderServer, Step, providing
from models.provider_words import Asked, Call, Say
from server.node_sdk import PACKAGE, node_environment
from server.tenants import uvicorn_client

from autonomy_ctx import Memory
from autonomy_ctx.server import endpoint_app

RUN_SECONDS = 60
NINE = "pier 3: nine"


async def ask(folder: Path, case: str, upstream: str, memory: Memory, **options: Any) -> Any:
    """What the SDK saw in one case, through an endpoint in front of a provider."""
    app = endpoint_app(upstream=f"{upstream}/v1", scope="ana", memory=memory, **options)
    async with uvicorn_client(app) as client:
        command = ["node", str(folder / "client.mjs"), case, str(client.base_url.join("/v1"))]
        with anyio.fail_after(RUN_SECONDS):
            done = await anyio.run_process(command, env=node_environment(), check=False)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def call_then_tell(asked: Asked) -> Say:
    """A call of the tool, and what it found once it was run."""
    role, text = asked.said[-1]
    if role != "tool":
        return Say(calls=[Call("call_1", "ferry_time", {"pier": "3"})])
    return Say(f"At {text.rpartition(' ')[2]}.")


def repeat_all(asked: Asked) -> Say:
    """All that the user has said, so that a test sees what the model was shown."""
    return Say(" ".join(text for role, text in asked.said if role == "user"))


async def roles(memory: Memory, conversation: str) -> list[str]:
    return [one["role"] for one in await memory.get_messages_only("ana", conversation)]


async def only_conversation(memory: Memory) -> str:
    [found] = await memory.conversations("ana")
    return found.key.conversation


def check(server: ProviderServer, requests: int) -> None:
    assert server.refused == []
    assert len(server.seen) == requests
    assert {one.headers["authorization"] for one in server.seen} == {"Bearer sk-node"}


async def test_a_client_that_sends_only_what_is_new_is_answered_from_all_that_was_said(
    node_folder: Path,
) -> None:
    async with Memory() as memory, providing(repeat_all) as server:
        saw = await ask(node_folder, "plain", server.url, memory)
        assert saw == {
            "conversation": "trip",
            "texts": ["When does the ferry leave?", "When does the ferry leave? And on Sunday?"],
            "usage": 900,
        }
        check(server, 2)
        assert await roles(memory, "trip") == ["user", "assistant"] * 2


async def test_a_client_that_sends_all_each_time_has_one_conversation_without_doubles(
    node_folder: Path,
) -> None:
    async with Memory() as memory, providing(repeat_all) as server:
        saw = await ask(node_folder, "whole-history", server.url, memory)
        assert saw["sent"] == 6
        assert len(set(saw["conversations"])) == 1
        check(server, 3)
        assert await roles(memory, await only_conversation(memory)) == ["user", "assistant"] * 3


async def test_a_streamed_answer_comes_in_pieces_and_is_kept(node_folder: Path) -> None:
    async with Memory() as memory, providing(Say("It leaves at nine.")) as server:
        saw = await ask(node_folder, "streamed", server.url, memory)
        assert len(saw["pieces"]) > 1
        assert "".join(saw["pieces"]) == "It leaves at nine."
        assert (saw["finish"], saw["usage"]) == ("stop", 900)
        check(server, 1)
        stored = await memory.get_messages_only("ana", "trip")
        assert [one["content"] for one in stored] == ["When does the ferry leave?", "It leaves at nine."]


@pytest.mark.parametrize("case", ["tools", "streamed-tools"])
async def test_calls_go_to_the_client_and_results_come_with_its_next_request(
    node_folder: Path, case: str
) -> None:
    async with Memory() as memory, providing(call_then_tell) as server:
        saw = await ask(node_folder, case, server.url, memory)
        assert saw["text"] == "At nine."
        if case == "tools":
            assert (saw["finish"], saw["results"]) == ("tool_calls", [NINE])
        else:
            assert saw["roles"] == ["user", "assistant", "tool", "assistant"]
        check(server, 2)
        assert server.asked().said[-1] == ("tool", NINE)
        stored = await roles(memory, await only_conversation(memory))
        assert stored == ["user", "assistant", "tool", "assistant"]


async def test_responses_carry_calls_and_results(node_folder: Path) -> None:
    async with Memory() as memory, providing(call_then_tell) as server:
        saw = await ask(node_folder, "responses", server.url, memory)
        assert saw == {"kinds": ["function_call"], "text": "At nine."}
        check(server, 2)
        assert [one.path for one in server.seen] == ["/v1/responses"] * 2
        stored = await roles(memory, await only_conversation(memory))
        assert stored == ["user", "assistant", "tool", "assistant"]


async def test_responses_are_streamed_with_all_their_events(node_folder: Path) -> None:
    async with Memory() as memory, providing(Say("It leaves at nine.")) as server:
        saw = await ask(node_folder, "streamed-responses", server.url, memory)
        assert saw["text"] == "It leaves at nine."
        assert {"response.created", "response.output_text.delta", "response.completed"} <= set(saw["kinds"])
        check(server, 1)
        assert await roles(memory, await only_conversation(memory)) == ["user", "assistant"]


async def test_a_response_goes_on_from_the_one_it_names(node_folder: Path) -> None:
    async with Memory() as memory, providing(repeat_all) as server:
        saw = await ask(node_folder, "previous-response", server.url, memory)
        assert saw["texts"][1] == "When does the ferry leave? And on Sunday?"
        check(server, 2)
        assert await roles(memory, await only_conversation(memory)) == ["user", "assistant"] * 2


@pytest.mark.parametrize("case", ["error", "streamed-error"])
async def test_a_limit_of_the_provider_is_the_sdk_s_own_error(node_folder: Path, case: str) -> None:
    async with Memory() as memory, providing(Fault.LIMITED) as server:
        saw = await ask(node_folder, case, server.url, memory)
        assert (saw["name"], saw["limited"], saw["status"]) == ("RateLimitError", True, 429)
        assert saw["retryAfter"] == "7"
        assert "overloaded" in saw["message"]
        check(server, 1)


CUT: Sequence[tuple[Step, str, str]] = (
    (Fault.OVERLOADED, "error", "InternalServerError"),
    (Fault.CUT_BEFORE, "error", "InternalServerError"),
    (Fault.CUT_AFTER_FIRST_TOKEN, "streamed-error", "APIError"),
    (Fault.TOO_LONG, "error", "BadRequestError"),
)


@pytest.mark.parametrize(("fault", "case", "name"), CUT, ids=lambda one: getattr(one, "name", str(one)))
async def test_faults_of_the_provider_are_the_sdk_s_own_errors(
    node_folder: Path, fault: Step, case: str, name: str
) -> None:
    async with Memory() as memory, providing(fault) as server:
        saw = await ask(node_folder, case, server.url, memory)
        assert saw["name"] == name
        assert server.refused == []


async def test_what_the_sdk_sends_again_after_a_limit_is_stored_once(node_folder: Path) -> None:
    busy = as_json({"error": {"message": "busy", "type": "rate_limit_error"}}, 429, retry_after_ms="1")
    async with Memory() as memory, serving(busy, as_json(chat("At nine."))) as server:
        saw = await ask(node_folder, "retry", server.url, memory)
        assert saw == {"text": "At nine."}
        assert [one.headers["x-stainless-retry-count"] for one in server.seen] == ["0", "1"]
        assert [one.body["messages"] for one in server.seen] == [
            [{"role": "user", "content": "When does the ferry leave?"}]
        ] * 2
        assert await roles(memory, "trip") == ["user", "assistant"]


async def test_other_parts_of_the_api_reach_the_provider(node_folder: Path) -> None:
    models = {"object": "list", "data": [{"id": "served", "object": "model", "created": 1, "owned_by": "us"}]}
    async with Memory() as memory, serving(as_json(models)) as server:
        assert await ask(node_folder, "models", server.url, memory) == {"models": ["served"]}
        assert [one.path for one in server.seen] == ["/v1/models"]


def test_the_lock_names_exact_versions_and_no_registry() -> None:
    package = json.loads((PACKAGE / "package.json").read_text())
    assert all(version[0].isdigit() for version in package["dependencies"].values())
    lock = json.loads((PACKAGE / "package-lock.json").read_text())
    assert all("resolved" not in one for one in lock["packages"].values())
    assert all("integrity" in one for path, one in lock["packages"].items() if path)
