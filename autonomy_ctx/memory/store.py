"""The store protocols and their values: log, turns, summaries, facts, work, records, search, listing, forks.

A store keeps rows and does not interpret messages; `encoding` turns messages into rows and back, so every
store returns exactly the same messages. The rules that every store shares are here as pure functions:
valid keys and records, and which segment may replace which.
`autonomy_ctx.testing.StoreContract` tests a store against the protocols.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import takewhile
from math import inf
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from autonomy_ctx.errors import InvalidKey
from autonomy_ctx.messages.fact import EndedText, Fact, FactChange
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


@runtime_checkable
class Records(Protocol):
    """Stores rows by kind and name for a conversation, which may have no messages yet."""

    async def put_records(
        self,
        key: Key,
        kind: str,
        records: Sequence[tuple[str, str]],
        *,
        keep: int | None = None,
        derived: bool = False,
        generation: int | None = None,
        refs: Sequence[MessageRef] = (),
    ) -> list[int]:
        """Store (name, body) pairs, all or none, and return their numbers.

        A record with a known name is replaced and moves to the end. With `keep`, only that many of the newest
        records of this kind stay. `derived` records are made from messages: they are deleted when any message
        of the conversation is deleted. Records that quote messages are deleted with any of `refs`. Nothing is
        stored and the list is empty if the conversation now has another generation than `generation`, or if
        a message of `refs` is not there.
        """

    async def read_records(
        self, key: Key, kind: str, *, name: str | None = None, after: int = 0, limit: int | None = None
    ) -> list[Record]:
        """The newest `limit` records with a number greater than `after`, oldest first."""

    async def drop_records(
        self, key: Key, kind: str, names: Sequence[str] | None = None, *, before: float | None = None
    ) -> list[str]:
        """Remove all records or the named ones, optionally only older ones. Returns the removed names.

        If several callers remove the same record, only one of them gets its name.
        """


def check_put(kind: str, records: Sequence[tuple[str, str]], keep: int | None) -> None:
    """Refuse what some store could not hold exactly as it is, before anything changes."""
    check_name("kind", kind)
    for name, body in records:
        # Not a name that somebody chose, but perhaps the id of a message.
        check_name("name", name, most=inf)
        if not isinstance(body, str):
            raise TypeError(f"the body of record {name!r} must be a string, not {type(body).__name__}")
    check_int("keep", keep, most=MAX_POSITION, optional=True)


def check_read(kind: str, limit: int | None) -> None:
    """Refuse a limit that means nothing."""
    check_name("kind", kind)
    check_int("limit", limit, least=0, most=MAX_POSITION, optional=True)


def check_drop(kind: str, names: Sequence[str] | None) -> None:
    """Refuse one name where names are meant: its letters would be taken for names."""
    check_name("kind", kind)
    if isinstance(names, str):
        raise InvalidKey("names", "must be a list of strings, not one string")


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


@runtime_checkable
class Work(Protocol):
    """Stores one row for each conversation with due work; the holder of its lease may do the work."""

    async def enqueue_task(self, key: Key, *, task: str) -> bool:
        """Mark a `task` as due for this conversation; false if it has no messages."""

    async def claim(self, key: Key, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        """Mark a `task` as due for this conversation and claim it.

        Returns a lease if it is free and due, the seconds until it is due, or None if another has it.
        """

    async def claim_next(self, *, owner: str, task: str, seconds: float) -> Lease | float | None:
        """Claim any conversation for which this `task` is due and free.

        Returns a lease, or the seconds until the next one could be due, or None if there is no work.
        """

    async def extend(self, lease: Lease, seconds: float) -> bool:
        """Renew a lease; false if another process has it now."""

    async def complete_task(self, lease: Lease, *, again_in: float | None = None) -> bool:
        """Release a lease and delete the row, unless `again_in` is given; false if the lease was lost.

        With `again_in`, in seconds, the work is due again then, with the same attempts and refusals.
        """


@runtime_checkable
class WorkSignals(Protocol):
    """A store that notifies at once when another process adds work; other stores are polled."""

    async def wait_for_work(self, *, task: str, seconds: float) -> None:
        """Wait until this `task` is due for some conversation, at most so many seconds."""


class TurnToken(NamedTuple):
    """The right to write in a turn of a conversation. Each holder has a higher ticket than the one before."""

    key: Key
    ticket: int
    owner: str


class TurnStart(NamedTuple):
    """The result of `begin_turn`: the positions of the stored messages, or None if the turn must wait.

    `took_over` means that the holder before did not release the turn. `position` is the end of the log before
    the messages, and `generation` that of the conversation. `records` are of the kind that was asked for.
    """

    ticket: int
    positions: list[int] | None
    took_over: bool = False
    position: int = 0
    generation: int = 0
    records: Sequence[Record] = ()


@runtime_checkable
class Turns(Protocol):
    """Runs turns of one conversation one at a time in all processes, first come first served.

    The holder and each waiting turn have a lease of `seconds`, which they renew. A place whose lease has
    expired is gone. An `owner` names one turn, so that its lease or place can be released without the ticket.
    """

    async def begin_turn(
        self,
        key: Key,
        drafts: Sequence[Draft],
        *,
        owner: str,
        seconds: float,
        ticket: int | None = None,
        after: int | None = None,
        unless: str | None = None,
        records: str | None = None,
    ) -> TurnStart:
        """Acquire the turn and append its first messages, or take a place in the queue; in one transaction.

        A waiting turn passes its `ticket`; if its place is gone, it gets a new place at the end of the queue.
        With `after`, nothing is appended, and there are no positions, if the log ends elsewhere; with
        `unless`, if there are records of this kind. The records of the kind `records` are returned.
        """

    async def renew_turn(self, key: Key, ticket: int, *, owner: str, seconds: float) -> bool:
        """Renew the lease of the turn or of the place in the queue; false if it is gone."""

    async def leave_turn(self, key: Key, ticket: int | None, *, owner: str) -> None:
        """Release the turn or the place; without a ticket, whatever the owner has."""

    async def wait_for_turn(self, key: Key, ticket: int, *, seconds: float) -> None:
        """Wait until the turn may be free or the place is gone, at most that many seconds."""


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


@runtime_checkable
class IndexedMessageReader(Protocol):
    """A store that reads messages from many places in one step. Without it, recall needs more steps."""

    async def read_indexed(
        self, agent: str, scope: str, places: Sequence[tuple[str, int]]
    ) -> Sequence[IndexedMessage]:
        """The messages at these positions of these conversations, in any order; missing ones are left out."""


@runtime_checkable
class Search(Protocol):
    """Finds messages by their words."""

    async def search(
        self, agent: str, scope: str, query: str, *, conversation: str | None = None, limit: int = 10
    ) -> list[SearchHit]:
        """The messages of a scope with an agent, or of one conversation, that share a word; best first."""


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
    """The current segments, the pinned messages and the facts, and the head at the same moment."""

    head: Head
    segments: tuple[StoredSegment, ...] = ()
    pins: tuple[Pin, ...] = ()
    # Those that hold, the ones that each has replaced; and those that ended last: a segment may say them.
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


@runtime_checkable
class Summaries(Protocol):
    """Stores segments and pins of a log, under the same generation."""

    async def summary(self, key: Key) -> SummaryState:
        """The current segments, the pins and the facts that hold."""

    async def commit_segment(
        self,
        key: Key,
        segment: StoredSegment,
        *,
        generation: int,
        fence: int | None,
        facts: Sequence[FactChange] | None = None,
        merged: StoredSegment | None = None,
    ) -> bool:
        """Store a segment as current. Returns whether generation, coverage and lease still allow it.

        `fence` is that of the lease under which it was made; None for a provisional segment. With `facts`,
        these changes replace all facts of messages of its range; a fact that they state again keeps its id.
        `merged` then replaces neighbours, mostly this segment too, in the same transaction, if it fits.
        """

    async def undo_segment(self, key: Key) -> bool:
        """Undo the newest segment and restore the segments that it replaced; starts a new generation."""

    async def drop_segments(
        self, scope: str, agent: str | None = None, conversation: str | None = None
    ) -> int:
        """Remove all segments of a conversation or scope; starts a new generation.

        Returns how many were current.
        """

    async def pin(
        self,
        key: Key,
        message_id: str,
        pinned: bool,
        *,
        replaces: str | None = None,
        source: PinSource = "user",
    ) -> bool:
        """Pin or unpin a message; false if there is no such message.

        The message with the id `replaces` is unpinned in the same transaction; `NotPinned` is raised if it is
        not pinned. A pin of the user stays the user's, also if a model has pinned the message before.
        """


@runtime_checkable
class Facts(Protocol):
    """Stores facts. Facts made from messages are deleted with the segment they were written with."""

    async def facts(self, key: Key) -> list[Fact]:
        """All stored facts, also replaced and done ones, in the order of writing."""

    async def write_facts(
        self, key: Key, changes: Sequence[FactChange], *, generation: int | None = None
    ) -> list[Fact]:
        """Make changes without a segment, and return the added facts.

        Facts of a user stay until they are removed. Other facts stay until a segment covers their message, or
        the message is deleted. With `generation`, nothing is written if the conversation now has another one.
        """

    async def remove_fact(self, key: Key, number: int) -> bool:
        """Remove a fact that holds. What it replaced does not come back. False if there is none."""


class ProfileFact(NamedTuple):
    """A fact that holds in all conversations of its scope, and the one that it was learned in."""

    conversation: str
    fact: Fact


@runtime_checkable
class ProfileFacts(Protocol):
    """A store that finds facts in all conversations of a scope. Without it, profiles learn nothing."""

    async def profile_facts(self, agent: str, scope: str) -> list[ProfileFact]:
        """The facts of a scope with an agent that are `in_profile` and hold, oldest first."""


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
    covered, provisional, back = 0, False, []
    for segment in sorted(chosen, key=lambda one: one.first):
        if segment.first != covered + 1 or (provisional and not segment.provisional):
            break
        covered, provisional = segment.last, segment.provisional
        if segment not in active:
            back.append(segment)
    return tuple(back)


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


@runtime_checkable
class Log(Protocol):
    """Stores messages. Appends never overwrite; reads return messages in order."""

    async def append(
        self, key: Key, drafts: Sequence[Draft], *, turn: TurnToken | None = None, ends: bool = False
    ) -> list[int]:
        """Store all drafts or none. Positions have no gaps; a known id returns its old position.

        With `turn`, raises `TurnLost` if another turn has begun since, unless all drafts are already stored.
        With `ends`, the turn is released in the same transaction.
        """

    async def read(
        self, key: Key, *, after: int = 0, before: int | None = None, limit: int | None = None
    ) -> Window:
        """The newest `limit` entries between two positions, both excluded."""

    async def head(self, key: Key) -> Head:
        """The state of the conversation."""

    async def full_text(self, key: Key, message_id: str) -> str | None:
        """The uncut body of a message that was too large for the log."""

    async def delete(
        self,
        scope: str,
        agent: str | None = None,
        conversation: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> int:
        """Delete a scope, a conversation or some of its messages, and return how many messages there were."""


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


@runtime_checkable
class Listing(Protocol):
    """Lists the conversations that have messages, and the names in their keys, a page at a time.

    Names are ordered by their characters. The cost of a page depends only on its own size, because no
    messages are counted.
    """

    async def list_agents(self, *, scope: str | None, after: str | None, limit: int) -> list[str]:
        """The first `limit` agents after a name that have conversations, in all scopes or in one."""

    async def list_scopes(self, *, agent: str | None, after: str | None, limit: int) -> list[str]:
        """The first `limit` scopes after a name that have conversations, with all agents or with one."""

    async def list_conversations(
        self, scope: str, *, agent: str | None, after: Key | None, limit: int
    ) -> list[ConversationInfo]:
        """The first `limit` conversations of a scope after a key, by agent and name."""


def check_cursor(after: Key | None, scope: str, agent: str | None) -> None:
    """Refuse a key that no page of this listing ends with."""
    if after is None:
        return
    if not isinstance(after, Key):
        raise InvalidKey("after", f"must be a Key, such as `page[-1].key`, not {type(after).__name__}")
    make_key(*after)
    if after.scope != scope:
        raise InvalidKey("after", "is a conversation of another scope; give the last key of the page before")
    if agent not in (None, after.agent):
        raise InvalidKey("after", "is a conversation of another agent; give the last key of the page before")


@runtime_checkable
class Forks(Protocol):
    """Makes conversations that share the messages of another up to a position.

    Messages are shared, not copied. Deleting a shared message deletes it from every conversation that has it,
    and raises the generation of each. Segments, facts and pins up to the position are copied. Records, work
    and leases are not shared. Deleting a fork deletes only its own messages.
    """

    async def fork(self, key: Key, at: int | None, name: str) -> None:
        """Make the conversation `name`, with the same agent and scope, from the messages up to `at`.

        None means the head. The fork continues at the next position. Raises `UnknownConversation` if the
        source is empty, and `InvalidFork` for a name that is or was in use, or a position after the head.
        """

    async def shared_until(self, key: Key) -> int:
        """The last position shared with a fork or with the source of this fork; 0 if there is none."""


@runtime_checkable
class Store(Log, Turns, Summaries, Facts, Work, Records, Search, Listing, Forks, Protocol):
    """All protocols above in one object that can be closed."""

    @property
    def identity(self) -> object:
        """An object that identifies the log; it changes if the file is replaced by another one."""

    async def check(self) -> None:
        """Raise the error that a user should see, if a write would fail now."""

    async def close(self) -> None:
        """Finish accepted writes and close everything; a second call does nothing."""


@runtime_checkable
class InMemory(Protocol):
    """A store that can say that its messages are in this process, so that `Memory` needs no cache."""

    @property
    def in_memory(self) -> bool:
        """True when the messages are in this process."""
