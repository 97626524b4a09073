"""Formats of answers that OpenAI and Claude refuse, and those that they take."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testing.provider_calls import ask_claude, post, user

from autonomy_ctx.testing import ProviderServer

CLOSED: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPEN = {**CLOSED, "additionalProperties": True}
OPTIONAL = {**CLOSED, "required": []}
NESTED = {**CLOSED, "properties": {"city": {"type": "array", "items": OPEN}}}
LIMITED = {**CLOSED, "properties": {"city": {"type": "string", "minLength": 2}}}
UNTYPED = {**CLOSED, "properties": {"city": {"anyOf": [{"type": "null"}, {}]}}}


async def ask_gpt(form: Any, *, path: str) -> dict[str, Any]:
    if path == "/v1/responses":
        body: dict[str, Any] = {"input": "Where?", "text": {"format": form}}
    else:
        inner = form if not isinstance(form, dict) else {name: form[name] for name in form if name != "type"}
        outer = form if not isinstance(form, dict) else {"type": form.get("type"), "json_schema": inner}
        body = {"messages": [{"role": "user", "content": "Where?"}], "response_format": outer}
    return dict((await post(ProviderServer(), path, {"model": "gpt-5", **body})).json())


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/chat/completions"])
@pytest.mark.parametrize(
    ("form", "refusal"),
    [
        ({"type": "json_schema", "name": "city", "schema": CLOSED, "strict": True}, ""),
        ({"type": "json_schema", "name": "city", "schema": OPEN, "strict": False}, ""),
        ({"type": "text"}, ""),
        ({"type": "json"}, ".type"),
        ("json_schema", ".type"),
        ({"type": "json_schema", "schema": CLOSED}, ".name"),
        ({"type": "json_schema", "name": "a city", "schema": CLOSED}, ".name"),
        ({"type": "json_schema", "name": "city"}, ".schema"),
        ({"type": "json_schema", "name": "city", "schema": OPEN, "strict": True}, "additionalProperties"),
        ({"type": "json_schema", "name": "city", "schema": NESTED, "strict": True}, "additionalProperties"),
        ({"type": "json_schema", "name": "city", "schema": OPTIONAL, "strict": True}, "'required'"),
        ({"type": "json_schema", "name": "city", "schema": UNTYPED, "strict": True}, "'type'"),
        ({"type": "json_schema", "name": "city", "schema": {"type": "array"}, "strict": True}, "object"),
    ],
)
async def test_gpt_takes_a_strict_schema_only_if_it_can_keep_it(path: str, form: Any, refusal: str) -> None:
    answer = await ask_gpt(form, path=path)
    assert refusal in (answer.get("error") or {}).get("message", "")
    assert bool(refusal) is ("id" not in answer)


@pytest.mark.parametrize(
    ("form", "refusal"),
    [
        ({"type": "json_schema", "schema": CLOSED}, ""),
        ({"type": "json_schema", "schema": OPTIONAL}, ""),
        ({"type": "json_object"}, "json_schema"),
        ({"type": "json_schema"}, "a schema is required"),
        ({"type": "json_schema", "schema": CLOSED, "name": "city"}, "extra inputs"),
        ({"type": "json_schema", "schema": NESTED}, "additionalProperties"),
        ({"type": "json_schema", "schema": LIMITED}, "'minLength' is not supported"),
    ],
)
async def test_claude_takes_a_schema_only_if_it_can_keep_it(form: Any, refusal: str) -> None:
    answer = await ask_claude(ProviderServer(), [user("Where?")], output_config={"format": form})
    assert refusal in (answer.get("error") or {}).get("message", "")
    assert bool(refusal) is ("id" not in answer)


async def test_an_older_claude_does_not_know_the_field() -> None:
    form = {"type": "json_schema", "schema": CLOSED}
    answer = await ask_claude(
        ProviderServer(), [user("Where?")], model="claude-sonnet-4", output_config={"format": form}
    )
    assert "does not support" in answer["error"]["message"]


@pytest.mark.parametrize("schema", [CLOSED, "{", None])
async def test_bedrock_takes_a_schema_only_as_text(schema: Any) -> None:
    form = {"type": "json_schema", "structure": {"jsonSchema": {"name": "city", "schema": schema}}}
    body = {
        "messages": [{"role": "user", "content": [{"text": "Where?"}]}],
        "outputConfig": {"textFormat": form},
    }
    path = "/model/anthropic.claude-sonnet-5-5/converse"
    answer = await post(ProviderServer(), path, body)
    assert answer.status_code == 400
    assert "no JSON text" in answer.json()["message"]
    form["structure"]["jsonSchema"]["schema"] = json.dumps(CLOSED)  # type: ignore[index]
    assert (await post(ProviderServer(), path, body)).status_code == 200
