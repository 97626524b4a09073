"""What Anthropic and Bedrock refuse, as rules that name themselves; written apart from the formats."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from autonomy_ctx.formats.outgoing import encode_request

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID = re.compile(r"[a-zA-Z0-9_-]+")
MEDIA = {"image/png", "image/jpeg", "image/gif", "image/webp"}
SAMPLING = {"temperature", "top_p", "top_k"}


def anthropic_rules(body: Mapping[str, Any]) -> None:
    """Raise AssertionError naming the rule that a body for the Messages API breaks."""
    json_rule(body)
    assert isinstance(body.get("max_tokens"), int), "max_tokens is required"
    assert not SAMPLING & set(body), "no sampling parameters unless they are asked for"
    for block in body.get("system", ()):
        assert block["type"] == "text", "system is text"
        assert block["text"].strip(), "system text is not blank"
    assert "system" not in body or body["system"], "system is left out when empty"
    plain = []
    marks = sum("cache_control" in block for block in body.get("system", ()))
    for message in body["messages"]:
        content = message["content"]
        plain.append((message["role"], [_plain_anthropic(block) for block in content]))
        marks += sum("cache_control" in block for block in content)
        for block in content:
            marked = "cache_control" in block
            assert not (marked and "thinking" in block["type"]), "thinking carries no cache mark"
            assert not any("cache_control" in inner for inner in block.get("content", ())), "no marks inside"
    assert marks <= 4, "at most 4 cache marks"
    turn_rules(plain)
    names = [tool["name"] for tool in body.get("tools", ())]
    tool_rules(names, plain)
    for tool in body.get("tools", ()):
        assert tool["input_schema"]["type"] == "object", "a tool takes an object"


def bedrock_rules(body: Mapping[str, Any]) -> None:
    """Raise AssertionError naming the rule that a body for Converse breaks."""
    json_rule(body)
    system = body.get("system", ())
    assert all("cachePoint" in block or block["text"].strip() for block in system), "system is not blank"
    points = [("cachePoint" in block) for block in system]
    plain = []
    for message in body["messages"]:
        content = message["content"]
        points += [False, *("cachePoint" in block for block in content)]
        real = [block for block in content if "cachePoint" not in block]
        assert all(len(block) == 1 for block in content), "a block is one thing"
        assert "cachePoint" not in content[0], "a cache point follows a block"
        plain.append((message["role"], [_plain_bedrock(block) for block in real]))
    assert sum(points) <= 4, "at most 4 cache points"
    assert not any(first and second for first, second in pairwise(points)), "no two cache points in a row"
    turn_rules(plain)
    specs = [tool["toolSpec"] for tool in body.get("toolConfig", {}).get("tools", ())]
    assert "toolConfig" not in body or specs, "toolConfig has tools"
    tool_rules([spec["name"] for spec in specs], plain)
    for spec in specs:
        assert spec["inputSchema"]["json"]["type"] == "object", "a tool takes an object"
        assert spec.get("description", "x").strip(), "a description is not blank"
    for _, blocks in plain:
        for kind, block in blocks:
            assert kind != "use" or len(block["id"]) <= 64, "an id has at most 64 characters"


def json_rule(body: Any) -> None:
    """The body is JSON that UTF-8 can hold."""
    encode_request(body).encode()


def turn_rules(turns: Sequence[tuple[str, Sequence[tuple[str, Any]]]]) -> None:
    """The rules of alternation, pairing and content that both share."""
    assert turns, "there is at least one message"
    assert turns[0][0] == "user", "a user message comes first"
    used: set[str] = set()
    waiting: list[str] = []
    for number, (role, blocks) in enumerate(turns):
        kinds = [kind for kind, _ in blocks]
        assert role == ("user", "assistant")[number % 2], "roles alternate"
        assert blocks, "a message has content"
        results = [block["id"] for kind, block in blocks if kind == "result"]
        assert sorted(results) == sorted(waiting), "all calls are answered in the next message, and no others"
        assert kinds[: len(results)] == ["result"] * len(results), "results come first"
        waiting = [block["id"] for kind, block in blocks if kind == "use"]
        assert not used.intersection(waiting), "an id is used once"
        assert len(set(waiting)) == len(waiting), "an id is used once"
        used.update(waiting)
        allowed = {"text", "image", "result"} if role == "user" else {"text", "thinking", "use"}
        assert set(kinds) <= allowed, f"a message of the {role} holds {set(kinds) - allowed}"
        assert kinds[-1] != "thinking", "the last block is not thinking"
        for kind, block in blocks:
            _block_rules(kind, block)
    assert not waiting, "every call is answered"
    assert turns[-1][0] == "user", "a user message comes last"


def tool_rules(names: Sequence[str], turns: Sequence[tuple[str, Sequence[tuple[str, Any]]]]) -> None:
    """The rules of names, and that tools are there when the history has calls."""
    assert len(set(names)) == len(names), "tool names are unique"
    assert all(NAME.fullmatch(name) for name in names), "a tool name is plain"
    called = any(kind == "use" for _, blocks in turns for kind, _ in blocks)
    assert names or not called, "tools are defined when the history has calls"


def _block_rules(kind: str, block: Any) -> None:
    match kind:
        case "text":
            assert block.strip(), "text is not blank"
        case "image":
            assert block["media"] in MEDIA, "an image is of a known kind"
            assert base64.b64decode(block["data"], validate=True), "an image is base64"
        case "thinking":
            assert block, "thinking is signed or redacted"
        case "use":
            assert ID.fullmatch(block["id"]), "an id is plain"
            assert NAME.fullmatch(block["name"]), "a called name is plain"
            assert isinstance(block["input"], dict), "arguments are an object"
        case "result":
            assert block["content"], "a result holds something"
            assert not block["error"] or all(kind == "text" for kind, _ in block["content"]), (
                "an error is only text"
            )
            for inner, value in block["content"]:
                assert inner in ("text", "image"), "a result holds text and images"
                _block_rules(inner, value)


def _plain_anthropic(block: Mapping[str, Any]) -> tuple[str, Any]:
    match block["type"]:
        case "text":
            return "text", block["text"]
        case "image":
            source = block["source"]
            if source["type"] == "url":
                assert re.match(r"https?://", source["url"]), "an image's URL is one of the web"
                return "image", {"media": "image/png", "data": "AA=="}
            return "image", {"media": source["media_type"], "data": source["data"]}
        case "document":
            source = block["source"]
            assert (source["type"], source["media_type"]) == ("base64", "application/pdf"), "a PDF"
            return "image", {"media": "image/png", "data": source["data"]}
        case "thinking":
            return "thinking", block["signature"] if isinstance(block["thinking"], str) else None
        case "redacted_thinking":
            return "thinking", block["data"]
        case "tool_use":
            return "use", {name: block[name] for name in ("id", "name", "input")}
        case "tool_result":
            content = [_plain_anthropic(inner) for inner in block["content"]]
            error = block.get("is_error", False)
            return "result", {"id": block["tool_use_id"], "content": content, "error": error}
    raise AssertionError(f"an unknown block {block['type']!r}")


def _plain_bedrock(block: Mapping[str, Any]) -> tuple[str, Any]:
    ((kind, value),) = block.items()
    match kind:
        case "text":
            return "text", value
        case "image":
            return "image", {"media": f"image/{value['format']}", "data": value["source"]["bytes"]}
        case "reasoningContent":
            return "thinking", value.get("redactedContent") or value["reasoningText"]["signature"]
        case "toolUse":
            return "use", {"id": value["toolUseId"], "name": value["name"], "input": value["input"]}
        case "toolResult":
            content = [_plain_bedrock(inner) for inner in value["content"]]
            error = value.get("status") == "error"
            return "result", {"id": value["toolUseId"], "content": content, "error": error}
    raise AssertionError(f"an unknown block {kind!r}")
