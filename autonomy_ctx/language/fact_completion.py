"""Whether a clause reports that something open is done.

People seldom repeat the words of a to-do: "call the plumber" ends with "took care of the plumber". So a
report is compared by the words that both share, with those of the report or of the item, whichever are fewer,
and by the verb in the past. Nothing here decides what is a fact; `language/fact_rules.py` does.
"""

from __future__ import annotations

from functools import cache

from autonomy_ctx.language import fact_cues
from autonomy_ctx.language.fact_clauses import Clause, stem_word, word_set
from autonomy_ctx.language.phrases import split_words
from autonomy_ctx.language.words import is_unspaced

MAX_REPORT_WORDS = 12  # that something is done, which names little else
MIN_PART = 0.5  # of the words of an open item, in a report that it is done
MIN_PART_OF_SEVERAL = 0.4
MIN_REPORTED_PART = 0.5  # of the words of the report, where it shares several with the item


def completion(clause: Clause, item: Clause) -> float:
    """The share of an open item that a clause reports as done; 0 where it reports something else."""
    if not item.content or not clause.content:
        return 0.0
    past = clause.past_verbs
    is_past = not past.isdisjoint(item.verbs)
    # "The gutters are clean" says all that "clean the gutters" does.
    is_whole = len(item.content) > 1 and item.content <= clause.content and not clause.has("decision", "rule")
    if not clause.has("done") and not is_past and not is_whole:
        return 0.0
    shared = clause.content & item.content | item.verbs & past
    reported = clause.content - done_stems() - past
    if any(map(is_unspaced, shared)):
        part = len(shared) / min(len(clause.content), len(item.content))
        return part if part >= MIN_PART else 0.0
    part = len(shared) / len(item.content)
    if part >= (MIN_PART if len(shared) < 2 else MIN_PART_OF_SEVERAL):
        return part
    if len(clause.words) <= MAX_REPORT_WORDS and reported and reported <= item.content:
        return max(part, MIN_PART)
    if len(shared) > 1 and len(shared) >= MIN_REPORTED_PART * len(reported | shared):
        return max(part, MIN_PART / 2)
    # "Took care of the plumber, he comes on Tuesday": what was done comes first.
    first = _first_part(clause)
    if clause.has("done") and first and first <= item.content:
        return max(part, MIN_PART / 2)
    return 0.0


def _first_part(clause: Clause) -> frozenset[str]:
    """The report before the first comma or "and"; nothing for a clause of one part."""
    ends = (at for at, word in enumerate(clause.words.folded) if word in _PART_ENDS)
    end = next(ends, None)
    if end is None or end > MAX_REPORT_WORDS:
        return frozenset()
    stems = set(map(stem_word, clause.words.folded[:end]))
    return frozenset(stems & clause.content) - done_stems() - clause.past_verbs


_PART_ENDS = frozenset((",", "and", "und", "et", "y", "e"))


def is_bare_report(clause: Clause) -> bool:
    """Tell whether a clause says that something is done, and not what."""
    return clause.has("done") and len(clause.words) <= 5 and clause.content <= clause.past_verbs


@cache
def done_stems() -> frozenset[str]:
    """The words in which something is called done."""
    words = split_words(fact_cues.FACT_CUES["done"])
    return frozenset(map(stem_word, words.folded)) - word_set("POSSESSIVES")
