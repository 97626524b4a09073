"""The records of a runtime about agents, tools and model calls: runs, attempts, and values as text.

A record must never be the reason why a call fails. So the functions that turn values into text do not
raise: what JSON cannot hold is replaced by a few words that say what it was.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread

from autonomy_ctx.callables import (
    call_with_arguments,
    call_with_timeout,
    callable_name,
    check_callable,
    describe_error,
)
from autonomy_ctx.messages import wire
from autonomy_ctx.messages.json_values import EMPTY, Binary, JsonEncoder
from autonomy_ctx.messages.message import ChatRole, Message, ToolCall, new_id

logger = logging.getLogger("autonomy_ctx.containers")

MAIN, ATTEMPT, INTERMEDIATE = "main", "attempt", "intermediate"
CANCELLED_TEXT = "Cancelled"

Prompt: TypeAlias = str | Message | Iterable[Message | Mapping[str, Any]]
# Longer values are written out in a worker thread.
_SMALL_TEXT, _FEW_VALUES = 50_000, 50
_ERROR_LIMIT = 4_000
_current_attempt: ContextVar[Attempt | None] = ContextVar("autonomy_ctx_running", default=None)
_model_call_flag: ContextVar[_ModelCallFlag | None] = ContextVar("autonomy_ctx_noted", default=None)


@dataclass(slots=True)
class _ModelCallFlag:
    """Tell whether a model call was noted since the flag was set up."""

    noted: bool = False


def record_model_call(prompt: Prompt, answer: str) -> None:
    """Record the prompt of a model, as text or messages, and its answer.

    Inside a run, they go to the run's `intermediate_...` context; of the messages only the newest user
    message. Outside a run, nothing happens.
    """
    attempt = _current_attempt.get()
    if attempt is None:
        return
    attempt.run.note_model_call(_newest_prompt(prompt), answer)
    flag = _model_call_flag.get()
    if flag is not None:
        flag.noted = True


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


@dataclass(eq=False, slots=True)
class Attempt:
    """One try of a run: the context it writes to, and what `main` gets if it is the one that counts."""

    run: Run
    context: str
    messages: list[Message]
    state: Literal["running", "committed", "failed"] = "running"
    result: Any = None
    answer: str = ""


@dataclass(eq=False, slots=True)
class Run:
    """One call of an agent: its input, its caller, and the context that records its model calls."""

    recorder: Recorder
    agent: Callable[..., Any]
    values: Mapping[str, Any]
    question: Message
    outer: Attempt | None
    notes_context: str | None = None

    async def try_until_success(self, retries: int) -> Attempt:
        """The first attempt that succeeds, or the error of the last one."""
        while True:
            attempt = Attempt(self, self.recorder.new_context(ATTEMPT), [self.question])
            self.recorder.write({attempt.context: [self.question]})
            try:
                await self._try(attempt)
            except Exception:
                if not retries:
                    raise
                retries -= 1
            else:
                return attempt

    async def race(self, candidates: int, retries: int) -> Attempt:
        """The first success of several that run side by side, or the error of the last one."""
        won: list[Attempt] = []
        lost: list[BaseException] = []
        stopped: list[BaseException] = []

        async def work() -> None:
            try:
                won.append(await self.try_until_success(retries))
            except Exception as error:
                lost.append(error)
                return
            except (KeyboardInterrupt, SystemExit) as error:
                stopped.append(error)
            group.cancel_scope.cancel()

        # Committed by the caller, not here: until the others have ended, the run may still be cancelled.
        returned = False
        try:
            async with anyio.create_task_group() as group:
                for _ in range(candidates):
                    group.start_soon(work)
            if stopped or not won:
                raise (stopped or lost)[-1]
            returned = True
            return won[0]
        finally:
            for attempt in won[returned:]:
                self._fail(attempt, CANCELLED_TEXT)

    def commit(self, attempt: Attempt) -> None:
        """Put what an attempt recorded where the run was called from, all of it or nothing."""
        answer = Message(ChatRole.ASSISTANT, attempt.answer)
        enclosing = self.recorder.enclosing_attempt(self.outer)
        try:
            self.recorder.add(enclosing, [*attempt.messages, answer], {attempt.context: [answer]})
        except BaseException:
            attempt.state = "failed"
            raise
        attempt.state = "committed"

    def note_model_call(self, prompt: str, answer: str) -> None:
        """Record what a model was asked and what it answered."""
        if self.notes_context is None:
            self.notes_context = self.recorder.new_context(INTERMEDIATE)
        messages = [Message(ChatRole.USER, prompt), Message(ChatRole.ASSISTANT, answer)]
        self.recorder.write({self.notes_context: messages})

    async def _try(self, attempt: Attempt) -> None:
        _current_attempt.set(attempt)
        try:
            with self.recorder.as_current():
                attempt.result = await call_with_arguments(self.agent, self.values)
            attempt.answer = await render_value(result_text, attempt.result)
        except GeneratorExit:
            # The caller no longer waits, and this may run at any place, so nothing is written to files.
            attempt.state = "failed"
            raise
        except BaseException as error:
            cancelled = isinstance(error, anyio.get_cancelled_exc_class())
            self._fail(attempt, CANCELLED_TEXT if cancelled else error_text(error))
            raise
        finally:
            if _current_attempt.get() is attempt:
                _current_attempt.set(self.outer)

    def _fail(self, attempt: Attempt, why: str) -> None:
        attempt.state = "failed"
        message = Message(ChatRole.ASSISTANT, why, is_error=True)
        with _log_failure(f"that {attempt.context} failed"):
            self.recorder.write({attempt.context: [message]})


class Recorder:
    """Runs agents and tools for one runtime, and records their results."""

    def __init__(
        self,
        write: Callable[[Mapping[str, Sequence[Message]]], None],
        *,
        new_context: Callable[[str], str],
        as_current: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.write, self.new_context, self.as_current = write, new_context, as_current

    async def run(
        self, agent: Callable[..., Any], values: Mapping[str, Any], *, candidates: int, retries: int
    ) -> Any:
        """Call an agent; what it was asked and answered is recorded if it succeeds."""
        check_callable(agent, "agent")
        question = Message(ChatRole.USER, await render_value(record_text, values))
        run = Run(self, agent, values, question, _current_attempt.get())
        attempt = await (run.race(candidates, retries) if candidates > 1 else run.try_until_success(retries))
        # There is no await from here on, so a cancelled run has recorded nothing.
        run.commit(attempt)
        return attempt.result

    async def execute(self, tool: Callable[..., Any], values: Mapping[str, Any]) -> Any:
        """Call a tool; the call and its result, or its error, are recorded together."""
        check_callable(tool, "tool")
        enclosing = self.enclosing_attempt(_current_attempt.get())
        if getattr(tool, "is_model_call", False):
            return await self._execute_model_call(tool, values, enclosing)
        # Written before the tool runs: it may change what it is given.
        call = ToolCall(new_id(), callable_name(tool), await render_value(record_text, values))
        request = Message(ChatRole.ASSISTANT, "", tool_calls=[call])
        try:
            with self.as_current():
                result = await call_with_timeout(tool, values)
        except Exception as error:
            with _log_failure(f"that {call.name} failed"):
                self.add(enclosing, [request, _result_message(call, error_text(error), is_error=True)])
            raise
        answer = await render_value(result_text, result)
        self.add(enclosing, [request, _result_message(call, answer)])
        return result

    def add(
        self,
        attempt: Attempt | None,
        messages: Sequence[Message],
        also: Mapping[str, Sequence[Message]] = EMPTY,
    ) -> None:
        """Add messages to an attempt, or to `main`, and others to other contexts, in one step.

        What comes late, from a task that outlives its attempt, follows the way the attempt took.
        """
        additions, waiting = dict(also), None
        while attempt is not None:
            additions[attempt.context] = messages
            if attempt.state != "committed":
                waiting = attempt
                break
            attempt = self.enclosing_attempt(attempt.run.outer)
        else:
            additions[MAIN] = messages
        self.write(additions)
        if waiting is not None:
            waiting.messages.extend(messages)

    def enclosing_attempt(self, attempt: Attempt | None) -> Attempt | None:
        """The innermost attempt of this runtime among one and those it was called from."""
        while attempt is not None and attempt.run.recorder is not self:
            attempt = attempt.run.outer
        return attempt

    async def _execute_model_call(
        self, tool: Callable[..., Any], values: Mapping[str, Any], enclosing: Attempt | None
    ) -> Any:
        """Call a tool that asks a model; inside a run the call is noted, unless the tool has noted it."""
        prompt = await render_value(prompt_text, values)
        flag = _ModelCallFlag()
        before = _model_call_flag.get()
        _model_call_flag.set(flag)
        try:
            with self.as_current():
                result = await call_with_timeout(tool, values)
        finally:
            if _model_call_flag.get() is flag:
                _model_call_flag.set(before)
        if enclosing is not None and not flag.noted:
            enclosing.run.note_model_call(prompt, await render_value(answer_text, result))
        return result


def _result_message(call: ToolCall, text: str, *, is_error: bool = False) -> Message:
    return Message(ChatRole.TOOL, text, tool_call_id=call.id, name=call.name, is_error=is_error)


@contextmanager
def _log_failure(what: str) -> Iterator[None]:
    """Record an error; if that fails, too, it is logged, and the first error is the one to see."""
    try:
        yield
    except Exception:
        logger.warning("could not record %s", what, exc_info=True)


async def render_value(write: Callable[[Any], str], value: Any) -> str:
    """Write a value as text, a large one in a worker thread."""
    if _is_small(value) or (
        type(value) is dict and len(value) <= _FEW_VALUES and all(map(_is_small, value.values()))
    ):
        return write(value)
    return await anyio.to_thread.run_sync(write, value, abandon_on_cancel=True)


def record_text(value: Any) -> str:
    """A value as one line of JSON."""
    return _PLAIN.encode_text(value)


def answer_text(value: Any) -> str:
    """Text and replies as they are, everything else as JSON."""
    found = _own_text(value)
    return record_text(value) if found is None else found


def result_text(value: Any) -> str:
    """A result as a JSON object: its own, if it is one, else `{"result": ...}`."""
    text = _own_text(value)
    if text is None:
        made = _PLAIN.encode(value)
        return json.dumps(made if isinstance(made, dict) else {"result": made}, ensure_ascii=False)
    return text if _is_object(text) else json.dumps({"result": text}, ensure_ascii=False)


def prompt_text(values: Mapping[str, Any]) -> str:
    """The prompt of a model: the only text among its arguments, or all arguments as JSON."""
    texts = [value for value in values.values() if isinstance(value, str)]
    return str.__str__(texts[0]) if len(texts) == 1 else record_text(values)


def error_text(error: BaseException) -> str:
    """An error's kind and what it says, without where it came from."""
    text = describe_error(error)
    over = len(text) - _ERROR_LIMIT
    return text if over <= 0 else f"{text[:_ERROR_LIMIT]} [... {over:,} characters are not shown here]"


def _own_text(value: Any) -> str | None:
    """The text of what is nothing but a text: a string, a message, or a reply whose `str()` it is."""
    try:
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, Message):
            return value.text
        text = getattr(value, "text", None)
        return str.__str__(text) if isinstance(text, str) and str(value) == text else None
    except Exception:
        return None


def _placeholder(value: Any) -> str:
    # Not its `repr`: an address in memory says nothing, and some objects print their secrets.
    kind = type(value)
    return f"<{value.__name__ if issubclass(kind, type) else kind.__name__}>"


def _binary_size(value: Binary) -> str:
    return f"<{memoryview(value).nbytes:,} bytes>"


def _is_object(text: str) -> bool:
    if not text.lstrip().startswith("{"):
        return False
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_small(value: Any) -> bool:
    return (
        value is None
        or type(value) in (bool, int, float)
        or (type(value) is str and len(value) <= _SMALL_TEXT)
    )


_PLAIN = JsonEncoder(encode_binary=_binary_size, object_text=_own_text, fallback=_placeholder)
