"""Google's generateContent, for the Gemini API and Vertex: requests, whole replies and streamed replies.
Each event of a stream has the shape of a small whole reply, so one reader serves both.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from autonomy_ctx.formats.base import (
    GOOGLE,
    CallStarted,
    ModelReply,
    RequestOptions,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
    signature_of,
    tag_signature,
)
from autonomy_ctx.formats.blocks import BlockTurn, merge_turns
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
from autonomy_ctx.formats.outgoing import (
    RequestWriter,
    encode_image,
    google_tool_name,
    neutralize_notes,
    system_note,
)
from autonomy_ctx.formats.thinking import drop_refused
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import (
    ChatRole,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    new_id,
)

# Under this name a call keeps the signature that must go back with it.
THOUGHT_SIGNATURE = "thought_signature"
_REFUSAL_REASONS = (
    *("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
_STOP_REASONS = {"STOP": "end", "MAX_TOKENS": "length"} | dict.fromkeys(_REFUSAL_REASONS, "refused")


class GoogleReader:
    """Puts a stream's pieces together."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._pieces = ReplyParts()
        self._calls: list[ToolCall] = []
        self._stop: str | None = None
        self._usage: Mapping[str, Any] = EMPTY
        self._metadata: dict[str, str] = {}

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """Read one event; an error in the middle of a stream is raised."""
        if data.get("error"):
            raise stream_error(data["error"])
        return self.add_body(data)

    def add_body(self, body: Mapping[str, Any]) -> list[StreamEvent]:
        """Note what one response, whole or a piece, says."""
        for name in ("responseId", "modelVersion"):
            if as_nonempty_text(body.get(name)):
                self._metadata[name] = body[name]
        self._usage = as_mapping(body.get("usageMetadata")) or self._usage
        self._stop = failure_reason(body) or self._stop
        if as_nonempty_text(as_mapping(body.get("promptFeedback")).get("blockReason")):
            self._stop = "refused"
        events: list[StreamEvent] = []
        for candidate in as_mappings(body.get("candidates"))[:1]:
            reason = as_nonempty_text(candidate.get("finishReason"))
            self._stop = _STOP_REASONS.get(reason, reason) if reason else self._stop
            for part in as_mappings(as_mapping(candidate.get("content")).get("parts")):
                events += self._part(part)
        return events

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        stop = "tools" if self._stop == "end" and self._calls else self._stop
        return ModelReply(
            parts=self._pieces.parts,
            tool_calls=tuple(self._calls),
            stop=stop,
            usage=_usage(self._usage),
            model=self._metadata.get("modelVersion"),
            id=self._metadata.get("responseId"),
        )

    def _part(self, part: Mapping[str, Any]) -> list[StreamEvent]:
        piece, signature = as_text(part.get("text")), as_nonempty_text(part.get("thoughtSignature"))
        mark = tag_signature(GOOGLE, signature) if signature else None
        called, image = as_mapping(part.get("functionCall")), as_mapping(part.get("inlineData"))
        if called:
            call = self._call(called, signature)
            return [CallStarted(call.id, call.name)]
        if part.get("thought"):
            self._pieces.add_thought(piece, mark)
            return [ThinkingDelta(piece)] if piece else []
        if piece:
            self._pieces.add_text(piece)
        elif image and as_nonempty_text(image.get("data")):
            kind = as_text(image.get("mimeType")) or "image/png"
            self._pieces.add(ImageContent(f"data:{kind};base64,{image['data']}"))
        if mark:
            # A text has no place for it, so it follows as a thought without words.
            self._pieces.add_thought("", mark)
        return [TextDelta(piece)] if piece else []

    def _call(self, called: Mapping[str, Any], signature: str | None) -> ToolCall:
        arguments = json.dumps(called.get("args") or {}, ensure_ascii=False)
        extra = {THOUGHT_SIGNATURE: signature} if signature else EMPTY
        # Older models give no id, and results are paired by it.
        call_id = as_nonempty_text(called.get("id")) or self._new_id()
        self._calls.append(ToolCall(call_id, as_text(called.get("name")), arguments, extra))
        return self._calls[-1]


def _usage(usage: Mapping[str, Any]) -> Usage:
    thoughts = as_count(usage.get("thoughtsTokenCount"))
    return Usage(
        input_tokens=as_count(usage.get("promptTokenCount")) + as_count(usage.get("toolUsePromptTokenCount")),
        cached_tokens=as_count(usage.get("cachedContentTokenCount")),
        output_tokens=as_count(usage.get("candidatesTokenCount")) + thoughts,
        reasoning_tokens=thoughts,
    )


# What Google's guide says to send with a call that another model made.
SKIP_SIGNATURE_CHECK = "skip_thought_signature_validator"
_BASE64_PATTERN = re.compile(r"[A-Za-z0-9+/_-]+={0,2}")
_URL_PATTERN = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://\S+")
_IMAGE_SUBTYPES = {"png": "png", "gif": "gif", "webp": "webp", "heic": "heic", "heif": "heif", "bmp": "bmp"}

GooglePart: TypeAlias = dict[str, Any]
_SIGNATURE_MODELS = re.compile(r"gemini-(?:[3-9]|\d\d)")


class GoogleContents(NamedTuple):
    """The contents, and the text of the system instruction if there is one."""

    contents: list[dict[str, Any]]
    system: str | None


class GoogleWriter(RequestWriter):
    """Messages as contents. With `signatures_required`, calls that another model made are marked as such."""

    def __init__(self, tools: Sequence[Mapping[str, Any]] = (), *, signatures_required: bool = False) -> None:
        super().__init__(tools)
        self._signatures_required = signatures_required
        # Images of results come after all results of the same calls.
        self._images: list[GooglePart] = []

    def write(self, messages: Sequence[Message], answered_call_ids: Collection[str] = ()) -> GoogleContents:
        """All messages of a request."""
        system: list[str] = []
        turns: list[BlockTurn[GooglePart]] = []
        called: dict[str | None, str] = {}
        for message in self.repair(messages, answered_call_ids):
            if message.role is ChatRole.TOOL:
                turns.append(BlockTurn("user", [self.result(message, called[message.tool_call_id])]))
                continue
            turns += self._take_images()
            if message.role is ChatRole.USER:
                said = self.user_parts(message)
                turns.append(BlockTurn("user", said or [{"text": self.empty_text(message)}]))
            elif message.role is ChatRole.ASSISTANT:
                wire_name = self._names.wire_name
                called = {call.id: google_tool_name(wire_name(call.name)) for call in message.tool_calls}
                told = self.model_parts(message)
                turns.append(BlockTurn("model", told))
                if not told:
                    self.note_omission(message)
            elif (text := self.text_of(message)) and turns:
                turns.append(BlockTurn("user", [{"text": system_note(text)}]))
            elif text:
                system.append(text)
        merged = merge_turns([*turns, *self._take_images()])
        turns = [turn for turn in merged if not all(part.get("thought") for part in turn.blocks)]
        if len(turns) < len(merged):
            self.repairs.append("thinking that no answer follows: left out")
            turns = merge_turns(turns)
        if not turns or turns[0].role == "model":
            turns.insert(0, BlockTurn("user", [{"text": self.opening_text()}]))
        if turns[-1].role == "model":
            turns.append(BlockTurn("user", [{"text": self.closing_text()}]))
        contents = [{"role": turn.role, "parts": turn.blocks} for turn in turns]
        return GoogleContents(contents, "\n\n".join(system) or None)

    def _take_images(self) -> list[BlockTurn[GooglePart]]:
        """A turn with the images of the results before it."""
        images, self._images = self._images, []
        return [BlockTurn("user", images)] if images else []

    def user_parts(self, message: Message) -> list[GooglePart]:
        """Parts of a user's message."""
        parts: list[GooglePart] = []
        for part in message.parts:
            if isinstance(part, TextContent) and part.text:
                parts.append({"text": neutralize_notes(part.text)})
            elif isinstance(part, ImageContent):
                parts.append(self._image_part(part))
        return parts

    def model_parts(self, message: Message) -> list[GooglePart]:
        """Parts of a model's message, with its calls."""
        parts: list[GooglePart] = []
        for part in message.parts:
            if isinstance(part, ThinkingContent):
                _append_thought(part, parts)
            elif isinstance(part, ImageContent):
                parts.append(self._image_part(part))
            elif part.text:
                parts.append({"text": part.text})
        for number, call in enumerate(message.tool_calls):
            name = google_tool_name(self.tool_name(call.name))
            called = {"id": call.id, "name": name, "args": self.arguments_object(call)}
            written: GooglePart = {"functionCall": called}
            signature = self._call_signature(call)
            if signature is None and self._signatures_required and number == 0:
                self.repairs.append(f"call {call.id!r} has no thought signature: marked as made elsewhere")
                signature = SKIP_SIGNATURE_CHECK
            parts.append(written | {"thoughtSignature": signature} if signature else written)
        return parts

    def result(self, message: Message, name: str) -> GooglePart:
        """The result of the call of that name; images have no place in it."""
        parts = self.user_parts(message)
        text = "\n".join(part["text"] for part in parts if "text" in part)
        images = [part for part in parts if "text" not in part]
        if images:
            self._images += [{"text": f"The result of call {message.tool_call_id} shows:"}, *images]
        answer = {"error" if message.is_error else "output": text}
        return {"functionResponse": {"id": message.tool_call_id, "name": name, "response": answer}}

    def result_parts(self, message: Message, name: str) -> list[GooglePart]:
        """The result of a call with the images that are shown after it."""
        result = self.result(message, name)
        return [result, *(part for turn in self._take_images() for part in turn.blocks)]

    def _image_part(self, image: ImageContent) -> GooglePart:
        encoded = encode_image(image)
        if encoded is not None and encoded.data:
            return {"inlineData": {"mimeType": encoded.media_type, "data": encoded.data}}
        if _URL_PATTERN.fullmatch(image.image):
            ending = image.image.partition("?")[0].rpartition(".")[2].lower()
            # A type must be given; most pictures are JPEG.
            media_type = f"image/{_IMAGE_SUBTYPES.get(ending, 'jpeg')}"
            return {"fileData": {"mimeType": media_type, "fileUri": image.image}}
        return {"text": self.image_note(image, "of this kind")}

    def _call_signature(self, call: ToolCall) -> str | None:
        signature = call.extra.get(THOUGHT_SIGNATURE)
        if signature is None:
            return None
        is_base64 = isinstance(signature, str) and _BASE64_PATTERN.fullmatch(signature)
        if is_base64 and len(signature.rstrip("=")) % 4 != 1:
            return str(signature)
        self.repairs.append(f"the thought signature of call {call.id!r} is not base64: left out")
        return None


def _append_thought(part: ThinkingContent, parts: list[GooglePart]) -> None:
    """Write a thought down, unless another provider signed it."""
    signature = signature_of(GOOGLE, part.signature)
    if signature is None and part.signature is not None:
        return
    if part.text:
        thought: GooglePart = {"text": part.text, "thought": True}
        parts.append(thought | {"thoughtSignature": signature} if signature else thought)
    elif signature and parts and not parts[-1].keys() & {"thought", "thoughtSignature"}:
        # It came with that part and goes back with it.
        parts[-1]["thoughtSignature"] = signature
    elif signature:
        parts.append({"text": "", "thoughtSignature": signature})


class GoogleFormat:
    """generateContent, of the Gemini API and of Vertex."""

    name = "google"

    def __init__(self, *, new_id: Callable[[], str] = new_id) -> None:
        self._new_id = new_id

    def request(self, model: str, messages: Sequence[Message], settings: RequestOptions) -> WireRequest:
        """A request that the provider takes; it caches prefixes by itself."""
        writer = GoogleWriter(settings.tools, signatures_required=requires_signatures(model))
        made = writer.write(drop_refused(messages, GOOGLE), settings.answered_call_ids)
        body: dict[str, Any] = {"contents": made.contents}
        if made.system:
            body["systemInstruction"] = {"parts": [{"text": made.system}]}
        if settings.tools:
            # Schemas as JSON Schema: the older field knows only a part of it.
            declarations = [
                {
                    "name": google_tool_name(spec.name),
                    "description": spec.description,
                    "parametersJsonSchema": spec.parameters,
                }
                for spec in writer.tool_specs()
            ]
            body["tools"] = [{"functionDeclarations": declarations}]
        body |= settings.options
        if settings.max_tokens is not None:
            configured = settings.options.get("generationConfig") or {}
            body["generationConfig"] = {"maxOutputTokens": settings.max_tokens, **configured}
        place = quote(model if "/" in model else f"models/{model}", safe="/-._~@")
        verb = "streamGenerateContent?alt=sse" if settings.stream else "generateContent"
        return writer.request(f"/{place}:{verb}", body)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        reader = self.reader()
        reader.add_body(body)
        return reader.finish()

    def reader(self) -> GoogleReader:
        """For a streamed response."""
        return GoogleReader(self._new_id)


def requires_signatures(model: str) -> bool:
    """True for the name of a model that refuses calls without a thought signature."""
    return bool(_SIGNATURE_MODELS.search(model.lower()))


def add_signatures(message: Message, signatures: Mapping[str, str | bytes]) -> Message:
    """The message with the signatures, by call id, of its calls that carry none themselves."""
    calls = []
    for call in message.tool_calls:
        found = signatures.get(call.id or "")
        if found is not None and THOUGHT_SIGNATURE not in call.extra:
            text = b64encode(found).decode() if isinstance(found, bytes) else found
            call = replace(call, extra={**call.extra, THOUGHT_SIGNATURE: text})
        calls.append(call)
    return replace(message, tool_calls=tuple(calls)) if calls else message
