"""What a turn is made of, in nobody's words yet; Anthropic and Bedrock differ only in the spelling."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from autonomy_ctx.items.formats.base import Asking, signature_of
from autonomy_ctx.items.formats.outgoing import (
    INSTRUCTING,
    Picture,
    ToolNames,
    arguments_object,
    closing,
    is_base64,
    left_out,
    nothing_said,
    opening,
    picture_of,
    prepared,
    sent_name,
    tool_names,
    tool_specs,
    well_formed,
    well_formed_json,
)
from autonomy_ctx.items.message import ChatRole, ImageContent, Message, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.items.transcript import BROKEN


@dataclass(slots=True, kw_only=True)
class Placed:
    """Where a block comes from: the index of its message; and whether a prompt cache is cut after it."""

    at: int
    cut: bool = False


@dataclass(slots=True, kw_only=True)
class Text(Placed):
    """Text that is not blank."""

    text: str


@dataclass(slots=True, kw_only=True)
class Image(Placed):
    """A picture that the provider takes."""

    picture: Picture


@dataclass(slots=True, kw_only=True)
class Thinking(Placed):
    """What the model thought, signed; or what it may not show, as `redacted`."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


@dataclass(slots=True, kw_only=True)
class Use(Placed):
    """A call of a tool."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class Result(Placed):
    """What a call gave; never empty, and only text when it is an error."""

    id: str
    content: list[Text | Image]
    is_error: bool


Block: TypeAlias = Text | Image | Thinking | Use | Result


@dataclass(slots=True)
class Turn:
    """What one side says before the other side speaks."""

    role: Literal["user", "assistant"]
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A tool under the name it has on the wire."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """A request in blocks: turns that alternate, the user's first, every call answered in the next.

    `offered` is false when the tools are only there because the history calls them.
    """

    system: list[Text]
    turns: list[Turn]
    tools: list[Offer]
    offered: bool
    repairs: tuple[str, ...]


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


MOST_BREAKPOINTS = 4


def conversation(messages: Sequence[Message], carries: Carries, asked: Asking) -> Conversation:
    """A request in blocks that only have to be spelled."""
    ready = prepared(messages, answered=asked.answered)
    repairs, said = list(ready.repairs), ready.messages
    names = tool_names(asked.tools)
    writer = Writer(carries, names, repairs)
    first = next((at for at, message in enumerate(said) if message.role not in INSTRUCTING), len(said))
    system = [text for at, rule in enumerate(said[:first]) for text in writer.rule(at, rule)]
    turns = _alternating(writer, said, first, repairs)
    if not turns or turns[0].role == "assistant":
        turns.insert(0, Turn("user", [Text(at=first, text=opening(repairs))]))
    if turns[-1].role == "assistant":
        turns.append(Turn("user", [Text(at=len(said), text=closing(repairs))]))
    _cut(system, turns, _places(messages, said, asked.breakpoints))
    offers = _offers(asked.tools, names, repairs)
    if not offers and (called := _called(turns)):
        repairs.append("the history calls tools but none are offered: they are described without arguments")
        offers = [Offer(name=name, description="", schema={"type": "object"}) for name in called]
    return Conversation(
        system=system,
        turns=turns,
        tools=offers,
        offered=bool(asked.tools),
        repairs=tuple(dict.fromkeys(repairs)),
    )


def _alternating(writer: Writer, messages: Sequence[Message], first: int, repairs: list[str]) -> list[Turn]:
    """The messages from `first` on as turns, neighbours of one side joined."""
    turns: list[Turn] = []
    for at, message in enumerate(messages[first:], start=first):
        if message.role is ChatRole.ASSISTANT:
            turn = Turn("assistant", writer.answered(at, message))
        elif message.role is ChatRole.TOOL:
            turn = Turn("user", [writer.result(at, message)])
        elif message.role in INSTRUCTING:
            turn = Turn("user", writer.note(at, message))
        else:
            turn = Turn("user", writer.asked(at, message))
        turns.append(turn)
    turns = _joined(turns)
    kept = [turn for turn in turns if not all(isinstance(block, Thinking) for block in turn.blocks)]
    if len(kept) < len(turns):
        repairs.append("thinking that no answer follows: left out")
    return _joined(kept)


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    """Turns that alternate, thinking first in each, none of them empty."""
    joined: list[Turn] = []
    for turn in turns:
        if not turn.blocks:
            continue
        if joined and joined[-1].role == turn.role:
            joined[-1].blocks += turn.blocks
        else:
            joined.append(Turn(turn.role, list(turn.blocks)))
    for turn in joined:
        # Stable: everything else keeps its order, and so does the thinking, which must not be reordered.
        turn.blocks.sort(key=lambda block: not isinstance(block, Thinking))
    return joined


def _places(messages: Sequence[Message], ready: Sequence[Message], breakpoints: Iterable[int]) -> list[int]:
    """Which of the prepared messages the breakpoints come after.

    Preparing moves and drops results but keeps the order of all others, so those are counted.
    """
    spoken = [at for at, message in enumerate(ready) if message.role is not ChatRole.TOOL]
    places: list[int] = []
    for index in sorted(set(breakpoints)):
        if not 0 <= index < len(messages):
            continue
        count = sum(message.role is not ChatRole.TOOL for message in messages[: index + 1])
        if not count:
            continue
        at = spoken[count - 1]
        if messages[index].role is ChatRole.TOOL:
            # After all results of these calls: a cut among them would part what belongs together.
            at = spoken[count] - 1 if count < len(spoken) else len(ready) - 1
        places.append(at)
    return places


def _cut(system: Sequence[Text], turns: Sequence[Turn], places: Sequence[int]) -> None:
    """Mark the last block of each place; where there is none, the last one before it."""
    blocks = [*system, *(block for turn in turns for block in turn.blocks)]
    # Thinking cannot carry a mark.
    able: list[Block] = [block for block in blocks if not isinstance(block, Thinking)]
    marked: list[Block] = []
    for place in places:
        last = next((block for block in reversed(able) if block.at <= place), None)
        if last is not None and (not marked or last is not marked[-1]):
            marked.append(last)
    for block in marked[-MOST_BREAKPOINTS:]:
        block.cut = True


def _offers(tools: Sequence[Mapping[str, Any]], names: ToolNames, repairs: list[str]) -> list[Offer]:
    """The tools as they are offered; the arguments are always an object."""
    return [
        Offer(
            name=spec.name,
            description=well_formed(spec.description).strip(),
            schema={**well_formed_json(spec.parameters), "type": "object"},
        )
        for spec in tool_specs(tools, names, repairs)
    ]


def _called(turns: Iterable[Turn]) -> list[str]:
    uses = (block for turn in turns for block in turn.blocks if isinstance(block, Use))
    return list(dict.fromkeys(use.name for use in uses))
