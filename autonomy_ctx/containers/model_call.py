"""One call of anything that can stand in for a model: plain or async, and never holding the loop."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import anyio.to_thread


async def complete(model: Any, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> Any:
    """What `complete_chat` gives for these messages, in whatever shape."""
    call = model.complete_chat
    options = {"messages": [dict(message) for message in messages], "stream": False, "max_tokens": max_tokens}
    if inspect.iscoroutinefunction(call):
        return await call(**options)
    # A plain function might block: it must not hold the loop.
    found = await anyio.to_thread.run_sync(lambda: call(**options), abandon_on_cancel=True)
    return await found if inspect.isawaitable(found) else found
