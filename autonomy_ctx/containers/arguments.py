"""What the arguments of containers may be."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Inherit(Enum):
    """Says that an argument was left out, where None means something else."""

    INHERIT = "inherit"


INHERIT = Inherit.INHERIT


def parse_limit(limit: Any) -> int:
    """How many items a container may hold."""
    return parse_count(limit, "limit", at_least=1)


def parse_count(value: Any, name: str, *, at_least: int) -> int:
    """A whole number that is not too small."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if value < at_least:
        raise ValueError(f"{name} must be >= {at_least}, not {value}")
    return int(value)
