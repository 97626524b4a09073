"""Changes the timeout of a store that is open, so that a test is impatient only where a call must fail."""

from __future__ import annotations

from autonomy_ctx import Memory
from autonomy_ctx.memory.sqlite.store import SqliteStore
from autonomy_ctx.stores import Store

USUAL = 30.0


def set_timeout(opened: Memory | Store, seconds: float) -> None:
    """Set the timeout of the calls from now on: what must succeed may take long on a busy machine."""
    store = opened.store if isinstance(opened, Memory) else opened
    assert isinstance(store, SqliteStore)
    store.timeout = seconds
    for side in (store._reader, store._writer):
        side.worker.timeout = seconds
