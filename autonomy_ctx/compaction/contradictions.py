"""Finds sentences that say the opposite of a fact, by the words of the `[reply]` table of their language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.background import pause
from autonomy_ctx.compaction.reply_text import SPEAKER_PATTERN, find_cues, split_text
from autonomy_ctx.language.identifiers import identifiers
from autonomy_ctx.language.name_index import NameIndex
from autonomy_ctx.language.sentences import QUESTION_MARKS
from autonomy_ctx.language.tables import Language
from autonomy_ctx.language.words import is_unspaced, split_words

RULE_SHARE = 0.6  # of the words of a rule, those of a clause about it
MAX_SPACES = 3  # in a name, such as a date
STEM = 4  # letters by which words are compared
# What these say is no subject.
_OPERATORS = frozenset(("denial", "ban", "lack", "lifting", "upper", "lower", "earlier", "later", "duty"))
_OPERATORS |= {"permission", "undecided", "neutral", "frame", "error", "record_noun"}
_ARABIC_PREFIXES = "التينمبلوف"
_CLAUSE_END = lazy_pattern(r"[,;，；、،]\s?|\s[\u2013\u2014-]\s")  # noqa: RUF001


class Claim(NamedTuple):
    """A text as it is compared: the beginnings of its words, and the meanings of its phrases."""

    stems: frozenset[str]
    meanings: frozenset[str]
    text: str
    names: Sequence[str]
    # The stems before its first bound in time ("before", "after").
    first: frozenset[str]

    @property
    def is_negative(self) -> bool:
        """Tell whether it denies: `not`, `forbidden` and `without` each turn what the others say."""
        return ("denial" in self.meanings) ^ ("ban" in self.meanings) ^ ("lack" in self.meanings)

    @property
    def bound(self) -> int:
        """Below 0 for a bound from above or before, above 0 for the others; a denial turns it."""
        bound = bool(self.meanings & {"lower", "later"}) - bool(self.meanings & {"upper", "earlier"})
        return -bound if self.is_negative else bound

    def align(self, rule: Claim) -> Claim:
        """The statement with the stems of a rule where its own only begin alike: "aski" and "ask"."""
        known = {one[:3]: one for one in rule.stems if len(one) == 3 or one[:3] in self.stems}
        return self._replace(
            stems=frozenset(known.get(one[:3], one) for one in self.stems),
            first=frozenset(known.get(one[:3], one) for one in self.first),
        )

    def is_about(self, rule: Claim) -> bool:
        """Tell whether it has most of the words of a rule, and all its identifiers."""
        shared = len(self.stems & rule.stems)
        return 0 < shared >= RULE_SHARE * len(rule.stems) and all(map(NameIndex(self.text).has, rule.names))


def read_statement(text: str, languages: Sequence[Language]) -> Claim:
    """A text as it is compared with others, read line by line."""
    stems: list[str] = []
    # What is quoted is no name, but words.
    names = [name for name in identifiers(text) if name.count(" ") < MAX_SPACES]
    meanings = set[str]()
    first: int | None = None
    for line in text.splitlines():
        pause()
        for name in names:
            line = line.replace(name, " " * len(name))
        bare, before = line, len(stems)
        for start, end, found in find_cues(line, languages):
            meanings.update(found)
            if not _OPERATORS.isdisjoint(found):
                bare = f"{bare[:start]}{' ' * (end - start)}{bare[end:]}"
            if first is None and ("earlier" in found or "later" in found):
                first = before + len(_stems(bare[:start], languages))
        stems += _stems(bare, languages)
    return Claim(frozenset(stems), frozenset(meanings), text, names, frozenset(stems[: first or 0]))


def deny_facts(
    text: str, source: str, facts: Sequence[str], languages: Sequence[Language]
) -> dict[str, list[str]]:
    """The facts that a text denies, each with these sentences, unless users took them back."""
    denied = find_denied(split_text(text), facts, languages) if facts else {}
    if not denied:
        return {}
    turns = [block for block in source.split("\n\n") if block.startswith("User")] or [source]
    said = _assertions(split_text("\n".join(SPEAKER_PATTERN.sub("", turn) for turn in turns)), languages)
    for fact in list(denied):
        rules = _clauses(fact, languages)
        told = [found for _, clauses in said if (found := is_denied(rules, clauses)) is not None]
        if told and told[-1]:
            del denied[fact]
    return denied


def find_denied(
    sentences: Iterable[str], facts: Iterable[str], languages: Sequence[Language]
) -> dict[str, list[str]]:
    """The facts of which a sentence says the opposite, each with these sentences."""
    told = _assertions(sentences, languages)
    stems = frozenset().union(*(clauses[0].stems for _, clauses in told))
    denied: dict[str, list[str]] = {}
    for fact in facts:
        pause()
        # Hardly any is about what the sentences say: most are not read closely.
        if stems.isdisjoint(_stems(fact, languages)):
            continue
        rules = _clauses(fact, languages)
        if found := [sentence for sentence, clauses in told if is_denied(rules, clauses)]:
            denied[fact] = found
    return denied


def is_denied(rules: Sequence[Claim], clauses: Sequence[Claim]) -> bool | None:
    """Tell whether clauses deny a rule, given whole and in parts; None if they are not about it."""
    found: bool | None = None
    for rule in rules:
        about = [one for clause in clauses if (one := clause.align(rule)).is_about(rule)]
        if about:
            clause = min(about, key=partial(_distance, rule))
            # A part of a rule says less: only a plain denial of it counts.
            if is_opposite(clause, rule) and (rule is rules[0] or is_plain_denial(clause, rule)):
                return True
            found = False if rule is rules[0] else found
    return found


def is_opposite(clause: Claim, rule: Claim) -> bool:
    """Tell whether a clause about a rule says the opposite: lifts it, denies it, or turns its bound."""
    if "lifting" in clause.meanings or "undecided" in clause.meanings:
        return "lifting" in clause.meanings - rule.meanings
    if rule.bound and clause.bound:
        # "Ask before you delete" is "delete after you asked".
        is_swapped = bool(clause.first & rule.stems - rule.first) and bool(
            rule.first & clause.stems - clause.first
        )
        return (clause.bound != rule.bound) ^ is_swapped
    if rule.bound:
        return "lack" in clause.meanings - rule.meanings and clause.is_negative
    # Another word in place of one of the rule ("keep it", "it is not changed") may turn it as well.
    is_same = rule.stems <= clause.stems or clause.stems <= rule.stems
    is_allowed = "permission" in clause.meanings and rule.is_negative
    return (is_same or is_allowed) and clause.is_negative != rule.is_negative


def is_plain_denial(clause: Claim, rule: Claim) -> bool:
    """Tell whether a clause that denies a rule says so as a rule, or says hardly anything else."""
    is_firm = not clause.meanings.isdisjoint(("permission", "duty", "lifting"))
    others = len(clause.stems - rule.stems) + max(len(clause.names) - len(rule.names), 0)
    return (
        is_firm or others <= len(rule.stems) + 1 - (len(rule.stems) < 2) or len(rule.stems & clause.stems) > 2
    )


def _distance(rule: Claim, clause: Claim) -> tuple[int, int]:
    """Count the words of a rule that a clause lacks, and its own."""
    return len(rule.stems - clause.stems), len(clause.stems - rule.stems)


def _assertions(sentences: Iterable[str], languages: Sequence[Language]) -> list[tuple[str, list[Claim]]]:
    """Sentences that are no questions, each with its clauses."""
    told = (one for one in sentences if not one.rstrip().endswith(QUESTION_MARKS))
    return [(one, _clauses(one, languages)) for one in told]


def _clauses(text: str, languages: Sequence[Language]) -> list[Claim]:
    """The whole text as a statement, and each of its clauses."""
    text = text.replace("\n", " ")
    cuts = [start for start, _, meanings in find_cues(text, languages) if "contrast" in meanings]
    cuts = sorted({0, *cuts, *(found.end() for found in _CLAUSE_END.finditer(text)), len(text)})
    parts = (text[start:end] for start, end in pairwise(cuts))
    return [read_statement(part, languages) for part in dict.fromkeys((text, *parts))]


def _stems(text: str, languages: Sequence[Language]) -> list[str]:
    """The beginnings of the words that say something, in order."""
    stems: list[str] = []
    for word in split_words(text).folded:
        if any(word in language.words["function"] for language in languages):
            continue
        if "\u0620" <= word <= "\u06ff":
            bare = word.lstrip(_ARABIC_PREFIXES)
            stems.append(bare[:3] if len(bare) > 2 else word[-3:])
        elif not is_unspaced(word):
            stems += [word[:STEM]] if len(word) > 2 and not word.isdecimal() else []
        # Hiragana only bends words.
        elif not "\u3040" <= word <= "\u309f":
            stems.append(word)
    return stems
