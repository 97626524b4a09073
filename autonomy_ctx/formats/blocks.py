"""A conversation as alternating turns of blocks, in the words of Anthropic's Messages API.

Bedrock has the same turns in words of its own, into which `bedrock` translates these: system text,
alternating turns, paired calls and results, cache breakpoints and offered tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from autonomy_ctx.formats.base import RequestOptions, signature_of
from autonomy_ctx.formats.compaction import read_placed
from autonomy_ctx.formats.outgoing import (
    DOCUMENT_MEDIA_TYPE,
    INSTRUCTION_ROLES,
    EncodedImage,
    RequestWriter,
    ToolSpec,
    encode_image,
    is_base64,
    locate_breakpoints,
    neutralize_notes,
    system_note,
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

JsonObject = dict[str, Any]
T = TypeVar("T")


class BlockTurn(NamedTuple, Generic[T]):
    """Blocks of one side before the other side speaks."""

    role: str
    blocks: list[T]


def merge_turns(turns: Iterable[BlockTurn[T]]) -> list[BlockTurn[T]]:
    """Turns that alternate, none of them empty."""
    joined: list[BlockTurn[T]] = []
    for turn in turns:
        if joined and joined[-1].role == turn.role:
            joined[-1].blocks.extend(turn.blocks)
        elif turn.blocks:
            joined.append(BlockTurn(turn.role, list(turn.blocks)))
    return joined


class BlockConversation(NamedTuple):
    """A request in blocks: turns that alternate, the user's first, every call answered in the next.

    `tools_offered` is false when the tools are only there because the history calls them.
    """

    system: list[JsonObject]
    messages: list[JsonObject]
    tools: list[ToolSpec]
    tools_offered: bool
    repairs: tuple[str, ...]


NO_OUTPUT = "(no output)"
NO_IMAGE = "(an image that cannot be shown)"
MAX_BREAKPOINTS = 4
# Entries that live longer.
LONG_LIFE = {"ttl": "1h"}
_MAX_URL_LENGTH = 2000
_IMAGE_KINDS = ("image", "document")


class BlockWriter(RequestWriter):
    """Writes messages as blocks of the Messages API, for the provider that the class names."""

    # Whose signatures go back to it.
    owner: ClassVar[str]
    takes_image_urls: ClassVar[bool]
    # Whether thinking that it may not show is bytes, in base64.
    redacts_as_bytes: ClassVar[bool]

    def write(self, messages: Sequence[Message], settings: RequestOptions) -> BlockConversation:
        """All messages of a request."""
        messages = drop_refused(messages, self.owner)
        said = self.repair(messages, settings.answered_call_ids)
        first = next((at for at, one in enumerate(said) if one.role not in INSTRUCTION_ROLES), len(said))
        system = [self._system_blocks(rule) for rule in said[:first]]
        made = [self._turn(one) for one in said[first:]]
        turns = merge_turns(made)
        for turn in turns:
            # No turn may end with it.
            while turn.blocks and _is_thinking(turn.blocks[-1]):
                turn.blocks.pop()
                self.repairs.append("thinking that no answer follows: left out")
        turns = merge_turns(turns)
        if not turns or (turns[0].role == "assistant" and turns[0].blocks[0]["type"] != "compaction"):
            turns.insert(0, BlockTurn("user", [_text_block(self.opening_text())]))
        if turns[-1].role == "assistant":
            turns.append(BlockTurn("user", [_text_block(self.closing_text())]))
        is_long = settings.cache is not None and settings.cache.is_long
        _mark_breakpoints(
            [*system, *(turn.blocks for turn in made)],
            locate_breakpoints(messages, said, settings.breakpoints),
            LONG_LIFE if is_long else EMPTY,
        )
        return BlockConversation(
            system=[block for blocks in system for block in blocks],
            messages=[{"role": turn.role, "content": turn.blocks} for turn in turns],
            tools=self._offered_tools(said),
            tools_offered=bool(settings.tools),
            repairs=tuple(dict.fromkeys(self.repairs)),
        )

    def write_one(self, message: Message) -> JsonObject:
        """A message by itself, for a request that has the others already."""
        turn = self._turn(message)
        return {"role": turn.role, "content": turn.blocks}

    def _turn(self, message: Message) -> BlockTurn[JsonObject]:
        if message.role is ChatRole.ASSISTANT:
            return BlockTurn("assistant", self._assistant_blocks(message))
        if message.role is ChatRole.TOOL:
            return BlockTurn("user", [self._result_block(message)])
        if message.role in INSTRUCTION_ROLES:
            return BlockTurn("user", self._note_blocks(message))
        said = self._content(message)
        return BlockTurn("user", said or self._text_blocks(self.empty_text(message)))

    def _system_blocks(self, message: Message) -> list[JsonObject]:
        """A message of the system at the start: text only."""
        blocks = [text for part in message.parts for text in self._text_blocks(self._part_text(part))]
        return self._note_if_empty(message, blocks)

    def _note_blocks(self, message: Message) -> list[JsonObject]:
        """A message of the system in the middle of the conversation, marked as what it is."""
        blocks = self._text_blocks(system_note(message.text)) if message.text.strip() else []
        images = [part for part in message.parts if isinstance(part, ImageContent)]
        return self._note_if_empty(message, blocks + [self._image_block(image) for image in images])

    def _result_block(self, message: Message) -> JsonObject:
        """The result of a call of the message before."""
        content = self._content(message)
        if message.is_error and any(block["type"] in _IMAGE_KINDS for block in content):
            self.repairs.append("an image in the result of a call that failed: replaced by a note")
            note = _text_block(NO_IMAGE)
            content = [note if block["type"] in _IMAGE_KINDS else block for block in content]
        shown = content or [_text_block(NO_OUTPUT)]
        result = {"type": "tool_result", "tool_use_id": message.tool_call_id or "", "content": shown}
        return {**result, "is_error": True} if message.is_error else result

    def _assistant_blocks(self, message: Message) -> list[JsonObject]:
        """A message of the assistant: thinking, text and calls, in the order in which the model made them."""
        if placed := read_placed(message):
            return placed
        prefix = read_prefix(message)
        calls_at = () if prefix is None else prefix.calls_at
        waiting = list(zip_longest(message.tool_calls, calls_at[: len(message.tool_calls)]))
        blocks: list[JsonObject] = []
        for number, part in enumerate(message.parts):
            while waiting and waiting[0][1] is not None and waiting[0][1] <= number:
                blocks.append(self._call_block(waiting.pop(0)[0]))
            if isinstance(part, ThinkingContent):
                blocks += self._thinking_blocks(part)
            else:
                blocks += self._text_blocks(self._part_text(part))
        return self._note_if_empty(message, blocks + [self._call_block(call) for call, _ in waiting])

    def _call_block(self, call: ToolCall) -> JsonObject:
        name, arguments = self.tool_name(call.name), self.arguments_object(call)
        return {"type": "tool_use", "id": call.id or "", "name": name, "input": arguments}

    def _content(self, message: Message) -> list[JsonObject]:
        """Content of a user or a tool: text that cannot pass for a note of the system, and images."""
        blocks: list[JsonObject] = []
        for part in message.parts:
            if isinstance(part, ImageContent):
                blocks.append(self._image_block(part))
            elif isinstance(part, TextContent):
                blocks += self._text_blocks(neutralize_notes(part.text))
        return blocks

    def _image_block(self, image: ImageContent) -> JsonObject:
        encoded = encode_image(image, takes_documents=self.takes_documents)
        if encoded is not None and (encoded.data or self.takes_image_urls):
            return _image_data(encoded)
        kind = "of a kind that" if encoded is None else "given as a URL"
        self.repairs.append(f"an image {kind} cannot be carried: replaced by a note")
        shown = encoded is not None and len(encoded.url) <= _MAX_URL_LENGTH
        note = f"(an image that cannot be shown: {encoded.url})" if encoded and shown else NO_IMAGE
        return _text_block(note)

    def _part_text(self, part: Part) -> str:
        """A part where only text may be."""
        if isinstance(part, ImageContent):
            self.repairs.append("an image outside the messages of users and tools: replaced by a note")
            return NO_IMAGE
        return part.text if isinstance(part, TextContent) else ""

    def _thinking_blocks(self, part: ThinkingContent) -> list[JsonObject]:
        if signature := signature_of(self.owner, part.signature, accept_untagged=True):
            return [{"type": "thinking", "thinking": part.text, "signature": signature}]
        redacted = signature_of(self.owner, part.redacted, accept_untagged=True)
        if redacted and (not self.redacts_as_bytes or is_base64(redacted)):
            return [{"type": "redacted_thinking", "data": redacted}]
        self.repairs.append("thinking that this provider did not sign: left out")
        return []

    def _text_blocks(self, text: str) -> list[JsonObject]:
        return [_text_block(text)] if text.strip() else []

    def _note_if_empty(self, message: Message, blocks: list[JsonObject]) -> list[JsonObject]:
        if not blocks:
            self.note_omission(message)
        return blocks

    def _offered_tools(self, messages: Sequence[Message]) -> list[ToolSpec]:
        """The tools as they are offered, or those that the history calls; the arguments are an object."""
        offered = [
            ToolSpec(spec.name, spec.description.strip(), {**spec.parameters, "type": "object"})
            for spec in self.tool_specs()
        ]
        replies = (message for message in messages if message.role is ChatRole.ASSISTANT)
        called = (call.name for message in replies for call in message.tool_calls)
        names = [] if offered else list(dict.fromkeys(map(self._names.wire_name, called)))
        if not names:
            return offered
        self.repairs.append(
            "the history calls tools but none are offered: they are described without arguments"
        )
        return [ToolSpec(name, "", {"type": "object"}) for name in names]


def _is_thinking(block: JsonObject) -> bool:
    return block["type"] in ("thinking", "redacted_thinking")


def _text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _image_data(image: EncodedImage) -> JsonObject:
    if image.url:
        return {"type": "image", "source": {"type": "url", "url": image.url}}
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    kind = "document" if image.media_type == DOCUMENT_MEDIA_TYPE else "image"
    return {"type": kind, "source": source}


def _mark_breakpoints(
    written: Sequence[Sequence[JsonObject]], places: Sequence[int], mark: Mapping[str, str]
) -> None:
    """Mark the last block of each place among the messages; where there is none, the last one before it."""
    marked: list[JsonObject] = []
    for place in places:
        before = (block for blocks in written[place::-1] for block in reversed(blocks))
        # Thinking cannot carry a mark.
        last = next((block for block in before if not _is_thinking(block)), None)
        if last is not None and (not marked or last is not marked[-1]):
            marked.append(last)
    for block in marked[-MAX_BREAKPOINTS:]:
        block["cache_control"] = {"type": "ephemeral", **mark}
