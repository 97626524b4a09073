"""`ComposedContext`: the messages a model will see, a report of each section, and each message's origin."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeVar

from autonomy_ctx.formats.base import NO_THINKING, CacheMiss, RequestOptions, Usage, WireFormat
from autonomy_ctx.formats.model_table import MIN_CACHED_TOKENS, Price
from autonomy_ctx.formats.outgoing import summary_record
from autonomy_ctx.memory.store import MessageRef
from autonomy_ctx.messages.fact import STANDING_HEADING
from autonomy_ctx.messages.json_values import EMPTY
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.summary import Summary, visible_fields
from autonomy_ctx.models.model import tool_spec
from autonomy_ctx.sections.section import Omission, SectionKind
from autonomy_ctx.template.cache_order import choose_breakpoints
from autonomy_ctx.template.epoch import EndReason
from autonomy_ctx.template.epoch_row import EpochState
from autonomy_ctx.validation import check_int

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The messages and tokens that a limit removed from one section, and which limit it was."""

    section: str
    what: Literal["left out", "shortened"]
    messages: int
    tokens: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReport:
    """The budget of a context and its use; `used` is the tokens of the request.

    `limit` is the part for messages: `max_tokens` without the tools, the schema of the answer and the
    reserved output.
    """

    max_tokens: int
    reserve_output: int
    tools: int
    limit: int
    used: int
    output_schema: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The tokens of what is sent beside the messages: all tools, or the schema of the answer.

    `items` are the names of the tools, or of the schema.
    """

    name: Literal["tools", "output_schema"]
    items: tuple[str, ...]
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionReport:
    """The report of one section: its messages, their tokens, and its problems."""

    name: str
    kind: SectionKind
    status: Literal["included", "skipped", "failed"]
    reason: str | None
    start: int
    messages: int
    tokens: int
    milliseconds: float
    positions: tuple[int | None, ...]
    omitted: tuple[Omission, ...]
    cut: tuple[Cut, ...] = ()
    # Where its messages stand, if not all from `start` on: the first index and the number of each run.
    runs: tuple[tuple[int, int], ...] = ()
    # What the section says of how it was made, such as the limits of a summary that it chose and why.
    note: str | None = None
    # The messages of other conversations that it quotes.
    refs: tuple[MessageRef, ...] = ()

    @property
    def indexes(self) -> Sequence[int]:
        """The indexes of its messages in the context."""
        if not self.runs:
            return range(self.start, self.start + self.messages)
        return [index for first, count in self.runs for index in range(first, first + count)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where one message of a context came from."""

    section: str
    position: int | None
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedPrefix:
    """The prefix that two contexts have in common, which a provider's cache can reuse."""

    messages: int
    tokens: int
    share: float


class WindowBounds(NamedTuple):
    """The smallest and the largest number of messages in the window of a summarized history."""

    floor: int
    ceiling: int


class ComposedContext:
    """The messages for one turn of one conversation, section by section."""

    def __init__(
        self,
        *,
        scope: str,
        conversation: str,
        messages: Sequence[Message],
        counts: Sequence[int],
        sections: Sequence[SectionReport],
        calibration: float,
        previous: ComposedContext | None = None,
        budget: BudgetReport | None = None,
        shared: SharedPrefix | None = None,
        params: Mapping[str, Any] | None = None,
        state: EpochState | None = None,
    ) -> None:
        self.scope, self.conversation = scope, conversation
        # What the next context needs to go on from this one.
        self.state = EpochState() if state is None else state
        self._messages, self._counts = tuple(messages), tuple(counts)
        self.tokens = sum(self._counts)
        # The reports of the sections, in order.
        self.sections = tuple(sections)
        self.calibration = calibration
        self.budget = budget
        # What is sent beside the messages; None if that is not known, as in records of 0.2.
        self.definitions: tuple[Definitions, ...] | None = None
        # The bounds of the window in messages; None without a summarized history.
        self.bounds: WindowBounds | None = None
        # Of a context that was sent: the name of the model, which thinking of earlier replies went with it
        # and which did not, the tokens that the provider reported, and its reason why it did not read the
        # context from its cache.
        self.model: str | None = None
        self.thinking = NO_THINKING
        self.usage: Usage | None = None
        self.cache_miss: CacheMiss | None = None
        # A copy, and read-only: what the sections of this compose left there.
        self.params: Mapping[str, Any] = MappingProxyType(dict(params)) if params else EMPTY
        # The prefix shared with the previous context, if `compose` was given one.
        self.shared = shared if previous is None else self.shared_prefix(previous)

    @property
    def epoch(self) -> int:
        """The number of the epoch: a series of contexts with a shared prefix."""
        return self.state.number

    @property
    def end_reason(self) -> EndReason | None:
        """The reason why the epoch before has ended; None if this context goes on, or is the first."""
        return self.state.end_reason

    @property
    def messages(self) -> list[Message]:
        """The messages that the model will see, in order."""
        return list(self._messages)

    @property
    def counts(self) -> list[int]:
        """The tokens of each message."""
        return list(self._counts)

    @property
    def tool_tokens(self) -> int | None:
        """The tokens of the tools that are sent with the messages; None if they are not known."""
        if self.definitions is None:
            return None
        return sum(one.tokens for one in self.definitions if one.name == "tools")

    @property
    def request_tokens(self) -> int:
        """The tokens of the whole request: messages, and tools and the schema of the answer if known."""
        return self.tokens + sum(one.tokens for one in self.definitions or ())

    def parts(self) -> dict[str, int]:
        """The tokens of the request by section, and of `tools` and `output_schema`: the sum is all of it."""
        found: dict[str, int] = {}
        counted = [(one.name, one.tokens) for one in self.sections]
        for name, tokens in counted + [(one.name, one.tokens) for one in self.definitions or ()]:
            found[name] = found.get(name, 0) + tokens
        return found

    @property
    def milliseconds(self) -> float:
        """The time of all sections together."""
        return sum(report.milliseconds for report in self.sections)

    @property
    def omitted(self) -> list[Omission]:
        """Stored messages and facts that are not shown, by all sections."""
        return [omission for report in self.sections for omission in report.omitted]

    @property
    def facts(self) -> list[str]:
        """The facts that the context shows, one line each."""
        texts = [message.facts for message in self._messages if isinstance(message, Summary)]
        for message, position in zip(self._messages, self.positions(), strict=True):
            # Behind a summary that a provider wrote, they stand by themselves.
            is_own = position is None and not isinstance(message, Summary)
            if is_own and message.text.startswith(STANDING_HEADING):
                texts.append(message.text)
        return [line for text in texts for line in text.splitlines() if line and line != STANDING_HEADING]

    @property
    def cut(self) -> list[Cut]:
        """The cuts of a budget, in all sections."""
        return [cut for report in self.sections for cut in report.cut]

    def section(self, name: str) -> SectionReport | None:
        """The report of the first section with a name."""
        return next((section for section in self.sections if section.name == name), None)

    def section_tokens(self, name: str) -> int:
        """The tokens of all sections with this name."""
        return sum([report.tokens for report in self.sections if report.name == name])

    def origins(self) -> list[Origin]:
        """For each message: the section, the position in the log if it has one, and its tokens."""
        found: dict[int, Origin] = {}
        for section in self.sections:
            for index, position in zip(section.indexes, section.positions, strict=True):
                tokens = self._counts[index]
                found[index] = Origin(section=section.name, position=position, tokens=tokens)
        return [found[index] for index in range(len(self._messages))]

    def positions(self) -> list[int | None]:
        """For each message its position in the log, if it has one."""
        return self._spread([section.positions for section in self.sections], None)

    def _spread(self, values: Sequence[Sequence[T]], default: T) -> list[T]:
        """For each message the value that its section has for it."""
        found = [default] * len(self._messages)
        for section, own in zip(self.sections, values, strict=True):
            at = 0
            for first, count in section.runs or ((section.start, section.messages),):
                found[first : first + count] = own[at : at + count]
                at += count
        return found

    @property
    def refs(self) -> tuple[MessageRef, ...]:
        """The messages of other conversations that the sections quote, each once."""
        found: dict[MessageRef, None] = {}
        for report in self.sections:
            found |= dict.fromkeys(report.refs)
        return tuple(found)

    def shows_position(self, position: int) -> bool:
        """Tell whether a message of the log is shown, by its position."""
        return any(position in section.positions for section in self.sections)

    @property
    def breakpoints(self) -> tuple[int, ...]:
        """The cache breakpoints: at most 4 indexes of messages, in order."""
        kinds = self._spread([[one.kind] * one.messages for one in self.sections], "volatile")
        shared = 0 if self.shared is None else self.shared.messages
        goes_on = bool(self.state.composer or self.state.additions)
        return choose_breakpoints(self._messages, kinds, shared, goes_on=goes_on)

    @property
    def cache_key(self) -> str | None:
        """A name of the conversation for the provider's cache; None if its epochs are not stored."""
        return self.state.cache_key or None

    @property
    def long_cache(self) -> bool:
        """True if the longer life of the provider's cache costs less, by the pauses of the conversation."""
        return self.state.long_cache

    def estimated_cost(self, price: Price, *, output_tokens: int = 0) -> float:
        """The cost of sending it, in the currency of the price, if the shared prefix is cached."""
        if not isinstance(price, Price):
            raise TypeError(
                f"price is {type(price).__name__}; give a Price, such as price_of(model) if it knows one"
            )
        check_int("output_tokens", output_tokens, least=0)
        cached = 0 if self.shared is None else (self.tool_tokens or 0) + self.shared.tokens
        if cached < MIN_CACHED_TOKENS:
            cached = 0
        return price.cost(cached=cached, written=self.request_tokens - cached, output=output_tokens)

    def shared_prefix(self, previous: ComposedContext) -> SharedPrefix:
        """The prefix that this context shares with an earlier one."""
        messages, counts, older = self._messages, self._counts, previous._messages
        same = 0
        for message, before in zip(messages, older, strict=False):
            if message is not before and visible_fields(message) != visible_fields(before):
                break
            same += 1
        tokens = sum(counts[:same])
        if same < min(len(messages), len(older)):
            tokens += int(counts[same] * _shared_summary_fraction(messages[same], older[same]))
        return SharedPrefix(messages=same, tokens=tokens, share=tokens / self.tokens if self.tokens else 1.0)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The messages as plain dicts of chat completions, one for each; they belong to the caller."""
        from autonomy_ctx.formats.openai import openai_message

        shown = [summary_record(one) if isinstance(one, Summary) else one for one in self._messages]
        return [openai_message(message) for message in shown]

    def to_openai(self, *, tools: Sequence[Any] = (), model: str = "") -> dict[str, Any]:
        """Keyword arguments for OpenAI's `client.chat.completions.create`: `messages` and `tools`.

        Here and in the four methods below, `tools` are tools or their specs. `model` is a model's name, if
        the format depends on it; it is not in the result. What the provider would reject, such as a call
        without a result, is repaired.
        """
        return self._client_arguments("openai", model, self._asked(tools))

    def to_responses(self, *, tools: Sequence[Any] = (), model: str = "") -> dict[str, Any]:
        """Keyword arguments for OpenAI's `client.responses.create`: `input` and `tools`."""
        return self._client_arguments("responses", model, self._asked(tools))

    def to_anthropic(
        self, *, tools: Sequence[Any] = (), model: str = "", caching: bool = False
    ) -> dict[str, Any]:
        """Keyword arguments for Anthropic's `client.messages.create`: `messages`, `system` and `tools`.

        With `caching`, the `breakpoints` are marked for the provider's cache.
        """
        return self._client_arguments("anthropic", model, self._asked(tools, caching))

    def to_google(self, *, tools: Sequence[Any] = (), model: str = "") -> dict[str, Any]:
        """Keyword arguments for Google's `client.models.generate_content`: `contents` and `config`."""
        return self._client_arguments("google", model, self._asked(tools))

    def to_bedrock(
        self, *, tools: Sequence[Any] = (), model: str = "", caching: bool = False
    ) -> dict[str, Any]:
        """Keyword arguments for Amazon's `client.converse`: `messages`, `system` and `toolConfig`."""
        return self._client_arguments("bedrock", model, self._asked(tools, caching))

    def _client_arguments(self, wire_format: WireFormat, model: str, asked: RequestOptions) -> dict[str, Any]:
        from autonomy_ctx.formats.sdk import client_arguments

        return client_arguments(wire_format, self._messages, asked, model=model)

    def _asked(self, tools: Sequence[Any], caching: bool = False) -> RequestOptions:
        specs = [tool_spec(tool) for tool in tools]
        return RequestOptions(tools=specs, breakpoints=self.breakpoints if caching else ())

    def digest(self) -> str:
        """A hash of everything the model will see: equal hashes mean equal bytes."""
        shown = json.dumps([visible_fields(message) for message in self._messages], ensure_ascii=True)
        return hashlib.sha256(shown.encode()).hexdigest()

    def __len__(self) -> int:
        return len(self._messages)

    def __repr__(self) -> str:
        return f"ComposedContext({len(self._messages)} messages, {self.tokens} tokens)"


def without_params(composed: ComposedContext) -> ComposedContext:
    """A context without what users put into `params`, to be kept for longer than a turn."""
    if not composed.params:
        return composed
    bare = copy.copy(composed)
    bare.params = EMPTY
    return bare


def trace_attributes(composed: ComposedContext) -> dict[str, int | float | str]:
    """The attributes of a context in a trace: size, epoch, what is shared and what each section costs."""
    found: dict[str, int | float | str] = {
        "autonomy_ctx.context.messages": len(composed),
        "autonomy_ctx.context.tokens": composed.tokens,
        "autonomy_ctx.context.epoch": composed.epoch,
    }
    if composed.end_reason is not None:
        found["autonomy_ctx.context.end_reason"] = composed.end_reason.value
    if composed.budget is not None:
        found["autonomy_ctx.context.max_tokens"] = composed.budget.max_tokens
    if composed.shared is not None:
        found["autonomy_ctx.context.shared_tokens"] = composed.shared.tokens
        found["autonomy_ctx.context.shared_share"] = round(composed.shared.share, 4)
    for section in composed.sections:
        found[f"autonomy_ctx.section.{section.name}.tokens"] = composed.section_tokens(section.name)
        if section.status != "included":
            found[f"autonomy_ctx.section.{section.name}.status"] = section.status
    return found


def _shared_summary_fraction(message: Message, before: Message) -> float:
    """Which part of a summary begins as an older one does: a new segment leaves the others as they were."""
    if not isinstance(message, Summary) or not isinstance(before, Summary):
        return 0.0
    texts, older = message.texts, before.texts
    same = next((at for at, (one, other) in enumerate(zip(texts, older, strict=False)) if one != other), None)
    same = min(len(texts), len(older)) if same is None else same
    return sum(map(len, texts[:same])) / max(sum(map(len, texts)), 1)
