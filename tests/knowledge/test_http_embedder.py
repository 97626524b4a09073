"""Vectors over HTTP, against a real server: batches, retries, garbage, and no key anywhere."""

from __future__ import annotations

import json
import logging
from typing import Any

import anyio
import pytest
from models.model_server import Answer, as_json, serving

from autonomy_ctx import ModelError, ModelTimeout, RateLimited
from autonomy_ctx.errors import (
    AuthenticationFailed,
    InsecureAddress,
    InvalidModelReply,
    MissingKey,
    ModelUnavailable,
)
from autonomy_ctx.knowledge import HttpEmbedder

KEY = "sk-planted-1-key"


async def soon(seconds: float) -> None:
    await anyio.lowlevel.checkpoint()


def vectors(*rows: list[Any], **more: Any) -> dict[str, Any]:
    data = [{"object": "embedding", "index": at, "embedding": row} for at, row in enumerate(rows)]
    return {"object": "list", "data": data, "model": "served", "usage": {"prompt_tokens": 3}, **more}


def embedder(url: str, **options: Any) -> HttpEmbedder:
    return HttpEmbedder("embed-1", base_url=url, api_key=KEY, sleep=soon, jitter=lambda: 0.0, **options)


async def test_texts_are_sent_in_batches_and_come_back_in_order() -> None:
    backwards = vectors([1.0, 0.0], [2.0, 0.0])
    backwards["data"].reverse()
    async with (
        serving(as_json(backwards), as_json(vectors([3, 0.5]))) as server,
        embedder(f"{server.url}/v1", batch_size=2, dimensions=2) as one,
    ):
        assert await one.embed(["a", "b", "c"]) == [[1.0, 0.0], [2.0, 0.0], [3.0, 0.5]]
        assert await one.embed([]) == []
    assert [(seen.path, seen.body["input"]) for seen in server.seen] == [
        ("/v1/embeddings", ["a", "b"]),
        ("/v1/embeddings", ["c"]),
    ]
    assert server.seen[0].body["model"] == "embed-1"
    assert server.seen[0].body["dimensions"] == 2
    assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"
    assert server.connections == 1


async def test_a_base_without_its_version_and_a_text_no_provider_takes() -> None:
    async with serving(as_json(vectors([1.0]))) as server, embedder(server.url) as one:
        assert await one.embed(["a\ud800b"]) == [[1.0]]
        assert server.seen[0].path == "/v1/embeddings"
        assert server.seen[0].body["input"] == ["a\ufffdb"]


async def test_what_may_pass_is_asked_again() -> None:
    busy = as_json({"error": {"type": "overloaded_error"}}, 503)
    async with (
        serving(busy, Answer(cut="first"), as_json(vectors([1.0]))) as server,
        embedder(server.url) as one,
    ):
        assert await one.embed(["a"]) == [[1.0]]
        assert len(server.seen) == 3


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (as_json({"error": {"message": KEY}}, 401), AuthenticationFailed),
        (as_json({"error": {"message": KEY}}, 429), RateLimited),
        (as_json({"error": {"message": KEY}}, 500), ModelUnavailable),
        (as_json({"error": {"message": f"bad {KEY}"}}, 400), ModelError),
        (as_json({"error": {"message": KEY}}), InvalidModelReply),
        (Answer([b"no json"]), InvalidModelReply),
        (as_json([]), InvalidModelReply),
        (as_json({}), InvalidModelReply),
        (as_json({"data": None}), InvalidModelReply),
        (as_json({"data": []}), InvalidModelReply),
        (as_json({"data": [7]}), InvalidModelReply),
        (as_json(vectors([1.0], [2.0])), InvalidModelReply),
        (as_json(vectors(["x"])), InvalidModelReply),
        (as_json(vectors([])), InvalidModelReply),
        (as_json(vectors([float("nan")])), InvalidModelReply),
        (Answer(cut="first"), ModelUnavailable),
    ],
)
async def test_what_is_no_answer_is_a_typed_error_without_the_key_or_the_text(
    answer: Answer, kind: type[ModelError], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(answer) as server, embedder(server.url) as one:
        with pytest.raises(kind) as raised:
            await one.embed(["planted-text"])
    assert raised.type is kind
    told = f"{raised.value} {raised.value!r} {one!r} {caplog.text}"
    assert KEY not in told
    assert "planted-text" not in told
    assert "embed-1" in str(raised.value)


async def test_a_server_that_hangs_is_left_in_time() -> None:
    async with (
        serving(Answer(before=anyio.Event())) as server,
        embedder(server.url, timeout=0.05) as one,
    ):
        with pytest.raises(ModelTimeout, match=r"gave no answer for 0\.05 s"):
            await one.embed(["a"])


async def test_a_cancelled_question_lets_go_of_its_connection() -> None:
    async with (
        serving(Answer(before=anyio.Event())) as server,
        embedder(server.url) as one,
        anyio.create_task_group() as group,
    ):
        group.start_soon(one.embed, ["a"])
        await server.arrived.wait()
        group.cancel_scope.cancel()
    assert len(server.seen) == 1


def test_the_address_is_known_by_the_name_or_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "OLLAMA_BASE_URL", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)
    assert HttpEmbedder("openai/text-embedding-3-small").base_url == "https://api.openai.com/v1"
    assert HttpEmbedder("ollama/nomic-embed-text").base_url == "http://127.0.0.1:11434/v1"
    assert HttpEmbedder("any", base_url="http://127.0.0.1:1/v1/").base_url == "http://127.0.0.1:1/v1"


async def test_a_missing_key_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        await HttpEmbedder("openai/text-embedding-3-small").embed(["a"])


async def test_a_key_from_the_environment_is_not_sent_in_clear_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with serving(as_json(vectors([1.0]))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url.replace("127.0.0.1", "0.0.0.0"))
        async with HttpEmbedder("openai/text-embedding-3-small") as one:
            with pytest.raises(InsecureAddress, match=r"http://0\.0\.0\.0:.*`insecure=True`"):
                await one.embed(["a"])
        assert server.seen == []
        async with HttpEmbedder("openai/text-embedding-3-small", insecure=True) as one:
            await one.embed(["a"])
        assert server.seen[0].headers["authorization"] == f"Bearer {KEY}"


async def test_a_providers_key_is_not_sent_to_an_address_that_was_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    async with (
        serving(as_json(vectors([1.0]))) as server,
        HttpEmbedder("openai/text-embedding-3-small", base_url=server.url) as one,
    ):
        await one.embed(["a"])
        assert "authorization" not in server.seen[0].headers
        assert KEY not in json.dumps(dict(server.seen[0].headers))


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        ({"model": "text-embedding-3-small"}, "the provider of model 'text-embedding-3-small' is not known"),
        ({"model": "claude-5"}, "'anthropic' has no /v1/embeddings"),
        ({"model": "offline"}, "'offline' has no /v1/embeddings"),
        ({"model": " ", "base_url": "http://x"}, "needs a name"),
        ({"model": "m", "base_url": "x"}, "begins with http"),
        ({"model": "m", "base_url": "http://x", "batch_size": 0}, "batch_size must be >= 1, not 0"),
        (
            {"model": "m", "base_url": "http://x", "timeout": 0},
            "total must be a number of seconds > 0",
        ),
        (
            {"model": "m", "base_url": "http://x", "api_key": "a\nb"},
            "api_key is empty or has characters that no HTTP header may have",
        ),
    ],
)
def test_wrong_arguments_are_said_at_once(wrong: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        HttpEmbedder(wrong.pop("model"), **wrong)
    with pytest.raises(TypeError, match="does not take input"):
        HttpEmbedder("m", base_url="http://x", input="y")


async def test_one_text_is_not_taken_for_many() -> None:
    with pytest.raises(TypeError, match="a list of texts, not one text"):
        await HttpEmbedder("m", base_url="http://x").embed("ferry")
