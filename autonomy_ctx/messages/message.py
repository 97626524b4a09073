"""`Message` with its parts, tool calls and roles, and the parsers for every way to write them.

Messages are frozen. Content may be a string, one part or a list of parts (text, image, thinking), also
as dicts in the shapes of the usual providers. A wrong value raises `InvalidMessage` with the path to
the field.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, TypeVar, get_args

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.messages.json_values import EMPTY, freeze, preview, thaw, validate_json

T = TypeVar("T")
ImageDetail: TypeAlias = Literal["auto", "low", "high"]
_TYPE_NAMES: dict[type, str] = {str: "a string", dict: "a dict", Mapping: "a dict"}


def check_type(value: Any, kind: type[T], path: str) -> T:
    """The value; `InvalidMessage` says at which place it must be of another type."""
    if not isinstance(value, kind):
        raise InvalidMessage(path, f"must be {_TYPE_NAMES[kind]}, not {type(value).__name__}")
    return value


@dataclass(frozen=True, slots=True)
class TextContent:
    """A piece of text."""

    text: str
    type: ClassVar[str] = "text"

    def __post_init__(self) -> None:
        check_type(self.text, str, "text")


@dataclass(frozen=True, slots=True)
class ImageContent:
    """An image, as a URL or as a `data:` URL that carries its bytes."""

    image: str
    inference_detail: ImageDetail = "auto"
    type: ClassVar[str] = "image"

    def __post_init__(self) -> None:
        if not isinstance(self.image, str) or not self.image:
            raise InvalidMessage(
                "image", "must be a URL or a `data:` URL; use ImageContent.from_bytes for bytes"
            )
        _parse_detail({"inference_detail": self.inference_detail}, "inference_detail", "image")

    @classmethod
    def from_bytes(cls, data: bytes, media_type: str = "image/png") -> ImageContent:
        """An image whose bytes are in the message itself."""
        return cls(f"data:{media_type};base64,{base64.b64encode(data).decode()}")


@dataclass(frozen=True, slots=True)
class ThinkingContent:
    """The thinking of a model before its answer, with the signature that the provider needs back."""

    text: str
    signature: str | None = None
    redacted: str | None = None
    type: ClassVar[str] = "thinking"

    def __post_init__(self) -> None:
        check_type(self.text, str, "thinking")
        parse_text(self.signature, "signature")
        parse_text(self.redacted, "redacted")
        if self.redacted is not None and (self.text or self.signature is not None):
            raise InvalidMessage("redacted", "must be alone: a redacted block has no text and no signature")


Part: TypeAlias = TextContent | ImageContent | ThinkingContent
Content: TypeAlias = str | Part | tuple[Part, ...] | None

PART_TYPES = (TextContent, ImageContent, ThinkingContent)
_TEXT_TYPES = ("text", "input_text", "output_text", None)


def parse_content(value: Any) -> Content:
    """Content from any of its spellings."""
    if value is None or type(value) is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, list | tuple):
        return tuple(parse_list_part(part, f"content[{index}]") for index, part in enumerate(value))
    if isinstance(value, (*PART_TYPES, dict)):
        return parse_list_part(value, "content")
    raise InvalidMessage("content", f"must be text, a part or a list of parts, not {type(value).__name__}")


def content_to_json(content: Content) -> Any:
    """Content as JSON, in the spelling it was given in: string, one part or list."""
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, tuple):
        return [_part_to_json(part) for part in content]
    return _part_to_json(content)


def content_text(content: Content) -> str:
    """The text a reader would see: no images, no thinking."""
    if isinstance(content, str):
        return content
    if isinstance(content, TextContent):
        return content.text
    if isinstance(content, tuple):
        return "\n".join(part.text for part in content if isinstance(part, TextContent))
    return ""


def content_parts(content: Content) -> tuple[Part, ...]:
    """Content as parts, whatever its spelling."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextContent(content),)
    return content if isinstance(content, tuple) else (content,)


def parse_list_part(value: Any, path: str) -> Part:
    """One part of a list of parts."""
    if isinstance(value, str):
        return TextContent(value)
    if isinstance(value, PART_TYPES):
        return value
    if isinstance(value, dict):
        return _parse_part(value, path)
    raise InvalidMessage(path, f"must be a part with a `type`, not {type(value).__name__}")


def _parse_part(value: dict[str, Any], path: str) -> Part:
    kind = value.get("type")
    if kind in _TEXT_TYPES and "text" in value:
        return TextContent(_require_string(value, "text", path))
    match kind:
        case "image_url":
            inner, at = value.get("image_url"), f"{path}.image_url"
            if isinstance(inner, str):
                return ImageContent(inner)
            if not isinstance(inner, dict):
                raise InvalidMessage(at, "must be a URL or a dict with a `url`")
            return ImageContent(_require_string(inner, "url", at), _parse_detail(inner, "detail", at))
        case "image":
            return _parse_image(value, path)
        case "thinking":
            text = _require_string(value, "text" if "text" in value else "thinking", path)
            return ThinkingContent(text, signature=parse_text(value.get("signature"), f"{path}.signature"))
        case "redacted_thinking":
            return ThinkingContent("", redacted=_require_string(value, "data", path))
        case "text" | "input_text" | "output_text":
            raise InvalidMessage(f"{path}.text", "is missing from a text part")
    if kind is None and "role" in value:
        raise InvalidMessage(path, "is a message, not a part of one; give one message at a time")
    raise InvalidMessage(
        f"{path}.type",
        f"is {preview(kind)}; known are text, image, image_url, thinking and redacted_thinking",
    )


def _parse_image(value: dict[str, Any], path: str) -> ImageContent:
    source = value.get("source")
    if not isinstance(source, dict):
        return ImageContent(
            _require_string(value, "image", path), _parse_detail(value, "inference_detail", path)
        )
    if source.get("type") == "base64":
        media, data = (_require_string(source, name, f"{path}.source") for name in ("media_type", "data"))
        return ImageContent(f"data:{media};base64,{data}")
    return ImageContent(_require_string(source, "url", f"{path}.source"))


def _part_to_json(part: Part) -> dict[str, Any]:
    if isinstance(part, TextContent):
        return {"text": part.text, "type": "text"}
    if isinstance(part, ImageContent):
        return {"type": "image", "image": part.image, "inference_detail": part.inference_detail}
    if part.redacted is not None:
        return {"type": "redacted_thinking", "data": part.redacted}
    signature = {} if part.signature is None else {"signature": part.signature}
    return {"type": "thinking", "thinking": part.text, **signature}


def _require_string(value: dict[str, Any], key: str, path: str) -> str:
    if value.get(key) is None:
        raise InvalidMessage(f"{path}.{key}", "is missing")
    return check_type(value[key], str, f"{path}.{key}")


def _parse_detail(value: dict[str, Any], key: str, path: str) -> ImageDetail:
    detail: ImageDetail = value.get(key, "auto")
    if detail not in get_args(ImageDetail):
        raise InvalidMessage(f"{path}.{key}", "must be auto, low or high")
    return detail


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call: which tool, with which arguments (JSON text), under which id.

    `extra` stays with the call, for example a provider's thought signature.
    """

    id: str | None
    name: str
    arguments: str = ""
    extra: Mapping[str, Any] = EMPTY

    def __post_init__(self) -> None:
        parse_text(self.id, "tool_calls.id")
        check_type(self.name, str, "tool_calls.name")
        if not isinstance(self.arguments, str):
            raise InvalidMessage("tool_calls.arguments", "must be JSON text; use json.dumps on a dict")
        if self.extra is not EMPTY:
            object.__setattr__(self, "extra", parse_extra(self.extra, "tool_calls.extra"))

    def parse_arguments(self) -> dict[str, Any]:
        """The arguments as a dict; empty text means no arguments."""
        if not self.arguments.strip():
            return {}
        try:
            value = json.loads(self.arguments)
        except ValueError as error:
            raise InvalidMessage("tool_calls.arguments", f"of `{self.name}` is not JSON: {error}") from None
        if not isinstance(value, dict):
            raise InvalidMessage(
                "tool_calls.arguments", f"must hold a JSON object, not {type(value).__name__}"
            )
        return value


_CALL_KEYS = frozenset({"id", "type", "function", "name", "arguments", "extra"})


def parse_call(value: Any, path: str) -> ToolCall:
    """A call from a `ToolCall`, the nested OpenAI shape or the flat `{"id", "name"}` shape."""
    if isinstance(value, ToolCall):
        return value
    check_type(value, dict, path)
    inner = check_type(value.get("function", value), dict, f"{path}.function")
    name = _require_string(inner, "name", path if inner is value else f"{path}.function")
    call_id, arguments = parse_text(value.get("id"), f"{path}.id"), inner.get("arguments", "")
    if arguments is None:
        arguments = ""
    elif not isinstance(arguments, str):
        arguments = json.dumps(validate_json(arguments, f"{path}.arguments"), ensure_ascii=False)
    extra = dict(check_type(value.get("extra") or {}, dict, f"{path}.extra"))
    extra |= {key: inner for key, inner in value.items() if key not in _CALL_KEYS}
    return ToolCall(call_id, name, arguments, extra or EMPTY)


def call_to_json(call: ToolCall) -> dict[str, Any]:
    """A call in the nested shape."""
    shape: dict[str, Any] = {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }
    if call.extra:
        shape["extra"] = thaw(call.extra)
    return shape


class ChatRole(StrEnum):
    """The role of a message: who wrote it."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


ROLES: dict[str, ChatRole] = {role.value: role for role in ChatRole}
# For loops over many messages: Python 3.11 takes ten times as long to look up a member of an enum.
ASSISTANT, TOOL, USER = ChatRole.ASSISTANT, ChatRole.TOOL, ChatRole.USER


def now() -> datetime:
    """The current time, always with its zone."""
    return datetime.now(UTC)


def new_id() -> str:
    """A unique id that sorts by time, so that indexes over ids grow at one end."""
    milliseconds = int(now().timestamp() * 1000)
    # Of the system: user code may seed Python's own generator, and a fork would go on with the same numbers.
    return f"{milliseconds << 80 | int.from_bytes(os.urandom(10)):032x}"


@dataclass(frozen=True, slots=True)
class MessageOrigin:
    """Source of a message: a dict form, a row of memory, or both.

    `form` is the dict, so that the message's dict form is exact; only the names of its fields, with spaces
    between them, where the message has all their values. `tokens` is the count of the message, uncalibrated,
    by `counter`, where it is known.
    """

    form: dict[str, Any] | str | None = None
    counter: str | None = None
    tokens: int = 0
    is_stored: bool = False


NO_ORIGIN = MessageOrigin()


@dataclass(frozen=True, slots=True)
class Message:
    """One immutable message. Content may be a string, a part or a list of parts, also as dicts.

    `Message(**message.model_dump())` gives the same message. Two messages are equal when
    everything a reader can see of them is equal.
    """

    role: ChatRole
    content: Content = None
    _: KW_ONLY
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    is_error: bool = False
    id: str = ""
    created_at: datetime = field(default_factory=now)
    agent: str | None = None
    phase: str | None = None
    extra: Mapping[str, Any] = EMPTY
    # Not a field that `dataclasses.replace` passes on: a changed message has another dict form and count.
    _made_from: InitVar[MessageOrigin] = NO_ORIGIN
    _origin: MessageOrigin = field(init=False, compare=False, repr=False)

    if TYPE_CHECKING:
        # The constructor takes more types than the fields have.
        def __init__(
            self,
            role: ChatRole | str,
            content: Content | Mapping[str, Any] | Sequence[Any] = None,
            *,
            tool_calls: Sequence[ToolCall | Mapping[str, Any]] | None = (),
            tool_call_id: str | None = None,
            name: str | None = None,
            is_error: bool = False,
            id: str | None = None,  # noqa: A002  # the field's name
            created_at: datetime | str | float | None = None,
            agent: str | None = None,
            phase: str | None = None,
            extra: Mapping[str, Any] = EMPTY,
            _made_from: MessageOrigin = NO_ORIGIN,
        ) -> None: ...

    def __post_init__(self, _made_from: MessageOrigin) -> None:
        put = object.__setattr__
        put(self, "role", parse_role(self.role))
        if type(self.content) is not str:
            put(self, "content", parse_content(self.content))
        if self.tool_calls != ():
            put(self, "tool_calls", parse_calls(self.tool_calls))
        if self.content is None and not self.tool_calls and self.role is not ASSISTANT:
            raise InvalidMessage("content", "is missing")
        if self.is_error is not False:
            put(self, "is_error", parse_flag(self.is_error, "is_error"))
        for name in ("id", "tool_call_id", "name", "agent", "phase"):
            value = getattr(self, name)
            if value is not None and type(value) is not str:
                put(self, name, parse_text(value, name))
        if not self.id:
            put(self, "id", new_id())
        created: Any = self.created_at
        put(self, "created_at", now() if created is None else parse_time(created, "created_at"))
        if self.extra is not EMPTY:
            put(self, "extra", parse_extra(self.extra, "extra"))
        put(self, "_origin", _made_from)

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def _is_stored(self) -> bool:
        """True for a message of memory: its dict form has the id and time that memory gave it."""
        return self._origin.is_stored

    @property
    def timestamp(self) -> datetime:
        """When it happened."""
        return self.created_at

    @property
    def message_id(self) -> str:
        """Its id."""
        return self.id

    @property
    def text(self) -> str:
        """The text a reader would see: no images, no thinking."""
        return content_text(self.content)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The content as parts, however it was written."""
        return content_parts(self.content)

    def model_dump(self) -> dict[str, Any]:
        """All fields as values that `json.dump` takes."""
        return {
            "role": self.role.value,
            "content": content_to_json(self.content),
            "tool_calls": [call_to_json(call) for call in self.tool_calls],
            "tool_call_id": self.tool_call_id,
            "name": self.name,
            "is_error": self.is_error,
            "id": self.id,
            "created_at": self.created_at.isoformat(),
            "agent": self.agent,
            "phase": self.phase,
            "extra": thaw(self.extra),
        }

    def __copy__(self) -> Message:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Message:
        return self


def parse_role(value: Any) -> ChatRole:
    """A role by its name."""
    role = ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        found = preview(value) if isinstance(value, str | int | float) else f"of type {type(value).__name__}"
        problem = "is missing" if value is None else f"is {found}"
        raise InvalidMessage("role", f"{problem}; it must be one of {', '.join(ROLES)}")
    return role


def check_call_id(message: Message) -> None:
    """Refuse a tool's message that names no call: no format could show it, because it answers nothing."""
    if message.role is TOOL and not message.tool_call_id:
        raise InvalidMessage(
            "tool_call_id", "is missing; a tool's message must have the id of the call that it answers"
        )


def parse_text(value: Any, path: str) -> str | None:
    """A string or None."""
    if value is None or type(value) is str:
        return value
    return str.__str__(check_type(value, str, path))


def parse_flag(value: Any, path: str) -> bool:
    """True or False; None means False."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidMessage(path, f"must be True or False, not {type(value).__name__}")


def parse_extra(value: Any, path: str) -> Mapping[str, Any]:
    """Free-form data as a read-only copy; None means none."""
    if value is None:
        return EMPTY
    check_type(value, Mapping, path)  # type: ignore[type-abstract]
    frozen: Mapping[str, Any] = freeze(validate_json(dict(value), path))
    return frozen or EMPTY


def parse_calls(value: Any) -> tuple[ToolCall, ...]:
    """Tool calls from a list of any of their spellings; None means none."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidMessage("tool_calls", f"must be a list, not {type(value).__name__}")
    return tuple(parse_call(call, f"tool_calls[{index}]") for index, call in enumerate(value))


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_microseconds(value: int) -> datetime:
    """The time so many microseconds after 1970, exact where a float would not be."""
    return _EPOCH + timedelta(microseconds=value)


def parse_time(value: Any, path: str) -> datetime:
    """An aware time from a datetime, ISO text or seconds since 1970; without a zone it is UTC."""
    try:
        if isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            value = datetime.fromtimestamp(value, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidMessage(
            path, "is not a time; use a datetime, ISO 8601 text or seconds since 1970"
        ) from None
    if not isinstance(value, datetime):
        raise InvalidMessage(
            path, f"must be a datetime, ISO 8601 text or seconds, not {type(value).__name__}"
        )
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:
        raise InvalidMessage(path, "is a time outside the years 1 to 9999 in UTC") from None
