"""A summary without a model: the most telling lines, as they were said.

Where no model is at hand, or none answers in time, something must still stand for the messages that
leave the window. Lines are picked by simple signs of weight: who speaks, words of rule and decision,
and how many identifiers they hold. It is instant, offline and always the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from autonomy_ctx.items.clamp import fair_share, shorten
from autonomy_ctx.items.identifiers import identifiers
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.items.transcript import body, called_names, short_name, speaker

LONGEST_LINE = 64  # tokens: a sentence of about 60 and who said it
LEAST_LINE = 12
ENDS = 20_000  # how much of a long text is read at each end
LEAST_ENDS = 400
PIECE = 400  # characters; text without punctuation is divided into pieces of this size
MISSES = 32  # how many lines in a row may not fit before the rest is left unread
UNREAD = 10.0  # the score of the note that says so: it comes before what was read
IMAGE = "[image]"
NOTHING = "[no text]"

_WEIGHTS = {
    ChatRole.USER: 2.0,
    ChatRole.SYSTEM: 1.0,
    ChatRole.DEVELOPER: 1.0,
    ChatRole.ASSISTANT: 1.0,
    ChatRole.TOOL: 0.8,
}
# fmt: off
_RULES = frozenset((
    "must", "mustn't", "never", "always", "please", "want", "wants", "need", "needs", "prefer", "prefers",
    "decide", "decided", "agree", "agreed", "remember", "important", "only", "goal", "deadline", "don't",
    "instead", "should", "error", "failed", "failure", "exception",
))
# fmt: on
_STOPS = re.compile(r"[.!?。\uff01\uff1f\r\n\x0b\x0c\x85\u2028\u2029]+")


# A line and its score.
_Line: TypeAlias = tuple[str, float]


def digest(
    messages: Sequence[Message], *, tokens: int, counter: TokenCounter, most: int | None = None
) -> str:
    """The most telling lines of the messages in their order, in at most `tokens` tokens.

    A line of every user message comes first as far as the budget goes, the newest before all others.
    About `most` characters are read in all, where time is short.
    """
    ends = ENDS if most is None else max(min(ENDS, most // (2 * max(len(messages), 1))), LEAST_ENDS)
    names = called_names(messages)
    lines: list[_Line] = []
    asked: list[int] = []
    for index, message in enumerate(messages):
        found = _message_lines(message, names, index / len(messages), ends)
        if message.role is ChatRole.USER:
            said = [at for at, (_, score) in enumerate(found) if score < UNREAD]
            asked += [len(lines) + at for at in sorted(said, key=lambda at: -found[at][1])[:1]]
        lines += found
    return _chosen(lines, asked[::-1], tokens, counter)


def digest_texts(texts: Sequence[str], *, tokens: int, counter: TokenCounter) -> str:
    """The same for digests and summaries: the lines with most identifiers, in order, each once."""
    if sum(map(len, texts)) <= tokens * 16:
        lines = dict.fromkeys(line.strip() for text in texts for line in text.splitlines())
        whole = "\n".join(filter(None, lines))
        if whole and counter.count_text(whole) <= tokens:
            return whole
    made: list[_Line] = []
    for index, text in enumerate(texts):
        for line, score in _scored(_lines, text):
            # What the user said outlasts what was done about it.
            made.append((line, score + index / len(texts) + 2 * line.startswith("- User")))
    return _chosen(made or [(NOTHING, 0.0)] * bool(texts), [], tokens, counter)


def telling(message: Message) -> float:
    """How much a message says for itself by these signs: the weight of its best line."""
    return max(score for _, score in _message_lines(message, {}, 0.0, LEAST_ENDS) if score < UNREAD)


def _message_lines(message: Message, names: dict[str, str], recency: float, ends: int) -> list[_Line]:
    who = speaker(message, names)
    base = _WEIGHTS[message.role] + recency / 2 + 2 * message.is_error
    asks = message.role is ChatRole.USER
    said: list[_Line] = []
    for text, score in _scored(_sentences, body(message), ends):
        score += base + (asks and text.endswith(("?", "\uff1f")))
        said.append((f"- {who}: {text}", 0.1 if text == IMAGE else score))
    for call in message.tool_calls:
        arguments = " ".join(f"{call.arguments[:ENDS]} {call.arguments[ENDS:][-ENDS:]}".split())
        if len(arguments) > 160:
            arguments = f"{arguments[:110]} ... {arguments[-40:]}"
        said.append((f"- {who} calls {short_name(call.name)}({arguments})", base + 1))
    # Each is a little lighter than the better ones of its message, so that no message takes all the room.
    lines = said[:]
    for rank, at in enumerate(sorted(range(len(said)), key=lambda at: -said[at][1])):
        text, score = said[at]
        lines[at] = (text, score - min(rank / 4, 3))
    return lines or [(f"- {who}: {NOTHING}", 0.0)]


def _scored(divide: Callable[[str], Iterable[str]], text: str, ends: int = ENDS) -> Iterator[_Line]:
    """Each sentence on one line, with what it says for itself; of a long text only of its two ends."""
    if len(text) <= 2 * ends:
        yield from map(_weighed, filter(None, map(_one_line, divide(text))))
        return
    yield from _scored(divide, text[:ends], ends)
    unread = f"{len(text) - 2 * ends:,} of {len(text):,} characters"
    yield f"[... {unread} were not read for this digest ...]", UNREAD
    yield from _scored(divide, text[-ends:], ends)


def _one_line(sentence: str) -> str:
    text = " ".join(sentence.split())
    # The numbers of a list and the marks between paragraphs are no sentences.
    return text if len(text) > 2 or text.isalnum() else ""


def _weighed(text: str) -> _Line:
    exact = len(identifiers(text))
    # Both how many and how dense; below 60 characters a sentence is not denser for being short.
    weight = min(exact, 6) / 3 + min(2.0, 40 * exact / max(len(text), 60))
    ruled = not _RULES.isdisjoint(text.lower().replace(",", " ").rstrip(".!?").split())
    return text, weight + 2 * ruled


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for match in _STOPS.finditer(text):
        end = match.end()
        # Not within "3.50", and not before a lower-case letter: "e.g. this" goes on.
        if text[end - 1] in ".!?" and (
            not text[end : end + 1].isspace() or text[end + 1 : end + 2].islower()
        ):
            continue
        yield from _pieces(text[start:end])
        start = end
    yield from _pieces(text[start:])


def _lines(text: str) -> Iterator[str]:
    """Lines, but a paragraph in one line as its sentences."""
    for line in text.splitlines():
        yield from [line] if len(line) <= PIECE else _sentences(line)


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces, divided at white space where there is some."""
    start = 0
    while len(text) - start > PIECE:
        space = text.rfind(" ", start + PIECE // 2, start + PIECE)
        stop = space if space > 0 else start + PIECE
        yield text[start:stop]
        start = stop
    yield text[start:]


def _chosen(lines: Sequence[_Line], first: Sequence[int], tokens: int, counter: TokenCounter) -> str:
    """The best lines that fit, in their order; those in `first` before all others, shortened if need be."""
    count = counter.count_text
    order = sorted(set(range(len(lines))).difference(first), key=lambda at: (-lines[at][1], -at))
    # More than these cannot have a line each; one token is for the line break.
    costs = [count(lines[at][0]) + 1 for at in first[: tokens // LEAST_LINE]]
    share = max(LEAST_LINE, min(LONGEST_LINE, fair_share(costs, tokens)))
    kept: dict[int, str] = {}
    seen: set[str] = set()
    left, misses = tokens, 0
    for number, at in enumerate([*first, *order]):
        if left < LEAST_LINE // 2 or misses > MISSES:
            break
        if lines[at][0] in seen:
            continue
        most = LONGEST_LINE if number >= len(first) else share - 1
        line = shorten(lines[at][0], most if kept else min(most, left - 1), count)
        if line in seen:
            continue
        cost = count(line + "\n")
        if cost > left and kept:
            misses += 1
            continue
        kept[at] = line
        seen |= {line, lines[at][0]}
        left -= cost
    ranked = list(kept)
    made = "\n".join(kept[at] for at in sorted(ranked))
    # Counts of lines need not add up to the count of all: then the last to come go first.
    while len(ranked) > 1 and count(made) > tokens:
        del ranked[-max(1, len(ranked) // 10) :]
        made = "\n".join(kept[at] for at in sorted(ranked))
    return made
