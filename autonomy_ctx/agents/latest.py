"""The latest context of each conversation, to say how much of the next one begins the same."""

from __future__ import annotations

from cachetools import LRUCache

from autonomy_ctx.memory.store import Key
from autonomy_ctx.template.composed import ComposedContext

# How many tokens of them are held, and what even a short one counts for.
HELD_TOKENS = 2_000_000
LEAST_TOKENS = 1_000


def latest_contexts() -> LRUCache[Key, ComposedContext]:
    """Room for contexts; those not used for longest go first."""
    return LRUCache(HELD_TOKENS, getsizeof=_tokens)


def _tokens(composed: ComposedContext) -> int:
    # Never more than fits: the newest one is always held.
    return min(max(composed.tokens, LEAST_TOKENS), HELD_TOKENS)
