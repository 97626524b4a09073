"""An epoch that begins with a summary of the provider's own, and goes on as the one before did.

The summary stands for exactly the messages of a request that was sent. All that was sent after that request
stays as it is, with what sections appended, because thinking in it is valid only then. What the summary has
replaced and still holds is said again, behind the new user message. Pure functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from autonomy_ctx.formats.outgoing import INSTRUCTION_ROLES
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary, visible_fields
from autonomy_ctx.sections.section import EpochBeginning
from autonomy_ctx.template.composed import ComposedContext
from autonomy_ctx.template.epoch import Addition, HeadRun, SectionText, is_partial
from autonomy_ctx.template.epoch_row import AT_HEAD, EpochPart, EpochRow, KnownText, messages_digest


class SwappedEpoch(NamedTuple):
    """The beginning of an epoch that was swapped: the row of what stays, and what has to be said again."""

    row: EpochRow
    parts: list[EpochPart]
    # The messages that stay and the summary before them, in runs of one section.
    runs: list[Addition]
    said: tuple[SectionText, ...]
    restated: list[Addition]


def swap_beginning(
    base: ComposedContext,
    row: EpochRow,
    parts: Sequence[EpochPart],
    now: Sequence[SectionText],
    beginning: EpochBeginning | None,
    number: int,
) -> SwappedEpoch | None:
    """Replace the beginning of a context that was sent by a summary; None if the rest cannot stay."""
    kept = _KeptPart.of(base, row, parts, now)
    if kept is None:
        return None
    known, restated = dict(row.known), list[Addition]()
    said, carried = list[SectionText](), kept.head_parts()
    final: list[EpochPart] = []
    for section, text in enumerate(now):
        if section == kept.section:
            shown = kept.first_log_messages(text)
            if shown is None:
                return None
            said.append(shown)
            known[section] = KnownText(1, len(shown.messages), messages_digest(shown.messages))
        elif section in known:
            # A stable section: it stands in the system prompt, or is said again as a whole.
            if text.is_log or not _is_same(base.state.said[section].messages, text.messages):
                return None
            said.append(text)
            is_kept = section in kept.leading or any(part.section == section for part in kept.tail)
            if text.messages and not is_kept:
                known[section] = KnownText(0, 0, "")
                restated.append(Addition(section, text.messages, text.positions))
        else:
            stated, silent, is_said_again = kept.last_said(section, text, base)
            said.append(stated)
            carried += silent
            if is_said_again:
                final.append(EpochPart(kept.length, section, is_silent=True))
    carried += [*kept.tail, *final]
    messages = [message for run in kept.runs for message in run.messages]
    made = row._replace(
        number=number,
        length=len(messages),
        digest=messages_digest(messages),
        head=(*kept.head, HeadRun(kept.section, 0, 1)),
        known=known,
        turn=None,
        began=max((at for at in now[kept.section].positions if at is not None), default=0),
        covered=kept.summary.covers_to,
        parts=len(carried),
        beginning=beginning,
        marks=(),
        body="",
    )
    return SwappedEpoch(made, carried, kept.runs, tuple(said), restated)


class _KeptPart(NamedTuple):
    """The part of a context that stays behind a new summary, and where it stood."""

    section: int
    summary: Summary
    # The system prompt, and the sections in it.
    head: tuple[HeadRun, ...]
    leading: frozenset[int]
    runs: list[Addition]
    log: list[Message]
    # Parts of the row: those before the cut as they were, and those behind it where they stand now.
    before: list[EpochPart]
    tail: list[EpochPart]

    @classmethod
    def of(
        cls, base: ComposedContext, row: EpochRow, parts: Sequence[EpochPart], now: Sequence[SectionText]
    ) -> _KeptPart | None:
        """Find what stays; None if there is no such summary, or it ends elsewhere than a request did."""
        section = next((at for at, text in enumerate(now) if _summary_of(text) is not None), None)
        summary = None if section is None else _summary_of(now[section])
        if section is None or summary is None or len(parts) != row.parts or len(base) != row.length:
            return None
        positions, messages = base.positions(), base.messages
        if summary.covers_to + 1 in positions:
            cut = positions.index(summary.covers_to + 1)
        elif max((one for one in positions if one is not None), default=0) == summary.covers_to:
            # It ends with the reply to the context itself.
            cut = len(positions)
        else:
            return None
        head = _leading_runs(messages, row.head)
        first = sum(run.length for run in head)
        if cut < sum(run.length for run in row.head):
            return None
        if any(run.section == section for run in head):
            return None
        owners = [0] * len(messages)
        for at, report in enumerate(base.sections):
            for index in report.indexes:
                owners[index] = at
        added = {part.at + one for part in parts for one in range(len(part.names))}
        log = [messages[at] for at in range(cut, len(messages)) if owners[at] == section and at not in added]
        runs = [
            Addition(owners[at], (messages[at],), (positions[at],))
            for at in (*range(first), *range(cut, len(messages)))
        ]
        runs.insert(first, Addition(section, (summary,), (None,)))
        shift = first + 1 - cut
        return cls(
            section,
            summary,
            head,
            frozenset(run.section for run in head),
            runs,
            log,
            [part for part in parts if part.at < cut],
            [part._replace(at=part.at + shift) for part in parts if part.at >= cut],
        )

    @property
    def length(self) -> int:
        """The number of messages that stay, with the summary."""
        return len(self.runs)

    @property
    def head_length(self) -> int:
        """The number of messages up to the summary."""
        return sum(run.length for run in self.head) + 1

    def head_parts(self) -> list[EpochPart]:
        """The parts of the system prompt: texts of sections, and messages that were shortened."""
        texts = [part for part in self.before if part.at == AT_HEAD and part.section in self.leading]
        last = self.head_length - 1
        return texts + [part for part in self.before if part.section < 0 and part.at < last]

    def first_log_messages(self, text: SectionText) -> SectionText | None:
        """The history up to the last message that was sent; None if it is not what was sent."""
        shown = text.first(1 + len(self.log))
        if not _is_same(self.log, shown.messages[1:]):
            return None
        texts = {one.name: one for one in text.added}
        names = [name for part in self.tail if part.section == self.section for name in part.names]
        if any(name not in texts for name in names):
            return None
        return shown._replace(added=tuple(texts[name] for name in names))

    def last_said(
        self, section: int, text: SectionText, base: ComposedContext
    ) -> tuple[SectionText, list[EpochPart], bool]:
        """The text that a section has said in what stays, and what it had said before that.

        The last value says that the text has to be said again, because only changes of it stay.
        """
        own = [part for part in self.before if part.section == section]
        kept = [part for part in self.tail if part.section == section and not part.is_silent]
        head = next((part.messages for part in own if part.at == AT_HEAD), ())
        head = head if section in self.leading else ()
        if text.says == "adds":
            return text.saying((*head, *(one for part in kept for one in part.messages))), [], False
        if not kept:
            return text.saying(head), [], False
        last = own[-1].messages if own else ()
        silent = [EpochPart(self.head_length, section, last, is_silent=True)] if last != head else []
        name = base.state.said[section].name
        shown = [self.runs[part.at].messages[0] for part in kept]
        if all(is_partial(name, one) for one in shown):
            return text.saying(()), silent, True
        return text.saying(kept[-1].messages), silent, False


def _is_same(sent: Sequence[Message], now: Sequence[Message]) -> bool:
    """Tell whether a model would see the same messages."""
    return [visible_fields(one) for one in sent] == [visible_fields(one) for one in now]


def _summary_of(text: SectionText) -> Summary | None:
    """The summary that a history begins with, if a provider wrote it."""
    first = text.messages[0] if text.messages else None
    return first if isinstance(first, Summary) and first.block is not None else None


def _leading_runs(messages: Sequence[Message], head: Sequence[HeadRun]) -> tuple[HeadRun, ...]:
    """The runs of the system prompt: instructions with which a context begins."""
    found: list[HeadRun] = []
    at = 0
    for run in head:
        own = messages[at : at + run.length]
        if any(one.role not in INSTRUCTION_ROLES or isinstance(one, Summary) for one in own):
            break
        found.append(run)
        at += run.length
    return tuple(found)
