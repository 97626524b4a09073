"""Replies of chat completions, whole or in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from autonomy_ctx.items.formats.base import (
    ONLY_MESSAGES,
    Asking,
    ModelReply,
    Request,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
)
from autonomy_ctx.items.formats.incoming import (
    CallDraft,
    Pieces,
    broken_off,
    count,
    entries,
    failure,
    fields,
    text,
    word,
)
from autonomy_ctx.items.formats.outgoing import (
    INSTRUCTING,
    ToolNames,
    arguments_json,
    closing,
    error_text,
    image_note,
    left_out,
    nothing_said,
    opening,
    picture_of,
    prepared,
    sent_name,
    text_of,
    tool_names,
    tool_specs,
    written,
)
from autonomy_ctx.items.message import ChatRole, ImageContent, Message, TextContent, ToolCall, new_id

_STOPS = {
    "stop": "end",
    "eos": "end",
    "tool_calls": "tools",
    "function_call": "tools",
    "length": "length",
    "content_filter": "refused",
}


def chat_reply(body: Mapping[str, Any], new_id: Callable[[], str]) -> ModelReply:
    """What a whole response says."""
    reader = ChatReader(new_id)
    for choice in entries(body.get("choices"))[:1]:
        reader.take(choice, "message")
    reader.told(body)
    return reader.finish()


class ChatReader:
    """Puts a stream's pieces together: texts in order, calls by their index."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._pieces = Pieces()
        # Under its index where there is one; servers that leave it out are told apart by ids.
        self._drafts: list[CallDraft] = []
        self._stop: str | None = None
        self._refused = False
        self._about: dict[str, Any] = {}
        self._usage = Usage()
        self._failure: str | None = None

    def feed(self, data: Mapping[str, Any], event: str | None = None) -> list[StreamEvent]:
        """What one chunk says; an error in the middle of a stream is raised."""
        if data.get("error"):
            raise broken_off(data["error"])
        self.told(data)
        events: list[StreamEvent] = []
        for choice in entries(data.get("choices"))[:1]:
            events += self.take(choice, "delta")
        return events

    def finish(self) -> ModelReply:
        """The reply, with what came when the stream ended too early."""
        for draft in self._drafts:
            draft.id = draft.id or self._new_id()
        calls = tuple(draft.call() for draft in self._drafts if draft.name)
        stop = _STOPS.get(self._stop or "", self._stop)
        if stop == "end":
            stop = "tools" if calls else "refused" if self._refused else "end"
        return ModelReply(
            parts=self._pieces.parts,
            tool_calls=calls,
            stop=self._failure or stop,
            usage=self._usage,
            model=self._about.get("model"),
            id=self._about.get("id"),
        )

    def told(self, body: Mapping[str, Any]) -> None:
        """Note what is not part of the answer: id, model, usage."""
        for name in ("id", "model"):
            if word(body.get(name)):
                self._about[name] = body[name]
        if fields(body.get("usage")):
            self._usage = _usage(fields(body["usage"]))
        self._failure = failure(body)

    def take(self, choice: Mapping[str, Any], key: str) -> list[StreamEvent]:
        """Note one choice's message, or the next piece of it."""
        said = fields(choice.get(key))
        self._stop = word(choice.get("finish_reason")) or self._stop
        events: list[StreamEvent] = []
        # DeepSeek, vLLM and llama.cpp use the first name, OpenRouter and newer ones the second.
        thought = text(said.get("reasoning_content")) or text(said.get("reasoning"))
        if thought:
            self._pieces.add_thought(thought)
            events.append(ThinkingDelta(thought))
        for piece in _texts(said):
            self._pieces.add_text(piece)
            events.append(TextDelta(piece))
        if text(said.get("refusal")):
            self._refused = True
        for call in entries(said.get("tool_calls")):
            draft = self._draft(call)
            function = fields(call.get("function"))
            draft.id = draft.id or word(call.get("id"))
            draft.name = draft.name or text(function.get("name"))
            draft.arguments.append(text(function.get("arguments")))
            if call.get("extra_content"):
                draft.extra["extra_content"] = call["extra_content"]
            if draft.name and not draft.id:
                draft.id = self._new_id()
            events += draft.started()
        return events

    def _draft(self, call: Mapping[str, Any]) -> CallDraft:
        index, call_id = call.get("index"), word(call.get("id"))
        for draft in reversed(self._drafts):
            # Some servers number all calls 0; another id is another call.
            other = call_id and draft.id and call_id != draft.id
            if not other and draft.index == index and (index is not None or not _begins(call)):
                return draft
        self._drafts.append(CallDraft(index=index))
        return self._drafts[-1]


def _begins(call: Mapping[str, Any]) -> bool:
    """Whether a piece without an index is the first of its call: only that one has a name."""
    return bool(text(fields(call.get("function")).get("name")))


# What some servers call a part that no reader should see.
_THOUGHTS = ("thinking", "redacted_thinking", "reasoning")


def _texts(said: Mapping[str, Any]) -> list[str]:
    content = said.get("content")
    spoken = [part for part in entries(content) if part.get("type") not in _THOUGHTS]
    texts = [text(part.get("text")) for part in spoken] or [text(content)]
    return [piece for piece in (*texts, text(said.get("refusal"))) if piece]


def _usage(usage: Mapping[str, Any]) -> Usage:
    read = fields(usage.get("prompt_tokens_details"))
    return Usage(
        input_tokens=count(usage.get("prompt_tokens")),
        cached_tokens=count(read.get("cached_tokens")),
        cache_write_tokens=count(read.get("cache_write_tokens")),
        output_tokens=count(usage.get("completion_tokens")),
    )


LONGEST_ID = 40
# What Google's server in these words attaches to a call, a thought signature, and wants back.
ATTACHED = "extra_content"
_REASONING = re.compile(r"(?:.*/)?(?:o\d|gpt-(?:[5-9]|\d\d)|codex)(?!\d)")
# Models that refuse to go on from an answer of their own, also behind a server of these words.
_USER_LAST = re.compile(r"claude|gemini|nova-|(?:mis|minis|mix|codes|devs|magis|pix)tral")
_SPEAKER = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class OpenAIFormat:
    """Chat completions. `reasoning_model` None means: as the model's name says."""

    name = "openai"

    def __init__(self, *, reasoning_model: bool | None = None, new_id: Callable[[], str] = new_id) -> None:
        self.reasoning_model = reasoning_model
        self._new_id = new_id

    def request(self, model: str, messages: Sequence[Message], asked: Asking = ONLY_MESSAGES) -> Request:
        """A request that every server of these words takes; it caches prefixes by itself."""
        options = dict(asked.options)
        reasons = reasons_here(model, options, self.reasoning_model)
        repairs: list[str] = []
        names = tool_names(asked.tools)
        body: dict[str, Any] = {
            "model": model,
            "messages": openai_messages(
                messages,
                repairs,
                names=names,
                reasoning_model=reasons,
                attached="gemini" in model.lower(),
                closed=bool(_USER_LAST.search(model.lower())),
                answered=asked.answered,
            ),
        }
        if asked.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": spec.name,
                        "description": spec.description,
                        "parameters": spec.parameters,
                    },
                }
                for spec in tool_specs(asked.tools, names, repairs)
            ]
        if asked.max_tokens is not None:
            body["max_completion_tokens" if reasons else "max_tokens"] = asked.max_tokens
        if asked.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return written("/chat/completions", body | options, repairs)

    def reply(self, body: Mapping[str, Any]) -> ModelReply:
        """What a whole response says."""
        return chat_reply(body, self._new_id)

    def reader(self) -> ChatReader:
        """For a streamed response."""
        return ChatReader(self._new_id)


def is_reasoning(model: str) -> bool:
    """Whether the name is that of a model of OpenAI's that thinks before it answers."""
    return bool(_REASONING.match(model.lower()))


def reasons_here(model: str, options: dict[str, Any], usual: bool | None) -> bool:
    """Whether a model thinks before it answers; `reasoning_model` is taken out of the options."""
    asked = options.pop("reasoning_model", None)
    given = usual if asked is None else asked
    return is_reasoning(model) if given is None else bool(given)


def openai_messages(
    messages: Sequence[Message],
    repairs: list[str],
    *,
    names: ToolNames | None = None,
    reasoning_model: bool = False,
    attached: bool = False,
    closed: bool = False,
    answered: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Messages as chat completions take them; `repairs` gets what was mended."""
    ready = prepared(messages, answered=answered, longest_id=LONGEST_ID)
    repairs += ready.repairs
    names = names or ToolNames(())
    out: list[dict[str, Any]] = []
    # Images of results: a tool's message holds text only, so a user's after all results shows them.
    pending: list[dict[str, Any]] = []
    for message in ready.messages:
        if message.role is ChatRole.TOOL:
            out.append(_result(message, pending, repairs))
            continue
        _show(pending, out)
        if message.role is ChatRole.USER:
            out.append(_user(message, repairs))
        elif message.role is ChatRole.ASSISTANT:
            text = text_of(message, repairs)
            calls = [_call(call, names, repairs, attached=attached) for call in message.tool_calls]
            if calls:
                out.append({"role": "assistant", "content": text or None, "tool_calls": calls})
            elif text:
                out.append({"role": "assistant", "content": text})
            else:
                left_out(message, repairs)
        elif message.role in INSTRUCTING:
            text = text_of(message, repairs)
            if text:
                out.append({"role": "developer" if reasoning_model else "system", "content": text})
            else:
                left_out(message, repairs)
    _show(pending, out)
    if closed and out and out[-1]["role"] == "assistant":
        out.append({"role": "user", "content": closing(repairs)})
    return out or [{"role": "user", "content": opening(repairs)}]


def _user(message: Message, repairs: list[str]) -> dict[str, Any]:
    parts = _parts(message, repairs)
    content: Any = parts
    if all(part["type"] == "text" for part in parts):
        content = "\n".join(part["text"] for part in parts) or nothing_said(message, repairs)
    said = {"role": "user", "content": content}
    # Other spellings of a name are refused, and a speaker's name is not worth a refusal.
    return said | {"name": message.name} if message.name and _SPEAKER.fullmatch(message.name) else said


def _result(message: Message, pending: list[dict[str, Any]], repairs: list[str]) -> dict[str, Any]:
    parts = _parts(message, repairs)
    images = [part for part in parts if part["type"] == "image_url"]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    if images:
        repairs.append(f"an image in the result of call {message.tool_call_id!r} is shown after it")
        pending.append({"type": "text", "text": f"The result of call {message.tool_call_id} shows:"})
        pending += images
        text = text or "(an image, shown below)"
    return {"role": "tool", "tool_call_id": message.tool_call_id, "content": error_text(message, text)}


def _show(pending: list[dict[str, Any]], out: list[dict[str, Any]]) -> None:
    if pending:
        out.append({"role": "user", "content": list(pending)})
        pending.clear()


def _parts(message: Message, repairs: list[str]) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, TextContent) and part.text:
            parts.append({"type": "text", "text": part.text})
        elif isinstance(part, ImageContent):
            url = picture_url(part)
            if url:
                shown = {"url": url, "detail": part.inference_detail}
                parts.append({"type": "image_url", "image_url": shown})
            else:
                parts.append({"type": "text", "text": image_note(part, "of this kind", repairs)})
    return parts


def picture_url(image: ImageContent) -> str | None:
    """An image as a URL of the web or a `data:` URL; None when it is neither."""
    picture = picture_of(image)
    if picture is None:
        return None
    return picture.url or f"data:{picture.media_type};base64,{picture.data}"


def _call(call: ToolCall, names: ToolNames, repairs: list[str], *, attached: bool) -> dict[str, Any]:
    sent = {
        "id": call.id,
        "type": "function",
        "function": {
            "name": sent_name(call.name, names, repairs),
            "arguments": arguments_json(call, repairs),
        },
    }
    return sent | {ATTACHED: call.extra[ATTACHED]} if attached and call.extra.get(ATTACHED) else sent
