"""Messages as plain text for a prompt, and protection against prompt injection by that text.

`transcript` writes one block for each message. `wrap_untrusted` puts text between tags that carry a
secret, so the text cannot close its own block; tags that look like ours and the role tokens of chat
templates are neutralized, also those inside others and those in full-width characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import tzinfo
from hashlib import sha256

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.messages.clamp import clamp_text, fair_share
from autonomy_ctx.messages.dates import format_day
from autonomy_ctx.messages.message import ChatRole, Message, TextContent, ThinkingContent
from autonomy_ctx.messages.tokens import TokenCounter

# The labels of our own blocks.
CONVERSATION_LABEL, BACKGROUND_LABEL, SEGMENT_LABEL = "conversation", "background", "segment"

# Beside the full-width form of each ASCII character: other forms that a server may fold to it.
_OTHER_FORMS = {
    "<": "\ufe64",
    ">": "\ufe65",
    "[": "\ufe47",
    "]": "\ufe48",
    "|": "\uffe8",
    "-": "\ufe63",
    "_": "\ufe33\ufe34\ufe4d\ufe4e\ufe4f",
}


def _forms(characters: str) -> str:
    """Characters and their look-alikes of another width, to stand in a class of a pattern."""
    return "".join(re.escape(one) + chr(ord(one) + 0xFEE0) + _OTHER_FORMS.get(one, "") for one in characters)


def any_width(text: str) -> str:
    """A pattern that finds an ASCII text, also written in full-width or small forms."""
    return "".join(f"[{_forms(one)}]" for one in text)


def opening_tag(label: str) -> str:
    """A pattern that finds the bracket of a tag, opening or closing, of that label, however it goes on."""
    space = r"\s{0,4}"
    return rf"[{_forms('<')}](?={space}[{_forms('/')}]?{space}{any_width(label)}\b)"


def _mark_patterns() -> tuple[str, str]:
    """Patterns for the rest of a mark after `<`, and after `[`.

    Marks by which chat templates tell roles and turns apart, as some servers obey them inside a text too;
    and marks in the form of ours, with any secret or none.
    """
    left, right, bar, slash = (f"[{_forms(one)}]" for one in "<>|/")
    inside, hexadecimal, space = _forms("<>|"), _forms("0123456789abcdef"), r"\s{0,4}"
    labels = "|".join(map(any_width, (CONVERSATION_LABEL, BACKGROUND_LABEL, SEGMENT_LABEL)))
    secret = rf"\s{{1,4}}[{hexadecimal}]"
    own = rf"(?:{labels})(?:{secret}{{1,64}})?|[\w{_forms('-')}]{{1,32}}{secret}{{16}}"
    angle = [
        rf"{bar}[^\s{inside}]{{1,40}}{bar}{right}",
        rf"(?:{any_width('start')}|{any_width('end')}){any_width('_of_turn')}{right}",
        rf"{left}{slash}?{any_width('SYS')}{right}{right}",
        rf"{slash}?{any_width('s')}{right}",
        rf"{space}{slash}?{space}(?:{own}){space}{right}",
    ]
    square = [rf"{slash}?{any_width('INST]')}", any_width("TOOL_CALLS]")]
    return "|".join(angle), "|".join(square)


_ANGLE_MARK, _SQUARE_MARK = _mark_patterns()
MARK_PATTERN = lazy_pattern(
    rf"[{_forms('<')}](?:{_ANGLE_MARK})|[{_forms('[')}](?:{_SQUARE_MARK})", re.IGNORECASE
)
# Only the bracket is taken, so that a mark which begins inside another one is found, too.
_MARK_BRACKET = lazy_pattern(
    rf"[{_forms('<')}](?={_ANGLE_MARK})|[{_forms('[')}](?={_SQUARE_MARK})", re.IGNORECASE
)
# How marks in square brackets end: a plain text without them and without `<` has no mark.
_SQUARE_MARK_ENDS = ("INST]", "TOOL_CALLS]")
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
    if not inside.isascii() or "<" in inside:
        inside = re.sub(opening_tag(label), NEUTRAL_BRACKET, inside, flags=re.IGNORECASE)
    return f"<{label} {secret}>\n{inside}\n</{label} {secret}>"


def neutralize_text(text: str, secret: str) -> str:
    """The text with the secret blotted out and all marks broken but legible."""
    # A pattern for one secret is used once: it is only made for a text that may have it.
    if secret and not (text.isascii() and secret.lower() not in text.lower()):
        pattern = re.escape(secret) if text.isascii() else any_width(secret)
        text = re.sub(pattern, "****", text, flags=re.IGNORECASE)
    return neutralize_marks(text)


def neutralize_marks(text: str) -> str:
    """The text with the first character of every mark replaced, so that it marks nothing.

    Repeated until nothing changes: no mark that only a replacement puts together is left.
    """
    if text.isascii() and "<" not in text and not any(end in text.upper() for end in _SQUARE_MARK_ENDS):
        return text
    while (broken := _MARK_BRACKET.sub(NEUTRAL_BRACKET, text)) != text:
        text = broken
    return text


MAX_LABEL_LENGTH = 64
# What may not stand in a name: brackets of every script, by their categories, and what marks are made of.
_CLOSING_CATEGORIES = frozenset({"Ps", "Pe"})
_CLOSING_CHARACTERS = frozenset("<>|")


def may_close(character: str) -> bool:
    """True for a character that, in any width, could close the brackets around a name."""
    return any(
        one in _CLOSING_CHARACTERS or unicodedata.category(one) in _CLOSING_CATEGORIES
        for one in unicodedata.normalize("NFKC", character)
    )


def closed_name(name: str) -> str:
    """A name on one line, with `_` for every character that could close what it stands in."""
    return "".join("_" if may_close(one) else one for one in short_name(name))


def transcript(
    messages: Sequence[Message],
    *,
    counter: TokenCounter,
    max_message_tokens: int = 2000,
    zone: tzinfo | None = None,
) -> str:
    """One block per message, a blank line between two; the middle of a longer message is cut out.

    With a time zone, the day is named where it changes.
    """
    names = tool_names_by_call(messages)
    blocks: list[str] = []
    day = ""
    for message in messages:
        if zone is not None and (today := format_day(message.created_at.astimezone(zone))) != day:
            blocks.append(f"[{today}]")
            day = today
        blocks.append(_render_message(message, names, counter, max_message_tokens))
    return "\n\n".join(blocks)


def tool_names_by_call(messages: Sequence[Message]) -> dict[str, str]:
    """The tools' names by the ids of the calls to them."""
    return {call.id: call.name for message in messages for call in message.tool_calls if call.id}


def speaker_label(message: Message, names: dict[str, str]) -> str:
    """Who speaks, on one line: `User`, `User (Ana)`, `Assistant (planner)`, `Tool search failed`."""
    role = message.role.value.capitalize()
    if message.role is ChatRole.TOOL:
        name = short_name(message.name or names.get(message.tool_call_id or "", ""))
        return " ".join(filter(None, [role, name, "failed" if message.is_error else ""]))
    name = short_name((message.agent if message.role is ChatRole.ASSISTANT else "") or message.name or "")
    return f"{role} ({name})" if name else role


_NAME_BEFORE = lazy_pattern(r"([^\W\d_][\w.'\u2019-]*(?: [^\W\d_][\w.'\u2019-]*){0,2}): ")
_ROLES = frozenset(ChatRole)


def name_before(text: str) -> str:
    """The name before what somebody said, as in "Ana: no nuts for me"; "" if there is none.

    Only where most messages begin so it is a name, and no "Note: ...". A role is never one.
    """
    found = _NAME_BEFORE.match(text)
    return "" if found is None or found[1].split()[0].casefold() in _ROLES else found[1]


def short_name(name: str) -> str:
    """A name on one line, with its middle left out where it is longer than any name should be."""
    name = " ".join(name.split())
    return name if len(name) <= MAX_LABEL_LENGTH else f"{name[:40]} ... {name[-15:]}"


def visible_text(message: Message) -> str:
    """Content as a reader sees it: texts, and a note for each image; no thinking."""
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
    # splitlines() knows every line break there is, also the ones a model or a terminal would show as one.
    return "\n".join("\n  ".join(line.splitlines()) for line in lines)
