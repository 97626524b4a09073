"""Images as large as a model reads them: what is larger is made smaller once, before it is stored and sent.

A provider shrinks a large image before its model sees it, but every request carries all of its bytes again.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import replace
from importlib.util import find_spec
from io import BytesIO
from typing import Any, Literal, TypeAlias

import anyio.to_thread

from autonomy_ctx.formats.model_info import model_name
from autonomy_ctx.messages.message import ImageContent, Message
from autonomy_ctx.validation import check_int

ImageSide: TypeAlias = int | Literal["auto"] | None
# The longest side in pixels that models of a vendor read, by a part of their names, and of others.
SIDES = {"claude": 1568, "gpt": 2048, "gemini": 3072}
OTHER_SIDE = 2048
# Others may be animated.
_FORMATS = ("PNG", "JPEG", "WEBP")
_JPEG_QUALITY = 85


def read_image_side(value: ImageSide, model: Any) -> int | None:
    """The longest side of images for a model, checked; None if images stay as they are."""
    if value is None:
        return None
    if value != "auto":
        check_int("max_image_side", value)
    if find_spec("PIL") is None:
        raise ImportError("max_image_side needs Pillow: pip install 'autonomy-ctx[images]'")
    if value != "auto":
        return value
    name = model if isinstance(model, str) else model_name(model) or ""
    return next((side for part, side in SIDES.items() if part in name), OTHER_SIDE)


async def shrink_images(message: Message, side: int | None) -> Message:
    """The message with its images no larger than that; those given by URL stay as they are."""
    if side is None or isinstance(message.content, str | None):
        return message
    if not any(isinstance(part, ImageContent) for part in message.parts):
        return message
    return await anyio.to_thread.run_sync(_shrink_all, message, side)


def _shrink_all(message: Message, side: int) -> Message:
    parts = [_shrink(part, side) if isinstance(part, ImageContent) else part for part in message.parts]
    same = all(one is other for one, other in zip(parts, message.parts, strict=True))
    return message if same else replace(message, content=tuple(parts))


def _shrink(image: ImageContent, side: int) -> ImageContent:
    """The image in fewer pixels; as it is if it is small, or cannot be read."""
    heading, _, body = image.image.partition(";base64,")
    if not heading.startswith("data:image/") or not body:
        return image
    # Imported here: few agents have it.
    from PIL import Image, ImageOps

    try:
        with Image.open(BytesIO(base64.b64decode(body))) as opened:
            kind = opened.format
            if max(opened.size) <= side or kind not in _FORMATS:
                return image
            smaller = ImageOps.exif_transpose(opened)
            smaller.thumbnail((side, side))
            made = BytesIO()
            options = {"optimize": True} if kind == "PNG" else {"quality": _JPEG_QUALITY}
            smaller.save(made, kind, **options)
    except (OSError, ValueError, binascii.Error, Image.DecompressionBombError):
        # The provider decides about it.
        return image
    text = f"{heading};base64,{base64.b64encode(made.getvalue()).decode()}"
    return replace(image, image=text) if len(text) < len(image.image) else image
