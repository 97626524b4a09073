"""The stored form of an epoch: one small row, and a part for each text that only this epoch has.

The row refers to everything that can be read or made again: messages of the log and a summary by their number
and a hash, stable sections and tools by a hash. Texts of other sections, at the beginning or later, are
parts, each written once. `restore_epoch` finds the context that was sent from the row, the parts, and what
the sections say now, or the reason why that is no longer possible. Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from hashlib import sha256
from typing import Any, NamedTuple

from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary, visible_fields
from autonomy_ctx.sections.section import FACTS_NAME, AddedText, ClearedParts, EpochBeginning
from autonomy_ctx.template.epoch import Addition, ChangeWriter, EndReason, HeadRun, SectionText, log_end

_write_json = json.JSONEncoder(separators=(",", ":")).encode
# Where a part stands that is said at the beginning, and whose part a shortened message is.
AT_HEAD = NO_SECTION = -1
# The hash of a text of which a part was dropped.
UNKNOWN = ""
# How many of the last turns can be dropped, one after the other, before an epoch ends.
MAX_MARKS = 8


class EpochPart(NamedTuple):
    """A text that a section said at an index of the context; or `taken` messages of its log, or `names`."""

    at: int
    section: int
    messages: tuple[Message, ...] = ()
    taken: int = 0
    refs: tuple[MessageRef, ...] = ()
    # Of facts and pins beside its log: their names; their texts are found again, or are its messages.
    names: tuple[str, ...] = ()
    # Not shown: only what the section had said before its next part.
    is_silent: bool = False


class KnownText(NamedTuple):
    """Messages that a section returned and will return again: how many at first and now, and their hash."""

    first: int
    total: int
    digest: str


class TurnMark(NamedTuple):
    """The last answered request of an earlier turn: its user message, its length and its hash."""

    turn: int
    length: int
    digest: str


class EpochRow(NamedTuple):
    """One epoch as it is stored, up to the newest request that was answered."""

    number: int
    # The number of messages of that request, and a hash of what a model saw of them.
    length: int
    digest: str
    head: tuple[HeadRun, ...]
    # Of each section that shows a log or is stable.
    known: Mapping[int, KnownText]
    tools: str
    calibration: float
    # The position of the user message that the request answers, and the newest one when the epoch began.
    turn: int | None
    began: int
    # The position up to which a summary stands for messages.
    covered: int
    parts: int
    beginning: EpochBeginning | None = None
    # Of the turns before, the newest last: what is left if the ones after them are dropped.
    marks: tuple[TurnMark, ...] = ()
    # A reason to end, which was given before the next request.
    ended: EndReason | None = None
    # A random name of the conversation for the provider's cache; it tells nothing of it.
    cache_key: str = ""
    # The name and the body of the record.
    name: str = ""
    body: str = ""

    def part_name(self, index: int) -> str:
        """The name of the record of a part."""
        return f"{self.name}/{self.number}/{index}"


class LastTurn(NamedTuple):
    """The newest turn of a conversation that this process knows."""

    number: int
    # Of its lease, and of the conversation then: with the next ticket, nothing has come in between.
    ticket: int
    generation: int


@dataclass(slots=True)
class EpochState:
    """The state from which the next context goes on: an epoch, and the texts of its sections."""

    number: int = 1
    end_reason: EndReason | None = None
    # What each section said last in this epoch, as it returned it; empty if no context can go on from it.
    said: tuple[SectionText, ...] = ()
    # The position of the user message that it answers, and the newest one that the epoch began with.
    turn: int | None = None
    began: int = 0
    beginning: EpochBeginning | None = None
    # The tools that are sent with it, their tokens before calibration, and their names.
    tools: tuple[Any, ...] = ()
    tool_count: int = 0
    tool_names: tuple[str, ...] = ()
    # Of the first context of an epoch: where its messages come from, and those that no section returned.
    head: tuple[HeadRun, ...] = ()
    shortened: Mapping[int, Message] = field(default_factory=dict)
    # Of a later one: what was appended to the context before.
    additions: tuple[Addition, ...] = ()
    # The stored row of the context before, and of this one once it is to be stored.
    base: EpochRow | None = None
    row: EpochRow | None = None
    # The parts that the row of the context before does not have in the store: its epoch begins now.
    carried: tuple[EpochPart, ...] = ()
    # Who composed it, and the rows that it had then; without a name, nothing is stored.
    composer: str = ""
    rows: Sequence[EpochRow] = ()
    cache_key: str = ""
    # Whether the provider should keep the prefix for longer, because the conversation has long pauses.
    long_cache: bool = False
    last_turn: LastTurn | None = None

    @property
    def head_length(self) -> int | None:
        """The number of messages that the epoch began with; None if that is not known."""
        runs = self.head or (() if self.base is None else self.base.head)
        return sum([run.length for run in runs]) if runs else None


def encode_row(row: EpochRow) -> str:
    """The body of a row's record."""
    form = {name: value for name, value in row._asdict().items() if name not in ("name", "body")}
    return _write_json(form | {"known": [[section, *text] for section, text in row.known.items()]})


def decode_row(name: str, body: str) -> EpochRow | None:
    """The epoch of a record; None for one that another version has written."""
    try:
        form = json.loads(body)
        form["head"] = tuple(map(HeadRun._make, form["head"]))
        form["ended"] = EndReason(form["ended"]) if form["ended"] else None
        beginning = form.get("beginning")
        if beginning:
            newest_fact, pins, *names = beginning
            if len(names) > 2:
                results, images, kept, *excerpts = names[2]
                names[2] = ClearedParts(results, images, tuple(kept), *excerpts)
            form["beginning"] = EpochBeginning(newest_fact, tuple(pins), *names)
        form["marks"] = tuple(map(TurnMark._make, form.get("marks", ())))
        form["known"] = {section: KnownText(*text) for section, *text in form["known"]}
        return EpochRow(**form, name=name, body=body)
    except (KeyError, TypeError, ValueError):
        return None


def encode_part(part: EpochPart) -> str:
    """The body of a part's record."""
    messages = [wire.to_dict(message) for message in part.messages]
    refs = [(one.conversation, one.position, one.agent, one.generation) for one in part.refs]
    form = [part.at, part.section, messages, part.taken, refs, part.names]
    return _write_json([*form, True] if part.is_silent else form)


def decode_part(body: str) -> EpochPart | None:
    """A part from its record; None for one that another version has written."""
    try:
        at, section, messages, taken, refs, *more = json.loads(body)
        quoted = tuple(MessageRef(*one) for one in refs)
        said = tuple(map(wire.from_dict, messages))
        return EpochPart(at, section, said, taken, quoted, tuple(more[0]) if more else (), len(more) > 1)
    except (KeyError, TypeError, ValueError):
        return None


def messages_digest(messages: Iterable[Message]) -> str:
    """The hash of messages as a model sees them."""
    return reduce(_chain, map(_write_json, map(visible_fields, messages)), "")


def _chain(digest: str, shown: str) -> str:
    return sha256(f"{digest}{shown}".encode()).hexdigest()[:32]


def tools_digest(tools: Sequence[Any]) -> str:
    """The hash of a list of tools, in its order."""
    return sha256(json.dumps(tools, default=str, separators=(",", ":")).encode()).hexdigest()[:32]


def begin_row(
    said: Sequence[SectionText],
    head: Sequence[HeadRun],
    messages: Sequence[Message],
    shortened: Mapping[int, Message],
    **values: Any,
) -> tuple[EpochRow, list[EpochPart]]:
    """The row and the parts of an epoch that begins; `shortened` are messages that no section returned."""
    known = {
        section: KnownText(len(text.messages), len(text.messages), messages_digest(text.messages))
        for section, text in enumerate(said)
        if text.is_log or text.kind == "stable"
    }
    parts = [
        EpochPart(AT_HEAD, section, text.messages, refs=text.refs)
        for section, text in enumerate(said)
        if section not in known and text.messages
    ]
    parts += [EpochPart(at, NO_SECTION, (message,)) for at, message in shortened.items()]
    row = EpochRow(
        length=len(messages),
        digest=messages_digest(messages),
        head=tuple(head),
        known=known,
        covered=max((covered_by_summary(text.messages) for text in said), default=0),
        parts=len(parts),
        **values,
    )
    return row, parts


def extend_row(
    row: EpochRow,
    additions: Sequence[Addition],
    said: Sequence[SectionText],
    appended: Sequence[Message],
    turn: int | None,
) -> tuple[EpochRow, list[EpochPart]]:
    """The row and the new parts after additions, which are the messages `appended`."""
    known, parts, at = dict(row.known), list[EpochPart](), row.length
    filler = _filler(row, said)
    shown = [_write_json(visible_fields(message)) for message in appended]
    for addition in additions:
        section, count = addition.section, len(addition.messages)
        if addition.names:
            # All facts together are others after the next summary.
            has_all_facts = any(name.startswith(FACTS_NAME) for name in addition.names)
            texts = addition.messages if has_all_facts else ()
            parts.append(EpochPart(at, section, texts, names=addition.names))
        elif section in known:
            first, before, digest = known[section]
            own = shown[at - row.length : at - row.length + count]
            known[section] = KnownText(first, before + count, reduce(_chain, own, digest))
            if section != filler:
                parts.append(EpochPart(at, section, taken=count))
        else:
            text = said[section]
            messages = addition.messages if text.says == "adds" else text.messages
            parts.append(EpochPart(at, section, messages, refs=text.refs))
        at += count
    digest = reduce(_chain, shown, row.digest)
    marks = row.marks
    if row.turn not in (None, turn):
        marks = (*marks, TurnMark(row.turn, row.length, row.digest))[-MAX_MARKS:]
    count = row.parts + len(parts)
    made = row._replace(length=at, digest=digest, known=known, turn=turn, parts=count, marks=marks)
    return made, parts


def shorten_row(
    row: EpochRow, parts: Sequence[EpochPart], cut: int, *, is_turn_end: bool
) -> tuple[EpochRow, list[EpochPart]] | None:
    """The row and the parts that are left of an epoch when a log ends before position `cut`.

    They describe the last request of the newest turn before that; None if the epoch has no such turn. The cut
    may be inside a turn, which is then left out.
    """
    if row.turn is None or row.ended is not None:
        return None
    marks = [*row.marks, TurnMark(row.turn, row.length, row.digest)]
    kept = [mark for mark in marks if mark.turn < cut]
    if not is_turn_end:
        kept = kept[:-1]
    if not kept:
        return None
    turn, length, digest = kept.pop()
    left = [part for part in parts if part.at < length]
    # How much of a log that has grown is left is found when it is read, and checked by the hash of all.
    known = {
        section: text if text.total == text.first or length == row.length else text._replace(digest=UNKNOWN)
        for section, text in row.known.items()
    }
    made = row._replace(
        turn=turn, length=length, digest=digest, known=known, parts=len(left), marks=tuple(kept)
    )
    return made._replace(body=encode_row(made)), left


class RestoredEpoch(NamedTuple):
    """The beginning of a context that was sent, what was appended to it, and what each section has said."""

    row: EpochRow
    head: list[Addition]
    shortened: Mapping[int, Message]
    additions: list[Addition]
    said: tuple[SectionText, ...]
    # Why it cannot be gone on from, if it is not what was sent.
    mismatch: EndReason


def restore_epoch(
    row: EpochRow, parts: Sequence[EpochPart], now: Sequence[SectionText], write_change: ChangeWriter
) -> RestoredEpoch | EndReason:
    """Find what was sent from what sections say now; or the reason why an epoch cannot go on."""
    if len(parts) != row.parts:
        return EndReason.NOT_RECORDED
    cut = [now[section] for section, text in row.known.items() if text.digest == UNKNOWN]
    mismatch = _log_end(row, cut[0]) if cut else EndReason.NOT_RECORDED
    row = row._replace(known=_fill_known(row, parts, now))
    said = [text._replace(messages=(), positions=(), added=()) for text in now]
    final = list(said)
    for section, known in row.known.items():
        text = now[section]
        if messages_digest(text.messages[: known.total]) != known.digest or (
            not text.is_log and len(text.messages) != known.total
        ):
            return _log_end(row, text) if text.is_log else EndReason.INSTRUCTIONS
        said[section] = text.first(known.first)._replace(added=())
        final[section] = text.first(known.total)._replace(added=())
    shortened: dict[int, Message] = {}
    for part in parts:
        if part.section == NO_SECTION:
            shortened[part.at] = part.messages[0]
        elif part.at == AT_HEAD:
            said[part.section] = final[part.section] = said[part.section].saying(part.messages)
    head = [Addition(section, *said[section].part(first, length)) for section, first, length in row.head]
    length = sum(len(addition.messages) for addition in head)
    filler = _filler(row, now)
    left = {section: known.first for section, known in row.known.items()}
    additions: list[Addition] = []

    def take(section: int, wanted: int) -> None:
        if wanted:
            additions.append(Addition(section, *final[section].part(left[section], wanted)))
            left[section] += wanted

    at = length
    for part in sorted(
        (one for one in parts if one.at >= length and one.section >= 0), key=lambda one: one.at
    ):
        if filler is not None:
            take(filler, part.at - at)
        at = part.at
        if part.taken:
            take(part.section, part.taken)
            at += part.taken
            continue
        old = final[part.section]
        if part.is_silent:
            final[part.section] = old.saying(part.messages)
            continue
        if part.names:
            texts = dict(zip(part.names, map(AddedText, part.names, part.messages), strict=False))
            texts |= {one.name: one for one in now[part.section].added}
            found = tuple(texts[name] for name in part.names if name in texts)
            if len(found) < len(part.names):
                return EndReason.EDIT
            final[part.section] = old._replace(added=old.added + found)
            additions.append(Addition.of_texts(part.section, found))
            at += len(found)
            continue
        if old.says == "adds":
            final[part.section] = old.saying(old.messages + part.messages)
            additions.append(Addition(part.section, part.messages, (None,) * len(part.messages)))
        else:
            final[part.section] = old.saying(part.messages)
            additions.append(Addition(part.section, (write_change(old, final[part.section]),), (None,)))
        at += len(additions[-1].messages)
    if filler is not None:
        take(filler, row.length - at)
    return RestoredEpoch(row, head, shortened, additions, tuple(final), mismatch)


def _fill_known(
    row: EpochRow, parts: Sequence[EpochPart], now: Sequence[SectionText]
) -> Mapping[int, KnownText]:
    """The texts of sections in a row; after it was shortened, found again from what is left of them."""
    if all(text.digest != UNKNOWN for text in row.known.values()):
        return row.known
    filler, known = _filler(row, now), dict(row.known)
    length, others = sum(run.length for run in row.head), 0
    taken = dict.fromkeys(known, 0)
    for part in parts:
        if part.at >= length and part.section != NO_SECTION and not part.is_silent:
            said = len(part.messages) if now[part.section].says == "adds" else 1
            others += part.taken or len(part.names) or said
            if part.taken:
                taken[part.section] += part.taken
    for section, text in row.known.items():
        if text.digest == UNKNOWN:
            total = text.first + (row.length - length - others if section == filler else taken[section])
            known[section] = KnownText(text.first, total, messages_digest(now[section].messages[:total]))
    return known


def _log_end(row: EpochRow, text: SectionText) -> EndReason:
    """The reason why a log does not go on; of the summary before, only its end is known."""
    reason = log_end((), text.messages)
    # Facts and pins that are gone may have been all that stood beside the log.
    had_texts = row.covered or (row.beginning is not None and any(row.beginning[:-1]))
    is_same = had_texts and row.covered == covered_by_summary(text.messages)
    return EndReason.EDIT if is_same and reason is not EndReason.HARD_LIMIT else reason


def covered_by_summary(messages: Iterable[Message]) -> int:
    """The position up to which a summary stands for messages."""
    summaries = [one for one in messages if isinstance(one, Summary) and one.segments]
    return max((one.covers_to for one in summaries), default=0)


def _filler(row: EpochRow, said: Sequence[SectionText]) -> int | None:
    """The first section with a log: its messages stand wherever no part does."""
    return min((section for section in row.known if said[section].is_log), default=None)
