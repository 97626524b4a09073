"""Old results and images leave a context: when an epoch begins, each becomes one line.

A result is read once and sent with every later request. So large results and images of turns before the
newest ones are shown as a line that says what they were and how they can be read. Those of all turns but the
newest may be shown as excerpts, too, for a model that cannot read the rest. What is cleared is decided
when an epoch begins and stays so until it ends, because a provider caches the beginning of a request. The
same image is shown once. Pure functions.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from autonomy_ctx.formats.model_table import DEFAULT_PRICE, Price
from autonomy_ctx.messages.cuts import MAX_CALL_LOOKBACK
from autonomy_ctx.messages.excerpt import MIN_RESULT_TOKENS, Room, make_excerpt
from autonomy_ctx.messages.message import (
    ASSISTANT,
    TOOL,
    USER,
    ChatRole,
    Content,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
)
from autonomy_ctx.sections.section import ClearedParts, Composition, Contribution, EpochBeginning, Omission
from autonomy_ctx.validation import check_int

# A shorter result costs hardly more than its line.
LARGE_RESULT = 1_200
# No epoch ends for fewer tokens.
CLEAR_AT_LEAST = 2_000
# The tokens of a line, rounded up, and what is quoted in one.
LINE_TOKENS = 80
# What a large image is billed with, beside what is counted for any.
_IMAGE_TOKENS = 1_200
_ARGUMENTS, _FIRST_LINE = 100, 100
_NOTHING = EpochBeginning(0, ())


class ClearingLimits(NamedTuple):
    """After how many newer turns large results and images leave; None if they stay.

    Results of earlier turns that stay have so many `tokens` at most.
    """

    results: int | None = None
    images: int | None = None
    tokens: int | None = None

    @classmethod
    def of(cls, results: int | None, images: int | None, tokens: int | None = None) -> ClearingLimits:
        """The limits, checked."""
        check_int("clear_results_after", results, optional=True)
        check_int("clear_images_after", images, optional=True)
        check_int("max_result_tokens", tokens, least=MIN_RESULT_TOKENS, optional=True)
        return cls(results, images, tokens)

    def may_clear(self, found: Contribution) -> bool:
        """Tell whether there are results or images that could leave some day."""
        return self != (None, None, None) and any(map(_is_large, found.messages))

    def cut(self, found: Contribution) -> ClearedParts:
        """The positions up to which results and images are old by now."""
        asked = _positions_of(USER, found)
        turns = (self.results, self.images, None if self.tokens is None else 1)
        results, images, excerpts = (_before_newest(asked, number) for number in turns)
        return ClearedParts(results, images, excerpts=excerpts)

    def find_cleared(self, found: Contribution, sent: EpochBeginning | None) -> list[int]:
        """The positions that clearing would change now; none if that is what was sent."""
        source = found.anew or found
        cleared = self.cut(source)
        if sent is not None and cleared == sent.cleared._replace(kept=()):
            return []
        return [position for _, position in _find_old(source, cleared)]

    def clear(
        self,
        found: Contribution,
        composition: Composition,
        kept: Sequence[int],
        count: Callable[[Message], int] | None = None,
        price: Price = DEFAULT_PRICE,
    ) -> Contribution:
        """The history without what was old when the epoch began, and as it would be at a new beginning.

        With `count`, it says when a new beginning pays by a price.
        """
        writer = _LineWriter(self, composition.reads_results)
        source = found.anew or found
        now, sent = self.cut(source)._replace(kept=tuple(kept)), composition.beginning
        if sent is None:
            return writer.clear(source, now)
        swapped = None if found.swapped is None else writer.clear(found.swapped, sent.cleared)
        going = replace(writer.clear(found, sent.cleared), swapped=swapped)
        if now._replace(kept=()) == sent.cleared._replace(kept=()):
            # What would begin anew is what goes on.
            return going if found.anew is None else replace(going, anew=writer.clear(source, sent.cleared))
        pays = count is not None and self._pays(going, now, count, price)
        anew = writer.clear(replace(source, swapped=None), now)
        return replace(going, anew=anew, is_outdated=pays)

    def _pays(
        self, going: Contribution, now: ClearedParts, count: Callable[[Message], int], price: Price
    ) -> bool:
        """Tell whether what is old has cost as much in the requests since as it costs to begin anew."""
        asked, replies = _positions_of(USER, going), _positions_of(ASSISTANT, going)
        gone, carried = 0, 0
        # What is a line by now is not large any more.
        for message, position in _find_old(going, now):
            images = _images(message)
            turns, left = self.results or 0, LINE_TOKENS
            if images and position <= now.images:
                turns = self.images or 0
            elif position > now.results:
                turns, left = 1, self.tokens or 0
            since = asked[bisect_right(asked, position) - 1 + turns]
            tokens = max(count(message) + _IMAGE_TOKENS * len(images) - left, 0)
            gone, carried = gone + tokens, carried + tokens * (len(replies) - bisect_left(replies, since))
        if gone < CLEAR_AT_LEAST:
            return False
        rest = sum(count(one) + _IMAGE_TOKENS * len(_images(one)) for one in going.messages) - gone
        premium = max(price.cache_write - price.cached_input, 0.0)
        return carried * price.cached_input >= rest * premium


def _positions_of(role: ChatRole, found: Contribution) -> list[int]:
    pairs = zip(found.messages, found.positions or (), strict=False)
    return sorted(at for message, at in pairs if message.role is role and at is not None)


def _before_newest(positions: Sequence[int], turns: int | None) -> int:
    """The last position before the newest so many turns."""
    return 0 if turns is None or len(positions) <= turns else positions[-turns] - 1


def _is_large(message: Message) -> bool:
    """Tell whether a message has images, or is a large result."""
    if message.role is not TOOL:
        return type(message.content) is not str and bool(_images(message))
    return len(message.text) > LARGE_RESULT or bool(_images(message))


def _find_old(found: Contribution, cleared: ClearedParts) -> list[tuple[Message, int]]:
    """The messages that lose their text or their images, with their positions."""
    return [
        (message, position)
        for message, position in zip(found.messages, found.positions or (), strict=False)
        if position is not None and _loses(message, position, cleared)
    ]


def _loses(message: Message, position: int, cleared: ClearedParts) -> bool:
    last = max(cleared.results, cleared.excerpts)
    if position > max(last, cleared.images) or position in cleared.kept or not _is_large(message):
        return False
    if position <= cleared.images and _images(message):
        return True
    return position <= last and message.role is TOOL and len(message.text) > LARGE_RESULT


def _images(message: Message) -> list[ImageContent]:
    content = message.content
    if type(content) is not tuple:
        return [content] if type(content) is ImageContent else []
    return [part for part in content if type(part) is ImageContent]


class _LineWriter:
    """Writes the lines of one compose."""

    def __init__(self, limits: ClearingLimits, has_reader: bool) -> None:
        self._limits, self._has_reader = limits, has_reader

    def clear(self, found: Contribution, cleared: ClearedParts) -> Contribution:
        """The messages with lines in place of what is cleared, and of an image that was shown before."""
        messages, positions = list(found.messages), found.positions or (None,) * len(found.messages)
        first_shown: dict[str, int | None] = {}
        gone: dict[str, list[int]] = {"results": [], "images": []}
        for at, (message, position) in enumerate(zip(messages, positions, strict=True)):
            if not _is_large(message):
                continue
            if position is not None and _loses(message, position, cleared):
                if message.role is TOOL and len(message.text) > LARGE_RESULT:
                    call = _find_call(found.messages, at)
                    if position <= cleared.results:
                        message = replace(message, content=self._without_text(message, position, call))
                        gone["results"].append(position)
                    elif position <= cleared.excerpts:
                        message = self._shorten(message, position, call)
                if position <= cleared.images and _images(message):
                    line = self._image_line(position)
                    message = _replace_images(
                        message, dict.fromkeys([one.image for one in _images(message)], line)
                    )
                    gone["images"].append(position)
            if self._limits.images is not None and (shown := _images(message)):
                known = {
                    one.image: _same_line(first_shown[one.image]) for one in shown if one.image in first_shown
                }
                message = _replace_images(message, known) if known else message
                first_shown |= {one.image: position for one in shown if one.image not in known}
            messages[at] = message
        omitted = [
            Omission(
                first=some[0],
                last=some[-1],
                count=len(some),
                reason=f"clear_{what}_after={getattr(self._limits, what)}",
                what=what,  # type: ignore[arg-type]  # these are two of its values
            )
            for what, some in gone.items()
            if some
        ]
        return replace(
            found,
            messages=messages,
            omitted=(*found.omitted, *omitted),
            beginning=(found.beginning or _NOTHING)._replace(cleared=cleared),
        )

    def _without_text(self, message: Message, position: int, call: ToolCall | None) -> Content:
        text, name = message.text, message.name or (call.name if call else None) or "a tool"
        arguments = "" if call is None else _shorten(call.arguments, _ARGUMENTS)
        first = next((line.strip() for line in text[:2_000].splitlines() if line.strip()), "")
        line = (
            f"[Not shown here any more: the result of {name}({arguments}), {len(text):,} characters, which "
            f"began: {_shorten(first, _FIRST_LINE)}{self._where(position)}]"
        )
        images = _images(message)
        return (TextContent(line), *images) if images else line

    def _shorten(self, message: Message, position: int, call: ToolCall | None) -> Message:
        """The message with an excerpt of its text, if that is too long."""
        room = Room(sys.maxsize, self._limits.tokens)
        arguments, name = "" if call is None else call.arguments, str(position) if self._has_reader else ""
        text = make_excerpt(message.text, room, result_id=name, arguments=arguments)
        if text is message.text:
            return message
        return replace(message, content=(TextContent(text), *_images(message)))

    def _image_line(self, position: int) -> str:
        return f"[Not shown here any more: an image of message {position}{self._where(position)}]"

    def _where(self, position: int) -> str:
        if self._has_reader:
            return f'; read_result(id="{position}") shows it again'
        return f"; memory has it at position {position}"


def _replace_images(message: Message, lines: Mapping[str, str]) -> Message:
    """The message with lines for images; those without a line stay."""
    parts = [
        TextContent(lines[part.image]) if isinstance(part, ImageContent) and part.image in lines else part
        for part in message.parts
    ]
    return replace(message, content=tuple(parts))


def _find_call(messages: Sequence[Message], at: int) -> ToolCall | None:
    """The call of a result: the last one before it with that id, because some models use an id again."""
    name, first = messages[at].tool_call_id, max(at - MAX_CALL_LOOKBACK, 0)
    calls = (call for one in reversed(messages[first:at]) for call in one.tool_calls)
    return next((call for call in calls if call.id == name), None)


def _same_line(position: int | None) -> str:
    where = "above" if position is None else f"in message {position} above"
    return f"[The same image as {where}]"


def _shorten(text: str, most: int) -> str:
    """The text on one line; of a long one the beginning, up to the end of a word."""
    text = " ".join(text[: 2 * most].split()) if len(text) > most else text
    if len(text) <= most:
        return text
    kept = text[:most]
    return f"{kept[: kept.rfind(' ')] if ' ' in kept[most // 2 :] else kept}…"
