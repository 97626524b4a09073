"""One call of the model that writes summaries, and what its failure means."""

from __future__ import annotations

import inspect
import re
from typing import Any

import anyio

from autonomy_ctx.background import Strides
from autonomy_ctx.completion.prompt import Context, Prompt
from autonomy_ctx.containers.model_call import complete
from autonomy_ctx.items import wire
from autonomy_ctx.items.formats.any_reply import read_reply
from autonomy_ctx.items.formats.base import ModelReply
from autonomy_ctx.models.model import Model


class AskFailed(Exception):
    """The call did not give an answer; `reason` is a word for the metrics."""

    def __init__(self, reason: str, problem: str) -> None:
        super().__init__(problem)
        self.reason = reason


class TooMuch(Exception):
    """The prompt did not fit the model's context window; `window` if the error says how large that is."""

    def __init__(self, window: int | None) -> None:
        super().__init__("the prompt did not fit the model's context window")
        self.window = window


async def ask(model: Any, prompt: Prompt, *, max_tokens: int, timeout: float) -> ModelReply:
    """The model's reply; raises `AskFailed` or `TooMuch`, never anything else but a cancellation."""
    try:
        with anyio.fail_after(timeout):
            if prompt.context is not None:
                reply = await _after(prompt.context, model, prompt, max_tokens)
            else:
                reply = await complete(model, prompt.messages, max_tokens)
    except TimeoutError:
        raise AskFailed("timed out", f"gave no answer for {timeout:g} s") from None
    except Exception as error:
        if _is_overflow(error):
            raise TooMuch(_window_of(error)) from error
        reason = "not allowed" if _status(error) in (401, 403) else "failed"
        raise AskFailed(reason, type(error).__name__) from error
    return read_reply(reply)


async def _after(context: Context, model: Any, prompt: Prompt, max_tokens: int) -> Any:
    """What the model answers after a context: asked as an agent asks it, so that the requests begin alike."""
    if isinstance(model, Model):
        return await model.complete_chat(
            [*context.messages, *prompt.messages],
            tools=context.tools,
            max_tokens=max_tokens,
            breakpoints=tuple(context.breakpoints) or None,
        )
    messages = [wire.to_dict(message) async for some in Strides(context.messages) for message in some]
    takes_tools = context.tools and _takes(model.complete_chat, "tools")
    options = {"tools": [dict(tool) for tool in context.tools]} if takes_tools else {}
    return await complete(model, [*messages, *prompt.messages], max_tokens, **options)


def _takes(call: Any, name: str) -> bool:
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(one.kind is one.VAR_KEYWORD or one.name == name for one in parameters)


def _status(error: BaseException) -> int | None:
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status"):
            found = getattr(holder, name, None)
            if isinstance(found, int):
                return found
    return None


_OVERFLOW = re.compile(
    r"context.{0,20}(length|window|size|overflow)|maximum context|too many tokens|prompt is too long"
    r"|exceeds? the (maximum|limit)|input.{0,20}too long",
    re.IGNORECASE,
)


def _is_overflow(error: BaseException) -> bool:
    if "overflow" in type(error).__name__.lower():
        return True
    return _status(error) in (400, 413, None) and bool(_OVERFLOW.search(str(error)[:4000]))


def _window_of(error: BaseException) -> int | None:
    for name in ("window", "limit", "context_window"):
        found = getattr(error, name, None)
        if type(found) is int and found > 0:
            return found
    found_text = re.search(r"(?:maximum|limit|n_ctx)[^0-9]{0,40}([0-9]{3,7})", str(error)[:4000])
    return int(found_text.group(1)) if found_text else None
