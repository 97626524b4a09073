"""One question to a model, or to anything that can stand in for one, streamed or whole.

A stand-in needs only `complete_chat`. It may be plain or async, take fewer arguments, answer in any
usual shape and know nothing of streams: then the whole answer is one piece.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import anyio

from autonomy_ctx.background import Strides
from autonomy_ctx.callables import result_of
from autonomy_ctx.errors import InvalidModelReply
from autonomy_ctx.items import wire
from autonomy_ctx.items.formats.any_reply import is_answer, read_reply
from autonomy_ctx.items.formats.base import (
    CallStarted,
    Finished,
    ModelReply,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
)
from autonomy_ctx.items.message import Message, TextContent
from autonomy_ctx.models.model import Model

Heard = Callable[[StreamEvent], None]
# What functions take, for as long as these exist: to look at a signature takes longer than to call.
_TAKEN: WeakKeyDictionary[Callable[..., Any], frozenset[str] | None] = WeakKeyDictionary()
_UNKNOWN: frozenset[str] = frozenset(("unknown",))


async def ask(
    model: Any,
    messages: Sequence[Message],
    tools: Sequence[Mapping[str, Any]],
    *,
    max_tokens: int | None = None,
    breakpoints: Sequence[int] = (),
    answered: Sequence[str] = (),
    heard: Heard | None = None,
) -> ModelReply:
    """The model's reply; with `heard` it is streamed, and each piece is told as it comes."""
    if isinstance(model, Model):
        shaping: dict[str, Any] = {"breakpoints": breakpoints or None, "answered": answered or None}
        if heard is None:
            reply: ModelReply = await model.complete_chat(
                messages, tools=tools, max_tokens=max_tokens, **shaping
            )
            return reply
        stream = await model.complete_chat(
            messages, tools=tools, stream=True, max_tokens=max_tokens, **shaping
        )
        return await _listened(model, stream, heard)
    dicts = [wire.to_dict(message) async for some in Strides(messages) for message in some]
    options: dict[str, Any] = {"stream": heard is not None}
    if tools:
        options["tools"] = [dict(tool) for tool in tools]
    if max_tokens is not None:
        options["max_tokens"] = max_tokens
    call = model.complete_chat
    answer = await result_of(partial(call, messages=dicts, **_accepted(call, options)))
    if hasattr(answer, "__aiter__") and not isinstance(answer, ModelReply):
        return await _listened(model, answer, heard or _nobody)
    reply = _read(model, answer)
    if heard is not None and reply.text:
        heard(TextDelta(reply.text))
    return reply


async def _listened(model: Any, stream: AsyncIterator[Any], heard: Heard) -> ModelReply:
    """Tell each piece of a stream as it comes; the reply it ends with, or else its pieces of text."""
    reply: ModelReply | None = None
    texts: list[str] = []
    try:
        async for event in stream:
            match event:
                case Finished(reply):
                    pass
                case TextDelta(piece) | str(piece):
                    texts.append(piece)
                    heard(TextDelta(piece))
                case ThinkingDelta() | CallStarted():
                    heard(event)
                case _:
                    kind = type(event).__name__
                    raise InvalidModelReply(_name(model), f"has a piece of type {kind} in its stream")
    finally:
        close = getattr(stream, "aclose", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                await close()
    if reply is None and texts:
        return ModelReply(parts=(TextContent("".join(texts)),), stop="end")
    if reply is None:
        raise InvalidModelReply(_name(model), "ended without an answer")
    return reply


def _nobody(event: StreamEvent) -> None:
    """Nobody listens."""


def _accepted(call: Callable[..., Any], options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options that a stand-in takes."""
    function = getattr(call, "__func__", call)
    plain = inspect.isfunction(function)
    known = _TAKEN.get(function, _UNKNOWN) if plain else _UNKNOWN
    if known is _UNKNOWN:
        known = _taken(call)
        if plain:
            _TAKEN[function] = known
    return options if known is None else {name: value for name, value in options.items() if name in known}


def _taken(call: Callable[..., Any]) -> frozenset[str] | None:
    """The names of what a call takes; None for anything, or when that cannot be told."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return frozenset(parameter.name for parameter in parameters)


def _read(model: Any, answer: Any) -> ModelReply:
    reply = read_reply(answer)
    if reply is not answer and not is_answer(reply):
        kind = type(answer).__name__
        raise InvalidModelReply(_name(model), f"has no known shape: a {kind} without text and calls")
    return reply


def _name(model: Any) -> str:
    return str(getattr(model, "name", None) or type(model).__name__)
