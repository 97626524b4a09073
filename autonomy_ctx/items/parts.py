"""What a message can contain besides plain text: text parts, images, thinking.

Content may be written as a string, as one part (`{"text": ..., "type": "text"}`) or as a list of
parts. The parser accepts the spellings of the usual providers and says what is wrong otherwise.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.frozen import shown


@dataclass(frozen=True, slots=True)
class TextContent:
    """A piece of text."""

    text: str
    type: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidMessage("text", f"must be a string, not {type(self.text).__name__}")


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image, as a URL or as a `data:` URL that carries its bytes."""

    image: str
    inference_detail: Literal["auto", "low", "high"] = "auto"
    type: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if not isinstance(self.image, str) or not self.image:
            raise InvalidMessage(
                "image", "must be a URL or a `data:` URL; use ImageContent.from_bytes for bytes"
            )
        _detail({"inference_detail": self.inference_detail}, "inference_detail", "image")

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "image/png") -> ImageContent:
        """An image held in the message itself."""
        return cls(f"data:{media_type};base64,{base64.b64encode(data).decode()}")


@dataclass(frozen=True, slots=True)
class ThinkingContent:
    """What a model thought before it answered, with the signature its provider wants back."""

    text: str
    signature: str | None = None
    redacted: str | None = None
    type: ClassVar[str] = "thinking"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise InvalidMessage("thinking", f"must be a string, not {type(self.text).__name__}")
        for name in ("signature", "redacted"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidMessage(name, f"must be a string, not {type(value).__name__}")
        if self.redacted is not None and (self.text or self.signature is not None):
            raise InvalidMessage("redacted", "stands alone: a redacted block has no text and no signature")


Part: TypeAlias = TextContent | ImageContent | ThinkingContent
Content: TypeAlias = str | Part | tuple[Part, ...] | None

PART_TYPES = (TextContent, ImageContent, ThinkingContent)
_TEXT_TYPES = ("text", "input_text", "output_text", None)


def parse_content(value: Any, path: str = "content") -> Content:
    """Content from any of its spellings."""
    if value is None or type(value) is str:
        return value
    if type(value) is dict and value.get("type") == "text" and type(value.get("text")) is str:
        return TextContent(value["text"])
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, PART_TYPES):
        return value
    if isinstance(value, dict):
        return _parse_part(value, path)
    if isinstance(value, list | tuple):
        return tuple(_parse_listed(part, f"{path}[{index}]") for index, part in enumerate(value))
    raise InvalidMessage(path, f"must be text, a part or a list of parts, not {type(value).__name__}")


def content_to_json(content: Content) -> Any:
    """Content as JSON, in the spelling it was given in: string, one part or list."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, tuple):
        return [_part_to_json(part) for part in content]
    return _part_to_json(content)


def content_text(content: Content) -> str:
    """The text a reader would see: no images, no thinking."""
    if isinstance(content, str):
        return content
    if isinstance(content, TextContent):
        return content.text
    if isinstance(content, tuple):
        return "\n".join(part.text for part in content if isinstance(part, TextContent))
    return ""


def content_parts(content: Content) -> tuple[Part, ...]:
    """Content as parts, whatever its spelling."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextContent(content),)
    return content if isinstance(content, tuple) else (content,)


def _parse_listed(value: Any, path: str) -> Part:
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, PART_TYPES):
        return value
    if isinstance(value, dict):
        return _parse_part(value, path)
    raise InvalidMessage(path, f"must be a part with a `type`, not {type(value).__name__}")


def _parse_part(value: dict[str, Any], path: str) -> Part:
    kind = value.get("type")
    if kind in _TEXT_TYPES and "text" in value:
        return TextContent(_string(value, "text", path))
    match kind:
        case "image_url":
            return _image_url(value, path)
        case "image":
            return _image(value, path)
        case "thinking":
            text = _string(value, "text" if "text" in value else "thinking", path)
            return ThinkingContent(text, signature=_optional(value, "signature", path))
        case "redacted_thinking":
            return ThinkingContent("", redacted=_string(value, "data", path))
        case "text" | "input_text" | "output_text":
            raise InvalidMessage(f"{path}.text", "is missing from a text part")
    raise InvalidMessage(
        f"{path}.type", f"is {shown(kind)}; known are text, image, image_url, thinking and redacted_thinking"
    )


def _image_url(value: dict[str, Any], path: str) -> ImageContent:
    inner = value.get("image_url")
    if isinstance(inner, str):
        return ImageContent(inner)
    if not isinstance(inner, dict):
        raise InvalidMessage(f"{path}.image_url", "must be a URL or a dict with a `url`")
    return ImageContent(
        _string(inner, "url", f"{path}.image_url"), _detail(inner, "detail", f"{path}.image_url")
    )


def _image(value: dict[str, Any], path: str) -> ImageContent:
    source = value.get("source")
    if not isinstance(source, dict):
        return ImageContent(_string(value, "image", path), _detail(value, "inference_detail", path))
    if source.get("type") == "base64":
        media, data = (
            _string(source, "media_type", f"{path}.source"),
            _string(source, "data", f"{path}.source"),
        )
        return ImageContent(f"data:{media};base64,{data}")
    return ImageContent(_string(source, "url", f"{path}.source"))


def _part_to_json(part: Part) -> dict[str, Any]:
    match part:
        case TextContent(text=text):
            return {"text": text, "type": "text"}
        case ImageContent(image=image, inference_detail=detail):
            return {"type": "image", "image": image, "inference_detail": detail}
        case ThinkingContent(text=text, signature=signature, redacted=None):
            return {"type": "thinking", "thinking": text} | (
                {} if signature is None else {"signature": signature}
            )
        case ThinkingContent(redacted=redacted):
            return {"type": "redacted_thinking", "data": redacted}


def _string(value: dict[str, Any], key: str, path: str) -> str:
    found = value.get(key)
    if not isinstance(found, str):
        problem = "is missing" if found is None else f"must be a string, not {type(found).__name__}"
        raise InvalidMessage(f"{path}.{key}", problem)
    return found


def _optional(value: dict[str, Any], key: str, path: str) -> str | None:
    return None if value.get(key) is None else _string(value, key, path)


def _detail(value: dict[str, Any], key: str, path: str) -> Literal["auto", "low", "high"]:
    match value.get(key, "auto"):
        case "auto":
            return "auto"
        case "low":
            return "low"
        case "high":
            return "high"
    raise InvalidMessage(f"{path}.{key}", "must be auto, low or high")
