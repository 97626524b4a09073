"""OpenAI's Responses: a conversation as a list of items, without anything kept on the server.

Reasoning comes back encrypted. It is kept with the message and sent again, so that the model can go on
thinking where it stopped; nobody else's thinking is sent, because it would be refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from autonomy_ctx.items.formats.format import ONLY_MESSAGES, Asking, Request
from autonomy_ctx.items.formats.names import ToolNames
from autonomy_ctx.items.formats.openai import picture_url, reasons_here
from autonomy_ctx.items.formats.overflow import too_long
from autonomy_ctx.items.formats.prepared import prepared
from autonomy_ctx.items.formats.reading import entries
from autonomy_ctx.items.formats.reply import ModelReply
from autonomy_ctx.items.formats.responses_reply import REASONING, ResponsesReader, responses_reply
from autonomy_ctx.items.formats.sendable import (
    INSTRUCTING,
    arguments_json,
    error_text,
    image_note,
    left_out,
    nothing_said,
    opening,
    sent_name,
    text_of,
    tool_names,
    tool_specs,
    written,
)
from autonomy_ctx.items.formats.signatures import RESPONSES, signature_of
from autonomy_ctx.items.message import ChatRole, Message, new_id
from autonomy_ctx.items.parts import ImageContent, TextContent, ThinkingContent

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

    def overflow(self, status: int, body: Any) -> tuple[bool, int | None]:
        """Whether an error says that the request was too long, and the window if it names one."""
        return too_long(status, body)


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
