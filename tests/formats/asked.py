"""Requests with what is asked for named in the call, which reads better in a test."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from autonomy_ctx import Message
from autonomy_ctx.formats.base import Format, RequestOptions, WireRequest

KNOWN = {field.name for field in fields(RequestOptions)}


def requested(words: Format, model: str, messages: Sequence[Message], **named: Any) -> WireRequest:
    """A request; what `Asking` has no field for is an option."""
    known = {name: value for name, value in named.items() if name in KNOWN}
    options = {name: value for name, value in named.items() if name not in KNOWN}
    return words.request(model, messages, RequestOptions(**known, options=options))
