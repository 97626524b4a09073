"""OpenAI's chat completions, also as spoken by compatible servers: requests, whole replies and streamed
replies.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar

from autonomy_ctx.formats.base import (
    CacheFields,
    CallDelta,
    ModelReply,
    ReaderEvent,
    RequestOptions,
    StreamReader,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
)
from autonomy_ctx.formats.incoming import (
    CallDraft,
    ReplyParts,
    as_count,
    as_mapping,
    as_mappings,
    as_nonempty_text,
    as_text,
    failure_reason,
    stream_error,
)
from autonomy_ctx.formats.model_table import find_model
from autonomy_ctx.formats.outgoing import (
    INSTRUCTION_ROLES,
    RequestWriter,
    encode_image,
    locate_breakpoints,
    mark_error,
    replace_json_surrogates,
)
from autonomy_ctx.messages.message import (
    ASSISTANT,
    TOOL,
    USER,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    new_id,
)
from autonomy_ctx.messages.summary import Summary

_STOP_REASONS = {
    "stop": "end",
    "eos": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


class ChatReader:
    """Puts a stream's pieces together: texts in order, calls by their index."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._pieces = ReplyParts()
        # Under its index where there is one; servers that leave it out are told apart by ids.
        self._drafts: list[CallDraft] = []
        self._newest: dict[Hashable, CallDraft] = {}
        self._identified: dict[tuple[Hashable, str], CallDraft] = {}
        self._stop: str | None = None
        self._refused = False
        self._metadata: dict[str, Any] = {}
        self._usage = Usage()
        self._failure: str | None = None

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[ReaderEvent]:
        """Read one chunk; an error in the middle of a stream is raised."""
        if data.get("error"):
            raise stream_error(data["error"])
        self.note_metadata(data)
        events: list[ReaderEvent] = []
        for choice in as_mappings(data.get("choices"))[:1]:
            events += self.add_choice(choice, "delta")
        return events

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        for draft in self._drafts:
            draft.id = draft.id or self._new_id()
        calls = tuple(
            ToolCall(one.id, one.name, "".join(one.arguments), one.extra) for one in self._drafts if one.name
        )
        stop = _STOP_REASONS.get(self._stop or "", self._stop)
        if stop == "end":
            stop = "tools" if calls else "refused" if self._refused else "end"
        return ModelReply(
            parts=self._pieces.parts,
            tool_calls=calls,
            stop=self._failure or stop,
            usage=self._usage,
            model=self._metadata.get("model"),
            id=self._metadata.get("id"),
        )

    def note_metadata(self, body: Mapping[str, Any]) -> None:
        """Note what is not part of the answer: id, model, usage."""
        for name in ("id", "model"):
            if as_nonempty_text(body.get(name)):
                self._metadata[name] = body[name]
        if as_mapping(body.get("usage")):
            self._usage = read_usage(as_mapping(body["usage"]), "prompt", "completion")
        self._failure = failure_reason(body)

    def add_choice(self, choice: Mapping[str, Any], key: str) -> list[ReaderEvent]:
        """Note one choice's message, or the next piece of it."""
        said = as_mapping(choice.get(key))
        self._stop = as_nonempty_text(choice.get("finish_reason")) or self._stop
        events: list[ReaderEvent] = []
        # DeepSeek, vLLM and llama.cpp use the first name, OpenRouter and newer ones the second.
        thought = as_text(said.get("reasoning_content")) or as_text(said.get("reasoning"))
        if thought:
            self._pieces.add_thought(thought)
            events.append(ThinkingDelta(thought))
        for piece in _message_texts(said):
            self._pieces.add_text(piece)
            events.append(TextDelta(piece))
        if as_text(said.get("refusal")):
            self._refused = True
        for call in as_mappings(said.get("tool_calls")):
            draft = self._draft(call)
            function = as_mapping(call.get("function"))
            draft.name = draft.name or as_text(function.get("name"))
            piece = as_text(function.get("arguments"))
            draft.arguments.append(piece)
            if call.get("extra_content"):
                draft.extra["extra_content"] = call["extra_content"]
            if draft.name and not draft.id:
                draft.id = self._new_id()
            if draft.start_sent and piece:
                events.append(CallDelta(draft.id, piece))
            events += draft.start_events()
        return events

    def _draft(self, call: Mapping[str, Any]) -> CallDraft:
        index, call_id = call.get("index"), as_nonempty_text(call.get("id"))
        # Looked up, not searched: an answer may have thousands of calls.
        place = index if isinstance(index, Hashable) else str(index)
        draft = self._newest.get(place)
        # Some servers number all calls 0; another id is another call.
        if draft is not None and call_id and draft.id and call_id != draft.id:
            draft = self._identified.get((place, call_id))
        # Only the first piece of a call without an index has a name.
        begins = index is None and as_text(as_mapping(call.get("function")).get("name"))
        if draft is None or begins:
            draft = self._newest[place] = CallDraft(index=index)
            self._drafts.append(draft)
        draft.id = draft.id or call_id
        if draft.id:
            self._identified[place, draft.id] = draft
        return draft


# What some servers call a part that no reader should see.
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


def _message_texts(said: Mapping[str, Any]) -> list[str]:
    content = said.get("content")
    spoken = [part for part in as_mappings(content) if part.get("type") not in _THOUGHTS]
    texts = [as_text(part.get("text")) for part in spoken] or [as_text(content)]
    return [piece for piece in (*texts, as_text(said.get("refusal"))) if piece]


def read_usage(usage: Mapping[str, Any], prompt: str, answer: str) -> Usage:
    """The tokens of an answer, by the words for the prompt and the answer in the names of the fields."""
    read = as_mapping(usage.get(f"{prompt}_tokens_details"))
    by_life = as_mapping(read.get("cache_write_tokens_details"))
    details = as_mapping(usage.get(f"{answer}_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get(f"{prompt}_tokens")),
        cached_tokens=as_count(read.get("cached_tokens")),
        cache_write_tokens=as_count(read.get("cache_write_tokens")),
        output_tokens=as_count(usage.get(f"{answer}_tokens")),
        long_cache_write_tokens=as_count(by_life.get("ttl_12h_tokens")),
        reasoning_tokens=as_count(details.get("reasoning_tokens")),
    )


# What Google's server in these words attaches to a call, a thought signature, and wants back.
EXTRA_CONTENT = "extra_content"
# Models of OpenAI that think before they answer.
REASONING_MODELS = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d)|codex)(?!\d)")
# Models that refuse to go on from an answer of their own, also behind a server of these words.
_USER_LAST_MODELS = re.compile(r"claude|gemini|nova-|(?:mis|minis|mix|codes|devs|magis|pix)tral")
_SPEAKER_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAIFormat:
    """Chat completions. `reasoning_model` None means: as the model's name says."""

    name = "openai"

    def __init__(self, *, reasoning_model: bool | None = None, new_id: Callable[[], str] = new_id) -> None:
        self.reasoning_model = reasoning_model
        self._new_id = new_id

    def request(self, model: str, messages: Sequence[Message], settings: RequestOptions) -> WireRequest:
        """A request that every server of these words takes; it caches prefixes by itself."""
        options = dict(settings.options)
        reasons = self._resolve_reasoning(model, options)
        writer = ChatWriter(settings.tools, model=model, reasoning_model=reasons)
        marks = cache_marks(model, messages, settings.cache)
        body: dict[str, Any] = {
            "model": model,
            "messages": writer.write(messages, settings.answered_call_ids, marks),
            **cache_body(model, settings.cache),
        }
        if settings.tools:
            body["tools"] = [{"type": "function", "function": spec._asdict()} for spec in writer.tool_specs()]
        if settings.max_tokens is not None:
            body["max_completion_tokens" if reasons else "max_tokens"] = settings.max_tokens
        if settings.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return writer.request("/chat/completions", body | options)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        reader = ChatReader(self._new_id)
        for choice in as_mappings(body.get("choices"))[:1]:
            reader.add_choice(choice, "message")
        reader.note_metadata(body)
        return reader.finish()

    def reader(self) -> StreamReader:
        """For a streamed response."""
        return ChatReader(self._new_id)

    def _resolve_reasoning(self, model: str, options: dict[str, Any]) -> bool:
        """Find out if a model thinks before it answers; `reasoning_model` is taken out of the options."""
        asked = options.pop("reasoning_model", None)
        given = self.reasoning_model if asked is None else asked
        return bool(REASONING_MODELS.match(model.lower())) if given is None else bool(given)


def cache_body(model: str, cache: CacheFields | None) -> dict[str, Any]:
    """The fields of a request for the cache: the conversation's name, and the longer life where asked for."""
    if cache is None:
        return {}
    named = {} if cache.key is None else {"prompt_cache_key": cache.key}
    return named | ({"prompt_cache_options": {"ttl": "12h"}} if cache.is_long and _has_marks(model) else {})


def cache_marks(model: str, messages: Sequence[Message], cache: CacheFields | None) -> list[int]:
    """Messages after which a prefix is worth a mark: the summary, and the last of instructions in a row.

    They stay in place for a whole epoch: what was written at one is read there. At the newest user message or
    result the provider sets one itself, and at instructions behind it none.
    """
    if cache is None or not _has_marks(model):
        return []
    summaries = [at for at, one in enumerate(messages) if isinstance(one, Summary)]
    rules = {at for at, one in enumerate(messages) if one.role in INSTRUCTION_ROLES}.difference(summaries)
    return sorted([*(at for at in rules if at + 1 not in rules), *summaries[-1:]])


def _has_marks(model: str) -> bool:
    """Tell whether a model is known to cache at marks."""
    info = find_model(model)
    return info is not None and info.cache.match == "marks"


class OpenAIWriter(RequestWriter, ABC):
    """The parts of a request that chat completions and Responses write alike."""

    # How a part with text is called.
    text_type: ClassVar[str]

    def __init__(self, tools: Sequence[Mapping[str, Any]] = (), *, reasoning_model: bool = False) -> None:
        super().__init__(tools)
        self._instruction_role = "developer" if reasoning_model else "system"

    def content(self, message: Message) -> str | list[dict[str, Any]]:
        """The content of a user or a tool: a string if it has no images, otherwise a list of parts."""
        if isinstance(message.content, str):
            return message.content
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            if isinstance(part, TextContent) and part.text:
                parts.append({"type": self.text_type, "text": part.text})
            elif isinstance(part, ImageContent):
                encoded = encode_image(part, takes_documents=self.takes_documents)
                if encoded is None:
                    parts.append({"type": self.text_type, "text": self.image_note(part, "of this kind")})
                else:
                    url = encoded.url or f"data:{encoded.media_type};base64,{encoded.data}"
                    parts.append(self.image_part(url, part.inference_detail))
        if all(part["type"] == self.text_type for part in parts):
            return "\n".join(part["text"] for part in parts)
        return parts

    @abstractmethod
    def image_part(self, url: str, detail: str) -> dict[str, Any]:
        """A part with an image."""

    def mark(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message with a mark after its content; an item without content has no place for one."""
        content = message.get("content")
        if not content:
            return message
        parts = [{"type": self.text_type, "text": content}] if isinstance(content, str) else list(content)
        parts[-1] = {**parts[-1], "prompt_cache_breakpoint": {"mode": "explicit"}}
        return {**message, "content": parts}


class ChatWriter(OpenAIWriter):
    """Messages as chat completions has them; `model` decides about what only some servers take."""

    max_id_length = 40
    text_type = "text"

    def __init__(
        self, tools: Sequence[Mapping[str, Any]] = (), *, model: str = "", reasoning_model: bool = False
    ) -> None:
        super().__init__(tools, reasoning_model=reasoning_model)
        self._sends_extra_content = "gemini" in model.lower()
        self._ends_with_user = _USER_LAST_MODELS.search(model.lower()) is not None
        # Images of results: a tool's message holds text only, so a user's after all results shows them.
        self._images: list[dict[str, Any]] = []

    def write(
        self, messages: Sequence[Message], answered_call_ids: Collection[str] = (), marks: Sequence[int] = ()
    ) -> list[dict[str, Any]]:
        """The messages; `marks` are indexes after which a prefix may be cached."""
        ready = self.repair(messages, answered_call_ids)
        marked = locate_breakpoints(messages, ready, marks)
        out: list[dict[str, Any]] = []
        for at, message in enumerate(ready):
            if message.role is TOOL:
                out.append(self._result(message))
                continue
            before = len(out)
            if self._images:
                out += self._take_images()
            out += self._message(message)
            if at in marked and len(out) > before:
                out[-1] = self.mark(out[-1])
        out += self._take_images()
        if self._ends_with_user and out and out[-1]["role"] == "assistant":
            out.append({"role": "user", "content": self.closing_text()})
        return out or [{"role": "user", "content": self.opening_text()}]

    def _message(self, message: Message) -> list[dict[str, Any]]:
        """A message that is no result; none where nothing in it can be sent."""
        if message.role is USER:
            return [self.user(message)]
        text = self.text_of(message)
        if message.role is ASSISTANT and message.tool_calls:
            calls = [self._call(call) for call in message.tool_calls]
            return [{"role": "assistant", "content": text or None, "tool_calls": calls}]
        if not text:
            self.note_omission(message)
            return []
        return [
            {"role": "assistant" if message.role is ASSISTANT else self._instruction_role, "content": text}
        ]

    def user(self, message: Message) -> dict[str, Any]:
        """A message of a user."""
        said = {"role": "user", "content": self.content(message) or self.empty_text(message)}
        # Other spellings of a name are refused, and a speaker's name is not worth a refusal.
        return (
            said | {"name": message.name} if message.name and _SPEAKER_NAME.fullmatch(message.name) else said
        )

    def image_part(self, url: str, detail: str) -> dict[str, Any]:
        """A part with an image."""
        return {"type": "image_url", "image_url": {"url": url, "detail": detail}}

    def _result(self, message: Message) -> dict[str, Any]:
        content = self.content(message)
        if isinstance(content, str):
            text = content
        else:
            text = "\n".join(part["text"] for part in content if part["type"] == "text")
            text = text or "(an image, shown below)"
            self.repairs.append(f"an image in the result of call {message.tool_call_id!r} is shown after it")
            shown = {"type": "text", "text": f"The result of call {message.tool_call_id} shows:"}
            self._images += [shown, *(part for part in content if part["type"] == "image_url")]
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": mark_error(message, text)}

    def _take_images(self) -> list[dict[str, Any]]:
        """A user's message with the images of the results before it."""
        images, self._images = self._images, []
        return [{"role": "user", "content": images}] if images else []

    def _call(self, call: ToolCall) -> dict[str, Any]:
        sent = call_form(call, self.tool_name(call.name), self.arguments_json(call))
        if self._sends_extra_content and call.extra.get(EXTRA_CONTENT):
            sent[EXTRA_CONTENT] = call.extra[EXTRA_CONTENT]
        return sent


def call_form(call: ToolCall, name: str, arguments: str) -> dict[str, Any]:
    """A call in the form of chat completions."""
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def openai_message(message: Message) -> dict[str, Any]:
    """One message in the format of chat completions, without repairs that depend on other messages."""
    writer = ChatWriter()
    if message.role is USER:
        return replace_json_surrogates(writer.user(message))  # type: ignore[no-any-return]
    text = writer.text_of(message)
    made: dict[str, Any] = {"role": message.role.value, "content": text}
    if message.role is TOOL:
        made |= {"tool_call_id": message.tool_call_id, "content": mark_error(message, text)}
    elif message.role is ASSISTANT and message.tool_calls:
        calls = [call_form(call, call.name, writer.arguments_json(call)) for call in message.tool_calls]
        made |= {"content": text or None, "tool_calls": calls}
    return replace_json_surrogates(made)  # type: ignore[no-any-return]
