"""One message at a time as blocks: what can be carried, and a word in place of what cannot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeVar

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.blocks import Block, Image, Result, Text, Thinking, Use
from autonomy_ctx.items.formats.names import ToolNames
from autonomy_ctx.items.formats.sendable import arguments_object, left_out, nothing_said, sent_name
from autonomy_ctx.items.formats.signatures import signature_of
from autonomy_ctx.items.formats.values import is_base64, picture_of, well_formed, well_formed_json
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import ImageContent, TextContent, ThinkingContent
from autonomy_ctx.items.untrusted import BROKEN

NO_OUTPUT = "(no output)"
NO_IMAGE = "(an image that cannot be shown)"
NOTE = "system-note"
_NOTE_MARK = re.compile(rf"<(?=\s{{0,4}}/?\s{{0,4}}{NOTE}\b)", re.IGNORECASE)
_LONGEST_URL = 2000
_B = TypeVar("_B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carries:
    """What a provider takes beyond the common ground."""

    # Whose signatures go back to it.
    owner: str
    url_images: bool
    redacted_text: bool


class Writer:
    """Writes messages as blocks, and down in `repairs` what it had to change."""

    def __init__(self, carries: Carries, names: ToolNames, repairs: list[str]) -> None:
        self._carries = carries
        self._names = names
        self._repairs = repairs

    def rule(self, at: int, message: Message) -> list[Text]:
        """A message of the system at the start: text only."""
        texts = [self._text(at, self._worded(part)) for part in message.parts]
        return self._some(message, [text for text in texts if text is not None])

    def note(self, at: int, message: Message) -> list[Block]:
        """A message of the system in the middle of the conversation, marked as what it is."""
        text = message.text
        blocks: list[Block] = []
        if text.strip():
            inside = _NOTE_MARK.sub(BROKEN, well_formed(text))
            blocks.append(Text(at=at, text=f"<{NOTE}>\n{inside}\n</{NOTE}>"))
        images = [part for part in message.parts if isinstance(part, ImageContent)]
        return self._some(message, blocks + [self._image(at, image) for image in images])

    def asked(self, at: int, message: Message) -> list[Block]:
        """A message of the user."""
        return [*self._content(at, message)] or [Text(at=at, text=nothing_said(message, self._repairs))]

    def result(self, at: int, message: Message) -> Result:
        """The result of a call of the message before."""
        content = self._content(at, message)
        if message.is_error and any(isinstance(block, Image) for block in content):
            self._repairs.append("an image in the result of a call that failed: replaced by a note")
            content = [block if isinstance(block, Text) else Text(at=at, text=NO_IMAGE) for block in content]
        return Result(
            at=at,
            id=message.tool_call_id or "",
            content=content or [Text(at=at, text=NO_OUTPUT)],
            is_error=message.is_error,
        )

    def answered(self, at: int, message: Message) -> list[Block]:
        """A message of the assistant: thinking, text, calls."""
        blocks: list[Block] = []
        for part in message.parts:
            if isinstance(part, ThinkingContent):
                block: Block | None = self._thinking(at, part)
            else:
                block = self._text(at, self._worded(part))
            blocks += [] if block is None else [block]
        return self._some(message, blocks + [self._use(at, call) for call in message.tool_calls])

    def _use(self, at: int, call: ToolCall) -> Use:
        name = sent_name(call.name, self._names, self._repairs)
        arguments = well_formed_json(arguments_object(call, self._repairs))
        return Use(at=at, id=call.id or "", name=name, input=arguments)

    def _content(self, at: int, message: Message) -> list[Text | Image]:
        """What a user or a tool said: text that cannot pass for a note of the system, and images."""
        blocks: list[Text | Image] = []
        for part in message.parts:
            if isinstance(part, ImageContent):
                blocks.append(self._image(at, part))
            elif isinstance(part, TextContent):
                text = self._text(at, _NOTE_MARK.sub(BROKEN, part.text))
                blocks += [] if text is None else [text]
        return blocks

    def _image(self, at: int, image: ImageContent) -> Text | Image:
        picture = picture_of(image)
        if picture is not None and (picture.data or self._carries.url_images):
            return Image(at=at, picture=picture)
        if picture is None:
            self._repairs.append("an image of a kind that cannot be carried: replaced by a note")
            return Text(at=at, text=NO_IMAGE)
        self._repairs.append("an image given as a URL cannot be carried: replaced by a note")
        shown = len(picture.url) <= _LONGEST_URL
        return Text(at=at, text=f"(an image that cannot be shown: {picture.url})" if shown else NO_IMAGE)

    def _worded(self, part: TextContent | ImageContent | ThinkingContent) -> str:
        """A part where only text may be."""
        if isinstance(part, ImageContent):
            self._repairs.append("an image outside the messages of users and tools: replaced by a note")
            return NO_IMAGE
        return part.text if isinstance(part, TextContent) else ""

    def _thinking(self, at: int, part: ThinkingContent) -> Thinking | None:
        owner = self._carries.owner
        if signature := signature_of(owner, part.signature, unmarked=True):
            return Thinking(at=at, text=well_formed(part.text), signature=well_formed(signature))
        redacted = signature_of(owner, part.redacted, unmarked=True)
        if redacted and (self._carries.redacted_text or is_base64(redacted)):
            return Thinking(at=at, redacted=well_formed(redacted))
        self._repairs.append("thinking that this provider did not sign: left out")
        return None

    def _text(self, at: int, text: str) -> Text | None:
        return Text(at=at, text=well_formed(text)) if text.strip() else None

    def _some(self, message: Message, blocks: list[_B]) -> list[_B]:
        if not blocks:
            left_out(message, self._repairs)
        return blocks
