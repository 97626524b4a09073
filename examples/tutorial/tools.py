"""Chapter 2 of the tutorial: the assistant looks up free bikes and books them."""

from typing import Literal

import anyio

from autonomy_ctx import Agent, tool
from autonomy_ctx.testing import ScriptedModel

INSTRUCTIONS = """\
You answer customers of Pedal, a bike rental in Porto.
The shop opens at 9:00 and closes at 19:00.
A city bike costs 15 EUR a day.
An e-bike costs 32 EUR a day.
A child seat costs 4 EUR a day.
The deposit is 50 EUR for each bike.
A helmet and a lock are included.
Guided tours start at the Ribeira at 10:00.
A flat tyre is repaired on the road by our mechanic.
Bookings are cancelled free of charge until 18:00 the day before.
We take cards and cash.
Bikes are delivered to hotels for 10 EUR."""

Kind = Literal["city bike", "e-bike"]
FREE: dict[Kind, int] = {"city bike": 6, "e-bike": 3}


@tool
async def count_free_bikes(kind: Kind) -> int:
    """How many bikes of a kind are free on Saturday."""
    return FREE[kind]


@tool
async def book_bikes(kind: Kind, count: int, scope: str) -> str:
    """Book bikes for Saturday.

    Args:
        kind: The kind of bike.
        count: How many.
    """
    if count > FREE[kind]:
        raise ValueError(f"only {FREE[kind]} of this kind are free")
    FREE[kind] -= count
    return f"booked for {scope}: {count} x {kind}"


def call(name: str, **arguments: object) -> dict[str, object]:
    """A reply of a model that calls a tool."""
    return {"tool_calls": [{"id": name, "name": name, "arguments": arguments}]}


# What a model would reply.
SCRIPT = (
    call("count_free_bikes", kind="e-bike"),
    "Three e-bikes are free on Saturday.",
    call("book_bikes", kind="e-bike", count=4),
    "I am sorry, only three e-bikes are free. Shall I book these?",
    call("book_bikes", kind="e-bike", count=3),
    "Done. Three e-bikes on Saturday, 96 EUR. The deposit is 150 EUR.",
)


async def main() -> None:
    desk = Agent(
        "desk",
        instructions=INSTRUCTIONS,
        tools=[count_free_bikes, book_bikes],
        model=ScriptedModel(SCRIPT),  # or Model("gpt-5"), with OPENAI_API_KEY set
        memory="sqlite:///pedal.db",
    )
    async with desk:
        for question in ("Are e-bikes free on Saturday?", "Four, please.", "Yes, three."):
            reply = await desk.send(question, scope="ana", conversation="may")
            print(f"Ana:  {question}")
            for message in reply.messages:
                for made in message.tool_calls or ():
                    print(f"      calls {made.name}({made.arguments})")
                if message.role == "tool":
                    print(f"      {message.text}")
            print(f"Desk: {reply}\n")


if __name__ == "__main__":
    anyio.run(main)
