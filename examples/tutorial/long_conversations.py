"""Chapter 3 of the tutorial: a conversation of any length, in a context that stays small."""

from typing import Literal

import anyio

from autonomy_ctx import Agent, Model, tool

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


QUESTIONS = (
    "I am Ben. My invoices go to Rua das Flores 12. How much is an e-bike?",
    "When does the shop open?",
    "Is a lock included?",
    "How much is the deposit?",
    "And a child seat?",
    "Where do guided tours start?",
    "Who repairs a flat tyre?",
    "Until when are bookings cancelled free of charge?",
    "Do you take cards?",
    "Are bikes delivered to hotels?",
    "How much is a city bike?",
    "Where do my invoices go?",
)


async def main() -> None:
    desk = Agent(
        "desk",
        instructions=INSTRUCTIONS,
        tools=[count_free_bikes, book_bikes],
        model=Model("offline"),  # or Model("gpt-5"), with OPENAI_API_KEY set
        memory="sqlite:///pedal.db",
        context_summary={"floor": 4, "ceiling": 8},
    )
    async with desk:
        for turn, question in enumerate(QUESTIONS, start=1):
            reply = await desk.send(question, scope="ben", conversation="june")
            stored = await desk.get_message_count(scope="ben", conversation="june")
            context = await desk.explain(scope="ben", conversation="june")
            print(f"turn {turn:2}: {stored:2} stored, {len(context):2} sent")
            await desk.settled()  # only so that this prints the same every time
        print(f"\nBen:  {question}\nDesk: {reply}")

        first, *others = (await desk.summary(scope="ben", conversation="june")).segments
        print(f"\nThe summary of messages {first.first} to {first.last}:\n{first.text}")
        print(f"{len(others)} segments follow.")


if __name__ == "__main__":
    anyio.run(main)
