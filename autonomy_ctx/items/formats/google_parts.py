"""One message at a time as the parts of generateContent."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.google_reply import THOUGHT_SIGNATURE
from autonomy_ctx.items.formats.names import ToolNames, led
from autonomy_ctx.items.formats.sendable import arguments_object, image_note, sent_name
from autonomy_ctx.items.formats.signatures import GOOGLE, signature_of
from autonomy_ctx.items.formats.values import picture_of
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import ImageContent, TextContent, ThinkingContent

# What Google's guide says to send with a call that another model made.
UNSIGNED = "skip_thought_signature_validator"
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+")
_ENDINGS = {"png": "png", "gif": "gif", "webp": "webp", "heic": "heic", "heif": "heif", "bmp": "bmp"}

Part: TypeAlias = dict[str, Any]


def user_parts(message: Message, repairs: list[str]) -> list[Part]:
    """What a user said."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, TextContent) and part.text:
            parts.append({"text": part.text})
        elif isinstance(part, ImageContent):
            parts.append(_image(part, repairs))
    return parts


def model_parts(
    message: Message, names: ToolNames, repairs: list[str], *, unsigned_refused: bool
) -> list[Part]:
    """What a model said and called."""
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ThinkingContent):
            _think(part, parts)
        elif isinstance(part, ImageContent):
            parts.append(_image(part, repairs))
        elif part.text:
            parts.append({"text": part.text})
    for number, call in enumerate(message.tool_calls):
        name = led(sent_name(call.name, names, repairs))
        called = {"id": call.id, "name": name, "args": arguments_object(call, repairs)}
        written: Part = {"functionCall": called}
        signature = _signature(call, repairs)
        if signature is None and unsigned_refused and number == 0:
            repairs.append(f"call {call.id!r} has no thought signature: marked as made elsewhere")
            signature = UNSIGNED
        parts.append(written | {"thoughtSignature": signature} if signature else written)
    return parts


def _think(part: ThinkingContent, parts: list[Part]) -> None:
    """Write a thought down, unless another provider signed it."""
    signature = signature_of(GOOGLE, part.signature)
    if signature is None and part.signature is not None:
        return
    if part.text:
        thought: Part = {"text": part.text, "thought": True}
        parts.append(thought | {"thoughtSignature": signature} if signature else thought)
    elif signature and parts and not parts[-1].keys() & {"thought", "thoughtSignature"}:
        # It came with that part and goes back with it.
        parts[-1]["thoughtSignature"] = signature
    elif signature:
        parts.append({"text": "", "thoughtSignature": signature})


def response(message: Message, name: str, pending: list[Part], repairs: list[str]) -> Part:
    """The result of the call of that name; images, which have no place in it, are added to `pending`."""
    parts = user_parts(message, repairs)
    text = "\n".join(part["text"] for part in parts if "text" in part)
    images = [part for part in parts if "text" not in part]
    if images:
        pending += [{"text": f"The result of call {message.tool_call_id} shows:"}, *images]
    answer = {"error" if message.is_error else "output": text}
    return {"functionResponse": {"id": message.tool_call_id, "name": name, "response": answer}}


def _image(image: ImageContent, repairs: list[str]) -> Part:
    picture = picture_of(image)
    if picture is not None and picture.data:
        return {"inlineData": {"mimeType": picture.media_type, "data": picture.data}}
    if _ADDRESS.fullmatch(image.image):
        ending = image.image.partition("?")[0].rpartition(".")[2].lower()
        # A type must be given; most pictures are JPEG.
        return {"fileData": {"mimeType": f"image/{_ENDINGS.get(ending, 'jpeg')}", "fileUri": image.image}}
    return {"text": image_note(image, "of this kind", repairs)}


def _signature(call: ToolCall, repairs: list[str]) -> str | None:
    signature = call.extra.get(THOUGHT_SIGNATURE)
    if signature is None:
        return None
    if isinstance(signature, str) and _BASE64.fullmatch(signature) and len(signature.rstrip("=")) % 4 != 1:
        return signature
    repairs.append(f"the thought signature of call {call.id!r} is not base64: left out")
    return None
