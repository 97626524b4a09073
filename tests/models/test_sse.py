"""Server-sent events and lines, wherever the bytes are divided."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autonomy_ctx.models import streaming as bodies
from autonomy_ctx.models.streaming import ServerSentEvent, SseDecoder, UnreadableBody

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


def read(chunks: Sequence[bytes]) -> list[ServerSentEvent]:
    decoder = SseDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@given(st.sets(st.integers(1, len(STREAM.encode()) - 1)))
def test_events_are_the_same_wherever_the_bytes_are_divided(cuts: set[int]) -> None:
    data = STREAM.encode()
    ends = [0, *sorted(cuts), len(data)]
    chunks = [data[start:end] for start, end in pairwise(ends)]
    assert read(chunks) == EVENTS


def test_a_byte_order_mark_at_the_beginning_is_no_text() -> None:
    assert read([b"\xef\xbb", b"\xbfdata: x\n\n"]) == [ServerSentEvent("x")]


def test_a_carriage_return_ends_a_line_before_the_next_byte_is_there() -> None:
    decoder = SseDecoder()
    assert list(decoder.feed(b"data: x\r")) == []
    assert list(decoder.feed(b"\n\r")) == [ServerSentEvent("x")]
    assert list(decoder.feed(b"\n")) == []


def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "MAX_REPLY_BYTES", 1000)
    with pytest.raises(UnreadableBody, match="larger than"):
        read([b"data: "] + [b"x" * 100] * 20)
