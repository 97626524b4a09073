"""A program for a test: a node behind HTTP whose model never answers, here and in summaries."""

from __future__ import annotations

import sys
from typing import Any

import anyio

from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.server import http


class Silent:
    """Never answers; says when it is asked for the stream of a turn."""

    async def complete_chat(self, messages: Any, **options: Any) -> Any:
        if options.get("stream"):
            print("asked", flush=True)
        await anyio.sleep_forever()


def serve(path: str) -> None:
    serving = http(port=0)

    async def main(node: Node) -> None:
        await Agent.start(
            node=node,
            name="assistant",
            instructions="Be brief.",
            model=Silent(),
            context_summary={"floor": 1, "ceiling": 2},
        )
        print(f"serving at {serving.url}", flush=True)

    Node.start(main, memory=f"sqlite:///{path}", serve=serving)


if __name__ == "__main__":
    serve(sys.argv[1])
