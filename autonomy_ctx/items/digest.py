"""A summary made without a model: the most important lines of the messages, word for word.

It is used where no model is configured or none answers in time. Lines are scored by role, by words such
as "must" or "decided", and by the number of identifiers. The result is immediate and the same for the
same messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from autonomy_ctx.items.clamp import CHARACTERS_PER_TOKEN, fair_share, shorten
from autonomy_ctx.items.identifiers import identifiers
from autonomy_ctx.items.message import ChatRole, Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.items.transcript import short_name, speaker_label, tool_names_by_call, visible_text

MAX_LINE_TOKENS = 64  # tokens: a sentence of about 60 and who said it
MIN_LINE_TOKENS = 12
MAX_END_LENGTH = 20_000  # how much of a long text is read at each end
MIN_END_LENGTH = 400
PIECE_LENGTH = 400  # characters; text without punctuation is divided into pieces of this size
MAX_MISSES = 32  # how many lines in a row may not fit before the rest is left unread
UNREAD_NOTE_SCORE = 10.0  # the score of the note that says so: it comes before what was read
IMAGE_PLACEHOLDER = "[image]"
NO_TEXT_PLACEHOLDER = "[no text]"

_ROLE_WEIGHTS = {
    ChatRole.USER: 2.0,
    ChatRole.SYSTEM: 1.0,
    ChatRole.DEVELOPER: 1.0,
    ChatRole.ASSISTANT: 1.0,
    ChatRole.TOOL: 0.8,
}
# fmt: off
_RULE_WORDS = frozenset((
    "must", "mustn't", "never", "always", "please", "want", "wants", "need", "needs", "prefer", "prefers",
    "decide", "decided", "agree", "agreed", "remember", "important", "only", "goal", "deadline", "don't",
    "instead", "should", "error", "failed", "failure", "exception",
))
# fmt: on
_SENTENCE_ENDS = re.compile(r"[.!?。\uff01\uff1f\r\n\x0b\x0c\x85\u2028\u2029]+")


# A line and its score.
_ScoredLine: TypeAlias = tuple[str, float]


def digest(
    messages: Sequence[Message], *, tokens: int, counter: TokenCounter, max_characters: int | None = None
) -> str:
    """The most telling lines of the messages in their order, in at most `tokens` tokens.

    A line of every user message comes first as far as the budget goes, the newest before all others.
    About `max_characters` characters are read in all, where time is short.
    """
    ends = (
        MAX_END_LENGTH
        if max_characters is None
        else max(min(MAX_END_LENGTH, max_characters // (2 * max(len(messages), 1))), MIN_END_LENGTH)
    )
    names = tool_names_by_call(messages)
    lines: list[_ScoredLine] = []
    asked: list[int] = []
    for index, message in enumerate(messages):
        found = _message_lines(message, names, index / len(messages), ends)
        if message.role is ChatRole.USER:
            said = [at for at, (_, score) in enumerate(found) if score < UNREAD_NOTE_SCORE]
            asked += [len(lines) + at for at in sorted(said, key=lambda at: -found[at][1])[:1]]
        lines += found
    return _choose_lines(lines, asked[::-1], tokens, counter)


def digest_texts(texts: Sequence[str], *, tokens: int, counter: TokenCounter) -> str:
    """The same for digests and summaries: the lines with most identifiers, in order, each once."""
    if sum(map(len, texts)) <= tokens * CHARACTERS_PER_TOKEN:
        lines = dict.fromkeys(line.strip() for text in texts for line in text.splitlines())
        whole = "\n".join(filter(None, lines))
        if whole and counter.count_text(whole) <= tokens:
            return whole
    made: list[_ScoredLine] = []
    for index, text in enumerate(texts):
        for line, score in _score_lines(_split_lines, text):
            # What the user said outlasts what was done about it.
            made.append((line, score + index / len(texts) + 2 * line.startswith("- User")))
    return _choose_lines(made or [(NO_TEXT_PLACEHOLDER, 0.0)] * bool(texts), [], tokens, counter)


def score_message(message: Message) -> float:
    """How much a message says for itself by these signs: the weight of its best line."""
    return max(
        score for _, score in _message_lines(message, {}, 0.0, MIN_END_LENGTH) if score < UNREAD_NOTE_SCORE
    )


def _message_lines(message: Message, names: dict[str, str], recency: float, ends: int) -> list[_ScoredLine]:
    who = speaker_label(message, names)
    base = _ROLE_WEIGHTS[message.role] + recency / 2 + 2 * message.is_error
    asks = message.role is ChatRole.USER
    said: list[_ScoredLine] = []
    for text, score in _score_lines(_split_sentences, visible_text(message), ends):
        score += base + (asks and text.endswith(("?", "\uff1f")))
        said.append((f"- {who}: {text}", 0.1 if text == IMAGE_PLACEHOLDER else score))
    for call in message.tool_calls:
        arguments = " ".join(
            f"{call.arguments[:MAX_END_LENGTH]} {call.arguments[MAX_END_LENGTH:][-MAX_END_LENGTH:]}".split()
        )
        if len(arguments) > 160:
            arguments = f"{arguments[:110]} ... {arguments[-40:]}"
        said.append((f"- {who} calls {short_name(call.name)}({arguments})", base + 1))
    # Each is a little lighter than the better ones of its message, so that no message takes all the room.
    lines = said[:]
    for rank, at in enumerate(sorted(range(len(said)), key=lambda at: -said[at][1])):
        text, score = said[at]
        lines[at] = (text, score - min(rank / 4, 3))
    return lines or [(f"- {who}: {NO_TEXT_PLACEHOLDER}", 0.0)]


def _score_lines(
    divide: Callable[[str], Iterable[str]], text: str, ends: int = MAX_END_LENGTH
) -> Iterator[_ScoredLine]:
    """Each sentence on one line, with what it says for itself; of a long text only of its two ends."""
    if len(text) <= 2 * ends:
        yield from map(_score_line, filter(None, map(_clean_sentence, divide(text))))
        return
    yield from _score_lines(divide, text[:ends], ends)
    unread = f"{len(text) - 2 * ends:,} of {len(text):,} characters"
    yield f"[... {unread} were not read for this digest ...]", UNREAD_NOTE_SCORE
    yield from _score_lines(divide, text[-ends:], ends)


def _clean_sentence(sentence: str) -> str:
    text = " ".join(sentence.split())
    # The numbers of a list and the marks between paragraphs are no sentences.
    return text if len(text) > 2 or text.isalnum() else ""


def _score_line(text: str) -> _ScoredLine:
    exact = len(identifiers(text))
    # Both how many and how dense; below 60 characters a sentence is not denser for being short.
    weight = min(exact, 6) / 3 + min(2.0, 40 * exact / max(len(text), 60))
    ruled = not _RULE_WORDS.isdisjoint(text.lower().replace(",", " ").rstrip(".!?").split())
    return text, weight + 2 * ruled


def _split_sentences(text: str) -> Iterator[str]:
    start = 0
    for match in _SENTENCE_ENDS.finditer(text):
        end = match.end()
        # Not within "3.50", and not before a lower-case letter: "e.g. this" goes on.
        if text[end - 1] in ".!?" and (
            not text[end : end + 1].isspace() or text[end + 1 : end + 2].islower()
        ):
            continue
        yield from _split_pieces(text[start:end])
        start = end
    yield from _split_pieces(text[start:])


def _split_lines(text: str) -> Iterator[str]:
    """Lines, but a paragraph in one line as its sentences."""
    for line in text.splitlines():
        yield from [line] if len(line) <= PIECE_LENGTH else _split_sentences(line)


def _split_pieces(text: str) -> Iterator[str]:
    """The text in pieces, divided at white space where there is some."""
    start = 0
    while len(text) - start > PIECE_LENGTH:
        space = text.rfind(" ", start + PIECE_LENGTH // 2, start + PIECE_LENGTH)
        stop = space if space > 0 else start + PIECE_LENGTH
        yield text[start:stop]
        start = stop
    yield text[start:]


def _choose_lines(
    lines: Sequence[_ScoredLine], first: Sequence[int], tokens: int, counter: TokenCounter
) -> str:
    """The best lines that fit, in their order; those in `first` before all others, shortened if need be."""
    count = counter.count_text
    order = sorted(set(range(len(lines))).difference(first), key=lambda at: (-lines[at][1], -at))
    # More than these cannot have a line each; one token is for the line break.
    costs = [count(lines[at][0]) + 1 for at in first[: tokens // MIN_LINE_TOKENS]]
    share = max(MIN_LINE_TOKENS, min(MAX_LINE_TOKENS, fair_share(costs, tokens)))
    kept: dict[int, str] = {}
    seen: set[str] = set()
    left, misses = tokens, 0
    for number, at in enumerate([*first, *order]):
        if left < MIN_LINE_TOKENS // 2 or misses > MAX_MISSES:
            break
        if lines[at][0] in seen:
            continue
        most = MAX_LINE_TOKENS if number >= len(first) else share - 1
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
