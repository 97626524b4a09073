"""Two answers from one point: a fork shares what was said before, and what follows is apart."""

import tempfile
from pathlib import Path

import anyio

from autonomy_ctx import Agent, Memory
from autonomy_ctx.testing import ScriptedModel


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Memory(f"sqlite:///{Path(folder) / 'memory.db'}") as memory:
            replies = ["Porto. River or hills?", "Stay in Ribeira.", "Stay in Vila Nova."]
            agent = Agent("guide", model=ScriptedModel(replies), memory=memory)

            await agent.send("Where should I spend two days?", scope="ana", conversation="trip")
            fork = await agent.fork(scope="ana", conversation="trip", name="trip, hills")
            await agent.send("The river.", scope="ana", conversation="trip")
            await agent.send("The hills.", scope="ana", conversation=fork)

            for name in ("trip", fork):
                print(name)
                for entry in (await agent.read(scope="ana", conversation=name)).entries:
                    print(f"  {entry.position}  {entry.message.role:10}{entry.message.text}")

            # One message, two conversations: deleted through one, it is gone from both.
            [first] = (await agent.read(scope="ana", conversation="trip", before=2)).entries
            await agent.delete_message(first.message.id, scope="ana", conversation=fork)
            for info in await agent.conversations(scope="ana"):
                print(f"{info.conversation}: {info.messages} messages")


if __name__ == "__main__":
    anyio.run(main)
