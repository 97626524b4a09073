"""Frames of Amazon's event stream, made by hand."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any


def header(name: str, value: str | bytes, kind: int = 7) -> bytes:
    """One header; text and bytes carry their length, other kinds are given as they stand."""
    data = value.encode() if isinstance(value, str) else value
    sized = struct.pack(">H", len(data)) + data if kind in (6, 7) else data
    return bytes([len(name)]) + name.encode() + bytes([kind]) + sized


def frame(headers: bytes, payload: bytes) -> bytes:
    """A whole frame with its checksums."""
    lengths = struct.pack(">II", 16 + len(headers) + len(payload), len(headers))
    body = lengths + struct.pack(">I", zlib.crc32(lengths)) + headers + payload
    return body + struct.pack(">I", zlib.crc32(body))


def event(name: str, data: Any) -> bytes:
    """An event as Bedrock sends it."""
    headers = [(":event-type", name), (":content-type", "application/json"), (":message-type", "event")]
    return frame(b"".join(header(*pair) for pair in headers), json.dumps(data).encode())
