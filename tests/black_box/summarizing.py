"""A process that keeps conversations summarized as it is told; see `worker.py` for the protocol.

Run as `python summarizing.py '{"path": "...", "calls": "...", "answers": true, "lease": 30}'`. Every
call of its model is a line in the file `calls`, written before the model answers; one that does not
answer waits for ever.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection
from autonomy_ctx.items import Summary


class NotingModel:
    """Writes down what it was asked for, by whom."""

    def __init__(self, calls: str, answers: bool) -> None:
        self._calls, self._answers = calls, answers

    async def complete_chat(self, messages: list[dict[str, str]], **options: Any) -> str:
        # Merges ask in blocks of another name, and the background stands before this one.
        block = messages[-1]["content"].partition("<conversation ")[2]
        names = re.findall(r"msg-([\w.]+)", block)
        line = json.dumps({"process": os.getpid(), "messages": names}) + "\n"
        file = os.open(self._calls, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, line.encode())
        os.close(file)
        if not self._answers:
            await anyio.sleep_forever()
        return "The user sent " + ", ".join(f"msg-{name}" for name in names)


async def main(path: str, calls: str, answers: bool, lease: float) -> None:
    async with (
        Memory(f"sqlite:///{path}") as memory,
        SummarizedHistorySection(NotingModel(calls, answers), floor=3, ceiling=6, lease=lease) as section,
    ):
        template = ContextTemplate([section])

        async def work(job: dict[str, Any]) -> dict[str, Any]:
            for number in range(job.get("append", 0)):
                message = {"role": "user", "content": f"msg-{job['conversation']}.{job['name']}.{number}"}
                await memory.append("ana", job["conversation"], message)
                await template.compose(memory, "ana", job["conversation"])
            if job["do"] == "finish":
                # Other processes may hold the lease: ask until everything is within the ceiling.
                while await owed(job["conversation"]):
                    await template.compose(memory, "ana", job["conversation"])
                    await section.settled()
                    await section.catch_up(memory)
                    section.clear_cache()
            composed = await template.compose(memory, "ana", job["conversation"])
            summary = next((one for one in composed.messages if isinstance(one, Summary)), None)
            return {
                "window": [origin.position for origin in composed.origins() if origin.position],
                "segments": [] if summary is None else [[part.first, part.last] for part in summary.segments],
                "text": "" if summary is None else summary.text,
            }

        async def owed(conversation: str) -> bool:
            state = await memory.summary("ana", conversation)
            return state.head.position - state.written > 6

        async with anyio.create_task_group() as group:

            async def answer(job: dict[str, Any]) -> None:
                found = await work(job)
                print(json.dumps({"job": job["job"], **found}), flush=True)
                print(json.dumps({"job": job["job"], "done": True}), flush=True)

            while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                group.start_soon(answer, json.loads(line))


if __name__ == "__main__":
    anyio.run(lambda: main(**json.loads(sys.argv[1])))
