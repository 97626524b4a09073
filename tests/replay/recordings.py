"""Recorded conversations for tests: small, with facts and identifiers whose fate is known."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from autonomy_ctx.replay import RecordedConversation

NOON = datetime(2026, 5, 2, 12, tzinfo=UTC)


def talk(turns: int, *, minutes: float | None = None) -> list[dict[str, Any]]:
    """A rule and a code in the first turn, then one order after the other; each third calls a tool."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You help the support team."}]
    for number in range(1, turns + 1):
        asked = f"Where is order ORD-{10_000 + number}? The customer waits for an answer since this morning."
        if number == 1:
            asked = "Never ship anything on Fridays. The door code of the depot is KX-7719."
        said: list[dict[str, Any]] = [{"role": "user", "content": asked}]
        if number % 3 == 0:
            call = {"id": f"c{number}", "name": "find", "arguments": json.dumps({"order": 10_000 + number})}
            said += [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"c{number}", "content": f"shelf {number}"},
            ]
        said.append({"role": "assistant", "content": f"It left depot {number} and arrives in two days."})
        if minutes is not None:
            at = (NOON + timedelta(minutes=number * minutes)).isoformat()
            said = [one | {"created_at": at} for one in said]
        messages += said
    return messages


def recorded(turns: int, **options: Any) -> RecordedConversation:
    return RecordedConversation(talk(turns, **options), name="support")


def langchain(form: dict[str, Any], shape: str) -> dict[str, Any]:
    """A message as LangChain dumps it, in one of its three shapes."""
    kind, name = {
        "system": ("system", "SystemMessage"),
        "user": ("human", "HumanMessage"),
        "assistant": ("ai", "AIMessage"),
        "tool": ("tool", "ToolMessage"),
    }[form["role"]]
    data: dict[str, Any] = {"content": form["content"] or "", "additional_kwargs": {}}
    if form.get("tool_calls"):
        data["tool_calls"] = [
            {
                "id": call["id"],
                "name": call["name"],
                "args": json.loads(call["arguments"]),
                "type": "tool_call",
            }
            for call in form["tool_calls"]
        ]
    if "tool_call_id" in form:
        data |= {"tool_call_id": form["tool_call_id"], "status": "success"}
    match shape:
        case "messages_to_dict":
            return {"type": kind, "data": data | {"type": kind}}
        case "dumpd":
            path = ["langchain", "schema", "messages", name]
            return {"lc": 1, "type": "constructor", "id": path, "kwargs": data | {"type": kind}}
        case _:
            return {"type": kind, **data}


def chatgpt_export(*titles: str) -> list[dict[str, Any]]:
    """What ChatGPT exports: a tree for each title, whose first question has two answers."""

    def node(name: str, parent: str | None, role: str, text: str, *children: str) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [text]}
        message = {"author": {"role": role}, "content": content, "create_time": 1.7e9 + len(name)}
        return {"id": name, "parent": parent, "children": list(children), "message": message}

    mapping = {
        "root": {"id": "root", "parent": None, "children": ["a"], "message": None},
        "a": node("a", "root", "user", "Where is it?", "b", "bb"),
        "b": node("b", "a", "assistant", "In Porto."),
        "bb": node("bb", "a", "assistant", "In Aveiro.", "ccc"),
        "ccc": node("ccc", "bb", "user", "And now?"),
    }
    return [{"title": title, "mapping": mapping, "current_node": "ccc"} for title in titles]
