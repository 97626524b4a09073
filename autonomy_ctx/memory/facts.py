"""Rows of facts as every store keeps them, and `ConversationFacts`, which edits the facts of a conversation.

A store keeps changes as rows. A fact holds until another row ends it. If that row is deleted, the fact holds
again. So undoing a summary and deleting messages need no special rules.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from autonomy_ctx.errors import InvalidFact, UnknownFact
from autonomy_ctx.memory.encoding import UnreadableRow
from autonomy_ctx.memory.store import Key, StoredSegment
from autonomy_ctx.messages.fact import (
    FACT_KINDS,
    MAX_FACT_CHARACTERS,
    EndedText,
    Fact,
    FactAction,
    FactChange,
    FactKind,
    FactSource,
    FactState,
    active_facts,
    clean_fact_text,
    fact_id,
    fact_number,
    normalize_fact,
)
from autonomy_ctx.messages.text_cache import forget_texts

if TYPE_CHECKING:
    from autonomy_ctx.memory.sql.store import Store

# A fact that was ended by a user who removed the one in its place.
ENDED_BY_REMOVAL = -1
# Of what was written without one: by a user, or learned of a single message.
NO_SEGMENT = 0
# How many facts that have ended are looked for in the segments of a summary.
MAX_ENDED_TEXTS = 64
# A summary is read with so many facts of a kind, the newest; those of users and of the profile, which many
# others must not push out, count by themselves. It is more than a context has room for.
MAX_FACTS_OF_KIND = 300


class FactRow(NamedTuple):
    """A change as it is stored. `segment` is the number of the one it was written with, 0 for none."""

    number: int
    kind: FactKind
    text: str
    position: int
    created: float
    target: int | None
    source: FactSource
    segment: int
    is_done: bool = False
    in_profile: bool = False


# The columns of a row have the names of the fields.
FACT_COLUMNS = FactRow._fields


def decode_fact_row(row: Sequence[Any]) -> FactRow:
    """A row with `FACT_COLUMNS`, whose text is a JSON string."""
    number, kind, text, position, created, target, source, segment, is_done, in_profile = row
    text = _decode_text(number, text)
    return FactRow(
        number, kind, text, position, created, target, source, segment, bool(is_done), bool(in_profile)
    )


def _decode_text(number: int, text: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError:
        # Without the cause, which might quote a user's text.
        raise UnreadableRow(f"the fact with number {number} cannot be read") from None


class FactIndex:
    """The facts that hold by number and by text, to tell which changes are new and what they may end."""

    __slots__ = ("_numbers", "_of_users", "_texts")

    def __init__(self, holding: Iterable[tuple[int, FactSource, str]] = ()) -> None:
        self._texts: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._of_users: set[int] = set()
        for number, source, text in holding:
            self.add(number, source, normalize_fact(text))

    def find(self, normal: str) -> int | None:
        """The number of the fact with a text."""
        return self._numbers.get(normal)

    def may_end(self, number: int | None, source: FactSource) -> bool:
        """True for the number of a fact that this source may end: a user's only a user."""
        return number in self._texts and (source == "user" or number not in self._of_users)

    def add(self, number: int, source: FactSource, normal: str) -> None:
        """Add a fact."""
        self._texts[number] = normal
        self._numbers[normal] = number
        if source == "user":
            self._of_users.add(number)

    def end(self, number: int) -> None:
        """Drop a fact that holds no more."""
        self._numbers.pop(self._texts.pop(number), None)
        self._of_users.discard(number)


def read_fact_index(rows: str | None) -> FactIndex:
    """An index of facts that hold, of a JSON list with number, source and stored text of each."""
    return FactIndex(
        (number, source, _decode_text(number, text)) for number, source, text in json.loads(rows or "[]")
    )


def replaces_fact_of_user(changes: Iterable[FactChange]) -> bool:
    """Tell whether a user has replaced a fact or told its end: then nothing may quote it any more."""
    return any(change.source == "user" and change.target is not None for change in changes)


class EndedFact(NamedTuple):
    """A row of a fact, and the number of the row that ended it; None while it holds."""

    row: FactRow
    ended_by: int | None


class DroppedFacts:
    """Facts of the messages that a new segment covers. Those that it states again keep their numbers.

    If a row that is still there has replaced such a fact or told its end, it has ended with the same number.
    """

    def __init__(self, dropped: Sequence[EndedFact] = ()) -> None:
        gone = {row.number for row, _ in dropped}
        self.ended_by = {row.number: by for row, by in dropped if by is not None and by not in gone}
        self._by_text: dict[tuple[FactKind, str], list[FactRow]] = {}
        # Those that hold first, and the oldest of them.
        for row, _ in sorted(dropped, key=lambda one: (one.row.number in self.ended_by, one.row.number)):
            if not row.is_done:
                self._by_text.setdefault((row.kind, normalize_fact(row.text)), []).append(row)

    def find(
        self, change: FactChange, normal: str, target: int | None, used: Container[int]
    ) -> FactRow | None:
        """The fact that a change states again. One that holds does so once."""
        for row in self._by_text.get((change.kind, normal), ()):
            has_ended = row.number in self.ended_by
            # Were it to replace another now, facts could end each other in a circle.
            if target in (None, row.target) if has_ended else row.number not in used:
                return row
        return None

    def ends(self, rows: Iterable[FactRow]) -> list[tuple[int, int]]:
        """Which of the rows have ended, each with the number of the row that ended it."""
        return [(row.number, self.ended_by[row.number]) for row in rows if row.number in self.ended_by]


_NOTHING_DROPPED = DroppedFacts()


def make_rows(
    index: FactIndex,
    changes: Sequence[FactChange],
    *,
    last: int,
    segment: int,
    dropped: DroppedFacts = _NOTHING_DROPPED,
) -> list[FactRow]:
    """The rows of changes, numbered from `last` on. Known facts, and changes that end nothing, are left out.

    Only a user can end a fact that a user wrote. The index is changed as the facts are. A fact that was
    dropped and is stated again has its number, and replaces what it had replaced.
    """
    numbers: dict[str, int | None] = {}
    rows: list[FactRow] = []
    used: set[int] = set()
    for at, change in enumerate(changes):
        name = change.target or ""
        target = numbers.get(name) if name.startswith("+") else fact_number(change.target)
        if not index.may_end(target, change.source):
            target = None
        text = clean_fact_text(change.text)
        normal = normalize_fact(text)
        old: FactRow | None = None
        if change.action == "done":
            if target is None:
                continue
            index.end(target)
        else:
            if not normal or index.find(normal) is not None:
                numbers[f"+{at}"] = index.find(normal)
                continue
            old = dropped.find(change, normal, target, used)
            if old is not None and old.number in used:
                continue
            if old is not None and target is None and index.may_end(old.target, change.source):
                target = old.target
            if target is not None:
                index.end(target)
        number = last + 1 if old is None else old.number
        last = max(last, number)
        used.add(number)
        numbers[f"+{at}"] = number
        if change.action != "done" and number not in dropped.ended_by:
            index.add(number, change.source, normal)
        rows.append(
            FactRow(
                number=number,
                kind=change.kind,
                text=text,
                position=change.position,
                created=change.created_at.timestamp(),
                target=target,
                source=change.source,
                segment=segment,
                is_done=change.action == "done",
                in_profile=change.in_profile,
            )
        )
    return rows


def make_fact(row: FactRow, state: FactState) -> Fact:
    return Fact(
        id=fact_id(row.number),
        kind=row.kind,
        text=row.text,
        position=row.position,
        created_at=datetime.fromtimestamp(row.created, UTC),
        replaces=None if row.target is None else fact_id(row.target),
        state=state,
        source=row.source,
        in_profile=row.in_profile,
    )


def fork_facts(
    rows: Mapping[int, FactRow], ended_by: Mapping[int, int], segments: Sequence[StoredSegment], at: int
) -> list[EndedFact]:
    """The facts that hold in a fork at a position, and the one that each has replaced, by number.

    Facts that a user wrote are included up to the position. Facts made from messages are included as far as
    the fork's `segments` reach, because each of them belongs to the segment that covers its message.
    """
    covered = segments[-1].last if segments else 0

    def is_taken(number: int) -> bool:
        row = rows.get(number)
        return row is not None and row.position <= (at if row.source == "user" else covered)

    def is_ended(number: int) -> bool:
        by = ended_by.get(number)
        return by is not None and (by == ENDED_BY_REMOVAL or is_taken(by))

    def forked(row: FactRow, by: int | None) -> EndedFact:
        # The profile has it from the conversation that it was learned in.
        row = row._replace(in_profile=False)
        if row.source == "user":
            return EndedFact(row, by)
        segment = next(one.number for one in segments if row.position <= one.last)
        return EndedFact(row._replace(segment=segment), by)

    taken: dict[int, EndedFact] = {}
    for number, row in rows.items():
        if row.is_done or not is_taken(number) or is_ended(number):
            continue
        taken[number] = forked(row, None)
        if row.target is not None and is_taken(row.target):
            taken[row.target] = forked(rows[row.target], number)
    return [taken[number] for number in sorted(taken)]


def make_active_facts(rows: Sequence[Sequence[Any]]) -> tuple[Fact, ...]:
    """The facts that hold, and before them the ones that they stand for: each row has both."""
    size = len(FACT_COLUMNS)
    before = (make_fact(decode_fact_row(row[size:]), "replaced") for row in rows if row[size] is not None)
    return (*before, *(make_fact(decode_fact_row(row[:size]), "holds") for row in rows))


def newest_facts(facts: Iterable[Fact]) -> list[Fact]:
    """The facts that a summary is read with: of those that hold, the newest of each kind."""
    kinds: dict[tuple[FactKind, bool], list[Fact]] = {}
    for fact in sorted(facts, key=lambda one: fact_number(one.id) or 0):
        if fact.state == "holds":
            kinds.setdefault(_counted_kind(fact), []).append(fact)
    return [fact for of_kind in kinds.values() for fact in of_kind[-MAX_FACTS_OF_KIND:]]


def may_be_more(facts: Iterable[Fact]) -> bool:
    """Tell whether the facts of a summary may not be all that hold."""
    kinds = Counter(_counted_kind(fact) for fact in facts if fact.state == "holds")
    return max(kinds.values(), default=0) >= MAX_FACTS_OF_KIND


def _counted_kind(fact: Fact) -> tuple[FactKind, bool]:
    """The kind of a fact, and whether it counts apart from those that could push it out."""
    return fact.kind, fact.source == "user" or fact.in_profile


def change_facts(facts: tuple[Fact, ...], rows: Sequence[FactRow]) -> tuple[Fact, ...]:
    """The active facts after rows that are written next."""
    ended = {row.target for row in rows if row.target is not None}
    new = [make_fact(row, "holds") for row in rows if not row.is_done and row.number not in ended]
    if not ended:
        return (*facts, *new)
    names = set(map(fact_id, ended))
    holding = [fact for fact in facts if fact.state == "holds" and fact.id not in names] + new
    # Those that the facts stand for: the ones before, and those that have ended now.
    before = {fact.id: fact for fact in facts if fact.state == "replaced"}
    before |= {fact.id: replace(fact, state="replaced") for fact in facts if fact.id in names}
    before |= {fact_id(row.number): make_fact(row, "replaced") for row in rows if row.number in ended}
    return (*(before[fact.replaces] for fact in holding if fact.replaces in before), *holding)


def ended_state(is_replaced: bool | None) -> FactState:
    """The state of a fact; None for one that nothing has ended."""
    return "holds" if is_replaced is None else "replaced" if is_replaced else "done"


def make_ended_texts(rows: Sequence[Sequence[Any]]) -> tuple[EndedText, ...]:
    """Facts that have ended, of rows with what ended each; if that was replaced, too, with the newest."""
    now: dict[int, str] = {}
    found: list[EndedText] = []
    for number, text, by, new, position, is_done, source in sorted(rows, key=lambda row: -row[2]):
        now[number] = "" if is_done else now.get(by, _decode_text(by, new))
        found.append(EndedText(_decode_text(number, text), now[number], 0 if source == "user" else position))
    return tuple(found)


class ConversationFacts:
    """The facts of one conversation: `await` it to read them, or change them with its methods.

    Facts that you write here stay until they are removed; no summary changes them.
    """

    def __init__(self, store: Store, key: Key, clock: Callable[[], datetime]) -> None:
        self._store, self._key, self._clock = store, key, clock

    def __await__(self) -> Generator[Any, None, list[Fact]]:
        return self._holding().__await__()

    async def history(self) -> list[Fact]:
        """All stored facts, also replaced and done ones."""
        return await self._store.facts(self._key)

    async def add(self, kind: FactKind, text: str) -> Fact:
        """Add a fact. If one of the newest facts says the same, that one is returned."""
        normal = normalize_fact(check_fact_text(text))
        return await self._write("add", check_kind(kind), text, None) or next(
            fact for fact in await self._holding() if normalize_fact(fact.text) == normal
        )

    async def replace(self, fact_id: str, text: str, *, kind: FactKind | None = None) -> Fact:
        """Replace a fact by a new text; its kind stays unless `kind` is given."""
        check_fact_text(text)
        old = await self._find(fact_id)
        if normalize_fact(old.text) == normalize_fact(text):
            return old
        new = await self._write("replace", old.kind if kind is None else check_kind(kind), text, old.id)
        if new is None:
            # Another fact already has this text, so the old one is only removed.
            await self.remove(fact_id)
            return await self.add(old.kind, text)
        return new

    async def done(self, fact_id: str) -> None:
        """Mark a fact as done, such as an open item that was settled."""
        await self._write("done", "value", "", (await self._find(fact_id)).id)

    async def remove(self, fact_id: str) -> None:
        """Remove a fact. A fact that it had replaced does not come back."""
        number = fact_number(fact_id)
        if number is None or not await self._store.remove_fact(self._key, number):
            raise UnknownFact(fact_id)
        forget_texts()

    async def _holding(self) -> list[Fact]:
        return active_facts(await self.history())

    async def _find(self, fact_id: str) -> Fact:
        found = next((fact for fact in await self._holding() if fact.id == fact_id), None)
        if found is None:
            raise UnknownFact(fact_id)
        return found

    async def _write(self, action: FactAction, kind: FactKind, text: str, target: str | None) -> Fact | None:
        head = await self._store.head(self._key)
        change = FactChange(
            action=action,
            position=head.position,
            created_at=self._clock(),
            kind=kind,
            text=text,
            target=target,
            source="user",
        )
        found = await self._store.write_facts(self._key, [change])
        return found[0] if found else None


def check_fact_text(text: Any) -> str:
    """The text of a fact as a user gives it."""
    if not isinstance(text, str):
        raise InvalidFact("text", f"must be a string, not {type(text).__name__}")
    if not normalize_fact(text):
        raise InvalidFact("text", "must not be empty")
    if len(" ".join(text.split())) > MAX_FACT_CHARACTERS:
        raise InvalidFact("text", f"has {len(text):,} characters; a fact has at most {MAX_FACT_CHARACTERS}")
    return text


def check_kind(kind: Any) -> FactKind:
    """The kind of a fact as a user gives it."""
    if kind not in FACT_KINDS:
        raise InvalidFact("kind", f"is {kind!r}; it must be one of {', '.join(FACT_KINDS)}")
    checked: FactKind = kind
    return checked
