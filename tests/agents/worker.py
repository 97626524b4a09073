"""A process with an agent, driven by a JSON job per line of stdin; it says what happens in lines of JSON.

Run as `python worker.py '{"path": "...", "loop": "asyncio"}'`. A job `send` takes a turn with a scripted
model; a tool that is called `hang` says so and never ends.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx import ContextItem, Memory, tool
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.testing import ScriptedModel


def say(**answer: Any) -> None:
    # One system call, so that a kill leaves a whole line or none.
    os.write(1, json.dumps(answer).encode() + b"\n")


@tool
async def hang() -> None:
    """Never end."""
    say(hangs=True)
    await anyio.sleep_forever()


@tool
def find() -> list[Any]:
    """Find something."""
    return [ContextItem("a remark"), ContextItem("a long report", "a report", "report")]


async def main(options: dict[str, Any]) -> None:
    memory = Memory(f"sqlite:///{options['path']}")
    while line := await anyio.to_thread.run_sync(sys.stdin.readline):
        job = json.loads(line)
        model = ScriptedModel(job["script"])
        agent = Agent(
            "helper", "Helps.", [hang, find], model=model, memory=memory, enable_ask_for_user_input=True
        )
        reply = await agent.send(job["text"], message_id=job.get("id"), scope="ana", conversation="trip")
        shown = [list(call.messages) for call in model.calls]
        say(text=reply.text, stop=reply.stop, question=reply.question, turn=reply.turn, shown=shown)
        await agent.close()
    await memory.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    anyio.run(main, given, backend=given["loop"])
