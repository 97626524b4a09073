"""One call of anything that can stand in for a model: plain or async, and never holding the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from autonomy_ctx.callables import result_of


async def complete(model: Any, messages: Sequence[Mapping[str, Any]], max_tokens: int, **more: Any) -> Any:
    """What `complete_chat` gives for these messages, in whatever shape; `more` is passed on as it is."""
    sent = [dict(message) for message in messages]
    options = {"messages": sent, "stream": False, "max_tokens": max_tokens, **more}
    return await result_of(partial(model.complete_chat, **options))
