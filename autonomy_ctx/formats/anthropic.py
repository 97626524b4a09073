"""Anthropic's Messages API: requests, whole replies and streamed replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, assert_never

from autonomy_ctx.formats.base import (
    ANTHROPIC,
    DEFAULT_REQUEST_OPTIONS,
    CallStarted,
    ModelReply,
    RequestOptions,
    StreamError,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
    tag_signature,
)
from autonomy_ctx.formats.blocks import (
    Block,
    BlockTurn,
    CompactionBlock,
    ImageBlock,
    ProviderFeatures,
    ReplyParts,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    build_conversation,
)
from autonomy_ctx.formats.cache_diagnosis import read_cache_miss
from autonomy_ctx.formats.compaction import COMPACTION_BETA, find_block, place_block
from autonomy_ctx.formats.incoming import as_count, as_mapping, as_mappings, as_nonempty_text, as_text
from autonomy_ctx.formats.outgoing import ToolSpec, arguments_text
from autonomy_ctx.formats.thinking import select_thinking
from autonomy_ctx.messages.message import Message, TextContent, ThinkingContent, ToolCall

# Which field of which block each kind of delta adds to.
_DELTA_FIELDS = {
    "text_delta": ("text", "text", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("thinking", "signature", "signature"),
    "input_json_delta": ("tool_use", "partial_json", "input"),
}


class AnthropicReader:
    """Collects the events of one stream; the client ends it with `finish()`."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._blocks: dict[int, Mapping[str, Any]] = {}
        self._deltas: dict[int, dict[str, list[str]]] = {}
        self._finished_blocks: set[int] = set()

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> Sequence[StreamEvent]:
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
                error = as_mapping(data.get("error"))
                raise StreamError(
                    as_nonempty_text(error.get("type")) or "error", as_text(error.get("message"))
                )
        return ()

    def finish(self) -> ModelReply:
        """The reply; of a stream that ended too early what came, without calls that were not complete."""
        blocks = [
            self._assemble_block(index)
            for index in sorted(self._blocks)
            # Half of a call must not be run; half of a text is still worth reading.
            if self._blocks[index].get("type") != "tool_use"
            or index in self._finished_blocks
            or self._message.get("stop_reason")
        ]
        return read_message({**self._message, "usage": self._usage, "content": blocks})

    def _start_block(self, index: int, block: Mapping[str, Any]) -> Sequence[StreamEvent]:
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

    def _add_delta(self, index: int, delta: Mapping[str, Any]) -> Sequence[StreamEvent]:
        kind, source, target = _DELTA_FIELDS.get(as_text(delta.get("type")), ("", "", ""))
        more = as_text(delta.get(source))
        if not more:
            return ()
        if index not in self._blocks:
            if kind == "tool_use":
                return ()
            self._start_block(index, {"type": kind})
        if self._blocks[index].get("type") != kind:
            return ()
        self._deltas[index].setdefault(target, []).append(more)
        if target == "text":
            return (TextDelta(more),)
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
_FEATURES = ProviderFeatures(owner=ANTHROPIC, url_images=True, redacted_text=True)


class AnthropicMessages(NamedTuple):
    """The messages, and the text of the system prompt if there is one."""

    messages: list[dict[str, Any]]
    system: str | None


class AnthropicFormat:
    """The words of Anthropic's Messages API."""

    name = "anthropic"

    def request(
        self,
        model: str,
        messages: Sequence[Message],
        request_options: RequestOptions = DEFAULT_REQUEST_OPTIONS,
    ) -> WireRequest:
        """A request that the provider takes; sampling parameters only if `options` has them."""
        block = find_block(messages, ANTHROPIC, model)
        placed = messages if block is None else place_block(messages, block)
        talk = build_conversation(placed, _FEATURES, request_options)
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": _default_max_tokens(request_options.options)
            if request_options.max_tokens is None
            else request_options.max_tokens,
        }
        if talk.system:
            body["system"] = [_encode_block(text) for text in talk.system]
        body["messages"] = [_encode_turn(turn) for turn in talk.turns]
        if talk.tools:
            body["tools"] = [_encode_tool(offer) for offer in talk.tools]
            if not talk.tools_offered:
                body["tool_choice"] = {"type": "none"}
        if request_options.stream:
            body["stream"] = True
        body |= request_options.options
        thinking = select_thinking(body, messages, ANTHROPIC, model, block)
        betas = () if block is None else (COMPACTION_BETA,)
        return WireRequest(
            path="/messages", body=body, repairs=talk.repairs, thinking=thinking, betas=betas, block=block
        )

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        return read_message(body)

    def reader(self) -> AnthropicReader:
        """For a streamed response."""
        return AnthropicReader()


def anthropic_messages(
    messages: Sequence[Message], repairs: list[str], *, breakpoints: Sequence[int] = ()
) -> AnthropicMessages:
    """Messages in the format of the Messages API; `repairs` lists what was repaired."""
    talk = build_conversation(messages, _FEATURES, RequestOptions(breakpoints=breakpoints))
    repairs += talk.repairs
    system = "\n\n".join(rule.text for rule in talk.system)
    body: dict[str, Any] = {"system": system, "messages": [_encode_turn(turn) for turn in talk.turns]}
    select_thinking(body, messages, ANTHROPIC, "")
    return AnthropicMessages(body["messages"], system or None)


def read_message(body: Mapping[str, Any]) -> ModelReply:
    """A reply from a whole message; blocks of an unknown kind are passed over."""
    if body.get("type") == "error":
        error = as_mapping(body.get("error"))
        raise StreamError(as_nonempty_text(error.get("type")) or "error", as_text(error.get("message")))
    content = as_mappings(body.get("content"))
    said = ReplyParts()
    for block in content:
        match block.get("type"):
            case "text":
                said.add(TextContent(as_text(block.get("text"))))
            case "thinking":
                thought, signature = as_text(block.get("thinking")), as_nonempty_text(block.get("signature"))
                mark = tag_signature(ANTHROPIC, signature) if signature else None
                said.add(ThinkingContent(thought, signature=mark))
            case "redacted_thinking" if data := as_text(block.get("data")):
                said.add(ThinkingContent("", redacted=tag_signature(ANTHROPIC, data)))
            case "tool_use":
                name, arguments = as_text(block.get("name")), arguments_text(block.get("input"))
                said.add_call(ToolCall(as_nonempty_text(block.get("id")), name, arguments))
    stop = as_nonempty_text(body.get("stop_reason"))
    return ModelReply(
        **said.fields(content),
        stop=STOP_REASONS.get(stop, stop) if stop else None,
        usage=_usage(as_mapping(body.get("usage"))),
        model=as_nonempty_text(body.get("model")),
        id=as_nonempty_text(body.get("id")),
        cache_miss=read_cache_miss(body) if body.get("diagnostics") else None,
    )


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


def _default_max_tokens(options: Mapping[str, Any]) -> int:
    # What is allowed for thinking counts, and a limit below it is refused.
    return DEFAULT_MAX_TOKENS + as_count(as_mapping(options.get("thinking")).get("budget_tokens"))


def _encode_turn(turn: BlockTurn) -> dict[str, Any]:
    return {"role": turn.role, "content": [_encode_block(block) for block in turn.blocks]}


def _encode_block(block: Block) -> dict[str, Any]:
    spelled = _encode_content(block)
    if block.cache_mark is not None:
        spelled["cache_control"] = {"type": "ephemeral", **block.cache_mark}
    return spelled


def _encode_content(block: Block) -> dict[str, Any]:
    match block:
        case TextBlock(text=text):
            return {"type": "text", "text": text}
        case ImageBlock(image=picture):
            if picture.url:
                return {"type": "image", "source": {"type": "url", "url": picture.url}}
            source = {"type": "base64", "media_type": picture.media_type, "data": picture.data}
            return {"type": "image", "source": source}
        case ThinkingBlock(redacted=redacted) if redacted:
            return {"type": "redacted_thinking", "data": redacted}
        case ThinkingBlock(text=text, signature=signature):
            return {"type": "thinking", "thinking": text, "signature": signature}
        case ToolUseBlock(id=call_id, name=name, input=arguments):
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
        case ToolResultBlock(id=call_id, content=content, is_error=is_error):
            inside = [_encode_block(inner) for inner in content]
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call_id, "content": inside}
            return {**result, "is_error": True} if is_error else result
        case CompactionBlock(data=data):
            return dict(data)
    assert_never(block)


def _encode_tool(offer: ToolSpec) -> dict[str, Any]:
    described = {"description": offer.description} if offer.description else {}
    return {"name": offer.name, **described, "input_schema": offer.parameters}
