"""Anthropic's Messages API: requests, whole replies and streamed replies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from autonomy_ctx.formats.base import (
    ANTHROPIC,
    FIND_TOOLS,
    CallDelta,
    CallStarted,
    ModelReply,
    ReaderEvent,
    RequestOptions,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
    tag_signature,
)
from autonomy_ctx.formats.blocks import BlockWriter, JsonObject
from autonomy_ctx.formats.cache_diagnosis import read_cache_miss
from autonomy_ctx.formats.compaction import COMPACTION_BETA, find_block, place_block
from autonomy_ctx.formats.incoming import (
    ReplyParts,
    as_count,
    as_mapping,
    as_mappings,
    as_nonempty_text,
    as_text,
    stream_error,
)
from autonomy_ctx.formats.outgoing import (
    ToolSpec,
    arguments_text,
    replace_json_surrogates,
    replace_surrogates,
)
from autonomy_ctx.formats.thinking import select_thinking
from autonomy_ctx.messages.message import Message, ThinkingContent, ToolCall

# Allows Claude to clear old results itself.
EDITING_BETA = "context-management-2025-06-27"
# Which field of which block each kind of delta adds to.
_DELTA_FIELDS = {
    "text_delta": ("text", "text", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("thinking", "signature", "signature"),
    "input_json_delta": ("tool_use", "partial_json", "input"),
    "compaction_delta": ("compaction", "content", "content"),
}


class AnthropicReader:
    """Collects the events of one stream; the client ends it with `finish()`."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, Mapping[str, Any]] = {}
        self._deltas: dict[int, dict[str, list[str]]] = {}
        self._finished_blocks: set[int] = set()

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[ReaderEvent]:
        """Read one event; an error raises `StreamError`, an unknown event says nothing."""
        index = as_count(data.get("index"))
        match data.get("type") or event:
            case "message_start":
                message = as_mapping(data.get("message"))
                told = ("id", "model", "stop_reason", "diagnostics")
                self._message.update({name: message.get(name) for name in told})
                self._usage.update(as_mapping(message.get("usage")))
            case "content_block_start":
                return self._start_block(index, as_mapping(data.get("content_block")))
            case "content_block_delta":
                return self._add_delta(index, as_mapping(data.get("delta")))
            case "content_block_stop":
                self._finished_blocks.add(index)
            case "message_delta":
                self._message["stop_reason"] = as_mapping(data.get("delta")).get("stop_reason")
                counts = as_mapping(data.get("usage")).items()
                # The counts so far: they replace those from the start, where they are given.
                self._usage.update({name: value for name, value in counts if value is not None})
            case "error":
                raise stream_error(data.get("error"))
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        return read_message({**self._message, "usage": self._usage, "content": self.content()})

    def content(self) -> list[dict[str, Any]]:
        """The blocks so far, as they would stand in a whole message."""
        return [
            self._assemble_block(index)
            for index in sorted(self._blocks)
            # Half of a call must not be run; half of a text is still worth reading.
            if self._blocks[index].get("type") != "tool_use"
            or index in self._finished_blocks
            or self._message.get("stop_reason")
        ]

    def _start_block(self, index: int, block: Mapping[str, Any]) -> Sequence[ReaderEvent]:
        self._blocks[index] = block
        self._deltas[index] = {}
        match block.get("type"):
            case "tool_use":
                return (CallStarted(as_nonempty_text(block.get("id")), as_text(block.get("name"))),)
            case "text" if shown := as_text(block.get("text")):
                return (TextDelta(shown),)
            case "thinking" if thought := as_text(block.get("thinking")):
                return (ThinkingDelta(thought),)
        return ()

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> Sequence[ReaderEvent]:
        if delta.get("type") == "citations_delta" and index in self._blocks:
            block = self._blocks[index]
            self._blocks[index] = {
                **block,
                "citations": [*(block.get("citations") or ()), delta.get("citation")],
            }
            return ()
        kind, source, target = _DELTA_FIELDS.get(as_text(delta.get("type")), ("", "", ""))
        more = as_text(delta.get(source))
        if not more:
            return ()
        if index not in self._blocks:
            if kind == "tool_use":
                return ()
            self._start_block(index, {"type": kind})
        own = as_text(self._blocks[index].get("type"))
        # Tools that the provider runs have input, too.
        if own != kind and not (kind == "tool_use" and own.endswith("tool_use")):
            return ()
        self._deltas[index].setdefault(target, []).append(more)
        if target == "text":
            return (TextDelta(more),)
        if target == "input":
            return (CallDelta(as_nonempty_text(self._blocks[index].get("id")), more),)
        return (ThinkingDelta(more),) if target == "thinking" else ()

    def _assemble_block(self, index: int) -> dict[str, Any]:
        """A block as it would stand in a whole message."""
        block = dict(self._blocks[index])
        for name, pieces in self._deltas[index].items():
            begun = "" if name == "input" else as_text(block.get(name))
            block[name] = begun + "".join(pieces)
        return block


DEFAULT_MAX_TOKENS = 4096
STOP_REASONS = {
    "end_turn": "end",
    "stop_sequence": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "refusal": "refused",
    "model_context_window_exceeded": "overflow",
}


class AnthropicWriter(BlockWriter):
    """Blocks of the Messages API."""

    owner = ANTHROPIC
    takes_image_urls = takes_documents = True
    redacts_as_bytes = False

    def __init__(self, tools: Sequence[Mapping[str, Any]] = (), **options: Any) -> None:
        super().__init__(tools, **options)
        names = (str(one["name"]) for one in tools if one.get("defer_loading"))
        # Claude is not told of these until a result refers to them.
        self.deferred = frozenset(map(self._names.wire_name, names))

    def _result_block(self, message: Message) -> JsonObject:
        """A result; that of a search for tools refers to them, and their definitions follow it."""
        block = super()._result_block(message)
        if message.name == FIND_TOOLS and self.deferred:
            lines = dict.fromkeys(line.partition(":")[0] for line in message.text.splitlines())
            names = [name for name in map(self._names.wire_name, lines) if name in self.deferred]
            if names:
                block["content"] = [{"type": "tool_reference", "tool_name": name} for name in names]
        return block


class AnthropicMessages(NamedTuple):
    """The messages, and the text of the system prompt if there is one."""

    messages: list[dict[str, Any]]
    system: str | None


class AnthropicFormat:
    """The words of Anthropic's Messages API."""

    name = "anthropic"

    def request(self, model: str, messages: Sequence[Message], settings: RequestOptions) -> WireRequest:
        """A request that the provider takes; sampling parameters only if `options` has them."""
        block = find_block(messages, ANTHROPIC, model)
        placed = messages if block is None else place_block(messages, block)
        writer = AnthropicWriter(settings.tools)
        talk = writer.write(placed, settings)
        most = settings.max_tokens
        if most is None:
            # What is allowed for thinking counts, and a limit below it is refused.
            allowed = as_mapping(settings.options.get("thinking"))
            most = DEFAULT_MAX_TOKENS + as_count(allowed.get("budget_tokens"))
        body: dict[str, Any] = {"model": model, "max_tokens": most}
        if talk.system:
            body["system"] = talk.system
        body["messages"] = talk.messages
        if talk.tools:
            body["tools"] = [_encode_tool(offer, offer.name in writer.deferred) for offer in talk.tools]
            if not talk.tools_offered:
                body["tool_choice"] = {"type": "none"}
        if settings.stream:
            body["stream"] = True
        body |= settings.options
        thinking = select_thinking(body, messages, ANTHROPIC, model, block)
        betas: tuple[str, ...] = () if block is None else (COMPACTION_BETA,)
        if "context_management" in body:
            betas += (EDITING_BETA,)
        return WireRequest(
            path="/messages", body=body, repairs=talk.repairs, thinking=thinking, betas=betas, block=block
        )

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        return read_message(body)

    def reader(self) -> AnthropicReader:
        """For a streamed response."""
        return AnthropicReader()


def anthropic_messages(messages: Sequence[Message], *, breakpoints: Sequence[int] = ()) -> AnthropicMessages:
    """Messages in the format of the Messages API."""
    talk = AnthropicWriter().write(messages, RequestOptions(breakpoints=breakpoints))
    system = "\n\n".join(rule["text"] for rule in talk.system)
    body: dict[str, Any] = {"system": system, "messages": talk.messages}
    select_thinking(body, messages, ANTHROPIC, "")
    return AnthropicMessages(replace_json_surrogates(body["messages"]), replace_surrogates(system) or None)


def read_message(body: Mapping[str, Any]) -> ModelReply:
    """A reply from a whole message; blocks of an unknown kind are passed over."""
    if body.get("type") == "error":
        raise stream_error(body.get("error"))
    content = as_mappings(body.get("content"))
    stop = as_nonempty_text(body.get("stop_reason"))
    return ModelReply(
        **read_blocks(content, ANTHROPIC).fields(content),
        stop=STOP_REASONS.get(stop, stop) if stop else None,
        usage=_usage(as_mapping(body.get("usage"))),
        model=as_nonempty_text(body.get("model")),
        id=as_nonempty_text(body.get("id")),
        cache_miss=read_cache_miss(body) if body.get("diagnostics") else None,
    )


def read_blocks(content: Iterable[Mapping[str, Any]], owner: str) -> ReplyParts:
    """Read the blocks of a reply; the signatures in them are of `owner`."""
    said = ReplyParts()
    for block in content:
        match block.get("type"):
            case "text":
                said.add_text(as_text(block.get("text")))
            case "thinking":
                thought, signature = as_text(block.get("thinking")), as_nonempty_text(block.get("signature"))
                mark = tag_signature(owner, signature) if signature else None
                said.add(ThinkingContent(thought, signature=mark))
            case "redacted_thinking" if data := as_text(block.get("data")):
                said.add(ThinkingContent("", redacted=tag_signature(owner, data)))
            case "tool_use":
                name, arguments = as_text(block.get("name")), arguments_text(block.get("input"))
                said.add(ToolCall(as_nonempty_text(block.get("id")), name, arguments))
    return said


def _usage(usage: Mapping[str, Any]) -> Usage:
    """The sum of what the answer took and what compactions took, which are counted apart."""
    own = [one for one in as_mappings(usage.get("iterations")) if one.get("type") == "compaction"]
    return sum(map(_call_usage, own), _call_usage(usage))


def _call_usage(usage: Mapping[str, Any]) -> Usage:
    cached = as_count(usage.get("cache_read_input_tokens"))
    written = as_count(usage.get("cache_creation_input_tokens"))
    by_life = as_mapping(usage.get("cache_creation"))
    details = as_mapping(usage.get("output_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("input_tokens")) + written + cached,
        cached_tokens=cached,
        cache_write_tokens=written,
        output_tokens=as_count(usage.get("output_tokens")),
        long_cache_write_tokens=as_count(by_life.get("ephemeral_1h_input_tokens")),
        reasoning_tokens=as_count(details.get("thinking_tokens")),
    )


def _encode_tool(offer: ToolSpec, is_deferred: bool) -> dict[str, Any]:
    deferred = {"defer_loading": True} if is_deferred else {}
    return {**describe_tool(offer), "input_schema": offer.parameters, **deferred}


def describe_tool(offer: ToolSpec) -> dict[str, Any]:
    """The name of a tool, and its description if it has one: an empty one is refused."""
    return {"name": offer.name, **({"description": offer.description} if offer.description else {})}
