"""Writes one segment: asks the model, judges the answer, asks once more when that can mend it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import TypeVar

import anyio.to_thread

from autonomy_ctx.compaction.asking import AskFailed, TooMuch, ask
from autonomy_ctx.compaction.breaker import Breaker
from autonomy_ctx.compaction.config import Settings, model_name
from autonomy_ctx.compaction.gate import Verdict, better, judge, trimmed
from autonomy_ctx.compaction.metrics import Metrics
from autonomy_ctx.compaction.prompt import Prompt, batch_prompt, merge_prompt, repair_prompt
from autonomy_ctx.compaction.sharing import Sent, cheaper, shared_merge_prompt, shared_prompt
from autonomy_ctx.items.digest import digest, digest_texts
from autonomy_ctx.items.formats.any_reply import Reply
from autonomy_ctx.items.identifiers import coverage, identifiers
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.items.transcript import transcript
from autonomy_ctx.memory.encoding import weight
from autonomy_ctx.memory.store import StoredSegment

# Tokens of messages for one call when the model's window is not known, and the least to try.
USUAL_BATCH, LEAST_BATCH = 12_000, 200
# What stands around the messages in a prompt, in tokens, and how much a count may be off.
PROMPT_TOKENS, MARGIN = 500, 1.15
# Source tokens for one token of summary, and the shortest summary to ask for.
DENSITY, SHORTEST = 3, 96


# Characters that are read in no time; more goes to a thread, so that the loop is not held.
LIGHT = 16_000
T = TypeVar("T")


class Unfit(Exception):
    """The answer, and its repair, were not fit to be kept; `reason` is a word for the metrics."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A text that may stand for its source, and what it cost."""

    text: str
    tokens: int
    model: str
    coverage: float
    input_tokens: int = 0
    output_tokens: int = 0
    prompt_hash: str = ""
    source_hash: str = ""


class SegmentWriter:
    """Turns messages, or older segments, into the text of one segment."""

    def __init__(self, settings: Settings, metrics: Metrics, breaker: Breaker) -> None:
        self._settings, self._metrics = settings, metrics
        self._model = settings.model
        self.breaker = breaker
        self._learned: int | None = None

    @property
    def most(self) -> int:
        """The most tokens of messages that one call may take."""
        window = self._window
        return USUAL_BATCH if window is None else self._most_within(window)

    @property
    def longest(self) -> int:
        """The most tokens of one message that are shown; the rest is cut out of its middle."""
        return max(self.most // 4, 64)

    async def batch(
        self,
        messages: Sequence[Message],
        background: Sequence[str],
        counter: TokenCounter,
        sent: Sent | None = None,
    ) -> Written:
        """A segment of these messages; earlier segments, newest last, are given as background.

        `sent` is a context that the provider has cached: if they stand in it, they need not be sent again.
        """
        light = sum(map(weight, messages)) <= LIGHT
        source = await _done(light, partial(transcript, messages, counter=counter, longest=self.longest))
        tokens = counter.count_messages(messages)
        target = self._target(tokens)
        if self._model is None:
            text = await _done(light, partial(digest, messages, tokens=target, counter=counter))
            return self._extracted(text, source, counter)
        known = _newest_within(background, tokens // 2, counter)
        prompt = batch_prompt(source, known, cap=target, instructions=self._settings.instructions)
        shared = None
        if sent is not None:
            instructions = self._settings.instructions
            shared = shared_prompt(sent, messages, cap=target, instructions=instructions)
        return await self._cheapest(shared, prompt, sent, target, source, tokens, counter)

    async def merge(
        self, segments: Sequence[StoredSegment], counter: TokenCounter, sent: Sent | None = None
    ) -> Written:
        """One segment in place of several."""
        texts = [segment.text for segment in segments]
        source = "\n\n".join(texts)
        tokens = counter.count_text(source)
        if self._model is None:
            return await self.extract(texts, counter)
        # Well under the length at which a literal answer would pass for an echo.
        target = min(self._settings.size // 4, max(SHORTEST, tokens // 2))
        instructions = self._settings.instructions
        prompt = merge_prompt(texts, cap=target, instructions=instructions)
        shared = None
        if sent is not None:
            shared = shared_merge_prompt(sent, segments, cap=target, instructions=instructions)
        return await self._cheapest(shared, prompt, sent, target, source, tokens, counter)

    async def extract(self, texts: Sequence[str], counter: TokenCounter) -> Written:
        """The same without a model: the lines that say most."""
        tokens = max(self._settings.size // 4, 32)
        text = await anyio.to_thread.run_sync(lambda: digest_texts(texts, tokens=tokens, counter=counter))
        return self._extracted(text, "\n\n".join(texts), counter)

    async def _cheapest(
        self,
        shared: Prompt | None,
        separate: Prompt,
        sent: Sent | None,
        target: int,
        source: str,
        tokens: int,
        counter: TokenCounter,
    ) -> Written:
        """Ask after a cached context where that is possible and costs less; otherwise the usual way."""
        reader, model = self._settings.reader, self._model
        if (
            shared is None
            or sent is None
            or not cheaper(sent, shared, separate, reader=reader, model=model, output=target, counter=counter)
        ):
            return await self._write(separate, source, tokens, counter)
        self._metrics.add("summaries_shared")
        try:
            return await self._write(shared, source, tokens, counter)
        except AskFailed:
            # The same model would only fail again.
            if reader is model:
                raise
        except (TooMuch, Unfit):
            pass
        # It was only cheaper.
        self._metrics.add("summaries_not_shared")
        return await self._write(separate, source, tokens, counter)

    async def _write(self, prompt: Prompt, source: str, tokens: int, counter: TokenCounter) -> Written:
        cap = min(self._settings.size // 4, max(tokens, 256) - 1)
        spent = [0, 0]
        started = time.monotonic()
        # Once for an answer and its repair.
        names = await _done(len(source) <= LIGHT, partial(identifiers, source))
        judged = partial(self._judged, source, names, tokens, cap, counter, spent)
        verdict = await judged(prompt)
        if verdict.repair is not None:
            self._metrics.add("summaries_repaired")
            again = repair_prompt(prompt, verdict.text, verdict.repair)
            verdict = better(verdict, await judged(again))
        text = verdict.text
        if not verdict.fit:
            if verdict.problem not in ("too long", "cut off") or not text:
                raise Unfit(verdict.problem or "unfit")
            text = trimmed(text, cap, counter.count_text)
        self._metrics.took(time.monotonic() - started)
        return Written(
            text=text,
            tokens=counter.count_text(text),
            model=model_name(self._model if prompt.context is None else self._settings.reader),
            coverage=verdict.coverage,
            input_tokens=spent[0],
            output_tokens=spent[1],
            prompt_hash=prompt.rules_hash,
            source_hash=_hash(source),
        )

    async def _judged(
        self,
        source: str,
        names: Sequence[str],
        tokens: int,
        cap: int,
        counter: TokenCounter,
        spent: list[int],
        prompt: Prompt,
    ) -> Verdict:
        self._metrics.add("summarizer_calls")
        reply = await self._asked(prompt)
        read = counter.count_text("".join(message["content"] for message in prompt.messages))
        if prompt.context is not None:
            read += counter.count_messages(prompt.context.messages)
        used = (
            read if reply.input_tokens is None else reply.input_tokens,
            counter.count_text(reply.text) if reply.output_tokens is None else reply.output_tokens,
        )
        for index, name in enumerate(("summarizer_input_tokens", "summarizer_output_tokens")):
            spent[index] += used[index]
            self._metrics.add(name, used[index])
        judged = partial(
            judge,
            reply,
            source=source,
            source_tokens=tokens,
            cap=cap,
            count=counter.count_text,
            secret=prompt.secret,
            names=names,
        )
        return await _done(len(source) + len(reply.text) <= LIGHT, judged)

    async def _asked(self, prompt: Prompt) -> Reply:
        """Ask, and let the breaker know what came of it, unless it is another model's."""
        settings = self._settings
        model = self._model if prompt.context is None else settings.reader
        own = model is self._model
        if own:
            self.breaker.trying()
        try:
            reply = await ask(model, prompt, max_tokens=settings.size, timeout=settings.timeout)
        except TooMuch as error:
            if prompt.context is None:
                self._learn(error.window)
            raise
        except AskFailed as error:
            if own and error.reason == "not allowed":
                self.breaker.stop()
            if own:
                self.breaker.failed()
            raise
        if own:
            self.breaker.succeeded()
        return reply

    @property
    def _window(self) -> int | None:
        known = getattr(self._model, "context_window", None)
        windows = [one for one in (known, self._learned) if type(one) is int and one > 0]
        return min(windows) if windows else None

    def _learn(self, window: int | None) -> None:
        """Remember that the window is smaller than thought: as large as the error said, or half."""
        if window is None or self._most_within(window) >= self.most:
            window = int(1.5 * MARGIN * self.most / 2) + self._settings.size + PROMPT_TOKENS
        self._learned = window

    def _most_within(self, window: int) -> int:
        # Half as much again goes to the background.
        room = (window - self._settings.size - PROMPT_TOKENS) / MARGIN / 1.5
        return max(min(int(room), USUAL_BATCH), LEAST_BATCH)

    def _target(self, tokens: int) -> int:
        return max(min(self._settings.size // 4, max(SHORTEST, tokens // DENSITY)), 32)

    def _extracted(self, text: str, source: str, counter: TokenCounter) -> Written:
        return Written(
            text=text,
            tokens=counter.count_text(text),
            model="digest",
            coverage=coverage(source, text),
            source_hash=_hash(source),
        )


async def _done(light: bool, work: Callable[[], T]) -> T:
    return work() if light else await anyio.to_thread.run_sync(work)


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
