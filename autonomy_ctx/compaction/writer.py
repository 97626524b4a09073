"""`SegmentWriter`: writes the text of a segment with a model and checks it, or makes a digest.

Prompts are made, and replies are read, in a thread.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import NamedTuple

from autonomy_ctx.background import run_in_thread
from autonomy_ctx.compaction.calls import BatchCall, CachedRequest, CircuitBreaker, cheaper_prompt
from autonomy_ctx.compaction.checks import CUT_OFF, Verdict, better, check_summary
from autonomy_ctx.compaction.config import CompactionSettings, ContextSummaryConfig, writer_name
from autonomy_ctx.compaction.facts import listed_facts
from autonomy_ctx.compaction.key_names import key_identifiers, rank_names
from autonomy_ctx.compaction.metrics import SummaryMetrics
from autonomy_ctx.compaction.plan import MAX_BATCH_TOKENS, MESSAGE_PART, MIN_SUMMARY_TOKENS, segment_target
from autonomy_ctx.compaction.prompt import (
    FACT_RULES,
    batch_prompt,
    cached_batch_prompt,
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
from autonomy_ctx.formats.base import ModelReply
from autonomy_ctx.formats.model_info import context_window_of
from autonomy_ctx.language.digest import digest_texts
from autonomy_ctx.language.identifiers import coverage
from autonomy_ctx.language.name_index import key_names_of
from autonomy_ctx.memory.store import StoredSegment
from autonomy_ctx.messages.fact import Fact, SplitReply, split_facts
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
# Of a rejected answer, how many characters are shown to whoever looks for the reason.
BEGINNING_CHARACTERS = 80
# At the end of the hash of its prompt, a segment has this if it was kept though it is poor.
DOUBTFUL_MARK = "?"


class UnfitSummary(Exception):
    """The answer of the model, and its repair, were rejected; `reason` is a word for the metrics.

    `text` is how the answer began; it is never part of the message.
    """

    def __init__(self, reason: str, text: str = "") -> None:
        super().__init__(reason)
        self.reason, self.text = reason, text.strip()[:BEGINNING_CHARACTERS]


class SegmentDraft(NamedTuple):
    """The segment of a batch, with positions of 0 for now, and what the model said of the facts."""

    segment: StoredSegment
    # Whether it was kept though it is poor.
    is_doubtful: bool = False
    facts: SplitReply = SplitReply("")
    # The ids of the facts that the model was shown.
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
    """A reply of the model: the verdict, what it says of the facts, its text as it came, and its tokens."""

    verdict: Verdict
    facts: SplitReply
    text: str
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, kw_only=True)
class SegmentRequest:
    """The request for a segment: its prompt, its source, and what else the model is shown."""

    prompt: Prompt
    counter: TokenCounter
    source: str
    tokens: int
    # The most tokens of a reply.
    cap: int
    # The identifiers that the reply should have, and those to name where there is room, the first first.
    key_names: Sequence[str]
    to_name: Sequence[str]
    context: Sequence[str] = ()
    standing: Sequence[Fact] = ()
    listed: frozenset[str] = frozenset()
    pinned: Sequence[str] = ()
    layout: RecordLayout | None = None
    # The same prompt after a cached request, where that costs less.
    after: Prompt | None = None


class SegmentWriter:
    """Turns messages, or older segments, into the text of one segment."""

    def __init__(
        self,
        settings: CompactionSettings,
        metrics: SummaryMetrics,
        breaker: CircuitBreaker,
        batch: BatchCall | None = None,
    ) -> None:
        self.settings, self._metrics, self._batch = settings, metrics, batch
        self._model = settings.config.model
        self.breaker = breaker
        self._learned_window: int | None = None

    @property
    def max_batch_tokens(self) -> int:
        """The most tokens of messages that one call may take."""
        known = (context_window_of(self._model), self._learned_window)
        windows = [one for one in known if one is not None and one > 0]
        return self._batch_tokens_within(min(windows)) if windows else MAX_BATCH_TOKENS

    @property
    def max_message_tokens(self) -> int:
        """The most tokens of one message that are shown; the rest is cut out of its middle."""
        return max(self.max_batch_tokens // MESSAGE_PART, 64)

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
        if self._model is None:
            return await run_in_thread(lambda: self._digest_batch(messages, counter))
        request = await run_in_thread(
            lambda: self._plan_batch(messages, background, counter, cached, standing, pinned)
        )
        return await self._write_cheapest(request)

    async def write_merge(self, segments: Sequence[StoredSegment], counter: TokenCounter) -> StoredSegment:
        """Merge several segments into one with the model.

        With a schema the model writes only the sections to rewrite, and is not called if there are none.
        """
        planned = await run_in_thread(lambda: self._plan_merge(segments, counter))
        if isinstance(planned, StoredSegment):
            return planned
        return (await self._write(planned.prompt, planned)).segment

    async def extract(
        self, texts: Sequence[str], tokens: int, counter: TokenCounter, outdated: Sequence[str] = ()
    ) -> StoredSegment:
        """Merge texts without a model, keeping the lines that say most and no facts that no longer hold."""
        schema = self.settings.config.schema

        def merge() -> StoredSegment:
            if schema is not None:
                return _join_sections(
                    SectionMerge.of(texts, schema), texts, tokens, counter, outdated, quoted=True
                )
            text = digest_texts(texts, tokens=tokens, counter=counter, outdated=outdated)
            return _digest_segment(text, "\n\n".join(texts), counter)

        return await run_in_thread(merge)

    def _transcript(self, messages: Sequence[Message], counter: TokenCounter) -> str:
        return transcript(
            messages, counter=counter, max_message_tokens=self.max_message_tokens, zone=self.settings.zone
        )

    def _digest_batch(self, messages: Sequence[Message], counter: TokenCounter) -> SegmentDraft:
        schema, tokens = self.settings.config.schema, counter.count_messages(messages)
        # A digest costs nothing but room: it may have all that there is, as long as it is a digest.
        most = max(min(self.settings.size // 4, max(MIN_SUMMARY_TOKENS, tokens * 3 // 4)), 32)
        target = self._with_headings(most, counter)
        text = digest_record(messages, schema, tokens=target, counter=counter)
        if schema is not None:
            names = _rank_names_of(key_identifiers(messages), messages)
            text = name_missing(text, names, cap=target, count=counter.count_text, fill=True)
        return SegmentDraft(_digest_segment(text, self._transcript(messages, counter), counter))

    def _plan_batch(
        self,
        messages: Sequence[Message],
        background: Sequence[str],
        counter: TokenCounter,
        cached: CachedRequest | None,
        standing: Sequence[Fact],
        pinned: Sequence[str],
    ) -> SegmentRequest:
        source, tokens = self._transcript(messages, counter), counter.count_messages(messages)
        config = self.settings.config
        target = self._with_headings(segment_target(tokens, self.settings.size), counter)
        left, facts = tokens // 2, None
        if config.facts:
            facts = listed_facts(standing, source, tokens // LISTED_PART, counter)
            left -= counter.count_text("\n".join([FACT_RULES, *facts]))
        schema, layout, most = config.schema, None, self._most_tokens(tokens)
        if schema is None:
            # The end of the newest record.
            lines = without_names_line(background[-1]).splitlines(keepends=True) if background else []
            most_known = max(tokens // BACKGROUND_PART, MIN_BACKGROUND_TOKENS)
            known = [*filter(None, ["".join(_newest_within(lines, most_known, counter)).rstrip()])]
        else:
            layout = RecordLayout(schema, schema.sections, most)
            known = _newest_within(background, max(left, tokens // 8), counter)
            if len(known) < len(background):
                # What is replaced must be known to whoever writes what takes its place.
                known = [*filter(None, [standing_text(background, schema)]), *known]
        cap, instructions = int(target * ASKED_SHARE), config.instructions
        prompt = batch_prompt(source, known, cap=cap, instructions=instructions, facts=facts, schema=schema)
        names = key_identifiers(messages)
        after = None
        if cached is not None:
            told = cached_batch_prompt(
                cached, messages, cap=cap, instructions=instructions, facts=facts, schema=schema
            )
            models = self.settings.reader, self._model
            after = cheaper_prompt(cached, told, prompt, *models, output=target, counter=counter)
        return SegmentRequest(
            prompt=prompt,
            after=after,
            counter=counter,
            source=source,
            tokens=tokens,
            cap=most,
            key_names=names,
            # Where a schema has room for all, the most telling are named first.
            to_name=names if schema is None else _rank_names_of(names, messages),
            context=(*known, *(facts or ())),
            standing=standing,
            listed=frozenset(line.partition(" ")[0] for line in facts or ()),
            pinned=pinned,
            layout=layout,
        )

    def _plan_merge(
        self, segments: Sequence[StoredSegment], counter: TokenCounter
    ) -> SegmentRequest | StoredSegment:
        texts, count = [segment.text for segment in segments], counter.count_text
        config, most = self.settings.config, self.settings.size // 4
        schema, instructions = config.schema, config.instructions
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
                return _join_sections(merge, texts, whole_target, counter)
            records, sections = merge.rewritten_texts(), schema.only("rewrite")
            most = merge.room(whole_target, count)
            layout = RecordLayout(schema, sections, whole_target, merge)
        source, whole = "\n\n".join(records), "\n\n".join(texts)
        tokens = count(source)
        # Well under the length at which a literal answer would pass for an echo.
        target = min(most, max(MIN_SUMMARY_TOKENS, tokens // 2))
        cap = int(target * ASKED_SHARE)
        prompt = merge_prompt(records, cap=cap, instructions=instructions, schema=schema, sections=sections)
        return SegmentRequest(
            prompt=prompt,
            counter=counter,
            source=source,
            tokens=tokens,
            cap=self._most_tokens(count(whole)) if schema is None else target,
            key_names=key_names_of(source),
            to_name=key_names_of(whole) if schema is None else _names_of_texts(texts),
            context=texts,
            layout=layout,
        )

    async def _write_cheapest(self, request: SegmentRequest) -> SegmentDraft:
        """Ask after a cached request where that costs less; otherwise, or if that fails, the usual way."""
        if self._batch is not None and not self._batch.is_read:
            return await self._write(request.prompt, request, self._batch)
        if request.after is None:
            return await self._write(request.prompt, request)
        self._metrics.add("summaries_shared")
        try:
            return await self._write(request.after, request)
        except CallFailed:
            # The same model would fail again.
            if self.settings.reader is self._model:
                raise
        except (PromptTooLong, UnfitSummary):
            pass
        # It was only cheaper.
        self._metrics.add("summaries_not_shared")
        return await self._write(request.prompt, request)

    async def _write(
        self, prompt: Prompt, request: SegmentRequest, batch: BatchCall | None = None
    ) -> SegmentDraft:
        started = time.monotonic()
        attempts = [await self._attempt(prompt, request, batch)]
        verdict, facts = attempts[0].verdict, attempts[0].facts
        if verdict.repair is not None:
            self._metrics.add("summaries_repaired")
            again = repair_prompt(prompt, verdict.text, verdict.repair)
            attempts.append(await self._attempt(again, request))
            verdict = better(verdict, attempts[1].verdict)
            # A repair is of the record: what was written about the facts the first time stands.
            facts = attempts[1].facts if facts.lines is None else facts
        if not verdict.text:
            raise UnfitSummary(verdict.problem or "empty", attempts[-1].text)
        if not verdict.fit:
            self._metrics.add("summaries_doubtful")
        draft = await run_in_thread(lambda: self._make_draft(prompt, request, verdict, facts, attempts))
        self._metrics.note_duration(time.monotonic() - started)
        return draft

    def _make_draft(
        self,
        prompt: Prompt,
        request: SegmentRequest,
        verdict: Verdict,
        facts: SplitReply,
        attempts: Sequence[CheckedReply],
    ) -> SegmentDraft:
        """The text of a verdict within its tokens, by sections if it has some, with missing names."""
        counter, layout, names, cap = request.counter, request.layout, request.to_name, request.cap
        count = counter.count_text
        text = verdict.fit_to(cap, count)
        if layout is not None:
            # Only the end of an unfinished text goes: each section is shortened by itself.
            text = layout.arrange(text if verdict.problem == CUT_OFF else verdict.text, counter)
            cap = layout.tokens
        text = name_missing(text, names, cap=cap, count=count, fill=layout is not None)
        segment = StoredSegment(
            first=0,
            last=0,
            text=text,
            tokens=count(text),
            model=writer_name(self._model if prompt.context is None else self.settings.reader),
            input_tokens=sum(one.input_tokens for one in attempts),
            output_tokens=sum(one.output_tokens for one in attempts),
            prompt_hash=prompt.rules_hash + DOUBTFUL_MARK * (not verdict.fit),
            source_hash=_hash(request.source),
            coverage=covered_names(names, text),
        )
        return SegmentDraft(segment, not verdict.fit, facts, request.listed)

    async def _attempt(
        self, prompt: Prompt, request: SegmentRequest, batch: BatchCall | None = None
    ) -> CheckedReply:
        """Call the model and check its reply."""
        # A batch is asked for many times.
        reply = None if batch is None else await batch.complete(prompt, max_tokens=self.settings.size)
        self._metrics.add("summarizer_calls")
        reply = reply or await self._ask_model(prompt)
        attempt = await run_in_thread(lambda: _check_reply(reply, prompt, request, self.settings.config))
        self._metrics.add("summarizer_input_tokens", attempt.input_tokens)
        self._metrics.add("summarizer_output_tokens", attempt.output_tokens)
        return attempt

    async def _ask_model(self, prompt: Prompt) -> ModelReply:
        """Call the model and report the result to the breaker, unless that belongs to another model."""
        settings = self.settings
        model = self._model if prompt.context is None else settings.reader
        own = model is self._model
        if own:
            self.breaker.record_attempt()
        try:
            reply = await complete_prompt(
                model, prompt, max_tokens=settings.size, timeout=settings.config.timeout
            )
        except PromptTooLong as error:
            if prompt.context is None:
                # As large as the error said, or half: it is smaller than thought.
                window, known = error.window, self.max_batch_tokens
                if window is None or self._batch_tokens_within(window) >= known:
                    window = int(1.5 * COUNT_MARGIN * known / 2) + settings.size + PROMPT_OVERHEAD_TOKENS
                self._learned_window = window
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

    def _batch_tokens_within(self, window: int) -> int:
        # Half as much again goes to the background.
        room = (window - self.settings.size - PROMPT_OVERHEAD_TOKENS) / COUNT_MARGIN / 1.5
        return max(min(int(room), MAX_BATCH_TOKENS), MIN_BATCH_TOKENS)

    def _most_tokens(self, tokens: int) -> int:
        """The most tokens of a segment that stands for so many."""
        return min(self.settings.size // 4, max(tokens, 256) - 1)

    def _with_headings(self, target: int, counter: TokenCounter) -> int:
        """A target for a text without headings as one with those of the schema, if there is one."""
        schema = self.settings.config.schema
        if schema is None:
            return target
        headings = sum(heading_tokens(schema.sections, counter.count_text).values())
        return max(min(target + headings, self.settings.size // 4), 32)


def _check_reply(
    reply: ModelReply, prompt: Prompt, request: SegmentRequest, config: ContextSummaryConfig
) -> CheckedReply:
    """The verdict on the record of a reply; what it says of the facts must not be denied there."""
    count = request.counter.count_text
    # Thoughts may have a heading of facts, too.
    answer = strip_reply(reply.text)
    split = split_facts(answer)
    lines = split.lines or ()
    # One that repeats the prompt is checked whole.
    is_whole = split.record == answer or prompt.secret in answer
    # What the reply itself changes need not hold.
    changed = {line.target for line in lines}
    standing = [fact for fact in request.standing if fact.state == "holds" and fact.id not in changed]
    headings = [] if request.layout is None else [section.name for section in request.layout.sections]
    verdict = check_summary(
        reply if is_whole else replace(reply, parts=(TextContent(split.record),)),
        source=request.source,
        source_tokens=request.tokens,
        cap=request.cap,
        count=count,
        secret=prompt.secret,
        key_names=request.key_names,
        asked=prompt.messages[0]["content"],
        context=(*request.context, config.instructions or "", *headings),
        standing=[*(fact.text for fact in standing), *request.pinned],
        rules=[fact.text for fact in standing if fact.kind == "rule"],
        facts="\n".join(line.text for line in lines),
        script_free=config.instructions is not None or config.schema not in (None, *READY_SCHEMAS.values()),
    )
    read, written = reply.usage.input_tokens, reply.usage.output_tokens
    if not read:
        read = count("".join(message["content"] for message in prompt.messages))
        read += request.counter.count_messages(prompt.context.messages) if prompt.context is not None else 0
    return CheckedReply(verdict, split, reply.text, read, written or count(reply.text))


def _join_sections(
    merge: SectionMerge,
    texts: Sequence[str],
    tokens: int,
    counter: TokenCounter,
    outdated: Sequence[str] = (),
    *,
    quoted: bool = False,
) -> StoredSegment:
    """The sections of several texts without a model, and the identifiers that have no room there."""
    text = fit_record(merge.bodies, merge.schema, tokens, counter, quoted=quoted, outdated=outdated)
    text = name_missing(text, _names_of_texts(texts), cap=tokens, count=counter.count_text, fill=True)
    return _digest_segment(text, "\n\n".join(texts), counter)


def _digest_segment(text: str, source: str, counter: TokenCounter) -> StoredSegment:
    return StoredSegment(
        first=0,
        last=0,
        text=text,
        tokens=counter.count_text(text),
        model="digest",
        source_hash=_hash(source),
        coverage=coverage(source, text),
    )


def _rank_names_of(names: Sequence[str], messages: Sequence[Message]) -> list[str]:
    return rank_names(names, list(map(visible_text, messages)))


def _names_of_texts(texts: Sequence[str]) -> list[str]:
    """The key identifiers of segments, those first that are named most often and last."""
    return rank_names(key_names_of("\n\n".join(texts)), texts)


def _newest_within(texts: Sequence[str], tokens: int, counter: TokenCounter) -> list[str]:
    """As many of the newest texts as have so many tokens together, in order."""
    chosen: list[str] = []
    for text in reversed(texts):
        tokens -= counter.count_text(text)
        if tokens < 0:
            break
        chosen.append(text)
    return chosen[::-1]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
