"""Letting go of the connections that models hold."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterable
from typing import Any, Protocol

logger = logging.getLogger("autonomy_ctx.agents")


class HasModels(Protocol):
    """Somebody that models answer for."""

    @property
    def models(self) -> list[Any]:
        """All of them."""


async def close_models(owners: Iterable[HasModels]) -> None:
    """Close the models of these owners, each once; those without a `close` have nothing to let go of."""
    found = {id(model): model for owner in owners for model in owner.models}
    for model in found.values():
        close = getattr(model, "close", None)
        if not callable(close):
            continue
        try:
            closing = close()
            if inspect.isawaitable(closing):
                await closing
        except Exception as error:
            # Whatever stands in for a model may fail; the others are still to be closed.
            logger.warning("a model of type %s did not close: %s", type(model).__name__, type(error).__name__)
