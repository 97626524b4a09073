"""Bedrock's Converse API, translated from and to the words of the Messages API, and its event stream."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import Any

from autonomy_ctx.formats.bedrock import to_converse
from autonomy_ctx.testing.providers.state import Blocks, Body, ProviderRefusal


def from_converse(path: str, body: Mapping[str, Any]) -> Body:
    """A request of the Converse API in the words of the Messages API."""
    fields = body.get("additionalModelRequestFields") or {}
    tools = [
        _converse_tool(one) for one in _with_cache_points((body.get("toolConfig") or {}).get("tools") or [])
    ]
    return {
        "model": path.split("/")[2],
        "system": [
            {"type": "text", "text": one["text"]} | _mark_of(one)
            for one in _with_cache_points(body.get("system") or [])
        ],
        "messages": [
            {"role": one["role"], "content": _converse_blocks(one["content"])}
            for one in body.get("messages", ())
        ],
        **({"tools": tools} if tools else {}),
        **_output_config(body),
        **fields,
    }


def _output_config(body: Mapping[str, Any]) -> Body:
    """The format of the answer; its schema is JSON as text here."""
    form = (body.get("outputConfig") or {}).get("textFormat")
    if form is None:
        return {}
    try:
        schema = json.loads(form["structure"]["jsonSchema"]["schema"])
    except (KeyError, TypeError, ValueError):
        raise ProviderRefusal("outputConfig.textFormat.structure.jsonSchema.schema is no JSON text") from None
    return {"output_config": {"format": {"type": form.get("type"), "schema": schema}}}


def _with_cache_points(blocks: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Blocks with the cache points that stand after them."""
    for at, block in enumerate(blocks):
        if "cachePoint" not in block:
            following = blocks[at + 1] if at + 1 < len(blocks) else {}
            point = following.get("cachePoint")
            yield dict(block) if point is None else {**block, "cachePoint": point}


def _mark_of(block: Mapping[str, Any]) -> dict[str, Any]:
    point = block.get("cachePoint")
    life = {"ttl": point["ttl"]} if point and "ttl" in point else {}
    return {} if point is None else {"cache_control": {"type": "ephemeral", **life}}


def _converse_tool(tool: Mapping[str, Any]) -> Body:
    spec = tool["toolSpec"]
    described = {"description": spec["description"]} if "description" in spec else {}
    return {"name": spec["name"], **described, "input_schema": spec["inputSchema"]["json"], **_mark_of(tool)}


def _converse_blocks(content: Sequence[Mapping[str, Any]]) -> Blocks:
    found: Blocks = []
    for block in _with_cache_points(content):
        match block:
            case {"text": text}:
                made: Body = {"type": "text", "text": text}
            case {"image": image}:
                made = {"type": "image", "source": image["source"], "format": image["format"]}
            case {"json": value}:
                made = {"type": "text", "text": json.dumps(value)}
            case {"toolUse": use}:
                made = {
                    "type": "tool_use",
                    "id": use["toolUseId"],
                    "name": use["name"],
                    "input": use["input"],
                }
            case {"toolResult": result}:
                made = {
                    "type": "tool_result",
                    "tool_use_id": result["toolUseId"],
                    "content": _converse_blocks(result["content"]),
                    **({"is_error": True} if result.get("status") == "error" else {}),
                }
            case {"reasoningContent": {"reasoningText": thought}}:
                made = {
                    "type": "thinking",
                    "thinking": thought.get("text", ""),
                    "signature": thought.get("signature", ""),
                }
            case {"reasoningContent": {"redactedContent": data}}:
                made = {"type": "redacted_thinking", "data": data}
            case _:
                raise ProviderRefusal(f"a block with {', '.join(block)} is not known")
        found.append(made | _mark_of(block))
    return found


def write_converse(reply: Mapping[str, Any]) -> Body:
    """A reply of the Messages API in the words of the Converse API."""
    usage = reply["usage"]
    return {
        "output": {"message": {"role": "assistant", "content": to_converse(reply["content"])}},
        "stopReason": reply["stop_reason"],
        "usage": {
            "inputTokens": usage["input_tokens"],
            "outputTokens": usage["output_tokens"],
            "cacheReadInputTokens": usage["cache_read_input_tokens"],
            "cacheWriteInputTokens": usage["cache_creation_input_tokens"],
            "cacheDetails": [
                {"ttl": ttl, "inputTokens": usage["cache_creation"][f"ephemeral_{ttl}_input_tokens"]}
                for ttl in ("5m", "1h")
            ],
        },
    }


def make_frames(reply: Mapping[str, Any]) -> Iterator[bytes]:
    """A reply as the frames of ConverseStream."""
    whole = write_converse(reply)
    yield _frame("messageStart", {"role": "assistant"})
    for index, block in enumerate(whole["output"]["message"]["content"]):
        deltas: list[MutableMapping[str, Any]] = []
        if "toolUse" in block:
            use = dict(block["toolUse"])
            given = json.dumps(use.pop("input"))
            yield _frame("contentBlockStart", {"contentBlockIndex": index, "start": {"toolUse": use}})
            deltas = [{"toolUse": {"input": given}}]
        elif thought := block.get("reasoningContent", {}).get("reasoningText"):
            deltas = [
                {"reasoningContent": {name: thought[name]}} for name in ("text", "signature") if thought[name]
            ]
        else:
            deltas = [block]
        for delta in deltas:
            yield _frame("contentBlockDelta", {"contentBlockIndex": index, "delta": delta})
        yield _frame("contentBlockStop", {"contentBlockIndex": index})
    yield _frame("messageStop", {"stopReason": whole["stopReason"]})
    yield _frame("metadata", {"usage": whole["usage"]})


def _frame(name: str, data: Any) -> bytes:
    """One event of Amazon's event stream, with its checksums."""
    headers = b""
    for key, value in ((":event-type", name), (":message-type", "event")):
        headers += bytes([len(key)]) + key.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    payload = json.dumps(data).encode()
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))
