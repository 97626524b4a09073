"""One call of any model: what is sent, what comes back, and what a failure is called."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest
from summary_models import HeldModel, ScriptedModel, refusing

from autonomy_ctx import Message, Model, ModelReply, TextContent
from autonomy_ctx.compaction.prompt import batch_prompt
from autonomy_ctx.errors import ContextOverflow, InvalidModelReply, ModelError
from autonomy_ctx.formats.base import CallStarted, StreamEvent, TextDelta
from autonomy_ctx.models.call import (
    MAX_CALLS,
    MAX_PARTS,
    CallFailed,
    PromptTooLong,
    complete,
    complete_prompt,
    takes_messages,
)

HELLO = [Message("user", "Hello?")]
TOOL = {"name": "look", "description": "Looks.", "parameters": {"type": "object", "properties": {}}}
PROMPT = batch_prompt("User: hi", (), cap=100, instructions=None)
TOO_LONG = "This model's maximum context length is 4096 tokens"


# -- what is sent -------------------------------------------------------------------------------------


async def test_any_model_gets_dicts_and_the_options_that_it_takes() -> None:
    seen: dict[str, Any] = {}

    class Narrow:
        def complete_chat(self, messages: Any, max_tokens: int) -> str:
            seen.update(messages=messages, max_tokens=max_tokens)
            return "hi"

    reply = await complete(
        Narrow(), HELLO, tools=[TOOL], max_tokens=7, breakpoints=[0], answered_call_ids=["c"]
    )
    assert reply == ModelReply(parts=(TextContent("hi"),), stop="end")
    [sent] = seen["messages"]
    assert (sent["role"], sent["content"], seen["max_tokens"]) == ("user", "Hello?", 7)
    wide = ScriptedModel("hi")
    await complete(wide, HELLO, tools=[TOOL], max_tokens=7, breakpoints=[0], answered_call_ids=["c"])
    assert wide.calls[0].options == {"stream": False, "tools": [TOOL], "max_tokens": 7}


async def test_messages_go_as_they_are_to_a_model_whose_class_takes_them() -> None:
    class Recording(Model):
        async def complete_chat(self, messages: Any, tools: Any = None, **options: Any) -> Any:  # type: ignore[override]
            self.seen = (messages, options)
            return await super().complete_chat(messages, tools, **options)

    model = Recording("offline")
    await complete(model, HELLO, breakpoints=[0], answered_call_ids=["c"])
    messages, options = model.seen
    assert messages is HELLO
    assert (options["breakpoints"], options["answered_call_ids"]) == ([0], ["c"])


def test_a_wrapper_and_a_mock_do_not_take_messages_as_they_are() -> None:
    class Wrapper:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def __getattr__(self, name: str) -> Any:
            return getattr(self._inner, name)

    assert takes_messages(Model("offline"))
    for other in (Wrapper(Model("offline")), MagicMock(), ScriptedModel(), None):
        assert not takes_messages(other)


async def test_a_mock_can_stand_in_for_a_model() -> None:
    reply = await complete(MagicMock(complete_chat=AsyncMock(return_value="hi")), HELLO)
    assert reply.text == "hi"


class Pieces:
    """A stream that answers and is closed as a client's own is."""

    def __init__(self, *pieces: str) -> None:
        self._pieces, self.closed = list(pieces), 0

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> str:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop(0)


class ClosedAtOnce(Pieces):
    def close(self) -> None:
        self.closed += 1


class ClosedLater(Pieces):
    async def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("shape", ["text", "content", "choices"])
async def test_a_mock_can_stand_in_for_a_reply(shape: str) -> None:
    """A mock has every method, also those of a stream."""
    answer = MagicMock()
    if shape == "choices":
        answer.choices = [MagicMock()]
        answer.choices[0].message.content = "hi"
    else:
        setattr(answer, shape, "hi")
    reply = await complete(MagicMock(complete_chat=AsyncMock(return_value=answer)), HELLO)
    assert reply.text == "hi"


@pytest.mark.parametrize("kind", [ClosedAtOnce, ClosedLater])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_stream_is_read_and_closed_whether_asked_for_or_not(kind: type[Pieces], stream: bool) -> None:
    answer: Any = kind("he", "llo")
    heard: list[Any] = []

    async def hear(event: Any) -> None:
        heard.append(event)

    model = MagicMock(complete_chat=AsyncMock(return_value=answer))
    reply = await complete(model, HELLO, on_event=hear if stream else None)
    assert (reply.text, answer.closed, len(heard)) == ("hello", 1, 2 if stream else 0)


# -- what comes back ----------------------------------------------------------------------------------


async def test_a_whole_answer_is_one_event_and_a_stream_is_many() -> None:
    class Streaming:
        async def complete_chat(self, messages: Any, stream: bool) -> AsyncIterator[str]:
            async def pieces() -> AsyncIterator[str]:
                yield "he"
                yield "llo"

            return pieces()

    for model, texts in ((ScriptedModel("hello"), ["hello"]), (Streaming(), ["he", "llo"])):
        heard: list[StreamEvent] = []

        async def hear(event: StreamEvent, heard: list[StreamEvent] = heard) -> None:
            heard.append(event)

        assert (await complete(model, HELLO, on_event=hear)).text == "hello"
        assert heard == [TextDelta(text) for text in texts]
        assert (await complete(model, HELLO)).text == "hello"


def many_calls(count: int) -> list[dict[str, Any]]:
    return [{"id": f"c{number}", "name": "add", "arguments": {}} for number in range(count)]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_has_at_most_so_many_calls_and_parts(stream: bool) -> None:
    """A model that goes on without end is stopped, and is not read to its end first."""
    begun = 0

    class Endless:
        async def complete_chat(self, messages: Any, stream: bool) -> Any:
            return self._calls() if stream else {"content": None, "tool_calls": many_calls(MAX_CALLS + 1)}

        async def _calls(self) -> AsyncIterator[StreamEvent]:
            nonlocal begun
            while begun < 4 * MAX_CALLS:
                begun += 1
                yield CallStarted(f"c{begun}", "add")

    async def hear(event: StreamEvent) -> None:
        pass

    listener = hear if stream else None
    with pytest.raises(InvalidModelReply, match="has more than 256 tool calls"):
        await complete(Endless(), HELLO, on_event=listener)
    assert begun == (MAX_CALLS + 1 if stream else 0)
    most = {"content": None, "tool_calls": many_calls(MAX_CALLS)}
    assert len((await complete(ScriptedModel([most]), HELLO, on_event=listener)).tool_calls) == MAX_CALLS
    parts = {"content": [{"type": "text", "text": "a"}, {"type": "thinking", "thinking": "b"}] * MAX_PARTS}
    with pytest.raises(InvalidModelReply, match="has more than 1,000 parts"):
        await complete(ScriptedModel([parts]), HELLO, on_event=listener)


@pytest.mark.parametrize("answer", [{"choices": []}, {"error": {"message": "overloaded"}}, {"nothing": 1}])
async def test_a_reply_without_an_answer_is_an_error_for_an_agent_and_left_to_the_gate_of_a_summary(
    answer: Any,
) -> None:
    with pytest.raises(InvalidModelReply, match="neither text nor calls"):
        await complete(ScriptedModel([answer]), HELLO)
    assert (await complete_prompt(ScriptedModel([answer]), PROMPT, max_tokens=9)).text == ""


def test_formats_are_imported_only_for_replies_in_their_shape() -> None:
    code = (
        "import sys, autonomy_ctx.models.call as call\n"
        "from autonomy_ctx.formats.any_reply import read_reply\n"
        "read_reply('hello'), read_reply({'content': 'hello'})\n"
        "print(*sys.modules)\n"
        "read_reply({'choices': [{'message': {'content': 'hello'}}]})\n"
        "print(*sys.modules)"
    )
    root = Path(__file__).parents[2]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    before, after = (set(line.split()) for line in ran.stdout.splitlines())
    names = ("openai", "openai_responses", "anthropic", "google", "bedrock")
    formats = {f"autonomy_ctx.formats.{name}" for name in names}
    assert before & formats == set()
    assert after & formats == {"autonomy_ctx.formats.openai"}


# -- failures -----------------------------------------------------------------------------------------


async def test_a_foreign_error_that_says_the_request_was_too_long_is_typed() -> None:
    with pytest.raises(ContextOverflow) as raised:
        await complete(ScriptedModel([refusing(400, TOO_LONG)]), HELLO)
    assert (raised.value.window, raised.value.status_code, raised.value.model) == (4096, 400, "scripted")
    assert isinstance(raised.value.__cause__, refusing)


@pytest.mark.parametrize("error", [RuntimeError("boom"), refusing(429, TOO_LONG), ModelError("m", "is odd")])
async def test_any_other_error_is_the_models_own(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await complete(ScriptedModel([error]), HELLO)
    assert raised.value is error


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RuntimeError("the key is sk-123"), "failed"),
        (refusing(500), "failed"),
        (refusing(401), "not allowed"),
        (refusing(403), "not allowed"),
        (TimeoutError(), "timed out"),
    ],
)
async def test_a_prompt_that_gets_no_answer_names_the_reason_and_quotes_nothing(
    error: Exception, reason: str
) -> None:
    with pytest.raises(CallFailed) as raised:
        await complete_prompt(ScriptedModel([error]), PROMPT, max_tokens=9)
    assert raised.value.reason == reason
    assert raised.value.__cause__ is error
    assert "sk-123" not in str(raised.value)


async def test_a_prompt_is_not_waited_for_longer_than_its_timeout() -> None:
    with pytest.raises(CallFailed, match=r"no answer for 0\.01 s") as raised:
        await complete_prompt(HeldModel(), PROMPT, max_tokens=9, timeout=0.01)
    assert raised.value.reason == "timed out"


@pytest.mark.parametrize("error", [ValueError(TOO_LONG), ContextOverflow("gpt", window=4096)])
async def test_a_prompt_that_does_not_fit_is_told_apart_with_the_window(error: Exception) -> None:
    with pytest.raises(PromptTooLong) as raised:
        await complete_prompt(ScriptedModel([error]), PROMPT, max_tokens=9)
    assert raised.value.window == 4096
