"""`pin_message`: a model pins what must stay in view, within the room that pins have.

Memory, scope and conversation are injected: a model pins messages of its own conversation and no others. It
pins what was said by the user or by itself, never a tool's result or another agent's mail, and lets go only
of what a model has pinned.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autonomy_ctx.compaction.view import render_pin, select_pins
from autonomy_ctx.errors import InvalidPin
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Entry, Pin, make_key
from autonomy_ctx.messages.events import mail_id
from autonomy_ctx.messages.message import ChatRole
from autonomy_ctx.sections.section import PinningSection
from autonomy_ctx.tools.tool import tool
from autonomy_ctx.validation import check_int

# How many of the newest messages are looked through for a quotation.
QUOTED_MESSAGES = 200
MIN_QUOTE_CHARACTERS = 8


@tool
async def pin_message(
    memory: Memory,
    scope: str,
    conversation: str,
    agent: Any,
    position: int | None = None,
    quote: str | None = None,
    replaces: int | None = None,
) -> str:
    """Keep a message in view, word for word, for the rest of this conversation. The room for it is small.

    Args:
        position: The position of the message; leave out both this and `quote` for the user's newest message.
        quote: Some words of the message, exactly as they stand there, when you do not know its position.
        replaces: The position of a pinned message that this one makes out of date.
    """
    section = find_pinning_section(agent)
    if section is None:
        raise InvalidPin("this agent does not summarize, so all messages stay in view without pins")
    entry = await _find(memory, scope, conversation, position, quote)
    _check_speaker(entry)
    pins = (await memory.summary(scope, conversation)).pins
    if any(pin.position == entry.position for pin in pins):
        return f"Message {entry.position} is pinned already."
    old = None if replaces is None else _find_replaced(pins, replaces)
    _check_room(section, memory, [pin for pin in pins if pin is not old], entry)
    replaced_id = None if old is None else old.message.id
    key = make_key(memory.agent, scope, conversation)
    await memory.store.pin(key, entry.message.id, True, replaces=replaced_id, source="model")
    place = "" if old is None else f", and message {old.position} no longer"
    return f"Message {entry.position} is pinned{place}."


async def _find(
    memory: Memory, scope: str, conversation: str, position: int | None, quote: str | None
) -> Entry:
    """The message that is meant."""
    if position is not None and quote is not None:
        raise InvalidPin("give a position or a quote, not both")
    if quote is not None:
        return await _find_quoted(memory, scope, conversation, quote)
    head = await memory.head(scope, conversation)
    at = head.last_user if position is None else check_int("position", position)
    window = await memory.read(scope, conversation, after=at - 1, before=at + 1) if at else None
    if window is None or not window.entries:
        raise InvalidPin(f"there is no message at position {at}; positions are 1 to {head.position}")
    return window.entries[0]


async def _find_quoted(memory: Memory, scope: str, conversation: str, quote: str) -> Entry:
    words = _normalize(quote)
    if len(words) < MIN_QUOTE_CHARACTERS:
        raise InvalidPin(f"the quote is too short; give at least {MIN_QUOTE_CHARACTERS} characters")
    window = await memory.read(scope, conversation, limit=QUOTED_MESSAGES)
    spoken = [entry for entry in window.entries if entry.message.role is not ChatRole.TOOL]
    found = [entry for entry in spoken if words in _normalize(entry.message.text)]
    if not found:
        raise InvalidPin(f"none of the newest {QUOTED_MESSAGES} messages has these words; quote it exactly")
    if len(found) > 1:
        places = ", ".join(str(entry.position) for entry in found[-10:])
        raise InvalidPin(f"several messages have these words, at {places}; give the position or quote more")
    return found[0]


def _normalize(text: str) -> str:
    return " ".join(text.casefold().split())


def _check_speaker(entry: Entry) -> None:
    """Refuse what came from outside: a page that asks to be pinned is not pinned."""
    message = entry.message
    is_spoken = message.role in (ChatRole.USER, ChatRole.ASSISTANT) and not message.tool_calls
    if not is_spoken or mail_id(message) is not None:
        raise InvalidPin(
            f"message {entry.position} was not said by the user or in an answer of yours; "
            f"results of tools and mail cannot be pinned"
        )


def _find_replaced(pins: Sequence[Pin], position: int) -> Pin:
    own = [pin for pin in pins if pin.source == "model"]
    found = next((pin for pin in own if pin.position == position), None)
    if found is None:
        places = ", ".join(str(pin.position) for pin in own) or "none"
        raise InvalidPin(
            f"message {position} is not one that you have pinned, so it cannot be replaced; yours: {places}"
        )
    return found


def _check_room(section: PinningSection, memory: Memory, pins: Sequence[Pin], entry: Entry) -> None:
    """Refuse a pin that would push another one out."""
    new = Pin(entry.position, entry.message, source="model")
    both = sorted([*pins, new], key=lambda pin: pin.position)
    counter, room = memory.token_counter, section.pin_tokens
    costs = {pin.position: counter.count_uncalibrated(render_pin(pin)) for pin in both}
    if costs[new.position] <= room and not select_pins(both, both[-1].position, room, counter).omitted:
        return
    others = ", ".join(f"{pin.position} ({costs[pin.position]} tokens)" for pin in pins) or "none"
    raise InvalidPin(
        f"there is no room: pins have {room} tokens, message {new.position} takes {costs[new.position]}; "
        f"pinned are {others}. Replace one that you have pinned, or pin a shorter message that says the same"
    )


def find_pinning_section(agent: Any) -> PinningSection | None:
    """The section of an agent's template that shows pins; None when it has none."""
    sections = getattr(getattr(agent, "context_template", None), "sections", ())
    return next((one for one in sections if isinstance(one, PinningSection)), None)
