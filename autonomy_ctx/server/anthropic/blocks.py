"""Messages of Anthropic's API as messages of memory, and back into the client's own form.

One message of a client may be several of ours: each result of a tool is a message, and so is what the user
says beside them. A `MessageBlocks` says which blocks of which message they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import groupby
from typing import Any, NamedTuple

from autonomy_ctx.engine.framework_context import SourcedMessage
from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.anthropic import read_message
from autonomy_ctx.formats.incoming import as_mapping, as_mappings, as_nonempty_text, as_text
from autonomy_ctx.messages.json_values import EMPTY, thaw
from autonomy_ctx.messages.message import Message, Part, TextContent, parse_list_part
from autonomy_ctx.server.endpoint.client_api import with_extra
from autonomy_ctx.server.endpoint.errors import EndpointError

# Where a stored message has the client's own blocks, when ours could not be made into the same again.
SOURCE = "anthropic_source"
THINKING = ("thinking", "redacted_thinking")
MARK = "cache_control"
# Fields of the blocks that our messages have fields for, too.
_PLAIN_FIELDS = {
    "text": {"type", "text"},
    "image": {"type", "source"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}
_ORDER = {"thinking": 0, "redacted_thinking": 0, "text": 1, "tool_use": 2}
_ROLES = ("user", "assistant", "system")
# What a block cannot do without.
_REQUIRED_FIELDS = {"tool_use": ("id", "name"), "tool_result": ("tool_use_id",)}


class MessageBlocks(NamedTuple):
    """Some blocks of a message of a client: the message, its number in the request, and which blocks."""

    message: Mapping[str, Any]
    # -1 for a message that is not in the request.
    number: int
    first: int
    last: int


def blocks_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The content of a message as blocks."""
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else content or []


def normalize_message(message: Any, number: int) -> dict[str, Any]:
    """A message without cache marks, and a single text as a string; refused if it is none.

    Clients move their marks with each request. Without them, a history that only grew is the same.
    """
    path = f"messages.{number}"
    if not isinstance(message, dict) or message.get("role") not in _ROLES:
        roles = ", ".join(_ROLES)
        raise EndpointError(f"{path}: must be an object whose `role` is one of {roles}", param=path)
    known: dict[str, Any] = message
    content = known.get("content")
    if isinstance(content, str):
        return known
    if not isinstance(content, list):
        raise EndpointError(f"{path}.content: must be a text, or a list of blocks", param=path)
    for at, block in enumerate(content):
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str) or not kind:
            raise EndpointError(f"{path}.content.{at}: must be an object with a `type`", param=path)
        for name in _REQUIRED_FIELDS.get(kind, ()):
            if not as_nonempty_text(block.get(name)):
                raise EndpointError(f"{path}.content.{at}.{name}: must be a text, not empty", param=path)
    if any(MARK in block for block in content):
        content = [{name: block[name] for name in block if name != MARK} for block in content]
        known = {**known, "content": content}
    if len(content) == 1 and content[0]["type"] == "text" and content[0].keys() == _PLAIN_FIELDS["text"]:
        return {**known, "content": content[0]["text"]}
    return known


def read_blocks(message: Mapping[str, Any], number: int = -1) -> list[SourcedMessage]:
    """The messages that a message of a client is."""
    blocks, role = blocks_of(message), message["role"]
    said: list[SourcedMessage] = []
    at = 0
    for is_result, group in groupby(blocks, lambda block: role == "user" and block["type"] == "tool_result"):
        run = list(group)
        for some in [[one] for one in run] if is_result else [run]:
            made = _read_result(some[0]) if is_result else _read_run(message, some)
            said.append(SourcedMessage(made, MessageBlocks(message, number, at, at + len(some))))
            at += len(some)
    return said or [SourcedMessage(_read_run(message, []), MessageBlocks(message, number, 0, 0))]


def read_assistant(blocks: Sequence[Mapping[str, Any]]) -> Message:
    """An answer as a message, however it came: from upstream, or back from a client."""
    made = read_message({"content": [_readable(block) for block in blocks]}).message
    return with_extra(made, EMPTY if _is_plain_answer(blocks) else _own_form("assistant", blocks))


def join_blocks(shown: Iterable[MessageBlocks], own: Mapping[str, Any]) -> dict[str, Any]:
    """One message from some of its parts; `own` is the message as the client wrote it in this request."""
    parts = sorted(shown, key=lambda one: one.first)
    blocks = blocks_of(own)
    if sum(one.last - one.first for one in parts) == len(blocks):
        return dict(own)
    return {**own, "content": [block for one in parts for block in blocks[one.first : one.last]]}


def stored_blocks(message: Message) -> MessageBlocks | None:
    """The client's own blocks that were stored with a message."""
    found = thaw(message.extra.get(SOURCE)) if message.extra else None
    return None if found is None else MessageBlocks(found, -1, 0, len(found["content"]))


def _own_form(
    role: str, blocks: Sequence[Mapping[str, Any]], message: Mapping[str, Any] = EMPTY
) -> dict[str, Any]:
    return {SOURCE: {**message, "role": role, "content": [dict(one) for one in blocks]}}


def _read_run(message: Mapping[str, Any], blocks: Sequence[Mapping[str, Any]]) -> Message:
    """A message of the assistant, the user or the application."""
    role = message["role"]
    if role == "assistant":
        return read_assistant(blocks)
    parts = _read_parts(blocks)
    is_plain = message.keys() <= {"role", "content"} and all(map(_is_plain, blocks))
    if not parts:
        parts = [TextContent(_note(role, message))]
    content = parts[0].text if len(parts) == 1 and isinstance(parts[0], TextContent) else parts
    return Message(role, content, extra=EMPTY if is_plain else _own_form(role, blocks, message))


def _read_result(block: Mapping[str, Any]) -> Message:
    content = block.get("content")
    parts = content if isinstance(content, str) else _read_parts(as_mappings(content))
    inner = as_mappings(content)
    is_plain = _is_plain(block) and all(map(_is_plain, inner))
    return Message(
        "tool",
        parts or "",
        tool_call_id=block["tool_use_id"],
        is_error=block.get("is_error") is True,
        extra=EMPTY if is_plain else _own_form("user", [block]),
    )


def _read_parts(blocks: Sequence[Mapping[str, Any]]) -> list[Part]:
    return [_read_part(block) for block in blocks]


def _read_part(block: Mapping[str, Any]) -> Part:
    try:
        if block.get("type") in ("text", "image"):
            return parse_list_part(dict(block), "content")
    except InvalidMessage:
        # A file of the provider, for example: only the client's own block says which.
        pass
    return TextContent(_readable(block)["text"])


def _readable(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """A block that our messages have a field for, or a text in its place."""
    kind = as_text(block.get("type"))
    if kind in ("text", "tool_use", *THINKING):
        return block
    source = as_mapping(block.get("source"))
    text = as_text(source.get("data")) if source.get("type") == "text" else ""
    if kind == "compaction":
        text = as_text(block.get("content"))
    return {"type": "text", "text": text or _note(kind, block)}


def _note(kind: str, block: Mapping[str, Any]) -> str:
    """A text in place of a block, different for each: the block is sent as long as it is shown as it was."""
    name = as_nonempty_text(block.get("id")) or as_nonempty_text(block.get("tool_use_id"))
    if name is None:
        given = {key: block[key] for key in block if key != MARK}
        name = sha256(json.dumps(given, sort_keys=True).encode()).hexdigest()[:8]
    return f"[{kind} {name}]"


def _is_plain(block: Mapping[str, Any]) -> bool:
    """Tell whether our messages have fields for all that a block has."""
    known = _PLAIN_FIELDS.get(as_text(block.get("type")))
    return known is not None and block.keys() <= known and "file_id" not in as_mapping(block.get("source"))


def _is_plain_answer(blocks: Sequence[Mapping[str, Any]]) -> bool:
    """Tell it of an answer: thinking, then at most one text, then calls."""
    places = [_ORDER.get(as_text(block.get("type")), -1) for block in blocks]
    is_ordered = places == sorted(places) and places.count(1) <= 1
    return is_ordered and all(map(_is_plain, blocks))
