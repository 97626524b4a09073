"""Epochs: contexts that begin with the context that was sent before them.

Providers bill a request by the beginning that it shares with an earlier one, and current models read their
own earlier thinking only behind an unchanged beginning. So a context that is sent goes on from the last one:
new messages of the log are appended, and a section whose text has changed says so once, at the end. When that
is not possible, the epoch ends, with one of the reasons of `EndReason`, and the next context shows everything
anew. Pure functions; `ContextTemplate.compose` calls them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher
from enum import StrEnum
from typing import NamedTuple

from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import ChatRole, Message, TextContent
from autonomy_ctx.messages.summary import Summary, visible_fields
from autonomy_ctx.sections.section import AddedText, Says, SectionKind

# A line before or after a quoted text, as `wrap_untrusted` writes it.
_FRAME = re.compile(r"</?\S+ [0-9a-f]{16}>")
_LOG_ROLES = (ChatRole.ASSISTANT, ChatRole.TOOL)
# A longer text of which less than half has changed says only what has.
MIN_DIFF_TOKENS = 200


class EndReason(StrEnum):
    """Why a context does not begin with the one that was sent before it."""

    SWAP = "swap"
    BUDGET = "budget"
    HARD_LIMIT = "hard limit"
    DID_NOT_FIT = "did not fit"
    HISTORY_SECTION = "history section"
    INSTRUCTIONS = "instructions"
    TOOLS = "tools"
    SUPERSEDED_TEXT = "superseded text"
    OLD_RESULTS = "old results"
    LATEST = "latest"
    EDIT = "edit"
    DELETION = "deletion"
    BY_HAND = "by hand"
    NOT_RECORDED = "not recorded"


class SectionText(NamedTuple):
    """Messages that a section returned, before any limit, with their positions in the log."""

    name: str
    kind: SectionKind
    messages: tuple[Message, ...] = ()
    positions: tuple[int | None, ...] = ()
    says: Says = "states"
    # Whether it failed or is incomplete: what it said before then stands.
    has_problem: bool = False
    # Whether only the newest text may stand there, and whether a line that is gone must not be shown again.
    is_latest: bool = False
    may_be_removed: bool = False
    # The messages of other conversations that it quotes.
    refs: tuple[MessageRef, ...] = ()
    # What was added to its log in this epoch that is no message of it.
    added: tuple[AddedText, ...] = ()

    @property
    def is_log(self) -> bool:
        """True for messages of the log, or others that cannot be said as one text."""
        if self.says == "adds":
            return False
        return self.name == "conversation_history" or any(
            position is not None or message.role in _LOG_ROLES
            for message, position in zip(self.messages, self.positions, strict=True)
        )

    def saying(self, messages: tuple[Message, ...], positions: tuple[int | None, ...] = ()) -> SectionText:
        """The section with other messages."""
        return self._replace(messages=messages, positions=positions or (None,) * len(messages))

    def part(self, first: int, count: int) -> tuple[tuple[Message, ...], tuple[int | None, ...]]:
        """Some of its messages, and their positions."""
        return self.messages[first : first + count], self.positions[first : first + count]

    def first(self, count: int) -> SectionText:
        """The section with its first messages alone."""
        return self._replace(messages=self.messages[:count], positions=self.positions[:count])


class Addition(NamedTuple):
    """Messages of one section that are appended to a context."""

    section: int
    messages: tuple[Message, ...]
    positions: tuple[int | None, ...]
    # Of texts that stand beside a log: their names.
    names: tuple[str, ...] = ()

    @classmethod
    def of_texts(cls, section: int, texts: Sequence[AddedText]) -> Addition:
        """The addition of facts and pins."""
        names, messages, positions = zip(*texts, strict=True)
        return cls(section, messages, positions, names)


class HeadRun(NamedTuple):
    """Messages of one section that stand together at the beginning; `first` counts in what it returned."""

    section: int
    first: int
    length: int


class Continuation(NamedTuple):
    """All that is appended, and what each section has then said."""

    additions: list[Addition]
    said: tuple[SectionText, ...]


def continue_epoch(
    before: Sequence[SectionText],
    now: Sequence[SectionText],
    write_change: ChangeWriter,
    *,
    is_in_turn: bool = False,
) -> Continuation | EndReason:
    """Find what to append to a context with sections as `before`, so that it says what they say now.

    Inside a turn, what sections add stays as it was when the turn began, and so do the rules of an
    application. Those of a client or a framework are its own: each request has what it says.
    """
    holds_rules = is_in_turn and write_change.may_instruct
    if len(before) != len(now):
        return EndReason.INSTRUCTIONS
    log: list[Addition] = []
    inserts: list[Addition] = []
    said: list[SectionText] = []
    for index, (old, new) in enumerate(zip(before, now, strict=True)):
        if (old.name, old.kind, old.says) != (new.name, new.kind, new.says):
            return EndReason.INSTRUCTIONS
        if new.has_problem or (is_in_turn and new.says == "adds") or (holds_rules and new.kind == "stable"):
            said.append(old)
        elif new.says == "adds":
            known = {one.text for one in old.messages}
            found = [at for at, one in enumerate(new.messages) if one.text not in known]
            added = Addition(
                index, tuple(new.messages[at] for at in found), tuple(new.positions[at] for at in found)
            )
            if found:
                inserts.append(added)
            both = old.saying(old.messages + added.messages, old.positions + added.positions)
            said.append(both._replace(refs=new.refs))
        elif new.is_latest and new.messages and not is_in_turn:
            return EndReason.LATEST
        else:
            addition = _continue_section(index, old, new, write_change)
            if isinstance(addition, EndReason):
                return addition
            if addition is not None:
                (log if new.is_log else inserts).append(addition)
            if old.added or new.added:
                # Facts and pins that were added since, unless one is gone.
                names = {one.name for one in old.added}
                beside = tuple(one for one in new.added if one.name not in names)
                if len(new.added) - len(beside) < len(names):
                    return EndReason.EDIT
                if beside:
                    inserts.append(Addition.of_texts(index, beside))
                new = new._replace(added=old.added + beside)
            said.append(new)
    return Continuation([*log, *inserts], tuple(said))


def _continue_section(
    index: int, old: SectionText, new: SectionText, write_change: ChangeWriter
) -> Addition | EndReason | None:
    """The addition of a section that states something; None if it says nothing new."""
    shared = _shared_length(old.messages, new.messages)
    if shared == len(old.messages) == len(new.messages):
        return None
    if old.is_log or new.is_log:
        if shared < len(old.messages) or not old.is_log:
            return log_end(old.messages, new.messages)
        return Addition(index, *new.part(shared, len(new.messages) - shared))
    if new.kind == "stable":
        return EndReason.INSTRUCTIONS
    if new.may_be_removed and not _lines(old) <= _lines(new):
        return EndReason.EDIT
    return Addition(index, (write_change(old, new),), (None,))


class ChangeWriter(NamedTuple):
    """Writes the message that says what a section says now, after what it said before."""

    count_text: Callable[[str], int]
    # Whether the text of an application may be an instruction there; otherwise it is told like a user's.
    may_instruct: bool = True

    def __call__(self, old: SectionText, new: SectionText) -> Message:
        said = (*old.messages, *new.messages)
        is_text = all(isinstance(part, TextContent) for one in said for part in one.parts)
        is_rule = self.may_instruct and is_text and all(one.role is ChatRole.SYSTEM for one in said)
        text = _change_text(new.name, _text_of(old.messages), _text_of(new.messages), self.count_text)
        # From a dict: it has no id or time of its own, so the same text gives the same bytes.
        return wire.from_dict({"role": "system" if is_rule else "user", "content": text})


def log_end(before: Sequence[Message], now: Sequence[Message]) -> EndReason:
    """The reason why the messages of a log do not go on."""
    old, new = ([one.segments for one in some if isinstance(one, Summary)] for some in (before, now))
    if old and list(filter(None, old)) == list(filter(None, new)):
        # The summary is the same, or there is none: facts beside it, or pins before it, are not.
        return EndReason.EDIT
    if any(segment.provisional for segments in new for segment in segments):
        return EndReason.HARD_LIMIT
    return EndReason.SWAP if old or new else EndReason.HISTORY_SECTION


def _shared_length(before: Sequence[Message], now: Sequence[Message]) -> int:
    if now[: len(before)] == before:
        return len(before)
    for at, (one, other) in enumerate(zip(before, now, strict=False)):
        if one is not other and visible_fields(one) != visible_fields(other):
            return at
    return min(len(before), len(now))


def _lines(text: SectionText) -> set[str]:
    """The lines of a section, without those that only frame a quoted text."""
    return {line for line in _text_of(text.messages).splitlines() if not _FRAME.fullmatch(line)}


def _text_of(messages: Sequence[Message]) -> str:
    return "\n\n".join(message.text for message in messages)


def _partial_heading(name: str) -> str:
    return f"[{name}, changed; the rest holds]"


def is_partial(name: str, message: Message) -> bool:
    """Tell whether a message says only which lines of a section have changed."""
    return message.text.startswith(_partial_heading(name))


def _change_text(name: str, before: str, now: str, count: Callable[[str], int]) -> str:
    """The text of a section after it has changed: all of it, or the lines that did."""
    if not now.strip():
        return f"[{name}: nothing now]"
    old, new = before.splitlines(), now.splitlines()
    # A text of others stays in its frame: it is said whole.
    if before.strip() and count(now) > MIN_DIFF_TOKENS and not any(map(_FRAME.fullmatch, new)):
        matched = SequenceMatcher(None, old, new, autojunk=False)
        changes = [one for one in matched.get_opcodes() if one[0] != "equal"]
        added = [line for _, _, _, first, last in changes for line in new[first:last]]
        gone = [line for _, first, last, _, _ in changes for line in old[first:last]]
        if len(added) + len(gone) < len(new) / 2:
            lines = [*(f"+ {line}" for line in added), *(f"- {line}" for line in gone)]
            return "\n".join([_partial_heading(name), *lines])
    heading = f"[{name}, now; replaces what it said before]" if before.strip() else f"[{name}, now]"
    return f"{heading}\n{now}"
