"""OpenAI's chat completions, which most other servers speak too: requests out, whole replies back.

Those servers differ in what they take beyond the oldest form, so that form is written wherever it will
do: content as a string, `max_tokens`, no field that only some know.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.format import ONLY_MESSAGES, Asking, Request
from autonomy_ctx.items.formats.names import ToolNames
from autonomy_ctx.items.formats.openai_reply import ChatReader, chat_reply
from autonomy_ctx.items.formats.overflow import too_long
from autonomy_ctx.items.formats.prepared import prepared
from autonomy_ctx.items.formats.reply import ModelReply
from autonomy_ctx.items.formats.sendable import (
    INSTRUCTING,
    arguments_json,
    closing,
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
from autonomy_ctx.items.formats.values import picture_of
from autonomy_ctx.items.message import ChatRole, Message, new_id
from autonomy_ctx.items.parts import ImageContent, TextContent

LONGEST_ID = 40
# What Google's server in these words attaches to a call, a thought signature, and wants back.
ATTACHED = "extra_content"
_REASONING = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d)|codex)(?!\d)")
# Models that refuse to go on from an answer of their own, also behind a server of these words.
_USER_LAST = re.compile(r"claude|gemini|nova-|(?:mis|minis|mix|codes|devs|magis|pix)tral")
_SPEAKER = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAIFormat:
    """Chat completions. `reasoning_model` None means: as the model's name says."""

    name = "openai"

    def __init__(self, *, reasoning_model: bool | None = None, new_id: Callable[[], str] = new_id) -> None:
        self.reasoning_model = reasoning_model
        self._new_id = new_id

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that every server of these words takes; it caches prefixes by itself."""
        options = dict(asked.options)
        reasons = reasons_here(model, options, self.reasoning_model)
        repairs: list[str] = []
        names = tool_names(asked.tools)
        body: dict[str, Any] = {
            "model": model,
            "messages": openai_messages(
                messages,
                repairs,
                names=names,
                reasoning_model=reasons,
                attached="gemini" in model.lower(),
                closed=bool(_USER_LAST.search(model.lower())),
                answered=asked.answered,
            ),
        }
        if asked.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": spec.name,
                        "description": spec.description,
                        "parameters": spec.parameters,
                    },
                }
                for spec in tool_specs(asked.tools, names, repairs)
            ]
        if asked.max_tokens is not None:
            body["max_completion_tokens" if reasons else "max_tokens"] = asked.max_tokens
        if asked.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return written("/chat/completions", body | options, repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""
        return chat_reply(body, self._new_id)

    def reader(self) -> ChatReader:
        """For a streamed response."""
        return ChatReader(self._new_id)

    def overflow(self, status: int, body: Any) -> tuple[bool, int | None]:
        """Whether an error says that the request was too long, and the window if it names one."""
        return too_long(status, body)


def is_reasoning(model: str) -> bool:
    """Whether the name is that of a model of OpenAI's that thinks before it answers."""
    return bool(_REASONING.match(model.lower()))


def reasons_here(model: str, options: dict[str, Any], usual: bool | None) -> bool:
    """Whether a model thinks before it answers; `reasoning_model` is taken out of the options."""
    asked = options.pop("reasoning_model", None)
    given = usual if asked is None else asked
    return is_reasoning(model) if given is None else bool(given)


def openai_messages(
    messages: Sequence[Message],
    repairs: list[str],
    *,
    names: ToolNames | None = None,
    reasoning_model: bool = False,
    attached: bool = False,
    closed: bool = False,
    answered: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Messages as chat completions take them; `repairs` gets what was mended."""
    ready = prepared(messages, answered=answered, longest_id=LONGEST_ID)
    repairs += ready.repairs
    names = names or ToolNames(())
    out: list[dict[str, Any]] = []
    # Images of results: a tool's message holds text only, so a user's after all results shows them.
    pending: list[dict[str, Any]] = []
    for message in ready.messages:
        if message.role is ChatRole.TOOL:
            out.append(_result(message, pending, repairs))
            continue
        _show(pending, out)
        if message.role is ChatRole.USER:
            out.append(_user(message, repairs))
        elif message.role is ChatRole.ASSISTANT:
            text = text_of(message, repairs)
            calls = [_call(call, names, repairs, attached=attached) for call in message.tool_calls]
            if calls:
                out.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            elif text:
                out.append({"role": "assistant", "content": text})
            else:
                left_out(message, repairs)
        elif message.role in INSTRUCTING:
            text = text_of(message, repairs)
            if text:
                out.append({"role": "developer" if reasoning_model else "system", "content": text})
            else:
                left_out(message, repairs)
    _show(pending, out)
    if closed and out and out[-1]["role"] == "assistant":
        out.append({"role": "user", "content": closing(repairs)})
    return out or [{"role": "user", "content": opening(repairs)}]


def _user(message: Message, repairs: list[str]) -> dict[str, Any]:
    parts = _parts(message, repairs)
    content: Any = parts
    if all(part["type"] == "text" for part in parts):
        content = "\n".join(part["text"] for part in parts) or nothing_said(message, repairs)
    said = {"role": "user", "content": content}
    # Other spellings of a name are refused, and a speaker's name is not worth a refusal.
    return said | {"name": message.name} if message.name and _SPEAKER.fullmatch(message.name) else said


def _result(message: Message, pending: list[dict[str, Any]], repairs: list[str]) -> dict[str, Any]:
    parts = _parts(message, repairs)
    images = [part for part in parts if part["type"] == "image_url"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if images:
        repairs.append(f"an image in the result of call {message.tool_call_id!r} is shown after it")
        pending.append({"type": "text", "text": f"The result of call {message.tool_call_id} shows:"})
        pending += images
        text = text or "(an image, shown below)"
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": error_text(message, text)}


def _show(pending: list[dict[str, Any]], out: list[dict[str, Any]]) -> None:
    if pending:
        out.append({"role": "user", "content": list(pending)})
        pending.clear()


def _parts(message: Message, repairs: list[str]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextContent) and part.text:
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ImageContent):
            url = picture_url(part)
            if url:
                shown = {"url": url, "detail": part.inference_detail}
                parts.append({"type": "image_url", "image_url": shown})
            else:
                parts.append({"type": "text", "text": image_note(part, "of this kind", repairs)})
    return parts


def picture_url(image: ImageContent) -> str | None:
    """An image as a URL of the web or a `data:` URL; None when it is neither."""
    picture = picture_of(image)
    if picture is None:
        return None
    return picture.url or f"data:{picture.media_type};base64,{picture.data}"


def _call(call: ToolCall, names: ToolNames, repairs: list[str], *, attached: bool) -> dict[str, Any]:
    sent = {
        "id": call.id,
        "type": "function",
        "function": {
            "name": sent_name(call.name, names, repairs),
            "arguments": arguments_json(call, repairs),
        },
    }
    return sent | {ATTACHED: call.extra[ATTACHED]} if attached and call.extra.get(ATTACHED) else sent
