"""What a clause says by the way it is built, where no phrase of a table tells.

"We print handouts" is a plan, "I haven't booked it" is open, "all prices in euros" is a rule, whatever is
printed, booked or priced. Nothing here decides what is a fact; `language/fact_rules.py` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from autonomy_ctx.language.fact_clauses import Clause, is_past_form, word_set

MAX_NEGATED_WORDS = 4  # between a negation and the verb that it denies
MAX_UNIVERSAL_WORDS = 12
_NOT_PLANS = ("done", "task", "request", "question", "none", "report")


def plans(clause: Clause) -> bool:
    """Tell whether people say what they will do: "we'll be staying here", "den Server schalten wir ab"."""
    if clause.has(*_NOT_PLANS):
        return False
    future, feelings = word_set("FUTURE_WORDS"), word_set("FEELING_VERBS")
    words = clause.words.folded
    for word, following in pairwise(words):
        if word in future and following not in feelings:
            return True
    return any(_is_plural_verb(words, at) for at in range(len(words)))


def _is_plural_verb(words: Sequence[str], at: int) -> bool:
    """Tell whether a verb in the first person plural stands here."""
    word = words[at]
    if word in word_set("STATE_VERBS"):
        return False
    before = words[at - 1] if at else ""
    after = words[at + 1] if at + 1 < len(words) else ""
    if before == "we":
        return word.isalpha() and not is_past_form(word) and len(word) > 2
    if "wir" in (before, after):
        return len(word) > 4 and word.endswith("en")
    if before == "nous":
        return len(word) > 5 and word.endswith("ons")
    if before == "on":
        return at == 1 and len(word) > 3
    return len(word) > 5 and word.endswith("mos")


def is_undone(clause: Clause) -> bool:
    """Tell whether something was not done: "I haven't booked the flights", "on n'a pas d\u00e9cid\u00e9"."""
    words = clause.words.folded
    negations = word_set("PERFECT_NEGATIONS")
    for at, word in enumerate(words):
        if word in negations:
            near = words[at + 1 : at + 1 + MAX_NEGATED_WORDS]
            if any(map(is_past_form, near)):
                return True
    said = set(words)
    is_awaited = bool(said & {"noch", "yet", "encore", "todavia", "aun", "ainda"}) or {"so", "far"} <= said
    if is_awaited and said & word_set("NEGATIONS"):
        return True
    is_needed = any(one in ("needs", "need") and other.endswith("ing") for one, other in pairwise(words))
    return is_needed or {"\u0644\u0645", "\u0628\u0639\u062f"} <= said


def is_universal(clause: Clause) -> bool:
    """Tell whether a clause is about all of something: "all prices in euros", "metric units throughout"."""
    if clause.has("done", "question", "report", "change") or len(clause.words) > MAX_UNIVERSAL_WORDS:
        return False
    if len(clause.content) < 2:
        return False
    words = clause.words.folded
    if any(is_past_form(word) for word in words):
        return False
    universal = word_set("UNIVERSALS")
    return bool(words) and (words[0] in universal or words[-1] in ("throughout", "everywhere", "partout"))
