"""Who said what in a batch of messages, and whether that supports a line about facts that a model wrote.

A model reads a mail that a user pasted, a web page and its own earlier words in one text, and may take any of
it for what the user wants. The words of a line tell where it comes from. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from autonomy_ctx.background import pause
from autonomy_ctx.language.reported_speech import split_speech
from autonomy_ctx.language.sentences import split_sentences
from autonomy_ctx.language.statement import Statement, is_same_value, read_statement, stem_word
from autonomy_ctx.language.tables import find_languages, load_language
from autonomy_ctx.language.words import split_words
from autonomy_ctx.memory.search_text import searchable_text
from autonomy_ctx.memory.store import Entry
from autonomy_ctx.messages.events import is_said_by_user as is_said_by_user
from autonomy_ctx.messages.events import mail_id
from autonomy_ctx.messages.fact import (
    ASSISTANT_NOTE,
    TOOL_NOTE,
    Fact,
    FactAction,
    FactKind,
    FactLine,
    stated_text,
    tool_note,
)
from autonomy_ctx.messages.message import ChatRole, Message

MAX_ANSWER_WORDS = 12  # of a message that only accepts or reports
_NAMING_ATTRIBUTES = frozenset(("order", "booking"))  # their number says which one is meant
# What only users say: a tool or a pasted text has no goals and makes no rules for them.
_OF_USERS: tuple[FactKind, ...] = ("rule", "preference", "goal")


class Support(NamedTuple):
    """The action that a line may take, its source message, and a note on who said it."""

    action: FactAction
    entry: Entry
    note: str = ""


class _Utterance(NamedTuple):
    """The words of a message, or of a line of it."""

    entry: Entry
    words: frozenset[str]


class Voices:
    """The words of a batch: the user's own, the assistant's, those of tools, and those of pasted texts."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = entries
        self._own: list[_Utterance] = []
        self._sentences: list[_Utterance] = []
        self._assistant: list[_Utterance] = []
        self._tool: list[_Utterance] = []
        self._pasted: list[_Utterance] = []
        self._has_bare_report = False
        proposal = ""
        for entry in entries:
            pause()
            text = searchable_text(entry.message)
            if is_said_by_user(entry.message):
                own, pasted = split_speech(text)
                self._pasted += _read_lines(entry, pasted)
                sentences = [sentence.text for sentence in split_sentences(own)]
                sentences += [self._accepted(own, proposal)]
                self._sentences += [_Utterance(entry, _words(sentence)) for sentence in sentences]
                self._own.append(_Utterance(entry, _content("\n".join(sentences))))
                proposal = ""
            elif entry.message.role is ChatRole.TOOL:
                self._tool += _read_lines(entry, text)
            elif mail_id(entry.message) is not None:
                self._pasted += _read_lines(entry, text)
            else:
                self._assistant.append(_Utterance(entry, _words(text)))
                proposal = text

    def _accepted(self, own: str, proposal: str) -> str:
        """The assistant's proposal, if the user's message only accepts it."""
        if len(split_words(own)) > MAX_ANSWER_WORDS:
            return ""
        answer = read_statement(" ".join(own.split()))
        self._has_bare_report |= answer.has("done") and not answer.content
        is_accepted = answer.has("accept") and not answer.has("refuse", "change", "condition")
        return proposal if is_accepted else ""

    def check(self, line: FactLine, fact: Fact | None) -> Support | None:
        """Decide what a line about this fact may do; None for nothing."""
        words = _content(line.text)
        # A value that the assistant gives, the assistant may change.
        note = ASSISTANT_NOTE if line.kind == "value" else ""
        if line.action == "add" or fact is None:
            return self._check_new(line, words, note=note)
        is_of_user = _is_of_user(fact)
        if line.action == "done":
            is_ended = not is_of_user or self._supports_end(fact)
            return Support("done", self._source_of(words)) if is_ended else None
        if not is_of_user:
            return self._check_new(line, words, "replace", note=note)
        if _names_another(line, fact):
            return self._check_new(line, words)
        if self._supports_change(fact, line.text):
            return Support("replace", self._source_of(words))
        if line.kind in _OF_USERS:
            return None
        return self._check_new(line, words, note=ASSISTANT_NOTE)

    def _source_of(self, words: frozenset[str]) -> Entry:
        """The message that shares most words with a line; of several, what the user said last."""
        spoken = [*self._own, *self._assistant]
        if not _most(words, spoken):
            spoken += self._tool

        def fit(said: _Utterance) -> tuple[int, bool, int]:
            is_own = said.entry.message.role is ChatRole.USER
            return len(words & said.words), is_own, said.entry.position

        best = max(spoken, key=fit, default=None)
        return self._entries[-1] if best is None else best.entry

    def _check_new(
        self, line: FactLine, words: frozenset[str], action: FactAction = "add", *, note: str = ""
    ) -> Support | None:
        """Tell whether a line may stand as a fact; `note` is for one that only the assistant said."""
        own, assistant = _most(words, self._own), _most(words, self._assistant)
        tool, pasted = _most(words, self._tool), _most(words, self._pasted)
        is_of_users = line.kind in _OF_USERS
        if pasted > own and (is_of_users or pasted > assistant) and line.kind != "artifact":
            return None
        if is_of_users and tool > own and 2 * own < len(words):
            return None
        if tool > max(own, assistant):
            entry = max(self._tool, key=lambda said: len(words & said.words)).entry
            return Support(action, entry, tool_note(self._tool_name(entry.message)))
        figures = {word for word in words if word[0].isdigit()}
        is_given = figures and figures <= _join(self._assistant) and figures.isdisjoint(_join(self._own))
        return Support(action, self._source_of(words), note if assistant > own or is_given else "")

    def _tool_name(self, result: Message) -> str:
        calls = (call for entry in self._entries for call in entry.message.tool_calls)
        named = (call.name for call in calls if call.id and call.id == result.tool_call_id)
        return next(named, result.name or "unknown")

    def _supporters(self, fact: Fact, new: frozenset[str] = frozenset()) -> list[_Utterance]:
        """The utterances that may change a fact of the user: its sentences that do not only repeat it.

        What is open, an assistant may do and report.
        """
        if fact.kind == "open":
            return [*self._sentences, *self._assistant]
        stated = _words(stated_text(fact.text))
        is_repeated = stated.__le__ if fact.kind in ("rule", "preference") else stated.__eq__
        return [said for said in self._sentences if said.words & new or not is_repeated(said.words)]

    def _supports_end(self, fact: Fact) -> bool:
        about = _content(stated_text(fact.text))
        most = _most(about, self._supporters(fact))
        if not most:
            return fact.kind == "open" and self._has_bare_report
        return most >= _most(about, self._pasted)

    def _supports_change(self, fact: Fact, text: str) -> bool:
        words, before = _words(text), _words(stated_text(fact.text))
        new = words - before
        spoken = self._supporters(fact, new)
        # What somebody else says of the same thing, and the user does not.
        others = (said for said in (*self._assistant, *self._tool, *self._pasted) if said.words & before)
        taken = (new - _join(spoken)) & _join(others)
        if any(word.isdigit() for word in taken):
            return False
        if any(
            said.words & before or any(word.isdigit() for word in said.words & new)
            for said in spoken
            if said.words & new
        ):
            return True
        most = _most(before | words, spoken)
        return not taken and 0 < most >= _most(before | words, (*self._tool, *self._pasted))


def _read_lines(entry: Entry, text: str) -> list[_Utterance]:
    return [_Utterance(entry, _words(line)) for line in text.splitlines() if line.strip()]


def _is_of_user(fact: Fact) -> bool:
    return fact.kind != "artifact" and TOOL_NOTE not in fact.text and not fact.text.endswith(ASSISTANT_NOTE)


def _names_another(line: FactLine, fact: Fact) -> bool:
    """Tell whether a line is about something else than the fact; a number may be a short value."""
    written, known = read_statement(line.text), read_statement(stated_text(fact.text))
    if not _are_different(written, known):
        return False
    is_value = len(written.content - known.content) == 1 == len(known.content - written.content)
    return not (is_value and fact.kind == "value")


def _words(text: str) -> frozenset[str]:
    """The content words of a sentence, with the words that turn a rule into its opposite."""
    read = read_statement(text)
    tables = [load_language(code).phrases["cues"].meanings for code in read.languages]
    return _content(text) | {
        word
        for at, word in enumerate(read.words.folded)
        if read.has_in((at,), "habit") or any("negation" in table.get(word, ()) for table in tables)
    }


def _content(text: str) -> frozenset[str]:
    """The stems of all words of a text that are not frequent ones, and its numbers."""
    words = split_words(text)
    return Statement(text, words, find_languages(words.folded, text)).content


def _are_different(one: Statement, other: Statement) -> bool:
    """Tell whether two texts name different things of one sort: "order 1149" and "order 1155"."""
    if one.value and one.value.attribute not in _NAMING_ATTRIBUTES and is_same_value(one, other):
        return False
    # A version or a colour is a value; a booking code names a thing.
    mine, others = (
        {code for code in some.codes if code[0].isalpha() and "." not in code} for some in (one, other)
    )
    if mine and others and mine.isdisjoint(others):
        return True
    things, known = _numbered_things(one), _numbered_things(other)
    return any(things[word].isdisjoint(known[word]) for word in things.keys() & known)


def _numbered_things(one: Statement) -> dict[str, set[str]]:
    """The numbers that name things, by the word before them: "1149" of "order 1149"."""
    found: dict[str, set[str]] = {}
    for word, number in pairwise(one.words.folded):
        if number.isdigit() and word[0].isalpha() and not one.is_function(word):
            found.setdefault(stem_word(word), set()).add(number)
    return found


def _most(words: frozenset[str], spoken: Iterable[_Utterance]) -> int:
    """The largest number of these words in one utterance."""
    return max((len(words & said.words) for said in spoken), default=0)


def _join(spoken: Iterable[_Utterance]) -> frozenset[str]:
    return frozenset[str]().union(*(said.words for said in spoken))
