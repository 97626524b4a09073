"""Makes messages and tools acceptable to every provider before a format writes them.

It pairs each call with exactly one result, gives calls and tools valid and unique ids and names,
replaces broken Unicode and unsupported images, and turns summaries into user messages. Every change is
reported in `repairs`. Names are assigned in the order of the conversation, so a repeated request has
the same prefix.
"""

from __future__ import annotations

import binascii
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, ClassVar, NamedTuple

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.formats.base import WireRequest
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.json_values import validate_json
from autonomy_ctx.messages.message import (
    ASSISTANT,
    TOOL,
    ChatRole,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
)
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.transcript import NEUTRAL_BRACKET, nonce, opening_tag, wrap_untrusted

MAX_NAME_LENGTH = 64
_INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_-]")
_VALID_NAME = re.compile(r"[a-zA-Z0-9_-]+")


class UniqueNames:
    """Gives out names that a provider takes, and none of them twice, also as Google takes them."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, text: str) -> str:
        """The text itself if it will do and is still free, otherwise something like it."""
        stem = name = sanitize_name(text)
        number = self._numbers.get(stem, 2)
        while not self._used.isdisjoint(forms := _wire_forms(name)):
            suffix = f"-{number}"
            name = stem[: MAX_NAME_LENGTH - len(suffix)] + suffix
            number += 1
        self._numbers[stem] = number
        self._used.update(forms)
        return name


class CallIds:
    """Ids of calls as a provider takes them, none of them twice in a request.

    An id that has to change gets a mark made from itself: it stays the same when a window begins later.
    """

    def __init__(self, max_length: int = MAX_NAME_LENGTH) -> None:
        self._max_length = max_length
        self._used: set[str] = set()
        self._numbers: dict[str, int] = {}

    def new(self, call_id: str) -> str:
        """The id itself if it will do and is still free, otherwise something like it."""
        fits = _VALID_NAME.fullmatch(call_id) and len(call_id) <= self._max_length
        free, number = call_id if fits else self._hashed_id(call_id), self._numbers.get(call_id, 1)
        while free in self._used:
            number += 1
            free = self._hashed_id(f"{call_id} {number}")
        self._numbers[call_id] = number
        self._used.add(free)
        return free

    def _hashed_id(self, call_id: str) -> str:
        mark = sha256(call_id.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return f"{_INVALID_CHARACTERS.sub('_', call_id)[: self._max_length - 9]}_{mark}"


class ToolNames:
    """Names of tools on the wire; the tools on offer choose first, the well-named before all."""

    def __init__(self, offered: Iterable[str]) -> None:
        self._names: dict[str, str] = {}
        self._distinct = UniqueNames()
        for name in sorted(offered, key=lambda name: sanitize_name(name) != name):
            self.wire_name(name)

    def wire_name(self, name: str) -> str:
        """The name on the wire, always the same for the same tool."""
        if name not in self._names:
            self._names[name] = self._distinct.new(name)
        return self._names[name]


def sanitize_name(text: str) -> str:
    """The text in letters, digits, `_` and `-`, at least one and at most 64."""
    return _INVALID_CHARACTERS.sub("_", text)[:MAX_NAME_LENGTH] or "_"


def google_tool_name(name: str) -> str:
    """A tool's name as Google takes it: with a letter or `_` first."""
    return name if name[0].isalpha() or name[0] == "_" else f"_{name[:63]}"


def _wire_forms(name: str) -> tuple[str, str]:
    """A name as most providers take it, and as Google does."""
    return name, google_tool_name(name)


def original_tool_names(offered: Iterable[str]) -> dict[str, str]:
    """The own names of tools by those they have on the wire, for those that differ."""
    offered = list(offered)
    names = ToolNames(offered)
    sent = [(form, name) for name in offered for form in _wire_forms(names.wire_name(name))]
    return {form: name for form, name in sent if form != name}


RAW_ARGUMENTS_KEY = "_raw"
DOCUMENT_MEDIA_TYPE = "application/pdf"
IMAGE_MEDIA_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:([\w.+/-]+)(?:;[\w=.-]+)*;base64,", re.IGNORECASE)
_WEB_URL = re.compile(r"https?://\S+", re.IGNORECASE)


class EncodedImage(NamedTuple):
    """An image that a provider takes: its kind and bytes as base64, or a URL of the web."""

    media_type: str = ""
    data: str = ""
    url: str = ""


def replace_surrogates(text: str) -> str:
    """The text without lone halves of characters, which UTF-8 cannot hold."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def replace_json_surrogates(value: Any) -> Any:
    """A copy of a JSON value with well-formed text everywhere."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, Mapping):
        return {replace_surrogates(key): replace_json_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [replace_json_surrogates(inner) for inner in value]
    return value


def decode_arguments(call: ToolCall) -> dict[str, Any] | None:
    """The arguments of a call as a JSON object; None when they are something else."""
    try:
        # Checked too: JSON text can hold NaN, numbers beyond a float, and nesting without end.
        arguments: dict[str, Any] = replace_json_surrogates(
            validate_json(call.parse_arguments(), "arguments")
        )
    except (InvalidMessage, RecursionError):
        return None
    return arguments


def arguments_text(value: Any) -> str:
    """The arguments of a call as JSON text; text that is not JSON stays unchanged."""
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            return str(value)
    return json.dumps({} if value is None else value, ensure_ascii=False)


def encode_image(image: ImageContent, *, takes_documents: bool = False) -> EncodedImage | None:
    """The image, or a document, as a provider takes it; None when it is of no kind that any takes."""
    if _WEB_URL.fullmatch(image.image):
        return EncodedImage(url=image.image)
    head = _DATA_URL.match(image.image)
    if head is None:
        return None
    media_type = head[1].lower().replace("image/jpg", "image/jpeg")
    data = "".join(image.image[head.end() :].split())
    is_known = media_type in IMAGE_MEDIA_TYPES or (takes_documents and media_type == DOCUMENT_MEDIA_TYPE)
    if not is_known or not is_base64(data):
        return None
    return EncodedImage(media_type=media_type, data=data)


def is_base64(data: str) -> bool:
    """True for base64 of at least one byte."""
    try:
        return bool(binascii.a2b_base64(data, strict_mode=True))
    except ValueError:
        return False


OPENING_TEXT = "(The conversation starts here.)"
CLOSING_TEXT = "(Go on.)"
EMPTY_MESSAGE_TEXT = "(empty message)"
SYSTEM_NOTE_TAG = "system-note"
_NOTE_TAG_PATTERN = re.compile(opening_tag(SYSTEM_NOTE_TAG), re.IGNORECASE)
INSTRUCTION_ROLES = (ChatRole.SYSTEM, ChatRole.DEVELOPER)


class ToolSpec(NamedTuple):
    """A tool in a form that every provider can describe."""

    name: str
    description: str
    parameters: dict[str, Any]


class RequestWriter:
    """Writes one request; what had to be changed for the provider is listed in `repairs`.

    What all providers need is here. Each format has a subclass that writes messages in its words.
    """

    # The longest id of a call that the provider takes.
    max_id_length: ClassVar[int] = MAX_NAME_LENGTH
    # Whether a PDF may stand where an image may.
    takes_documents: ClassVar[bool] = False

    def __init__(self, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        self.repairs: list[str] = []
        self._tools = tools
        self._names = ToolNames(str(tool["name"]) for tool in tools)

    def repair(self, messages: Sequence[Message], answered_call_ids: Collection[str]) -> list[Message]:
        """The messages as `repair_messages` makes them."""
        ready = repair_messages(
            messages, answered_call_ids=answered_call_ids, max_id_length=self.max_id_length
        )
        self.repairs += ready.repairs
        return ready.messages

    def tool_specs(self) -> list[ToolSpec]:
        """Tools with names that providers take, each once, and with a schema for an object."""
        specs: dict[str, ToolSpec] = {}
        for tool in self._tools:
            name = str(tool["name"])
            if name in specs:
                self.repairs.append(f"the tool `{name}` is offered twice: the first one is sent")
                continue
            schema = {"type": "object", "properties": {}, **(tool.get("parameters") or {})}
            specs[name] = ToolSpec(self.tool_name(name), str(tool.get("description") or ""), schema)
        return list(specs.values())

    def tool_name(self, name: str) -> str:
        """A tool's name on the wire."""
        sent = self._names.wire_name(name)
        if sent != name:
            self.repairs.append(f"the tool {name!r} is sent as `{sent}`")
        return sent

    def arguments_object(self, call: ToolCall) -> dict[str, Any]:
        """A call's arguments as an object; what is none is wrapped in one."""
        arguments = decode_arguments(call)
        if arguments is None:
            note = f"the arguments of call {call.id!r} are no JSON object: sent as `{RAW_ARGUMENTS_KEY}`"
            self.repairs.append(note)
            return {RAW_ARGUMENTS_KEY: call.arguments}
        return arguments

    def arguments_json(self, call: ToolCall) -> str:
        """A call's arguments as the text of an object, unchanged where it is one."""
        arguments = self.arguments_object(call)
        # Half a character may hide in an escape; written anew, it is gone.
        if arguments and RAW_ARGUMENTS_KEY not in arguments and "\\u" not in call.arguments:
            return call.arguments
        return json.dumps(arguments, ensure_ascii=False) if arguments else "{}"

    def text_of(self, message: Message) -> str:
        """A message's text for a place that takes nothing else: images are mentioned, thinking is not."""
        if type(message.content) is str:
            return message.content
        texts: list[str] = []
        for part in message.parts:
            if isinstance(part, TextContent) and part.text:
                texts.append(part.text)
            elif isinstance(part, ImageContent):
                texts.append(self.image_note(part, f"in a message of the {message.role.value}"))
        return "\n".join(texts)

    def image_note(self, image: ImageContent, where: str) -> str:
        """A text that replaces an image which cannot be shown there."""
        self.repairs.append(f"an image {where} cannot be carried: replaced by a note")
        return "[image]" if image.image.startswith("data:") else f"[image: {image.image}]"

    def note_omission(self, message: Message) -> None:
        """Say that a message is not sent because nothing in it can be."""
        self.repairs.append(f"message {message.id!r} has nothing that can be sent: left out")

    def empty_text(self, message: Message) -> str:
        """Text of a user who says nothing: providers refuse blank messages, and the turn must stay."""
        self.repairs.append(f"message {message.id!r} is empty: sent as a note that says so")
        return EMPTY_MESSAGE_TEXT

    def opening_text(self) -> str:
        """A user's message to begin with, where there is none."""
        self.repairs.append(
            "the conversation does not start with a user's message: a neutral one was put there"
        )
        return OPENING_TEXT

    def closing_text(self) -> str:
        """A final user message, because many models refuse a request that ends with their own answer."""
        self.repairs.append(
            "the conversation ends with the assistant's message: a neutral one was put after it"
        )
        return CLOSING_TEXT

    def request(self, path: str, body: dict[str, Any]) -> WireRequest:
        """A request; each repair is listed once."""
        return WireRequest(path=path, body=body, repairs=tuple(dict.fromkeys(self.repairs)))


def mark_error(message: Message, text: str) -> str:
    """A result's text, marked as an error for providers that have no flag for it."""
    return f"Error: {text}" if message.is_error and not text.startswith("Error: ") else text


def system_note(text: str) -> str:
    """A text of the system in the middle of a conversation, for providers that take none there.

    Before the conversation it would change the beginning of every request, with all that is cached.
    """
    return f"<{SYSTEM_NOTE_TAG}>\n{neutralize_notes(text)}\n</{SYSTEM_NOTE_TAG}>"


def neutralize_notes(text: str) -> str:
    """Text of a user or a tool that cannot pass for a note of the system."""
    return _NOTE_TAG_PATTERN.sub(NEUTRAL_BRACKET, text)


def encode_request(body: Mapping[str, Any]) -> str:
    """A body as it is sent: well-formed text everywhere."""
    text = json.dumps(
        body, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_encode_mapping
    )
    return replace_surrogates(text)


def _encode_mapping(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")
    return dict(value)


INTERRUPTED_RESULT = "interrupted: there is no result of this call"
HIDDEN_RESULT = "not shown: this call has a result, which is left out here"
SUMMARY_LABEL = "summary"


class RepairedMessages(NamedTuple):
    """Messages that a format can write one by one, and the repairs that were made."""

    messages: list[Message]
    repairs: tuple[str, ...] = ()


def repair_messages(
    messages: Sequence[Message],
    *,
    answered_call_ids: Collection[str] = (),
    max_id_length: int = MAX_NAME_LENGTH,
) -> RepairedMessages:
    """The messages with every call answered once, right after it; a summary as a record, not a rule.

    Each call has an id that providers take and that no other call has. `answered_call_ids` are ids, as memory
    has them, of calls whose results are known to exist although they are not among the messages.
    """
    repairs: list[str] = []
    results = _results_by_call(messages, repairs)
    ids = CallIds(max_id_length)
    renamed: list[str] = []
    out: list[Message] = []
    for index, message in enumerate(messages):
        role = message.role
        if role is TOOL:
            continue
        if role is not ASSISTANT or not message.tool_calls:
            out.append(summary_record(message) if isinstance(message, Summary) else message)
            continue
        calls = _assign_call_ids(message, ids, renamed)
        same = calls == message.tool_calls
        out.append(message if same else replace(message, tool_calls=calls))
        for call, own in zip(calls, message.tool_calls, strict=True):
            # Of calls with one id in a message, the first has the result.
            found = results.pop((index, own.id or ""), None)
            found = found or _missing_result(call, own, answered_call_ids, repairs)
            name = found.name or call.name
            is_linked = found.tool_call_id == call.id and found.name == name
            out.append(found if is_linked else replace(found, tool_call_id=call.id, name=name))
    return RepairedMessages(out, tuple(repairs + renamed))


def locate_breakpoints(
    messages: Sequence[Message], ready: Sequence[Message], breakpoints: Collection[int]
) -> list[int]:
    """Which of the prepared messages the breakpoints come after.

    Preparing moves and drops results but keeps the order of all others, so those are counted.
    """
    if not breakpoints:
        return []
    spoken = [at for at, message in enumerate(ready) if message.role is not TOOL]
    places: list[int] = []
    for index in sorted(set(breakpoints)):
        if not 0 <= index < len(messages):
            continue
        count = sum(message.role is not TOOL for message in messages[: index + 1])
        if not count:
            continue
        at = spoken[count - 1]
        if messages[index].role is TOOL:
            # After all results of these calls: a cut among them would part what belongs together.
            at = spoken[count] - 1 if count < len(spoken) else len(ready) - 1
        places.append(at)
    return places


def _results_by_call(messages: Sequence[Message], repairs: list[str]) -> dict[tuple[int, str], Message]:
    """Results by the index of the message that called, and the call's id; the latest of several counts."""
    calls: dict[str, int] = {}
    results: dict[tuple[int, str], Message] = {}
    for index, message in enumerate(messages):
        role = message.role
        if role is ASSISTANT:
            for call in message.tool_calls:
                if call.id:
                    calls[call.id] = index
        elif role is TOOL:
            name = message.tool_call_id or ""
            if name not in calls:
                repairs.append(f"a result for {message.tool_call_id!r} has no call before it: left out")
                continue
            if (calls[name], name) in results:
                repairs.append(f"call {name!r} was answered twice: the later result is shown")
            results[calls[name], name] = message
    return results


def _assign_call_ids(message: Message, ids: CallIds, renamed: list[str]) -> tuple[ToolCall, ...]:
    """The calls of a message, all with an id of their own: providers pair calls and results by it."""
    calls: list[ToolCall] = []
    for number, call in enumerate(message.tool_calls):
        known = call.id or f"call-{message.id}-{number}"
        sent = ids.new(known)
        if sent != known:
            renamed.append(f"the call {known!r} is sent as {sent!r}")
        calls.append(call if sent == call.id else replace(call, id=sent))
    return tuple(calls)


def _missing_result(
    call: ToolCall, own: ToolCall, answered_call_ids: Collection[str], repairs: list[str]
) -> Message:
    """Message in the place of a result."""
    name = own.id or call.id
    if own.id is not None and own.id in answered_call_ids:
        repairs.append(f"the result of call {name!r} of `{call.name}` is not in the context: said so")
        return Message("tool", HIDDEN_RESULT)
    repairs.append(f"call {name!r} of `{call.name}` has no result: answered as interrupted")
    return Message("tool", INTERRUPTED_RESULT, is_error=True)


def summary_record(summary: Summary) -> Message:
    """A summary as data between marks, for a user's message: what was said must not become a rule.

    One part for each segment and one for the facts, with marks of their own: those before a new one stay
    the same, and with them what a provider has cached.
    """
    parts = [TextContent(wrap_untrusted(SUMMARY_LABEL, text, nonce(text))) for text in summary.texts]
    return Message(summary.display_role, parts, id=summary.id, created_at=summary.created_at)


def model_dict(message: Message) -> dict[str, Any]:
    """The dict that a model of the user's own is shown: a summary as a record, others in their dict form."""
    if not isinstance(message, Summary):
        return wire.to_dict(message)
    record = summary_record(message)
    return {"role": record.role.value, "content": {"text": record.text, "type": "text"}}
