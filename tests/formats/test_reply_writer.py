"""Replies as the APIs have them: what is written as a stream or whole is read back as the same reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from formats.sdk import really
from hypothesis import given
from hypothesis import strategies as st
from strategies import few, some

from autonomy_ctx import ModelReply, TextContent, ThinkingContent, ToolCall
from autonomy_ctx.formats.base import (
    CallDelta,
    CallStarted,
    ReaderEvent,
    TextDelta,
    ThinkingDelta,
    Usage,
    WireFormat,
    load_format,
)
from autonomy_ctx.formats.reply_writer import ReplyHead, ReplyWriter, reply_events, reply_writer
from autonomy_ctx.server.endpoint.upstream import EventSplitter

APIS: tuple[WireFormat, ...] = ("openai", "responses", "anthropic")
EVENTS = {
    "openai": "openai.types.chat.ChatCompletionChunk",
    "responses": "openai.types.responses.ResponseStreamEvent",
    "anthropic": "anthropic.types.RawMessageStreamEvent",
}
WHOLE = {
    "openai": "openai.types.chat.ChatCompletion",
    "responses": "openai.types.responses.Response",
    "anthropic": "anthropic.types.Message",
}
# What an API has no word for, and what it is read back as.
STOPS = {"openai": {"overflow": "length"}, "responses": {"overflow": "length"}, "anthropic": {}}
HEAD = ReplyHead(id="r_1", model="m", created=7, request={"stream_options": {"include_usage": True}})

names = st.text("abcdef_", min_size=1, max_size=8)
texts = st.text(st.characters(codec="utf-8"), max_size=12)
objects = st.dictionaries(texts, texts | st.integers(), max_size=3)


@st.composite
def replies(draw: st.DrawFn) -> ModelReply:
    """Replies with texts, thoughts and calls in any order, and any usage."""
    kinds = draw(st.lists(st.sampled_from(["text", "thinking", "call"]), max_size=6))
    parts: list[TextContent | ThinkingContent] = []
    calls: list[ToolCall] = []
    places: list[int] = []
    for kind in kinds:
        text = draw(texts)
        if kind == "text":
            parts.append(TextContent(text))
        elif kind == "thinking":
            parts.append(ThinkingContent(text))
        else:
            calls.append(ToolCall(f"call_{len(calls)}", draw(names), json.dumps(draw(objects))))
            places.append(len(parts))
    counts = sorted(draw(st.lists(st.integers(0, 9999), min_size=3, max_size=3)))
    stops = ["tools"] if calls else ["end", "length", "overflow", "refused"]
    return ModelReply(
        parts=tuple(parts),
        tool_calls=tuple(calls),
        calls_at=tuple(places),
        stop=draw(st.sampled_from(stops)),
        usage=Usage(
            input_tokens=counts[2],
            cached_tokens=counts[0],
            cache_write_tokens=counts[1] - counts[0],
            output_tokens=counts[2],
            reasoning_tokens=counts[0],
        ),
    )


def cut(data: st.DataObject, text: str) -> list[str]:
    """A text in pieces, some of them one character long."""
    ends = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=4)) | {0, len(text)})
    return [text[a:b] for a, b in pairwise(ends)]


def in_pieces(data: st.DataObject, reply: ModelReply) -> Iterator[ReaderEvent]:
    """The events of a reply, divided at random."""
    for event in reply_events(reply):
        match event:
            case TextDelta(text) | ThinkingDelta(text):
                yield from (type(event)(piece) for piece in cut(data, text))
            case CallDelta(call_id, arguments):
                yield from (CallDelta(call_id, piece) for piece in cut(data, arguments))
            case _:
                yield event


def read_stream(api: WireFormat, chunks: Sequence[bytes]) -> tuple[list[ReaderEvent], ModelReply]:
    """What the reader of an API makes of the bytes of a stream."""
    reader, splitter = load_format(api).reader(), EventSplitter()
    found: list[ReaderEvent] = []
    for chunk in chunks:
        for piece in splitter.feed(chunk):
            if piece.data is not None:
                found += reader.feed(piece.data, piece.event)
    assert splitter.rest == b""
    return found, reader.finish()


def carried(api: WireFormat, reply: ModelReply) -> dict[str, Any]:
    """A reply as far as an API can carry it: where calls stand is told by Messages alone."""
    calls = [(one.id, one.name, json.loads(one.arguments)) for one in reply.tool_calls]
    thoughts = [
        part.text
        for at, part in enumerate(reply.parts)
        # Of thinking after a call, Responses keeps only what it can send back.
        if isinstance(part, ThinkingContent)
        and not (api == "responses" and any(place <= at for place in reply.calls_at))
    ]
    return {
        "text": reply.text,
        "thinking": "".join(thoughts),
        "calls": calls,
        "stop": STOPS[api].get(reply.stop or "", reply.stop),
        "usage": reply.usage,
    }


def order(reply: ModelReply) -> list[tuple[str, str]]:
    """Texts, thoughts and calls in their order, neighbours joined."""
    found: list[tuple[str, str]] = []
    for event in reply_events(reply):
        match event:
            case TextDelta(text) | ThinkingDelta(text):
                if found and found[-1][0] == type(event).__name__:
                    text = found.pop()[1] + text
                found.append((type(event).__name__, text))
            case CallStarted(_, name):
                found.append(("call", name))
    return found


@pytest.mark.parametrize("api", APIS)
@some
@given(data=st.data(), reply=replies())
def test_a_stream_is_read_back_as_the_reply(api: WireFormat, data: st.DataObject, reply: ModelReply) -> None:
    writer = reply_writer(api, HEAD)
    written = b"".join([*(writer.feed(event) for event in in_pieces(data, reply)), writer.finish(reply)])
    ends = sorted(data.draw(st.sets(st.integers(0, len(written)), max_size=9)) | {0, len(written)})
    events, read = read_stream(api, [written[a:b] for a, b in pairwise(ends)])
    assert carried(api, read) == carried(api, reply)
    said = "".join(one.text for one in events if isinstance(one, TextDelta))
    assert said == reply.text
    assert (read.id, read.model) == ("r_1", "m")
    if api == "anthropic" and any(part.text for part in reply.parts if isinstance(part, ThinkingContent)):
        assert order(read) == order(reply)


@pytest.mark.parametrize("api", APIS)
@some
@given(reply=replies())
def test_a_whole_reply_is_read_back(api: WireFormat, reply: ModelReply) -> None:
    body = reply_writer(api, HEAD).whole(reply)
    assert carried(api, load_format(api).reply(body)) == carried(api, reply)
    really(WHOLE[api], body)


@pytest.mark.parametrize("api", APIS)
@few
@given(reply=replies())
def test_events_are_those_of_the_official_package(api: WireFormat, reply: ModelReply) -> None:
    writer = reply_writer(api, HEAD)
    splitter = EventSplitter()
    for piece in splitter.feed(writer.feed(*reply_events(reply)) + writer.finish(reply)):
        if piece.data is not None:
            really(EVENTS[api], piece.data)


def interleaved(writer: ReplyWriter) -> bytes:
    """Two calls whose arguments come in turns, as some servers send them."""
    calls = (ToolCall("a", "find", '{"x": 1}'), ToolCall("b", "find", '{"y": 2}'))
    events: list[ReaderEvent] = [
        CallStarted("a", "find"),
        CallDelta("a", '{"x"'),
        CallStarted("b", "find"),
        CallDelta("b", '{"y"'),
        TextDelta("so"),
        CallDelta("a", ": 1}"),
        CallDelta("b", ": 2}"),
    ]
    written = b"".join(map(writer.feed, events))
    return written + writer.finish(ModelReply(parts=(TextContent("so"),), tool_calls=calls, stop="tools"))


@pytest.mark.parametrize("api", APIS)
def test_calls_that_come_in_turns_are_written_one_after_the_other(api: WireFormat) -> None:
    _, read = read_stream(api, [interleaved(reply_writer(api, HEAD))])
    assert [(one.id, one.arguments) for one in read.tool_calls] == [
        ("a", '{"x": 1}'),
        ("b", '{"y": 2}'),
    ]
    assert read.text == "so"


@pytest.mark.parametrize("api", APIS)
def test_each_piece_is_written_when_it_comes(api: WireFormat) -> None:
    writer = reply_writer(api, HEAD)
    assert b"Hel" in writer.feed(TextDelta("Hel"))
    assert b"lo" in writer.feed(TextDelta("lo"))
    assert b"find" in writer.feed(CallStarted("a", "find"))
    assert b"{" in writer.feed(CallDelta("a", '{"x'))


def test_a_tool_that_takes_a_text_is_called_with_a_text() -> None:
    head = replace(HEAD, request={"tools": [{"type": "custom", "name": "patch"}]})
    call = ToolCall("a", "patch", '{"input": "*** Begin"}')
    writer = reply_writer("responses", head)
    written = writer.feed(CallStarted("a", "patch"), CallDelta("a", call.arguments))
    written += writer.finish(ModelReply(tool_calls=(call,), stop="tools"))
    pieces = [piece.data for piece in EventSplitter().feed(written) if piece.data]
    for data in pieces:
        really(EVENTS["responses"], data)
    [item] = pieces[-1]["response"]["output"]
    assert (item["type"], item["call_id"], item["input"]) == ("custom_tool_call", "a", "*** Begin")
