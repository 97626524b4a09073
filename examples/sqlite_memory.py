"""Messages on disk: they outlive the process, and several handles see the same conversation."""

import tempfile
from pathlib import Path

import anyio

from autonomy_ctx import Memory, Message


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'memory.db'}"

        async with Memory(url) as memory:
            [position] = await memory.append("ana", "trip", Message("user", "Two nights in Porto.", id="q-1"))
            print(f"kept at position {position}: from here on not even a power cut loses it")

        # A new handle, as after a restart.
        async with Memory(url) as memory, Memory(url) as worker:
            # Not sure whether it arrived? The same id with the same content is kept once.
            [again] = await memory.append("ana", "trip", Message("user", "Two nights in Porto.", id="q-1"))
            print(f"sent again, still position {again}")

            # Two handles on one file, as in two processes: one order, and each sees the other at once.
            await worker.append("ana", "trip", Message("assistant", "Ribeira or Cedofeita?"))
            await memory.append("ana", "trip", Message("user", "Cedofeita."))
            for entry in (await worker.read("ana", "trip")).entries:
                print(f"{entry.position}  {entry.message.role:10}{entry.message.text}")


if __name__ == "__main__":
    anyio.run(main)
