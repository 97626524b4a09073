"""Statements of users about themselves or about all conversations, found without a model. Pure.

A wrong entry in a profile is worse than a missing one. So a statement counts only when it is a sentence of
its own that begins with what it is about ("I am vegetarian", "my name is ..."), or that says itself that it
is about all conversations, and when nothing ties it to a day, a case or a text at hand. The words are in the
tables `[profile]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.language.sentences import split_sentences
from autonomy_ctx.language.statement import Statement, read_languages, read_statement
from autonomy_ctx.language.tables import START_MARK, load_index, load_language
from autonomy_ctx.language.words import split_words
from autonomy_ctx.messages.fact import FactKind, clean_fact_text

# Longer messages are texts that were pasted, longer sentences say more than one thing.
MAX_MESSAGE_CHARACTERS, MAX_SENTENCE_CHARACTERS = 1500, 240
# A person has one of each.
_SINGLE = ("name", "pronouns", "home", "birthday", "job", "tongue", "email", "time_zone")
_OTHER_MEANINGS = frozenset((*_SINGLE, "being", "limit", "everywhere", "speech", "tied", "working"))


class ProfileStatement(NamedTuple):
    """A sentence that holds in all conversations, its kind, and what it is about, if that is one thing."""

    kind: FactKind
    text: str
    subject: str | None


def find_profile_statements(text: str, before: tuple[str, ...] = ()) -> list[ProfileStatement]:
    """The statements of a user's message that hold in all conversations.

    `before` are the languages of the messages before it.
    """
    if len(text) > MAX_MESSAGE_CHARACTERS:
        return []
    own = [sentence.text for sentence in split_sentences(text)]
    languages = read_languages(" ".join(own), before)
    if "working" in _meanings(read_statement(text, languages)):
        return []
    found = (read_profile_statement(sentence, languages) for sentence in own)
    return [statement for statement in found if statement is not None]


def profile_subject(text: str) -> str | None:
    """The one thing that a stored statement is about, in whichever language it is, such as a name."""
    found = read_profile_statement(text, read_languages(text)) or read_profile_statement(
        text, load_index().languages
    )
    return found.subject if found else None


def read_profile_statement(sentence: str, languages: Sequence[str]) -> ProfileStatement | None:
    """A sentence as a statement for a profile; None for any other."""
    text = clean_fact_text(sentence).rstrip(".!。\uff01 ")
    if not text or len(text) > MAX_SENTENCE_CHARACTERS or text[-1] in "?\uff1f؟" or text[0] in "\"'«„“「『":
        return None
    statement = read_statement(text, languages)
    meanings = _meanings(statement)
    if "everywhere" in meanings:
        return ProfileStatement("rule", text, None)
    if "tied" in meanings or statement.has("report", "doubt", "other", "past", "condition", "question"):
        return None
    if "speech" in meanings and statement.has("habit", "rule"):
        return ProfileStatement("rule", text, None)
    subject = next((one for one in _SINGLE if one in meanings), None)
    if subject:
        return ProfileStatement("value", text, subject)
    if "limit" in meanings:
        return ProfileStatement("preference", text, None)
    state = next(iter(sorted(meanings - _OTHER_MEANINGS)), None)
    return ProfileStatement("preference", text, state) if state and "being" in meanings else None


def _meanings(statement: Statement) -> frozenset[str]:
    """The meanings of its phrases for a profile; many count only where it begins."""
    words = split_words(statement.text.replace("\u2019", "'"))
    found: set[str] = set()
    for code in statement.languages:
        for match in load_language(code).phrases["profile"].find(words):
            for meaning in match.meanings:
                if not meaning.startswith(START_MARK) or words.start(match.first) == statement.start:
                    found.add(meaning.removeprefix(START_MARK))
    return frozenset(found)
