"""Chapter 6 of the tutorial: many customers at once, on PostgreSQL, with the inspector.

DATABASE_URL=postgresql://... python examples/tutorial/many_users.py
"""

import os
import sys
from typing import Literal

import anyio

from autonomy_ctx import Agent, Model, Node, tool
from autonomy_ctx.server import http

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


CUSTOMERS = {
    "ana": ("I stay at the Casa do Largo.", "Where do I stay?"),
    "ben": ("My invoices go to Rua das Flores 12.", "Where do my invoices go?"),
    "eva": ("I am afraid of hills.", "Where do I stay?"),
}


async def talk(desk: Agent, customer: str) -> None:
    """One customer asks one question after the other."""
    for number, question in enumerate(CUSTOMERS[customer]):
        await desk.send(question, scope=customer, message_id=f"question-{number}")


def serve(database: str, port: int) -> None:
    serving = http(port=port, inspector="read")

    async def main(node: Node) -> None:
        desk = await Agent.start(
            node=node,
            name="desk",
            instructions=INSTRUCTIONS,
            tools=[count_free_bikes, book_bikes],
            model=Model("offline"),  # or Model("gpt-5"), with OPENAI_API_KEY set
            context_summary=True,
            limits={"context_tokens": 4000},
        )
        async with anyio.create_task_group() as group:
            for customer in CUSTOMERS:
                group.start_soon(talk, desk, customer)
        for customer, (_, question) in CUSTOMERS.items():
            answer = (await desk.history(scope=customer))[-1]["content"]
            print(f"{customer}: {question}\n{answer}\n")
        print(f"API:       {serving.url}")
        print(f"inspector: {serving.inspector_page}", flush=True)

    Node.start(main, memory=database, serve=serving)


if __name__ == "__main__":
    url = os.environ.get("DATABASE_URL")
    if url:
        serve(url, int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
    else:
        print("Set DATABASE_URL, such as postgresql://postgres@localhost/postgres")
