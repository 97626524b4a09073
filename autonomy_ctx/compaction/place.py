"""Which conversation of which store: what everything that is kept in this process is kept by."""

from __future__ import annotations

from itertools import count
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from autonomy_ctx.memory.memory import Memory
from autonomy_ctx.memory.store import Key

Place: TypeAlias = tuple[int, Key]

# Not by `id`: that of a store that is gone may come to mean another one.
_numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
_next = count(1)


def place_of(memory: Memory, key: Key) -> Place:
    """A conversation's place; two memories on one store have the same."""
    number = _numbers.get(memory.store)
    if number is None:
        number = _numbers.setdefault(memory.store, next(_next))
    return number, key
