"""Items to dicts and back; the only module that knows the JSON shape of an item.

A message made from a dict keeps that dict and gives it back unchanged. A message made in code has one
canonical form. In both cases `from_dict(to_dict(message)) == message`. A dict with Anthropic's blocks for
calls and results is first written in our form, which may be several messages: see `split_blocks`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from datetime import datetime
from operator import is_
from sys import intern
from typing import Any, TypeAlias

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.messages.events import AgentConfigUpdate, AgentHandoff, DirectMessage
from autonomy_ctx.messages.json_values import EMPTY, preview, thaw, validate_json
from autonomy_ctx.messages.message import (
    PART_TYPES,
    ChatRole,
    Message,
    MessageOrigin,
    call_to_json,
    check_type,
    content_to_json,
    new_id,
    now,
    parse_flag,
    parse_text,
    parse_time,
)
from autonomy_ctx.messages.summary import Segment, Summary

Item: TypeAlias = Message | AgentHandoff | AgentConfigUpdate | DirectMessage

# What a message dict may hold that is a field of its own; everything else is `extra`.
_MESSAGE_FIELDS = frozenset(one.name for one in fields(Message) if one.name not in ("extra", "_origin"))
_MESSAGE_FIELDS |= {"type", "message_id", "timestamp", "agent_id"}
# Those whose value in a dict is that of the message, where the content is a string.
_OWN_FIELDS = frozenset({"role", "content", "tool_call_id", "name", "agent", "phase"})


def from_dict(
    value: Any, *, new_id: Callable[[], str] = new_id, now: Callable[[], datetime] = now
) -> Message:
    """A message from its dict form; a `Message` is returned as it is."""
    if isinstance(value, Message):
        return value
    if not isinstance(value, dict):
        raise InvalidMessage("message", f"must be a dict or a Message, not {type(value).__name__}")
    forms = split_blocks(value)
    if len(forms) > 1:
        raise InvalidMessage(
            "content", f"has tool results that become {len(forms)} messages; give it in a list of messages"
        )
    form = validate_json(forms[0], "message")
    return from_form(form, new_id, now)


def from_dicts(values: Iterable[Any]) -> list[Message]:
    """Messages from their dict forms, of which one may be several messages."""
    made: list[Message] = []
    for value in values:
        made += [value] if isinstance(value, Message) else map(from_dict, split_blocks(value))
    return made


def split_blocks(value: Any) -> list[Any]:
    """A message dict as Anthropic writes it, in our form; anything else alone and as it is.

    `tool_use` blocks become `tool_calls`. Each `tool_result` becomes a tool message; what else the user said
    follows them. The first of several messages keeps the id of the dict, the others get a number after it.
    """
    content = value.get("content") if isinstance(value, dict) else None
    # With a reason why it stopped it is a whole reply, which is read as one.
    if not isinstance(content, list | tuple) or "stop_reason" in value:
        return [value]
    blocks = [_block_form(block) for block in content]
    role = value.get("role")
    kind = "tool_use" if role == "assistant" else "tool_result" if role == "user" else None
    found = {
        at: block
        for at, block in enumerate(blocks)
        if kind is not None and isinstance(block, dict) and block.get("type") == kind
    }
    rest = [block for at, block in enumerate(blocks) if at not in found]
    if found and role == "user":
        forms = [_result_form(value, block, at) for at, block in found.items()]
        forms += [{**value, "content": rest}] if rest else []
        return [form if number == 1 else _number_ids(form, number) for number, form in enumerate(forms, 1)]
    if found and not value.get("tool_calls"):
        calls = [_call_form(block, at) for at, block in found.items()]
        return [{**value, "content": rest or None, "tool_calls": calls}]
    return [value] if all(map(is_, blocks, content)) else [{**value, "content": blocks}]


def _block_form(block: Any) -> Any:
    """A block as a dict, also one that is an object of Anthropic's SDK."""
    dump = None if isinstance(block, (dict, str, *PART_TYPES)) else getattr(block, "model_dump", None)
    return dump(mode="json", exclude_none=True) if callable(dump) else block


def _call_form(block: dict[str, Any], at: int) -> dict[str, Any]:
    arguments = validate_json(block.get("input") or {}, f"content[{at}].input")
    function = {"name": block.get("name"), "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": block.get("id"), "type": "function", "function": function}


def _result_form(value: dict[str, Any], block: dict[str, Any], at: int) -> dict[str, Any]:
    if not isinstance(block.get("tool_use_id"), str):
        raise InvalidMessage(f"content[{at}].tool_use_id", "is missing; it is the `id` of the call")
    content = block.get("content")
    content = [_block_form(one) for one in content] if isinstance(content, list | tuple) else content or ""
    form = {**value, "role": "tool", "tool_call_id": block["tool_use_id"], "content": content}
    return form | {"is_error": True} if block.get("is_error") else form


def _number_ids(form: dict[str, Any], number: int) -> dict[str, Any]:
    ids = [name for name in ("id", "message_id") if isinstance(form.get(name), str) and form[name]]
    return form | {name: f"{form[name]}/{number}" for name in ids}


def from_form(
    form: dict[str, Any],
    new_id: Callable[[], str] = new_id,
    now: Callable[[], datetime] = now,
    *,
    id: str | None = None,  # noqa: A002  # the field's name
    created_at: datetime | None = None,
    counter: str | None = None,
    tokens: int = 0,
) -> Message:
    """A message from a JSON dict that belongs to it alone: the caller must not keep or change it.

    `id` and `created_at` are used when given, whatever the form says. `counter` and `tokens` are those of a
    message that memory has.
    """
    kind, is_stored = form.get("type"), counter is not None
    if kind is not None and kind != "message":
        if kind == "summary":
            return _parse_summary(form, id, created_at, MessageOrigin(None, counter, tokens, is_stored))
        raise InvalidMessage("type", f"is {preview(kind)}; a message has the type `message` or none")
    get = form.get
    if id is None:
        id = (  # noqa: A001
            parse_text(get("id"), "id") or parse_text(get("message_id"), "message_id") or new_id()
        )
    if created_at is None:
        name = "created_at" if get("timestamp") is None else "timestamp"
        created_at = now() if get(name) is None else parse_time(form[name], name)
    return Message(
        get("role"),  # type: ignore[arg-type]  # Message says what is wrong, also with the rest
        get("content"),
        tool_calls=get("tool_calls"),
        tool_call_id=get("tool_call_id"),
        name=get("name"),
        is_error=get("is_error"),  # type: ignore[arg-type]
        id=id,
        created_at=created_at,
        agent=parse_text(get("agent_id"), "agent_id") if get("agent") is None else get("agent"),
        phase=get("phase"),
        extra=EMPTY if _MESSAGE_FIELDS.issuperset(form) else _extra_fields(form),
        _made_from=MessageOrigin(shorten_form(form), counter, tokens, is_stored),
    )


def shorten_form(form: dict[str, Any]) -> dict[str, Any] | str:
    """The names of the form's fields, if their values are those of the message; otherwise the form itself."""
    if type(form.get("content")) is str and _OWN_FIELDS.issuperset(form):
        # There are few different ones, so equal ones are one object.
        return intern(" ".join(form))
    return form


def to_dict(message: Message) -> dict[str, Any]:
    """The dict form: the one the message was made from, or the canonical one."""
    form = message._origin.form
    if form is None:
        return _canonical_form(message)
    if isinstance(form, str):
        made = {name: getattr(message, name) for name in form.split()} | {"role": message.role.value}
    else:
        made = thaw(form)
    if message._is_stored:
        if made.get("message_id") != message.id:
            made["id"] = message.id
        if made.get("timestamp") is None and made.get("created_at") is None:
            made["timestamp"] = time_to_json(message.created_at)
    return made


def item_from_dict(value: Any) -> Item:
    """Any item from its dict form; the `type` says which."""
    kind = value.get("type") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _EVENT_TYPES:
        return from_dict(value)
    form = validate_json(value, "item")
    event = _EVENT_TYPES[kind]
    if "agent_id" in form:
        form.setdefault("agent", form["agent_id"])
    try:
        item: Item = event(**{one.name: form[one.name] for one in fields(event) if one.name in form})
    except TypeError:
        required = (one.name for one in fields(event) if one.default is one.default_factory is MISSING)
        missing = [name for name in required if name not in form]
        raise InvalidMessage(missing[0], f"is missing from the {kind}") from None
    return item


def item_to_dict(item: Item) -> dict[str, Any]:
    """Any item as a dict that `item_from_dict` reads."""
    if isinstance(item, Message):
        return to_dict(item)
    form: dict[str, Any] = {"type": item.type}
    for one in sorted(fields(item), key=lambda one: one.name in _COMMON_FIELDS):
        value = getattr(item, one.name)
        form[one.name] = list(value) if isinstance(value, tuple) else thaw(value)
    form["created_at"] = item.created_at.isoformat()
    return form


def _canonical_form(message: Message) -> dict[str, Any]:
    if isinstance(message, Summary):
        return _summary_form(message)
    form: dict[str, Any] = {"role": message.role.value, "content": content_to_json(message.content)}
    if message.tool_calls or message.role is ChatRole.ASSISTANT:
        form["tool_calls"] = [call_to_json(call) for call in message.tool_calls]
    for name in ("tool_call_id", "name", "phase", "agent"):
        value = getattr(message, name)
        if value is not None:
            form[name] = value
    if message.is_error:
        form["is_error"] = True
    if message.extra:
        form["extra"] = thaw(message.extra)
    form["id"] = message.id
    form["timestamp"] = time_to_json(message.created_at)
    return form


def time_to_json(time: datetime) -> float | str:
    """Seconds since 1970, as stored dicts have them; ISO text where a float would lose microseconds."""
    seconds = time.timestamp()
    return seconds if 0 <= seconds < 2**33 else time.isoformat()


def _extra_fields(form: dict[str, Any]) -> Any:
    nested = form.get("extra")
    extra = {} if nested is None else dict(check_type(nested, dict, "extra"))
    extra.update((key, value) for key, value in form.items() if key not in _MESSAGE_FIELDS and key != "extra")
    return extra or EMPTY


def _summary_form(summary: Summary) -> dict[str, Any]:
    segments = [
        {"first": part.first, "last": part.last, "provisional": part.provisional} for part in summary.segments
    ]
    form = {
        "type": "summary",
        "role": summary.display_role,
        "content": content_to_json(summary.content),
        "segments": segments,
        "id": summary.id,
        "timestamp": time_to_json(summary.created_at),
    }
    if summary.display_role == "system":
        # Not read from `role`: forms written before had that role whatever they were shown as.
        form["display_role"] = "system"
    return form if summary.agent is None else form | {"agent": summary.agent}


def _parse_summary(
    form: dict[str, Any],
    id: str | None,  # noqa: A002  # the field's name
    created_at: datetime | None,
    origin: MessageOrigin,
) -> Summary:
    texts, ranges = form.get("content"), form.get("segments")
    if not isinstance(texts, list) or not isinstance(ranges, list) or len(texts) - len(ranges) not in (0, 1):
        raise InvalidMessage("segments", "must be a list with one entry per text part of `content`")
    # One part more than segments: the facts.
    facts = texts[-1] if len(texts) > len(ranges) else {"text": ""}
    if not isinstance(facts, dict):
        raise InvalidMessage("content", "must be a list of text parts")
    segments = []
    for index, (part, span) in enumerate(zip(texts, ranges, strict=False)):
        if not isinstance(part, dict) or not isinstance(span, dict) or not {"first", "last"} <= span.keys():
            raise InvalidMessage(f"segments[{index}]", "must have `first` and `last`")
        segments.append(
            Segment(
                text=part.get("text"),  # type: ignore[arg-type]  # Segment says what is wrong
                first=span["first"],
                last=span["last"],
                provisional=parse_flag(span.get("provisional"), "provisional"),
            )
        )
    return Summary(
        segments,
        facts=facts.get("text", ""),
        id=parse_text(form.get("id"), "id") if id is None else id,
        created_at=created_at or form.get("created_at" if form.get("timestamp") is None else "timestamp"),
        agent=parse_text(form.get("agent"), "agent"),
        display_role="system" if form.get("display_role") == "system" else "user",
        _made_from=origin,
    )


_COMMON_FIELDS = ("id", "created_at", "agent")
_EVENT_TYPES: dict[str, type[AgentHandoff | AgentConfigUpdate | DirectMessage]] = {
    event.type: event for event in (AgentHandoff, AgentConfigUpdate, DirectMessage)
}
