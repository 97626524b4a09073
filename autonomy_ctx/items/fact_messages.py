"""What the rules for facts read of a message: its sentences, its options, and what its calls do.

Nothing here decides what is a fact; `items/fact_rules.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from autonomy_ctx.items import fact_cues
from autonomy_ctx.items.fact import FactKind
from autonomy_ctx.items.fact_clauses import Clause, cue_table, phrase_table, read_clause, word_set
from autonomy_ctx.items.message import Message, ToolCall, content_text
from autonomy_ctx.items.phrases import PhraseTable, split_words
from autonomy_ctx.items.sentences import Sentence, split_sentences
from autonomy_ctx.items.terms import fold_text, lazy_pattern

MAX_SENTENCES_AT_EACH_END = 20  # of a long text, mostly pasted, only the ends are read
MAX_SENTENCE_CHARACTERS = 600
MAX_MESSAGE_CHARACTERS = 20_000  # of these, at each end
MAX_NAME_CHARACTERS = 100
MAX_STATEMENT_CHARACTERS = 160  # of what an answer or an acknowledgement makes a fact
_OPTION_LINE = lazy_pattern(
    r"\W{0,6}(?:option|variante|plan|opción|opção)?\s{0,3}\(?([a-z]|\d{1,2})(?:[).:]|\*\*| -)", 2
)
_CAMEL = lazy_pattern("([a-z])([A-Z])")
_HEADED_KINDS: tuple[FactKind, ...] = ("rule", "preference", "decision", "open")


def read_sentences(message: Message) -> list[Sentence]:
    text = content_text(message.content)
    if len(text) > 2 * MAX_MESSAGE_CHARACTERS:
        text = f"{text[:MAX_MESSAGE_CHARACTERS]}\n\n{text[-MAX_MESSAGE_CHARACTERS:]}"
    # A sentence that is much too long for a fact is a paste, and takes time.
    found = [sentence for sentence in split_sentences(text) if len(sentence.text) <= MAX_SENTENCE_CHARACTERS]
    if len(found) > 2 * MAX_SENTENCES_AT_EACH_END:
        return [*found[:MAX_SENTENCES_AT_EACH_END], *found[-MAX_SENTENCES_AT_EACH_END:]]
    return found


def read_statement(message: Message) -> Clause | None:
    """What a short message says as a whole, or the last sentence of a longer one that says something."""
    sentences = [one for one in read_sentences(message) if not one.is_question]
    whole = " ".join(sentence.text for sentence in sentences)
    if (
        whole
        and len(whole) <= MAX_STATEMENT_CHARACTERS
        and whole in " ".join(content_text(message.content).split())
    ):
        return read_clause(whole)
    read = (read_clause(one.text) for one in reversed(sentences))
    return next(
        (one for one in read if len(one.content) > 2 and len(one.text) <= MAX_STATEMENT_CHARACTERS), None
    )


def join_subject(sentence: Sentence, before: Sentence | None, whole: str) -> Sentence:
    """A sentence with the one before it, where it does not say itself what it is about: "Must be done."."""
    if (
        before is None
        or before.is_question
        or len(before.text) + len(sentence.text) > MAX_STATEMENT_CHARACTERS
    ):
        return sentence
    words = split_words(sentence.text)
    if not words or words[0].folded not in word_set("BARE_VERBS"):
        return sentence
    joined = f"{before.text} {sentence.text}"
    return Sentence(joined) if joined in whole else sentence


def is_asked(sentence: Sentence, clause: Clause) -> bool:
    """Whether something is asked, also where the mark is missing or something follows it."""
    return sentence.is_question or clause.has("question") or any(f"?{mark}" in clause.text for mark in ",; ")


def heading_kind(text: str) -> FactKind | None:
    words = split_words(text)
    if len(words) > 8:
        return None
    for kind in _HEADED_KINDS:
        table = _heading_table(kind)
        if next(table.find(text, words), None):
            return kind
    return None


@cache
def _heading_table(kind: str) -> PhraseTable[str]:
    return phrase_table(fact_cues.HEADINGS[kind])


def chosen_option(clause: Clause, asked: Message) -> str | None:
    """The line of the option that an answer names: "B please", "go with option 2"."""
    label = _option_label([word.folded for word in clause.words])
    if label is None:
        return None
    for line in content_text(asked.content)[:MAX_MESSAGE_CHARACTERS].splitlines():
        found = _OPTION_LINE.match(line)
        if found and found[1].lower() == label:
            return " ".join(line.split()).lstrip("-*\u2022 ")
    return None


def _option_label(words: Sequence[str]) -> str | None:
    def is_label(word: str) -> bool:
        return len(word) == 1 and word.isalnum() and word.isascii()

    for first, second in pairwise(words):
        if first in word_set("OPTION_WORDS") and is_label(second):
            return second
    rest = [word for word in words if word not in word_set("OPTION_FILLERS") and word != ","]
    return rest[0] if len(rest) == 1 and is_label(rest[0]) else None


def is_action(call: ToolCall) -> bool:
    """Whether a call changes something, by its name or by the command that it runs."""
    words = _name_words(call.name)
    if words & word_set("READING_VERBS"):
        return False
    if words & (word_set("ACTION_VERBS") | word_set("EDITING_VERBS")):
        return True
    command = call.arguments[:300]
    return next(cue_table("SHELL_ACTIONS").find(command, split_words(command)), None) is not None


def is_edit(call: ToolCall) -> bool:
    """Whether a call changes a part of something, which is worth a fact only if the whole is one."""
    return bool(_name_words(call.name) & word_set("EDITING_VERBS"))


def _name_words(name: str) -> frozenset[str]:
    spaced = _CAMEL.sub(r"\1 \2", name[:MAX_NAME_CHARACTERS])
    return frozenset(fold_text(spaced.replace("_", " ").replace("-", " ").replace(".", " ")).split())
