"""Finds sentences that say the opposite of a fact, by the words of the `[reply]` table of their language."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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
STEM = 4  # letters by which words are compared
# What these say is no subject.
_OPERATORS = {"denial", "ban", "lack", "lifting", "upper", "lower", "earlier", "later", "permission", "duty"}
_OPERATORS |= {"undecided", "neutral", "frame", "error", "record_noun"}
_ARABIC_PREFIXES = "التينمبلوف"
_CLAUSE_END = lazy_pattern(r"[,;，；、،]\s?|\s[\u2013\u2014-]\s")  # noqa: RUF001


class Statement(NamedTuple):
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

    def align(self, rule: Statement) -> Statement:
        """The statement with the stems of a rule where its own only begin alike: "aski" and "ask"."""
        known = {one[:3]: one for one in rule.stems if len(one) == 3 or one[:3] in self.stems}
        return self._replace(
            stems=frozenset(known.get(one[:3], one) for one in self.stems),
            first=frozenset(known.get(one[:3], one) for one in self.first),
        )

    def is_about(self, rule: Statement) -> bool:
        """Tell whether it has most of the words of a rule, and all its identifiers."""
        shared = len(self.stems & rule.stems)
        return 0 < shared >= RULE_SHARE * len(rule.stems) and all(map(NameIndex(self.text).has, rule.names))


class Denial(NamedTuple):
    """A sentence that says the opposite of a fact, and whether it says hardly anything else."""

    sentence: str
    is_plain: bool


def read_statement(text: str, languages: Sequence[Language]) -> Statement:
    """A text as it is compared with others, read line by line."""
    stems: list[str] = []
    names = identifiers(text)
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
    return Statement(frozenset(stems), frozenset(meanings), text, names, frozenset(stems[: first or 0]))


def deny_facts(
    text: str, source: str, facts: Sequence[str], languages: Sequence[Language]
) -> dict[str, list[Denial]]:
    """The facts that a text denies, each with these sentences, unless users deny them in the source, too."""
    denied = find_denied(split_text(text), facts, languages) if facts else {}
    if not denied:
        return {}
    turns = [block for block in source.split("\n\n") if block.startswith("User")] or [source]
    said = split_text("\n".join(SPEAKER_PATTERN.sub("", turn) for turn in turns))
    by_users = find_denied(said, denied, languages)
    return {fact: denials for fact, denials in denied.items() if fact not in by_users}


def find_denied(
    sentences: Iterable[str], facts: Iterable[str], languages: Sequence[Language]
) -> dict[str, list[Denial]]:
    """The facts of which a sentence says the opposite, each with these sentences."""
    told = [(one, _clauses(one, languages)) for one in sentences if not one.rstrip().endswith(QUESTION_MARKS)]
    stems = frozenset().union(*(clauses[0].stems for _, clauses in told))
    denied: dict[str, list[Denial]] = {}
    for fact in facts:
        pause()
        # Hardly any is about what the sentences say: most are not read closely.
        if stems.isdisjoint(_stems(fact, languages)):
            continue
        whole, *parts = _clauses(fact, languages)
        for sentence, clauses in told:
            for rule in (whole, *parts):
                about = [one for clause in clauses if (one := clause.align(rule)).is_about(rule)]
                if not about:
                    continue
                clause = min(about, key=lambda one: len(one.stems ^ rule.stems))
                is_plain = is_plain_denial(clause, rule)
                # A part of a rule says less: only a plain denial counts.
                if is_opposite(clause, rule) and (is_plain or rule is whole):
                    denied.setdefault(fact, []).append(Denial(sentence, is_plain))
    return denied


def is_opposite(clause: Statement, rule: Statement) -> bool:
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


def is_plain_denial(clause: Statement, rule: Statement) -> bool:
    """Tell whether a clause that denies a rule says so as a rule, or says hardly anything else."""
    is_firm = not clause.meanings.isdisjoint(("permission", "duty", "lifting"))
    others = len(clause.stems - rule.stems) + max(len(clause.names) - len(rule.names), 0)
    return is_firm or others <= max(len(rule.stems), 1)


def _clauses(text: str, languages: Sequence[Language]) -> list[Statement]:
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
