"""The settings of an MCP server, and its tools and results as ours.

A server is not trusted. Names are changed to names that every provider accepts, and images are checked,
because an image that a provider refuses would make every later turn of the conversation fail.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from autonomy_ctx.messages.json_values import EMPTY, encode_json_text
from autonomy_ctx.messages.message import ImageContent
from autonomy_ctx.tools.tool import MAX_NAME_LENGTH

CONNECT_SECONDS = 30.0
# Shorter values may be part of any text; they are no secrets.
MIN_SECRET = 6
_INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]+")
# How the images begin that every provider takes.
_IMAGE_BEGINNINGS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """The way to reach a server. What may be secret is in no text that is made of it."""

    name: str
    command: str = ""
    args: tuple[str, ...] = field(default=(), repr=False)
    env: Mapping[str, str] = field(default=EMPTY, repr=False)
    cwd: str | None = None
    url: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default=EMPTY, repr=False)
    connect_timeout_seconds: float = CONNECT_SECONDS

    def redact(self, text: str) -> str:
        """A text without the values of environment variables, headers and addresses that were given."""
        parts = urlsplit(self.url or "")
        values = {*self.env.values(), *self.headers.values(), parts.username or "", parts.password or ""}
        values |= {value for _, value in parse_qsl(parts.query)}
        # The token after `Bearer`, too.
        values |= {word for value in self.headers.values() for word in value.split()}
        for value in sorted(values, key=len, reverse=True):
            if len(value) >= MIN_SECRET:
                text = text.replace(value, "***")
        return text


def valid_name(text: str) -> str:
    """A text as a name that every provider takes."""
    return _INVALID_CHARACTERS.sub("_", text).strip("_")[:MAX_NAME_LENGTH] or "tool"


def valid_names(names: Iterable[str]) -> dict[str, str]:
    """For each name of a server's tools one that every provider takes, and no two the same.

    A name that is fine stays. Which name another one gets depends on itself and on what the others are,
    never on their order.
    """
    own = list(dict.fromkeys(names))
    counts = Counter(valid_name(name) for name in own)
    found = {}
    for name in own:
        made = valid_name(name)
        if made != name and (counts[made] > 1 or len(name) > MAX_NAME_LENGTH):
            digest = hashlib.sha256(name.encode(errors="replace")).hexdigest()[:8]
            made = f"{made[: MAX_NAME_LENGTH - 9]}_{digest}"
        found[name] = made
    return found


def error_text(result: Any) -> str:
    """The words of a result that is an error."""
    texts = [one.text for one in result.content if one.type == "text" and one.text.strip()]
    if not texts and result.structured_content is not None:
        texts.append(encode_json_text(result.structured_content))
    return "\n".join(texts) or "it failed and did not say why"


def result_value(result: Any) -> str | list[str | ImageContent]:
    """A result as a tool of ours returns it: text, or a list of texts and images.

    A server says in words what its structured content has; that is shown only where there are no words.
    """
    pieces = [_piece(block) for block in result.content]
    if result.structured_content is not None and not any(block.type == "text" for block in result.content):
        pieces.append(encode_json_text(result.structured_content))
    if any(isinstance(piece, ImageContent) for piece in pieces):
        return pieces
    return "\n".join(map(str, pieces)) or "Done; there is nothing to show."


def _piece(block: Any) -> str | ImageContent:
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return _image(block.data, block.mime_type)
        case "audio":
            return f"[Audio of type {block.mime_type} is not shown.]"
        case "resource_link":
            described = f": {block.description}" if block.description else ""
            kind = f" ({block.mime_type})" if block.mime_type else ""
            return f"[Resource {block.name} at {block.uri}{kind}{described}]"
        case "resource":
            resource = block.resource
            if hasattr(resource, "text"):
                return f"[Resource {resource.uri}]\n{resource.text}"
            if (resource.mime_type or "").startswith("image/"):
                return _image(resource.blob, resource.mime_type)
            kind = resource.mime_type or "an unknown type"
            return f"[Resource {resource.uri} has data of {kind}, which is not shown.]"
        case _:
            return f"[Content of type {block.type} is not shown.]"


def _image(data: str, media_type: str) -> str | ImageContent:
    """An image, of the type that its bytes have; a note where no provider could show it."""
    try:
        found = _image_type(b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return f"[An image of type {media_type} is not shown: its data is damaged.]"
    if found is None:
        return f"[An image of type {media_type} is not shown: models take PNG, JPEG, GIF and WebP.]"
    return ImageContent(f"data:{found};base64,{data}")


def _image_type(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for begin, kind in _IMAGE_BEGINNINGS.items() if data.startswith(begin)), None)
