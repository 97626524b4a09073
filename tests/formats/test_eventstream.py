"""Amazon's event stream: any cut of the bytes gives the same events, and damage is noticed."""

from __future__ import annotations

import struct
import warnings
import zlib
from itertools import pairwise
from typing import Any

import pytest
from formats.frames import event, frame, header
from hypothesis import given
from hypothesis import strategies as st
from strategies import some

from autonomy_ctx.formats.base import StreamError
from autonomy_ctx.formats.eventstream import EventStreamDecoder, StreamFrame

SAID = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"delta": {"text": "Zürich"}}),
    ("x", {}),
]
STREAM = b"".join(event(*pair) for pair in SAID)


def decoded(*chunks: bytes) -> list[StreamFrame]:
    decoder = EventStreamDecoder()
    return [found for chunk in chunks for found in decoder.feed(chunk)]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8))
@some
def test_any_cut_of_the_bytes_gives_the_same_events(cuts: list[int]) -> None:
    ends = [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[start:end] for start, end in pairwise(ends)]
    assert decoded(*chunks) == SAID


def test_one_byte_at_a_time_will_do() -> None:
    assert decoded(*(bytes([byte]) for byte in STREAM)) == SAID


@given(st.integers(0, len(STREAM) - 1), st.integers(1, 255))
@some
def test_a_changed_byte_is_noticed(at: int, change: int) -> None:
    damaged = bytearray(STREAM)
    damaged[at] ^= change
    with pytest.raises(StreamError, match="damaged_event_stream"):
        decoded(bytes(damaged))


def test_events_before_the_damage_are_given() -> None:
    decoder = EventStreamDecoder()
    frames = decoder.feed(event("a", {}) + b"\0" * 12)
    assert next(frames) == ("a", {})
    with pytest.raises(StreamError, match="checksum"):
        next(frames)


def test_headers_of_every_kind_are_passed_over() -> None:
    kinds = {
        0: b"",
        1: b"",
        2: b"1",
        3: b"12",
        4: b"1234",
        5: b"12345678",
        6: b"any",
        8: b"12345678",
        9: b"1" * 16,
    }
    headers = b"".join(header(f"h{kind}", value, kind) for kind, value in kinds.items())
    assert decoded(frame(headers + header(":event-type", "a"), b"{}")) == [("a", {})]


@pytest.mark.parametrize(
    "headers",
    [b"\x05abc", header("a", b"", 77), header("a", "text")[:-1], b"\x01a\x07\xff", header("a", b"\xff")],
)
def test_headers_that_cannot_be_read_are_damage(headers: bytes) -> None:
    with pytest.raises(StreamError, match="headers"):
        decoded(frame(headers, b"{}"))


@pytest.mark.parametrize(("size", "headers"), [(15, 0), (16, 1), (2**31, 0), (2**32 - 1, 2**32 - 1)])
def test_lengths_that_cannot_be_are_damage_and_are_not_waited_for(size: int, headers: int) -> None:
    lengths = struct.pack(">II", size, headers)
    with pytest.raises(StreamError, match="claims"):
        decoded(lengths + struct.pack(">I", zlib.crc32(lengths)))


def test_a_payload_that_is_no_json_is_damage() -> None:
    with pytest.raises(StreamError, match="is not JSON"):
        decoded(frame(header(":event-type", "a"), b"{"))


def test_exceptions_and_errors_come_as_errors_with_their_code() -> None:
    exception = header(":message-type", "exception") + header(":exception-type", "throttlingException")
    error = (
        header(":message-type", "error") + header(":error-code", "500") + header(":error-message", "sorry")
    )
    assert decoded(frame(exception, b'{"message": "slow down"}'), frame(error, b"")) == [
        ("error", {"code": "throttlingException", "message": "slow down"}),
        ("error", {"code": "500", "message": "sorry"}),
    ]


def test_the_official_decoder_reads_the_frames_of_these_tests() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from botocore.eventstream import EventStreamBuffer

    buffer: Any = EventStreamBuffer()
    buffer.add_data(STREAM)
    assert [found.headers[":event-type"] for found in buffer] == [name for name, _ in SAID]
