"""The root of all errors."""

from __future__ import annotations


class AutonomyCtxError(Exception):
    """The root of all errors raised on purpose by this library."""
