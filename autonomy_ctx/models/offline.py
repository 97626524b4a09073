"""A model that needs no network and answers only from the context it is given.

It quotes the passages that fit the question best, calls a tool that fits it, notes a statement, or writes a
digest when a summary is asked for. The same context gives the same answer, so it suits demos and tests.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import anyio.lowlevel
import anyio.to_thread

from autonomy_ctx._lazy import lazy_pattern
from autonomy_ctx.formats.base import CallStarted, ModelReply, ReplyFinished, StreamEvent, TextDelta, Usage
from autonomy_ctx.formats.output_schema import INSTRUCTION, sample_value
from autonomy_ctx.language.digest import digest, digest_texts
from autonomy_ctx.language.stemmer import normalized_words
from autonomy_ctx.language.tables import stop_words
from autonomy_ctx.messages.clamp import clamp_text, shorten
from autonomy_ctx.messages.cuts import newest_user_index
from autonomy_ctx.messages.message import ChatRole, Message, TextContent, ToolCall
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.tokens import TokenCounter
from autonomy_ctx.messages.transcript import (
    BACKGROUND_LABEL,
    CONVERSATION_LABEL,
    SEGMENT_LABEL,
    speaker_label,
    tool_names_by_call,
    visible_text,
)
from autonomy_ctx.messages.wire import from_dicts
from autonomy_ctx.models.offline_tools import STOPS, asks, choose_tool

NO_ANSWER = "Nothing in the context that I was given says anything about that."
NO_QUESTION = "There is no message of a user in the context that I was given."
ANSWER_HEADING = "The context says:"
NOTED_REPLY = "Noted."
MAX_PASSAGES, MIN_RELEVANCE = 5, 0.5
PASSAGE_CHARACTERS = 400  # characters
MAX_PASSAGE_TOKENS = 120  # tokens
RECORD_TOKENS = 512
# A record that repeats more than this part of a long source is no record.
RECORD_SHARE = 0.45
MIN_RECORD_TOKENS = 90
# Characters from which ranking is left to a thread.
INLINE_CHARACTERS = 100_000

_LABEL_AND_SECRET = rf"({CONVERSATION_LABEL}|{SEGMENT_LABEL}|{BACKGROUND_LABEL}) ([0-9a-f]{{16}})"
_BLOCK_START = lazy_pattern(rf"<{_LABEL_AND_SECRET}>\n")
_BLOCK_END = lazy_pattern(rf"\n</{_LABEL_AND_SECRET}>")
_TOKEN_CAP = lazy_pattern(r"\bat most (\d{1,7}) tokens", re.IGNORECASE)
_RECORD_REQUEST = lazy_pattern(
    r"\bsummari[sz]e\b|\b(?:write|make|give|create)\b[^.?!\n]{0,40}\b(?:record|summary|digest)\b",
    re.IGNORECASE,
)
_DAY = lazy_pattern(r"\[\d{1,2} [A-Z][a-z]{2,8} \d{4}\]")
_SPEAKER = lazy_pattern(
    r"(User|Assistant|Tool|System|Developer)\b([^:\n(]{0,80}(?:\([^)\n]{0,80}\))?)(:| calls )"
)
_SENTENCE = lazy_pattern(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")  # noqa: RUF001


@dataclass(frozen=True, slots=True)
class RankedText:
    """A text by its index, and how much it says about the question; never 0."""

    index: int
    score: float


@dataclass(frozen=True, slots=True)
class _Passage:
    who: str
    text: str


def rank(
    query: str | Iterable[str], texts: Sequence[str], *, k1: float = 1.2, b: float = 0.75
) -> list[RankedText]:
    """The texts that share a word with the query, best first; of equals the earlier first.

    `query` is a text, or words as `normalized_words` gives them.
    """
    asked = dict.fromkeys(normalized_words(query) if isinstance(query, str) else query)
    counts = [Counter(normalized_words(text)) for text in texts]
    lengths = [count.total() for count in counts]
    usual = sum(lengths) / len(lengths) if any(lengths) else 1.0
    scores = [0.0] * len(texts)
    for word in asked:
        holders = [index for index, count in enumerate(counts) if word in count]
        # Never negative: a word that most texts have says little, but not the opposite.
        weight = math.log(1 + (len(texts) - len(holders) + 0.5) / (len(holders) + 0.5))
        for index in holders:
            often = counts[index][word]
            room = k1 * (1 - b + b * lengths[index] / usual)
            scores[index] += weight * often * (k1 + 1) / (often + room)
    found = [RankedText(index, score) for index, score in enumerate(scores) if score > 0]
    return sorted(found, key=lambda one: (-one.score, one.index))


class OfflineModel:
    """Answers from the given context: a summary if the prompt asks for one, otherwise the best passages.

    A tool that the newest message names is called once, if its arguments are in the message. A statement is
    answered with "Noted.". Asked for a structured answer, it gives a small one that fits the schema.
    """

    name = "offline"
    context_window: int | None = None

    def __init__(self, *, counter: TokenCounter | None = None) -> None:
        self._counter = counter or TokenCounter()

    async def reply(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
    ) -> ModelReply:
        """The whole answer."""
        read = from_dicts(messages)
        await anyio.lowlevel.checkpoint()
        if sum(len(message.text) for message in read) < INLINE_CHARACTERS:
            return self._reply(read, tools, max_tokens)
        return await anyio.to_thread.run_sync(lambda: self._reply(read, tools, max_tokens))

    async def complete_chat(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        stream: bool = False,
        max_tokens: int | None = None,
        **options: Any,
    ) -> ModelReply | ReplyStream:
        """The answer, or its events; options mean nothing here."""
        reply = await self.reply(messages, tools or (), max_tokens)
        return ReplyStream(reply) if stream else reply

    def _reply(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]], max_tokens: int | None
    ) -> ModelReply:
        sent = self._counter.count_messages(messages) + self._counter.count_tools(tools)
        call = self._choose_call(messages, tools)
        if call is not None:
            usage = Usage(input_tokens=sent, output_tokens=self._counter.count_text(call.arguments))
            return ModelReply(tool_calls=(call,), stop="tools", usage=usage, model=self.name)
        text = self._answer(messages)
        stop = "end"
        if max_tokens is not None and self._counter.count_text(text) > max_tokens:
            text, stop = clamp_text(text, max_tokens, self._counter.count_text), "length"
        return ModelReply(
            parts=(TextContent(text),),
            stop=stop,
            usage=Usage(input_tokens=sent, output_tokens=self._counter.count_text(text)),
            model=self.name,
        )

    def _answer(self, messages: Sequence[Message]) -> str:
        asked = newest_user_index(messages)
        if asked is None:
            return NO_QUESTION
        for one in messages[asked + 1 :]:
            if one.role is ChatRole.SYSTEM and one.text.startswith(INSTRUCTION):
                return json.dumps(sample_value(json.loads(one.text.removeprefix(INSTRUCTION))))
        record = self._record(messages, asked)
        if record is not None:
            return record
        results = [one for one in messages[asked + 1 :] if one.role is ChatRole.TOOL]
        if results:
            return self._quote_results(messages, results)
        said = _own_text(messages[asked])
        if not asks(said) and said.rstrip().endswith(STOPS):
            return NOTED_REPLY
        found = self._passages(messages, asked)
        return NOTED_REPLY if found == NO_ANSWER and not asks(said) else found

    def _choose_call(
        self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> ToolCall | None:
        """The call of a tool that fits the newest message of the user, at most once in a turn."""
        asked = newest_user_index(messages)
        if not tools or asked is None or _asks_for_record(messages[asked].text):
            return None
        if any(one.role in (ChatRole.ASSISTANT, ChatRole.TOOL) for one in messages[asked + 1 :]):
            return None
        choice = choose_tool(_own_text(messages[asked]), tools)
        if choice is None:
            return None
        # The same for the same message.
        name = hashlib.sha256(messages[asked].id.encode("utf-8", "replace")).hexdigest()[:16]
        return ToolCall(f"call-{name}", choice.name, choice.arguments)

    def _quote_results(self, messages: Sequence[Message], results: Sequence[Message]) -> str:
        names = tool_names_by_call(messages)
        lines = [f"- {speaker_label(one, names)}: {' '.join(visible_text(one).split())}" for one in results]
        count = self._counter.count_text
        return "\n".join([ANSWER_HEADING, *(shorten(line, MAX_PASSAGE_TOKENS, count) for line in lines)])

    # -- records ----------------------------------------------------------------------------------

    def _record(self, messages: Sequence[Message], asked: int) -> str | None:
        """The summary, if the newest user message asks for one; else None."""
        request = messages[asked].text
        if not _asks_for_record(messages[asked].text):
            return None
        own_words = _without_blocks(request, _find_blocks(request))
        said = [message.text for message in messages if message.role is ChatRole.USER]
        blocks = [found for text in said for found in _find_blocks(text)]
        rules = "\n".join(message.text for message in messages if message.role is ChatRole.SYSTEM)
        caps = _TOKEN_CAP.findall(own_words) or _TOKEN_CAP.findall(rules)
        cap = int(caps[-1]) if caps else RECORD_TOKENS
        kept = [block.inside for block in blocks if block.label == SEGMENT_LABEL]
        if "carry over" in rules:
            kept += [block.inside for block in blocks if block.label == BACKGROUND_LABEL]
        spoken = [
            message
            for block in blocks
            if block.label == CONVERSATION_LABEL
            for message in _parse_transcript(block.inside)
        ]
        if not blocks:
            spoken = [one for one in messages[:asked] if one.role is not ChatRole.SYSTEM]
        return self._render_record(kept, spoken, cap)

    def _render_record(self, kept: Sequence[str], spoken: Sequence[Message], cap: int) -> str:
        count = self._counter.count_text
        source = count("\n\n".join([*kept, *(visible_text(message) for message in spoken)]))
        cap = max(min(cap, max(int(source * RECORD_SHARE), MIN_RECORD_TOKENS)), 1)
        texts = []
        if kept:
            texts.append(digest_texts(kept, tokens=cap // 2 if spoken else cap, counter=self._counter))
        if spoken:
            texts.append(digest(spoken, tokens=cap - sum(map(count, texts)), counter=self._counter))
        return "\n".join(filter(None, texts)) or NO_ANSWER

    # -- answers ----------------------------------------------------------------------------------

    def _passages(self, messages: Sequence[Message], asked: int) -> str:
        question, given = _split_question(messages[asked].text)
        names = tool_names_by_call(messages)
        passages = [_Passage("User", text) for text in given]
        for at, message in enumerate(messages):
            if at != asked:
                shown = visible_text(message)
                # In the form of a provider, a summary is a record in a user message.
                is_summary = isinstance(message, Summary) or shown.startswith("<summary ")
                who = "Summary" if is_summary else speaker_label(message, names)
                passages += [_Passage(who, text) for text in _split_passages(shown)]
        # The same question asked before is no answer to it, nor is what was quoted from this context before.
        texts = {question, *(f"- {one.who}: {one.text}" for one in passages)}
        passages = [one for one in dict.fromkeys(passages) if one.text not in texts]
        query = normalized_words(question)
        telling = [word for word in query if word not in stop_words()]
        ranked = rank(telling, [one.text for one in passages])
        best = [one for one in ranked if one.score >= MIN_RELEVANCE * ranked[0].score][:MAX_PASSAGES]
        if not best:
            return NO_ANSWER
        count = self._counter.count_text
        lines = [f"- {passages[one.index].who}: {passages[one.index].text}" for one in best]
        return "\n".join([ANSWER_HEADING, *(shorten(line, MAX_PASSAGE_TOKENS, count) for line in lines)])


class ReplyStream(AsyncIterator[StreamEvent]):
    """A reply that is already there, as a stream."""

    def __init__(self, reply: ModelReply) -> None:
        lines = reply.text.splitlines(keepends=True)
        calls = [CallStarted(call.id, call.name) for call in reversed(reply.tool_calls)]
        self._events: list[StreamEvent] = [ReplyFinished(reply), *calls, *map(TextDelta, reversed(lines))]

    async def __anext__(self) -> StreamEvent:
        await anyio.lowlevel.checkpoint()
        if not self._events:
            raise StopAsyncIteration
        return self._events.pop()

    async def aclose(self) -> None:
        """Give no more events."""
        self._events.clear()

    async def __aenter__(self) -> ReplyStream:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()


class PromptBlock(NamedTuple):
    """A block of a prompt: its label, where it stands, and the text inside."""

    label: str
    start: int
    end: int
    inside: str


def _find_blocks(text: str) -> list[PromptBlock]:
    """The blocks of a text that are closed, each up to the first end with its own secret.

    Not one pattern for both: it would read to the end of the text again for every start without an end.
    """
    ends: dict[tuple[str, str], deque[re.Match[str]]] = {}
    for end in _BLOCK_END.finditer(text):
        ends.setdefault((end[1], end[2]), deque()).append(end)
    found: list[PromptBlock] = []
    for start in _BLOCK_START.finditer(text):
        own = ends.get((start[1], start[2]), deque())
        while own and own[0].start() < start.end():
            own.popleft()
        if own and not (found and start.start() < found[-1].end):
            inside = text[start.end() : own[0].start()]
            found.append(PromptBlock(start[1], start.start(), own[0].end(), inside))
    return found


def _asks_for_record(text: str) -> bool:
    """Tell whether a message asks for a summary: in words, or by the blocks of a prompt."""
    return bool(_find_blocks(text)) or _RECORD_REQUEST.search(text) is not None


def _without_blocks(text: str, blocks: Sequence[PromptBlock]) -> str:
    starts = [0, *(block.end for block in blocks)]
    ends = [*(block.start for block in blocks), len(text)]
    return "".join(text[start:end] for start, end in zip(starts, ends, strict=True))


def _own_text(message: Message) -> str:
    """The newest words of the user in a message, without those that sections have put behind them."""
    texts = [part.text for part in message.parts if isinstance(part, TextContent) and part.text.strip()]
    own = [text for text in texts[1:] if not text.startswith(("[", "<"))]
    return _split_question((texts[:1] + own)[-1])[0] if texts else ""


def _split_question(text: str) -> tuple[str, list[str]]:
    """The question, and the other text of the same message: its earlier paragraphs, if it is long."""
    text = text.strip()
    paragraphs = [one.strip() for one in re.split(r"\n\s*\n", text) if one.strip()]
    if len(text) <= PASSAGE_CHARACTERS or len(paragraphs) < 2:
        return text, []
    return paragraphs[-1], [piece for one in paragraphs[:-1] for piece in _split_passages(one)]


def _split_passages(text: str) -> list[str]:
    """A text in passages: sentences, and pieces of those that do not end."""
    pieces: list[str] = []
    for sentence in _SENTENCE.split(text):
        line = " ".join(sentence.split())
        pieces += [line[at : at + PASSAGE_CHARACTERS] for at in range(0, len(line), PASSAGE_CHARACTERS)]
    return pieces


def _parse_transcript(transcript: str) -> list[Message]:
    """The messages in a transcript; lines without a speaker belong to the message before."""
    found: list[tuple[str, str, list[str]]] = []
    for line in transcript.splitlines():
        if _DAY.fullmatch(line):
            continue
        start = _SPEAKER.match(line)
        if start is not None:
            said = line[start.end() :] if start[3] == ":" else line[start.end(2) :]
            found.append((start[1].lower(), start[2].strip(), [said.strip()]))
        elif found:
            found[-1][2].append(line.strip())
        elif line.strip():
            found.append(("user", "", [line.strip()]))
    return [_make_message(role, name, "\n".join(lines)) for role, name, lines in found]


def _make_message(role: str, name: str, text: str) -> Message:
    if role != "tool":
        agent = name.strip("()") if role == "assistant" and name else None
        return Message(role, text, agent=agent)
    failed = name == "failed" or name.endswith(" failed")
    return Message("tool", text, name=name.removesuffix("failed").strip() or None, is_error=failed)
