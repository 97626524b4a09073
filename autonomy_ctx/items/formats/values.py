"""Values that a JSON request may carry: whole characters, whole objects, images of a known kind."""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.frozen import checked
from autonomy_ctx.items.parts import ImageContent, Part, TextContent

RAW = "_raw"
MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:([\w.+/-]+)(?:;[\w=.-]+)*;base64,", re.IGNORECASE)
_WEB_URL = re.compile(r"https?://\S+", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image that a provider takes: its kind and bytes as base64, or a URL of the web."""

    media_type: str = ""
    data: str = ""
    url: str = ""


def well_formed(text: str) -> str:
    """The text without lone halves of characters, which UTF-8 cannot hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_json(value: Any) -> Any:
    """A copy of a JSON value with well-formed text everywhere."""
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, Mapping):
        return {well_formed(key): well_formed_json(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [well_formed_json(inner) for inner in value]
    return value


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """The arguments of a call as a JSON object; None when they are something else."""
    try:
        # Checked too: JSON text can hold NaN, numbers beyond a float, and nesting without end.
        arguments: dict[str, Any] = well_formed_json(checked(call.parsed_arguments(), "arguments"))
    except (InvalidMessage, RecursionError):
        return None
    return arguments


def arguments_text(value: Any) -> str:
    """What a provider gave as a call's arguments, as JSON text; text that is no JSON stays as it came."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            return str(value)
    return json.dumps({} if value is None else value, ensure_ascii=False)


def picture_of(image: ImageContent) -> Picture | None:
    """The image as a provider takes it; None when it is of no kind that any takes."""
    if _WEB_URL.fullmatch(image.image):
        return Picture(url=well_formed(image.image))
    head = _DATA_URL.match(image.image)
    if head is None:
        return None
    media_type = head[1].lower().replace("image/jpg", "image/jpeg")
    data = "".join(image.image[head.end() :].split())
    if media_type not in MEDIA_TYPES or not is_base64(data):
        return None
    return Picture(media_type=media_type, data=data)


def is_base64(data: str) -> bool:
    """Whether it is bytes in base64, and not none."""
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


def joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    """The parts with neighbouring texts put together: where a provider splits them means nothing."""
    out: list[Part] = []
    for part in parts:
        if isinstance(part, TextContent):
            last = out[-1] if out else None
            if not part.text:
                continue
            if isinstance(last, TextContent):
                out[-1] = TextContent(last.text + part.text)
                continue
        out.append(part)
    return tuple(out)
