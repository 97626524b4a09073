"""One question to a model, or to anything that can stand in for one, streamed or whole.

A stand-in needs only `complete_chat`. It may be plain or async, take fewer arguments, answer in any
usual shape and know nothing of streams: then the whole answer is one piece.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio

from autonomy_ctx.containers.calling import result_of
from autonomy_ctx.errors import InvalidModelReply
from autonomy_ctx.items import wire
from autonomy_ctx.items.formats.foreign import model_reply
from autonomy_ctx.items.formats.reply import (
    CallStarted,
    Finished,
    ModelReply,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
)
from autonomy_ctx.items.message import Message
from autonomy_ctx.items.parts import TextContent
from autonomy_ctx.memory.strides import Strides
from autonomy_ctx.models.model import Model

Heard = Callable[[StreamEvent], None]


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
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return options
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return options
    known = {parameter.name for parameter in parameters}
    return {name: value for name, value in options.items() if name in known}


def _read(model: Any, answer: Any) -> ModelReply:
    try:
        return model_reply(answer)
    except ValueError as error:
        raise InvalidModelReply(_name(model), f"has no known shape: {error}") from None


def _name(model: Any) -> str:
    return str(getattr(model, "name", None) or type(model).__name__)
