"""Describes what changed between two contexts, as plain sentences."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from autonomy_ctx.inspection.report import count_of, range_of, shorten
from autonomy_ctx.memory.outline import position_ranges
from autonomy_ctx.messages.fact import UNTIL_NOTE
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Segment, Summary, visible_fields
from autonomy_ctx.template.composed import ComposedContext, SectionReport
from autonomy_ctx.template.epoch import EndReason

# What has happened, by the reason why an epoch has ended.
_ENDS = {
    EndReason.SWAP: "another summary is shown",
    EndReason.BUDGET: "the context would have been larger than its budget",
    EndReason.HARD_LIMIT: "the history had reached its hard limit",
    EndReason.DID_NOT_FIT: "the provider refused the context as too long",
    EndReason.HISTORY_SECTION: "the history no longer begins with the messages that it showed before",
    EndReason.INSTRUCTIONS: "a stable section has changed, or the list of sections",
    EndReason.TOOLS: "the list of tools has changed",
    EndReason.SUPERSEDED_TEXT: "more than half of the context had been replaced by later text",
    EndReason.OLD_RESULTS: "sending old results had cost as much as a new beginning without them",
    EndReason.LATEST: 'a section with keep="latest" has moved to another place',
    EndReason.EDIT: "a fact, a pin or a line of a section has changed, or must not be shown again",
    EndReason.DELETION: "a message was deleted",
    EndReason.BY_HAND: "the application ended the epoch",
    EndReason.NOT_RECORDED: "the previous request is not recorded",
}
# What costs less, where that is the application's choice.
_ADVICE = {
    EndReason.INSTRUCTIONS: "Give a section that changes the kind slow or volatile: then its change is "
    "appended, and the rest is read from the cache. A client should leave dates out of its instructions.",
    EndReason.LATEST: 'With keep="all", the new text is appended, and the rest is read from the cache.',
    EndReason.HISTORY_SECTION: "A summarized history only grows between two summaries; a history "
    "that drops or changes its oldest messages misses the cache each time.",
}
# What a sentence quotes of a fact or of a failure.
_QUOTED_CHARACTERS = 120
# So many facts are named one by one.
_NAMED_FACTS = 5
_MAX_RANGES = 3
_OMITTED_NOUNS = {
    "facts": "fact",
    "pins": "pinned message",
    "profile": "line of the profile",
    "results": "old result",
    "images": "old image",
}


def describe_changes(before: ComposedContext, after: ComposedContext) -> list[str]:
    """Describe what is different in the later of two contexts, the most telling first."""
    return [
        *_failures(before, after),
        *_summary_changes(_segments(before), _segments(after)),
        *_message_changes(before, after),
        *_fact_changes(before.facts, after.facts),
        *_text_changes(before, after),
        *_cuts(before, after),
    ]


def describe_end(reason: EndReason) -> str:
    """Describe why an epoch has ended."""
    return f"a new epoch began ({reason.value}): {_ENDS[reason]}"


def advise_on_end(reason: EndReason | None) -> str | None:
    """A sentence about what would cost less; None if the end was not the application's choice."""
    return None if reason is None else _ADVICE.get(reason)


def fingerprint(message: Message) -> str:
    """Write what a model sees of a message as one text to compare."""
    return json.dumps(visible_fields(message), ensure_ascii=True)


def _failures(before: ComposedContext, after: ComposedContext) -> Iterator[str]:
    for section in after.sections:
        old = before.section(section.name)
        reason = f": {shorten(section.reason, _QUOTED_CHARACTERS)}" if section.reason else ""
        if section.status == "failed":
            again = "again" if old is not None and old.status == "failed" else ""
            yield f"section {section.name} failed {again}".rstrip() + reason
        elif old is not None and old.status == "failed" and section.status == "included":
            yield f"section {section.name} works again"
        elif section.status == "skipped" and old is not None and old.status != "skipped":
            yield f"section {section.name} was skipped{reason}"


def _segments(context: ComposedContext) -> list[Segment]:
    return [
        segment
        for message in context.messages
        if isinstance(message, Summary)
        for segment in message.segments
    ]


def _summary_changes(before: Sequence[Segment], after: Sequence[Segment]) -> Iterator[str]:
    old = {(one.first, one.last): one for one in before}
    grown: list[Segment] = []
    for segment in after:
        covered = range_of(segment.first, segment.last)
        same = old.get((segment.first, segment.last))
        inside = [one for one in before if segment.first <= one.first and one.last <= segment.last]
        if same is not None:
            if same.provisional and not segment.provisional:
                yield f"a summary replaced the digest of messages {covered}"
            elif same.text != segment.text:
                yield f"the summary of messages {covered} was rewritten"
        elif any(one.provisional for one in inside) and not segment.provisional:
            digests = "a digest" if len(inside) == 1 else f"{len(inside)} digests"
            yield f"a summary of messages {covered} replaced {digests}"
        elif len(inside) > 1:
            yield f"{len(inside)} segments of the summary were merged into one (messages {covered})"
        elif segment.provisional and segment.first > max((one.last for one in before), default=0):
            yield f"messages {covered} are shown as a digest until a model has summarized them"
        else:
            grown.append(segment)
    if grown:
        covered = range_of(grown[0].first, grown[-1].last)
        number = "one segment" if len(grown) == 1 else f"{len(grown)} segments"
        yield f"the summary grew by {number} (messages {covered})"
    reach = max((one.last for one in after), default=0)
    lost = [one for one in before if one.first > reach]
    if lost:
        yield f"the summary of messages {range_of(lost[0].first, lost[-1].last)} was undone"


def _message_changes(before: ComposedContext, after: ComposedContext) -> Iterator[str]:
    old = {position for position in before.positions() if position}
    new = {position for position in after.positions() if position}
    newest = max(old, default=0)
    covered = max((one.last for one in _segments(after)), default=0)
    gone = old - new
    summarized = {position for position in gone if position <= covered}
    yield from _tell("new message", (position for position in new if position > newest), "")
    yield from _tell("message", summarized, "only in the summary now")
    yield from _tell("message", gone - summarized, "no longer shown")
    yield from _tell("older message", (one for one in new - old if one < newest), "shown again")


def _tell(noun: str, positions: Iterable[int], what: str) -> Iterator[str]:
    found = sorted(positions)
    if not found:
        return
    ranges = [range_of(*one) for one in position_ranges(found, max_gap=1)]
    where = ", ".join(ranges) if len(ranges) <= _MAX_RANGES else f"between {found[0]} and {found[-1]}"
    verb = f" {'is' if len(found) == 1 else 'are'} {what}" if what else ""
    yield f"{count_of(len(found), noun)}{verb} ({where})"


def _fact_changes(before: Sequence[str], after: Sequence[str]) -> Iterator[str]:
    """Lines of facts begin with their ids."""
    old, new = ({line.partition(" ")[0]: line for line in lines} for lines in (before, after))
    added = [line for name, line in new.items() if name not in old]
    ended = [line for name, line in old.items() if name not in new]
    yield from _tell_facts("a fact is new", "new facts", added)
    yield from _tell_facts("a fact is no longer shown", "facts are no longer shown", ended)


def _tell_facts(one: str, many: str, lines: Sequence[str]) -> Iterator[str]:
    if len(lines) > _NAMED_FACTS:
        yield f"{len(lines)} {many}: {', '.join(line.partition(' ')[0] for line in lines)}"
        return
    for line in lines:
        # Without the old fact: its end is listed separately.
        yield f"{one}: {shorten(line.partition(UNTIL_NOTE)[0], _QUOTED_CHARACTERS)}"


def _own_texts(context: ComposedContext) -> Mapping[str, list[str]]:
    """By section what it wrote itself: neither the log nor the summary."""
    shown, found = context.messages, defaultdict[str, list[str]](list)
    for section in context.sections:
        for index, position in zip(section.indexes, section.positions, strict=True):
            if not position and not isinstance(shown[index], Summary):
                found[section.name].append(fingerprint(shown[index]))
    return found


def _text_changes(before: ComposedContext, after: ComposedContext) -> Iterator[str]:
    old_texts, new_texts = _own_texts(before), _own_texts(after)
    for section in after.sections:
        old, was, now = before.section(section.name), old_texts.get(section.name), new_texts.get(section.name)
        if old is None:
            yield f"section {section.name} is new{_size(section)}"
        elif was != now and section.status != "failed":
            yield f"section {section.name} {_text_change(old, section, was, now)}"
    for section in before.sections:
        if after.section(section.name) is None:
            yield f"section {section.name} was removed"


def _text_change(old: SectionReport, new: SectionReport, was: list[str] | None, now: list[str] | None) -> str:
    if was and now and now[: len(was)] == was:
        return f"appended its new text ({count_of(new.tokens - old.tokens, 'token')})"
    if was and now:
        return f"changed its text ({old.tokens:,} to {count_of(new.tokens, 'token')})"
    return f"has text now{_size(new)}" if now else "has no text now"


def _size(section: SectionReport) -> str:
    return f" ({count_of(section.tokens, 'token')})" if section.messages else ""


def _cuts(before: ComposedContext, after: ComposedContext) -> Iterator[str]:
    known = set(before.cut)
    for cut in after.cut:
        if cut not in known:
            yield (
                f"section {cut.section} was cut: {count_of(cut.messages, 'message')} {cut.what}, "
                f"{count_of(cut.tokens, 'token')} ({cut.reason})"
            )
    was = {(one.what, one.reason) for one in before.omitted}
    for omission in after.omitted:
        if omission.what != "messages" and (omission.what, omission.reason) not in was:
            noun = _OMITTED_NOUNS[omission.what]
            reason = shorten(omission.reason, _QUOTED_CHARACTERS)
            yield f"{count_of(omission.count, noun)} not shown: {reason}"
