"""Server-sent events and lines, wherever the bytes are divided."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.models import streaming as bodies
from autonomy_ctx.models.streaming import (
    LineReader,
    ResponseBody,
    ServerSentEvent,
    UnreadableBody,
    read_event,
)

STREAM = (
    ": a comment\r\n"
    "event: first\r\n"
    "data: one\r\n"
    "data:  two\r\n"
    "\r\n"
    "event: nothing\n\n"
    "id: 7\ndata:été 猫\n\n"
    "data\r\r"
    "data: never ended"
)
EVENTS = [ServerSentEvent("one\n two", "first"), ServerSentEvent("été 猫"), ServerSentEvent("")]


def response(chunks: Sequence[bytes], **headers: str) -> Any:
    async def raw() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    async def aclose() -> None:
        pass

    return SimpleNamespace(aiter_raw=raw, headers=headers, status_code=200, aclose=aclose)


async def read(chunks: Sequence[bytes]) -> list[ServerSentEvent]:
    body = ResponseBody(response(chunks))
    lines = LineReader(body)
    found = []
    try:
        while (event := await read_event(lines)) is not None:
            found.append(event)
    finally:
        await body.aclose()
    return found


@given(st.sets(st.integers(1, len(STREAM.encode()) - 1)))
def test_events_are_the_same_wherever_the_bytes_are_divided(cuts: set[int]) -> None:
    data = STREAM.encode()
    ends = [0, *sorted(cuts), len(data)]
    chunks = [data[start:end] for start, end in pairwise(ends)]
    assert anyio.run(read, chunks) == EVENTS


async def test_a_byte_order_mark_at_the_beginning_is_no_text() -> None:
    assert await read([b"\xef\xbb", b"\xbfdata: x\n\n"]) == [ServerSentEvent("x")]


async def test_a_carriage_return_ends_a_line_before_the_next_byte_is_there() -> None:
    lines = LineReader(ResponseBody(response([b"data: x\r", b"\n\r\n"])))
    assert await anext(lines) == "data: x"
    assert await anext(lines) == ""
    with pytest.raises(StopAsyncIteration):
        await anext(lines)


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_REPLY_BYTES", 1000)
    with pytest.raises(UnreadableBody, match="larger than"):
        await read([b"data: "] + [b"x" * 100] * 20)
