"""Messages as plain text for a prompt, and protection against prompt injection by that text.

`transcript` writes one block for each message. `wrap_untrusted` puts text between tags that carry a
secret, so the text cannot close its own block; tags that look like ours and the role tokens of chat
templates are neutralized.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256

from autonomy_ctx.items.clamp import clamp_text, fair_share
from autonomy_ctx.items.message import ChatRole, Message, TextContent, ThinkingContent
from autonomy_ctx.items.tokens import TokenCounter

# The labels of our own blocks.
CONVERSATION_LABEL, BACKGROUND_LABEL, SEGMENT_LABEL = "conversation", "background", "segment"

# Marks by which chat templates tell roles and turns apart; some servers obey them inside a text too.
ROLE_MARK_PATTERN = (
    r"<[|\uff5c][^\s<>|\uff5c]{1,40}[|\uff5c]>|<(?:start|end)_of_turn>|<</?SYS>>|</?s>"
    r"|\[/?INST\]|\[TOOL_CALLS\]"
)
# Marks in the form of ours, with any secret or none.
DELIMITER_PATTERN = (
    rf"<\s{{0,4}}/?\s{{0,4}}(?:(?:{CONVERSATION_LABEL}|{BACKGROUND_LABEL}|{SEGMENT_LABEL})(?:\s{{1,4}}[0-9a-f]{{1,64}})?"
    r"|[\w-]{1,32}\s{1,4}[0-9a-f]{16})\s{0,4}>"
)
MARK_PATTERN = re.compile(rf"{ROLE_MARK_PATTERN}|{DELIMITER_PATTERN}", re.IGNORECASE)
# Reads like the bracket it replaces, but opens nothing.
NEUTRAL_BRACKET = "\u2039"


def nonce(*texts: str) -> str:
    """16 hex digits that no text can know in advance; the same for the same texts."""
    digest = sha256()
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        # With its length, so that moving a character to the next text gives another secret.
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()[:16]


def wrap_untrusted(label: str, text: str, secret: str) -> str:
    """The text between lines `<label secret>` and `</label secret>`, unable to close them itself."""
    inside = neutralize_text(text, secret)
    # Inside, this label opens nothing, however the tag goes on.
    tag = re.compile(rf"<(?=\s{{0,4}}/?\s{{0,4}}{re.escape(label)}\b)", re.IGNORECASE)
    inside = tag.sub(NEUTRAL_BRACKET, inside)
    return f"<{label} {secret}>\n{inside}\n</{label} {secret}>"


def neutralize_text(text: str, secret: str) -> str:
    """The text with the secret blotted out and all marks broken but legible."""
    if secret:
        text = re.sub(re.escape(secret), "****", text, flags=re.IGNORECASE)
    return neutralize_marks(text)


def neutralize_marks(text: str) -> str:
    """The text with the first character of every mark replaced, so that it marks nothing."""
    return MARK_PATTERN.sub(lambda found: NEUTRAL_BRACKET + found[0][1:], text)


MAX_LABEL_LENGTH = 64


def transcript(messages: Sequence[Message], *, counter: TokenCounter, max_message_tokens: int = 2000) -> str:
    """One block per message, a blank line between two; the middle of a longer message is cut out."""
    names = tool_names_by_call(messages)
    return "\n\n".join(_render_message(message, names, counter, max_message_tokens) for message in messages)


def tool_names_by_call(messages: Sequence[Message]) -> dict[str, str]:
    """The tools' names by the ids of the calls to them."""
    return {call.id: call.name for message in messages for call in message.tool_calls if call.id}


def speaker_label(message: Message, names: dict[str, str]) -> str:
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
    return name if len(name) <= MAX_LABEL_LENGTH else f"{name[:40]} ... {name[-15:]}"


def visible_text(message: Message) -> str:
    """What a reader sees of the content: texts, and a note for each image; no thinking."""
    seen = [part for part in message.parts if not isinstance(part, ThinkingContent)]
    return "\n".join(part.text if isinstance(part, TextContent) else "[image]" for part in seen)


def _render_message(
    message: Message, names: dict[str, str], counter: TokenCounter, max_message_tokens: int
) -> str:
    who = speaker_label(message, names)
    said = visible_text(message)
    pieces = [said, *(call.arguments for call in message.tool_calls)]
    costs = [counter.count_text(piece) for piece in pieces]
    most = fair_share(costs, max_message_tokens)
    said, *arguments = (
        clamp_text(piece, most, counter.count_text) if cost > most else piece
        for piece, cost in zip(pieces, costs, strict=True)
    )
    lines = [f"{who}: {said}".rstrip(" ")] if said or not message.tool_calls else []
    lines += [
        f"{who} calls {short_name(call.name)}({shown})"
        for call, shown in zip(message.tool_calls, arguments, strict=True)
    ]
    return "\n".join(map(_indent_lines, lines))


def _indent_lines(text: str) -> str:
    # splitlines() knows every line break there is, also the ones a model or a terminal would show as one.
    return "\n  ".join(text.splitlines())
