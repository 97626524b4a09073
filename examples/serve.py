"""An assistant behind HTTP that remembers: `python examples/serve.py agents.db`, and Ctrl-C to stop it."""

import sys

from autonomy_ctx import Model
from autonomy_ctx.agents.agent import Agent
from autonomy_ctx.agents.node import Node
from autonomy_ctx.server import http

USAGE = """\
python examples/serve.py agents.db        # 8000 is the port; another can follow, 0 for any free one
curl http://127.0.0.1:8000/agents/assistant --json '{"message": "The ferry leaves at 9:40.", "scope": "ana"}'
curl http://127.0.0.1:8000/agents/assistant --json '{"message": "When is the ferry?", "scope": "ana"}'
curl "http://127.0.0.1:8000/agents/assistant/history?scope=ana\""""


def serve(path: str, port: int) -> None:
    serving = http(port=port)

    async def main(node: Node) -> None:
        await Agent.start(
            node=node,
            name="assistant",
            instructions="You remember what you are told.",
            description="Answers from what it was told before.",
            model=Model("offline"),
            context_summary=True,
        )
        print(f"serving at {serving.url}", flush=True)

    Node.start(main, memory=f"sqlite:///{path}", serve=serving)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print(USAGE)
    else:
        serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 8000)
