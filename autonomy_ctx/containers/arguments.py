"""What the arguments of bounded containers may be."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Inherit(Enum):
    """Says that an argument was left out, where None means something else."""

    INHERIT = "inherit"


INHERIT = Inherit.INHERIT


def parse_limit(limit: Any) -> int:
    """How many items a container may hold."""
    if isinstance(limit, bool) or not isinstance(limit, int):
        raise TypeError(f"limit must be a whole number, not {type(limit).__name__}")
    if limit < 1:
        raise ValueError(f"limit must be >= 1, not {limit}")
    return int(limit)
