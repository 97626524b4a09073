"""OpenAI's chat completions, also as spoken by compatible servers: requests, whole replies and streamed
replies.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any

from autonomy_ctx.formats.base import (
    DEFAULT_REQUEST_OPTIONS,
    CacheFields,
    ModelReply,
    RequestOptions,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireRequest,
)
from autonomy_ctx.formats.incoming import (
    CallDraft,
    PartBuilder,
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
    ToolNames,
    arguments_json,
    build_request,
    closing_text,
    empty_message_text,
    locate_breakpoints,
    mark_error,
    message_text,
    note_omission,
    opening_text,
    repair_messages,
    replace_json_surrogates,
    text_or_parts,
    tool_specs,
    wire_tool_name,
    wire_tool_names,
)
from autonomy_ctx.messages.message import (
    ASSISTANT,
    TOOL,
    USER,
    ChatRole,
    ImageContent,
    Message,
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


def chat_reply(body: Mapping[str, Any], new_id: Callable[[], str]) -> ModelReply:
    """Read a whole response."""
    reader = ChatReader(new_id)
    for choice in as_mappings(body.get("choices"))[:1]:
        reader.add_choice(choice, "message")
    reader.note_metadata(body)
    return reader.finish()


class ChatReader:
    """Puts a stream's pieces together: texts in order, calls by their index."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._pieces = PartBuilder()
        # Under its index where there is one; servers that leave it out are told apart by ids.
        self._drafts: list[CallDraft] = []
        self._newest: dict[Hashable, CallDraft] = {}
        self._identified: dict[tuple[Hashable, str], CallDraft] = {}
        self._stop: str | None = None
        self._refused = False
        self._metadata: dict[str, Any] = {}
        self._usage = Usage()
        self._failure: str | None = None

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """Read one chunk; an error in the middle of a stream is raised."""
        if data.get("error"):
            raise stream_error(data["error"])
        self.note_metadata(data)
        events: list[StreamEvent] = []
        for choice in as_mappings(data.get("choices"))[:1]:
            events += self.add_choice(choice, "delta")
        return events

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        for draft in self._drafts:
            draft.id = draft.id or self._new_id()
        calls = tuple(draft.to_call() for draft in self._drafts if draft.name)
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
            self._usage = _usage(as_mapping(body["usage"]))
        self._failure = failure_reason(body)

    def add_choice(self, choice: Mapping[str, Any], key: str) -> list[StreamEvent]:
        """Note one choice's message, or the next piece of it."""
        said = as_mapping(choice.get(key))
        self._stop = as_nonempty_text(choice.get("finish_reason")) or self._stop
        events: list[StreamEvent] = []
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
            draft.arguments.append(as_text(function.get("arguments")))
            if call.get("extra_content"):
                draft.extra["extra_content"] = call["extra_content"]
            if draft.name and not draft.id:
                draft.id = self._new_id()
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
        if draft is None or (index is None and _begins_call(call)):
            draft = self._newest[place] = CallDraft(index=index)
            self._drafts.append(draft)
        draft.id = draft.id or call_id
        if draft.id:
            self._identified[place, draft.id] = draft
        return draft


def _begins_call(call: Mapping[str, Any]) -> bool:
    """True for the first piece of a call without an index: only that one has a name."""
    return bool(as_text(as_mapping(call.get("function")).get("name")))


# What some servers call a part that no reader should see.
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


def _message_texts(said: Mapping[str, Any]) -> list[str]:
    content = said.get("content")
    spoken = [part for part in as_mappings(content) if part.get("type") not in _THOUGHTS]
    texts = [as_text(part.get("text")) for part in spoken] or [as_text(content)]
    return [piece for piece in (*texts, as_text(said.get("refusal"))) if piece]


def _usage(usage: Mapping[str, Any]) -> Usage:
    read = as_mapping(usage.get("prompt_tokens_details"))
    by_life = as_mapping(read.get("cache_write_tokens_details"))
    details = as_mapping(usage.get("completion_tokens_details"))
    return Usage(
        input_tokens=as_count(usage.get("prompt_tokens")),
        cached_tokens=as_count(read.get("cached_tokens")),
        cache_write_tokens=as_count(read.get("cache_write_tokens")),
        output_tokens=as_count(usage.get("completion_tokens")),
        long_cache_write_tokens=as_count(by_life.get("ttl_12h_tokens")),
        reasoning_tokens=as_count(details.get("reasoning_tokens")),
    )


MAX_CALL_ID_LENGTH = 40
# What Google's server in these words attaches to a call, a thought signature, and wants back.
EXTRA_CONTENT = "extra_content"
_REASONING_MODELS = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d)|codex)(?!\d)")
# Models that refuse to go on from an answer of their own, also behind a server of these words.
_USER_LAST_MODELS = re.compile(r"claude|gemini|nova-|(?:mis|minis|mix|codes|devs|magis|pix)tral")
_SPEAKER_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAIFormat:
    """Chat completions. `reasoning_model` None means: as the model's name says."""

    name = "openai"

    def __init__(self, *, reasoning_model: bool | None = None, new_id: Callable[[], str] = new_id) -> None:
        self.reasoning_model = reasoning_model
        self._new_id = new_id

    def request(
        self,
        model: str,
        messages: Sequence[Message],
        request_options: RequestOptions = DEFAULT_REQUEST_OPTIONS,
    ) -> WireRequest:
        """A request that every server of these words takes; it caches prefixes by itself."""
        options = dict(request_options.options)
        reasons = resolve_reasoning(model, options, self.reasoning_model)
        repairs: list[str] = []
        names = wire_tool_names(request_options.tools)
        body: dict[str, Any] = {
            "model": model,
            "messages": openai_messages(
                messages,
                repairs,
                names=names,
                reasoning_model=reasons,
                send_extra_content="gemini" in model.lower(),
                end_with_user=bool(_USER_LAST_MODELS.search(model.lower())),
                answered_call_ids=request_options.answered_call_ids,
                marks=cache_marks(model, messages, request_options.cache),
            ),
            **cache_body(model, request_options.cache),
        }
        if request_options.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": spec.name,
                        "description": spec.description,
                        "parameters": spec.parameters,
                    },
                }
                for spec in tool_specs(request_options.tools, names, repairs)
            ]
        if request_options.max_tokens is not None:
            body["max_completion_tokens" if reasons else "max_tokens"] = request_options.max_tokens
        if request_options.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return build_request("/chat/completions", body | options, repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """Read a whole response."""
        return chat_reply(body, self._new_id)

    def reader(self) -> ChatReader:
        """For a streamed response."""
        return ChatReader(self._new_id)


def is_reasoning_model(model: str) -> bool:
    """True for the name of a model of OpenAI's that thinks before it answers."""
    return bool(_REASONING_MODELS.match(model.lower()))


def resolve_reasoning(model: str, options: dict[str, Any], usual: bool | None) -> bool:
    """Find out if a model thinks before it answers; `reasoning_model` is taken out of the options."""
    asked = options.pop("reasoning_model", None)
    given = usual if asked is None else asked
    return is_reasoning_model(model) if given is None else bool(given)


def cache_body(model: str, cache: CacheFields | None) -> dict[str, Any]:
    """The fields of a request for the cache: the conversation's name, and the longer life where asked for."""
    if cache is None:
        return {}
    named = {} if cache.key is None else {"prompt_cache_key": cache.key}
    return named | ({"prompt_cache_options": {"ttl": "12h"}} if cache.is_long and _has_marks(model) else {})


def cache_marks(model: str, messages: Sequence[Message], cache: CacheFields | None) -> list[int]:
    """Messages after which a prefix is worth a mark: the last of the first instructions, and the summary.

    Their places are the same for a whole epoch. At the newest user message the provider sets one itself.
    """
    if cache is None or not _has_marks(model):
        return []
    others = (
        at for at, one in enumerate(messages) if isinstance(one, Summary) or one.role not in INSTRUCTION_ROLES
    )
    last_rule = next(others, len(messages)) - 1
    summaries = [at for at, one in enumerate(messages) if isinstance(one, Summary)]
    return [at for at in (last_rule, *summaries[-1:]) if at >= 0]


def _has_marks(model: str) -> bool:
    """Tell whether a model is known to cache at marks."""
    info = find_model(model)
    return info is not None and info.cache.match == "marks"


def mark_content(message: dict[str, Any], text_type: str) -> dict[str, Any]:
    """A message with a mark after its content; an item without content has no place for one."""
    content = message.get("content")
    if not content:
        return message
    parts = [{"type": text_type, "text": content}] if isinstance(content, str) else list(content)
    parts[-1] = {**parts[-1], "prompt_cache_breakpoint": {"mode": "explicit"}}
    return {**message, "content": parts}


def openai_messages(
    messages: Sequence[Message],
    repairs: list[str],
    *,
    names: ToolNames | None = None,
    reasoning_model: bool = False,
    send_extra_content: bool = False,
    end_with_user: bool = False,
    answered_call_ids: Collection[str] = (),
    marks: Sequence[int] = (),
) -> list[dict[str, Any]]:
    """Messages in the format of chat completions; `repairs` lists what was repaired.

    `marks` are indexes of instructions and user messages after which a prefix may be cached.
    """
    ready = repair_messages(messages, answered_call_ids=answered_call_ids, max_id_length=MAX_CALL_ID_LENGTH)
    repairs += ready.repairs
    marked = locate_breakpoints(messages, ready.messages, marks)
    names = names or ToolNames(())
    out: list[dict[str, Any]] = []
    # Images of results: a tool's message holds text only, so a user's after all results shows them.
    pending: list[dict[str, Any]] = []
    for at, message in enumerate(ready.messages):
        role, before = message.role, len(out)
        if role is TOOL:
            out.append(_tool_message(message, pending, repairs))
            continue
        if pending:
            _flush_images(pending, out)
        if role is USER:
            out.append(_user_message(message, repairs))
        elif role is ASSISTANT:
            text = message_text(message, repairs)
            calls = [
                _encode_call(call, names, repairs, send_extra_content=send_extra_content)
                for call in message.tool_calls
            ]
            if calls:
                out.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            elif text:
                out.append({"role": "assistant", "content": text})
            else:
                note_omission(message, repairs)
        elif role in INSTRUCTION_ROLES:
            text = message_text(message, repairs)
            if text:
                out.append({"role": "developer" if reasoning_model else "system", "content": text})
            else:
                note_omission(message, repairs)
        if at in marked and len(out) > before:
            out[-1] = mark_content(out[-1], "text")
    _flush_images(pending, out)
    if end_with_user and out and out[-1]["role"] == "assistant":
        out.append({"role": "user", "content": closing_text(repairs)})
    return out or [{"role": "user", "content": opening_text(repairs)}]


def openai_message(message: Message) -> dict[str, Any]:
    """One message in the format of chat completions, without repairs that depend on other messages."""
    if message.role is ChatRole.USER:
        return replace_json_surrogates(_user_message(message, []))  # type: ignore[no-any-return]
    text = message_text(message, [])
    made: dict[str, Any] = {"role": message.role.value, "content": text}
    if message.role is ChatRole.TOOL:
        made |= {"tool_call_id": message.tool_call_id, "content": mark_error(message, text)}
    elif message.role is ChatRole.ASSISTANT and message.tool_calls:
        calls = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": arguments_json(call, [])},
            }
            for call in message.tool_calls
        ]
        made |= {"content": text or None, "tool_calls": calls}
    return replace_json_surrogates(made)  # type: ignore[no-any-return]


def _user_message(message: Message, repairs: list[str]) -> dict[str, Any]:
    content = _content(message, repairs) or empty_message_text(message, repairs)
    said = {"role": "user", "content": content}
    # Other spellings of a name are refused, and a speaker's name is not worth a refusal.
    return said | {"name": message.name} if message.name and _SPEAKER_NAME.fullmatch(message.name) else said


def _tool_message(message: Message, pending: list[dict[str, Any]], repairs: list[str]) -> dict[str, Any]:
    content = _content(message, repairs)
    if isinstance(content, str):
        text = content
    else:
        text = "\n".join(part["text"] for part in content if part["type"] == "text")
        text = text or "(an image, shown below)"
        repairs.append(f"an image in the result of call {message.tool_call_id!r} is shown after it")
        pending.append({"type": "text", "text": f"The result of call {message.tool_call_id} shows:"})
        pending += [part for part in content if part["type"] == "image_url"]
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": mark_error(message, text)}


def _flush_images(pending: list[dict[str, Any]], out: list[dict[str, Any]]) -> None:
    if pending:
        out.append({"role": "user", "content": list(pending)})
        pending.clear()


def _content(message: Message, repairs: list[str]) -> str | list[dict[str, Any]]:
    return text_or_parts(message, repairs, text_type="text", write_image=_image_part)


def _image_part(url: str, image: ImageContent) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, "detail": image.inference_detail}}


def _encode_call(
    call: ToolCall, names: ToolNames, repairs: list[str], *, send_extra_content: bool
) -> dict[str, Any]:
    sent = {
        "id": call.id,
        "type": "function",
        "function": {
            "name": wire_tool_name(call.name, names, repairs),
            "arguments": arguments_json(call, repairs),
        },
    }
    return (
        sent | {EXTRA_CONTENT: call.extra[EXTRA_CONTENT]}
        if send_extra_content and call.extra.get(EXTRA_CONTENT)
        else sent
    )
