"""What stands in for a summary that is late: a digest, made at once, from the messages themselves.

The same function makes it for a context that is composed now and for the row that is stored in the
background, so the text does not change when the one takes over from the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from autonomy_ctx.items.digest import digest
from autonomy_ctx.items.tokens import TokenCounter
from autonomy_ctx.memory.store import Entry, StoredSegment

# Characters read for a digest that a turn is waiting for: a few milliseconds.
MOST = 12_000


def stand_in(entries: Sequence[Entry], first: int, size: int, counter: TokenCounter) -> StoredSegment:
    """A provisional segment from position `first` to the last of the entries."""
    messages = [entry.message for entry in entries]
    tokens = max(size // 4, 32)
    text = digest(messages, tokens=tokens, counter=counter, most=MOST)
    return StoredSegment(
        first=first,
        last=entries[-1].position,
        text=text,
        tokens=counter.count_text(text),
        provisional=True,
        model="digest",
        created=messages[-1].created_at.timestamp(),
    )
