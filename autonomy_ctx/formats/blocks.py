"""A conversation as alternating turns of blocks, between our messages and the JSON of Anthropic and
Bedrock.

The two providers differ only in how a block is written, so what they share is here: system text,
alternating turns, paired calls and results, cache breakpoints and offered tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, Literal, TypeAlias, TypeVar

from autonomy_ctx.formats.base import RequestOptions, signature_of
from autonomy_ctx.formats.compaction import read_placed
from autonomy_ctx.formats.outgoing import (
    INSTRUCTION_ROLES,
    EncodedImage,
    ToolNames,
    ToolSpec,
    arguments_object,
    closing_text,
    empty_message_text,
    encode_image,
    is_base64,
    locate_breakpoints,
    merge_text_parts,
    neutralize_notes,
    note_omission,
    opening_text,
    repair_messages,
    replace_json_surrogates,
    replace_surrogates,
    system_note,
    tool_specs,
    wire_tool_name,
    wire_tool_names,
)
from autonomy_ctx.formats.thinking import drop_refused, read_prefix
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import (
    ChatRole,
    ImageContent,
    Message,
    Part,
    TextContent,
    ThinkingContent,
    ToolCall,
)


@dataclass(slots=True, kw_only=True)
class PositionedBlock:
    """Where a block comes from: the index of its message; and whether a prompt cache is cut after it."""

    message_index: int
    # Fields of a mark for the cache after it; None without one.
    cache_mark: Mapping[str, str] | None = None


@dataclass(slots=True, kw_only=True)
class TextBlock(PositionedBlock):
    """Text that is not blank."""

    text: str


@dataclass(slots=True, kw_only=True)
class ImageBlock(PositionedBlock):
    """A picture that the provider takes."""

    image: EncodedImage


@dataclass(slots=True, kw_only=True)
class ThinkingBlock(PositionedBlock):
    """Thinking of the model, signed; or, as `redacted`, thinking that it may not show."""

    text: str = ""
    signature: str = ""
    redacted: str = ""


@dataclass(slots=True, kw_only=True)
class ToolUseBlock(PositionedBlock):
    """A call of a tool."""

    id: str
    name: str
    input: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class ToolResultBlock(PositionedBlock):
    """Result of a call; never empty, and only text when it is an error."""

    id: str
    content: list[TextBlock | ImageBlock]
    is_error: bool


@dataclass(slots=True, kw_only=True)
class CompactionBlock(PositionedBlock):
    """A summary that the provider wrote, word for word."""

    data: dict[str, Any]


Block: TypeAlias = TextBlock | ImageBlock | ThinkingBlock | ToolUseBlock | ToolResultBlock | CompactionBlock


@dataclass(slots=True)
class BlockTurn:
    """Blocks of one side before the other side speaks."""

    role: Literal["user", "assistant"]
    blocks: list[Block] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockConversation:
    """A request in blocks: turns that alternate, the user's first, every call answered in the next.

    `tools_offered` is false when the tools are only there because the history calls them.
    """

    system: list[TextBlock]
    turns: list[BlockTurn]
    tools: list[ToolSpec]
    tools_offered: bool
    repairs: tuple[str, ...]


NO_OUTPUT = "(no output)"
NO_IMAGE = "(an image that cannot be shown)"
_MAX_URL_LENGTH = 2000
_B = TypeVar("_B")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFeatures:
    """Things that a provider takes and the other does not."""

    # Whose signatures go back to it.
    owner: str
    url_images: bool
    redacted_text: bool


class BlockWriter:
    """Writes messages as blocks, and down in `repairs` what it had to change."""

    def __init__(self, features: ProviderFeatures, names: ToolNames, repairs: list[str]) -> None:
        self._features = features
        self._names = names
        self._repairs = repairs

    def system_blocks(self, index: int, message: Message) -> list[TextBlock]:
        """A message of the system at the start: text only."""
        texts = [self._text(index, self._part_text(part)) for part in message.parts]
        return self._note_if_empty(message, [text for text in texts if text is not None])

    def note_blocks(self, index: int, message: Message) -> list[Block]:
        """A message of the system in the middle of the conversation, marked as what it is."""
        text = message.text
        blocks: list[Block] = []
        if text.strip():
            blocks.append(TextBlock(message_index=index, text=system_note(replace_surrogates(text))))
        images = [part for part in message.parts if isinstance(part, ImageContent)]
        return self._note_if_empty(message, blocks + [self._image(index, image) for image in images])

    def user_blocks(self, index: int, message: Message) -> list[Block]:
        """A message of the user."""
        return [*self._content(index, message)] or [
            TextBlock(message_index=index, text=empty_message_text(message, self._repairs))
        ]

    def result_block(self, index: int, message: Message) -> ToolResultBlock:
        """The result of a call of the message before."""
        content = self._content(index, message)
        if message.is_error and any(isinstance(block, ImageBlock) for block in content):
            self._repairs.append("an image in the result of a call that failed: replaced by a note")
            content = [
                block if isinstance(block, TextBlock) else TextBlock(message_index=index, text=NO_IMAGE)
                for block in content
            ]
        return ToolResultBlock(
            message_index=index,
            id=message.tool_call_id or "",
            content=content or [TextBlock(message_index=index, text=NO_OUTPUT)],
            is_error=message.is_error,
        )

    def assistant_blocks(self, index: int, message: Message) -> list[Block]:
        """A message of the assistant: thinking, text and calls, in the order in which the model made them."""
        if placed := read_placed(message):
            return [CompactionBlock(message_index=index, data=data) for data in placed]
        prefix = read_prefix(message)
        calls_at = () if prefix is None else prefix.calls_at
        waiting = list(zip_longest(message.tool_calls, calls_at[: len(message.tool_calls)]))
        blocks: list[Block] = []
        for number, part in enumerate(message.parts):
            while waiting and waiting[0][1] is not None and waiting[0][1] <= number:
                blocks.append(self._use(index, waiting.pop(0)[0]))
            if isinstance(part, ThinkingContent):
                block: Block | None = self._thinking(index, part)
            else:
                block = self._text(index, self._part_text(part))
            blocks += [] if block is None else [block]
        return self._note_if_empty(message, blocks + [self._use(index, call) for call, _ in waiting])

    def _use(self, index: int, call: ToolCall) -> ToolUseBlock:
        name = wire_tool_name(call.name, self._names, self._repairs)
        arguments = replace_json_surrogates(arguments_object(call, self._repairs))
        return ToolUseBlock(message_index=index, id=call.id or "", name=name, input=arguments)

    def _content(self, index: int, message: Message) -> list[TextBlock | ImageBlock]:
        """Content of a user or a tool: text that cannot pass for a note of the system, and images."""
        blocks: list[TextBlock | ImageBlock] = []
        for part in message.parts:
            if isinstance(part, ImageContent):
                blocks.append(self._image(index, part))
            elif isinstance(part, TextContent):
                text = self._text(index, neutralize_notes(part.text))
                blocks += [] if text is None else [text]
        return blocks

    def _image(self, index: int, image: ImageContent) -> TextBlock | ImageBlock:
        encoded = encode_image(image)
        if encoded is not None and (encoded.data or self._features.url_images):
            return ImageBlock(message_index=index, image=encoded)
        if encoded is None:
            self._repairs.append("an image of a kind that cannot be carried: replaced by a note")
            return TextBlock(message_index=index, text=NO_IMAGE)
        self._repairs.append("an image given as a URL cannot be carried: replaced by a note")
        shown = len(encoded.url) <= _MAX_URL_LENGTH
        return TextBlock(
            message_index=index, text=f"(an image that cannot be shown: {encoded.url})" if shown else NO_IMAGE
        )

    def _part_text(self, part: TextContent | ImageContent | ThinkingContent) -> str:
        """A part where only text may be."""
        if isinstance(part, ImageContent):
            self._repairs.append("an image outside the messages of users and tools: replaced by a note")
            return NO_IMAGE
        return part.text if isinstance(part, TextContent) else ""

    def _thinking(self, index: int, part: ThinkingContent) -> ThinkingBlock | None:
        owner = self._features.owner
        if signature := signature_of(owner, part.signature, accept_untagged=True):
            return ThinkingBlock(
                message_index=index,
                text=replace_surrogates(part.text),
                signature=replace_surrogates(signature),
            )
        redacted = signature_of(owner, part.redacted, accept_untagged=True)
        if redacted and (self._features.redacted_text or is_base64(redacted)):
            return ThinkingBlock(message_index=index, redacted=replace_surrogates(redacted))
        self._repairs.append("thinking that this provider did not sign: left out")
        return None

    def _text(self, index: int, text: str) -> TextBlock | None:
        return TextBlock(message_index=index, text=replace_surrogates(text)) if text.strip() else None

    def _note_if_empty(self, message: Message, blocks: list[_B]) -> list[_B]:
        if not blocks:
            note_omission(message, self._repairs)
        return blocks


MAX_BREAKPOINTS = 4
# Entries that live longer.
LONG_LIFE = {"ttl": "1h"}


def build_conversation(
    messages: Sequence[Message], features: ProviderFeatures, request_options: RequestOptions
) -> BlockConversation:
    """A request in blocks that only have to be spelled."""
    messages = drop_refused(messages, features.owner)
    ready = repair_messages(messages, answered_call_ids=request_options.answered_call_ids)
    repairs, said = list(ready.repairs), ready.messages
    names = wire_tool_names(request_options.tools)
    writer = BlockWriter(features, names, repairs)
    first = next((at for at, message in enumerate(said) if message.role not in INSTRUCTION_ROLES), len(said))
    system = [text for at, rule in enumerate(said[:first]) for text in writer.system_blocks(at, rule)]
    turns = _build_turns(writer, said, first, repairs)
    if not turns or (turns[0].role == "assistant" and not isinstance(turns[0].blocks[0], CompactionBlock)):
        turns.insert(0, BlockTurn("user", [TextBlock(message_index=first, text=opening_text(repairs))]))
    if turns[-1].role == "assistant":
        turns.append(BlockTurn("user", [TextBlock(message_index=len(said), text=closing_text(repairs))]))
    places = locate_breakpoints(messages, said, request_options.breakpoints)
    is_long = request_options.cache is not None and request_options.cache.is_long
    _mark_breakpoints(system, turns, places, LONG_LIFE if is_long else EMPTY)
    offers = _offered_tools(request_options.tools, names, repairs)
    if not offers and (called := _called_tool_names(turns)):
        repairs.append("the history calls tools but none are offered: they are described without arguments")
        offers = [ToolSpec(name, "", {"type": "object"}) for name in called]
    return BlockConversation(
        system=system,
        turns=turns,
        tools=offers,
        tools_offered=bool(request_options.tools),
        repairs=tuple(dict.fromkeys(repairs)),
    )


def _build_turns(
    writer: BlockWriter, messages: Sequence[Message], first: int, repairs: list[str]
) -> list[BlockTurn]:
    """The messages from `first` on as turns, neighbours of one side joined."""
    turns: list[BlockTurn] = []
    for at, message in enumerate(messages[first:], start=first):
        if message.role is ChatRole.ASSISTANT:
            turn = BlockTurn("assistant", writer.assistant_blocks(at, message))
        elif message.role is ChatRole.TOOL:
            turn = BlockTurn("user", [writer.result_block(at, message)])
        elif message.role in INSTRUCTION_ROLES:
            turn = BlockTurn("user", writer.note_blocks(at, message))
        else:
            turn = BlockTurn("user", writer.user_blocks(at, message))
        turns.append(turn)
    turns = _merge_turns(turns)
    for turn in turns:
        # No turn may end with it.
        while turn.blocks and isinstance(turn.blocks[-1], ThinkingBlock):
            turn.blocks.pop()
            repairs.append("thinking that no answer follows: left out")
    return _merge_turns(turns)


def _merge_turns(turns: Iterable[BlockTurn]) -> list[BlockTurn]:
    """Turns that alternate, none of them empty."""
    joined: list[BlockTurn] = []
    for turn in turns:
        if not turn.blocks:
            continue
        if joined and joined[-1].role == turn.role:
            joined[-1].blocks += turn.blocks
        else:
            joined.append(BlockTurn(turn.role, list(turn.blocks)))
    return joined


def _mark_breakpoints(
    system: Sequence[TextBlock], turns: Sequence[BlockTurn], places: Sequence[int], mark: Mapping[str, str]
) -> None:
    """Mark the last block of each place; where there is none, the last one before it."""
    blocks = [*system, *(block for turn in turns for block in turn.blocks)]
    # Thinking cannot carry a mark.
    able: list[Block] = [block for block in blocks if not isinstance(block, ThinkingBlock)]
    marked: list[Block] = []
    for place in places:
        last = next((block for block in reversed(able) if block.message_index <= place), None)
        if last is not None and (not marked or last is not marked[-1]):
            marked.append(last)
    for block in marked[-MAX_BREAKPOINTS:]:
        block.cache_mark = mark


def _offered_tools(
    tools: Sequence[Mapping[str, Any]], names: ToolNames, repairs: list[str]
) -> list[ToolSpec]:
    """The tools as they are offered; the arguments are always an object."""
    return [
        ToolSpec(
            spec.name,
            replace_surrogates(spec.description).strip(),
            {**replace_json_surrogates(spec.parameters), "type": "object"},
        )
        for spec in tool_specs(tools, names, repairs)
    ]


def _called_tool_names(turns: Iterable[BlockTurn]) -> list[str]:
    uses = (block for turn in turns for block in turn.blocks if isinstance(block, ToolUseBlock))
    return list(dict.fromkeys(use.name for use in uses))


class ReplyParts:
    """Collects what a reply says, in order: parts, and tool calls between them."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._calls: list[ToolCall] = []
        self._calls_at: list[int] = []

    def add(self, part: Part) -> None:
        """Take the next part; texts without a call between them are one text."""
        last = self._parts[-1] if self._parts else None
        if not isinstance(part, TextContent):
            self._parts.append(part)
        elif isinstance(last, TextContent) and len(self._parts) not in self._calls_at:
            self._parts[-1] = TextContent(last.text + part.text)
        elif part.text:
            self._parts.append(part)

    def add_call(self, call: ToolCall) -> None:
        """Take the next call."""
        self._calls.append(call)
        self._calls_at.append(len(self._parts))

    def fields(self, blocks: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        """Fields for a `ModelReply`. The provider's `blocks` are kept only where there is thinking."""
        parts = tuple(self._parts)
        if not any(isinstance(part, ThinkingContent) for part in parts):
            return {"parts": merge_text_parts(parts), "tool_calls": tuple(self._calls)}
        is_last = all(at == len(parts) for at in self._calls_at)
        return {
            "parts": parts,
            "tool_calls": tuple(self._calls),
            "blocks": tuple(blocks),
            "calls_at": () if is_last else tuple(self._calls_at),
        }
