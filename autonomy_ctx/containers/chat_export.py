"""A chat context as JSON and back, and as messages for the SDK of a provider.

Other systems have separate types for a call and its output. Here a call is an assistant message and its
output a tool message, so that one rule about calls and results is enough. The provider formats are imported
when they are first used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.messages.json_values import preview
from autonomy_ctx.messages.message import ChatRole, Message
from autonomy_ctx.messages.wire import Item, item_from_dict, item_to_dict, time_to_json

if TYPE_CHECKING:
    from autonomy_ctx.formats.google import GoogleContents

_KINDS = ("message", "summary", "agent_handoff", "agent_config_update", "direct_message")
_STAMPS = ("id", "created_at", "agent_id", "agent")
_CALL = ("type", "name", "arguments", "call_id", "metadata")
_OUTPUT = ("type", "name", "output", "call_id", "is_error")
# Where the request before this one ended, and where this one does.
CACHED_TURNS = 2


def items_from_dict(data: Any) -> list[Item]:
    """The items of a context's dict; an error names the one that cannot be read."""
    if not isinstance(data, dict):
        raise InvalidMessage("context", f"must be a dict with a list of `items`, not {type(data).__name__}")
    forms = data.get("items")
    if not isinstance(forms, list | tuple):
        problem = "is missing" if forms is None else f"must be a list, not {type(forms).__name__}"
        raise InvalidMessage("items", problem)
    items = []
    for index, form in enumerate(forms):
        try:
            items.append(_item_from_dict(form))
        except InvalidMessage as error:
            raise InvalidMessage(f"items[{index}].{error.field}", error.problem) from None
    return items


def merged_from_dict(data: dict[str, Any]) -> set[str]:
    """The ids of the instructions that came with a merge."""
    ids = data.get("merged") or []
    if not isinstance(ids, list) or not all(isinstance(item_id, str) for item_id in ids):
        raise InvalidMessage("merged", "must be a list of item ids")
    return set(ids)


def write_item(item: Item) -> dict[str, Any]:
    """An item with its type, id and time, whatever it was made from."""
    form = {"type": "message"} | item_to_dict(item)
    # A message made from a dict without these was given them; they must be the same when it is read.
    if (form.get("id") or form.get("message_id")) != item.id:
        form["id"] = item.id
    if form.get("timestamp") is None and form.get("created_at") is None:
        form["timestamp"] = time_to_json(item.created_at)
    return form


def _item_from_dict(form: Any) -> Item:
    if not isinstance(form, dict):
        raise InvalidMessage("item", f"must be a dict, not {type(form).__name__}")
    form = {key: value for key, value in form.items() if key not in _STAMPS or value is not None}
    match form.get("type", "message"):
        case "function_call":
            return _message_item(form, _CALL, role="assistant", content=None, tool_calls=[_tool_call(form)])
        case "function_call_output":
            return _message_item(
                form,
                _OUTPUT,
                role="tool",
                content=_required_value(form, "output"),
                name=form.get("name"),
                tool_call_id=_required_value(form, "call_id"),
                is_error=form.get("is_error"),
            )
        case kind if kind is None or kind in _KINDS:
            return item_from_dict(form)
        case kind:
            raise InvalidMessage(
                "type",
                f"is {preview(kind)}; known are {', '.join(_KINDS)}, function_call and function_call_output. "
                f"If a newer autonomy_ctx wrote this, upgrade to read it",
            )


def _tool_call(form: dict[str, Any]) -> dict[str, Any]:
    call = {"name": _required_value(form, "name"), "arguments": form.get("arguments")}
    return {"id": _required_value(form, "call_id"), "function": call, "extra": form.get("metadata")}


def _message_item(form: dict[str, Any], known: tuple[str, ...], **fields: Any) -> Item:
    rest = {key: value for key, value in form.items() if key not in known}
    # Read again as a message of ours: so its dict form is ours, too.
    return item_from_dict(fields | rest)


def _required_value(form: dict[str, Any], name: str) -> Any:
    if form.get(name) is None:
        raise InvalidMessage(name, f"is missing from the {form['type']}")
    return form[name]


def visible_messages(items: Iterable[Item], merged: Collection[str] = ()) -> list[Message]:
    """The messages of a context that a model sees: no instructions that a merge brought in.

    Calls that follow one another are one message: each may have been added on its own, but the model
    made them at once, and its signature may be on the first alone.
    """
    out: list[Message] = []
    for item in items:
        if not isinstance(item, Message) or item.id in merged:
            continue
        if out and _has_calls(out[-1]) and _has_calls(item) and not item.parts:
            out[-1] = replace(out[-1], tool_calls=out[-1].tool_calls + item.tool_calls)
        else:
            out.append(item)
    return out


def as_google(
    items: Iterable[Item],
    merged: Collection[str] = (),
    *,
    thought_signatures: Mapping[str, str | bytes] | None = None,
    model: str | None = None,
) -> GoogleContents:
    """Contents and system instruction for generateContent."""
    from autonomy_ctx.formats.google import GoogleContents, GoogleWriter, add_signatures, requires_signatures
    from autonomy_ctx.formats.outgoing import replace_json_surrogates

    writer = GoogleWriter(signatures_required=model is not None and requires_signatures(model))
    messages = visible_messages(items, merged)
    made = writer.write([add_signatures(message, thought_signatures or {}) for message in messages])
    return GoogleContents(*replace_json_surrogates(made))


def _has_calls(message: Message) -> bool:
    return message.role is ChatRole.ASSISTANT and bool(message.tool_calls)


def turn_ends(messages: Sequence[Message]) -> list[int]:
    """Where the assistant is about to speak, the last times."""
    speaks = [message.role is ChatRole.ASSISTANT for message in messages] + [True]
    ends = [at for at in range(len(messages)) if speaks[at + 1] and not speaks[at]]
    return ends[-CACHED_TURNS:]
