"""Images are stored and sent no larger than a model reads them."""

from __future__ import annotations

import base64
import sys
from io import BytesIO
from typing import Any

import pytest
from agents.kit import call, calls

from autonomy_ctx import Agent, Memory, tool
from autonomy_ctx.agents.images import read_image_side, shrink_images
from autonomy_ctx.messages.message import ImageContent, Message
from autonomy_ctx.testing import ScriptedModel


def picture(width: int, height: int, kind: str = "PNG") -> ImageContent:
    from PIL import Image

    made, image = BytesIO(), Image.effect_noise((width, height), 40)
    image.save(made, kind)
    return ImageContent.from_bytes(made.getvalue(), f"image/{kind.lower()}")


def size_of(image: ImageContent) -> Any:
    from PIL import Image

    return Image.open(BytesIO(base64.b64decode(image.image.partition(",")[2]))).size


@pytest.mark.anyio
async def test_images_of_users_and_tools_are_made_smaller_once() -> None:
    @tool
    def look() -> Any:
        """Look."""
        return [picture(800, 600, "JPEG"), "seen"]

    model = ScriptedModel([calls(call("look")), "done"])
    async with (
        Memory() as memory,
        Agent(model=model, memory=memory, tools=[look], max_image_side=400) as agent,
    ):
        await agent.send([{"type": "text", "text": "what is it?"}, picture(300, 1000)])
        stored = [entry.message for entry in (await agent.memory.read("default", "default")).entries]
        shown = (await agent.explain()).messages
    images = [part for message in stored for part in message.parts if isinstance(part, ImageContent)]
    assert [size_of(image) for image in images] == [(120, 400), (400, 300)]
    assert [part for one in shown for part in one.parts if isinstance(part, ImageContent)] == images


@pytest.mark.anyio
async def test_small_broken_and_remote_images_stay_as_they_are() -> None:
    parts = [
        picture(300, 200),
        ImageContent("https://example.com/large.png"),
        ImageContent.from_bytes(b"no picture"),
        ImageContent("data:image/png;base64,???"),
    ]
    message = Message("user", parts)
    assert await shrink_images(message, 300) is message


def test_the_side_is_that_of_the_model() -> None:
    names = ("claude-opus-5-5", "gpt-6.1-sol", "gemini-3.8-flash", "x")
    sides = [read_image_side("auto", name) for name in names]
    assert sides == [1568, 2048, 3072, 2048]
    assert (read_image_side(700, None), read_image_side(None, None)) == (700, None)


def test_without_pillow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    # As if it were not installed.
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install 'autonomy-ctx\[images\]'"):
        Agent(max_image_side="auto")


def test_a_wrong_side_is_refused() -> None:
    with pytest.raises(ValueError, match="max_image_side must be"):
        Agent(max_image_side=0)
