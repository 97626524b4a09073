"""The values that a store takes and gives: keys, messages, windows, turns, segments, leases, records, hits.

A store keeps rows and does not interpret messages; `encoding` turns messages into rows and back. The rules
of these values are here as pure functions: valid keys and records, and which segment may replace which.
`sql.store` has the store itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from math import inf
from typing import Literal, NamedTuple

from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.messages.fact import EndedText, Fact
from autonomy_ctx.messages.message import Message
from autonomy_ctx.validation import check_int

# No name is longer, in bytes: every store can hold it, and it fits into a line of a log.
MAX_NAME_BYTES = 1024
# No position, number or limit is larger: every store can count so far.
MAX_POSITION = 2**62


class Key(NamedTuple):
    """A conversation of a scope (a user or tenant) with an agent."""

    agent: str
    scope: str
    conversation: str


def make_key(agent: str, scope: str, conversation: str) -> Key:
    """A key whose names every store can hold exactly as they are."""
    if type(agent) is type(scope) is type(conversation) is str:
        # Nearly always; the others are told what is wrong.
        names = agent + scope + conversation
        if len(names) <= MAX_NAME_BYTES and names.isascii() and "\0" not in names:
            return Key(agent, scope, conversation)
    check_name("agent", agent)
    check_name("scope", scope)
    check_name("conversation", conversation)
    return Key(agent, scope, conversation)


def check_name(part: str, name: str, *, most: float = MAX_NAME_BYTES) -> None:
    """Refuse what some store could not hold exactly as it is, or not tell apart from another name."""
    if name.__class__ is not str:
        raise InvalidKey(part, f"must be a string, not {type(name).__name__}")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidKey(part, "contains a lone surrogate, which is not valid Unicode text") from None
    if "\0" in name:
        raise InvalidKey(part, "must not contain a NUL character")
    if size > most:
        raise InvalidKey(part, f"has {size:,} bytes; a name may have at most {most:,}")


@dataclass(frozen=True, slots=True)
class MessageRef:
    """A quoted message: its conversation and position, in the scope of the text that quotes it.

    Deleting it deletes the text. No position means any message, no agent means the agent of the text. With a
    `generation`, the text is not stored if the conversation has another one by then.
    """

    conversation: str
    position: int | None = None
    agent: str | None = None
    generation: int | None = None

    def __post_init__(self) -> None:
        check_name("conversation", self.conversation)
        check_int("position", self.position, most=MAX_POSITION, optional=True)
        if self.agent is not None:
            check_name("agent", self.agent)

    def key(self, quoting: Key) -> Key:
        """The key of the quoted conversation, for a text of the conversation `quoting`."""
        return Key(quoting.agent if self.agent is None else self.agent, quoting.scope, self.conversation)


class Record(NamedTuple):
    """A row beside a log. Numbers only grow; `at` is in seconds since 1970 by the store's clock."""

    number: int
    name: str
    at: float
    body: str


class RecordDraft(NamedTuple):
    """A record that is to be put; the fields are the arguments of `put_records`."""

    kind: str
    name: str
    body: str
    keep: int | None = None
    derived: bool = False
    generation: int | None = None
    refs: tuple[MessageRef, ...] = ()
    # Put only if the record of this name has this body now; "" means that there is none.
    expected: str | None = None
    # Names and bodies of records of the kind `parts_kind`, which are put if this one is.
    parts: tuple[tuple[str, str], ...] = ()
    # Whether the conversation has another generation then, and records that quote it as a whole are deleted.
    ends_quotes: bool = False

    @property
    def parts_kind(self) -> str:
        """The kind of the records that are its parts."""
        return f"{self.kind}_part"


def check_put(kind: str, records: Sequence[tuple[str, str]], keep: int | None) -> None:
    """Refuse what some store could not hold exactly as it is, before anything changes."""
    check_name("kind", kind)
    for name, body in records:
        # Not a name that somebody chose, but perhaps the id of a message.
        check_name("name", name, most=inf)
        if not isinstance(body, str):
            raise TypeError(f"the body of record {name!r} must be a string, not {type(body).__name__}")
    check_int("keep", keep, most=MAX_POSITION, optional=True)


# No lease and no delay is longer than this, in seconds: a time further ahead is from before the clock
# was set back, and counts as past.
MAX_LEASE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to work on one conversation until a time, with the failures so far."""

    key: Key
    owner: str
    # Grows with every claim: a commit under an older one is refused.
    fence: int
    until: float
    # Failures in a row.
    attempts: int = 0
    # Answers in a row that were not fit to keep, and what they were made from.
    refusals: int = 0
    refused: str = ""


class TurnToken(NamedTuple):
    """The right to write in a turn of a conversation. Each holder has a higher ticket than the last."""

    key: Key
    ticket: int
    owner: str


class TurnStart(NamedTuple):
    """The result of `begin_turn`: the positions of the stored messages, or None if the turn must wait.

    `took_over` means that the holder before did not release the turn. `position` is the end of the log before
    the messages, and `generation` that of the conversation. `records` are of the kind that was asked for.
    `head` is the state after the messages.
    """

    ticket: int
    positions: list[int] | None
    took_over: bool = False
    position: int = 0
    generation: int = 0
    records: Sequence[Record] = ()
    head: Head | None = None


class AppendResult(NamedTuple):
    """The positions of appended messages, and the state after them; None if it was not needed."""

    positions: list[int]
    head: Head | None = None


def is_current_lease(until: float, now: float) -> bool:
    """True while a lease has not ended; one that ends too far ahead is from before the clock was set back."""
    return now < until <= now + MAX_LEASE_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchHit:
    """A message that a search found, its position, and its score: higher is better."""

    conversation: str
    position: int
    message: Message
    score: float


class IndexedMessage(NamedTuple):
    """A message, its conversation and its position."""

    conversation: str
    position: int
    message: Message


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSegment:
    """The summary of the messages at positions `first` to `last`, and how it was made."""

    first: int
    last: int
    text: str
    tokens: int
    # 0 for one made from messages; one more than its sources for one merged from segments.
    level: int = 0
    # A digest that stands in until a model has written the real one.
    provisional: bool = False
    # The name of the model; `digest` when none was asked.
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_hash: str = ""
    source_hash: str = ""
    # Which part of the identifiers of the source the text has kept, 0 to 1.
    coverage: float = 1.0
    # Seconds since 1970 by the store's clock, given when it is committed.
    created: float = 0.0
    # The conversation's generation it was made from, and its number among all ever made there.
    generation: int = 0
    number: int = 0
    # When the first and the last of its messages were written, in seconds since 1970; 0 when not known.
    began: float = 0.0
    ended: float = 0.0


@dataclass(frozen=True, slots=True)
class SummaryState:
    """The current segments, the pinned messages and the newest facts, and the head at the same moment."""

    head: Head
    segments: tuple[StoredSegment, ...] = ()
    pins: tuple[Pin, ...] = ()
    # Of each kind the newest that hold, the ones that each has replaced; and those that ended last: a segment
    # may say them.
    facts: tuple[Fact, ...] = ()
    ended: tuple[EndedText, ...] = ()

    @property
    def covered(self) -> int:
        """The last position that a segment covers; the window starts right after it."""
        return self.segments[-1].last if self.segments else 0

    @property
    def written(self) -> int:
        """The last position that a segment covers which is not provisional."""
        return last_final_position(self.segments)


class SegmentReplacement(NamedTuple):
    """The effect of a new segment: the segments that it replaces, and those that are stored instead."""

    removed: tuple[StoredSegment, ...]
    added: tuple[StoredSegment, ...]


class ProfileFact(NamedTuple):
    """A fact that applies to all conversations of its scope, and the conversation it was learned in."""

    conversation: str
    fact: Fact


def last_final_position(segments: Sequence[StoredSegment]) -> int:
    """The last position covered before the first provisional segment."""
    final = list(takewhile(lambda segment: not segment.provisional, segments))
    return final[-1].last if final else 0


def segment_replacement(
    active: Sequence[StoredSegment], new: StoredSegment, head: int
) -> SegmentReplacement | None:
    """The effect of `new` on the current segments, or None if it does not fit.

    It takes the place of neighbours of its kind with exactly its range; or a provisional one goes to
    the end, and a written one where the written ones end, over the provisional ones it covers. So
    coverage never goes back. A provisional one that is covered in part keeps the rest of its range.
    """
    if not 1 <= new.first <= new.last <= head:
        return None
    covered = active[-1].last if active else 0
    if new.provisional and new.first == covered + 1:
        return SegmentReplacement((), (new,))
    if not new.provisional and new.first == last_final_position(active) + 1:
        over = [one for one in active if one.provisional and one.first <= new.last]
        rest = [replace(one, first=new.last + 1) for one in over if one.last > new.last]
        return SegmentReplacement(tuple(over), (new, *rest))
    inside = [one for one in active if new.first <= one.first and one.last <= new.last]
    fits = (
        len(inside) > 1
        and all(one.provisional is new.provisional for one in inside)
        and inside[0].first == new.first
        and inside[-1].last == new.last
    )
    return SegmentReplacement(tuple(inside), (new,)) if fits else None


def restorable_segments(
    active: Sequence[StoredSegment], replaced: Sequence[StoredSegment]
) -> tuple[StoredSegment, ...]:
    """Which of the segments whose replacement was deleted come back into force.

    The newest where several stand for the same messages, and only as far as there is no gap and
    nothing written follows a stand-in.
    """
    chosen = list(active)
    for segment in sorted(replaced, key=lambda one: -one.number):
        if all(segment.last < one.first or one.last < segment.first for one in chosen):
            chosen.append(segment)
    return tuple(segment for segment in unbroken_segments(chosen) if segment not in active)


def unbroken_segments(segments: Sequence[StoredSegment]) -> list[StoredSegment]:
    """The segments in order, up to the first gap, and to a written one that follows a stand-in."""
    covered, provisional, found = 0, False, list[StoredSegment]()
    for segment in sorted(segments, key=lambda one: one.first):
        if segment.first != covered + 1 or (provisional and not segment.provisional):
            break
        covered, provisional = segment.last, segment.provisional
        found.append(segment)
    return found


class Draft(NamedTuple):
    """A message ready to be stored: everything a row needs, checked and encoded."""

    message: Message
    body: str
    size: int
    tokens: int
    counter: str
    # The whole message, when `message` is a shortened form of one too large for the log.
    whole: str | None = None


class Entry(NamedTuple):
    """A message at its place in the log."""

    position: int
    message: Message


# Who pinned a message: the application for its user, or a model with a tool.
PinSource = Literal["user", "model"]


class Pin(NamedTuple):
    """A pinned message with its position, when it was pinned (None if not known), and by whom."""

    position: int
    message: Message
    pinned_at: datetime | None = None
    source: PinSource = "user"


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a conversation: the last position, the number of messages, and two version numbers.

    Deleting messages raises `generation`: what was derived from an older one is void. A change of segments,
    pins or facts raises `revision`: with the same generation and revision, the summary is the same.
    """

    position: int = 0
    count: int = 0
    generation: int = 0
    last_user: int = 0
    revision: int = 0


class Window(NamedTuple):
    """Entries in order, and the head, read in one snapshot."""

    head: Head
    entries: Sequence[Entry]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationInfo:
    """A conversation with messages: its names, the number of messages, and the first and last time."""

    agent: str
    scope: str
    conversation: str
    messages: int
    first_at: datetime
    last_at: datetime

    @property
    def key(self) -> Key:
        """The key of the conversation; pass it as `after` to get the next page."""
        return Key(self.agent, self.scope, self.conversation)


def check_cursor(after: Key | None, scope: str, agent: str | None) -> None:
    """Refuse a key that no page of this listing ends with."""
    if after is None:
        return
    if not isinstance(after, Key):
        raise InvalidKey("after", f"must be a Key, such as `page[-1].key`, not {type(after).__name__}")
    make_key(*after)
    if after.scope != scope:
        raise InvalidKey("after", "is of another scope; give the last key of the previous page")
    if agent not in (None, after.agent):
        raise InvalidKey("after", "is of another agent; give the last key of the previous page")
