"""Token counts for texts, messages and tools.

The built-in estimate (`token_estimate`) needs no vocabulary and no download. `Calibration` corrects it with
the counts that providers report; `ExactTextCounter` uses the tokenizer of a model where one is installed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from autonomy_ctx.errors import InvalidMessage
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.message import Message, TextContent, ThinkingContent
from autonomy_ctx.messages.summary import Summary
from autonomy_ctx.messages.token_estimate import (
    DIGITS_APART,
    SCRIPT_COSTS,
    VOCABULARY_BY_MODEL,
    estimate_tokens,
)

MIN_REPORT_WEIGHT = 0.2
MIN_FACTOR_CHANGE = 0.05
MIN_FACTOR, MAX_FACTOR = 0.25, 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationStep:
    """The factor in use from a report on."""

    factor: float
    reports: int


class Calibration:
    """The factor between counted and reported tokens, and all its changes."""

    def __init__(self) -> None:
        self.steps: list[CalibrationStep] = [CalibrationStep(factor=1.0, reports=0)]
        self._average = 1.0
        self._reports = 0

    @property
    def factor(self) -> float:
        """The factor in use."""
        return self.steps[-1].factor

    @property
    def reports(self) -> int:
        """The number of reports so far."""
        return self._reports

    def scale(self, tokens: int) -> int:
        """A count, corrected by the factor."""
        factor = self.steps[-1].factor
        return tokens if factor == 1.0 else math.ceil(tokens * factor)

    def assume(self, factor: float) -> None:
        """Begin with the factor of a model that is known; the first report takes its place."""
        if not self._reports:
            self._average = min(max(factor, MIN_FACTOR), MAX_FACTOR)
            self.steps = [CalibrationStep(factor=self._average, reports=0)]

    def observe(self, counted: int, reported: int) -> bool:
        """Learn from one report. Returns true if the factor changed. Reports without tokens are ignored."""
        if counted <= 0 or reported <= 0:
            return False
        ratio = min(max(reported / counted, MIN_FACTOR), MAX_FACTOR)
        self._reports += 1
        weight = max(MIN_REPORT_WEIGHT, 1 / self._reports)
        self._average += weight * (ratio - self._average)
        if abs(self._average / self.factor - 1) <= MIN_FACTOR_CHANGE:
            return False
        self.steps.append(CalibrationStep(factor=round(self._average, 3), reports=self._reports))
        return True

    def to_dict(self) -> dict[str, Any]:
        """The state as JSON, to keep it across a restart."""
        return {
            "average": self._average,
            "reports": self._reports,
            "steps": [asdict(step) for step in self.steps],
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Calibration:
        """A calibration from the result of `to_dict`."""
        calibration = cls()
        try:
            calibration._average = float(value["average"])
            calibration._reports = int(value["reports"])
            calibration.steps = [
                CalibrationStep(factor=float(step["factor"]), reports=int(step["reports"]))
                for step in value["steps"]
            ]
        except (KeyError, TypeError, ValueError) as problem:
            raise InvalidMessage(
                "calibration", f"is not what Calibration.to_dict returned ({problem!r})"
            ) from None
        if not calibration.steps or not all(
            MIN_FACTOR <= step.factor <= MAX_FACTOR for step in calibration.steps
        ):
            raise InvalidMessage(
                "calibration.steps", f"must have factors between {MIN_FACTOR} and {MAX_FACTOR}"
            )
        return calibration


# What the chat formats put around every message, every call and every tool.
PER_MESSAGE = 4
PER_CALL = 5
PER_TOOL = 8
PER_IMAGE = 300


class TextCounter(Protocol):
    """Counts the tokens of a text; two counters with the same name count the same."""

    name: str

    def count(self, text: str) -> int: ...


class EstimatedTextCounter:
    """The built-in estimate: no download, no dependency.

    With `digits_apart` every digit counts as a token, as in the vocabularies of Qwen, Gemma and Mistral.
    `vocabulary` names one whose scripts cost something else than in `o200k_base`.
    `EstimatedTextCounter.for_model("qwen3-32b")` chooses both by the name of a model.
    """

    def __init__(self, *, digits_apart: bool = False, vocabulary: str = "") -> None:
        self.digits_apart = digits_apart
        self.vocabulary = vocabulary if vocabulary in SCRIPT_COSTS else ""
        self.name = "-".join(
            filter(None, ("estimate-3", "digits-apart" if digits_apart else "", self.vocabulary))
        )

    @classmethod
    def for_model(cls, model: str) -> EstimatedTextCounter:
        """The estimate for a model, chosen by its name if the name is known."""
        bare = _bare_model_name(model)
        return cls(digits_apart=bare.startswith(DIGITS_APART), vocabulary=_vocabulary_of(bare))

    def count(self, text: str) -> int:
        return estimate_tokens(text, digits_apart=self.digits_apart, vocabulary=self.vocabulary)


class TokenCounter:
    """Counts messages and tools, by the built-in estimate or any other `TextCounter`."""

    def __init__(
        self, text_counter: TextCounter | None = None, *, calibration: Calibration | None = None
    ) -> None:
        self.text_counter: TextCounter = text_counter or EstimatedTextCounter()
        self.calibration = calibration or Calibration()

    @property
    def name(self) -> str:
        """The name of the way of counting, without the calibration."""
        return self.text_counter.name

    def count_text(self, text: str) -> int:
        """The tokens of a text."""
        return self.calibration.scale(self.text_counter.count(text))

    def count_messages(self, messages: Iterable[Message | Mapping[str, Any]]) -> int:
        """The tokens of messages, given as `Message`s or dicts."""
        raw = sum(map(self.count_uncalibrated, wire.from_dicts(messages)))
        return self.calibration.scale(raw)

    def count_tools(self, tools: Sequence[Mapping[str, Any]]) -> int:
        """The tokens of tool descriptions, which a model reads on every turn."""
        return self.calibration.scale(self.count_definitions(tools))

    def observe(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        reported: int,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Learn from the input tokens that a provider reported. Returns true if the calibration changed."""
        counted = sum(map(self.count_uncalibrated, wire.from_dicts(messages)))
        return self.calibration.observe(counted + self.count_definitions(tools), reported)

    def count_uncalibrated(self, message: Message) -> int:
        """The count before calibration, which is stored with each message."""
        origin = message._origin
        if origin.counter == self.text_counter.name:
            return origin.tokens
        return count_message(message, self.text_counter.count)

    def count_definitions(self, definitions: Sequence[Mapping[str, Any]]) -> int:
        """The count before calibration of what is sent as JSON: tools, or the schema of an answer."""
        texts = (json.dumps(one, ensure_ascii=False, default=str) for one in definitions)
        return sum(PER_TOOL + self.text_counter.count(text) for text in texts)


def count_message(message: Message, count: Callable[[str], int]) -> int:
    """The tokens of a message whose texts are counted by `count`."""
    total = PER_MESSAGE
    content = message.content
    if type(content) is str:
        total += count(content)
    elif type(content) is TextContent:
        total += count(content.text)
    else:
        for part in message.parts:
            if isinstance(part, TextContent):
                total += count(part.text)
            elif isinstance(part, ThinkingContent):
                total += count(part.redacted or part.text)
            else:
                total += PER_IMAGE
    for call in message.tool_calls:
        total += PER_CALL + count(call.name) + count(call.arguments)
    if message.name:
        total += count(message.name)
    if isinstance(message, Summary) and message.block is not None:
        # Ours has about as many tokens as one that cannot be read.
        summary, others = message.block.readable_texts
        total = max(total, PER_MESSAGE + count(summary)) + count(others)
    return total


def count_each(counter: TokenCounter, messages: Iterable[Message]) -> list[int]:
    """The uncalibrated count of each message."""
    return [counter.count_uncalibrated(message) for message in messages]


def _bare_model_name(model: str) -> str:
    """The name of a model without that of its provider."""
    return model.rsplit("/", 1)[-1].lower()


def _vocabulary_of(bare: str) -> str:
    """The vocabulary of a model, by its name; the name itself if none is known."""
    return next((name for prefix, name in VOCABULARY_BY_MODEL.items() if bare.startswith(prefix)), bare)


def token_counter_of(memory: Any) -> TokenCounter | None:
    """The counter of a memory; None for one that has none."""
    counter: TokenCounter | None = getattr(memory, "token_counter", None)
    return counter


class ExactTextCounter:
    """Counts with the tokenizer of a model (`gpt-4o`, `qwen3-32b`) or of a vocabulary (`o200k_base`)."""

    def __init__(self, model: str) -> None:
        try:
            from splintr import Tokenizer
        except ImportError:
            raise ImportError(
                "exact token counts need the extra: pip install 'autonomy-ctx[tokens]'"
            ) from None
        vocabulary = _vocabulary_of(_bare_model_name(model))
        try:
            self._tokenizer: Any = Tokenizer.from_pretrained(vocabulary)
        except ValueError as problem:
            raise ValueError(
                f"no bundled vocabulary fits {model!r}; use the estimate instead, which learns from the "
                f"counts that the provider reports ({problem})"
            ) from None
        self.name = f"splintr:{vocabulary}"

    def count(self, text: str) -> int:
        # Ordinary: a special token spelled out in a user's text is text.
        return len(self._tokenizer.encode_ordinary(text.encode("utf-8", "replace").decode()))
