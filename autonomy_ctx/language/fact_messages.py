"""What the rules for facts read of a message: its sentences, its options, and what its calls do.

Nothing here decides what is a fact; `language/fact_rules.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import pairwise

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.language import fact_words
from autonomy_ctx.language.fact import FactKind
from autonomy_ctx.language.fact_clauses import Clause, cue_table, phrase_table, read_clause, word_set
from autonomy_ctx.language.phrases import PhraseTable, split_words
from autonomy_ctx.language.sentences import Sentence, split_sentences
from autonomy_ctx.language.words import fold_text
from autonomy_ctx.messages.message import Message, ToolCall, content_text

MAX_SENTENCES_AT_EACH_END = 20  # of a long text, mostly pasted, only the ends are read
MAX_SENTENCE_CHARACTERS = 600
MAX_MESSAGE_CHARACTERS = 20_000  # of these, at each end
MAX_NAME_CHARACTERS = 100
MAX_STATEMENT_CHARACTERS = 160  # of what an answer or an acknowledgement makes a fact
_OPTION_LINE = lazy_pattern(
    r"\W{0,6}(?:option|variante|plan|opción|opção)?\s{0,3}\(?([a-z]|\d{1,2})(?:[).:]|\*\*| -)", 2
)
_CAMEL = lazy_pattern("([a-z])([A-Z])")
MAX_ASKED_SENTENCES = 3  # of an assistant, that an answer may be to
MIN_OWN_WORDS = 2  # that say what a sentence is about; one with fewer needs the sentence before it
_JOINED_CUES = ("rule", "preference", "decision", "open", "due", "inquiry")
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
    """Read a short message as a whole, or the last sentence of a longer one that says something."""
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
        or sentence.is_question
        or len(before.text) + len(sentence.text) > MAX_STATEMENT_CHARACTERS
    ):
        return sentence
    clause = read_clause(sentence.text)
    if not clause.words or clause.has("question"):
        return sentence
    first = clause.words.folded[0]
    is_bare = first in word_set("BARE_VERBS") or (
        clause.has(*_JOINED_CUES)
        and (len(clause.content) < MIN_OWN_WORDS or first.partition("'")[0] in word_set("POINTING_WORDS"))
    )
    joined = f"{before.text} {sentence.text}"
    return Sentence(joined) if is_bare and joined in whole else sentence


def settled_question(clause: Clause, asked: Message) -> str | None:
    """Find what a short answer settles: a choice, or the question what, which, who, when, how many.

    Empty where it is too long to be quoted.
    """
    said = read_sentences(asked)[-MAX_ASKED_SENTENCES:]
    read = [read_clause(sentence.text) for sentence in said]
    named = frozenset[str]().union(*(one.content for one in read))
    is_conclusion = clause.has("conclusion", "accept") and len(clause.content) > 1
    for sentence, question in zip(reversed(said), reversed(read), strict=True):
        is_shared = bool(clause.content & question.content)
        is_choice = is_shared and question.has("alternative")
        is_open = sentence.is_question and question.has("question")
        is_open = is_open and not clause.has("accept", "task", "request")
        is_answer = bool(clause.content) and (sentence is said[-1] or bool(clause.content & named))
        if is_choice or (is_open and is_answer) or (is_conclusion and is_shared):
            return sentence.text if len(sentence.text) <= MAX_STATEMENT_CHARACTERS else ""
    return None


def is_asked(sentence: Sentence, clause: Clause) -> bool:
    """Tell whether something is asked, also where the mark is missing or something follows it."""
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
    return phrase_table(fact_words.HEADINGS[kind])


def chosen_option(clause: Clause, asked: Message) -> str | None:
    """The line of the option that an answer names: "B please", "go with option 2"."""
    label = _option_label(clause.words.folded)
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
    """Tell whether a call changes something, by its name or by the command that it runs."""
    words = _name_words(call.name)
    if words & word_set("READING_VERBS"):
        return False
    if words & (word_set("ACTION_VERBS") | word_set("EDITING_VERBS")):
        return True
    command = call.arguments[:300]
    return next(cue_table("SHELL_ACTIONS").find(command, split_words(command)), None) is not None


def is_edit(call: ToolCall) -> bool:
    """Tell whether a call changes a part of something, which is worth a fact only if the whole is one."""
    return bool(_name_words(call.name) & word_set("EDITING_VERBS"))


def _name_words(name: str) -> frozenset[str]:
    spaced = _CAMEL.sub(r"\1 \2", name[:MAX_NAME_CHARACTERS])
    return frozenset(fold_text(spaced.replace("_", " ").replace("-", " ").replace(".", " ")).split())
