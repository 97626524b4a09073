"""What a runtime writes down while agents and tools run, so that `main` tells only what came to an end.

A run works in a context of its own. Only when it has succeeded does `main` get what it was asked, what
its tools did and what it answered, in one step: there is no moment, and no kill, that leaves a part.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio

from autonomy_ctx.containers.calling import called, called_in_time, check_callable, name_of
from autonomy_ctx.containers.kept import KeptContexts
from autonomy_ctx.containers.readable import (
    error_text,
    json_text,
    prompt_text,
    result_text,
    said_text,
    written,
)
from autonomy_ctx.items import wire
from autonomy_ctx.items.json_values import EMPTY
from autonomy_ctx.items.message import ChatRole, Message, ToolCall, new_id

logger = logging.getLogger("autonomy_ctx.containers")
MAIN, ATTEMPT, INTERMEDIATE = "main", "attempt", "intermediate"
CANCELLED = "Cancelled"

Prompt: TypeAlias = str | Message | Iterable[Message | Mapping[str, Any]]


@dataclass(eq=False, slots=True)
class Attempt:
    """One try of a run: the context it writes to, and what is kept if it is the one that counts."""

    run: Run
    context: str
    messages: list[Message]
    state: Literal["running", "kept", "failed"] = "running"
    result: Any = None
    answer: str = ""


@dataclass(eq=False, slots=True)
class Run:
    """One call of an agent: what it is asked, where it was called from, where its model calls are noted."""

    recorder: Recorder
    agent: Callable[..., Any]
    values: Mapping[str, Any]
    asked: Message
    outer: Attempt | None
    noted_in: str | None = None

    async def attempted(self, retries: int) -> Attempt:
        """The first attempt that succeeds, or the error of the last one."""
        while True:
            attempt = Attempt(self, self.recorder.new_context(ATTEMPT), [self.asked])
            self.recorder.kept.add({attempt.context: [self.asked]})
            try:
                await self._try(attempt)
            except Exception:
                if not retries:
                    raise
                retries -= 1
            else:
                return attempt

    async def raced(self, candidates: int, retries: int) -> Attempt:
        """The first success of several that run side by side, or the error of the last one."""
        won: list[Attempt] = []
        lost: list[BaseException] = []
        stopped: list[BaseException] = []

        async def work() -> None:
            try:
                won.append(await self.attempted(retries))
            except Exception as error:
                lost.append(error)
                return
            except (KeyboardInterrupt, SystemExit) as error:
                stopped.append(error)
            group.cancel_scope.cancel()

        # Kept by the caller, not here: until the others have ended, the run may still be cancelled.
        kept = False
        try:
            async with anyio.create_task_group() as group:
                for _ in range(candidates):
                    group.start_soon(work)
            if stopped or not won:
                raise (stopped or lost)[-1]
            kept = True
            return won[0]
        finally:
            for attempt in won[kept:]:
                self._fail(attempt, CANCELLED)

    def keep(self, attempt: Attempt) -> None:
        """Put what an attempt recorded where the run was called from, all of it or nothing."""
        answer = Message(ChatRole.ASSISTANT, attempt.answer)
        place = self.recorder.around(self.outer)
        try:
            self.recorder.add(place, [*attempt.messages, answer], {attempt.context: [answer]})
        except BaseException:
            attempt.state = "failed"
            raise
        attempt.state = "kept"

    def note(self, prompt: str, answer: str) -> None:
        """Write down what a model was asked and what it answered."""
        if self.noted_in is None:
            self.noted_in = self.recorder.new_context(INTERMEDIATE)
        told = [Message(ChatRole.USER, prompt), Message(ChatRole.ASSISTANT, answer)]
        self.recorder.kept.add({self.noted_in: told})

    async def _try(self, attempt: Attempt) -> None:
        _running.set(attempt)
        try:
            with self.recorder.current():
                attempt.result = await called(self.agent, self.values)
            attempt.answer = await written(result_text, attempt.result)
        except GeneratorExit:
            # Nobody waits any more, and it may be anywhere: no time to write to files.
            attempt.state = "failed"
            raise
        except BaseException as error:
            cancelled = isinstance(error, anyio.get_cancelled_exc_class())
            self._fail(attempt, CANCELLED if cancelled else error_text(error))
            raise
        finally:
            if _running.get() is attempt:
                _running.set(self.outer)

    def _fail(self, attempt: Attempt, why: str) -> None:
        attempt.state = "failed"
        told = Message(ChatRole.ASSISTANT, why, is_error=True)
        with _unless_it_fails(f"that {attempt.context} failed"):
            self.recorder.kept.add({attempt.context: [told]})


class Recorder:
    """Runs agents and tools for one runtime, and writes down what came of it."""

    def __init__(
        self,
        kept: KeptContexts,
        *,
        new_context: Callable[[str], str],
        current: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.kept, self.new_context, self.current = kept, new_context, current

    async def run(
        self, agent: Callable[..., Any], values: Mapping[str, Any], *, candidates: int, retries: int
    ) -> Any:
        """Call an agent; what it was asked and answered is recorded if it succeeds."""
        check_callable(agent, "agent")
        asked = Message(ChatRole.USER, await written(json_text, values))
        run = Run(self, agent, values, asked, _running.get())
        attempt = await (run.raced(candidates, retries) if candidates > 1 else run.attempted(retries))
        # Nothing is awaited from here on: whoever is cancelled has kept nothing.
        run.keep(attempt)
        return attempt.result

    async def execute(self, tool: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Call a tool; the call and its result, or its error, are recorded together."""
        check_callable(tool, "tool")
        place = self.around(_running.get())
        if getattr(tool, "is_model_call", False):
            return await self._asked(tool, values, place)
        # Written before the tool runs: it may change what it is given.
        call = ToolCall(new_id(), name_of(tool), await written(json_text, values))
        asked = Message(ChatRole.ASSISTANT, "", tool_calls=[call])
        try:
            with self.current():
                result = await called_in_time(tool, values)
        except Exception as error:
            with _unless_it_fails(f"that {call.name} failed"):
                self.add(place, [asked, _answered(call, error_text(error), is_error=True)])
            raise
        answer = await written(result_text, result)
        self.add(place, [asked, _answered(call, answer)])
        return result

    def add(
        self,
        place: Attempt | None,
        messages: Sequence[Message],
        also: Mapping[str, Sequence[Message]] = EMPTY,
    ) -> None:
        """Add messages to an attempt, or to `main`, and others to other contexts, in one step.

        What comes late, from a task that outlives its attempt, follows the way the attempt took.
        """
        additions, waiting = dict(also), None
        while place is not None:
            additions[place.context] = messages
            if place.state != "kept":
                waiting = place
                break
            place = self.around(place.run.outer)
        else:
            additions[MAIN] = messages
        self.kept.add(additions)
        if waiting is not None:
            waiting.messages.extend(messages)

    def around(self, attempt: Attempt | None) -> Attempt | None:
        """The innermost attempt of this runtime among one and those it was called from."""
        while attempt is not None and attempt.run.recorder is not self:
            attempt = attempt.run.outer
        return attempt

    async def _asked(self, tool: Callable[..., Any], values: Mapping[str, Any], place: Attempt | None) -> Any:
        """Call a tool that asks a model; inside a run it is noted, unless it has noted that itself."""
        prompt = await written(prompt_text, values)
        noted = _Noted()
        before = _noted.get()
        _noted.set(noted)
        try:
            with self.current():
                result = await called_in_time(tool, values)
        finally:
            if _noted.get() is noted:
                _noted.set(before)
        if place is not None and not noted.any:
            place.run.note(prompt, await written(said_text, result))
        return result


@dataclass(slots=True)
class _Noted:
    """Whether a model call was noted since somebody began to look."""

    any: bool = False


_running: ContextVar[Attempt | None] = ContextVar("autonomy_ctx_running", default=None)
_noted: ContextVar[_Noted | None] = ContextVar("autonomy_ctx_noted", default=None)


def record_model_call(prompt: Prompt, answer: str) -> None:
    """Note what a model was asked, as text or messages, and what it answered.

    Inside a run it goes to the run's `intermediate_...` context, of messages only the newest of the
    user. Elsewhere nothing happens.
    """
    attempt = _running.get()
    if attempt is None:
        return
    attempt.run.note(_newest_prompt(prompt), answer)
    noted = _noted.get()
    if noted is not None:
        noted.any = True


def _newest_prompt(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt
    if isinstance(prompt, Message):
        return prompt.text
    newest = None
    for given in reversed(prompt if isinstance(prompt, Sequence) else list(prompt)):
        message = wire.from_dict(given)
        if message.role is ChatRole.USER:
            return message.text
        newest = newest or message
    return newest.text if newest else ""


def _answered(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    return Message(ChatRole.TOOL, text, tool_call_id=call.id, name=call.name, is_error=is_error)


@contextmanager
def _unless_it_fails(what: str) -> Iterator[None]:
    """Write down an error; if that fails, too, the first error is the one to see."""
    try:
        yield
    except Exception:
        logger.warning("could not record %s", what, exc_info=True)
