"""`ComparedFacts`: the facts that hold while messages are read, and which of them a message may be about.

A long conversation has thousands of facts. All of them are known by their texts, so that none is added twice;
only the newest are read and compared.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from autonomy_ctx.language.fact_clauses import (
    BRACKETED_DATE,
    Clause,
    Subject,
    find_codes,
    find_numbers,
    is_same_subject,
    names_another,
    old_value,
    read_clause,
    shares_subject,
)
from autonomy_ctx.language.phrases import split_words
from autonomy_ctx.messages.fact import ASSISTANT_NOTE, Fact, FactKind, stated_text
from autonomy_ctx.messages.text_cache import TextCache

# The newest ones: a correction is about something that is not long ago or still shown.
MAX_COMPARED_FACTS = 100
FACTS_PER_STEP = 500
MAX_CACHED_TEXTS = 16_384  # of facts that are not to be repeated

_normal_forms: TextCache[str] = TextCache(MAX_CACHED_TEXTS)


@dataclass(eq=False)
class HoldingFact:
    """A fact that holds, a standing one or one found in this call. It is read when it is compared."""

    target: str
    kind: FactKind
    text: str
    position: int
    # The fact that it stands for: "make it 9,200" is about the budget, as that one was.
    replaced: HoldingFact | None = None

    @cached_property
    def clause(self) -> Clause:
        return read_clause(BRACKETED_DATE.sub("", stated_text(self.text)))

    @cached_property
    def subject(self) -> Subject | None:
        return self.clause.subject or (self.replaced.subject if self.replaced else None)

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The codes that an artifact is known by."""
        return self.clause.codes if self.kind == "artifact" else frozenset()

    @cached_property
    def numbers(self) -> tuple[str, ...]:
        return tuple(find_numbers(stated_text(self.text)))

    @property
    def is_of_assistant(self) -> bool:
        """Tell whether only the assistant said it."""
        return self.text.endswith(ASSISTANT_NOTE)

    @property
    def has_code(self) -> bool:
        return has_code(find_codes(stated_text(self.text)))

    def may_be_replaced(self, clause: Clause) -> bool:
        """Tell whether a clause is about the same thing: it names its subject, or the value that held."""
        named = old_value(clause) & self.clause.content
        is_same = bool(clause.subject and self.subject and is_same_subject(clause.subject, self.subject))
        if names_another(clause, self.clause):
            return bool(named)
        others = [self.clause, *([self.replaced.clause] if self.replaced else [])]
        return bool(named) or is_same or any(shares_subject(clause, other) for other in others)


class ComparedFacts:
    """The facts that hold, in the order in which they were said.

    Of several that match a message, the newest is meant.
    """

    def __init__(self, standing: Sequence[Fact]) -> None:
        self._by_id = {fact.id: fact for fact in standing}
        holding = [fact for fact in sorted(standing, key=lambda fact: fact.position) if fact.state == "holds"]
        # Those that are too old to be compared, until newer ones are dropped.
        self._older, newest = holding[:-MAX_COMPARED_FACTS], holding[-MAX_COMPARED_FACTS:]
        self._known = [self._make(fact) for fact in newest]
        self._texts: set[str] = set()

    def read(self) -> Generator[int, None, None]:
        """Read what has to be known of the standing facts, in small steps."""
        for start in range(0, len(self._older), FACTS_PER_STEP):
            yield 0
            self._texts.update([normalize(fact.text) for fact in self._older[start : start + FACTS_PER_STEP]])
        for known in self._known[::-1]:
            yield 0
            self._texts.add(normalize(known.text))
            # Otherwise the first message would have to read all of them.
            _ = known.subject, known.clause.content, known.clause.quantities

    def newest(self) -> Iterator[HoldingFact]:
        """The facts that a message is compared with, the newest first."""
        return reversed(self._known[-MAX_COMPARED_FACTS:])

    def has_kind(self, kind: FactKind) -> bool:
        """Tell whether there is one of this kind, however old."""
        return any(fact.kind == kind for fact in self._older) or any(one.kind == kind for one in self._known)

    def has_text(self, text: str) -> bool:
        """Tell whether one of them has this text."""
        return normalize(text) in self._texts

    def add(self, fact: HoldingFact) -> None:
        """Add a fact that was just said."""
        self._known.append(fact)
        self._texts.add(normalize(fact.text))

    def drop(self, fact: HoldingFact) -> None:
        """Drop a fact that holds no more."""
        self._known.remove(fact)
        if self._older:
            self._known.insert(0, self._make(self._older.pop()))
        self._texts.discard(normalize(fact.text))

    def _make(self, fact: Fact) -> HoldingFact:
        made = HoldingFact(fact.id, fact.kind, fact.text, fact.position)
        old = self._by_id.get(fact.replaces or "")
        if old is not None:
            made.replaced = HoldingFact(old.id, old.kind, old.text, old.position)
        return made


def has_code(codes: frozenset[str]) -> bool:
    """Tell whether codes name a thing by letters and figures, not only an amount."""
    return any(any(map(str.isalpha, code)) for code in codes)


def normalize(text: str) -> str:
    """The words of a fact, which two facts that say the same have in common."""
    return _normal_forms.get_or_make(text, lambda: _fold_words(text))


def _fold_words(text: str) -> str:
    words = split_words(BRACKETED_DATE.sub("", text))
    return " ".join(word for word in words.folded if word not in ",:")
