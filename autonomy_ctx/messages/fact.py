"""Standing facts: the short list of what holds now in a conversation.

Segments are history and are merged. A fact is written once and holds until it is replaced or done. Here are
its values, the plain text in which a model writes changes, and the text in which facts are shown. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import groupby
from typing import Literal, NamedTuple, get_args

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.messages.dates import format_day

FactKind = Literal["goal", "rule", "preference", "value", "decision", "open", "artifact"]
FactState = Literal["holds", "replaced", "done"]
FactSource = Literal["model", "rules", "user"]
FactAction = Literal["add", "replace", "done"]
FACT_KINDS: tuple[FactKind, ...] = get_args(FactKind)
MAX_FACT_CHARACTERS = 400
MAX_TOOL_NAME = 160  # with what it was asked for
# At the end of a fact that is shown in part.
CUT_MARK = "\u2026"
STANDING_HEADING = "[What holds now]"
# Between an answer and the question without which it says little; a bracket follows.
QUESTION_NOTE = " (asked: "
# After what a tool's result says, and after a value that only the assistant gives.
TOOL_NOTE, ASSISTANT_NOTE = " (tool: ", " (said by the assistant)"
# Between a fact and what held before it; a day and a bracket follow.
UNTIL_NOTE = " (until "

# Which kinds stay longest where not all facts have room, and the part of the room that is theirs before what
# is left goes by weight: a conversation of many rules has room for its values, too.
_SHARES: dict[FactKind, float] = {
    "rule": 0.19,
    "goal": 0.05,
    "open": 0.2,
    "preference": 0.1,
    "decision": 0.17,
    "value": 0.29,
    "artifact": 0.0,
}
# A line has at least so many tokens, with its id and kind. More facts than that never fit.
MIN_LINE_TOKENS = 6
_WEIGHT_ORDER = {kind: at for at, kind in enumerate(_SHARES)}
_HEADING_LINE = lazy_pattern(r"(?im)^[ \t#*_]{0,8}FACTS[ \t*_]{0,8}:?[ \t*_]{0,8}$")
# A list mark before the sign or in its place, and emphasis around the kind, are what small models write.
_CHANGE_LINE = lazy_pattern(
    r"[ \t]{0,8}(?:[-*\u2022][ \t]{1,4})?(?P<sign>[+~x\u00d7]|(?<=[-*\u2022] ))[ \t]{0,4}"
    r"\[?(?P<target>[Ff]\d{1,9})?\]?"
    r"[ \t:]{0,4}(?:\*{0,2}(?P<kind>[A-Za-z]{1,12})\*{0,2}[ \t]{0,4}:[ \t]{0,4})?\*{0,2}(?P<text>.*)"
)
# A line that says that there is nothing to write.
_NO_CHANGE = lazy_pattern(
    r"\W{0,8}(?:none|nothing(?: new| changes| changed)?|n/a|no (?:new |other )?(?:changes?|facts?|updates?)"
    r"|keine(?: änderungen)?|aucune?|ningun[oa]|nenhuma?|sin cambios|なし|変更なし|无|没有|لا شيء)\W{0,8}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One short statement of a conversation, who made it, and whether it still holds."""

    id: str
    kind: FactKind
    text: str
    position: int
    created_at: datetime
    replaces: str | None = None
    state: FactState = "holds"
    source: FactSource = "model"
    # Whether it holds in all conversations of its scope with this agent.
    in_profile: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """A change of facts: add a fact, replace one by another, or mark one as done.

    `position` and `created_at` are those of the message that states it. `target` is the id of the fact that
    is replaced or done. It may also be "+2": the fact that the third change of the same list adds.
    """

    action: FactAction
    position: int
    created_at: datetime
    kind: FactKind = "value"
    text: str = ""
    target: str | None = None
    source: FactSource = "rules"
    in_profile: bool = False


class EndedText(NamedTuple):
    """The text of a fact that no longer holds, and of the one in its place; empty if the fact is done."""

    text: str
    now: str
    # The position of the message that ended it; 0 if a user ended it outside of the conversation.
    position: int


class FactLine(NamedTuple):
    """A change as a model wrote it, without the message it comes from."""

    action: FactAction
    kind: FactKind
    text: str
    target: str | None


def fact_id(number: int) -> str:
    return f"F{number}"


def fact_number(name: str | None) -> int | None:
    """The number in an id; None if it is not a valid id."""
    digits = (name or "")[1:]
    return int(digits) if name and name[0] in "Ff" and digits.isdecimal() and len(digits) < 10 else None


def normalize_fact(text: str) -> str:
    """The normal form of a fact, which is equal for facts that say the same."""
    return " ".join(text.casefold().split()).rstrip(".!;, ")


def clean_fact_text(text: str) -> str:
    """A fact on one line, no longer than a fact may be."""
    return " ".join(text.split())[:MAX_FACT_CHARACTERS].rstrip()


def add_note(text: str, note: str) -> str:
    """A fact with a note on where it comes from, no longer than a fact may be."""
    return text[: MAX_FACT_CHARACTERS - len(note)].rstrip() + note


def tool_note(name: str, arguments: str = "") -> str:
    """The note on what a result of this tool says, and what it was asked for."""
    asked = " ".join(f"{name} {arguments}".split())
    return f"{TOOL_NOTE}{asked if len(asked) <= MAX_TOOL_NAME else asked[: MAX_TOOL_NAME - 1] + CUT_MARK})"


def stated_text(text: str) -> str:
    """The text of a fact without the notes on where it comes from."""
    for note in (QUESTION_NOTE, TOOL_NOTE, ASSISTANT_NOTE):
        text = text.partition(note)[0]
    return text


class SplitReply(NamedTuple):
    """The record of a reply, and the changes below its heading; None when there are none to be read.

    `is_unread` means that something else stands in their place, which has become part of the record.
    """

    record: str
    lines: list[FactLine] | None = None
    is_unread: bool = False


def split_facts(reply: str) -> SplitReply:
    """Take the record of a reply and its changes of facts apart. No line that says something is lost.

    What is no change goes back into the record. Where nothing stands above the heading, what stands below
    it is the record, too.
    """
    headings = list(_HEADING_LINE.finditer(reply))
    if not headings:
        return SplitReply(reply)
    at = headings[-1]
    record = reply[: at.start()].rstrip()
    lines: list[FactLine] = []
    said, unread = [record] if record else [], False
    for text in reply[at.end() :].splitlines():
        line = read_fact_line(text)
        if line is not None:
            lines.append(line)
        elif not any(map(str.isalnum, text)) or _NO_CHANGE.fullmatch(text.casefold()):
            continue
        else:
            unread = True
        if line is None or (line.text and not record):
            said.append(text.rstrip() if line is None else f"- {line.kind}: {line.text}")
    is_unread = unread and not lines
    return SplitReply("\n".join(said), None if is_unread else lines, is_unread)


def read_fact_line(line: str) -> FactLine | None:
    """`+ kind: text`, `~ F3 kind: text`, `x F4`, or `- kind: text`; None for anything else."""
    found = _CHANGE_LINE.fullmatch(line.rstrip())
    if found is None:
        return None
    sign, target = found["sign"], found["target"]
    target = None if target is None else target.upper()
    if sign and sign in "x\u00d7":
        return None if target is None else FactLine("done", "value", "", target)
    kind = next((one for one in FACT_KINDS if one == (found["kind"] or "").lower()), None)
    text = clean_fact_text(found["text"].rstrip("* "))
    if kind is None or not text:
        return None
    return FactLine(
        "replace" if target and sign == "~" else "add", kind, text, target if sign == "~" else None
    )


def fact_line(fact: Fact) -> str:
    """A fact as a summarizer is shown it, to name it by its id."""
    return f"{fact.id} {fact.kind}: {fact.text}"


def short_fact_line(fact: Fact, characters: int) -> str:
    """The line of a fact, cut to so many characters."""
    line = fact_line(fact)
    if len(line) <= characters:
        return line
    return line[: characters - len(CUT_MARK)].rstrip() + CUT_MARK


def active_facts(facts: Sequence[Fact]) -> list[Fact]:
    """The facts that hold, in a stable order: by kind, then in the order of writing."""
    holding = _in_order(facts)
    return [fact for kind in FACT_KINDS for fact in holding if fact.kind == kind]


def _in_order(facts: Sequence[Fact]) -> list[Fact]:
    """The facts that hold, in the order of writing."""
    return sorted((fact for fact in facts if fact.state == "holds"), key=_number)


def _number(fact: Fact) -> int:
    return fact_number(fact.id) or 0


class RenderedFacts(NamedTuple):
    """The text of the facts that fit, and the facts that do not fit, in the order of writing."""

    text: str = ""
    omitted: tuple[Fact, ...] = ()
    # Of those that do not fit: their ids, and the first and the last message that they come from.
    omitted_ids: str = ""
    omitted_range: tuple[int, int] = (0, 0)


def render_facts(
    facts: Sequence[Fact],
    tokens: int,
    count: Callable[[str], int],
    zone: tzinfo = UTC,
) -> RenderedFacts:
    """The facts that hold, one per line, within so many tokens; what users wrote stays longest.

    `facts` may have replaced ones too: the one that a fact stands for is named beside it.
    """
    holding = _in_order(facts)
    room = max(tokens - count(STANDING_HEADING + "\n"), 0)
    candidates = _by_weight(holding, room // MIN_LINE_TOKENS + 1)
    costs: dict[str, int] = {}

    def cost_of(fact: Fact) -> int:
        # Few of the candidates have room, and only lines that may have some are counted.
        if fact.id not in costs:
            costs[fact.id] = count(f"{fact_line(fact)}\n")
        return costs[fact.id]

    chosen = _choose(candidates, cost_of, room)
    left = room - sum(costs[key] for key in chosen)
    # Many facts have no room: a line is written only for those that have.
    lines = {key: fact_line(fact) for key, fact in chosen.items()}
    replaced = {fact.replaces for fact in chosen.values() if fact.replaces}
    by_id = {fact.id: fact for fact in facts if fact.state != "holds" and fact.id in replaced}
    # What was before is shown where there is room for it.
    by_weight = sorted(
        chosen.values(),
        key=lambda fact: (fact.source != "user", _WEIGHT_ORDER[fact.kind], -_number(fact)),
    )
    for fact in by_weight:
        before = by_id.get(fact.replaces) if fact.replaces else None
        if before is None:
            continue
        line = lines[fact.id]
        if fact.kind in ("value", "decision"):
            until = format_day(fact.created_at.astimezone(zone))
            line = f"{line}{UNTIL_NOTE}{until}: {before.text})"
        cost = count(line + "\n") - costs[fact.id] if line != lines[fact.id] else 0
        if 0 < cost <= left:
            lines[fact.id] = line
            left -= cost
    newest_first = sorted(chosen.values(), key=_number, reverse=True)
    shown = [lines[fact.id] for kind in FACT_KINDS for fact in newest_first if fact.kind == kind]
    text = "\n".join([STANDING_HEADING, *shown]) + "\n" if shown else ""
    omitted = tuple(fact for fact in holding if fact.id not in chosen)
    if not omitted:
        return RenderedFacts(text)
    positions = [fact.position for fact in omitted]
    return RenderedFacts(text, omitted, _format_ids(holding, chosen), (min(positions), max(positions)))


def _format_ids(holding: Sequence[Fact], chosen: Container[str]) -> str:
    """The ids of the facts without room by their runs, such as "F1 to F40, F43": there may be thousands.

    Between the two ends of a run is every fact that holds, but not every number: other facts have ended.
    """
    runs = [list(run) for is_shown, run in groupby(holding, lambda fact: fact.id in chosen) if not is_shown]
    return ", ".join(f"{run[0].id} to {run[-1].id}" if len(run) > 1 else run[0].id for run in runs)


def _by_weight(holding: Sequence[Fact], most: int) -> list[Fact]:
    """Standing facts with the weightiest first: what users wrote, then by kind, the newest first.

    Of each kind there are at most so many that users did not write: the older ones would hardly ever have
    room. Those of the profile come before the others of their kind: they hold longer than a conversation.
    """
    own: list[Fact] = []
    others: list[Fact] = []
    for kind in _SHARES:
        found = [fact for fact in reversed(holding) if fact.kind == kind]
        own += [fact for fact in found if fact.source == "user"]
        learned = [fact for fact in found if fact.source != "user"]
        others += sorted(learned, key=lambda fact: not fact.in_profile)[:most]
    return own + others


def _choose(ordered: Sequence[Fact], cost_of: Callable[[Fact], int], room: int) -> dict[str, Fact]:
    """Choose what users wrote, then the share of each kind, then the rest by weight."""
    chosen: dict[str, Fact] = {}
    left = room
    of_kind = dict.fromkeys(FACT_KINDS, 0)
    own = sum([cost_of(fact) for fact in ordered if fact.source == "user"])
    shares = {kind: share * max(room - own, 0) for kind, share in _SHARES.items()}
    for is_shared in (True, False):
        for fact in ordered:
            if left < MIN_LINE_TOKENS:
                return chosen
            if fact.id in chosen:
                continue
            most: float = left
            if is_shared and fact.source != "user":
                most = min(left, shares[fact.kind] - of_kind[fact.kind])
            if most < MIN_LINE_TOKENS or (cost := cost_of(fact)) > most:
                continue
            of_kind[fact.kind] += cost if fact.source != "user" else 0
            chosen[fact.id] = fact
            left -= cost
    return chosen
