"""Messages as other systems write them to files: dumps of LangChain, exports of ChatGPT, items of OpenAI.

Each becomes a dict that `wire.from_dict` reads. Nothing is checked here beyond what tells the formats apart.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from autonomy_ctx.messages.wire import split_blocks

# How LangChain calls the roles, in the `type` of its messages and in the names of its classes.
_LANGCHAIN_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "developer": "system",
    "tool": "tool",
    "function": "tool",
    "chat": "user",
}
# Under which keys other systems keep the messages of a conversation.
_LIST_KEYS = ("messages", "items", "input", "conversation", "history", "kwargs", "channel_values")
_RESPONSES_TYPES = ("function_call", "function_call_output", "reasoning")


def find_messages(value: Any) -> list[Any] | None:
    """The list of messages that a value holds, however deep; None for what is a message itself."""
    if isinstance(value, list):
        return value
    if not isinstance(value, Mapping) or _is_message(value):
        return None
    for key in _LIST_KEYS:
        inner = value.get(key)
        if isinstance(inner, list) and (not inner or _is_message(inner[0])):
            return inner
        if isinstance(inner, Mapping) and (messages := find_messages(inner)) is not None:
            return messages
    return None


def find_trees(value: Any) -> list[Mapping[str, Any]]:
    """The conversations of an export of ChatGPT: trees of messages, since questions can be edited."""
    values = value if isinstance(value, list) else [value]
    trees = [one for one in values if isinstance(one, Mapping) and isinstance(one.get("mapping"), Mapping)]
    return trees if len(trees) == len(values) else []


def read_tree(tree: Mapping[str, Any]) -> list[Any]:
    """The messages from the beginning to the end that was looked at last."""
    nodes = {key: node for key, node in tree["mapping"].items() if isinstance(node, Mapping)}
    name: Any = tree.get("current_node")
    if not isinstance(name, str) or name not in nodes:
        # The last one that nothing follows.
        name = next((key for key in reversed(nodes) if not nodes[key].get("children")), None)
    messages: list[Any] = []
    seen: set[Any] = set()
    while isinstance(name, str) and name in nodes and name not in seen:
        seen.add(name)
        form = _read_tree_message(nodes[name].get("message"))
        messages += [form] if form else []
        name = nodes[name].get("parent")
    return messages[::-1]


def _read_tree_message(message: Any) -> dict[str, Any] | None:
    """A message of a tree as our dict; None for hidden messages."""
    if not isinstance(message, Mapping):
        return None
    author, content = message.get("author"), message.get("content")
    role = author.get("role") if isinstance(author, Mapping) else None
    parts = content.get("parts") if isinstance(content, Mapping) else None
    text = "\n".join(part for part in parts or () if isinstance(part, str)).strip()
    if role not in ("user", "assistant", "system") or not text:
        return None
    form: dict[str, Any] = {"role": role, "content": text}
    if isinstance(time := message.get("create_time"), int | float):
        form["created_at"] = time
    return form


def _is_message(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return "role" in value or _langchain_type(value) is not None or value.get("type") in _RESPONSES_TYPES


def convert_message(form: Any) -> list[dict[str, Any]]:
    """A message of any of these systems in the form that ours have; nothing for what says nothing."""
    if not isinstance(form, Mapping):
        raise TypeError(f"it is {type(form).__name__}, not an object")
    kind = _langchain_type(form)
    if kind is not None:
        return [_read_langchain(form, kind)]
    match form.get("type"):
        case "reasoning":
            return []
        case "function_call":
            call = {"id": form.get("call_id"), "name": form.get("name"), "arguments": form.get("arguments")}
            return [{"role": "assistant", "content": None, "tool_calls": [call]}]
        case "function_call_output":
            content = _text_of(form.get("output"))
            return [{"role": "tool", "content": content, "tool_call_id": form.get("call_id")}]
    made = dict(form)
    if made.get("role") == "function":
        made |= {"role": "tool", "tool_call_id": made.get("tool_call_id") or made.get("name")}
    if isinstance(call := made.pop("function_call", None), Mapping):
        made["tool_calls"] = [{"id": call.get("name"), **call}]
    if made.get("content") is None and not made.get("tool_calls") and made.get("refusal"):
        made["content"] = made["refusal"]
    return split_blocks(made)


def _langchain_type(form: Mapping[str, Any]) -> str | None:
    """Kind of message that a dump of LangChain is; None for anything else."""
    if form.get("lc") and isinstance(form.get("id"), Sequence) and form["id"]:
        return _langchain_kind(str(form["id"][-1]))
    kind = form.get("type")
    return None if not isinstance(kind, str) or "role" in form else _langchain_kind(kind)


def _langchain_kind(name: str) -> str | None:
    kind = name.removesuffix("Chunk").removesuffix("Message").lower()
    return kind if kind in _LANGCHAIN_ROLES else None


def _read_langchain(form: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """A message of `messages_to_dict`, of `dumpd`, or as pydantic dumps it."""
    inner = form.get("data") or form.get("kwargs") or form
    if not isinstance(inner, Mapping):
        raise TypeError("its data is not an object")
    role = str(inner.get("role", "")) if kind == "chat" else ""
    made: dict[str, Any] = {
        "role": role if role in ("user", "assistant", "system") else _LANGCHAIN_ROLES[kind],
        "content": _content_of(inner.get("content")),
    }
    if made["role"] == "assistant" and (calls := _langchain_calls(inner)):
        made["tool_calls"] = calls
    if made["role"] == "tool":
        made["tool_call_id"] = inner.get("tool_call_id") or inner.get("name")
        made["is_error"] = inner.get("status") == "error"
    if isinstance(name := inner.get("name"), str):
        made["name"] = name
    metadata = inner.get("response_metadata")
    for at in (inner, inner.get("additional_kwargs"), metadata):
        time = None if not isinstance(at, Mapping) else at.get("created_at") or at.get("timestamp")
        if isinstance(time, str | int | float):
            made["created_at"] = time
            break
    return made


def _langchain_calls(inner: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The calls of a message: LangChain's own, or those of the provider beside it."""
    calls = [
        {"id": call.get("id"), "name": call.get("name"), "arguments": json.dumps(call.get("args") or {})}
        for call in inner.get("tool_calls") or ()
        if isinstance(call, Mapping)
    ]
    beside = inner.get("additional_kwargs")
    return calls or list((beside.get("tool_calls") if isinstance(beside, Mapping) else None) or ())


def _content_of(content: Any) -> Any:
    """The content of a message; blocks that only name a call are said by the calls."""
    if content is None:
        return ""
    if not isinstance(content, list):
        return content if isinstance(content, str) else _text_of(content)
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _text_of(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
