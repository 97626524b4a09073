"""The base class of adapters."""

from __future__ import annotations

from typing import Self

from autonomy_ctx.background import AsyncResource
from autonomy_ctx.engine.engine import ContextEngine
from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.template.composed import ComposedContext


class ContextAdapter(AsyncResource):
    """The common part of all adapters. Use an adapter in a `with` or an `async with`, or close it."""

    engine: ContextEngine

    @property
    def memory(self) -> Memory:
        """The memory with all conversations, with search, facts, pins and summaries."""
        return self.engine.memory

    async def explain(
        self,
        conversation: str,
        turn: str | None = None,
        *,
        step: int | None = None,
        scope: str | None = None,
    ) -> ComposedContext:
        """The context of a past model call, byte for byte; by default of the newest call."""
        return await self.engine.run(self.engine.explain, conversation, turn, step=step, scope=scope)

    async def settled(self) -> None:
        """Wait until no summary is being written. For tests and shutdowns; a turn never waits."""
        await self.engine.run(self.engine.background.idle)

    async def close(self) -> None:
        """End the background work, and close what the adapter has opened."""
        await self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.engine.close_sync()


def missing_framework(error: ImportError, extra: str) -> ImportError:
    """The error of an adapter whose framework is not installed."""
    return ImportError(
        f"this adapter needs {error.name}: pip install 'autonomy-ctx[{extra}]'", name=error.name
    )
