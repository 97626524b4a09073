"""Counts what a turn walks through: files, functions and calls of the package, in every thread.

It is a program, so that nothing that ran before changes the counts: `python tests/walk.py plain` and
`python tests/walk.py summary` print them as JSON. The model is a server on loopback.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import autonomy_ctx
from autonomy_ctx import Agent, ContextSummaryConfig, Memory, Model, tool

PACKAGE = str(Path(autonomy_ctx.__file__).parent)
ANSWER = "The user asked about the orders of batch 12; it has 12 orders, which were sent on 3 May."


@tool
def find_order(batch: int) -> str:
    """Find the orders of a batch."""
    return f"Batch {batch} has 12 orders, which were sent on 3 May."


async def read_head(reader: asyncio.StreamReader) -> bytes:
    """The lines before a body; empty when the client has closed the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Call the tool if the user asks for orders; answer everything else with a text."""
    while head := await read_head(reader):
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        asked = json.loads(await reader.readexactly(length))
        last = asked["messages"][-1]
        message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
        if asked.get("tools") and last["role"] == "user" and "orders" in last["content"]:
            function = {"name": find_order.name, "arguments": '{"batch": 12}'}
            calls = [{"id": "call_1", "type": "function", "function": function}]
            message = {"role": "assistant", "content": None, "tool_calls": calls}
        reason = "tool_calls" if "tool_calls" in message else "stop"
        choices = [{"index": 0, "message": message, "finish_reason": reason}]
        usage = {"prompt_tokens": length // 4, "completion_tokens": 20, "total_tokens": length // 4 + 20}
        body = json.dumps({"id": "1", "model": "shop", "choices": choices, "usage": usage}).encode()
        kind = b"content-type: application/json\r\n"
        writer.write(b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n%s" % (kind, len(body), body))


@contextmanager
def counting(found: Counter[CodeType]) -> Iterator[None]:
    """Count the calls of the package's functions within the block."""

    def note(frame: Any, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            found[frame.f_code] += 1

    # For threads that begin within the block, as those of the store do.
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)


async def walk(kind: str, folder: Path) -> Counter[CodeType]:
    """The calls of one turn after others; with `summary`, of one with a tool call and the first summary."""
    found: Counter[CodeType] = Counter()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    model = Model("shop", base_url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    config = ContextSummaryConfig(floor=4, ceiling=8) if kind == "summary" else False
    with counting(found):
        async with (
            Memory(f"sqlite:///{folder / 'walk.db'}") as memory,
            Agent(
                "shop",
                "You look after a shop.",
                model=model,
                memory=memory,
                tools=[find_order],
                context_summary=config,
            ) as agent,
        ):
            for number in range(3):
                await agent.send(f"Hello, this is day {number}.", scope="ana", conversation="shop")
            found.clear()
            question = "Which orders has batch 12?" if kind == "summary" else "And what is new?"
            await agent.send(question, scope="ana", conversation="shop")
            await agent.settled()
            seen = found.copy()
    server.close()
    return seen


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(walk(sys.argv[1], Path(folder)))
    files = {code.co_filename for code in found}
    if "--files" in sys.argv:
        print(*sorted(file.removeprefix(PACKAGE) for file in files), sep="\n")
    print(json.dumps({"files": len(files), "functions": len(found), "calls": found.total()}))


if __name__ == "__main__":
    main()
