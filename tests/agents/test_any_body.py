"""Whatever bytes a server answers with, a turn ends with a reply or with an error of this library."""

from __future__ import annotations

import json
import re

import pytest
from formats.frames import event as frame
from hypothesis import given, settings
from hypothesis import strategies as st
from models.model_server import Answer, serving
from models.provider_words import ALL, Say

from autonomy_ctx import Agent, AgentReply, AutonomyCtxError, ContextOverflow, Memory, Model, ModelError

MODELS = {
    "openai": ("gpt-5", None),
    "responses": ("gpt-5", "openai-responses"),
    "anthropic": ("claude-sonnet-4-v1", None),
    "google": ("gemini-3-pro", None),
    "bedrock": ("nova-micro-v1", None),
}
DIGITS = "9" * 5000
# JSON reads up to 4,300 digits, more than any float can hold.
LARGE = "9" * 4200
ODD_NUMBERS = ("", ",", ",,,", "0", "-1", "1e5", "\u0663\u0664", "8,192", DIGITS, LARGE, "9" * 13)
SENTENCES = (
    "This model's maximum context length is {} tokens",
    "prompt is too long: {0} tokens > {0} maximum",
    "input token count ({0}) exceeds the maximum number of tokens allowed ({0})",
    "the request exceeds the available context size ({} tokens)",
    "too many input tokens. max input tokens: {}",
    "Input is too long, expected maxLength: {}",
)
ODD_JSON = ("null", "true", "[]", "{}", '""', '"x"', "-1", "1e400", "NaN", "0.5", LARGE, "[" * 70 + "]" * 70)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "x-should-retry", "x-amzn-errortype"]),
    st.sampled_from(["", "nan", "1e999", "-1", DIGITS, "Mon, 01 Jan 0001 00:00:00", "true", "a:b"]),
    max_size=2,
)


@st.composite
def error_bodies(draw: st.DrawFn) -> bytes:
    """Errors as servers word them, with numbers that are none."""
    text = draw(st.sampled_from(SENTENCES)).format(draw(st.sampled_from(ODD_NUMBERS)))
    number, code = draw(st.sampled_from(ODD_JSON)), draw(st.sampled_from(ODD_JSON))
    inner = f'{{"message": {json.dumps(text)}, "type": "x", "code": {code}, "n_ctx": {number}}}'
    shape = draw(
        st.sampled_from(
            ['{{"error": {}}}', "{}", "[{}]", '{{"type": "error", "error": {}}}', '{{"error": [{}]}}']
        )
    )
    return draw(st.sampled_from([text, shape.format(inner)])).encode()


@st.composite
def damaged(draw: st.DrawFn, data: bytes) -> bytes:
    """A real answer in which one value is another one."""
    values = list(re.finditer(rb'(?<=: )(?:"[^"]*"|[\d.]+|null|\[\]|\{\})', data))
    if not values:
        return data
    found = draw(st.sampled_from(values))
    return data[: found.start()] + draw(st.sampled_from(ODD_JSON)).encode() + data[found.end() :]


@st.composite
def answers(draw: st.DrawFn, provider: str, streamed: bool) -> Answer:
    status = draw(st.sampled_from([200, 200, 200, 302, 400, 404, 413, 429, 500]))
    headers = draw(HEADERS)
    say, words = Say("Sunny.", thinking="Let me think."), ALL[provider]()
    genuine = json.dumps(words.whole(say)).encode()
    if streamed and provider == "bedrock":
        headers["content-type"] = "application/vnd.amazon.eventstream"
        usage = draw(damaged(b'{"usage": {"inputTokens": 9, "outputTokens": 3}}'))
        try:
            last = frame("metadata", json.loads(usage))
        except ValueError:
            last = usage
        genuine = b"".join([*words.pieces(say), last])
    elif streamed:
        headers["content-type"] = "text/event-stream"
        genuine = b"".join(words.pieces(say))
    body = draw(st.one_of(damaged(genuine), error_bodies(), st.binary(max_size=200)))
    if streamed and draw(st.booleans()):
        body = b"event: error\ndata: " + draw(error_bodies()) + b"\n\n"
    return Answer([body] if body else [], status=status, headers=headers)


async def turn(provider: str, streamed: bool, answer: Answer) -> AgentReply | AutonomyCtxError:
    name, served_by = MODELS[provider]
    async with serving(answer) as server, Memory() as memory:
        model = Model(name, provider=served_by, base_url=server.url, api_key="k", retries=0)
        async with model, Agent("any", instructions="Help.", model=model, memory=memory) as agent:
            try:
                if not streamed:
                    return await agent.send("Hello")
                return [event async for event in agent.stream("Hello")][-1].reply  # type: ignore[union-attr]
            except AutonomyCtxError as error:
                return error


@given(
    st.tuples(st.sampled_from(list(MODELS)), st.booleans()).flatmap(
        lambda chosen: st.tuples(st.just(chosen[0]), st.just(chosen[1]), answers(*chosen))
    )
)
@settings(max_examples=300)
async def test_whatever_a_server_answers_a_turn_ends_with_a_reply_or_a_typed_error(
    asked: tuple[str, bool, Answer],
) -> None:
    ended = await turn(*asked)
    assert isinstance(ended, AgentReply) or str(ended)


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("provider", list(MODELS))
@pytest.mark.parametrize("number", [",", DIGITS], ids=["comma", "5,000 digits"])
async def test_a_window_that_is_no_number_is_an_overflow_without_one(
    number: str, provider: str, streamed: bool
) -> None:
    text = f"This model's maximum context length is {number} tokens"
    error = await turn(provider, streamed, Answer([json.dumps({"error": {"message": text}}).encode()], 400))
    assert isinstance(error, ContextOverflow)
    assert error.window is None


@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
async def test_a_window_that_no_model_has_is_not_believed(streamed: bool) -> None:
    said = f'{{"error": {{"type": "exceed_context_size_error", "n_ctx": {LARGE}}}}}'
    error = await turn("openai", streamed, Answer([said.encode()], 400))
    assert isinstance(error, ContextOverflow)
    assert error.window is None


async def test_a_count_of_tokens_that_nobody_can_send_is_no_count() -> None:
    body = json.dumps(ALL["openai"]().whole(Say("Sunny."))).encode()
    odd = re.sub(rb'"prompt_tokens": \d+', b'"prompt_tokens": ' + LARGE.encode(), body)
    assert odd != body
    reply = await turn("openai", False, Answer([odd]))
    assert not isinstance(reply, ModelError | AutonomyCtxError)
    assert (reply.text, reply.usage.input_tokens) == ("Sunny.", 0)
