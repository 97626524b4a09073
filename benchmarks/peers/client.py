"""Holds the conversation with one peer in this process: `python -m benchmarks.peers.client NAME URL FOLDER`.

Between two turns it waits until the peer has nothing left to do: users take longer to read and to write than
a summary takes. What is measured is written to `result.json` in the folder.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

from benchmarks.peers.settings import PEERS
from benchmarks.talk import TURNS, steps


class Conversation(Protocol):
    """A conversation with an agent of one framework."""

    async def ask(self, text: str) -> str: ...

    async def settle(self) -> None:
        """Wait for what goes on in the background."""

    async def stored(self) -> list[str]:
        """The text of each message that its memory still has."""

    async def close(self) -> None: ...


async def talk(name: str, url: str, folder: Path) -> dict[str, Any]:
    peer = next(one for one in PEERS if one.name == name)
    module = importlib.import_module(f"benchmarks.peers.{peer.module}")
    conversation: Conversation = await module.start(f"{url}/{name}/v1", folder, peer.level)
    turns = []
    for number in range(TURNS):
        told = steps(number)
        began, spent = time.monotonic(), time.process_time()
        reply = await conversation.ask(told[0][0]["content"])
        ended = time.monotonic()
        await conversation.settle()
        turns.append({"began": began, "ended": ended, "cpu": time.process_time() - spent})
        if reply != told[-1][0]["content"]:
            raise RuntimeError(f"turn {number} was answered {reply[:80]!r}")
    stored = await conversation.stored()
    await conversation.close()
    return {"version": version(peer.package), "turns": turns, "stored": stored}


if __name__ == "__main__":
    os.environ |= {"OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    result = asyncio.run(talk(sys.argv[1], sys.argv[2], Path(sys.argv[3])))
    Path(sys.argv[3], "result.json").write_text(json.dumps(result))
