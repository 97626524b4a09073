"""An agent with a tool, a summary in the background and a memory on disk; it runs without a network."""

import tempfile
from pathlib import Path

import anyio

from autonomy_ctx import Agent, Memory, Model, tool

STOPS = ("Porto", "Aveiro", "Coimbra", "Tomar", "Lisbon", "Sintra", "Évora", "Faro")


@tool
async def price(city: str) -> str:
    """The price of a room in a city.

    Args:
        city: Where the room is.
    """
    return f"{60 + len(city)} EUR in {city}"


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(f"sqlite:///{Path(folder) / 'trips.db'}")
        # Model("claude-sonnet-4-5") and a key in the environment ask a real one.
        model = Model("offline")
        async with memory:
            guide = Agent(
                "guide",
                instructions="You plan short trips.",
                tools=[price],
                model=model,
                memory=memory,
                context_summary={"floor": 4, "ceiling": 8},
            )
            async with guide:
                await guide.send("My booking code is PT-4711.", scope="ana", conversation="trip")
                for night, city in enumerate(STOPS, start=1):
                    await guide.send(f"Night {night} is in {city}.", scope="ana", conversation="trip")
                reply = await guide.send("What is my booking code?", scope="ana", conversation="trip")
                context = await guide.explain(reply.turn, scope="ana", conversation="trip")

    print(reply)
    print()
    for section in context.sections:
        print(f"{section.name:24} {section.messages:3} messages {section.tokens:5} tokens")
    verbatim = sum(message.role in ("user", "assistant") for message in context.messages)
    print(f"{verbatim} messages are verbatim, the older ones are in the summary")


anyio.run(main)
