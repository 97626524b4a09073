"""Replies of Responses, whole or in pieces: a list of items either way."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from autonomy_ctx.items.formats.base import (
    ONLY_MESSAGES,
    RESPONSES,
    Asking,
    CallStarted,
    ModelReply,
    Request,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    signature_of,
    signed,
)
from autonomy_ctx.items.formats.incoming import (
    Pieces,
    broken_off,
    count,
    entries,
    failure,
    fields,
    text,
    word,
)
from autonomy_ctx.items.formats.openai import picture_url, reasons_here
from autonomy_ctx.items.formats.outgoing import (
    INSTRUCTING,
    ToolNames,
    arguments_json,
    error_text,
    image_note,
    left_out,
    nothing_said,
    opening,
    prepared,
    sent_name,
    text_of,
    tool_names,
    tool_specs,
    written,
)
from autonomy_ctx.items.json_values import EMPTY
from autonomy_ctx.items.message import (
    ChatRole,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    new_id,
)

# Under this name a call keeps the reasoning that came between it and the call before.
REASONING = "reasoning_items"
_INCOMPLETE = {"max_output_tokens": "length", "content_filter": "refused"}
_OVER = ("response.completed", "response.incomplete", "response.failed")


def responses_reply(body: Mapping[str, Any], new_id: Callable[[], str]) -> ModelReply:
    """What a whole response says."""
    pieces = Pieces()
    calls: list[ToolCall] = []
    between: list[Mapping[str, Any]] = []
    refused = False
    for item in entries(body.get("output")):
        match item.get("type"):
            case "message":
                for part in entries(item.get("content")):
                    refused = refused or part.get("type") == "refusal"
                    pieces.add_text(text(part.get("text")) or text(part.get("refusal")))
            case "reasoning" if not calls:
                pieces.add_thought(_thought(item), _signature(item))
            case "reasoning":
                between += [_bare(item)] if _signature(item) else []
            case "function_call":
                call_id = word(item.get("call_id")) or word(item.get("id")) or new_id()
                extra = {REASONING: [dict(kept) for kept in between]} if between else EMPTY
                calls.append(ToolCall(call_id, text(item.get("name")), text(item.get("arguments")), extra))
                between = []
    return ModelReply(
        parts=pieces.parts,
        tool_calls=tuple(calls),
        stop=_stop(body, called=bool(calls), refused=refused),
        usage=_usage(fields(body.get("usage"))),
        model=word(body.get("model")),
        id=word(body.get("id")),
    )


class ResponsesReader:
    """Builds the list of items as it comes; the last event has all of it, if it ever arrives."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """What one event says; an error in the middle of a stream is raised."""
        kind = text(data.get("type")) or event or ""
        if kind == "error" or (not data.get("type") and data.get("error")):
            raise broken_off(data.get("error") or data)
        if kind in ("response.created", "response.in_progress", *_OVER):
            self._response = dict(fields(data.get("response")))
        if kind == "response.failed":
            raise broken_off(self._response.get("error"))
        at = count(data.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = dict(fields(data.get("item")))
            fresh = at not in self._items
            self._items[at] = item
            if fresh and item.get("type") == "function_call":
                return [CallStarted(word(item.get("call_id")), text(item.get("name")))]
            return []
        return self._delta(kind, at, data)

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        # Some servers leave the output of the last event empty.
        output = self._response.get("output") or [self._items[at] for at in sorted(self._items)]
        return responses_reply({**self._response, "output": output}, self._new_id)

    def _delta(self, kind: str, at: int, data: Mapping[str, Any]) -> list[StreamEvent]:
        piece = text(data.get("delta"))
        match kind:
            case "response.output_text.delta":
                self._grow(at, "message", "content", data.get("content_index"), "output_text", piece)
                return [TextDelta(piece)] if piece else []
            case "response.refusal.delta":
                self._grow(at, "message", "content", data.get("content_index"), "refusal", piece)
                return [TextDelta(piece)] if piece else []
            case "response.reasoning_summary_text.delta":
                self._grow(at, "reasoning", "summary", data.get("summary_index"), "summary_text", piece)
                return [ThinkingDelta(piece)] if piece else []
            case "response.reasoning_text.delta":
                self._grow(at, "reasoning", "content", data.get("content_index"), "reasoning_text", piece)
                return [ThinkingDelta(piece)] if piece else []
            case "response.function_call_arguments.delta":
                item = self._items.setdefault(at, {"type": "function_call"})
                item["arguments"] = text(item.get("arguments")) + piece
            case "response.function_call_arguments.done":
                self._items.setdefault(at, {"type": "function_call"})["arguments"] = text(
                    data.get("arguments")
                )
        return []

    def _grow(self, at: int, kind: str, key: str, index: Any, part: str, piece: str) -> None:
        """Add a piece to the part of an item that it belongs to."""
        item = self._items.setdefault(at, {"type": kind})
        parts = item[key] = entries(item.get(key))
        number = min(count(index), len(parts))
        if number == len(parts):
            parts.append({})
        field = "refusal" if part == "refusal" else "text"
        grown = text(parts[number].get(field)) + piece
        parts[number] = {**parts[number], "type": part, field: grown}


def _thought(item: Mapping[str, Any]) -> str:
    told = entries(item.get("summary")) or entries(item.get("content"))
    return "\n\n".join(text(part.get("text")) for part in told)


def _signature(item: Mapping[str, Any]) -> str | None:
    """What is needed to send a reasoning item back; without encrypted content nothing can."""
    encrypted, name = word(item.get("encrypted_content")), word(item.get("id"))
    if not encrypted or not name:
        return None
    return signed(RESPONSES, json.dumps({"id": name, "encrypted_content": encrypted}))


def _bare(item: Mapping[str, Any]) -> dict[str, Any]:
    summary = [
        {"type": "summary_text", "text": text(part.get("text"))} for part in entries(item.get("summary"))
    ]
    return {
        "type": "reasoning",
        "id": item["id"],
        "encrypted_content": item["encrypted_content"],
        "summary": summary,
    }


def _stop(body: Mapping[str, Any], *, called: bool, refused: bool) -> str | None:
    match body.get("status"):
        case "completed":
            return "tools" if called else "refused" if refused else "end"
        case "incomplete":
            reason = text(fields(body.get("incomplete_details")).get("reason"))
            return _INCOMPLETE.get(reason, reason or "incomplete")
        case "failed" | "cancelled" as status:
            return failure(body) or str(status)
    return failure(body)


def _usage(usage: Mapping[str, Any]) -> Usage:
    read = fields(usage.get("input_tokens_details"))
    return Usage(
        input_tokens=count(usage.get("input_tokens")),
        cached_tokens=count(read.get("cached_tokens")),
        cache_write_tokens=count(read.get("cache_write_tokens")),
        output_tokens=count(usage.get("output_tokens")),
    )


FEWEST_TOKENS = 16
ENCRYPTED = "reasoning.encrypted_content"


class ResponsesFormat:
    """Responses. `reasoning_model` None means: as the model's name says."""

    name = "responses"

    def __init__(self, *, reasoning_model: bool | None = None, new_id: Callable[[], str] = new_id) -> None:
        self.reasoning_model = reasoning_model
        self._new_id = new_id

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that carries the whole conversation; the server caches prefixes by itself."""
        options = dict(asked.options)
        reasons = reasons_here(model, options, self.reasoning_model)
        repairs: list[str] = []
        names = tool_names(asked.tools)
        items = responses_input(
            messages, repairs, names=names, reasoning_model=reasons, answered=asked.answered
        )
        body: dict[str, Any] = {"model": model, "input": items, "store": False}
        if reasons:
            # Other models refuse to be asked for it.
            body["include"] = [ENCRYPTED]
        if asked.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": spec.name,
                    "description": spec.description,
                    "parameters": spec.parameters,
                    # Strict is the default here, and not every schema is fit for it.
                    "strict": False,
                }
                for spec in tool_specs(asked.tools, names, repairs)
            ]
        if (most := asked.max_tokens) is not None:
            if most < FEWEST_TOKENS:
                repairs.append(f"`max_tokens` {most} is sent as {FEWEST_TOKENS}, the least there is")
            body["max_output_tokens"] = max(most, FEWEST_TOKENS)
        if asked.stream:
            body["stream"] = True
        return written("/responses", body | options, repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""
        return responses_reply(body, self._new_id)

    def reader(self) -> ResponsesReader:
        """For a streamed response."""
        return ResponsesReader(self._new_id)


def responses_input(
    messages: Sequence[Message],
    repairs: list[str],
    *,
    names: ToolNames | None = None,
    reasoning_model: bool = False,
    answered: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Messages as input items; `repairs` gets what was mended."""
    ready = prepared(messages, answered=answered)
    repairs += ready.repairs
    names = names or ToolNames(())
    items: list[dict[str, Any]] = []
    for message in ready.messages:
        before = len(items)
        if message.role is ChatRole.TOOL:
            items.append(_output(message, repairs))
        elif message.role is ChatRole.USER:
            content = _content(message, repairs) or nothing_said(message, repairs)
            items.append({"type": "message", "role": "user", "content": content})
        elif message.role in INSTRUCTING:
            text = text_of(message, repairs)
            role = "developer" if reasoning_model else "system"
            items += [{"type": "message", "role": role, "content": text}] if text else []
        else:
            items += _answer(message, names, repairs)
        if len(items) == before:
            left_out(message, repairs)
    items = _followed(items, repairs)
    return items or [{"type": "message", "role": "user", "content": opening(repairs)}]


def _answer(message: Message, names: ToolNames, repairs: list[str]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    texts: list[str] = []

    def say() -> None:
        if texts:
            items.append({"type": "message", "role": "assistant", "content": "\n".join(texts)})
            texts.clear()

    for part in message.parts:
        if isinstance(part, ThinkingContent):
            reasoning = _reasoning(part)
            if reasoning:
                say()
                items.append(reasoning)
        elif isinstance(part, ImageContent):
            texts.append(image_note(part, "in a message of the assistant", repairs))
        elif part.text:
            texts.append(part.text)
    say()
    for call in message.tool_calls:
        kept = entries(call.extra.get(REASONING))
        items += [dict(item) for item in kept if item.get("type") == "reasoning"]
        items.append(
            {
                "type": "function_call",
                "call_id": call.id,
                "name": sent_name(call.name, names, repairs),
                "arguments": arguments_json(call, repairs),
            }
        )
    return items


def _reasoning(part: ThinkingContent) -> dict[str, Any] | None:
    """The reasoning item that a thought was, if it was one and its encrypted content is there."""
    signature = signature_of(RESPONSES, part.signature)
    if signature is None:
        return None
    try:
        kept = json.loads(signature)
        item = {"type": "reasoning", "id": kept["id"], "encrypted_content": kept["encrypted_content"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return item | {"summary": [{"type": "summary_text", "text": part.text}] if part.text else []}


def _followed(items: list[dict[str, Any]], repairs: list[str]) -> list[dict[str, Any]]:
    """The items without reasoning that no answer or call comes after: alone it is refused."""
    kept: list[dict[str, Any]] = []
    leads = False
    for item in reversed(items):
        if item["type"] != "reasoning":
            leads = item["type"] == "function_call" or item.get("role") == "assistant"
        elif not leads:
            repairs.append("thinking that no answer follows: left out")
            continue
        kept.append(item)
    return kept[::-1]


def _output(message: Message, repairs: list[str]) -> dict[str, Any]:
    output = _content(message, repairs)
    if isinstance(output, str):
        output = error_text(message, output)
    elif message.is_error:
        output = [{"type": "input_text", "text": "Error:"}, *output]
    return {"type": "function_call_output", "call_id": message.tool_call_id, "output": output}


def _content(message: Message, repairs: list[str]) -> str | list[dict[str, Any]]:
    """What a user or a tool said: a string where there are no images."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextContent) and part.text:
            parts.append({"type": "input_text", "text": part.text})
        elif isinstance(part, ImageContent):
            url = picture_url(part)
            if url:
                parts.append({"type": "input_image", "image_url": url, "detail": part.inference_detail})
            else:
                parts.append({"type": "input_text", "text": image_note(part, "of this kind", repairs)})
    if all(part["type"] == "input_text" for part in parts):
        return "\n".join(part["text"] for part in parts)
    return parts
