"""Marks what no longer holds in the segments of a summary. Pure.

A segment is history and stays as it was written. Where it states a fact that was replaced or is done, the
summary says so behind that sentence, or a model would take the old value for the present one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from autonomy_ctx.language.sentences import sentence_spans, text_languages
from autonomy_ctx.language.words import split_words
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.messages.fact import EndedText, stated_text
from autonomy_ctx.messages.tokens import TokenCounter

# A longer text than this is not repeated: the current facts have it.
MAX_MARK_CHARACTERS = 120
# The share of the words of a fact that a sentence that states it has as well: of a value those of its
# subject, while the value itself must be there in full; of what is done, nearly all.
MIN_SUBJECT_SHARE, MIN_DONE_SHARE = 0.5, 0.8
MIN_WORDS = 2
DONE_MARK = " (done since)"


def mark_segments(
    segments: Sequence[StoredSegment], ended: Sequence[EndedText], covered: int, counter: TokenCounter
) -> tuple[StoredSegment, ...]:
    """The segments as they are shown; what ended after the last message that they cover is not known yet."""
    known = [_EndedWords(one) for one in ended if one.position <= covered]
    return tuple(_mark_segment(segment, known, counter) for segment in segments)


class _EndedWords:
    """The words of a fact that has ended, and of the one in its place."""

    def __init__(self, ended: EndedText) -> None:
        old, new = _content_words(stated_text(ended.text)), _content_words(stated_text(ended.now))
        self.position = ended.position
        self.is_done = not ended.now
        self.subject, self.old, self.new = old & new, old - new, new - old
        now = stated_text(ended.now)
        short = f": now {now}" if len(now) <= MAX_MARK_CHARACTERS else ""
        self.mark = DONE_MARK if self.is_done else f" (no longer{short})"

    def may_be_stated(self, words: frozenset[str]) -> bool:
        """Tell whether a text of these words may state the fact."""
        if self.is_done:
            return len(self.old) >= MIN_WORDS and len(self.old & words) >= MIN_DONE_SHARE * len(self.old)
        return bool(self.old) and self.old <= words

    def is_stated(self, words: frozenset[str]) -> bool:
        """Tell whether a sentence of these words states the fact as if it held."""
        if self.is_done or not self.may_be_stated(words) or (self.new and self.new <= words):
            return self.is_done and self.may_be_stated(words)
        shared = len(self.subject & words)
        return len(self.old) + shared >= MIN_WORDS and shared >= MIN_SUBJECT_SHARE * len(self.subject)


def _mark_segment(
    segment: StoredSegment, ended: Sequence[_EndedWords], counter: TokenCounter
) -> StoredSegment:
    whole = _content_words(segment.text)
    before_end = (one for one in ended if not one.position or segment.first < one.position)
    near = [one for one in before_end if one.may_be_stated(whole)]
    if not near:
        return segment
    parts: list[str] = []
    end = 0
    for start, stop in sentence_spans(segment.text):
        sentence = segment.text[start:stop].rstrip()
        words = _content_words(sentence)
        mark = next((one.mark for one in near if one.is_stated(words)), "")
        if mark:
            parts += [segment.text[end : start + len(sentence)], mark]
            end = start + len(sentence)
    text = "".join([*parts, segment.text[end:]])
    return replace(segment, text=text, tokens=counter.count_text(text)) if parts else segment


def _content_words(text: str) -> frozenset[str]:
    """The words of a text but the most frequent ones of its language, and commas."""
    words = frozenset(split_words(text).folded) - {",", ":"}
    return words.difference(*(language.words["function"] for language in text_languages(text)))
