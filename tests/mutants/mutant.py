"""One promise, broken on purpose: what every list of broken builds is made of."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """What is broken, where, how, and who should notice."""

    promise: str
    file: str
    old: str
    new: str
    tests: str
