"""Messages as text, for a summarizer or a reader.

Every message starts a line at the margin and its other lines are indented, so nothing that somebody
said can look like something that somebody else said.
"""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.items.clamp import clamp_text, fair_share
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.parts import TextContent, ThinkingContent
from autonomy_ctx.items.tokens import TokenCounter

LONGEST_NAME = 64


def transcript(messages: Sequence[Message], *, counter: TokenCounter, longest: int = 2000) -> str:
    """One block per message, a blank line between two; messages over `longest` tokens cut in the middle."""
    names = called_names(messages)
    return "\n\n".join(_block(message, names, counter, longest) for message in messages)


def called_names(messages: Sequence[Message]) -> dict[str, str]:
    """The tools' names by the ids of the calls to them."""
    return {call.id: call.name for message in messages for call in message.tool_calls if call.id}


def speaker(message: Message, names: dict[str, str]) -> str:
    """Who speaks, on one line: `User`, `Assistant (planner)`, `Tool search`, `Tool search failed`."""
    role = message.role.value.capitalize()
    if message.role is ChatRole.TOOL:
        name = short_name(message.name or names.get(message.tool_call_id or "", ""))
        return " ".join(filter(None, [role, name, "failed" if message.is_error else ""]))
    agent = short_name(message.agent or "") if message.role is ChatRole.ASSISTANT else ""
    return f"{role} ({agent})" if agent else role


def short_name(name: str) -> str:
    """A name on one line, with its middle left out where it is longer than any name should be."""
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_NAME else f"{name[:40]} ... {name[-15:]}"


def body(message: Message) -> str:
    """What a reader sees of the content: texts, and a note for each image; no thinking."""
    seen = [part for part in message.parts if not isinstance(part, ThinkingContent)]
    return "\n".join(part.text if isinstance(part, TextContent) else "[image]" for part in seen)


def _block(message: Message, names: dict[str, str], counter: TokenCounter, longest: int) -> str:
    who = speaker(message, names)
    said = body(message)
    pieces = [said, *(call.arguments for call in message.tool_calls)]
    costs = [counter.count_text(piece) for piece in pieces]
    most = fair_share(costs, longest)
    said, *arguments = (
        clamp_text(piece, most, counter.count_text) if cost > most else piece
        for piece, cost in zip(pieces, costs, strict=True)
    )
    lines = [f"{who}: {said}".rstrip(" ")] if said or not message.tool_calls else []
    lines += [
        f"{who} calls {short_name(call.name)}({shown})"
        for call, shown in zip(message.tool_calls, arguments, strict=True)
    ]
    return "\n".join(map(_indented, lines))


def _indented(text: str) -> str:
    # splitlines() knows every line break there is, also the ones a model or a terminal would show as one.
    return "\n  ".join(text.splitlines())
