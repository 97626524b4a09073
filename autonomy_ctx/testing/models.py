"""Models for tests that cost nothing: `ScriptedModel` gives prepared answers, `HeldModel` answers when the
test says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

ScriptedAnswer = str | BaseException | Mapping[str, Any] | Callable[["ModelCall"], Any]


@dataclass(eq=False)
class ModelCall:
    """One request to a model. With a `HeldModel`, it waits until it is answered."""

    messages: Sequence[Mapping[str, Any]]
    options: Mapping[str, Any]
    _done: anyio.Event = field(default_factory=anyio.Event)
    _answer: Any = None

    @property
    def prompt(self) -> str:
        """The whole prompt as one text."""
        return "\n".join(str(message["content"]) for message in self.messages)

    def answer(self, reply: Any = "a short summary") -> None:
        """Let the call return this value, or raise it if it is an error."""
        self._answer = reply
        self._done.set()

    async def reply(self) -> Any:
        """Wait for the answer."""
        await self._done.wait()
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


class HeldModel:
    """A model that answers only when the test says so. So a test controls when background work ends."""

    name = "held"

    def __init__(self, *, context_window: int | None = None) -> None:
        self.context_window = context_window
        self.calls: list[ModelCall] = []
        self._arrived = anyio.Event()

    async def complete_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        call = ModelCall(messages, options)
        self.calls.append(call)
        self._arrived.set()
        self._arrived = anyio.Event()
        return await call.reply()

    async def wait_for_call(self, times: int = 1) -> ModelCall:
        """Wait until the model has been called `times` times, and return the last of these calls."""
        while len(self.calls) < times:
            await self._arrived.wait()
        return self.calls[times - 1]


class ScriptedModel:
    """A model that returns the given answers in order, and repeats the last one.

    An answer is a text, a reply in any supported format, an error to raise, or a function of the call.
    """

    name = "scripted"

    def __init__(
        self,
        answers: str | Iterable[ScriptedAnswer] = "a short summary",
        *,
        context_window: int | None = None,
    ) -> None:
        self.context_window = context_window
        self.calls: list[ModelCall] = []
        self._answers: list[ScriptedAnswer] = [answers] if isinstance(answers, str) else list(answers)
        if not self._answers:
            raise ValueError("a script needs at least one answer")

    async def complete_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> Any:
        call = ModelCall(messages, options)
        self.calls.append(call)
        answer = self._answers[min(len(self.calls), len(self._answers)) - 1]
        if callable(answer):
            answer = answer(call)
        if isinstance(answer, BaseException):
            raise answer
        await anyio.lowlevel.checkpoint()
        return answer
