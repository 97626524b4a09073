"""Decoder for the binary event stream encoding of AWS.

A frame is: total length, headers length, checksum of both, headers, payload, checksum of everything
before it. Numbers are big-endian. See "Amazon event stream encoding" in the vendor's reference.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from autonomy_ctx.formats.base import StreamError

_PRELUDE = struct.Struct(">III")
_CHECKSUM = struct.Struct(">I")
# The most a frame may have by its specification, and something on top.
_MAX_FRAME_SIZE = 24 * 1024 * 1024
# How many bytes the value of a header has, by its type; those of types 6 and 7 say it themselves.
_HEADER_VALUE_SIZES = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
_BYTES_TYPE, _STRING_TYPE = 6, 7


class StreamFrame(NamedTuple):
    """One event: what it is called and what it says. A reader takes it as `feed(frame.data, frame.event)`."""

    event: str | None
    data: Mapping[str, Any]


class EventStreamDecoder:
    """Takes bytes as they come and gives the events that are complete."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> Iterator[StreamFrame]:
        """The events that these bytes complete; `StreamError` when they are damaged."""
        self._buffer += chunk
        while len(self._buffer) >= _PRELUDE.size:
            size, headers, checksum = _PRELUDE.unpack_from(self._buffer)
            if zlib.crc32(self._buffer[:8]) != checksum:
                raise _damage_error("the checksum of a frame's lengths is wrong")
            if not _PRELUDE.size + headers + _CHECKSUM.size <= size <= _MAX_FRAME_SIZE:
                raise _damage_error(f"a frame claims {size:,} bytes, {headers:,} of them headers")
            if len(self._buffer) < size:
                return
            frame = bytes(self._buffer[:size])
            del self._buffer[:size]
            body, (checksum,) = frame[: -_CHECKSUM.size], _CHECKSUM.unpack(frame[-_CHECKSUM.size :])
            if zlib.crc32(body) != checksum:
                raise _damage_error("the checksum of a frame is wrong")
            start = _PRELUDE.size + headers
            yield _parse_event(_parse_headers(body[_PRELUDE.size : start]), body[start:])


def _parse_event(headers: Mapping[str, str], payload: bytes) -> StreamFrame:
    if headers.get(":message-type") == "error":
        said = {"code": headers.get(":error-code", ""), "message": headers.get(":error-message", "")}
        return StreamFrame("error", said)
    try:
        data = json.loads(payload) if payload else {}
    except (ValueError, RecursionError):
        raise _damage_error("the payload of a frame is not JSON") from None
    if headers.get(":message-type") == "exception":
        message = data.get("message", data.get("Message")) if isinstance(data, dict) else None
        return StreamFrame("error", {"code": headers.get(":exception-type", ""), "message": message})
    return StreamFrame(headers.get(":event-type") or None, data if isinstance(data, dict) else {})


def _parse_headers(data: bytes) -> dict[str, str]:
    """The headers that are text; the others are passed over."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            end = at + 1 + data[at]
            name, kind = data[at + 1 : end], data[end]
            at = end + 1
            if kind in (_BYTES_TYPE, _STRING_TYPE):
                (size,) = struct.unpack_from(">H", data, at)
                at += 2
            else:
                size = _HEADER_VALUE_SIZES[kind]
            if at + size > len(data):
                raise IndexError
            if kind == _STRING_TYPE:
                found[name.decode()] = data[at : at + size].decode()
            at += size
    except (IndexError, KeyError, struct.error, UnicodeDecodeError):
        raise _damage_error("the headers of a frame cannot be read") from None
    return found


def _damage_error(problem: str) -> StreamError:
    return StreamError("damaged_event_stream", problem)
