"""OpenAI's Responses API: requests, whole replies and streamed replies. Reasoning items are kept with
their encrypted content and sent back with the calls they belong to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from autonomy_ctx.formats.base import (
    FIND_TOOLS,
    RESPONSES,
    CallDelta,
    CallStarted,
    ModelReply,
    ReaderEvent,
    RequestOptions,
    StreamReader,
    TextDelta,
    ThinkingDelta,
    WireRequest,
    signature_of,
    tag_signature,
)
from autonomy_ctx.formats.cache_diagnosis import read_cache_miss
from autonomy_ctx.formats.compaction import find_block, place_block, read_placed
from autonomy_ctx.formats.incoming import (
    ReplyParts,
    as_count,
    as_mapping,
    as_mappings,
    as_nonempty_text,
    as_text,
    failure_reason,
    stream_error,
)
from autonomy_ctx.formats.openai import OpenAIFormat, OpenAIWriter, cache_body, cache_marks, read_usage
from autonomy_ctx.formats.outgoing import (
    DOCUMENT_MEDIA_TYPE,
    RequestWriter,
    ToolSpec,
    locate_breakpoints,
    mark_error,
    replace_json_surrogates,
)
from autonomy_ctx.formats.thinking import drop_refused
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import (
    ChatRole,
    ImageContent,
    Message,
    Part,
    TextContent,
    ThinkingContent,
    ToolCall,
    new_id,
)

# Under this name a call keeps the reasoning that came between it and the call before.
REASONING_ITEMS = "reasoning_items"
# The kinds of items that are calls.
_CALLS = ("function_call", "tool_search_call")
_INCOMPLETE_REASONS = {"max_output_tokens": "length", "content_filter": "refused"}
_FINAL_EVENTS = ("response.completed", "response.incomplete", "response.failed")


def responses_reply(body: Mapping[str, Any], new_id: Callable[[], str]) -> ModelReply:
    """Read a whole response."""
    pieces = ReplyParts()
    calls: list[ToolCall] = []
    between: list[Mapping[str, Any]] = []
    refused = False
    for item in as_mappings(body.get("output")):
        match item.get("type"):
            case "message":
                for part in as_mappings(item.get("content")):
                    refused = refused or part.get("type") == "refusal"
                    pieces.add_text(as_text(part.get("text")) or as_text(part.get("refusal")))
            case "reasoning" if not calls:
                told = as_mappings(item.get("summary")) or as_mappings(item.get("content"))
                thought = "\n\n".join(as_text(part.get("text")) for part in told)
                pieces.add_thought(thought, _reasoning_signature(item))
            case "reasoning":
                if _reasoning_signature(item):
                    texts = [as_text(part.get("text")) for part in as_mappings(item.get("summary"))]
                    kept = {name: item[name] for name in ("type", "id", "encrypted_content")}
                    between.append(kept | {"summary": _summary_texts(texts)})
            case "function_call" | "tool_search_call" if _is_ours(item):
                call_id = (
                    as_nonempty_text(item.get("call_id")) or as_nonempty_text(item.get("id")) or new_id()
                )
                extra = {REASONING_ITEMS: [dict(kept) for kept in between]} if between else EMPTY
                given = item.get("arguments")
                is_object = isinstance(given, Mapping)
                arguments = json.dumps(given, ensure_ascii=False) if is_object else as_text(given)
                calls.append(ToolCall(call_id, _call_name(item), arguments, extra))
                between = []
    return ModelReply(
        parts=pieces.parts,
        tool_calls=tuple(calls),
        stop=_find_stop(body, called=bool(calls), refused=refused),
        usage=read_usage(as_mapping(body.get("usage")), "input", "output"),
        model=as_nonempty_text(body.get("model")),
        id=as_nonempty_text(body.get("id")),
        cache_miss=read_cache_miss(body) if body.get("prompt_cache_diagnostics") else None,
    )


# The kind of item, the list in it and the part in that list that the pieces of an event belong to.
_PART_DELTAS = {
    "response.output_text.delta": ("message", "content", "output_text"),
    "response.refusal.delta": ("message", "content", "refusal"),
    "response.reasoning_summary_text.delta": ("reasoning", "summary", "summary_text"),
    "response.reasoning_text.delta": ("reasoning", "content", "reasoning_text"),
}


class ResponsesReader:
    """Builds the list of items as it comes; the last event has all of it, if it ever arrives."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._items: dict[int, dict[str, Any]] = {}
        self._response: dict[str, Any] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[ReaderEvent]:
        """Read one event; an error in the middle of a stream is raised."""
        kind = as_text(data.get("type")) or event or ""
        if kind == "error" or (not data.get("type") and data.get("error")):
            raise stream_error(data.get("error") or data)
        if kind in ("response.created", "response.in_progress", *_FINAL_EVENTS):
            self._response = dict(as_mapping(data.get("response")))
        if kind == "response.failed":
            raise stream_error(self._response.get("error"))
        at = as_count(data.get("output_index"))
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = dict(as_mapping(data.get("item")))
            fresh = at not in self._items
            self._items[at] = item
            if fresh and item.get("type") in _CALLS and _is_ours(item):
                return [CallStarted(as_nonempty_text(item.get("call_id")), _call_name(item))]
            return []
        return self._delta(kind, at, data)

    @property
    def output(self) -> list[Mapping[str, Any]]:
        """The items that have come."""
        # Some servers leave the output of the last event empty.
        return as_mappings(self._response.get("output")) or [self._items[at] for at in sorted(self._items)]

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        return responses_reply({**self._response, "output": self.output}, self._new_id)

    def _delta(self, kind: str, at: int, data: Mapping[str, Any]) -> list[ReaderEvent]:
        piece = as_text(data.get("delta"))
        if kind in _PART_DELTAS:
            item_type, key, part = _PART_DELTAS[kind]
            self._grow(at, item_type, key, data.get(f"{key}_index"), part, piece)
            event = ThinkingDelta if item_type == "reasoning" else TextDelta
            return [event(piece)] if piece else []
        if kind.startswith("response.function_call_arguments."):
            item = self._items.setdefault(at, {"type": "function_call"})
            is_done, begun = kind.endswith(".done"), as_text(item.get("arguments"))
            item["arguments"] = as_text(data.get("arguments")) if is_done else begun + piece
            if not is_done and piece:
                return [CallDelta(as_nonempty_text(item.get("call_id")), piece)]
        return []

    def _grow(self, at: int, kind: str, key: str, index: Any, part: str, piece: str) -> None:
        """Add a piece to the part of an item that it belongs to."""
        item = self._items.setdefault(at, {"type": kind})
        parts = item[key] = as_mappings(item.get(key))
        number = min(as_count(index), len(parts))
        if number == len(parts):
            parts.append({})
        field = "refusal" if part == "refusal" else "text"
        grown = as_text(parts[number].get(field)) + piece
        parts[number] = {**parts[number], "type": part, field: grown}


def _is_ours(item: Mapping[str, Any]) -> bool:
    """Tell whether a call waits for us: a search for tools may be one that the provider answers."""
    return item.get("type") != "tool_search_call" or item.get("execution") == "client"


def _call_name(item: Mapping[str, Any]) -> str:
    return FIND_TOOLS if item.get("type") == "tool_search_call" else as_text(item.get("name"))


def _reasoning_signature(item: Mapping[str, Any]) -> str | None:
    """Text with which a reasoning item can be sent back; None without encrypted content."""
    encrypted, name = as_nonempty_text(item.get("encrypted_content")), as_nonempty_text(item.get("id"))
    if not encrypted or not name:
        return None
    return tag_signature(RESPONSES, json.dumps({"id": name, "encrypted_content": encrypted}))


def _summary_texts(texts: Iterable[str]) -> list[dict[str, Any]]:
    return [{"type": "summary_text", "text": text} for text in texts]


def _find_stop(body: Mapping[str, Any], *, called: bool, refused: bool) -> str | None:
    match body.get("status"):
        case "completed":
            return "tools" if called else "refused" if refused else "end"
        case "incomplete":
            reason = as_text(as_mapping(body.get("incomplete_details")).get("reason"))
            return _INCOMPLETE_REASONS.get(reason, reason or "incomplete")
        case "failed" | "cancelled" as status:
            return failure_reason(body) or str(status)
    return failure_reason(body)


MIN_OUTPUT_TOKENS = 16
ENCRYPTED_REASONING = "reasoning.encrypted_content"


class ResponsesFormat(OpenAIFormat):
    """Responses. `reasoning_model` None means: as the model's name says."""

    name = "responses"

    def request(self, model: str, messages: Sequence[Message], settings: RequestOptions) -> WireRequest:
        """A request that carries the whole conversation; the server caches prefixes by itself."""
        options = dict(settings.options)
        reasons = self._resolve_reasoning(model, options)
        writer = ResponsesWriter(settings.tools, reasoning_model=reasons)
        block = find_block(messages, RESPONSES, model)
        placed = messages if block is None else place_block(messages, block)
        marks = cache_marks(model, messages, settings.cache)
        items = writer.write(drop_refused(placed, RESPONSES), settings.answered_call_ids, marks)
        body: dict[str, Any] = {"model": model, "input": items, "store": False}
        body |= cache_body(model, settings.cache)
        if reasons:
            # Other models refuse to be asked for it.
            body["include"] = [ENCRYPTED_REASONING]
        if settings.tools:
            body["tools"] = writer.encode_tools()
        if (most := settings.max_tokens) is not None:
            if most < MIN_OUTPUT_TOKENS:
                writer.repairs.append(
                    f"`max_tokens` {most} is sent as {MIN_OUTPUT_TOKENS}, the least there is"
                )
            body["max_output_tokens"] = max(most, MIN_OUTPUT_TOKENS)
        if settings.stream:
            body["stream"] = True
        return replace(writer.request("/responses", body | options), block=block)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        return responses_reply(body, self._new_id)

    def reader(self) -> StreamReader:
        """For a streamed response."""
        return ResponsesReader(self._new_id)


class ResponsesWriter(OpenAIWriter):
    """Messages as items of Responses."""

    text_type = "input_text"
    takes_documents = True

    def __init__(self, tools: Sequence[Mapping[str, Any]] = (), **options: Any) -> None:
        super().__init__(tools, **options)
        names = {self._names.wire_name(str(one["name"])) for one in tools if one.get("defer_loading")}
        # GPT gets these with the result of a search that finds them. They are read by a writer of their own,
        # because `repairs` tells of tools once, after the messages.
        specs = RequestWriter(tools).tool_specs() if names else ()
        self._deferred = {spec.name: spec for spec in specs if spec.name in names}
        self._searches: set[str | None] = set()

    def encode_tools(self) -> list[dict[str, Any]]:
        """The tools of a request; the one that finds deferred tools is sent as the search that GPT knows."""
        return [
            {
                "type": "tool_search",
                "execution": "client",
                "description": spec.description,
                "parameters": spec.parameters,
            }
            if self._deferred and spec.name == FIND_TOOLS
            else _encode_tool(spec)
            for spec in self.tool_specs()
            if spec.name not in self._deferred
        ]

    def write(
        self, messages: Sequence[Message], answered_call_ids: Collection[str] = (), marks: Sequence[int] = ()
    ) -> list[dict[str, Any]]:
        """The messages; `marks` are indexes after which a prefix may be cached."""
        ready = self.repair(messages, answered_call_ids)
        marked = locate_breakpoints(messages, ready, marks)
        items: list[dict[str, Any]] = []
        for at, message in enumerate(ready):
            # An instruction may say nothing.
            made = [item for item in self.message(message) if item.get("content") != ""]
            if not made:
                self.note_omission(message)
            elif at in marked:
                made[-1] = self.mark(made[-1])
            items += made
        return self._drop_dangling_reasoning(items) or [_message_item("user", self.opening_text())]

    def message(self, message: Message, instruction_role: str | None = None) -> list[dict[str, Any]]:
        """One message as items."""
        match message.role:
            case ChatRole.TOOL:
                return [self._result(message)]
            case ChatRole.ASSISTANT:
                return self._assistant(message)
            case ChatRole.USER:
                return [_message_item("user", self.content(message) or self.empty_text(message))]
        return [_message_item(instruction_role or self._instruction_role, self.text_of(message))]

    def image_part(self, url: str, detail: str) -> dict[str, Any]:
        """A part with an image, or with a document."""
        if url.startswith(f"data:{DOCUMENT_MEDIA_TYPE}"):
            return {"type": "input_file", "filename": "document.pdf", "file_data": url}
        return {"type": "input_image", "image_url": url, "detail": detail}

    def _assistant(self, message: Message) -> list[dict[str, Any]]:
        if placed := read_placed(message):
            return placed
        items: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, ThinkingContent):
                reasoning = _restore_reasoning(part)
                items += [reasoning] if reasoning else []
                continue
            if isinstance(part, ImageContent):
                text = self.image_note(part, "in a message of the assistant")
            else:
                text = part.text
            if text and items and items[-1]["type"] == "message":
                items[-1]["content"] += f"\n{text}"
            elif text:
                items.append(_message_item("assistant", text))
        for call in message.tool_calls:
            kept = as_mappings(call.extra.get(REASONING_ITEMS))
            items += [dict(item) for item in kept if item.get("type") == "reasoning"]
            if self._deferred and call.name == FIND_TOOLS:
                self._searches.add(call.id)
                items.append(_search_item("call", call.id, arguments=self.arguments_object(call)))
                continue
            name, arguments = self.tool_name(call.name), self.arguments_json(call)
            items.append({"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments})
        return items

    def _result(self, message: Message) -> dict[str, Any]:
        if message.tool_call_id in self._searches:
            lines = dict.fromkeys(line.partition(":")[0] for line in message.text.splitlines())
            found = [self._deferred.get(self._names.wire_name(line)) for line in lines]
            tools = [_encode_tool(spec) | {"defer_loading": True} for spec in found if spec is not None]
            return _search_item("output", message.tool_call_id, tools=tools)
        output = self.content(message)
        if isinstance(output, str):
            output = mark_error(message, output)
        elif message.is_error:
            output = [{"type": "input_text", "text": "Error:"}, *output]
        return {"type": "function_call_output", "call_id": message.tool_call_id, "output": output}

    def _drop_dangling_reasoning(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items without reasoning that no answer or call comes after: alone it is refused."""
        kept: list[dict[str, Any]] = []
        leads = False
        for item in reversed(items):
            if item.get("type") != "reasoning":
                leads = item.get("type") in _CALLS or item.get("role") == "assistant"
            elif not leads:
                self.repairs.append("thinking that no answer follows: left out")
                continue
            kept.append(item)
        return kept[::-1]


def _encode_tool(spec: ToolSpec) -> dict[str, Any]:
    # Strict is the default here, and not every schema is fit for it.
    return {"type": "function", **spec._asdict(), "strict": False}


def _search_item(part: str, call_id: str | None, **fields: Any) -> dict[str, Any]:
    """A search for tools, or what it found, where we are who searches."""
    head = {"type": f"tool_search_{part}", "call_id": call_id, "execution": "client"}
    return {**head, **fields, "status": "completed"}


def _message_item(role: str, content: str | list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "message", "role": role, "content": content}


def _restore_reasoning(part: ThinkingContent) -> dict[str, Any] | None:
    """The reasoning item that a thought was, if it was one and its encrypted content is there."""
    signature = signature_of(RESPONSES, part.signature)
    if signature is None:
        return None
    try:
        kept = json.loads(signature)
        item = {"type": "reasoning", "id": kept["id"], "encrypted_content": kept["encrypted_content"]}
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return item | {"summary": _summary_texts([part.text] if part.text else [])}


def responses_items(message: Message) -> list[dict[str, Any]]:
    """One message as input items, without repairs that depend on other messages."""
    return replace_json_surrogates(ResponsesWriter().message(message, message.role.value))  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class InputMessage:
    """A message of a request's input, and the items it was made of."""

    message: Message
    items: Sequence[Mapping[str, Any]]


def read_input(items: Sequence[Mapping[str, Any]]) -> list[InputMessage]:
    """Input items as messages: what the assistant says up to the next result or user is one.

    Items that we have no field for leave a note, such as `[web_search_call]`.
    """
    found: list[InputMessage] = []
    group: list[Mapping[str, Any]] = []

    def end_group() -> None:
        if group:
            reply = responses_reply({"output": [_as_output(item) for item in group]}, new_id)
            content = _join_parts(reply.parts) if reply.parts else None
            found.append(InputMessage(Message("assistant", content, tool_calls=reply.tool_calls), (*group,)))
            group.clear()

    for item in items:
        kind = as_text(item.get("type")) or "message"
        if kind.endswith("_output"):
            end_group()
            content, call_id = _read_content(item.get("output")), as_nonempty_text(item.get("call_id"))
            found.append(InputMessage(Message("tool", content, tool_call_id=call_id), (item,)))
        elif kind == "message" and item.get("role") != "assistant":
            end_group()
            content = _read_content(item.get("content"))
            found.append(InputMessage(Message(as_text(item.get("role")) or "user", content), (item,)))
        else:
            group.append(item)
    end_group()
    return found


def is_plain_item(item: Mapping[str, Any]) -> bool:
    """True if a message has fields for all that an item holds: text, images, calls and results."""
    kind = as_text(item.get("type")) or "message"
    parts = as_mappings(item.get("content")) + as_mappings(item.get("output"))
    known = ("message", "function_call", "function_call_output")
    return kind in known and all(part.get("text") or part.get("image_url") for part in parts)


def _as_output(item: Mapping[str, Any]) -> Mapping[str, Any]:
    """An item of the assistant as a reply has it."""
    kind = as_text(item.get("type")) or "message"
    if kind in ("reasoning", "function_call") or (kind == "tool_search_call" and _is_ours(item)):
        return item
    if kind == "custom_tool_call":
        return {
            **item,
            "type": "function_call",
            "arguments": json.dumps({"input": as_text(item.get("input"))}),
        }
    if kind == "message" and isinstance(item.get("content"), list):
        return {**item, "type": kind}
    if kind != "message" and item.get("call_id"):
        return {"type": "function_call", "call_id": item["call_id"], "name": kind, "arguments": "{}"}
    text = as_text(item.get("content")) if kind == "message" else f"[{kind}]"
    return {"type": "message", "content": [{"type": "output_text", "text": text}]}


def _read_content(content: Any) -> str | tuple[Part, ...]:
    """Content of a user or a tool."""
    if not isinstance(content, list):
        return as_text(content)
    parts: list[Part] = []
    for part in as_mappings(content):
        if isinstance(part.get("text"), str):
            parts.append(TextContent(part["text"]))
        elif isinstance(part.get("image_url"), str):
            detail = part.get("detail")
            parts.append(ImageContent(part["image_url"], detail if detail in ("low", "high") else "auto"))
        else:
            parts.append(TextContent(f"[{as_text(part.get('type'))}]"))
    return _join_parts(parts)


def _join_parts(parts: Sequence[Part]) -> str | tuple[Part, ...]:
    """One text as a plain string, as most messages have it."""
    [first, *rest] = parts or [TextContent("")]
    return first.text if isinstance(first, TextContent) and not rest else tuple(parts)
