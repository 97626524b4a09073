"""The tables and patterns that texts are read with: made once in a process, outside the event loop.

Each is made when it is first needed; together they take 100 ms, too long for an event loop. So whoever reads
texts on one, for a digest or for facts, awaits `prepare_tables` before.
"""

from __future__ import annotations

import threading

from autonomy_ctx.background import run_in_thread
from autonomy_ctx.language.digest import digest
from autonomy_ctx.language.facts import find_facts
from autonomy_ctx.messages.message import Message
from autonomy_ctx.messages.tokens import TokenCounter

_lock, _are_loaded = threading.Lock(), threading.Event()
_SENTENCES = (
    (
        "user",
        "Yes, never book flights: my budget is 400 EUR. Which file? Größer, 予算は四百ユーロ。",
    ),
    ("assistant", "I changed `src/app.py` and booked AB-1149 at https://example.com, but 3 tests failed."),
)


async def prepare_tables() -> None:
    """Load them in a thread, if nobody has; whoever comes meanwhile waits for the same."""
    if not _are_loaded.is_set():
        # Whoever stops waiting leaves it to end by itself.
        await run_in_thread(load_lazy_parts, abandon_on_cancel=True)


def load_lazy_parts() -> None:
    """Import and compile what the first summary of a process needs, once: 100 ms of CPU."""
    with _lock:
        if _are_loaded.is_set():
            return
        messages = [Message(role, text) for role, text in _SENTENCES]
        find_facts(list(enumerate(messages, 1)), [])
        digest(messages, tokens=100, counter=TokenCounter())
        _are_loaded.set()
