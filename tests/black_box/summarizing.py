"""A process that keeps conversations summarized as it is told; see `worker.py` for the protocol.

Run as `python summarizing.py '{"url": "...", "calls": "...", "answers": true, "lease": 30}'`. Every
call of its model is a line in the file `calls`, written before the model answers; one that does not
answer waits for ever. A job `work` runs a `Worker`, which says when it waits and what it has committed. With
`ahead`, the clock of the process is so many seconds ahead.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from datetime import timedelta
from typing import Any

import anyio
import anyio.to_thread

from autonomy_ctx import ContextTemplate, Memory, SummarizedHistorySection, Worker, hook
from autonomy_ctx.compaction.summarizer import SummaryEvent, SummaryHook
from autonomy_ctx.messages import Summary
from autonomy_ctx.messages.message import now


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


def say(job: dict[str, Any], **answer: Any) -> None:
    print(json.dumps({"job": job["job"], **answer}), flush=True)


async def run_worker(memory: Memory, model: NotingModel, lease: float, job: dict[str, Any]) -> None:
    """Look for work once an hour: whoever finds it sooner was told of it."""
    store: Any = memory.store
    wait_for_work = store.wait_for_work

    async def wait(**options: Any) -> None:
        say(job, waits=True)
        await wait_for_work(**options)

    store.wait_for_work = wait

    @hook(SummaryHook.AFTER_SUMMARY)
    async def tell(event: SummaryEvent) -> None:
        say(job, committed=event.conversation)

    config = {"floor": 3, "ceiling": 6, "lease": lease}
    async with Worker(memory, model, config=config, poll_seconds=3600, hooks=[tell]) as worker:
        await worker.run()


async def main(url: str, calls: str, answers: bool, lease: float, ahead: float = 0.0) -> None:
    if ahead:
        right_time = time.time
        time.time = lambda: right_time() + ahead
    model = NotingModel(calls, answers)
    async with (
        Memory(url, clock=lambda: now() + timedelta(seconds=ahead)) as memory,
        SummarizedHistorySection(model, floor=3, ceiling=6, lease=lease) as section,
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
                if job["do"] == "work":
                    await run_worker(memory, model, lease, job)
                else:
                    say(job, **await work(job))
                say(job, done=True)

            while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
                group.start_soon(answer, json.loads(line))


if __name__ == "__main__":
    anyio.run(lambda: main(**json.loads(sys.argv[1])))
