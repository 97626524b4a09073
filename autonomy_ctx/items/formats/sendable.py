"""What providers take as tools, arguments and text, whatever memory holds.

They refuse a request for one blank text or for arguments that are not JSON, and a model may have
written either. What is changed depends only on what came before it, so that a prefix stays
the same from turn to turn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autonomy_ctx.items.calls import ToolCall
from autonomy_ctx.items.formats.format import Request
from autonomy_ctx.items.formats.names import ToolNames
from autonomy_ctx.items.formats.values import RAW, arguments_of, well_formed_json
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import ImageContent, TextContent

OPENING = "(The conversation starts here.)"
CLOSING = "(Go on.)"
NOTHING_SAID = "(empty message)"
INSTRUCTING = (ChatRole.SYSTEM, ChatRole.DEVELOPER)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as every provider can be told of it."""

    name: str
    description: str
    parameters: dict[str, Any]


def tool_names(tools: Sequence[Mapping[str, Any]]) -> ToolNames:
    """How tools and calls are named in one request."""
    return ToolNames(str(tool["name"]) for tool in tools)


def tool_specs(tools: Sequence[Mapping[str, Any]], names: ToolNames, repairs: list[str]) -> list[ToolSpec]:
    """Tools with names that providers take, each once, and with a schema for an object."""
    specs: dict[str, ToolSpec] = {}
    for tool in tools:
        name = str(tool["name"])
        if name in specs:
            repairs.append(f"the tool `{name}` is offered twice: the first one is sent")
            continue
        schema = {"type": "object", "properties": {}, **(tool.get("parameters") or {})}
        specs[name] = ToolSpec(sent_name(name, names, repairs), str(tool.get("description") or ""), schema)
    return list(specs.values())


def sent_name(name: str, names: ToolNames, repairs: list[str]) -> str:
    """A tool's name on the wire, and a repair when it is another one."""
    sent = names.of(name)
    if sent != name:
        repairs.append(f"the tool {name!r} is sent as `{sent}`")
    return sent


def arguments_object(call: ToolCall, repairs: list[str]) -> dict[str, Any]:
    """A call's arguments as an object; what is none is wrapped in one."""
    arguments = arguments_of(call)
    if arguments is None:
        repairs.append(f"the arguments of call {call.id!r} are no JSON object: sent as `{RAW}`")
        return {RAW: call.arguments}
    return arguments


def arguments_json(call: ToolCall, repairs: list[str]) -> str:
    """A call's arguments as the text of an object, unchanged where it is one."""
    arguments = arguments_object(call, repairs)
    if not arguments:
        return "{}"
    # Half a character may hide in an escape; written anew, it is gone.
    if RAW in arguments or "\\u" in call.arguments:
        return json.dumps(arguments, ensure_ascii=False)
    return call.arguments


def text_of(message: Message, repairs: list[str]) -> str:
    """A message's text for a place that takes nothing else: images are mentioned, thinking is not."""
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, TextContent) and part.text:
            texts.append(part.text)
        elif isinstance(part, ImageContent):
            texts.append(image_note(part, f"in a message of the {message.role.value}", repairs))
    return "\n".join(texts)


def error_text(message: Message, text: str) -> str:
    """A result's text, marked as an error for providers that have no flag for it."""
    return f"Error: {text}" if message.is_error and not text.startswith("Error: ") else text


def image_note(image: ImageContent, where: str, repairs: list[str]) -> str:
    """Words in the place of an image that cannot be shown there."""
    repairs.append(f"an image {where} cannot be carried: replaced by a note")
    return "[image]" if image.image.startswith("data:") else f"[image: {image.image}]"


def left_out(message: Message, repairs: list[str]) -> None:
    """Say that a message is not sent because nothing in it can be."""
    repairs.append(f"message {message.id!r} holds nothing that can be sent: left out")


def nothing_said(message: Message, repairs: list[str]) -> str:
    """What a user says who says nothing: providers refuse blank messages, and the turn must stay."""
    repairs.append(f"message {message.id!r} is empty: sent as a note that says so")
    return NOTHING_SAID


def opening(repairs: list[str]) -> str:
    """A user's message to begin with, where there is none."""
    repairs.append("the conversation does not start with a user's message: a neutral one was put there")
    return OPENING


def closing(repairs: list[str]) -> str:
    """A user's message to end with: many models refuse to go on from an answer of their own."""
    repairs.append("the conversation ends with the assistant's message: a neutral one was put after it")
    return CLOSING


def written(path: str, body: Mapping[str, Any], repairs: Sequence[str]) -> Request:
    """A request of nothing but well-formed JSON; what was mended is named once."""
    return Request(path=path, body=well_formed_json(body), repairs=tuple(dict.fromkeys(repairs)))
