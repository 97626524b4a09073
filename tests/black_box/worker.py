"""A process that uses memory as it is told: a JSON job per line of stdin, a JSON line per answer.

Run as `python worker.py '{"loop": "asyncio"}'`. Jobs run side by side until stdin ends. What an
answer says was promised by the library: it is printed, and flushed, after the call has returned.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TextIO
from zlib import crc32

import anyio
import anyio.to_thread

from autonomy_ctx import ContextTemplate, ConversationHistorySection, Memory
from autonomy_ctx.messages.message import now

Work = dict[str, Any]
Say = Callable[..., None]


class Memories:
    """One memory per file, opened by the first job that names it."""

    def __init__(self, *, timeout: float = 30.0, ahead: float = 0.0, frozen: bool = False) -> None:
        self._timeout, self._ahead = timeout, timedelta(seconds=ahead)
        self._frozen = now() if frozen else None
        self._open: dict[str, Memory] = {}
        self.child: TextIO | None = None

    def at(self, path: str) -> Memory:
        if path not in self._open:
            self._open[path] = self.another(path)
        return self._open[path]

    def another(self, path: str) -> Memory:
        return Memory(f"sqlite:///{path}", timeout=self._timeout, clock=self._clock)

    async def close(self) -> None:
        for memory in self._open.values():
            await memory.close()

    def _clock(self) -> datetime:
        return (self._frozen or now()) + self._ahead


async def ping(memories: Memories, job: Work, say: Say) -> None:
    """An answer shows that the event loop turns."""


async def append(memories: Memories, job: Work, say: Say) -> None:
    """Tasks that append at once, each call after call; with `die_after`, dies right after that many."""
    memory, acks = memories.at(job["path"]), 0

    async def speak(number: int, conversation: str, calls: list[list[Work]]) -> None:
        nonlocal acks
        for call, messages in enumerate(calls):
            try:
                positions = await memory.append(job["scope"], conversation, *messages)
            except Exception as error:
                say(task=number, call=call, error=type(error).__name__, text=str(error))
                return
            say(task=number, call=call, positions=positions)
            acks += 1
            if acks == job.get("die_after"):
                os.kill(os.getpid(), signal.SIGKILL)

    async with anyio.create_task_group() as group:
        for number, task in enumerate(job["tasks"]):
            group.start_soon(speak, number, task["conversation"], task["calls"])


async def read(memories: Memories, job: Work, say: Say) -> None:
    """The rows of a conversation after a position, and its head."""
    window = await memories.at(job["path"]).read(job["scope"], job["conversation"], after=job["after"])
    rows = [
        [position, message.id, crc32(message.text.encode()), message.created_at.timestamp()]
        for position, message in window.entries
    ]
    head = window.head
    say(rows=rows, head=[head.position, head.count, head.generation, head.last_user])


async def compose(memories: Memories, job: Work, say: Say) -> None:
    """The messages of a context: where they stand in the log and what they call or answer."""
    template = ContextTemplate([ConversationHistorySection(max_messages=job["window"])])
    context = await template.compose(memories.at(job["path"]), job["scope"], job["conversation"])
    shown = [
        {
            "position": origin.position,
            "id": message.id,
            "role": message.role.value,
            "calls": [call.id for call in message.tool_calls],
            "answers": message.tool_call_id,
        }
        for message, origin in zip(context.messages, context.origins(), strict=True)
    ]
    say(shown=shown)


async def delete(memories: Memories, job: Work, say: Say) -> None:
    """A conversation, or all of a scope, deleted."""
    memory, scope, conversation = memories.at(job["path"]), job["scope"], job.get("conversation")
    if conversation is None:
        say(deleted=await memory.delete_scope(scope))
    else:
        say(deleted=await memory.delete_conversation(scope, conversation))


async def open_again(memories: Memories, job: Work, say: Say) -> None:
    """A second memory on a file that this process already has open."""
    memories.another(job["path"])


async def close(memories: Memories, job: Work, say: Say) -> None:
    """All memories closed; the process stays."""
    await memories.close()


async def set_timeout(memories: Memories, job: Work, say: Say) -> None:
    """Another timeout for the calls from now on."""
    import timeouts

    timeouts.set_timeout(memories.at(job["path"]), job["seconds"])


async def fork(memories: Memories, job: Work, say: Say) -> None:
    """A child with the memories it was born with; jobs for the child are passed on to it."""
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.close(theirs)
        memories.child = None
        # The parent's loop came along, standing still; the child runs one of its own.
        life = threading.Thread(target=anyio.run, args=(serve, memories, os.fdopen(ours)))
        life.start()
        life.join()
        os._exit(0)
    os.close(ours)
    memories.child = os.fdopen(theirs, "w", buffering=1)


JOBS = {
    "ping": ping,
    "append": append,
    "read": read,
    "compose": compose,
    "delete": delete,
    "open_again": open_again,
    "close": close,
    "set_timeout": set_timeout,
    "fork": fork,
}


async def run(memories: Memories, job: Work) -> None:
    def say(**answer: Any) -> None:
        # One system call, so that a kill leaves a whole line or none.
        os.write(1, json.dumps({"job": job["job"], **answer}).encode() + b"\n")

    try:
        await JOBS[job["do"]](memories, job, say)
    except Exception as error:
        say(error=type(error).__name__, text=str(error))
    say(done=True)


async def serve(memories: Memories, jobs: TextIO) -> None:
    async with anyio.create_task_group() as group:
        while line := await anyio.to_thread.run_sync(jobs.readline):
            if '"in_child": true' in line and memories.child is not None:
                memories.child.write(line)
            else:
                group.start_soon(run, memories, json.loads(line))
    await memories.close()
    if memories.child is not None:
        memories.child.close()
        await anyio.to_thread.run_sync(os.wait)


async def main(options: Work) -> None:
    await serve(Memories(**options), sys.stdin)


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    anyio.run(main, given, backend=given.pop("loop", "asyncio"))
