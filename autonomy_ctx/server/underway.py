"""The requests that are being answered, so that a close can let them end before it cancels them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio


class Underway:
    """Counts requests in and out; closing takes no more and ends those there are."""

    def __init__(self) -> None:
        self.closing = False
        self._scopes: set[anyio.CancelScope] = set()
        self._empty = anyio.Event()

    def __len__(self) -> int:
        return len(self._scopes)

    @contextmanager
    def request(self) -> Iterator[anyio.CancelScope]:
        """A scope that a close cancels."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                yield scope
            finally:
                self._scopes.discard(scope)
                if not self._scopes:
                    self._empty.set()
                    self._empty = anyio.Event()

    async def close(self, grace_seconds: float) -> None:
        """Give requests so long to end, then cancel them."""
        self.closing = True
        with anyio.move_on_after(grace_seconds):
            while self._scopes:
                await self._empty.wait()
        for scope in self._scopes:
            scope.cancel()
