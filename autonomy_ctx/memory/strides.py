"""Long lists a piece at a time, so that other tasks get their turn in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import anyio.lowlevel

T = TypeVar("T")
STRIDE = 500


class Strides(Generic[T]):
    """A list in pieces; a short one in one piece, without a pause.

    Not an async generator: one that is left by an exception would linger until it is collected.
    """

    def __init__(self, items: Sequence[T], size: int = STRIDE) -> None:
        self._items, self._size, self._next = items, size, 0

    def __aiter__(self) -> Strides[T]:
        return self

    async def __anext__(self) -> Sequence[T]:
        start = self._next
        if start >= len(self._items):
            raise StopAsyncIteration
        if start:
            await anyio.lowlevel.checkpoint()
        self._next = start + self._size
        return self._items[start : self._next]
