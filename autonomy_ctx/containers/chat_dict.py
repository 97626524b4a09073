"""Contexts to dicts and back, also from the dicts of systems that keep calls and outputs as items.

There, a call and its output are items of their own types; here, a call is an assistant's message and
its output a tool's message, so that one rule about calls and results serves everybody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.items.json_values import preview
from autonomy_ctx.items.wire import Item, item_from_dict, item_to_dict, time_to_json

_KINDS = ("message", "summary", "agent_handoff", "agent_config_update", "direct_message")
_STAMPS = ("id", "created_at", "agent_id", "agent")
_CALL = ("type", "name", "arguments", "call_id", "metadata")
_OUTPUT = ("type", "name", "output", "call_id", "is_error")


def items_to_dicts(items: Iterable[Item]) -> list[dict[str, Any]]:
    """Every item with its type, id and time, whatever it was made from."""
    return [_stamped(item) for item in items]


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
            items.append(_item(form))
        except InvalidMessage as error:
            raise InvalidMessage(f"items[{index}].{error.field}", error.problem) from None
    return items


def merged_from_dict(data: dict[str, Any]) -> set[str]:
    """The ids of the instructions that came with a merge."""
    ids = data.get("merged") or []
    if not isinstance(ids, list) or not all(isinstance(item_id, str) for item_id in ids):
        raise InvalidMessage("merged", "must be a list of item ids")
    return set(ids)


def _stamped(item: Item) -> dict[str, Any]:
    form = {"type": "message"} | item_to_dict(item)
    # A message made from a dict without these was given them; they must be the same when it is read.
    if (form.get("id") or form.get("message_id")) != item.id:
        form["id"] = item.id
    if form.get("timestamp") is None and form.get("created_at") is None:
        form["timestamp"] = time_to_json(item.created_at)
    return form


def _item(form: Any) -> Item:
    if not isinstance(form, dict):
        raise InvalidMessage("item", f"must be a dict, not {type(form).__name__}")
    form = {key: value for key, value in form.items() if key not in _STAMPS or value is not None}
    match form.get("type", "message"):
        case "function_call":
            return _message(form, _CALL, role="assistant", content=None, tool_calls=[_call(form)])
        case "function_call_output":
            return _message(
                form,
                _OUTPUT,
                role="tool",
                content=_needed(form, "output"),
                name=form.get("name"),
                tool_call_id=_needed(form, "call_id"),
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


def _call(form: dict[str, Any]) -> dict[str, Any]:
    call = {"name": _needed(form, "name"), "arguments": form.get("arguments")}
    return {"id": _needed(form, "call_id"), "function": call, "extra": form.get("metadata")}


def _message(form: dict[str, Any], known: tuple[str, ...], **fields: Any) -> Item:
    rest = {key: value for key, value in form.items() if key not in known}
    # Read again as a message of ours: so its dict form is ours, too.
    return item_from_dict(fields | rest)


def _needed(form: dict[str, Any], name: str) -> Any:
    if form.get(name) is None:
        raise InvalidMessage(name, f"is missing from the {form['type']}")
    return form[name]
