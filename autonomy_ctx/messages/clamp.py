"""Shortens texts and messages to a number of tokens by cutting out the middle.

The beginning says what a text is and the end how it came out, so the middle is cut first. A marker in
its place says how much is missing and where the whole text is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from autonomy_ctx.messages.message import (
    ImageContent,
    Message,
    MessageOrigin,
    Part,
    TextContent,
    ThinkingContent,
    ToolCall,
)
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import PER_CALL, PER_IMAGE, PER_MESSAGE, TokenCounter, count_message

CountText: TypeAlias = Callable[[str], int]
Marker: TypeAlias = Callable[[int], str]

IMAGE_NOTE = TextContent("[image not shown here]")
THINKING_NOTE = TextContent("[thinking not shown here]")
# Below this many tokens a text of its own says nothing: texts are joined, images go.
MIN_TEXT_TOKENS = 40
# The shortest that one message is cut to before others are left out.
MIN_MESSAGE_TOKENS = 48
MAX_SEARCH_STEPS = 10
# A text with more characters for each token it may have is too long without counting.
CHARACTERS_PER_TOKEN = 16
MAX_CUT_SHIFT = 24  # how many characters a cut moves to find white space


def clamp_text(text: str, tokens: int, count: CountText, location_note: str = "") -> str:
    """The text, or its beginning and end around a marker, in at most `tokens` tokens.

    `location_note` says in the marker where all of it is; it is left out where there is no room for it.
    """
    total = count(text)
    if not text or total <= tokens:
        return text

    def marker(hidden: int, where: str = location_note) -> str:
        return f"\n[... {hidden:,} of {len(text):,} characters are not shown here{where} ...]\n"

    for one in (marker, lambda hidden: marker(hidden, "")):
        if count(one(len(text))) * 4 <= tokens * 3:
            return _cut_middle(text, total, tokens, count, one)
    return _cut_middle(text, total, tokens, count, lambda hidden: "\n[...]\n")


def shorten(text: str, tokens: int, count: CountText) -> str:
    """A single line in at most `tokens` tokens, with ` ... ` where its middle was."""
    total = count(text)
    if not text or total <= tokens:
        return text
    return _cut_middle(text, total, tokens, count, lambda hidden: " ... ")


def fair_share(costs: Sequence[int], room: int) -> int:
    """The largest size for each so that all fit; what a small one does not need goes to the others."""
    left = max(room, 0)
    waiting = len(costs)
    for cost in sorted(costs):
        if cost * waiting > left:
            return left // waiting
        left -= cost
        waiting -= 1
    return max(costs, default=0)


def clamp_message(
    message: Message, tokens: int, counter: TokenCounter, *, location_note: str | None = None
) -> Message:
    """The message, shortened in the middle to `tokens` uncalibrated tokens where that is possible.

    `location_note` says in the marker where all of it is: unless given, in memory.
    """
    total = counter.count_uncalibrated(message)
    if total <= tokens:
        return message
    counts: dict[str, int] = {}

    def count(text: str) -> int:
        # Each text once, though several questions are asked about a large one.
        if text not in counts:
            counts[text] = counter.text_counter.count(text)
        return counts[text]

    parts: list[Part] = [part for part in message.parts if not isinstance(part, ThinkingContent)]
    if message.parts and not parts and not message.tool_calls:
        parts = [THINKING_NOTE]
    around = PER_MESSAGE + (count(message.name) if message.name else 0)
    if type(message.content) is str and not message.tool_calls:
        # Counted when it was stored.
        counts[message.content] = total - around
    room = tokens - around
    room -= sum(PER_CALL + count(call.name) for call in message.tool_calls)
    texts = [part.text if isinstance(part, TextContent) else IMAGE_NOTE.text for part in parts]
    calls, spent = _clamp_calls(message.tool_calls, texts, room, count)
    where = f"; memory has all of message {message.id!r}" if location_note is None else location_note
    shown = _clamp_parts(parts, room - spent, count, message, where)
    made = _with_parts(message, shown, calls)
    # Its texts were counted as they were cut; every context that shows it asks again.
    return replace(made, _made_from=MessageOrigin(counter=counter.name, tokens=count_message(made, count)))


def _with_parts(message: Message, shown: Sequence[Part], calls: tuple[ToolCall, ...]) -> Message:
    if isinstance(message, Summary):
        texts = [part.text for part in shown if isinstance(part, TextContent)]
        facts = texts.pop() if message.facts else ""
        segments = [replace(one, text=text) for one, text in zip(message.segments, texts, strict=True)]
        return replace(message, segments=tuple(segments), facts=facts)
    content = message.content
    if isinstance(content, tuple):
        return replace(message, content=tuple(shown), tool_calls=calls)
    if isinstance(content, str) and isinstance(shown[0], TextContent):
        return replace(message, content=shown[0].text, tool_calls=calls)
    return replace(message, content=shown[0] if shown else None, tool_calls=calls)


def _clamp_calls(
    calls: tuple[ToolCall, ...], texts: list[str], room: int, count: CountText
) -> tuple[tuple[ToolCall, ...], int]:
    """The calls with arguments that are too long left out, and what all their arguments cost."""
    costs = [count(call.arguments) for call in calls]
    most = fair_share([*costs, *map(count, texts)], room)
    made: list[ToolCall] = []
    spent = 0
    for call, cost in zip(calls, costs, strict=True):
        note = f'{{"not_shown": "{len(call.arguments):,} characters"}}'
        if cost > most and count(note) < cost:
            call, cost = replace(call, arguments=note), count(note)
        made.append(call)
        spent += cost
    return tuple(made), spent


def _clamp_parts(
    parts: list[Part], room: int, count: CountText, message: Message, location_note: str
) -> list[Part]:
    images = sum(isinstance(part, ImageContent) for part in parts)
    least = sum(min(count(part.text), MIN_TEXT_TOKENS) for part in parts if isinstance(part, TextContent))
    gone, note = 0, count(IMAGE_NOTE.text)
    while gone < images and least + (images - gone) * PER_IMAGE + gone * note > room:
        gone += 1
    # The last images go first, as the first are what the text is about more often.
    at = [index for index, part in enumerate(parts) if isinstance(part, ImageContent)]
    for index in islice(reversed(at), gone):
        parts[index] = IMAGE_NOTE
    kept = [part for part in parts if isinstance(part, ImageContent)]
    room -= PER_IMAGE * len(kept)
    texts = [part.text for part in parts if isinstance(part, TextContent)]
    costs = [count(text) for text in texts]
    most = fair_share(costs, room)
    if most < MIN_TEXT_TOKENS and len(texts) > 1 and max(costs) > most and not isinstance(message, Summary):
        return [TextContent(clamp_text("\n".join(texts), room, count, location_note)), *kept]
    return [
        TextContent(clamp_text(part.text, most, count, location_note))
        if isinstance(part, TextContent)
        else part
        for part in parts
    ]


def _cut_middle(text: str, total: int, tokens: int, count: CountText, marker: Marker) -> str:
    """The longest beginning and end that fit around the marker, found in a few steps."""
    best = _keep_ends(text, 0, marker)
    below, above = (0, count(best)), (len(text), max(total, tokens + 1))
    if below[1] >= tokens:
        return best if below[1] == tokens else marker(len(text)).strip()
    for step in range(MAX_SEARCH_STEPS):
        part = (0.98 * tokens - below[1]) / (above[1] - below[1])
        keep = below[0] + int((above[0] - below[0]) * part)
        # A text that is dense in one place: halving does not creep up on the answer from one side.
        if keep <= below[0] or step % 2:
            keep = (below[0] + above[0]) // 2
        if keep <= below[0]:
            break
        made = _keep_ends(text, keep, marker)
        cost = count(made)
        if cost > tokens:
            above = (keep, cost)
        else:
            below, best = (keep, max(cost, below[1])), made
            if cost * 10 >= tokens * 9:
                break
    return best


def _keep_ends(text: str, keep: int, marker: Marker) -> str:
    """About `keep` characters of the text, two thirds of them from its beginning."""
    head = keep * 2 // 3
    tail = len(text) - (keep - head)
    near = min(MAX_CUT_SHIFT, keep // 4)
    head = next((at for at in range(head, head - near, -1) if text[at].isspace()), head)
    tail = next((at for at in range(tail, tail + near) if text[at - 1].isspace()), tail)
    return text[:head] + marker(tail - head) + text[tail:]
