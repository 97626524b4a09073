"""`SegmentWriter`: writes the text of a segment with a model and checks it, or makes a digest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property, partial
from hashlib import sha256
from typing import NamedTuple, TypeVar

from autonomy_ctx.background import run_in_thread, wait_for_quiet
from autonomy_ctx.compaction.breaker import CircuitBreaker
from autonomy_ctx.compaction.cached_requests import CachedRequest, is_cheaper
from autonomy_ctx.compaction.checks import CUT_OFF, Verdict, better, check_summary
from autonomy_ctx.compaction.config import CompactionSettings, writer_name
from autonomy_ctx.compaction.facts import changes_from_lines, listed_facts
from autonomy_ctx.compaction.key_names import key_identifiers, rank_names
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import (
    MAX_BATCH_TOKENS,
    MIN_SUMMARY_TOKENS,
    segment_target,
)
from autonomy_ctx.compaction.prompt import (
    FACT_RULES,
    batch_prompt,
    cached_batch_prompt,
    cached_merge_prompt,
    merge_prompt,
    repair_prompt,
)
from autonomy_ctx.compaction.reply_text import (
    covered_names,
    name_missing,
    strip_reply,
    trim_to_cap,
    without_names_line,
)
from autonomy_ctx.compaction.schema import READY_SCHEMAS, SchemaSection, SummarySchema
from autonomy_ctx.compaction.schema_records import (
    SectionMerge,
    digest_record,
    fit_record,
    has_headings,
    heading_tokens,
    read_reply,
    standing_text,
)
from autonomy_ctx.compaction.view import render_segment
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.model_info import context_window_of
from autonomy_ctx.language.digest import digest, digest_texts
from autonomy_ctx.language.identifiers import coverage
from autonomy_ctx.language.name_index import key_names_of
from autonomy_ctx.memory.encoding import approximate_length
from autonomy_ctx.memory.store import Entry, StoredSegment
from autonomy_ctx.messages.fact import Fact, FactLine, SplitReply, split_facts
from autonomy_ctx.messages.message import Message, TextContent
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import transcript, visible_text
from autonomy_ctx.models.call import CallFailed, Prompt, PromptTooLong, complete_prompt

# The least tokens of messages to try in one call.
MIN_BATCH_TOKENS = 200
# What stands around the messages in a prompt, in tokens, and how much a count may be off.
PROMPT_OVERHEAD_TOKENS, COUNT_MARGIN = 700, 1.15


# Of the tokens that a summary may have, how many it is asked for: models do not count them exactly.
ASKED_SHARE = 0.8
# Of the tokens of a batch, the part that the record before it may have as background, and how many in any
# case.
BACKGROUND_PART, MIN_BACKGROUND_TOKENS = 32, 48
# The same for the facts that it may change.
LISTED_PART = 16
# Characters, and facts, that are read in no time; more goes to a thread, so that the loop is not held.
INLINE_CHARACTERS = 16_000
INLINE_FACTS = 100
# The same for a reply and what it is compared with, which takes longer.
JUDGED_CHARACTERS = 2_000
# Of a rejected answer, how many characters are shown to whoever looks for the reason.
BEGINNING_CHARACTERS = 80
T = TypeVar("T")


class UnfitSummary(Exception):
    """The answer of the model, and its repair, were rejected; `reason` is a word for the metrics.

    `text` is how the answer began; it is never part of the message.
    """

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason)
        self.reason, self.text = reason, text.strip()[:BEGINNING_CHARACTERS]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentDraft:
    """An accepted text of a segment, and what it cost."""

    text: str
    tokens: int
    model: str
    coverage: float
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_hash: str = ""
    source_hash: str = ""
    # Whether it was kept though it is poor.
    is_doubtful: bool = False
    # Changes of the facts as the model wrote them; None when it wrote none, or was not asked.
    fact_lines: Sequence[FactLine] | None = None
    # Whether it wrote something else in their place.
    has_unread_facts: bool = False
    # The ids of the facts that it was shown.
    listed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """Arranges a reply as the text of a segment with a schema, in at most so many tokens."""

    schema: SummarySchema
    # Those that the model is asked for, and what stands in the others.
    sections: Sequence[SchemaSection]
    tokens: int
    merge: SectionMerge | None = None

    def arrange(self, reply: str, counter: TokenCounter) -> str:
        """The sections of a reply, and those that need none, within their shares."""
        written = read_reply(reply, self.schema, self.sections)
        bodies: dict[str, Sequence[str]] = {name: [text] for name, text in written.items()}
        if self.merge is not None:
            # What a reply with headings leaves out stays as it was; one without has it somewhere.
            is_divided = has_headings(reply, self.sections)
            bodies = {**self.merge.settled, **(self.merge.open if is_divided else {}), **bodies}
        text = fit_record(bodies, self.schema, self.tokens, counter)
        return text or trim_to_cap(reply, self.tokens, counter.count_text)


class CheckedReply(NamedTuple):
    """A verdict, what the reply says of the facts, and its text as it came."""

    verdict: Verdict
    reply: SplitReply
    text: str


class SourceNames(NamedTuple):
    """The key identifiers of a source, and those to name where there is room, the first first."""

    key: Sequence[str]
    to_name: Sequence[str]


@dataclass(frozen=True)
class SegmentRequest:
    """The source of a segment, its tokens and key identifiers, and what else the model is shown."""

    text: str
    tokens: int
    # The most tokens of a reply.
    cap: int
    find_names: Callable[[], SourceNames]
    context: Sequence[str] = ()
    standing: Sequence[Fact] = ()
    pinned: Sequence[str] = ()
    layout: RecordLayout | None = None

    @cached_property
    def names(self) -> SourceNames:
        """Found when a reply is checked: this takes long, and a call that fails needs none."""
        return self.find_names()


class SegmentWriter:
    """Turns messages, or older segments, into the text of one segment."""

    def __init__(
        self, settings: CompactionSettings, metrics: SummaryMetrics, breaker: CircuitBreaker
    ) -> None:
        self.settings, self._metrics = settings, metrics
        self._model = settings.model
        self.breaker = breaker
        self._learned_window: int | None = None

    @property
    def max_batch_tokens(self) -> int:
        """The most tokens of messages that one call may take."""
        window = self._window
        return MAX_BATCH_TOKENS if window is None else self._batch_tokens_within(window)

    @property
    def max_message_tokens(self) -> int:
        """The most tokens of one message that are shown; the rest is cut out of its middle."""
        return max(self.max_batch_tokens // 4, 64)

    async def write_batch(
        self,
        messages: Sequence[Message],
        background: Sequence[str],
        counter: TokenCounter,
        cached: CachedRequest | None = None,
        standing: Sequence[Fact] = (),
        pinned: Sequence[str] = (),
    ) -> SegmentDraft:
        """A segment of these messages; earlier segments, newest last, are given as background.

        So are the facts that hold, to be changed. What is pinned is not to be denied. If the messages stand
        in a request that the provider has cached, they need not be sent again.
        """
        light = sum(map(approximate_length, messages)) <= INLINE_CHARACTERS
        source = await run_or_offload(
            light,
            partial(
                transcript,
                messages,
                counter=counter,
                max_message_tokens=self.max_message_tokens,
                zone=self.settings.zone,
            ),
        )
        tokens, schema = counter.count_messages(messages), self.settings.schema
        if self._model is None:
            target = self._with_headings(self._digest_target(tokens), counter)
            make = digest if schema is None else partial(_digest_with_names, schema)
            text = await run_or_offload(light, partial(make, messages, tokens=target, counter=counter))
            return await run_or_offload(light, partial(self._digest_draft, text, source, counter))
        target = self._with_headings(segment_target(tokens, self.settings.size), counter)
        cap, instructions = int(target * ASKED_SHARE), self.settings.instructions
        left, facts = tokens // 2, None
        if self.settings.facts:
            facts = await run_or_offload(
                len(standing) <= INLINE_FACTS,
                partial(listed_facts, standing, source, tokens // LISTED_PART, counter),
            )
            left -= counter.count_text("\n".join([FACT_RULES, *facts]))
        known = _last_lines(background, max(tokens // BACKGROUND_PART, MIN_BACKGROUND_TOKENS), counter)
        if schema is not None:
            known = _newest_within(background, max(left, tokens // 8), counter)
            if len(known) < len(background):
                # What is replaced must be known to whoever writes what takes its place.
                known = [*filter(None, [standing_text(background, schema)]), *known]
        prompt = batch_prompt(source, known, cap=cap, instructions=instructions, facts=facts, schema=schema)
        after = None
        if cached is not None:
            after = cached_batch_prompt(
                cached, messages, cap=cap, instructions=instructions, facts=facts, schema=schema
            )
        most = self._most_tokens(tokens)
        request = SegmentRequest(
            source,
            tokens,
            most,
            partial(_names_of_messages, messages, schema),
            (*known, *(facts or ())),
            standing,
            pinned,
            None if schema is None else RecordLayout(schema, schema.sections, most),
        )
        draft = await self._write_cheapest(after, prompt, cached, target, request, counter)
        return replace(draft, listed=frozenset(line.partition(" ")[0] for line in facts or ()))

    async def write_merge(
        self,
        segments: Sequence[StoredSegment],
        counter: TokenCounter,
        cached: CachedRequest | None = None,
    ) -> SegmentDraft:
        """Merge several segments into one with the model.

        With a schema the model writes only the sections to rewrite, and is not called if there are none.
        """
        texts, count = [segment.text for segment in segments], counter.count_text
        schema, instructions, most = self.settings.schema, self.settings.instructions, self.settings.size // 4
        sections: Sequence[SchemaSection] = ()
        layout = None
        if schema is None:
            # The lines of names need no model: what fits of them is added to the new record.
            records = [without_names_line(text) for text in texts]
        else:
            merge = SectionMerge.of(texts, schema)
            # Items that are kept word for word leave less to be shortened than a record that is written anew.
            whole_target = min(most, max(MIN_SUMMARY_TOKENS, sum(map(count, texts)) * 3 // 4))
            if not merge.needs_model:
                return await self._join_sections(merge, texts, whole_target, counter)
            records, sections = merge.rewritten_texts(), schema.only("rewrite")
            most = merge.room(whole_target, count)
            layout = RecordLayout(schema, sections, whole_target, merge)
        source, whole = "\n\n".join(records), "\n\n".join(texts)
        tokens = count(source)
        # Well under the length at which a literal answer would pass for an echo.
        target = min(most, max(MIN_SUMMARY_TOKENS, tokens // 2))
        cap = int(target * ASKED_SHARE)
        prompt = merge_prompt(records, cap=cap, instructions=instructions, schema=schema, sections=sections)
        after = None
        if cached is not None:
            after = cached_merge_prompt(
                cached,
                [render_segment(one, self.settings.zone) for one in segments],
                segments[0].first,
                segments[-1].last,
                cap=cap,
                instructions=instructions,
                schema=schema,
                sections=sections,
            )
        to_name = partial(key_names_of, whole) if schema is None else partial(_names_of_texts, texts)
        request = SegmentRequest(
            source,
            tokens,
            self._most_tokens(count(whole)) if schema is None else target,
            lambda: SourceNames(key_names_of(source), to_name()),
            texts,
            layout=layout,
        )
        return await self._write_cheapest(after, prompt, cached, target, request, counter)

    async def _join_sections(
        self,
        merge: SectionMerge,
        texts: Sequence[str],
        tokens: int,
        counter: TokenCounter,
        outdated: Sequence[str] = (),
        *,
        quoted: bool = False,
    ) -> SegmentDraft:
        """The sections of several texts without a model, and the identifiers that have no room there."""

        def join() -> str:
            text = fit_record(merge.bodies, merge.schema, tokens, counter, quoted=quoted, outdated=outdated)
            return name_missing(text, _names_of_texts(texts), cap=tokens, count=counter.count_text, fill=True)

        text = await run_in_thread(join)
        return self._digest_draft(text, "\n\n".join(texts), counter)

    async def extract(
        self, texts: Sequence[str], tokens: int, counter: TokenCounter, outdated: Sequence[str] = ()
    ) -> SegmentDraft:
        """Merge texts without a model, keeping the lines that say most and no facts that no longer hold."""
        schema = self.settings.schema
        if schema is not None:
            merge = SectionMerge.of(texts, schema)
            return await self._join_sections(merge, texts, tokens, counter, outdated, quoted=True)
        text = await run_in_thread(
            lambda: digest_texts(texts, tokens=tokens, counter=counter, outdated=outdated)
        )
        return self._digest_draft(text, "\n\n".join(texts), counter)

    async def _write_cheapest(
        self,
        after: Prompt | None,
        separate: Prompt,
        cached: CachedRequest | None,
        target: int,
        request: SegmentRequest,
        counter: TokenCounter,
    ) -> SegmentDraft:
        """Ask after a cached request where that is possible and costs less; otherwise the usual way."""
        reader, model = self.settings.reader, self._model
        if (
            after is None
            or cached is None
            or not is_cheaper(
                cached, after, separate, reader=reader, model=model, output=target, counter=counter
            )
        ):
            return await self._write(separate, request, counter)
        self._metrics.add("summaries_shared")
        try:
            return await self._write(after, request, counter)
        except CallFailed:
            # The same model would fail again.
            if reader is model:
                raise
        except (PromptTooLong, UnfitSummary):
            pass
        # It was only cheaper.
        self._metrics.add("summaries_not_shared")
        return await self._write(separate, request, counter)

    async def _write(self, prompt: Prompt, request: SegmentRequest, counter: TokenCounter) -> SegmentDraft:
        cap, layout = request.cap, request.layout
        spent = [0, 0]
        started = time.monotonic()
        ask_and_check = partial(self._ask_and_check, request, cap, counter, spent)
        verdict, reply, text = await ask_and_check(prompt)
        if verdict.repair is not None:
            self._metrics.add("summaries_repaired")
            again = repair_prompt(prompt, verdict.text, verdict.repair)
            second, repaired, text = await ask_and_check(again)
            verdict = better(verdict, second)
            # A repair is of the record: what was written about the facts the first time stands.
            reply = repaired if reply.lines is None else reply
        if not verdict.text:
            raise UnfitSummary(verdict.problem or "empty", text)
        if not verdict.fit:
            self._metrics.add("summaries_doubtful")

        def complete() -> str:
            count = counter.count_text
            if layout is not None:
                # Only the end of an unfinished text goes: each section is shortened by itself.
                is_cut = verdict.problem == CUT_OFF
                arranged = layout.arrange(verdict.fit_to(cap, count) if is_cut else verdict.text, counter)
                return name_missing(
                    arranged, request.names.to_name, cap=layout.tokens, count=count, fill=True
                )
            return name_missing(verdict.fit_to(cap, count), request.names.to_name, cap=cap, count=count)

        text = await run_or_offload(len(request.text) <= JUDGED_CHARACTERS, complete)
        self._metrics.note_duration(time.monotonic() - started)
        return SegmentDraft(
            text=text,
            tokens=counter.count_text(text),
            model=writer_name(self._model if prompt.context is None else self.settings.reader),
            coverage=covered_names(request.names.to_name, text),
            input_tokens=spent[0],
            output_tokens=spent[1],
            prompt_hash=prompt.rules_hash,
            source_hash=_hash(request.text),
            is_doubtful=not verdict.fit,
            fact_lines=reply.lines,
            has_unread_facts=reply.is_unread,
        )

    async def _ask_and_check(
        self,
        request: SegmentRequest,
        cap: int,
        counter: TokenCounter,
        spent: list[int],
        prompt: Prompt,
    ) -> CheckedReply:
        self._metrics.add("summarizer_calls")
        reply = await self._ask_model(prompt)
        read = counter.count_text("".join(message["content"] for message in prompt.messages))
        if prompt.context is not None:
            read += counter.count_messages(prompt.context.messages)
        used = (
            reply.usage.input_tokens or read,
            reply.usage.output_tokens or counter.count_text(reply.text),
        )
        for index, name in enumerate(("summarizer_input_tokens", "summarizer_output_tokens")):
            spent[index] += used[index]
            self._metrics.add(name, used[index])
        settings, holding = self.settings, [fact for fact in request.standing if fact.state == "holds"]
        schemas = (None, *READY_SCHEMAS.values())

        def check_reply() -> CheckedReply:
            # Thoughts may have a heading of facts, too.
            answer = strip_reply(reply.text)
            split = split_facts(answer)
            # One that repeats the prompt is checked whole.
            is_whole = split.record == answer or prompt.secret in answer
            # What the reply itself changes need not hold.
            changed = {line.target for line in split.lines or ()}
            standing = [fact for fact in holding if fact.id not in changed]
            verdict = check_summary(
                reply if is_whole else replace(reply, parts=(TextContent(split.record),)),
                source=request.text,
                source_tokens=request.tokens,
                cap=cap,
                count=counter.count_text,
                secret=prompt.secret,
                key_names=request.names.key,
                asked=prompt.messages[0]["content"],
                context=(*request.context, settings.instructions or "", *_headings(request.layout)),
                standing=[*(fact.text for fact in standing), *request.pinned],
                rules=[fact.text for fact in standing if fact.kind == "rule"],
                facts="\n".join(line.text for line in split.lines or ()),
                script_free=settings.instructions is not None or settings.schema not in schemas,
            )
            return CheckedReply(verdict, split, reply.text)

        compared = sum(map(len, (request.text, reply.text, *request.context, *(one.text for one in holding))))
        return await run_or_offload(compared <= JUDGED_CHARACTERS, check_reply)

    async def _ask_model(self, prompt: Prompt) -> ModelReply:
        """Call the model and report the result to the breaker, unless that belongs to another model."""
        settings = self.settings
        model = self._model if prompt.context is None else settings.reader
        own = model is self._model
        if own:
            self.breaker.record_attempt()
        try:
            reply = await complete_prompt(model, prompt, max_tokens=settings.size, timeout=settings.timeout)
        except PromptTooLong as error:
            if prompt.context is None:
                self._learn(error.window)
            raise
        except CallFailed as error:
            if own and error.reason == "not allowed":
                self.breaker.stop()
            if own:
                self.breaker.record_failure()
            raise
        if own:
            self.breaker.record_success()
        return reply

    @property
    def _window(self) -> int | None:
        known = context_window_of(self._model)
        windows = [one for one in (known, self._learned_window) if one is not None and one > 0]
        return min(windows) if windows else None

    def _learn(self, window: int | None) -> None:
        """Remember that the window is smaller than thought: as large as the error said, or half."""
        if window is None or self._batch_tokens_within(window) >= self.max_batch_tokens:
            window = (
                int(1.5 * COUNT_MARGIN * self.max_batch_tokens / 2)
                + self.settings.size
                + PROMPT_OVERHEAD_TOKENS
            )
        self._learned_window = window

    def _batch_tokens_within(self, window: int) -> int:
        # Half as much again goes to the background.
        room = (window - self.settings.size - PROMPT_OVERHEAD_TOKENS) / COUNT_MARGIN / 1.5
        return max(min(int(room), MAX_BATCH_TOKENS), MIN_BATCH_TOKENS)

    def _most_tokens(self, tokens: int) -> int:
        """The most tokens of a segment that stands for so many."""
        return min(self.settings.size // 4, max(tokens, 256) - 1)

    def _with_headings(self, target: int, counter: TokenCounter) -> int:
        """A target for a text without headings as one with those of the schema, if there is one."""
        schema = self.settings.schema
        if schema is None:
            return target
        headings = sum(heading_tokens(schema.sections, counter.count_text).values())
        return max(min(target + headings, self.settings.size // 4), 32)

    def _digest_target(self, tokens: int) -> int:
        # A digest costs nothing but room: it may have all that there is, as long as it is a digest.
        return max(min(self.settings.size // 4, max(MIN_SUMMARY_TOKENS, tokens * 3 // 4)), 32)

    def _digest_draft(self, text: str, source: str, counter: TokenCounter) -> SegmentDraft:
        return SegmentDraft(
            text=text,
            tokens=counter.count_text(text),
            model="digest",
            coverage=coverage(source, text),
            source_hash=_hash(source),
        )


def _digest_with_names(
    schema: SummarySchema, messages: Sequence[Message], *, tokens: int, counter: TokenCounter
) -> str:
    """A digest by a schema, and below it the key identifiers that it lacks, where there is room."""
    text = digest_record(messages, schema, tokens=tokens, counter=counter)
    names = rank_names(key_identifiers(messages), list(map(visible_text, messages)))
    return name_missing(text, names, cap=tokens, count=counter.count_text, fill=True)


def _names_of_messages(messages: Sequence[Message], schema: SummarySchema | None) -> SourceNames:
    """The key identifiers of messages; where a schema has room for all, the most telling are named first."""
    names = key_identifiers(messages)
    return SourceNames(
        names, names if schema is None else rank_names(names, list(map(visible_text, messages)))
    )


def _names_of_texts(texts: Sequence[str]) -> list[str]:
    """The key identifiers of segments, those first that are named most often and last."""
    return rank_names(key_names_of("\n\n".join(texts)), texts)


def _headings(layout: RecordLayout | None) -> list[str]:
    return [] if layout is None else [section.name for section in layout.sections]


def compile_patterns() -> None:
    """Compile the patterns that a prompt and its answer need, which the first summary would do."""
    sample, record = (
        'User: "Stop 1" is Lisbon at 2 pm, not Porto-7.',
        "- Stop 1 is Lisbon, not Porto. [x]\nFACTS\n+ value: 1\nnone",
    )
    batch_prompt(sample, (), cap=1, instructions=None)
    message = Message("user", sample)
    names = key_identifiers([message])
    text, lines, _ = split_facts(record)
    check_summary(
        ModelReply(parts=(TextContent(text),)),
        source=sample,
        source_tokens=len(sample),
        cap=len(sample),
        count=len,
        secret="",
        key_names=names,
        asked=sample,
        standing=[sample],
    )
    name_missing(text, names, cap=len(sample), count=len)
    changes_from_lines(lines or (), [Entry(1, message)], (), UTC)


async def run_or_offload(light: bool, work: Callable[[], T]) -> T:
    """Run a part of the work in the background: here when nothing is urgent, or in a thread."""
    if not light:
        return await run_in_thread(work)
    await wait_for_quiet()
    return work()


def _newest_within(texts: Sequence[str], tokens: int, counter: TokenCounter) -> list[str]:
    """As many of the newest texts as have so many tokens together, in order."""
    chosen: list[str] = []
    for text in reversed(texts):
        tokens -= counter.count_text(text)
        if tokens < 0:
            break
        chosen.append(text)
    return chosen[::-1]


def _last_lines(texts: Sequence[str], tokens: int, counter: TokenCounter) -> list[str]:
    """The end of the newest text, as many whole lines as have so many tokens together."""
    chosen: list[str] = []
    for line in reversed(without_names_line(texts[-1]).splitlines() if texts else ()):
        tokens -= counter.count_text(line + "\n")
        if tokens < 0:
            break
        chosen.append(line)
    return ["\n".join(reversed(chosen))] if chosen else []


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
