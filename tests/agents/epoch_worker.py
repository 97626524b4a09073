"""A process whose agent takes turns until it is killed; each request is a line of JSON on stdout.

Run as `python epoch_worker.py URL PROCESS`. The clock in its context is another one in each turn.
"""

from __future__ import annotations

import json
import os
import sys
from itertools import count
from typing import Any

import anyio
from agents.epoch_talk import TextSection, look_up
from agents.kit import call, calls

from autonomy_ctx import Agent, ContextTemplate, ConversationHistorySection, Memory
from autonomy_ctx.testing import ScriptedModel

WHERE: Any = {"scope": "ana", "conversation": "trip"}


async def main(url: str, process: str) -> None:
    numbers = count()

    def answer(asked: Any) -> Any:
        reply = f"Reply {next(numbers)} of process {process}."
        # One system call, so that a kill leaves a whole line or none.
        os.write(1, json.dumps({"request": asked.messages, "reply": reply}).encode() + b"\n")
        wants_tool = asked.messages[-1]["role"] != "tool" and len(asked.messages) % 3 == 0
        return calls(call("look_up", order="7"), text=reply) if wants_tool else reply

    clock = TextSection("clock")
    template = ContextTemplate(
        [TextSection("rule", "stable", "Be brief."), ConversationHistorySection(), clock]
    )
    async with (
        Memory(url) as memory,
        Agent(
            "shop", model=ScriptedModel([answer]), tools=[look_up], context_template=template, memory=memory
        ) as agent,
    ):
        for number in count():
            clock.text = f"It is {number} past {process}."
            await agent.send(f"turn {number}", **WHERE)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
