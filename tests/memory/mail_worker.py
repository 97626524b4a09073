"""A process of its own that delivers mail: all of it, or until it is killed before one of its steps.

Arguments: the file, and the step before which it dies (0: none). Prints how much it delivered.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import anyio

from autonomy_ctx import Memory
from autonomy_ctx.memory.mailbox import Mailbox
from autonomy_ctx.memory.sqlite.store import SqliteStore


class Dying:
    """A store that kills its process before the n-th write."""

    def __init__(self, store: SqliteStore, at: int) -> None:
        self._store, self._left = store, at

    def __getattr__(self, name: str) -> Any:
        if name in ("append", "put_records", "drop_records"):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return getattr(self._store, name)


async def main(path: str, at: int) -> None:
    store: Any = Dying(SqliteStore(path), at)
    async with Memory(store=store) as memory:
        box = Mailbox(memory)
        waiting = await box.query_by_target("ben", scope="ana", conversation="trip")
        print("ready", flush=True)
        sys.stdin.readline()
        ids = [mail.id for mail in waiting]
        print(await box.deliver("ben", ids, scope="ana", conversation="trip"), flush=True)


anyio.run(main, sys.argv[1], int(sys.argv[2]))
