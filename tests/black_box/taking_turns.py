"""A process with an agent that takes turns as it is told; see `worker.py` for the protocol.

Run as `python taking_turns.py '{"url": "...", "lease": 10, "loop": "asyncio"}'`. A turn calls a tool and
then answers. One that is to be held says that its model was asked, and waits for a job `answer`. One that
has to wait for its turn says so once. With `ahead`, the clock of the process is so many seconds ahead.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx import Memory, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.memory.store import Key

_job: ContextVar[dict[str, Any]] = ContextVar("job")


def say(job: dict[str, Any], **answer: Any) -> None:
    # One system call, so that a kill leaves a whole line or none.
    os.write(1, json.dumps({"job": job["job"], **answer}).encode() + b"\n")


def tell_waiting(memory: Memory) -> None:
    """Let a store say when a turn has a place in the line."""
    store: Any = memory.store
    wait_for_turn = store.wait_for_turn

    async def wait(key: Key, ticket: int, *, seconds: float) -> None:
        job = _job.get()
        if not job.get("waits"):
            job["waits"] = True
            say(job, waits=ticket)
        await wait_for_turn(key, ticket, seconds=seconds)

    store.wait_for_turn = wait


class TurnModel:
    """Calls a tool, then answers; a turn that is to be held waits for that before."""

    def __init__(self) -> None:
        self.answers: dict[str, anyio.Event] = {}

    async def complete_chat(self, messages: list[dict[str, Any]], **options: Any) -> Any:
        job = _job.get()
        if messages[-1]["role"] != "tool":
            function = {"name": "look", "arguments": "{}"}
            made = {"id": f"call-{job['text']}", "type": "function", "function": function}
            return {"role": "assistant", "content": None, "tool_calls": [made]}
        if job.get("hold"):
            self.answers[job["text"]] = anyio.Event()
            say(job, asked=True)
            await self.answers[job["text"]].wait()
        return f"answer to {job['text']}"


@tool
async def look() -> str:
    """Look."""
    return f"seen for {_job.get()['text']}"


async def main(url: str, lease: float, loop: str, ahead: float = 0.0) -> None:
    if ahead:
        right_time = time.time
        time.time = lambda: right_time() + ahead
    model = TurnModel()
    async with Memory(url) as memory:
        tell_waiting(memory)
        agent = Agent("helper", "Helps.", [look], model=model, memory=memory, turn_lease_seconds=lease)

        async def work(job: dict[str, Any]) -> None:
            _job.set(job)
            try:
                match job["do"]:
                    case "send":
                        say(job, text=(await agent.send(job["text"], scope="ana", conversation="trip")).text)
                    case "answer":
                        model.answers[job["text"]].set()
                    case "metrics":
                        say(job, metrics=agent.get_metrics())
                    case "read":
                        history = await agent.history(scope="ana", conversation="trip")
                        say(job, log=[[one["role"], one["content"]] for one in history])
            except Exception as error:
                say(job, error=type(error).__name__)
            say(job, done=True)

        async with anyio.create_task_group() as group:
            while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                group.start_soon(work, json.loads(line))


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    anyio.run(lambda: main(**given), backend=given["loop"])
