"""Measures how much of the earlier conversation a context still shows: facts that hold, and identifiers.

The facts and identifiers of a conversation are found once, by rules and without a model
(`language/facts.py`, `name_index.py`). Then it counts how many of them each context shows, in the
summary or in the messages. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autonomy_ctx.compaction.key_names import key_identifiers
from autonomy_ctx.language.facts import find_facts
from autonomy_ctx.language.identifiers import THOUSANDS_SEPARATOR
from autonomy_ctx.language.name_index import key_names_of
from autonomy_ctx.language.words import fold_text
from autonomy_ctx.memory.facts import NO_SEGMENT, FactIndex, change_facts, make_rows
from autonomy_ctx.memory.search_terms import folded_words
from autonomy_ctx.messages.fact import Fact, normalize_fact
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.replay.conversation import RecordedConversation

# Which part of the words of a fact one line has that says the same; its identifiers it has all.
MIN_SHARED_WORDS = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class SaidBefore:
    """The facts that hold before a turn, and how many identifiers were named."""

    facts: tuple[Fact, ...]
    names: int


class ConversationIndex:
    """The facts and identifiers of a recorded conversation, turn by turn."""

    def __init__(self, conversation: RecordedConversation) -> None:
        # By position, from 1 on: the identifiers of each message, in the form in which they are compared.
        self.names: list[frozenset[str]] = [frozenset()]
        self.before: list[SaidBefore] = []
        # Every identifier as it was first written, and the position of that message.
        self.spelling: dict[str, tuple[str, int]] = {}
        facts, last_fact = tuple[Fact, ...](), 0
        previous: tuple[int, Message] | None = None
        holding: tuple[Fact, ...] = ()
        position = 0
        for turn in conversation.turns():
            self.before.append(SaidBefore(facts=holding, names=len(self.spelling)))
            said = [one for request in turn.requests for one in request.said] + list(turn.rest)
            entries = [(position + index, message) for index, message in enumerate(said, 1)]
            position += len(said)
            for at, message in entries:
                self._note_names(message, at)
            changes = find_facts(entries, facts, before=previous)
            if changes:
                index = FactIndex((int(one.id[1:]), one.source, one.text) for one in holding)
                rows = make_rows(index, changes, last=last_fact, segment=NO_SEGMENT)
                last_fact = max([last_fact, *(row.number for row in rows)])
                facts = change_facts(facts, rows)
                holding = tuple(fact for fact in facts if fact.state == "holds")
            previous = entries[-1] if entries else previous
        self.at_end = SaidBefore(facts=holding, names=len(self.spelling))

    def _note_names(self, message: Message, position: int) -> None:
        names = frozenset(map(_normalize_name, written := key_identifiers([message])))
        self.names.append(names)
        for name in written:
            self.spelling.setdefault(_normalize_name(name), (name, position))


class RetentionMeter:
    """Counts, context by context of one replay, what is still shown. A summary is read once."""

    def __init__(self, index: ConversationIndex) -> None:
        self._index = index
        self._summary: Summary | None = None
        self._text = _SummaryText("")

    def names_shown(
        self,
        messages: Sequence[Message],
        positions: Sequence[int | None],
        whole: Sequence[Message],
        before: int,
    ) -> set[str]:
        """The identifiers named before a position that these messages show."""
        shown: set[str] = set()
        for message, position in zip(messages, positions, strict=True):
            if isinstance(message, Summary):
                self._read_summary(message)
                shown |= self._text.names
            elif position is not None and position < before:
                shown |= self._names_of(message, position, whole)
        spelling = self._index.spelling
        return {name for name in shown if name in spelling and spelling[name][1] < before}

    def facts_shown(
        self,
        facts: Sequence[Fact],
        messages: Sequence[Message],
        positions: Sequence[int | None],
        whole: Sequence[Message],
    ) -> list[Fact]:
        """The facts that a summary says or whose own message is shown whole."""
        verbatim: set[int] = set()
        text: _SummaryText | None = None
        for message, position in zip(messages, positions, strict=True):
            if isinstance(message, Summary):
                self._read_summary(message)
                text = self._text
            elif position is not None and message.text == whole[position - 1].text:
                verbatim.add(position)
        return [fact for fact in facts if fact.position in verbatim or (text is not None and text.says(fact))]

    def _read_summary(self, summary: Summary) -> None:
        if summary is not self._summary:
            self._summary = summary
            self._text = _SummaryText("\n".join(summary.texts))

    def _names_of(self, message: Message, position: int, whole: Sequence[Message]) -> frozenset[str]:
        original = whole[position - 1]
        if message is original or message.content == original.content:
            return self._index.names[position]
        return frozenset(map(_normalize_name, key_identifiers([message])))


class _SummaryText:
    """The text of a summary, to ask whether it says a fact."""

    def __init__(self, text: str) -> None:
        self.names = frozenset(map(_normalize_name, key_names_of(text)))
        self._lines = [(normalize_fact(line), line) for line in text.splitlines() if line.strip()]
        self._whole = "\n".join(line for line, _ in self._lines)
        self._words: list[set[str]] | None = None
        self._said: dict[str, bool] = {}

    def says(self, fact: Fact) -> bool:
        known = self._said.get(fact.id)
        if known is None:
            known = self._said[fact.id] = normalize_fact(fact.text) in self._whole or self._rephrases(fact)
        return known

    def _rephrases(self, fact: Fact) -> bool:
        """Tell whether one line has the fact's identifiers and most of its words."""
        if not self._lines:
            return False
        if self._words is None:
            self._words = [folded_words(line) for _, line in self._lines]
        words = folded_words(fact.text)
        names = [_normalize_name(name) for name in key_names_of(fact.text)]
        wanted = MIN_SHARED_WORDS * len(words)
        return bool(words) and any(
            len(words & line_words) >= wanted
            and all(name in THOUSANDS_SEPARATOR.sub("", fold_text(line)) for name in names)
            for line_words, (_, line) in zip(self._words, self._lines, strict=True)
        )


def _normalize_name(name: str) -> str:
    """An identifier in the form in which two are compared: 1,200 is 1200."""
    return THOUSANDS_SEPARATOR.sub("", fold_text(name))
