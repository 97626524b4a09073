"""Long lists a piece at a time, so that other tasks get their turn in between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import anyio.lowlevel

T = TypeVar("T")
STRIDE = 500


async def strides(items: Sequence[T], size: int = STRIDE) -> AsyncIterator[Sequence[T]]:
    """The list in pieces; a short one in one piece, without a pause."""
    for start in range(0, len(items), size):
        if start:
            await anyio.lowlevel.checkpoint()
        yield items[start : start + size]
